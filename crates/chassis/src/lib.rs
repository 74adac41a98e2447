//! What any process of ours needs: arguments, logs, accept loop, TLS with reload, limits, admin port, shutdown.
//!
//! It knows neither policies nor Kubernetes. Without features it is what the node agent needs: [`serve()`] over
//! plain HTTP/1.1, [`body`], [`Limits`], [`Counters`] and [`shutdown`].

#[cfg(feature = "admin")]
pub mod admin;
pub mod answer;
#[cfg(feature = "args")]
pub mod args;
pub mod body;
mod counters;
pub mod duration;
pub mod exit;
mod limits;
#[cfg(feature = "logs")]
pub mod logs;
pub mod plain;
pub mod serve;
pub mod shutdown;
#[cfg(feature = "tls")]
pub mod tls;

pub use counters::{Counter, Counters, HandshakeFailure};
pub use exit::Exit;
pub use limits::{BodyLimits, Limits};
pub use serve::{Drained, Listener, Peer, serve};
pub use shutdown::{Phase, Shutdown};
