//! The Prometheus source against a server that answers well, badly, or not at all.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

mod backend;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use backend::{Backend, Reply, Request, ok, vector};
use engine::fixtures::metric;
use engine::names::NodeName;
use engine::time::Timestamp;
use feed::config::{Endpoint, FeedConfig, parse};
use feed::directory::{Directory, NodeFacts};
use feed::mapping::AgeKnown;
use feed::source::{Ask, MetricError, Reading, SourceError, Want};
use feed::{MetricSource, Prometheus};

/// Second 1,700,000,000, which every test reads for.
const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);

fn endpoint(url: &str) -> Endpoint {
    Endpoint { timeout: Duration::from_secs(20), ..Endpoint::new(url).unwrap() }
}

fn source(endpoint: Endpoint, config: &str) -> Prometheus {
    let config = parse(config).unwrap();
    Prometheus::new(Arc::new(ArcSwap::from_pointee(config)), Some(endpoint))
}

fn directory() -> Arc<Directory> {
    let fact = |name: &str, address: &str| NodeFacts {
        name: NodeName::new(name).unwrap(),
        addresses: vec![address.to_owned()],
    };
    Arc::new(Directory::new(&[fact("n1", "10.0.0.1"), fact("n2", "10.0.0.2")]))
}

fn ask(metrics: &[&str]) -> Ask {
    let want = |name: &&str| Want { metric: metric(name), history: Duration::ZERO };
    Ask {
        at: NOW,
        step: Duration::from_secs(5),
        wants: metrics.iter().map(want).collect(),
        directory: directory(),
    }
}

/// What came of the only metric asked for.
fn only(mut reading: Reading) -> Result<feed::source::Answered, MetricError> {
    assert_eq!(reading.metrics.len(), 1);
    reading.metrics.swap_remove(0).outcome
}

/// Node, value and second of each sample.
fn samples(answered: &feed::source::Answered) -> Vec<(String, String, i64)> {
    let directory = directory();
    let text = |&(node, sample): &(engine::NodeIx, engine::Sample)| {
        (directory.nodes().name(node).to_string(), sample.value.to_string(), sample.taken.millis())
    };
    answered.gathered.samples.iter().map(text).collect()
}

/// The error for a metric `power` when every request is answered like this.
async fn told(reply: impl Fn() -> Reply + Send + Sync + 'static) -> String {
    let backend = Backend::start(move |_: &Request| reply()).await;
    only(source(endpoint(&backend.url), "").read(ask(&["power"])).await).unwrap_err().to_string()
}

#[tokio::test]
async fn several_metrics_come_in_one_query_with_true_sample_times() {
    let backend = Backend::start(|_| {
        vector(
            "1700000000",
            &[
                (r#""__name__":"power","node":"n1""#, "29.5"),
                (r#""__name__":"power","instance":"10.0.0.2:9100""#, "31"),
                (r#""__name__":"power","node":"elsewhere""#, "1"),
                (r#""__name__":"node_health","node":"n1""#, "0"),
                (r#""tas_part":"t0.0","node":"n1""#, "1699999990.5"),
                (r#""tas_part":"t0.0","instance":"10.0.0.2:9100""#, "1699999991"),
                (r#""tas_part":"t1.1","node":"n1""#, "1699999992"),
            ],
        )
    })
    .await;
    let source = source(endpoint(&backend.url), "");
    let reading = source.read(ask(&["power", "health"])).await;
    let [power, health] = [0, 1].map(|place: usize| reading.metrics[place].outcome.clone().unwrap());
    assert_eq!(
        samples(&power),
        [
            ("n1".to_owned(), "29.5".to_owned(), 1_699_999_990_500),
            ("n2".to_owned(), "31".to_owned(), 1_699_999_991_000)
        ]
    );
    assert_eq!((power.gathered.unmapped.count, power.gathered.age), (1, AgeKnown::Yes));
    assert_eq!((power.by.as_str(), health.by.as_str()), ("power", "node_health"));

    let requests = backend.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!((requests[0].method.as_str(), requests[0].path.as_str()), ("POST", "/api/v1/query"));
    assert_eq!((requests[0].field("time"), requests[0].field("timeout")), ("1700000000.000", "20000ms"));
    assert!(
        requests[0].field("query").starts_with(r#"{__name__=~"health|node_health|node_power|power"} or "#)
    );

    // Once it is known who answers, only that name is asked for.
    source.read(ask(&["power", "health"])).await;
    assert!(backend.requests()[1].field("query").starts_with(r#"{__name__=~"node_health|power"} or "#));
}

#[tokio::test]
async fn a_starting_replica_looks_back_in_aligned_steps() {
    let backend = Backend::start(|request| match request.path.as_str() {
        "/prom/api/v1/query_range" => ok(concat!(
            r#"{"status":"success","data":{"resultType":"matrix","result":["#,
            r#"{"metric":{"__name__":"node_power","node":"n1"},"values":[[1699999990,"1"],[1699999995,"1"],[1700000000,"2"]]},"#,
            r#"{"metric":{"tas_part":"t0.0","node":"n1"},"values":[[1699999990,"1699999989"],[1699999995,"1699999989"],[1700000000,"1699999999"]]}"#,
            r#"]}}"#,
        )),
        other => panic!("nobody asked for {other}"),
    })
    .await;
    let mut ask = ask(&["node_power"]);
    ask.wants[0].history = Duration::from_mins(1);
    let answered = only(source(endpoint(&format!("{}/prom/", backend.url)), "").read(ask).await).unwrap();
    assert_eq!(
        samples(&answered),
        [
            ("n1".to_owned(), "1".to_owned(), 1_699_999_989_000),
            ("n1".to_owned(), "2".to_owned(), 1_699_999_999_000)
        ]
    );
    assert_eq!(answered.history, Duration::from_mins(1));
    let request = &backend.requests()[0];
    assert_eq!(
        ["start", "end", "step"].map(|name| request.field(name)),
        ["1699999940.000", "1700000000.000", "5000ms"]
    );
}

#[tokio::test]
async fn a_past_that_is_too_large_is_given_up_for_the_present() {
    let backend = Backend::start(|request| match request.path.as_str() {
        "/api/v1/query_range" => Reply::Json(200, " ".repeat(200_000)),
        _ => vector("1700000000", &[(r#""__name__":"power","node":"n1""#, "5")]),
    })
    .await;
    let mut ask = ask(&["power"]);
    ask.wants[0].history = Duration::from_mins(1);
    let endpoint = Endpoint { max_response: 100_000, ..endpoint(&backend.url) };
    let answered = only(source(endpoint, "").read(ask).await).unwrap();
    assert_eq!((answered.gathered.samples.len(), answered.history), (1, Duration::ZERO));
}

#[tokio::test]
async fn an_expression_has_the_age_its_age_query_says_or_none() {
    let backend = Backend::start(|_| {
        vector(
            "1700000000",
            &[
                (r#""tas_part":"v0.0","node":"n1""#, "7"),
                (r#""tas_part":"a0.0","node":"n1""#, "12.25"),
                (r#""tas_part":"v1.0","node":"n1""#, "8"),
            ],
        )
    })
    .await;
    let config = "metrics: { a: { query: sum(x), ageQuery: time()-timestamp(x) }, b: { query: sum(y) } }";
    let reading = source(endpoint(&backend.url), config).read(ask(&["a", "b"])).await;
    let [a, b] = [0, 1].map(|place: usize| reading.metrics[place].outcome.clone().unwrap());
    assert_eq!(samples(&a), [("n1".to_owned(), "7".to_owned(), 1_699_999_987_750)]);
    assert_eq!((samples(&b)[0].2, b.gathered.age), (1_700_000_000_000, AgeKnown::No));
    assert_eq!((a.by.as_str(), a.gathered.age), ("sum(x)", AgeKnown::Yes));
}

#[tokio::test]
async fn several_series_of_a_node_are_refused_or_brought_together() {
    let packages = || {
        vector(
            "1700000000",
            &[
                (r#""tas_part":"v0.0","node":"n1","package":"0""#, "10"),
                (r#""tas_part":"v0.0","node":"n1","package":"1""#, "20.5"),
                (r#""tas_part":"t0.0","node":"n1""#, "1699999940"),
                (r#""tas_part":"n0.0","node":"n1""#, "1699999997.5"),
            ],
        )
    };
    let backend = Backend::start(move |_| packages()).await;
    let read = async |config: &str| only(source(endpoint(&backend.url), config).read(ask(&["power"])).await);
    assert_eq!(
        read("metrics: { power: { query: package_power } }").await.unwrap_err().to_string(),
        "several series of one node, such as {node=\"n1\", package=\"0\"} and \
         {node=\"n1\", package=\"1\"}; configure an aggregation or a narrower query"
    );
    let sum = read("metrics: { power: { query: package_power, aggregation: sum } }").await.unwrap();
    assert_eq!(samples(&sum), [("n1".to_owned(), "30.5".to_owned(), 1_699_999_940_000)]);
    assert_eq!(sum.gathered.samples[0].1.newest.millis(), 1_699_999_997_500);
}

#[tokio::test]
async fn one_bad_query_is_found_and_the_others_get_their_samples() {
    let backend = Backend::start(|request| {
        let query = request.field("query");
        if query.contains("broken") {
            return Reply::Json(
                400,
                r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#.to_owned(),
            );
        }
        let names = (0..9).map(|n| format!("node_m{n}")).filter(|name| query.contains(name.as_str()));
        let series: Vec<String> = names.map(|name| format!(r#""__name__":"{name}","node":"n1""#)).collect();
        vector("1700000000", &series.iter().map(|labels| (labels.as_str(), "1")).collect::<Vec<_>>())
    })
    .await;
    let source = source(endpoint(&backend.url), "metrics: { node_m4: { query: broken(x) } }");
    let names: Vec<String> = (0..9).map(|n| format!("node_m{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let reading = source.read(ask(&names)).await;
    let failed: Vec<_> = reading
        .metrics
        .iter()
        .filter_map(|m| Some((m.metric.as_str(), m.outcome.as_ref().err()?.to_string())))
        .collect();
    assert_eq!(failed, [("node_m4", "the query was refused (bad_data): parse error".to_owned())]);

    // From then on it is asked for on its own, and after a rest.
    let before = backend.requests().len();
    let again = source.read(ask(&names)).await;
    assert_eq!(again.metrics.iter().filter(|m| m.outcome.is_err()).count(), 1);
    assert_eq!(backend.requests().len(), before + 1);
    let later = Ask { at: NOW.after(Duration::from_mins(2)), ..ask(&names) };
    source.read(later).await;
    assert_eq!(backend.requests().len(), before + 3);
}

#[tokio::test]
async fn every_bad_answer_of_a_backend_has_its_own_words() {
    let raw = |text: &'static str| move || Reply::Raw(text.as_bytes().to_vec());
    assert_eq!(
        told(|| Reply::Json(
            500,
            r#"{"status":"error","errorType":"internal","error":"out of order"}"#.to_owned()
        ))
        .await,
        "the query was refused (internal): out of order"
    );
    assert_eq!(
        told(|| Reply::Json(502, "<html>Bad Gateway</html>".to_owned())).await,
        "answered with status 502: <html>Bad Gateway</html>"
    );
    assert_eq!(
        told(|| ok("<html>please log in</html>")).await,
        "the answer is a web page, not JSON; does the URL point at the Prometheus API, past any login page?"
    );
    assert_eq!(told(|| ok("")).await, "the answer is empty; does the URL point at the Prometheus API?");
    assert_eq!(
        told(raw("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"status\":\"succ")).await,
        "the connection ended in the middle of the answer"
    );
    assert_eq!(
        told(raw(
            "HTTP/1.1 302 Found\r\nLocation: https://login.example/?next=x\r\nContent-Length: 0\r\n\r\n"
        ))
        .await,
        "redirected (302) to \"https://login.example/?next=x\", which is not followed; give the final URL"
    );
    assert_eq!(
        told(|| Reply::Json(401, String::new())).await,
        "not allowed in (401); check that the token file holds a token that may read metrics"
    );
    assert_eq!(
        told(|| ok(r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#)).await,
        "the query gives a matrix where a vector is needed; it must give a value per node"
    );
    assert_eq!(told(|| vector("1", &[])).await, "no series found; looked for power, then node_power");
    assert_eq!(
        told(|| vector("1", &[(r#""__name__":"power","host":"n1""#, "1")])).await,
        "1 series found, none of a known node, such as power{host=\"n1\"}; a label of the series must name its node"
    );
    assert_eq!(
        told(|| vector("1", &[(r#""__name__":"power","node":"n1""#, "NaN")])).await,
        "no usable value: 1 not finite, 0 native histograms, 0 unreadable"
    );
}

#[tokio::test]
async fn warnings_are_handed_on_and_the_samples_with_them() {
    let backend = Backend::start(|_| {
        ok(r#"{"status":"success","warnings":["store 3 did not answer"],"data":{"resultType":"vector","result":[{"metric":{"__name__":"power","node":"n1"},"value":[1700000000,"5"]}]}}"#)
    })
    .await;
    let reading = source(endpoint(&backend.url), "").read(ask(&["power"])).await;
    assert_eq!(reading.warnings, ["store 3 did not answer"]);
    assert_eq!(only(reading).unwrap().gathered.samples.len(), 1);
}

#[tokio::test]
async fn an_answer_past_the_size_limit_is_refused_without_being_read_to_its_end() {
    // Says that 100 MB will follow, and sends without end.
    let backend = Backend::start(|_| {
        let mut bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for _ in 0..40 {
            bytes.extend(b"10000\r\n");
            bytes.extend(vec![b' '; 0x10000]);
            bytes.extend(b"\r\n");
        }
        Reply::Raw(bytes)
    })
    .await;
    let endpoint = Endpoint { max_response: 1024 * 1024, ..endpoint(&backend.url) };
    assert_eq!(
        only(source(endpoint, "").read(ask(&["power"])).await).unwrap_err(),
        SourceError::TooLarge { limit: 1024 * 1024 }.into()
    );
}

#[tokio::test]
async fn a_backend_that_says_nothing_is_given_up_at_the_deadline() {
    let backend = Backend::start(|_| Reply::Silence).await;
    let endpoint = Endpoint { timeout: Duration::from_millis(200), ..endpoint(&backend.url) };
    assert_eq!(
        only(source(endpoint, "").read(ask(&["power"])).await).unwrap_err(),
        SourceError::Late { seconds: 1 }.into()
    );
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_named() {
    let gone = Backend::start(|_| Reply::Silence).await.url.clone();
    let error = only(source(endpoint(&gone), "").read(ask(&["power"])).await).unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot reach {}: ", gone.trim_start_matches("http://"))), "{error}");
    let nobody = Prometheus::new(Arc::new(ArcSwap::from_pointee(FeedConfig::default())), None);
    assert_eq!(only(nobody.read(ask(&["power"])).await).unwrap_err(), SourceError::NotConfigured.into());
}

#[tokio::test]
async fn a_busy_backend_is_left_alone_for_as_long_as_it_says() {
    let backend = Backend::start(|_| {
        Reply::Raw(b"HTTP/1.1 503 Busy\r\nRetry-After: 30\r\nContent-Length: 0\r\n\r\n".to_vec())
    })
    .await;
    let source = source(endpoint(&backend.url), "");
    let busy = only(source.read(ask(&["power"])).await).unwrap_err();
    assert_eq!(busy, SourceError::Busy { status: 503, seconds: 30 }.into());
    let waiting = only(source.read(ask(&["power"])).await).unwrap_err();
    assert!(matches!(waiting, MetricError::Source(SourceError::Waiting { seconds: 1..=31 })), "{waiting}");
    assert_eq!(backend.requests().len(), 1);
}

#[tokio::test]
async fn the_token_is_read_again_for_each_request_and_never_shown() {
    let backend = Backend::start(|_| vector("1", &[])).await;
    let file = std::env::temp_dir().join(format!("tas-feed-token-{}", std::process::id()));
    std::fs::write(&file, "first\n").unwrap();
    let endpoint = Endpoint {
        token_file: Some(file.clone()),
        headers: BTreeMap::from([("X-Scope-OrgID".to_owned(), "team".to_owned())]),
        ..endpoint(&backend.url)
    };
    let source = source(endpoint, "");
    source.read(ask(&["power"])).await;
    std::fs::write(&file, "second").unwrap();
    source.read(ask(&["power"])).await;
    std::fs::write(&file, " ").unwrap();
    let error = only(source.read(ask(&["power"])).await).unwrap_err().to_string();
    std::fs::remove_file(&file).unwrap();
    let gone = only(source.read(ask(&["power"])).await).unwrap_err().to_string();
    std::fs::write(&file, vec![b'x'; 1024 * 1024 + 1]).unwrap();
    let large = only(source.read(ask(&["power"])).await).unwrap_err().to_string();
    std::fs::remove_file(&file).unwrap();
    assert!(large.ends_with("it has more than 1048576 bytes"), "{large}");
    let sent: Vec<_> =
        backend.requests().iter().map(|request| request.headers.to_ascii_lowercase()).collect();
    assert_eq!(sent.len(), 2);
    assert!(sent[0].contains("authorization: bearer first\r\n") && sent[0].contains("x-scope-orgid: team"));
    assert!(sent[1].contains("authorization: bearer second\r\n"));
    assert_eq!(error, format!("the token file {} is empty", file.display()));
    assert!(gone.starts_with(&format!("cannot read the token file {}", file.display())), "{gone}");
}

#[tokio::test]
async fn no_more_requests_run_at_once_than_allowed() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, peak) = (Arc::clone(&running), Arc::clone(&most));
    // Two must be there before either is answered.
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let backend = Backend::start(move |_| {
        peak.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let (both, now) = (Arc::clone(&both), Arc::clone(&now));
        Reply::Later(Box::pin(async move {
            both.wait().await;
            now.fetch_sub(1, Ordering::SeqCst);
            vector("1", &[])
        }))
    })
    .await;
    let endpoint = Endpoint { concurrency: 2, ..endpoint(&backend.url) };
    let (source, ask) = long_queries(endpoint, 6);
    source.read(ask).await;
    assert_eq!((backend.requests().len(), most.load(Ordering::SeqCst)), (6, 2));
}

/// A source with so many metrics that none can share a query.
fn long_queries(endpoint: Endpoint, count: usize) -> (Prometheus, Ask) {
    let long = "x".repeat(8000);
    let lines: Vec<String> = (0..count).map(|n| format!("  m{n:03}: {{ query: 'sum({long})' }}")).collect();
    let names: Vec<String> = (0..count).map(|n| format!("m{n:03}")).collect();
    let ask = ask(&names.iter().map(String::as_str).collect::<Vec<_>>());
    (source(endpoint, &format!("metrics:\n{}", lines.join("\n"))), ask)
}

#[tokio::test]
async fn a_backend_that_hangs_holds_up_one_reading_for_two_timeouts_at_most() {
    let backend = Backend::start(|_| Reply::Silence).await;
    let endpoint = Endpoint { timeout: Duration::from_millis(200), concurrency: 1, ..endpoint(&backend.url) };
    let (source, ask) = long_queries(endpoint, 6);
    let reading = source.read(ask).await;
    assert!(
        reading.metrics.iter().all(|metric| metric.outcome == Err(SourceError::Late { seconds: 1 }.into()))
    );
    assert!(backend.requests().len() <= 2, "{}", backend.requests().len());
}

#[tokio::test]
async fn a_backend_that_is_away_is_asked_once_per_reading() {
    let backend = Backend::start(|_| Reply::Json(401, String::new())).await;
    let (source, ask) = long_queries(Endpoint { concurrency: 1, ..endpoint(&backend.url) }, 6);
    assert_eq!(source.read(ask).await.metrics.iter().filter(|metric| metric.outcome.is_err()).count(), 6);
    assert_eq!(backend.requests().len(), 1);
}

#[tokio::test]
async fn looking_for_the_bad_query_ends_even_if_all_are_bad() {
    let refusal = r#"{"status":"error","errorType":"execution","error":"too many samples"}"#;
    let backend = Backend::start(move |_| Reply::Json(422, refusal.to_owned())).await;
    let names: Vec<String> = (0..300).map(|n| format!("node_m{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let reading = source(endpoint(&backend.url), "").read(ask(&names)).await;
    assert_eq!(reading.metrics.iter().filter(|metric| metric.outcome.is_err()).count(), 300);
    let (asked, shared) = (backend.requests().len(), 300 / 60);
    assert!(asked <= 2 * 64 + 2 * shared, "{asked}");
}

/// What the request asks for, of these names.
fn asked_for(request: &Request, names: &[&'static str]) -> Vec<&'static str> {
    names.iter().copied().filter(|name| request.field("query").contains(name)).collect()
}

#[tokio::test]
async fn a_query_that_is_too_slow_when_shared_is_not_shared_again_at_once() {
    let names = ["node_first", "node_second"];
    let backend = Backend::start(move |request| match asked_for(request, &names)[..] {
        [name] => vector("1700000000", &[(&format!(r#""__name__":"{name}","node":"n1""#), "1")]),
        _ => Reply::Silence,
    })
    .await;
    let source = source(Endpoint { timeout: Duration::from_secs(5), ..endpoint(&backend.url) }, "");
    let failures = |reading: Reading| reading.metrics.iter().filter(|metric| metric.outcome.is_err()).count();
    let at = |seconds| Ask { at: NOW.after(Duration::from_secs(seconds)), ..ask(&names) };
    assert_eq!(failures(source.read(at(0)).await), 2);
    assert_eq!(failures(source.read(at(5)).await), 0);
    assert_eq!(failures(source.read(at(10)).await), 0);
    let mut shared: Vec<usize> =
        backend.requests().iter().map(|request| asked_for(request, &names).len()).collect();
    shared.sort_unstable();
    assert_eq!(shared, [1, 1, 1, 1, 2]);
}

#[tokio::test]
async fn a_query_that_was_mended_is_asked_at_once() {
    let backend = Backend::start(|request| {
        if request.field("query").contains("broken") {
            let body = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
            return Reply::Json(400, body.to_owned());
        }
        vector(
            "1700000000",
            &[(r#""tas_part":"v0","node":"n1""#, "1"), (r#""__name__":"good","node":"n1""#, "1")],
        )
    })
    .await;
    let of_query = |query: &str| parse(&format!("metrics: {{ power: {{ query: {query} }} }}")).unwrap();
    let config = Arc::new(ArcSwap::from_pointee(of_query("broken(x)")));
    let source = Prometheus::new(Arc::clone(&config), Some(endpoint(&backend.url)));
    for _ in 0..2 {
        let refused = only(source.read(ask(&["power"])).await).unwrap_err();
        assert_eq!(refused.to_string(), "the query was refused (bad_data): parse error");
    }
    assert_eq!(backend.requests().len(), 1, "it rests");
    config.store(Arc::new(of_query("good")));
    let _ = source.read(ask(&["power"])).await;
    assert_eq!(backend.requests().len(), 2);
}

#[tokio::test]
async fn the_better_way_to_find_a_metric_is_found_by_all_at_the_same_moment() {
    let rule_evaluated = Arc::new(AtomicUsize::new(0));
    let there = Arc::clone(&rule_evaluated);
    let backend = Backend::start(move |_| {
        let (node, rule) = (r#""__name__":"node_power","node":"n1""#, r#""__name__":"power","node":"n1""#);
        match there.load(Ordering::Relaxed) {
            0 => vector("1700000000", &[(node, "1")]),
            _ => vector("1700000000", &[(node, "1"), (rule, "2")]),
        }
    })
    .await;
    let source = source(endpoint(&backend.url), "");
    let found_at = async |seconds: u64| {
        let at = Timestamp::from_secs(1_700_000_000).after(Duration::from_secs(seconds));
        only(source.read(Ask { at, ..ask(&["power"]) }).await).unwrap().by
    };
    assert_eq!(found_at(0).await, "node_power");
    rule_evaluated.store(1, Ordering::Relaxed);
    assert_eq!(found_at(5).await, "node_power");
    // 1,700,000,100 is a whole number of five minutes.
    assert_eq!(found_at(100).await, "power");
    assert_eq!(found_at(105).await, "power");
}
