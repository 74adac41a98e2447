//! What the leader saw of the cluster before it decides: marks on nodes, policies, and how it was set up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::marks::NodeMarks;
use crate::names::{NodeName, PolicyRef};
use crate::time::Timestamp;

/// How long a mark outlives the last sample that explained it.
pub const DEFAULT_UNKNOWN_HOLD: Duration = Duration::from_mins(15);

/// Everything that was seen. It must be complete: what is not here is taken not to exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// The nodes that can be written on. A node that only the view knows gets nothing.
    pub nodes: BTreeMap<NodeName, Arc<NodeMarks>>,
    /// The policies there are, refused ones included. One that the view does not hold cannot be judged, so its marks
    /// are frozen like those of an unknown metric.
    pub policies: BTreeMap<PolicyRef, ObservedPolicy>,
    /// Nodes whose last write was refused.
    pub refused: BTreeMap<NodeName, Refused>,
    /// How the server was set up.
    pub settings: Settings,
}

/// A node whose last write was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Not to be tried again before; what is tried then still counts as refused until it is stored.
    pub until: Timestamp,
    /// What people must know; nothing where it is only to be looked at again.
    pub why: Option<Arc<str>>,
}

/// What was seen of a policy beside its meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedPolicy {
    /// Which object; one that was deleted and made anew under the same name is another.
    pub uid: Arc<str>,
    /// Which edition of the object; grows with every edit.
    pub generation: i64,
    /// Whether a view that holds it is on its way. One that cannot be understood never comes to be held.
    pub awaited: bool,
    /// Pods that name it and wait for a node.
    pub waiting: u32,
    /// Nodes that the status written last lists, and since when they violate: so that a new leader goes on counting.
    pub since: Box<[(NodeName, Timestamp)]>,
}

/// How the server was set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Nothing is written but status.
    pub paused: bool,
    /// Whose policies may label nodes; all, as in Intel TAS.
    pub may_label: Namespaces,
    /// Whose policies may taint nodes; none until the server says which.
    pub may_taint: Namespaces,
    /// How long a mark outlives the last sample that explained it.
    pub unknown_hold: Duration,
    /// How often metrics are read.
    pub sync_period: Duration,
    /// How much may be written.
    pub limits: Limits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            paused: false,
            may_label: Namespaces::All,
            may_taint: Namespaces::Only(BTreeSet::new()),
            unknown_hold: DEFAULT_UNKNOWN_HOLD,
            sync_period: Duration::from_secs(5),
            limits: Limits::default(),
        }
    }
}

/// Which namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Namespaces {
    /// Every one.
    All,
    /// These.
    Only(BTreeSet<Arc<str>>),
}

impl Namespaces {
    /// Whether this one is among them.
    pub fn hold(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(namespace),
        }
    }
}

/// How much may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nodes of the whole cluster.
    pub cluster: Rate,
    /// Changes of one node: what bounds a sensor that flips.
    pub node: Rate,
    /// Kicks of one node.
    pub kicks: Rate,
    /// Nodes kicked in one pass: every one of them wakes the waiting pods.
    pub kicks_at_once: usize,
    /// The shortest time between two statuses of one policy.
    pub status_interval: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cluster: Rate { burst: 200, every: Duration::from_millis(10) },
            node: Rate { burst: 4, every: Duration::from_secs(15) },
            kicks: Rate { burst: 3, every: Duration::from_secs(10) },
            kicks_at_once: 16,
            status_interval: Duration::from_secs(10),
        }
    }
}

/// So many at once, and one more after each stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many at once; 0 counts as 1.
    pub burst: u32,
    /// How long until there is room for one more, in whole milliseconds.
    pub every: Duration,
}
