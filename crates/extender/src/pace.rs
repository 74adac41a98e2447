//! How many decisions a second may be told in the log, so that asking for them does not drown everything else.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use engine::time::Timestamp;

/// So many in one second.
pub(crate) const TOLD_PER_SECOND: u64 = 50;

#[derive(Debug, Default)]
pub(crate) struct Pace {
    second: AtomicI64,
    met: AtomicU64,
}

impl Pace {
    /// Whether one more may be told now, and if so, how many of the second before were not.
    pub(crate) fn admits(&self, now: Timestamp) -> Option<u64> {
        let second = now.millis().div_euclid(1000);
        let mut left_out = 0;
        if self.second.swap(second, Ordering::Relaxed) != second {
            left_out = self.met.swap(0, Ordering::Relaxed).saturating_sub(TOLD_PER_SECOND);
        }
        (self.met.fetch_add(1, Ordering::Relaxed) < TOLD_PER_SECOND).then_some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, TOLD_PER_SECOND, Timestamp};

    #[test]
    fn a_second_has_room_for_so_many_and_the_next_tells_how_many_were_left_out() {
        let pace = Pace::default();
        let told = (0..TOLD_PER_SECOND + 7).filter(|_| pace.admits(Timestamp::from_secs(1)).is_some());
        assert_eq!(told.count() as u64, TOLD_PER_SECOND);
        assert_eq!(pace.admits(Timestamp::from_secs(2)), Some(7));
        assert_eq!(pace.admits(Timestamp::from_secs(2)), Some(0));
    }
}
