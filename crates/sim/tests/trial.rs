//! Whole trials: what a policy does to a cluster, from the first second to the last.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use engine::fixtures::{number, policy, preference, rule};
use engine::plan::Act;
use engine::policy::{Combine, Load, Mark, Mode, OnMissing, Operator, Policy, TaintEffect};
use proptest::prelude::*;
use sim::{Ask, Candidate, Cluster, InFlight, Machine, Pod, Scenario, Trial, What, by_engine, chapter_s};

const POWER: &str = "collectd_package_0_power_power";

/// Don't schedule over 30 W, leave over 30 W, prefer the cooler node; samples last a minute.
fn power_policy() -> Policy {
    let load = Load { per_pod: Some(number("3")), settle: Duration::from_secs(15) };
    let mut refuse = rule(POWER, Operator::GreaterThan, "30");
    let mut leave = refuse.clone();
    let mut prefer = preference(POWER, Operator::LessThan);
    (refuse.load, prefer.load) = (load, load);
    for age in [&mut refuse.max_age, &mut leave.max_age, &mut prefer.max_age] {
        *age = Duration::from_mins(1);
    }
    let mut policy = policy("power-policy")
        .dont_schedule(Combine::AnyOf, [refuse])
        .deschedule(Combine::AnyOf, [leave])
        .prefer([prefer]);
    policy.on_missing = OnMissing::Deny;
    policy
}

fn played(scenario: Scenario, policy: Policy) -> Trial {
    let mut trial = Trial::new(scenario, policy);
    while !trial.is_over() {
        trial.step(by_engine).unwrap();
    }
    trial
}

/// Everything that happened on the policy's side, second by second.
fn chronicle(seed: u64, policy: &Policy) -> Vec<String> {
    let mut trial = Trial::new(Scenario::story(seed, policy, 8, chapter_s(policy)), policy.clone());
    let mut lines = Vec::new();
    while !trial.is_over() {
        trial.step(by_engine).unwrap();
        lines.extend(trial.with().news().iter().map(|news| format!("{news:?}")));
    }
    lines
}

#[test]
fn a_seed_always_tells_the_same_story() {
    assert_eq!(chronicle(7, &power_policy()), chronicle(7, &power_policy()));
    assert_ne!(chronicle(7, &power_policy()), chronicle(8, &power_policy()));
}

#[test]
fn the_policy_keeps_nodes_under_the_line_for_any_of_forty_seeds() {
    for seed in 0..40 {
        let policy = power_policy();
        let trial = played(Scenario::story(seed, &policy, 8, 120), policy);
        let (with, without) = (trial.with().tally(), trial.without().tally());
        assert!(
            with.node_seconds_over * 5 <= without.node_seconds_over,
            "seed {seed}: {with:?} against {without:?}"
        );
    }
}

#[test]
fn the_story_has_its_turns_and_each_says_why() {
    let policy = power_policy();
    let mut trial = Trial::new(Scenario::story(1, &policy, 8, chapter_s(&policy)), policy);
    let mut turns: Vec<String> = Vec::new();
    let mut reasons: Vec<String> = Vec::new();
    while !trial.is_over() {
        trial.step(by_engine).unwrap();
        for news in trial.with().news() {
            let at_s = news.at_s;
            match &news.what {
                What::Heats { .. } => turns.push(format!("{at_s} heats")),
                What::Cools { .. } => turns.push(format!("{at_s} cools")),
                What::SensorDies { .. } => turns.push(format!("{at_s} sensor dies")),
                What::SensorSpeaks { .. } => turns.push(format!("{at_s} sensor speaks")),
                What::BecomesUnknown { reason, .. } => turns.push(format!("{at_s} {}", reason.numbers())),
                What::PassesAgain { .. } => turns.push(format!("{at_s} passes")),
                What::Marked { deed, .. } => turns.push(format!("{at_s} mark {}", deed.act.as_str())),
                What::Decided(decision) => {
                    let why = decision.refused.iter().flat_map(|(_, reason)| reason);
                    reasons.extend(why.map(|reason| reason.numbers().to_string()));
                }
                What::Moved { reason, .. } => assert!(reason.is_some()),
            }
        }
    }
    assert_eq!(
        turns,
        [
            "30 heats",
            "52 mark added",
            "60 sensor dies",
            // What nobody knows changes no mark.
            "118 unknown, 61 s old",
            "132 cools",
            "144 sensor speaks",
            "144 passes",
            "144 mark removed"
        ]
    );
    assert!(reasons.iter().any(|reason| reason.ends_with("W over 30")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.starts_with("expected")), "{reasons:?}");
    assert!(reasons.iter().any(|reason| reason.starts_with("unknown, ")), "{reasons:?}");
}

#[test]
fn pods_leave_the_nodes_that_the_plan_has_marked_and_no_others() {
    let policy = power_policy();
    for marks in [vec![Mark::Label], vec![Mark::Taint(TaintEffect::NoSchedule)], vec![]] {
        let policy = policy.clone().marking(marks.clone());
        let mut trial = Trial::new(Scenario::story(1, &policy, 8, 120), policy);
        let (mut marked, mut moved) = (BTreeSet::new(), 0);
        while !trial.is_over() {
            trial.step(by_engine).unwrap();
            for news in trial.with().news() {
                match &news.what {
                    What::Marked { machine, deed } if deed.act == Act::Added => {
                        assert!(marked.insert(*machine));
                    }
                    What::Marked { machine, .. } => assert!(marked.remove(machine)),
                    What::Moved { from, .. } => {
                        assert!(marked.contains(from), "{from} at {}", news.at_s);
                        moved += 1;
                    }
                    _ => {}
                }
            }
            let flags = trial.with().readings().into_iter().map(|reading| reading.marked);
            let shown: BTreeSet<usize> =
                flags.enumerate().filter(|(_, marked)| *marked).map(|(machine, _)| machine).collect();
            assert_eq!(shown, marked);
            assert!(trial.without().readings().iter().all(|reading| !reading.marked));
        }
        assert_eq!(moved > 0, !marks.is_empty(), "{marks:?}");
    }
}

#[test]
fn pods_leave_a_node_only_if_the_policy_says_so() {
    let mut staying = power_policy();
    staying.deschedule = None;
    for (policy, moves) in [(power_policy(), true), (staying, false)] {
        let trial = played(Scenario::story(3, &policy, 8, 120), policy);
        assert_eq!(trial.with().tally().pods_moved > 0, moves);
        assert_eq!(trial.without().tally().pods_moved, 0);
    }
}

#[test]
fn a_policy_in_shadow_changes_nothing() {
    let mut shadow = power_policy();
    shadow.mode = Mode::Shadow;
    let trial = played(Scenario::story(3, &shadow, 8, 120), shadow);
    assert_eq!(trial.with().tally(), trial.without().tally());
    assert_eq!(trial.with().pods_per_machine(), trial.without().pods_per_machine());
}

#[test]
fn policies_on_other_metrics_find_something_to_refuse() {
    for (metric, operator, target) in [
        ("node_hwmon_temp_celsius", Operator::GreaterThan, "85"),
        ("node_memory_MemAvailable_bytes", Operator::LessThan, "64Gi"),
        ("node_pressure", Operator::GreaterOrEqual, "0.5"),
        ("health_metric", Operator::Equals, "2"),
    ] {
        let policy = policy("own").dont_schedule(Combine::AnyOf, [rule(metric, operator, target)]);
        let length_s = chapter_s(&policy);
        let trial = played(Scenario::story(3, &policy, 8, length_s), policy);
        assert!(trial.without().tally().node_seconds_over > 0, "{metric}");
        assert!(trial.with().tally().refusals > 0, "{metric}");
    }
}

#[test]
fn a_policy_that_says_nothing_places_as_the_default_scheduler_does() {
    let trial = played(Scenario::story(3, &policy("empty"), 8, 120), policy("empty"));
    assert_eq!(trial.with().pods_per_machine(), trial.without().pods_per_machine());
}

#[test]
fn an_answer_that_cannot_be_had_ends_the_trial() {
    let policy = power_policy();
    let mut trial = Trial::new(Scenario::story(1, &policy, 8, 120), policy);
    let refused = |_: &Ask<'_>| Err("connection refused");
    let mut ended = Ok(());
    while ended.is_ok() && !trial.is_over() {
        ended = trial.step(refused);
    }
    assert_eq!(ended, Err("connection refused"));
}

#[test]
fn an_answer_about_nodes_nobody_asked_for_places_no_pod() {
    let policy = power_policy();
    let mut trial = Trial::new(Scenario::story(1, &policy, 8, 60), policy);
    while !trial.is_over() {
        let astray =
            |ask: &Ask<'_>| Ok::<_, Infallible>(vec![Candidate { place: ask.nodes.len(), score: 10 }]);
        trial.step(astray).unwrap();
    }
    assert_eq!(trial.with().tally().pods_placed, 0);
    assert!(trial.with().waiting() > 0);
}

/// Fifty equal pods at once onto ten equal nodes whose metric shows them a minute later.
fn burst(in_flight: InFlight) -> Scenario {
    let machine =
        |n: u32| Machine { name: format!("node-{n:02}"), idle_mw: 10_000, cpu_m: 64_000, memory_mi: 262_144 };
    let pod = Pod {
        arrives_s: 5,
        runs_s: 600,
        draw_mw: 2_000,
        memory_mw: 2_000,
        cpu_request_m: 500,
        memory_request_mi: 1_024,
    };
    Scenario {
        seed: 1,
        length_s: 30,
        lag_s: 60,
        in_flight,
        machines: (1..=10).map(machine).collect(),
        pods: vec![pod; 50],
        incidents: Vec::new(),
    }
}

/// The fullest node against the mean, in thousandths.
fn crowding(cluster: &Cluster) -> usize {
    let pods = cluster.pods_per_machine();
    let (most, all) = (pods.iter().max().copied().unwrap_or(0), pods.iter().sum::<usize>());
    most * 1000 * pods.len() / all
}

#[test]
fn a_burst_spreads_because_pods_on_their_way_count() {
    let mut with_per_pod = preference(POWER, Operator::LessThan);
    with_per_pod.load.per_pod = Some(number("2"));
    for wish in [preference(POWER, Operator::LessThan), with_per_pod] {
        let policy = policy("p").prefer([wish]);
        let told = played(burst(InFlight::Told), policy.clone());
        assert!(crowding(told.with()) <= 1500, "{:?}", told.with().pods_per_machine());
        let withheld = played(burst(InFlight::Withheld), policy);
        assert!(crowding(withheld.with()) > 1500, "{:?}", withheld.with().pods_per_machine());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_pod_is_lost_whatever_the_seed_and_size(seed: u64, nodes in 1_u32..24, length_s in 1_u32..90) {
        let policy = power_policy();
        let scenario = Scenario::story(seed, &policy, nodes, length_s);
        let arrived = scenario.pods.len();
        let trial = played(scenario, policy);
        for cluster in [trial.with(), trial.without()] {
            prop_assert_eq!(cluster.tally().pods_placed as usize + cluster.waiting(), arrived);
            prop_assert!(cluster.tally().node_seconds_over <= nodes * length_s);
            prop_assert_eq!(cluster.readings().len(), nodes as usize);
        }
        prop_assert_eq!(trial.without().tally().refusals, 0);
    }
}
