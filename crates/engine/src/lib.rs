//! What a policy means, for a whole cluster, at a moment.
//!
//! Everything here is a pure function of its arguments: no clock, no network, no Kubernetes. [`advance()`]
//! turns what came in into one immutable [`View`]; [`answer()`] and [`scores()`] look names up in it.

mod advance;
mod answer;
#[cfg(feature = "fixtures")]
pub mod fixtures;
mod load;
mod memory;
mod messages;
pub mod names;
mod nodes;
pub mod plan;
pub mod policy;
pub mod quantity;
pub mod reason;
mod rows;
mod score;
mod snapshot;
pub mod time;
mod verdict;
mod view;

pub use advance::{Inputs, MAX_CLOCK_LEAD, advance};
pub use answer::{Answer, Ruling, answer, scores};
pub use load::Placement;
pub use memory::Memory;
pub use nodes::{NodeIndex, NodeIx};
pub use reason::Reason;
pub use score::{POD_COST_PARTS, SPREAD_FLOOR_PARTS};
pub use snapshot::{Batch, Column, Extent, Sample, Snapshot};
pub use verdict::{Cause, Ground, Row, Verdict, Verdicts};
pub use view::{Dropped, SnapshotId, Table, View};
