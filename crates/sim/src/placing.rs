//! How a pod finds its node: the scheduler's own filter and score by requests, and the policy's answer
//! beside them.

use std::convert::Infallible;
use std::sync::Arc;

use api::scheduler::{SCORE_SCALE, TELEMETRY_WEIGHT, TOP_SCORE};
use engine::names::PolicyKey;
use engine::time::Timestamp;
use engine::{Ruling, View, answer, scores};

/// What is asked for one pod. Everything a request to an extender needs; `view` is what it answers from.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// The newest view.
    pub view: &'a Arc<View>,
    /// The pod's policy.
    pub policy: PolicyKey<'a>,
    /// The pod's name.
    pub pod: &'a str,
    /// The nodes that the scheduler itself would take.
    pub nodes: &'a [&'a str],
    /// The virtual time.
    pub now: Timestamp,
}

/// A node that may take the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Which of the nodes asked about, by its place.
    pub place: usize,
    /// How good it is, from 0 to [`api::scheduler::TOP_SCORE`].
    pub score: u32,
}

/// Answers in this process: the same two calls an extender makes for `filter` and `prioritize`.
pub fn by_engine(ask: &Ask<'_>) -> Result<Vec<Candidate>, Infallible> {
    let answer = answer(ask.view, ask.policy, ask.nodes, ask.now);
    let places: Vec<usize> = answer
        .rulings
        .iter()
        .enumerate()
        .filter(|(_, ruling)| **ruling == Ruling::Pass)
        .map(|(place, _)| place)
        .collect();
    // The scheduler asks for scores of the nodes that passed only.
    let names: Vec<&str> = places.iter().map(|&place| ask.nodes[place]).collect();
    let scores = scores(ask.view, ask.policy, &names, TOP_SCORE, ask.now);
    let score = |i: usize| scores.as_ref().and_then(|scores| scores.get(i)).copied().unwrap_or(0);
    Ok(places.into_iter().enumerate().map(|(i, place)| Candidate { place, score: score(i) }).collect())
}

/// What a node offers and what its pods have asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) cpu_m: u32,
    pub(crate) memory_mi: u32,
    pub(crate) cpu_asked_m: u32,
    pub(crate) memory_asked_mi: u32,
}

impl Room {
    /// Whether the pod's requests fit.
    pub(crate) fn fits(&self, cpu_m: u32, memory_mi: u32) -> bool {
        self.cpu_asked_m + cpu_m <= self.cpu_m && self.memory_asked_mi + memory_mi <= self.memory_mi
    }

    /// The default scheduler's LeastAllocated score, 0 to 100: the mean share left free with the pod on it.
    pub(crate) fn least_allocated(&self, cpu_m: u32, memory_mi: u32) -> u32 {
        let free = |offered: u32, asked: u32| (offered.saturating_sub(asked) * 100) / offered.max(1);
        let cpu = free(self.cpu_m, self.cpu_asked_m + cpu_m);
        let memory = free(self.memory_mi, self.memory_asked_mi + memory_mi);
        u32::midpoint(cpu, memory)
    }
}

/// The scheduler's total for a node.
pub(crate) fn total(least_allocated: u32, telemetry: u32) -> u32 {
    least_allocated + telemetry.min(TOP_SCORE) * SCORE_SCALE * TELEMETRY_WEIGHT
}

#[cfg(test)]
mod tests {
    use super::{Room, TOP_SCORE, total};

    const HALF_FULL: Room = Room { cpu_m: 4000, memory_mi: 8192, cpu_asked_m: 1500, memory_asked_mi: 0 };

    #[test]
    fn least_allocated_is_the_mean_of_what_stays_free() {
        assert_eq!(HALF_FULL.least_allocated(500, 4096), 50);
        assert_eq!(HALF_FULL.least_allocated(2500, 0), 50);
    }

    #[test]
    fn a_pod_fits_up_to_the_last_thousandth() {
        assert!(HALF_FULL.fits(2500, 8192));
        assert!(!HALF_FULL.fits(2501, 0));
        assert!(!HALF_FULL.fits(0, 8193));
    }

    #[test]
    fn telemetry_weighs_as_much_as_all_default_plugins_together() {
        assert_eq!(total(0, TOP_SCORE), 1200);
    }
}
