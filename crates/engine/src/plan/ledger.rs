//! What the leader remembers from one plan to the next. Only it has one; a new leader starts with an empty one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::marks::MarkKey;
use super::outcome::Outcome;
use super::rate::Bucket;
use crate::names::{NodeName, PolicyRef};
use crate::nodes::{Moved, NodeIndex};
use crate::time::Timestamp;

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    pub(super) index: Arc<NodeIndex>,
    pub(super) policies: BTreeMap<PolicyRef, PolicyRecord>,
    /// Only of nodes of which there is something to remember.
    pub(super) nodes: BTreeMap<NodeName, NodeRecord>,
    pub(super) cluster: Bucket,
}

/// What is remembered of a policy; a cell per node of the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PolicyRecord {
    /// Of which object this is known.
    pub(super) uid: Arc<str>,
    /// Since when there is this record.
    pub(super) begun: Timestamp,
    /// Since when each node violates.
    pub(super) since: Box<[Option<Timestamp>]>,
    pub(super) passing: Box<[Passing]>,
    /// What was told last, and when.
    pub(super) told: Option<(Arc<Outcome>, Timestamp)>,
}

/// Whether pods of a policy may go to a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Passing {
    /// They may.
    #[default]
    Settled,
    /// They may not.
    Refused,
    /// They may again, since then.
    Recovered(Timestamp),
}

/// What is remembered of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeRecord {
    /// Marks it carries though nobody knows whether they hold, and since when; in order.
    pub(super) unknown: Vec<(MarkKey, Timestamp)>,
    pub(super) writes: Bucket,
    pub(super) kicks: Bucket,
    /// When something was last written that wakes waiting pods.
    pub(super) woken: Option<Timestamp>,
}

impl NodeRecord {
    pub(super) fn is_empty(&self, now: Timestamp) -> bool {
        self.unknown.is_empty() && self.woken.is_none() && self.writes.is_full(now) && self.kicks.is_full(now)
    }
}

impl Ledger {
    /// Numbers the cells like `index`.
    pub(super) fn renumbered(mut self, index: &Arc<NodeIndex>) -> Self {
        if let Some(moved) = Moved::between(&self.index, index) {
            for record in self.policies.values_mut() {
                record.since = moved.rearrange(&record.since, None);
                record.passing = moved.rearrange(&record.passing, Passing::Settled);
            }
        }
        self.index = Arc::clone(index);
        self
    }
}
