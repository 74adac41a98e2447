//! The admin port: probes as kubelet reads them, metrics as Prometheus reads them.

mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chassis::admin::{Admin, Health, Probe, ServerMetrics};
use chassis::tls::{Live, unix_now};
use chassis::{Counters, HandshakeFailure, Limits, Phase};
use http::Method;
use http_body_util::BodyExt;
use prometheus_client::registry::Registry;
use wire::authority::{Authority, Mount};
use wire::{answer_of, get, loopback, send, soon, whole_answer_of};

async fn ask(admin: &Admin, method: Method, path: &str) -> String {
    let uri: http::Uri = path.parse().expect("a path");
    let response = admin.answer(&method, uri.path(), uri.query());
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    format!("{status}\n{}", String::from_utf8_lossy(&body))
}

fn half_ready() -> (Admin, Arc<AtomicBool>) {
    let synced = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&synced);
    let health = Health::default()
        .with_words(Probe::Live, "refresher", || Ok("view 2 s old".to_owned()))
        .with(Probe::Ready, "certificate", || Ok(()))
        .with(Probe::Ready, "watches", move || {
            if watched.load(Ordering::Relaxed) { Ok(()) } else { Err("nodes are not listed yet".to_owned()) }
        });
    (Admin::new(health, Registry::default()), synced)
}

#[tokio::test]
async fn a_probe_that_fails_lists_what_failed() {
    let (admin, synced) = half_ready();
    insta::assert_snapshot!(ask(&admin, Method::GET, "/readyz").await, @r#"
    503
    [+]certificate ok
    [-]watches failed: nodes are not listed yet
    readyz check failed
    "#);
    insta::assert_snapshot!(ask(&admin, Method::GET, "/readyz?verbose&exclude=watches").await, @r#"
    200
    [+]certificate ok
    [+]watches excluded: ok
    readyz check passed
    "#);
    synced.store(true, Ordering::Relaxed);
    insta::assert_snapshot!(ask(&admin, Method::GET, "/readyz").await, @r#"
    200
    ok
    "#);
    insta::assert_snapshot!(ask(&admin, Method::GET, "/readyz?verbose").await, @r#"
    200
    [+]certificate ok
    [+]watches ok
    readyz check passed
    "#);
    insta::assert_snapshot!(ask(&admin, Method::GET, "/livez?verbose=true").await, @r#"
    200
    [+]refresher ok: view 2 s old
    livez check passed
    "#);
}

#[tokio::test]
async fn other_methods_and_routes_are_answered_with_the_way() {
    let (admin, _) = half_ready();
    insta::assert_snapshot!(ask(&admin, Method::POST, "/livez").await, @r#"
    405
    {"error":"only GET and HEAD are answered here"}
    "#);
    insta::assert_snapshot!(ask(&admin, Method::GET, "/healthz").await, @r#"
    404
    {"error":"there are /livez, /readyz (with ?verbose) and /metrics here"}
    "#);
}

#[tokio::test]
async fn a_process_that_is_stopping_is_live_but_not_ready() {
    let (trigger, shutdown) = chassis::shutdown::channel();
    let admin = Admin::new(Health::default().with_shutdown(shutdown), Registry::default());
    assert_eq!(ask(&admin, Method::GET, "/readyz").await, "200\nok");
    trigger.advance(Phase::Leaving);
    insta::assert_snapshot!(ask(&admin, Method::GET, "/readyz").await, @r#"
    503
    [-]shutdown failed: the process is stopping
    readyz check failed
    "#);
    assert_eq!(ask(&admin, Method::GET, "/livez").await, "200\nok");
}

#[tokio::test]
async fn the_counters_of_a_server_and_its_certificate_are_exposed() {
    let authority = Authority::new("test authority");
    let mount = Mount::new("exposed");
    let pair = authority.issue("localhost", |params| params.not_after = rcgen::date_time_ymd(2222, 2, 22));
    mount.swap(&pair.certificate, &pair.key, &authority.pair.certificate);
    let (live, _) = Live::load(mount.settings(&[]), unix_now()).expect("good files");
    let counters = Arc::new(Counters::default());
    counters.accepted.add(3);
    counters.closed.add(1);
    counters.requests.add(70);
    counters.handshake_failures(HandshakeFailure::Name).add(2);
    let metrics = ServerMetrics::default()
        .with("extender", counters)
        .with("admin", Arc::default())
        .with_certificate("extender", live);
    let mut registry = Registry::with_prefix("tas");
    registry.register_collector(Box::new(metrics));
    let admin = Admin::new(Health::default(), registry);
    insta::assert_snapshot!(ask(&admin, Method::GET, "/metrics").await, @r#"
    200
    # HELP tas_server_connections_accepted Connections taken on.
    # TYPE tas_server_connections_accepted counter
    tas_server_connections_accepted_total{server="extender"} 3
    tas_server_connections_accepted_total{server="admin"} 0
    # HELP tas_server_connections_refused Connections closed at once because all others were being answered.
    # TYPE tas_server_connections_refused counter
    tas_server_connections_refused_total{server="extender"} 0
    tas_server_connections_refused_total{server="admin"} 0
    # HELP tas_server_connections_displaced Connections that did nothing and gave way to new ones.
    # TYPE tas_server_connections_displaced counter
    tas_server_connections_displaced_total{server="extender"} 0
    tas_server_connections_displaced_total{server="admin"} 0
    # HELP tas_server_connections_cut Connections cut because the drain deadline passed.
    # TYPE tas_server_connections_cut counter
    tas_server_connections_cut_total{server="extender"} 0
    tas_server_connections_cut_total{server="admin"} 0
    # HELP tas_server_accept_errors Failed attempts to accept a connection.
    # TYPE tas_server_accept_errors counter
    tas_server_accept_errors_total{server="extender"} 0
    tas_server_accept_errors_total{server="admin"} 0
    # HELP tas_server_requests Requests handed to the service.
    # TYPE tas_server_requests counter
    tas_server_requests_total{server="extender"} 70
    tas_server_requests_total{server="admin"} 0
    # HELP tas_server_panics Requests or connections that ended in a defect of ours.
    # TYPE tas_server_panics counter
    tas_server_panics_total{server="extender"} 0
    tas_server_panics_total{server="admin"} 0
    # HELP tas_server_header_deadlines_missed Connections closed because headers came too slowly.
    # TYPE tas_server_header_deadlines_missed counter
    tas_server_header_deadlines_missed_total{server="extender"} 0
    tas_server_header_deadlines_missed_total{server="admin"} 0
    # HELP tas_server_idle_deadlines_missed Connections closed after idling.
    # TYPE tas_server_idle_deadlines_missed counter
    tas_server_idle_deadlines_missed_total{server="extender"} 0
    tas_server_idle_deadlines_missed_total{server="admin"} 0
    # HELP tas_server_stall_deadlines_missed Connections closed because the caller did not read its answer.
    # TYPE tas_server_stall_deadlines_missed counter
    tas_server_stall_deadlines_missed_total{server="extender"} 0
    tas_server_stall_deadlines_missed_total{server="admin"} 0
    # HELP tas_server_connections_open Connections open now.
    # TYPE tas_server_connections_open gauge
    tas_server_connections_open{server="extender"} 2
    tas_server_connections_open{server="admin"} 0
    # HELP tas_server_handshake_failures Failed TLS handshakes by reason.
    # TYPE tas_server_handshake_failures counter
    tas_server_handshake_failures_total{server="extender",reason="late"} 0
    tas_server_handshake_failures_total{server="extender",reason="closed"} 0
    tas_server_handshake_failures_total{server="extender",reason="not_tls"} 0
    tas_server_handshake_failures_total{server="extender",reason="version"} 0
    tas_server_handshake_failures_total{server="extender",reason="incompatible"} 0
    tas_server_handshake_failures_total{server="extender",reason="no_certificate"} 0
    tas_server_handshake_failures_total{server="extender",reason="unknown_issuer"} 0
    tas_server_handshake_failures_total{server="extender",reason="expired"} 0
    tas_server_handshake_failures_total{server="extender",reason="not_yet_valid"} 0
    tas_server_handshake_failures_total{server="extender",reason="purpose"} 0
    tas_server_handshake_failures_total{server="extender",reason="authority_as_client"} 0
    tas_server_handshake_failures_total{server="extender",reason="name"} 2
    tas_server_handshake_failures_total{server="extender",reason="bad_certificate"} 0
    tas_server_handshake_failures_total{server="extender",reason="refused_by_client"} 0
    tas_server_handshake_failures_total{server="extender",reason="other"} 0
    # HELP tas_certificate_reloads New certificate files, by whether they could be used.
    # TYPE tas_certificate_reloads counter
    tas_certificate_reloads_total{server="extender",outcome="used"} 0
    tas_certificate_reloads_total{server="extender",outcome="bad"} 0
    # HELP tas_certificate_expiry_timestamp_seconds When the certificate in use ends, in seconds since 1970.
    # TYPE tas_certificate_expiry_timestamp_seconds gauge
    tas_certificate_expiry_timestamp_seconds{server="extender"} 7956835200
    # EOF
    "#);
}

#[tokio::test]
async fn the_admin_port_is_served_as_it_is_or_as_a_tower_service() {
    let (admin, _) = half_ready();
    let (_trigger, shutdown) = chassis::shutdown::channel();
    let (direct, towered) = (loopback().await, loopback().await);
    let addresses = [direct.local_addr().expect("address"), towered.local_addr().expect("address")];
    let counters = Arc::new(Counters::default());
    let serve =
        chassis::serve(direct, admin.clone(), Limits::default(), Arc::clone(&counters), shutdown.clone());
    tokio::spawn(serve);
    let service = chassis::serve::tower(admin);
    tokio::spawn(chassis::serve(towered, service, Limits::default(), counters, shutdown));
    for address in addresses {
        let mut caller =
            soon("a connection", tokio::net::TcpStream::connect(address)).await.expect("connect");
        send(&mut caller, get("/livez")).await;
        assert_eq!(answer_of(&mut caller).await, Some((200, "ok".to_owned())));
        send(&mut caller, get("/metrics")).await;
        let (status, headers, body) = whole_answer_of(&mut caller).await.expect("an answer");
        assert_eq!((status, body.as_str()), (200, "# EOF\n"));
        assert!(headers.contains("content-type: application/openmetrics-text"), "{headers}");
    }
}
