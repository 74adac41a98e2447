//! Which request is for whom, decided from its head alone.

use api::keys::{FILTER_ROUTE, PREEMPT_ROUTE, PRIORITIZE_ROUTE, VIA_PREFIX};
use http::{Method, StatusCode, header};

use crate::reply::Reply;

/// What kube-scheduler may ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Which nodes may take the pod.
    Filter,
    /// How they compare.
    Prioritize,
    /// On which of them eviction would be of any use.
    Preempt,
}

impl Verb {
    /// As the path and the metrics name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
            Self::Preempt => "preempt",
        }
    }
}

/// A request worth reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What is asked.
    pub verb: Verb,
    /// `install/node/generation`, from a path under `/via/`: proof of which configuration is in use.
    pub via: Option<String>,
}

/// Longest token under `/via/`; three names of Kubernetes fit.
const MAX_VIA: usize = 512;

pub(crate) fn admit(head: &http::request::Parts) -> Result<Route, Reply> {
    let path = head.uri.path();
    let Some(route) = find(path) else {
        let shown: String = path.chars().take(100).collect();
        return Err(Reply::error(
            StatusCode::NOT_FOUND,
            &format!(
                "{shown:?} is not served here; there are {FILTER_ROUTE}, {PRIORITIZE_ROUTE} and {PREEMPT_ROUTE}, also under {VIA_PREFIX}INSTALL/NODE/GENERATION"
            ),
        ));
    };
    if head.method != Method::POST {
        let message = format!("{} is not the way to ask; send a POST with a JSON body", head.method);
        return Err(Reply::error(StatusCode::METHOD_NOT_ALLOWED, &message).allow("POST"));
    }
    let content_type = head.headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("?"));
    let essence = content_type.map(|value| value.split(';').next().unwrap_or_default().trim());
    if !essence.is_some_and(|essence| essence.eq_ignore_ascii_case("application/json")) {
        let shown: String = content_type.unwrap_or("none").chars().take(100).collect();
        let message = format!("content type {shown:?} is not understood; send application/json");
        return Err(Reply::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, &message));
    }
    Ok(route)
}

fn find(path: &str) -> Option<Route> {
    let (via, rest) = match path.strip_prefix(VIA_PREFIX) {
        None => (None, path),
        Some(tail) => {
            let token_end = tail.match_indices('/').nth(2)?.0;
            let token = &tail[..token_end];
            if token.len() > MAX_VIA || token.split('/').any(str::is_empty) {
                return None;
            }
            (Some(token.to_owned()), &tail[token_end..])
        }
    };
    let verb = match rest {
        FILTER_ROUTE => Verb::Filter,
        PRIORITIZE_ROUTE => Verb::Prioritize,
        PREEMPT_ROUTE => Verb::Preempt,
        _ => return None,
    };
    Some(Route { verb, via })
}
