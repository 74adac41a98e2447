//! The controller on a stage: a view that the test makes, watches that the test plays, an API server in memory, and
//! virtual time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

pub(crate) mod api_server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use api::keys::LEASE;
use chassis::shutdown::{self, Phase, Trigger};
use cluster::events::Events;
use cluster::lease::{self, Election, Leadership, Moment};
use engine::fixtures::{Scene, at};
use engine::plan::Settings;
use engine::policy::Policy;
use engine::time::Timestamp;
use feed::health::WatchHealth;
use feed::watches::Sighting;
use feed::world::{Delta, ObjectKey, PolicyFacts, Watched};
use feed::{Health, Published};
use serde_json::{Value, json};
use server::controller::{self, Controller, Pause, Tally};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use api_server::{ApiServer, Asked};

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const POLICIES: &str = "/apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies";

/// See the module.
pub(crate) struct Stage {
    pub(crate) server: ApiServer,
    /// Where events go.
    pub(crate) events: ApiServer,
    pub(crate) scene: Scene,
    pub(crate) tally: Arc<Tally>,
    pub(crate) leadership: Leadership,
    pub(crate) pause: watch::Sender<Pause>,
    published: Published,
    sightings: mpsc::Sender<Sighting>,
    /// How far the clock on the wall was set forward, in seconds.
    pub(crate) ahead: Arc<AtomicU64>,
    begun: Instant,
    trigger: Trigger,
    running: JoinHandle<()>,
    generations: BTreeMap<String, i64>,
    /// Policies that nobody understands.
    pub(crate) unreadable: Vec<String>,
    /// What is wrong with the installed definition.
    pub(crate) definition: Option<String>,
}

/// A node as the API server holds it.
pub(crate) fn node(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

impl Stage {
    /// A controller that leads a cluster of these nodes and policies; the policies' objects are stored too.
    pub(crate) async fn new(server: ApiServer, nodes: &[&str], policies: Vec<Policy>) -> Self {
        Self::with(server, nodes, policies, Settings::default()).await
    }

    pub(crate) async fn with(
        server: ApiServer,
        nodes: &[&str],
        policies: Vec<Policy>,
        settings: Settings,
    ) -> Self {
        let mut stage = Self::unlisted(server, nodes, policies, settings).await;
        stage.list().await;
        stage
    }

    /// The same before its watches have listed anything.
    pub(crate) async fn unlisted(
        server: ApiServer,
        nodes: &[&str],
        policies: Vec<Policy>,
        settings: Settings,
    ) -> Self {
        let ahead = Arc::new(AtomicU64::new(0));
        let (begun, set) = (Instant::now(), Arc::clone(&ahead));
        let moment = move || Moment {
            monotonic: Instant::now(),
            wall: SystemTime::UNIX_EPOCH
                + Duration::from_secs(1_700_000_000)
                + begun.elapsed()
                + Duration::from_secs(set.load(Ordering::Relaxed)),
        };
        let clock = {
            let moment = moment.clone();
            move || {
                let since = moment().wall.duration_since(SystemTime::UNIX_EPOCH).unwrap();
                Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
            }
        };
        let election = Election {
            client: server.client(),
            namespace: "tas-system".to_owned(),
            name: LEASE.to_owned(),
            me: "me".to_owned(),
            clock: Arc::new(moment),
        };
        let (done, ended) = oneshot::channel::<()>();
        let (leadership, standing) = lease::run(election, async {
            let _ = ended.await;
        });
        tokio::spawn(standing);
        let told = ApiServer::default();
        let (events, sending) = Events::new(told.client(), None);
        tokio::spawn(sending);
        let (trigger, shutdown) = shutdown::channel();
        let (sightings, seen) = mpsc::channel(64);
        let (pause, paused) = watch::channel(Pause::of(None));
        let published = Published::default();
        let tally = Arc::new(Tally::default());
        let controller = Controller {
            client: server.client(),
            leadership: leadership.clone(),
            published: published.clone(),
            sightings: seen,
            pause: paused,
            settings,
            events,
            tally: Arc::clone(&tally),
            clock: Arc::new(clock),
        };
        let running = tokio::spawn(async move {
            controller::run(controller, shutdown).await;
            let _ = done.send(());
        });
        let scene = Scene::new(nodes, policies);
        for name in nodes {
            let path = format!("{NODES}/{name}");
            if server.get(&path).is_null() {
                server.put(&path, node(name));
            }
        }
        let mut stage = Self {
            server,
            events: told,
            scene,
            tally,
            leadership,
            pause,
            published,
            sightings,
            ahead,
            begun,
            trigger,
            running,
            generations: BTreeMap::new(),
            unreadable: Vec::new(),
            definition: None,
        };
        stage.leadership.begins().await;
        for policy in stage.scene.inputs.policies.clone() {
            let name = policy.name.name().to_owned();
            stage.generations.insert(name.clone(), 1);
            let path = format!("{POLICIES}/{name}");
            if stage.server.get(&path).is_null() {
                stage.server.put(&path, stage.policy_object(&name, &json!({})));
            }
        }
        stage
    }

    fn policy_object(&self, name: &str, status: &Value) -> Value {
        json!({"metadata": {"name": name, "namespace": "default", "generation": self.generations[name]}, "spec": {"strategies": {}}, "status": status})
    }

    /// Seconds since the beginning, as samples are stamped.
    pub(crate) fn now(&self) -> Timestamp {
        at(i64::try_from(self.begun.elapsed().as_secs() + self.ahead.load(Ordering::Relaxed)).unwrap())
    }

    /// Plays what a first list brings.
    pub(crate) async fn list(&mut self) {
        self.list_nodes().await;
        let policies: Vec<Value> =
            self.generations.keys().map(|name| self.server.get(&format!("{POLICIES}/{name}"))).collect();
        self.see(Sighting::Policies(Delta::Replaced(policies.into_iter().map(read).collect()))).await;
        self.see(Sighting::Pods(Delta::Replaced(Vec::new()))).await;
    }

    /// Plays what the first list of nodes brings.
    pub(crate) async fn list_nodes(&self) {
        let nodes: Vec<Value> = self
            .scene
            .inputs
            .nodes
            .names()
            .iter()
            .map(|name| self.server.get(&format!("{NODES}/{name}")))
            .collect();
        self.see(Sighting::Nodes(Delta::Replaced(nodes.into_iter().map(read).collect()))).await;
    }

    /// Plays the watch: a node as the API server holds it now.
    pub(crate) async fn see_node(&self, name: &str) {
        let stored = self.server.get(&format!("{NODES}/{name}"));
        let sighting = if stored.is_null() {
            Delta::Deleted(ObjectKey::new("", name))
        } else {
            Delta::Applied(read(stored))
        };
        self.see(Sighting::Nodes(sighting)).await;
    }

    pub(crate) async fn see(&self, sighting: Sighting) {
        self.sightings.send(sighting).await.unwrap();
    }

    /// Brings in a new policy, as its watch would tell.
    pub(crate) async fn create(&mut self, new: Policy) {
        self.generations.insert(new.name.name().to_owned(), 0);
        self.edit(new).await;
    }

    /// Replaces a policy by an edited one, as its watch would tell.
    pub(crate) async fn edit(&mut self, edited: Policy) {
        let name = edited.name.name().to_owned();
        *self.generations.get_mut(&name).unwrap() += 1;
        let path = format!("{POLICIES}/{name}");
        let status = self.server.get(&path)["status"].clone();
        let stored = self.server.put(&path, self.policy_object(&name, &status));
        self.scene.inputs.policies.retain(|policy| policy.name != edited.name);
        self.scene.inputs.policies.push(Arc::new(edited));
        self.see(Sighting::Policies(Delta::Applied(read(stored)))).await;
    }

    /// Deletes a policy, as its watch would tell.
    pub(crate) async fn delete_policy(&mut self, name: &str) {
        self.generations.remove(name);
        self.server.delete(&format!("{POLICIES}/{name}"));
        self.scene.inputs.policies.retain(|policy| policy.name.name() != name);
        self.see(Sighting::Policies(Delta::Deleted(ObjectKey::new("default", name)))).await;
    }

    /// Publishes a view with these samples of the metric `power`.
    pub(crate) fn samples(&mut self, values: &[(&str, &str)]) {
        let now = self.now();
        for (node, value) in values {
            self.scene.sample(node, "power", value, now);
        }
        self.scene.advance(now);
        self.facts();
        let view = self.scene.view.clone();
        let id = view.id;
        self.published.view.store(Arc::new(view));
        self.published.renewed.send_replace(id);
    }

    /// Publishes what is known of the policies, which may be ahead of the view.
    pub(crate) fn facts(&self) {
        let synced = WatchHealth { synced: true, ..WatchHealth::default() };
        let mut health = Health {
            watches: Watched::ALL.into_iter().map(|watched| (watched, synced.clone())).collect(),
            definition: self.definition.clone(),
            ..Health::default()
        };
        health.reading.attempts = 1;
        (health.judging.views, health.judging.after_reading) = (1, true);
        for policy in &self.scene.inputs.policies {
            let key = ObjectKey::new("default", policy.name.name());
            let generation = self.generations[policy.name.name()];
            let facts = PolicyFacts {
                key: key.clone(),
                generation,
                policy: Some(Arc::clone(policy)),
                problems: vec![],
                unreadable: None,
            };
            health.policies.insert(key, facts);
        }
        for name in &self.unreadable {
            let key = ObjectKey::new("default", name);
            let unreadable = Some("no such strategy".to_owned());
            let facts =
                PolicyFacts { key: key.clone(), generation: 0, policy: None, problems: vec![], unreadable };
            health.policies.insert(key, facts);
        }
        self.published.health.store(Arc::new(health));
    }

    /// Lets so much time pass, in which everything that is due happens; tells what was asked for.
    pub(crate) async fn pass(&self, time: Duration) -> Vec<Asked> {
        tokio::time::sleep(time).await;
        self.server.asked()
    }

    /// The same, in short: what was done to nodes.
    pub(crate) async fn on_nodes(&self, time: Duration) -> Vec<String> {
        self.pass(time).await.iter().filter_map(in_short).collect()
    }

    /// Asks the controller to leave, and waits until it has.
    pub(crate) async fn leave(self) {
        self.trigger.advance(Phase::Leaving);
        self.running.await.unwrap();
    }
}

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

/// `n1: labels {…}`, for changes of nodes.
fn in_short(asked: &Asked) -> Option<String> {
    let (path, query) = asked.said.strip_prefix(&format!("PATCH {NODES}/"))?.split_once('?')?;
    let metadata = &asked.sent["metadata"];
    let what = if query.starts_with("fieldManager=tas&force=") {
        let force = if query.ends_with("true") { " by force" } else { "" };
        format!("labels{force} {}", metadata["labels"])
    } else if query == "fieldManager=tas-kick" {
        "kick".to_owned()
    } else {
        format!("off {} taints {}", metadata["labels"], asked.sent["spec"]["taints"])
    };
    Some(format!("{path}: {what}"))
}
