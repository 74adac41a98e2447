//! One replica that stands for election: what it has seen, and what to do next. No clock, no network.

use std::time::Duration;

use super::record::{Record, stamp};
use super::{DURATION, LOOK_EVERY, Moment, RENEW_EVERY, RETRY_AFTER, Term};

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Look at the lease.
    Look,
    /// Store this record: over the version it names, or anew if it names none.
    Write(Record),
    /// Nothing for so long.
    Wait(Duration),
}

/// What is known.
#[derive(Clone, Debug)]
pub struct Candidate {
    me: String,
    /// The newest record seen and since when it has been just so; nothing if there is no lease.
    seen: Option<(Record, Moment)>,
    /// When the lease was last looked at, by a request that succeeded.
    looked: Option<Moment>,
    /// When something last failed.
    failed: Option<Moment>,
    term: Option<Term>,
    terms: u64,
}

impl Candidate {
    /// A candidate of this name, which no other process has or had.
    pub fn new(me: impl Into<String>) -> Self {
        Self { me: me.into(), seen: None, looked: None, failed: None, term: None, terms: 0 }
    }

    /// Our term, if we hold the lease.
    pub fn term(&self) -> Option<Term> {
        self.term
    }

    /// Who holds the lease, as far as we know.
    pub fn holder(&self) -> Option<&str> {
        self.seen.as_ref().map(|(record, _)| record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// The lease as it was found at `now`.
    pub fn observe(&mut self, found: Option<Record>, now: Moment) {
        self.looked = Some(now);
        self.failed = None;
        let Some(record) = found else {
            // Someone deleted it. Whoever held it may still write for as long as it would have lasted, so its last
            // record counts on; only the version is gone.
            if let Some((record, _)) = &mut self.seen {
                record.version.clear();
            }
            self.term = None;
            return;
        };
        if record.holder != self.me {
            self.term = None;
        }
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != record) {
            self.seen = Some((record, now));
        }
    }

    /// A record of ours was stored by a request sent at `sent`.
    pub fn stored(&mut self, record: Record, sent: Moment) {
        self.failed = None;
        self.looked = Some(sent);
        if record.holder == self.me {
            let term = self.term.get_or_insert_with(|| {
                self.terms += 1;
                Term { number: self.terms, renewed: sent, since: sent }
            });
            term.renewed = sent;
        } else {
            self.term = None;
        }
        self.seen = Some((record, sent));
    }

    /// A request failed at `now`; what it asked for may have been done all the same, so the next thing is to look.
    pub fn failed(&mut self, now: Moment) {
        self.failed = Some(now);
        self.looked = None;
    }

    /// What to do at `now`.
    pub fn decide(&mut self, now: Moment) -> Act {
        // A term that allows nothing any more is over, even if the lease still carries our name: a plan made in it
        // must not be carried out after a renewal that came too late.
        if self.term.is_some_and(|term| !term.allows(now)) {
            self.term = None;
            self.looked = None;
        }
        if let Some(failed) = self.failed {
            let left = RETRY_AFTER.saturating_sub(now.monotonic.saturating_duration_since(failed.monotonic));
            if !left.is_zero() {
                return Act::Wait(left);
            }
            self.failed = None;
        }
        let Some(looked) = self.looked else { return Act::Look };
        if let Some(term) = self.term {
            let left = RENEW_EVERY.saturating_sub(now.at_most_since(term.renewed));
            return if left.is_zero() { Act::Write(self.mine(now)) } else { Act::Wait(left) };
        }
        let left = LOOK_EVERY.saturating_sub(now.monotonic.saturating_duration_since(looked.monotonic));
        match (left.is_zero(), self.is_free(now)) {
            (true, _) => Act::Look,
            (false, true) => Act::Write(self.mine(now)),
            (false, false) => Act::Wait(left),
        }
    }

    /// The record that gives the lease back, if it is ours to give.
    pub fn release(&self, now: Moment) -> Option<Record> {
        self.term?;
        let (record, _) = self.seen.as_ref()?;
        let lasts = Duration::from_secs(1);
        Some(Record { holder: String::new(), lasts, renewed: stamp(now.wall), ..record.clone() })
    }

    /// Whether nobody can hold the lease: by the monotonic clock alone, because a clock on the wall that was set
    /// forward would end another's lease too soon.
    fn is_free(&self, now: Moment) -> bool {
        match &self.seen {
            None => true,
            Some((record, _)) if record.holder.is_empty() => true,
            // Still ours, if it can be written over the version that we wrote.
            Some((record, _)) if record.holder == self.me && !record.version.is_empty() => true,
            Some((record, since)) => {
                now.monotonic.saturating_duration_since(since.monotonic) >= record.lasts.max(DURATION)
            }
        }
    }

    fn mine(&self, now: Moment) -> Record {
        let wall = stamp(now.wall);
        let before = self.seen.as_ref().map(|(record, _)| record.clone()).unwrap_or_default();
        let stays = self.term.is_some();
        let changes_hands = !stays && !before.version.is_empty();
        Record {
            holder: self.me.clone(),
            lasts: DURATION,
            acquired: if stays { before.acquired } else { wall },
            renewed: wall,
            transitions: before.transitions + i64::from(changes_hands),
            version: before.version,
        }
    }
}

#[cfg(test)]
mod tests;
