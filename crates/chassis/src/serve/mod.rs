//! The accept loop that all our servers use.
//!
//! Any hyper [`Service`] fits; an axum `Router` or another tower service comes in through [`tower`].

mod connection;
mod crowd;
mod pulse;
mod request;
#[cfg(feature = "tls")]
mod secure;
mod socket;

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
pub use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

use self::connection::{Shared, speak_http1};
use self::crowd::{Crowd, Room};
use self::pulse::Pulse;
use crate::counters::Counters;
use crate::limits::Limits;
use crate::shutdown::{Phase, Shutdown};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Who is on the other end. Each request carries an `Arc<Peer>` in its extensions.
#[derive(Debug, PartialEq, Eq)]
pub struct Peer {
    /// The address the connection came from.
    pub address: SocketAddr,
    /// The certificate the caller proved to own, if it was asked for one.
    #[cfg(feature = "tls")]
    pub certificate: Option<crate::tls::Certificate>,
}

impl Peer {
    fn plain(address: SocketAddr) -> Self {
        Self {
            address,
            #[cfg(feature = "tls")]
            certificate: None,
        }
    }
}

/// An address we listen on.
#[derive(Debug)]
pub struct Listener {
    tcp: TcpListener,
    #[cfg(feature = "tls")]
    tls: Option<Arc<crate::tls::Live>>,
}

/// An address that could not be listened on.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot listen on {address}; is another process using the port, or is the address not of this machine?"
)]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// What the kernel said.
    pub source: io::Error,
}

impl Listener {
    /// Listens on the address. `[::]` means all addresses of both families, and falls back to `0.0.0.0` on
    /// machines without IPv6.
    #[expect(clippy::unused_async, reason = "a socket belongs to a runtime, so there has to be one")]
    pub async fn bind(address: SocketAddr) -> Result<Self, BindError> {
        let bound = match listen(address) {
            Err(error) if address.ip() == std::net::Ipv6Addr::UNSPECIFIED && lacks_ipv6(&error) => {
                listen((std::net::Ipv4Addr::UNSPECIFIED, address.port()).into())
            }
            bound => bound,
        };
        let tcp = bound.map_err(|source| BindError { address, source })?;
        Ok(Self {
            tcp,
            #[cfg(feature = "tls")]
            tls: None,
        })
    }

    /// Speaks TLS only, with whatever material is live when a connection begins.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn with_tls(self, live: Arc<crate::tls::Live>) -> Self {
        Self { tls: Some(live), ..self }
    }

    /// The same address for another server, which then need not wait until this one has let go of it.
    pub fn share(&self) -> io::Result<Self> {
        let tcp = std::net::TcpListener::from(self.tcp.as_fd().try_clone_to_owned()?);
        Ok(Self {
            tcp: TcpListener::from_std(tcp)?,
            #[cfg(feature = "tls")]
            tls: self.tls.clone(),
        })
    }

    /// Where we listen; tells the port if 0 was asked for.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// Connections that wait to be accepted. Past this the kernel drops them and they try again after a second, which is more
/// than a burst of callers should cost; it is what Linux allows unless told otherwise.
const BACKLOG: u32 = 4096;

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart need not wait until the connections of the process before are forgotten.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// EAFNOSUPPORT and EADDRNOTAVAIL: no IPv6 compiled in, or none configured.
fn lacks_ipv6(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable || error.raw_os_error() == Some(97)
}

/// Makes a tower service (an axum `Router`, say) fit for [`serve`].
pub fn tower<S>(service: S) -> TowerToHyperService<S> {
    TowerToHyperService::new(service)
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drained {
    /// Connections still busy when the drain deadline passed.
    pub cut: usize,
}

/// Serves until `shutdown` reaches `Draining`, then finishes the requests in flight.
///
/// A panic in the service ends its own request only. Requests carry an `Arc<`[`Peer`]`>` in their extensions.
pub async fn serve<S, B>(
    listener: Listener,
    service: S,
    limits: Limits,
    counters: Arc<Counters>,
    shutdown: Shutdown,
) -> Drained
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let shared = Arc::new(Shared {
        service,
        limits,
        counters,
        shutdown,
        #[cfg(feature = "tls")]
        secure: listener.tls.map(secure::Secure::new),
    });
    let mut connections = JoinSet::new();
    accept_until_draining(&listener.tcp, &shared, &mut connections).await;
    drop(listener.tcp);
    drain(connections, &shared).await
}

async fn accept_until_draining<S, B>(
    listener: &TcpListener,
    shared: &Arc<Shared<S>>,
    connections: &mut JoinSet<()>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    let mut shutdown = shared.shutdown.clone();
    let mut draining = std::pin::pin!(shutdown.reached(Phase::Draining));
    let mut pause = Pause::default();
    let mut crowd = Crowd::default();
    loop {
        let accepted = tokio::select! {
            () = draining.as_mut() => return,
            Some(ended) = connections.join_next_with_id() => {
                crowd.left(ended.as_ref().map_or_else(tokio::task::JoinError::id, |(id, ())| *id));
                note_end(ended.map(|_| ()), &shared.counters);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                pause = Pause::default();
                match crowd.make_room(shared.limits.connections) {
                    Room::Free => {}
                    Room::Made => shared.counters.displaced.increment(),
                    Room::None => {
                        shared.counters.refused.increment();
                        continue;
                    }
                }
                shared.counters.accepted.increment();
                let pulse = Arc::new(Pulse::new(Instant::now()));
                let attended = attend(stream, address, Arc::clone(&pulse), Arc::clone(shared));
                crowd.enters(connections.spawn(attended), pulse);
            }
            Err(error) => {
                shared.counters.accept_errors.increment();
                let Some(wait) = pause.after(&error) else { continue };
                tracing::warn!(%error, wait_ms = wait.as_millis(), "cannot accept connections for now");
                tokio::select! {
                    () = draining.as_mut() => return,
                    () = tokio::time::sleep(wait) => {}
                }
            }
        }
    }
}

/// How long to wait after a failed accept. The kernel reports exhaustion at once and for every attempt, so
/// trying again without a pause would burn a core until a file descriptor is free.
#[derive(Debug, Default)]
struct Pause {
    last: Option<Duration>,
}

impl Pause {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_secs(1);

    /// `None` if the error was about that one connection, which is gone.
    fn after(&mut self, error: &io::Error) -> Option<Duration> {
        use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
        if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
            return None;
        }
        let wait = self.last.map_or(Self::FIRST, |last| (last * 2).min(Self::LONGEST));
        self.last = Some(wait);
        Some(wait)
    }
}

async fn attend<S, B>(stream: TcpStream, address: SocketAddr, pulse: Arc<Pulse>, shared: Arc<Shared<S>>)
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    // Nagle's algorithm meets delayed acknowledgements in 40 ms pauses, which kube-scheduler would wait out.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "connection was gone before it began");
        return;
    }
    #[cfg(feature = "tls")]
    if let Some(secure) = &shared.secure {
        let shaken = secure.shake_hands(stream, address, &shared.limits, &shared.counters).await;
        let Some((stream, peer)) = shaken else { return };
        #[cfg(feature = "http2")]
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            return connection::speak_http2(stream, Arc::new(peer), pulse, &shared).await;
        }
        return speak_http1(stream, Arc::new(peer), pulse, &shared).await;
    }
    speak_http1(stream, Arc::new(Peer::plain(address)), pulse, &shared).await;
}

fn note_end(ended: Result<(), tokio::task::JoinError>, counters: &Counters) {
    counters.closed.increment();
    if ended.is_err_and(|error| error.is_panic()) {
        counters.panics.increment();
    }
}

async fn drain<S>(mut connections: JoinSet<()>, shared: &Shared<S>) -> Drained {
    let all_ended = async {
        while let Some(ended) = connections.join_next().await {
            note_end(ended, &shared.counters);
        }
    };
    if tokio::time::timeout(shared.limits.drain_deadline, all_ended).await.is_ok() {
        return Drained { cut: 0 };
    }
    let cut = connections.len();
    shared.counters.cut.add(cut as u64);
    connections.shutdown().await;
    shared.counters.closed.add(cut as u64);
    tracing::warn!(cut, "drain deadline passed with requests in flight");
    Drained { cut }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_out_of_file_descriptors_backs_off_up_to_a_second() {
        let emfile = io::Error::from_raw_os_error(24);
        let mut pause = Pause::default();
        let waits: Vec<_> = (0..9).filter_map(|_| pause.after(&emfile)).map(|w| w.as_millis()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
    }

    #[test]
    fn a_connection_that_is_gone_before_the_accept_costs_no_pause() {
        let aborted = io::Error::from(io::ErrorKind::ConnectionAborted);
        assert_eq!(Pause::default().after(&aborted), None);
    }
}
