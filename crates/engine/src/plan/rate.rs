//! How often something may be done: a bucket of tokens in one number.

use super::observed::Rate;
use crate::time::Timestamp;

/// When the bucket will be full again; one that was never drawn from is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bucket(Option<Timestamp>);

impl Bucket {
    /// Takes one if there is one, otherwise says when there will be.
    pub(crate) fn take(&mut self, rate: Rate, now: Timestamp) -> Result<(), Timestamp> {
        let full_at = self.full_at(rate, now);
        let ready = self.ready(rate, now);
        self.0 = Some(if ready.is_none() { full_at.after(rate.every) } else { full_at });
        ready.map_or(Ok(()), Err)
    }

    /// When there will be one; nothing if there is one now.
    pub(crate) fn ready(&self, rate: Rate, now: Timestamp) -> Option<Timestamp> {
        let head_start = rate.every.saturating_mul(rate.burst.saturating_sub(1));
        let ready = self.full_at(rate, now).before(head_start);
        (ready > now).then_some(ready)
    }

    /// Whether nothing has to be remembered.
    pub(crate) fn is_full(&self, now: Timestamp) -> bool {
        self.0.is_none_or(|at| at <= now)
    }

    /// A clock that was put back must not lock us out for longer than an empty bucket does.
    fn full_at(&self, rate: Rate, now: Timestamp) -> Timestamp {
        let longest = now.after(rate.every.saturating_mul(rate.burst.max(1)));
        self.0.map_or(now, |at| at.clamp(now, longest))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Bucket, Rate};
    use crate::fixtures::at;

    const RATE: Rate = Rate { burst: 3, every: Duration::from_secs(10) };

    #[test]
    fn a_burst_and_then_one_after_each_stretch() {
        let mut bucket = Bucket::default();
        let mut taken = |secs| bucket.take(RATE, at(secs));
        assert_eq!([0, 0, 0].map(&mut taken), [Ok(()); 3]);
        assert_eq!(taken(0), Err(at(10)));
        assert_eq!(taken(9), Err(at(10)));
        assert_eq!([10, 10, 20].map(&mut taken), [Ok(()), Err(at(20)), Ok(())]);
        assert!(!bucket.is_full(at(49)));
        assert!(bucket.is_full(at(50)));
    }

    #[test]
    fn a_clock_put_back_locks_nobody_out() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(RATE, at(1_000_000)), Ok(()));
        assert_eq!(bucket.take(RATE, at(0)), Err(at(10)));
        assert_eq!(bucket.take(RATE, at(10)), Ok(()));
    }
}
