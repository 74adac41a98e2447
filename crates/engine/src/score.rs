//! How much better one node is than another, among the nodes asked about.
//!
//! The best node always gets the full score; the others lose by their distance from it, measured against
//! the spread among the nodes asked about, but never against less than a quarter of the metric's own size
//! ([`SPREAD_FLOOR_PARTS`]): 30.0 W against 30.1 W is a tie, 20 W against 40 W is not. A node whose value
//! nobody knows gets nothing. Where a rule does not say what a pod adds, each pod that the metric does not
//! show yet costs a tenth of the range ([`POD_COST_PARTS`]), counted from the node with the fewest such
//! pods, so that a burst of any size spreads.

use std::sync::Arc;

use crate::load::Unsettled;
use crate::nodes::NodeIx;
use crate::policy::{Direction, MAX_PREFERENCES, Preference};
use crate::snapshot::Column;
use crate::time::Timestamp;
use crate::verdict::Moment;

/// The spread that scores are measured against is at least the largest value divided by this.
pub const SPREAD_FLOOR_PARTS: u32 = 4;
/// A pod that no metric shows yet costs the full score divided by this.
pub const POD_COST_PARTS: u64 = 10;

/// Scores are reckoned in millionths and rounded once, at the end.
const FULL: u64 = 1_000_000;
/// Bits kept of a distance, so that it times [`FULL`] fits 64 bits.
const DISTANCE_BITS: u32 = 43;

/// One preference, ready to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scorer {
    preference: Preference,
    column: Option<Arc<Column>>,
    unsettled: Option<Unsettled>,
}

impl Moment<'_> {
    pub(crate) fn scorers(&self, preferences: &[Preference]) -> Box<[Scorer]> {
        let scorer = |preference: &Preference| {
            let column = self.snapshot.column(preference.metric.as_str()).cloned();
            let unsettled = column.as_ref().and_then(|column| {
                self.in_flight.unsettled(column, preference.load.settle, self.nodes.len())
            });
            Scorer { preference: preference.clone(), column, unsettled }
        };
        preferences.iter().take(MAX_PREFERENCES).map(scorer).collect()
    }
}

impl Scorer {
    /// The value a node is ranked by, in nano steps; nothing if it is unknown at `now`.
    fn value(&self, node: NodeIx, now: Timestamp) -> Option<i128> {
        let sample = self.column.as_ref()?.get(node)?;
        if now > sample.taken.after(self.preference.max_age) {
            return None;
        }
        let added = match self.preference.load.per_pod {
            Some(per_pod) => per_pod.saturating_times(self.hidden_pods(node)),
            None => crate::quantity::Quantity::ZERO,
        };
        Some(sample.value.saturating_add(added).nanos())
    }

    fn hidden_pods(&self, node: NodeIx) -> u32 {
        self.unsettled.as_ref().map_or(0, |unsettled| unsettled.on(node))
    }

    fn weight(&self) -> u64 {
        u64::from(self.preference.weight.get())
    }

    /// The share of the full score, in millionths.
    fn share(&self, node: NodeIx, yardstick: &Yardstick, now: Timestamp) -> u64 {
        let Some(value) = self.value(node, now) else { return 0 };
        let standing = yardstick.standing(value);
        if self.preference.load.per_pod.is_some() {
            return standing;
        }
        let crowd = u64::from(self.hidden_pods(node).saturating_sub(yardstick.fewest_pods));
        standing.saturating_sub(crowd * FULL / POD_COST_PARTS)
    }
}

/// What the nodes asked about are measured against, for one preference.
#[derive(Clone, Copy, Debug, Default)]
struct Yardstick {
    best: i128,
    direction: Option<Direction>,
    /// The length that costs the full score, cut to [`DISTANCE_BITS`] by `shift`.
    length: u64,
    shift: u32,
    fewest_pods: u32,
}

impl Yardstick {
    fn new(scorer: &Scorer, nodes: impl Iterator<Item = NodeIx>, now: Timestamp) -> Self {
        let (mut low, mut high, mut fewest_pods) = (i128::MAX, i128::MIN, u32::MAX);
        for node in nodes {
            if let Some(value) = scorer.value(node, now) {
                low = low.min(value);
                high = high.max(value);
                fewest_pods = fewest_pods.min(scorer.hidden_pods(node));
            }
        }
        let length = match scorer.preference.normalize {
            Some(span) => {
                (low, high) = (span.low().nanos(), span.high().nanos());
                high.abs_diff(low)
            }
            None if low > high => return Self::default(),
            None => {
                let size = low.unsigned_abs().max(high.unsigned_abs());
                high.abs_diff(low).max(size / u128::from(SPREAD_FLOOR_PARTS))
            }
        };
        let shift = (u128::BITS - length.leading_zeros()).saturating_sub(DISTANCE_BITS);
        let direction = scorer.preference.direction;
        let best = if direction == Some(Direction::LowerIsBetter) { low } else { high };
        Self { best, direction, length: cut(length, shift), shift, fewest_pods }
    }

    /// How a value stands, in millionths of the full score.
    fn standing(&self, value: i128) -> u64 {
        let behind = match self.direction {
            None => return FULL,
            Some(Direction::LowerIsBetter) => value > self.best,
            Some(Direction::HigherIsBetter) => value < self.best,
        };
        if !behind || self.length == 0 {
            return FULL;
        }
        let distance = cut(self.best.abs_diff(value), self.shift).min(self.length);
        FULL - distance * FULL / self.length
    }
}

/// Distances are at most the length or clamped to it, so what does not fit 64 bits is simply far.
fn cut(distance: u128, shift: u32) -> u64 {
    u64::try_from(distance >> shift).unwrap_or(u64::MAX)
}

/// The scores of the nodes in `places`, written over them: numbers of nodes go in, scores come out.
/// `u32::MAX` stands for a node nobody knows.
pub(crate) fn score(scorers: &[Scorer], places: &mut [u32], top: u32, now: Timestamp) {
    let known = |place: u32| (place != u32::MAX).then(|| NodeIx::from_number(place));
    let mut yardsticks = [Yardstick::default(); MAX_PREFERENCES];
    for (yardstick, scorer) in yardsticks.iter_mut().zip(scorers) {
        *yardstick = Yardstick::new(scorer, places.iter().copied().filter_map(known), now);
    }
    let weights: u64 = scorers.iter().map(Scorer::weight).sum::<u64>().max(1);
    for place in places {
        let shares = known(*place).map_or(0, |node| {
            scorers.iter().zip(&yardsticks).map(|(s, y)| s.weight() * s.share(node, y, now)).sum::<u64>()
        });
        let rounded = (shares / weights * u64::from(top) + FULL / 2) / FULL;
        *place = u32::try_from(rounded).unwrap_or(top);
    }
}
