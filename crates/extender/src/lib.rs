//! Answers kube-scheduler: filter, prioritize and preempt, from one [`View`] at one moment.
//!
//! Everything here is synchronous and takes what it needs as arguments. Who reads the body off the socket
//! applies the limits and deadlines; [`Extender::admit`] tells before that whether the body is worth
//! reading. On the way to an answer there is no lock, no I/O and no rule evaluation.

mod answer;
mod counters;
mod decode;
mod names;
mod pace;
mod reply;
mod route;
mod sightings;
mod strays;
mod tallies;
mod write;

use arc_swap::ArcSwap;
use engine::View;
use engine::time::Timestamp;
use std::sync::Arc;

pub use counters::{Counters, Counts, DURATION_BUCKETS_MICROS, Durations};
pub use decode::{Args, DecodeError, PodRef, PreemptArgs};
pub use names::Names;
pub use reply::Reply;
pub use route::{Route, Verb};
pub use sightings::{Sighting, Sightings};
pub use strays::{Stray, Strays};
pub use tallies::{Tallies, Tally};

/// How many different `/via/…` tokens are told apart; the rest count as one.
pub const MAX_SIGHTINGS: usize = 256;
/// How many pods with an unknown policy are kept until somebody tells of them.
pub const MAX_STRAYS: usize = 256;
/// How many policies are counted one by one; the rest count as one.
pub const MAX_TALLIES: usize = 1000;

/// The scheduler's highest nominal extender score.
pub const DEFAULT_SCORE_TOP: u32 = api::scheduler::TOP_SCORE;

/// What the routes share.
#[derive(Debug)]
pub struct Extender {
    view: Arc<ArcSwap<View>>,
    score_top: u32,
    scores: write::Scores,
    /// What happened so far.
    pub counters: Counters,
    /// Which wired-up schedulers called, by the token in their URL.
    pub via: Sightings,
    /// Pods that name a policy nobody knows.
    pub strays: Strays,
    /// What each policy decided.
    pub tallies: Tallies,
    pace: pace::Pace,
}

impl Extender {
    /// Answers from whatever view is the newest when a request comes.
    pub fn new(view: Arc<ArcSwap<View>>, score_top: u32) -> Self {
        Self {
            view,
            score_top,
            scores: write::Scores::up_to(score_top),
            counters: Counters::default(),
            via: Sightings::new(MAX_SIGHTINGS),
            strays: Strays::new(MAX_STRAYS),
            tallies: Tallies::new(MAX_TALLIES),
            pace: pace::Pace::default(),
        }
    }

    /// Whether the body of such a request is worth reading: the route, or the refusal to send.
    pub fn admit(&self, head: &http::request::Parts) -> Result<Route, Reply> {
        let admitted = route::admit(head);
        if admitted.is_err() {
            self.counters.refused_head();
        }
        admitted
    }

    /// The answer to an admitted request.
    pub fn answer(&self, route: &Route, body: &[u8], now: Timestamp) -> Reply {
        if let Some(via) = &route.via {
            self.via.saw(via, now);
        }
        // The guard keeps this view alive; the refresher may publish the next one meanwhile.
        let view = self.view.load();
        let reply = match route.verb {
            Verb::Filter => answer::filter(self, &view, body, now),
            Verb::Prioritize => answer::prioritize(self, &view, body, now),
            Verb::Preempt => answer::preempt(self, &view, body, now),
        };
        reply.unwrap_or_else(|error| {
            self.counters.undecodable();
            Reply::error(http::StatusCode::BAD_REQUEST, &error.to_string())
        })
    }
}
