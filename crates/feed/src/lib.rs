//! Brings samples, policies, nodes and pods in; calls the engine; publishes the view.

pub mod directory;
pub mod mapping;
pub mod prometheus;
