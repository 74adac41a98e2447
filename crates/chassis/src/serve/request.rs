//! One request on its way through the service: counted, with its peer attached, and its panics contained.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, Version, header};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;

use super::Peer;
use super::pulse::Pulse;
use crate::answer;
use crate::counters::Counters;
use crate::shutdown::{Phase, Shutdown};

/// The service of one connection.
pub(super) struct Attended<S> {
    pub(super) inner: S,
    pub(super) peer: Arc<Peer>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) counters: Arc<Counters>,
    pub(super) shutdown: Shutdown,
}

impl<S, B> Service<Request<Incoming>> for Attended<S>
where
    S: Service<Request<Incoming>, Response = Response<B>>,
    B: Body<Data = Bytes>,
{
    type Response = Response<AttendedBody<B>>;
    type Error = S::Error;
    type Future = Answering<S::Future>;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        // Counted before anything can fail: a request that panics must still show up.
        self.counters.requests.increment();
        self.pulse.request_started();
        let in_flight = InFlight(Arc::clone(&self.pulse));
        let version = request.version();
        request.extensions_mut().insert(Arc::clone(&self.peer));
        let called = catch_unwind(AssertUnwindSafe(|| self.inner.call(request)));
        Answering {
            inner: called.ok(),
            in_flight: Some(in_flight),
            version,
            counters: Arc::clone(&self.counters),
            shutdown: self.shutdown.clone(),
        }
    }
}

/// Ends a request in the books when its answer is complete or its caller is gone.
struct InFlight(Arc<Pulse>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.request_finished();
    }
}

pin_project! {
    /// The future of [`Attended`].
    pub(super) struct Answering<F> {
        #[pin]
        inner: Option<F>,
        in_flight: Option<InFlight>,
        version: Version,
        counters: Arc<Counters>,
        shutdown: Shutdown,
    }
}

impl<F, B, E> Future for Answering<F>
where
    F: Future<Output = Result<Response<B>, E>>,
    B: Body<Data = Bytes>,
{
    type Output = Result<Response<AttendedBody<B>>, E>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let answered = match this.inner.as_mut().as_pin_mut() {
            Some(inner) => catch_unwind(AssertUnwindSafe(|| inner.poll(cx))).ok(),
            None => None,
        };
        let response = if let Some(poll) = answered {
            ready!(poll)?.map(Either::Left)
        } else {
            this.counters.panics.increment();
            let reason = "the server met a defect of its own while answering; its log has the details";
            answer::refusal(StatusCode::INTERNAL_SERVER_ERROR, reason).map(Either::Right)
        };
        let in_flight = this.in_flight.take();
        let mut response = response.map(|inner| AttendedBody { inner, in_flight });
        if this.shutdown.phase() > Phase::Serving && *this.version < Version::HTTP_2 {
            // The caller's next request should go to somebody who stays.
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Poll::Ready(Ok(response))
    }
}

pin_project! {
    /// An answer's body, which keeps its request in flight until it is sent.
    pub(super) struct AttendedBody<B> {
        #[pin]
        inner: Either<B, Full<Bytes>>,
        in_flight: Option<InFlight>,
    }
}

impl<B> Body for AttendedBody<B>
where
    B: Body<Data = Bytes>,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.project().inner.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
