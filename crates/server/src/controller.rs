//! The controller: keeps labels, taints and statuses as the engine plans them. Every replica looks on; one writes.
//!
//! `sightings` holds what the watches have shown, `known` brings it in step with the view, [`engine::plan`] decides,
//! `pass` carries out, `tell` puts it in words, `tally` counts. Nothing here decides what should stand on a node.

mod known;
mod metrics;
mod pass;
mod patience;
mod pause;
mod sightings;
mod stored;
mod tally;
mod tell;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chassis::shutdown::{Phase, Shutdown};
use cluster::Client;
use cluster::events::Events;
use cluster::lease::Leadership;
use engine::plan::Settings;
use engine::time::Timestamp;
use feed::Published;
use feed::watches::Sighting;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

pub use metrics::ControllerMetrics;
pub use pass::AT_ONCE;
use pass::Pass;
pub use pause::{Pause, follow as follow_pause};
use sightings::Sightings;
pub use tally::Tally;

/// How long news are collected before the next plan.
const GATHER: Duration = Duration::from_millis(20);
/// From one plan to the next, however much happens: in a burst every pod that is bound makes a new view.
const APART: Duration = Duration::from_millis(250);
/// However little happens, it is looked again after so long.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// What the controller works with.
pub struct Controller {
    /// How to reach the API server.
    pub client: Client,
    /// Whether we may write.
    pub leadership: Leadership,
    /// The view and the facts.
    pub published: Published,
    /// Objects as they stand.
    pub sightings: mpsc::Receiver<Sighting>,
    /// Whether everything is paused.
    pub pause: watch::Receiver<Pause>,
    /// How it was set up; whether it is paused is for `pause` to say.
    pub settings: Settings,
    /// Where to tell people.
    pub events: Events,
    /// Where to count.
    pub tally: Arc<Tally>,
    /// Tells the time.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Controller").field("leadership", &self.leadership).finish_non_exhaustive()
    }
}

/// Runs until the process leaves. Once this returns, no write is under way.
pub async fn run(controller: Controller, mut shutdown: Shutdown) {
    let Controller {
        client,
        mut leadership,
        published,
        sightings,
        mut pause,
        settings,
        events,
        tally,
        clock,
    } = controller;
    let shared = Arc::new(Mutex::new(Sightings::default()));
    let (told, mut seen) = watch::channel(());
    let looking = tokio::spawn(look_on(sightings, Arc::clone(&shared), told));
    let mut renewed = published.renewed.subscribe();
    let mut leaving = shutdown.clone();
    loop {
        let term = tokio::select! {
            biased;
            () = leaving.reached(Phase::Leaving) => break,
            term = leadership.begins() => term,
        };
        let mut pass = Pass {
            client: client.clone(),
            leadership: leadership.clone(),
            term,
            shutdown: shutdown.clone(),
            published: published.clone(),
            sightings: Arc::clone(&shared),
            events: events.clone(),
            tally: Arc::clone(&tally),
            clock: Arc::clone(&clock),
            memory: pass::Memory::default(),
        };
        let (mut wake, mut apart) = (Instant::now(), Instant::now());
        loop {
            tokio::select! {
                biased;
                () = leaving.reached(Phase::Leaving) => break,
                () = leadership.ends(term) => break,
                _ = renewed.changed() => {}
                Ok(()) = seen.changed() => {}
                Ok(()) = pause.changed() => {}
                () = sleep_until(wake) => {}
            }
            tokio::select! {
                biased;
                () = leaving.reached(Phase::Leaving) => break,
                () = leadership.ends(term) => break,
                () = sleep_until(apart.max(Instant::now() + GATHER)) => {}
            }
            apart = Instant::now() + APART;
            let _ = (renewed.borrow_and_update(), seen.borrow_and_update());
            let switch = pause.borrow_and_update().clone();
            if switch == Pause::unknown() {
                // Not even a status: it would say that we are paused, and a moment later that we are not.
                wake = Instant::now() + LOOK_AGAIN;
                continue;
            }
            let settings = Settings { paused: switch.on, ..settings.clone() };
            wake = pass.carry_out(settings).await.min(Instant::now() + LOOK_AGAIN);
        }
        tally.ended();
    }
    shutdown.reached(Phase::Leaving).await;
    looking.abort();
}

/// Takes sightings in, whether we lead or not: whoever takes over must not have to list first.
async fn look_on(
    mut sightings: mpsc::Receiver<Sighting>,
    shared: Arc<Mutex<Sightings>>,
    told: watch::Sender<()>,
) {
    let mut waiting = Vec::new();
    while sightings.recv_many(&mut waiting, 256).await > 0 {
        let mut held = lock(&shared);
        let mut news = false;
        for sighting in waiting.drain(..) {
            news |= held.apply(sighting);
        }
        drop(held);
        if news {
            told.send_replace(());
        }
    }
}

/// A value whose last holder panicked is still the value.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
