//! The rows of a table in half the room.

use crate::nodes::NodeIx;
use crate::time::Timestamp;
use crate::verdict::{Ground, Row, Verdict};

/// Rows as they are kept: half the size of [`Row`], which for 100 policies on 5,000 nodes is 16 MB in two views.
#[derive(Clone, Debug)]
pub(crate) struct Rows {
    judged: Timestamp,
    packed: Box<[Packed]>,
}

#[derive(Clone, Copy, Debug)]
struct Packed {
    verdict: Verdict,
    ground: Ground,
    rule: u16,
    /// In milliseconds after judging. What holds for more than 49 days has been judged again long before.
    left: u32,
}

impl Rows {
    /// Stands for what does not expire.
    const NEVER: u32 = u32::MAX;

    pub(crate) fn new(judged: Timestamp, rows: impl Iterator<Item = Row>) -> Self {
        let pack = |Row { verdict, ground, rule, until }: Row| {
            let left = until.since(judged).as_millis();
            let left = if until == Timestamp::NEVER {
                Self::NEVER
            } else {
                u32::try_from(left).unwrap_or(Self::NEVER).min(Self::NEVER - 1)
            };
            Packed { verdict, ground, rule, left }
        };
        Self { judged, packed: rows.map(pack).collect() }
    }

    pub(crate) fn get(&self, node: NodeIx) -> Option<Row> {
        self.packed.get(node.place()).map(|packed| self.unpacked(*packed))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Row> {
        self.packed.iter().map(|packed| self.unpacked(*packed))
    }

    fn unpacked(&self, Packed { verdict, ground, rule, left }: Packed) -> Row {
        let until = match left {
            Self::NEVER => Timestamp::NEVER,
            // Not by way of a Duration: this is done for every policy on every node, several times in every plan.
            left => Timestamp::from_millis(self.judged.millis().saturating_add(left.into())),
        };
        Row { verdict, ground, rule, until }
    }
}

/// By what they say, whenever they were judged.
impl PartialEq for Rows {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Rows {}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_packed_is_what_comes_out_and_nothing_holds_longer_than_it_should() {
        let judged = Timestamp::from_secs(1_700_000_000);
        let row = |until| Row { verdict: Verdict::Violating, ground: Ground::Held, rule: 515, until };
        let hour = judged.after(Duration::from_hours(1));
        let rows = [judged, hour, Timestamp::NEVER].map(row);
        assert_eq!(Rows::new(judged, rows.into_iter()).iter().collect::<Vec<_>>(), rows);
        let earlier = judged.before(Duration::from_secs(5));
        assert_eq!(Rows::new(judged, rows.into_iter()), Rows::new(earlier, rows.into_iter()));

        let year = judged.after(Duration::from_hours(24 * 365));
        let kept = Rows::new(judged, [row(year)].into_iter()).iter().next().map(|row| row.until);
        assert_eq!(kept, Some(judged.after(Duration::from_millis(u64::from(u32::MAX) - 1))));
    }
}
