//! Every Kubernetes object and wire message we speak, and what a `TASPolicy` means to the engine.
//!
//! Types and pure functions only: nothing here talks to anybody.

mod compile;
mod crd;
pub mod duration;
pub mod keys;
pub mod number;
pub mod path;
pub mod policy;
pub mod problem;

pub use compile::{Compiled, Defaults, compile};
pub use crd::{crd, crd_yaml};
