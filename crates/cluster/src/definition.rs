//! The definition of `TASPolicy` that is installed: none, ours, or Intel's, which drops our fields in silence.

use std::collections::BTreeSet;

use api::keys::POLICY_CRD;
use http::Request;
use kube::{Client, Error};
use serde_json::Value;

use crate::trouble::{Trouble, Verb};

/// What is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Definition {
    /// Nothing: there can be no policies.
    Missing,
    /// One that knows all fields of ours.
    Complete,
    /// One that drops these fields of ours in silence.
    Lacks(BTreeSet<String>),
}

impl Definition {
    /// For people, with the way out; nothing when all is well.
    pub fn words(&self) -> Option<String> {
        match self {
            Self::Complete => None,
            Self::Missing => {
                Some(format!("the CustomResourceDefinition {POLICY_CRD} is not installed; apply deploy/crds"))
            }
            Self::Lacks(fields) => {
                let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
                Some(format!(
                    "the installed CustomResourceDefinition {POLICY_CRD} drops the fields {} in silence; apply deploy/crds to use them",
                    fields.join(", ")
                ))
            }
        }
    }
}

/// Looks at what is installed.
pub async fn installed(client: &Client) -> Result<Definition, Trouble> {
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{POLICY_CRD}");
    let resource = format!("customresourcedefinitions.apiextensions.k8s.io/{POLICY_CRD}");
    let request = Request::get(path).body(Vec::new()).map_err(|error| Trouble::Refused {
        verb: Verb::Get,
        resource: resource.clone(),
        said: error.to_string(),
    })?;
    match client.request::<Value>(request).await {
        Ok(definition) => Ok(compare(&definition)),
        Err(Error::Api(status)) if status.code == 404 => Ok(Definition::Missing),
        Err(error) => Err(Trouble::of(&error, Verb::Get, &resource)),
    }
}

/// Which fields of ours a definition has no place for.
pub fn compare(installed: &Value) -> Definition {
    let ours = serde_json::to_value(api::crd()).unwrap_or_default();
    let (mut wanted, mut known) = (BTreeSet::new(), BTreeSet::new());
    fields(schema(&ours), "", &mut wanted);
    let Some(theirs) = find_schema(installed) else { return Definition::Lacks(wanted) };
    fields(theirs, "", &mut known);
    let open = open_ends(theirs);
    let lacking: BTreeSet<String> = wanted
        .into_iter()
        .filter(|field| !known.contains(field) && !open.iter().any(|end| field.starts_with(end.as_str())))
        .collect();
    // A field whose parent is lacking goes without saying.
    let parents = lacking.clone();
    let lacking: BTreeSet<String> = lacking
        .into_iter()
        .filter(|field| !parents.iter().any(|parent| field.starts_with(&format!("{parent}."))))
        .collect();
    if lacking.is_empty() { Definition::Complete } else { Definition::Lacks(lacking) }
}

fn schema(definition: &Value) -> &Value {
    find_schema(definition).unwrap_or(&Value::Null)
}

/// The schema of the served version that policies are read in.
fn find_schema(definition: &Value) -> Option<&Value> {
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let version = versions
        .iter()
        .find(|version| version.get("name").and_then(Value::as_str) == Some(api::keys::POLICY_VERSION))?;
    version.pointer("/schema/openAPIV3Schema")
}

/// Every field under a schema, as `spec.strategies.*.rules[].for`.
fn fields(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, below) in properties {
            // Kubernetes itself knows metadata and the like.
            if path.is_empty() && !matches!(name.as_str(), "spec" | "status") {
                continue;
            }
            let here = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            fields(below, &here, found);
            found.insert(here);
        }
    }
    if let Some(below) = schema.get("items") {
        fields(below, &format!("{path}[]"), found);
    }
    if let Some(below) = schema.get("additionalProperties") {
        fields(below, &format!("{path}.*"), found);
    }
}

/// Places where a schema keeps whatever it does not know.
fn open_ends(schema: &Value) -> Vec<String> {
    fn collect(schema: &Value, path: &str, found: &mut Vec<String>) {
        if schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true)) {
            found.push(path.to_owned());
        }
        if let Some(Value::Object(properties)) = schema.get("properties") {
            for (name, below) in properties {
                let here = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(below, &here, found);
            }
        }
        for (key, mark) in [("items", "[]"), ("additionalProperties", ".*")] {
            if let Some(below) = schema.get(key) {
                collect(below, &format!("{path}{mark}"), found);
            }
        }
    }
    let mut found = Vec::new();
    collect(schema, "", &mut found);
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The schema that Intel's own deployment installs, in our words.
    fn intel() -> Value {
        let text = |kind: &str| json!({"type": kind});
        let rule = json!({"type": "object", "properties": {
            "metricname": text("string"), "operator": text("string"), "target": text("integer"),
            "labels": {"type": "array", "items": text("string")}}});
        let strategy = json!({"type": "object", "properties": {
            "policyName": text("string"), "logicalOperator": text("string"), "rules": {"type": "array", "items": rule}}});
        json!({"spec": {"versions": [{"name": "v1alpha1", "schema": {"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"strategies": {"type": "object", "additionalProperties": strategy}}},
            "status": {"type": "object", "properties": {"message": text("string")}}}}}}]}})
    }

    #[test]
    fn our_own_definition_is_complete() {
        assert_eq!(compare(&serde_json::to_value(api::crd()).unwrap()), Definition::Complete);
    }

    #[test]
    fn intels_definition_is_told_by_what_it_drops() {
        let Definition::Lacks(fields) = compare(&intel()) else {
            panic!("Intel's definition knows our fields")
        };
        for field in [
            "spec.mode",
            "spec.onMissing",
            "spec.maxAge",
            "spec.strategies.*.rules[].for",
            "spec.strategies.*.rules[].clear",
        ] {
            assert!(fields.contains(field), "{field} in {fields:?}");
        }
        assert!(
            !fields.iter().any(|field| field.ends_with("metricname") || field.ends_with("normalize.min")),
            "{fields:?}"
        );
    }

    #[test]
    fn a_definition_that_keeps_what_it_does_not_know_lacks_nothing() {
        let open = json!({"spec": {"versions": [{"name": "v1alpha1", "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
        assert_eq!(compare(&open), Definition::Complete);
    }

    #[test]
    fn a_definition_that_makes_no_sense_lacks_everything() {
        for odd in [json!(null), json!({}), json!({"spec": {"versions": [{"name": "v1"}]}})] {
            assert!(matches!(compare(&odd), Definition::Lacks(_)));
        }
    }

    #[test]
    fn the_words_name_the_way_out() {
        assert_eq!(Definition::Complete.words(), None);
        assert_eq!(
            Definition::Lacks(BTreeSet::from(["spec.mode".to_owned()])).words().unwrap(),
            "the installed CustomResourceDefinition taspolicies.telemetry.intel.com drops the fields spec.mode in silence; apply deploy/crds to use them"
        );
    }
}
