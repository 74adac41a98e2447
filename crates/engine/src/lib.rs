//! What a policy means, for a whole cluster, at a moment.
//!
//! Everything here is a pure function of its arguments: no clock, no network, no Kubernetes.

pub mod names;
pub mod policy;
pub mod quantity;
pub mod time;
