//! What a metric is: the statics from which both the output and the reference page are written.

use std::fmt;

/// One of the naming traditions the agent speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NameSet {
    /// What collectd's `write_prometheus` calls it, with its labels.
    Collectd,
    /// What node_exporter calls it, where the meaning is the same.
    Node,
    /// Our own names: base units, ready-made for policies.
    Tas,
    /// About the agent itself; always on.
    #[default]
    Own,
}

impl fmt::Display for NameSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Collectd => "collectd",
            Self::Node => "node",
            Self::Tas => "tas",
            Self::Own => "always",
        })
    }
}

/// The sets to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameSets {
    /// collectd's names.
    pub collectd: bool,
    /// node_exporter's names.
    pub node: bool,
    /// Our own names.
    pub tas: bool,
}

impl NameSets {
    /// All three.
    pub const ALL: Self = Self { collectd: true, node: true, tas: true };

    /// Whether families of `set` are wanted.
    pub fn contain(self, set: NameSet) -> bool {
        match set {
            NameSet::Collectd => self.collectd,
            NameSet::Node => self.node,
            NameSet::Tas => self.tas,
            NameSet::Own => true,
        }
    }
}

/// How values of a family move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Only ever up.
    Counter,
    /// Up and down.
    Gauge,
    /// Nobody said; from text files only.
    #[default]
    Untyped,
}

/// What reading the source takes, in the order of cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// Any user, given a read-only mount.
    Anyone,
    /// uid 0, without capabilities: the kernel made the file 0400.
    Root,
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anyone => "any user",
            Self::Root => "uid 0, no capabilities",
        })
    }
}

/// A family of series.
#[derive(Debug)]
pub struct Family {
    /// Its name; `<…>` marks a part taken from the host.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// The unit values are in.
    pub unit: &'static str,
    /// Which set it belongs to.
    pub set: NameSet,
    /// One sentence for people.
    pub help: &'static str,
    /// Whether that can be written as it is, in either format.
    pub plain_help: bool,
    /// Labels, as written in the reference.
    pub labels: &'static str,
    /// The file it comes from, below the root.
    pub source: &'static str,
    /// What reading that takes.
    pub right: Right,
    /// What the peers call the same thing; empty if none has it.
    pub peers: &'static str,
}

impl Family {
    /// A gauge anyone may read; the other fields by the setters below.
    pub const fn gauge(set: NameSet, name: &'static str, unit: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind: Kind::Gauge,
            unit,
            set,
            help,
            plain_help: is_plain(help),
            labels: "",
            source: "",
            right: Right::Anyone,
            peers: "",
        }
    }

    /// A counter anyone may read.
    pub const fn counter(set: NameSet, name: &'static str, unit: &'static str, help: &'static str) -> Self {
        let mut family = Self::gauge(set, name, unit, help);
        family.kind = Kind::Counter;
        family
    }

    /// Says which labels there are.
    #[must_use]
    pub const fn labels(mut self, labels: &'static str) -> Self {
        self.labels = labels;
        self
    }

    /// Says which file it comes from.
    #[must_use]
    pub const fn source(mut self, source: &'static str) -> Self {
        self.source = source;
        self
    }

    /// Says that only root may read it.
    #[must_use]
    pub const fn root_only(mut self) -> Self {
        self.right = Right::Root;
        self
    }

    /// Says what peers call it.
    #[must_use]
    pub const fn peers(mut self, peers: &'static str) -> Self {
        self.peers = peers;
        self
    }
}

/// Whether no byte of a text has to be escaped.
const fn is_plain(text: &str) -> bool {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if matches!(bytes[at], b'\\' | b'\n' | b'"') {
            return false;
        }
        at += 1;
    }
    true
}
