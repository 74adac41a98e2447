//! A cluster whose scheduler asks `tas`, and what tests do with the two.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use api::scheduler::HTTP_TIMEOUT;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use testbed::tas::{Installation, Replica, Settings};
use testbed::wait::until;
use testbed::{Cluster, Options, Scheduler, objects::NodeShape};

pub use testbed::tas::Payload;

use crate::{PATIENCE, started};

/// A cluster whose scheduler asks `tas`.
pub struct Attached {
    /// The cluster.
    pub cluster: Cluster,
    /// The `tas` that the scheduler asks.
    pub tas: Replica,
    /// What it was installed with.
    pub installation: Installation,
    binary: String,
}

impl Attached {
    /// Starts a cluster of these nodes and attaches `binary`, which is `tas`.
    pub async fn start(binary: &str, nodes: &[&str], payload: Payload) -> Self {
        let nodes = nodes.iter().map(|name| NodeShape::new(*name)).collect();
        Self::with(binary, nodes, payload, &Settings::default()).await
    }

    /// The same with nodes of any shape, and `tas` as the settings say.
    pub async fn with(binary: &str, nodes: Vec<NodeShape>, payload: Payload, settings: &Settings) -> Self {
        Self::to(binary, Options { nodes, ..Options::default() }, payload, settings).await
    }

    /// The same in a cluster of any kind; what the options say of schedulers does not count.
    pub async fn to(binary: &str, options: Options, payload: Payload, settings: &Settings) -> Self {
        // The scheduler comes last, when it is known whom it asks.
        let cluster = started(Options { schedulers: Vec::new(), ..options }).await;
        let installation = Installation::new(&cluster).await.expect("tas is installed");
        let tas = installation.start(&cluster, "tas", Path::new(binary), settings).expect("tas starts");
        tas.ready(&cluster).await.expect("tas becomes ready");
        let scheduler = patient(installation.scheduler(payload, tas.port));
        cluster.start_scheduler(&scheduler).await.expect("the scheduler takes the configuration");
        Self { cluster, tas, installation, binary: binary.to_owned() }
    }

    /// With another `tas` in place of the first, started by other settings.
    pub async fn restarted(mut self, settings: &Settings) -> Self {
        self.tas.component.kill();
        let binary = Path::new(&self.binary);
        let started = self.installation.start(&self.cluster, "tas-again", binary, settings);
        self.tas = started.expect("tas starts");
        self.ready().await;
        self.scheduler_sends(Payload::NamesOnly, self.tas.port).await;
        self
    }

    /// One more `tas` beside the one that the scheduler asks, ready.
    pub async fn replica(&self, name: &str) -> Replica {
        let binary = Path::new(&self.binary);
        let started = self.installation.start(&self.cluster, name, binary, &Settings::default());
        let replica = started.expect("another tas starts");
        replica.ready(&self.cluster).await.expect("it becomes ready");
        replica
    }

    /// Makes the scheduler send this, and ask at this port, which may be one that leads to `tas` by a detour.
    pub async fn scheduler_sends(&self, payload: Payload, port: u16) {
        let scheduler = patient(self.installation.scheduler(payload, port));
        let taken = self.cluster.reconfigure_scheduler(&scheduler).await;
        taken.expect("the scheduler takes the configuration");
    }

    /// Makes the scheduler ask as documented, short deadline included.
    pub async fn scheduler_asks_as_documented(&self) {
        let scheduler = self.installation.scheduler(Payload::NamesOnly, self.tas.port);
        let taken = self.cluster.reconfigure_scheduler(&scheduler).await;
        taken.expect("the scheduler takes the configuration");
    }

    /// Waits until `tas` is ready.
    pub async fn ready(&self) {
        self.tas.ready(&self.cluster).await.expect("tas becomes ready");
    }

    /// What `/metrics` says now.
    pub async fn metrics(&self) -> Result<String, String> {
        self.tas.metrics().await
    }

    /// Waits until `/metrics` has this line.
    pub async fn says(&self, line: &str) {
        self.tas.says(line).await.expect("tas knows");
    }

    /// Waits until a series of `/metrics` is as wanted.
    pub async fn sees(&self, series: &str, wanted: impl Fn(f64) -> bool) {
        until(format!("{series} to be as wanted"), PATIENCE, || async {
            match self.tas.value(series).await? {
                Some(value) if wanted(value) => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
        .expect("tas sees it");
    }

    /// Sets a metric on these nodes and applies a policy that looks at it, then waits until `tas` has both.
    pub async fn policy(&self, policy: &str, metric: &str, values: &[(&str, f64)]) {
        self.set(metric, values).await;
        self.cluster.apply(policy).await.expect("the policy is accepted");
        self.says(&format!("tas_feed_metric_nodes{{metric=\"{metric}\"}} {:.1}", as_float(values.len())))
            .await;
    }

    /// Sets a metric on these nodes and waits until Prometheus has it.
    pub async fn set(&self, metric: &str, values: &[(&str, f64)]) {
        for (node, value) in values {
            self.cluster.set_metric(&format!("node_{metric}"), node, *value).await.expect("scraped");
        }
    }

    /// Waits until `tas` has read a sample of the metric that was taken from now on.
    pub async fn read(&self, metric: &str) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
        let series = format!("tas_feed_metric_newest_timestamp_seconds{{metric=\"{metric}\"}}");
        self.sees(&series, |newest| newest > now).await;
    }

    /// Where the pod of this manifest goes.
    pub async fn placed(&self, name: &str, manifest: &str) -> String {
        self.cluster.apply(manifest).await.expect("the pod is accepted");
        self.cluster.bound("default", name, PATIENCE).await.expect("it is bound")
    }

    /// Where the one pod of `default` with these labels goes.
    pub async fn node_of(&self, labels: &str) -> String {
        let pods: Api<Pod> = Api::namespaced(self.cluster.client(), "default");
        until(format!("the pod with {labels} to be bound"), PATIENCE, || async {
            let listed = pods.list(&ListParams::default().labels(labels)).await;
            let mut found = listed.map_err(|error| error.to_string())?.items;
            match (found.pop().and_then(|pod| pod.spec?.node_name), found.len()) {
                (Some(node), 0) => Ok(node),
                (node, more) => Err(format!("{node:?} and {more} more")),
            }
        })
        .await
        .expect("it is bound")
    }

    /// What the scheduler says about a pod that cannot be placed.
    pub async fn refusal(&self, pod: &str) -> String {
        until("the scheduler's event", PATIENCE, || async {
            let events = self.cluster.events("default", pod).await.map_err(|error| error.to_string())?;
            let failure =
                events.into_iter().find(|event| event.reason.as_deref() == Some("FailedScheduling"));
            failure.and_then(|event| event.message).ok_or_else(|| "no such event".to_owned())
        })
        .await
        .expect("the scheduler says why")
    }
}

/// The same with a long deadline: past the documented half a second pods are placed without us, and how busy the
/// machine is must not decide a test.
fn patient(mut scheduler: Scheduler) -> Scheduler {
    let short = format!("httpTimeout: {HTTP_TIMEOUT}");
    scheduler.configuration = scheduler.configuration.replace(&short, "httpTimeout: 30s");
    scheduler
}

fn as_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
