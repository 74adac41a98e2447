//! What happened in a cluster, second by second, for people to read.

use engine::Reason;
use engine::plan::Deed;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// When.
    pub at_s: u32,
    /// What.
    pub what: What,
}

/// What can happen. Machines by their place, pods by their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// A pod was placed, or had to wait.
    Decided(Decision),
    /// The plan put a mark on a node, or took it off.
    Marked {
        /// Which machine.
        machine: usize,
        /// What was done to which mark, and why.
        deed: Deed,
    },
    /// A pod left a node that `deschedule` has marked.
    Moved {
        /// Which pod.
        pod: usize,
        /// From where.
        from: usize,
        /// To where.
        to: usize,
        /// Why it had to leave.
        reason: Option<Reason>,
    },
    /// A machine begins to draw more than its pods explain.
    Heats {
        /// Which machine.
        machine: usize,
    },
    /// It stops doing so.
    Cools {
        /// Which machine.
        machine: usize,
    },
    /// A sensor falls silent.
    SensorDies {
        /// Whose.
        machine: usize,
    },
    /// It speaks again.
    SensorSpeaks {
        /// Whose.
        machine: usize,
    },
    /// Nobody can judge the node any more.
    BecomesUnknown {
        /// Which machine.
        machine: usize,
        /// Why.
        reason: Reason,
    },
    /// A node that was refused passes again.
    PassesAgain {
        /// Which machine.
        machine: usize,
    },
}

/// What became of a pod that asked for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Which pod.
    pub pod: usize,
    /// Where it went; nothing if it must wait.
    pub to: Option<usize>,
    /// The nodes that were refused, and why.
    pub refused: Vec<(usize, Option<Reason>)>,
}
