//! A document as a tree of values with their places.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

use super::Place;
use crate::path::Step;

/// A value and where it is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) node: Node,
    pub(super) place: Place,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// Null, boolean, number or text.
    Scalar(Value),
    List(Vec<Item>),
    /// Keys with their own places: a map begins on the line after its key, and people look for the key.
    Map(Vec<(String, Place, Item)>),
}

impl Node {
    pub(super) fn value(&self) -> Value {
        match self {
            Self::Scalar(value) => value.clone(),
            Self::List(items) => items.iter().map(|item| item.node.value()).collect(),
            Self::Map(entries) => {
                let entries = entries.iter().map(|(key, _, item)| (key.clone(), item.node.value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }
}

/// Where a field was found.
#[derive(Clone, Copy)]
pub(super) struct Found {
    pub(super) key: Place,
    pub(super) value: Place,
}

impl Item {
    /// Follows the steps as far as they lead.
    pub(super) fn find(&self, steps: &[Step]) -> Found {
        let mut item = self;
        let mut found = Found { key: self.place, value: self.place };
        for step in steps {
            let (key, next) = match (step, &item.node) {
                (Step::Key(key), Node::Map(entries)) => match entries.iter().find(|(name, ..)| name == key) {
                    Some((_, place, next)) => (*place, next),
                    None => break,
                },
                (Step::Index(index), Node::List(items)) => match items.get(*index) {
                    Some(next) => (next.place, next),
                    None => break,
                },
                _ => break,
            };
            let value = if matches!(next.node, Node::Scalar(_)) { next.place } else { key };
            found = Found { key, value };
            item = next;
        }
        found
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Node>::deserialize(deserializer)?;
        Ok(Self { place: place(spanned.referenced).unwrap_or(START), node: spanned.value })
    }
}

/// Where a document without a place of its own begins.
const START: Place = Place { line: 1, column: 1 };

pub(super) fn place(location: Location) -> Option<Place> {
    (location.line() > 0).then(|| Place { line: location.line(), column: location.column() })
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        // JSON has no infinity; the text keeps it visible, and no field takes it.
        Ok(Node::Scalar(
            Number::from_f64(value).map_or_else(|| Value::from(value.to_string()), Value::Number),
        ))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(Node::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, item)) = map.next_entry::<Spanned<String>, Item>()? {
            let place = place(key.referenced).unwrap_or(item.place);
            entries.push((key.value, place, item));
        }
        Ok(Node::Map(entries))
    }
}
