//! Documents of the wrong shape: everything at once, each with its place.

use std::fmt::Write;

use serde_json::json;

use super::{conflicts, inspect};
use crate::compile::Defaults;
use crate::manifest::{Limits, read};
use crate::problem::Code;

fn report(yaml: &str) -> String {
    let reading = read(yaml.as_bytes(), &Limits::default());
    let mut report = String::new();
    for document in &reading.documents {
        let inspection = inspect(document, &Defaults::default());
        for policy in &inspection.policies {
            writeln!(
                report,
                "{} {} {}",
                policy.place,
                policy.name,
                if policy.policy.is_some() { "ok" } else { "refused" }
            )
            .unwrap();
            for (place, problem) in &policy.problems {
                writeln!(report, "  {place} {problem}").unwrap();
            }
        }
        writeln!(report, "others: {}", inspection.others).unwrap();
    }
    for error in reading.errors {
        writeln!(report, "unreadable: {error}").unwrap();
    }
    report
}

const HEAD: &str = "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\n";

#[test]
fn everything_wrong_with_the_shape_is_said_at_once() {
    let yaml = format!(
        "{HEAD}{}",
        r"
metadata:
  name: 5
  annotations: {a: 1}
  creationTimestamp: null
spec:
  onmissing: Deny
  maxAge: 90
  strategies:
    dontschedule:
      logicalOperator: true
      rules:
      - metricName: power
        operator: GreaterThan
        target: 2.5
      - metricname: heat
        operator: GreaterThan
        target:
        for: 5
      - just a text
      - metricname: [a]
        operator: GreaterThan
        target: 3O
    deschedule:
      rules: {metricname: m}
    labeling: []
    scheduleonmetric:
      rules:
      - {metricname: m, operator: LessThan, weight: heavy}
"
    );
    insta::assert_snapshot!(report(&yaml));
}

#[test]
fn policies_are_found_in_lists_and_beside_other_objects() {
    let yaml = r"
kind: List
apiVersion: v1
items:
- {apiVersion: v1, kind: Pod}
- apiVersion: telemetry.intel.com/v1alpha1
  kind: TASPolicy
  metadata: {name: a}
  spec:
    strategies:
      dontschedule:
        rules:
        - {metricname: m, operator: Above, target: 1}
- {kind: List, items: []}
---
apiVersion: apps/v1
kind: Deployment
---
just a text
";
    insta::assert_snapshot!(report(yaml));
}

#[test]
fn what_is_nearly_a_policy_is_told_what_it_lacks() {
    let yaml = "
apiVersion: telemetry.intel.com/v1
kind: TASPolicy
metadata: {name: a}
spec: {strategies: {dontschedule: {rules: [{metricname: m, operator: GreaterThan, target: 1}]}}}
---
apiVersion: telemetry.intel.com/v1alpha1
kind: TasPolicy
metadata: {name: b}
spec: {strategies: {dontschedule: {rules: [{metricname: m, operator: GreaterThan, target: 1}]}}}
---
metadata: {name: c}
spec: {strategies: {dontschedule: {rules: [{metricname: m, operator: GreaterThan, target: 1}]}}}
---
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: d}
spec: {}
---
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: e}
---
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
";
    insta::assert_snapshot!(report(yaml));
}

#[test]
fn policies_that_get_in_each_others_way_are_named() {
    let policy = |namespace: &str, strategy: &str| {
        let rules = "{rules: [{metricname: m, operator: GreaterThan, target: 1, labels: [a=b]}]}";
        let yaml = format!(
            "{HEAD}metadata: {{name: p, namespace: {namespace}}}\nspec: {{strategies: {{{strategy}: {rules}}}}}\n"
        );
        let reading = read(yaml.as_bytes(), &Limits::default());
        inspect(&reading.documents[0], &Defaults::default()).policies.remove(0).policy.unwrap()
    };
    let codes = |policies: &[engine::policy::Policy]| {
        let found = conflicts(&policies.iter().collect::<Vec<_>>());
        found.into_iter().map(|(index, problem)| (index, problem.code)).collect::<Vec<_>>()
    };
    let (labels, evicts, refuses) = ("labeling", "deschedule", "dontschedule");
    assert_eq!(codes(&[policy("a", refuses), policy("b", refuses)]), []);
    assert_eq!(codes(&[policy("a", refuses), policy("b", labels)]), []);
    assert_eq!(
        codes(&[policy("a", labels), policy("b", refuses), policy("c", evicts)]),
        [(2, Code::SharedLabel)]
    );
    assert_eq!(codes(&[policy("a", labels), policy("a", labels)]), [(1, Code::DuplicatePolicy)]);
}

/// The schema and the Rust types must not drift apart: whatever the walk lets through, the types read.
#[test]
fn a_policy_with_every_field_of_every_wrong_type_is_read_by_the_types() {
    let wrong = [
        json!(null),
        json!(true),
        json!(1),
        json!(2.5),
        json!("x"),
        json!([1]),
        json!({ "a": 1 }),
        json!(u64::MAX),
    ];
    let fields = [
        "/metadata",
        "/metadata/name",
        "/metadata/annotations",
        "/spec",
        "/spec/mode",
        "/spec/onMissing",
        "/spec/maxAge",
        "/spec/strategies",
        "/spec/strategies/dontschedule",
        "/spec/strategies/dontschedule/rules",
        "/spec/strategies/dontschedule/action",
        "/spec/strategies/dontschedule/policyName",
        "/spec/strategies/dontschedule/logicalOperator",
        "/spec/strategies/dontschedule/rules/0",
        "/spec/strategies/dontschedule/rules/0/metricname",
        "/spec/strategies/dontschedule/rules/0/operator",
        "/spec/strategies/dontschedule/rules/0/target",
        "/spec/strategies/dontschedule/rules/0/labels",
        "/spec/strategies/dontschedule/rules/0/clear",
        "/spec/strategies/dontschedule/rules/0/for",
        "/spec/strategies/dontschedule/rules/0/maxAge",
        "/spec/strategies/dontschedule/rules/0/weight",
        "/spec/strategies/dontschedule/rules/0/normalize",
        "/spec/strategies/dontschedule/rules/0/normalize/min",
        "/spec/strategies/dontschedule/rules/0/perPod",
        "/spec/strategies/dontschedule/rules/0/settle",
    ];
    let whole = json!({
        "apiVersion": "telemetry.intel.com/v1alpha1", "kind": "TASPolicy", "metadata": { "name": "p", "annotations": {} },
        "spec": { "mode": "", "onMissing": "", "maxAge": "", "strategies": { "dontschedule": {
            "action": [], "policyName": "", "logicalOperator": "", "rules": [{
                "metricname": "", "operator": "", "target": 0, "labels": [], "clear": 0, "for": "", "maxAge": "", "weight": 1,
                "normalize": { "min": 0, "max": 0 }, "perPod": 0, "settle": "" }] } } },
    });
    for field in fields {
        for value in &wrong {
            let mut object = whole.clone();
            *object.pointer_mut(field).unwrap() = value.clone();
            let text = object.to_string();
            let reading = read(text.as_bytes(), &Limits::default());
            let inspection = inspect(&reading.documents[0], &Defaults::default());
            let drift =
                |problem: &crate::problem::Problem| problem.message.starts_with("the policy cannot be read");
            let problems = inspection.policies.into_iter().flat_map(|policy| policy.problems);
            let drifted: Vec<_> = problems.filter(|(_, problem)| drift(problem)).collect();
            assert_eq!(drifted, [], "{field} {value}");
        }
    }
}
