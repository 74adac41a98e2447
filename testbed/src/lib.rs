//! A real Kubernetes control plane as plain processes: etcd, API server, controllers, scheduler, KWOK nodes and
//! Prometheus, started by one call and gone when it is dropped.
//!
//! ```no_run
//! # async fn example() -> Result<(), testbed::ClusterError> {
//! use testbed::{Cluster, Options, objects};
//!
//! let cluster = Cluster::start(Options { nodes: objects::nodes("node", 3), ..Options::default() }).await?;
//! cluster.create_pod("default", &objects::pod("web")).await?;
//! let node = cluster.bound("default", "web", std::time::Duration::from_secs(30)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! The programs are built from Go modules pinned in `testbed/go` and cached per user; nothing is downloaded beyond
//! what the Go toolchain fetches for that.

pub mod access;
pub mod audit;
pub mod binaries;
pub mod cluster;
pub mod command;
pub mod compile;
pub mod component;
pub mod control_plane;
pub mod directory;
pub mod exporter;
pub mod http;
pub mod modules;
pub mod objects;
pub mod pki;
pub mod places;
pub mod ports;
pub mod processes;
pub mod programs;
pub mod recordings;
pub mod scheduler;
#[cfg(test)]
mod scratch;
pub mod tas;
pub mod wait;
mod workshop;

pub use cluster::{Cluster, ClusterError, Options, Scheduler, Telemetry};
