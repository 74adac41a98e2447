//! What is planned: examples.

use std::sync::Arc;

use engine::fixtures::{Scene, at, policy, rule};
use engine::names::NodeName;
use engine::plan::{Act, LabelKey, Ledger, NodeLabel, NodeMarks, Observed, ObservedPolicy, plan};
use engine::policy::{Combine, Operator};

fn observed(scene: &Scene) -> Observed {
    let nodes = scene.inputs.nodes.names().iter().map(|name| (name.clone(), Arc::new(NodeMarks::default())));
    let policies =
        scene.inputs.policies.iter().map(|policy| (policy.name.clone(), ObservedPolicy::default()));
    Observed { nodes: nodes.collect(), policies: policies.collect(), ..Observed::default() }
}

#[test]
fn a_violating_node_is_labelled_once_and_unlabelled_when_it_recovers() {
    let hot = policy("power").deschedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")]);
    let mut scene = Scene::new(&["n1", "n2"], [hot]);
    scene.sample("n1", "power", "41", at(0));
    scene.sample("n2", "power", "20", at(0));
    scene.advance(at(0));
    let before = observed(&scene);
    let (first, ledger) = plan(&scene.view, &before, Ledger::default(), at(0));
    let [change] = &*first.nodes else { panic!("one node changes: {first:?}") };
    let label = NodeLabel { key: LabelKey::Violating("power".into()), value: "violating".into() };
    assert_eq!((&change.node, change.labels.as_deref()), (&NodeName::new("n1").unwrap(), Some(&[label][..])));
    assert_eq!(change.deeds[0].to_string(), "the label violating was put on: power over 30");

    let after = before.after(&first);
    let (second, ledger) = plan(&scene.view, &after, ledger, at(0));
    assert!(second.is_empty(), "{second:?}");

    scene.sample("n1", "power", "20", at(5));
    scene.advance(at(5));
    let (third, _) = plan(&scene.view, &after, ledger, at(5));
    assert_eq!(third.nodes[0].labels.as_deref(), Some(&[][..]));
    assert_eq!(third.nodes[0].deeds[0].act, Act::Removed);
}
