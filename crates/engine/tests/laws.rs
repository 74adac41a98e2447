//! Laws that hold for any input.

use std::time::Duration;

use engine::fixtures::{Scene, at, key, policy, preference, rule};
use engine::policy::{Combine, OnMissing, Operator, Policy, Rule, Threshold};
use engine::{Ruling, Sample, Verdict, View, answer, scores};
use proptest::prelude::*;

const NODES: [&str; 5] = ["n0", "n1", "n2", "n3", "n4"];
const METRICS: [&str; 3] = ["power", "temp", "load"];

/// A sample as the tests write it: node, metric, value, second.
type Fed = (usize, usize, i64, i64);

fn samples() -> impl Strategy<Value = Vec<Fed>> {
    prop::collection::vec((0..NODES.len(), 0..METRICS.len(), -5i64..60, 0i64..300), 0..60)
}

/// A value of several readings: node, metric, value, the second of the newest, how much older the oldest is.
type Joined = (usize, usize, i64, i64, i64);

/// In the order of their news, some equally new and contradicting each other.
fn joined() -> impl Strategy<Value = Vec<Joined>> {
    let sample =
        (0..NODES.len(), 0..METRICS.len(), -5i64..60, 0i64..60, prop::sample::select(vec![0, 7, 60, 200]));
    prop::collection::vec(sample, 0..60).prop_map(|mut samples| {
        samples.sort_by_key(|sample| sample.3);
        samples
            .into_iter()
            .map(|(node, metric, value, at, older)| (node, metric, value, at * 5, older))
            .collect()
    })
}

fn feed(scene: &mut Scene, samples: &[Joined]) {
    for &(node, metric, value, newest, older) in samples {
        let sample = Sample { value: value.into(), taken: at(newest - older), newest: at(newest) };
        scene.feed(NODES[node], METRICS[metric], sample);
    }
}

fn operator() -> impl Strategy<Value = Operator> {
    use Operator::{Equals, GreaterOrEqual, GreaterThan, LessOrEqual, LessThan, NotEquals};
    prop::sample::select(vec![LessThan, LessOrEqual, Equals, NotEquals, GreaterOrEqual, GreaterThan])
}

fn any_rule() -> impl Strategy<Value = Rule> {
    (
        0..METRICS.len(),
        operator(),
        -5i64..60,
        0u64..40,
        prop::option::of(0i64..10),
        prop::option::of(-3i64..4),
    )
        .prop_map(|(name, operator, target, hold, slack, per_pod)| {
            let mut rule = rule(METRICS[name], operator, &target.to_string());
            rule.hold = Duration::from_secs(hold);
            rule.load.per_pod = per_pod.map(Into::into);
            let towards = if matches!(operator, Operator::LessThan | Operator::LessOrEqual) { 1 } else { -1 };
            if let Some(clear) = slack.map(|slack| (target + towards * slack).into()) {
                rule.threshold = rule.threshold.with_clear(clear).unwrap_or(rule.threshold);
            }
            rule
        })
}

fn any_policy(name: &'static str) -> impl Strategy<Value = Policy> {
    let rules = || prop::collection::vec(any_rule(), 0..4);
    let combine = prop::sample::select(vec![Combine::AnyOf, Combine::AllOf]);
    let on_missing = prop::sample::select(vec![OnMissing::Allow, OnMissing::Deny]);
    let preferences = prop::collection::vec((0..METRICS.len(), operator()), 0..3);
    (combine, on_missing, rules(), rules(), preferences).prop_map(
        move |(combine, on_missing, dont, leave, prefer)| {
            let preferences: Vec<_> =
                prefer.into_iter().map(|(m, operator)| preference(METRICS[m], operator)).collect();
            let mut policy =
                policy(name).dont_schedule(combine, dont).deschedule(combine, leave).prefer(preferences);
            policy.on_missing = on_missing;
            policy
        },
    )
}

fn policies() -> impl Strategy<Value = Vec<Policy>> {
    (any_policy("a"), any_policy("b"), any_policy("c")).prop_map(|(a, b, c)| vec![a, b, c])
}

fn fed(scene: &mut Scene, samples: &[Fed]) {
    for &(node, metric, value, taken) in samples {
        scene.sample(NODES[node], METRICS[metric], &value.to_string(), at(taken));
    }
}

/// All samples in one batch, at once.
fn batch(nodes: &[&str], policies: Vec<Policy>, samples: &[Fed], now: i64) -> Scene {
    let mut scene = Scene::new(nodes, policies);
    fed(&mut scene, samples);
    scene.advance(at(now));
    scene
}

fn sorted_by_time(mut samples: Vec<Fed>) -> Vec<Fed> {
    samples.sort_by_key(|s| s.3);
    samples.dedup_by_key(|s| (s.0, s.1, s.3));
    // One value per cell and moment: which of two contradicting ones counts is nobody's law.
    let mut seen = std::collections::BTreeSet::new();
    samples.retain(|s| seen.insert((s.0, s.1, s.3)));
    samples
}

fn everything(view: &View) -> String {
    format!("{:?} {:?}", view.snapshot, view.tables)
}

proptest! {
    #[test]
    fn order_of_nodes_and_policies_does_not_matter(policies in policies(), samples in samples(), now in 0i64..600) {
        let samples = sorted_by_time(samples);
        let straight = batch(&NODES, policies.clone(), &samples, now);
        let mut backward_nodes = NODES;
        backward_nodes.reverse();
        let backward: Vec<Policy> = policies.into_iter().rev().collect();
        let mut shuffled = samples;
        shuffled.sort_by_key(|s| (s.1, std::cmp::Reverse(s.2), s.0));
        let other = batch(&backward_nodes, backward, &shuffled, now);
        prop_assert_eq!(&straight.view, &other.view);
        prop_assert_eq!(everything(&straight.view), everything(&other.view));
        prop_assert_eq!(&straight.memory, &other.memory);
    }

    #[test]
    fn order_of_rules_does_not_change_a_verdict(policy in any_policy("p"), samples in samples(), now in 0i64..600) {
        let samples = sorted_by_time(samples);
        let mut backward = policy.clone();
        if let Some(set) = &mut backward.dontschedule {
            set.rules.reverse();
        }
        let (one, other) = (batch(&NODES, vec![policy], &samples, now), batch(&NODES, vec![backward], &samples, now));
        prop_assert_eq!(one.refused("p", at(now)), other.refused("p", at(now)));
    }

    #[test]
    fn raising_a_greater_than_target_never_adds_a_violation(
        target in 0i64..50, more in 0i64..50, clear in prop::option::of(0i64..50), samples in samples(), now in 0i64..600,
    ) {
        let samples = sorted_by_time(samples);
        let refused = |target: i64| {
            let mut rule = rule("power", Operator::GreaterThan, &target.to_string());
            if let Some(clear) = clear {
                rule.threshold = rule.threshold.with_clear(clear.into()).unwrap_or(rule.threshold);
            }
            batch(&NODES, vec![policy("p").dont_schedule(Combine::AnyOf, [rule])], &samples, now).refused("p", at(now))
        };
        // A clear value that only fits the higher target would compare two different conditions.
        prop_assume!(clear.is_none_or(|clear| clear <= target));
        let (low, high) = (refused(target), refused(target + more));
        prop_assert!(high.iter().all(|node| low.contains(node)), "{high:?} not within {low:?}");
    }

    #[test]
    fn same_inputs_give_the_same_bytes(policies in policies(), samples in samples(), now in 0i64..600) {
        let run = || {
            let scene = batch(&NODES, policies.clone(), &samples, now);
            format!("{:?} {:?} {:?}", everything(&scene.view), scene.memory, scene.wake)
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn waiting_never_makes_a_sample_fresh(policies in policies(), samples in samples(), now in 0i64..600, wait in 0i64..600) {
        let unknown = |scene: &Scene, now: i64| -> Vec<bool> {
            let tables = scene.view.tables.iter().flat_map(|t| t.placement.iter().chain(&t.deschedule));
            tables.flat_map(|verdicts| scene.view.nodes.all().map(|node| verdicts.row(node, at(now)).verdict == Verdict::Unknown).collect::<Vec<_>>()).collect()
        };
        let mut scene = batch(&NODES, policies, &samples, now);
        let before = unknown(&scene, now);
        let read_later = unknown(&scene, now + wait);
        scene.advance(at(now + wait));
        let judged_later = unknown(&scene, now + wait);
        for ((before, read), judged) in before.iter().zip(&read_later).zip(&judged_later) {
            prop_assert!(!before || *read);
            // A reader of an old view is never surer than one of a new view.
            prop_assert!(!judged || *read);
        }
    }

    #[test]
    fn nobody_needs_to_look_again_before_the_engine_says(policies in policies(), samples in samples(), now in 0i64..300, wait in 0i64..300) {
        let mut scene = batch(&NODES, policies, &samples, now);
        let before: Vec<_> = ["a", "b", "c"].map(|p| scene.refused(p, at(now))).to_vec();
        if scene.wake.is_none_or(|wake| at(now + wait) < wake) {
            scene.advance(at(now + wait));
            let later: Vec<_> = ["a", "b", "c"].map(|p| scene.refused(p, at(now + wait))).to_vec();
            prop_assert_eq!(before, later);
        }
    }

    #[test]
    fn a_verdict_flips_at_most_once_per_for(hold in 1i64..60, values in prop::collection::vec(20i64..40, 2..80), step in 1i64..20) {
        let mut rule = rule("power", Operator::GreaterThan, "30");
        rule.hold = Duration::from_secs(hold.unsigned_abs());
        let mut scene = Scene::new(&["n0"], [policy("p").dont_schedule(Combine::AnyOf, [rule])]);
        let (mut flips, mut verdict) = (Vec::new(), false);
        for (now, value) in (0..).step_by(usize::try_from(step).unwrap()).zip(values) {
            scene.sample("n0", "power", &value.to_string(), at(now));
            scene.advance(at(now));
            let says = !scene.refused("p", at(now)).is_empty();
            if says != verdict {
                verdict = says;
                flips.push(now);
            }
        }
        prop_assert!(flips.windows(2).all(|pair| pair[1] - pair[0] > hold), "{flips:?} with for {hold}");
        prop_assert!(flips.first().is_none_or(|first| *first >= hold));
    }

    #[test]
    fn folding_one_by_one_or_in_a_batch_gives_the_same(policies in policies(), samples in samples()) {
        let samples = sorted_by_time(samples);
        let mut one_by_one = Scene::new(&NODES, policies.clone());
        one_by_one.advance(at(300));
        for sample in &samples {
            fed(&mut one_by_one, std::slice::from_ref(sample));
            one_by_one.advance(at(300));
        }
        let at_once = batch(&NODES, policies, &samples, 300);
        prop_assert_eq!(&one_by_one.memory, &at_once.memory);
        prop_assert_eq!(everything(&one_by_one.view), everything(&at_once.view));
    }

    #[test]
    fn values_of_several_readings_come_to_the_same_one_by_one_at_once_or_twice(policies in policies(), samples in joined()) {
        let mut one_by_one = Scene::new(&NODES, policies.clone());
        one_by_one.advance(at(300));
        for sample in &samples {
            feed(&mut one_by_one, std::slice::from_ref(sample));
            one_by_one.advance(at(300));
        }
        let mut at_once = Scene::new(&NODES, policies);
        feed(&mut at_once, &samples);
        at_once.advance(at(300));
        prop_assert_eq!(&one_by_one.memory, &at_once.memory);
        prop_assert_eq!(everything(&one_by_one.view), everything(&at_once.view));
        let before = at_once.clone();
        feed(&mut at_once, &samples);
        at_once.advance(at(300));
        prop_assert_eq!(&before.memory, &at_once.memory);
        prop_assert_eq!(everything(&before.view), everything(&at_once.view));
    }

    #[test]
    fn the_last_word_counts_unless_there_was_a_newer_one(mut samples in joined(), turns in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let mut scene = Scene::new(&NODES, [policy("p").prefer(METRICS.map(|name| preference(name, Operator::LessThan)))]);
        for turn in turns {
            if let Some(from) = samples.len().checked_sub(1) {
                samples.swap(from, turn.index(from + 1));
            }
        }
        let mut kept = std::collections::BTreeMap::<_, Joined>::new();
        for sample in samples {
            feed(&mut scene, &[sample]);
            scene.advance(at(300));
            let cell = kept.entry((sample.0, sample.1)).or_insert(sample);
            if sample.3 >= cell.3 {
                *cell = sample;
            }
        }
        for ((node, metric), (.., value, newest, older)) in kept {
            let node = scene.view.nodes.find(NODES[node]).unwrap();
            let sample = scene.view.snapshot.column(METRICS[metric]).unwrap().get(node);
            prop_assert_eq!(sample, Some(Sample { value: value.into(), taken: at(newest - older), newest: at(newest) }));
        }
    }

    #[test]
    fn one_sensors_garbage_never_changes_another_nodes_verdict(
        policies in policies(), samples in samples(), garbage in prop::collection::vec((0..METRICS.len(), any::<i64>(), any::<i32>()), 1..20), now in 0i64..600,
    ) {
        let samples = sorted_by_time(samples);
        let clean = batch(&NODES, policies.clone(), &samples, now);
        let mut dirty = Scene::new(&NODES, policies);
        fed(&mut dirty, &samples);
        for (metric, value, taken) in garbage {
            dirty.sample("n0", METRICS[metric], &value.to_string(), at(i64::from(taken)));
        }
        dirty.advance(at(now));
        for p in ["a", "b", "c"] {
            let others = |scene: &Scene| scene.refused(p, at(now)).into_iter().filter(|n| n != "n0").collect::<Vec<_>>();
            prop_assert_eq!(others(&clean), others(&dirty));
        }
    }

    #[test]
    fn scores_stay_in_range_and_a_lost_sensor_never_helps(
        policy in any_policy("p"),
        values in prop::collection::vec((0..NODES.len(), 0..METRICS.len(), any::<i128>()), 0..30),
        placed in prop::collection::vec(0..NODES.len(), 0..40),
        top in 1u32..=100,
        lost in (0..NODES.len(), 0..METRICS.len()),
    ) {
        let scene = |skip: Option<(usize, usize)>| {
            let mut scene = Scene::new(&NODES, [policy.clone()]);
            for &(node, metric, nanos) in &values {
                if skip != Some((node, metric)) {
                    let value = engine::quantity::Quantity::from_nanos(nanos / 7);
                    scene.sample(NODES[node], METRICS[metric], &value.to_string(), at(0));
                }
            }
            for &node in &placed {
                scene.place(NODES[node], at(0));
            }
            scene.advance(at(1));
            scene
        };
        let asked: Vec<&str> = NODES.iter().copied().chain(["stranger"]).collect();
        let score = |scene: &Scene| scores(&scene.view, key("p"), &asked, top, at(1));
        if let (Some(all), Some(without)) = (score(&scene(None)), score(&scene(Some(lost)))) {
            prop_assert!(all.iter().all(|score| *score <= top));
            prop_assert_eq!(all[NODES.len()], 0, "a node nobody knows gets nothing");
            prop_assert!(without[lost.0] <= all[lost.0], "losing {:?} raised {:?} to {:?}", lost, all, without);
        }
    }

    #[test]
    fn an_unknown_node_never_beats_a_known_one(operator in operator(), values in prop::collection::vec(prop::option::of(any::<i64>()), 5)) {
        let mut scene = Scene::new(&NODES, [policy("p").prefer([preference("power", operator)])]);
        for (node, value) in NODES.iter().zip(&values) {
            if let Some(value) = value {
                scene.sample(node, "power", &value.to_string(), at(0));
            }
        }
        scene.advance(at(0));
        let scored: Vec<_> = scene.scores("p", at(0)).unwrap().into_iter().zip(&values).collect();
        let worst_known = scored.iter().filter(|(_, v)| v.is_some()).map(|(s, _)| *s).min().unwrap_or(u32::MAX);
        prop_assert!(scored.iter().filter(|(_, v)| v.is_none()).all(|(s, _)| *s <= worst_known));
    }

    #[test]
    fn what_is_asked_is_what_is_answered(policy in any_policy("p"), samples in samples(), asked in prop::collection::vec("[a-z0-9]{1,4}", 0..20)) {
        let scene = batch(&NODES, vec![policy], &samples, 300);
        let names: Vec<&str> = asked.iter().map(String::as_str).collect();
        let answer = answer(&scene.view, key("p"), &names, at(300));
        prop_assert_eq!(answer.rulings.len(), names.len());
        for (place, ruling) in answer.rulings.iter().enumerate() {
            prop_assert!(*ruling == Ruling::Pass || answer.reason(place).is_some(), "refused without a reason");
        }
    }
}

#[test]
fn memory_of_a_rule_outlives_edits_elsewhere_in_the_policy() {
    let mut held = rule("power", Operator::GreaterThan, "30");
    held.threshold = Threshold::new(Operator::GreaterThan, 30.into()).with_clear(25.into()).unwrap();
    let mut scene = Scene::new(&["n0"], [policy("p").dont_schedule(Combine::AnyOf, [held.clone()])]);
    scene.sample("n0", "power", "41", at(0));
    scene.advance(at(0));
    scene.sample("n0", "power", "28", at(10));
    scene.inputs.policies = vec![
        policy("p").dont_schedule(Combine::AnyOf, [rule("temp", Operator::GreaterThan, "90"), held]).into(),
    ];
    scene.advance(at(10));
    assert_eq!(scene.refused("p", at(10)), ["n0"]);
    let kept = std::mem::take(&mut scene.inputs.policies);
    scene.advance(at(11));
    scene.inputs.policies = kept;
    scene.advance(at(12));
    assert_eq!(
        scene.refused("p", at(12)),
        Vec::<String>::new(),
        "a rule that was gone starts without history"
    );
}
