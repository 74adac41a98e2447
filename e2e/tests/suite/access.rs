//! Nobody but the control plane runs as an administrator: rights are granted one by one, and the audit log tells.

use e2e::cluster_of;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::{Api, DeleteParams, ListParams};
use testbed::audit::{Object, Request};

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
