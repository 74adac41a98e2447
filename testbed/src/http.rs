//! Plain HTTP over loopback: health endpoints, the exporter and Prometheus' query API.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, Request};
use http_body_util::{BodyExt as _, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde::Deserialize;

/// How long one request may take.
const LIMIT: Duration = Duration::from_secs(10);
/// How large an answer may be.
const MOST_BYTES: usize = 64 << 20;

/// A request that did not bring what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// Nobody answered, or not in time.
    #[error("{url} does not answer: {cause}")]
    Silent {
        /// What was asked.
        url: String,
        /// Why.
        cause: String,
    },
    /// The answer was a refusal.
    #[error("{url} answers {status}: {body}")]
    Refused {
        /// What was asked.
        url: String,
        /// The status line.
        status: String,
        /// What was said.
        body: String,
    },
    /// The answer was not what that API promises.
    #[error("{url} answers something else than a query result: {cause}")]
    Odd {
        /// What was asked.
        url: String,
        /// What is odd.
        cause: serde_json::Error,
    },
}

/// Sends a request and returns the body of a successful answer.
pub async fn send(method: Method, url: &str, body: String) -> Result<Bytes, HttpError> {
    let silent = |cause: String| HttpError::Silent { url: url.to_owned(), cause };
    let request = Request::builder()
        .method(method)
        .uri(url)
        .body(Body::from(body))
        .map_err(|cause| silent(cause.to_string()))?;
    let client = Client::builder(TokioExecutor::new()).build_http::<Body>();
    let exchange = async {
        let answer = client.request(request).await.map_err(|cause| silent(with_causes(&cause)))?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MOST_BYTES).collect().await;
        let body = body.map_err(|cause| silent(cause.to_string()))?.to_bytes();
        if status.is_success() {
            return Ok(body);
        }
        let body = String::from_utf8_lossy(&body).trim().chars().take(500).collect();
        Err(HttpError::Refused { url: url.to_owned(), status: status.to_string(), body })
    };
    tokio::time::timeout(LIMIT, exchange)
        .await
        .unwrap_or_else(|_| Err(silent(format!("no answer within {} s", LIMIT.as_secs()))))
}

/// Asks for a page.
pub async fn get(url: &str) -> Result<Bytes, HttpError> {
    send(Method::GET, url, String::new()).await
}

/// One series of an instant query.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Series {
    /// Its labels, `__name__` among them.
    #[serde(rename = "metric")]
    pub labels: BTreeMap<String, String>,
    /// When it was evaluated and what it was, as Prometheus prints it.
    pub value: (f64, String),
}

/// Evaluates a PromQL expression now; the answer is a vector.
pub async fn query(prometheus: &str, expression: &str) -> Result<Vec<Series>, HttpError> {
    #[derive(Deserialize)]
    struct Answer {
        data: Data,
    }
    #[derive(Deserialize)]
    struct Data {
        result: Vec<Series>,
    }
    let url = format!("{prometheus}/api/v1/query?query={}", percent_encoded(expression));
    let body = get(&url).await?;
    let answer: Answer = serde_json::from_slice(&body).map_err(|cause| HttpError::Odd { url, cause })?;
    Ok(answer.data.result)
}

fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The client's own message says only "client error"; its causes say "connection refused".
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let _ = write!(text, ": {cause}");
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_survives_the_address_bar() {
        assert_eq!(percent_encoded(r#"up{node="a b"}"#), "up%7Bnode%3D%22a%20b%22%7D");
    }

    #[tokio::test]
    async fn silence_and_refusal_are_told_apart() {
        let exporter = crate::exporter::Exporter::start(0).await.expect("a free port");
        let base = format!("http://127.0.0.1:{}", exporter.port());
        let refusal = send(Method::PUT, &format!("{base}/metrics/x/n"), "warm".to_owned()).await;
        assert_eq!(
            refusal.expect_err("warm is no number").to_string(),
            format!(
                "{base}/metrics/x/n answers 400 Bad Request: \"warm\" is not a number; write it like 40 or 2.5"
            )
        );
        send(Method::PUT, &format!("{base}/metrics/x/n"), "4".to_owned()).await.expect("4 is a number");
        assert_eq!(
            get(&format!("{base}/metrics")).await.expect("a page"),
            "# TYPE x gauge\nx{node=\"n\"} 4\n"
        );
    }
}
