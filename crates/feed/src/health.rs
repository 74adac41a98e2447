//! What is known, how old that is, and what went wrong: one value for `/metrics`, `/readyz`, status and log.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::names::MetricName;
use engine::time::Timestamp;
use engine::{Extent, SnapshotId};

use crate::config::Problem;
use crate::mapping::{AgeKnown, Unmapped};
use crate::prometheus::decode::Refused;
use crate::world::{ObjectKey, PolicyFacts, Watched};

/// Skipped objects that are named; the rest is only counted.
pub(crate) const NAMED_SKIPPED: usize = 8;

/// The facts of a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// How the watches are.
    pub watches: BTreeMap<Watched, WatchHealth>,
    /// How reading metrics goes.
    pub reading: ReadingHealth,
    /// Every metric that is wanted.
    pub metrics: BTreeMap<MetricName, MetricHealth>,
    /// Metrics that policies name and nobody reads, because they are too many.
    pub left_out: Vec<MetricName>,
    /// Every policy object, usable or not.
    pub policies: BTreeMap<ObjectKey, PolicyFacts>,
    /// What is wrong with the installed definition of policies.
    pub definition: Option<String>,
    /// Why the configuration file as it stands is not in use; empty if it is.
    pub config_problems: Vec<Problem>,
    /// How judging goes.
    pub judging: JudgingHealth,
}

/// How one watch is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchHealth {
    /// It has told of all there is at least once.
    pub synced: bool,
    /// What keeps it from telling more.
    pub trouble: Option<String>,
    /// Objects left out since the start.
    pub skipped: u64,
    /// The last of them, and why.
    pub skipped_lately: Vec<String>,
}

/// How reading metrics goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadingHealth {
    /// Readings that ended, with or without samples.
    pub attempts: u64,
    /// The moment the last of them was for.
    pub last: Option<Timestamp>,
    /// The moment of the last with at least one metric's samples.
    pub last_success: Option<Timestamp>,
    /// How many in a row had none at all although metrics were wanted.
    pub failures_in_a_row: u32,
    /// Why the last had none.
    pub error: Option<String>,
    /// What the backend warned of.
    pub warnings: Vec<String>,
    /// Moments that passed because the reading before took too long.
    pub skipped: u64,
    /// How long the last took.
    pub took: Duration,
}

/// How one metric is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetricHealth {
    /// The query or name that answered last.
    pub answered_by: Option<String>,
    /// The moment of the last answer.
    pub answered: Option<Timestamp>,
    /// Why there is no newer one.
    pub error: Option<String>,
    /// Whether samples carry their own time; if not, that is the condition `AgeUnknown`.
    pub age: AgeKnown,
    /// Series of the last answer that belong to no node.
    pub unmapped: Unmapped,
    /// Values left out since the start.
    pub refused: Refused,
    /// How many nodes have a sample, and when the oldest and the newest were taken.
    pub extent: Option<Extent>,
}

/// How judging goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgingHealth {
    /// Views published since the start.
    pub views: u64,
    /// The last of them.
    pub view: SnapshotId,
    /// When it was published.
    pub published: Option<Timestamp>,
    /// How long it took to make.
    pub took: Duration,
    /// Nodes in it.
    pub nodes: usize,
    /// Policies in it.
    pub policies: usize,
    /// Samples left out since the start, because they lie in the future.
    pub from_the_future: u64,
    /// How often judging broke off; the view before stays in use.
    pub panics: u64,
    /// Whether a view was published that was made after the first reading, whatever that brought.
    pub after_reading: bool,
}

impl Health {
    /// What is known and how old that is, in one line.
    pub fn summary(&self, now: Timestamp) -> String {
        let ago = |moment: Option<Timestamp>| {
            moment.map_or("never".to_owned(), |moment| format!("{} s ago", now.since(moment).as_secs()))
        };
        let unusable = self.policies.values().filter(|policy| policy.policy.is_none()).count();
        let silent =
            self.metrics.values().filter(|metric| metric.error.is_some()).count() + self.left_out.len();
        let of =
            |count: usize, what: &str| if count == 0 { String::new() } else { format!(" ({count} {what})") };
        let oldest =
            self.metrics.values().filter_map(|metric| metric.extent).map(|extent| extent.oldest).min();
        format!(
            "{} nodes, {} policies{}, {} metrics{}; metrics read {}, oldest sample taken {}, view made {}",
            self.judging.nodes,
            self.policies.len(),
            of(unusable, "unusable"),
            self.metrics.len() + self.left_out.len(),
            of(silent, "without an answer"),
            ago(self.reading.last_success),
            ago(oldest),
            ago(self.judging.published),
        )
    }

    /// What keeps us from being ready; nothing when we are. A backend that is down does not: rows expire, and
    /// policies say what happens then.
    pub fn unready(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for watched in Watched::ALL {
            let watch = self.watches.get(&watched).cloned().unwrap_or_default();
            if !watch.synced {
                let why = watch.trouble.unwrap_or_else(|| "not listed yet".to_owned());
                reasons.push(format!("{}: {why}", watched.as_str()));
            }
        }
        if self.reading.attempts == 0 {
            reasons.push("metrics: no reading attempted yet".to_owned());
        }
        if self.judging.views == 0 {
            reasons.push("view: none published yet".to_owned());
        } else if self.reading.attempts > 0 && !self.judging.after_reading {
            reasons.push("view: the first reading is being judged".to_owned());
        }
        reasons
    }
}
