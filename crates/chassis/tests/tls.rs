//! TLS over real sockets: who is let in, what the log says about those who are not, and reload under load.

mod wire;

use std::sync::Arc;
use std::time::Duration;

use chassis::tls::{Live, Problem, unix_now};
use chassis::{BodyLimits, HandshakeFailure, Limits};
use rcgen::ExtendedKeyUsagePurpose;
use wire::authority::{Authority, Caller, Mount, Pair};
use wire::log::Log;
use wire::{GET, Server, answer_of, closed, get, loopback, send, soon, until};

/// How often the reloader looks in tests.
const OFTEN: Duration = Duration::from_millis(5);

async fn serve_with(live: &Arc<Live>, limits: Limits) -> Server {
    Server::on(loopback().await.with_tls(Arc::clone(live)), limits, BodyLimits::default())
}

/// An authority, its server's files mounted, and a server that lets `kube-scheduler` in.
async fn house(test: &str) -> (Authority, Mount, Server) {
    let authority = Authority::new("test authority");
    let mount = Mount::new(test);
    let pair = authority.server();
    mount.swap(&pair.certificate, &pair.key, &authority.pair.certificate);
    let (live, _) = Live::load(mount.settings(&["kube-scheduler"]), unix_now()).expect("good files");
    let server = serve_with(&live, Limits::default()).await;
    (authority, mount, server)
}

async fn ask(server: &Server, caller: &Caller, request: &str) -> Option<(u16, String)> {
    let mut stream = caller.call(server.connect().await).await.ok()?;
    send(&mut stream, request).await;
    answer_of(&mut stream).await
}

#[tokio::test]
async fn a_client_with_a_wanted_name_is_let_in_and_its_names_reach_the_service() {
    let (authority, _mount, server) = house("wanted").await;
    let caller = authority.caller(Some(&authority.client("kube-scheduler")));
    let answer = ask(&server, &caller, &get("/who")).await;
    assert_eq!(answer, Some((200, "kube-scheduler,kube-scheduler".to_owned())));
}

#[tokio::test]
async fn a_resumed_session_still_knows_who_is_calling() {
    let (authority, _mount, server) = house("resumed").await;
    let pair = authority.client("kube-scheduler");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let caller = Caller::new(&authority, Some(&pair), &[], &[version]);
        for expected in [rustls::HandshakeKind::Full, rustls::HandshakeKind::Resumed] {
            let mut stream = caller.call(server.connect().await).await.expect("let in");
            send(&mut stream, get("/who")).await;
            assert_eq!(answer_of(&mut stream).await, Some((200, "kube-scheduler,kube-scheduler".to_owned())));
            assert_eq!(stream.get_ref().1.handshake_kind(), Some(expected), "{version:?}");
        }
    }
}

/// What the log said and which counter moved when this client called.
async fn refused(test: &str, client: impl FnOnce(&Authority) -> Option<Pair>) -> String {
    let (log, _guard) = Log::catch();
    let (authority, _mount, server) = house(test).await;
    let pair = client(&authority);
    let answer = ask(&server, &authority.caller(pair.as_ref()), GET).await;
    assert_eq!(answer, None, "let in");
    verdict(&log, &server).await
}

async fn verdict(log: &Log, server: &Server) -> String {
    let failures = || {
        let failed = |kind: &HandshakeFailure| server.counters.handshake_failures(*kind).value() > 0;
        HandshakeFailure::ALL.into_iter().filter(failed).map(HandshakeFailure::label).collect::<Vec<_>>()
    };
    until("the failure to be counted", || !failures().is_empty()).await;
    let said: Vec<_> = log.lines().into_iter().filter(|line| line.contains("handshake failed")).collect();
    format!("{}: {}", failures().join(" "), said.join("\n"))
}

#[tokio::test]
async fn the_authoritys_own_pair_is_refused_as_client_with_the_way_out() {
    let said = refused("authority", |authority| {
        let Pair { certificate, key } = &authority.pair;
        Some(Pair { certificate: certificate.clone(), key: key.clone() })
    });
    insta::assert_snapshot!(said.await, @r#"authority_as_client: WARN TLS handshake failed peer=127.0.0.1 reason=the client presents a CA's own certificate ("test authority"), as Intel's documents tell it to; a CA pair must not be a client pair: issue the client its own certificate signed by that CA with the extended key usage clientAuth, and keep the CA's key off other machines"#);
}

#[tokio::test]
async fn a_client_without_certificate_is_refused() {
    insta::assert_snapshot!(refused("none", |_| None).await, @"no_certificate: WARN TLS handshake failed peer=127.0.0.1 reason=the client sent no certificate; give it one that is signed by the CA of --cacert (for kube-scheduler: tlsConfig.certFile and keyFile)");
}

#[tokio::test]
async fn a_client_of_another_authority_is_refused() {
    let said = refused("stranger", |_| Some(Authority::new("test authority").client("kube-scheduler")));
    insta::assert_snapshot!(said.await, @"unknown_issuer: WARN TLS handshake failed peer=127.0.0.1 reason=the client's certificate is not signed by the CA of --cacert; sign it with that CA, or add the CA that did to the file");
}

#[tokio::test]
async fn an_expired_client_is_refused() {
    let said = refused("expired", |authority| {
        Some(authority.issue("kube-scheduler", |params| params.not_after = rcgen::date_time_ymd(2024, 2, 29)))
    });
    insta::assert_snapshot!(said.await, @"expired: WARN TLS handshake failed peer=127.0.0.1 reason=the client's certificate expired at 2024-02-29T00:00:00Z; renew it");
}

#[tokio::test]
async fn a_client_before_its_time_is_refused() {
    let said = refused("early", |authority| {
        Some(
            authority.issue("kube-scheduler", |params| params.not_before = rcgen::date_time_ymd(2222, 2, 22)),
        )
    });
    insta::assert_snapshot!(said.await, @"not_yet_valid: WARN TLS handshake failed peer=127.0.0.1 reason=the client's certificate is not valid yet; are the clocks of both machines right?");
}

#[tokio::test]
async fn a_servers_certificate_is_refused_as_client() {
    let said = refused("purpose", |authority| {
        let purposes = vec![ExtendedKeyUsagePurpose::ServerAuth];
        Some(authority.issue("kube-scheduler", |params| params.extended_key_usages = purposes))
    });
    insta::assert_snapshot!(said.await, @"purpose: WARN TLS handshake failed peer=127.0.0.1 reason=the client's certificate is not meant for clients; issue one with the extended key usage clientAuth");
}

#[tokio::test]
async fn a_client_with_another_name_is_refused() {
    let said = refused("name", |authority| Some(authority.client("kubelet-17")));
    insta::assert_snapshot!(said.await, @r#"name: WARN TLS handshake failed peer=127.0.0.1 reason=the client's certificate is for "kubelet-17", and --client-name allows "kube-scheduler""#);
}

#[tokio::test]
async fn plain_http_on_a_tls_port_is_answered_in_plain_words() {
    let (log, _guard) = Log::catch();
    let (_authority, _mount, server) = house("plain").await;
    let mut caller = server.connect().await;
    send(&mut caller, GET).await;
    let words = "{\"error\":\"this port speaks TLS; use https\"}\n";
    assert_eq!(answer_of(&mut caller).await, Some((400, words.to_owned())));
    insta::assert_snapshot!(verdict(&log, &server).await, @"not_tls: WARN TLS handshake failed peer=127.0.0.1 reason=the client does not speak TLS; use https (for kube-scheduler: enableHTTPS: true and a urlPrefix with https)");
}

#[tokio::test]
async fn a_client_that_does_not_trust_us_is_named_as_such() {
    let (log, _guard) = Log::catch();
    let (_authority, _mount, server) = house("distrust").await;
    let stranger = Authority::new("another authority");
    assert_eq!(ask(&server, &stranger.caller(None), GET).await, None);
    insta::assert_snapshot!(verdict(&log, &server).await, @"refused_by_client: WARN TLS handshake failed peer=127.0.0.1 reason=the client does not trust our certificate (UnknownCA); give it the CA that signed it (for kube-scheduler: tlsConfig.caFile), and check that the certificate bears the name it calls us by");
}

#[tokio::test]
async fn tls_1_1_is_refused() {
    let (log, _guard) = Log::catch();
    let (_authority, _mount, server) = house("old").await;
    let mut caller = server.connect().await;
    // A ClientHello of TLS 1.1: version, 32 bytes of random, no session, one cipher suite, no compression.
    let hello = [&[3, 2][..], &[7; 32], &[0], &[0, 2, 0xc0, 0x13], &[1, 0]].concat();
    let message = [&[1, 0, 0, 41][..], &hello].concat();
    send(&mut caller, [&[22, 3, 1, 0, 45][..], &message].concat()).await;
    closed(&mut caller).await;
    insta::assert_snapshot!(verdict(&log, &server).await, @"version: WARN TLS handshake failed peer=127.0.0.1 reason=the client offers nothing newer than TLS 1.1; we need 1.2 or 1.3");
}

#[tokio::test]
async fn a_port_check_is_counted_but_bothers_nobody() {
    let (log, _guard) = Log::catch();
    let (_authority, _mount, server) = house("check").await;
    drop(server.connect().await);
    insta::assert_snapshot!(verdict(&log, &server).await, @"closed: DEBUG TLS handshake failed peer=127.0.0.1 reason=the client closed the connection before the handshake was done; port checks and load balancers do that");
}

#[tokio::test]
async fn a_silent_client_is_closed_at_the_handshake_deadline() {
    let (log, _guard) = Log::catch();
    let (_authority, mount, _server) = house("silent").await;
    let (live, _) = Live::load(mount.settings(&[]), unix_now()).expect("good files");
    let limits = Limits { handshake_deadline: Duration::from_millis(50), ..Limits::default() };
    let server = serve_with(&live, limits).await;
    closed(&mut server.connect().await).await;
    insta::assert_snapshot!(verdict(&log, &server).await, @"late: WARN TLS handshake failed peer=127.0.0.1 reason=the client did not finish the handshake within 50 ms");
}

#[tokio::test]
async fn a_client_that_retries_is_logged_once_and_counted_each_time() {
    let (log, _guard) = Log::catch();
    let (authority, _mount, server) = house("retries").await;
    let caller = authority.caller(None);
    for _ in 0..5 {
        assert_eq!(ask(&server, &caller, GET).await, None);
    }
    let count = || server.counters.handshake_failures(HandshakeFailure::NoCertificate).value();
    until("all to be counted", || count() == 5).await;
    assert_eq!(log.lines().iter().filter(|line| line.contains("handshake failed")).count(), 1);
}

#[tokio::test]
async fn without_a_client_ca_anybody_may_call() {
    let authority = Authority::new("test authority");
    let mount = Mount::new("anyone");
    let pair = authority.server();
    mount.swap(&pair.certificate, &pair.key, "");
    let settings = chassis::tls::Settings { clients: chassis::tls::Clients::Anyone, ..mount.settings(&[]) };
    let (live, _) = Live::load(settings, unix_now()).expect("good files");
    let server = serve_with(&live, Limits::default()).await;
    assert_eq!(ask(&server, &authority.caller(None), &get("/who")).await, Some((200, String::new())));
}

fn problem(mount: &Mount, certificate: &str, key: &str, ca: &str) -> String {
    mount.swap(certificate, key, ca);
    let problem = Live::load(mount.settings(&[]), unix_now()).expect_err("bad files");
    mount.anonymous(&problem.to_string())
}

#[test]
fn every_kind_of_bad_file_is_named_with_the_way_out() {
    let authority = Authority::new("test authority");
    let mount = Mount::new("problems");
    let Pair { certificate, key } = &authority.server();
    let ca = &authority.pair.certificate;
    let expired = authority.issue("localhost", |params| params.not_after = rcgen::date_time_ymd(2024, 2, 29));
    let early = authority.issue("localhost", |params| params.not_before = rcgen::date_time_ymd(2222, 2, 22));
    let half = &key[..key.len() / 2];
    let spoiled = certificate.replacen("MII", "???", 1);
    let huge = "#".repeat(2 * 1024 * 1024);
    let problems = [
        problem(&mount, certificate, &authority.server().key, ca),
        problem(&mount, &expired.certificate, &expired.key, ca),
        problem(&mount, &early.certificate, &early.key, ca),
        problem(&mount, "", key, ca),
        problem(&mount, certificate, "", ca),
        problem(&mount, certificate, key, ""),
        problem(&mount, key, key, ca),
        problem(&mount, certificate, half, ca),
        problem(&mount, &spoiled, key, ca),
        problem(&mount, &huge, key, ca),
    ];
    insta::assert_snapshot!(problems.join("\n"), @r#"
    the certificate in /certs/tls.crt and the key in /certs/tls.key do not belong together; was only one of them replaced?
    the certificate in /certs/tls.crt expired at 2024-02-29T00:00:00Z; renew it
    the certificate in /certs/tls.crt is not valid before 2222-02-22T00:00:00Z; is the clock right?
    /certs/tls.crt holds no certificate; it must have a PEM block that begins with -----BEGIN CERTIFICATE-----
    /certs/tls.key holds no private key; it must have a PEM block of the kind PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY, not encrypted
    /certs/ca.crt holds no certificate; it must have a PEM block that begins with -----BEGIN CERTIFICATE-----
    /certs/tls.crt holds no certificate; it must have a PEM block that begins with -----BEGIN CERTIFICATE-----
    /certs/tls.key is not valid PEM: a BEGIN line has no END line
    /certs/tls.crt is not valid PEM: a block is not base64
    cannot read /certs/tls.crt: it is larger than 1048576 bytes
    "#);
    mount.empty();
    let missing = Live::load(mount.settings(&[]), unix_now()).expect_err("no files");
    insta::assert_snapshot!(mount.anonymous(&missing.to_string()), @"cannot read /certs/tls.crt: No such file or directory (os error 2)");
}

/// A server whose files are looked at often.
async fn watched(mount: &Mount) -> (Arc<Live>, Server, chassis::shutdown::Trigger) {
    let (live, reloader) = Live::load(mount.settings(&[]), unix_now()).expect("good files");
    let (trigger, shutdown) = chassis::shutdown::channel();
    tokio::spawn(reloader.run(OFTEN, shutdown));
    let server = serve_with(&live, Limits::default()).await;
    (live, server, trigger)
}

async fn served_certificate(server: &Server, caller: &Caller) -> Vec<u8> {
    let stream = caller.call(server.connect().await).await.expect("let in");
    stream.get_ref().1.peer_certificates().expect("a server has one")[0].to_vec()
}

#[tokio::test]
async fn a_bad_pair_a_missing_pair_and_their_return_never_interrupt_service() {
    let authority = Authority::new("test authority");
    let mount = Mount::new("comes-back");
    let ca = authority.pair.certificate.clone();
    let (first, second) = (authority.server(), authority.server());
    mount.swap(&first.certificate, &first.key, &ca);
    let (live, server, _trigger) = watched(&mount).await;
    let caller = authority.caller(Some(&authority.client("anyone")));
    let now_serving = async |pair: &Pair| {
        assert_eq!(
            served_certificate(&server, &caller).await,
            wire::authority::der(&pair.certificate).to_vec()
        );
    };
    let books = || (live.reloads.value(), live.reload_failures.value());
    now_serving(&first).await;

    mount.swap(&second.certificate, &first.key, &ca);
    until("the mismatch to be noticed", || books() == (0, 1)).await;
    assert!(matches!(live.problem(), Some(Problem::Mismatch { .. })));
    now_serving(&first).await;

    mount.empty();
    until("the loss to be noticed", || books() == (0, 2)).await;
    assert!(matches!(live.problem(), Some(Problem::Unreadable { .. })));
    now_serving(&first).await;

    mount.swap(&second.certificate, &second.key, &ca);
    until("the new pair to be taken", || books() == (1, 2)).await;
    assert_eq!(live.problem(), None);
    now_serving(&second).await;
}

#[tokio::test]
async fn a_new_client_authority_lets_its_clients_in_and_the_old_ones_out() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    let mount = Mount::new("new-authority");
    let pair = old.server();
    mount.swap(&pair.certificate, &pair.key, &old.pair.certificate);
    let (live, server, _trigger) = watched(&mount).await;
    let old_client = old.caller(Some(&old.client("a")));
    let new_client = Caller::new(&old, Some(&new.client("b")), &[], &[&rustls::version::TLS13]);
    let ok = Some((200, "ok".to_owned()));
    assert_eq!(ask(&server, &old_client, GET).await, ok);
    assert_eq!(ask(&server, &new_client, GET).await, None);
    mount.swap(&pair.certificate, &pair.key, &new.pair.certificate);
    until("the new authority to be taken", || live.reloads.value() == 1).await;
    // The old client would resume its session if sessions outlived their authority.
    assert_eq!(ask(&server, &old_client, GET).await, None);
    assert_eq!(ask(&server, &new_client, GET).await, ok);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rotation_under_load_fails_no_call() {
    const ROTATIONS: u64 = 20;
    let authority = Authority::new("test authority");
    let mount = Mount::new("rotation");
    let ca = authority.pair.certificate.clone();
    let pairs: Vec<Pair> = (0..2).map(|_| authority.server()).collect();
    mount.swap(&pairs[0].certificate, &pairs[0].key, &ca);
    let (live, server, _trigger) = watched(&mount).await;
    let client = authority.client("anyone");

    let calls: Vec<_> = (0..4)
        .map(|_| {
            let (address, live) = (server.address, Arc::clone(&live));
            let caller = authority.caller(Some(&client));
            tokio::spawn(async move {
                let mut calls = 0;
                while live.reloads.value() < ROTATIONS {
                    // Two requests per connection, so that kept connections are covered as well.
                    let tcp =
                        soon("a connection", tokio::net::TcpStream::connect(address)).await.expect("connect");
                    let mut stream = caller.call(tcp).await.expect("let in");
                    for _ in 0..2 {
                        send(&mut stream, GET).await;
                        assert_eq!(answer_of(&mut stream).await, Some((200, "ok".to_owned())));
                        calls += 1;
                    }
                }
                calls
            })
        })
        .collect();
    for n in 1..=ROTATIONS {
        let pair = &pairs[usize::from(n % 2 == 1)];
        mount.swap(&pair.certificate, &pair.key, &ca);
        until("the rotation", || live.reloads.value() == n).await;
    }
    for calls in calls {
        assert!(soon("the callers", calls).await.expect("no call failed") > 0);
    }
    assert_eq!(live.reload_failures.value(), 0);
}

#[tokio::test]
async fn readiness_fails_when_the_certificate_in_use_has_expired() {
    let (_authority, mount, _server) = house("readiness").await;
    let (live, _) = Live::load(mount.settings(&[]), unix_now()).expect("good files");
    let end = live.expires_at();
    assert_eq!(live.check(end), Ok(()));
    let reason = live.check(end + 1).expect_err("expired");
    insta::assert_snapshot!(mount.anonymous(&reason), @"the certificate in /certs/tls.crt expired at 4096-01-01T00:00:00Z; renew it");
}
