//! The four strategies, each from its rules to its engine form.

use std::num::NonZeroU32;
use std::time::Duration;

use engine::policy::{
    Combine, Deschedule, Direction, LabelRule, Labeling, MAX_PREFERENCES, Mark, Preference, Rule, RuleSet,
    TaintEffect,
};

use super::{MAX_LABEL_NAME, contradictions, labels, rule};
use crate::path::FieldPath;
use crate::policy::{MAX_RULES, MAX_WEIGHT, PolicyRule, Strategy};
use crate::problem::{Code, Findings, shortened};

/// From so many rules on, somebody should ask whether they are meant.
const MANY_RULES: usize = 100;

/// The effects of a taint.
const EFFECTS: [TaintEffect; 2] = [TaintEffect::PreferNoSchedule, TaintEffect::NoSchedule];

/// What a strategy needs to know of its policy.
pub(super) struct Context<'a> {
    pub(super) policy_name: &'a str,
    pub(super) max_age: Duration,
    pub(super) settle: Duration,
}

/// The strategies that were there and hold something.
#[derive(Default)]
pub(super) struct Strategies {
    pub(super) dontschedule: Option<RuleSet>,
    pub(super) scheduleonmetric: Box<[Preference]>,
    pub(super) deschedule: Option<Deschedule>,
    pub(super) labeling: Option<Labeling>,
}

impl Context<'_> {
    pub(super) fn dontschedule(
        &self,
        strategy: &Strategy,
        at: &FieldPath,
        findings: &mut Findings,
    ) -> Option<RuleSet> {
        misplaced_action(strategy, at, findings);
        self.rule_set(strategy, at, findings)
    }

    pub(super) fn deschedule(
        &self,
        strategy: &Strategy,
        at: &FieldPath,
        findings: &mut Findings,
    ) -> Option<Deschedule> {
        let marks = self.marks(strategy, at, findings);
        Some(Deschedule { when: self.rule_set(strategy, at, findings)?, marks })
    }

    pub(super) fn labeling(
        &self,
        strategy: &Strategy,
        at: &FieldPath,
        findings: &mut Findings,
    ) -> Option<Labeling> {
        misplaced_action(strategy, at, findings);
        let combine = self.combine(strategy, at, findings);
        let writable = labels::prefix_fits(self.policy_name, at, findings);
        let at = at.key("rules");
        let mut compiled = Vec::with_capacity(strategy.rules.len());
        for (place, written) in rules(strategy, &at, findings) {
            let at = at.index(place);
            let rule = self.violation(written, &at, findings);
            let mut kept = labels::labels(&written.labels, self.policy_name, &at.key("labels"), findings);
            if written.labels.is_empty() && combine == Some(Combine::AnyOf) {
                findings.warn(
                    &at,
                    Code::RuleWithoutLabels,
                    "the rule has no labels, so it changes nothing; give it labels like [\"card0=true\"]",
                );
            }
            if !writable {
                kept = Box::default();
            }
            if let Some(rule) = rule {
                compiled.push((place, LabelRule { rule, labels: kept }));
            }
        }
        labels::mixed_operators(&compiled, &at, findings);
        let rules: Box<[LabelRule]> = compiled.into_iter().map(|(_, rule)| rule).collect();
        Some(Labeling { combine: combine?, rules }).filter(|labeling| !labeling.rules.is_empty())
    }

    pub(super) fn scheduleonmetric(
        &self,
        strategy: &Strategy,
        at: &FieldPath,
        findings: &mut Findings,
    ) -> Box<[Preference]> {
        misplaced_action(strategy, at, findings);
        self.combine(strategy, at, findings);
        if strategy.logical_operator.as_deref().is_some_and(|text| !text.is_empty()) {
            findings.warn(
                &at.key("logicalOperator"),
                Code::IgnoredField,
                "logicalOperator is ignored under scheduleonmetric, where rules are weighed and not combined; remove it",
            );
        }
        let at = at.key("rules");
        let mut preferences: Vec<(usize, Preference)> = Vec::new();
        for (place, written) in rules(strategy, &at, findings) {
            let at = at.index(place);
            if place > 0 && written.weight.is_none() {
                findings.warn(
                    &at,
                    Code::IgnoredRule,
                    format!("only the first rule counts unless further ones have a weight, so {} is ignored; give this rule a weight (the first counts 1), or remove it", shortened(&written.metricname)),
                );
            }
            let preference = self.preference(written, &at, findings);
            let Some(preference) = preference.filter(|_| place == 0 || written.weight.is_some()) else {
                continue;
            };
            if let Some((earlier, _)) =
                preferences.iter().find(|(_, other)| other.metric == preference.metric)
            {
                findings.warn(
                    &at,
                    Code::DuplicateRule,
                    format!(
                        "{} is weighed in rules[{earlier}] already; give one rule the sum of the weights",
                        preference.metric
                    ),
                );
            }
            preferences.push((place, preference));
        }
        if preferences.len() > MAX_PREFERENCES {
            findings.error(
                &at,
                Code::TooMany,
                format!("{} weighed rules are too many; {MAX_PREFERENCES} fit", preferences.len()),
            );
        }
        preferences.into_iter().map(|(_, preference)| preference).collect()
    }

    fn preference(
        &self,
        written: &PolicyRule,
        at: &FieldPath,
        findings: &mut Findings,
    ) -> Option<Preference> {
        let metric = rule::metric(written, at, findings);
        let operator = rule::operator(written, at, findings);
        if let Some(operator) = operator.filter(|operator| operator.direction().is_none()) {
            findings.warn(
                &at.key("operator"),
                Code::OrdersNothing,
                format!("{operator:?} makes no node better than another; write GreaterThan if more of {} is better, LessThan if less is", shortened(&written.metricname)),
            );
        }
        if let Some(target) = &written.target {
            findings.warn(
                &at.key("target"),
                Code::IgnoredField,
                format!("target {} is ignored under scheduleonmetric, where nodes are compared with each other; remove it", shortened(&target.to_string())),
            );
        }
        ignored_labels(written, at, findings);
        for (name, present) in [("clear", written.clear.is_some()), ("for", written.hold.is_some())] {
            if present {
                findings.error(
                    &at.key(name),
                    Code::MisplacedField,
                    format!("{name} has no meaning under scheduleonmetric, where no rule is a violation; remove it"),
                );
            }
        }
        let weight = weight(written, at, findings);
        let normalize = written
            .normalize
            .as_ref()
            .map(|normalize| rule::normalize(normalize, &at.key("normalize"), findings));
        let max_age = rule::max_age(written, self.max_age, at, findings);
        let worse = match operator.map(engine::policy::Operator::direction) {
            Some(Some(Direction::LowerIsBetter)) | None => Some(Direction::HigherIsBetter),
            Some(Some(Direction::HigherIsBetter)) => Some(Direction::LowerIsBetter),
            Some(None) => None,
        };
        let load = rule::load(written, self.settle, worse, rule::BareSettle::Counts, at, findings);
        Some(Preference {
            metric: metric?,
            direction: operator?.direction(),
            weight: weight?,
            normalize: match normalize {
                None => None,
                Some(span) => Some(span?),
            },
            max_age: max_age?,
            load: load?,
        })
    }

    fn rule_set(&self, strategy: &Strategy, at: &FieldPath, findings: &mut Findings) -> Option<RuleSet> {
        let combine = self.combine(strategy, at, findings);
        let at = at.key("rules");
        let mut compiled = Vec::with_capacity(strategy.rules.len());
        for (place, written) in rules(strategy, &at, findings) {
            let at = at.index(place);
            ignored_labels(written, &at, findings);
            if let Some(rule) = self.violation(written, &at, findings) {
                compiled.push((place, rule));
            }
        }
        if let Some(combine) = combine {
            contradictions::report(&compiled, combine, &at, findings);
        }
        let rules: Box<[Rule]> = compiled.into_iter().map(|(_, rule)| rule).collect();
        Some(RuleSet { combine: combine?, rules }).filter(|set| !set.rules.is_empty())
    }

    fn violation(&self, written: &PolicyRule, at: &FieldPath, findings: &mut Findings) -> Option<Rule> {
        rule::violation(written, self.max_age, self.settle, at, findings)
    }

    fn combine(&self, strategy: &Strategy, at: &FieldPath, findings: &mut Findings) -> Option<Combine> {
        if let Some(name) =
            strategy.policy_name.as_deref().filter(|name| !name.is_empty() && *name != self.policy_name)
        {
            findings.note(
                &at.key("policyName"),
                Code::IgnoredPolicyName,
                format!(
                    "policyName {:?} is ignored; the policy is called {:?}",
                    shortened(name),
                    self.policy_name
                ),
            );
        }
        match strategy.logical_operator.as_deref() {
            None | Some("" | "anyOf") => Some(Combine::AnyOf),
            Some("allOf") => Some(Combine::AllOf),
            Some(other) => {
                findings.error(
                    &at.key("logicalOperator"),
                    Code::UnknownLogicalOperator,
                    format!("{:?} is no logical operator; write anyOf or allOf", shortened(other)),
                );
                None
            }
        }
    }

    /// How nodes are marked.
    fn marks(&self, strategy: &Strategy, at: &FieldPath, findings: &mut Findings) -> Box<[Mark]> {
        let at_action = at.key("action");
        let mut marks = Vec::new();
        let effect = taint_effect(strategy, at, findings);
        let Some(written) = strategy.action.as_deref() else {
            return self.writable(vec![Mark::Label], at, findings);
        };
        if written.is_empty() {
            findings.error(
                &at_action,
                Code::UnknownAction,
                "action is empty; write [Label], [Taint] or both, or remove it",
            );
        }
        for (place, text) in written.iter().enumerate() {
            let mark = match text.as_str() {
                "Label" => Some(Mark::Label),
                "Taint" => Some(Mark::Taint(effect)),
                _ => None,
            };
            match mark {
                None => findings.error(
                    &at_action.index(place),
                    Code::UnknownAction,
                    format!("the action {:?} is not known; known are Label and Taint", shortened(text)),
                ),
                Some(mark) if marks.contains(&mark) => {
                    findings.error(
                        &at_action.index(place),
                        Code::UnknownAction,
                        format!("the action {text} is there twice; remove one"),
                    );
                }
                Some(mark) => marks.push(mark),
            }
        }
        self.writable(marks, at, findings)
    }

    /// The marks, or none of them where the policy's name makes no key.
    fn writable(&self, mut marks: Vec<Mark>, at: &FieldPath, findings: &mut Findings) -> Box<[Mark]> {
        if !marks.is_empty() && self.policy_name.len() > MAX_LABEL_NAME {
            let (what, length) =
                (if marks == [Mark::Label] { "label" } else { "taint" }, self.policy_name.len());
            findings.warn(
                at,
                Code::NameTooLong,
                format!("the policy name has {length} characters and becomes a node {what} key, which holds {MAX_LABEL_NAME}; the {what} is not written (Intel TAS would fail on every node, for ever); shorten the name"),
            );
            marks.clear();
        }
        marks.into()
    }
}

fn weight(written: &PolicyRule, at: &FieldPath, findings: &mut Findings) -> Option<NonZeroU32> {
    let Some(weight) = written.weight else { return Some(NonZeroU32::MIN) };
    let read = u32::try_from(weight).ok().and_then(NonZeroU32::new).filter(|_| weight <= MAX_WEIGHT);
    if read.is_none() {
        let way_out = if weight == 0 {
            "to leave the rule out, remove it"
        } else {
            "weights only matter beside each other"
        };
        findings.error(
            &at.key("weight"),
            Code::BadWeight,
            format!("weight {weight} is not between 1 and {MAX_WEIGHT}; {way_out}"),
        );
    }
    read
}

fn misplaced_action(strategy: &Strategy, at: &FieldPath, findings: &mut Findings) {
    for (name, present) in
        [("action", strategy.action.is_some()), ("taintEffect", strategy.taint_effect.is_some())]
    {
        if present {
            findings.error(
                &at.key(name),
                Code::MisplacedField,
                format!("{name} has a meaning only under deschedule; remove it here"),
            );
        }
    }
}

/// How strong the taint is.
fn taint_effect(strategy: &Strategy, at: &FieldPath, findings: &mut Findings) -> TaintEffect {
    let Some(text) = strategy.taint_effect.as_deref() else { return TaintEffect::default() };
    let at = at.key("taintEffect");
    if !strategy.action.iter().flatten().any(|action| action == "Taint") {
        findings.error(
            &at,
            Code::MisplacedField,
            "taintEffect has a meaning only beside the action Taint; write action: [Taint], or remove it",
        );
    }
    EFFECTS.into_iter().find(|effect| effect.as_str() == text).unwrap_or_else(|| {
        findings.error(
            &at,
            Code::UnknownAction,
            format!("the effect {:?} is not known; write PreferNoSchedule or NoSchedule", shortened(text)),
        );
        TaintEffect::default()
    })
}

fn ignored_labels(written: &PolicyRule, at: &FieldPath, findings: &mut Findings) {
    if !written.labels.is_empty() {
        findings.warn(
            &at.key("labels"),
            Code::IgnoredField,
            "labels are ignored outside the labeling strategy; move the rule there, or remove them",
        );
    }
}

/// The rules with their places; none of them if there are too many.
fn rules<'s>(
    strategy: &'s Strategy,
    at: &FieldPath,
    findings: &mut Findings,
) -> impl Iterator<Item = (usize, &'s PolicyRule)> + use<'s> {
    let count = strategy.rules.len();
    if count == 0 {
        findings.warn(
            at,
            Code::EmptyRules,
            "the strategy has no rules and does nothing; add a rule, or remove the strategy",
        );
    } else if count > MAX_RULES {
        findings.error(
            at,
            Code::TooMany,
            format!("{count} rules are too many for a strategy; {MAX_RULES} fit"),
        );
    } else if count > MANY_RULES {
        findings.warn(
            at,
            Code::ManyRules,
            format!("{count} rules are a lot for one strategy, and every node is judged by each of them whenever a metric changes; is that meant?"),
        );
    }
    let kept = if count > MAX_RULES { 0 } else { count };
    strategy.rules.iter().take(kept).enumerate()
}
