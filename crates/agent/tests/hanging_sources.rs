//! Sources that hang, panic or come back late, with the real thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::collectors::Collector;
use agent::family::{Family, NameSet, NameSets};
use agent::host::Buffer;
use agent::instruments::Instruments;
use agent::moment::{Moment, system_clock};
use agent::page::{Format, Page, Value};
use agent::station::{MAX_THREADS, MAX_WAITING, NoPage, Station};
use agent::trouble::Trouble;

static FINE: Family = Family::gauge(NameSet::Tas, "node_fine", "", "A source that works.");
static ODD: Family = Family::gauge(NameSet::Tas, "node_odd", "", "A source that does not.");

type Read = Box<dyn FnMut() + Send>;

struct Source {
    name: &'static str,
    family: &'static Family,
    read: Read,
}

impl Collector for Source {
    fn source(&self) -> &'static str {
        self.name
    }

    fn families(&self) -> &'static [&'static Family] {
        &[]
    }

    fn read(&mut self, _now: Moment, _buffer: &mut Buffer) -> Result<(), Trouble> {
        (self.read)();
        Ok(())
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        page.family(self.family);
        page.sample(&[], Value::Count(1));
    }

    fn found(&self) -> String {
        String::new()
    }
}

fn station(odd: Read) -> Station {
    let sources: Vec<Box<dyn Collector>> = vec![
        Box::new(Source { name: "odd", family: &ODD, read: odd }),
        Box::new(Source { name: "fine", family: &FINE, read: Box::new(|| {}) }),
    ];
    let instruments = Instruments::new(sources, "n1", system_clock());
    Station::start(instruments, Duration::from_millis(50)).expect("threads can be had")
}

async fn page(station: &Station) -> String {
    let page = tokio::time::timeout(Duration::from_secs(20), station.page(Format::Text, NameSets::ALL));
    String::from_utf8(page.await.expect("in time").expect("a page")).expect("UTF-8")
}

/// Hangs for as long as nothing is sent.
fn hang(until: Receiver<()>) -> Read {
    let until = Arc::new(Mutex::new(until));
    Box::new(move || {
        let _ = until.lock().expect("one reader").recv();
    })
}

#[tokio::test]
async fn a_source_that_hangs_is_left_behind_and_the_others_are_served() {
    let (_never, until): (Sender<()>, _) = channel();
    let station = station(hang(until));
    for _ in 0..3 {
        let text = page(&station).await;
        assert!(text.contains("\nnode_fine 1\n") && !text.contains("node_odd"), "{text}");
        assert!(
            text.contains("node_telemetry_source_down_info{source=\"odd\",reason=\"timeout\"} 1\n"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn a_source_that_comes_back_is_read_again_and_its_late_answer_spoils_nothing() {
    let (wake, until) = channel();
    let station = station(hang(until));
    assert!(page(&station).await.contains("reason=\"timeout\""));
    // The stuck thread finishes its reading and finds that its round is over; later readings find the channel closed.
    wake.send(()).expect("somebody waits");
    drop(wake);
    let back = async {
        loop {
            let text = page(&station).await;
            if text.contains("\nnode_odd 1\n") {
                return text;
            }
        }
    };
    let text = tokio::time::timeout(Duration::from_secs(20), back).await.expect("it comes back");
    assert_eq!(text.matches("\nnode_fine 1\n").count(), 1);
}

#[tokio::test]
async fn several_who_wait_for_a_stuck_thread_all_get_their_page() {
    let (_never, until): (Sender<()>, _) = channel();
    let station = Arc::new(station(hang(until)));
    let waiting: Vec<_> = (0..8)
        .map(|_| {
            let station = Arc::clone(&station);
            tokio::spawn(async move { page(&station).await })
        })
        .collect();
    for waiting in waiting {
        assert!(waiting.await.expect("no panic").contains("\nnode_fine 1\n"));
    }
}

#[tokio::test]
async fn a_source_that_panics_is_out_and_the_others_go_on() {
    let station = station(Box::new(|| panic!("on purpose")));
    // Printing the panic may take longer than the deadline, so the first page may still say that it hangs.
    let out = async {
        loop {
            let text = page(&station).await;
            assert!(text.contains("\nnode_fine 1\n"), "{text}");
            if text.contains("node_telemetry_source_down_info{source=\"odd\",reason=\"panicked\"} 1\n") {
                return;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), out).await.expect("the panic is told");
}

#[tokio::test]
async fn other_collectors_can_take_over() {
    let station = station(Box::new(|| {}));
    assert!(page(&station).await.contains("\nnode_odd 1\n"));
    let fine: Box<dyn Collector> = Box::new(Source { name: "fine", family: &FINE, read: Box::new(|| {}) });
    station.replace(vec![fine]).expect("threads can be had");
    let text = page(&station).await;
    assert!(text.contains("\nnode_fine 1\n") && !text.contains("odd"), "{text}");
}

#[tokio::test]
async fn more_who_wait_than_allowed_are_turned_away() {
    let (_never, until): (Sender<()>, _) = channel();
    let sources: Vec<Box<dyn Collector>> =
        vec![Box::new(Source { name: "odd", family: &ODD, read: hang(until) })];
    let instruments = Instruments::new(sources, "n1", system_clock());
    // Nobody looks for a day whether the thread is stuck, so all wait for it.
    let station =
        Arc::new(Station::start(instruments, Duration::from_hours(24)).expect("threads can be had"));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..MAX_WAITING + 10 {
        let station = Arc::clone(&station);
        waiting.spawn(async move { station.page(Format::Text, NameSets::ALL).await });
    }
    let first =
        tokio::time::timeout(Duration::from_secs(20), waiting.join_next()).await.expect("one is turned away");
    assert_eq!(first.expect("one").expect("no panic"), Err(NoPage::Crowded));
}

#[tokio::test]
async fn when_the_last_thread_is_stuck_the_answer_is_a_refusal() {
    let mut wakers: Vec<Sender<()>> = Vec::new();
    let sources: Vec<Box<dyn Collector>> = (0..MAX_THREADS)
        .map(|_| {
            let (waker, until) = channel();
            wakers.push(waker);
            Box::new(Source { name: "odd", family: &ODD, read: hang(until) }) as Box<dyn Collector>
        })
        .collect();
    let instruments = Instruments::new(sources, "n1", system_clock());
    let station = Station::start(instruments, Duration::from_millis(1)).expect("threads can be had");
    let page = tokio::time::timeout(Duration::from_mins(1), station.page(Format::Text, NameSets::ALL));
    assert_eq!(page.await.expect("in time"), Err(NoPage::Exhausted));
    drop(wakers);
}
