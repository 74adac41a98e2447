//! What the end-to-end tests share: how long they wait, clusters of a usual shape, and what they do to them.

pub mod caller;
pub mod documents;
pub mod manifests;
pub mod prometheus;
pub mod relay;
pub mod rights;
pub mod tas;

use std::time::Duration;

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
pub async fn started(options: Options) -> Cluster {
    match Cluster::start(options).await {
        Ok(cluster) => cluster,
        Err(error) => panic!("the cluster did not start: {error}"),
    }
}
