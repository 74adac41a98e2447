//! Prometheus, Thanos and whoever else answers their query API.

pub mod decode;
