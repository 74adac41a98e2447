//! The TLS handshake of one connection, before HTTP begins.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::Peer;
use crate::counters::{Counters, HandshakeFailure};
use crate::limits::Limits;
use crate::tls::handshake::{Failure, Throttle};
use crate::tls::{Certificate, Live};

/// The first byte of every TLS connection.
const TLS_HANDSHAKE: u8 = 22;

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
        limits: &Limits,
        counters: &Counters,
    ) -> Option<(TlsStream<TcpStream>, Peer)> {
        let handshake = async {
            // Looked at before rustls sees it, because rustls would answer with an alert of its own, which in
            // front of our words makes no HTTP.
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first[0] != TLS_HANDSHAKE {
                return Ok(Err(stream));
            }
            TlsAcceptor::from(self.live.config()).accept(stream).await.map(Ok)
        };
        let failure = match tokio::time::timeout(limits.handshake_deadline, handshake).await {
            Ok(Ok(Ok(stream))) => {
                let certificates = stream.get_ref().1.peer_certificates();
                let certificate =
                    certificates.and_then(|chain| chain.first()).and_then(|leaf| Certificate::read(leaf));
                return Some((stream, Peer { address, certificate }));
            }
            Ok(Ok(Err(stream))) => {
                // A caller that neither reads nor closes is nobody to explain anything to.
                let _ = tokio::time::timeout(limits.linger_deadline, explain(stream)).await;
                Failure::not_tls()
            }
            Ok(Err(error)) => Failure::of(&error),
            Err(_) => Failure::late(limits.handshake_deadline),
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
async fn explain(mut stream: TcpStream) -> io::Result<()> {
    const REASON: &str = "{\"error\":\"this port speaks TLS; use https\"}\n";
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{REASON}",
        REASON.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing with the request unread would reset the connection and destroy the answer.
    let mut discarded = [0; 1024];
    while stream.read(&mut discarded).await? > 0 {}
    Ok(())
}
