//! Intel's own cases of `deschedule` and `labeling`, as tables: what their suites expect on nodes.

use engine::fixtures::{Leader, at, policy, rule};
use engine::plan::{Act, Owner};
use engine::policy::{Combine, Operator, Policy, Rule};

use Operator::{Equals, GreaterThan, LessThan};

const NODES: [&str; 4] = ["control-plane", "worker", "worker2", "worker3"];

/// The metrics of their end-to-end suite; the control plane reports none.
const SAMPLES: [(&str, &str, &str); 6] = [
    ("deschedule1_metric", "worker2", "9"),
    ("labeling1_metric", "worker", "10"),
    ("labeling1_metric", "worker2", "10"),
    ("labeling2_metric", "worker", "-10"),
    ("labeling2_metric", "worker2", "71"),
    ("labeling2_metric", "worker3", "10"),
];

/// The labels that a policy brings to each worker, in the order of their names.
fn labelled(policy: Policy) -> [Vec<String>; 3] {
    let mut leader = Leader::new(&NODES, [policy]);
    for (metric, node, value) in SAMPLES {
        leader.scene.sample(node, metric, value, at(0));
    }
    leader.act(at(0));
    assert_eq!(leader.labels("control-plane"), Vec::<String>::new());
    assert!(leader.act(at(0)).is_empty(), "the second pass finds nothing to do");
    ["worker", "worker2", "worker3"].map(|node| leader.labels(node))
}

/// Its number, the rules, and the labels of the three workers.
type LabelCase<'a> = (u8, &'a [(Rule, &'a [&'a str])], [&'a [&'a str]; 3]);

/// Its name, the rules, and the labels of the node.
type WinCase<'a> = (&'a str, Combine, &'a [(Rule, &'a [&'a str])], &'a [&'a str]);

fn labeling(rules: &[(Rule, &[&str])]) -> Policy {
    policy("p").label(Combine::AnyOf, rules)
}

#[test]
fn deschedule_marks_the_one_node_that_violates() {
    let policy =
        policy("deschedule1").deschedule(Combine::AnyOf, [rule("deschedule1_metric", GreaterThan, "8")]);
    assert_eq!(labelled(policy), [vec![], vec!["deschedule1=violating".to_owned()], vec![]]);
}

#[test]
fn label_1_to_9() {
    let one = |operator, target| rule("labeling1_metric", operator, target);
    let two = |operator, target| rule("labeling2_metric", operator, target);
    let cases: &[LabelCase<'_>] = &[
        (1, &[(one(LessThan, "8"), &["card0=true"])], [&[], &[], &[]]),
        (2, &[(two(LessThan, "8"), &["card1=true"])], [&["card1=true"], &[], &[]]),
        (3, &[(two(Equals, "71"), &["card0=false"])], [&[], &["card0=false"], &[]]),
        (4, &[(two(Equals, "10"), &["card1=true"])], [&[], &[], &["card1=true"]]),
        (
            5,
            &[(one(GreaterThan, "8"), &["card0=true"]), (two(Equals, "-10"), &["card1=true"])],
            [&["card0=true", "card1=true"], &["card0=true"], &[]],
        ),
        (6, &[(two(GreaterThan, "-12"), &["card1=true"])], [&["card1=true"]; 3]),
        (
            7,
            &[(two(GreaterThan, "70"), &["card0=false", "card1=true"])],
            [&[], &["card0=false", "card1=true"], &[]],
        ),
        (8, &[(one(LessThan, "8"), &["foo=1"]), (two(LessThan, "8"), &["foo=2"])], [&["foo=2"], &[], &[]]),
        (
            9,
            &[(one(GreaterThan, "8"), &["foo=1"]), (two(GreaterThan, "8"), &["foo=2"])],
            [&["foo=1"], &["foo=2"], &["foo=2"]],
        ),
    ];
    for (number, rules, expected) in cases {
        let expected =
            expected.map(|labels| labels.iter().map(|label| format!("p/{label}")).collect::<Vec<_>>());
        assert_eq!(labelled(labeling(rules)), expected, "Label {number}");
    }
}

/// Their unit table of `labeling`: memory is 2000 and cpu 200.
#[test]
fn the_largest_or_smallest_value_wins_a_key() {
    let memory = |operator, target| rule("memory", operator, target);
    let cpu = |operator, target| rule("cpu", operator, target);
    let any = Combine::AnyOf;
    let cases: &[WinCase<'_>] = &[
        ("one rule", any, &[(cpu(GreaterThan, "99"), &["card1=false"])], &["card1=false"]),
        ("no rule", any, &[(memory(GreaterThan, "3000"), &["card1=false"])], &[]),
        (
            "two keys",
            any,
            &[(memory(GreaterThan, "9"), &["card0=true"]), (cpu(GreaterThan, "9"), &["card1=true"])],
            &["card0=true", "card1=true"],
        ),
        (
            "the larger",
            any,
            &[(cpu(GreaterThan, "9"), &["card=cpu"]), (memory(GreaterThan, "9"), &["card=memory"])],
            &["card=memory"],
        ),
        (
            "the smaller",
            any,
            &[(memory(LessThan, "9999"), &["card=memory"]), (cpu(LessThan, "9999"), &["card=cpu"])],
            &["card=cpu"],
        ),
        (
            "the first of equals",
            any,
            &[(cpu(Equals, "200"), &["card=cpu"]), (memory(Equals, "2000"), &["card=memory"])],
            &["card=cpu"],
        ),
        (
            "only the key that is won is written",
            any,
            &[
                (cpu(GreaterThan, "9"), &["card=cpu", "fan=high"]),
                (memory(GreaterThan, "9"), &["card=memory", "bus=busy"]),
            ],
            &["bus=busy", "card=memory", "fan=high"],
        ),
        (
            "operators that cannot be compared: the earlier rule",
            any,
            &[(cpu(LessThan, "9999"), &["card=cpu"]), (memory(GreaterThan, "9"), &["card=memory"])],
            &["card=cpu"],
        ),
        (
            "all hold",
            Combine::AllOf,
            &[(cpu(GreaterThan, "9"), &[]), (memory(GreaterThan, "9"), &["card=memory"])],
            &["card=memory"],
        ),
        (
            "not all hold",
            Combine::AllOf,
            &[(cpu(GreaterThan, "900"), &[]), (memory(GreaterThan, "9"), &["card=memory"])],
            &[],
        ),
        (
            "not all are known",
            Combine::AllOf,
            &[(rule("nothing", GreaterThan, "0"), &[]), (memory(GreaterThan, "9"), &["card=memory"])],
            &[],
        ),
        (
            "what GPU aware scheduling reads",
            any,
            &[(
                memory(GreaterThan, "9"),
                &[
                    "gas-deschedule-pods-card0=PCI_GROUP",
                    "gas-disable-card0=PCI_GROUP",
                    "gas-prefer-gpu=card1",
                ],
            )],
            &["gas-deschedule-pods-card0=PCI_GROUP", "gas-disable-card0=PCI_GROUP", "gas-prefer-gpu=card1"],
        ),
    ];
    for (name, combine, rules, expected) in cases {
        let mut leader = Leader::new(&["n1"], [policy("p").label(*combine, rules)]);
        leader.scene.sample("n1", "memory", "2000", at(0));
        leader.scene.sample("n1", "cpu", "200", at(0));
        leader.act(at(0));
        let expected: Vec<String> = expected.iter().map(|label| format!("p/{label}")).collect();
        assert_eq!(leader.labels("n1"), expected, "{name}");
        assert!(leader.act(at(0)).is_empty(), "{name}");
        // Their clean-up after each case: no label of the policy stays.
        leader.set_policies([]);
        leader.act(at(1));
        assert_eq!(leader.labels("n1"), Vec::<String>::new(), "{name}");
    }
}

/// Their unit case of `deschedule`, where the old behaviour is a defect: the label of a node without metrics was removed
/// whatever its value.
#[test]
fn enforcing_touches_no_label_of_somebody_else() {
    let strategy = policy("deschedule-test")
        .deschedule(Combine::AnyOf, [rule("memory", GreaterThan, "1"), rule("cpu", LessThan, "10")]);
    let mut leader = Leader::new(&["node-1", "node-2", "node-3"], [strategy]);
    leader.put("node-1", Owner::Foreign, &["deschedule-test=", "other=label"]);
    leader.put("node-2", Owner::Foreign, &["deschedule-test=violating", "other=label"]);
    leader.scene.sample("node-2", "cpu", "5", at(0));
    leader.scene.sample("node-3", "memory", "100", at(0));
    let plan = leader.act(at(0));
    let acts: Vec<(&str, Act)> =
        plan.nodes.iter().map(|change| (change.node.as_str(), change.deeds[0].act)).collect();
    assert_eq!(acts, [("node-2", Act::Adopted), ("node-3", Act::Added)]);
    assert_eq!(leader.labels("node-1"), ["deschedule-test=", "other=label"]);
    assert_eq!(leader.labels("node-2"), ["deschedule-test=violating", "other=label"]);

    // Deleting the policy takes off what is ours and nothing else. The label of node-2 has another owner beside us.
    leader.set_policies([]);
    leader.act(at(1));
    assert_eq!(leader.labels("node-1"), ["deschedule-test=", "other=label"]);
    assert_eq!(leader.labels("node-2"), ["deschedule-test=violating", "other=label"]);
    assert_eq!(leader.labels("node-3"), Vec::<String>::new());
}
