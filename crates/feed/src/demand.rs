//! Which metrics are wanted, how far back, and when: only what policies name, at moments all replicas share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::names::MetricName;
use engine::policy::{Policy, Threshold};
use engine::time::Timestamp;

use crate::source::Want;

/// Most metrics that are read; of more, the first by name.
pub const MAX_WANTED: usize = 1000;
/// Furthest look back of a starting replica.
pub const MAX_HISTORY: Duration = Duration::from_hours(1);

/// What to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// In the order of their names.
    pub wants: Vec<Want>,
    /// What is not read because it is too much.
    pub left_out: Vec<MetricName>,
}

/// What to read for `at`. `read` says for which moment each metric was last read with success.
pub fn wants<'a>(
    policies: &'a [Arc<Policy>],
    extra: &'a [MetricName],
    read: &BTreeMap<MetricName, Timestamp>,
    at: Timestamp,
    step: Duration,
) -> Demand {
    let mut memory: BTreeMap<&MetricName, Duration> = BTreeMap::new();
    let named = policies.iter().flat_map(|policy| policy.metrics()).chain(extra);
    memory.extend(named.map(|metric| (metric, Duration::ZERO)));
    for rule in policies.iter().flat_map(|policy| policy.rules()).filter(|rule| rule.remembers()) {
        let reach = memory.entry(&rule.metric).or_default();
        *reach = (*reach).max(rule.hold + rule.max_age).min(MAX_HISTORY);
    }
    let left_out = memory.keys().skip(MAX_WANTED).map(|metric| (*metric).clone()).collect();
    let want = |(metric, reach): (&MetricName, Duration)| {
        let history = match read.get(metric) {
            None => reach,
            // Samples that were missed count for `for` and `clear` all the same.
            Some(&last) if at.since(last) > step * 2 => reach.min(at.since(last)),
            Some(_) => Duration::ZERO,
        };
        Want { metric: metric.clone(), history }
    };
    Demand { wants: memory.into_iter().take(MAX_WANTED).map(want).collect(), left_out }
}

/// Conditions whose verdict depends on more than the newest sample: metric, threshold, `for` and `maxAge`.
pub type Remembering = BTreeSet<(MetricName, Threshold, Duration, Duration)>;

/// All such conditions of these policies.
pub fn remembering(policies: &[Arc<Policy>]) -> Remembering {
    let rules = policies.iter().flat_map(|policy| policy.rules()).filter(|rule| rule.remembers());
    rules.map(|rule| (rule.metric.clone(), rule.threshold, rule.hold, rule.max_age)).collect()
}

/// The newest moment that every replica reads for.
pub fn aligned(now: Timestamp, step: Duration) -> Timestamp {
    let step = i64::try_from(step.as_millis()).unwrap_or(i64::MAX).max(1);
    Timestamp::from_millis(now.millis().div_euclid(step).saturating_mul(step))
}

#[cfg(test)]
mod tests {
    use engine::fixtures::{at, metric, policy, preference, rule};
    use engine::policy::{Combine, Operator};
    use proptest::prelude::*;

    use super::*;

    const STEP: Duration = Duration::from_secs(5);

    fn holding(name: &str, hold: Duration) -> Policy {
        let mut rule = rule(name, Operator::GreaterThan, "30");
        rule.hold = hold;
        policy("p").dont_schedule(Combine::AnyOf, [rule])
    }

    fn asked(policies: &[Policy], read: &[(&str, Timestamp)]) -> Vec<(String, u64)> {
        let policies: Vec<_> = policies.iter().cloned().map(Arc::new).collect();
        let read = read.iter().map(|(name, at)| (metric(name), *at)).collect();
        let demand = wants(&policies, &[metric("extra")], &read, at(0), STEP);
        demand.wants.into_iter().map(|want| (want.metric.to_string(), want.history.as_secs())).collect()
    }

    #[test]
    fn each_metric_is_wanted_once_and_looked_back_for_as_long_as_its_rules_remember() {
        let minutes = Duration::from_mins;
        let policies = [
            holding("power", minutes(5)),
            holding("power", minutes(2)),
            holding("heat", Duration::ZERO),
            holding("slow", minutes(600)),
            policy("q").prefer([preference("power", Operator::LessThan)]),
        ];
        let want = |name: &str, secs| (name.to_owned(), secs);
        assert_eq!(
            asked(&policies, &[]),
            [want("extra", 0), want("heat", 0), want("power", 480), want("slow", 3600)]
        );
        assert_eq!(
            asked(&policies, &[("power", at(-5)), ("slow", at(-300))]),
            [want("extra", 0), want("heat", 0), want("power", 0), want("slow", 300)]
        );
    }

    #[test]
    fn there_is_an_end_to_what_policies_can_ask_for() {
        let rules: Vec<_> =
            (0..MAX_WANTED + 5).map(|n| rule(&format!("m{n}"), Operator::Equals, "1")).collect();
        let policies = [Arc::new(policy("p").dont_schedule(Combine::AnyOf, rules))];
        let demand = wants(&policies, &[], &BTreeMap::new(), at(0), STEP);
        assert_eq!(demand.wants.len(), MAX_WANTED);
        assert_eq!(demand.left_out, ["m995", "m996", "m997", "m998", "m999"].map(metric));
    }

    proptest! {
        #[test]
        fn replicas_agree_on_the_moment(now in -1_000_000_i64..1_000_000, step in 1_u64..100_000) {
            let moment = aligned(Timestamp::from_millis(now), Duration::from_millis(step));
            let step = i64::try_from(step).unwrap();
            prop_assert!(moment.millis() <= now && now - moment.millis() < step && moment.millis() % step == 0);
        }
    }
}
