//! Every Kubernetes object and wire message we speak, and what a `TASPolicy` means to the engine.
//!
//! Types and pure functions only: nothing here talks to anybody.

mod crd;
pub mod keys;
pub mod number;
pub mod policy;

pub use crd::{crd, crd_yaml};
