//! The thread that reads, and the watch over it: who waits for a page waits no longer than a deadline.
//!
//! Reading the kernel can hang (a driver that waits for its hardware), and nothing in user space can end that. The
//! thread stuck in it is left behind, its source is marked, and a new thread goes on with the others.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

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

/// What is asked of the thread.
struct Order {
    format: Format,
    names: NameSets,
    reply: oneshot::Sender<Vec<u8>>,
}

/// Why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoPage {
    /// Too many are waiting already.
    #[error("{MAX_WAITING} scrapes are waiting already; scrape less often")]
    Crowded,
    /// No thread can be had any more.
    #[error("the agent cannot start another reading thread")]
    Exhausted,
}

struct Crew {
    instruments: Arc<Instruments>,
    orders: mpsc::SyncSender<Order>,
    number: u64,
    started: usize,
}

/// Hands out pages.
pub struct Station {
    crew: Mutex<Crew>,
    deadline: Duration,
}

impl Station {
    /// Starts the thread.
    pub fn start(instruments: Instruments, deadline: Duration) -> std::io::Result<Self> {
        let instruments = Arc::new(instruments);
        let orders = hire(&instruments)?;
        Ok(Self { crew: Mutex::new(Crew { instruments, orders, number: 0, started: 1 }), deadline })
    }

    /// Goes on with other collectors.
    pub fn replace(&self, collectors: Vec<Box<dyn Collector>>) -> std::io::Result<()> {
        let mut crew = self.crew.lock().unwrap_or_else(PoisonError::into_inner);
        let instruments = Arc::new(crew.instruments.with(collectors));
        let orders = hire(&instruments)?;
        crew.instruments.give_up();
        (crew.instruments, crew.orders) = (instruments, orders);
        crew.number += 1;
        Ok(())
    }

    /// The instruments in use.
    pub fn instruments(&self) -> Arc<Instruments> {
        Arc::clone(&self.crew.lock().unwrap_or_else(PoisonError::into_inner).instruments)
    }

    /// A page, as soon as everything that can be read has been.
    pub async fn page(&self, format: Format, names: NameSets) -> Result<Vec<u8>, NoPage> {
        loop {
            let (reply, mut answer) = oneshot::channel();
            let number = self.order(Order { format, names, reply })?;
            loop {
                match tokio::time::timeout(self.look_every(), &mut answer).await {
                    Ok(Ok(page)) => return Ok(page),
                    // The thread that had the order is gone; the next one gets it.
                    Ok(Err(_)) => {
                        self.replace_thread(number)?;
                        break;
                    }
                    Err(_) => {
                        self.look()?;
                        if self.number() != number {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// How often to look whether the thread is stuck.
    pub fn look_every(&self) -> Duration {
        self.deadline / 2
    }

    /// Replaces the thread if it is stuck. To be called now and then, since between scrapes nobody waits for it.
    pub fn look(&self) -> Result<(), NoPage> {
        let (stuck, number) = {
            let crew = self.crew.lock().unwrap_or_else(PoisonError::into_inner);
            (crew.instruments.stuck(self.deadline), crew.number)
        };
        match stuck {
            Some(source) => {
                tracing::warn!(source, "source does not answer; the others go on without it");
                self.replace_thread(number)
            }
            None => Ok(()),
        }
    }

    fn number(&self) -> u64 {
        self.crew.lock().unwrap_or_else(PoisonError::into_inner).number
    }

    fn order(&self, order: Order) -> Result<u64, NoPage> {
        let crew = self.crew.lock().unwrap_or_else(PoisonError::into_inner);
        match crew.orders.try_send(order) {
            // A thread that is gone drops the order, which whoever waits for it will notice.
            Ok(()) | Err(mpsc::TrySendError::Disconnected(_)) => Ok(crew.number),
            Err(mpsc::TrySendError::Full(_)) => Err(NoPage::Crowded),
        }
    }

    /// Starts a new thread in place of number `number`, unless that has happened already.
    fn replace_thread(&self, number: u64) -> Result<(), NoPage> {
        let mut crew = self.crew.lock().unwrap_or_else(PoisonError::into_inner);
        if crew.number != number {
            return Ok(());
        }
        if crew.started == MAX_THREADS {
            return Err(NoPage::Exhausted);
        }
        crew.instruments.give_up();
        crew.orders = hire(&crew.instruments).map_err(|error| {
            tracing::error!(%error, "cannot start a reading thread");
            NoPage::Exhausted
        })?;
        crew.started += 1;
        crew.number += 1;
        Ok(())
    }
}

/// Starts a thread that ticks and takes orders until nobody can give it any.
fn hire(instruments: &Arc<Instruments>) -> std::io::Result<mpsc::SyncSender<Order>> {
    let (sender, orders) = mpsc::sync_channel::<Order>(MAX_WAITING);
    let instruments = Arc::clone(instruments);
    thread::Builder::new().name("reader".to_owned()).stack_size(256 * 1024).spawn(move || {
        let mut worker = Worker::default();
        instruments.tick(&mut worker);
        let mut next_tick = instruments.now().up + TICK_EVERY;
        loop {
            match orders.recv_timeout(next_tick.saturating_sub(instruments.now().up)) {
                Ok(order) => {
                    // Who asked may have gone; then the page is for nobody.
                    if let Some(page) = instruments.page(&mut worker, order.format, order.names) {
                        let _ = order.reply.send(page);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    instruments.tick(&mut worker);
                    // After a suspension there is nothing to catch up on.
                    next_tick = (next_tick + TICK_EVERY).max(instruments.now().up);
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    })?;
    Ok(sender)
}
