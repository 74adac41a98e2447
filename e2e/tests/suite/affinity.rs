//! What pods do by the labels that stand on nodes: their own affinity keeps them away, and the stock descheduler evicts
//! those that are there already.

use e2e::PATIENCE;
use e2e::enforcing::Enforcing;
use e2e::manifests::policy;
use testbed::component::Start;
use testbed::objects::NodeShape;
use testbed::programs::DESCHEDULER;
use testbed::wait::until;
use testbed::{Cluster, Options};

use crate::TAS;

/// A workload that avoids nodes whose card is hot, as the document of Intel's labelling strategy has it.
fn workload(replicas: u32) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: cards, namespace: default}}\n\
         spec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{app: cards}}}}\n  template:\n    \
         metadata: {{labels: {{app: cards}}}}\n    spec:\n      containers:\n      - {{name: busybox, image: busybox}}\n      \
         affinity:\n        nodeAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n            \
         nodeSelectorTerms:\n            - matchExpressions:\n              \
         - {{key: telemetry.aware.scheduling.cards/card0, operator: NotIn, values: [\"true\"]}}\n"
    )
}

/// How many pods of the workload run on each node; those without one under an empty name.
async fn spread(cluster: &Cluster) -> Vec<(String, usize)> {
    let path = "jsonpath={range .items[*]}{.spec.nodeName}{\"\\n\"}{end}";
    let listed = cluster.kubectl(&["get", "pods", "-l", "app=cards", "-o", path]).await.unwrap_or_default();
    let mut counts = std::collections::BTreeMap::new();
    for node in listed.lines() {
        *counts.entry(node.to_owned()).or_default() += 1;
    }
    counts.into_iter().collect()
}

async fn spreads(cluster: &Cluster, wanted: impl Fn(&[(String, usize)]) -> bool) {
    until("the pods to be spread as wanted", PATIENCE, || async {
        let found = spread(cluster).await;
        if wanted(&found) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
    .expect("spread");
}

#[tokio::test]
async fn cards_that_go_hot_in_turn_keep_new_pods_away_and_then_all_of_them() {
    let (enforcing, _tas) = Enforcing::start(TAS, &["worker-a", "worker-b"], &[]).await;
    let cluster = &enforcing.cluster;
    enforcing.set("node_card0", &[("worker-a", 1.0), ("worker-b", 1.0)]);
    let rule = "metricname: card0, operator: GreaterThan, target: 100, labels: [card0=true]";
    cluster.apply(&policy("cards", "labeling", rule)).await.expect("accepted");
    cluster.apply(&workload(5)).await.expect("accepted");
    let on = |found: &[(String, usize)], node: &str| {
        found.iter().find(|(name, _)| name == node).map_or(0, |(_, n)| *n)
    };
    let total = |found: &[(String, usize)]| found.iter().map(|(_, n)| n).sum::<usize>();
    spreads(cluster, |found| on(found, "") == 0 && total(found) == 5).await;

    enforcing.set("node_card0", &[("worker-a", 101.0)]);
    enforcing.marked("cards", &["worker-a: card0=true"]).await;
    let before = on(&spread(cluster).await, "worker-a");
    cluster.apply(&workload(10)).await.expect("accepted");
    spreads(cluster, |found| on(found, "") == 0 && total(found) == 10 && on(found, "worker-a") == before)
        .await;

    enforcing.set("node_card0", &[("worker-b", 101.0)]);
    enforcing.marked("cards", &["worker-a: card0=true", "worker-b: card0=true"]).await;
    cluster.apply(&workload(15)).await.expect("accepted");
    spreads(cluster, |found| on(found, "") == 5 && total(found) == 15).await;

    // And when one cools down, the five that wait go there.
    enforcing.set("node_card0", &[("worker-a", 1.0)]);
    spreads(cluster, |found| on(found, "") == 0 && on(found, "worker-a") == before + 5).await;
}

/// The deschedule policy of the health-metric guide, and the file that the stock descheduler reads since 0.27.
const DESCHEDULER_POLICY: &str = "\
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: tas
  pluginConfig:
  - name: DefaultEvictor
    args: {nodeFit: true}
  - name: RemovePodsViolatingNodeAffinity
    args: {nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}
  plugins:
    deschedule: {enabled: [RemovePodsViolatingNodeAffinity]}
";

#[tokio::test]
async fn the_stock_descheduler_evicts_from_a_hot_node_and_the_pods_land_elsewhere() {
    let nodes = ["worker-a", "worker-b", "worker-c"].map(NodeShape::new).into();
    let options = Options { nodes, further_programs: vec![DESCHEDULER], ..Options::default() };
    let enforcing = Enforcing::prepare(TAS, options).await;
    let _tas = enforcing.replica("tas", &[]).await;
    let cluster = &enforcing.cluster;
    enforcing.set("node_memory_MemFree_bytes", &[("worker-a", 5e7), ("worker-b", 5e7), ("worker-c", 5e7)]);
    let rule = "metricname: memory_MemFree_bytes, operator: LessThan, target: 10000000";
    cluster.apply(&policy("demo-policy", "deschedule", rule)).await.expect("accepted");
    let deployment = workload(6)
        .replace("telemetry.aware.scheduling.cards/card0", "demo-policy")
        .replace("[\"true\"]", "[violating]");
    cluster.apply(&deployment).await.expect("accepted");
    let on = |found: &[(String, usize)], node: &str| {
        found.iter().find(|(name, _)| name == node).map_or(0, |(_, n)| *n)
    };
    spreads(cluster, |found| on(found, "worker-a") > 0 && found.iter().map(|(_, n)| n).sum::<usize>() == 6)
        .await;
    // Evicting a pod that does not run yet moves nothing.
    cluster.kubectl(&["rollout", "status", "deployment/cards", "--timeout=60s"]).await.expect("they run");

    enforcing.set("node_memory_MemFree_bytes", &[("worker-a", 5e6)]);
    enforcing.marked("demo-policy", &["worker-a: violating"]).await;
    let file = cluster.directory().join("descheduler.yaml");
    std::fs::write(&file, DESCHEDULER_POLICY).expect("written");
    let arguments = [
        "--policy-config-file".to_owned(),
        file.display().to_string(),
        "--kubeconfig".to_owned(),
        // By a name of its own, so that the audit log tells it from others.
        cluster.user("descheduler", Some("system:masters")).expect("a user").display().to_string(),
        "--descheduling-interval=2s".to_owned(),
        format!("--secure-port={}", cluster.port().expect("a port")),
    ];
    let binary = cluster.binaries().path(&DESCHEDULER).to_owned();
    let start = Start {
        name: "descheduler".to_owned(),
        binary,
        arguments: arguments.into(),
        environment: Vec::new(),
    };
    cluster.attach(start).expect("the descheduler starts");
    spreads(cluster, |found| {
        on(found, "worker-a") == 0 && on(found, "") == 0 && on(found, "worker-b") + on(found, "worker-c") == 6
    })
    .await;
    let evicted = cluster.audit().expect("readable");
    let evicted = evicted.iter().filter(|asked| {
        asked.user.username == "descheduler"
            && asked.object_ref.as_ref().is_some_and(|object| object.subresource == "eviction")
            && asked.response_status.as_ref().is_some_and(|status| status.code == 201)
    });
    assert!(evicted.count() >= 1, "and it was the descheduler who evicted");
}
