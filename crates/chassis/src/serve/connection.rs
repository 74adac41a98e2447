//! Drives one connection: lets hyper speak, and closes it when a deadline is missed or we drain.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::pulse::{self, Missed, Pulse};
use super::request::Attended;
use super::socket::Socket;
use super::{BoxError, Peer};
use crate::counters::Counters;
use crate::limits::Limits;
use crate::shutdown::{Phase, Shutdown};

/// What every connection of one server shares.
pub(super) struct Shared<S> {
    pub(super) service: S,
    pub(super) limits: Limits,
    pub(super) counters: Arc<Counters>,
    pub(super) shutdown: Shutdown,
    #[cfg(feature = "tls")]
    pub(super) secure: Option<super::secure::Secure>,
}

/// Speaks HTTP/1.1 on the stream until either side is done.
pub(super) async fn speak_http1<T, S, B>(io: T, peer: Arc<Peer>, pulse: Arc<Pulse>, shared: &Shared<S>)
where
    T: AsyncRead + AsyncWrite + Unpin,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<BoxError>,
{
    pulse.speaks(pulse::Bytes::AreRequests, Instant::now());
    let socket = TokioIo::new(Socket::new(io, Arc::clone(&pulse)));
    let connection = http1::Builder::new()
        // Deadlines are kept by `Pulse`: hyper's own would count the pause between requests as slow headers.
        .header_read_timeout(None)
        .max_headers(shared.limits.header_count)
        .max_header_size(shared.limits.header_bytes)
        // A caller that has closed its side has gone; finishing its answer is wasted work.
        .half_close(false)
        .serve_connection(socket, attended(shared, peer, &pulse));
    drive(pin!(connection), hyper::server::conn::http1::Connection::graceful_shutdown, &pulse, shared).await;
}

/// Speaks HTTP/2 on the stream until either side is done.
#[cfg(feature = "http2")]
pub(super) async fn speak_http2<T, S, B>(io: T, peer: Arc<Peer>, pulse: Arc<Pulse>, shared: &Shared<S>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    /// Room for a whole names-only request (65 kB at 5,000 nodes) without waiting for a window update.
    const WINDOW: u32 = 1024 * 1024;
    pulse.speaks(pulse::Bytes::MayBePings, Instant::now());
    let socket = TokioIo::new(Socket::new(io, Arc::clone(&pulse)));
    let header_bytes = u32::try_from(shared.limits.header_bytes).unwrap_or(u32::MAX);
    let connection = hyper::server::conn::http2::Builder::new(hyper_util::rt::TokioExecutor::new())
        .max_header_list_size(header_bytes)
        .max_concurrent_streams(shared.limits.streams)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(2 * WINDOW)
        .serve_connection(socket, attended(shared, peer, &pulse));
    drive(pin!(connection), hyper::server::conn::http2::Connection::graceful_shutdown, &pulse, shared).await;
}

fn attended<S: Clone>(shared: &Shared<S>, peer: Arc<Peer>, pulse: &Arc<Pulse>) -> Attended<S> {
    Attended {
        inner: shared.service.clone(),
        peer,
        pulse: Arc::clone(pulse),
        counters: Arc::clone(&shared.counters),
        shutdown: shared.shutdown.clone(),
    }
}

/// Polls the connection until it ends. `finish` asks it to end after the requests it has.
async fn drive<C, S>(
    mut connection: Pin<&mut C>,
    finish: impl Fn(Pin<&mut C>),
    pulse: &Pulse,
    shared: &Shared<S>,
) where
    C: Future<Output = hyper::Result<()>>,
{
    let mut shutdown = shared.shutdown.clone();
    let mut draining = pin!(shutdown.reached(Phase::Draining));
    let mut finishing = false;
    let mut alarm = Alarm::new();
    poll_fn(|cx| {
        if !finishing && draining.as_mut().poll(cx).is_ready() {
            finishing = true;
            finish(connection.as_mut());
        }
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                if let Err(error) = ended {
                    tracing::debug!(%error, "connection ended early");
                }
                return Poll::Ready(());
            }
            let Some(missed) = alarm.missed(cx, pulse, &shared.limits) else { return Poll::Pending };
            match missed {
                Missed::Header => shared.counters.header_deadlines.increment(),
                Missed::Stall => shared.counters.stall_deadlines.increment(),
                Missed::Idle if !finishing => {
                    shared.counters.idle_deadlines.increment();
                    finishing = true;
                    finish(connection.as_mut());
                    pulse.lingers();
                    continue;
                }
                Missed::Idle | Missed::Linger => {}
            }
            // Dropping the connection closes the socket.
            return Poll::Ready(());
        }
    })
    .await;
}

/// A timer that is moved as rarely as possible: only when something is due earlier than it is set for.
struct Alarm {
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Alarm {
    fn new() -> Self {
        Self { sleep: None }
    }

    fn missed(&mut self, cx: &mut Context<'_>, pulse: &Pulse, limits: &Limits) -> Option<Missed> {
        /// How soon to look again at a connection for which nothing is due: on HTTP/2 a request may end on
        /// another task without waking this one.
        const LOOK_AGAIN: Duration = Duration::from_mins(1);
        loop {
            let now = Instant::now();
            let due = pulse.due(limits);
            if let Some((at, missed)) = due
                && at <= now
            {
                return Some(missed);
            }
            let at = due.map_or(now + LOOK_AGAIN, |(at, _)| at).into();
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            if at < sleep.deadline() || sleep.is_elapsed() {
                sleep.as_mut().reset(at);
            }
            if sleep.as_mut().poll(cx).is_pending() {
                return None;
            }
        }
    }
}
