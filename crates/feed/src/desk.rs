//! A thread for heavy work that comes again and again: reading answers, judging.
//!
//! One thread and not a pool, because the allocator keeps memory of its own for each thread and hardly gives it back:
//! work that wanders over a pool leaves its largest moment resident on every thread of it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};

use tokio::sync::oneshot;

type Work = Box<dyn FnOnce() + Send>;

/// Does one thing after the other. Ends when it is dropped, once the work at hand is done.
#[derive(Clone, Debug)]
pub(crate) struct Desk {
    /// Nothing if no thread could be started: work then goes to the pool after all.
    work: Option<Sender<Work>>,
}

impl Desk {
    pub(crate) fn new(name: &str) -> Self {
        let (work, to_do) = channel::<Work>();
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            for work in to_do {
                // Whoever waits for it notices; the next in line has nothing to do with it.
                let _ = catch_unwind(AssertUnwindSafe(work));
            }
        });
        Self { work: started.is_ok().then_some(work) }
    }

    /// What the work came to; nothing if it panicked.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let Some(desk) = &self.work else {
            return tokio::task::spawn_blocking(work).await.ok();
        };
        let (done, outcome) = oneshot::channel();
        desk.send(Box::new(move || drop(done.send(work())))).ok()?;
        outcome.await.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_in_one_place_and_a_panic_is_the_end_of_nothing_else() {
        let desk = Desk::new("desk");
        let place = || std::thread::current().id();
        let first = desk.run(place).await;
        assert_eq!(desk.run(|| -> u8 { panic!("on purpose") }).await, None);
        assert_eq!((desk.run(place).await, first.is_some()), (first, true));
    }

    #[tokio::test]
    async fn without_a_thread_work_is_done_all_the_same() {
        assert_eq!(Desk { work: None }.run(|| 7).await, Some(7));
    }
}
