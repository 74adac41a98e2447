//! Nobody but the control plane runs as an administrator: rights are granted one by one, and the audit log tells.

use e2e::manifests::{pod, policy};
use e2e::rights::{self, Difference, Right};
use e2e::tas::{Attached, Payload};
use e2e::{PATIENCE, cluster_of};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, DeleteParams, ListParams};
use testbed::audit::{Object, Request};
use testbed::tas::Settings;
use testbed::wait::until;

use crate::TAS;

fn may_list_nodes() -> Vec<PolicyRule> {
    vec![PolicyRule {
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["nodes".to_owned()]),
        verbs: vec!["list".to_owned()],
        ..PolicyRule::default()
    }]
}

/// What the audit log must hold for one user: verb, resource, name, status.
fn asked_by<'a>(log: &'a [Request], user: &str) -> Vec<(&'a str, &'a str, &'a str, u16)> {
    log.iter()
        .filter(|request| request.user.username == user)
        .filter_map(|request| {
            let Object { resource, name, .. } = request.object_ref.as_ref()?;
            let code = request.response_status.as_ref().map_or(0, |status| status.code);
            Some((request.verb.as_str(), resource.as_str(), name.as_str(), code))
        })
        .collect()
}

#[tokio::test]
async fn users_and_service_accounts_can_do_what_was_granted_and_the_audit_log_shows_the_rest() {
    let cluster = cluster_of(1).await;
    let alice = cluster.user("alice", None).expect("a certificate");
    let robot = cluster.service_account("tas-system", "robot").await.expect("a token");
    let names = ["alice", "system:serviceaccount:tas-system:robot"];
    for user in names {
        cluster.grant(user, may_list_nodes()).await.expect("granted");
    }
    for kubeconfig in [alice, robot] {
        let client = cluster.client_of(&kubeconfig).await.expect("a client");
        let nodes: Api<Node> = Api::all(client);
        assert_eq!(nodes.list(&ListParams::default()).await.expect("granted").items.len(), 1);
        let refusal = nodes.delete("node-1", &DeleteParams::default()).await.expect_err("not granted");
        assert!(matches!(&refusal, kube::Error::Api(status) if status.code == 403), "{refusal}");
    }
    let log = cluster.audit().expect("the log is readable");
    for user in names {
        assert_eq!(asked_by(&log, user), [("list", "nodes", "", 200), ("delete", "nodes", "node-1", 403)]);
    }
}

/// Rights of `tas serve` that this scenario has no use for: those by which the controller writes, whose own tests look at
/// what it did.
const WRITTEN_ELSEWHERE: [(&str, &str, &str); 5] = [
    ("coordination.k8s.io", "leases", "*"),
    ("", "nodes", "patch"),
    ("", "nodes", "get"),
    ("", "pods/eviction", "create"),
    ("telemetry.intel.com", "taspolicies/status", "*"),
];

/// Somebody who says to serve metrics and is not there: the API server refuses questions only after it has judged and
/// written down that they may be asked.
const ABSENT_ADAPTER: &str = "\
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta2.custom.metrics.k8s.io}
spec:
  group: custom.metrics.k8s.io
  version: v1beta2
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: nobody, namespace: default}
";

#[tokio::test]
async fn tas_uses_every_right_it_is_given_and_asks_for_no_other() {
    let attached = Attached::start(TAS, &["node-1"], Payload::NamesOnly).await;
    let rule = "metricname: thermal, operator: GreaterThan, target: 80";
    attached.policy(&policy("thermal", "dontschedule", rule), "thermal", &[("node-1", 50.0)]).await;
    attached.placed("judged", &pod("judged", "thermal")).await;
    attached.placed("unknown", &pod("unknown", "nowhere")).await;
    attached.cluster.apply(ABSENT_ADAPTER).await.expect("accepted");
    let settings =
        Settings { arguments: ["--metrics", "custom"].map(str::to_owned).into(), ..Settings::default() };
    let binary = std::path::Path::new(TAS);
    attached.installation.start(&attached.cluster, "custom", binary, &settings).expect("it starts");

    let elsewhere = WRITTEN_ELSEWHERE.map(|(group, resource, verb)| Right::new(group, resource, verb));
    until("every right to be used", PATIENCE, || async {
        let mut found = rights::compare(&attached.cluster, "tas-system", "tas-serve").await;
        found.idle.retain(|right| !elsewhere.iter().any(|other| other.covers(right)));
        if found == Difference::default() { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await
    .expect("no right is missing or idle");
}
