//! Brings samples, policies, nodes and pods in; calls the engine; publishes the view.

pub mod config;
pub mod directory;
pub mod mapping;
pub mod prometheus;
pub mod promql;
pub mod source;

pub use prometheus::Prometheus;
pub use source::MetricSource;
