//! `tas serve` without the extender, as any number of replicas: what stands on nodes, and who wrote it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use testbed::audit::Request;
use testbed::tas::{Installation, Replica, Settings};
use testbed::wait::until;
use testbed::{Cluster, Options, http, objects::NodeShape};

use crate::{PATIENCE, started};

/// Who `tas` is to the API server.
pub const ACCOUNT: &str = "system:serviceaccount:tas-system:tas-serve";

/// A cluster in which `tas` labels and taints, under its generated rights.
pub struct Enforcing {
    /// The cluster.
    pub cluster: Cluster,
    installation: Installation,
    binary: String,
}

impl Enforcing {
    /// A cluster of these nodes in which no replica runs yet.
    pub async fn prepare(binary: &str, options: Options) -> Self {
        let cluster = started(options).await;
        let installation = Installation::new(&cluster).await.expect("tas is installed");
        Self { cluster, installation, binary: binary.to_owned() }
    }

    /// The same with one replica.
    pub async fn start(binary: &str, nodes: &[&str], more: &[&str]) -> (Self, Replica) {
        let nodes = nodes.iter().map(|name| NodeShape::new(*name)).collect();
        let enforcing = Self::prepare(binary, Options { nodes, ..Options::default() }).await;
        let replica = enforcing.replica("tas", more).await;
        (enforcing, replica)
    }

    /// Starts a replica and waits until it is ready.
    pub async fn replica(&self, name: &str, more: &[&str]) -> Replica {
        let ours = ["--components", "controller", "--replica", name];
        let arguments = ours.iter().chain(more).map(|&argument| argument.to_owned()).collect();
        let settings = Settings { arguments, ..Settings::default() };
        let started = self.installation.start(&self.cluster, name, Path::new(&self.binary), &settings);
        let replica = started.expect("tas starts");
        replica.ready(&self.cluster).await.expect("tas becomes ready");
        replica
    }

    /// Sets a metric of many nodes at once.
    pub fn set(&self, metric: &str, values: &[(&str, f64)]) {
        let exporter = self.cluster.exporter().expect("there is telemetry");
        for (node, value) in values {
            exporter.set(metric, node, *value);
        }
    }

    /// The labels of all nodes that a policy of this name could have brought: `node: key=value`.
    pub async fn marks(&self, policy: &str) -> BTreeSet<String> {
        marks(&self.cluster, policy).await
    }

    /// Waits until the policy's labels are these, and nothing else.
    pub async fn marked(&self, policy: &str, wanted: &[&str]) {
        marked(&self.cluster, policy, wanted).await;
    }

    /// Waits until a condition of a policy has this reason.
    pub async fn condition(&self, policy: &str, condition: &str, reason: &str) {
        let path = format!("jsonpath={{.status.conditions[?(@.type==\"{condition}\")].reason}}");
        until(&format!("{condition} of {policy} to be {reason}"), PATIENCE, || async {
            let found = self.cluster.kubectl(&["get", "taspolicy", policy, "-o", &path]).await;
            match found {
                Ok(found) if found == reason => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await
        .expect("the status says so");
    }

    /// Everything that `tas` has changed so far: verb and resource.
    pub fn writes(&self) -> Vec<Request> {
        let log = self.cluster.audit().expect("the log is readable");
        let reads = ["get", "list", "watch"];
        log.into_iter()
            .filter(|request| request.user.username == ACCOUNT && !reads.contains(&request.verb.as_str()))
            .collect()
    }
}

/// The labels of all nodes that a policy of this name could have brought: `node: key=value`.
pub async fn marks(cluster: &Cluster, policy: &str) -> BTreeSet<String> {
    let template = "jsonpath={range .items[*]}{.metadata.name}{\"\\t\"}{.metadata.labels}{\"\\n\"}{end}";
    let listed = cluster.kubectl(&["get", "nodes", "-o", template]).await.expect("nodes are listed");
    let prefix = format!("telemetry.aware.scheduling.{policy}/");
    let mut marks = BTreeSet::new();
    for line in listed.lines() {
        let (node, labels) = line.split_once('\t').expect("a name and labels");
        let labels: BTreeMap<String, String> = serde_json::from_str(labels).unwrap_or_default();
        for (key, value) in labels {
            if key == policy {
                marks.insert(format!("{node}: {value}"));
            } else if let Some(key) = key.strip_prefix(&prefix) {
                marks.insert(format!("{node}: {key}={value}"));
            }
        }
    }
    marks
}

/// Waits until the policy's labels are these, and nothing else.
pub async fn marked(cluster: &Cluster, policy: &str, wanted: &[&str]) {
    let wanted: BTreeSet<String> = wanted.iter().map(|&mark| mark.to_owned()).collect();
    until(&format!("the labels of {policy} to be {wanted:?}"), PATIENCE, || async {
        let found = marks(cluster, policy).await;
        if found == wanted { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
    .expect("labelled");
}

/// A count on `/metrics`; nothing counted if nobody answers.
pub async fn counted(replica: &Replica, series: &str) -> f64 {
    replica.value(series).await.ok().flatten().unwrap_or_default()
}

/// Whether a replica leads.
pub async fn leads(replica: &Replica) -> bool {
    counted(replica, "tas_controller_leader").await > 0.5
}

/// What `/readyz?verbose` says.
pub async fn words(replica: &Replica) -> String {
    let answer = http::get(&format!("{}/readyz?verbose", replica.admin)).await;
    answer.map(|body| String::from_utf8_lossy(&body).into_owned()).unwrap_or_default()
}
