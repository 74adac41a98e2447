use std::time::SystemTime;

use tokio::time::Instant;

use super::*;
use crate::lease::{MARGIN, Record};

/// Both clocks at so many seconds.
fn clocks() -> impl Fn(u64) -> Moment {
    let begin = Moment { monotonic: Instant::now(), wall: SystemTime::UNIX_EPOCH };
    move |seconds| {
        let passed = Duration::from_secs(seconds);
        Moment { monotonic: begin.monotonic + passed, wall: begin.wall + passed }
    }
}

fn held(holder: &str, version: &str) -> Record {
    Record { holder: holder.to_owned(), version: version.to_owned(), lasts: DURATION, ..Record::default() }
}

/// Takes a lease that nobody holds.
fn leader(at: Moment) -> Candidate {
    let mut candidate = Candidate::new("me");
    assert_eq!(candidate.decide(at), Act::Look);
    candidate.observe(None, at);
    let Act::Write(record) = candidate.decide(at) else { panic!("it takes what nobody holds") };
    assert_eq!((record.holder.as_str(), record.version.as_str(), record.transitions), ("me", "", 0));
    candidate.stored(Record { version: "1".to_owned(), ..record }, at);
    candidate
}

fn allowed(candidate: &Candidate, at: Moment) -> bool {
    candidate.term().is_some_and(|term| term.allows(at))
}

#[test]
fn a_leader_renews_long_before_its_term_ends_and_writes_nothing_after_it() {
    let at = clocks();
    let mut me = leader(at(0));
    assert_eq!(me.decide(at(1)), Act::Wait(RENEW_EVERY.saturating_sub(Duration::from_secs(1))));
    let Act::Write(renewal) = me.decide(at(3)) else { panic!("it renews") };
    assert_eq!((renewal.version.as_str(), renewal.transitions), ("1", 0));
    let last = DURATION.saturating_sub(MARGIN).as_secs();
    assert!(allowed(&me, at(last - 1)) && !allowed(&me, at(last)));
    me.stored(Record { version: "2".to_owned(), ..renewal }, at(3));
    assert!(allowed(&me, at(last + 2)) && !allowed(&me, at(last + 3)));
}

#[test]
fn another_waits_until_the_lease_has_stood_still_for_its_whole_length_before_its_own_eyes() {
    let at = clocks();
    let mut other = Candidate::new("other");
    other.observe(Some(held("me", "5")), at(100));
    for second in (102..115).step_by(2) {
        assert_eq!(other.decide(at(second)), Act::Look);
        other.observe(Some(held("me", "5")), at(second));
        assert!(matches!(other.decide(at(second)), Act::Wait(_)), "{second}");
    }
    other.observe(Some(held("me", "6")), at(116));
    assert!(matches!(other.decide(at(117)), Act::Wait(_)), "it was renewed");
    other.observe(Some(held("me", "6")), at(131));
    let Act::Write(record) = other.decide(at(131)) else { panic!("it is over") };
    assert_eq!((record.version.as_str(), record.transitions), ("6", 1));
}

/// The last moment at which one may write is before the first at which another may, whatever was sent when.
#[test]
fn two_never_write_at_once() {
    let at = clocks();
    for delay in 0..8 {
        let mut me = leader(at(0));
        let Act::Write(renewal) = me.decide(at(3)) else { panic!("it renews") };
        // The renewal is stored and seen `delay` seconds after it was sent.
        let renewal = Record { version: "2".to_owned(), ..renewal };
        let mut other = Candidate::new("other");
        other.observe(Some(renewal.clone()), at(3 + delay));
        me.stored(renewal.clone(), at(3));
        let last = (0..60).rfind(|second| allowed(&me, at(*second))).unwrap();
        let first = (3 + delay..60).find(|second| {
            other.observe(Some(renewal.clone()), at(*second));
            matches!(other.decide(at(*second)), Act::Write(_))
        });
        assert!(first.unwrap() >= last + MARGIN.as_secs(), "{first:?} {last}");
    }
}

#[test]
fn whoever_was_stopped_or_asleep_begins_a_new_term_if_any() {
    let at = clocks();
    let mut me = leader(at(0));
    let before = me.term().unwrap().number;
    // By the clock on the wall alone: the machine slept.
    let asleep = Moment { monotonic: at(1).monotonic, wall: at(600).wall };
    assert!(!allowed(&me, asleep));
    assert_eq!(me.decide(asleep), Act::Look);
    me.observe(Some(held("other", "9")), asleep);
    assert_eq!((me.term(), me.holder()), (None, Some("other")));

    let mut me = leader(at(0));
    assert_eq!(me.decide(at(600)), Act::Look);
    me.observe(Some(held("me", "1")), at(600));
    let Act::Write(record) = me.decide(at(600)) else { panic!("it is still ours to take") };
    me.stored(Record { version: "2".to_owned(), ..record }, at(600));
    assert_eq!(me.term().unwrap().number, before + 1);
}

#[test]
fn a_clock_that_is_set_shortens_our_own_term_and_nobody_elses() {
    let at = clocks();
    let mut other = Candidate::new("other");
    other.observe(Some(held("me", "5")), at(0));
    let set_forward = Moment { monotonic: at(1).monotonic, wall: at(86_400).wall };
    assert!(matches!(other.decide(set_forward), Act::Wait(_)));
    let me = leader(at(1000));
    let set_back = Moment { monotonic: at(1020).monotonic, wall: at(10).wall };
    assert!(!allowed(&me, set_back));
}

#[test]
fn what_failed_is_looked_at_before_anything_is_written() {
    let at = clocks();
    let mut me = leader(at(0));
    assert!(matches!(me.decide(at(3)), Act::Write(_)));
    me.failed(at(6));
    assert_eq!(me.decide(at(6)), Act::Wait(RETRY_AFTER));
    assert_eq!(me.decide(at(7)), Act::Look);
    me.observe(Some(held("me", "2")), at(7));
    let Act::Write(record) = me.decide(at(7)) else { panic!("the term is not over yet") };
    assert_eq!(record.version, "2", "the renewal had been stored after all");
}

#[test]
fn a_deleted_lease_ends_our_term_at_once_and_anothers_only_in_its_time() {
    let at = clocks();
    let mut me = leader(at(0));
    me.observe(None, at(1));
    assert_eq!(me.term(), None);

    let mut other = Candidate::new("other");
    other.observe(Some(held("me", "5")), at(0));
    other.observe(None, at(2));
    assert!(matches!(other.decide(at(2)), Act::Wait(_)));
    other.observe(None, at(15));
    let Act::Write(record) = other.decide(at(15)) else { panic!("it is over") };
    assert_eq!(record.version, "", "to be created");
}

#[test]
fn a_lease_that_was_given_back_is_free_at_once() {
    let at = clocks();
    let me = leader(at(0));
    let back = me.release(at(2)).unwrap();
    assert_eq!((back.holder.as_str(), back.version.as_str()), ("", "1"));
    let mut other = Candidate::new("other");
    assert_eq!(other.release(at(2)), None);
    other.observe(Some(back), at(3));
    assert!(matches!(other.decide(at(3)), Act::Write(_)));
}
