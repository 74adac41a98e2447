//! Telemetry of one node: power, temperature, pressure, CPU, memory, network, disks and pods, read from the
//! host's `/proc` and `/sys` and handed to Prometheus.
//!
//! `collectors` read, one source a file; `page` writes; `station` runs them so that one that hangs hurts nobody.

pub mod answer;
pub mod args;
pub mod collectors;
pub mod energy;
pub mod explain;
pub mod exposition;
pub mod family;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod host;
pub mod instruments;
pub mod ledger;
pub mod moment;
pub mod negotiate;
pub mod page;
pub mod process;
pub mod reference;
pub mod run;
pub mod scan;
pub mod station;
pub mod trouble;
pub mod users;
pub mod web_config;
pub mod window;
