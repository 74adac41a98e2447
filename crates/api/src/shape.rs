//! From any JSON value to a policy object: every value of a wrong type, every field that is missing or unknown.
//!
//! The walk follows the schema that the API server follows, so there is one truth. Wrong values are reported and
//! replaced by a stand-in, so that the rest of the object can still be compiled and told what is wrong with it.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use crate::compile::nearest;
use crate::crd;
use crate::number;
use crate::path::FieldPath;
use crate::policy::{DURATION_PATTERN, TasPolicy};
use crate::problem::{Code, Findings, shortened};

static SCHEMA: LazyLock<Value> = LazyLock::new(crd::schema);

/// The object as far as it has the shape of a policy; findings about places within `at`.
pub(crate) fn shape(value: &Value, at: &FieldPath, findings: &mut Findings) -> TasPolicy {
    let mut object = value.as_object().cloned().unwrap_or_default();
    // Who the object is has been found out already, and the status is ours to write.
    for known in ["apiVersion", "kind", "status"] {
        object.remove(known);
    }
    let shaped = fitted(&SCHEMA, &Value::Object(object), at, findings);
    let metadata = json!({
        "name": shaped["metadata"]["name"],
        "namespace": shaped["metadata"]["namespace"],
        "annotations": shaped["metadata"]["annotations"],
    });
    let mut reduced = Map::from_iter([("metadata".to_owned(), metadata)]);
    if let Some(spec) = shaped.get("spec") {
        reduced.insert("spec".to_owned(), spec.clone());
    }
    match serde_json::from_value(Value::Object(reduced)) {
        Ok(policy) => policy,
        // The walk gives every field its type, so this is a difference between schema and types; say it, do not fall.
        Err(error) => {
            findings.error(at, Code::WrongType, format!("the policy cannot be read: {error}"));
            TasPolicy::default()
        }
    }
}

/// The value, with what does not fit the schema reported and replaced.
fn fitted(schema: &Value, value: &Value, at: &FieldPath, findings: &mut Findings) -> Value {
    let kind = Kind::of(schema);
    match (kind, value) {
        (Kind::Map, Value::Object(map)) => fitted_map(schema, map, at, findings),
        (Kind::List, Value::Array(items)) => {
            let fit =
                |(index, item): (usize, &Value)| fitted(&schema["items"], item, &at.index(index), findings);
            items.iter().enumerate().map(fit).collect()
        }
        (Kind::Text | Kind::Quantity, Value::String(_)) => value.clone(),
        (Kind::Whole | Kind::Quantity, Value::Number(number)) if number.is_i64() => value.clone(),
        (Kind::Whole | Kind::Quantity, Value::Number(number)) => {
            if let Some(whole) = number.as_f64().and_then(number::whole) {
                return whole.into();
            }
            findings.error(at, Code::WrongType, kind.refusal(schema, value));
            kind.stand_in(value)
        }
        _ => {
            findings.error(at, Code::WrongType, kind.refusal(schema, value));
            kind.stand_in(value)
        }
    }
}

fn fitted_map(schema: &Value, map: &Map<String, Value>, at: &FieldPath, findings: &mut Findings) -> Value {
    let properties = schema["properties"].as_object();
    let anything = schema.get("additionalProperties");
    let open = schema.get("x-kubernetes-preserve-unknown-fields").is_some();
    let mut fit = Map::new();
    for (key, value) in map {
        let at = at.key(key);
        let known = properties.and_then(|properties| properties.get(key)).or(anything);
        if let Some(known) = known {
            if !value.is_null() {
                fit.insert(key.clone(), fitted(known, value, &at, findings));
            } else if !is_required(schema, key) {
                findings.warn(
                    &at,
                    Code::EmptyField,
                    format!(
                        "{key} has no value, and the API server drops it; give it one, or remove the line"
                    ),
                );
            }
        } else if !open {
            let names: Vec<&str> = properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
            let hint = nearest(key, &names).map_or_else(
                || format!("known are {}", names.join(", ")),
                |name| format!("did you mean {name}?"),
            );
            findings.warn(
                &at,
                Code::UnknownField,
                format!(
                    "the field {:?} is not known here, and the API server drops it; {hint}",
                    shortened(key)
                ),
            );
        }
    }
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if map.get(name).is_none_or(Value::is_null) {
            let known = &schema["properties"][name];
            let description = known["description"].as_str().unwrap_or_default();
            let meaning =
                description.split(". ").next().unwrap_or_default().trim_end_matches('.').to_lowercase();
            findings.error(
                &at.key(name),
                Code::MissingField,
                format!("{name} is missing; add it ({meaning})"),
            );
            fit.insert(name.to_owned(), Kind::of(known).stand_in(&Value::Null));
        }
    }
    Value::Object(fit)
}

fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|names| names.iter().any(|required| required == name))
}

/// The kinds of value that the schema knows.
#[derive(Clone, Copy)]
enum Kind {
    Map,
    List,
    Text,
    Whole,
    Quantity,
}

impl Kind {
    fn of(schema: &Value) -> Self {
        match schema["type"].as_str() {
            Some("array") => Self::List,
            Some("string") => Self::Text,
            Some("integer") => Self::Whole,
            None if schema.get("x-kubernetes-int-or-string").is_some() => Self::Quantity,
            _ => Self::Map,
        }
    }

    /// A value of this kind that stands for the wrong one, as near to it as can be.
    fn stand_in(self, wrong: &Value) -> Value {
        match self {
            Self::Map => json!({}),
            Self::List => json!([]),
            Self::Whole => json!(1),
            Self::Text | Self::Quantity => match wrong {
                Value::Number(number) => Value::from(number.to_string()),
                Value::Bool(bool) => Value::from(bool.to_string()),
                _ if matches!(self, Self::Quantity) => json!(0),
                _ => json!(""),
            },
        }
    }

    fn refusal(self, schema: &Value, found: &Value) -> String {
        let expected = match self {
            Self::Map => "a map",
            Self::List => "a list",
            Self::Text => "a text",
            Self::Whole => "a whole number",
            Self::Quantity => "a whole number, or a quantity in quotes like \"2.5\", \"300m\" or \"64Gi\"",
        };
        let way_out = match (self, found) {
            (_, Value::Null) => "give it a value, or remove it".to_owned(),
            (Self::Text, Value::Number(number)) if schema["pattern"] == DURATION_PATTERN => {
                format!("write it with a unit, like {number}s")
            }
            (Self::Text, Value::Number(_) | Value::Bool(_)) | (Self::Quantity, Value::Number(_)) => {
                format!("write it in quotes: \"{found}\"")
            }
            (Self::List, Value::Object(_)) => "begin each entry with a dash".to_owned(),
            (Self::Map, Value::Array(_)) => "remove the dashes".to_owned(),
            _ => "see `kubectl explain taspolicy.spec`".to_owned(),
        };
        let found = match found {
            Value::Null => "nothing".to_owned(),
            Value::Bool(_) => format!("{found} (which yes, no, on and off mean, too)"),
            Value::Number(_) => format!("the number {found}"),
            Value::String(text) => format!("the text {:?}", shortened(text)),
            Value::Array(_) => "a list".to_owned(),
            Value::Object(_) => "a map".to_owned(),
        };
        format!("expected {expected}, found {found}; {way_out}")
    }
}
