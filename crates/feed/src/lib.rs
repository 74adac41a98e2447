//! Brings samples, policies, nodes and pods in; calls the engine; publishes the view.
//!
//! News from the watches ([`world`]) and samples from a [`MetricSource`] meet in [`refresh`], which publishes one
//! view after the other and, beside it, the facts about how it came to be ([`Health`]).

pub mod config;
pub mod custom;
pub mod demand;
mod desk;
pub mod directory;
pub mod health;
pub mod mapping;
pub mod prometheus;
pub mod promql;
pub mod refresh;
pub mod replay;
pub mod source;
pub mod watches;
pub mod world;

pub use custom::CustomMetrics;
pub use health::Health;
pub use prometheus::Prometheus;
pub use refresh::{Published, Refresher, Settings, run};
pub use replay::Replay;
pub use source::MetricSource;
