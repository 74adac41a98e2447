//! A sliding window over amounts that were measured for a known time each.
//!
//! Time that was not measured (a gap, a reset) is neither counted as zero nor guessed: it is not in the window.

use std::collections::VecDeque;
use std::time::Duration;

/// Measured stretches of time, newest last.
#[derive(Clone, Debug)]
pub struct Window {
    longest: Duration,
    stretches: VecDeque<Stretch>,
}

#[derive(Clone, Copy, Debug)]
struct Stretch {
    end: Duration,
    took: Duration,
    amount: u64,
}

impl Window {
    /// A window that can answer for spans up to `longest`.
    pub fn new(longest: Duration) -> Self {
        Self { longest, stretches: VecDeque::new() }
    }

    /// Adds what was measured over the time `took` that ended at `end`.
    pub fn push(&mut self, end: Duration, took: Duration, amount: u64) {
        self.stretches.push_back(Stretch { end, took, amount });
        while self.stretches.front().is_some_and(|s| s.end + self.longest <= end) {
            self.stretches.pop_front();
        }
    }

    /// The amount and the measured time within `span` before `now`; none if nothing was measured in it.
    pub fn sum(&self, now: Duration, span: Duration) -> Option<(u64, Duration)> {
        let recent = self.stretches.iter().rev().take_while(|s| s.end + span > now);
        let (amount, took) = recent.fold((0u64, Duration::ZERO), |(amount, took), stretch| {
            (amount.saturating_add(stretch.amount), took + stretch.took)
        });
        (took > Duration::ZERO).then_some((amount, took))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn only_stretches_that_end_within_the_span_count() {
        let mut window = Window::new(S(60));
        for second in 1..=100 {
            window.push(S(second), S(1), second);
        }
        assert_eq!(window.sum(S(100), S(2)), Some((199, S(2))));
        assert_eq!(window.sum(S(100), S(60)), Some(((41..=100).sum(), S(60))));
        assert_eq!(window.stretches.len(), 60);
    }

    #[test]
    fn time_that_was_not_measured_is_not_in_the_mean() {
        let mut window = Window::new(S(60));
        window.push(S(1), S(1), 100);
        window.push(S(9), S(1), 300);
        assert_eq!(window.sum(S(9), S(10)), Some((400, S(2))));
    }

    #[test]
    fn an_old_window_says_nothing() {
        let mut window = Window::new(S(60));
        window.push(S(1), S(1), 100);
        assert_eq!(window.sum(S(11), S(10)), None);
        assert_eq!(Window::new(S(60)).sum(S(0), S(10)), None);
    }
}
