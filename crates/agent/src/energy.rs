//! From a wrapping, resetting energy counter to joules that only rise and watts that are true.
//!
//! Decides; reads nothing. Energies are in microjoules, so that watts times microseconds are microjoules.

use std::time::Duration;

use crate::window::Window;

/// The longest window watts can be asked for.
pub const LONGEST_WINDOW: Duration = Duration::from_mins(1);

/// What one reading meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing to compare with yet.
    First,
    /// No time has passed since the last reading; it was not used.
    TooSoon,
    /// This much energy since the last reading.
    Added(u64),
    /// The same, past the end of the counter's range.
    Wrapped(u64),
    /// More than the hardware could have used: the counter was reset, or lies. Measuring starts anew.
    Impossible,
    /// So long since the last reading that the counter may have wrapped more than once. Measuring starts anew.
    TooLate,
    /// The counter fell and its range is not known. Measuring starts anew.
    Unknowable,
}

/// One energy counter.
#[derive(Clone, Debug)]
pub struct Meter {
    range: Option<u64>,
    last: Option<(Duration, u64)>,
    total: u64,
    measured: bool,
    window: Window,
}

impl Meter {
    /// A counter that wraps after `range` microjoules.
    pub fn new(range: Option<u64>) -> Self {
        Self { range, last: None, total: 0, measured: false, window: Window::new(LONGEST_WINDOW) }
    }

    /// The counter came back, perhaps as another one: what it said before is no baseline if its range differs.
    pub fn returned(&mut self, range: Option<u64>) {
        if self.range != range {
            self.range = range;
            self.last = None;
        }
    }

    /// Takes one reading. `ceiling` is the most watts that are believable for this zone.
    pub fn read(&mut self, now: Duration, raw: u64, ceiling: u64) -> Step {
        let Some((then, before)) = self.last else {
            self.last = Some((now, raw));
            return Step::First;
        };
        let Some(took) = now.checked_sub(then).filter(|took| took.as_micros() > 0) else {
            return Step::TooSoon;
        };
        self.last = Some((now, raw));
        let believable = took.as_micros().saturating_mul(u128::from(ceiling));
        if self.range.is_some_and(|range| believable >= u128::from(range)) {
            return Step::TooLate;
        }
        let step = match (raw.checked_sub(before), self.range) {
            (Some(added), _) => Step::Added(added),
            (None, Some(range)) => Step::Wrapped(raw.saturating_add(range.saturating_sub(before))),
            (None, None) => return Step::Unknowable,
        };
        let (Step::Added(added) | Step::Wrapped(added)) = step else { return step };
        if u128::from(added) > believable {
            return Step::Impossible;
        }
        self.total = self.total.saturating_add(added);
        self.measured = true;
        self.window.push(now, took, added);
        step
    }

    /// Microjoules since measuring began; none before two readings.
    pub fn total(&self) -> Option<u64> {
        self.measured.then_some(self.total)
    }

    /// Tenths of a watt, on average over `span` before `now`; none if nothing was measured in it.
    ///
    /// No finer: exact power at short notice is what CVE-2020-8694 needed.
    pub fn deciwatts(&self, now: Duration, span: Duration) -> Option<u64> {
        let (energy, took) = self.window.sum(now, span)?;
        let micros = took.as_micros();
        u64::try_from((u128::from(energy) * 10 + micros / 2) / micros).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const RANGE: u64 = 262_143_328_850;
    /// 100 J.
    const STEP: u64 = 100_000_000;

    fn meter(readings: &[(u64, u64)]) -> (Meter, Vec<Step>) {
        let mut meter = Meter::new(Some(RANGE));
        let steps = readings.iter().map(|&(s, raw)| meter.read(S(s), raw, 400)).collect();
        (meter, steps)
    }

    #[test]
    fn nothing_is_said_before_the_second_reading() {
        let (meter, steps) = meter(&[(1, 5_000_000_000)]);
        assert_eq!((steps, meter.total(), meter.deciwatts(S(1), S(10))), (vec![Step::First], None, None));
    }

    #[test]
    fn watts_are_joules_over_the_time_between_readings() {
        let (meter, steps) = meter(&[(1, 0), (2, STEP), (3, STEP + STEP / 2)]);
        assert_eq!(steps, vec![Step::First, Step::Added(STEP), Step::Added(STEP / 2)]);
        assert_eq!((meter.total(), meter.deciwatts(S(3), S(10))), (Some(STEP * 3 / 2), Some(750)));
    }

    #[test]
    fn a_wrap_is_counted_through() {
        let (meter, steps) = meter(&[(1, RANGE - STEP / 4), (2, STEP * 3 / 4)]);
        assert_eq!(steps, vec![Step::First, Step::Wrapped(STEP)]);
        assert_eq!((meter.total(), meter.deciwatts(S(2), S(10))), (Some(STEP), Some(1000)));
    }

    #[test]
    fn a_reset_is_dropped_and_measuring_goes_on() {
        let (meter, steps) = meter(&[(1, 50 * STEP), (2, 51 * STEP), (3, 7), (4, STEP + 7)]);
        assert_eq!(steps[2..], [Step::Impossible, Step::Added(STEP)]);
        assert_eq!((meter.total(), meter.deciwatts(S(4), S(10))), (Some(2 * STEP), Some(1000)));
    }

    #[test]
    fn an_impossible_jump_is_dropped() {
        let (meter, steps) = meter(&[(1, 0), (2, 5 * STEP), (3, 6 * STEP)]);
        assert_eq!(steps[1..], [Step::Impossible, Step::Added(STEP)]);
        assert_eq!(meter.total(), Some(STEP));
    }

    #[test]
    fn a_gap_shorter_than_a_wrap_is_bridged_and_a_longer_one_is_not() {
        let (meter_bridged, steps) = meter(&[(1, 0), (61, 60 * STEP)]);
        assert_eq!((steps[1], meter_bridged.deciwatts(S(61), S(10))), (Step::Added(60 * STEP), Some(1000)));
        let (meter_broken, steps) = meter(&[(1, 0), (1000, 10 * STEP), (1001, 11 * STEP)]);
        assert_eq!(steps[1..], [Step::TooLate, Step::Added(STEP)]);
        assert_eq!(meter_broken.total(), Some(STEP));
    }

    #[test]
    fn a_clock_that_stands_still_adds_nothing_and_loses_nothing() {
        let (meter, steps) = meter(&[(1, 0), (1, STEP), (1, STEP), (2, STEP)]);
        assert_eq!(steps[1..], [Step::TooSoon, Step::TooSoon, Step::Added(STEP)]);
        assert_eq!(meter.total(), Some(STEP));
    }

    #[test]
    fn without_a_range_a_fall_is_not_guessed_at() {
        let mut meter = Meter::new(None);
        let steps: Vec<Step> =
            [(1, STEP), (2, 0), (3, STEP)].into_iter().map(|(s, raw)| meter.read(S(s), raw, 400)).collect();
        assert_eq!(steps, vec![Step::First, Step::Unknowable, Step::Added(STEP)]);
    }

    #[test]
    fn another_counter_under_the_old_name_is_no_continuation() {
        let mut meter = Meter::new(Some(RANGE));
        meter.read(S(1), 10 * STEP, 400);
        meter.returned(Some(RANGE / 4));
        assert_eq!(meter.read(S(2), 11 * STEP, 400), Step::First);
    }

    proptest! {
        /// Whatever the counter, the clock and the range do: joules never fall, watts never pass the ceiling.
        #[test]
        fn joules_only_rise_and_watts_stay_believable(
            range in proptest::option::of(1u64..=u64::MAX),
            readings in prop::collection::vec((0u64..100_000_000, prop_oneof![any::<u64>(), 0u64..1_000_000_000]), 0..50),
            ceiling in 1u64..10_000,
        ) {
            let mut meter = Meter::new(range);
            let (mut now, mut last) = (Duration::ZERO, 0);
            for (later, raw) in readings {
                now += Duration::from_micros(later);
                meter.read(now, raw, ceiling);
                let total = meter.total().unwrap_or(0);
                prop_assert!(total >= last);
                last = total;
                for span in [S(1), S(10), S(60)] {
                    prop_assert!(meter.deciwatts(now, span).unwrap_or(0) <= ceiling * 10);
                }
            }
        }

        /// A counter that wraps any number of times between 1 Hz readings gives the joules that were used.
        #[test]
        fn wraps_lose_nothing(start in 0..RANGE, watts in prop::collection::vec(0u64..400, 1..2000)) {
            let mut meter = Meter::new(Some(RANGE));
            meter.read(S(0), start, 400);
            let mut used = 0;
            for (second, watts) in watts.iter().enumerate() {
                used += watts * 1_000_000;
                meter.read(S(second as u64 + 1), (start + used) % RANGE, 400);
            }
            prop_assert_eq!(meter.total(), Some(used));
        }
    }
}
