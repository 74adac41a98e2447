use super::{Condition, Duration, MetricName, NodeIndex, NodeIx, Sample, Threshold, Timestamp, Track};
use crate::names::NodeName;
use crate::policy::Operator;
use crate::quantity::Quantity;

/// Over 30 W, left at 25 W, each for 20 s; a gap of more than a minute forgets.
fn condition() -> Condition {
    let threshold =
        Threshold::new(Operator::GreaterThan, Quantity::from(30)).with_clear(Quantity::from(25)).unwrap();
    Condition {
        metric: MetricName::new("power").unwrap(),
        threshold,
        hold: Duration::from_secs(20),
        max_age: Duration::from_mins(1),
    }
}

/// The verdict after each sample.
fn verdicts(samples: &[(i64, i64)]) -> Vec<bool> {
    let mut track = Track::default();
    samples
        .iter()
        .map(|&(secs, watts)| {
            track.fold(&condition(), Sample::new(watts.into(), Timestamp::from_secs(secs)));
            track.violating
        })
        .collect()
}

#[test]
fn a_violation_begins_when_it_has_held_long_enough() {
    assert_eq!(verdicts(&[(0, 40), (10, 40), (20, 40)]), [false, false, true]);
}

#[test]
fn one_good_sample_starts_the_wait_again() {
    assert_eq!(
        verdicts(&[(0, 40), (10, 20), (20, 40), (30, 40), (40, 40)]),
        [false, false, false, false, true]
    );
}

#[test]
fn inside_the_band_a_violation_goes_on_and_none_begins() {
    assert_eq!(verdicts(&[(0, 28), (30, 28)]), [false, false]);
    assert_eq!(verdicts(&[(0, 40), (20, 40), (40, 28), (80, 28)]), [false, true, true, true]);
}

#[test]
fn a_violation_ends_when_the_clear_value_has_held_as_long() {
    assert_eq!(
        verdicts(&[(0, 40), (20, 40), (30, 25), (40, 25), (50, 25)]),
        [false, true, true, true, false]
    );
}

#[test]
fn a_gap_longer_than_max_age_forgets() {
    assert_eq!(verdicts(&[(0, 40), (20, 40), (81, 28)]), [false, true, false]);
    assert_eq!(verdicts(&[(0, 40), (61, 40)]), [false, false]);
}

#[test]
fn repeats_and_stragglers_change_nothing() {
    assert_eq!(verdicts(&[(0, 40), (20, 40), (20, 10), (10, 10)]), [false, true, true, true]);
}

/// The verdict after each value of several readings: the second of the newest, how much older the oldest is, watts.
fn verdicts_of_several(samples: &[(i64, i64, i64)]) -> Vec<bool> {
    let mut track = Track::default();
    let fold = |&(newest, older, watts): &(i64, i64, i64)| {
        let (taken, newest) = (Timestamp::from_secs(newest - older), Timestamp::from_secs(newest));
        track.fold(&condition(), Sample { value: watts.into(), taken, newest });
        track.violating
    };
    samples.iter().map(fold).collect()
}

#[test]
fn several_readings_hold_by_the_newest_of_them() {
    assert_eq!(
        verdicts_of_several(&[(0, 30, 20), (10, 40, 40), (25, 55, 40), (30, 0, 40)]),
        [false, false, false, true]
    );
}

#[test]
fn what_changes_without_a_newer_time_ends_a_wait_at_once_and_begins_one_with_the_next() {
    assert_eq!(verdicts(&[(0, 40), (0, 20), (20, 40), (40, 40)]), [false, false, false, true]);
    assert_eq!(verdicts(&[(0, 20), (0, 40), (20, 40), (40, 40)]), [false, false, false, true]);
}

#[test]
fn a_reading_too_old_among_several_forgets() {
    assert_eq!(
        verdicts_of_several(&[(0, 0, 40), (20, 0, 40), (30, 60, 28), (40, 61, 28), (50, 0, 28)]),
        [false, true, true, false, false]
    );
    assert_eq!(
        verdicts_of_several(&[(0, 0, 40), (10, 61, 40), (20, 0, 40), (40, 0, 40)])[2..],
        [false, true]
    );
}

fn sampled(samples: &[(i64, i64)]) -> Vec<(NodeIx, Sample)> {
    let sample = |&(secs, watts): &(i64, i64)| Sample::new(watts.into(), Timestamp::from_secs(secs));
    samples.iter().map(|pair| (node(), sample(pair))).collect()
}

fn node() -> NodeIx {
    NodeIndex::new([NodeName::new("a").unwrap()]).find("a").unwrap()
}

#[test]
fn a_look_back_that_comes_late_tells_the_story_from_its_beginning() {
    let mut from_the_start = Track::default();
    from_the_start.fold_all(&condition(), &sampled(&[(0, 40), (10, 40), (20, 40), (30, 40)]));
    let mut late = Track::default();
    late.fold_all(&condition(), &sampled(&[(30, 40)]));
    assert!(!late.violating);
    late.fold_all(&condition(), &sampled(&[(0, 40), (10, 40), (20, 40), (30, 40)]));
    assert!(late.violating);
    assert_eq!(late, from_the_start);
}

#[test]
fn a_look_back_that_does_not_reach_us_changes_nothing() {
    let mut track = Track::default();
    track.fold_all(&condition(), &sampled(&[(30, 20), (40, 40)]));
    let before = track;
    track.fold_all(&condition(), &sampled(&[(0, 40), (10, 40), (30, 40)]));
    assert_eq!(track, before);
}
