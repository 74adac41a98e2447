//! The accept loop over real sockets: what good callers get, and what bad ones cannot do.

mod wire;

use std::sync::Arc;
use std::time::Duration;

use chassis::serve::Drained;
use chassis::{BodyLimits, Limits, Phase};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use wire::{GET, Server, answer_of, closed, get, send, soon, until, whole_answer_of};

const SHORT: Duration = Duration::from_millis(100);

/// The answer to most requests here.
async fn says_ok(caller: &mut TcpStream) {
    assert_eq!(answer_of(caller).await, Some((200, "ok".to_owned())));
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let server = Server::start(Limits::default()).await;
    let mut caller = server.connect().await;
    for _ in 0..3 {
        send(&mut caller, GET).await;
        says_ok(&mut caller).await;
    }
    assert_eq!((server.counters.accepted.value(), server.counters.requests.value()), (1, 3));
}

#[tokio::test]
async fn a_caller_that_says_nothing_is_closed_at_the_header_deadline() {
    let server = Server::start(Limits { header_deadline: SHORT, ..Limits::default() }).await;
    let mut caller = server.connect().await;
    closed(&mut caller).await;
    assert_eq!(server.counters.header_deadlines.value(), 1);
}

#[tokio::test]
async fn a_slow_loris_is_closed_although_it_keeps_sending() {
    let server = Server::start(Limits { header_deadline: SHORT, ..Limits::default() }).await;
    let mut caller = server.connect().await;
    send(&mut caller, "GET / HTTP/1.1\r\n").await;
    soon("the loris to be cut off", async {
        while server.counters.header_deadlines.value() == 0 {
            send(&mut caller, "X-Drip: drop\r\n").await;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    closed(&mut caller).await;
}

#[tokio::test]
async fn slow_headers_on_a_kept_connection_count_from_their_first_byte() {
    let limits = Limits { header_deadline: SHORT, ..Limits::default() };
    let server = Server::start(limits).await;
    let mut caller = server.connect().await;
    send(&mut caller, GET).await;
    says_ok(&mut caller).await;
    // Idle for longer than the header deadline: that is no offence.
    let quiet = tokio::time::timeout(SHORT * 3, caller.read_u8()).await;
    assert!(quiet.is_err(), "closed while idle");
    send(&mut caller, "GET / HT").await;
    closed(&mut caller).await;
    assert_eq!(server.counters.header_deadlines.value(), 1);
}

#[tokio::test]
async fn an_idle_connection_is_closed_at_the_idle_deadline() {
    let server = Server::start(Limits { idle_deadline: SHORT, ..Limits::default() }).await;
    let mut caller = server.connect().await;
    send(&mut caller, GET).await;
    says_ok(&mut caller).await;
    closed(&mut caller).await;
    drop(caller);
    until("the books to close", || server.counters.open() == 0).await;
    assert_eq!(server.counters.idle_deadlines.value(), 1);
}

#[tokio::test]
async fn huge_headers_are_answered_with_431() {
    let limits = Limits { header_bytes: 4096, ..Limits::default() };
    let server = Server::start(limits).await;
    let mut caller = server.connect().await;
    send(&mut caller, format!("GET / HTTP/1.1\r\nX-Huge: {}\r\n\r\n", "a".repeat(100_000))).await;
    assert_eq!(answer_of(&mut caller).await.map(|a| a.0), Some(431));
    closed(&mut caller).await;
}

#[tokio::test]
async fn too_many_headers_are_answered_with_431() {
    let server = Server::start(Limits { header_count: 10, ..Limits::default() }).await;
    let mut caller = server.connect().await;
    send(&mut caller, format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(11))).await;
    assert_eq!(answer_of(&mut caller).await.map(|a| a.0), Some(431));
}

#[tokio::test]
async fn bytes_that_are_no_http_are_answered_with_400() {
    let server = Server::start(Limits::default()).await;
    let mut caller = server.connect().await;
    send(&mut caller, "\u{16}\u{3}\u{1} this is not HTTP\r\n\r\n").await;
    assert_eq!(answer_of(&mut caller).await.map(|a| a.0), Some(400));
}

fn small_bodies() -> BodyLimits {
    BodyLimits { bytes: 1000, deadline: SHORT }
}

#[tokio::test]
async fn a_body_at_the_limit_is_read_whole() {
    let server = Server::with_body_limits(Limits::default(), small_bodies()).await;
    let mut caller = server.connect().await;
    let body = "b".repeat(1000);
    send(&mut caller, format!("POST /echo HTTP/1.1\r\nContent-Length: 1000\r\n\r\n{body}")).await;
    assert_eq!(answer_of(&mut caller).await, Some((200, body)));
}

#[tokio::test]
async fn a_body_in_pieces_is_put_together() {
    let server = Server::start(Limits::default()).await;
    let mut caller = server.connect().await;
    send(&mut caller, "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n").await;
    send(&mut caller, "2\r\nde\r\n1\r\nf\r\n0\r\n\r\n").await;
    assert_eq!(answer_of(&mut caller).await, Some((200, "abcdef".to_owned())));
}

const TOO_LARGE: &str =
    "{\"error\":\"request body is longer than 1000 bytes; send less, or raise --max-body-bytes\"}\n";

#[tokio::test]
async fn a_body_declared_too_long_is_answered_before_it_is_sent() {
    let server = Server::with_body_limits(Limits::default(), small_bodies()).await;
    let mut caller = server.connect().await;
    send(&mut caller, "POST /echo HTTP/1.1\r\nContent-Length: 209715200\r\n\r\n").await;
    assert_eq!(answer_of(&mut caller).await, Some((413, TOO_LARGE.to_owned())));
}

#[tokio::test]
async fn a_caller_that_sends_a_huge_body_anyway_still_reads_its_413() {
    let server = Server::with_body_limits(Limits::default(), small_bodies()).await;
    let mut caller = server.connect().await;
    let request = format!("POST /echo HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n{}", "x".repeat(8_000_000));
    send(&mut caller, request).await;
    assert_eq!(answer_of(&mut caller).await, Some((413, TOO_LARGE.to_owned())));
}

#[tokio::test]
async fn chunks_without_end_are_answered_with_413() {
    let server = Server::with_body_limits(Limits::default(), small_bodies()).await;
    let mut caller = server.connect().await;
    send(&mut caller, "POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").await;
    let (mut reading, mut writing) = caller.split();
    let endless = async {
        loop {
            send(&mut writing, "64\r\n".to_owned() + &"y".repeat(100) + "\r\n").await;
            tokio::task::yield_now().await;
        }
    };
    let answer = tokio::select! {
        answer = answer_of(&mut reading) => answer,
        () = endless => None,
    };
    assert_eq!(answer, Some((413, TOO_LARGE.to_owned())));
}

#[tokio::test]
async fn a_body_that_stops_is_answered_with_408() {
    let server = Server::with_body_limits(Limits::default(), small_bodies()).await;
    let mut caller = server.connect().await;
    send(&mut caller, "POST /echo HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf").await;
    let late = "{\"error\":\"request body did not arrive within 100 ms; send it faster\"}\n";
    assert_eq!(answer_of(&mut caller).await, Some((408, late.to_owned())));
    closed(&mut caller).await;
}

#[tokio::test]
async fn bodies_share_a_room_and_leave_it() {
    let limits = BodyLimits { bytes: 1000, ..BodyLimits::default() };
    let server = Server::with_body_limits(Limits::default(), limits).await;
    let hold = format!("POST /hold HTTP/1.1\r\nContent-Length: 900\r\n\r\n{}", "h".repeat(900));
    let mut holding = Vec::new();
    for taken in [900, 1800] {
        let mut caller = server.connect().await;
        send(&mut caller, &hold).await;
        until("the body to be held", || server.room.taken() == taken).await;
        holding.push(caller);
    }
    let mut third = server.connect().await;
    send(&mut third, &hold).await;
    let full =
        "{\"error\":\"the requests being read already hold 2000 bytes, which is all they may; try again\"}\n";
    assert_eq!(answer_of(&mut third).await, Some((503, full.to_owned())));

    // An answer and a caller that hangs up both give back what they took.
    drop(holding.remove(0));
    until("the room of the one that hung up", || server.room.taken() == 900).await;
    server.gate.add_permits(1);
    says_ok(&mut holding[0]).await;
    until("the room of the one that was answered", || server.room.taken() == 0).await;
}

#[tokio::test]
async fn a_caller_that_does_not_read_its_answer_is_closed() {
    let server = Server::start(Limits { stall_deadline: SHORT, ..Limits::default() }).await;
    let mut caller = server.connect().await;
    send(&mut caller, get("/large")).await;
    until("the stalled connection to be closed", || server.counters.stall_deadlines.value() == 1).await;
    until("the books to close", || server.counters.open() == 0).await;
}

#[tokio::test]
async fn past_the_limit_connections_that_do_nothing_give_way_and_a_guest_outlasts_strangers() {
    let server = Server::start(Limits { connections: 64, ..Limits::default() }).await;
    let mut guest = server.connect().await;
    send(&mut guest, GET).await;
    says_ok(&mut guest).await;
    let mut callers = Vec::new();
    for _ in 0..300 {
        callers.push(server.connect().await);
    }
    let counters = &server.counters;
    until("all to be judged", || counters.accepted.value() + counters.refused.value() == 301).await;
    assert_eq!((counters.refused.value(), counters.displaced.value()), (0, 301 - 64));
    closed(&mut callers[0]).await;
    for caller in [&mut guest, &mut callers[299]] {
        send(caller, GET).await;
        says_ok(caller).await;
    }
}

#[tokio::test]
async fn while_everybody_is_being_answered_a_new_connection_is_closed_at_once_and_room_comes_back() {
    let server = Server::start(Limits { connections: 8, ..Limits::default() }).await;
    let mut callers = Vec::new();
    for _ in 0..8 {
        let mut caller = server.connect().await;
        send(&mut caller, get("/wait")).await;
        callers.push(caller);
    }
    until("all to be asked", || server.counters.requests.value() == 8).await;
    closed(&mut server.connect().await).await;
    assert_eq!((server.counters.refused.value(), server.counters.displaced.value()), (1, 0));
    server.gate.add_permits(8);
    for caller in &mut callers {
        says_ok(caller).await;
    }
    let mut late = server.connect().await;
    send(&mut late, GET).await;
    says_ok(&mut late).await;
}

#[tokio::test]
async fn a_panic_is_answered_with_500_and_harms_nobody_else() {
    let server = Server::start(Limits::default()).await;
    let mut caller = server.connect().await;
    send(&mut caller, get("/panic")).await;
    let reason =
        "{\"error\":\"the server met a defect of its own while answering; its log has the details\"}\n";
    assert_eq!(answer_of(&mut caller).await, Some((500, reason.to_owned())));
    send(&mut caller, GET).await;
    says_ok(&mut caller).await;
    assert_eq!(server.counters.panics.value(), 1);
}

#[tokio::test]
async fn draining_finishes_the_request_in_flight_and_closes_the_idle() {
    let server = Server::start(Limits::default()).await;
    let mut idle = server.connect().await;
    send(&mut idle, GET).await;
    says_ok(&mut idle).await;
    let mut busy = server.connect().await;
    send(&mut busy, get("/wait")).await;
    until("the request to arrive", || server.counters.requests.value() == 2).await;

    server.trigger.advance(Phase::Draining);
    closed(&mut idle).await;
    drop(idle);
    until("the idle one to be gone", || server.counters.open() == 1).await;
    server.gate.add_permits(1);
    says_ok(&mut busy).await;
    closed(&mut busy).await;
    drop(busy);
    assert_eq!(server.drained().await, Drained { cut: 0 });
}

#[tokio::test]
async fn a_request_that_outlives_the_drain_deadline_is_cut_and_counted() {
    let server = Server::start(Limits { drain_deadline: SHORT, ..Limits::default() }).await;
    let mut busy = server.connect().await;
    send(&mut busy, get("/wait")).await;
    until("the request to arrive", || server.counters.requests.value() == 1).await;
    let counters = Arc::clone(&server.counters);
    assert_eq!(server.drained().await, Drained { cut: 1 });
    assert_eq!((counters.cut.value(), counters.open()), (1, 0));
    closed(&mut busy).await;
}

#[tokio::test]
async fn while_leaving_callers_are_answered_and_asked_to_go_elsewhere() {
    let server = Server::start(Limits::default()).await;
    let mut kept = server.connect().await;
    send(&mut kept, GET).await;
    let (_, headers, _) = whole_answer_of(&mut kept).await.expect("an answer");
    assert!(!headers.contains("connection: close"));

    server.trigger.advance(Phase::Leaving);
    let mut fresh = server.connect().await;
    for caller in [&mut kept, &mut fresh] {
        send(caller, GET).await;
        let (status, headers, _) = whole_answer_of(caller).await.expect("an answer");
        assert_eq!((status, headers.contains("connection: close")), (200, true));
        closed(caller).await;
    }
}

#[tokio::test]
async fn an_axum_router_fits() {
    let listener = wire::loopback().await;
    let address = listener.local_addr().expect("address");
    let (_trigger, shutdown) = chassis::shutdown::channel();
    let router = axum::Router::new().route("/", axum::routing::get(|| async { "ok" }));
    let service = chassis::serve::tower(router);
    tokio::spawn(chassis::serve(listener, service, Limits::default(), Arc::default(), shutdown));
    let mut caller = soon("a connection", TcpStream::connect(address)).await.expect("connect");
    send(&mut caller, GET).await;
    says_ok(&mut caller).await;
}

#[tokio::test]
async fn a_port_in_use_is_an_error_that_names_it() {
    let server = Server::start(Limits::default()).await;
    let error = chassis::Listener::bind(server.address).await.expect_err("taken");
    let expected = format!(
        "cannot listen on {}; is another process using the port, or is the address not of this machine?",
        server.address
    );
    assert_eq!(error.to_string(), expected);
}
