//! The scheduler's port on a loopback address with a clock of its own, for programs that play a cluster.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use chassis::body::Room;
use chassis::shutdown::{self, Phase, Shutdown, Trigger};
use chassis::{BodyLimits, Counters, Limits, Listener};
use engine::View;
use engine::time::Timestamp;
use extender::Extender;
use tokio::runtime::Runtime;

use crate::scheduler_port::SchedulerPort;

/// What the caller may still be told once it leaves.
const DRAIN: Duration = Duration::from_secs(1);

/// An extender as `tas serve` runs it, on a thread of its own, until this is dropped.
#[derive(Debug)]
pub struct Loopback {
    address: SocketAddr,
    view: Arc<ArcSwap<View>>,
    now: Arc<AtomicI64>,
    trigger: Trigger,
    thread: Option<JoinHandle<()>>,
}

impl Loopback {
    /// Listens on a free port of 127.0.0.1.
    pub fn start() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let bound = runtime.block_on(Listener::bind((Ipv4Addr::LOCALHOST, 0).into()));
        let listener = bound.map_err(|error| io::Error::new(error.source.kind(), error.to_string()))?;
        let address = listener.local_addr()?;
        let (view, now) = (Arc::<ArcSwap<View>>::default(), Arc::<AtomicI64>::default());
        let (trigger, shutdown) = shutdown::channel();
        let port = port(Arc::clone(&view), Arc::clone(&now));
        let thread = std::thread::Builder::new()
            .name("extender".to_owned())
            .spawn(move || serve(&runtime, listener, port, shutdown))?;
        Ok(Self { address, view, now, trigger, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it answers from, and what time it is; for every question from here on.
    pub fn publish(&self, view: &Arc<View>, now: Timestamp) {
        self.view.store(Arc::clone(view));
        self.now.store(now.millis(), Ordering::Release);
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.trigger.advance(Phase::Draining);
        if let Some(thread) = self.thread.take() {
            // It has nothing to say that the last answer did not.
            let _ = thread.join();
        }
    }
}

fn port(view: Arc<ArcSwap<View>>, now: Arc<AtomicI64>) -> SchedulerPort {
    let extender = Arc::new(Extender::new(view, extender::DEFAULT_SCORE_TOP));
    let limits = BodyLimits::default();
    let clock = move || Timestamp::from_millis(now.load(Ordering::Acquire));
    SchedulerPort::new(extender, limits, Room::new(limits.bytes), Arc::new(clock))
}

fn serve(runtime: &Runtime, listener: Listener, port: SchedulerPort, shutdown: Shutdown) {
    let limits = Limits { drain_deadline: DRAIN, ..Limits::default() };
    runtime.block_on(chassis::serve(listener, port, limits, Arc::new(Counters::default()), shutdown));
}
