//! A pod that waits for a node is placed soon after the node has recovered, although nothing but a metric has changed.

use e2e::PATIENCE;
use e2e::tas::{Attached, Payload};
use testbed::wait::until;

use crate::TAS;

#[tokio::test]
async fn a_waiting_pod_is_placed_soon_after_a_node_has_recovered() {
    let attached = Attached::start(TAS, &["worker-a", "worker-b"], Payload::NamesOnly).await;
    let cool = "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {name: cool, namespace: default}\n\
        spec: {strategies: {dontschedule: {rules: [{metricname: heat, operator: GreaterThan, target: 8}]}}}\n";
    attached.policy(cool, "heat", &[("worker-a", 9.0), ("worker-b", 9.0)]).await;
    let waiting = "apiVersion: v1\nkind: Pod\nmetadata: {name: waiting, namespace: default, labels: {telemetry-policy: cool}}\n\
        spec:\n  containers:\n  - name: busybox\n    image: busybox\n    resources: {limits: {telemetry/scheduling: 1}}\n";
    attached.cluster.apply(waiting).await.expect("the pod is accepted");
    attached.refusal("waiting").await;
    // Without a kick the scheduler would look again after five minutes, which is longer than we wait.
    attached.cluster.set_metric("node_heat", "worker-b", 1.0).await.expect("scraped");
    assert_eq!(attached.cluster.bound("default", "waiting", PATIENCE).await.expect("bound"), "worker-b");
    let annotation = "jsonpath={.metadata.annotations.telemetry-aware\\.github\\.io/pods-woken-at}";
    let woken = attached.cluster.kubectl(&["get", "node", "worker-b", "-o", annotation]).await.expect("read");
    assert!(!woken.is_empty(), "by the annotation");

    // Nobody waits any more, so nothing is written any more.
    until("no further kick", PATIENCE, || async {
        let now = async || attached.cluster.kubectl(&["get", "node", "worker-b", "-o", annotation]).await;
        let before = now().await.map_err(|error| error.to_string())?;
        let metrics = attached.metrics().await?;
        let plans = |metrics: &str| -> u64 {
            let line = metrics.lines().find_map(|line| line.strip_prefix("tas_controller_plans_total "));
            line.and_then(|count| count.parse().ok()).unwrap_or_default()
        };
        let made = plans(&metrics);
        until("five more plans", PATIENCE, || async {
            if plans(&attached.metrics().await?) >= made + 5 { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await
        .map_err(|error| error.to_string())?;
        if now().await.map_err(|error| error.to_string())? == before {
            Ok(())
        } else {
            Err("kicked".to_owned())
        }
    })
    .await
    .expect("quiet");
}
