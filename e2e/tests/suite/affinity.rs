//! What pods do by the labels that stand on nodes: their own affinity keeps them away, and the stock descheduler evicts
//! those that are there already.

use std::collections::{BTreeMap, BTreeSet};

use e2e::PATIENCE;
use e2e::enforcing::{Enforcing, marked};
use e2e::manifests::{TASDEMO, policy};
use e2e::tas::{Attached, Payload};
use testbed::component::{Component, Start};
use testbed::objects::NodeShape;
use testbed::programs::DESCHEDULER;
use testbed::tas::Settings;
use testbed::wait::until;
use testbed::{Cluster, Options};

use crate::TAS;

/// The policy of the OpenShift document with the strategy that the affinity of its pod is about. Nothing in it speaks of
/// placement, so whatever keeps the pod away is the label.
const POWER: &str = "\
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata:
  name: power-policy
spec:
  strategies:
    deschedule:
      rules:
      - metricname: collectd_package_0_power_power
        operator: GreaterThan
        target: 30
";

#[tokio::test]
async fn the_affinity_of_the_openshift_demo_works_by_the_label_alone() {
    const NODES: [&str; 3] =
        ["node7.ocp4rony.dfw.ocp.run", "node8.ocp4rony.dfw.ocp.run", "node9.ocp4rony.dfw.ocp.run"];
    let attached = Attached::start(TAS, &NODES, Payload::NamesOnly).await;
    let cluster = &attached.cluster;
    let metric = "collectd_package_0_power_power";
    let watts = |values: [f64; 3]| NODES.into_iter().zip(values).collect::<Vec<_>>();
    let violating = async |nodes: &[&str]| {
        let marks: Vec<String> = nodes.iter().map(|node| format!("{node}: violating")).collect();
        marked(cluster, "power-policy", &marks.iter().map(String::as_str).collect::<Vec<_>>()).await;
    };
    attached.policy(POWER, metric, &watts([32.592_849_848, 23.418_708_438, 41.5])).await;
    violating(&[NODES[0], NODES[2]]).await;
    assert_eq!(attached.placed("tasdemo", TASDEMO).await, NODES[1], "the only one without the label");

    cluster.kubectl(&["delete", "pod", "tasdemo", "--wait=true"]).await.expect("deleted");
    attached.set(metric, &watts([32.592_849_848, 33.418_708_438, 41.5])).await;
    violating(&NODES).await;
    cluster.apply(TASDEMO).await.expect("accepted");
    let said = attached.refusal("tasdemo").await;
    let affinity = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.";
    assert!(said.starts_with(affinity), "no word of ours, but the pod's own: {said}");
    attached.set(metric, &[(NODES[2], 20.168_518_989)]).await;
    violating(&NODES[..2]).await;
    let node = cluster.bound("default", "tasdemo", PATIENCE).await.expect("bound");
    assert_eq!(node, NODES[2], "once its label is gone");
}

/// Where pods are: how many on each node, those without one under an empty name.
async fn spread(cluster: &Cluster, pods: &[&str]) -> BTreeMap<String, usize> {
    let path = "jsonpath={range .items[*]}{.spec.nodeName}{\"\\n\"}{end}";
    let asked = [&["get", "pods", "-o", path], pods].concat();
    let listed = cluster.kubectl(&asked).await.unwrap_or_default();
    let mut counts = BTreeMap::new();
    for node in listed.lines() {
        *counts.entry(node.to_owned()).or_default() += 1;
    }
    counts
}

async fn spreads(cluster: &Cluster, pods: &[&str], wanted: impl Fn(&BTreeMap<String, usize>) -> bool) {
    until("the pods to be spread as wanted", PATIENCE, || async {
        let found = spread(cluster, pods).await;
        if wanted(&found) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
    .expect("spread");
}

/// The file that the stock descheduler reads since 0.27.
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

/// Starts the stock descheduler, which looks every two seconds and says why it evicts and why not.
fn descheduler(cluster: &Cluster) -> std::sync::Arc<Component> {
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
        "--v=4".to_owned(),
    ];
    let binary = cluster.binaries().path(&DESCHEDULER).to_owned();
    let start = Start {
        name: "descheduler".to_owned(),
        binary,
        arguments: arguments.into(),
        environment: Vec::new(),
    };
    cluster.attach(start).expect("the descheduler starts")
}

/// The pods that the descheduler has evicted, by the audit log.
fn evicted(cluster: &Cluster) -> BTreeSet<String> {
    let log = cluster.audit().expect("readable");
    let evictions = log.into_iter().filter(|asked| {
        asked.user.username == "descheduler"
            && asked.response_status.as_ref().is_some_and(|status| status.code == 201)
    });
    let pods =
        evictions.filter_map(|asked| asked.object_ref).filter(|object| object.subresource == "eviction");
    pods.map(|object| object.name).collect()
}

/// The pods of a workload that the article of 2020 links to its policy, but for the resource: see the next test.
const DEMO_APP: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: demo-app}
spec:
  replicas: 6
  selector: {matchLabels: {app: demo}}
  template:
    metadata: {labels: {app: demo}}
    spec:
      containers:
      - {name: nginx, image: nginx}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {key: demo-policy, operator: NotIn, values: [violating]}
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
    cluster.apply(DEMO_APP).await.expect("accepted");
    let pods = ["-l", "app=demo"];
    let total = |found: &BTreeMap<String, usize>| found.values().sum::<usize>();
    spreads(cluster, &pods, |found| found.contains_key("worker-a") && total(found) == 6).await;
    // Evicting a pod that does not run yet moves nothing.
    cluster.kubectl(&["rollout", "status", "deployment/demo-app", "--timeout=60s"]).await.expect("they run");

    enforcing.set("node_memory_MemFree_bytes", &[("worker-a", 5e6)]);
    enforcing.marked("demo-policy", &["worker-a: violating"]).await;
    descheduler(cluster);
    spreads(cluster, &pods, |found| {
        total(found) == 6 && found.keys().all(|node| node == "worker-b" || node == "worker-c")
    })
    .await;
    assert!(!evicted(cluster).is_empty(), "and it was the descheduler who evicted");
}

/// The policy and the workload of Intel's guide to its labelling strategy, field by field.
const GUIDE: &str = "\
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: labeling-policy, namespace: labeling-demo}
spec:
  strategies:
    labeling:
      rules:
      - {metricname: metric_card0, operator: GreaterThan, target: 100, labels: [card0=true]}
      - {metricname: metric_card1, operator: GreaterThan, target: 200, labels: [card1=true]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: demo-app-label, namespace: labeling-demo, labels: {app: demo-label}}
spec:
  replicas: 0
  selector: {matchLabels: {app: demo-label}}
  template:
    metadata: {labels: {app: demo-label, telemetry-policy: labeling-policy}}
    spec:
      containers:
      - name: nginx
        image: nginx:latest
        imagePullPolicy: IfNotPresent
        resources: {limits: {telemetry/scheduling: 1}}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms:
            - matchExpressions:
              - {key: telemetry.aware.scheduling.labeling-policy/card0, operator: NotIn, values: [\"true\"]}
              - {key: telemetry.aware.scheduling.labeling-policy/card1, operator: NotIn, values: [\"true\"]}
";

/// Its pods, for kubectl.
const GUIDED: [&str; 4] = ["-n", "labeling-demo", "-l", "app=demo-label"];

/// A cluster in which the guide is played: each of two nodes has a card of its own.
struct Guide(Attached);

impl Guide {
    async fn start() -> Self {
        let nodes = ["node1", "node2"].map(NodeShape::new).into();
        let options = Options { nodes, further_programs: vec![DESCHEDULER], ..Options::default() };
        let attached = Attached::to(TAS, options, Payload::NamesOnly, &Settings::default()).await;
        attached.cluster.kubectl(&["create", "namespace", "labeling-demo"]).await.expect("created");
        attached.cluster.apply(GUIDE).await.expect("accepted");
        Self(attached)
    }

    /// The cards are as hot as this; then these labels stand on the nodes.
    async fn cards(&self, card0: f64, card1: f64, labels: &[&str]) {
        self.0.set("metric_card0", &[("node1", card0)]).await;
        self.0.set("metric_card1", &[("node2", card1)]).await;
        marked(&self.0.cluster, "labeling-policy", labels).await;
    }

    async fn is_spread(&self, wanted: &[(&str, usize)]) {
        let wanted = wanted.iter().map(|&(node, count)| (node.to_owned(), count)).collect();
        spreads(&self.0.cluster, &GUIDED, |found| *found == wanted).await;
    }

    /// So many replicas; then they are here.
    async fn scaled(&self, replicas: &str, wanted: &[(&str, usize)]) {
        let replicas = format!("--replicas={replicas}");
        let asked = ["scale", "deployment", "demo-app-label", "-n", "labeling-demo", &replicas];
        self.0.cluster.kubectl(&asked).await.expect("scaled");
        self.is_spread(wanted).await;
    }
}

#[tokio::test]
async fn intels_guide_to_labelling_comes_out_as_it_says_and_three_pods_are_evicted() {
    let guide = Guide::start().await;
    let cluster = &guide.0.cluster;
    guide.cards(200.0, 90.0, &["node1: card0=true"]).await;
    guide.scaled("5", &[("node2", 5)]).await;
    guide.cards(90.0, 900.0, &["node2: card1=true"]).await;
    guide.scaled("10", &[("node1", 5), ("node2", 5)]).await;
    guide.cards(200.0, 900.0, &["node1: card0=true", "node2: card1=true"]).await;
    guide.scaled("15", &[("", 5), ("node1", 5), ("node2", 5)]).await;
    // Back to where a node may be used: those that wait go there.
    guide.cards(90.0, 900.0, &["node2: card1=true"]).await;
    guide.is_spread(&[("node1", 10), ("node2", 5)]).await;

    guide.scaled("0", &[]).await;
    guide.cards(200.0, 90.0, &["node1: card0=true"]).await;
    guide.scaled("3", &[("node2", 3)]).await;
    let rollout = ["rollout", "status", "deployment/demo-app-label", "-n", "labeling-demo", "--timeout=60s"];
    cluster.kubectl(&rollout).await.expect("they run");
    let names = "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}";
    let listed =
        cluster.kubectl(&[&["get", "pods", "-o", names], &GUIDED[..]].concat()).await.expect("listed");
    let three: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    guide.cards(20.0, 900.0, &["node2: card1=true"]).await;

    // The resource that makes the scheduler ask us exists on no node, and the descheduler takes that at its word.
    let descheduler = descheduler(cluster);
    until("the descheduler to say why it does not evict", PATIENCE, || async {
        let log = descheduler.log();
        let said = |pod: &String| {
            let pod = format!("pod=\"labeling-demo/{pod}\" node=\"node1\"");
            log.lines().any(|line| line.contains(&pod) && line.contains("insufficient telemetry/scheduling"))
        };
        if three.iter().all(said) { Ok(()) } else { Err("it does not say so") }
    })
    .await
    .expect("it says so");
    assert_eq!(evicted(cluster), BTreeSet::new());
    // What Intel's documents do about that.
    let amounts = r#"{"status": {"capacity": {"telemetry/scheduling": "1k"}, "allocatable": {"telemetry/scheduling": "1k"}}}"#;
    for node in ["node1", "node2"] {
        let patch = ["patch", "node", node, "--subresource=status", "--type=merge", "-p", amounts];
        cluster.kubectl(&patch).await.expect("patched");
    }
    guide.is_spread(&[("node1", 3)]).await;
    assert_eq!(evicted(cluster), three, "all three and nobody else");
}
