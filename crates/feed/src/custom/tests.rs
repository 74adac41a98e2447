use std::pin::Pin;

use engine::fixtures::metric;
use engine::names::NodeName;
use http::Response;
use proptest::prelude::*;
use serde_json::{Value, json};
use tower_test::mock::{Handle, pair};

use super::*;
use crate::directory::NodeFacts;
use crate::source::Want;

type Server = Pin<Box<Handle<Request<Body>, Response<Body>>>>;

fn scripted() -> (CustomMetrics, Server) {
    let (service, handle) = pair::<Request<Body>, Response<Body>>();
    (CustomMetrics::new(Client::new(service, "default"), CustomLimits::default()), Box::pin(handle))
}

fn directory() -> Directory {
    let fact = |name: &str| NodeFacts { name: NodeName::new(name).unwrap(), addresses: vec![] };
    Directory::new(&[fact("n1"), fact("n2.example")])
}

fn ask(names: &[&str]) -> Ask {
    let want = |name: &&str| Want { metric: metric(name), history: Duration::ZERO };
    Ask {
        at: Timestamp::from_secs(100),
        step: Duration::from_secs(5),
        wants: names.iter().map(want).collect(),
        directory: Arc::new(directory()),
    }
}

async fn answer(server: &mut Server, path: &str, status: u16, body: impl ToString) {
    let (request, reply) = server.next_request().await.unwrap();
    assert_eq!((request.method().as_str(), request.uri().to_string().as_str()), ("GET", path));
    let body = Body::from(body.to_string().into_bytes());
    reply.send_response(Response::builder().status(status).body(body).unwrap());
}

fn group(versions: &[&str], preferred: Option<&str>) -> Value {
    let version =
        |name: &&str| json!({"groupVersion": format!("custom.metrics.k8s.io/{name}"), "version": name});
    json!({"kind": "APIGroup", "versions": versions.iter().map(version).collect::<Vec<_>>(),
        "preferredVersion": preferred.map(|name| version(&name))})
}

fn item(node: &str, value: &str, timestamp: &str) -> Value {
    json!({"describedObject": {"kind": "Node", "name": node, "apiVersion": "/v1"}, "metricName": "power",
        "timestamp": timestamp, "window": 60, "value": value, "selector": null})
}

const POWER: &str = "/apis/custom.metrics.k8s.io/v1beta1/nodes/%2A/power";

async fn told(status: u16, body: impl ToString) -> String {
    let (source, mut server) = scripted();
    let script = async {
        answer(&mut server, "/apis/custom.metrics.k8s.io", 200, group(&["v1beta1"], Some("v1beta1"))).await;
        answer(&mut server, POWER, status, body).await;
    };
    let (reading, ()) = tokio::join!(source.read(ask(&["power"])), script);
    reading.metrics[0].outcome.as_ref().unwrap_err().to_string()
}

#[tokio::test]
async fn metrics_are_read_where_intel_tas_reads_them() {
    let (source, mut server) = scripted();
    let list = json!({"kind": "MetricValueList", "items": [
        item("n1", "29901m", "1970-01-01T00:01:30Z"), item("n2", "3k", "1970-01-01T00:01:31.5Z"),
        item("gone", "1", "1970-01-01T00:01:30Z"), item("n1", "NaN", "1970-01-01T00:01:30Z")]});
    let script = async {
        answer(
            &mut server,
            "/apis/custom.metrics.k8s.io",
            200,
            group(&["v1beta2", "v1beta1"], Some("v1beta1")),
        )
        .await;
        answer(&mut server, POWER, 200, &list).await;
        // The version is not asked for each time.
        answer(&mut server, POWER, 404, "{}").await;
        // It is asked for again when nothing was found.
        answer(&mut server, "/apis/custom.metrics.k8s.io", 200, group(&["v1beta2"], Some("v2"))).await;
        answer(&mut server, &POWER.replace("v1beta1", "v1beta2"), 200, &list).await;
    };
    let reads = async {
        [
            source.read(ask(&["power"])).await,
            source.read(ask(&["power"])).await,
            source.read(ask(&["power"])).await,
        ]
    };
    let ([first, second, third], ()) = tokio::join!(reads, script);
    let answered = first.metrics[0].outcome.clone().unwrap();
    let sample = |value: &str, millis| Sample::new(value.parse().unwrap(), Timestamp::from_millis(millis));
    let nodes = directory();
    let node = |name: &str| nodes.nodes().find(name).unwrap();
    assert_eq!(
        answered.gathered.samples,
        [(node("n1"), sample("29.901", 90_000)), (node("n2.example"), sample("3000", 91_500))]
    );
    assert_eq!((answered.gathered.unmapped.count, answered.gathered.refused.not_finite), (1, 1));
    assert_eq!(
        second.metrics[0].outcome.as_ref().unwrap_err().to_string(),
        "no series found; looked for nodes/*/power in custom.metrics.k8s.io/v1beta1"
    );
    assert!(third.metrics[0].outcome.is_ok());
}

#[tokio::test]
async fn every_bad_answer_has_its_own_words() {
    assert_eq!(
        told(403, "forbidden").await,
        "not allowed in (403); grant get on nodes/* of custom.metrics.k8s.io, as deploy/rbac/tas-serve.yaml does"
    );
    assert_eq!(told(503, "service unavailable").await, "answered with status 503: service unavailable");
    assert_eq!(
        told(200, "<html>").await,
        "the answer is not what the custom metrics API sends: expected value at line 1 column 1"
    );
    assert_eq!(told(200, "{\"items\":[]}").await, format!("no series found; looked for {POWER}"));
    let twice =
        json!({"items": [item("n1", "1", "1970-01-01T00:00:01Z"), item("n1", "2", "1970-01-01T00:00:01Z")]});
    assert_eq!(
        told(200, twice).await,
        "several series of one node, such as n1 = 1 and n1 = 2; configure an aggregation or a narrower query"
    );
    let (source, mut server) = scripted();
    let (reading, ()) = tokio::join!(
        source.read(ask(&["power"])),
        answer(&mut server, "/apis/custom.metrics.k8s.io", 404, "{}")
    );
    assert_eq!(
        reading.metrics[0].outcome.as_ref().unwrap_err().to_string(),
        "answered with status 404: custom.metrics.k8s.io is not served; install a metrics adapter, or use --metrics prometheus"
    );
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_silent_or_too_talkative_is_given_up() {
    let (mut source, mut server) = scripted();
    let (reading, held) = tokio::join!(source.read(ask(&["power"])), server.next_request());
    assert_eq!(reading.metrics[0].outcome, Err(SourceError::Late { seconds: 10 }.into()));
    drop(held);
    source.limits.max_response = 10;
    let long = group(&["v1beta1"], None);
    let (reading, ()) = tokio::join!(
        source.read(ask(&["power"])),
        answer(&mut server, "/apis/custom.metrics.k8s.io", 200, long)
    );
    assert_eq!(reading.metrics[0].outcome, Err(SourceError::TooLarge { limit: 10 }.into()));
}

proptest! {
    #[test]
    fn no_list_brings_the_reader_down(cut in 0..400_usize, byte in any::<u8>()) {
        let list = json!({"items": [item("n1", "29901m", "1970-01-01T00:01:30Z"), item("x", "NaN", "never")]}).to_string();
        let mut bytes = list.into_bytes();
        let cut = cut.min(bytes.len() - 1);
        bytes[cut] = byte;
        let _ = gather(&bytes, &directory());
        let _ = gather(&bytes[..cut], &directory());
        let _ = preferred(&bytes);
    }
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_hangs_holds_up_one_reading_for_two_timeouts_at_most() {
    let (source, mut server) = scripted();
    let names: Vec<String> = (0..40).map(|n| format!("m{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let script = async {
        let versions = group(&["v1beta1"], Some("v1beta1"));
        answer(&mut server, "/apis/custom.metrics.k8s.io", 200, versions).await;
        let mut held = Vec::new();
        while let Some(request) = server.next_request().await {
            held.push(request);
        }
    };
    let begun = Instant::now();
    let reading = tokio::select! {
        reading = source.read(ask(&names)) => reading,
        () = script => unreachable!("the client is still there"),
    };
    assert_eq!(begun.elapsed().as_secs(), 20);
    let told: std::collections::BTreeSet<String> =
        reading.metrics.iter().map(|metric| metric.outcome.as_ref().unwrap_err().to_string()).collect();
    assert_eq!(told.into_iter().collect::<Vec<_>>(), ["no answer within 10 s", "no answer within 20 s"]);
}
