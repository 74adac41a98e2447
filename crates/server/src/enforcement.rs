//! Starts the controller with what it needs beside it: the lease, the pause switch, the sightings.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use api::keys::LEASE;
use chassis::shutdown::Shutdown;
use cluster::Client;
use cluster::events::Events;
use cluster::lease::{self, Election, Leadership, Moment};
use feed::Published;
use feed::watches::Sighting;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::args;
use crate::controller::{self, Controller, ControllerMetrics, Pause, Tally};
use crate::scheduler_port::Clock;

/// Sightings that may wait.
const WAITING_SIGHTINGS: usize = 1024;

/// A controller that runs, and what others read of it.
#[derive(Debug)]
pub(crate) struct Enforcement {
    leadership: Leadership,
    tally: Arc<Tally>,
    pause: watch::Receiver<Pause>,
    ending: JoinHandle<()>,
}

/// What it is started with.
pub(crate) struct Start {
    pub(crate) client: Client,
    pub(crate) config: args::Enforcement,
    pub(crate) published: Published,
    pub(crate) events: Events,
    pub(crate) clock: Clock,
}

impl Enforcement {
    /// Starts it; sightings are to be sent to the other.
    pub(crate) fn start(start: Start, shutdown: Shutdown) -> (Self, mpsc::Sender<Sighting>) {
        let Start { client, config, published, events, clock } = start;
        let (sightings, seen) = mpsc::channel(WAITING_SIGHTINGS);
        let (told, pause) = watch::channel(if config.paused { Pause::by_flag() } else { Pause::unknown() });
        if config.paused {
            // Kept open, so that whoever listens does not take its end for news.
            tokio::spawn(async move { told.closed().await });
        } else {
            tokio::spawn(controller::follow_pause(client.clone(), config.namespace.clone(), told));
        }
        let election = Election {
            client: client.clone(),
            namespace: config.namespace,
            name: LEASE.to_owned(),
            me: identity(&config.replica),
            clock: Arc::new(Moment::now),
        };
        let (done, ended) = oneshot::channel::<()>();
        let (leadership, standing) = lease::run(election, async {
            let _ = ended.await;
        });
        let standing = tokio::spawn(standing);
        let tally = Arc::new(Tally::default());
        let controller = Controller {
            client,
            leadership: leadership.clone(),
            published,
            sightings: seen,
            pause: pause.clone(),
            settings: config.settings,
            events,
            tally: Arc::clone(&tally),
            clock,
        };
        let ending = tokio::spawn(async move {
            controller::run(controller, shutdown).await;
            // Only now, when no write is under way, is the lease given back.
            let _ = done.send(());
            let _ = standing.await;
        });
        (Self { leadership, tally, pause, ending }, sightings)
    }

    /// For `/metrics`.
    pub(crate) fn metrics(&self) -> ControllerMetrics {
        ControllerMetrics::new(self.leadership.clone(), Arc::clone(&self.tally))
    }

    /// For `/readyz?verbose`, in one line. It never makes us unready: the extender does not depend on it.
    pub(crate) fn words(&self) -> impl Fn() -> String + Send + Sync + use<> {
        let (leadership, tally, pause) =
            (self.leadership.clone(), Arc::clone(&self.tally), self.pause.clone());
        move || {
            let standing = leadership.standing();
            let counts = tally.counts();
            let mut words = match (leadership.age(), &standing.holder) {
                (Some(age), _) if leadership.term().is_some() => {
                    format!("leading, lease renewed {} s ago, {} plans made", age.as_secs(), counts.plans)
                }
                (_, Some(holder)) => format!("following {holder}"),
                (_, None) => "nobody leads".to_owned(),
            };
            let pause = pause.borrow();
            if pause.on {
                words = format!("{words}; paused: {}", pause.why.as_deref().unwrap_or_default());
            }
            if let Some(trouble) = standing.trouble {
                words = format!("{words}; {trouble}");
            }
            words
        }
    }

    /// Returns once the last write has ended and the lease is given back, or the controller broke off. Not to be
    /// awaited again after that.
    pub(crate) async fn ended(&mut self) {
        if (&mut self.ending).await.is_err() {
            tracing::error!("the controller broke off");
        }
    }
}

/// A name that no other process has or had: one that was started again must not take itself for the one before.
fn identity(replica: &str) -> String {
    let random = RandomState::new().hash_one(std::process::id());
    format!("{replica}_{random:016x}")
}
