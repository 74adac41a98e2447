//! Pods that name a policy nobody knows, kept until somebody tells them. Seeing one takes no lock; only one
//! that was not seen yet copies the set.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

/// Longest name that Kubernetes gives an object; a longer one is no pod of any cluster.
const MAX_NAME: usize = 253;

/// A pod and the policy it looks for in vain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stray {
    /// Of both.
    pub namespace: Box<str>,
    /// What the pod names.
    pub policy: Box<str>,
    /// The pod.
    pub pod: Box<str>,
    /// The pod's UID; empty if the scheduler did not say.
    pub uid: Box<str>,
}

/// Strays seen since they were last taken, up to a limit.
#[derive(Debug)]
pub struct Strays {
    limit: usize,
    seen: ArcSwap<BTreeSet<Stray>>,
    left_out: AtomicU64,
}

impl Strays {
    /// None yet, and never more than so many.
    pub fn new(limit: usize) -> Self {
        Self { limit, seen: ArcSwap::default(), left_out: AtomicU64::new(0) }
    }

    pub(crate) fn saw(&self, [namespace, policy, pod, uid]: [&str; 4]) {
        let too_long = [namespace, policy, pod, uid].iter().any(|name| name.len() > MAX_NAME);
        let stray =
            || Stray { namespace: namespace.into(), policy: policy.into(), pod: pod.into(), uid: uid.into() };
        if too_long || self.seen.load().len() >= self.limit {
            self.left_out.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let stray = stray();
        if self.seen.load().contains(&stray) {
            return;
        }
        self.seen.rcu(|seen| {
            let mut seen = BTreeSet::clone(seen);
            if seen.len() < self.limit {
                seen.insert(stray.clone());
            }
            seen
        });
    }

    /// All that were seen since the last call, and how many sightings found no room.
    pub fn take(&self) -> (BTreeSet<Stray>, u64) {
        let seen = self.seen.swap(std::sync::Arc::default());
        (BTreeSet::clone(&seen), self.left_out.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strays_are_kept_once_up_to_the_limit_and_handed_over() {
        let strays = Strays::new(2);
        for pod in ["a", "b", "a", "c"] {
            strays.saw(["shop", "power", pod, "u"]);
        }
        let (taken, left_out) = strays.take();
        assert_eq!(taken.iter().map(|stray| &*stray.pod).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(left_out, 2, "a full set looks no further");
        assert_eq!(strays.take(), (BTreeSet::new(), 0));
    }

    #[test]
    fn a_name_that_no_cluster_has_takes_no_room() {
        let strays = Strays::new(2);
        strays.saw(["shop", "power", &"p".repeat(254), "u"]);
        assert_eq!(strays.take(), (BTreeSet::new(), 1));
    }
}
