//! Sources that hang, panic or come back late, with the real thread.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use agent::collectors::Collector;
use agent::family::{Family, NameSet, NameSets};
use agent::host::Buffer;
use agent::instruments::Instruments;
use agent::moment::{Moment, system_clock};
use agent::page::{Format, Page, Value};
use agent::station::{self, MAX_THREADS, MAX_WAITING, NoPage, Station};
use agent::trouble::Trouble;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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

/// Runs a test's body with a station that reads these sources.
fn with<F>(sources: Vec<Box<dyn Collector>>, deadline: Duration, body: impl FnOnce(Arc<Station>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let instruments = Instruments::new(sources, "n1", system_clock());
    station::run(instruments, deadline, body).expect("threads can be had");
}

fn odd(read: Read) -> Box<dyn Collector> {
    Box::new(Source { name: "odd", family: &ODD, read })
}

fn fine() -> Box<dyn Collector> {
    Box::new(Source { name: "fine", family: &FINE, read: Box::new(|| {}) })
}

/// The same with one source that does as `read` does, and one that works.
fn with_odd<F>(read: Read, body: impl FnOnce(Arc<Station>) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    with(vec![odd(read), fine()], Duration::from_millis(50), body);
}

async fn page(station: &Station) -> String {
    String::from_utf8(answer(station).await.expect("a page")).expect("UTF-8")
}

async fn answer(station: &Station) -> Result<Vec<u8>, NoPage> {
    let answer = tokio::time::timeout(Duration::from_mins(1), station.page(Format::Text, NameSets::ALL));
    answer.await.expect("in time")
}

/// Asks, and does not wait.
fn first_poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Hangs for as long as nothing is sent.
fn hang(until: Receiver<()>) -> Read {
    let until = Arc::new(Mutex::new(until));
    Box::new(move || {
        let _ = until.lock().expect("one reader").recv();
    })
}

#[test]
fn a_source_that_hangs_is_left_behind_and_the_others_are_served() {
    let (_never, until): (Sender<()>, _) = channel();
    with_odd(hang(until), |station| async move {
        for _ in 0..3 {
            let text = page(&station).await;
            assert!(text.contains("\nnode_fine 1\n") && !text.contains("node_odd"), "{text}");
            assert!(
                text.contains("node_telemetry_source_down_info{source=\"odd\",reason=\"timeout\"} 1\n"),
                "{text}"
            );
        }
    });
}

#[test]
fn a_source_that_comes_back_is_read_again_and_its_late_answer_spoils_nothing() {
    let (wake, until) = channel();
    with_odd(hang(until), |station| async move {
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
        let text = tokio::time::timeout(Duration::from_mins(1), back).await.expect("it comes back");
        assert_eq!(text.matches("\nnode_fine 1\n").count(), 1);
    });
}

#[test]
fn several_who_wait_for_a_stuck_thread_all_get_their_page() {
    let (_never, until): (Sender<()>, _) = channel();
    with_odd(hang(until), |station| async move {
        let mut waiting = tokio::task::JoinSet::new();
        for _ in 0..8 {
            let station = Arc::clone(&station);
            waiting.spawn(async move { page(&station).await });
        }
        for text in waiting.join_all().await {
            assert!(text.contains("\nnode_fine 1\n"), "{text}");
        }
    });
}

#[test]
fn what_is_open_while_a_source_hangs_stays_open() {
    let (_never, until): (Sender<()>, _) = channel();
    with_odd(hang(until), |station| async move {
        let (mut here, mut there) = tokio::io::duplex(64);
        let echo = tokio::spawn(async move {
            let mut byte = [0];
            while there.read_exact(&mut byte).await.is_ok() {
                there.write_all(&byte).await.expect("somebody reads");
            }
        });
        for round in 0..3 {
            page(&station).await;
            here.write_all(&[round]).await.expect("it is open");
            assert_eq!(here.read_u8().await.expect("it is open"), round);
        }
        drop(here);
        echo.await.expect("no panic");
    });
}

#[test]
fn a_source_that_panics_is_out_and_the_others_go_on() {
    with_odd(Box::new(|| panic!("on purpose")), |station| async move {
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
        tokio::time::timeout(Duration::from_mins(1), out).await.expect("the panic is told");
    });
}

#[test]
fn other_collectors_can_take_over() {
    with_odd(Box::new(|| {}), |station| async move {
        assert!(page(&station).await.contains("\nnode_odd 1\n"));
        station.replace(vec![fine()]);
        let text = page(&station).await;
        assert!(text.contains("\nnode_fine 1\n") && !text.contains("odd"), "{text}");
    });
}

#[test]
fn other_collectors_can_take_over_while_one_hangs() {
    let (_never, until): (Sender<()>, _) = channel();
    with_odd(hang(until), |station| async move {
        assert!(page(&station).await.contains("reason=\"timeout\""));
        station.replace(vec![odd(Box::new(|| {}))]);
        let text = page(&station).await;
        assert!(text.contains("\nnode_odd 1\n") && !text.contains("fine"), "{text}");
    });
}

#[test]
fn more_who_wait_than_allowed_are_turned_away() {
    with_odd(Box::new(|| {}), |station| async move {
        // All ask before anybody is answered, since nothing else runs meanwhile.
        let mut waiting: Vec<_> = (0..MAX_WAITING + 10)
            .map(|_| {
                let station = Arc::clone(&station);
                Box::pin(async move { station.page(Format::Text, NameSets::ALL).await })
            })
            .collect();
        let asked = waiting.len();
        waiting.retain_mut(|page| match first_poll(page) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                assert_eq!(answer, Err(NoPage::Crowded));
                false
            }
        });
        assert_eq!((waiting.len(), asked - waiting.len()), (MAX_WAITING, 10));
        for page in waiting {
            page.await.expect("a page");
        }
    });
}

#[test]
fn when_every_thread_is_stuck_the_answer_is_a_refusal_until_one_comes_back() {
    let (mut wakers, mut sources): (Vec<Sender<()>>, Vec<Box<dyn Collector>>) = (Vec::new(), Vec::new());
    for _ in 0..MAX_THREADS {
        let (waker, until) = channel();
        wakers.push(waker);
        sources.push(odd(hang(until)));
    }
    sources.push(fine());
    with(sources, Duration::from_millis(1), |station| async move {
        assert_eq!(answer(&station).await, Err(NoPage::Exhausted));
        wakers.pop();
        let back = async {
            while answer(&station).await == Err(NoPage::Exhausted) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), back).await.expect("one has come back");
    });
}

#[test]
fn whoever_has_gone_is_not_read_for() {
    let readings = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&readings);
    let count: Read = Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    with_odd(count, |station| async move {
        let mut gone = Box::pin(station.page(Format::Text, NameSets::ALL));
        assert!(first_poll(&mut gone).is_pending());
        drop(gone);
        page(&station).await;
    });
    assert_eq!(readings.load(Ordering::Relaxed), 1);
}

#[test]
#[should_panic(expected = "on purpose")]
fn a_defect_in_the_body_reaches_whoever_called() {
    with_odd(Box::new(|| {}), |_station| async { panic!("on purpose") });
}
