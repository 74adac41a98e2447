//! The newest sample of every metric on every node. Immutable: the next snapshot replaces it.

use std::sync::Arc;

use crate::names::MetricName;
use crate::nodes::{Moved, NodeIndex, NodeIx};
use crate::quantity::Quantity;
use crate::time::Timestamp;

/// A value and when it was taken, not when it was fetched. A value made of several readings has two times: it is as
/// old as the oldest of them, and there is news of it whenever there is of the newest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// What the sensor said.
    pub value: Quantity,
    /// When it said so; of several readings, when the oldest was taken. Age goes by this.
    pub taken: Timestamp,
    /// When the newest was taken. Order goes by this.
    pub newest: Timestamp,
}

impl Sample {
    /// A value from one reading.
    pub const fn new(value: Quantity, taken: Timestamp) -> Self {
        Self { value, taken, newest: taken }
    }
}

/// Marks a cell without a sample; no sample is that old.
const NO_SAMPLE: i64 = i64::MIN;

/// One metric on all nodes. Values and times lie apart because that halves the memory of 5,000 nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    metric: MetricName,
    values: Box<[i128]>,
    taken: Box<[i64]>,
    /// Kept apart only where a value was ever made of several readings: of most metrics none is, and that is a quarter of
    /// the room.
    newest: Option<Box<[i64]>>,
}

impl Column {
    pub(crate) fn empty(metric: MetricName, nodes: usize) -> Self {
        Self { metric, values: vec![0; nodes].into(), taken: vec![NO_SAMPLE; nodes].into(), newest: None }
    }

    /// Which metric.
    pub fn metric(&self) -> &MetricName {
        &self.metric
    }

    /// The newest sample of a node, however old.
    pub fn get(&self, node: NodeIx) -> Option<Sample> {
        match self.taken.get(node.place()) {
            None | Some(&NO_SAMPLE) => None,
            Some(&taken) => Some(Sample {
                value: Quantity::from_nanos(self.values[node.place()]),
                taken: Timestamp::from_millis(taken),
                newest: Timestamp::from_millis(self.newest.as_ref().map_or(taken, |all| all[node.place()])),
            }),
        }
    }

    /// Takes a sample in unless the one there is newer. Of two that are equally new the later offer counts: one of
    /// several readings can change without being the newest of them.
    pub(crate) fn offer(&mut self, node: NodeIx, sample: Sample) {
        let place = node.place();
        if self.newest.is_none() && sample.newest != sample.taken {
            self.newest = Some(self.taken.clone());
        }
        let newest = self.newest.as_deref_mut().unwrap_or(&mut self.taken).get_mut(place);
        if let Some(newest) = newest
            && sample.newest.millis() >= *newest
        {
            *newest = sample.newest.millis();
            self.taken[place] = sample.taken.millis();
            self.values[place] = sample.value.nanos();
        }
    }

    pub(crate) fn rearranged(&self, moved: &Moved) -> Self {
        Self {
            metric: self.metric.clone(),
            values: moved.rearrange(&self.values, 0),
            taken: moved.rearrange(&self.taken, NO_SAMPLE),
            newest: self.newest.as_ref().map(|all| moved.rearrange(all, NO_SAMPLE)),
        }
    }

    /// How many nodes have a sample, and when the newest and oldest of them were taken.
    pub fn extent(&self) -> Option<Extent> {
        let known = || self.taken.iter().copied().filter(|&taken| taken != NO_SAMPLE);
        Some(Extent {
            nodes: known().count(),
            oldest: Timestamp::from_millis(known().min()?),
            newest: Timestamp::from_millis(known().max()?),
        })
    }
}

/// How far a column reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Nodes with a sample.
    pub nodes: usize,
    /// When the oldest of their samples was taken.
    pub oldest: Timestamp,
    /// When the newest was.
    pub newest: Timestamp,
}

/// A column per metric, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    columns: Box<[Arc<Column>]>,
}

impl Snapshot {
    pub(crate) fn new(mut columns: Vec<Arc<Column>>) -> Self {
        columns.sort_unstable_by(|a, b| a.metric.cmp(&b.metric));
        Self { columns: columns.into() }
    }

    /// The column of a metric, if anything of it has come in.
    pub fn column(&self, metric: &str) -> Option<&Arc<Column>> {
        let place = self.columns.binary_search_by(|column| column.metric.as_str().cmp(metric)).ok()?;
        Some(&self.columns[place])
    }

    /// All columns, in the order of their metrics.
    pub fn columns(&self) -> &[Arc<Column>] {
        &self.columns
    }
}

/// Samples of one metric that came in together, any number per node; of equally new ones the last counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Which metric.
    pub metric: MetricName,
    /// Which node said what when; numbers are those of the index handed in beside it.
    pub samples: Vec<(NodeIx, Sample)>,
}

impl Batch {
    /// A batch by node name; names that the index does not hold are left out.
    pub fn by_name<'a>(
        metric: MetricName,
        nodes: &NodeIndex,
        samples: impl IntoIterator<Item = (&'a str, Sample)>,
    ) -> Self {
        let numbered = samples.into_iter().filter_map(|(name, sample)| Some((nodes.find(name)?, sample)));
        let mut samples: Vec<_> = numbered.collect();
        samples.sort_by_key(|&(node, sample)| (node, sample.newest));
        Self { metric, samples }
    }
}
