//! The way out: serving, then leaving (not ready, still answering), then draining (no new work).

use std::time::Duration;

use tokio::sync::watch;

/// Where a process is on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing has been asked of us.
    Serving,
    /// Not ready any more, so that callers are sent elsewhere; those who still come are answered and asked to
    /// close their connection.
    Leaving,
    /// No new connections; requests in flight are finished.
    Draining,
}

/// Moves all holders of the matching [`Shutdown`] forward; never back.
#[derive(Debug)]
pub struct Trigger(watch::Sender<Phase>);

/// Tells the phase, and waits for one.
#[derive(Clone, Debug)]
pub struct Shutdown(watch::Receiver<Phase>);

/// A trigger and what it triggers, in the phase `Serving`.
pub fn channel() -> (Trigger, Shutdown) {
    let (sender, receiver) = watch::channel(Phase::Serving);
    (Trigger(sender), Shutdown(receiver))
}

impl Trigger {
    /// Moves to the phase, unless we are there or past it.
    pub fn advance(&self, phase: Phase) {
        self.0.send_if_modified(|now| {
            let forward = phase > *now;
            if forward {
                *now = phase;
            }
            forward
        });
    }
}

impl Shutdown {
    /// The phase now.
    pub fn phase(&self) -> Phase {
        *self.0.borrow()
    }

    /// Returns once the phase is reached or past, or once nobody is left who could trigger it: a process
    /// whose main task is gone must not serve for ever.
    pub async fn reached(&mut self, phase: Phase) {
        let _ = self.0.wait_for(|now| *now >= phase).await;
    }
}

/// Which signal ended us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// From kubelet or systemd: leave gently.
    Terminate,
    /// From a person at a terminal: drain at once.
    Interrupt,
}

/// The signals of this process. Create it before anything slow, so that an early SIGTERM is not lost.
#[derive(Debug)]
pub struct Signals {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    /// Starts listening; from here on the default action (die at once) is off.
    pub fn install() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> Signal {
        tokio::select! {
            _ = self.terminate.recv() => Signal::Terminate,
            _ = self.interrupt.recv() => Signal::Interrupt,
        }
    }

    /// Waits for a signal and walks `trigger` to `Draining`. SIGTERM stays in `Leaving` for `delay` first, so
    /// that load balancers notice; SIGINT, or any second signal, drains at once.
    pub async fn drive(mut self, trigger: Trigger, delay: Duration) -> Signal {
        let first = self.next().await;
        tracing::info!(signal = ?first, "asked to stop");
        if first == Signal::Terminate && !delay.is_zero() {
            trigger.advance(Phase::Leaving);
            let _ = tokio::time::timeout(delay, self.next()).await;
        }
        trigger.advance(Phase::Draining);
        // Held until the end, as a dropped trigger means "drain" anyway and costs nobody anything.
        first
    }
}

/// Listens to signals on a thread of its own, for programs that wait for other things than ours. From here on
/// SIGTERM and SIGINT end nobody; whoever calls this looks at the phase from time to time.
pub fn listen() -> std::io::Result<Shutdown> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (trigger, shutdown) = channel();
    let signals = {
        let _within = runtime.enter();
        Signals::install()?
    };
    let drive = move || runtime.block_on(signals.drive(trigger, Duration::ZERO));
    std::thread::Builder::new().name("signals".to_owned()).spawn(drive)?;
    Ok(shutdown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn phases_only_go_forward() {
        let (trigger, mut shutdown) = channel();
        assert_eq!(shutdown.phase(), Phase::Serving);
        trigger.advance(Phase::Draining);
        trigger.advance(Phase::Leaving);
        shutdown.reached(Phase::Leaving).await;
        assert_eq!(shutdown.phase(), Phase::Draining);
    }

    #[tokio::test]
    async fn a_lost_trigger_counts_as_a_request_to_stop() {
        let (trigger, mut shutdown) = channel();
        drop(trigger);
        shutdown.reached(Phase::Draining).await;
    }
}
