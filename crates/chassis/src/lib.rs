//! What any process of ours needs: arguments, logs, accept loop, TLS with reload, limits, admin port, shutdown.
//!
//! It knows neither policies nor Kubernetes. Without features it is what the node agent needs: [`serve()`] over
//! plain HTTP/1.1, [`body`], [`Limits`], [`Counters`] and [`shutdown`].

pub mod answer;
pub mod body;
mod counters;
mod limits;
pub mod serve;
pub mod shutdown;
#[cfg(feature = "tls")]
pub mod tls;

pub use counters::{Counter, Counters, HandshakeFailure};
pub use limits::{BodyLimits, Limits};
pub use serve::{Listener, Peer, serve};
pub use shutdown::{Phase, Shutdown};
