//! The whole loop around real tasks and threads: what readers see while things come in, hang or break.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::mpsc as blocking;
use std::time::Duration;

use arc_swap::ArcSwap;
use engine::fixtures::{at, key, metric, number, policy, rule};
use engine::names::NodeName;
use engine::policy::{Combine, Operator};
use engine::{Ruling, Sample, answer};
use feed::config::ConfigFile;
use feed::directory::NodeFacts;
use feed::refresh::{Job, run_with};
use feed::replay::Recorded;
use feed::world::{Change, Delta, ObjectKey, PolicyFacts};
use feed::{Published, Refresher, Replay, Settings};
use tokio::sync::mpsc;

fn recorded(node: &str, value: &str) -> Recorded {
    Recorded { metric: metric("power"), node: node.to_owned(), sample: Sample::new(number(value), at(-1)) }
}

fn hot() -> PolicyFacts {
    let policy = policy("p").dont_schedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")]);
    PolicyFacts {
        key: ObjectKey::new("default", "p"),
        generation: 1,
        policy: Some(Arc::new(policy)),
        problems: vec![],
        unreadable: None,
    }
}

fn node(name: &str) -> NodeFacts {
    NodeFacts { name: NodeName::new(name).unwrap(), addresses: vec![] }
}

struct Running {
    published: Published,
    changes: mpsc::Sender<Change>,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(
        config_file: Option<ConfigFile>,
        judge: impl Fn(Job) -> feed::refresh::Done + Clone + Send + 'static,
    ) -> Self {
        let (changes, receiver) = mpsc::channel(16);
        let published = Published::default();
        let config = config_file.as_ref().map(|file| (*file.state().good).clone()).unwrap_or_default();
        let refresher = Refresher {
            source: Arc::new(Replay::new([recorded("a", "31"), recorded("b", "29")])),
            changes: receiver,
            config: Arc::new(ArcSwap::from_pointee(config)),
            config_file,
            settings: Settings {
                sync_period: Duration::from_millis(20),
                config_period: Duration::from_millis(5),
                gather: Duration::from_millis(1),
            },
            published: published.clone(),
        };
        let task = tokio::spawn(run_with(refresher, || at(0), std::future::pending(), judge));
        Self { published, changes, task }
    }

    async fn list(&self) {
        for change in [
            Change::Nodes(Delta::Replaced(vec![node("a"), node("b")])),
            Change::Policies(Delta::Replaced(vec![hot()])),
            Change::Pods(Delta::Replaced(vec![])),
        ] {
            self.changes.send(change).await.unwrap();
        }
    }

    fn refused(&self) -> Vec<&'static str> {
        let view = self.published.view.load();
        let names = ["a", "b"];
        let answer = answer(&view, key("p"), &names, at(0));
        let pairs = answer.rulings.iter().zip(names);
        pairs.filter(|(ruling, _)| matches!(ruling, Ruling::Refused(_))).map(|(_, name)| name).collect()
    }

    /// Waits until something holds, up to a deadline far beyond what it takes.
    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
        while !holds(self) {
            assert!(tokio::time::Instant::now() < deadline, "{what}: {:?}", self.published.health.load());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

#[tokio::test]
async fn what_is_listed_and_read_is_published_and_makes_us_ready() {
    let running = Running::start(None, Job::run);
    assert!(!running.published.health.load().unready().is_empty());
    running.list().await;
    running.until("the hot node is refused", |running| running.refused() == ["a"]).await;
    running.until("ready", |running| running.published.health.load().unready().is_empty()).await;
    running.changes.send(Change::Nodes(Delta::Deleted(ObjectKey::new("", "a")))).await.unwrap();
    running.until("the node is gone", |running| running.published.view.load().nodes.len() == 1).await;
}

#[tokio::test]
async fn readers_are_answered_while_judging_takes_for_ever() {
    let (release, gate) = blocking::channel::<()>();
    let gate = Arc::new(std::sync::Mutex::new(gate));
    let (entered, begun) = blocking::channel::<()>();
    let running = Running::start(None, move |job| {
        let _ = entered.send(());
        let _ = gate.lock().unwrap().recv();
        job.run()
    });
    running.list().await;
    running.until("judging has begun", |_| begun.try_recv().is_ok()).await;
    // It hangs; news and readings are taken in all the same, and readers see the view before.
    running.changes.send(Change::Nodes(Delta::Applied(node("c")))).await.unwrap();
    running.until("readings go on", |running| running.published.health.load().reading.attempts >= 2).await;
    assert_eq!((running.refused(), running.published.health.load().judging.views), (vec![], 0));
    drop(release);
    running.until("the hot node is refused", |running| running.refused() == ["a"]).await;
    running
        .until("what came in meanwhile counts", |running| running.published.view.load().nodes.len() == 3)
        .await;
}

#[tokio::test]
async fn judging_that_panics_is_counted_and_tried_again() {
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let running = Running::start(None, move |job| {
        assert!(!first.swap(false, std::sync::atomic::Ordering::SeqCst), "the first time fails on purpose");
        job.run()
    });
    running.list().await;
    running.until("the hot node is refused", |running| running.refused() == ["a"]).await;
    assert_eq!(running.published.health.load().judging.panics, 1);
}

#[tokio::test]
async fn the_loop_ends_when_nobody_brings_news_any_more() {
    let running = Running::start(None, Job::run);
    drop(running.changes);
    tokio::time::timeout(Duration::from_secs(30), running.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_bad_edit_of_the_configuration_is_told_while_the_last_good_one_counts() {
    let path = std::env::temp_dir().join(format!("tas-feed-loop-{}", std::process::id()));
    std::fs::write(&path, "extraMetrics: [power]").unwrap();
    let running = Running::start(Some(ConfigFile::open(&path).unwrap()), Job::run);
    running.list().await;
    let problems = |running: &Running| running.published.health.load().config_problems.len();
    std::fs::write(&path, "extraMetric: [power]").unwrap();
    running.until("the problem is told", |running| problems(running) == 1).await;
    std::fs::write(&path, "extraMetrics: [power, heat]").unwrap();
    running
        .until("the new metric is asked for", |running| {
            problems(running) == 0 && running.published.health.load().metrics.contains_key(&metric("heat"))
        })
        .await;
    std::fs::remove_file(&path).unwrap();
}
