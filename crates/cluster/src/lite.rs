//! Objects as lean as we need them. Reading one never fails, so that one bad object cannot stop a watch: what makes
//! no sense is kept as a fault, to be named and left out.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use api::keys::{FIELD_MANAGER, KICK_ANNOTATION, NODE_LABEL_PREFIX, PAUSE_KEY, POD_POLICY_LABEL};
use api::policy::TasPolicy;

/// A node: who it is, and what stands on it that could be ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeLite {
    meta: ObjectMeta,
    /// Its addresses of the types InternalIP and Hostname.
    pub addresses: Vec<String>,
    /// Its labels that could be ours: those without a prefix, and those with one of ours.
    pub labels: Vec<LabelLite>,
    /// All its taints, as they are stored: the list can only be written whole.
    pub taints: Vec<Value>,
    /// What the annotation says that wakes waiting pods.
    pub kicked: Option<String>,
}

/// A label of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelLite {
    /// Its key.
    pub key: String,
    /// Its value.
    pub value: String,
    /// Whether we have applied it.
    pub ours: bool,
    /// Whether somebody else has written it.
    pub others: bool,
}

/// A pod: where it went and when.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodLite {
    meta: ObjectMeta,
    /// The node it is bound to.
    pub node: Option<String>,
    /// When it was bound, in milliseconds since the epoch, or the nearest to that we know.
    pub bound: Option<i64>,
    /// Whether it has run its course.
    pub finished: bool,
    /// The policy that it names.
    pub policy: Option<String>,
    /// Whether the scheduler has found no node for it.
    pub unschedulable: bool,
}

/// A policy as it is stored, not yet understood.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyLite {
    meta: ObjectMeta,
    /// The object, or why it is none.
    pub object: Result<Box<TasPolicy>, String>,
}

/// The ConfigMap that people throw switches in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchLite {
    meta: ObjectMeta,
    /// What stands under the key that pauses everything.
    pub pause: Option<String>,
}

macro_rules! resource_like {
    ($lite:ty, $full:ty) => {
        impl Resource for $lite {
            type DynamicType = ();
            type Scope = <$full as Resource>::Scope;

            fn kind((): &()) -> Cow<'_, str> {
                <$full as Resource>::kind(&())
            }

            fn group((): &()) -> Cow<'_, str> {
                <$full as Resource>::group(&())
            }

            fn version((): &()) -> Cow<'_, str> {
                <$full as Resource>::version(&())
            }

            fn plural((): &()) -> Cow<'_, str> {
                <$full as Resource>::plural(&())
            }

            fn meta(&self) -> &ObjectMeta {
                &self.meta
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.meta
            }
        }

        impl<'de> Deserialize<'de> for $lite {
            fn deserialize<D: Deserializer<'de>>(json: D) -> Result<Self, D::Error> {
                Ok(Self::of(&Value::deserialize(json)?))
            }
        }

        impl $lite {
            /// Its namespace; empty for objects of the cluster.
            pub fn namespace(&self) -> &str {
                self.meta.namespace.as_deref().unwrap_or_default()
            }

            /// Its name; empty if it has none.
            pub fn name(&self) -> &str {
                self.meta.name.as_deref().unwrap_or_default()
            }

            /// Which object it is, even if another of the same name follows it.
            pub fn uid(&self) -> &str {
                self.meta.uid.as_deref().unwrap_or_default()
            }

            /// Which edition of it this is.
            pub fn version(&self) -> &str {
                self.meta.resource_version.as_deref().unwrap_or_default()
            }

            /// How often what it asks for was changed.
            pub fn generation(&self) -> i64 {
                self.meta.generation.unwrap_or_default()
            }
        }
    };
}

resource_like!(NodeLite, Node);
resource_like!(PodLite, Pod);
resource_like!(PolicyLite, TasPolicy);
resource_like!(SwitchLite, ConfigMap);

impl SwitchLite {
    fn of(object: &Value) -> Self {
        let pause = text(object.get("data").and_then(|data| data.get(PAUSE_KEY)));
        Self { meta: meta(object), pause }
    }
}

impl NodeLite {
    fn of(object: &Value) -> Self {
        let addresses = object.pointer("/status/addresses").and_then(Value::as_array);
        let useful = addresses.into_iter().flatten().filter(|address| {
            matches!(address.get("type").and_then(Value::as_str), Some("InternalIP" | "Hostname"))
        });
        let addresses = useful.filter_map(|address| text(address.get("address"))).collect();
        let taints = object.pointer("/spec/taints").and_then(Value::as_array);
        let annotations = object.pointer("/metadata/annotations");
        Self {
            meta: meta(object),
            addresses,
            labels: labels(object),
            taints: taints.cloned().unwrap_or_default(),
            kicked: text(annotations.and_then(|annotations| annotations.get(KICK_ANNOTATION))),
        }
    }
}

/// The labels that could be ours, and who has written them.
fn labels(object: &Value) -> Vec<LabelLite> {
    let Some(labels) = object.pointer("/metadata/labels").and_then(Value::as_object) else {
        return Vec::new();
    };
    let ours = |key: &str| !key.contains('/') || key.starts_with(NODE_LABEL_PREFIX);
    let mut found: Vec<LabelLite> = labels
        .iter()
        .filter(|(key, _)| ours(key))
        .filter_map(|(key, value)| {
            Some(LabelLite { key: key.clone(), value: text(Some(value))?, ours: false, others: false })
        })
        .collect();
    if found.is_empty() {
        return found;
    }
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    for entry in entries.into_iter().flatten() {
        let Some(fields) = entry.pointer("/fieldsV1/f:metadata/f:labels").and_then(Value::as_object) else {
            continue;
        };
        let field = |name: &str| entry.get(name).and_then(Value::as_str);
        let applied_by_us = (field("manager"), field("operation")) == (Some(FIELD_MANAGER), Some("Apply"));
        for label in &mut found {
            if fields.contains_key(&format!("f:{}", label.key)) {
                label.ours |= applied_by_us;
                label.others |= !applied_by_us;
            }
        }
    }
    found
}

impl PodLite {
    fn of(object: &Value) -> Self {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let says = |condition: &Value, field: &str, word: &str| {
            condition.get(field).and_then(Value::as_str) == Some(word)
        };
        let placing =
            conditions.into_iter().flatten().find(|condition| says(condition, "type", "PodScheduled"));
        let unschedulable = placing.is_some_and(|condition| {
            says(condition, "status", "False") && says(condition, "reason", "Unschedulable")
        });
        let scheduled = placing.filter(|condition| says(condition, "status", "True"));
        let bound = scheduled
            .and_then(|condition| moment(condition.get("lastTransitionTime")))
            .or_else(|| moment(object.pointer("/status/startTime")))
            .or_else(|| moment(object.pointer("/metadata/creationTimestamp")));
        let phase = object.pointer("/status/phase").and_then(Value::as_str);
        Self {
            node: text(object.pointer("/spec/nodeName")).filter(|node| !node.is_empty()),
            bound,
            finished: matches!(phase, Some("Succeeded" | "Failed")),
            policy: text(object.pointer("/metadata/labels").and_then(|labels| labels.get(POD_POLICY_LABEL))),
            unschedulable,
            meta: meta(object),
        }
    }
}

impl PolicyLite {
    fn of(object: &Value) -> Self {
        let read = TasPolicy::deserialize(object).map(|mut policy| {
            policy.metadata.managed_fields = None;
            Box::new(policy)
        });
        Self { meta: meta(object), object: read.map_err(|error| error.to_string()) }
    }
}

/// The few fields of the metadata that anyone looks at.
fn meta(object: &Value) -> ObjectMeta {
    let field = |name: &str| text(object.get("metadata").and_then(|metadata| metadata.get(name)));
    ObjectMeta {
        name: field("name"),
        namespace: field("namespace"),
        uid: field("uid"),
        resource_version: field("resourceVersion"),
        generation: object.pointer("/metadata/generation").and_then(Value::as_i64),
        ..ObjectMeta::default()
    }
}

fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(str::to_owned)
}

fn moment(value: Option<&Value>) -> Option<i64> {
    value?.as_str()?.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read<T: for<'de> Deserialize<'de>>(object: &Value) -> T {
        serde_json::from_value(object.clone()).unwrap()
    }

    #[test]
    fn only_the_fields_we_use_are_kept() {
        let node: NodeLite = read(&json!({
            "metadata": {"name": "n1", "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}, "managedFields": [{}]},
            "spec": {"podCIDR": "10.0.0.0/24"},
            "status": {"images": [{"names": ["x"]}], "addresses": [
                {"type": "InternalIP", "address": "10.0.0.1"}, {"type": "ExternalIP", "address": "1.2.3.4"},
                {"type": "Hostname", "address": "n1.local"}, {"type": "InternalIP"}, 5]}
        }));
        assert_eq!(
            (node.name(), node.namespace(), node.addresses.clone()),
            ("n1", "", vec!["10.0.0.1".to_owned(), "n1.local".to_owned()])
        );
        assert_eq!(node.meta.labels, None);

        let pod: PodLite = read(&json!({
            "metadata": {"name": "p", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running", "startTime": "2026-01-01T00:00:02Z", "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"}]}
        }));
        assert_eq!(
            (pod.node.as_deref(), pod.bound, pod.finished),
            (Some("n1"), Some(1_767_225_601_000), false)
        );
    }

    #[test]
    fn a_label_of_a_node_tells_who_has_written_it() {
        let entry = |manager: &str, operation: &str, keys: &[&str]| {
            let fields: serde_json::Map<String, Value> =
                keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
            json!({"manager": manager, "operation": operation, "fieldsV1": {"f:metadata": {"f:labels": fields}}})
        };
        let node: NodeLite = read(&json!({
            "metadata": {"name": "n1", "annotations": {"telemetry-aware.github.io/pods-woken-at": "5"},
                "labels": {"hot": "violating", "kubernetes.io/os": "linux", "mine": "x", "none": "y", "odd": 7,
                    "telemetry.aware.scheduling.gpu/card0": "true"},
                "managedFields": [entry("tas", "Apply", &["hot", "telemetry.aware.scheduling.gpu/card0"]),
                    entry("kubectl-label", "Update", &["mine", "hot"]), entry("tas", "Update", &["none"]), 5, {"fieldsV1": 1}]},
            "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}
        }));
        let label = |key: &str, value: &str, ours, others| LabelLite {
            key: key.to_owned(),
            value: value.to_owned(),
            ours,
            others,
        };
        assert_eq!(
            node.labels,
            [
                label("hot", "violating", true, true),
                label("mine", "x", false, true),
                label("none", "y", false, true),
                label("telemetry.aware.scheduling.gpu/card0", "true", true, false),
            ]
        );
        assert_eq!((node.taints.len(), node.kicked.as_deref()), (1, Some("5")));
    }

    #[test]
    fn a_pod_waits_once_the_scheduler_has_said_so() {
        let waits = |status: &str, reason: &str| {
            let pod: PodLite =
                read(&json!({"metadata": {"labels": {"telemetry-policy": "p"}}, "status": {"conditions": [
                {"type": "PodScheduled", "status": status, "reason": reason}]}}));
            assert_eq!(pod.policy.as_deref(), Some("p"));
            pod.unschedulable
        };
        assert!(waits("False", "Unschedulable"));
        assert!(!waits("False", "SchedulingGated") && !waits("True", ""));
    }

    #[test]
    fn when_a_pod_was_bound_is_the_nearest_that_is_known() {
        let bound = |status: Value| {
            let pod: PodLite =
                read(&json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:01Z"}, "status": status}));
            pod.bound
        };
        assert_eq!(bound(json!({"startTime": "1970-01-01T00:00:02Z"})), Some(2000));
        assert_eq!(
            bound(
                json!({"conditions": [{"type": "PodScheduled", "status": "False", "lastTransitionTime": "1970-01-01T00:00:03Z"}]})
            ),
            Some(1000)
        );
        assert_eq!(bound(json!({"startTime": "yesterday"})), Some(1000));
        assert_eq!(read::<PodLite>(&json!({})).bound, None);
    }

    #[test]
    fn a_policy_that_is_none_is_kept_with_the_reason() {
        let good: PolicyLite = read(
            &json!({"metadata": {"name": "p", "namespace": "default", "generation": 3}, "spec": {"strategies": {}}}),
        );
        assert_eq!(good.object.unwrap().metadata.generation, Some(3));
        let bad: PolicyLite =
            read(&json!({"metadata": {"name": "p", "resourceVersion": "5"}, "spec": {"strategies": [1]}}));
        assert_eq!((bad.name(), bad.meta.resource_version.as_deref()), ("p", Some("5")));
        assert!(bad.object.unwrap_err().contains("expected a map"));
    }

    proptest! {
        #[test]
        fn no_object_brings_the_reader_down(text in r#"\{"(metadata|spec|status)":(\[|\{|"|1|null|true)[a-z":,\{\}\[\]0-9]{0,30}"#) {
            if let Ok(object) = serde_json::from_str::<Value>(&text) {
                let (_, _, _) = (NodeLite::of(&object), PodLite::of(&object), PolicyLite::of(&object));
            }
        }
    }

    #[test]
    fn whatever_stands_in_the_place_of_an_object_is_read() {
        for odd in [
            json!(null),
            json!(5),
            json!([]),
            json!("x"),
            json!({"metadata": 5, "spec": [], "status": "x"}),
            json!({"status": {"addresses": {"a": 1}, "conditions": 7}}),
        ] {
            let _: (NodeLite, PodLite, PolicyLite) = (read(&odd), read(&odd), read(&odd));
        }
    }
}
