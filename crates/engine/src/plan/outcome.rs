//! What is true of a policy at a moment, for its status: counted, listed, and held back by what.

use std::fmt;
use std::sync::Arc;

use crate::names::{MetricName, NodeName};
use crate::policy::Mode;
use crate::time::Timestamp;

/// Most nodes that an outcome lists by name; the counts are exact.
pub const MAX_LISTED_NODES: usize = 50;

/// What is true of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Of which edition of the object.
    pub generation: i64,
    /// Whether the view holds it; nothing else is known of one that it does not.
    pub judged: bool,
    /// Whether it acts or only reports.
    pub mode: Mode,
    /// Whether everything is paused.
    pub paused: bool,
    /// What it asks to be written on nodes.
    pub asks: Asks,
    /// What of that it may not, because of its namespace.
    pub refused: Asks,
    /// Nodes it was judged on.
    pub nodes: usize,
    /// How many of them violate `dontschedule` or `deschedule`.
    pub violating: usize,
    /// The first of those by name.
    pub listed: Box<[ViolatingNode]>,
    /// How many cannot be judged and so do not count.
    pub unknown: usize,
    /// On how many a label of `labeling` is won.
    pub labelled: usize,
    /// Metrics it looks at of which no node has a fresh sample.
    pub dry: Box<[MetricName]>,
    /// What should have been written for it but is not.
    pub held: Held,
    /// A node whose label of the same key belongs to somebody else.
    pub foreign: Option<NodeName>,
    /// The first node by name that the API server does not let us write on, and what it says.
    pub unwritable: Option<(NodeName, Arc<str>)>,
    /// Other namespaces with a policy of this name that writes the same keys.
    pub shares: Box<[Arc<str>]>,
}

/// A node that violates a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViolatingNode {
    /// Which node.
    pub node: NodeName,
    /// Since when.
    pub since: Timestamp,
    /// By which rule, without numbers that change from sample to sample.
    pub why: Arc<str>,
}

/// What a policy asks to be written on nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asks {
    /// A label: of `deschedule` or of `labeling`.
    pub labels: bool,
    /// A taint.
    pub taints: bool,
}

/// Why something is not written that should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HeldBy {
    /// Everything is paused.
    Pause,
    /// The policy only reports.
    Shadow,
    /// The policy's namespace may not write this on nodes.
    Namespace,
    /// The policy's name does not fit into a label or taint.
    NameTooLong,
    /// Nobody knows whether the mark still holds.
    Unknown,
    /// The label belongs to somebody else.
    ForeignLabel,
    /// Enough was written lately.
    RateLimit,
    /// The API server refused it.
    Refused,
}

impl HeldBy {
    /// Every cause.
    pub const ALL: [Self; 8] = [
        Self::Pause,
        Self::Shadow,
        Self::Namespace,
        Self::NameTooLong,
        Self::Unknown,
        Self::ForeignLabel,
        Self::RateLimit,
        Self::Refused,
    ];

    /// One word, for counting; it does not change.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pause => "paused",
            Self::Shadow => "shadow",
            Self::Namespace => "namespace",
            Self::NameTooLong => "name_too_long",
            Self::Unknown => "unknown",
            Self::ForeignLabel => "foreign_label",
            Self::RateLimit => "rate_limit",
            Self::Refused => "refused",
        }
    }

    /// For people, after a number: `3 by the rate limit`.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Pause => "by the pause",
            Self::Shadow => "by mode Shadow",
            Self::Namespace => "because the namespace may not write on nodes",
            Self::NameTooLong => "because the policy's name is too long",
            Self::Unknown => "until the metric is known again",
            Self::ForeignLabel => "because the label belongs to somebody else",
            Self::RateLimit => "by the rate limit",
            Self::Refused => "because the API server refused",
        }
    }
}

/// How many marks are held back, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held([usize; HeldBy::ALL.len()]);

impl Held {
    /// How many by this cause.
    pub fn by(&self, cause: HeldBy) -> usize {
        self.0[cause as usize]
    }

    /// The causes that hold something back.
    pub fn causes(&self) -> impl Iterator<Item = (HeldBy, usize)> + '_ {
        HeldBy::ALL.into_iter().map(|cause| (cause, self.by(cause))).filter(|(_, count)| *count > 0)
    }

    pub(crate) fn add(&mut self, cause: HeldBy, count: usize) {
        self.0[cause as usize] += count;
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum += count;
        }
    }
}

/// `3 by the rate limit, 1 by the pause`; empty if nothing is held back.
impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (cause, count)) in self.causes().enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {}", cause.words())?;
        }
        Ok(())
    }
}
