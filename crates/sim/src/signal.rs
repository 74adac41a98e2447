//! From what a machine does to what a metric says. A policy names its metrics and where they are too much;
//! the machines here are sized so that a machine at its line shows exactly that, whatever the unit.

use engine::names::MetricName;
use engine::policy::{Direction, Operator, Policy, Rule, RuleSet};
use engine::quantity::Quantity;

use crate::machine::{LINE_MW, Strain};

/// What a metric measures, as far as its name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Follows the load at once.
    Power,
    /// Follows the load slowly.
    Temperature,
    /// Follows what pods keep, not what they burn.
    Memory,
    /// Anything else: follows the load at once.
    Other,
}

impl Kind {
    /// By the words in the name.
    pub fn of(metric: &str) -> Self {
        let name = metric.to_ascii_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if says(&["power", "watt", "energy", "joule"]) {
            Self::Power
        } else if says(&["temp", "celsius", "thermal", "heat"]) {
            Self::Temperature
        } else if says(&["mem", "swap", "bytes"]) {
            Self::Memory
        } else {
            Self::Other
        }
    }

    /// Where such a metric is too much when the policy does not say.
    fn usual_line(self) -> Quantity {
        Quantity::from(match self {
            Self::Power => 30,
            Self::Temperature => 80,
            Self::Memory => 8 << 30,
            Self::Other => 100,
        })
    }

    fn strain_mw(self, strain: Strain) -> i64 {
        match self {
            Self::Power | Self::Other => strain.power,
            Self::Temperature => strain.warmth,
            Self::Memory => strain.memory,
        }
    }
}

/// Which way a metric goes when its machine has more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Up, in proportion: power, use.
    Rising,
    /// Down, in proportion: free memory, headroom.
    Falling,
    /// Between two states: health, a mode.
    Switch { fine: Quantity, bad: Quantity },
}

/// One metric on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its name.
    pub metric: MetricName,
    /// What it measures.
    pub kind: Kind,
    /// What it shows when a machine is at its line.
    pub line: Quantity,
    course: Course,
}

impl Signal {
    fn by_rule(rule: &Rule) -> Self {
        let kind = Kind::of(rule.metric.as_str());
        let (operator, line) = (rule.threshold.operator(), rule.threshold.target());
        let beside = |q: Quantity| if q == Quantity::ZERO { Quantity::from(1) } else { Quantity::ZERO };
        let course = match (operator, operator.direction()) {
            (_, Some(Direction::HigherIsBetter)) => Course::Rising,
            (_, Some(Direction::LowerIsBetter)) => Course::Falling,
            (Operator::NotEquals, None) => Course::Switch { fine: line, bad: beside(line) },
            (_, None) => Course::Switch { fine: beside(line), bad: line },
        };
        Self { metric: rule.metric.clone(), kind, line, course }
    }

    /// What it says of a machine under that strain, give or take `noise_mw`.
    pub(crate) fn value(&self, strain: Strain, noise_mw: i64) -> Quantity {
        let mw = self.kind.strain_mw(strain);
        let noisy = mw.saturating_add(noise_mw).max(0);
        match self.course {
            Course::Switch { bad, .. } if mw > LINE_MW => bad,
            Course::Switch { fine, .. } => fine,
            Course::Rising => self.scaled(noisy),
            Course::Falling => self.scaled((2 * LINE_MW - noisy).max(0)),
        }
    }

    /// The value that stands to the line as `mw` stands to [`LINE_MW`]. A line at nought or below has no
    /// proportions; there a milliwatt is a thousandth.
    fn scaled(&self, mw: i64) -> Quantity {
        let line = self.line.nanos();
        Quantity::from_nanos(if line > 0 {
            let (whole, rest) = (line / i128::from(LINE_MW), line % i128::from(LINE_MW));
            whole.saturating_mul(i128::from(mw)).saturating_add(rest * i128::from(mw) / i128::from(LINE_MW))
        } else {
            line.saturating_add(i128::from(mw - LINE_MW) * 1_000_000)
        })
    }

    /// Whether less of it is worse, as with free memory.
    pub fn is_falling(&self) -> bool {
        self.course == Course::Falling
    }

    /// How a value stands to the line, in thousandths of it: 1000 is on the line.
    pub fn level(&self, value: Quantity) -> u32 {
        let (value, line) = (value.nanos(), self.line.nanos());
        let level = match self.course {
            Course::Switch { bad, .. } if value == bad.nanos() => 1200,
            Course::Switch { .. } => 400,
            _ if line > 0 => {
                value.checked_mul(1000).map_or_else(|| value / (line / 1000).max(1), |v| v / line)
            }
            _ => value.saturating_sub(line).saturating_mul(1000) / (i128::from(LINE_MW) * 1_000_000) + 1000,
        };
        u32::try_from(level.clamp(0, 10_000)).expect("clamped")
    }
}

/// All metrics that a policy looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signals {
    all: Vec<Signal>,
    limit: Option<RuleSet>,
}

impl Signals {
    /// The metrics of a policy; each is sized by the first rule on it.
    pub fn of(policy: &Policy) -> Self {
        let mut all: Vec<Signal> = Vec::new();
        let mut add = |signal: Signal| {
            if all.iter().all(|known| known.metric != signal.metric) {
                all.push(signal);
            }
        };
        policy.rules().map(Signal::by_rule).for_each(&mut add);
        for preference in &policy.scheduleonmetric {
            let kind = Kind::of(preference.metric.as_str());
            let course = match preference.direction {
                Some(Direction::HigherIsBetter) => Course::Falling,
                Some(Direction::LowerIsBetter) | None => Course::Rising,
            };
            add(Signal { metric: preference.metric.clone(), kind, line: kind.usual_line(), course });
        }
        let leaving = policy.deschedule.as_ref().map(|deschedule| &deschedule.when);
        let limit = policy.dontschedule.as_ref().filter(|set| !set.rules.is_empty()).or(leaving).cloned();
        Self { all, limit }
    }

    /// The one to show where there is room for one; nothing for a policy without rules.
    pub fn main(&self) -> Option<&Signal> {
        self.all.first()
    }

    pub(crate) fn all(&self) -> &[Signal] {
        &self.all
    }

    /// Whether a machine under that strain is where the policy does not want it: its `dontschedule` rules
    /// hold of what is, or its `deschedule` rules, or, if it has neither, its first metric is past its line.
    pub(crate) fn over(&self, strain: Strain) -> bool {
        let holds = |rule: &Rule| {
            let signal = self.all.iter().find(|signal| signal.metric == rule.metric);
            signal.is_some_and(|signal| rule.threshold.enters(signal.value(strain, 0)))
        };
        match &self.limit {
            Some(RuleSet { combine: engine::policy::Combine::AnyOf, rules }) => rules.iter().any(holds),
            Some(RuleSet { combine: engine::policy::Combine::AllOf, rules }) => {
                !rules.is_empty() && rules.iter().all(holds)
            }
            None => self.main().is_some_and(|signal| signal.kind.strain_mw(strain) > LINE_MW),
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::fixtures::{number, policy, preference, rule};
    use engine::policy::Combine;
    use engine::policy::Operator::{Equals, GreaterThan, LessThan, NotEquals};

    use super::{Kind, LINE_MW, Signals, Strain};

    fn evenly(mw: i64) -> Strain {
        Strain { power: mw, warmth: mw, memory: mw }
    }

    #[test]
    fn a_name_tells_what_is_measured() {
        let names = [
            "collectd_package_0_power_power",
            "node_hwmon_temp_celsius",
            "node_memory_MemAvailable_bytes",
            "health_metric",
        ];
        assert_eq!(names.map(Kind::of), [Kind::Power, Kind::Temperature, Kind::Memory, Kind::Other]);
    }

    #[test]
    fn a_machine_at_its_line_shows_the_target_whatever_the_unit() {
        for (metric, operator, target) in [
            ("power", GreaterThan, "30"),
            ("temp", GreaterThan, "85"),
            ("mem_free_bytes", LessThan, "64Gi"),
            ("queue", GreaterThan, "0"),
            ("odd", LessThan, "-12.5"),
            ("huge", GreaterThan, "1e29"),
        ] {
            let signals =
                Signals::of(&policy("p").dont_schedule(Combine::AnyOf, [rule(metric, operator, target)]));
            let signal = signals.main().unwrap();
            assert_eq!(signal.value(evenly(LINE_MW), 0), number(target), "{metric}");
            assert_eq!(signal.level(number(target)), 1000, "{metric}");
            let over = [LINE_MW - 1000, LINE_MW, LINE_MW + 1000].map(|mw| signals.over(evenly(mw)));
            assert_eq!(over, [false, false, true], "{metric}");
        }
    }

    #[test]
    fn states_switch_when_a_machine_has_had_enough() {
        for (operator, target, fine, bad) in
            [(Equals, "2", "0", "2"), (Equals, "0", "1", "0"), (NotEquals, "0", "0", "1")]
        {
            let signals =
                Signals::of(&policy("p").dont_schedule(Combine::AnyOf, [rule("health", operator, target)]));
            let said = [10_000, 31_000].map(|mw| signals.main().unwrap().value(evenly(mw), 0));
            assert_eq!(said, [number(fine), number(bad)], "{operator:?} {target}");
        }
    }

    #[test]
    fn the_first_rule_on_a_metric_sizes_it_and_preferences_alone_get_the_usual_size() {
        let both = policy("p")
            .deschedule(Combine::AnyOf, [rule("power", GreaterThan, "40")])
            .dont_schedule(Combine::AnyOf, [rule("power", GreaterThan, "30")]);
        assert_eq!(Signals::of(&both).all().len(), 1);
        assert_eq!(Signals::of(&both).main().unwrap().line, number("30"));
        let wish = Signals::of(&policy("p").prefer([preference("free_mem", GreaterThan)]));
        assert_eq!(wish.main().unwrap().value(evenly(LINE_MW / 2), 0), number("12Gi"));
        assert!(wish.over(evenly(LINE_MW + 1)));
        assert_eq!(Signals::of(&policy("p")).main(), None);
    }
}
