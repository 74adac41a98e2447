//! Every limit a server of ours imposes on its callers, with its default.
//!
//! The same list, with the test that covers each row, is in `docs/limits.md`.

use std::time::Duration;

/// What one connection may cost us. Chosen for kube-scheduler, kubelet and Prometheus as callers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Open connections; one more is accepted and closed at once, because a caller that is turned away can go on
    /// while one that waits in the backlog cannot.
    pub connections: usize,
    /// From the first byte of a connection to the end of its TLS handshake.
    pub handshake_deadline: Duration,
    /// Request line and headers together; more is answered with 431.
    pub header_bytes: usize,
    /// Header lines; more is answered with 431.
    pub header_count: usize,
    /// Requests at once on one HTTP/2 connection; more wait.
    pub streams: u32,
    /// From the first byte of a request (or from the accept) to the end of its headers.
    pub header_deadline: Duration,
    /// How long a connection may stay open without a request. Longer than the 90 s after which Go's clients
    /// close an idle connection, so that a request never meets a connection that is just being closed.
    pub idle_deadline: Duration,
    /// How long a caller may leave an answer unread.
    pub stall_deadline: Duration,
    /// How long a connection that we close may keep sending, so that our last answer is read and not reset.
    pub linger_deadline: Duration,
    /// How long requests in flight may take to finish once we drain.
    pub drain_deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            handshake_deadline: Duration::from_secs(5),
            header_bytes: 32 * 1024,
            header_count: 100,
            streams: 100,
            header_deadline: Duration::from_secs(5),
            idle_deadline: Duration::from_mins(2),
            stall_deadline: Duration::from_secs(30),
            linger_deadline: Duration::from_secs(1),
            drain_deadline: Duration::from_secs(10),
        }
    }
}

/// What one request body may cost us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Length of a body; more is answered with 413.
    pub bytes: usize,
    /// From the end of the headers to the end of the body; later is answered with 408.
    pub deadline: Duration,
}

impl Default for BodyLimits {
    fn default() -> Self {
        Self { bytes: 64 * 1024 * 1024, deadline: Duration::from_secs(10) }
    }
}
