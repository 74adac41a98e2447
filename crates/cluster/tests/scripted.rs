//! The watches and the look at the definition against a scripted API server: exact verbs, paths and words.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::pin::{Pin, pin};

use cluster::definition::{Definition, installed};
use cluster::events::{Events, Notice, Tone};
use cluster::watch::{self, News};
use futures::{Stream, StreamExt};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tower_test::mock::{Handle, pair};

type Server = Pin<Box<Handle<Request<Body>, Response<Body>>>>;

fn scripted() -> (Client, Server) {
    let (service, handle) = pair::<Request<Body>, Response<Body>>();
    (Client::new(service, "default"), Box::pin(handle))
}

/// Answers the next request, which must be this one.
async fn answer(
    server: &mut Server,
    method: &str,
    path: &str,
    status: u16,
    body: impl Into<Vec<u8>>,
) -> Value {
    let (request, reply) = server.next_request().await.expect("another request");
    assert_eq!((request.method().as_str(), request.uri().to_string().as_str()), (method, path));
    let sent = request.into_body().collect().await.unwrap().to_bytes();
    let answer =
        Response::builder().status(StatusCode::from_u16(status).unwrap()).body(Body::from(body.into()));
    reply.send_response(answer.unwrap());
    serde_json::from_slice(&sent).unwrap_or_default()
}

fn list(version: &str, items: &Value) -> String {
    json!({"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": version}, "items": items})
        .to_string()
}

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "resourceVersion": "1"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}})
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}

fn refusal(code: u16, message: &str) -> String {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": "X"}).to_string()
}

/// The news in short.
async fn next<K: kube::Resource>(news: &mut (impl Stream<Item = News<K>> + Unpin)) -> String {
    let name = |object: &K| object.meta().name.clone().unwrap_or_default();
    match news.next().await.unwrap() {
        News::All(all) => format!("all: {}", all.iter().map(name).collect::<Vec<_>>().join(" ")),
        News::Changed(object) => format!("changed: {}", name(&object)),
        News::Gone(object) => format!("gone: {}", name(&object)),
        News::Trouble(trouble) => trouble.to_string(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_lists_in_pages_is_told_of_changes_and_lists_again_when_it_missed_some() {
    let (client, mut server) = scripted();
    let mut news = pin!(watch::nodes(&client));
    let script = async {
        let page = json!({"apiVersion": "v1", "kind": "NodeList", "metadata": {"resourceVersion": "5", "continue": "next"}, "items": [node("a")]});
        answer(&mut server, "GET", "/api/v1/nodes?&limit=500", 200, page.to_string()).await;
        answer(
            &mut server,
            "GET",
            "/api/v1/nodes?&limit=500&continue=next",
            200,
            list("5", &json!([node("b")])),
        )
        .await;
        let watching =
            "/api/v1/nodes?&watch=true&timeoutSeconds=290&allowWatchBookmarks=true&resourceVersion=";
        let told = event("ADDED", &node("c")) + &event("DELETED", &node("a"));
        answer(&mut server, "GET", &format!("{watching}5"), 200, told).await;
        // The watch has ended; it goes on from the last object it was told of, which is too long ago.
        let gone = event(
            "ERROR",
            &json!({"kind": "Status", "status": "Failure", "code": 410, "message": "too old", "reason": "Expired"}),
        );
        answer(&mut server, "GET", &format!("{watching}1"), 200, gone).await;
        // b was deleted meanwhile, and nobody said so.
        answer(&mut server, "GET", "/api/v1/nodes?&limit=500", 200, list("9", &json!([node("c")]))).await;
        server
    };
    let (_, told) = tokio::join!(script, async {
        let mut told = Vec::new();
        for _ in 0..5 {
            told.push(next(&mut news).await);
        }
        told
    });
    assert_eq!(told[..3], ["all: a b", "changed: c", "gone: a"]);
    assert!(told[3].starts_with("cannot watch nodes: 410 too old"), "{}", told[3]);
    assert_eq!(told[4], "all: c");
}

#[tokio::test(start_paused = true)]
async fn pods_are_asked_for_by_label_and_a_bad_object_stops_nothing() {
    let (client, mut server) = scripted();
    let mut news = pin!(watch::pods(&client));
    let script = async {
        let items = json!([{"metadata": {"name": "good", "namespace": "x"}, "spec": {"nodeName": "n1"}}, {"metadata": "none"}, 7]);
        answer(
            &mut server,
            "GET",
            "/api/v1/pods?&labelSelector=telemetry-policy&limit=500",
            200,
            list("1", &items),
        )
        .await;
        server
    };
    let (_server, told) = tokio::join!(script, next(&mut news));
    assert_eq!(told, "all: good  ");
}

#[tokio::test(start_paused = true)]
async fn a_bad_policy_among_good_ones_is_kept_apart() {
    let (client, mut server) = scripted();
    let mut news = pin!(watch::policies(&client));
    let script = async {
        let items = json!([
            {"metadata": {"name": "bad", "namespace": "x"}, "spec": {"strategies": "none"}},
            {"metadata": {"name": "good", "namespace": "x"}, "spec": {"strategies": {}}}
        ]);
        let path = "/apis/telemetry.intel.com/v1alpha1/taspolicies?&limit=500";
        answer(&mut server, "GET", path, 200, list("1", &items)).await;
        server
    };
    let (_server, told) = tokio::join!(script, news.next());
    let Some(News::All(policies)) = told else { panic!("a list, not {told:?}") };
    assert_eq!(policies.iter().map(|policy| policy.object.is_ok()).collect::<Vec<_>>(), [false, true]);
}

#[tokio::test(start_paused = true)]
async fn trouble_is_told_with_the_way_out_and_the_watch_goes_on() {
    let (client, mut server) = scripted();
    let mut news = pin!(watch::policies(&client));
    let path = "/apis/telemetry.intel.com/v1alpha1/taspolicies?&limit=500";
    let script = async {
        answer(
            &mut server,
            "GET",
            path,
            404,
            refusal(404, "the server could not find the requested resource"),
        )
        .await;
        answer(&mut server, "GET", path, 403, refusal(403, "taspolicies is forbidden")).await;
        answer(&mut server, "GET", path, 401, refusal(401, "Unauthorized")).await;
        answer(&mut server, "GET", path, 500, refusal(500, "etcd is away")).await;
        answer(&mut server, "GET", path, 200, "half a bo").await;
        answer(&mut server, "GET", path, 200, list("1", &json!([]))).await;
        server
    };
    let (_server, told) = tokio::join!(script, async {
        let mut told = Vec::new();
        for _ in 0..6 {
            told.push(next(&mut news).await);
        }
        told
    });
    assert_eq!(
        told[..4],
        [
            "taspolicies.telemetry.intel.com does not exist; install its CustomResourceDefinition (deploy/crds), it is looked for again",
            "not allowed to list taspolicies.telemetry.intel.com; grant it, as deploy/rbac/tas-serve.yaml does (taspolicies is forbidden)",
            "the API server does not accept our credentials for taspolicies.telemetry.intel.com; is the token or certificate expired? (Unauthorized)",
            "cannot list taspolicies.telemetry.intel.com: 500 etcd is away",
        ]
    );
    assert!(
        told[4].starts_with("cannot reach the API server to list taspolicies.telemetry.intel.com: "),
        "{}",
        told[4]
    );
    assert_eq!(told[5], "all: ");
}

#[tokio::test]
async fn the_installed_definition_is_looked_at() {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/taspolicies.telemetry.intel.com";
    let look = async |status: u16, body: String| {
        let (client, mut server) = scripted();
        let (_, found) = tokio::join!(answer(&mut server, "GET", path, status, body), installed(&client));
        found.map_err(|trouble| trouble.to_string())
    };
    assert_eq!(look(404, refusal(404, "not found")).await, Ok(Definition::Missing));
    assert_eq!(look(200, serde_json::to_string(&api::crd()).unwrap()).await, Ok(Definition::Complete));
    assert!(matches!(look(200, "{}".to_owned()).await, Ok(Definition::Lacks(_))));
    assert_eq!(
        look(403, refusal(403, "forbidden")).await,
        Err("not allowed to get customresourcedefinitions.apiextensions.k8s.io/taspolicies.telemetry.intel.com; grant it, as deploy/rbac/tas-serve.yaml does (forbidden)".to_owned())
    );
}

#[tokio::test]
async fn an_event_is_written_where_its_object_is_and_only_once() {
    let (client, mut server) = scripted();
    let (events, sending) = Events::new(client, Some("tas-0".to_owned()));
    let notice = Notice {
        about: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some("default".to_owned()),
            name: Some("web-0".to_owned()),
            ..ObjectReference::default()
        },
        tone: Tone::Warning,
        reason: "PolicyNotFound",
        action: "Filter",
        note: "no policy power in namespace default".to_owned(),
    };
    events.tell(notice.clone());
    events.tell(notice);
    drop(events);
    let path = "/apis/events.k8s.io/v1/namespaces/default/events?";
    let (sent, ()) = tokio::join!(answer(&mut server, "POST", path, 201, "{\"metadata\":{}}"), sending);
    let field = |name: &str| sent[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        ["type", "reason", "action", "note", "reportingController"].map(field),
        ["Warning", "PolicyNotFound", "Filter", "no policy power in namespace default", "tas"]
    );
    assert_eq!(sent["regarding"]["name"], "web-0");
}

#[tokio::test]
async fn events_that_nobody_sends_are_dropped_and_counted() {
    let (client, _server) = scripted();
    let (events, _sending) = Events::new(client, None);
    let notice = Notice {
        about: ObjectReference::default(),
        tone: Tone::Normal,
        reason: "R",
        action: "A",
        note: String::new(),
    };
    for _ in 0..cluster::events::QUEUE + 3 {
        events.tell(notice.clone());
    }
    assert_eq!(events.dropped(), 3);
}

#[tokio::test]
async fn an_event_that_speaks_for_many_is_sent_before_the_many_and_finds_room() {
    let (client, mut server) = scripted();
    let (events, sending) = Events::new(client, None);
    let notice = |name: &str| Notice {
        about: ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() },
        tone: Tone::Normal,
        reason: "R",
        action: "A",
        note: String::new(),
    };
    for n in 0..cluster::events::QUEUE {
        events.tell(notice(&format!("node-{n}")));
    }
    events.tell_first(notice("policy"));
    assert_eq!(events.dropped(), 0);
    let path = "/apis/events.k8s.io/v1/namespaces/default/events?";
    let script = async {
        let mut names = Vec::new();
        for _ in 0..2 {
            let sent = answer(&mut server, "POST", path, 201, "{\"metadata\":{}}").await;
            names.push(sent["regarding"]["name"].as_str().unwrap_or_default().to_owned());
        }
        names
    };
    tokio::select! {
        names = script => assert_eq!(names, ["policy", "node-0"]),
        () = sending => unreachable!("there is always more to send"),
    }
}

#[tokio::test]
async fn another_note_is_another_event_and_one_that_was_refused_is_sent_again() {
    let (client, mut server) = scripted();
    let (events, sending) = Events::new(client, None);
    let notice = |note: &str| Notice {
        about: ObjectReference { name: Some("power".to_owned()), ..ObjectReference::default() },
        tone: Tone::Normal,
        reason: "NodeMarked",
        action: "Label",
        note: note.to_owned(),
    };
    for note in ["n1 violates", "n7 violates", "n7 violates", "n7 violates"] {
        events.tell(notice(note));
    }
    drop(events);
    let path = "/apis/events.k8s.io/v1/namespaces/default/events?";
    let script = async {
        let mut notes = Vec::new();
        for (status, body) in [(201, "{\"metadata\":{}}"), (500, "{}"), (201, "{\"metadata\":{}}")] {
            notes.push(answer(&mut server, "POST", path, status, body).await["note"].clone());
        }
        notes
    };
    let (notes, ()) = tokio::join!(script, sending);
    assert_eq!(notes, ["n1 violates", "n7 violates", "n7 violates"]);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_not_taken_holds_up_the_next_for_a_while_only() {
    let (client, mut server) = scripted();
    let (events, sending) = Events::new(client, None);
    for name in ["a", "b"] {
        let about = ObjectReference { name: Some(name.to_owned()), ..ObjectReference::default() };
        events.tell(Notice { about, tone: Tone::Normal, reason: "R", action: "A", note: String::new() });
    }
    drop(events);
    let script = async {
        let first = server.next_request().await.unwrap();
        let (_, reply) = server.next_request().await.unwrap();
        reply.send_response(
            Response::builder().status(201).body(Body::from(b"{\"metadata\":{}}".to_vec())).unwrap(),
        );
        drop(first);
    };
    tokio::join!(sending, script);
}
