//! Moments, as milliseconds since the Unix epoch. The engine never asks for the time; it is told.

use std::fmt;
use std::time::Duration;

/// A moment, to the millisecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Later than every moment: the expiry of what does not expire.
    pub const NEVER: Self = Self(i64::MAX);

    /// So many milliseconds after the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// So many seconds after the epoch.
    pub const fn from_secs(secs: i64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    /// Milliseconds since the epoch.
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// The moment so much later.
    #[must_use]
    pub fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The moment so much earlier.
    #[must_use]
    pub fn before(self, stretch: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(stretch.as_millis()).unwrap_or(i64::MAX)))
    }

    /// How long ago `earlier` was; nothing if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

/// A duration the way people say it: `61 s`, `5 min`, `2 h 30 min`.
#[derive(Clone, Copy, Debug)]
pub struct Spoken(pub Duration);

impl fmt::Display for Spoken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.0.as_secs();
        match (secs / 3600, secs / 60 % 60, secs % 60) {
            (0, 0, 0) if !self.0.is_zero() => write!(f, "{} ms", self.0.as_millis()),
            (0, minutes, _) if minutes < 2 => write!(f, "{secs} s"),
            (0, minutes, 0) => write!(f, "{minutes} min"),
            (0, minutes, rest) => write!(f, "{minutes} min {rest} s"),
            (hours, 0, _) => write!(f, "{hours} h"),
            (hours, minutes, _) => write!(f, "{hours} h {minutes} min"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Spoken, Timestamp};

    #[test]
    fn durations_read_as_people_say_them() {
        let spoken = |secs| Spoken(Duration::from_secs(secs)).to_string();
        assert_eq!(
            [0, 61, 119, 180, 200, 3600, 9000].map(spoken),
            ["0 s", "61 s", "119 s", "3 min", "3 min 20 s", "1 h", "2 h 30 min"]
        );
        assert_eq!(Spoken(Duration::from_millis(250)).to_string(), "250 ms");
    }

    #[test]
    fn time_never_wraps() {
        let end = Timestamp::NEVER;
        assert_eq!(end.after(Duration::MAX), end);
        assert_eq!(Timestamp::from_secs(i64::MIN).since(end), Duration::ZERO);
        assert_eq!(Timestamp::from_secs(5).since(Timestamp::from_secs(2)), Duration::from_secs(3));
    }
}
