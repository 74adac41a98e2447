//! Our way of talking to Kubernetes: a client with deadlines, lean watches, events, a lease with a fence, the
//! definition of our policies, and the list of rights that all of it needs.

mod client;
pub mod definition;
pub mod events;
pub mod lease;
pub mod lite;
pub mod rights;
mod trouble;
pub mod watch;
pub mod write;

pub use kube::Client;

pub use client::{ClientError, Deadlines, Kubeconfig, client};
pub use trouble::{Trouble, Verb};
