//! What a policy says, in the engine's own words. If you hold one it is valid: every part that could be
//! wrong has a constructor that refuses.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::names::{MetricName, PolicyRef};
use crate::quantity::Quantity;

/// How old a sample may be where neither rule nor policy nor server says.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_mins(3);
/// How long a metric takes to show a pod where the rule does not say.
pub const DEFAULT_SETTLE: Duration = Duration::from_mins(1);

/// How many preferences one policy may combine; scoring keeps a fixed place for each.
pub const MAX_PREFERENCES: usize = 16;

/// A compiled policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which policy this is.
    pub name: PolicyRef,
    /// Whether it acts or only reports.
    pub mode: Mode,
    /// What placement does about a node nobody knows enough about.
    pub on_missing: OnMissing,
    /// `dontschedule`: nodes that may not take new pods.
    pub dontschedule: Option<RuleSet>,
    /// `scheduleonmetric`: what makes a node better than another; empty means no preference, and what
    /// stands past [`MAX_PREFERENCES`] does not count.
    pub scheduleonmetric: Box<[Preference]>,
    /// `deschedule`: nodes whose pods should leave.
    pub deschedule: Option<Deschedule>,
    /// `labeling`: labels that nodes should carry.
    pub labeling: Option<Labeling>,
}

impl Policy {
    /// A policy that says nothing yet: every node passes, none is better.
    pub fn empty(name: PolicyRef) -> Self {
        Self {
            name,
            mode: Mode::Enforce,
            on_missing: OnMissing::Allow,
            dontschedule: None,
            scheduleonmetric: Box::default(),
            deschedule: None,
            labeling: None,
        }
    }

    /// Every metric the policy looks at, with repeats.
    pub fn metrics(&self) -> impl Iterator<Item = &MetricName> {
        self.rules().map(|rule| &rule.metric).chain(self.scheduleonmetric.iter().map(|p| &p.metric))
    }

    /// Every rule that yields a verdict.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        let placement = self.dontschedule.iter().flat_map(|set| &set.rules);
        let leaving = self.deschedule.iter().flat_map(|deschedule| &deschedule.when.rules);
        let labels = self.labeling.iter().flat_map(|labeling| &labeling.rules).map(|labelled| &labelled.rule);
        placement.chain(leaving).chain(labels)
    }
}

/// Whether a policy acts or only reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Refuses, scores, labels.
    #[default]
    Enforce,
    /// Evaluated and reported; nothing is refused, scored or written.
    Shadow,
}

/// What placement does about a node that a policy cannot judge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMissing {
    /// The node passes, as in Intel TAS.
    #[default]
    Allow,
    /// The node is refused until it can be judged.
    Deny,
}

/// How the rules of a set combine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// One true rule is a violation.
    #[default]
    AnyOf,
    /// All rules together are a violation.
    AllOf,
}

/// Rules and how they combine. An empty set never violates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// How they combine.
    pub combine: Combine,
    /// In the order written; the first that decides is the one named in reasons.
    pub rules: Box<[Rule]>,
}

/// One condition on one metric; when it holds, that is a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The metric looked at.
    pub metric: MetricName,
    /// When the condition holds.
    pub threshold: Threshold,
    /// `for`: how long a change must last, in either direction, before the verdict follows.
    pub hold: Duration,
    /// Samples older than this are as good as none.
    pub max_age: Duration,
    /// What each pod placed lately is expected to add, and until when.
    pub load: Load,
}

impl Rule {
    /// Whether the verdict depends on more than the newest sample.
    pub fn remembers(&self) -> bool {
        !self.hold.is_zero() || self.threshold.clear().is_some()
    }
}

/// What pods placed lately mean for a metric that does not show them yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// What one pod adds to the metric; may be negative (free memory).
    pub per_pod: Option<Quantity>,
    /// How long the metric takes to show a pod.
    pub settle: Duration,
}

impl Default for Load {
    fn default() -> Self {
        Self { per_pod: None, settle: DEFAULT_SETTLE }
    }
}

/// The six comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operator {
    /// `<`
    LessThan,
    /// `<=`
    LessOrEqual,
    /// `==`
    Equals,
    /// `!=`
    NotEquals,
    /// `>=`
    GreaterOrEqual,
    /// `>`
    GreaterThan,
}

impl Operator {
    /// Whether `value` stands in this relation to `target`, exactly.
    pub fn holds(self, value: Quantity, target: Quantity) -> bool {
        match self {
            Self::LessThan => value < target,
            Self::LessOrEqual => value <= target,
            Self::Equals => value == target,
            Self::NotEquals => value != target,
            Self::GreaterOrEqual => value >= target,
            Self::GreaterThan => value > target,
        }
    }

    /// The relation in words, to stand before the target: "over 30".
    pub fn words(self) -> &'static str {
        match self {
            Self::LessThan => "under",
            Self::LessOrEqual => "at or under",
            Self::Equals => "equal to",
            Self::NotEquals => "not equal to",
            Self::GreaterOrEqual => "at or over",
            Self::GreaterThan => "over",
        }
    }

    /// Which way is more of it.
    pub fn direction(self) -> Option<Direction> {
        match self {
            Self::LessThan | Self::LessOrEqual => Some(Direction::LowerIsBetter),
            Self::GreaterOrEqual | Self::GreaterThan => Some(Direction::HigherIsBetter),
            Self::Equals | Self::NotEquals => None,
        }
    }
}

/// A target, and optionally the value at which a violation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Threshold {
    operator: Operator,
    target: Quantity,
    clear: Option<Quantity>,
}

/// Why target and clear value do not go together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// A point has no side to leave on.
    #[error(
        "clear {clear} has no meaning beside {operator:?}; it goes with GreaterThan, GreaterOrEqual, LessThan and LessOrEqual"
    )]
    ClearWithoutSide {
        /// The clear value.
        clear: Quantity,
        /// The operator it stands beside.
        operator: Operator,
    },
    /// A violation that ends beyond its own start would end at once or never.
    #[error("clear {clear} is on the wrong side of target {target}; with {operator:?} it must be {} the target", .operator.leave_side())]
    ClearBeyondTarget {
        /// The clear value.
        clear: Quantity,
        /// The target.
        target: Quantity,
        /// The operator between them.
        operator: Operator,
    },
}

impl Operator {
    fn leave_side(self) -> &'static str {
        match self.direction() {
            Some(Direction::LowerIsBetter) => "at or over",
            _ => "at or under",
        }
    }
}

impl Threshold {
    /// A plain target.
    pub const fn new(operator: Operator, target: Quantity) -> Self {
        Self { operator, target, clear: None }
    }

    /// The same, left only at `clear`.
    pub fn with_clear(self, clear: Quantity) -> Result<Self, ThresholdError> {
        let Self { operator, target, .. } = self;
        match operator.direction() {
            None => Err(ThresholdError::ClearWithoutSide { clear, operator }),
            Some(Direction::HigherIsBetter) if clear > target => {
                Err(ThresholdError::ClearBeyondTarget { clear, target, operator })
            }
            Some(Direction::LowerIsBetter) if clear < target => {
                Err(ThresholdError::ClearBeyondTarget { clear, target, operator })
            }
            Some(_) => Ok(Self { clear: Some(clear), ..self }),
        }
    }

    /// The comparison.
    pub const fn operator(&self) -> Operator {
        self.operator
    }

    /// The value at which a violation begins.
    pub const fn target(&self) -> Quantity {
        self.target
    }

    /// The value at which it ends, if that is another.
    pub const fn clear(&self) -> Option<Quantity> {
        self.clear
    }

    /// Whether a violation begins at this value.
    pub fn enters(&self, value: Quantity) -> bool {
        self.operator.holds(value, self.target)
    }

    /// Whether a violation that has begun goes on at this value.
    pub fn stays(&self, value: Quantity) -> bool {
        self.operator.holds(value, self.clear.unwrap_or(self.target))
    }
}

/// Which way of a metric makes a node better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Less of it is better.
    LowerIsBetter,
    /// More of it is better.
    HigherIsBetter,
}

/// One `scheduleonmetric` rule that counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference {
    /// The metric looked at.
    pub metric: MetricName,
    /// Which way is better; `None` (from `Equals`) orders nothing.
    pub direction: Option<Direction>,
    /// How much it counts beside the others.
    pub weight: NonZeroU32,
    /// A fixed scale instead of the spread among the nodes asked about.
    pub normalize: Option<Span>,
    /// Samples older than this are as good as none.
    pub max_age: Duration,
    /// What pods placed lately mean for it.
    pub load: Load,
}

/// A stretch of values, the lower end below the upper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    low: Quantity,
    high: Quantity,
}

/// The ends are equal or swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("normalize min {low} is not below max {high}")]
pub struct EmptySpan {
    /// The lower end as written.
    pub low: Quantity,
    /// The upper end as written.
    pub high: Quantity,
}

impl Span {
    /// A stretch that is not empty.
    pub fn new(low: Quantity, high: Quantity) -> Result<Self, EmptySpan> {
        if low < high { Ok(Self { low, high }) } else { Err(EmptySpan { low, high }) }
    }

    /// The lower end.
    pub const fn low(&self) -> Quantity {
        self.low
    }

    /// The upper end.
    pub const fn high(&self) -> Quantity {
        self.high
    }
}

/// When pods should leave a node, and what is done about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deschedule {
    /// When.
    pub when: RuleSet,
    /// What is written on the node.
    pub marks: Box<[Mark]>,
}

/// How a node whose pods should leave is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// The label `<policy>=violating`, for an external descheduler.
    Label,
    /// A taint, for an unmodified scheduler.
    Taint(TaintEffect),
}

/// How strongly a taint keeps pods away, the weaker first. None of them evicts: that needs a budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaintEffect {
    /// Pods go elsewhere if they can.
    #[default]
    PreferNoSchedule,
    /// Pods that do not tolerate it stay away.
    NoSchedule,
}

impl TaintEffect {
    /// As Kubernetes and policies write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PreferNoSchedule => "PreferNoSchedule",
            Self::NoSchedule => "NoSchedule",
        }
    }
}

/// Labels for nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labeling {
    /// Whether one true rule suffices or all must hold.
    pub combine: Combine,
    /// Rules with the labels they bring.
    pub rules: Box<[LabelRule]>,
}

/// A rule and the labels a node carries while it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRule {
    /// The condition.
    pub rule: Rule,
    /// The labels; none is allowed, such a rule only counts for `allOf`.
    pub labels: Box<[Label]>,
}

/// A node label, written `key=value` in policies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Without the prefix that the controller puts before it.
    pub key: Arc<str>,
    /// May be empty.
    pub value: Arc<str>,
}

#[cfg(test)]
mod tests;
