//! When a node counts as violating: one rule, then rules together. Evaluated when something changes,
//! never when the scheduler asks.

use std::sync::Arc;

use crate::load::{InFlight, Unsettled};
use crate::memory::{Memory, Track};
use crate::nodes::{NodeIndex, NodeIx};
use crate::policy::{Combine, Rule, RuleSet};
use crate::rows::Rows;
use crate::snapshot::{Column, Snapshot};
use crate::time::Timestamp;

/// What a set of rules says of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing to object to.
    Pass,
    /// The rules hold: a violation.
    Violating,
    /// Not enough is known to say.
    Unknown,
}

/// On what ground a rule came to its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ground {
    /// The newest sample.
    Observed,
    /// An earlier sample: the violation has not cleared for long enough.
    Held,
    /// The newest sample and the pods it does not show yet.
    Expected,
    /// No sample has ever come in.
    Missing,
    /// The newest sample is too old.
    Stale,
}

/// What a refusal rests on, without numbers: [`crate::Table::message`] puts it in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A rule of the set, by its place, and on what ground.
    Rule {
        /// Which rule.
        place: u16,
        /// On what ground.
        ground: Ground,
    },
    /// Nobody has heard of the node.
    NodeUnknown,
}

/// A verdict on one node, good until a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The verdict; past `until` it is unknown, whatever stands here.
    pub verdict: Verdict,
    /// The ground of the rule that decided.
    pub ground: Ground,
    /// Which rule decided, by its place in the set.
    pub rule: u16,
    /// The last moment at which this still holds.
    pub until: Timestamp,
}

impl Row {
    /// The row as a reader must take it at `now`: even if nobody refreshes any more, old data expires.
    #[must_use]
    pub fn at(self, now: Timestamp) -> Self {
        if now > self.until {
            Self { verdict: Verdict::Unknown, ground: Ground::Stale, until: Timestamp::NEVER, ..self }
        } else {
            self
        }
    }
}

/// A set of rules judged on every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// A row per node.
    pub(crate) rows: Rows,
    pub(crate) evidence: Box<[Evidence]>,
}

/// What one rule was judged by; kept so that a reason can quote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Evidence {
    pub(crate) column: Option<Arc<Column>>,
    pub(crate) unsettled: Option<Unsettled>,
}

/// Everything a moment's verdicts are drawn from.
#[derive(Clone, Copy)]
pub(crate) struct Moment<'a> {
    pub(crate) nodes: &'a NodeIndex,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) memory: &'a Memory,
    pub(crate) in_flight: &'a InFlight,
    pub(crate) now: Timestamp,
}

/// Whether pods on their way count. Enforcement never acts on what is only expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outlook {
    Expected,
    ObservedOnly,
}

impl Moment<'_> {
    /// Judges a set of rules on every node; nothing for a set without rules.
    pub(crate) fn judge(&self, set: &RuleSet, outlook: Outlook) -> Option<Verdicts> {
        let evidence: Box<[Evidence]> = set.rules.iter().map(|rule| self.evidence(rule, outlook)).collect();
        let judges: Vec<RuleJudge<'_>> =
            set.rules.iter().zip(&evidence).map(|(rule, evidence)| self.judge_of(rule, evidence)).collect();
        let rows = match judges.as_slice() {
            [] => return None,
            [only] => Rows::new(self.now, self.nodes.all().map(|node| only.row(node, 0))),
            several => Rows::new(
                self.now,
                self.nodes
                    .all()
                    .map(|node| combined(set.combine, (0..).zip(several).map(|(i, j)| j.row(node, i)))),
            ),
        };
        Some(Verdicts { rows, evidence })
    }

    fn evidence(&self, rule: &Rule, outlook: Outlook) -> Evidence {
        let column = self.snapshot.column(rule.metric.as_str()).cloned();
        let unsettled = match (&column, outlook, rule.load.per_pod) {
            (Some(column), Outlook::Expected, Some(_)) => {
                self.in_flight.unsettled(column, rule.load.settle, self.nodes.len())
            }
            _ => None,
        };
        Evidence { column, unsettled }
    }

    fn judge_of<'e>(&'e self, rule: &'e Rule, evidence: &'e Evidence) -> RuleJudge<'e> {
        RuleJudge { rule, evidence, tracks: self.memory.tracks(rule), now: self.now }
    }
}

/// One rule, ready to be asked node by node.
struct RuleJudge<'a> {
    rule: &'a Rule,
    evidence: &'a Evidence,
    tracks: Option<&'a [Track]>,
    now: Timestamp,
}

impl RuleJudge<'_> {
    fn row(&self, node: NodeIx, place: u16) -> Row {
        let row = |verdict, ground, until| Row { verdict, ground, rule: place, until };
        let unknown = |ground| row(Verdict::Unknown, ground, Timestamp::NEVER);
        let Some(sample) = self.evidence.column.as_ref().and_then(|column| column.get(node)) else {
            return unknown(Ground::Missing);
        };
        let until = sample.taken.after(self.rule.max_age);
        if self.now > until {
            return unknown(Ground::Stale);
        }
        let threshold = &self.rule.threshold;
        let enters = threshold.enters(sample.value);
        let violating =
            self.tracks.and_then(|tracks| tracks.get(node.place())).map_or(enters, |t| t.violating);
        if violating {
            let ground = if enters { Ground::Observed } else { Ground::Held };
            return row(Verdict::Violating, ground, until);
        }
        if let (Some(unsettled), Some(per_pod)) = (&self.evidence.unsettled, self.rule.load.per_pod)
            && let pods @ 1.. = unsettled.on(node)
            && threshold.enters(sample.value.saturating_add(per_pod.saturating_times(pods)))
        {
            return row(Verdict::Violating, Ground::Expected, until);
        }
        row(Verdict::Pass, Ground::Observed, until)
    }
}

/// Rules together, in three-valued logic: what is unknown decides only when it could turn the result.
fn combined(combine: Combine, rows: impl Iterator<Item = Row>) -> Row {
    let (decisive, otherwise) = match combine {
        Combine::AnyOf => (Verdict::Violating, Verdict::Pass),
        Combine::AllOf => (Verdict::Pass, Verdict::Violating),
    };
    let (mut decided, mut unknown, mut undecided) = (None::<Row>, None::<Row>, None::<Row>);
    for row in rows {
        if row.verdict == decisive {
            // One of these is enough, so the last to expire ends the verdict; the first is the one named.
            decided = Some(decided.map_or(row, |first| Row { until: first.until.max(row.until), ..first }));
        } else if row.verdict == Verdict::Unknown {
            unknown.get_or_insert(row);
        } else {
            // All of these together make the verdict, so the first to expire ends it. Where they pass the node,
            // that one is named, because its age is what will be missed; where they violate, the first written
            // is, so that equal refusals read alike.
            undecided = Some(match undecided {
                Some(first) if combine == Combine::AllOf => {
                    Row { until: first.until.min(row.until), ..first }
                }
                Some(first) if first.until <= row.until => first,
                None | Some(_) => row,
            });
        }
    }
    if let Some(decided) = decided {
        return decided;
    }
    let nothing = Row { verdict: Verdict::Pass, ground: Ground::Observed, rule: 0, until: Timestamp::NEVER };
    unknown.or(undecided.map(|row| Row { verdict: otherwise, ..row })).unwrap_or(nothing)
}
