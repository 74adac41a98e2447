//! Laws of planning, for any policies, samples and marks.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::Verdict;
use engine::fixtures::{Leader, at, policy, rule};
use engine::names::PolicyRef;
use engine::plan::{
    Act, HeldBy, LabelKey, Ledger, MarkKey, Namespaces, NodeLabel, NodeMarks, Owner, Plan, SeenLabel,
    Settings, Taint,
};
use engine::policy::{Combine, Mark, Mode, Operator, Policy, TaintEffect};
use engine::time::Timestamp;
use proptest::prelude::*;

const NODES: [&str; 4] = ["n0", "n1", "n2", "n3"];
const METRICS: [&str; 3] = ["power", "heat", "load"];
const NAMES: [&str; 3] = ["p", "q", "r"];

fn any_rule() -> impl Strategy<Value = engine::policy::Rule> {
    let operator = prop::sample::select(vec![Operator::GreaterThan, Operator::LessThan, Operator::Equals]);
    (0..METRICS.len(), operator, 0i64..10)
        .prop_map(|(metric, operator, target)| rule(METRICS[metric], operator, &target.to_string()))
}

fn any_marks() -> impl Strategy<Value = Vec<Mark>> {
    let taint = |effect| Mark::Taint(effect);
    prop::sample::select(vec![
        vec![],
        vec![Mark::Label],
        vec![taint(TaintEffect::PreferNoSchedule)],
        vec![Mark::Label, taint(TaintEffect::NoSchedule)],
    ])
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let labelled = (any_rule(), prop::sample::subsequence(vec!["k0=a", "k0=b", "k1=a"], 0..2));
    let combine = || prop::sample::select(vec![Combine::AnyOf, Combine::AllOf]);
    (
        (0..NAMES.len(), prop::sample::select(vec!["a", "b"]), prop::bool::weighted(0.2)),
        (combine(), prop::collection::vec(any_rule(), 0..3), any_marks()),
        (combine(), prop::collection::vec(labelled, 0..3)),
        prop::collection::vec(any_rule(), 0..2),
    )
        .prop_map(|((name, namespace, shadow), (all, leave, marks), (label_all, labelled), keep_off)| {
            let rules: Vec<_> =
                labelled.iter().map(|(rule, labels)| (rule.clone(), labels.as_slice())).collect();
            let mut policy =
                policy(NAMES[name]).in_namespace(namespace).dont_schedule(Combine::AnyOf, keep_off);
            if !leave.is_empty() {
                policy = policy.deschedule(all, leave).marking(marks);
            }
            if !rules.is_empty() {
                policy = policy.label(label_all, &rules);
            }
            policy.mode = if shadow { Mode::Shadow } else { Mode::Enforce };
            policy
        })
}

fn any_marks_of_a_node() -> impl Strategy<Value = NodeMarks> {
    let name = || prop::sample::select(vec!["p", "q", "gone", "zone"]);
    let key = prop_oneof![
        name().prop_map(|name| LabelKey::Violating(name.into())),
        (name(), prop::sample::select(vec!["k0", "k1", "k9"]))
            .prop_map(|(name, key)| LabelKey::Won { policy: name.into(), key: key.into() }),
    ];
    let value = prop::sample::select(vec!["violating", "a", "b", ""]);
    let owner = prop::sample::select(vec![Owner::Ours, Owner::Shared, Owner::Foreign]);
    let label = (key, value, owner)
        .prop_map(|(key, value, owner)| SeenLabel { label: NodeLabel { key, value: value.into() }, owner });
    let effect = prop::sample::select(vec![TaintEffect::PreferNoSchedule, TaintEffect::NoSchedule]);
    let taint = (name(), effect).prop_map(|(name, effect)| Taint { policy: name.into(), effect });
    (prop::collection::vec(label, 0..4), prop::collection::vec(taint, 0..2))
        .prop_map(|(labels, taints)| NodeMarks::new(labels, taints, None))
}

fn any_namespaces() -> impl Strategy<Value = Namespaces> {
    let some = prop::sample::subsequence(vec!["a", "b"], 0..=2)
        .prop_map(|names| Namespaces::Only(names.into_iter().map(Arc::from).collect()));
    prop_oneof![Just(Namespaces::All), some]
}

/// A cluster in any state, a minute in; some samples are too old to count.
fn any_leader() -> impl Strategy<Value = Leader> {
    let sample = (0..NODES.len(), 0..METRICS.len(), -1i64..11, prop::sample::select(vec![-600i64, 0]));
    (
        prop::collection::vec(any_policy(), 0..5),
        prop::collection::vec(sample, 0..20),
        prop::collection::vec(any_marks_of_a_node(), NODES.len()),
        (any_namespaces(), any_namespaces(), prop::collection::vec(0u32..2, 6)),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(policies, samples, marks, (may_label, may_taint, waiting), unread)| {
            let mut leader = Leader::new(&NODES, policies);
            for (node, metric, value, taken) in samples {
                leader.scene.sample(NODES[node], METRICS[metric], &value.to_string(), at(taken));
            }
            for (node, marks) in leader.observed.nodes.values_mut().zip(marks) {
                *node = Arc::new(marks);
            }
            for (policy, waiting) in leader.observed.policies.values_mut().zip(waiting) {
                policy.waiting = waiting;
            }
            leader.observed.settings = Settings { may_label, may_taint, ..Settings::default() };
            if unread {
                leader.scene.inputs.policies.pop();
            }
            leader
        })
}

fn acts(plan: &Plan) -> Vec<Act> {
    plan.nodes.iter().flat_map(|change| &change.deeds).map(|deed| deed.act).collect()
}

/// Whether some policy that may do so certainly asks for the mark, said another way than the plan does.
fn is_asked_for(leader: &Leader, node: &str, mark: &MarkKey, now: Timestamp) -> bool {
    let settings = &leader.observed.settings;
    let Some(ix) = leader.scene.view.nodes.find(node) else { return false };
    leader.scene.view.tables.iter().any(|table| {
        let policy = &table.policy;
        let (namespace, name) = (policy.name.namespace(), policy.name.name());
        let leaves =
            || table.deschedule.as_ref().is_some_and(|v| v.row(ix, now).verdict == Verdict::Violating);
        let marks = policy.deschedule.as_ref().map_or(&[][..], |deschedule| &deschedule.marks);
        let asks = match mark {
            MarkKey::Taint(of) => {
                **of == *name
                    && settings.may_taint.hold(namespace)
                    && marks.iter().any(|mark| matches!(mark, Mark::Taint(_)))
                    && leaves()
            }
            MarkKey::Label(LabelKey::Violating(of)) => {
                **of == *name
                    && settings.may_label.hold(namespace)
                    && marks.contains(&Mark::Label)
                    && leaves()
            }
            MarkKey::Label(LabelKey::Won { policy: of, key }) => {
                let held = table.labels_won(ix, now);
                let rules = policy.labeling.as_ref().map_or(&[][..], |labeling| &labeling.rules);
                **of == *name
                    && settings.may_label.hold(namespace)
                    && held.iter().any(|place| rules[*place].labels.iter().any(|label| label.key == *key))
            }
        };
        asks && policy.mode == Mode::Enforce
    })
}

proptest! {
    #[test]
    fn every_mark_waits_for_its_metric_by_its_own_clock(heard in prop::collection::vec([0_u8..8, 0..8, 0..8], 1..80)) {
        const MINUTE: i64 = 60;
        let names = ["a", "b", "c"];
        let policies = names.map(|name| policy(name).deschedule(Combine::AnyOf, [rule(name, Operator::GreaterThan, "30")]));
        let mut leader = Leader::new(&["n1"], policies);
        // Of each metric: when it was last heard of, since when nobody knows, whether the mark stands.
        let mut known = [(None::<i64>, None::<i64>, false); 3];
        for (minute, heard) in (0..).zip(heard) {
            let now = minute * MINUTE;
            for ((name, heard), (last, unknown, marked)) in names.iter().zip(heard).zip(&mut known) {
                if heard == 0 {
                    leader.scene.sample("n1", name, "41", at(now));
                    *last = Some(now);
                }
                let fresh = last.is_some_and(|last| now - last <= 3 * MINUTE);
                *unknown = if fresh { None } else { unknown.or(Some(now)) };
                *marked = fresh || (*marked && unknown.is_none_or(|since| now - since < 15 * MINUTE));
            }
            leader.act(at(now));
            let standing = names.iter().zip(&known).filter(|(_, (.., marked))| *marked);
            prop_assert_eq!(leader.labels("n1"), standing.map(|(name, _)| format!("{name}=violating")).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_carried_out_is_not_planned_again(mut leader in any_leader()) {
        let first = leader.act(at(60));
        let again = leader.act(at(60));
        prop_assert!(again.is_empty(), "after {first:?}\nagain {again:?}");
        let later = leader.act(at(61));
        prop_assert!(later.nodes.is_empty(), "after {first:?}\nlater {later:?}");
        // Nor by another leader, who remembers nothing. It tells what it finds, once.
        leader.ledger = Ledger::default();
        let other = leader.act(at(61));
        prop_assert!(other.nodes.is_empty(), "after {first:?}\nother {other:?}");
    }

    #[test]
    fn a_node_changes_once_and_in_order(mut leader in any_leader()) {
        let plan = leader.decide(at(60));
        let names: Vec<_> = plan.nodes.iter().map(|change| &change.node).collect();
        prop_assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        for change in &plan.nodes {
            let marks = change.labels.is_some() || change.taints.is_some() || !change.leftovers.is_empty();
            prop_assert!(marks != change.kick.is_some(), "either marks or a kick: {change:?}");
        }
    }

    #[test]
    fn what_somebody_else_wrote_stays(mut leader in any_leader()) {
        let before = leader.observed.clone();
        let names: BTreeSet<&str> = before.policies.keys().map(PolicyRef::name).collect();
        leader.act(at(60));
        for (node, marks) in &before.nodes {
            let foreign = marks.labels().iter().filter(|seen| {
                let of_a_policy = names.contains(seen.label.key.policy());
                let legacy = match seen.label.key {
                    LabelKey::Violating(_) => &*seen.label.value == "violating",
                    LabelKey::Won { .. } => true,
                };
                seen.owner == Owner::Foreign && !(of_a_policy && legacy)
            });
            for seen in foreign {
                prop_assert!(leader.observed.nodes[node].labels().contains(seen), "{node} lost {seen:?}");
            }
        }
    }

    #[test]
    fn nothing_is_added_unless_it_is_certain(mut leader in any_leader()) {
        let plan = leader.act(at(60));
        for change in &plan.nodes {
            for deed in change.deeds.iter().filter(|deed| matches!(deed.act, Act::Added | Act::Changed)) {
                prop_assert!(
                    deed.act == Act::Changed && matches!(deed.mark, MarkKey::Taint(_))
                        || is_asked_for(&leader, change.node.as_str(), &deed.mark, at(60)),
                    "{} {deed:?}", change.node
                );
            }
        }
    }

    #[test]
    fn where_nothing_is_known_nothing_is_added(mut leader in any_leader()) {
        leader.scene.inputs.samples.clear();
        let first = leader.act(at(60));
        prop_assert!(acts(&first).iter().all(|act| !matches!(act, Act::Added | Act::Changed)), "{first:?}");
        // When the wait is over nothing of ours is left, but for what two effects of one taint shrink to.
        let last = leader.act(at(60 + 15 * 60));
        prop_assert!(acts(&last).iter().all(|act| !matches!(act, Act::Added)), "{last:?}");
        for (node, marks) in &leader.observed.nodes {
            let ours: Vec<_> = marks.labels().iter().filter(|seen| seen.owner != Owner::Foreign).collect();
            prop_assert!(ours.is_empty() && marks.taints().is_empty(), "{node} {marks:?}");
        }
    }

    #[test]
    fn a_pause_writes_nothing_on_nodes(mut leader in any_leader()) {
        let mut paused = leader.clone();
        paused.observed.settings.paused = true;
        let plan = paused.decide(at(60));
        prop_assert!(plan.nodes.is_empty());
        let marks = acts(&leader.decide(at(60))).len();
        prop_assert_eq!(plan.held.by(HeldBy::Pause), marks, "and counts what it holds back");
    }

    #[test]
    fn policies_that_only_report_mark_nothing(mut leader in any_leader()) {
        let shadow = leader.scene.inputs.policies.iter().map(|policy| {
            Policy { mode: Mode::Shadow, ..(**policy).clone() }
        });
        leader.set_policies(shadow.collect::<Vec<_>>());
        for node in leader.observed.nodes.values_mut() {
            let foreign = node.labels().iter().filter(|seen| seen.owner == Owner::Foreign).cloned();
            *node = Arc::new(NodeMarks::new(foreign.collect::<Vec<_>>(), [], None));
        }
        let plan = leader.decide(at(60));
        prop_assert!(plan.nodes.is_empty(), "{plan:?}");
    }

    #[test]
    fn the_order_of_policies_leaves_no_trace(mut leader in any_leader()) {
        let mut seen = BTreeSet::new();
        leader.scene.inputs.policies.retain(|policy| seen.insert(policy.name.clone()));
        leader.know_policies();
        let mut backward = leader.clone();
        backward.scene.inputs.policies.reverse();
        prop_assert_eq!(leader.decide(at(60)), backward.decide(at(60)));
        prop_assert_eq!(&leader.ledger, &backward.ledger);
    }

    #[test]
    fn what_is_right_is_not_touched_by_an_edit(mut leader in any_leader()) {
        // Any new policy beside the old ones leaves the labels of theirs alone.
        leader.act(at(60));
        let labels = |leader: &Leader| NODES.map(|node| leader.labels(node));
        let before = labels(&leader);
        let mut policies: Vec<Policy> = leader.scene.inputs.policies.iter().map(|p| (**p).clone()).collect();
        let known = leader.observed.policies.clone();
        policies.push(policy("new").deschedule(Combine::AnyOf, [rule("load", Operator::GreaterThan, "100")]));
        leader.set_policies(policies);
        leader.observed.policies.extend(known);
        prop_assert!(leader.act(at(60)).nodes.is_empty());
        prop_assert_eq!(labels(&leader), before);
    }
}
