//! End-to-end tests: each starts a control plane of its own and leaves nothing behind.

mod access;
mod affinity;
mod agent;
mod aggregation;
mod certificates;
mod control_plane;
mod crowd;
mod documents;
mod enforcement;
mod leftovers;
mod notices;
mod outages;
mod placement;
mod policies;
mod recorded;
mod replicas;
mod succession;
mod telemetry;
mod upstream;
mod waiting;

/// The program under test.
const TAS: &str = env!("CARGO_BIN_EXE_tas-e2e");
