//! Placement, case by case: unknown data, shadow mode, pods on their way, several preferences.

use std::num::NonZeroU32;
use std::time::Duration;

use engine::fixtures::{Scene, at, key, number, policy, preference, rule};
use engine::policy::{Combine, Mode, OnMissing, Operator, Span};
use engine::{Ruling, answer, scores};

fn over_30() -> engine::policy::Policy {
    policy("power").dont_schedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")])
}

#[test]
fn a_sample_exactly_at_its_age_limit_still_counts_and_one_past_it_does_not() {
    let mut scene = Scene::new(&["a"], [over_30()]);
    scene.sample("a", "power", "41", at(0));
    scene.advance(at(0));
    assert_eq!(scene.refused("power", at(180)), ["a"]);
    assert_eq!(scene.refused("power", at(181)), Vec::<String>::new());
    let reason = answer(&scene.view, key("power"), &["a"], at(181)).reason(0).unwrap();
    assert_eq!(reason.to_string(), "power unknown, 3 min 1 s old");
}

#[test]
fn a_value_of_several_readings_counts_with_the_newest_of_them_and_is_as_old_as_the_oldest() {
    let mut scene = Scene::new(&["a"], [over_30()]);
    let mut read = |value: &str, taken, newest| {
        let sample = engine::Sample { value: number(value), taken: at(taken), newest: at(newest) };
        scene.feed("a", "power", sample);
        scene.advance(at(100));
        [100, 190].map(|now| scene.refused("power", at(now)).len())
    };
    assert_eq!(read("20", 10, 60), [0, 0]);
    assert_eq!(read("41", 10, 65), [1, 1], "one of them has news, the other has none");
    assert_eq!(read("20", 10, 65), [0, 0], "a third came in late");
    assert_eq!(read("41", 9, 70), [1, 0], "one is too old at second 190");
    assert_eq!(read("20", 9, 69), [1, 0], "an older reading, as from a second Prometheus");
}

#[test]
fn the_engine_wants_to_be_called_when_the_first_verdict_expires() {
    let mut scene = Scene::new(&["a", "b"], [over_30()]);
    scene.sample("a", "power", "41", at(5));
    scene.sample("b", "power", "20", at(9));
    scene.advance(at(10));
    assert_eq!(scene.wake, Some(engine::time::Timestamp::from_millis(at(185).millis() + 1)));
}

#[test]
fn what_nobody_knows_passes_unless_the_policy_denies_it() {
    let mut denying = over_30();
    denying.on_missing = OnMissing::Deny;
    for (policy, denies) in [(over_30(), false), (denying, true)] {
        let mut scene = Scene::new(&["a", "b"], [policy]);
        scene.sample("a", "power", "20", at(0));
        scene.advance(at(0));
        let answer = answer(&scene.view, key("power"), &["a", "b", "template-7"], at(0));
        let messages: Vec<Option<&str>> = answer
            .rulings
            .iter()
            .map(|ruling| match ruling {
                Ruling::Pass => None,
                Ruling::Refused(cause) => Some(answer.table().unwrap().message(*cause)),
            })
            .collect();
        let refusal = |text| denies.then_some(text);
        assert_eq!(
            messages,
            [None, refusal("default/power: power unknown"), refusal("default/power: node unknown")]
        );
        assert_eq!(answer.reason(1).unwrap().to_string(), "power unknown, no sample yet");
        assert_eq!(answer.reason(2).unwrap().to_string(), "node unknown");
    }
}

#[test]
fn a_policy_without_rules_passes_even_nodes_nobody_knows() {
    let mut denying = policy("p");
    denying.on_missing = OnMissing::Deny;
    let mut scene = Scene::new(&["a"], [denying]);
    scene.advance(at(0));
    assert_eq!(answer(&scene.view, key("p"), &["a", "b"], at(0)).rulings, [Ruling::Pass, Ruling::Pass]);
}

#[test]
fn shadow_refuses_nothing_and_prefers_nothing_but_counts() {
    let mut shadow = over_30().prefer([preference("power", Operator::LessThan)]);
    shadow.mode = Mode::Shadow;
    let mut scene = Scene::new(&["a", "b"], [shadow]);
    scene.sample("a", "power", "41", at(0));
    scene.sample("b", "power", "20", at(0));
    scene.advance(at(0));
    let answer = answer(&scene.view, key("power"), &["a", "b"], at(0));
    assert_eq!((answer.rulings.as_slice(), answer.would_refuse), (&[Ruling::Pass, Ruling::Pass][..], 1));
    assert_eq!(answer.reason(0).unwrap().numbers().to_string(), "41 over 30");
    assert_eq!(scene.scores("power", at(0)), None);
}

#[test]
fn a_sample_from_the_future_is_left_out_and_counted() {
    let mut scene = Scene::new(&["a"], [over_30()]);
    scene.sample("a", "power", "41", at(3600));
    scene.advance(at(0));
    assert_eq!(scene.view.dropped.from_the_future, 1);
    scene.sample("a", "power", "41", at(1));
    scene.advance(at(1));
    assert_eq!(
        (scene.refused("power", at(1)), scene.view.dropped.from_the_future),
        (vec!["a".to_owned()], 0)
    );
}

#[test]
fn a_node_that_comes_back_starts_without_history() {
    let mut held = rule("power", Operator::GreaterThan, "30");
    held.threshold = held.threshold.with_clear(number("25")).unwrap();
    let mut scene = Scene::new(&["a", "b"], [policy("p").dont_schedule(Combine::AnyOf, [held])]);
    for node in ["a", "b"] {
        scene.sample(node, "power", "41", at(0));
    }
    scene.advance(at(0));
    let both = scene.inputs.nodes.clone();
    scene.inputs.nodes = Scene::new(&["b"], []).inputs.nodes;
    scene.advance(at(1));
    scene.inputs.nodes = both;
    for node in ["a", "b"] {
        scene.sample(node, "power", "28", at(2));
    }
    scene.advance(at(2));
    assert_eq!(scene.refused("p", at(2)), ["b"], "b is still over its clear value, a has no past");
}

#[test]
fn pods_on_their_way_are_judged_by_what_they_will_add() {
    let mut loaded = rule("power", Operator::GreaterThan, "30");
    loaded.load.per_pod = Some(number("4"));
    let policy =
        policy("p").dont_schedule(Combine::AnyOf, [loaded.clone()]).deschedule(Combine::AnyOf, [loaded]);
    let mut scene = Scene::new(&["a"], [policy]);
    scene.sample("a", "power", "22", at(0));
    scene.place("a", at(1));
    scene.place("a", at(1));
    scene.advance(at(2));
    assert_eq!(scene.refused("p", at(2)), Vec::<String>::new(), "22 + 2 × 4 is 30, not over it");
    scene.place("a", at(2));
    scene.advance(at(2));
    assert_eq!(scene.refused("p", at(2)), ["a"]);
    let reason = answer(&scene.view, key("p"), &["a"], at(2)).reason(0).unwrap();
    assert_eq!(reason.numbers().to_string(), "expected 34 over 30 with 3 pods placed lately");
    let node = scene.view.nodes.find("a").unwrap();
    let leaving = scene.view.tables[0].deschedule.as_ref().unwrap().row(node, at(2)).verdict;
    assert_eq!(leaving, engine::Verdict::Pass, "nobody is moved for what is only expected");
    // The metric has had its minute: what it shows now includes the pods.
    scene.sample("a", "power", "29", at(62));
    scene.advance(at(62));
    assert_eq!(scene.refused("p", at(62)), Vec::<String>::new());
}

#[test]
fn a_burst_spreads_over_nodes_that_look_alike() {
    let nodes: Vec<String> = (0..10).map(|n| format!("n{n}")).collect();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let mut scene = Scene::new(&nodes, [policy("p").prefer([preference("power", Operator::LessThan)])]);
    for (place, node) in (0..).zip(&nodes) {
        scene.sample(node, "power", &(200 + place).to_string(), at(0));
    }
    scene.advance(at(1));
    let mut pods = vec![0_u32; nodes.len()];
    for _ in 0..250 {
        let scored = scene.scores("p", at(1)).unwrap();
        let best = (0..nodes.len()).rev().max_by_key(|place| scored[*place]).unwrap();
        pods[best] += 1;
        scene.place(nodes[best], at(1));
        scene.advance(at(1));
    }
    assert!(pods.iter().all(|pods| (20..=30).contains(pods)), "{pods:?}");
}

#[test]
fn several_preferences_count_by_their_weight() {
    let mut heavy = preference("power", Operator::LessThan);
    heavy.weight = NonZeroU32::new(3).unwrap();
    let light = preference("free", Operator::GreaterThan);
    let mut scene = Scene::new(&["a", "b"], [policy("p").prefer([heavy, light])]);
    for (node, power, free) in [("a", "20", "1"), ("b", "40", "9")] {
        scene.sample(node, "power", power, at(0));
        scene.sample(node, "free", free, at(0));
    }
    scene.advance(at(0));
    assert_eq!(scores(&scene.view, key("p"), &["a", "b"], 100, at(0)), Some(vec![75, 25]));
}

#[test]
fn a_fixed_scale_does_not_depend_on_who_is_asked_about() {
    let mut fixed = preference("power", Operator::LessThan);
    fixed.normalize = Some(Span::new(number("20"), number("40")).unwrap());
    let mut scene = Scene::new(&["a", "b", "c"], [policy("p").prefer([fixed])]);
    for (node, power) in [("a", "25"), ("b", "10"), ("c", "90")] {
        scene.sample(node, "power", power, at(0));
    }
    scene.advance(at(0));
    let asked = |names: &[&str]| scores(&scene.view, key("p"), names, 100, at(0)).unwrap();
    assert_eq!((asked(&["a"]), asked(&["a", "b", "c"])), (vec![75], vec![75, 100, 0]));
}

#[test]
fn a_stale_value_scores_nothing() {
    let mut prefer = preference("power", Operator::LessThan);
    prefer.max_age = Duration::from_secs(30);
    let mut scene = Scene::new(&["a", "b"], [policy("p").prefer([prefer])]);
    scene.sample("a", "power", "20", at(0));
    scene.sample("b", "power", "40", at(20));
    scene.advance(at(20));
    assert_eq!(scene.scores("p", at(30)), Some(vec![10, 0]));
    assert_eq!(scene.scores("p", at(31)), Some(vec![0, 10]));
}

#[test]
fn one_dead_sensor_does_not_hide_what_another_still_says() {
    let (mut brief, lasting) =
        (rule("power", Operator::GreaterThan, "30"), rule("temp", Operator::GreaterThan, "60"));
    brief.max_age = Duration::from_secs(30);
    let mut scene = Scene::new(&["a"], [policy("p").dont_schedule(Combine::AnyOf, [brief, lasting])]);
    scene.sample("a", "power", "41", at(0));
    scene.sample("a", "temp", "80", at(0));
    scene.advance(at(0));
    assert_eq!(scene.refused("p", at(31)), ["a"], "nobody has judged again, and temp is still too high");
    assert_eq!(scene.refused("p", at(181)), Vec::<String>::new());
}

#[test]
fn a_refusal_by_all_rules_names_the_first_whatever_their_ages() {
    let rules = [rule("power", Operator::GreaterThan, "30"), rule("temp", Operator::GreaterThan, "60")];
    let mut scene = Scene::new(&["a", "b"], [policy("p").dont_schedule(Combine::AllOf, rules)]);
    for (node, power, temp) in [("a", 0, 5), ("b", 5, 0)] {
        scene.sample(node, "power", "41", at(power));
        scene.sample(node, "temp", "80", at(temp));
    }
    scene.advance(at(5));
    let answer = answer(&scene.view, key("p"), &["a", "b"], at(5));
    let texts: Vec<&str> = answer
        .rulings
        .iter()
        .filter_map(|ruling| match ruling {
            Ruling::Pass => None,
            Ruling::Refused(cause) => Some(answer.table()?.message(*cause)),
        })
        .collect();
    assert_eq!(texts, ["default/p: power over 30", "default/p: power over 30"]);
}

#[test]
fn a_new_rule_learns_from_history_that_comes_with_it() {
    let mut held = rule("power", Operator::GreaterThan, "30");
    held.hold = Duration::from_secs(20);
    let mut scene = Scene::new(&["a"], [policy("p").prefer([preference("power", Operator::LessThan)])]);
    scene.sample("a", "power", "41", at(30));
    scene.advance(at(30));
    scene.inputs.policies = vec![policy("p").dont_schedule(Combine::AnyOf, [held]).into()];
    for secs in [0, 10, 20] {
        scene.sample("a", "power", "41", at(secs));
    }
    scene.advance(at(31));
    assert_eq!(scene.refused("p", at(31)), ["a"]);
}
