//! A very small API server: nodes, policies and leases in memory, applied and merged as the real one does, with faults
//! on request. It writes down everything it is asked to change.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use cluster::Client;
use cluster::write::merged;
use http::{Method, Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Map, Value, json};
use tower_test::mock::{SendResponse, pair};

/// A change that was asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Asked {
    /// `PATCH /api/v1/nodes/n1?…`
    pub(crate) said: String,
    /// The body.
    pub(crate) sent: Value,
}

/// What happens to a request instead of being served.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// This answer.
    Answer(u16, Value),
    /// The same with this header `Retry-After`.
    Busy(u16, &'static str),
    /// No answer at all.
    Silence,
}

#[derive(Default)]
struct Held {
    objects: BTreeMap<String, Value>,
    version: u64,
    asked: Vec<Asked>,
    faults: VecDeque<(String, Fault)>,
    /// Requests that are never answered.
    silent: Vec<SendResponse<Response<Body>>>,
    /// Whether the definition drops what it does not know of a status.
    prunes: bool,
}

/// See the module.
#[derive(Clone, Default)]
pub(crate) struct ApiServer(Arc<Mutex<Held>>);

impl ApiServer {
    /// A client of it.
    pub(crate) fn client(&self) -> Client {
        let (service, handle) = pair::<Request<Body>, Response<Body>>();
        let server = self.clone();
        tokio::spawn(async move {
            let mut handle = std::pin::pin!(handle);
            while let Some((request, reply)) = handle.next_request().await {
                server.serve(request, reply).await;
            }
        });
        Client::new(service, "default")
    }

    /// Stores an object as it is, and returns it.
    pub(crate) fn put(&self, path: &str, mut object: Value) -> Value {
        let mut held = self.0.lock().unwrap();
        held.version += 1;
        object["metadata"]["resourceVersion"] = json!(held.version.to_string());
        object["metadata"]["uid"] = json!(format!("uid-of-{path}"));
        held.objects.insert(path.to_owned(), object.clone());
        object
    }

    pub(crate) fn delete(&self, path: &str) {
        self.0.lock().unwrap().objects.remove(path);
    }

    pub(crate) fn get(&self, path: &str) -> Value {
        self.0.lock().unwrap().objects.get(path).cloned().unwrap_or_default()
    }

    pub(crate) fn prune_statuses(&self) {
        self.0.lock().unwrap().prunes = true;
    }

    /// The next change whose path ends so meets this fault.
    pub(crate) fn fault(&self, path: &str, fault: Fault) {
        self.0.lock().unwrap().faults.push_back((path.to_owned(), fault));
    }

    /// What was asked to be changed since the last call, leases apart.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }

    async fn serve(&self, request: Request<Body>, reply: SendResponse<Response<Body>>) {
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let apply =
            request.headers().get("content-type").is_some_and(|kind| kind == "application/apply-patch+yaml");
        let sent = request.into_body().collect().await.unwrap().to_bytes();
        let sent: Value = serde_json::from_slice(&sent).unwrap_or_default();
        let mut held = self.0.lock().unwrap();
        let path = uri.path().to_owned();
        if method == Method::PATCH || (method == Method::POST && !path.ends_with("/leases")) {
            held.asked.push(Asked { said: format!("{method} {uri}"), sent: sent.clone() });
        }
        let fault = held.faults.iter().position(|(end, _)| method != Method::GET && path.ends_with(end));
        let fault = fault.and_then(|place| held.faults.remove(place)).map(|(_, fault)| fault);
        let (status, body, header) = match fault {
            Some(Fault::Silence) => {
                held.silent.push(reply);
                return;
            }
            Some(Fault::Answer(status, body)) => (status, body, None),
            Some(Fault::Busy(status, after)) => (status, refusal(status, "busy"), Some(after)),
            None => {
                let (status, body) = held.change(&method, &path, &sent, apply);
                (status, body, None)
            }
        };
        let mut response = Response::builder().status(status);
        if let Some(after) = header {
            response = response.header("retry-after", after);
        }
        reply.send_response(response.body(Body::from(body.to_string().into_bytes())).unwrap());
    }
}

pub(crate) fn refusal(code: u16, message: &str) -> Value {
    json!({"kind": "Status", "status": "Failure", "code": code, "message": message, "details": {}})
}

impl Held {
    fn change(&mut self, method: &Method, path: &str, sent: &Value, apply: bool) -> (u16, Value) {
        let stored = path.strip_suffix("/status").unwrap_or(path);
        let collection = *method == Method::POST;
        let key = if collection {
            format!("{path}/{}", sent["metadata"]["name"].as_str().unwrap())
        } else {
            stored.to_owned()
        };
        let before = self.objects.get(&key).cloned();
        let Some(before) = before.or_else(|| collection.then(|| json!({"metadata": {}}))) else {
            if sent["metadata"]["uid"].is_string() && apply {
                return (409, refusal(409, "uid mismatch: no existing object was found"));
            }
            return (404, refusal(404, "not found"));
        };
        if *method == Method::GET {
            return (200, before);
        }
        for field in ["uid", "resourceVersion"] {
            let wanted = &sent["metadata"][field];
            if wanted.is_string() && *wanted != before["metadata"][field] {
                return (409, refusal(409, "the object has been modified"));
            }
        }
        let mut after = if *method == Method::PATCH {
            if apply { applied(&before, sent) } else { merged(&before, sent) }
        } else {
            merged(&before, sent)
        };
        if self.prunes && path.ends_with("/status") {
            let kept: Map<String, Value> = after["status"]
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(field, _)| matches!(field.as_str(), "compliance" | "message"))
                .map(|(field, value)| (field.clone(), value.clone()))
                .collect();
            after["status"] = Value::Object(kept);
        }
        if after != before {
            self.version += 1;
            after["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
        self.objects.insert(key, after.clone());
        (200, after)
    }
}

/// Only labels, and only of our manager: what it owned and no longer names goes.
fn applied(target: &Value, sent: &Value) -> Value {
    let mut after = target.clone();
    let managed = after["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let (ours, mut managed): (Vec<Value>, Vec<Value>) =
        managed.into_iter().partition(|entry| entry["manager"] == "tas" && entry["operation"] == "Apply");
    let mut labels = after["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let owned =
        ours.first().and_then(|entry| entry.pointer("/fieldsV1/f:metadata/f:labels")?.as_object().cloned());
    for field in owned.unwrap_or_default().keys() {
        labels.remove(field.trim_start_matches("f:"));
    }
    let named = sent["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    let fields: Map<String, Value> = named.keys().map(|key| (format!("f:{key}"), json!({}))).collect();
    labels.extend(named);
    managed.push(
        json!({"manager": "tas", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": fields}}}),
    );
    after["metadata"]["labels"] = Value::Object(labels);
    after["metadata"]["managedFields"] = Value::Array(managed);
    after
}
