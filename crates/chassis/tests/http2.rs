//! HTTP/2 where TLS negotiates it: same service, same limits, same drain.

mod wire;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chassis::tls::{Live, Protocols, Settings, unix_now};
use chassis::{BodyLimits, Limits, Phase};
use http::{Request, Version};
use http_body_util::{BodyExt, Empty, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use wire::authority::{Authority, Caller, Mount};
use wire::{Server, loopback, soon, until};

async fn house(test: &str, protocols: Protocols, limits: Limits) -> (Authority, Server) {
    let authority = Authority::new("test authority");
    let mount = Mount::new(test);
    let pair = authority.server();
    mount.swap(&pair.certificate, &pair.key, &authority.pair.certificate);
    let settings = Settings { protocols, ..mount.settings(&[]) };
    let (live, _) = Live::load(settings, unix_now()).expect("good files");
    let listener = loopback().await.with_tls(live);
    let body = BodyLimits { bytes: 1000, deadline: Duration::from_secs(20) };
    (authority, Server::on(listener, limits, body))
}

fn caller(authority: &Authority, protocols: &[&str]) -> Caller {
    let pair = authority.client("kube-scheduler");
    Caller::new(authority, Some(&pair), protocols, &[&rustls::version::TLS13])
}

async fn negotiated(authority: &Authority, server: &Server, offered: &[&str]) -> Option<String> {
    let stream = caller(authority, offered).call(server.connect().await).await.expect("let in");
    let chosen = stream.get_ref().1.alpn_protocol()?;
    Some(String::from_utf8_lossy(chosen).into_owned())
}

#[tokio::test]
async fn the_server_prefers_what_it_was_told_to_prefer() {
    let cases = [
        (Protocols::Http1, &["h2", "http/1.1"][..], Some("http/1.1")),
        (Protocols::Http1First, &["h2", "http/1.1"], Some("http/1.1")),
        (Protocols::Http1First, &["h2"], Some("h2")),
        (Protocols::Http1First, &[], None),
        (Protocols::Http2First, &["http/1.1", "h2"], Some("h2")),
        (Protocols::Http2First, &["http/1.1"], Some("http/1.1")),
    ];
    for (protocols, offered, expected) in cases {
        let (authority, server) = house("prefers", protocols, Limits::default()).await;
        let chosen = negotiated(&authority, &server, offered).await;
        assert_eq!(chosen.as_deref(), expected, "{protocols:?} with {offered:?}");
    }
}

/// A connection that speaks HTTP/2.
async fn connected(authority: &Authority, server: &Server) -> SendRequest<Full<Bytes>> {
    let stream = caller(authority, &["h2"]).call(server.connect().await).await.expect("let in");
    let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = shaken.expect("HTTP/2");
    tokio::spawn(connection);
    sender
}

async fn ask(sender: &SendRequest<Full<Bytes>>, path: &str, body: Vec<u8>) -> Option<(u16, Bytes)> {
    let request = Request::builder()
        .version(Version::HTTP_2)
        .uri(format!("https://localhost{path}"))
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let response = soon("an answer", sender.clone().send_request(request)).await.ok()?;
    let status = response.status().as_u16();
    Some((status, response.into_body().collect().await.ok()?.to_bytes()))
}

#[tokio::test]
async fn requests_bodies_panics_and_limits_are_as_on_http_1() {
    let (authority, server) = house("same", Protocols::Http2First, Limits::default()).await;
    let sender = connected(&authority, &server).await;
    let names = Bytes::from_static(b"kube-scheduler,kube-scheduler");
    assert_eq!(ask(&sender, "/who", Vec::new()).await, Some((200, names)));
    assert_eq!(ask(&sender, "/echo", vec![b'x'; 1000]).await, Some((200, Bytes::from(vec![b'x'; 1000]))));
    assert_eq!(ask(&sender, "/echo", vec![b'x'; 1001]).await.map(|answer| answer.0), Some(413));
    assert_eq!(ask(&sender, "/panic", Vec::new()).await.map(|answer| answer.0), Some(500));
    assert_eq!(ask(&sender, "/", Vec::new()).await.map(|answer| answer.0), Some(200));
    assert_eq!((server.counters.accepted.value(), server.counters.panics.value()), (1, 1));
}

#[tokio::test]
async fn huge_headers_are_refused_on_http_2_too() {
    let limits = Limits { header_bytes: 4096, ..Limits::default() };
    let (authority, server) = house("h2-huge", Protocols::Http2First, limits).await;
    let sender = connected(&authority, &server).await;
    let request = Request::builder()
        .uri("https://localhost/")
        .header("x-huge", "a".repeat(10_000))
        .body(Full::default())
        .expect("a request");
    let answer = soon("an answer", sender.clone().send_request(request)).await;
    assert!(answer.is_err() || answer.is_ok_and(|response| response.status() == 431));
    assert_eq!(server.counters.requests.value(), 0);
}

#[tokio::test]
async fn more_requests_at_once_than_allowed_wait_their_turn() {
    let limits = Limits { streams: 2, ..Limits::default() };
    let (authority, server) = house("streams", Protocols::Http2First, limits).await;
    let sender = connected(&authority, &server).await;
    // The first answer makes sure that the client has read the server's settings.
    ask(&sender, "/", Vec::new()).await.expect("an answer");
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let sender = sender.clone();
            tokio::spawn(async move { ask(&sender, "/wait", Vec::new()).await })
        })
        .collect();
    until("two to arrive", || server.counters.requests.value() == 3).await;
    server.gate.add_permits(1);
    until("the third to arrive", || server.counters.requests.value() == 4).await;
    server.gate.add_permits(2);
    for answer in waiting {
        assert_eq!(answer.await.expect("no panic"), Some((200, Bytes::from_static(b"ok"))));
    }
}

#[tokio::test]
async fn an_idle_http_2_connection_is_closed_although_it_pings() {
    let limits = Limits { idle_deadline: Duration::from_millis(100), ..Limits::default() };
    let (authority, server) = house("h2-idle", Protocols::Http2First, limits).await;
    let stream = caller(&authority, &["h2"]).call(server.connect().await).await.expect("let in");
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(hyper_util::rt::TokioTimer::new())
        .keep_alive_interval(Duration::from_millis(10))
        .keep_alive_while_idle(true);
    let shaken = builder.handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await;
    let (mut sender, connection) = shaken.expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let request = Request::builder().uri("https://localhost/").body(Empty::new()).expect("a request");
    soon("an answer", sender.send_request(request)).await.expect("an answer");
    let _ = soon("the end of the connection", connection).await;
    assert_eq!(server.counters.idle_deadlines.value(), 1);
    assert_eq!(server.counters.header_deadlines.value(), 0);
}

#[tokio::test]
async fn draining_finishes_streams_in_flight() {
    let (authority, server) = house("h2-drain", Protocols::Http2First, Limits::default()).await;
    let sender = connected(&authority, &server).await;
    let waiting = {
        let sender = sender.clone();
        tokio::spawn(async move { ask(&sender, "/wait", Vec::new()).await })
    };
    until("the request to arrive", || server.counters.requests.value() == 1).await;
    let gate = Arc::clone(&server.gate);
    server.trigger.advance(Phase::Draining);
    gate.add_permits(1);
    assert_eq!(waiting.await.expect("no panic"), Some((200, Bytes::from_static(b"ok"))));
    drop(sender);
    assert_eq!(server.drained().await.cut, 0);
}
