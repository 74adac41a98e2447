//! What the request path counts: plain atomics, turned into metrics elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::route::Verb;

/// Upper ends of the duration buckets, in microseconds; one more bucket takes what is longer.
pub const DURATION_BUCKETS_MICROS: [u64; 10] =
    [50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 250_000];

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Counters {
    verbs: [VerbCounters; 3],
    refused_heads: AtomicU64,
    unread_bodies: AtomicU64,
    undecodable: AtomicU64,
    /// Pods without the policy label.
    pub(crate) without_policy: AtomicU64,
    /// Pods whose policy nobody knows.
    pub(crate) policy_missing: AtomicU64,
    /// Nodes asked about, over all requests.
    pub(crate) nodes_asked: AtomicU64,
    /// Nodes refused.
    pub(crate) nodes_refused: AtomicU64,
    /// Nodes that a policy in shadow mode would have refused.
    pub(crate) nodes_shadowed: AtomicU64,
}

#[derive(Debug, Default)]
struct VerbCounters {
    count: AtomicU64,
    total_nanos: AtomicU64,
    buckets: [AtomicU64; DURATION_BUCKETS_MICROS.len() + 1],
}

pub(crate) fn add(counter: &AtomicU64, count: usize) {
    counter.fetch_add(count as u64, Ordering::Relaxed);
}

/// The same, frozen, to be read at leisure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests whose head was refused (route, method, content type).
    pub refused_heads: u64,
    /// Requests whose body was too long, too late or broken.
    pub unread_bodies: u64,
    /// Requests whose body could not be understood.
    pub undecodable: u64,
    /// Requests for pods without the policy label.
    pub without_policy: u64,
    /// Requests for pods whose policy nobody knows.
    pub policy_missing: u64,
    /// Nodes asked about.
    pub nodes_asked: u64,
    /// Nodes refused.
    pub nodes_refused: u64,
    /// Nodes that a policy in shadow mode would have refused.
    pub nodes_shadowed: u64,
}

/// How long one verb took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// How many requests.
    pub count: u64,
    /// All of them together.
    pub total: Duration,
    /// How many fell into each bucket of [`DURATION_BUCKETS_MICROS`], and past the last.
    pub buckets: [u64; DURATION_BUCKETS_MICROS.len() + 1],
}

impl Counters {
    pub(crate) fn refused_head(&self) {
        add(&self.refused_heads, 1);
    }

    pub(crate) fn undecodable(&self) {
        add(&self.undecodable, 1);
    }

    /// Counts a body that was not read to its end, told by whoever reads it.
    pub fn unread_body(&self) {
        add(&self.unread_bodies, 1);
    }

    /// Counts how long an answer took, told by whoever has the clock.
    pub fn took(&self, verb: Verb, duration: Duration) {
        let counters = &self.verbs[verb as usize];
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = DURATION_BUCKETS_MICROS.partition_point(|end| *end < micros);
        add(&counters.count, 1);
        counters
            .total_nanos
            .fetch_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        add(&counters.buckets[bucket], 1);
    }

    /// The counts as they stand.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            refused_heads: read(&self.refused_heads),
            unread_bodies: read(&self.unread_bodies),
            undecodable: read(&self.undecodable),
            without_policy: read(&self.without_policy),
            policy_missing: read(&self.policy_missing),
            nodes_asked: read(&self.nodes_asked),
            nodes_refused: read(&self.nodes_refused),
            nodes_shadowed: read(&self.nodes_shadowed),
        }
    }

    /// How long a verb took so far.
    pub fn durations(&self, verb: Verb) -> Durations {
        let counters = &self.verbs[verb as usize];
        Durations {
            count: counters.count.load(Ordering::Relaxed),
            total: Duration::from_nanos(counters.total_nanos.load(Ordering::Relaxed)),
            buckets: std::array::from_fn(|place| counters.buckets[place].load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Counters, Duration, Verb};

    #[test]
    fn a_duration_falls_into_the_first_bucket_that_holds_it() {
        let counters = Counters::default();
        for micros in [0, 50, 51, 1_000_000] {
            counters.took(Verb::Filter, Duration::from_micros(micros));
        }
        let durations = counters.durations(Verb::Filter);
        assert_eq!((durations.count, durations.total), (4, Duration::from_micros(1_000_101)));
        assert_eq!(durations.buckets, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(counters.durations(Verb::Preempt).count, 0);
    }
}
