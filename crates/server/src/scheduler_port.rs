//! The port that kube-scheduler calls: reads bodies within their limits, and lets the extender answer.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use chassis::BodyLimits;
use chassis::body::Room;
use engine::time::Timestamp;
use extender::Extender;
use http::{Request, Response};
use http_body::Body;
use http_body_util::Full;
use hyper::service::Service;

/// Tells the time; the demo's is virtual.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The extender behind HTTP, for [`chassis::serve()`].
#[derive(Clone)]
pub struct SchedulerPort {
    extender: Arc<Extender>,
    limits: BodyLimits,
    room: Arc<Room>,
    clock: Clock,
}

impl SchedulerPort {
    /// Answers with `extender` at the moments that `clock` tells; all bodies together stay within `room`.
    pub fn new(extender: Arc<Extender>, limits: BodyLimits, room: Arc<Room>, clock: Clock) -> Self {
        Self { extender, limits, room, clock }
    }

    async fn answer<B>(self, request: Request<B>) -> Response<Full<Bytes>>
    where
        B: Body<Data = Bytes>,
        B::Error: fmt::Display,
    {
        let (head, body) = request.into_parts();
        let route = match self.extender.admit(&head) {
            Ok(route) => route,
            Err(refusal) => return refusal.into(),
        };
        let body = match chassis::body::read(body, self.limits, &self.room).await {
            Ok(body) => body,
            Err(refusal) => {
                self.extender.counters.unread_body();
                return refusal.response();
            }
        };
        let started = Instant::now();
        let reply = self.extender.answer(&route, &body, (self.clock)());
        self.extender.counters.took(route.verb, started.elapsed());
        reply.into()
    }
}

impl<B> Service<Request<B>> for SchedulerPort
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: fmt::Display,
{
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<B>) -> Self::Future {
        let port = self.clone();
        Box::pin(async { Ok(port.answer(request).await) })
    }
}
