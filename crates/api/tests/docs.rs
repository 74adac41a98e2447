//! What the documentation shows works, and nothing is missing from it.

use api::manifest::{Limits, read};
use api::problem::{Code, Severity};
use api::{Defaults, inspect};
use serde_json::Value;

const POLICY: &str = include_str!("../../../docs/policy.md");
const README: &str = include_str!("../../../README.md");
const ENFORCEMENT: &str = include_str!("../../../docs/enforcement.md");
const CHECK: &str = include_str!("../../../docs/check.md");

fn examples() -> Vec<&'static str> {
    let blocks = [README, POLICY].into_iter().flat_map(|page| page.split("```yaml\n").skip(1));
    let blocks = blocks.map(|block| block.split("```").next().unwrap_or_default());
    // The scheduler's configuration is generated, and no policy.
    blocks.filter(|block| !block.contains("kind: KubeSchedulerConfiguration")).collect()
}

#[test]
fn every_example_is_a_policy_without_a_warning() {
    assert_eq!(examples().len(), 7);
    for example in examples() {
        let reading = read(example.as_bytes(), &Limits::default());
        assert_eq!(reading.errors, [], "{example}");
        let found: Vec<_> =
            reading.documents.iter().map(|document| inspect(document, &Defaults::default())).collect();
        let policies: Vec<_> = found.into_iter().flat_map(|inspection| inspection.policies).collect();
        assert_eq!(policies.len(), 1, "{example}");
        let problems = policies.into_iter().flat_map(|policy| policy.problems);
        let grave: Vec<_> = problems.filter(|(_, problem)| problem.severity > Severity::Note).collect();
        assert_eq!(grave, [], "{example}");
    }
}

#[test]
fn every_field_and_every_operator_is_described() {
    let crd = serde_json::to_value(api::crd()).unwrap();
    let spec = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    let mut names = Vec::new();
    collect(spec, &mut names);
    assert!(names.len() > 20);
    for name in names {
        assert!(
            POLICY.contains(&format!("`{name}`")) || POLICY.contains(&format!("`spec.{name}`")),
            "{name}"
        );
    }
}

/// Field names and the values that enumerations allow.
fn collect(schema: &Value, names: &mut Vec<String>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        names.push(name.clone());
        collect(property, names);
    }
    names
        .extend(schema["enum"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    for inner in ["additionalProperties", "items"] {
        if schema.get(inner).is_some() {
            collect(&schema[inner], names);
        }
    }
}

#[test]
fn every_code_is_in_the_table_and_no_other() {
    let table = CHECK.split("## Codes of problems").nth(1).unwrap().split("## ").next().unwrap();
    let rows = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let mut described: Vec<_> = rows.collect();
    let mut known: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
    described.sort_unstable();
    known.sort_unstable();
    assert_eq!(described, known);
}

/// Every function of the workspace's sources, by name.
fn functions(at: &std::path::Path, names: &mut std::collections::BTreeSet<String>) {
    for entry in std::fs::read_dir(at).expect("sources lie beside the tests") {
        let path = entry.expect("a directory can be read to its end").path();
        if path.is_dir() && !path.ends_with("target") {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).expect("sources are text");
            let after = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            names.extend(after.map(str::to_owned));
        }
    }
}

#[test]
fn every_test_that_a_defect_is_said_to_be_covered_by_is_there() {
    let mut known = std::collections::BTreeSet::new();
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for sources in ["crates", "e2e"] {
        functions(&root.join(sources), &mut known);
    }
    let table = ENFORCEMENT.split("## Defects of Intel TAS").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
    let numbers = rows.iter().filter_map(|row| row.split(' ').nth(1)).map(str::to_owned);
    let enforcement = (1..=15).map(|number| format!("L{number}"));
    let all: Vec<String> = enforcement.chain((1..=14).map(|number| format!("C{number}"))).collect();
    assert_eq!(numbers.take(all.len()).collect::<Vec<_>>(), all, "every one, in order");
    for row in rows {
        let tests: Vec<&str> =
            row.split('|').nth(3).unwrap_or_default().split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "{row}");
        for test in tests {
            assert!(known.contains(test), "there is no test {test}");
        }
    }
}
