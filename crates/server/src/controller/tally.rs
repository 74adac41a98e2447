//! What the controller has done and held back, counted for `/metrics` and `/readyz`.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use engine::names::PolicyRef;
use engine::plan::{Held, Plan};

use super::lock;

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Labels of a node.
    Labels,
    /// Taints of a node.
    Taints,
    /// Labels of an earlier TAS taken off a node.
    Leftovers,
    /// The annotation that wakes waiting pods.
    Kick,
    /// The status of a policy.
    Status,
}

impl Kind {
    /// One word, for counting.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Taints => "taints",
            Self::Leftovers => "leftovers",
            Self::Kick => "kick",
            Self::Status => "status",
        }
    }
}

/// Where the buckets of the time from a sample to what followed from it end, in milliseconds.
pub(super) const ACTED_BUCKETS_MS: [u64; 10] =
    [500, 1000, 2000, 3000, 5000, 10_000, 15_000, 30_000, 60_000, 300_000];

/// See the module.
#[derive(Debug, Default)]
pub struct Tally(Mutex<Counts>);

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Plans made.
    pub plans: u64,
    /// How long the last took to make.
    pub took: Duration,
    /// Nodes to be written in the last.
    pub nodes: usize,
    /// What it held back.
    pub held: Held,
    /// Writes by what and how they ended.
    pub writes: BTreeMap<(Kind, &'static str), u64>,
    /// Writes put off because the same was refused a moment ago.
    pub put_off: u64,
    /// Nodes that violate each policy, as last told.
    pub violating: BTreeMap<PolicyRef, usize>,
    /// How long after its sample something was done: a count for each bucket and one for longer.
    pub acted: [u64; ACTED_BUCKETS_MS.len() + 1],
    /// The same, added up.
    pub acted_total: Duration,
}

impl Tally {
    /// The counts now.
    pub fn counts(&self) -> Counts {
        lock(&self.0).clone()
    }

    pub(super) fn planned(&self, plan: &Plan, took: Duration) {
        let mut counts = lock(&self.0);
        counts.plans += 1;
        counts.took = took;
        counts.nodes = plan.nodes.len();
        counts.held = plan.held;
        for change in &plan.statuses {
            counts.violating.insert(change.policy.clone(), change.outcome.violating);
        }
    }

    pub(super) fn forget(&self, mut exists: impl FnMut(&PolicyRef) -> bool) {
        lock(&self.0).violating.retain(|policy, _| exists(policy));
    }

    /// Another replica may lead now: what we last saw is no longer ours to report. What we did stays counted.
    pub(super) fn ended(&self) {
        let mut counts = lock(&self.0);
        (counts.took, counts.nodes) = (Duration::ZERO, 0);
        counts.held = Held::default();
        counts.violating.clear();
    }

    pub(super) fn wrote(&self, kind: Kind, outcome: &'static str) {
        *lock(&self.0).writes.entry((kind, outcome)).or_default() += 1;
    }

    pub(super) fn put_off(&self) {
        lock(&self.0).put_off += 1;
    }

    pub(super) fn acted(&self, after: Duration) {
        let mut counts = lock(&self.0);
        let end = |end: &u64| after <= Duration::from_millis(*end);
        let bucket = ACTED_BUCKETS_MS.iter().position(end).unwrap_or(ACTED_BUCKETS_MS.len());
        counts.acted[bucket] += 1;
        counts.acted_total += after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_term_only_what_was_done_is_reported() {
        let tally = Tally::default();
        tally.planned(&Plan::default(), Duration::from_millis(3));
        tally.wrote(Kind::Labels, "stored");
        lock(&tally.0).violating.insert(PolicyRef::new("default", "power").unwrap(), 4);
        tally.ended();
        let writes = BTreeMap::from([((Kind::Labels, "stored"), 1)]);
        assert_eq!(tally.counts(), Counts { plans: 1, writes, ..Counts::default() });
    }
}
