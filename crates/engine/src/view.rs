//! The cluster as all policies see it at one moment: published whole, read without waiting.

use std::sync::Arc;

use crate::messages::Messages;
use crate::names::PolicyKey;
use crate::nodes::{NodeIndex, NodeIx};
use crate::policy::{Policy, Rule};
use crate::quantity::Quantity;
use crate::reason::Reason;
use crate::score::Scorer;
use crate::snapshot::Snapshot;
use crate::time::Timestamp;
use crate::verdict::{Cause, Ground, Row, Verdict, Verdicts};

/// Which of a series of views; grows by one with each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub u64);

/// Everything readers look things up in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Its place in the series.
    pub id: SnapshotId,
    /// The nodes, numbered.
    pub nodes: Arc<NodeIndex>,
    /// The newest samples.
    pub snapshot: Arc<Snapshot>,
    /// A table per policy, in the order of their names.
    pub tables: Box<[Arc<Table>]>,
    /// What had to be left out to get here.
    pub dropped: Dropped,
}

/// Samples that were not taken in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Taken in the future, by a clock that runs ahead.
    pub from_the_future: u64,
}

impl View {
    /// The table of a policy, as a pod names it. No allocation, no lock.
    pub fn table(&self, policy: PolicyKey<'_>) -> Option<&Arc<Table>> {
        let place = self.tables.binary_search_by(|table| table.policy.name.key().cmp(&policy)).ok()?;
        Some(&self.tables[place])
    }
}

/// What one policy says of every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The policy.
    pub policy: Arc<Policy>,
    /// `dontschedule`, with pods on their way counted in; nothing if it has no rules.
    pub placement: Option<Verdicts>,
    /// `deschedule`, by what was observed alone.
    pub deschedule: Option<Verdicts>,
    /// `labeling`, rule by rule, by what was observed alone.
    pub labeling: Box<[Verdicts]>,
    pub(crate) scorers: Box<[Scorer]>,
    pub(crate) messages: Messages,
}

impl Table {
    /// The placement verdict on a node at `now`; a policy without `dontschedule` passes every node.
    pub fn placement(&self, node: NodeIx, now: Timestamp) -> Verdict {
        self.placement.as_ref().map_or(Verdict::Pass, |verdicts| verdicts.row(node, now).verdict)
    }

    /// Why the placement verdict on a node is not a plain pass.
    pub fn placement_reason(&self, node: NodeIx, now: Timestamp) -> Option<Reason> {
        let rules = &self.policy.dontschedule.as_ref()?.rules;
        self.placement.as_ref()?.reason(rules, node, now)
    }

    /// What a pod's event says about a refusal: the policy and the rule, no number that varies by node.
    pub fn message(&self, cause: Cause) -> &str {
        self.messages.of_cause(cause)
    }

    /// The rules of `labeling` that hold on a node, by their place; all or nothing for `allOf`.
    pub fn labels_won(&self, node: NodeIx, now: Timestamp) -> Vec<usize> {
        let holds = |verdicts: &Verdicts| verdicts.row(node, now).verdict == Verdict::Violating;
        let held: Vec<usize> = self
            .labeling
            .iter()
            .enumerate()
            .filter(|(_, rule)| holds(rule))
            .map(|(place, _)| place)
            .collect();
        let all = self.policy.labeling.as_ref().is_some_and(|l| l.combine == crate::policy::Combine::AllOf);
        if all && held.len() < self.labeling.len() { Vec::new() } else { held }
    }
}

impl Verdicts {
    /// The row of a node as it must be taken at `now`.
    pub fn row(&self, node: NodeIx, now: Timestamp) -> Row {
        let unheard_of =
            Row { verdict: Verdict::Unknown, ground: Ground::Missing, rule: 0, until: Timestamp::NEVER };
        self.rows.get(node).map_or(unheard_of, |row| row.at(now))
    }

    /// The newest sample that the first rule was judged by.
    pub(crate) fn observed(&self, node: NodeIx) -> Option<Quantity> {
        Some(self.evidence.first()?.column.as_ref()?.get(node)?.value)
    }

    /// Why the verdict on a node is not a plain pass; `rules` are those it was judged by.
    pub fn reason(&self, rules: &[Rule], node: NodeIx, now: Timestamp) -> Option<Reason> {
        let row = self.row(node, now);
        if row.verdict == Verdict::Pass {
            return None;
        }
        let rule = rules.get(usize::from(row.rule))?;
        let metric = rule.metric.clone();
        let evidence = self.evidence.get(usize::from(row.rule))?;
        let Some(sample) = evidence.column.as_ref().and_then(|column| column.get(node)) else {
            return Some(Reason::Missing { metric });
        };
        let (threshold, observed) = (rule.threshold, sample.value);
        Some(match row.ground {
            Ground::Observed => rule.breaks(observed),
            Ground::Held => Reason::Held { metric, threshold, observed, hold: rule.hold },
            Ground::Expected => {
                let pods = evidence.unsettled.as_ref().map_or(0, |unsettled| unsettled.on(node));
                let added = rule.load.per_pod.unwrap_or_default().saturating_times(pods);
                Reason::Expected { metric, threshold, expected: observed.saturating_add(added), pods }
            }
            Ground::Missing => Reason::Missing { metric },
            Ground::Stale => Reason::Stale { metric, age: now.since(sample.taken) },
        })
    }
}
