//! Why a node was turned away, or why nobody can say. Event, log, page and terminal all print this.

use std::fmt;
use std::time::Duration;

use crate::names::MetricName;
use crate::policy::{Rule, Threshold};
use crate::quantity::Quantity;
use crate::time::Spoken;

/// A reason with its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The newest sample breaks the rule.
    Breaks {
        /// The metric.
        metric: MetricName,
        /// The condition that holds.
        threshold: Threshold,
        /// What was seen.
        observed: Quantity,
    },
    /// It did, and has not cleared for long enough.
    Held {
        /// The metric.
        metric: MetricName,
        /// The condition that held.
        threshold: Threshold,
        /// What was seen last.
        observed: Quantity,
        /// How long it must stay clear.
        hold: Duration,
    },
    /// It will, once the pods placed lately show in it.
    Expected {
        /// The metric.
        metric: MetricName,
        /// The condition that will hold.
        threshold: Threshold,
        /// What is expected.
        expected: Quantity,
        /// Pods that the metric does not show yet.
        pods: u32,
    },
    /// No sample has ever come in.
    Missing {
        /// The metric.
        metric: MetricName,
    },
    /// The newest sample is too old to go by.
    Stale {
        /// The metric.
        metric: MetricName,
        /// How old.
        age: Duration,
    },
    /// Nobody has heard of the node.
    NodeUnknown,
}

impl Reason {
    /// Without numbers that vary by node, so that equal reasons add up in an event.
    pub fn stable(&self) -> Stable<'_> {
        Stable(self)
    }

    /// Only the numbers, where the metric is plain from what stands around it: `41 W over 30`.
    pub fn numbers(&self) -> Numbers<'_> {
        Numbers(self)
    }

    fn metric(&self) -> Option<&MetricName> {
        match self {
            Self::Breaks { metric, .. }
            | Self::Held { metric, .. }
            | Self::Expected { metric, .. }
            | Self::Missing { metric }
            | Self::Stale { metric, .. } => Some(metric),
            Self::NodeUnknown => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.metric() {
            Some(metric) => write!(f, "{metric} {}", self.numbers()),
            None => write!(f, "{}", self.numbers()),
        }
    }
}

/// See [`Reason::stable`].
#[derive(Clone, Copy, Debug)]
pub struct Stable<'a>(&'a Reason);

impl fmt::Display for Stable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Breaks { metric, threshold, .. } | Reason::Held { metric, threshold, .. } => {
                write!(f, "{metric} {}", Aim(threshold))
            }
            Reason::Expected { metric, threshold, .. } => write!(f, "{metric} expected {}", Aim(threshold)),
            Reason::Missing { metric } | Reason::Stale { metric, .. } => write!(f, "{metric} unknown"),
            Reason::NodeUnknown => f.write_str("node unknown"),
        }
    }
}

/// See [`Reason::numbers`].
#[derive(Clone, Copy, Debug)]
pub struct Numbers<'a>(&'a Reason);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Reason::Breaks { metric, threshold, observed } => {
                write!(
                    f,
                    "{} {}",
                    Seen { metric, value: *observed, beside: threshold.target() },
                    Aim(threshold)
                )
            }
            Reason::Held { metric, threshold, observed, hold } => {
                let (words, leave) =
                    (threshold.operator().words(), threshold.clear().unwrap_or(threshold.target()));
                let seen = Seen { metric, value: *observed, beside: leave };
                if threshold.stays(*observed) {
                    write!(f, "{seen} still {words} {}", leave.brief())
                } else {
                    write!(f, "{seen} no longer {words} {}, but not yet for {}", leave.brief(), Spoken(*hold))
                }
            }
            Reason::Expected { metric, threshold, expected, pods } => {
                let seen = Seen { metric, value: *expected, beside: threshold.target() };
                let noun = if *pods == 1 { "pod" } else { "pods" };
                write!(f, "expected {seen} {} with {pods} {noun} placed lately", Aim(threshold))
            }
            Reason::Missing { .. } => f.write_str("unknown, no sample yet"),
            Reason::Stale { age, .. } => write!(f, "unknown, {} old", Spoken(*age)),
            Reason::NodeUnknown => f.write_str("node unknown"),
        }
    }
}

/// `over 30`.
struct Aim<'a>(&'a Threshold);

impl fmt::Display for Aim<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0.operator().words(), self.0.target().brief())
    }
}

/// A value with its unit, in as many digits as it takes to tell it from what stands beside it.
struct Seen<'a> {
    metric: &'a MetricName,
    value: Quantity,
    beside: Quantity,
}

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.value.brief_beside(self.beside), unit(self.metric.as_str()))
    }
}

/// The unit a metric's name gives away by Prometheus' naming conventions (and collectd's), with a blank
/// before it; empty where the name says nothing.
pub fn unit(metric: &str) -> &'static str {
    const ENDINGS: [(&str, &str); 11] = [
        ("_bytes", " B"),
        ("_seconds", " s"),
        ("_celsius", " °C"),
        ("_temperature", " °C"),
        ("_temp", " °C"),
        ("_watts", " W"),
        ("_power", " W"),
        ("_power_avg", " W"),
        ("_joules", " J"),
        ("_volts", " V"),
        ("_percent", " %"),
    ];
    ENDINGS.into_iter().find(|(ending, _)| metric.ends_with(ending)).map_or("", |(_, unit)| unit)
}

impl Rule {
    pub(crate) fn breaks(&self, observed: Quantity) -> Reason {
        Reason::Breaks { metric: self.metric.clone(), threshold: self.threshold, observed }
    }
}

#[cfg(test)]
mod tests;
