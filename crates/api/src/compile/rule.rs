//! One rule: its metric, comparison, durations and load. Each reader reports what is wrong and gives `None`.

use std::time::Duration;

use engine::names::MetricName;
use engine::policy::{Direction, Load, Operator, Rule, Span, Threshold};
use engine::quantity::Quantity;
use engine::time::Spoken;

use super::nearest::nearest;
use crate::duration;
use crate::number::{MAX_NUMBER_LENGTH, Number};
use crate::path::FieldPath;
use crate::policy::{Normalize, PolicyRule};
use crate::problem::{Code, Findings, shortened};

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);
/// Words in the names of metrics whose values are hardly ever exactly anything.
const FRACTIONAL: [&str; 28] = [
    "amps",
    "average",
    "avg",
    "celsius",
    "frequency",
    "hertz",
    "joules",
    "latency",
    "load",
    "load1",
    "load15",
    "load5",
    "mean",
    "pct",
    "percent",
    "power",
    "rate",
    "ratio",
    "seconds",
    "temp",
    "temperature",
    "usage",
    "util",
    "utilization",
    "voltage",
    "volts",
    "watt",
    "watts",
];
/// What people write for an operator, and the operator they mean.
const OPERATORS: [(&str, Operator); 6] = [
    ("Equals", Operator::Equals),
    ("LessThan", Operator::LessThan),
    ("GreaterThan", Operator::GreaterThan),
    ("GreaterOrEqual", Operator::GreaterOrEqual),
    ("LessOrEqual", Operator::LessOrEqual),
    ("NotEquals", Operator::NotEquals),
];
const SIGNS: [(&str, &str); 9] = [
    (">", "GreaterThan"),
    ("<", "LessThan"),
    ("=", "Equals"),
    ("==", "Equals"),
    (">=", "GreaterOrEqual"),
    ("<=", "LessOrEqual"),
    ("!=", "NotEquals"),
    ("GreaterThanOrEqual", "GreaterOrEqual"),
    ("LessThanOrEqual", "LessOrEqual"),
];

/// What a duration field may hold, and what is probably meant.
pub(super) struct Bounds {
    least: Duration,
    usual: std::ops::RangeInclusive<Duration>,
    most: Duration,
    too_short: &'static str,
    too_long: &'static str,
}

/// Bounds of `maxAge`.
pub(super) const MAX_AGE: Bounds = Bounds {
    least: Duration::from_nanos(1),
    usual: Duration::from_secs(5)..=HOUR,
    most: DAY,
    too_short: "it is below most scrape intervals, so samples are often too old",
    too_long: "a dead sensor's last value would count for that long",
};
const HOLD: Bounds = Bounds {
    least: Duration::ZERO,
    usual: Duration::ZERO..=HOUR,
    most: DAY,
    too_short: "",
    too_long: "a verdict takes that long to follow the metric, and a starting server reads that much history",
};
const SETTLE: Bounds = Bounds {
    least: Duration::ZERO,
    usual: Duration::ZERO..=HOUR,
    most: DAY,
    too_short: "",
    too_long: "a pod counts as not yet visible for that long",
};

/// Reads a duration within its bounds.
pub(super) fn duration(
    text: &str,
    at: &FieldPath,
    bounds: &Bounds,
    findings: &mut Findings,
) -> Option<Duration> {
    let read = match duration::parse(text) {
        Ok(read) => read,
        Err(why) => {
            findings.error(at, Code::BadDuration, why.to_string());
            return None;
        }
    };
    if read < bounds.least {
        findings.error(
            at,
            Code::DurationOutOfRange,
            format!("{text:?} leaves no time at all: every sample would be too old; the default is 3m"),
        );
        return None;
    }
    if read > bounds.most {
        findings.error(
            at,
            Code::DurationOutOfRange,
            format!("{text:?} is longer than the {} allowed here", Spoken(bounds.most)),
        );
        return None;
    }
    if read < *bounds.usual.start() {
        findings.warn(
            at,
            Code::UnusualDuration,
            format!("{text:?} is unusually short: {}", bounds.too_short),
        );
    }
    if read > *bounds.usual.end() {
        findings.warn(at, Code::UnusualDuration, format!("{text:?} is unusually long: {}", bounds.too_long));
    }
    Some(read)
}

/// Reads a number.
pub(super) fn number(number: &Number, at: &FieldPath, findings: &mut Findings) -> Option<Quantity> {
    let written = number.to_string();
    let why = if written.len() > MAX_NUMBER_LENGTH {
        format!("{:?} has {} characters; {MAX_NUMBER_LENGTH} are allowed", shortened(&written), written.len())
    } else if written.trim() == written {
        match number.quantity() {
            Ok(quantity) => return Some(quantity),
            Err(why) => why.to_string(),
        }
    } else {
        format!("{written:?} has blanks around the number; remove them")
    };
    findings.error(at, Code::BadNumber, why);
    None
}

/// Reads the metric's name.
pub(super) fn metric(rule: &PolicyRule, at: &FieldPath, findings: &mut Findings) -> Option<MetricName> {
    let at = at.key("metricname");
    match MetricName::new(&rule.metricname) {
        Ok(metric) => {
            if let Some(served) = rule.metricname.strip_prefix("node_").filter(|rest| !rest.is_empty()) {
                findings.note(
                    &at,
                    Code::NodePrefix,
                    format!("the metrics adapter of Intel TAS serves {:?} as {served:?}; with it, write {served:?}. Asked of Prometheus itself, the name is right", rule.metricname),
                );
            }
            Some(metric)
        }
        Err(why) => {
            findings.error(&at, Code::BadMetricName, format!("{why}; write it as the metrics source does"));
            None
        }
    }
}

/// Reads the operator.
pub(super) fn operator(rule: &PolicyRule, at: &FieldPath, findings: &mut Findings) -> Option<Operator> {
    let written = rule.operator.as_str();
    let known = OPERATORS.map(|(name, _)| name);
    if let Some((_, operator)) = OPERATORS.into_iter().find(|(name, _)| *name == written) {
        return Some(operator);
    }
    let meant = SIGNS
        .into_iter()
        .find(|(sign, _)| sign.eq_ignore_ascii_case(written.trim()))
        .map(|(_, name)| name)
        .or_else(|| nearest(written, &known));
    let hint = meant
        .map_or_else(|| format!("known are {}", known.join(", ")), |name| format!("did you mean {name}?"));
    findings.error(
        &at.key("operator"),
        Code::UnknownOperator,
        format!("the operator {:?} is not known; {hint}", shortened(written)),
    );
    None
}

/// Reads operator, target and clear value.
fn threshold(rule: &PolicyRule, at: &FieldPath, findings: &mut Findings) -> Option<Threshold> {
    let operator = operator(rule, at, findings);
    let target = if let Some(target) = &rule.target {
        number(target, &at.key("target"), findings)
    } else {
        let message = "the rule has no target, which counts as 0; write target: 0 if that is meant";
        findings.warn(at, Code::MissingTarget, message);
        Some(Quantity::ZERO)
    };
    let clear = rule.clear.as_ref().map(|clear| number(clear, &at.key("clear"), findings));
    let threshold = Threshold::new(operator?, target?);
    if threshold.operator().direction().is_none() && looks_fractional(&rule.metricname, threshold.target()) {
        let outcome = if threshold.operator() == Operator::Equals { "hardly ever" } else { "nearly always" };
        findings.warn(
            &at.key("operator"),
            Code::EqualsOnFraction,
            format!(
                "{} looks like a metric with fractions, and values are compared exactly, so {:?} {} {outcome} holds; use an operator with a side",
                rule.metricname,
                threshold.operator(),
                threshold.target()
            ),
        );
    }
    let Some(clear) = clear else { return Some(threshold) };
    let clear = clear?;
    match threshold.with_clear(clear) {
        Ok(with_clear) => {
            if clear == threshold.target() {
                findings.warn(
                    &at.key("clear"),
                    Code::ClearWithoutEffect,
                    format!("clear {clear} is the target itself and changes nothing; move it away from the target or remove it"),
                );
            }
            Some(with_clear)
        }
        Err(why) => {
            findings.error(&at.key("clear"), Code::BadClear, why.to_string());
            None
        }
    }
}

fn looks_fractional(metric: &str, target: Quantity) -> bool {
    let mut words = metric.split(['_', '-', ':']);
    !target.is_whole() || words.any(|word| FRACTIONAL.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// Reads how old a sample may be.
pub(super) fn max_age(
    rule: &PolicyRule,
    default: Duration,
    at: &FieldPath,
    findings: &mut Findings,
) -> Option<Duration> {
    match &rule.max_age {
        None => Some(default),
        Some(text) => duration(text, &at.key("maxAge"), &MAX_AGE, findings),
    }
}

/// What `settle` does where there is no `perPod`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BareSettle {
    /// Says for how long a placed pod costs the node a share of its score.
    Counts,
    /// Nothing: there is no load to settle.
    Idle,
}

/// Reads what pods placed lately mean for the metric.
pub(super) fn load(
    rule: &PolicyRule,
    default_settle: Duration,
    worse: Option<Direction>,
    bare_settle: BareSettle,
    at: &FieldPath,
    findings: &mut Findings,
) -> Option<Load> {
    let settle = match &rule.settle {
        None => Some(default_settle),
        Some(text) => duration(text, &at.key("settle"), &SETTLE, findings),
    };
    let Some(written) = &rule.per_pod else {
        if rule.settle.is_some() && bare_settle == BareSettle::Idle {
            findings.warn(
                &at.key("settle"),
                Code::LoadWithoutEffect,
                "settle changes nothing without perPod; say what a pod adds to the metric, or remove it",
            );
        }
        return Some(Load { per_pod: None, settle: settle? });
    };
    let at = at.key("perPod");
    let per_pod = number(written, &at, findings)?;
    let settle = settle?;
    match worse {
        _ if per_pod == Quantity::ZERO => {
            findings.warn(
                &at,
                Code::LoadWithoutEffect,
                "perPod 0 changes nothing; say what a pod adds to the metric, or remove it",
            );
        }
        _ if settle.is_zero() => {
            findings.warn(
                &at,
                Code::LoadWithoutEffect,
                "perPod changes nothing when settle is 0; a pod counts as visible at once",
            );
        }
        None => findings.warn(
            &at,
            Code::LoadWithoutEffect,
            format!(
                "perPod makes an estimate, and {} asks for an exact value; use an operator with a side",
                rule.operator
            ),
        ),
        Some(Direction::HigherIsBetter) if per_pod < Quantity::ZERO => {
            findings.warn(&at, Code::PerPodSign, format!("perPod {written} makes a node look better with every pod, because less of {} is better here; write it without the minus if pods add to it", rule.metricname));
        }
        Some(Direction::LowerIsBetter) if per_pod > Quantity::ZERO => {
            findings.warn(&at, Code::PerPodSign, format!("perPod {written} makes a node look better with every pod, because more of {} is better here; write -{written} if pods use it up", rule.metricname));
        }
        Some(_) => {}
    }
    Some(Load { per_pod: Some(per_pod), settle })
}

/// Reads a rule whose truth is a violation.
pub(super) fn violation(
    rule: &PolicyRule,
    max_age_default: Duration,
    settle_default: Duration,
    at: &FieldPath,
    findings: &mut Findings,
) -> Option<Rule> {
    let metric = metric(rule, at, findings);
    let threshold = threshold(rule, at, findings);
    let hold = match &rule.hold {
        None => Some(Duration::ZERO),
        Some(text) => duration(text, &at.key("for"), &HOLD, findings),
    };
    let max_age = max_age(rule, max_age_default, at, findings);
    // More of the metric is worse where "over" is the violation.
    let worse = match threshold {
        Some(threshold) => threshold.operator().direction(),
        None => Some(Direction::HigherIsBetter),
    };
    let load = load(rule, settle_default, worse, BareSettle::Idle, at, findings);
    for (name, present) in [("weight", rule.weight.is_some()), ("normalize", rule.normalize.is_some())] {
        if present {
            findings.error(
                &at.key(name),
                Code::MisplacedField,
                format!("{name} has a meaning only under scheduleonmetric; remove it here"),
            );
        }
    }
    Some(Rule { metric: metric?, threshold: threshold?, hold: hold?, max_age: max_age?, load: load? })
}

/// Reads the fixed scale of a preference.
pub(super) fn normalize(written: &Normalize, at: &FieldPath, findings: &mut Findings) -> Option<Span> {
    let mut end = |name: &str, value: Option<&Number>| {
        if let Some(value) = value {
            return number(value, &at.key(name), findings);
        }
        findings.error(at, Code::BadNormalize, format!("normalize has no {name}; it needs min and max"));
        None
    };
    let (low, high) = (end("min", written.min.as_ref()), end("max", written.max.as_ref()));
    match Span::new(low?, high?) {
        Ok(span) => Some(span),
        Err(why) => {
            findings.error(at, Code::BadNormalize, format!("{why}; swap them or spread them"));
            None
        }
    }
}
