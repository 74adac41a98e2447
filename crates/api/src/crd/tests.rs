//! What the API server will say, offline: the committed file, the schema beside Intel's, and the CEL rules.

use engine::quantity::{Quantity, QuantityError};
use kube::Resource;
use kube::core::cel::Validator;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{ROOT, crd, crd_yaml, value};
use crate::duration::DurationError;
use crate::number::NUMBER_PATTERN;
use crate::policy::{DURATION_PATTERN, MAX_LISTED_NODES, TasPolicy};
use crate::{duration, keys};

fn schema() -> Value {
    value().pointer(ROOT).cloned().unwrap()
}

/// The messages with which the CEL rules refuse these strategies.
fn refusals(strategies: &Value) -> Vec<String> {
    let object = json!({ "metadata": { "name": "p" }, "spec": { "strategies": strategies } });
    match Validator::new().validate(&schema(), &object, None) {
        Ok(()) => Vec::new(),
        Err(errors) => errors.into_iter().map(|error| error.message).collect(),
    }
}

fn rule(extra: &Value) -> Value {
    let mut rule = json!({ "metricname": "m", "operator": "GreaterThan", "target": 80 });
    rule.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    rule
}

#[test]
fn the_committed_definition_is_the_generated_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds/telemetry.intel.com_taspolicies.yaml");
    let committed = std::fs::read_to_string(path).unwrap();
    assert!(committed == crd_yaml(), "deploy/crds is stale; run `cargo xtask gen`");
}

#[test]
fn the_file_says_what_the_types_say() {
    let read: Value = serde_saphyr::from_str(&crd_yaml()).unwrap();
    assert_eq!(read, serde_json::to_value(crd()).unwrap());
}

#[test]
fn the_derive_and_the_list_of_names_agree() {
    let crd = crd();
    assert_eq!(crd.metadata.name.as_deref(), Some(keys::POLICY_CRD));
    assert_eq!(crd.spec.group, keys::POLICY_GROUP);
    assert_eq!(crd.spec.names.kind, keys::POLICY_KIND);
    assert_eq!(crd.spec.names.plural, keys::POLICY_PLURAL);
    assert_eq!(crd.spec.names.short_names, Some(vec!["tasp".to_owned()]));
    assert_eq!(TasPolicy::api_version(&()), keys::POLICY_API_VERSION);
}

#[test]
fn an_object_says_its_kind_when_it_is_written() {
    let written = serde_json::to_value(TasPolicy::default()).unwrap();
    assert_eq!(written["apiVersion"], keys::POLICY_API_VERSION);
    assert_eq!(written["kind"], keys::POLICY_KIND);
}

/// Intel's schema, field by field (research note, part 1): whatever it admits, ours must admit.
#[test]
fn nothing_that_intels_schema_admits_is_refused() {
    let schema = schema();
    assert_eq!(schema.get("required"), None);
    let spec = &schema["properties"]["spec"];
    assert_eq!(spec["required"], json!(["strategies"]));
    let strategy = &spec["properties"]["strategies"]["additionalProperties"];
    assert_eq!(strategy["required"], json!(["rules"]));
    assert_eq!(strategy["properties"]["rules"].get("minItems"), None);
    assert_eq!(strategy["properties"]["policyName"]["type"], "string");
    assert_eq!(strategy["properties"]["logicalOperator"]["enum"], json!(["allOf", "anyOf"]));
    let rule = &strategy["properties"]["rules"]["items"];
    assert_eq!(rule["required"], json!(["metricname", "operator"]));
    for operator in ["Equals", "LessThan", "GreaterThan"] {
        assert!(rule["properties"]["operator"]["enum"].as_array().unwrap().contains(&json!(operator)));
    }
    assert_eq!(rule["properties"]["target"]["anyOf"], json!([{ "type": "integer" }, { "type": "string" }]));
    assert_eq!(rule["properties"]["labels"]["items"]["type"], "string");
    for field in ["compliance", "message"] {
        assert_eq!(schema["properties"]["status"]["properties"][field]["type"], "string");
    }
}

#[test]
fn old_objects_pass_the_rules_even_with_traps_in_them() {
    let plain = rule(&json!({}));
    for strategies in [
        json!({}),
        json!({ "dontschedule": { "rules": [] } }),
        json!({ "dontSchedule": { "rules": [plain] } }),
        json!({ "scheduleonmetric": { "logicalOperator": "allOf", "rules": [plain, plain] } }),
        json!({ "deschedule": { "policyName": "x", "rules": [rule(&json!({ "labels": ["a"] }))] } }),
    ] {
        assert_eq!(refusals(&strategies), Vec::<String>::new(), "{strategies}");
    }
}

#[test]
fn fields_of_ours_are_refused_where_they_mean_nothing() {
    let weight = "weight and normalize have a meaning only under scheduleonmetric";
    let hold = "clear and for have no meaning under scheduleonmetric, where no rule is a violation";
    let action = "action has a meaning only under deschedule";
    let effect = "taintEffect has a meaning only under deschedule, beside the action Taint";
    let with = |extra: Value| json!([rule(&extra)]);
    for (strategies, refusal) in [
        (json!({ "dontschedule": { "rules": with(json!({ "weight": 2 })) } }), Some(weight)),
        (
            json!({ "labeling": { "rules": with(json!({ "normalize": { "min": 0, "max": 9 } })) } }),
            Some(weight),
        ),
        (json!({ "scheduleonmetric": { "rules": with(json!({ "weight": 2 })) } }), None),
        (json!({ "scheduleonmetric": { "rules": with(json!({ "for": "5m" })) } }), Some(hold)),
        (json!({ "scheduleonmetric": { "rules": with(json!({ "clear": 70 })) } }), Some(hold)),
        (json!({ "dontschedule": { "rules": with(json!({ "clear": 70, "for": "5m" })) } }), None),
        (json!({ "dontschedule": { "action": ["Label"], "rules": [] } }), Some(action)),
        (json!({ "deschedule": { "action": ["Label", "Taint"], "rules": [] } }), None),
        (json!({ "deschedule": { "action": ["Taint"], "taintEffect": "NoSchedule", "rules": [] } }), None),
        (json!({ "deschedule": { "taintEffect": "NoSchedule", "rules": [] } }), Some(effect)),
        (json!({ "dontschedule": { "taintEffect": "NoSchedule", "rules": [] } }), Some(effect)),
    ] {
        assert_eq!(refusals(&strategies), Vec::from_iter(refusal), "{strategies}");
    }
}

#[test]
fn a_clear_value_needs_an_operator_with_a_side() {
    let clear = |operator: &str| {
        let rules = json!([{ "metricname": "m", "operator": operator, "target": 80, "clear": 70 }]);
        refusals(&json!({ "dontschedule": { "rules": rules } }))
    };
    assert_eq!(clear("GreaterThan"), Vec::<String>::new());
    assert_eq!(
        clear("NotEquals"),
        [
            "clear goes with GreaterThan, GreaterOrEqual, LessThan and LessOrEqual only: a point has no side to leave on"
        ]
    );
}

#[test]
fn the_status_lists_no_more_nodes_than_its_schema_admits() {
    let nodes = &schema()["properties"]["status"]["properties"]["violating"]["properties"]["nodes"];
    assert_eq!(nodes["maxItems"], json!(MAX_LISTED_NODES));
}

/// Whether the API server would let the text through.
fn matches(pattern: &str, text: &str) -> bool {
    let rule = json!([{ "rule": format!("self.matches(r'{pattern}')") }]);
    let schema = json!({ "type": "string", "x-kubernetes-validations": rule });
    Validator::new().validate(&schema, &json!(text), None).is_ok()
}

proptest! {
    #[test]
    fn the_pattern_of_numbers_admits_what_can_be_read(text in "[-+]?[0-9]{0,3}[.]?[0-9]{0,3}([numkMGTPEKi]{0,2}|[eE][-+]?[0-9]{0,2})") {
        let read = !matches!(text.parse::<Quantity>(), Err(QuantityError::NotANumber { .. } | QuantityError::Empty));
        prop_assert_eq!(matches(NUMBER_PATTERN, &text), read);
    }

    #[test]
    fn the_pattern_of_durations_admits_what_can_be_read(text in "-?(0|([0-9]{0,2}[.]?[0-9]{0,2}[hmsuµn]{0,2}){0,3})") {
        // A sign is Go's to read and not ours to store. A pattern sees the shape; that a duration is too long is said on reading.
        let shaped = matches!(duration::parse(&text), Ok(_) | Err(DurationError::TooLong { .. }));
        let read = shaped && !text.starts_with('-');
        prop_assert_eq!(matches(DURATION_PATTERN, &text), read);
    }
}
