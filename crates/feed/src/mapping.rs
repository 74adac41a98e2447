//! From series to samples of nodes: whose series it is, and what several of one node come to.

use std::collections::BTreeMap;
use std::fmt;

use engine::quantity::Quantity;
use engine::time::Timestamp;
use engine::{NodeIx, Sample};

use crate::directory::{Directory, Meaning};
use crate::prometheus::decode::{Refused, Series};

/// How many unmapped series are shown word by word.
pub const SHOWN_UNMAPPED: usize = 3;
/// Labels that may name a node, the most telling first.
pub const DEFAULT_NODE_LABELS: [&str; 5] =
    ["node", "exported_instance", "instance", "kubernetes_node", "nodename"];

/// What several series of one node come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// The largest.
    Max,
    /// The smallest.
    Min,
    /// All together.
    Sum,
    /// Their mean.
    Avg,
}

impl Aggregation {
    /// All of them, as configurations write them.
    pub const ALL: [(&'static str, Self); 4] =
        [("max", Self::Max), ("min", Self::Min), ("sum", Self::Sum), ("avg", Self::Avg)];

    fn of(self, values: &[Quantity]) -> Quantity {
        let sum = || values.iter().fold(Quantity::ZERO, |sum, &value| sum.saturating_add(value));
        match self {
            Self::Max => values.iter().copied().max().unwrap_or_default(),
            Self::Min => values.iter().copied().min().unwrap_or_default(),
            Self::Sum => sum(),
            Self::Avg => sum().divided_by(u32::try_from(values.len()).unwrap_or(u32::MAX)),
        }
    }
}

/// Which labels may name the node of a series, in the order in which they are asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeLabels(pub Box<[String]>);

impl Default for NodeLabels {
    fn default() -> Self {
        Self(DEFAULT_NODE_LABELS.map(str::to_owned).into())
    }
}

impl NodeLabels {
    /// The node a series is about.
    pub fn locate(&self, directory: &Directory, series: &Series<'_, '_>) -> Meaning {
        let mut meaning = Meaning::NoNode;
        for label in &self.0 {
            let Some(value) = series.label(label) else { continue };
            match directory.find(value) {
                Meaning::Node(node) => return Meaning::Node(node),
                Meaning::SeveralNodes => meaning = Meaning::SeveralNodes,
                // A label that claims to name the node and names one that is gone settles it: the scraped
                // address beside it may well be another node's. A bare number is a NUMA node's and claims nothing.
                Meaning::NoNode if names_a_node(label) && !value.bytes().all(|b| b.is_ascii_digit()) => {
                    return meaning;
                }
                Meaning::NoNode => {}
            }
        }
        meaning
    }
}

/// `instance` and `exported_instance` say who was scraped, which need not be the node meant.
fn names_a_node(label: &str) -> bool {
    !matches!(label, "instance" | "exported_instance")
}

/// Series that belong to no node we know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unmapped {
    /// How many.
    pub count: u64,
    /// The first of them.
    pub shown: Vec<String>,
}

impl Unmapped {
    pub(crate) fn note(&mut self, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.shown.len() < SHOWN_UNMAPPED {
            self.shown.push(text());
        }
    }
}

/// Whether the samples carry the time they were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AgeKnown {
    /// Each does.
    #[default]
    Yes,
    /// At least one carries the time it was evaluated instead.
    No,
}

/// Samples of one metric, and what was met on the way to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gathered {
    /// Node by node, in the order of their news.
    pub samples: Vec<(NodeIx, Sample)>,
    /// Whether their times are true.
    pub age: AgeKnown,
    /// Series of nobody.
    pub unmapped: Unmapped,
    /// Values that are none.
    pub refused: Refused,
}

/// Two series of one node, and no word on what they come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ambiguity {
    /// Which two, by their place in the answer.
    pub series: [usize; 2],
}

impl fmt::Display for Ambiguity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "series {} and {} are of one node", self.series[0], self.series[1])
    }
}

/// What a further series tells of the samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The value.
    Value,
    /// When the value was taken, in seconds since the epoch; of several inputs, when the oldest was.
    Taken,
    /// When the newest of several inputs was, in seconds since the epoch.
    Newest,
    /// How old the value is, in seconds.
    Age,
}

/// Collects the series of one metric until [`Gather::finish`].
#[derive(Debug, Default)]
pub struct Gather {
    values: Vec<Cell>,
    times: BTreeMap<(NodeIx, Timestamp), Times>,
    unmapped: Unmapped,
    refused: Refused,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    node: NodeIx,
    at: Timestamp,
    value: Quantity,
    series: usize,
}

/// When the inputs of one node's value were taken, as far as anybody has said.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    oldest: Option<Timestamp>,
    newest: Option<Timestamp>,
}

impl Gather {
    /// Takes a series in; `place` is its place in the answer.
    pub fn take(&mut self, role: Role, place: usize, meaning: Meaning, series: &Series<'_, '_>) {
        let Meaning::Node(node) = meaning else {
            if role == Role::Value {
                self.unmapped.note(|| series.text());
            }
            return;
        };
        if role == Role::Value {
            self.refused += series.refused;
            let cell = |point: &crate::prometheus::decode::Point| Cell {
                node,
                at: point.at,
                value: point.value,
                series: place,
            };
            self.values.extend(series.points.iter().map(cell));
            return;
        }
        for point in series.points {
            let seconds = match role {
                Role::Age => Quantity::from_nanos(i128::from(point.at.millis()) * 1_000_000)
                    .saturating_sub(point.value),
                Role::Value | Role::Taken | Role::Newest => point.value,
            };
            let Some(taken) = moment(seconds) else {
                self.refused.unreadable += 1;
                continue;
            };
            let times = self.times.entry((node, point.at)).or_default();
            times.newest = times.newest.max(Some(taken));
            if role != Role::Newest {
                // A value is no younger than what it was made from.
                times.oldest = Some(times.oldest.map_or(taken, |oldest| oldest.min(taken)));
            }
        }
    }

    /// Whether any series was taken in.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty() && self.unmapped.count == 0 && self.refused.total() == 0
    }

    /// Whether any value came of it.
    pub fn has_values(&self) -> bool {
        !self.values.is_empty()
    }

    /// The samples.
    pub fn finish(mut self, aggregation: Option<Aggregation>) -> Result<Gathered, Ambiguity> {
        self.values.sort_by_key(|cell| (cell.node, cell.at, cell.series));
        let mut gathered = Gathered { unmapped: self.unmapped, refused: self.refused, ..Gathered::default() };
        let mut values = Vec::new();
        let mut before = None::<(NodeIx, Sample)>;
        for cells in self.values.chunk_by(|a, b| (a.node, a.at) == (b.node, b.at)) {
            let first = cells[0];
            let value = match (cells, aggregation) {
                ([only], _) => only.value,
                (_, Some(aggregation)) => {
                    values.clear();
                    values.extend(cells.iter().map(|cell| cell.value));
                    aggregation.of(&values)
                }
                ([one, other, ..], None) => return Err(Ambiguity { series: [one.series, other.series] }),
                ([], None) => continue,
            };
            let Times { oldest, newest } =
                self.times.get(&(first.node, first.at)).copied().unwrap_or_default();
            let taken = oldest.unwrap_or_else(|| {
                gathered.age = AgeKnown::No;
                first.at
            });
            // Nothing can be newer than the evaluation that saw it, so one fast clock does not outrun the others.
            let newest = newest.unwrap_or(taken).min(first.at).max(taken);
            let sample = (first.node, Sample { value, taken, newest });
            // Evaluations between two scrapes see one sample again and again. One that looks back, because the newest
            // input has gone, counts as little in the past as it does when it comes alone.
            let is_news = before.is_none_or(|(node, last)| node != first.node || last.newest <= newest);
            if is_news && before != Some(sample) {
                gathered.samples.push(sample);
                before = Some(sample);
            }
        }
        Ok(gathered)
    }
}

/// Seconds since the epoch as a moment, to the nearest millisecond: backends compute times in doubles.
fn moment(seconds: Quantity) -> Option<Timestamp> {
    let millis = (seconds.nanos() + 500_000).div_euclid(1_000_000);
    i64::try_from(millis).ok().filter(|&millis| millis > i64::MIN).map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests;
