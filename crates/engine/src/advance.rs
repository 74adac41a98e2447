//! From one view to the next: takes in what has come since, and judges every policy on every node.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::load::{InFlight, Placement};
use crate::memory::{Condition, Memory};
use crate::messages::Messages;
use crate::names::MetricName;
use crate::nodes::{Moved, NodeIndex, NodeIx};
use crate::policy::{Policy, Rule, RuleSet};
use crate::snapshot::{Batch, Column, Sample, Snapshot};
use crate::time::Timestamp;
use crate::verdict::{Moment, Outlook, Verdicts};
use crate::view::{Dropped, SnapshotId, Table, View};

/// How far ahead of us a sensor's clock may run. A sample from further ahead would outlive every honest
/// one after it, so it is left out.
pub const MAX_CLOCK_LEAD: Duration = Duration::from_mins(1);

/// What has come in.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// The nodes there are now.
    pub nodes: Arc<NodeIndex>,
    /// The policies there are now; of two by the same name the last counts.
    pub policies: Vec<Arc<Policy>>,
    /// Metrics to keep beside those that policies look at; samples of any other are left out.
    pub extra_metrics: Vec<MetricName>,
    /// Samples since the last call.
    pub samples: Vec<Batch>,
    /// Pods placed lately: all that a metric may not show yet, each time.
    pub placed: Vec<Placement>,
}

/// The next view and memory, and when to call again even if nothing comes in: at that moment the first
/// verdict expires.
pub fn advance(
    prev: &View,
    memory: Memory,
    inputs: &Inputs,
    now: Timestamp,
) -> (View, Memory, Option<Timestamp>) {
    let nodes = &inputs.nodes;
    let policies: BTreeMap<_, _> = inputs.policies.iter().map(|policy| (&policy.name, policy)).collect();
    let rules = || policies.values().flat_map(|policy| policy.rules()).filter(|rule| rule.remembers());
    let wanted: BTreeSet<&MetricName> =
        policies.values().flat_map(|policy| policy.metrics()).chain(&inputs.extra_metrics).collect();
    let (fresh, dropped) = fresh_samples(inputs, &wanted, now);

    // Conditions that are new start from what was known before; what came in now is folded after that.
    let mut columns = carried_over(prev, nodes, &wanted);
    let mut memory = memory.renumbered(nodes).for_conditions(
        rules().map(Condition::of),
        |metric| columns.get(metric),
        |metric| fresh.get(metric).map_or(&[], |samples| &**samples),
    );
    for (metric, samples) in &fresh {
        memory.fold(metric, samples);
        let column = columns
            .entry((*metric).clone())
            .or_insert_with(|| Arc::new(Column::empty((*metric).clone(), nodes.len())));
        let column = Arc::make_mut(column);
        for &(node, sample) in samples.iter() {
            column.offer(node, sample);
        }
    }

    let snapshot = Arc::new(Snapshot::new(columns.into_values().collect()));
    let in_flight = InFlight::new(&inputs.placed);
    let moment = Moment { nodes, snapshot: &snapshot, memory: &memory, in_flight: &in_flight, now };
    let tables: Box<[_]> = policies.values().map(|policy| Arc::new(moment.table(policy))).collect();
    let wake = tables.iter().filter_map(|table| table.first_expiry()).min();
    let id = SnapshotId(prev.id.0 + 1);
    (View { id, nodes: Arc::clone(nodes), snapshot, tables, dropped }, memory, wake)
}

type FreshSamples<'a> = BTreeMap<&'a MetricName, Cow<'a, [(NodeIx, Sample)]>>;

/// What came in, by metric, node by node in the order taken, without what lies in the future. Batches that
/// are in order already, as sources deliver them, are not copied.
fn fresh_samples<'a>(
    inputs: &'a Inputs,
    wanted: &BTreeSet<&MetricName>,
    now: Timestamp,
) -> (FreshSamples<'a>, Dropped) {
    let latest = now.after(MAX_CLOCK_LEAD);
    let in_time = |&(_, sample): &(NodeIx, Sample)| sample.newest <= latest;
    let place = |&(node, sample): &(NodeIx, Sample)| (node, sample.newest);
    let mut fresh = FreshSamples::new();
    let mut dropped = Dropped::default();
    for batch in inputs.samples.iter().filter(|batch| wanted.contains(&batch.metric)) {
        let samples = match fresh.remove(&batch.metric) {
            None if batch.samples.iter().all(in_time) => Cow::Borrowed(batch.samples.as_slice()),
            earlier => {
                let mut samples = earlier.map(Cow::into_owned).unwrap_or_default();
                let before = samples.len();
                samples.extend(batch.samples.iter().copied().filter(in_time));
                dropped.from_the_future += (batch.samples.len() - (samples.len() - before)) as u64;
                Cow::Owned(samples)
            }
        };
        fresh.insert(&batch.metric, samples);
    }
    for samples in fresh.values_mut().filter(|samples| !samples.is_sorted_by_key(place)) {
        samples.to_mut().sort_by_key(place);
    }
    (fresh, dropped)
}

/// The columns of before that are still of use, numbered like `nodes`.
fn carried_over(
    prev: &View,
    nodes: &NodeIndex,
    wanted: &BTreeSet<&MetricName>,
) -> BTreeMap<MetricName, Arc<Column>> {
    let moved = Moved::between(&prev.nodes, nodes);
    let renumbered = |column: &Arc<Column>| match &moved {
        Some(moved) => Arc::new(column.rearranged(moved)),
        None => Arc::clone(column),
    };
    let kept = prev.snapshot.columns().iter().filter(|column| wanted.contains(column.metric()));
    kept.map(|column| (column.metric().clone(), renumbered(column))).collect()
}

impl Moment<'_> {
    fn table(&self, policy: &Arc<Policy>) -> Table {
        let alone =
            |rule: &Rule| RuleSet { combine: crate::policy::Combine::AnyOf, rules: [rule.clone()].into() };
        let labeling = policy.labeling.iter().flat_map(|labeling| &labeling.rules);
        Table {
            policy: Arc::clone(policy),
            placement: policy.dontschedule.as_ref().and_then(|set| self.judge(set, Outlook::Expected)),
            deschedule: policy.deschedule.as_ref().and_then(|d| self.judge(&d.when, Outlook::ObservedOnly)),
            labeling: labeling.filter_map(|l| self.judge(&alone(&l.rule), Outlook::ObservedOnly)).collect(),
            scorers: self.scorers(&policy.scheduleonmetric),
            messages: Messages::of(policy),
        }
    }
}

impl Table {
    /// When the first of its verdicts runs out.
    fn first_expiry(&self) -> Option<Timestamp> {
        let verdicts = self.placement.iter().chain(&self.deschedule).chain(&self.labeling);
        verdicts.filter_map(Verdicts::first_expiry).min()
    }
}

impl Verdicts {
    fn first_expiry(&self) -> Option<Timestamp> {
        // One past `until`: at that moment itself the verdict still holds.
        let first = self.rows.iter().map(|row| row.until).min()?;
        (first != Timestamp::NEVER).then(|| first.after(Duration::from_millis(1)))
    }
}
