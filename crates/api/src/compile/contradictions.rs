//! Rules of one set that say the same, that can never hold together, or of which one always holds.

use std::collections::BTreeMap;

use engine::names::MetricName;
use engine::policy::{Combine, Direction, Operator, Rule, Threshold};

use crate::path::FieldPath;
use crate::problem::{Code, Findings};

/// Reports at most one finding per rule, against the earliest rule that it clashes with.
///
/// Rules come with their places in the list, because rules with errors are not among them.
pub(super) fn report(rules: &[(usize, Rule)], combine: Combine, at: &FieldPath, findings: &mut Findings) {
    let mut by_metric: BTreeMap<&MetricName, Vec<&(usize, Rule)>> = BTreeMap::new();
    for placed in rules {
        let (place, rule) = placed;
        let same_metric = by_metric.entry(&rule.metric).or_default();
        let finding =
            same_metric.iter().find_map(|(at, earlier)| Some((at, earlier, clash(earlier, rule, combine)?)));
        if let Some((earlier_place, earlier, clash)) = finding {
            let (code, text) = clash.describe();
            findings.warn(
                &at.index(*place),
                code,
                format!(
                    "{} {:?} {} beside {:?} {} in rules[{earlier_place}]: {text}",
                    rule.metric,
                    rule.threshold.operator(),
                    rule.threshold.target(),
                    earlier.threshold.operator(),
                    earlier.threshold.target()
                ),
            );
        }
        // Of a thousand rules on one metric, each is compared with the first ones only.
        if same_metric.len() < 64 {
            same_metric.push(placed);
        }
    }
}

enum Clash {
    Same,
    LaterChangesNothing,
    EarlierChangesNothing,
    Always,
    Never,
}

impl Clash {
    fn describe(&self) -> (Code, &'static str) {
        match self {
            Self::Same => (Code::DuplicateRule, "the same rule twice; remove one"),
            Self::LaterChangesNothing => {
                (Code::RedundantRule, "the earlier rule decides in every case; remove this one")
            }
            Self::EarlierChangesNothing => {
                (Code::RedundantRule, "this rule decides in every case; remove the earlier one")
            }
            Self::Always => (
                Code::ContradictoryRules,
                "one of the two holds for every value, so every node violates; with allOf both would have to hold",
            ),
            Self::Never => (
                Code::ContradictoryRules,
                "no value satisfies both, so no node ever violates; with anyOf one would do",
            ),
        }
    }
}

fn clash(earlier: &Rule, later: &Rule, combine: Combine) -> Option<Clash> {
    let (a, b) = (&earlier.threshold, &later.threshold);
    if a == b && earlier.hold == later.hold {
        return Some(Clash::Same);
    }
    // With memory involved, two rules may well differ in when they hold.
    if earlier.remembers() || later.remembers() {
        return None;
    }
    match combine {
        Combine::AnyOf if covers(a, b) => Some(Clash::LaterChangesNothing),
        Combine::AnyOf if covers(b, a) => Some(Clash::EarlierChangesNothing),
        Combine::AnyOf if fill_the_line(a, b) => Some(Clash::Always),
        Combine::AllOf if disjoint(a, b) => Some(Clash::Never),
        Combine::AllOf if covers(b, a) => Some(Clash::LaterChangesNothing),
        Combine::AllOf if covers(a, b) => Some(Clash::EarlierChangesNothing),
        _ => None,
    }
}

/// Whether every value that satisfies `inner` satisfies `outer`.
fn covers(outer: &Threshold, inner: &Threshold) -> bool {
    match (outer.operator(), inner.operator()) {
        (_, Operator::Equals) => outer.enters(inner.target()),
        (Operator::NotEquals, Operator::NotEquals) => outer.target() == inner.target(),
        (Operator::NotEquals, _) => !inner.enters(outer.target()),
        (Operator::Equals, _) | (_, Operator::NotEquals) => false,
        (a, b) if a.direction() == b.direction() => match a.direction() {
            Some(Direction::HigherIsBetter) => {
                outer.target() < inner.target() || (outer.target() == inner.target() && at_edge(outer, inner))
            }
            _ => {
                outer.target() > inner.target() || (outer.target() == inner.target() && at_edge(outer, inner))
            }
        },
        _ => false,
    }
}

/// With equal targets: whether the outer one holds at the edge wherever the inner one does.
fn at_edge(outer: &Threshold, inner: &Threshold) -> bool {
    outer.enters(outer.target()) || !inner.enters(inner.target())
}

/// Whether every value satisfies one of the two.
fn fill_the_line(a: &Threshold, b: &Threshold) -> bool {
    if let Some((above, below)) = sides(a, b) {
        let edge = above.target();
        return edge < below.target()
            || (edge == below.target() && (above.enters(edge) || below.enters(edge)));
    }
    let all_but_a_point = |one: &Threshold, other: &Threshold| {
        one.operator() == Operator::NotEquals && other.enters(one.target())
    };
    all_but_a_point(a, b) || all_but_a_point(b, a)
}

/// Whether no value satisfies both.
fn disjoint(a: &Threshold, b: &Threshold) -> bool {
    if let Some((above, below)) = sides(a, b) {
        let edge = above.target();
        return edge > below.target()
            || (edge == below.target() && !(above.enters(edge) && below.enters(edge)));
    }
    let point_outside = |one: &Threshold, other: &Threshold| {
        one.operator() == Operator::Equals && !other.enters(one.target())
    };
    point_outside(a, b) || point_outside(b, a)
}

/// The two as "over this" and "under that", if they are such a pair.
fn sides<'t>(a: &'t Threshold, b: &'t Threshold) -> Option<(&'t Threshold, &'t Threshold)> {
    match (a.operator().direction()?, b.operator().direction()?) {
        (Direction::HigherIsBetter, Direction::LowerIsBetter) => Some((a, b)),
        (Direction::LowerIsBetter, Direction::HigherIsBetter) => Some((b, a)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use engine::policy::{Operator, Threshold};
    use engine::quantity::Quantity;
    use proptest::prelude::*;

    use super::{covers, disjoint, fill_the_line};

    fn threshold() -> impl Strategy<Value = Threshold> {
        use Operator::{Equals, GreaterOrEqual, GreaterThan, LessOrEqual, LessThan, NotEquals};
        let operators = [LessThan, LessOrEqual, Equals, NotEquals, GreaterOrEqual, GreaterThan];
        (prop::sample::select(operators.to_vec()), -3_i64..4)
            .prop_map(|(operator, target)| Threshold::new(operator, Quantity::from(target)))
    }

    /// Values on, between and beyond all targets there are.
    fn line() -> impl Iterator<Item = Quantity> {
        (-10_i128..=10).map(|half| Quantity::from_nanos(half * 500_000_000))
    }

    proptest! {
        #[test]
        fn the_comparisons_say_what_trying_every_value_says(a in threshold(), b in threshold()) {
            prop_assert_eq!(covers(&a, &b), line().all(|v| a.enters(v) || !b.enters(v)), "covers {:?} {:?}", a, b);
            prop_assert_eq!(disjoint(&a, &b), line().all(|v| !(a.enters(v) && b.enters(v))), "disjoint {:?} {:?}", a, b);
            prop_assert_eq!(fill_the_line(&a, &b), line().all(|v| a.enters(v) || b.enters(v)), "fill {:?} {:?}", a, b);
        }
    }
}
