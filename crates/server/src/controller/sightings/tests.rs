use serde_json::json;

use super::*;

fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
    serde_json::from_value(object).unwrap()
}

fn node(version: &str, labels: &Value) -> Sighting {
    let object =
        json!({"metadata": {"name": "n1", "uid": "u", "resourceVersion": version, "labels": labels}});
    Sighting::Nodes(Delta::Applied(read(object)))
}

fn name(text: &str) -> NodeName {
    NodeName::new(text).unwrap()
}

#[test]
fn only_what_plans_depend_on_is_news() {
    let mut seen = Sightings::default();
    assert!(seen.apply(node("5", &json!({}))));
    assert!(!seen.apply(node("6", &json!({"kubernetes.io/os": "linux"}))), "a heartbeat");
    assert_eq!(seen.node(&name("n1")).unwrap().edition.version, "6", "but the edition is the newest");
    assert!(seen.apply(node("7", &json!({"power": "violating"}))));
    assert!(!seen.apply(node("6", &json!({}))), "older than what the answer to a write has shown");
    assert_eq!(seen.node(&name("n1")).unwrap().marks.labels().len(), 1);
}

#[test]
fn what_is_gone_stays_gone_even_if_a_write_is_answered_late() {
    let mut seen = Sightings::default();
    seen.apply(node("5", &json!({})));
    assert!(seen.apply(Sighting::Nodes(Delta::Deleted(ObjectKey::new("", "n1")))));
    seen.wrote_node(&read(json!({"metadata": {"name": "n1", "uid": "u", "resourceVersion": "6"}})));
    assert!(seen.node(&name("n1")).is_none());
}

#[test]
fn a_node_made_anew_under_the_same_name_counts_whatever_its_version() {
    let mut seen = Sightings::default();
    seen.apply(node("9", &json!({"power": "violating"})));
    let anew = json!({"metadata": {"name": "n1", "uid": "v", "resourceVersion": "3"}});
    assert!(seen.apply(Sighting::Nodes(Delta::Applied(read(anew)))));
    assert_eq!(seen.node(&name("n1")).unwrap().edition.uid, "v");
}

#[test]
fn pods_wait_for_their_policy_from_being_refused_to_being_placed() {
    let pod = |reason: &str, node: Option<&str>| {
        let object = json!({"metadata": {"name": "p", "namespace": "default", "labels": {"telemetry-policy": "power"}},
            "spec": {"nodeName": node}, "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]}});
        Sighting::Pods(Delta::Applied(read(object)))
    };
    let mut seen = Sightings::default();
    assert!(!seen.apply(pod("SchedulingGated", None)));
    assert!(seen.apply(pod("Unschedulable", None)));
    assert_eq!(seen.waiting().values().copied().collect::<Vec<_>>(), [1]);
    assert!(seen.apply(pod("Unschedulable", Some("n1"))));
    assert!(seen.waiting().is_empty());
}

#[test]
fn nothing_is_complete_before_all_was_listed() {
    let mut seen = Sightings::default();
    assert!(seen.apply(Sighting::Nodes(Delta::Replaced(vec![]))));
    assert!(seen.apply(Sighting::Pods(Delta::Replaced(vec![]))));
    assert!(!seen.is_complete());
    assert!(seen.apply(Sighting::Policies(Delta::Replaced(vec![]))));
    assert!(seen.is_complete());
}

#[test]
fn a_taint_of_ours_with_an_effect_we_never_write_goes_with_the_next_write() {
    let stored = json!([{"key": "telemetry-aware.github.io/power", "effect": "NoExecute"}, {"key": "other", "effect": "NoExecute"}]);
    let node: NodeLite = read(json!({"metadata": {"name": "n1"}, "spec": {"taints": stored}}));
    let (_, node) = SeenNode::of(&node).unwrap();
    let wanted = Taint { policy: "power".into(), effect: TaintEffect::NoSchedule };
    assert_eq!(
        node.taints_with(&[wanted]),
        [
            json!({"key": "other", "effect": "NoExecute"}),
            json!({"key": "telemetry-aware.github.io/power", "value": "violating", "effect": "NoSchedule"})
        ]
    );
}
