//! Pods placed lately, which the metrics do not show yet.
//!
//! A metric lags placement by half a minute or more. Judged by the metric alone, every pod of a burst
//! would go to the node that looked best before the first of them.

use std::collections::HashMap;
use std::time::Duration;

use crate::nodes::NodeIx;
use crate::snapshot::{Column, Sample};
use crate::time::Timestamp;

/// A pod that was bound to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Where it went.
    pub node: NodeIx,
    /// When.
    pub at: Timestamp,
}

/// The placements of one moment, by node.
#[derive(Debug, Default)]
pub(crate) struct InFlight(HashMap<NodeIx, Vec<Timestamp>>);

impl InFlight {
    pub(crate) fn new(placed: &[Placement]) -> Self {
        let mut by_node: HashMap<NodeIx, Vec<Timestamp>> = HashMap::new();
        for placement in placed {
            by_node.entry(placement.node).or_default().push(placement.at);
        }
        Self(by_node)
    }

    /// How many pods of each node this metric cannot show yet; nothing when that is none anywhere.
    pub(crate) fn unsettled(&self, column: &Column, settle: Duration, nodes: usize) -> Option<Unsettled> {
        let mut counts: Option<Box<[u16]>> = None;
        for (&node, placed) in &self.0 {
            let Some(sample) = column.get(node) else { continue };
            let count = placed.iter().filter(|at| hides(sample, **at, settle)).count();
            if count > 0 && node.place() < nodes {
                let counts = counts.get_or_insert_with(|| vec![0; nodes].into());
                counts[node.place()] = u16::try_from(count).unwrap_or(u16::MAX);
            }
        }
        counts.map(Unsettled)
    }
}

/// Whether the sample was taken too early to show a pod placed at `at`. By the sample's time, not by
/// ours: while no newer sample comes the pod stays hidden, however long that takes.
fn hides(sample: Sample, at: Timestamp, settle: Duration) -> bool {
    sample.taken < at.after(settle)
}

/// Pods per node that a metric does not show yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsettled(Box<[u16]>);

impl Unsettled {
    pub(crate) fn on(&self, node: NodeIx) -> u32 {
        self.0.get(node.place()).copied().map_or(0, u32::from)
    }
}
