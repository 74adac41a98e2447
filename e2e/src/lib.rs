//! What the end-to-end tests share: how long they wait, clusters of a usual shape, and what they do to them.

pub mod agreement;
pub mod caller;
pub mod documents;
pub mod enforcing;
pub mod manifests;
pub mod prometheus;
pub mod recorded;
pub mod relay;
pub mod rights;
pub mod tas;

use std::time::Duration;

use testbed::programs::Kubernetes;
use testbed::{Cluster, Options, Telemetry, objects};

/// Longer than anything takes on a busy machine; waiting ends as soon as the awaited thing happens.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A cluster with this many nodes and no Prometheus.
pub async fn cluster_of(nodes: usize) -> Cluster {
    let nodes = objects::nodes("node", nodes);
    let options = Options { nodes, telemetry: Telemetry::Absent, ..Options::default() };
    started(options).await
}

/// The cluster, or the end of the test with everything that is known about why not.
#[expect(
    clippy::panic,
    reason = "a test without its cluster has nothing to say, and Display reads better than Debug"
)]
pub async fn started(mut options: Options) -> Cluster {
    options.kubernetes = chosen_kubernetes();
    match Cluster::start(options).await {
        Ok(cluster) => cluster,
        Err(error) => panic!("the cluster did not start: {error}"),
    }
}

/// The Kubernetes minor that `cargo xtask test --kubernetes` chose, or the usual one.
fn chosen_kubernetes() -> Kubernetes {
    match std::env::var("TAS_E2E_KUBERNETES") {
        Ok(minor) => minor.parse().expect("a minor that is pinned"),
        Err(_) => Kubernetes::default(),
    }
}
