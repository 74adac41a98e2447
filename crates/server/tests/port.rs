//! The scheduler's port as a caller meets it: a real socket, the real accept loop, exact answers.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc as blocking};
use std::time::Duration;

use arc_swap::ArcSwap;
use chassis::body::Room;
use chassis::shutdown::{self, Trigger};
use chassis::{BodyLimits, Counters, Limits, Listener};
use engine::View;
use engine::fixtures::{Scene, at, metric, number, policy, rule};
use engine::names::NodeName;
use engine::policy::{Combine, Operator};
use extender::Extender;
use feed::directory::NodeFacts;
use feed::refresh::run_with;
use feed::replay::Recorded;
use feed::world::{Change, Delta, ObjectKey, PolicyFacts};
use feed::{Published, Refresher, Replay, Settings};
use server::scheduler_port::SchedulerPort;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Far beyond what anything takes.
const PATIENCE: Duration = Duration::from_mins(1);

struct Port {
    address: SocketAddr,
    extender: Arc<Extender>,
    _running: Trigger,
}

impl Port {
    async fn open(view: Arc<ArcSwap<View>>, limits: Limits, body: BodyLimits) -> Self {
        let listener = Listener::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = listener.local_addr().unwrap();
        let extender = Arc::new(Extender::new(view, 10));
        let room = Room::new(body.bytes.saturating_mul(4));
        let port = SchedulerPort::new(Arc::clone(&extender), body, room, Arc::new(|| at(0)));
        let (trigger, shutdown) = shutdown::channel();
        tokio::spawn(chassis::serve(listener, port, limits, Arc::new(Counters::default()), shutdown));
        Self { address, extender, _running: trigger }
    }

    /// Node a is fine, node b is over the target.
    async fn judging() -> Self {
        let hot = policy("p").dont_schedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")]);
        let mut scene = Scene::new(&["a", "b"], [hot]);
        scene.sample("a", "power", "29", at(0));
        scene.sample("b", "power", "31", at(0));
        scene.advance(at(0));
        let view = Arc::new(ArcSwap::from_pointee(scene.view));
        Self::open(view, Limits::default(), BodyLimits::default()).await
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Status and body of the answer to these bytes.
    async fn says(&self, request: &str) -> (u16, String) {
        let mut stream = self.connect().await;
        stream.write_all(request.as_bytes()).await.unwrap();
        answer(&mut stream).await
    }
}

async fn answer(stream: &mut TcpStream) -> (u16, String) {
    let reading = async {
        let mut bytes = Vec::new();
        loop {
            if let Some((head, body)) = String::from_utf8_lossy(&bytes).into_owned().split_once("\r\n\r\n") {
                let length =
                    head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                if length.is_some_and(|length: usize| body.len() >= length) {
                    return (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned());
                }
            }
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "closed after {bytes:?}");
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("an answer in time")
}

fn filter(headers: &str, body: &str) -> String {
    format!(
        "POST /scheduler/filter HTTP/1.1\r\nHost: tas\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

const JSON: &str = "Content-Type: application/json\r\n";
const QUESTION: &str = r#"{"Pod":{"metadata":{"name":"web","namespace":"default","labels":{"telemetry-policy":"p"}}},"NodeNames":["a","b"]}"#;
const REFUSAL: &str = r#"{"Nodes":null,"NodeNames":["a"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"default/p: power over 30"},"Error":""}"#;

fn error(words: &str) -> String {
    serde_json::json!({ "error": words }).to_string()
}

#[tokio::test]
async fn a_question_is_answered_and_bad_ones_get_their_own_words() {
    let port = Port::judging().await;
    assert_eq!(port.says(&filter(JSON, QUESTION)).await, (200, REFUSAL.to_owned()));
    let with_charset = "Content-Type: application/json; charset=utf-8\r\n";
    assert_eq!(port.says(&filter(with_charset, QUESTION)).await.0, 200);
    let empty = "the body is empty; send the JSON that kube-scheduler sends its extenders";
    assert_eq!(port.says(&filter(JSON, "")).await, (400, error(empty)));
    let cut = "the body is not an extender request: EOF while parsing an object at line 1 column 9";
    assert_eq!(port.says(&filter(JSON, r#"{"Pod":{}"#)).await, (400, error(cut)));
    for (request, status) in [
        (filter("Content-Type: text/plain\r\n", QUESTION), 415),
        (filter(JSON, QUESTION).replace("POST", "PUT"), 405),
        (filter(JSON, QUESTION).replace("/filter", "/bind"), 404),
    ] {
        let (said, body) = port.says(&request).await;
        assert_eq!(said, status, "{body}");
        assert!(body.starts_with(r#"{"error":""#), "{body}");
    }
}

#[tokio::test]
async fn two_hundred_megabytes_are_refused_before_they_are_sent() {
    let port = Port::judging().await;
    let head = filter(JSON, "").replace("Content-Length: 0", "Content-Length: 209715200");
    let (status, body) = port.says(&head).await;
    assert_eq!(
        (status, body),
        (
            413,
            error("request body is longer than 67108864 bytes; send less, or raise --max-body-bytes") + "\n"
        )
    );
    assert_eq!(port.extender.counters.counts().unread_bodies, 1);
}

#[tokio::test]
async fn a_body_that_stops_is_answered_at_the_deadline_and_the_next_caller_at_once() {
    let body = BodyLimits { deadline: Duration::from_millis(50), ..BodyLimits::default() };
    let port = Port::open(Arc::default(), Limits::default(), body).await;
    let half = filter(JSON, QUESTION);
    let (status, _) = port.says(&half[..half.len() - 5]).await;
    assert_eq!(status, 408);
    assert_eq!(port.says(&filter(JSON, QUESTION)).await.0, 200);
}

#[tokio::test]
async fn ten_thousand_connections_do_not_matter_to_the_next_question() {
    let port = Port::judging().await;
    let mut held = Vec::new();
    for n in 0..10_000 {
        if let Ok(stream) = TcpStream::connect(port.address).await
            && n % 100 == 0
        {
            held.push(stream);
        }
    }
    // The loop may still be busy turning callers away; whoever comes again gets in.
    let asked = async {
        loop {
            let mut stream = port.connect().await;
            let sent = stream.write_all(filter(JSON, QUESTION).as_bytes()).await;
            let mut first = [0];
            if sent.is_ok() && matches!(stream.read(&mut first).await, Ok(1)) {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.expect("room for one more");
    assert_eq!(port.says(&filter(JSON, QUESTION)).await, (200, REFUSAL.to_owned()));
}

fn node(name: &str) -> NodeFacts {
    NodeFacts { name: NodeName::new(name).unwrap(), addresses: vec![] }
}

fn strict() -> PolicyFacts {
    let mut policy = policy("p").dont_schedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")]);
    policy.on_missing = engine::policy::OnMissing::Deny;
    PolicyFacts {
        key: ObjectKey::new("default", "p"),
        generation: 1,
        policy: Some(Arc::new(policy)),
        problems: vec![],
        unreadable: None,
    }
}

#[tokio::test]
async fn questions_are_answered_while_judging_takes_as_long_as_it_likes() {
    let published = Published::default();
    let (changes, receiver) = mpsc::channel(16);
    let samples = [("a", "29"), ("b", "31"), ("c", "29")].map(|(node, value)| Recorded {
        metric: metric("power"),
        node: node.to_owned(),
        sample: engine::Sample::new(number(value), at(0)),
    });
    let refresher = Refresher {
        source: Arc::new(Replay::new(samples)),
        changes: receiver,
        config: Arc::default(),
        config_file: None,
        settings: Settings {
            sync_period: Duration::from_millis(50),
            gather: Duration::from_millis(1),
            ..Settings::default()
        },
        published: published.clone(),
    };
    // Every judging waits for a word from us.
    let (release, words) = blocking::channel::<()>();
    let words = Arc::new(Mutex::new(words));
    let (entered, mut begun) = mpsc::unbounded_channel();
    let judge = move |job: feed::refresh::Job| {
        let _ = entered.send(());
        let _ = words.lock().unwrap().recv();
        job.run()
    };
    tokio::spawn(run_with(refresher, || at(0), std::future::pending(), judge));
    for change in [
        Change::Nodes(Delta::Replaced(vec![node("a"), node("b")])),
        Change::Policies(Delta::Replaced(vec![strict()])),
        Change::Pods(Delta::Replaced(vec![])),
    ] {
        changes.send(change).await.unwrap();
    }
    let port = Port::open(Arc::clone(&published.view), Limits::default(), BodyLimits::default()).await;
    let question = filter(JSON, &QUESTION.replace(r#"["a","b"]"#, r#"["a","b","c"]"#));
    let passing = |names: &str, c: &str| {
        let refused = format!(r#"{{"b":"default/p: power over 30"{c}}}"#);
        format!(
            r#"{{"Nodes":null,"NodeNames":[{names}],"FailedNodes":{{}},"FailedAndUnresolvableNodes":{refused},"Error":""}}"#
        )
    };
    let without_c = passing(r#""a""#, r#","c":"default/p: node unknown""#);
    let waiting = async {
        while port.says(&question).await.1 != without_c {
            match begun.try_recv() {
                Ok(()) => drop(release.send(())),
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the first samples are judged");

    changes.send(Change::Nodes(Delta::Applied(node("c")))).await.unwrap();
    tokio::time::timeout(PATIENCE, begun.recv()).await.expect("judging begins").unwrap();
    // It is under way and does not end; the view before answers.
    for _ in 0..3 {
        assert_eq!(port.says(&question).await, (200, without_c.clone()));
    }
    drop(release);
    let with_c = passing(r#""a","c""#, "");
    let waiting = async { while port.says(&question).await.1 != with_c {} };
    tokio::time::timeout(PATIENCE, waiting).await.expect("the new node is judged");
}
