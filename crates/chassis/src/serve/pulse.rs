//! What one connection is doing, and until when it may go on doing it.
//!
//! [`Activity::deadline`] decides; the socket and the requests of a connection report here; `connection` acts.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::limits::Limits;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Accepted, no byte read yet.
    Fresh,
    /// Some bytes of a request, but not all of its headers.
    Headers,
    /// Requests are with the service, or their answers are being produced.
    Busy,
    /// Between requests.
    Idle,
    /// We have said our last word and wait for the caller to close.
    Lingering,
}

/// The deadline that a connection missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    Header,
    Idle,
    Stall,
    Linger,
}

/// Who gives way first when all places are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Precedence {
    /// Has never asked for anything, or is slow in asking.
    Stranger,
    /// Has been answered and may come again.
    Guest,
}

/// Whether bytes between requests are the start of one (HTTP/1.1) or may be a ping (HTTP/2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bytes {
    AreRequests,
    #[cfg(feature = "http2")]
    MayBePings,
}

#[derive(Clone, Copy, Debug)]
struct State {
    bytes: Bytes,
    activity: Activity,
    since: Instant,
    in_flight: usize,
    stalled_since: Option<Instant>,
}

impl State {
    /// The next moment at which something is due, and what is missed then. While a request is being answered
    /// nothing is, unless the caller has stopped reading.
    fn due(&self, limits: &Limits) -> Option<(Instant, Missed)> {
        let activity = match self.activity {
            Activity::Fresh | Activity::Headers => Some((limits.header_deadline, Missed::Header)),
            Activity::Idle => Some((limits.idle_deadline, Missed::Idle)),
            Activity::Lingering => Some((limits.linger_deadline, Missed::Linger)),
            Activity::Busy => None,
        }
        .map(|(span, missed)| (later(self.since, span), missed));
        let stall = self.stalled_since.map(|since| (later(since, limits.stall_deadline), Missed::Stall));
        match (activity, stall) {
            (Some(a), Some(s)) => Some(if s.0 < a.0 { s } else { a }),
            (a, s) => a.or(s),
        }
    }
}

/// `Instant` addition that cannot overflow: a limit of "for ever" stays for ever.
fn later(since: Instant, span: Duration) -> Instant {
    since.checked_add(span).unwrap_or_else(|| since + Duration::from_hours(8760))
}

/// The shared state of one connection.
#[derive(Debug)]
pub(super) struct Pulse {
    state: Mutex<State>,
}

impl Pulse {
    pub(super) fn new(now: Instant) -> Self {
        let bytes = Bytes::AreRequests;
        let state = State { bytes, activity: Activity::Fresh, since: now, in_flight: 0, stalled_since: None };
        Self { state: Mutex::new(state) }
    }

    /// HTTP begins, as far as that took a handshake.
    pub(super) fn speaks(&self, bytes: Bytes, now: Instant) {
        let mut state = self.state();
        (state.bytes, state.since) = (bytes, now);
    }

    /// How readily this connection gives way to a new one; none if it must not. Those that have yet to ask for
    /// something go before those that have asked before, and the longest without a word before others.
    pub(super) fn gives_way(&self) -> Option<(Precedence, Instant)> {
        let state = self.state();
        let precedence = match state.activity {
            Activity::Fresh | Activity::Headers => Precedence::Stranger,
            Activity::Idle | Activity::Lingering => Precedence::Guest,
            Activity::Busy => return None,
        };
        Some((precedence, state.since))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the four plain values half written.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn due(&self, limits: &Limits) -> Option<(Instant, Missed)> {
        self.state().due(limits)
    }

    pub(super) fn bytes_read(&self) {
        let mut state = self.state();
        let starts_request = match state.activity {
            // The clock of the first request runs from the accept.
            Activity::Fresh => {
                state.activity = Activity::Headers;
                false
            }
            Activity::Idle => state.bytes == Bytes::AreRequests,
            Activity::Headers | Activity::Busy | Activity::Lingering => false,
        };
        if starts_request {
            state.activity = Activity::Headers;
            state.since = Instant::now();
        }
    }

    pub(super) fn request_started(&self) {
        let mut state = self.state();
        state.in_flight += 1;
        state.activity = Activity::Busy;
    }

    pub(super) fn request_finished(&self) {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        if state.in_flight == 0 && state.activity == Activity::Busy {
            state.activity = Activity::Idle;
            state.since = Instant::now();
        }
    }

    pub(super) fn write_blocked(&self) {
        self.state().stalled_since.get_or_insert_with(Instant::now);
    }

    pub(super) fn write_advanced(&self) {
        self.state().stalled_since = None;
    }

    pub(super) fn lingers(&self) {
        let mut state = self.state();
        if state.activity != Activity::Lingering {
            state.activity = Activity::Lingering;
            state.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            header_deadline: Duration::from_secs(5),
            idle_deadline: Duration::from_mins(2),
            stall_deadline: Duration::from_secs(30),
            linger_deadline: Duration::from_secs(1),
            ..Limits::default()
        }
    }

    fn due(activity: Activity, stalled_for: Option<u64>) -> Option<(u64, Missed)> {
        let start = Instant::now();
        let now = start + Duration::from_secs(1_000);
        let stalled_since = stalled_for.map(|s| now.checked_sub(Duration::from_secs(s)).unwrap());
        let state = State { bytes: Bytes::AreRequests, activity, since: now, in_flight: 0, stalled_since };
        state.due(&limits()).map(|(at, missed)| ((at - start).as_secs() - 1_000, missed))
    }

    #[test]
    fn every_activity_has_its_own_deadline() {
        assert_eq!(due(Activity::Fresh, None), Some((5, Missed::Header)));
        assert_eq!(due(Activity::Headers, None), Some((5, Missed::Header)));
        assert_eq!(due(Activity::Idle, None), Some((120, Missed::Idle)));
        assert_eq!(due(Activity::Lingering, None), Some((1, Missed::Linger)));
        assert_eq!(due(Activity::Busy, None), None);
    }

    #[test]
    fn an_unread_answer_is_due_even_while_busy() {
        assert_eq!(due(Activity::Busy, Some(10)), Some((20, Missed::Stall)));
        assert_eq!(due(Activity::Idle, Some(10)), Some((20, Missed::Stall)));
        assert_eq!(due(Activity::Headers, Some(10)), Some((5, Missed::Header)));
    }

    #[test]
    fn trickled_headers_do_not_move_their_own_deadline() {
        let start = Instant::now();
        let pulse = Pulse::new(start);
        pulse.bytes_read();
        pulse.bytes_read();
        assert_eq!(pulse.due(&limits()), Some((start + Duration::from_secs(5), Missed::Header)));
    }

    #[test]
    fn the_last_of_several_answers_makes_the_connection_idle() {
        let pulse = Pulse::new(Instant::now());
        pulse.request_started();
        pulse.request_started();
        pulse.request_finished();
        assert_eq!(pulse.due(&limits()), None);
        pulse.request_finished();
        assert_eq!(pulse.due(&limits()).map(|due| due.1), Some(Missed::Idle));
        pulse.bytes_read();
        assert_eq!(pulse.due(&limits()).map(|due| due.1), Some(Missed::Header));
    }

    #[test]
    fn a_limit_of_for_ever_does_not_overflow() {
        let now = Instant::now();
        assert!(later(now, Duration::MAX) > now);
    }
}
