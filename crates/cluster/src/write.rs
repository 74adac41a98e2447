//! What we write: labels, taints and the annotation of nodes, and the status of policies. One request each, decided
//! elsewhere, under a deadline.
//!
//! Every write names the edition of the object that it was decided on, so that one which comes too late, from a
//! replica that slept or on a node that was deleted and made anew, is refused by the API server and not by luck.

mod answer;

use std::collections::BTreeMap;
use std::time::Duration;

use api::keys::{
    FIELD_MANAGER, KICK_ANNOTATION, KICK_MANAGER, POLICY_API_VERSION, POLICY_GROUP, POLICY_PLURAL,
};
use kube::Client;
use serde_json::{Map, Value, json};

use crate::lite::{NodeLite, PolicyLite};

pub use answer::Refusal;

/// How long one write may take; less than the margin before the end of a lease.
pub const DEADLINE: Duration = Duration::from_secs(3);

const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";

/// Which object, and which edition of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edition {
    /// Its namespace; empty for a node.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which object, even if another of the same name follows it.
    pub uid: String,
    /// Which edition.
    pub version: String,
}

impl Edition {
    fn metadata(&self) -> Map<String, Value> {
        let mut metadata = Map::new();
        for (field, value) in [("name", &self.name), ("uid", &self.uid), ("resourceVersion", &self.version)] {
            metadata.insert(field.to_owned(), json!(value));
        }
        metadata
    }
}

/// What to do about labels that somebody else has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// Leave them alone: the write is refused with their keys.
    Leave,
    /// Take them over. Safe because of the edition: whose they are was seen, and cannot have changed since.
    TakeOver,
}

/// Makes `labels` all that we own on a node: what is not among them and only ours is taken off.
pub async fn labels(
    client: &Client,
    node: &Edition,
    labels: &BTreeMap<String, String>,
    foreign: Foreign,
) -> Result<NodeLite, Refusal> {
    let force = foreign == Foreign::TakeOver;
    let path = format!("/api/v1/nodes/{}?fieldManager={FIELD_MANAGER}&force={force}", node.name);
    let mut metadata = node.metadata();
    metadata.insert("labels".to_owned(), json!(labels));
    let body = json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata});
    answer::patch(client, "nodes", node, &path, APPLY, &body).await
}

/// Takes labels off that others have written, and makes `taints` the whole list, if one is given.
pub async fn overwrite(
    client: &Client,
    node: &Edition,
    labels_off: &[String],
    taints: Option<&[Value]>,
) -> Result<NodeLite, Refusal> {
    let path = format!("/api/v1/nodes/{}?fieldManager={FIELD_MANAGER}", node.name);
    let mut metadata = node.metadata();
    if !labels_off.is_empty() {
        let off: Map<String, Value> = labels_off.iter().map(|key| (key.clone(), Value::Null)).collect();
        metadata.insert("labels".to_owned(), Value::Object(off));
    }
    let mut body = json!({"metadata": metadata});
    if let Some(taints) = taints {
        body["spec"] = json!({"taints": taints});
    }
    answer::patch(client, "nodes", node, &path, MERGE, &body).await
}

/// Wakes pods that wait for a node, by an annotation that means nothing else.
pub async fn kick(client: &Client, node: &Edition, stamp: &str) -> Result<NodeLite, Refusal> {
    let path = format!("/api/v1/nodes/{}?fieldManager={KICK_MANAGER}", node.name);
    let mut metadata = node.metadata();
    metadata.insert("annotations".to_owned(), json!({KICK_ANNOTATION: stamp}));
    answer::patch(client, "nodes", node, &path, MERGE, &json!({"metadata": metadata})).await
}

/// Changes the status of a policy by what differs. Not applied as a whole: a definition that lacks a field of ours
/// would refuse it all, where this way it only drops the field.
pub async fn status(client: &Client, policy: &Edition, change: &Value) -> Result<PolicyLite, Refusal> {
    let Edition { namespace, name, .. } = policy;
    let path = format!(
        "/apis/{POLICY_API_VERSION}/namespaces/{namespace}/{POLICY_PLURAL}/{name}/status?fieldManager={FIELD_MANAGER}"
    );
    let body = json!({"metadata": policy.metadata(), "status": change});
    answer::patch(client, &format!("{POLICY_PLURAL}.{POLICY_GROUP}/status"), policy, &path, MERGE, &body)
        .await
}

/// What a merge patch must say to make `new` of `old`; nothing if they are the same.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return (old != new).then(|| new.clone());
    };
    let mut change = Map::new();
    for (key, value) in after {
        let differs = match before.get(key) {
            Some(old) => difference(old, value),
            None => Some(value.clone()),
        };
        change.extend(differs.map(|value| (key.clone(), value)));
    }
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    change.extend(gone.map(|key| (key.clone(), Value::Null)));
    (!change.is_empty()).then_some(Value::Object(change))
}

/// What a merge patch makes of an object, as the standard has it. For tests: the API server does this, not we.
#[cfg(any(test, feature = "fixtures"))]
pub fn merged(target: &Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut object = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            let before = object.get(key).cloned().unwrap_or_default();
            object.insert(key.clone(), merged(&before, value));
        }
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_object() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i8>().prop_map(|n| json!(n)),
            "[ab]{0,2}".prop_map(|s| json!(s)),
            Just(json!([1]))
        ];
        let tree = leaf.prop_recursive(3, 12, 3, |inner| {
            proptest::collection::btree_map("[abc]", inner, 0..3).prop_map(|map| json!(map))
        });
        proptest::collection::btree_map("[abc]", tree, 0..3).prop_map(|map| json!(map))
    }

    proptest! {
        #[test]
        fn a_difference_makes_the_new_of_the_old_and_is_nothing_between_equals(old in any_object(), new in any_object()) {
            prop_assert_eq!(difference(&old, &old), None);
            let made = difference(&old, &new).map_or(old.clone(), |change| merged(&old, &change));
            prop_assert_eq!(made, new);
        }
    }
}
