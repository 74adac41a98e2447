//! What kube-scheduler sends, read in place: names borrow from the body, nodes to echo stay raw.
//!
//! Go writes these messages with capitalised keys and reads keys in any case; so do we.

use std::borrow::Cow;
use std::fmt;

use api::keys::POD_POLICY_LABEL;
use engine::names::PolicyKey;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::names::Names;

/// Why a body is not such a message.
#[derive(Debug)]
pub enum DecodeError {
    /// Nothing was sent.
    Empty,
    /// Not text; how many bytes of it are.
    NotUtf8(usize),
    /// Not JSON, or not of the expected shape.
    Malformed(serde_json::Error),
    /// A request about no pod.
    NoPod,
    /// A request about no nodes.
    NoNodes,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => {
                f.write_str("the body is empty; send the JSON that kube-scheduler sends its extenders")
            }
            Self::NotUtf8(good) => {
                write!(f, "the body is not UTF-8 from byte {good} on; send it as JSON in UTF-8")
            }
            Self::Malformed(error) => write!(f, "the body is not an extender request: {error}"),
            Self::NoPod => f.write_str("\"Pod\" is missing or null; say which pod is to be placed"),
            Self::NoNodes => {
                f.write_str("\"NodeNames\" and \"Nodes\" are both missing or null; say which nodes to judge")
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// A filter or prioritize request.
#[derive(Debug)]
pub struct Args<'a> {
    /// The pod to be placed.
    pub pod: PodRef<'a>,
    /// The nodes by name, where the scheduler trusts us to know them.
    pub names: Option<Names<'a>>,
    /// The nodes in full.
    pub nodes: Option<Vec<FullNode<'a>>>,
}

/// A preempt request.
#[derive(Debug)]
pub struct PreemptArgs<'a> {
    /// The pod to make room for.
    pub pod: PodRef<'a>,
    /// Nodes and who would have to leave them.
    pub victims: Vec<(Text<'a>, Victims<'a>)>,
}

/// Who would have to leave a node.
#[derive(Debug)]
pub enum Victims<'a> {
    /// In the short form, to be echoed as it is.
    Short(&'a RawValue),
    /// In the long form, to be echoed in the short one.
    Long {
        /// Their UIDs.
        uids: Vec<Text<'a>>,
        /// How many disruption budgets that would break.
        broken_budgets: i64,
    },
}

impl<'a> Args<'a> {
    /// Reads a filter or prioritize request.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let wire: ArgsWire<'a> = parse(body)?;
        let pod = wire.pod.ok_or(DecodeError::NoPod)?;
        if wire.names.is_none() && wire.nodes.is_none() {
            return Err(DecodeError::NoNodes);
        }
        let nodes = wire
            .nodes
            .map(|list| list.0.into_iter().map(FullNode::read).collect::<Result<_, _>>())
            .transpose();
        Ok(Self { pod, names: wire.names, nodes: nodes.map_err(DecodeError::Malformed)? })
    }
}

impl<'a> PreemptArgs<'a> {
    /// Reads a preempt request.
    pub fn decode(body: &'a [u8]) -> Result<Self, DecodeError> {
        let wire: PreemptWire<'a> = parse(body)?;
        let pod = wire.pod.ok_or(DecodeError::NoPod)?;
        let short = wire
            .short
            .map(|map| map.0.into_iter().map(|(node, raw)| (node, Victims::Short(raw))).collect::<Vec<_>>());
        let long = wire.long.map(|map| {
            let read = |(node, victims): (Text<'a>, LongVictims<'a>)| {
                let uids = victims.pods.into_iter().filter_map(|pod| pod.metadata?.uid).collect();
                (node, Victims::Long { uids, broken_budgets: victims.broken_budgets })
            };
            map.0.into_iter().map(read).collect::<Vec<_>>()
        });
        // Only one of the two is filled, whatever the other looks like.
        let victims = short.filter(|victims| !victims.is_empty()).or(long).unwrap_or_default();
        Ok(Self { pod, victims })
    }
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, DecodeError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(DecodeError::Empty);
    }
    // Checked once for the whole body, instead of once per text.
    let text = std::str::from_utf8(body).map_err(|error| DecodeError::NotUtf8(error.valid_up_to()))?;
    serde_json::from_str(text).map_err(DecodeError::Malformed)
}

/// A text that borrows from the body unless it holds escapes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text<'a>(pub Cow<'a, str>);

impl Text<'_> {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_key(&self, key: &str) -> bool {
        self.0.eq_ignore_ascii_case(key)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// A message whose keys match in any case: each arm takes the value of one key.
macro_rules! any_case_message {
    ($name:ident { $($field:ident : $type:ty = $key:literal),+ $(,)? }, $what:literal) => {
        impl<'de: 'a, 'a> Deserialize<'de> for $name<'a> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct MessageVisitor;
                impl<'de> Visitor<'de> for MessageVisitor {
                    type Value = $name<'de>;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str($what)
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        $(let mut $field: $type = Default::default();)+
                        while let Some(key) = map.next_key::<Text<'de>>()? {
                            $(if key.is_key($key) {
                                $field = map.next_value()?;
                                continue;
                            })+
                            map.next_value::<IgnoredAny>()?;
                        }
                        Ok($name { $($field),+ })
                    }
                }
                deserializer.deserialize_map(MessageVisitor)
            }
        }
    };
}

/// A node in full, as it came.
#[derive(Debug)]
pub struct FullNode<'a> {
    /// Its name.
    pub name: Text<'a>,
    /// All of it.
    pub raw: &'a RawValue,
}

impl<'a> FullNode<'a> {
    fn read(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        let node: Named<'a> = serde_json::from_str(raw.get())?;
        Ok(Self { name: node.metadata.and_then(|metadata| metadata.name).unwrap_or_default(), raw })
    }
}

struct Named<'a> {
    metadata: Option<Metadata<'a>>,
}

any_case_message!(Named { metadata: Option<Metadata<'de>> = "metadata" }, "a Kubernetes object");

struct Metadata<'a> {
    name: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    uid: Option<Text<'a>>,
    labels: Option<PolicyLabel<'a>>,
}

any_case_message!(
    Metadata {
        name: Option<Text<'de>> = "name",
        namespace: Option<Text<'de>> = "namespace",
        uid: Option<Text<'de>> = "uid",
        labels: Option<PolicyLabel<'de>> = "labels",
    },
    "metadata"
);

/// Which pod, and which policy it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRef<'a> {
    /// Its namespace.
    pub namespace: Text<'a>,
    /// Its name.
    pub name: Text<'a>,
    /// Its UID, or nothing if that was not sent.
    pub uid: Text<'a>,
    policy: Option<Text<'a>>,
}

impl PodRef<'_> {
    /// The policy it names, in its own namespace.
    pub fn policy(&self) -> Option<PolicyKey<'_>> {
        let name = self.policy.as_ref()?.as_str();
        Some(PolicyKey { namespace: self.namespace.as_str(), name })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for PodRef<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let named = Named::deserialize(deserializer)?;
        let metadata = named.metadata;
        let (namespace, name, uid, labels) =
            metadata.map_or((None, None, None, None), |m| (m.namespace, m.name, m.uid, m.labels));
        let namespace = namespace.filter(|n| !n.0.is_empty()).unwrap_or(Text(Cow::Borrowed("default")));
        let policy = labels.and_then(|labels| labels.0).filter(|policy| !policy.0.is_empty());
        Ok(Self { namespace, name: name.unwrap_or_default(), uid: uid.unwrap_or_default(), policy })
    }
}

/// The one label of a pod that matters here.
struct PolicyLabel<'a>(Option<Text<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for PolicyLabel<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LabelVisitor;
        impl<'de> Visitor<'de> for LabelVisitor {
            type Value = PolicyLabel<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map of labels")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut labels: A) -> Result<Self::Value, A::Error> {
                let mut policy = None;
                while let Some(key) = labels.next_key::<Text<'de>>()? {
                    if key.as_str() == POD_POLICY_LABEL {
                        policy = labels.next_value()?;
                    } else {
                        labels.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(PolicyLabel(policy))
            }
        }
        deserializer.deserialize_map(LabelVisitor)
    }
}

struct ArgsWire<'a> {
    pod: Option<PodRef<'a>>,
    names: Option<Names<'a>>,
    nodes: Option<NodeList<'a>>,
}

any_case_message!(
    ArgsWire { pod: Option<PodRef<'de>> = "Pod", names: Option<Names<'de>> = "NodeNames", nodes: Option<NodeList<'de>> = "Nodes" },
    "an object with Pod and NodeNames or Nodes"
);

/// A node list, of which only the items matter. Go writes an empty one as `null`.
struct NodeList<'a>(Vec<&'a RawValue>);

struct NodeListWire<'a> {
    items: Option<Vec<&'a RawValue>>,
}

any_case_message!(NodeListWire { items: Option<Vec<&'de RawValue>> = "items" }, "a list of nodes");

impl<'de: 'a, 'a> Deserialize<'de> for NodeList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(NodeListWire::deserialize(deserializer)?.items.unwrap_or_default()))
    }
}

struct PreemptWire<'a> {
    pod: Option<PodRef<'a>>,
    short: Option<Pairs<'a, &'a RawValue>>,
    long: Option<Pairs<'a, LongVictims<'a>>>,
}

any_case_message!(
    PreemptWire {
        pod: Option<PodRef<'de>> = "Pod",
        short: Option<Pairs<'de, &'de RawValue>> = "NodeNameToMetaVictims",
        long: Option<Pairs<'de, LongVictims<'de>>> = "NodeNameToVictims",
    },
    "an object with Pod and NodeNameToMetaVictims or NodeNameToVictims"
);

struct LongVictims<'a> {
    pods: Vec<Named<'a>>,
    broken_budgets: i64,
}

struct LongVictimsWire<'a> {
    pods: Option<Vec<Named<'a>>>,
    broken_budgets: i64,
}

any_case_message!(
    LongVictimsWire { pods: Option<Vec<Named<'de>>> = "Pods", broken_budgets: i64 = "NumPDBViolations" },
    "victims: Pods and NumPDBViolations"
);

impl<'de: 'a, 'a> Deserialize<'de> for LongVictims<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Option::<LongVictimsWire<'a>>::deserialize(deserializer)?;
        let wire = wire.unwrap_or(LongVictimsWire { pods: None, broken_budgets: 0 });
        Ok(Self { pods: wire.pods.unwrap_or_default(), broken_budgets: wire.broken_budgets })
    }
}

/// A map in the order written.
struct Pairs<'a, V>(Vec<(Text<'a>, V)>);

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Pairs<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PairsVisitor<V>(std::marker::PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for PairsVisitor<V> {
            type Value = Vec<(Text<'de>, V)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map by node name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(PairsVisitor(std::marker::PhantomData)).map(Self)
    }
}
