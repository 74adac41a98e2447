//! The thread that serves and reads, and the watch over it: who waits for a page waits no longer than a deadline.
//!
//! One thread does both, since handing a scrape to another and back costs as much as reading what it asks for. But
//! reading the kernel can hang (a driver that waits for its hardware), and nothing in user space can end that. So the
//! thread lets go of the runtime while it reads. If it does not come back in time it is left behind, its source is
//! marked, and a new thread takes the runtime over with all its connections and the page that is being waited for.

use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Interval, MissedTickBehavior};

use crate::collectors::Collector;
use crate::family::NameSets;
use crate::instruments::{Instruments, Worker};
use crate::page::Format;

/// How long one source may take before the others go on without it.
pub const SOURCE_DEADLINE: Duration = Duration::from_secs(1);
/// How often sources are asked to sample.
pub const TICK_EVERY: Duration = Duration::from_secs(1);
/// Threads that may be stuck at once: one for each source, and some.
pub const MAX_THREADS: usize = 20;
/// Pages that may be asked for at once.
pub const MAX_WAITING: usize = 64;
/// Room for a TLS handshake and the tables of a compressor.
const STACK: usize = 1024 * 1024;

type Reply = oneshot::Sender<Result<Vec<u8>, NoPage>>;

/// A page that somebody waits for.
struct Order {
    format: Format,
    names: NameSets,
    reply: Reply,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPage {
    /// Too many are waiting already.
    #[error("{MAX_WAITING} scrapes are waiting already; scrape less often")]
    Crowded,
    /// Everybody who could read is stuck.
    #[error("{MAX_THREADS} threads are stuck in sources that do not answer; nothing is read until one does")]
    Exhausted,
    /// Reading panics again and again.
    #[error("the agent met a defect of its own while reading; its log has the details")]
    Defect,
}

/// Hands out pages.
pub struct Station {
    books: Mutex<Books>,
    orders: mpsc::Sender<Order>,
}

/// Who is at work, and at what.
struct Books {
    instruments: Arc<Instruments>,
    thread: Option<thread::JoinHandle<()>>,
    /// The number of the thread at work; whoever has another one has been left behind.
    number: u64,
    left_behind: Vec<thread::JoinHandle<()>>,
    /// The order being worked on.
    in_hand: Option<Order>,
}

impl Books {
    fn exhausted(&self) -> bool {
        self.left_behind.len() >= MAX_THREADS
    }
}

impl Station {
    /// Goes on with other collectors.
    pub fn replace(&self, collectors: Vec<Box<dyn Collector>>) {
        let mut books = self.books();
        books.instruments.give_up();
        books.instruments = Arc::new(books.instruments.with(collectors));
    }

    /// The instruments in use.
    pub fn instruments(&self) -> Arc<Instruments> {
        Arc::clone(&self.books().instruments)
    }

    /// A page, as soon as everything that can be read has been.
    pub async fn page(&self, format: Format, names: NameSets) -> Result<Vec<u8>, NoPage> {
        let (reply, answer) = oneshot::channel();
        self.orders.try_send(Order { format, names, reply }).map_err(|_| NoPage::Crowded)?;
        answer.await.unwrap_or(Err(NoPage::Exhausted))
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs `body` on a runtime of its own until it ends, with a station that reads for it.
///
/// The calling thread only watches.
pub fn run<F>(
    instruments: Instruments,
    deadline: Duration,
    body: impl FnOnce(Arc<Station>) -> F,
) -> io::Result<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    // Blocking work is rare and its threads are not kept.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .thread_keep_alive(Duration::from_millis(100))
        .build()?;
    let (orders, ordered) = mpsc::channel(MAX_WAITING);
    let instruments = Arc::new(instruments);
    let books = Books { instruments, thread: None, number: 0, left_behind: Vec::new(), in_hand: None };
    let station = Arc::new(Station { books: Mutex::new(books), orders });
    let ear = {
        let _inside = runtime.enter();
        let mut ticks = tokio::time::interval(TICK_EVERY);
        // After a suspension there is nothing to catch up on.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        Ear { ordered, ticks, body: tokio::spawn(body(Arc::clone(&station))) }
    };
    let watcher = thread::current();
    let runtime = ManuallyDrop::new(runtime);
    let post =
        Arc::new(Post { station, runtime, ear: Mutex::new(ear), ended: Mutex::default(), watcher, deadline });
    post.hire(&mut post.station.books())?;
    loop {
        thread::park_timeout(deadline / 2);
        let ended = post.ended().take();
        match ended {
            Some(Ok(ended)) => return Ok(ended),
            // Nobody aborts the body, so this is a defect of ours: it goes to whoever called.
            Some(Err(defect)) => resume_unwind(defect.into_panic()),
            None => post.look(),
        }
    }
}

/// The place a thread works at; one leaves it to the next.
struct Post<T> {
    station: Arc<Station>,
    /// Never dropped, which would wait for blocking work that hangs: it ends with the process.
    runtime: ManuallyDrop<Runtime>,
    /// Held by the thread at work while it waits, never while it reads.
    ear: Mutex<Ear<T>>,
    ended: Mutex<Option<Result<T, JoinError>>>,
    watcher: Thread,
    deadline: Duration,
}

/// What a thread waits for. The tick is also a timer that always runs, and sooner than any that a scrape sets: one that
/// becomes the next to run wakes the runtime, which costs as much as a tenth of a scrape.
struct Ear<T> {
    ordered: mpsc::Receiver<Order>,
    ticks: Interval,
    body: JoinHandle<T>,
}

enum Event<T> {
    Order(Order),
    Tick,
    Ended(Result<T, JoinError>),
}

impl<T> Ear<T> {
    async fn next(&mut self) -> Event<T> {
        loop {
            tokio::select! {
                biased;
                Some(order) = self.ordered.recv() => {
                    // Who asked may have gone while others were answered.
                    if !order.reply.is_closed() {
                        return Event::Order(order);
                    }
                }
                _ = self.ticks.tick() => return Event::Tick,
                ended = &mut self.body => return Event::Ended(ended),
            }
        }
    }
}

impl<T: Send + 'static> Post<T> {
    fn ended(&self) -> MutexGuard<'_, Option<Result<T, JoinError>>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a new thread to work; the one before is left behind.
    fn hire(self: &Arc<Self>, books: &mut Books) -> io::Result<()> {
        let number = books.number + 1;
        let post = Arc::clone(self);
        // It begins by asking for the books, which are ours until its number stands in them.
        let work = move || post.work(number);
        let thread = thread::Builder::new().name("worker".to_owned()).stack_size(STACK).spawn(work)?;
        books.number = number;
        books.left_behind.extend(books.thread.replace(thread));
        Ok(())
    }

    /// Replaces the thread at work if it is stuck, or has died of a defect.
    fn look(self: &Arc<Self>) {
        let mut books = self.station.books();
        books.left_behind.retain(|thread| !thread.is_finished());
        let dead = books.thread.as_ref().is_some_and(thread::JoinHandle::is_finished);
        let stuck = books.instruments.stuck(self.deadline);
        if self.ended().is_some() || (stuck.is_none() && !dead) {
            return;
        }
        match self.hire(&mut books) {
            Ok(()) => {
                books.instruments.give_up();
                if let Some(source) = stuck {
                    tracing::warn!(source, "source does not answer; the others go on without it");
                }
            }
            Err(error) => tracing::error!(%error, "cannot start a thread; nothing is served or read"),
        }
    }

    /// Serves and reads until the body ends or another thread is at work.
    fn work(&self, number: u64) {
        let mut worker = Worker::default();
        loop {
            let answered = match self.read(number, &mut worker) {
                Read::Nothing => None,
                Read::Answer(reply, answer) => Some((reply, answer)),
                Read::Again => continue,
                Read::LeftBehind => return,
            };
            let mut ear = self.ear.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.may_wait(number) {
                drop(ear);
                if let Some((reply, answer)) = answered {
                    let _ = reply.send(answer);
                }
                continue;
            }
            let event = self.runtime.block_on(async {
                // From within the runtime, where it needs no waking. Who asked may have gone.
                if let Some((reply, answer)) = answered {
                    let _ = reply.send(answer);
                }
                ear.next().await
            });
            drop(ear);
            match event {
                Event::Order(order) => self.station.books().in_hand = Some(order),
                Event::Tick => self.tick(&mut worker),
                Event::Ended(ended) => {
                    *self.ended() = Some(ended);
                    self.watcher.unpark();
                    return;
                }
            }
        }
    }

    /// Whether there is nothing to do but wait. One that was taken for stuck and was not may have got an order, or
    /// seen the end, while its successor waited for the ear.
    fn may_wait(&self, number: u64) -> bool {
        let books = self.station.books();
        books.number == number && books.in_hand.is_none() && self.ended().is_none()
    }

    /// Reads for the order in hand, which may have been in another's hand before.
    fn read(&self, number: u64, worker: &mut Worker) -> Read {
        let books = self.station.books();
        if books.number != number || self.ended().is_some() {
            return Read::LeftBehind;
        }
        let Some(Order { format, names, .. }) = books.in_hand else { return Read::Nothing };
        let instruments = (!books.exhausted()).then(|| Arc::clone(&books.instruments));
        drop(books);
        let answer = match instruments {
            None => Err(NoPage::Exhausted),
            Some(instruments) => {
                let mut page = || instruments.page(worker, format, names);
                // A source that panics is not read any more, so trying again gets further.
                let mut tries = (0..MAX_THREADS).map(|_| catch_unwind(AssertUnwindSafe(&mut page)));
                match tries.find_map(Result::ok) {
                    Some(Some(page)) => Ok(page),
                    Some(None) => return Read::Again,
                    None => Err(NoPage::Defect),
                }
            }
        };
        let mut books = self.station.books();
        if books.number != number {
            return Read::LeftBehind;
        }
        books.in_hand.take().map_or(Read::Nothing, |order| Read::Answer(order.reply, answer))
    }

    fn tick(&self, worker: &mut Worker) {
        let books = self.station.books();
        if books.exhausted() {
            return;
        }
        let instruments = Arc::clone(&books.instruments);
        drop(books);
        // Which source it was shows on the page.
        if catch_unwind(AssertUnwindSafe(|| instruments.tick(worker))).is_err() {
            instruments.give_up();
        }
    }
}

/// How a reading ended.
enum Read {
    Nothing,
    Answer(Reply, Result<Vec<u8>, NoPage>),
    /// The collectors were replaced meanwhile.
    Again,
    LeftBehind,
}
