//! What tests do in a cluster: nodes, pods, manifests, metrics, and looking at what became of them.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams, PostParams};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{Cluster, ClusterError};
use crate::http::{self, Series};
use crate::objects::NodeShape;
use crate::places::FileTrouble;
use crate::processes::{bound, spawn};
use crate::programs;
use crate::wait::until;

/// How many creations are under way at once.
const AT_ONCE: usize = 32;

impl Cluster {
    /// Creates nodes and waits until every one is ready and may be scheduled on.
    pub async fn create_nodes(&self, nodes: &[NodeShape]) -> Result<(), ClusterError> {
        let room = Arc::new(Semaphore::new(AT_ONCE));
        let mut creations = JoinSet::new();
        for (index, shape) in nodes.iter().enumerate() {
            let api: Api<Node> = Api::all(self.client());
            let node = shape.object(index);
            let room = Arc::clone(&room);
            creations.spawn(async move {
                let _place = room.acquire().await;
                api.create(&PostParams::default(), &node).await.map(drop)
            });
        }
        while let Some(created) = creations.join_next().await {
            created.map_err(|_| ClusterError::Cancelled)??;
        }
        let api: Api<Node> = Api::all(self.client());
        // Ready is played by KWOK, the taint is removed by the controllers: a few hundred nodes in a second.
        let limit = Duration::from_secs(60 + nodes.len() as u64 / 20);
        until(format!("{} nodes to be ready", nodes.len()), limit, || async {
            let listed = api.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
            let fit = listed.items.iter().filter(|node| is_schedulable(node)).count();
            let missing = nodes.iter().find(|shape| {
                !listed.items.iter().any(|node| {
                    node.metadata.name.as_deref() == Some(shape.name.as_str()) && is_schedulable(node)
                })
            });
            match missing {
                None => Ok(()),
                Some(shape) => Err(format!("{fit} ready, {} not among them", shape.name)),
            }
        })
        .await?;
        Ok(())
    }

    /// Runs `kubectl` with all rights and returns what it prints.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String, ClusterError> {
        self.kubectl_as(&self.admin_kubeconfig(), arguments).await
    }

    /// Runs `kubectl` as the user of a kubeconfig; a failure carries what it said.
    pub async fn kubectl_as(&self, kubeconfig: &Path, arguments: &[&str]) -> Result<String, ClusterError> {
        let mut command = bound(self.binaries().path(&programs::kubectl(self.options.kubernetes)));
        command.arg("--kubeconfig").arg(kubeconfig);
        command.arg("--cache-dir").arg(self.directory().join("data/kubectl"));
        command
            .args(["--request-timeout", "60s"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let shown = arguments.join(" ");
        let run = tokio::task::spawn_blocking(move || {
            let child = spawn(command).map_err(|error| error.to_string())?;
            let output = child.wait_with_output().map_err(|error| error.to_string())?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
        });
        let result = run.await.map_err(|_| ClusterError::Cancelled)?;
        result.map_err(|output| ClusterError::Kubectl { arguments: shown, output: output.trim().to_owned() })
    }

    /// Applies manifests as a person would: `kubectl apply --server-side`.
    pub async fn apply(&self, manifests: &str) -> Result<String, ClusterError> {
        let file = tempfile_in(&self.directory().join("data"), manifests)?;
        let path = file.display().to_string();
        let applied = self.kubectl(&["apply", "--server-side", "-f", &path]).await;
        let _ = std::fs::remove_file(&file);
        applied
    }

    /// Creates a pod and returns it as the API server stored it.
    pub async fn create_pod(&self, namespace: &str, pod: &Pod) -> Result<Pod, ClusterError> {
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        Ok(pods.create(&PostParams::default(), pod).await?)
    }

    /// Waits until a pod is bound and returns the node's name; a timeout shows why the scheduler did not bind it.
    pub async fn bound(&self, namespace: &str, pod: &str, limit: Duration) -> Result<String, ClusterError> {
        let pods: Api<Pod> = Api::namespaced(self.client(), namespace);
        let node = until(format!("pod {namespace}/{pod} to be bound"), limit, || async {
            let found = pods.get(pod).await.map_err(|error| error.to_string())?;
            match found.spec.and_then(|spec| spec.node_name) {
                Some(node) => Ok(node),
                None => Err(match found.status.and_then(|status| status.conditions) {
                    Some(conditions) => conditions
                        .iter()
                        .map(|seen| {
                            let text = seen.message.as_deref().unwrap_or_default();
                            format!("{}={} {text}", seen.type_, seen.status)
                        })
                        .collect::<Vec<_>>()
                        .join("; "),
                    None => "not looked at by any scheduler".to_owned(),
                }),
            }
        });
        Ok(node.await?)
    }

    /// The events about one object, oldest first.
    pub async fn events(&self, namespace: &str, object: &str) -> Result<Vec<Event>, ClusterError> {
        let events: Api<Event> = Api::namespaced(self.client(), namespace);
        let about = ListParams::default().fields(&format!("involvedObject.name={object}"));
        let mut found = events.list(&about).await?.items;
        found.sort_by(|one, other| one.metadata.creation_timestamp.cmp(&other.metadata.creation_timestamp));
        Ok(found)
    }

    /// Evaluates a PromQL expression in the cluster's Prometheus.
    pub async fn query(&self, expression: &str) -> Result<Vec<Series>, ClusterError> {
        self.exporter()?;
        Ok(http::query(&self.layout().prometheus_url(), expression).await?)
    }

    /// Sets `metric{node="NODE"}` and waits until Prometheus has it.
    pub async fn set_metric(&self, metric: &str, node: &str, value: f64) -> Result<(), ClusterError> {
        self.exporter()?.set(metric, node, value);
        let expression = format!("{metric}{{node={node:?}}}");
        until(
            format!("Prometheus to have {metric} of {node} at {value}"),
            Duration::from_mins(1),
            || async {
                let found = self.query(&expression).await.map_err(|error| error.to_string())?;
                match found.as_slice() {
                    [series] if series.value.1.parse() == Ok(value) => Ok(()),
                    [series] => Err(series.value.1.clone()),
                    other => Err(format!("{} series", other.len())),
                }
            },
        )
        .await?;
        Ok(())
    }
}

/// Ready, and past the taint that every new node carries until the controllers have seen it ready.
fn is_schedulable(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_deref()).unwrap_or_default();
    ready && !taints.iter().any(|taint| taint.key == "node.kubernetes.io/not-ready")
}

fn tempfile_in(directory: &Path, text: &str) -> Result<std::path::PathBuf, FileTrouble> {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let path = directory.join(format!("manifests-{}.yaml", NEXT.fetch_add(1, Ordering::Relaxed)));
    std::fs::write(&path, text).map_err(|cause| FileTrouble::new("write", &path, cause))?;
    Ok(path)
}
