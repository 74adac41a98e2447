//! A cluster in virtual time around the real engine: machines that heat up, sensors that lag and die, pods
//! that come and go. Everything follows from one seed.
//!
//! A [`Scenario`] is data, a [`Trial`] plays it twice side by side: placing by requests alone, and placing
//! with a policy. Who answers for the policy is a closure ([`Ask`] in, [`Candidate`]s out): the real extender
//! behind a socket in the demo, [`by_engine`] where no socket is wanted.

mod chance;
mod cluster;
mod happening;
mod machine;
mod placing;
mod scenario;
mod signal;
mod story;
mod trial;

pub use cluster::{Cluster, Reading, Scheduler, Tally};
pub use happening::{Decision, Happening, What};
pub use machine::{LINE_MW, Machine};
pub use placing::{Ask, Candidate, by_engine};
pub use scenario::{InFlight, Incident, Pod, Scenario, Trouble};
pub use signal::{Kind, Signal, Signals};
pub use story::{MAX_NODES, chapter_s};
pub use trial::Trial;
