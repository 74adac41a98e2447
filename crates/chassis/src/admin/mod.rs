//! The admin port: `/livez` and `/readyz` for kubelet, `/metrics` for Prometheus.
//!
//! [`Admin`] is a service for [`crate::serve()`] as it is, and a tower service, so that a router with more routes can
//! have it as its fallback.

mod health;
mod metrics;

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use prometheus_client::registry::Registry;

pub use self::health::{Health, Probe};
pub use self::metrics::ServerMetrics;
use crate::answer;

/// Answers on the admin port. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Admin {
    health: Arc<Health>,
    registry: Arc<Registry>,
}

impl Admin {
    /// With these checks and these metrics.
    pub fn new(health: Health, registry: Registry) -> Self {
        Self { health: Arc::new(health), registry: Arc::new(registry) }
    }

    /// The answer to one request; bodies are ignored.
    pub fn answer(&self, method: &Method, path: &str, query: Option<&str>) -> Response<Full<Bytes>> {
        let known = matches!(path, "/livez" | "/readyz" | "/metrics");
        if known && method != Method::GET && method != Method::HEAD {
            let mut refusal =
                answer::refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here");
            refusal.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refusal;
        }
        match path {
            "/livez" => text(self.health.report(Probe::Live, query)),
            "/readyz" => text(self.health.report(Probe::Ready, query)),
            "/metrics" => self.exposition(),
            _ => answer::refusal(
                StatusCode::NOT_FOUND,
                "there are /livez, /readyz (with ?verbose) and /metrics here",
            ),
        }
    }

    fn exposition(&self) -> Response<Full<Bytes>> {
        const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        let mut body = String::new();
        match prometheus_client::encoding::text::encode(&mut body, &self.registry) {
            Ok(()) => typed(StatusCode::OK, OPEN_METRICS, body),
            Err(error) => {
                tracing::error!(%error, "metrics could not be written");
                answer::refusal(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "metrics could not be written; the log has the details",
                )
            }
        }
    }
}

fn text((status, body): (StatusCode, String)) -> Response<Full<Bytes>> {
    typed(status, "text/plain; charset=utf-8", body)
}

fn typed(status: StatusCode, content_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    // A probe's answer is about now.
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl<B> hyper::service::Service<Request<B>> for Admin {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        ready(Ok(self.answer(request.method(), request.uri().path(), request.uri().query())))
    }
}

impl<B> tower_service::Service<Request<B>> for Admin {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        hyper::service::Service::call(&*self, request)
    }
}
