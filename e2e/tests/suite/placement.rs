//! kube-scheduler asks `tas serve`, and pods go where policies say.

use e2e::tas::{Attached, Payload};

const TAS: &str = env!("CARGO_BIN_EXE_tas-e2e");
const WORKERS: [&str; 3] = ["kind-worker", "kind-worker2", "kind-worker3"];

fn policy(name: &str, strategy: &str, rule: &str) -> String {
    format!(
        "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  strategies:\n    {strategy}:\n      rules:\n      - {{{rule}}}\n"
    )
}

fn pod(name: &str, policy: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default, labels: {{telemetry-policy: {policy}}}}}\n\
         spec:\n  containers:\n  - name: busybox\n    image: busybox\n    resources: {{limits: {{telemetry/scheduling: 1}}}}\n"
    )
}

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
    for round in 1..=3 {
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

/// The pod of the OpenShift document, word for word but for what it asks of the node beside the policy.
const TASDEMO: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: tasdemo
  namespace: default
  labels:
    app: demo
    telemetry-policy: power-policy
spec:
  containers:
    - name: tasdemo
      image: nginx:1.14.2
      ports:
        - containerPort: 80
      resources:
        limits:
          telemetry/scheduling: 1
  schedulerName: secondary-scheduler
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: power-policy
                operator: NotIn
                values:
                  - violating
";

/// That document's manifest says GreaterThan 30 and its log shows LessThan 30; both are played.
#[tokio::test]
async fn the_openshift_demo_works_in_both_readings_of_its_document() {
    const NODES: [&str; 3] =
        ["node7.ocp4rony.dfw.ocp.run", "node8.ocp4rony.dfw.ocp.run", "node9.ocp4rony.dfw.ocp.run"];
    let attached = Attached::start(TAS, &NODES, Payload::NamesOnly).await;
    let metric = "collectd_package_0_power_power";
    let values: Vec<_> = NODES.into_iter().zip([32.592_849_848, 23.418_708_438, 20.168_518_989]).collect();
    let less = policy(
        "power-policy",
        "dontschedule",
        &format!("metricname: {metric}, operator: LessThan, target: 30"),
    );
    attached.policy(&less, metric, &values).await;
    assert_eq!(attached.placed("tasdemo", TASDEMO).await, NODES[0]);

    attached.cluster.kubectl(&["delete", "pod", "tasdemo", "--wait=true"]).await.expect("deleted");
    let greater = less.replace("LessThan", "GreaterThan");
    attached.cluster.kubectl(&["delete", "taspolicy", "power-policy"]).await.expect("deleted");
    attached.says("tas_feed_policies 0.0").await;
    attached.policy(&greater, metric, &values).await;
    assert_ne!(attached.placed("tasdemo", TASDEMO).await, NODES[0]);
}

#[tokio::test]
async fn a_dead_tas_delays_no_pod_for_ever_and_a_restarted_one_decides_again() {
    let attached = Attached::start(TAS, &WORKERS, Payload::NamesOnly).await;
    let filter1 =
        policy("filter1", "dontschedule", "metricname: filter1_metric, operator: LessThan, target: 20");
    let values: Vec<_> = WORKERS.into_iter().zip([10.0, 20.0, 10.0]).collect();
    attached.policy(&filter1, "filter1_metric", &values).await;
    let tas = attached.cluster.component("tas").expect("tas is there");
    tas.kill();
    attached.placed("unjudged", &pod("unjudged", "filter1")).await;
    tas.restart().expect("tas starts again");
    attached.ready().await;
    attached.says("tas_feed_metric_nodes{metric=\"filter1_metric\"} 3.0").await;
    for round in 1..=3 {
        let name = format!("judged-{round}");
        assert_eq!(attached.placed(&name, &pod(&name, "filter1")).await, "kind-worker2");
    }
}

#[tokio::test]
async fn pods_that_do_not_ask_for_the_resource_never_reach_us() {
    let attached = Attached::start(TAS, &WORKERS, Payload::NamesOnly).await;
    let plain =
        pod("plain", "filter1").replace("resources: {limits: {telemetry/scheduling: 1}}", "resources: {}");
    attached.placed("plain", &plain).await;
    attached.placed("asking", &pod("asking", "nowhere")).await;
    let metrics = attached.metrics().await.expect("an answer");
    let unknown = "tas_extender_pods_without_policy_total{reason=\"policy_unknown\"} 2";
    assert!(metrics.contains(unknown), "filter and prioritize of one pod, none of the other:\n{metrics}");
}
