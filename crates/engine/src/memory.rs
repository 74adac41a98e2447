//! What `for` and `clear` need to remember: a fold over samples, the same in every replica that saw them.
//!
//! Tracks are kept per condition, not per policy: two policies with the same rule share one, and editing
//! one rule of a policy leaves the memory of the others alone.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::names::MetricName;
use crate::nodes::{Moved, NodeIndex, NodeIx};
use crate::policy::{Rule, Threshold};
use crate::snapshot::{Column, Sample};
use crate::time::Timestamp;

/// What was learnt of every condition that remembers, on every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    nodes: Arc<NodeIndex>,
    tracks: BTreeMap<Condition, Box<[Track]>>,
}

/// What a rule says, apart from whose rule it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Condition {
    metric: MetricName,
    threshold: Threshold,
    hold: Duration,
    max_age: Duration,
}

impl Condition {
    pub(crate) fn of(rule: &Rule) -> Self {
        Self {
            metric: rule.metric.clone(),
            threshold: rule.threshold,
            hold: rule.hold,
            max_age: rule.max_age,
        }
    }

    pub(crate) fn metric(&self) -> &MetricName {
        &self.metric
    }
}

/// One condition on one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Track {
    /// The verdict as it stands. Without history: not violating.
    pub(crate) violating: bool,
    /// Since when samples have said the opposite without a break.
    contrary_since: Option<Timestamp>,
    /// The oldest sample that counts.
    began: Option<Timestamp>,
    /// The newest sample folded in; older ones change nothing.
    last: Option<Timestamp>,
}

impl Track {
    fn fold(&mut self, condition: &Condition, sample: Sample) {
        let Sample { value, taken, newest: at } = sample;
        if self.last.is_some_and(|last| at < last) {
            return;
        }
        if at.since(taken) > condition.max_age {
            // A part of it is too old to count, so nobody knows what goes on, and nothing counts as having held.
            *self = Self { last: Some(at), ..Self::default() };
            return;
        }
        if self.last.is_some_and(|last| at.since(last) > condition.max_age) {
            // Nobody knows what went on in the gap.
            *self = Self::default();
        }
        let again = self.last == Some(at);
        self.began.get_or_insert(at);
        self.last = Some(at);
        let says =
            if self.violating { condition.threshold.stays(value) } else { condition.threshold.enters(value) };
        if says == self.violating {
            self.contrary_since = None;
            return;
        }
        let since = self.contrary_since.unwrap_or(at);
        if at.since(since) >= condition.hold {
            self.violating = says;
            self.contrary_since = None;
        } else if !again {
            // What changed without a newer time did so at some moment after that time: it holds from the next on.
            self.contrary_since = Some(since);
        }
    }
}

impl Track {
    /// Folds samples of one node in, in the order taken. A look back that reaches further than we do, and up to
    /// where we are, is the whole story: it is told from its beginning.
    fn fold_all(&mut self, condition: &Condition, samples: &[(NodeIx, Sample)]) {
        let reaches_back =
            |(_, first): &(NodeIx, Sample)| self.began.is_some_and(|began| first.newest < began);
        let reaches_us = |(_, last): &(NodeIx, Sample)| Some(last.newest) >= self.last;
        if samples.first().is_some_and(reaches_back) && samples.last().is_some_and(reaches_us) {
            *self = Self::default();
        }
        for &(_, sample) in samples {
            self.fold(condition, sample);
        }
    }
}

impl Memory {
    /// Numbers the tracks like `nodes`; a node that is new has no history.
    pub(crate) fn renumbered(mut self, nodes: &Arc<NodeIndex>) -> Self {
        if let Some(moved) = Moved::between(&self.nodes, nodes) {
            for tracks in self.tracks.values_mut() {
                *tracks = moved.rearrange(tracks, Track::default());
            }
        }
        self.nodes = Arc::clone(nodes);
        self
    }

    /// Keeps tracks for these conditions alone. A new one starts from all that is there: the newest sample of
    /// before, and what has come in since, in the order taken.
    pub(crate) fn for_conditions<'a>(
        mut self,
        conditions: impl Iterator<Item = Condition>,
        known: impl Fn(&MetricName) -> Option<&'a Arc<Column>>,
        fresh: impl Fn(&MetricName) -> &'a [(NodeIx, Sample)],
    ) -> Self {
        let mut before = std::mem::take(&mut self.tracks);
        for condition in conditions {
            if self.tracks.contains_key(&condition) {
                continue;
            }
            let tracks = before.remove(&condition).unwrap_or_else(|| {
                let mut tracks = vec![Track::default(); self.nodes.len()].into_boxed_slice();
                let column = known(&condition.metric);
                let newest = |node| column.and_then(|column| column.get(node)).map(|sample| (node, sample));
                let mut samples: Vec<_> = self.nodes.all().filter_map(newest).collect();
                samples.extend_from_slice(fresh(&condition.metric));
                samples.sort_by_key(|&(node, sample)| (node, sample.newest));
                for (node, sample) in samples {
                    if let Some(track) = tracks.get_mut(node.place()) {
                        track.fold(&condition, sample);
                    }
                }
                tracks
            });
            self.tracks.insert(condition, tracks);
        }
        self
    }

    /// Folds samples of one metric in; `samples` are in the order they were taken, node by node.
    pub(crate) fn fold(&mut self, metric: &MetricName, samples: &[(NodeIx, Sample)]) {
        for (condition, tracks) in
            self.tracks.iter_mut().filter(|(condition, _)| condition.metric() == metric)
        {
            for of_node in samples.chunk_by(|(one, _), (other, _)| one == other) {
                let track = of_node.first().and_then(|(node, _)| tracks.get_mut(node.place()));
                if let Some(track) = track {
                    track.fold_all(condition, of_node);
                }
            }
        }
    }

    pub(crate) fn tracks(&self, rule: &Rule) -> Option<&[Track]> {
        if rule.remembers() { self.tracks.get(&Condition::of(rule)).map(|tracks| &**tracks) } else { None }
    }
}

#[cfg(test)]
mod tests;
