use engine::fixtures::{at, key, metric, number, policy, rule};
use engine::names::NodeName;
use engine::policy::{Combine, Operator, Policy};
use engine::{Ruling, Sample, answer};

use super::*;
use crate::directory::NodeFacts;
use crate::mapping::{Gathered, Unmapped};
use crate::source::{Answered, MetricReading};
use crate::world::{Delta, ObjectKey, PolicyFacts};

const STEP: Duration = Duration::from_secs(5);

fn node(name: &str) -> NodeFacts {
    NodeFacts { name: NodeName::new(name).unwrap(), addresses: vec![] }
}

fn facts(policy: Policy) -> PolicyFacts {
    let key = ObjectKey::new(policy.name.namespace(), policy.name.name());
    PolicyFacts { key, generation: 1, policy: Some(Arc::new(policy)), problems: vec![], unreadable: None }
}

fn hot(name: &str, hold: Duration) -> PolicyFacts {
    let mut rule = rule("power", Operator::GreaterThan, "30");
    rule.hold = hold;
    facts(policy(name).dont_schedule(Combine::AnyOf, [rule]))
}

fn cluster(nodes: &[&str], policies: Vec<PolicyFacts>) -> State {
    let mut state = State::new(STEP);
    state.change(Change::Nodes(Delta::Replaced(nodes.iter().map(|name| node(name)).collect())));
    state.change(Change::Policies(Delta::Replaced(policies)));
    state.change(Change::Pods(Delta::Replaced(vec![])));
    state
}

/// A reading of `power` for the nodes of the ask.
fn answered(ask: &Ask, values: &[(&str, &str, Timestamp)]) -> Reading {
    let nodes = Arc::clone(ask.directory.nodes());
    let samples = values
        .iter()
        .map(|(name, value, taken)| (nodes.find(name).unwrap(), Sample::new(number(value), *taken)))
        .collect();
    let gathered = Gathered { samples, ..Gathered::default() };
    let outcome = Ok(Answered { by: "node_power".to_owned(), history: Duration::ZERO, gathered });
    Reading {
        at: ask.at,
        nodes,
        metrics: vec![MetricReading { metric: metric("power"), outcome }],
        warnings: vec![],
    }
}

fn failed(ask: &Ask, error: MetricError) -> Reading {
    let metrics = vec![MetricReading { metric: metric("power"), outcome: Err(error) }];
    Reading { at: ask.at, nodes: Arc::clone(ask.directory.nodes()), metrics, warnings: vec![] }
}

fn judge(state: &mut State, now: Timestamp) -> Arc<View> {
    let done = state.begin(now).run();
    state.finish(done, now)
}

fn refused(view: &View, name: &str, now: Timestamp) -> Vec<String> {
    let names: Vec<&str> = view.nodes.names().iter().map(NodeName::as_str).collect();
    let answer = answer(view, key(name), &names, now);
    let pairs = answer.rulings.iter().zip(&names);
    pairs
        .filter(|(ruling, _)| matches!(ruling, Ruling::Refused(_)))
        .map(|(_, name)| (*name).to_owned())
        .collect()
}

#[test]
fn samples_that_come_in_become_verdicts() {
    let mut state = cluster(&["a", "b"], vec![hot("p", Duration::ZERO)]);
    let ask = state.ask(at(3)).unwrap();
    assert_eq!((ask.at, ask.wants.len(), ask.wants[0].history), (at(0), 1, Duration::ZERO));
    state.reading(answered(&ask, &[("a", "31", at(-2)), ("b", "29", at(-1))]), STEP);
    assert!(state.is_dirty());
    let view = judge(&mut state, at(3));
    assert_eq!(refused(&view, "p", at(3)), ["a"]);
    // At the moment the sample is too old, even if nothing comes in.
    assert_eq!(state.wake(), Some(at(178).after(Duration::from_millis(1))));
    assert!(!state.is_dirty());
    state.expired();
    assert!(state.is_dirty() && state.wake().is_none());
}

#[test]
fn metrics_are_read_once_per_moment_and_at_once_when_they_are_new() {
    let mut state = cluster(&["a"], vec![hot("p", Duration::ZERO)]);
    assert!(state.ask(at(3)).is_some());
    assert!(state.ask(at(4)).is_none());
    state.moment_came(false);
    assert_eq!(state.ask(at(6)).unwrap().at, at(5));

    let other = facts(policy("q").dont_schedule(Combine::AnyOf, [rule("heat", Operator::GreaterThan, "1")]));
    state.change(Change::Policies(Delta::Applied(other)));
    assert_eq!(state.ask(at(7)).unwrap().wants.len(), 2);
    // An edit that names the same metrics waits for the next moment.
    let lower = facts(policy("q").dont_schedule(Combine::AnyOf, [rule("heat", Operator::GreaterThan, "0")]));
    state.change(Change::Policies(Delta::Applied(lower)));
    assert!(state.ask(at(7)).is_none());
}

#[test]
fn an_edit_that_begins_to_remember_looks_back_and_counts_what_was_there_before_it() {
    let mut state = cluster(&["a"], vec![hot("p", Duration::ZERO)]);
    let ask = state.ask(at(0)).unwrap();
    state.reading(answered(&ask, &[("a", "31", at(0))]), STEP);
    assert_eq!(refused(&judge(&mut state, at(0)), "p", at(0)), ["a"]);

    state.change(Change::Policies(Delta::Applied(hot("p", Duration::from_mins(2)))));
    let ask = state.ask(at(1)).unwrap();
    assert_eq!(ask.wants[0].history, Duration::from_mins(5));
    // Judged before the past is there, it has not held long enough; with it, it has.
    assert_eq!(refused(&judge(&mut state, at(1)), "p", at(1)), [""; 0]);
    let past: Vec<_> = (0..=12).map(|n| ("a", "31", at(n * 10 - 120))).collect();
    state.reading(answered(&ask, &past), STEP);
    assert_eq!(refused(&judge(&mut state, at(1)), "p", at(1)), ["a"]);

    state.moment_came(false);
    assert_eq!(state.ask(at(5)).unwrap().wants[0].history, Duration::ZERO, "and not again");
}

#[test]
fn a_reading_that_was_under_way_during_such_an_edit_does_not_pass_for_the_look_back() {
    let mut state = cluster(&["a"], vec![hot("p", Duration::ZERO)]);
    let before = state.ask(at(0)).unwrap();
    state.change(Change::Policies(Delta::Applied(hot("p", Duration::from_mins(2)))));
    state.reading(answered(&before, &[("a", "31", at(0))]), STEP);
    assert_eq!(state.ask(at(1)).unwrap().wants[0].history, Duration::from_mins(5));
}

#[test]
fn metrics_past_the_limit_are_named() {
    let wanted = 0..=crate::demand::MAX_WANTED;
    let rules: Vec<_> = wanted.map(|n| rule(&format!("m{n:04}"), Operator::Equals, "1")).collect();
    let mut state = cluster(&["a"], vec![facts(policy("p").dont_schedule(Combine::AnyOf, rules))]);
    assert!(state.ask(at(0)).is_some());
    assert_eq!(state.take_health().unwrap().left_out, [metric("m1000")]);
}

#[test]
fn nothing_is_read_before_nodes_and_policies_are_listed() {
    let mut state = State::new(STEP);
    assert!(state.ask(at(0)).is_none());
    state.change(Change::Policies(Delta::Replaced(vec![hot("p", Duration::ZERO)])));
    assert!(state.ask(at(0)).is_none());
    state.change(Change::Nodes(Delta::Replaced(vec![])));
    assert!(state.ask(at(0)).is_some());
}

#[test]
fn the_past_is_folded_at_the_start_and_after_an_outage_but_not_in_between() {
    let hold = Duration::from_mins(2);
    let mut state = cluster(&["a"], vec![hot("p", hold)]);
    let histories = |state: &mut State, now| {
        state.moment_came(false);
        let ask = state.ask(now).unwrap();
        (ask.wants[0].history.as_secs(), ask)
    };
    let (history, ask) = histories(&mut state, at(0));
    assert_eq!(history, 300);
    let past: Vec<_> = (0..=12).map(|n| ("a", "31", at(n * 10 - 120))).collect();
    state.reading(answered(&ask, &past), STEP);
    assert_eq!(refused(&judge(&mut state, at(0)), "p", at(0)), ["a"]);

    let (history, ask) = histories(&mut state, at(5));
    assert_eq!(history, 0);
    state.reading(failed(&ask, SourceError::Late { seconds: 10 }.into()), STEP);
    assert_eq!(histories(&mut state, at(60)).0, 60);
}

#[test]
fn a_source_that_is_down_leaves_the_last_samples_and_says_so() {
    let mut state = cluster(&["a"], vec![hot("p", Duration::ZERO)]);
    let ask = state.ask(at(0)).unwrap();
    state.reading(answered(&ask, &[("a", "31", at(0))]), STEP);
    judge(&mut state, at(0));
    let down = MetricError::from(SourceError::Late { seconds: 10 });
    state.reading(failed(&ask, down.clone()), STEP);
    state.reading(failed(&ask, down), STEP);
    assert!(!state.is_dirty());
    let health = state.take_health().unwrap();
    assert_eq!(
        (health.reading.failures_in_a_row, health.reading.error.as_deref(), health.reading.last_success),
        (2, Some("no answer within 10 s"), Some(at(0)))
    );
    let power = &health.metrics[&metric("power")];
    assert_eq!(
        (power.answered_by.as_deref(), power.error.as_deref()),
        (Some("node_power"), Some("no answer within 10 s"))
    );
    assert_eq!(health.unready(), [""; 0]);
    assert_eq!(state.take_health(), None);
}

#[test]
fn readiness_names_what_is_missing_and_does_not_wait_for_prometheus() {
    let mut state = State::new(STEP);
    state.change(Change::Trouble(Watched::Policies, Some("the definition is missing".to_owned())));
    assert_eq!(
        state.take_health().unwrap().unready(),
        [
            "nodes: not listed yet",
            "policies: the definition is missing",
            "pods: not listed yet",
            "metrics: no reading attempted yet",
            "view: none published yet"
        ]
    );
    let mut state = cluster(&["a"], vec![hot("p", Duration::ZERO)]);
    let ask = state.ask(at(0)).unwrap();
    state.reading(failed(&ask, SourceError::Broken.into()), STEP);
    judge(&mut state, at(0));
    assert_eq!(state.take_health().unwrap().unready(), [""; 0]);

    // A view from before the first reading would let pods pass that its samples refuse.
    let mut state = cluster(&["a"], vec![hot("p", Duration::ZERO)]);
    let ask = state.ask(at(0)).unwrap();
    judge(&mut state, at(0));
    assert_eq!(state.take_health().unwrap().unready(), ["metrics: no reading attempted yet"]);
    state.reading(answered(&ask, &[("a", "31", at(0))]), STEP);
    assert_eq!(state.take_health().unwrap().unready(), ["view: the first reading is being judged"]);
    assert_eq!(refused(&judge(&mut state, at(0)), "p", at(0)), ["a"]);
    assert_eq!(state.take_health().unwrap().unready(), [""; 0]);

    // And with no policy there is nothing to read.
    let mut state = cluster(&["a"], vec![]);
    assert!(state.ask(at(0)).is_none());
    judge(&mut state, at(0));
    assert_eq!(state.take_health().unwrap().unready(), [""; 0]);
}

#[test]
fn nodes_that_come_and_go_during_a_reading_do_not_mix_its_samples_up() {
    let mut state = cluster(&["b", "c"], vec![hot("p", Duration::ZERO)]);
    let ask = state.ask(at(0)).unwrap();
    state.change(Change::Nodes(Delta::Replaced(vec![node("a"), node("c")])));
    state.reading(answered(&ask, &[("b", "31", at(0)), ("c", "31", at(0))]), STEP);
    assert_eq!(refused(&judge(&mut state, at(0)), "p", at(0)), ["c"]);
}

#[test]
fn what_a_metric_met_on_its_way_is_told() {
    let mut state = cluster(&["a"], vec![hot("p", Duration::ZERO)]);
    let ask = state.ask(at(0)).unwrap();
    let mut reading = answered(&ask, &[("a", "31", at(-3))]);
    let unmapped = Unmapped { count: 7, shown: vec!["power{}".to_owned()] };
    if let Ok(answered) = &mut reading.metrics[0].outcome {
        answered.gathered.age = AgeKnown::No;
        answered.gathered.unmapped = unmapped.clone();
        answered.gathered.refused.not_finite = 2;
    }
    state.reading(reading.clone(), STEP);
    state.reading(reading, STEP);
    judge(&mut state, at(0));
    let health = state.take_health().unwrap();
    assert_eq!(
        health.summary(at(7)),
        "1 nodes, 1 policies, 1 metrics; metrics read 7 s ago, oldest sample taken 10 s ago, view made 7 s ago"
    );
    let power = &health.metrics[&metric("power")];
    assert_eq!((power.age, power.refused.not_finite), (AgeKnown::No, 4));
    assert_eq!(power.extent.map(|extent| (extent.nodes, extent.newest)), Some((1, at(-3))));
    assert_eq!(power.unmapped.count, 7);
}

#[test]
fn objects_that_were_left_out_are_counted_and_the_last_are_named() {
    let mut state = State::new(STEP);
    for n in 0..20 {
        state.change(Change::Skipped(Watched::Policies, format!("default/p{n}: no map")));
    }
    let health = state.take_health().unwrap();
    let policies = &health.watches[&Watched::Policies];
    assert_eq!((policies.skipped, policies.skipped_lately.len()), (20, NAMED_SKIPPED));
    assert_eq!(policies.skipped_lately.last().map(String::as_str), Some("default/p19: no map"));
}

#[test]
fn judging_that_breaks_off_costs_the_memory_and_nothing_else() {
    let mut state = cluster(&["a"], vec![hot("p", Duration::from_mins(1))]);
    let ask = state.ask(at(0)).unwrap();
    state.reading(answered(&ask, &[("a", "31", at(0))]), STEP);
    let view = judge(&mut state, at(0));
    drop(state.begin(at(1)));
    state.broke_off();
    state.moment_came(false);
    assert_eq!(state.ask(at(5)).unwrap().wants[0].history, Duration::from_mins(4));
    assert_eq!(state.take_health().unwrap().judging.panics, 1);
    assert_eq!(state.view, view);
}
