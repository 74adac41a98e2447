//! What fails comes back, and meanwhile nobody waits for ever and nothing old is taken for true.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::PATIENCE;
use e2e::caller::{Caller, Filtered};
use e2e::manifests::{plain_pod, pod, pod_object, policy, policy_with};
use e2e::relay::{Manner, Relay};
use e2e::tas::{Attached, Payload};
use k8s_openapi::api::core::v1::Pod;
use kube::api::Api;
use testbed::objects::{self, NodeShape};
use testbed::tas::Settings;
use testbed::wait::until;

use crate::TAS;

const WORKERS: [&str; 3] = ["kind-worker", "kind-worker2", "kind-worker3"];

/// Between the pod's creation and its binding, in whole seconds as Kubernetes writes them.
async fn waited(attached: &Attached, name: &str) -> i64 {
    attached.cluster.bound("default", name, PATIENCE).await.expect("it is bound");
    let pods: Api<Pod> = Api::namespaced(attached.cluster.client(), "default");
    let found = pods.get(name).await.expect("it is there");
    let created = found.metadata.creation_timestamp.expect("it has one").0;
    let conditions = found.status.and_then(|status| status.conditions).unwrap_or_default();
    let bound = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled");
    let bound = bound.and_then(|condition| condition.last_transition_time).expect("it has one").0;
    bound.as_second() - created.as_second()
}

#[tokio::test]
async fn a_dead_or_hung_tas_holds_nobody_up_for_long_and_decides_rightly_when_it_is_back() {
    let attached = Attached::start(TAS, &WORKERS, Payload::NamesOnly).await;
    attached.scheduler_asks_as_documented().await;
    let filter1 =
        policy("filter1", "dontschedule", "metricname: filter1_metric, operator: LessThan, target: 20");
    let values: Vec<_> = WORKERS.into_iter().zip([10.0, 20.0, 10.0]).collect();
    attached.policy(&filter1, "filter1_metric", &values).await;
    let tas = &attached.tas.component;

    tas.kill();
    attached.placed("unjudged", &pod("unjudged", "filter1")).await;
    tas.restart().expect("tas starts again");
    attached.ready().await;
    attached.says("tas_feed_metric_nodes{metric=\"filter1_metric\"} 3.0").await;

    tas.pause().expect("it hangs");
    for name in ["hung-1", "hung-2", "hung-3", "hung-4"] {
        attached.cluster.create_pod("default", &pod_object(name, "filter1")).await.expect("accepted");
    }
    attached.cluster.create_pod("default", &objects::pod("plain")).await.expect("accepted");
    // Each of the four costs two questions of half a second; with the scheduler's own deadline they would cost 40 s.
    let seconds = waited(&attached, "plain").await;
    assert!(seconds <= 20, "a pod without a policy waited {seconds} s");
    tas.resume().expect("it goes on");

    // A slow one is waited for where the deadline allows it.
    let relay = Relay::start(attached.tas.port).await;
    relay.be(Manner::Late(Duration::from_secs(1)));
    attached.scheduler_sends(Payload::NamesOnly, relay.port()).await;
    for name in ["judged-1", "judged-2"] {
        assert_eq!(attached.placed(name, &pod(name, "filter1")).await, "kind-worker2");
    }
    attached.placed("plain-again", &plain_pod("plain-again")).await;
}

/// `hot`, `cool` and `remote` as two policies see them: one refuses what it cannot judge, the other lets it pass.
struct Opinions {
    attached: Attached,
    caller: Caller,
}

const NODES: [&str; 3] = ["hot", "cool", "remote"];

impl Opinions {
    /// Waits until a policy passes exactly these nodes; the reasons it gives for the others.
    async fn become_of(&self, policy: &str, passed: &[&str]) -> Vec<String> {
        let filtered = until(format!("{policy} to pass exactly {passed:?}"), PATIENCE, || async {
            let Filtered { passed: found, failed } =
                self.caller.filter(self.attached.tas.port, policy, &NODES).await?;
            if found == passed { Ok(failed) } else { Err(format!("{found:?}, not {failed:?}")) }
        })
        .await
        .expect("tas comes to that opinion");
        filtered.into_iter().map(|(node, why)| format!("{node}: {why}")).collect()
    }

    async fn are_as_with_data(&self) {
        self.become_of("strict", &["cool"]).await;
        self.become_of("lenient", &["cool", "remote"]).await;
    }

    async fn are_as_without_data(&self, pod_name: &str) {
        let unknown = NODES.map(|node| format!("{node}: default/strict: thermal unknown"));
        let reasons = self.become_of("strict", &[]).await;
        assert!(unknown.iter().all(|reason| reasons.contains(reason)), "{reasons:?}");
        self.become_of("lenient", &NODES).await;
        self.attached.cluster.apply(&pod(pod_name, "strict")).await.expect("accepted");
        let said = self.attached.refusal(pod_name).await;
        assert!(said.starts_with("0/3 nodes are available: 3 default/strict: thermal unknown."), "{said}");
    }
}

#[tokio::test]
async fn without_prometheus_a_node_or_the_api_server_old_values_expire_and_tas_goes_on() {
    // The relay knows where to lead only when the cluster is there, so tas gets its address afterwards.
    let attached = Attached::start(TAS, &[], Payload::NamesOnly).await;
    let relay = Relay::start(attached.cluster.layout().prometheus).await;
    let settings =
        Settings { prometheus: Some(format!("http://127.0.0.1:{}", relay.port())), ..Settings::default() };
    let attached = attached.restarted(&settings).await;
    let cluster = &attached.cluster;
    cluster.create_nodes(&NODES.map(NodeShape::new)).await.expect("three nodes");
    let (ca, client) = (attached.installation.authority().certificate(), attached.installation.authority());
    let client = client.client("kube-scheduler", None).expect("a certificate");
    let caller = Caller::new(&ca, Some(&client));

    let rule = "metricname: thermal, operator: GreaterThan, target: 80";
    let strict = policy_with("strict", &["maxAge: 6s", "onMissing: Deny"], &[("dontschedule", rule)]);
    cluster.apply(&strict).await.expect("accepted");
    cluster
        .apply(&policy_with("lenient", &["maxAge: 6s"], &[("dontschedule", rule)]))
        .await
        .expect("accepted");
    attached.set("thermal", &[("hot", 90.0), ("cool", 50.0)]).await;
    let tas = attached.tas.component.pid();
    let opinions = Opinions { attached, caller };
    let cluster = &opinions.attached.cluster;

    // The remote node's last word is that it is hot, and then the line is cut.
    let exporter = cluster.exporter().expect("there is one");
    let last = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    exporter.append(&format!("node_thermal{{node=\"remote\"}} 95 {last}\n"));
    let reasons = opinions.become_of("lenient", &["cool"]).await;
    assert_eq!(reasons.len(), 2, "its word counts: {reasons:?}");
    opinions.are_as_with_data().await;

    let prometheus = cluster.component("prometheus").expect("there is one");
    prometheus.kill();
    opinions.are_as_without_data("stopped").await;
    prometheus.restart().expect("it starts again");
    opinions.are_as_with_data().await;

    prometheus.pause().expect("it hangs");
    opinions.are_as_without_data("hung").await;
    prometheus.resume().expect("it goes on");
    opinions.are_as_with_data().await;

    relay.be(Manner::Lying(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{\"data\":[",
    ));
    opinions.are_as_without_data("garbage").await;
    relay.be(Manner::Faithful);
    opinions.are_as_with_data().await;

    let api_server = cluster.component("kube-apiserver").expect("there is one");
    api_server.kill();
    opinions.are_as_with_data().await;
    api_server.restart().expect("it starts again");
    cluster.api_server_ready().await.expect("it answers again");
    cluster
        .apply(&policy("late", "dontschedule", &rule.replace("GreaterThan", "LessThan")))
        .await
        .expect("accepted");
    opinions.become_of("late", &["hot", "remote"]).await;
    let restricted = pod("after", "late") + "  nodeSelector: {kubernetes.io/hostname: hot}\n";
    assert_eq!(opinions.attached.placed("after", &restricted).await, "hot");
    assert_eq!(opinions.attached.tas.component.pid(), tas, "it has not been started again");
}
