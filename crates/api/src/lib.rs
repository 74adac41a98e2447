//! Every Kubernetes object and wire message we speak, and what a `TASPolicy` means to the engine.
//!
//! Types and pure functions only: nothing here talks to anybody.

mod compile;
mod crd;
pub mod duration;
mod inspect;
pub mod keys;
pub mod manifest;
pub mod marks;
pub mod number;
pub mod path;
pub mod policy;
pub mod problem;
pub mod scheduler;
mod shape;
pub mod status;

pub use compile::{Compiled, Defaults, compile};
pub use crd::{crd, crd_yaml};
pub use inspect::{Inspected, Inspection, conflicts, inspect};
