//! What is written on a node: labels and taints, apart from how Kubernetes spells them.

use std::sync::Arc;

use crate::policy::TaintEffect;
use crate::time::Timestamp;

/// The value of the label that `deschedule` brings.
pub const VIOLATING: &str = "violating";

/// Which node label of ours. Policies are meant by name alone: node labels carry no namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LabelKey {
    /// `<policy>`, of `deschedule`.
    Violating(Arc<str>),
    /// `telemetry.aware.scheduling.<policy>/<key>`, of `labeling`.
    Won {
        /// The policy's name.
        policy: Arc<str>,
        /// The key as the policy writes it.
        key: Arc<str>,
    },
}

impl LabelKey {
    /// The name of the policy it belongs to.
    pub fn policy(&self) -> &str {
        match self {
            Self::Violating(policy) | Self::Won { policy, .. } => policy,
        }
    }
}

/// A node label of ours and its value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeLabel {
    /// Which label.
    pub key: LabelKey,
    /// Its value.
    pub value: Arc<str>,
}

/// Who has written a label, by the object's own record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// We alone.
    Ours,
    /// We and somebody else: if we let go of it, it stays.
    Shared,
    /// Somebody else.
    Foreign,
}

/// A label that was seen on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenLabel {
    /// The label.
    pub label: NodeLabel,
    /// Who has written it.
    pub owner: Owner,
}

/// A taint of ours; its key carries our prefix, so nobody else's is meant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Taint {
    /// The name of the policy it belongs to.
    pub policy: Arc<str>,
    /// How strongly it keeps pods away.
    pub effect: TaintEffect,
}

/// What was seen on one node of all that could be ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMarks {
    labels: Box<[SeenLabel]>,
    taints: Box<[Taint]>,
    /// When the node's annotation says that it was last touched to wake waiting pods.
    pub kicked: Option<Timestamp>,
}

impl NodeMarks {
    /// In any order; of labels with one key the last counts.
    pub fn new(
        labels: impl IntoIterator<Item = SeenLabel>,
        taints: impl IntoIterator<Item = Taint>,
        kicked: Option<Timestamp>,
    ) -> Self {
        let mut labels: Vec<SeenLabel> = labels.into_iter().collect();
        labels.reverse();
        labels.sort_by(|a, b| a.label.key.cmp(&b.label.key));
        labels.dedup_by(|later, first| later.label.key == first.label.key);
        let mut taints: Vec<Taint> = taints.into_iter().collect();
        taints.sort();
        taints.dedup();
        Self { labels: labels.into(), taints: taints.into(), kicked }
    }

    /// The labels that could be ours, in the order of their keys.
    pub fn labels(&self) -> &[SeenLabel] {
        &self.labels
    }

    /// The taints of ours, in order.
    pub fn taints(&self) -> &[Taint] {
        &self.taints
    }
}

/// A mark, label or taint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MarkKey {
    /// A label.
    Label(LabelKey),
    /// The taint of the policy of that name.
    Taint(Arc<str>),
}
