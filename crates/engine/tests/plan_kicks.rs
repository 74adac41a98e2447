//! When pods that wait are woken, and when not: examples.

use engine::fixtures::{Leader, at, policy, rule};
use engine::names::PolicyRef;
use engine::plan::{Act, HeldBy, Plan};
use engine::policy::{Combine, Mode, OnMissing, Operator, Policy};

/// No pods on nodes over 30.
fn keep_off() -> Policy {
    policy("power").dont_schedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")])
}

fn leader(policy: Policy, power: &[(&str, &str)]) -> Leader {
    let nodes: Vec<&str> = power.iter().map(|(node, _)| *node).collect();
    let mut leader = Leader::new(&nodes, [policy]);
    for (node, value) in power {
        leader.scene.sample(node, "power", value, at(0));
    }
    leader
}

/// The same with a pod that waits.
fn waited_for(policy: Policy, power: &[(&str, &str)]) -> Leader {
    let mut leader = leader(policy, power);
    leader.observed.policies.values_mut().for_each(|policy| policy.waiting = 1);
    leader
}

fn woken(plan: &Plan) -> Vec<&str> {
    plan.nodes.iter().filter(|change| change.kick.is_some()).map(|change| change.node.as_str()).collect()
}

#[test]
fn waiting_pods_are_woken_when_a_node_recovers_and_only_then() {
    let mut leader = leader(keep_off(), &[("n1", "41"), ("n2", "41")]);
    let name = PolicyRef::new("default", "power").unwrap();
    leader.observed.policies.get_mut(&name).unwrap().waiting = 2;
    assert!(leader.act(at(0)).nodes.is_empty());
    leader.scene.sample("n1", "power", "20", at(60));
    let mut kicks = Vec::new();
    for second in 60..90 {
        let plan = leader.act(at(second));
        for change in &plan.nodes {
            assert!(change.labels.is_none() && change.taints.is_none());
            assert_eq!(change.kick.as_ref().map(|kick| (&kick.policy, kick.at)), Some((&name, at(second))));
            kicks.push((change.node.to_string(), second));
        }
    }
    let n1 = |second| ("n1".to_owned(), second);
    assert_eq!(kicks, [n1(60), n1(65), n1(70)], "at once, and for two sync periods");

    // Nobody waits any more: nothing.
    leader.observed.policies.get_mut(&name).unwrap().waiting = 0;
    leader.scene.sample("n2", "power", "20", at(90));
    assert!((90..120).all(|second| leader.act(at(second)).nodes.is_empty()));
}

#[test]
fn a_change_of_labels_wakes_pods_as_well_as_a_kick() {
    let both = keep_off().deschedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")]);
    let mut leader = leader(both, &[("n1", "41")]);
    leader.act(at(0));
    leader.observed.policies.values_mut().for_each(|policy| policy.waiting = 1);
    leader.scene.sample("n1", "power", "20", at(60));
    let plan = leader.act(at(60));
    let change = &plan.nodes[0];
    assert_eq!((plan.nodes.len(), change.deeds[0].act, &change.kick), (1, Act::Removed, &None));
    assert_eq!(plan.wake, Some(at(70)).min(plan.wake));
    assert!(leader.act(at(64)).nodes.is_empty());
    assert!(leader.act(at(65)).nodes[0].kick.is_some(), "once more, in case another replica lagged behind");
}

#[test]
fn kicks_are_bounded_per_node_and_minute_and_at_once() {
    let names: Vec<String> = (0..40).map(|place| format!("n{place:02}")).collect();
    let nodes: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "41")).collect();
    let mut leader = leader(keep_off(), &nodes);
    leader.observed.policies.values_mut().for_each(|policy| policy.waiting = 1);
    leader.act(at(0));
    let mut by_node = std::collections::BTreeMap::<String, usize>::new();
    for second in 1..=60 {
        let value = if second % 2 == 0 { "41" } else { "20" };
        for name in &names {
            leader.scene.sample(name, "power", value, at(second));
        }
        let plan = leader.act(at(second));
        assert!(plan.nodes.len() <= 16, "{}", plan.nodes.len());
        for change in &plan.nodes {
            *by_node.entry(change.node.to_string()).or_default() += 1;
        }
    }
    assert!(by_node.values().all(|count| *count <= 3 + 6), "{by_node:?}");
}

#[test]
fn nobody_is_woken_during_a_pause_and_all_that_is_recent_after_it() {
    let mut leader = waited_for(keep_off(), &[("n1", "41")]);
    leader.act(at(0));
    leader.scene.sample("n1", "power", "20", at(60));
    leader.observed.settings.paused = true;
    let plan = leader.act(at(60));
    assert_eq!((woken(&plan), plan.held.by(HeldBy::Pause)), (vec![], 1));
    leader.observed.settings.paused = false;
    assert_eq!(woken(&leader.act(at(62))), ["n1"]);
}

#[test]
fn a_policy_that_only_reports_wakes_nobody() {
    let mut leader = waited_for(Policy { mode: Mode::Shadow, ..keep_off() }, &[("n1", "41")]);
    leader.act(at(0));
    leader.scene.sample("n1", "power", "20", at(60));
    assert_eq!(woken(&leader.act(at(60))), [""; 0]);
}

#[test]
fn a_metric_that_comes_back_wakes_pods_where_its_lack_kept_them_off() {
    for (on_missing, expected) in [(OnMissing::Deny, &["n1"][..]), (OnMissing::Allow, &[])] {
        let mut leader = waited_for(Policy { on_missing, ..keep_off() }, &[("n1", "20")]);
        leader.scene.inputs.samples.clear();
        leader.act(at(0));
        leader.scene.sample("n1", "power", "20", at(60));
        assert_eq!(woken(&leader.act(at(60))), expected, "{on_missing:?}");
    }
}
