//! What is planned: examples.

use std::sync::Arc;
use std::time::Duration;

use engine::NodeIndex;
use engine::fixtures::{Leader, at, number, policy, rule};
use engine::names::{NodeName, PolicyRef};
use engine::plan::{Act, HeldBy, Ledger, Namespaces, NodeMarks, Owner, Plan, Rate, Refused, Taint};
use engine::policy::{Combine, Mark, Mode, Operator, Policy, TaintEffect};

const SOFT: Mark = Mark::Taint(TaintEffect::PreferNoSchedule);
const HARD: Mark = Mark::Taint(TaintEffect::NoSchedule);

/// Nodes over 30 should be left.
fn hot(name: &str) -> Policy {
    policy(name).deschedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")])
}

/// A node over 100 carries `card0=true`.
fn card(name: &str) -> Policy {
    policy(name).label(Combine::AnyOf, &[(rule("heat", Operator::GreaterThan, "100"), &["card0=true"])])
}

fn leader(policies: impl IntoIterator<Item = Policy>, power: &[(&str, &str)], now: i64) -> Leader {
    let nodes: Vec<&str> = power.iter().map(|(node, _)| *node).collect();
    let mut leader = Leader::new(&nodes, policies);
    for (node, value) in power {
        leader.scene.sample(node, "power", value, at(now));
    }
    leader
}

fn acts(plan: &Plan) -> Vec<(String, Act)> {
    let of = |change: &engine::plan::NodeChange| {
        let node = change.node.to_string();
        change.deeds.iter().map(move |deed| (node.clone(), deed.act)).collect::<Vec<_>>()
    };
    plan.nodes.iter().flat_map(of).collect()
}

fn act(node: &str, act: Act) -> (String, Act) {
    (node.to_owned(), act)
}

#[test]
fn a_violating_node_is_labelled_once_and_unlabelled_when_it_recovers() {
    let mut leader = leader([hot("power")], &[("n1", "41"), ("n2", "20")], 0);
    let first = leader.act(at(0));
    assert_eq!(acts(&first), [act("n1", Act::Added)]);
    assert_eq!(first.nodes[0].deeds[0].to_string(), "the label violating was put on: power over 30");
    assert_eq!((leader.labels("n1"), leader.labels("n2")), (vec!["power=violating".to_owned()], vec![]));
    assert!(leader.act(at(1)).is_empty());

    leader.scene.sample("n1", "power", "20", at(5));
    let last = leader.act(at(5));
    assert_eq!(acts(&last), [act("n1", Act::Removed)]);
    assert_eq!(last.nodes[0].labels.as_deref(), Some(&[][..]));
    assert_eq!(leader.labels("n1"), Vec::<String>::new());
}

#[test]
fn one_change_per_node_whatever_the_number_of_policies() {
    let policies = (0..20).map(|place| hot(&format!("p{place:02}")));
    let mut leader = leader(policies, &[("n1", "41")], 0);
    let plan = leader.act(at(0));
    assert_eq!((plan.nodes.len(), plan.nodes[0].deeds.len(), leader.labels("n1").len()), (1, 20, 20));
}

#[test]
fn the_label_of_a_user_is_neither_overwritten_nor_removed() {
    let mut leader = leader([hot("power")], &[("n1", "41"), ("n2", "20")], 0);
    for node in ["n1", "n2"] {
        leader.put(node, Owner::Foreign, &["power=high"]);
    }
    let plan = leader.act(at(0));
    assert!(plan.nodes.is_empty(), "{:?}", plan.nodes);
    assert_eq!(plan.held.by(HeldBy::ForeignLabel), 1, "only where we wanted to write");
    let told = Leader::told(&plan, "power").unwrap();
    assert_eq!(told.foreign, NodeName::new("n1").ok());
    assert_eq!(leader.labels("n1"), ["power=high"]);
}

#[test]
fn what_an_earlier_tas_left_is_taken_over_or_taken_off() {
    let mut leader = leader([hot("power"), card("gpu")], &[("n1", "41"), ("n2", "20")], 0);
    leader.scene.sample("n1", "heat", "50", at(0));
    leader.scene.sample("n2", "heat", "150", at(0));
    for node in ["n1", "n2"] {
        leader.put(
            node,
            Owner::Foreign,
            &["power=violating", "gpu/card0=stale", "gone=violating", "gone/card0=true"],
        );
    }
    let plan = leader.act(at(0));
    assert_eq!(
        acts(&plan),
        [act("n1", Act::Adopted), act("n1", Act::Removed), act("n2", Act::Removed), act("n2", Act::Changed),]
    );
    assert_eq!(plan.nodes[0].leftovers.len(), 1, "we do not own it, so to let go does not suffice");
    assert_eq!(plan.nodes[1].adopts.len(), 1, "somebody else's value stands there, and is to be forced");
    let foreign = |own: &str| vec!["gone=violating".to_owned(), own.to_owned(), "gone/card0=true".to_owned()];
    assert_eq!(leader.labels("n1"), foreign("power=violating"));
    assert_eq!(leader.labels("n2"), ["gone=violating", "gone/card0=true", "gpu/card0=true"]);
    assert!(leader.act(at(0)).is_empty());
}

#[test]
fn a_policy_that_only_reports_takes_nothing_over() {
    let shadow = Policy { mode: Mode::Shadow, ..hot("power") };
    let mut leader = leader([shadow], &[("n1", "41"), ("n2", "20")], 0);
    leader.put("n2", Owner::Foreign, &["power=violating"]);
    let plan = leader.act(at(0));
    assert!(plan.nodes.is_empty());
    assert_eq!(plan.held.by(HeldBy::Shadow), 1, "what it would have marked");
    assert_eq!(Leader::told(&plan, "power").unwrap().violating, 1);
}

#[test]
fn a_policy_set_to_report_only_lets_go_of_what_it_marked() {
    let mut leader = leader([hot("power").marking([Mark::Label, SOFT])], &[("n1", "41")], 0);
    leader.observed.settings.may_taint = Namespaces::All;
    leader.act(at(0));
    assert_eq!((leader.labels("n1").len(), leader.taints("n1").len()), (1, 1));
    leader.set_policies([Policy { mode: Mode::Shadow, ..hot("power").marking([Mark::Label, SOFT]) }]);
    let plan = leader.act(at(1));
    assert_eq!(acts(&plan), [act("n1", Act::Swept), act("n1", Act::Swept)]);
    assert_eq!((leader.labels("n1").len(), leader.taints("n1").len()), (0, 0));
}

#[test]
fn policies_of_one_name_share_the_label_and_are_told_so() {
    let here = hot("power").in_namespace("a");
    let there = policy("power")
        .deschedule(Combine::AnyOf, [rule("heat", Operator::GreaterThan, "100")])
        .in_namespace("b");
    let mut leader = leader([here.clone(), there], &[("n1", "41"), ("n2", "20"), ("n3", "20")], 0);
    for (node, heat) in [("n1", "50"), ("n2", "150"), ("n3", "50")] {
        leader.scene.sample(node, "heat", heat, at(0));
    }
    let plan = leader.act(at(0));
    assert_eq!(["n1", "n2", "n3"].map(|node| leader.labels(node).len()), [1, 1, 0], "either violates");
    let shares: Vec<_> = plan.statuses.iter().map(|change| change.outcome.shares.to_vec()).collect();
    assert_eq!(shares, [vec![Arc::from("b")], vec![Arc::from("a")]]);

    // Deleting one leaves the other's label where it is.
    leader.set_policies([here]);
    let plan = leader.act(at(1));
    assert_eq!(acts(&plan), [act("n2", Act::Removed)]);
}

#[test]
fn policies_of_one_name_with_other_labels_do_not_disturb_each_other() {
    let one = card("gpu").in_namespace("a");
    let labels: &[&str] = &["card0=other", "card1=true"];
    let other = policy("gpu")
        .label(Combine::AnyOf, &[(rule("heat", Operator::GreaterThan, "100"), labels)])
        .in_namespace("b");
    let mut leader = Leader::new(&["n1"], [other, one]);
    leader.scene.sample("n1", "heat", "150", at(0));
    leader.act(at(0));
    assert_eq!(leader.labels("n1"), ["gpu/card0=true", "gpu/card1=true"], "the first namespace wins a key");
    assert!(leader.act(at(0)).is_empty());
}

#[test]
fn an_edit_changes_only_what_is_no_longer_right() {
    let mut leader = leader([hot("power")], &[("n1", "41"), ("n2", "35"), ("n3", "20")], 0);
    leader.act(at(0));
    leader.set_policies([
        policy("power").deschedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "40")])
    ]);
    assert_eq!(acts(&leader.act(at(1))), [act("n2", Act::Removed)]);
    // The same policy again, as after a broken watch.
    leader.know_policies();
    assert!(leader.act(at(2)).is_empty());
}

#[test]
fn a_strategy_that_was_removed_leaves_nothing_behind() {
    let both = Policy { labeling: card("p").labeling, ..hot("p") };
    let mut leader = leader([both.clone()], &[("n1", "41")], 0);
    leader.scene.sample("n1", "heat", "150", at(0));
    leader.act(at(0));
    assert_eq!(leader.labels("n1"), ["p=violating", "p/card0=true"]);
    leader.set_policies([Policy { deschedule: None, ..both.clone() }]);
    assert_eq!(acts(&leader.act(at(1))), [act("n1", Act::Swept)]);
    assert_eq!(leader.labels("n1"), ["p/card0=true"]);
    leader.set_policies([Policy { labeling: None, ..both }]);
    leader.scene.sample("n1", "power", "41", at(2));
    leader.act(at(2));
    assert_eq!(leader.labels("n1"), ["p=violating"]);
}

#[test]
fn a_policy_deleted_while_nobody_led_is_swept_by_the_next_leader() {
    let mut leader = leader([hot("power"), hot("gone")], &[("n1", "41")], 0);
    leader.observed.settings.may_taint = Namespaces::All;
    leader.set_policies([hot("power"), hot("gone").marking([Mark::Label, HARD])]);
    leader.act(at(0));
    assert_eq!(leader.labels("n1"), ["gone=violating", "power=violating"]);
    leader.set_policies([hot("power")]);
    leader.ledger = Ledger::default();
    leader.act(at(100));
    assert_eq!((leader.labels("n1"), leader.taints("n1")), (vec!["power=violating".to_owned()], vec![]));
}

#[test]
fn what_nobody_knows_freezes_for_a_while_and_is_then_released() {
    let marks = [Mark::Label, SOFT];
    let both = Policy { labeling: card("p").labeling, ..hot("p").marking(marks) };
    let mut leader = leader([both], &[("n1", "41"), ("n2", "20")], 0);
    leader.observed.settings.may_taint = Namespaces::All;
    leader.scene.sample("n1", "heat", "150", at(0));
    leader.act(at(0));
    let marked = |leader: &Leader| (leader.labels("n1"), leader.taints("n1"));
    let full = marked(&leader);
    assert_eq!((full.0.len(), full.1.len()), (2, 1));

    // Samples count for three minutes; from then on nobody knows.
    let quiet = leader.act(at(180));
    assert!(quiet.nodes.is_empty());
    assert_eq!(quiet.held.by(HeldBy::Unknown), 0);
    let frozen = leader.act(at(181));
    assert!(frozen.nodes.is_empty());
    assert_eq!((frozen.held.by(HeldBy::Unknown), frozen.wake), (3, Some(at(181 + 15 * 60))));
    assert!(leader.act(at(181 + 15 * 60 - 1)).nodes.is_empty());
    assert_eq!(marked(&leader), full);

    let released = leader.act(at(181 + 15 * 60));
    assert_eq!(acts(&released), vec![act("n1", Act::Released); 3]);
    assert_eq!(
        released.nodes[0].deeds[0].to_string(),
        "the label violating was taken off: whether it still holds has been unknown for too long: power unknown"
    );
    assert_eq!(marked(&leader), (vec![], vec![]));
    assert!(leader.act(at(3000)).nodes.is_empty());
}

#[test]
fn a_metric_that_comes_back_in_time_changes_nothing() {
    let mut leader = leader([hot("power")], &[("n1", "41")], 0);
    leader.act(at(0));
    leader.act(at(300));
    leader.scene.sample("n1", "power", "41", at(600));
    assert!(leader.act(at(600)).nodes.is_empty());
    leader.act(at(900));
    assert!(leader.act(at(900 + 15 * 60 - 1)).nodes.is_empty(), "the wait starts anew each time");
}

#[test]
fn a_policy_that_cannot_be_judged_keeps_its_marks_for_a_while() {
    let both = Policy { labeling: card("p").labeling, ..hot("p").marking([Mark::Label, SOFT]) };
    let mut leader = leader([both], &[("n1", "41")], 0);
    leader.observed.settings.may_taint = Namespaces::All;
    leader.scene.sample("n1", "heat", "150", at(0));
    leader.act(at(0));
    // An edit made it wrong, or it was not read yet: it exists, and the view does not hold it.
    leader.scene.inputs.policies.clear();
    let plan = leader.act(at(10));
    assert!(plan.nodes.is_empty());
    assert_eq!((plan.held.by(HeldBy::Unknown), plan.statuses[0].outcome.judged), (3, false));
    leader.act(at(10 + 15 * 60));
    assert_eq!((leader.labels("n1"), leader.taints("n1")), (vec![], vec![]));
}

#[test]
fn a_paused_server_writes_nothing_and_says_so() {
    let mut leader = leader([hot("power")], &[("n1", "41"), ("n2", "20")], 0);
    leader.put("n2", Owner::Ours, &["power=violating"]);
    leader.observed.settings.paused = true;
    let plan = leader.act(at(0));
    assert!(plan.nodes.is_empty());
    assert_eq!(plan.held.by(HeldBy::Pause), 2, "a label to put on, and one to take off");
    assert!(Leader::told(&plan, "power").unwrap().paused);
    leader.observed.settings.paused = false;
    let plan = leader.act(at(1));
    assert_eq!(acts(&plan), [act("n1", Act::Added), act("n2", Act::Removed)]);
    assert!(!Leader::told(&plan, "power").unwrap().paused, "such news does not wait");
}

#[test]
fn only_some_namespaces_may_write_on_nodes() {
    let marks = [Mark::Label, SOFT];
    let policies = [hot("p").marking(marks).in_namespace("a"), hot("q").marking(marks).in_namespace("b")];
    let mut leader = leader(policies, &[("n1", "41")], 0);
    leader.observed.settings.may_label = Namespaces::Only([Arc::from("a")].into());
    leader.observed.settings.may_taint = Namespaces::Only([Arc::from("b")].into());
    let plan = leader.act(at(0));
    assert_eq!(
        (leader.labels("n1"), leader.taints("n1")),
        (vec!["p=violating".to_owned()], vec!["q:PreferNoSchedule".to_owned()])
    );
    assert_eq!(plan.held.by(HeldBy::Namespace), 2);
    let refused: Vec<_> =
        plan.statuses.iter().map(|s| (s.outcome.refused.labels, s.outcome.refused.taints)).collect();
    assert_eq!(refused, [(false, true), (true, false)]);
    assert_eq!(
        engine::plan::Settings::default().may_taint,
        Namespaces::Only([].into()),
        "taints are for those who were asked"
    );
}

#[test]
fn a_taint_is_one_and_the_strongest_asked_for() {
    let policies = [hot("p").marking([SOFT]).in_namespace("a"), hot("p").marking([HARD]).in_namespace("b")];
    let mut leader = leader(policies, &[("n1", "41")], 0);
    leader.observed.settings.may_taint = Namespaces::All;
    leader.act(at(0));
    assert_eq!(leader.taints("n1"), ["p:NoSchedule"]);
    leader.set_policies([hot("p").marking([SOFT]).in_namespace("a")]);
    assert_eq!(acts(&leader.act(at(1))), [act("n1", Act::Changed)]);
    assert_eq!(leader.taints("n1"), ["p:PreferNoSchedule"]);
}

#[test]
fn taints_of_ours_that_nobody_asks_for_go_and_others_are_not_seen() {
    let mut leader = leader([hot("power")], &[("n1", "20")], 0);
    let orphan = Taint { policy: "gone".into(), effect: TaintEffect::NoSchedule };
    let node = NodeName::new("n1").unwrap();
    leader.observed.nodes.insert(node, Arc::new(NodeMarks::new([], [orphan], None)));
    let plan = leader.act(at(0));
    assert_eq!(plan.nodes[0].taints.as_deref(), Some(&[][..]));
    assert_eq!(plan.nodes[0].labels, None, "labels are not written for that");
}

#[test]
fn a_name_too_long_for_a_key_is_counted_and_not_tried() {
    let mut leader = leader([hot(&"p".repeat(64)).marking([])], &[("n1", "41")], 0);
    let plan = leader.act(at(0));
    assert!(plan.nodes.is_empty());
    assert_eq!(plan.held.by(HeldBy::NameTooLong), 1);
}

#[test]
fn violations_are_counted_and_listed_with_since_when() {
    let names: Vec<String> = (0..60).map(|place| format!("n{place:02}")).collect();
    let power: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "41")).collect();
    let mut leader = leader([hot("power")], &power, 0);
    leader.scene.sample("n00", "power", "20", at(1));
    let told = Leader::told(&leader.act(at(1)), "power").unwrap();
    assert_eq!((told.nodes, told.violating, told.unknown, told.listed.len()), (60, 59, 0, 50));
    assert_eq!(
        (told.listed[0].node.as_str(), told.listed[0].since, &*told.listed[0].why),
        ("n01", at(1), "power over 30")
    );

    // A new leader goes on from what was written.
    let name = PolicyRef::new("default", "power").unwrap();
    let since = told.listed.iter().map(|listed| (listed.node.clone(), listed.since)).collect();
    leader.observed.policies.get_mut(&name).unwrap().since = since;
    leader.ledger = Ledger::default();
    let told = Leader::told(&leader.act(at(100)), "power").unwrap();
    assert_eq!(told.listed[0].since, at(1));
}

#[test]
fn a_status_is_told_when_it_changes_and_not_more_often_than_it_may() {
    let mut leader = leader([hot("power")], &[("n1", "41"), ("n2", "20")], 0);
    assert_eq!(leader.act(at(0)).statuses.len(), 1);
    leader.scene.sample("n2", "power", "42", at(3));
    let hasty = leader.act(at(3));
    assert_eq!((hasty.statuses.len(), hasty.wake), (0, Some(at(10))));
    let due = leader.act(at(10));
    assert_eq!(Leader::told(&due, "power").unwrap().violating, 2);
    assert!(leader.act(at(1000 - 900)).is_empty());
}

#[test]
fn a_policy_that_comes_back_by_the_same_name_is_another() {
    let mut leader = leader([hot("power")], &[("n1", "41")], 0);
    leader.act(at(0));
    leader.set_policies([]);
    leader.act(at(1));
    leader.set_policies([hot("power")]);
    leader.scene.sample("n1", "power", "41", at(2));
    let told = Leader::told(&leader.act(at(2)), "power").expect("told at once");
    assert_eq!(told.listed[0].since, at(2));
    // Also where nobody looked while there was none.
    leader.observed.policies.values_mut().for_each(|policy| policy.uid = "another".into());
    let told = Leader::told(&leader.act(at(3)), "power").expect("told at once");
    assert_eq!(told.listed[0].since, at(3));
}

#[test]
fn what_is_only_expected_is_no_violation_yet() {
    let mut loaded = rule("power", Operator::GreaterThan, "30");
    loaded.load.per_pod = Some(number("20"));
    let keep_off = policy("power").dont_schedule(Combine::AnyOf, [loaded]);
    let mut leader = leader([keep_off], &[("n1", "20")], 0);
    leader.scene.place("n1", at(1));
    let told = Leader::told(&leader.act(at(1)), "power").unwrap();
    assert_eq!(leader.scene.refused("power", at(1)), ["n1"]);
    assert_eq!((told.violating, told.unknown), (0, 0));
}

#[test]
fn a_node_that_joins_changes_nothing_that_is_remembered_of_the_others() {
    let both = hot("power").dont_schedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")]);
    let mut leader = leader([both], &[("n1", "41"), ("n2", "20")], 0);
    leader.observed.settings.paused = true;
    leader.act(at(0));
    leader.observed.policies.values_mut().for_each(|policy| policy.waiting = 1);
    let join = |leader: &mut Leader, name: &str| {
        leader.observed.nodes.insert(NodeName::new(name).unwrap(), Arc::default());
        leader.scene.inputs.nodes = Arc::new(NodeIndex::new(leader.observed.nodes.keys().cloned()));
    };
    join(&mut leader, "b-before-all");
    let told = Leader::told(&leader.act(at(20)), "power").unwrap();
    let listed: Vec<_> = told.listed.iter().map(|listed| (listed.node.as_str(), listed.since)).collect();
    assert_eq!(listed, [("n1", at(0))]);
    leader.observed.settings.paused = false;
    join(&mut leader, "a-before-that");
    leader.scene.sample("n1", "power", "20", at(30));
    let woken: Vec<_> = leader.act(at(30)).nodes.into_iter().filter(|change| change.kick.is_some()).collect();
    assert_eq!(woken.iter().map(|change| change.node.as_str()).collect::<Vec<_>>(), ["n1"], "it was refused");
}

#[test]
fn a_metric_without_a_single_fresh_sample_is_named() {
    let mut leader = leader([Policy { labeling: card("p").labeling, ..hot("p") }], &[("n1", "41")], 0);
    let first = leader.act(at(0));
    assert_eq!((first.statuses.len(), first.wake), (0, Some(at(5))), "it may come yet");
    assert_eq!(acts(&first), [act("n1", Act::Added)], "what is certain does not wait for that");
    let told = Leader::told(&leader.act(at(5)), "p").unwrap();
    assert_eq!(told.dry.iter().map(ToString::to_string).collect::<Vec<_>>(), ["heat"]);
}

#[test]
fn of_a_new_policy_nothing_is_told_before_it_is_judged_and_measured_but_for_a_sync_period_at_most() {
    let named = PolicyRef::new("default", "power").unwrap();
    let seen = |awaited| {
        let mut leader = Leader::new(&["n1"], [hot("power")]);
        leader.observed.policies.get_mut(&named).unwrap().awaited = awaited;
        leader.scene.inputs.policies.clear();
        leader
    };
    let mut leader = seen(true);
    assert!(leader.act(at(0)).is_empty(), "only seen");
    leader.scene.inputs.policies.push(Arc::new(hot("power")));
    leader.observed.policies.get_mut(&named).unwrap().awaited = false;
    assert!(leader.act(at(1)).is_empty(), "judged and not measured");
    leader.scene.sample("n1", "power", "20", at(2));
    let told = Leader::told(&leader.act(at(2)), "power").unwrap();
    assert_eq!((told.judged, told.nodes, told.unknown, &*told.dry), (true, 1, 0, &[][..]));

    let mut leader = seen(true);
    let plan = leader.act(at(0));
    assert_eq!((plan.is_empty(), plan.wake), (true, Some(at(5))));
    assert!(
        !Leader::told(&leader.act(at(5)), "power").unwrap().judged,
        "what does not come is told to be missing"
    );
    let mut leader = seen(true);
    leader.act(at(1000));
    assert_eq!(leader.act(at(0)).statuses.len(), 1, "a clock that was put back does not make it last");
    assert!(Leader::told(&seen(false).act(at(0)), "power").is_some(), "what never comes is not waited for");
}

#[test]
fn a_node_that_is_gone_gets_nothing_and_one_that_nobody_reports_on_is_unknown() {
    let mut leader = leader([hot("power")], &[("n1", "41"), ("n2", "41")], 0);
    leader.observed.nodes.remove("n1");
    leader.observed.nodes.insert(NodeName::new("n3").unwrap(), Arc::default());
    leader.put("n3", Owner::Ours, &["power=violating"]);
    let plan = leader.act(at(0));
    assert_eq!(acts(&plan), [act("n2", Act::Added)]);
    assert_eq!(plan.held.by(HeldBy::Unknown), 1);
}

#[test]
fn a_clock_that_jumps_neither_locks_up_nor_lets_go() {
    let mut leader = leader([hot("power")], &[("n1", "41")], 0);
    leader.act(at(0));
    // A day ahead: everything is old at once, and frozen.
    leader.act(at(86_400));
    assert_eq!(leader.labels("n1").len(), 1);
    // And back again.
    leader.scene.sample("n1", "power", "20", at(5));
    assert_eq!(acts(&leader.act(at(5))), [act("n1", Act::Removed)]);
    for second in 6..40 {
        let value = if second % 2 == 0 { "41" } else { "20" };
        leader.scene.sample("n1", "power", value, at(second));
        leader.act(at(second));
    }
    leader.scene.sample("n1", "power", "41", at(100));
    leader.act(at(100));
    assert_eq!(leader.labels("n1"), ["power=violating"]);
    // What was frozen by the clock ahead is not frozen until that time comes again.
    leader.act(at(10_000));
    leader.act(at(1000));
    assert_eq!(acts(&leader.act(at(1000 + 900))), [act("n1", Act::Released)]);
}

#[test]
fn a_clock_put_back_does_not_make_a_status_wait_for_the_time_it_was_told_at() {
    let mut leader = leader([hot("power")], &[("n1", "41")], 0);
    leader.act(at(100));
    leader.observed.nodes.insert(NodeName::new("n1").unwrap(), Arc::default());
    leader.put("n1", Owner::Foreign, &["power=leave-me-alone"]);
    assert!(Leader::told(&leader.act(at(50)), "power").unwrap().foreign.is_some());
}

#[test]
fn a_label_changed_or_removed_by_hand() {
    let mut leader = leader([hot("power")], &[("n1", "41")], 0);
    leader.act(at(0));
    let node = NodeName::new("n1").unwrap();
    // Removed: it comes back.
    leader.observed.nodes.insert(node.clone(), Arc::default());
    assert_eq!(acts(&leader.act(at(1))), [act("n1", Act::Added)]);
    // Changed: now it is the user's.
    leader.observed.nodes.insert(node, Arc::default());
    leader.put("n1", Owner::Foreign, &["power=leave-me-alone"]);
    let plan = leader.act(at(2));
    assert_eq!((plan.nodes.len(), plan.held.by(HeldBy::ForeignLabel)), (0, 1));
}

#[test]
fn a_sensor_that_flips_every_second_for_an_hour_is_bounded_by_the_limit() {
    let mut leader = leader([hot("power").marking([Mark::Label, SOFT])], &[("n1", "41"), ("n2", "20")], 0);
    leader.observed.settings.may_taint = Namespaces::All;
    let mut writes = 0;
    for second in 0..3600 {
        let value = if second % 2 == 0 { "41" } else { "20" };
        leader.scene.sample("n1", "power", value, at(second));
        leader.scene.sample("n2", "power", "20", at(second));
        writes += leader.act(at(second)).nodes.len();
    }
    assert!((200..=4 + 3600 / 15).contains(&writes), "{writes}");
    // It comes to rest in the right state.
    leader.scene.sample("n1", "power", "20", at(3601));
    leader.act(at(3660));
    assert_eq!((leader.labels("n1"), leader.taints("n1")), (vec![], vec![]));
}

#[test]
fn a_sensor_that_flips_within_for_writes_nothing() {
    let mut steady = rule("power", Operator::GreaterThan, "30");
    steady.hold = Duration::from_secs(30);
    let mut leader = leader([policy("power").deschedule(Combine::AnyOf, [steady])], &[("n1", "20")], 0);
    for second in 0..3600 {
        let value = if second / 20 % 2 == 0 { "20" } else { "41" };
        leader.scene.sample("n1", "power", value, at(second));
        assert!(leader.act(at(second)).nodes.is_empty());
    }
}

#[test]
fn all_nodes_violating_are_written_once_each_as_fast_as_the_limit_allows() {
    let names: Vec<String> = (0..1000).map(|place| format!("n{place:04}")).collect();
    let power: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "41")).collect();
    let mut leader = leader([hot("a"), hot("b")], &power, 0);
    let first = leader.act(at(0));
    assert_eq!((first.nodes.len(), first.held.by(HeldBy::RateLimit)), (200, 2 * 800));
    let (mut writes, mut passes, mut now, mut wake) = (200, 1, at(0), first.wake);
    while let Some(next) = wake.filter(|_| writes < 1000) {
        assert!(next > now, "time goes on");
        now = next;
        let plan = leader.act(now);
        (writes, passes, wake) = (writes + plan.nodes.len(), passes + 1, plan.wake);
    }
    assert_eq!(writes, 1000);
    assert!(now.since(at(0)) <= Duration::from_secs(9) && passes <= 40, "{now:?} {passes}");
    assert!(names.iter().all(|name| leader.labels(name).len() == 2));
    assert!(leader.act(at(60)).nodes.is_empty());
}

#[test]
fn nodes_that_cannot_be_written_take_no_room_from_the_others_and_the_policy_says_so() {
    let mut leader = leader([hot("a")], &[("n1", "41"), ("n2", "41"), ("n3", "41"), ("n4", "20")], 0);
    leader.observed.settings.limits.cluster = Rate { burst: 1, every: Duration::from_mins(1) };
    let node = |name| NodeName::new(name).unwrap();
    let why: Arc<str> = Arc::from("not allowed to patch nodes");
    let refused = |why: Option<&Arc<str>>| Refused { until: at(30), why: why.cloned() };
    // The second is only to be looked at again, and nothing is wanted of the fourth.
    leader.observed.refused =
        [(node("n1"), refused(Some(&why))), (node("n2"), refused(None)), (node("n4"), refused(Some(&why)))]
            .into();
    let first = leader.act(at(0));
    assert_eq!(acts(&first), [act("n3", Act::Added)]);
    assert_eq!((first.held.by(HeldBy::Refused), first.held.by(HeldBy::RateLimit)), (1, 0));
    assert_eq!((&first.settled, first.wake), (&vec![node("n4")], Some(at(30))));
    assert_eq!(Leader::told(&first, "a").unwrap().unwritable, Some((node("n1"), Arc::clone(&why))));

    // What is tried again has not succeeded yet.
    leader.observed.settings.limits.cluster.burst = 10;
    let again = leader.decide(at(60));
    assert_eq!(acts(&again), [act("n1", Act::Added), act("n2", Act::Added)]);
    assert!(again.statuses.is_empty(), "{:?}", again.statuses);
    leader.act(at(61));
    let last = leader.act(at(75));
    assert_eq!(Leader::told(&last, "a").unwrap().unwritable, None);
}
