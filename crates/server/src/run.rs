//! Starts every part, keeps them together, and ends them in order.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use chassis::admin::{Admin, Health, Probe, ServerMetrics};
use chassis::args::Opened;
use chassis::body::Room;
use chassis::shutdown::{self, Phase, Shutdown, Signals};
use chassis::tls::{LOOK_EVERY, unix_now};
use chassis::{Counters, Drained, Exit, Listener};
use cluster::events::Events;
use engine::time::Timestamp;
use extender::Extender;
use feed::refresh::{Published, Refresher, Settings};
use feed::{CustomMetrics, MetricSource, Prometheus};
use prometheus_client::registry::Registry;
use tokio::sync::mpsc;

use crate::args::{Config, ServeArgs, Source};
use crate::enforcement::{self, Enforcement};
use crate::metrics::{EventMetrics, ExtenderMetrics, FeedMetrics};
use crate::notices;
use crate::scheduler_port::{Clock, SchedulerPort};

/// News that may wait between the watches and the refresher.
const WAITING_NEWS: usize = 1024;
/// Request bodies of so many requests at their limit may be held at once.
const BODIES_AT_ONCE: usize = 4;

/// Runs `tas serve` until it is asked to stop.
pub fn run(args: &ServeArgs) -> Exit {
    chassis::logs::init(args.logs());
    let config = match args.resolve() {
        Ok(config) => config,
        Err(refusal) => {
            for problem in &refusal.problems {
                tracing::error!("{problem}");
            }
            return refusal.exit;
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(%error, "the runtime cannot be started");
            return Exit::Failed;
        }
    };
    let exit = runtime.block_on(serve(config));
    // A name look-up under way cannot be called off, and nobody waits for it any more.
    runtime.shutdown_background();
    exit
}

/// What the watches and the metrics add up to, and how it goes.
async fn serve(config: Config) -> Exit {
    let signals = match Signals::install() {
        Ok(signals) => signals,
        Err(error) => {
            tracing::error!(%error, "signals cannot be listened to");
            return Exit::Failed;
        }
    };
    let opened = match &config.listening {
        None => None,
        Some(listening) => match listening.clone().open(unix_now()).await {
            Ok(opened) => Some(opened),
            Err(error) => {
                tracing::error!(%error, "the scheduler's port cannot be opened");
                return error.exit();
            }
        },
    };
    let admin = match Listener::bind(config.admin).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "the admin port cannot be opened");
            return Exit::Address;
        }
    };
    let client = match cluster::client(&config.kubeconfig, cluster::Deadlines::default()).await {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "there is no way to the API server");
            return Exit::Configuration;
        }
    };
    let (trigger, shutdown) = shutdown::channel();
    let delay = config.shutdown_delay;
    tokio::spawn(signals.drive(trigger, delay));

    let published = Published::default();
    let (news, changes) = mpsc::channel(WAITING_NEWS);
    let (events, sending) = Events::new(client.clone(), None);
    tokio::spawn(sending);
    let (enforcement, sightings) = match config.enforcement.clone() {
        None => (None, None),
        Some(enforcement) => {
            let start = enforcement::Start {
                client: client.clone(),
                config: enforcement,
                published: published.clone(),
                events: events.clone(),
                clock: Arc::new(wall_clock),
            };
            let (enforcement, sightings) = Enforcement::start(start, shutdown.clone());
            (Some(enforcement), Some(sightings))
        }
    };
    tokio::spawn(feed::watches::follow(client.clone(), config.defaults.clone(), news, sightings));
    let feed_config = Arc::new(ArcSwap::from(config.feed()));
    let parts = Parts { config, published, feed_config, changes, events, enforcement, shutdown };
    match parts.config.metrics {
        Source::Prometheus => {
            let source = Prometheus::new(Arc::clone(&parts.feed_config), parts.config.endpoint.clone());
            parts.serve(source, opened, admin).await
        }
        Source::Custom => {
            let source = CustomMetrics::new(client, feed::custom::CustomLimits::default());
            parts.serve(source, opened, admin).await
        }
    }
}

/// What is there before the source is chosen.
struct Parts {
    config: Config,
    published: Published,
    feed_config: Arc<ArcSwap<feed::config::FeedConfig>>,
    changes: mpsc::Receiver<feed::world::Change>,
    events: Events,
    enforcement: Option<Enforcement>,
    shutdown: Shutdown,
}

impl Parts {
    async fn serve<S: MetricSource>(self, source: S, opened: Option<Opened>, admin: Listener) -> Exit {
        let Self { mut config, published, feed_config, changes, events, mut enforcement, shutdown } = self;
        let refresher = Refresher {
            source: Arc::new(source),
            changes,
            config: feed_config,
            config_file: config.config_file.take(),
            settings: Settings { sync_period: config.sync_period, ..Settings::default() },
            published: published.clone(),
        };
        let stop = reached(shutdown.clone(), Phase::Draining);
        let mut refreshing = tokio::spawn(feed::run(refresher, wall_clock, stop));

        let extender = Arc::new(Extender::new(Arc::clone(&published.view), config.score_top));
        let telling =
            notices::tell(Arc::clone(&extender), published.clone(), events.clone(), shutdown.clone());
        tokio::spawn(telling);
        let counters = Arc::new(Counters::default());
        let admin_counters = Arc::new(Counters::default());
        let (listener, tls) = opened.map(|Opened { listener, tls }| (listener, tls)).unzip();
        let tls = tls.flatten();
        let mut health = Health::default().with_shutdown(shutdown.clone());
        let facts = Arc::clone(&published.health);
        health = health.with_words(Probe::Ready, "feed", move || {
            let facts = facts.load();
            match facts.unready() {
                reasons if reasons.is_empty() => Ok(facts.summary(wall_clock())),
                reasons => Err(reasons.join("; ")),
            }
        });
        let mut servers = ServerMetrics::default()
            .with("scheduler", Arc::clone(&counters))
            .with("admin", Arc::clone(&admin_counters));
        if let Some((live, reloader)) = tls {
            servers = servers.with_certificate("scheduler", Arc::clone(&live));
            health = health.with(Probe::Ready, "certificate", move || live.check(unix_now()));
            tokio::spawn(reloader.run(LOOK_EVERY, shutdown.clone()));
        }
        let mut registry = Registry::with_prefix("tas");
        registry.register_collector(Box::new(servers));
        registry.register_collector(Box::new(ExtenderMetrics::new(Arc::clone(&extender))));
        registry.register_collector(Box::new(FeedMetrics::new(published.health)));
        registry.register_collector(Box::new(EventMetrics::new(events)));

        if let Some(enforcement) = &enforcement {
            registry.register_collector(Box::new(enforcement.metrics()));
            let words = enforcement.words();
            health = health.with_words(Probe::Ready, "controller", move || Ok(words()));
        }
        if let Ok(admin) = admin.local_addr() {
            let scheduler = listener.as_ref().and_then(|listener| listener.local_addr().ok());
            let scheduler = scheduler.map(tracing::field::display);
            tracing::info!(scheduler, %admin, controller = enforcement.is_some(), metrics = ?config.metrics, sync_period = ?config.sync_period, "serving");
        }
        let limits = config.limits.clone();
        let admin_service = Admin::new(health, registry);
        let admin = chassis::serve(admin, admin_service, limits.clone(), admin_counters, shutdown.clone());
        let admin = tokio::spawn(admin);
        let room = Room::new(config.body.bytes.saturating_mul(BODIES_AT_ONCE));
        let port = SchedulerPort::new(extender, config.body, room, Arc::new(wall_clock) as Clock);
        let serving = async {
            let Some(listener) = listener else {
                reached(shutdown.clone(), Phase::Draining).await;
                return Drained { cut: 0 };
            };
            chassis::serve(listener, port, limits, counters, shutdown.clone()).await
        };
        let mut serving = std::pin::pin!(serving);
        let ending = async {
            match &mut enforcement {
                Some(enforcement) => enforcement.ended().await,
                None => reached(shutdown.clone(), Phase::Draining).await,
            }
        };
        let mut ending = std::pin::pin!(ending);
        let (mut feed_over, mut controller_over) = (false, false);
        let drained = loop {
            tokio::select! {
                drained = &mut serving => break drained,
                _ = &mut refreshing, if !feed_over => {
                    if shutdown.phase() < Phase::Draining {
                        // Without it verdicts expire one by one; whoever starts us again does better.
                        tracing::error!("the feed has ended by itself; stopping, so that we are started again");
                        return Exit::Lost;
                    }
                    feed_over = true;
                }
                () = &mut ending, if !controller_over => {
                    if shutdown.phase() < Phase::Leaving {
                        tracing::error!("the controller has ended by itself; stopping, so that we are started again");
                        return Exit::Lost;
                    }
                    controller_over = true;
                }
            }
        };
        let _ = admin.await;
        if !controller_over {
            ending.await;
        }
        tracing::info!(cut = drained.cut, "stopped");
        drained.into()
    }
}

async fn reached(mut shutdown: Shutdown, phase: Phase) {
    shutdown.reached(phase).await;
}

fn wall_clock() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
