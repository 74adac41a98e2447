//! The election against a scripted API server, in virtual time: exact verbs, paths and bodies.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use cluster::lease::{self, Election, Leadership, Moment};
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower_test::mock::{Handle, SendResponse, pair};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/tas-system/leases";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/tas-system/leases/tas";

struct Server(Pin<Box<Handle<Request<Body>, Response<Body>>>>);

impl Server {
    /// The next request, which must be this one, and a way to answer it.
    async fn next(&mut self, method: &str, path: &str) -> (Value, SendResponse<Response<Body>>) {
        let (request, reply) = self.0.next_request().await.expect("another request");
        assert_eq!((request.method().as_str(), request.uri().to_string().as_str()), (method, path));
        let sent = request.into_body().collect().await.unwrap().to_bytes();
        (serde_json::from_slice(&sent).unwrap_or_default(), reply)
    }

    async fn answer(&mut self, method: &str, path: &str, status: u16, body: &Value) -> Value {
        let (sent, reply) = self.next(method, path).await;
        respond(reply, status, body);
        sent
    }

    /// Answers a write with what was written, as this version.
    async fn store(&mut self, method: &str, path: &str, version: &str) -> Value {
        let (sent, reply) = self.next(method, path).await;
        let mut stored = sent.clone();
        stored["metadata"]["resourceVersion"] = json!(version);
        respond(reply, 200, &stored);
        sent
    }
}

fn respond(reply: SendResponse<Response<Body>>, status: u16, body: &Value) {
    let status = StatusCode::from_u16(status).unwrap();
    reply.send_response(
        Response::builder().status(status).body(Body::from(body.to_string().into_bytes())).unwrap(),
    );
}

fn refusal(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": "X"})
}

fn held(holder: &str, version: &str) -> Value {
    json!({"metadata": {"resourceVersion": version}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 4}})
}

struct Stage {
    leadership: Leadership,
    server: Server,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
    /// How far the clock on the wall was set forward, in seconds.
    ahead: Arc<AtomicU64>,
}

fn stage() -> Stage {
    let (service, handle) = pair::<Request<Body>, Response<Body>>();
    let ahead = Arc::new(AtomicU64::new(0));
    let (begin, set) = (Instant::now(), Arc::clone(&ahead));
    let clock = Arc::new(move || Moment {
        monotonic: Instant::now(),
        wall: SystemTime::UNIX_EPOCH + begin.elapsed() + Duration::from_secs(set.load(Ordering::Relaxed)),
    });
    let election = Election {
        client: Client::new(service, "default"),
        namespace: "tas-system".to_owned(),
        name: "tas".to_owned(),
        me: "me".to_owned(),
        clock,
    };
    let (stop, stopped) = oneshot::channel::<()>();
    let (leadership, standing) = lease::run(election, async {
        let _ = stopped.await;
    });
    Stage { leadership, server: Server(Box::pin(handle)), stop, task: tokio::spawn(standing), ahead }
}

impl Stage {
    /// Takes a lease that is not there.
    async fn lead(&mut self) -> u64 {
        self.server.answer("GET", LEASE, 404, &refusal(404, "not found")).await;
        let made = self.server.store("POST", LEASES, "1").await;
        assert_eq!(
            made,
            json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "tas", "namespace": "tas-system"},
                "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0,
                    "acquireTime": made["spec"]["acquireTime"], "renewTime": made["spec"]["renewTime"]}})
        );
        self.leadership.begins().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_made_renewed_and_given_back() {
    let mut stage = stage();
    assert_eq!(stage.leadership.term(), None);
    let term = stage.lead().await;
    let begun = Instant::now();
    for version in ["2", "3", "4"] {
        let renewed = stage.server.store("PUT", LEASE, version).await;
        assert_eq!(
            (&renewed["spec"]["holderIdentity"], &renewed["spec"]["leaseTransitions"]),
            (&json!("me"), &json!(0))
        );
    }
    assert_eq!(begun.elapsed().as_secs(), 3 * lease::RENEW_EVERY.as_secs());
    assert!(stage.leadership.allows(term));
    stage.stop.send(()).unwrap();
    let back = stage.server.store("PUT", LEASE, "5").await;
    assert_eq!(
        (&back["spec"]["holderIdentity"], &back["metadata"]["resourceVersion"]),
        (&json!(""), &json!("4"))
    );
    stage.task.await.unwrap();
    assert_eq!(stage.leadership.term(), None);
}

#[tokio::test(start_paused = true)]
async fn another_takes_over_once_the_lease_stood_still_long_enough() {
    let mut stage = stage();
    let begun = Instant::now();
    for _ in 0..8 {
        stage.server.answer("GET", LEASE, 200, &held("other", "7")).await;
        assert_eq!(stage.leadership.term(), None);
    }
    stage.server.answer("GET", LEASE, 200, &held("other", "7")).await;
    let taken = stage.server.store("PUT", LEASE, "8").await;
    assert!(begun.elapsed() >= lease::DURATION);
    assert_eq!(
        (&taken["metadata"]["resourceVersion"], &taken["spec"]["leaseTransitions"]),
        (&json!("7"), &json!(5))
    );
    stage.leadership.begins().await;
    assert_eq!(stage.leadership.standing().holder.as_deref(), Some("me"));
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_second_waits() {
    let mut stage = stage();
    stage.server.answer("GET", LEASE, 404, &refusal(404, "not found")).await;
    stage.server.answer("POST", LEASES, 409, &refusal(409, "exists")).await;
    stage.server.answer("GET", LEASE, 200, &held("other", "1")).await;
    // The next thing is to look again, not to write.
    stage.server.answer("GET", LEASE, 200, &held("other", "2")).await;
    assert_eq!(stage.leadership.term(), None);
    assert_eq!(stage.leadership.standing().holder.as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_renewals_fail_stops_before_anyone_can_take_over() {
    let mut stage = stage();
    let term = stage.lead().await;
    let begun = Instant::now();
    // One hangs until its deadline, the others are refused.
    let (_, hangs) = stage.server.next("PUT", LEASE).await;
    let mut leadership = stage.leadership.clone();
    let over = tokio::spawn(async move {
        leadership.ends(term).await;
        Instant::now()
    });
    let refusals = async {
        loop {
            stage.server.answer("GET", LEASE, 500, &refusal(500, "etcd is away")).await;
        }
    };
    let over = tokio::select! { over = over => over.unwrap(), () = refusals => unreachable!("it loops") };
    drop(hangs);
    let lasted = over - begun;
    assert!(lasted + lease::DEADLINE + lease::MARGIN >= lease::DURATION, "{lasted:?}");
    assert!(lasted < lease::DURATION, "{lasted:?}");
    assert!(!stage.leadership.allows(term));
    assert!(stage.leadership.standing().trouble.unwrap().contains("500 etcd is away"));
}

#[tokio::test(start_paused = true)]
async fn the_fence_closes_even_if_the_election_itself_hangs() {
    let mut stage = stage();
    let term = stage.lead().await;
    // Nobody answers, and nobody but the clock says so.
    let whole = lease::DURATION.saturating_sub(lease::MARGIN);
    tokio::time::sleep(whole.saturating_sub(Duration::from_millis(1))).await;
    assert!(stage.leadership.allows(term));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(!stage.leadership.allows(term));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_slept_finds_its_term_over_and_starts_another() {
    let mut stage = stage();
    let term = stage.lead().await;
    stage.ahead.store(600, Ordering::Relaxed);
    assert!(!stage.leadership.allows(term), "by the clock on the wall alone");
    stage.server.answer("GET", LEASE, 200, &held("me", "1")).await;
    stage.server.store("PUT", LEASE, "2").await;
    assert_eq!(stage.leadership.begins().await, term + 1);
    assert!(!stage.leadership.allows(term), "a plan of the old term stays undone");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_robbed_steps_down() {
    let mut stage = stage();
    let term = stage.lead().await;
    stage.server.answer("PUT", LEASE, 409, &refusal(409, "modified")).await;
    stage.server.answer("GET", LEASE, 200, &held("other", "9")).await;
    stage.leadership.ends(term).await;
    assert_eq!(stage.leadership.standing().holder.as_deref(), Some("other"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named() {
    let mut stage = stage();
    stage.server.answer("GET", LEASE, 403, &refusal(403, "leases is forbidden")).await;
    let (_, reply) = stage.server.next("GET", LEASE).await;
    assert_eq!(
        stage.leadership.standing().trouble.unwrap(),
        "not allowed to get leases.coordination.k8s.io/tas in namespace tas-system; grant it, as deploy/rbac/tas-serve.yaml does (leases is forbidden)"
    );
    respond(reply, 404, &refusal(404, "not found"));
    stage.server.answer("POST", LEASES, 404, &refusal(404, "namespaces \"tas-system\" not found")).await;
    let _ = stage.server.next("GET", LEASE).await;
    assert_eq!(
        stage.leadership.standing().trouble.unwrap(),
        "cannot create leases.coordination.k8s.io/tas in namespace tas-system: 404 not found; does the namespace tas-system exist?"
    );
}
