//! What happened to connections and requests, as plain atomics that any exposition can read.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows. Relaxed: readers want a recent value, not an order between counters.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The value now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one server has seen since its start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections taken on.
    pub accepted: Counter,
    /// Connections that are over, for whatever reason.
    pub closed: Counter,
    /// Connections turned away because the limit was reached.
    pub refused: Counter,
    /// Failed attempts to accept, such as running out of file descriptors.
    pub accept_errors: Counter,
    /// Requests handed to the service.
    pub requests: Counter,
    /// Requests or connections that ended in a panic of ours.
    pub panics: Counter,
    /// Connections closed because request headers came too slowly.
    pub header_deadlines: Counter,
    /// Connections closed after idling.
    pub idle_deadlines: Counter,
    /// Connections closed because the caller did not read its answer.
    pub stall_deadlines: Counter,
    /// Connections cut because the drain deadline passed.
    pub cut: Counter,
}

impl Counters {
    /// Connections open now.
    pub fn open(&self) -> u64 {
        // Closed first: a connection that ends between the two reads must not make the difference negative.
        let closed = self.closed.value();
        self.accepted.value().saturating_sub(closed)
    }
}
