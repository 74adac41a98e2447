//! kube-scheduler asks `tas serve`, and pods go where policies say.

use e2e::manifests::{TASDEMO, plain_pod, pod, policy};
use e2e::tas::{Attached, Payload};

use crate::TAS;

const WORKERS: [&str; 3] = ["kind-worker", "kind-worker2", "kind-worker3"];

/// Filter 1 and 2, Prioritize, and the rounds of adding and deleting of Intel's own end-to-end suite.
async fn intels_suite(payload: Payload) {
    let attached = Attached::start(TAS, &WORKERS, payload).await;
    let values = |values: [f64; 3]| WORKERS.into_iter().zip(values).collect::<Vec<_>>();
    let prioritize =
        policy("prioritize1", "scheduleonmetric", "metricname: prioritize1_metric, operator: GreaterThan");
    attached.policy(&prioritize, "prioritize1_metric", &values([1000.0, 9999.0, 0.0])).await;
    assert_eq!(attached.placed("prioritized", &pod("prioritized", "prioritize1")).await, "kind-worker2");

    let filter1 =
        policy("filter1", "dontschedule", "metricname: filter1_metric, operator: LessThan, target: 20");
    let filter2 = policy("filter2", "dontschedule", "metricname: filter2_metric, operator: Equals");
    for round in 1..=6 {
        attached.policy(&filter1, "filter1_metric", &values([10.0, 20.0, 10.0])).await;
        let name = format!("filtered-{round}");
        assert_eq!(attached.placed(&name, &pod(&name, "filter1")).await, "kind-worker2");
        attached.policy(&filter2, "filter2_metric", &values([0.0, 0.0, 0.0])).await;
        let name = format!("waiting-{round}");
        attached.cluster.apply(&pod(&name, "filter2")).await.expect("the pod is accepted");
        let said = attached.refusal(&name).await;
        assert!(
            said.starts_with("0/3 nodes are available: 3 default/filter2: filter2_metric equal to 0."),
            "one reason that names the policy: {said}"
        );
        for policy in ["filter1", "filter2"] {
            attached.cluster.kubectl(&["delete", "taspolicy", policy]).await.expect("deleted");
        }
        attached.says("tas_feed_policies 1.0").await;
    }
}

#[tokio::test]
async fn intels_placements_come_out_the_same_by_names() {
    intels_suite(Payload::NamesOnly).await;
}

#[tokio::test]
async fn intels_placements_come_out_the_same_with_whole_nodes_and_its_documented_stanza() {
    intels_suite(Payload::FullNodes).await;
}

/// That document's manifest says GreaterThan 30 and its log shows LessThan 30; both are played.
async fn the_openshift_demo(attached: &Attached, nodes: [&str; 3]) {
    let metric = "collectd_package_0_power_power";
    let values: Vec<_> = nodes.into_iter().zip([32.592_849_848, 23.418_708_438, 20.168_518_989]).collect();
    let less = policy(
        "power-policy",
        "dontschedule",
        &format!("metricname: {metric}, operator: LessThan, target: 30"),
    );
    attached.policy(&less, metric, &values).await;
    assert_eq!(attached.placed("tasdemo", TASDEMO).await, nodes[0]);

    attached.cluster.kubectl(&["delete", "pod", "tasdemo", "--wait=true"]).await.expect("deleted");
    let greater = less.replace("LessThan", "GreaterThan");
    attached.cluster.kubectl(&["delete", "taspolicy", "power-policy"]).await.expect("deleted");
    attached.says("tas_feed_policies 0.0").await;
    attached.policy(&greater, metric, &values).await;
    assert_ne!(attached.placed("tasdemo", TASDEMO).await, nodes[0]);
}

/// The policy of the article of 2020, word for word; its rule for evictions stands in it and must not be in the way.
const MEMORY: &str = "\
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata:
  name: demo-policy
  namespace: default
spec:
  strategies:
    deschedule:
      rules:
      - metricname: memory_MemFree_bytes
        operator: LessThan
        target: 10000000
    dontschedule:
      rules:
      - metricname: memory_MemFree_bytes
        operator: LessThan
        target: 1000000
    scheduleonmetric:
      rules:
      - metricname: memory_MemFree_bytes
        operator: GreaterThan
";

/// Its workload; how often it runs and under which name is the test's.
const DEMO_APP: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: NAME
  labels:
    app: demo
spec:
  replicas: 1
  selector:
    matchLabels:
      app: demo
  template:
    metadata:
      labels:
        app: demo
        telemetry-policy: demo-policy
    spec:
      containers:
      - name: nginx
        image: nginx:latest
        imagePullPolicy: IfNotPresent
        resources:
          limits:
            telemetry/scheduling: 1
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
              - matchExpressions:
                  - key: demo-policy
                    operator: NotIn
                    values:
                      - violating
";

async fn the_memory_demo(attached: &Attached, nodes: [&str; 3]) {
    let metric = "memory_MemFree_bytes";
    let values = |values: [f64; 3]| nodes.into_iter().zip(values).collect::<Vec<_>>();
    attached.policy(MEMORY, metric, &values([160_436_224.0, 500_000.0, 194_686_976.0])).await;
    attached.cluster.apply(&DEMO_APP.replace("NAME", "roomy")).await.expect("accepted");
    assert_eq!(
        attached.node_of("telemetry-policy=demo-policy").await,
        nodes[2],
        "the one with most memory free"
    );
    attached.cluster.kubectl(&["delete", "deployment", "roomy"]).await.expect("deleted");

    attached.set(metric, &values([999_999.0, 500_000.0, 0.0])).await;
    attached.read(metric).await;
    attached.cluster.apply(&pod("cramped", "demo-policy")).await.expect("accepted");
    let said = attached.refusal("cramped").await;
    let reason = "0/3 nodes are available: 3 default/demo-policy: memory_MemFree_bytes under 1M.";
    assert!(said.starts_with(reason), "where the article shows the bare words Node violates: {said}");
}

#[tokio::test]
async fn the_demos_of_the_old_documents_work_as_they_say() {
    const NODES: [&str; 3] =
        ["node7.ocp4rony.dfw.ocp.run", "node8.ocp4rony.dfw.ocp.run", "node9.ocp4rony.dfw.ocp.run"];
    let attached = Attached::start(TAS, &NODES, Payload::NamesOnly).await;
    the_openshift_demo(&attached, NODES).await;
    the_memory_demo(&attached, NODES).await;
}

#[tokio::test]
async fn pods_that_do_not_ask_for_the_resource_never_reach_us() {
    let attached = Attached::start(TAS, &WORKERS, Payload::NamesOnly).await;
    attached.placed("plain", &plain_pod("plain")).await;
    attached.placed("asking", &pod("asking", "nowhere")).await;
    let metrics = attached.metrics().await.expect("an answer");
    let unknown = "tas_extender_pods_without_policy_total{reason=\"policy_unknown\"} 2";
    assert!(metrics.contains(unknown), "filter and prioritize of one pod, none of the other:\n{metrics}");
}
