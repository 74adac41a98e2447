//! The loop: news and samples in, one view after the other out.
//!
//! [`State`] decides and holds; [`run`] waits, reads and publishes. Judging happens on a thread of its own, and
//! readers never wait for it: they hold the view before until the next is whole.

mod state;

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use engine::time::Timestamp;
use engine::{SnapshotId, View};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::config::{ConfigFile, FeedConfig, Polled};
use crate::demand::aligned;
use crate::desk::Desk;
use crate::health::Health;
use crate::source::{MetricSource, Reading};
use crate::world::Change;

pub use state::{Done, Job, State};

/// How the loop runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How often metrics are read.
    pub sync_period: Duration,
    /// How often the configuration file is looked at.
    pub config_period: Duration,
    /// How long news are collected before they are judged together.
    pub gather: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            sync_period: Duration::from_secs(5),
            config_period: Duration::from_secs(5),
            gather: Duration::from_millis(20),
        }
    }
}

/// What others read of us. Cheap to clone; readers never wait.
#[derive(Clone, Debug, Default)]
pub struct Published {
    /// The newest view.
    pub view: Arc<ArcSwap<View>>,
    /// The facts about how it came to be.
    pub health: Arc<ArcSwap<Health>>,
    /// Which view is the newest, for whoever waits for the next.
    pub renewed: Arc<watch::Sender<SnapshotId>>,
}

/// What the loop works with.
#[derive(Debug)]
pub struct Refresher<S> {
    /// Where samples come from.
    pub source: Arc<S>,
    /// News from the watches; once it ends, so does the loop.
    pub changes: mpsc::Receiver<Change>,
    /// The configuration that the source uses too.
    pub config: Arc<ArcSwap<FeedConfig>>,
    /// The file it comes from, if there is one.
    pub config_file: Option<ConfigFile>,
    /// How to run.
    pub settings: Settings,
    /// Where to publish.
    pub published: Published,
}

/// Runs until `stop` or until nobody brings news any more. `clock` tells the time.
pub async fn run<S: MetricSource>(
    refresher: Refresher<S>,
    clock: impl Fn() -> Timestamp,
    stop: impl Future<Output = ()>,
) {
    run_with(refresher, clock, stop, Job::run).await;
}

/// The same with another way to run the engine's one expensive step, such as an artificially slow one.
pub async fn run_with<S: MetricSource>(
    refresher: Refresher<S>,
    clock: impl Fn() -> Timestamp,
    stop: impl Future<Output = ()>,
    judge: impl Fn(Job) -> Done + Clone + Send + 'static,
) {
    let Refresher { source, mut changes, config, mut config_file, settings, published } = refresher;
    let period = settings.sync_period.max(Duration::from_millis(1));
    let mut state = State::new(period);
    state.configured(&config.load());
    let mut reading: Option<JoinHandle<(Reading, Duration)>> = None;
    let mut judging: Option<JoinHandle<Option<Done>>> = None;
    let desk = Desk::new("judge");
    let mut judge_at: Option<Instant> = None;
    let mut renewed: Option<SnapshotId> = None;
    let mut config_at = Instant::now() + settings.config_period;
    let mut read_at = Instant::now() + until(clock(), aligned(clock(), period).after(period));
    tokio::pin!(stop);
    loop {
        // Reading: as soon as something new is wanted, and then at each shared moment.
        if reading.is_none()
            && let Some(ask) = state.ask(clock())
        {
            let source = Arc::clone(&source);
            reading = Some(tokio::spawn(async move {
                let begun = Instant::now();
                (source.read(ask).await, begun.elapsed())
            }));
        }
        if state.is_dirty() && judge_at.is_none() && judging.is_none() {
            // Never more than a quarter of the time, however much comes in.
            judge_at = Some(Instant::now() + settings.gather.max(state.last_took() * 3));
        }
        let wake_at = state.wake().map(|wake| Instant::now() + until(clock(), wake));
        tokio::select! {
            () = &mut stop => break,
            change = changes.recv() => match change {
                Some(change) => {
                    state.change(change);
                    // What else is there already is taken in the same breath.
                    while let Ok(change) = changes.try_recv() {
                        state.change(change);
                    }
                }
                None => break,
            },
            read = finished(&mut reading) => {
                reading = None;
                match read {
                    Some((read, took)) => state.reading(read, took),
                    None => state.reading_broke_off(),
                }
            }
            () = sleep_until(read_at) => {
                read_at = Instant::now() + until(clock(), aligned(clock(), period).after(period));
                state.moment_came(reading.is_some());
            }
            () = maybe_sleep_until(judge_at), if judging.is_none() => {
                judge_at = None;
                let (job, judge) = (state.begin(clock()), judge.clone());
                let desk = desk.clone();
                judging = Some(tokio::spawn(async move { desk.run(move || judge(job)).await }));
            }
            done = finished(&mut judging) => {
                judging = None;
                if let Some(done) = done.flatten() {
                    let view = state.finish(done, clock());
                    let id = view.id;
                    published.view.store(view);
                    renewed = Some(id);
                } else {
                    tracing::error!("judging broke off; the view before stays in use");
                    state.broke_off();
                }
            }
            () = maybe_sleep_until(wake_at), if judging.is_none() && judge_at.is_none() => state.expired(),
            () = sleep_until(config_at) => {
                config_at = Instant::now() + settings.config_period;
                if let Some(file) = &mut config_file {
                    look_at(file, &config, &mut state);
                }
            }
        }
        if let Some(health) = state.take_health() {
            published.health.store(Arc::new(health));
        }
        // After both, so that whoever is woken finds the facts beside the view they are about.
        if let Some(id) = renewed.take() {
            published.renewed.send_replace(id);
        }
    }
    if let Some(reading) = reading {
        reading.abort();
    }
}

fn look_at(file: &mut ConfigFile, config: &ArcSwap<FeedConfig>, state: &mut State) {
    match file.poll() {
        Polled::Unchanged => return,
        Polled::Changed => {
            tracing::info!("the configuration file has changed and is in use");
            config.store(Arc::clone(&file.state().good));
            state.configured(&file.state().good);
        }
        Polled::Refused => {
            for problem in &file.state().problems {
                tracing::error!(%problem, "the configuration file has a problem; the last good one stays in use");
            }
        }
    }
    state.config_problems(file.state().problems.clone());
}

/// How long from `now` until `then`.
fn until(now: Timestamp, then: Timestamp) -> Duration {
    then.since(now)
}

async fn maybe_sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What a task came to, once there is one; nothing if it panicked.
async fn finished<T>(task: &mut Option<JoinHandle<T>>) -> Option<T> {
    match task {
        Some(task) => task.await.ok(),
        None => std::future::pending().await,
    }
}
