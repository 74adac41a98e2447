//! What an account may do beside what it did: the audit log against the rights it was granted.

use std::collections::BTreeSet;
use std::fmt;

use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, Subject};
use kube::api::{Api, ListParams};
use testbed::Cluster;
use testbed::audit::Request;

/// One verb on one resource; `pods/eviction` is a resource of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Right {
    /// The API group; empty for the core one.
    pub group: String,
    /// The plural name, with a subresource if there is one; `*` where a rule grants all.
    pub resource: String,
    /// What is done to it.
    pub verb: String,
}

impl Right {
    /// From its three parts.
    pub fn new(group: &str, resource: &str, verb: &str) -> Self {
        Self { group: group.to_owned(), resource: resource.to_owned(), verb: verb.to_owned() }
    }

    /// Whether it is the other one, or grants it by a `*`.
    pub fn covers(&self, other: &Self) -> bool {
        let same = |granted: &str, used: &str| granted == "*" || granted == used;
        same(&self.group, &other.group)
            && same(&self.resource, &other.resource)
            && same(&self.verb, &other.verb)
    }
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let group = if self.group.is_empty() { "core" } else { &self.group };
        write!(f, "{} {} in {group}", self.verb, self.resource)
    }
}

/// What does not fit together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Asked for and refused.
    pub missing: BTreeSet<String>,
    /// Granted and not used.
    pub idle: BTreeSet<Right>,
}

/// Compares what `system:serviceaccount:NAMESPACE:NAME` was granted in this cluster with what it asked for so far.
pub async fn compare(cluster: &Cluster, namespace: &str, name: &str) -> Difference {
    let user = format!("system:serviceaccount:{namespace}:{name}");
    let log = cluster.audit().expect("the log is readable");
    let granted = granted(cluster, namespace, name).await;
    difference(&granted, &user, &log)
}

fn difference(granted: &BTreeSet<Right>, user: &str, log: &[Request]) -> Difference {
    let mut difference = Difference { idle: granted.clone(), ..Difference::default() };
    for request in log.iter().filter(|request| request.user.username == user) {
        let Some(object) = &request.object_ref else { continue };
        let mut asked = Right::new(&object.api_group, &object.resource, &request.verb);
        if !object.subresource.is_empty() {
            asked.resource = format!("{}/{}", object.resource, object.subresource);
        }
        if request.response_status.as_ref().is_some_and(|status| status.code == 403) {
            difference.missing.insert(format!("{asked}, asked as {}", request.uri));
        }
        difference.idle.retain(|right| !right.covers(&asked));
    }
    difference
}

/// Everything that bindings give to the account.
async fn granted(cluster: &Cluster, namespace: &str, name: &str) -> BTreeSet<Right> {
    let all = ListParams::default();
    let is_ours = |subjects: Option<&Vec<Subject>>| {
        subjects.into_iter().flatten().any(|subject| {
            subject.kind == "ServiceAccount"
                && subject.name == name
                && subject.namespace.as_deref() == Some(namespace)
        })
    };
    let mut granted: Vec<PolicyRule> = Vec::new();
    let roles: Api<ClusterRole> = Api::all(cluster.client());
    let bindings: Api<ClusterRoleBinding> = Api::all(cluster.client());
    for binding in bindings.list(&all).await.expect("listed") {
        if is_ours(binding.subjects.as_ref()) {
            granted.extend(
                roles.get(&binding.role_ref.name).await.expect("the role is there").rules.unwrap_or_default(),
            );
        }
    }
    let bindings: Api<RoleBinding> = Api::all(cluster.client());
    for binding in bindings.list(&all).await.expect("listed") {
        if is_ours(binding.subjects.as_ref()) {
            let space = binding.metadata.namespace.unwrap_or_default();
            let role = &binding.role_ref.name;
            let found = match binding.role_ref.kind.as_str() {
                "Role" => {
                    Api::<Role>::namespaced(cluster.client(), &space).get(role).await.map(|role| role.rules)
                }
                _ => roles.get(role).await.map(|role| role.rules),
            };
            granted.extend(found.expect("the role is there").unwrap_or_default());
        }
    }
    granted.iter().flat_map(rights).collect()
}

fn rights(rule: &PolicyRule) -> Vec<Right> {
    let groups = rule.api_groups.as_deref().unwrap_or_default();
    let resources = rule.resources.as_deref().unwrap_or_default();
    let each = |group: &String| {
        let group = group.clone();
        resources.iter().flat_map(move |resource| {
            let group = group.clone();
            rule.verbs.iter().map(move |verb| Right::new(&group, resource, verb))
        })
    };
    groups.iter().flat_map(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use testbed::audit::{Object, Status, User};

    fn request(verb: &str, resource: &str, code: u16) -> Request {
        Request {
            verb: verb.to_owned(),
            user: User { username: "system:serviceaccount:a:b".to_owned() },
            uri: format!("/api/v1/{resource}"),
            object_ref: Some(Object { resource: resource.to_owned(), ..Object::default() }),
            response_status: Some(Status { code }),
        }
    }

    #[test]
    fn a_refused_request_is_missing_and_an_unused_right_is_idle() {
        let granted = ["list", "watch"].map(|verb| Right::new("", "nodes", verb)).into();
        let log = [request("list", "nodes", 200), request("delete", "nodes", 403)];
        assert_eq!(
            difference(&granted, "system:serviceaccount:a:b", &log),
            Difference {
                missing: ["delete nodes in core, asked as /api/v1/nodes".to_owned()].into(),
                idle: [Right::new("", "nodes", "watch")].into(),
            }
        );
    }

    #[test]
    fn what_others_ask_for_does_not_count() {
        let granted: BTreeSet<_> = [Right::new("", "nodes", "list")].into();
        let log = [request("list", "nodes", 200)];
        assert_eq!(difference(&granted, "somebody", &log).idle, granted);
    }

    #[test]
    fn a_star_is_used_by_anything_below_it() {
        let granted = [Right::new("custom.metrics.k8s.io", "*", "get")].into();
        let mut request = request("get", "nodes", 200);
        request.object_ref = Some(Object {
            api_group: "custom.metrics.k8s.io".to_owned(),
            resource: "nodes".to_owned(),
            subresource: "power".to_owned(),
            ..Object::default()
        });
        assert_eq!(difference(&granted, "system:serviceaccount:a:b", &[request]), Difference::default());
    }
}
