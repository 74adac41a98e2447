//! How a write was answered, and what that asks of us: look again, wait, or tell somebody.

use std::time::Duration;

use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Request, Response};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{DEADLINE, Edition};
use crate::trouble::{Trouble, Verb};

/// Longest answer that is read; a node with all its images is a tenth of it.
const LONGEST: usize = 8 << 20;
/// The API server may ask us to wait, up to this.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Why nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object has changed, or another has taken its name: look again.
    Outdated,
    /// There is no such object any more.
    Gone,
    /// Somebody else has written labels of these keys; nothing was changed.
    Foreign(Vec<String>),
    /// The API server is busy or away; it may be better later, not before `after` if it said so.
    Later {
        /// How long it asked us to wait.
        after: Option<Duration>,
        /// In words.
        trouble: Trouble,
    },
    /// It will be refused again until somebody changes something.
    Never(Trouble),
}

impl Refusal {
    /// One word from a closed set, for counting.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Outdated => "outdated",
            Self::Gone => "gone",
            Self::Foreign(_) => "foreign",
            Self::Later { .. } => "later",
            Self::Never(Trouble::Forbidden { .. }) => "forbidden",
            Self::Never(_) => "refused",
        }
    }

    /// In words, where there is something to tell.
    pub fn trouble(&self) -> Option<&Trouble> {
        match self {
            Self::Later { trouble, .. } | Self::Never(trouble) => Some(trouble),
            Self::Outdated | Self::Gone | Self::Foreign(_) => None,
        }
    }
}

pub(super) async fn patch<K: DeserializeOwned + Resource>(
    client: &Client,
    resource: &str,
    edition: &Edition,
    path: &str,
    kind: &str,
    body: &Value,
) -> Result<K, Refusal> {
    let unreachable = |reason: String| {
        let trouble = Trouble::Unreachable { verb: Verb::Patch, resource: resource.to_owned(), reason };
        Refusal::Later { after: None, trouble }
    };
    let request = Request::patch(path)
        .header(CONTENT_TYPE, kind)
        .body(Body::from(body.to_string().into_bytes()))
        .map_err(|error| Refusal::Never(refused(resource, &error.to_string())))?;
    let exchange = async {
        let response = client.send(request).await;
        let response = response.map_err(|error| Refusal::Later {
            after: None,
            trouble: Trouble::of(&error, Verb::Patch, resource),
        })?;
        read(resource, response).await
    };
    match tokio::time::timeout(DEADLINE, exchange).await {
        Ok(Ok(bytes)) => {
            let stored: K = serde_json::from_slice(&bytes)
                .map_err(|error| unreachable(format!("the answer makes no sense: {error}")))?;
            if stored.meta().name.as_ref() != Some(&edition.name) {
                return Err(unreachable("the answer is not about the object that was written".to_owned()));
            }
            Ok(stored)
        }
        Ok(Err(refusal)) => Err(refusal),
        Err(_) => Err(unreachable(format!("no answer in {} s", DEADLINE.as_secs()))),
    }
}

async fn read(resource: &str, response: Response<Body>) -> Result<Vec<u8>, Refusal> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, LONGEST).collect().await.map_err(|error| Refusal::Later {
        after: None,
        trouble: Trouble::Unreachable {
            verb: Verb::Patch,
            resource: resource.to_owned(),
            reason: format!("the answer broke off: {error}"),
        },
    })?;
    let bytes = body.to_bytes();
    if head.status.is_success() {
        return Ok(bytes.to_vec());
    }
    let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let seconds = head.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    let seconds = seconds.or_else(|| said.pointer("/details/retryAfterSeconds").and_then(Value::as_u64));
    let after = seconds.map(|seconds| Duration::from_secs(seconds).min(LONGEST_WAIT));
    let message = match said.get("message").and_then(Value::as_str) {
        Some(message) => message.to_owned(),
        None => String::from_utf8_lossy(&bytes).into_owned(),
    };
    Err(refusal(resource, head.status.as_u16(), &message, &said, after))
}

fn refusal(resource: &str, code: u16, message: &str, said: &Value, after: Option<Duration>) -> Refusal {
    let causes = || said.pointer("/details/causes").and_then(Value::as_array).into_iter().flatten();
    let field =
        |cause: &Value, name: &str| cause.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let trouble = || Trouble::of_status(code, message, Verb::Patch, resource.to_owned());
    match code {
        404 => Refusal::Gone,
        409 => {
            let foreign: Vec<String> = causes()
                .filter(|cause| field(cause, "reason") == "FieldManagerConflict")
                .filter_map(|cause| {
                    field(cause, "field").strip_prefix(".metadata.labels.").map(str::to_owned)
                })
                .collect();
            if foreign.is_empty() { Refusal::Outdated } else { Refusal::Foreign(foreign) }
        }
        // Another object has the name now.
        422 if causes().any(|cause| field(cause, "field") == "metadata.uid") => Refusal::Outdated,
        408 | 429 | 500.. => Refusal::Later { after, trouble: trouble() },
        _ => Refusal::Never(trouble()),
    }
}

fn refused(resource: &str, said: &str) -> Trouble {
    Trouble::Refused { verb: Verb::Patch, resource: resource.to_owned(), said: said.to_owned() }
}
