//! A pod that waits for a node is placed soon after the node has recovered, although nothing but a metric has changed.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::PATIENCE;
use e2e::enforcing::counted;
use e2e::manifests::{pod, policy};
use e2e::tas::{Attached, Payload};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use testbed::objects::NodeShape;
use testbed::tas::Settings;
use testbed::wait::until;

use crate::TAS;

/// How often `tas` reads metrics here: so seldom that how busy the machine is hardly counts beside it.
const PERIOD: Duration = Duration::from_secs(10);

/// When a pod was bound, by the API server's clock, in whole seconds since 1970.
async fn bound_at(attached: &Attached, name: &str) -> i64 {
    let pods: Api<Pod> = Api::namespaced(attached.cluster.client(), "default");
    let status = pods.get(name).await.expect("it is there").status.expect("it has a status");
    let conditions = status.conditions.unwrap_or_default();
    let bound = conditions.into_iter().find(|seen| seen.type_ == "PodScheduled" && seen.status == "True");
    bound.and_then(|condition| condition.last_transition_time).expect("a time").0.as_second()
}

#[tokio::test]
async fn a_waiting_pod_is_placed_within_two_sync_periods_of_a_recovery() {
    let nodes = ["worker-a", "worker-b"].map(NodeShape::new).into();
    let period = format!("{}s", PERIOD.as_secs());
    let settings = Settings { arguments: vec!["--sync-period".to_owned(), period], ..Settings::default() };
    let attached = Attached::with(TAS, nodes, Payload::NamesOnly, &settings).await;
    let cluster = &attached.cluster;
    let cool = policy("cool", "dontschedule", "metricname: heat, operator: GreaterThan, target: 8");
    attached.policy(&cool, "heat", &[("worker-a", 9.0), ("worker-b", 9.0)]).await;
    cluster.apply(&pod("waiting", "cool")).await.expect("the pod is accepted");
    attached.refusal("waiting").await;

    // Without a kick the scheduler would look again after five minutes, which is longer than we wait.
    let recovered = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    cluster.exporter().expect("there is one").set("node_heat", "worker-b", 1.0);
    assert_eq!(cluster.bound("default", "waiting", PATIENCE).await.expect("bound"), "worker-b");
    let after = bound_at(&attached, "waiting").await - i64::try_from(recovered.as_secs()).expect("a date");
    let longest = i64::try_from(2 * PERIOD.as_secs()).expect("a few seconds");
    assert!(after <= longest, "bound {after} s after the value changed");
    let annotation = "jsonpath={.metadata.annotations.telemetry-aware\\.github\\.io/pods-woken-at}";
    let woken = async || cluster.kubectl(&["get", "node", "worker-b", "-o", annotation]).await;
    assert!(!woken().await.expect("read").is_empty(), "by the annotation");

    // Nobody waits any more, so nothing is written any more.
    let plans = async || counted(&attached.tas, "tas_controller_plans_total").await;
    until("no further kick", PATIENCE, || async {
        let (before, made) = (woken().await.map_err(|error| error.to_string())?, plans().await);
        until("two more plans", PATIENCE, || async {
            if plans().await >= made + 2.0 { Ok(()) } else { Err("not yet") }
        })
        .await
        .map_err(|error| error.to_string())?;
        let after = woken().await.map_err(|error| error.to_string())?;
        if after == before { Ok(()) } else { Err("kicked".to_owned()) }
    })
    .await
    .expect("quiet");
}
