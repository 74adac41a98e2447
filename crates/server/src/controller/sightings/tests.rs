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
fn a_list_made_while_we_wrote_does_not_undo_what_we_did() {
    let labelled = json!({"power": "violating"});
    let object = |version: &str, labels: &Value| json!({"metadata": {"name": "n1", "uid": "u", "resourceVersion": version, "labels": labels}});
    let list =
        |version: &str, labels: &Value| Sighting::Nodes(Delta::Replaced(vec![read(object(version, labels))]));
    let mut seen = Sightings::default();
    seen.apply(list("5", &json!({})));
    seen.wrote_node(&read(object("7", &labelled)));
    assert!(!seen.apply(list("6", &json!({}))), "it shows the node before our write");
    let held = |seen: &Sightings| {
        let node = seen.node(&name("n1")).unwrap();
        (node.edition.version.clone(), node.marks.labels().len())
    };
    assert_eq!(held(&seen), ("7".to_owned(), 1));
    assert!(seen.apply(list("6", &json!({}))), "a second is believed: the API server was set back");
    assert_eq!(held(&seen), ("6".to_owned(), 0));

    seen.wrote_node(&read(object("8", &labelled)));
    seen.apply(node("8", &labelled));
    assert!(seen.apply(list("6", &json!({}))), "the watch had told of our write, so the list is later");
    seen.wrote_node(&read(object("9", &labelled)));
    assert!(seen.apply(Sighting::Nodes(Delta::Replaced(vec![]))));
    assert!(seen.node(&name("n1")).is_none(), "gone is gone");
}

#[test]
fn a_list_made_while_a_status_was_written_does_not_undo_it() {
    let policy = |version: &str| {
        read::<PolicyLite>(
            json!({"metadata": {"name": "p", "namespace": "default", "uid": "u", "resourceVersion": version},
            "spec": {"strategies": {}}}),
        )
    };
    let list = |version: &str| Sighting::Policies(Delta::Replaced(vec![policy(version)]));
    let version = |seen: &Sightings| {
        seen.policy(&PolicyRef::new("default", "p").unwrap()).unwrap().edition.version.clone()
    };
    let mut seen = Sightings::default();
    seen.apply(list("5"));
    seen.wrote_policy(&policy("7"));
    assert!(!seen.apply(list("6")));
    assert_eq!(version(&seen), "7");
    assert!(!seen.apply(list("6")), "another edition, and nothing else");
    assert_eq!(version(&seen), "6");
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
