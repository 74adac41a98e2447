//! The TLS handshake of one connection, before HTTP begins.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Peer;
use crate::counters::{Counters, HandshakeFailure};
use crate::tls::handshake::{Failure, Throttle};
use crate::tls::{Certificate, Live};

/// What the connections of a TLS listener share.
#[derive(Debug)]
pub(super) struct Secure {
    pub(super) live: Arc<Live>,
    throttle: Mutex<Throttle>,
}

impl Secure {
    pub(super) fn new(live: Arc<Live>) -> Self {
        Self { live, throttle: Mutex::default() }
    }

    /// Shakes hands within the deadline; a failure is counted, and logged unless this peer was logged for the
    /// same reason less than a minute ago.
    pub(super) async fn shake_hands(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        deadline: Duration,
        counters: &Counters,
    ) -> Option<(TlsStream<TcpStream>, Peer)> {
        let handshake = TlsAcceptor::from(self.live.config()).accept(stream).into_fallible();
        let failure = match tokio::time::timeout(deadline, handshake).await {
            Ok(Ok(stream)) => {
                let certificates = stream.get_ref().1.peer_certificates();
                let certificate =
                    certificates.and_then(|chain| chain.first()).and_then(|leaf| Certificate::read(leaf));
                return Some((stream, Peer { address, certificate }));
            }
            Ok(Err((error, stream))) => {
                let failure = Failure::of(&error);
                if failure.kind == HandshakeFailure::NotTls {
                    explain(stream).await;
                }
                failure
            }
            Err(_) => Failure::late(deadline),
        };
        counters.handshake_failures(failure.kind).increment();
        self.report(address, &failure);
        None
    }

    fn report(&self, address: SocketAddr, failure: &Failure) {
        let admitted = self.throttle.lock().unwrap_or_else(PoisonError::into_inner).admits(
            address.ip(),
            failure.kind,
            Instant::now(),
        );
        let (peer, reason) = (address.ip(), &failure.words);
        match failure.kind {
            _ if !admitted => {}
            // Port checks; nobody needs to act.
            HandshakeFailure::Closed => tracing::debug!(%peer, %reason, "TLS handshake failed"),
            _ => tracing::warn!(%peer, %reason, "TLS handshake failed"),
        }
    }
}

/// A person with curl, or a scheduler set to http, should read why it does not work.
async fn explain(mut stream: TcpStream) {
    const REASON: &str = "{\"error\":\"this port speaks TLS; use https\"}\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{REASON}",
        REASON.len()
    );
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.write_all(answer.as_bytes())).await;
}
