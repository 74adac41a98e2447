//! Why a handshake failed: a closed set for counters, and words with the way out for the log.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};

use super::certificate::moment;
use super::clients::Unwelcome;
use crate::counters::HandshakeFailure;

/// A failed handshake: its kind and the words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: HandshakeFailure,
    pub(crate) words: String,
}

impl Failure {
    fn new(kind: HandshakeFailure, words: impl Into<String>) -> Self {
        Self { kind, words: words.into() }
    }

    pub(crate) fn late(deadline: Duration) -> Self {
        let words = format!("the client did not finish the handshake within {} ms", deadline.as_millis());
        Self::new(HandshakeFailure::Late, words)
    }

    pub(crate) fn not_tls() -> Self {
        Self::new(
            HandshakeFailure::NotTls,
            "the client does not speak TLS; use https (for kube-scheduler: enableHTTPS: true and a urlPrefix with https)",
        )
    }

    /// Reads the reason out of what the TLS library returned.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(error) => Self::of_tls(error),
            None => Self::new(
                HandshakeFailure::Closed,
                "the client closed the connection before the handshake was done; port checks and load balancers do that",
            ),
        }
    }

    fn of_tls(error: &Error) -> Self {
        use HandshakeFailure as Kind;
        match error {
            Error::NoCertificatesPresented => Self::new(
                Kind::NoCertificate,
                "the client sent no certificate; give it one that is signed by the CA of --cacert (for kube-scheduler: tlsConfig.certFile and keyFile)",
            ),
            Error::InvalidCertificate(error) => Self::of_certificate(error),
            Error::AlertReceived(alert) => Self::of_alert(*alert),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => Self::not_tls(),
            Error::PeerIncompatible(
                // Every client of TLS 1.2 or 1.3 says which signatures it knows, so one that does not is older.
                PeerIncompatible::SignatureAlgorithmsExtensionRequired
                | PeerIncompatible::SupportedVersionsExtensionRequired
                | PeerIncompatible::Tls12NotOfferedOrEnabled,
            ) => Self::new(Kind::Version, "the client offers nothing newer than TLS 1.1; we need 1.2 or 1.3"),
            Error::PeerIncompatible(reason) => Self::new(
                Kind::Incompatible,
                format!("client and server have no common TLS parameters ({reason:?})"),
            ),
            error => Self::new(Kind::Other, format!("TLS failed: {error}")),
        }
    }

    fn of_certificate(error: &CertificateError) -> Self {
        use HandshakeFailure as Kind;
        match error {
            CertificateError::UnknownIssuer | CertificateError::BadSignature => Self::new(
                Kind::UnknownIssuer,
                "the client's certificate is not signed by the CA of --cacert; sign it with that CA, or add the CA that did to the file",
            ),
            CertificateError::ExpiredContext { not_after, .. } => Self::new(
                Kind::Expired,
                format!(
                    "the client's certificate expired at {}; renew it",
                    moment(i64::try_from(not_after.as_secs()).unwrap_or(i64::MAX))
                ),
            ),
            CertificateError::Expired => {
                Self::new(Kind::Expired, "the client's certificate has expired; renew it")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::new(
                Kind::NotYetValid,
                "the client's certificate is not valid yet; are the clocks of both machines right?",
            ),
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => Self::new(
                Kind::Purpose,
                "the client's certificate is not meant for clients; issue one with the extended key usage clientAuth",
            ),
            CertificateError::Other(other) => match other.0.downcast_ref::<Unwelcome>() {
                Some(Unwelcome::Authority { names }) => Self::new(
                    Kind::AuthorityAsClient,
                    format!(
                        "the client presents a CA's own certificate ({}), as Intel's documents tell it to; a CA pair must not be a client pair: \
                         issue the client its own certificate signed by that CA with the extended key usage clientAuth, and keep the CA's key off other machines",
                        quoted(names)
                    ),
                ),
                Some(Unwelcome::Name { names, wanted }) => Self::new(
                    Kind::Name,
                    format!(
                        "the client's certificate is for {}, and --client-name allows {}",
                        quoted(names),
                        quoted(wanted)
                    ),
                ),
                None => {
                    Self::new(Kind::BadCertificate, format!("the client's certificate is refused: {error}"))
                }
            },
            error => Self::new(Kind::BadCertificate, format!("the client's certificate is refused: {error}")),
        }
    }

    fn of_alert(alert: AlertDescription) -> Self {
        use AlertDescription as Alert;
        let words = match alert {
            Alert::UnknownCA
            | Alert::BadCertificate
            | Alert::CertificateUnknown
            | Alert::UnsupportedCertificate => {
                format!(
                    "the client does not trust our certificate ({alert:?}); give it the CA that signed it (for kube-scheduler: tlsConfig.caFile), and check that the certificate bears the name it calls us by"
                )
            }
            Alert::CertificateExpired => "the client says that our certificate has expired".to_owned(),
            alert => format!("the client broke off with the alert {alert:?}"),
        };
        Self::new(HandshakeFailure::RefusedByClient, words)
    }
}

fn quoted(names: &[String]) -> String {
    if names.is_empty() {
        return "nobody by name".to_owned();
    }
    let names: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    names.join(", ")
}

/// Lets one line per peer, reason and minute through, so that a client that retries for ever does not fill the log.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    last: HashMap<(IpAddr, HandshakeFailure), Instant>,
}

impl Throttle {
    const PERIOD: Duration = Duration::from_mins(1);
    /// Peers remembered; when more misbehave within a minute, the new ones stay unlogged (but counted).
    const MOST: usize = 1024;

    pub(crate) fn admits(&mut self, peer: IpAddr, kind: HandshakeFailure, now: Instant) -> bool {
        let is_over = |last: &Instant| now.saturating_duration_since(*last) >= Self::PERIOD;
        if self.last.get(&(peer, kind)).is_some_and(|last| !is_over(last)) {
            return false;
        }
        if self.last.len() >= Self::MOST {
            self.last.retain(|_, last| !is_over(last));
        }
        if self.last.len() >= Self::MOST {
            return false;
        }
        self.last.insert((peer, kind), now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: HandshakeFailure = HandshakeFailure::Late;

    fn peer(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from(n).into()
    }

    #[test]
    fn one_line_per_peer_reason_and_minute() {
        let start = Instant::now();
        let mut throttle = Throttle::default();
        let mut at =
            |seconds, who, kind| throttle.admits(peer(who), kind, start + Duration::from_secs(seconds));
        assert!(at(0, 1, LATE));
        assert!(!at(59, 1, LATE));
        assert!(at(59, 2, LATE));
        assert!(at(59, 1, HandshakeFailure::Expired));
        assert!(at(60, 1, LATE));
    }

    #[test]
    fn the_memory_of_the_throttle_is_bounded_and_comes_back() {
        let start = Instant::now();
        let mut throttle = Throttle::default();
        let admitted = (0..5000).filter(|&n| throttle.admits(peer(n), LATE, start)).count();
        assert_eq!((admitted, throttle.last.len()), (1024, 1024));
        assert!(throttle.admits(peer(9999), LATE, start + Duration::from_mins(1)));
    }
}
