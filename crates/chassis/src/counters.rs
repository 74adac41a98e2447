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

/// Why a TLS handshake failed, as a closed set fit for a metric label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandshakeFailure {
    /// Not done within the deadline.
    Late,
    /// The client went away in the middle.
    Closed,
    /// Something other than TLS, such as plain HTTP.
    NotTls,
    /// Nothing newer than TLS 1.1 on offer.
    Version,
    /// No common parameters.
    Incompatible,
    /// A client certificate is required and none came.
    NoCertificate,
    /// Signed by somebody we do not know.
    UnknownIssuer,
    /// Client certificate past its time.
    Expired,
    /// Client certificate before its time.
    NotYetValid,
    /// Not meant for clients.
    Purpose,
    /// A CA's own certificate as client certificate.
    AuthorityAsClient,
    /// In order, but none of its names is allowed.
    Name,
    /// Anything else about the client's certificate.
    BadCertificate,
    /// The client refused us.
    RefusedByClient,
    /// The rest.
    Other,
}

impl HandshakeFailure {
    /// All of them, in the order of the counters.
    pub const ALL: [Self; 15] = [
        Self::Late,
        Self::Closed,
        Self::NotTls,
        Self::Version,
        Self::Incompatible,
        Self::NoCertificate,
        Self::UnknownIssuer,
        Self::Expired,
        Self::NotYetValid,
        Self::Purpose,
        Self::AuthorityAsClient,
        Self::Name,
        Self::BadCertificate,
        Self::RefusedByClient,
        Self::Other,
    ];

    /// The label value.
    pub fn label(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Closed => "closed",
            Self::NotTls => "not_tls",
            Self::Version => "version",
            Self::Incompatible => "incompatible",
            Self::NoCertificate => "no_certificate",
            Self::UnknownIssuer => "unknown_issuer",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Purpose => "purpose",
            Self::AuthorityAsClient => "authority_as_client",
            Self::Name => "name",
            Self::BadCertificate => "bad_certificate",
            Self::RefusedByClient => "refused_by_client",
            Self::Other => "other",
        }
    }
}

/// What one server has seen since its start.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections taken on.
    pub accepted: Counter,
    /// Connections that are over, for whatever reason.
    pub closed: Counter,
    /// Connections turned away because the limit was reached and everybody was being answered.
    pub refused: Counter,
    /// Connections that did nothing and had to give way to a new one.
    pub displaced: Counter,
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
    handshake_failures: [Counter; HandshakeFailure::ALL.len()],
}

impl Counters {
    /// Failed TLS handshakes of one kind.
    pub fn handshake_failures(&self, kind: HandshakeFailure) -> &Counter {
        &self.handshake_failures[kind as usize]
    }

    /// Connections open now.
    pub fn open(&self) -> u64 {
        // Closed first: a connection that ends between the two reads must not make the difference negative.
        let closed = self.closed.value();
        self.accepted.value().saturating_sub(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_handshake_failure_has_its_own_counter() {
        let counters = Counters::default();
        for (n, kind) in (1..).zip(HandshakeFailure::ALL) {
            counters.handshake_failures(kind).add(n);
        }
        let values = HandshakeFailure::ALL.map(|kind| counters.handshake_failures(kind).value());
        assert_eq!(values.to_vec(), (1..=15).collect::<Vec<_>>());
    }
}
