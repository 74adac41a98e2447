//! Every policy looked at on every node: who violates since when, who may go where again, what is held back for good.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::ledger::{Ledger, Passing, PolicyRecord};
use super::marks::NodeMarks;
use super::observed::{Observed, ObservedPolicy, Settings};
use super::outcome::{Asks, HeldBy, MAX_LISTED_NODES, Outcome, ViolatingNode};
use crate::names::{MetricName, NodeName, PolicyRef};
use crate::nodes::NodeIx;
use crate::policy::{Combine, Mark, Mode, OnMissing, Policy};
use crate::snapshot::Column;
use crate::time::Timestamp;
use crate::verdict::{Ground, Verdict, Verdicts};
use crate::view::{Table, View};

/// A node as both sides know it.
pub(super) struct Node<'a> {
    pub(super) name: &'a NodeName,
    pub(super) marks: &'a NodeMarks,
    /// Its number in the view; a node that the view has not heard of is unknown to every rule.
    pub(super) ix: Option<NodeIx>,
}

impl<'a> Node<'a> {
    pub(super) fn all(view: &View, observed: &'a Observed) -> Vec<Self> {
        let node = |(name, marks): (&'a NodeName, &'a Arc<NodeMarks>)| Self {
            name,
            marks,
            ix: view.nodes.find(name.as_str()),
        };
        observed.nodes.iter().map(node).collect()
    }

    pub(super) fn verdict(&self, verdicts: &Verdicts, now: Timestamp) -> Verdict {
        self.ix.map_or(Verdict::Unknown, |ix| verdicts.row(ix, now).verdict)
    }
}

/// A policy as both sides know it, and what is true of it.
pub(super) struct Subject<'a> {
    pub(super) policy: &'a PolicyRef,
    pub(super) table: Option<&'a Table>,
    /// Whether its labels are to be written.
    pub(super) labels: bool,
    /// Whether its taints are.
    pub(super) taints: bool,
    /// Whether more is known of it in a moment.
    pub(super) awaited: bool,
    pub(super) outcome: Outcome,
    pub(super) record: PolicyRecord,
}

/// What the look at all policies yields.
pub(super) struct Survey<'a> {
    pub(super) subjects: Vec<Subject<'a>>,
    /// Nodes that pods may go to again while they wait, and one of their policies.
    pub(super) recovered: BTreeMap<NodeIx, &'a PolicyRef>,
}

impl<'a> Survey<'a> {
    pub(super) fn of(
        view: &'a View,
        observed: &'a Observed,
        ledger: &mut Ledger,
        nodes: &[Node<'a>],
        now: Timestamp,
    ) -> Self {
        let mut recovered = BTreeMap::new();
        let mut subjects = Vec::with_capacity(observed.policies.len());
        for (policy, seen) in &observed.policies {
            let record = ledger.policies.remove(policy);
            let mut subject = Subject::new(view, policy, seen, &observed.settings, record, now);
            subject.judge(nodes, now);
            let period = observed.settings.sync_period;
            for ix in subject.recoveries(nodes, period.saturating_mul(2), now) {
                if seen.waiting > 0 {
                    recovered.entry(ix).or_insert(policy);
                }
            }
            subjects.push(subject);
        }
        let mut dry = Dry { view, now, known: BTreeMap::new() };
        for subject in &mut subjects {
            if let Some(table) = subject.table {
                subject.outcome.dry = dry.metrics(&table.policy);
            }
        }
        Self { subjects, recovered }
    }
}

impl<'a> Subject<'a> {
    fn new(
        view: &'a View,
        policy: &'a PolicyRef,
        seen: &ObservedPolicy,
        settings: &Settings,
        record: Option<PolicyRecord>,
        now: Timestamp,
    ) -> Self {
        let table = view.table(policy.key()).map(|table| &**table);
        let mode = table.map_or(Mode::Enforce, |table| table.policy.mode);
        let acts = table.is_some() && mode == Mode::Enforce;
        let asks = table.map(|table| Asks::of(&table.policy)).unwrap_or_default();
        let outcome = Outcome {
            generation: seen.generation,
            judged: table.is_some(),
            mode,
            paused: settings.paused,
            asks,
            refused: Asks {
                labels: asks.labels && !settings.may_label.hold(policy.namespace()),
                taints: asks.taints && !settings.may_taint.hold(policy.namespace()),
            },
            ..Outcome::default()
        };
        let fresh = || PolicyRecord {
            uid: Arc::clone(&seen.uid),
            begun: now,
            since: vec![None; view.nodes.len()].into(),
            passing: vec![Passing::Settled; view.nodes.len()].into(),
            told: None,
        };
        let inherited = |mut record: PolicyRecord| {
            for (node, since) in &seen.since {
                if let Some(ix) = view.nodes.find(node.as_str()) {
                    record.since[ix.place()] = Some(*since);
                }
            }
            record
        };
        Self {
            policy,
            table,
            labels: acts && settings.may_label.hold(policy.namespace()),
            taints: acts && settings.may_taint.hold(policy.namespace()),
            awaited: seen.awaited,
            outcome,
            record: record.filter(|record| record.uid == seen.uid).unwrap_or_else(|| inherited(fresh())),
        }
    }

    fn judge(&mut self, nodes: &[Node<'_>], now: Timestamp) {
        let Some(table) = self.table else { return };
        let outcome = &mut self.outcome;
        let marks = table.policy.deschedule.as_ref().map_or(&[][..], |deschedule| &deschedule.marks);
        let (mut leaving, mut listed) = (0, Vec::new());
        for node in nodes {
            let leaves = table.deschedule.as_ref().map(|verdicts| node.verdict(verdicts, now));
            let refused = table.placement.as_ref().map(|verdicts| match node.ix {
                None => Verdict::Unknown,
                Some(ix) => match verdicts.row(ix, now) {
                    // What is only expected is not true yet.
                    row if row.ground == Ground::Expected => Verdict::Pass,
                    row => row.verdict,
                },
            });
            let says = |verdict| leaves == Some(verdict) || refused == Some(verdict);
            let since = node.ix.map(|ix| &mut self.record.since[ix.place()]);
            if says(Verdict::Violating) {
                outcome.violating += 1;
                leaving += usize::from(leaves == Some(Verdict::Violating));
                let since = since.map_or(now, |since| *since.get_or_insert(now));
                if listed.len() < MAX_LISTED_NODES {
                    listed.push(ViolatingNode { node: node.name.clone(), since, why: table.why(node, now) });
                }
            } else if says(Verdict::Unknown) {
                outcome.unknown += 1;
            } else if let Some(since) = since {
                *since = None;
            }
            if !table.labeling.is_empty() {
                outcome.labelled += usize::from(table.wins_labels(node, now));
            }
        }
        outcome.nodes = nodes.len();
        outcome.listed = listed.into();
        // Nothing of these will be written whatever happens, so they are counted here and not mark by mark.
        let refusal = if outcome.mode == Mode::Shadow { HeldBy::Shadow } else { HeldBy::Namespace };
        for mark in marks {
            let allowed = match mark {
                Mark::Label => self.labels,
                Mark::Taint(_) => self.taints,
            };
            if !allowed {
                outcome.held.add(refusal, leaving);
            }
        }
        if !self.labels {
            outcome.held.add(refusal, outcome.labelled);
        }
        if marks.is_empty() {
            outcome.held.add(HeldBy::NameTooLong, leaving);
        }
    }

    /// Notes who is refused, and yields the nodes that pods may go to again since not longer than `lately`.
    fn recoveries(&mut self, nodes: &[Node<'_>], lately: std::time::Duration, now: Timestamp) -> Vec<NodeIx> {
        let mut recovered = Vec::new();
        let Some(table) = self.table else { return recovered };
        let Some(verdicts) = table.placement.as_ref().filter(|_| table.policy.mode == Mode::Enforce) else {
            self.record.passing.fill(Passing::Settled);
            return recovered;
        };
        let denies = table.policy.on_missing == OnMissing::Deny;
        for ix in nodes.iter().filter_map(|node| node.ix) {
            let refused = match verdicts.row(ix, now).verdict {
                Verdict::Pass => false,
                Verdict::Violating => true,
                Verdict::Unknown => denies,
            };
            let passing = &mut self.record.passing[ix.place()];
            *passing = match *passing {
                _ if refused => Passing::Refused,
                Passing::Refused => Passing::Recovered(now),
                // A clock that was put back must not make this last.
                Passing::Recovered(at) if now.since(at) <= lately => Passing::Recovered(at.min(now)),
                Passing::Recovered(_) | Passing::Settled => Passing::Settled,
            };
            if matches!(passing, Passing::Recovered(_)) {
                recovered.push(ix);
            }
        }
        recovered
    }
}

impl Table {
    /// The rule that a node violates, without numbers.
    fn why(&self, node: &Node<'_>, now: Timestamp) -> Arc<str> {
        let leaving = self.policy.deschedule.as_ref().zip(self.deschedule.as_ref());
        let reason = node.ix.and_then(|ix| {
            leaving
                .filter(|(_, verdicts)| verdicts.row(ix, now).verdict == Verdict::Violating)
                .and_then(|(deschedule, verdicts)| verdicts.reason(&deschedule.when.rules, ix, now))
                .or_else(|| self.placement_reason(ix, now))
        });
        reason.map_or_else(|| Arc::from(""), |reason| Arc::from(reason.stable().to_string()))
    }

    /// Whether a rule of `labeling` brings the node a label.
    fn wins_labels(&self, node: &Node<'_>, now: Timestamp) -> bool {
        let Some(labeling) = &self.policy.labeling else { return false };
        let mut rules = labeling.rules.iter().zip(&self.labeling);
        let holds = |verdicts: &Verdicts| node.verdict(verdicts, now) == Verdict::Violating;
        match labeling.combine {
            Combine::AnyOf => rules.any(|(rule, verdicts)| !rule.labels.is_empty() && holds(verdicts)),
            Combine::AllOf => {
                labeling.rules.iter().any(|rule| !rule.labels.is_empty())
                    && rules.all(|(_, verdicts)| holds(verdicts))
            }
        }
    }
}

impl Asks {
    fn of(policy: &Policy) -> Self {
        let marks = policy.deschedule.as_ref().map_or(&[][..], |deschedule| &deschedule.marks);
        let won = policy.labeling.iter().flat_map(|labeling| &labeling.rules);
        Self {
            labels: marks.contains(&Mark::Label) || won.into_iter().any(|rule| !rule.labels.is_empty()),
            taints: marks.iter().any(|mark| matches!(mark, Mark::Taint(_))),
        }
    }
}

/// Which metrics have no fresh sample at all; each is looked at once.
struct Dry<'a> {
    view: &'a View,
    now: Timestamp,
    known: BTreeMap<(&'a MetricName, Duration), bool>,
}

impl<'a> Dry<'a> {
    fn metrics(&mut self, policy: &'a Policy) -> Box<[MetricName]> {
        let ruled = policy.rules().map(|rule| (&rule.metric, rule.max_age));
        let preferred =
            policy.scheduleonmetric.iter().map(|preference| (&preference.metric, preference.max_age));
        let mut dry: Vec<MetricName> = ruled
            .chain(preferred)
            .filter(|&(metric, max_age)| {
                let (view, now) = (self.view, self.now);
                *self.known.entry((metric, max_age)).or_insert_with(|| {
                    let fresh = |column: &Arc<Column>| {
                        view.nodes
                            .all()
                            .any(|ix| column.get(ix).is_some_and(|sample| now <= sample.taken.after(max_age)))
                    };
                    !view.snapshot.column(metric.as_str()).is_some_and(fresh)
                })
            })
            .map(|(metric, _)| metric.clone())
            .collect();
        dry.sort_unstable();
        dry.dedup();
        dry.into()
    }
}
