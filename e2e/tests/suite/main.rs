//! End-to-end tests: each starts a control plane of its own and leaves nothing behind.

mod access;
mod agent;
mod aggregation;
mod control_plane;
mod leftovers;
mod notices;
mod placement;
mod policies;
mod telemetry;
