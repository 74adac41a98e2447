//! `tas serve`: wires the feed, the extender and their ports into one process.
//!
//! [`args`] turns what was typed into what to do, [`run`] does it, [`metrics`] tells how it goes.

pub mod args;
pub mod controller;
mod enforcement;
pub mod loopback;
pub mod metrics;
mod notices;
mod run;
pub mod scheduler_port;

pub use run::run;
