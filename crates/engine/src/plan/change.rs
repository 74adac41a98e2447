//! The plan itself: what should change on the cluster, as data. One value for the executor, the dry run and the
//! simulator.

use std::fmt;
use std::sync::Arc;

use super::marks::{LabelKey, MarkKey, NodeLabel, NodeMarks, Owner, SeenLabel, Taint};
use super::observed::Observed;
use super::outcome::{Held, Outcome};
use crate::names::{NodeName, PolicyRef};
use crate::reason::Reason;
use crate::time::Timestamp;

/// What should be written now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// At most one per node, in the order of their names.
    pub nodes: Vec<NodeChange>,
    /// What should be told of policies of which something else is true than was told last, in the order of their names.
    pub statuses: Vec<StatusChange>,
    /// What should have been written but is not, over all policies.
    pub held: Held,
    /// Nodes whose last write was refused and of which nothing is wanted any more.
    pub settled: Vec<NodeName>,
    /// When to look again even if nothing changes.
    pub wake: Option<Timestamp>,
}

impl Plan {
    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.statuses.is_empty()
    }
}

/// What should change on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeChange {
    /// Which node.
    pub node: NodeName,
    /// All labels of ours that the node should carry, to be applied as the whole of what we own; nothing if they are
    /// right.
    pub labels: Option<Box<[NodeLabel]>>,
    /// Those of `labels` that somebody else wrote for an earlier TAS: a conflict about these is to be forced. A conflict
    /// about any other is not.
    pub adopts: Box<[LabelKey]>,
    /// Labels that somebody else wrote for an earlier TAS and that should go. To let go of them does not suffice,
    /// because we do not own them, or not alone; they must be taken off while they have this value.
    pub leftovers: Box<[NodeLabel]>,
    /// All taints of ours that the node should carry; nothing if they are right.
    pub taints: Option<Box<[Taint]>>,
    /// An annotation that changes nothing but wakes the pods that wait. Only where nothing else is written.
    pub kick: Option<Kick>,
    /// What this does, mark by mark, and why.
    pub deeds: Box<[Deed]>,
}

/// A write that wakes waiting pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kick {
    /// Now, to be written into the annotation.
    pub at: Timestamp,
    /// A policy whose pods wait.
    pub policy: PolicyRef,
}

/// One mark on one node, and why it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deed {
    /// What is done.
    pub act: Act,
    /// To which mark.
    pub mark: MarkKey,
    /// For which policy; nothing if it no longer exists.
    pub policy: Option<PolicyRef>,
    /// Why; nothing where the act itself says all.
    pub reason: Option<Reason>,
}

/// What is done to a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    /// Put on the node.
    Added,
    /// Given another value or effect.
    Changed,
    /// Taken over from an earlier TAS as it is.
    Adopted,
    /// Taken off, because its rule no longer holds.
    Removed,
    /// Taken off, because nobody has known for too long whether it still holds.
    Released,
    /// Taken off, because no policy asks for it any more.
    Swept,
}

impl Act {
    /// One word for counting.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Adopted => "adopted",
            Self::Removed => "removed",
            Self::Released => "released",
            Self::Swept => "swept",
        }
    }
}

/// The text of the event on node and policy alike; the policy's name stands before it.
impl fmt::Display for Deed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = match &self.mark {
            MarkKey::Label(LabelKey::Violating(_)) => "the label violating",
            MarkKey::Label(LabelKey::Won { key, .. }) => return self.about(f, &format!("the label {key}")),
            MarkKey::Taint(_) => "the taint",
        };
        self.about(f, noun)
    }
}

impl Deed {
    fn about(&self, f: &mut fmt::Formatter<'_>, noun: &str) -> fmt::Result {
        match self.act {
            Act::Added => write!(f, "{noun} was put on")?,
            Act::Changed => write!(f, "{noun} was changed")?,
            Act::Adopted => write!(f, "{noun} was taken over from an earlier installation")?,
            Act::Removed => write!(f, "{noun} was taken off: its rule no longer holds")?,
            Act::Released => {
                write!(f, "{noun} was taken off: whether it still holds has been unknown for too long")?;
            }
            Act::Swept => write!(f, "{noun} was taken off: no policy asks for it any more")?,
        }
        match &self.reason {
            Some(reason) => write!(f, ": {}", reason.stable()),
            None => Ok(()),
        }
    }
}

/// What should be told of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusChange {
    /// Which policy.
    pub policy: PolicyRef,
    /// What is true of it.
    pub outcome: Arc<Outcome>,
}

impl Observed {
    /// What will be seen once the plan is carried out, as the API server would have it.
    #[must_use]
    pub fn after(&self, plan: &Plan) -> Self {
        let mut seen = self.clone();
        for change in &plan.nodes {
            if let Some(node) = seen.nodes.get_mut(&change.node) {
                *node = Arc::new(node.after(change));
            }
        }
        for node in plan.nodes.iter().map(|change| &change.node).chain(&plan.settled) {
            seen.refused.remove(node);
        }
        seen
    }
}

impl NodeMarks {
    fn after(&self, change: &NodeChange) -> Self {
        let stays = |seen: &&SeenLabel| {
            let left_over = change.leftovers.contains(&seen.label);
            let let_go = change.labels.is_some() && seen.owner == Owner::Ours;
            !left_over && !let_go
        };
        let mut labels: Vec<SeenLabel> = self.labels().iter().filter(stays).cloned().collect();
        if change.labels.is_some() {
            // Let go of for now; what is applied again below is shared again.
            for seen in &mut labels {
                seen.owner = Owner::Foreign;
            }
        }
        for label in change.labels.iter().flatten() {
            let there = labels.iter_mut().find(|seen| seen.label.key == label.key);
            match there {
                Some(seen) if seen.label.value == label.value => seen.owner = Owner::Shared,
                Some(seen) => *seen = SeenLabel { label: label.clone(), owner: Owner::Ours },
                None => labels.push(SeenLabel { label: label.clone(), owner: Owner::Ours }),
            }
        }
        let taints = change.taints.as_ref().map_or_else(|| self.taints().to_vec(), |taints| taints.to_vec());
        Self::new(labels, taints, change.kick.as_ref().map(|kick| kick.at).or(self.kicked))
    }
}
