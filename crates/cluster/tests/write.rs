//! Every write against a scripted API server: exact verbs, paths and bodies, and what each answer comes to.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::pin::Pin;
use std::time::Duration;

use cluster::write::{self, Edition, Foreign, Refusal};
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower_test::mock::{Handle, pair};

type Server = Pin<Box<Handle<Request<Body>, Response<Body>>>>;

fn scripted() -> (Client, Server) {
    let (service, handle) = pair::<Request<Body>, Response<Body>>();
    (Client::new(service, "default"), Box::pin(handle))
}

fn edition(namespace: &str, name: &str) -> Edition {
    let text = str::to_owned;
    Edition { namespace: text(namespace), name: text(name), uid: text("u1"), version: text("7") }
}

/// Takes the next request, whole, and answers it.
async fn exchange(server: &mut Server, status: u16, retry_after: Option<&str>, answer: Value) -> Value {
    let (request, reply) = server.next_request().await.expect("a request");
    let said = format!("{} {}", request.method(), request.uri());
    let kind = request.headers()["content-type"].to_str().unwrap().to_owned();
    let sent = request.into_body().collect().await.unwrap().to_bytes();
    let mut head = Response::builder().status(status);
    if let Some(after) = retry_after {
        head = head.header("retry-after", after);
    }
    let body = if let Value::String(text) = answer { text } else { answer.to_string() };
    reply.send_response(head.body(Body::from(body.into_bytes())).unwrap());
    json!({"said": said, "kind": kind, "sent": serde_json::from_slice::<Value>(&sent).unwrap()})
}

fn node() -> Value {
    json!({"metadata": {"name": "n1", "resourceVersion": "8"}})
}

#[tokio::test]
async fn labels_are_applied_as_the_whole_of_what_is_ours() {
    let (client, mut server) = scripted();
    let wanted = BTreeMap::from([("power".to_owned(), "violating".to_owned())]);
    for (foreign, force) in [(Foreign::Leave, "false"), (Foreign::TakeOver, "true")] {
        let edition = edition("", "n1");
        let (asked, stored) = tokio::join!(
            exchange(&mut server, 200, None, node()),
            write::labels(&client, &edition, &wanted, foreign)
        );
        assert_eq!(
            asked,
            json!({"said": format!("PATCH /api/v1/nodes/n1?fieldManager=tas&force={force}"), "kind": "application/apply-patch+yaml",
                "sent": {"apiVersion": "v1", "kind": "Node", "metadata":
                    {"name": "n1", "uid": "u1", "resourceVersion": "7", "labels": {"power": "violating"}}}})
        );
        assert_eq!(stored.unwrap().version(), "8");
    }
}

#[tokio::test]
async fn taints_are_written_whole_over_the_edition_they_were_read_from() {
    let (client, mut server) = scripted();
    let taints = [json!({"key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"})];
    let (edition, off) = (edition("", "n1"), ["power".to_owned()]);
    let writing = write::overwrite(&client, &edition, &off, Some(&taints));
    let (asked, stored) = tokio::join!(exchange(&mut server, 200, None, node()), writing);
    assert_eq!(
        asked,
        json!({"said": "PATCH /api/v1/nodes/n1?fieldManager=tas", "kind": "application/merge-patch+json", "sent": {
            "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7", "labels": {"power": null}}, "spec": {"taints": taints}}})
    );
    assert!(stored.is_ok());
}

#[tokio::test]
async fn a_kick_is_an_annotation_of_another_manager() {
    let (client, mut server) = scripted();
    let edition = edition("", "n1");
    let (asked, stored) =
        tokio::join!(exchange(&mut server, 200, None, node()), write::kick(&client, &edition, "1700"));
    assert_eq!(
        asked,
        json!({"said": "PATCH /api/v1/nodes/n1?fieldManager=tas-kick", "kind": "application/merge-patch+json", "sent": {
            "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7", "annotations": {"telemetry-aware.github.io/pods-woken-at": "1700"}}}})
    );
    assert!(stored.is_ok());
}

#[tokio::test]
async fn a_status_is_changed_by_what_differs() {
    let (client, mut server) = scripted();
    let edition = edition("default", "power");
    let change = write::difference(
        &json!({"observedGeneration": 1, "message": "a", "compliance": "Unknown"}),
        &json!({"observedGeneration": 2, "message": "a"}),
    );
    let change = change.unwrap();
    let stored = json!({"metadata": {"name": "power", "namespace": "default"}, "spec": {"strategies": {}}});
    let (asked, written) =
        tokio::join!(exchange(&mut server, 200, None, stored), write::status(&client, &edition, &change));
    assert_eq!(
        asked,
        json!({"said": "PATCH /apis/telemetry.intel.com/v1alpha1/namespaces/default/taspolicies/power/status?fieldManager=tas",
            "kind": "application/merge-patch+json", "sent": {
                "metadata": {"name": "power", "uid": "u1", "resourceVersion": "7"},
                "status": {"observedGeneration": 2, "compliance": null}}})
    );
    assert_eq!(written.unwrap().name(), "power");
}

/// What an answer comes to.
async fn outcome(status: u16, retry_after: Option<&str>, answer: &Value) -> Refusal {
    let (client, mut server) = scripted();
    let (edition, labels) = (edition("", "n1"), BTreeMap::new());
    let writing = write::labels(&client, &edition, &labels, Foreign::Leave);
    let (_, written) = tokio::join!(exchange(&mut server, status, retry_after, answer.clone()), writing);
    written.expect_err("it is refused")
}

fn refusal(code: u16, message: &str, details: &Value) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "message": message, "details": details})
}

#[tokio::test]
async fn every_refusal_says_what_to_do() {
    let conflict = |field: &str| json!({"reason": "FieldManagerConflict", "message": "conflict with \"kubectl\"", "field": field});
    let causes = json!({"causes": [conflict(".metadata.labels.power"), conflict(".metadata.labels.telemetry.aware.scheduling.gpu/card0")]});
    assert_eq!(
        outcome(409, None, &refusal(409, "Apply failed with 2 conflicts", &causes)).await,
        Refusal::Foreign(vec!["power".to_owned(), "telemetry.aware.scheduling.gpu/card0".to_owned()])
    );
    assert_eq!(
        outcome(409, None, &refusal(409, "the object has been modified", &json!({}))).await,
        Refusal::Outdated
    );
    assert_eq!(outcome(404, None, &refusal(404, "not found", &json!({}))).await, Refusal::Gone);
    let uid = json!({"causes": [{"reason": "FieldValueInvalid", "field": "metadata.uid"}]});
    assert_eq!(outcome(422, None, &refusal(422, "field is immutable", &uid)).await, Refusal::Outdated);

    let words = |refusal: &Refusal| refusal.trouble().map(ToString::to_string).unwrap_or_default();
    let forbidden = outcome(403, None, &refusal(403, "nodes \"n1\" is forbidden", &json!({}))).await;
    assert_eq!(forbidden.as_str(), "forbidden");
    assert_eq!(
        words(&forbidden),
        "not allowed to patch nodes; grant it, as deploy/rbac/tas-serve.yaml does (nodes \"n1\" is forbidden)"
    );
    let invalid = outcome(422, None, &refusal(422, "a valid label must be", &json!({}))).await;
    assert_eq!(
        (invalid.as_str(), words(&invalid).as_str()),
        ("refused", "cannot patch nodes: 422 a valid label must be")
    );
}

#[tokio::test]
async fn a_busy_api_server_says_when_to_come_back() {
    let later =
        async |status: u16, header: Option<&str>, answer: Value| match outcome(status, header, &answer).await
        {
            Refusal::Later { after, .. } => after,
            other => panic!("later, not {other:?}"),
        };
    let secs = |secs| Some(Duration::from_secs(secs));
    assert_eq!(later(429, Some("7"), json!("Too many requests, please try again later.")).await, secs(7));
    assert_eq!(later(429, None, refusal(429, "busy", &json!({"retryAfterSeconds": 3}))).await, secs(3));
    assert_eq!(later(503, Some("86400"), json!("")).await, secs(60));
    assert_eq!(later(500, Some("soon"), refusal(500, "etcd is away", &json!({}))).await, None);
    assert_eq!(later(200, None, json!("half an ob")).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_not_answered_is_given_up_before_the_lease_is_over() {
    let (client, mut server) = scripted();
    let (edition, labels) = (edition("", "n1"), BTreeMap::new());
    let begun = tokio::time::Instant::now();
    let (hangs, written) =
        tokio::join!(server.next_request(), write::labels(&client, &edition, &labels, Foreign::Leave));
    drop(hangs);
    assert_eq!(begun.elapsed(), write::DEADLINE);
    assert!(write::DEADLINE < cluster::lease::MARGIN);
    let Err(Refusal::Later { trouble, after: None }) = written else { panic!("later, not {written:?}") };
    assert_eq!(trouble.to_string(), "cannot reach the API server to patch nodes: no answer in 3 s");
}
