//! A server on a loopback port and a caller that speaks bytes, for tests that care about bytes.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::panic, reason = "a test that waits in vain, or asks for a panic")]

pub(crate) mod authority;
pub(crate) mod log;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chassis::body::Room;
use chassis::serve::Drained;
use chassis::shutdown::{Phase, Trigger};
use chassis::{BodyLimits, Counters, Limits, Listener};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// No test waits longer than this for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Looks again and again until the condition holds.
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    soon(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) counters: Arc<Counters>,
    pub(crate) trigger: Trigger,
    /// A request to `/wait` or `/hold` is answered when a permit is added.
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) room: Arc<Room>,
    pub(crate) task: JoinHandle<Drained>,
}

impl Server {
    pub(crate) async fn start(limits: Limits) -> Self {
        Self::with_body_limits(limits, BodyLimits::default()).await
    }

    pub(crate) async fn with_body_limits(limits: Limits, body: BodyLimits) -> Self {
        Self::on(loopback().await, limits, body)
    }

    pub(crate) fn on(listener: Listener, limits: Limits, body: BodyLimits) -> Self {
        let address = listener.local_addr().expect("address");
        let counters = Arc::new(Counters::default());
        let (trigger, shutdown) = chassis::shutdown::channel();
        let gate = Arc::new(Semaphore::new(0));
        // Room for two bodies at the limit.
        let room = Room::new(2 * body.bytes);
        let (gate_of_service, room_of_service) = (Arc::clone(&gate), Arc::clone(&room));
        let service = service_fn(move |request| {
            answer(request, body, Arc::clone(&room_of_service), Arc::clone(&gate_of_service))
        });
        let task = tokio::spawn(chassis::serve(listener, service, limits, Arc::clone(&counters), shutdown));
        Self { address, counters, trigger, gate, room, task }
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        soon("a connection", TcpStream::connect(self.address)).await.expect("connect")
    }

    pub(crate) async fn drained(self) -> Drained {
        self.trigger.advance(Phase::Draining);
        soon("the end of the server", self.task).await.expect("no panic")
    }
}

pub(crate) async fn loopback() -> Listener {
    Listener::bind("127.0.0.1:0".parse().expect("address")).await.expect("bind")
}

/// `/who` tells the names in the caller's certificate, `/echo` returns the body, `/hold` reads it and waits at the
/// gate, `/wait` only waits, `/panic` panics, `/large` is 8 MiB, all else is `ok`.
async fn answer(
    request: Request<Incoming>,
    limits: BodyLimits,
    room: Arc<Room>,
    gate: Arc<Semaphore>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(match request.uri().path() {
        "/echo" => match chassis::body::read(request.into_body(), limits, &room).await {
            Ok(body) => Response::new(Full::new(body.clone())),
            Err(refusal) => refusal.response(),
        },
        "/hold" => match chassis::body::read(request.into_body(), limits, &room).await {
            Ok(_held) => {
                gate.acquire().await.expect("never closed").forget();
                Response::new(Full::new(Bytes::from_static(b"ok")))
            }
            Err(refusal) => refusal.response(),
        },
        "/wait" => {
            gate.acquire().await.expect("never closed").forget();
            Response::new(Full::new(Bytes::from_static(b"ok")))
        }
        "/who" => {
            let peer = request.extensions().get::<Arc<chassis::Peer>>().expect("every request has one");
            let names: Vec<&str> =
                peer.certificate.iter().flat_map(chassis::tls::Certificate::names).collect();
            Response::new(Full::new(Bytes::from(names.join(","))))
        }
        "/panic" => panic!("as the test asked"),
        "/large" => Response::new(Full::new(Bytes::from(vec![b'x'; 8 * 1024 * 1024]))),
        _ => Response::new(Full::new(Bytes::from_static(b"ok"))),
    })
}

/// Sends the bytes; a caller that is closed upon while sending is not an error here.
pub(crate) async fn send<T: AsyncWriteExt + Unpin>(stream: &mut T, bytes: impl AsRef<[u8]>) {
    let _ = stream.write_all(bytes.as_ref()).await;
    let _ = stream.flush().await;
}

/// One answer: its status and body, by `Content-Length`. `None` if the connection ended first.
pub(crate) async fn answer_of<T: AsyncRead + Unpin>(stream: &mut T) -> Option<(u16, String)> {
    let (status, _, body) = whole_answer_of(stream).await?;
    Some((status, body))
}

/// One answer with its headers in lower case.
pub(crate) async fn whole_answer_of<T: AsyncRead + Unpin>(stream: &mut T) -> Option<(u16, String, String)> {
    soon("an answer", async {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.ok()?);
        }
        let head = String::from_utf8(head).expect("headers are text").to_lowercase();
        assert!(head.starts_with("http/1.1 "), "not HTTP: {head:?}");
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
        let mut body = vec![0; length.parse().expect("a number")];
        stream.read_exact(&mut body).await.ok()?;
        Some((status, head, String::from_utf8(body).expect("text")))
    })
    .await
}

/// Waits until the other side closes, whichever way.
pub(crate) async fn closed<T: AsyncRead + Unpin>(stream: &mut T) {
    soon("the other side to close", async {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    })
    .await;
}

pub(crate) const GET: &str = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n")
}
