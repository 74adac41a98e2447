//! What is told, case by case, and that nothing is told twice.

use std::sync::Arc;

use engine::names::NodeName;
use engine::plan::{Asks, Outcome, ViolatingNode};
use engine::policy::Mode;
use engine::time::Timestamp;
use proptest::prelude::*;

use super::{legacy, since, status};
use crate::path::FieldPath;
use crate::policy::{TasPolicy, TasPolicyStatus};
use crate::problem::{Code, Problem, Severity};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_789);
const LATER: Timestamp = Timestamp::from_millis(1_700_000_060_123);

fn judged() -> Outcome {
    Outcome { generation: 3, judged: true, nodes: 10, ..Outcome::default() }
}

fn hot(names: &[&str]) -> Outcome {
    let node = |name: &&str| ViolatingNode {
        node: NodeName::new(name).unwrap(),
        since: NOW,
        why: Arc::from("power over 30"),
    };
    Outcome { violating: names.len(), listed: names.iter().map(node).collect(), ..judged() }
}

fn problem(severity: Severity, code: Code, message: &str) -> Problem {
    let path = FieldPath::ROOT.key("spec").key("strategies").key("deschedule");
    Problem { path, severity, code, message: message.to_owned() }
}

/// `Type=Status/Reason` of every condition, and the two texts.
fn told(status: &TasPolicyStatus) -> (Vec<String>, String, String) {
    let conditions = status
        .conditions
        .iter()
        .map(|condition| format!("{}={}/{}", condition.type_, condition.status, condition.reason))
        .collect();
    (conditions, status.compliance.clone().unwrap_or_default(), status.message.clone().unwrap_or_default())
}

fn summary(problems: &[Problem], outcome: &Outcome) -> String {
    let (conditions, compliance, message) = told(&status(problems, outcome, None, NOW));
    format!("{} | {compliance} | {message}", conditions.join(" "))
}

#[test]
fn every_state_has_its_words() {
    let warned = problem(Severity::Warning, Code::UnknownStrategy, "not known");
    let wrong = problem(Severity::Error, Code::BadNumber, "\"x\" is no number");
    let long = problem(Severity::Warning, Code::NameTooLong, "too long");
    let marks = Asks { labels: true, taints: false };
    let node = || NodeName::new("n9").unwrap();
    let refusal = || Some((node(), Arc::from("not allowed to patch nodes")));
    let cases = [
        ("quiet", summary(&[], &judged())),
        ("violating", summary(&[], &Outcome { asks: marks, ..hot(&["n1"]) })),
        ("many", summary(&[], &hot(&["n1", "n2", "n3", "n4", "n5"]))),
        ("some unknown", summary(&[], &Outcome { unknown: 3, ..judged() })),
        ("all unknown", summary(&[], &Outcome { unknown: 10, dry: [metric("power")].into(), ..judged() })),
        ("no nodes", summary(&[], &Outcome { nodes: 0, ..judged() })),
        ("warned", summary(std::slice::from_ref(&warned), &judged())),
        ("wrong", summary(&[warned, wrong], &Outcome { judged: false, ..judged() })),
        ("new", summary(&[], &Outcome { judged: false, ..judged() })),
        ("paused", summary(&[], &Outcome { paused: true, ..hot(&["n1"]) })),
        ("shadow", summary(&[], &Outcome { mode: Mode::Shadow, ..hot(&["n1"]) })),
        ("not allowed", summary(&[], &Outcome { asks: marks, refused: marks, ..hot(&["n1"]) })),
        ("long", summary(&[long], &hot(&["n1"]))),
        ("foreign", summary(&[], &Outcome { asks: marks, foreign: Some(node()), ..hot(&["n9"]) })),
        ("unwritable", summary(&[], &Outcome { asks: marks, unwritable: refusal(), ..hot(&["n9"]) })),
        ("shared", summary(&[], &Outcome { asks: marks, shares: ["prod".into()].into(), ..judged() })),
        ("labelled", summary(&[], &Outcome { asks: marks, labelled: 4, ..judged() })),
    ];
    let text: Vec<String> = cases.into_iter().map(|(name, text)| format!("{name}: {text}")).collect();
    insta::assert_snapshot!(text.join("\n"));
}

fn metric(name: &str) -> engine::names::MetricName {
    engine::names::MetricName::new(name).unwrap()
}

#[test]
fn a_condition_changes_its_time_only_with_its_status() {
    let first = status(&[], &hot(&["n1"]), None, NOW);
    let more = status(&[], &hot(&["n1", "n2"]), Some(&first), LATER);
    let over = status(&[], &judged(), Some(&more), LATER);
    let times = |status: &TasPolicyStatus| -> Vec<i64> {
        status.conditions.iter().map(|condition| condition.last_transition_time.0.as_second()).collect()
    };
    assert_eq!(times(&first), [1_700_000_000; 4]);
    assert_eq!(times(&more), times(&first));
    assert_eq!(times(&over), [1_700_000_000, 1_700_000_000, 1_700_000_000, 1_700_000_060]);
}

#[test]
fn a_new_leader_reads_since_when_nodes_violate() {
    let written = status(&[], &hot(&["n1", "n2"]), None, NOW);
    let read: TasPolicyStatus = serde_json::from_value(serde_json::to_value(&written).unwrap()).unwrap();
    assert_eq!(read, written, "what is written is what is read");
    let node = |name| (NodeName::new(name).unwrap(), Timestamp::from_secs(1_700_000_000));
    assert_eq!(*since(&read), [node("n1"), node("n2")]);
}

#[test]
fn with_the_definition_of_intel_tas_two_texts_remain() {
    let left = legacy(status(&[], &hot(&["n1"]), None, NOW));
    assert_eq!(
        serde_json::to_value(left).unwrap(),
        serde_json::json!({ "compliance": "Violating", "message": "1 of 10 nodes violates: n1 (power over 30)" })
    );
}

#[test]
fn a_status_that_cannot_be_read_does_not_hide_the_policy() {
    let object =
        serde_json::json!({ "metadata": { "name": "p" }, "status": { "violating": { "nodes": ["n1"] } } });
    let policy: TasPolicy = serde_json::from_value(object).unwrap();
    assert_eq!((policy.metadata.name.as_deref(), policy.status), (Some("p"), None));
}

proptest! {
    #[test]
    fn nothing_is_told_twice(
        violating in 0usize..80, unknown in 0usize..80, labelled in 0usize..5, judged in any::<bool>(),
        paused in any::<bool>(), generation in 0i64..5, later in 0i64..1_000_000,
    ) {
        let names: Vec<String> = (0..violating).map(|place| format!("n{place:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let outcome = Outcome {
            judged, paused, generation, unknown, labelled, nodes: violating + unknown, ..hot(&names)
        };
        let first = status(&[], &outcome, None, NOW);
        let read: TasPolicyStatus = serde_json::from_value(serde_json::to_value(&first).unwrap()).unwrap();
        let again = status(&[], &outcome, Some(&read), Timestamp::from_millis(NOW.millis() + later));
        prop_assert_eq!(&again, &first);
        prop_assert!(first.violating.is_none_or(|violating| violating.nodes.len() <= 50));
    }
}
