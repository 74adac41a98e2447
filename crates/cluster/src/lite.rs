//! Objects as lean as we need them. Reading one never fails, so that one bad object cannot stop a watch: what makes
//! no sense is kept as a fault, to be named and left out.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use api::policy::TasPolicy;

/// A node: who it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeLite {
    meta: ObjectMeta,
    /// Its addresses of the types InternalIP and Hostname.
    pub addresses: Vec<String>,
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
}

/// A policy as it is stored, not yet understood.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyLite {
    meta: ObjectMeta,
    /// The object, or why it is none.
    pub object: Result<Box<TasPolicy>, String>,
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
        }
    };
}

resource_like!(NodeLite, Node);
resource_like!(PodLite, Pod);
resource_like!(PolicyLite, TasPolicy);

impl NodeLite {
    fn of(object: &Value) -> Self {
        let addresses = object.pointer("/status/addresses").and_then(Value::as_array);
        let useful = addresses.into_iter().flatten().filter(|address| {
            matches!(address.get("type").and_then(Value::as_str), Some("InternalIP" | "Hostname"))
        });
        let addresses = useful.filter_map(|address| text(address.get("address"))).collect();
        Self { meta: meta(object), addresses }
    }
}

impl PodLite {
    fn of(object: &Value) -> Self {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let scheduled = conditions.into_iter().flatten().find(|condition| {
            condition.get("type").and_then(Value::as_str) == Some("PodScheduled")
                && condition.get("status").and_then(Value::as_str) == Some("True")
        });
        let bound = scheduled
            .and_then(|condition| moment(condition.get("lastTransitionTime")))
            .or_else(|| moment(object.pointer("/status/startTime")))
            .or_else(|| moment(object.pointer("/metadata/creationTimestamp")));
        let phase = object.pointer("/status/phase").and_then(Value::as_str);
        Self {
            node: text(object.pointer("/spec/nodeName")).filter(|node| !node.is_empty()),
            bound,
            finished: matches!(phase, Some("Succeeded" | "Failed")),
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
