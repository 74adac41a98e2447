//! When to try again what was refused: later each time, and not before the API server said. No clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster::write::Refusal;
use tokio::time::Instant;

/// After the first failure.
const FIRST: Duration = Duration::from_secs(1);
/// At most, while it may be better later.
const LONGEST: Duration = Duration::from_mins(1);
/// At first, where nothing helps until somebody changes something.
const HOPELESS: Duration = Duration::from_secs(30);
/// At most, there.
const LONGEST_HOPELESS: Duration = Duration::from_mins(5);

/// What waits, and until when.
#[derive(Debug)]
pub(super) struct Patience<K> {
    waiting: BTreeMap<K, Wait>,
    /// Nothing at all before this: the API server said that it is busy.
    everything: Option<Instant>,
}

/// What was refused.
#[derive(Clone, Debug)]
pub(super) struct Wait {
    times: u32,
    /// Until when it is not tried.
    pub(super) until: Instant,
    /// What people must know; nothing of what the next look at the object may put right, or of a single failure.
    pub(super) why: Option<Arc<str>>,
}

impl<K> Default for Patience<K> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), everything: None }
    }
}

impl<K: Ord + Clone> Patience<K> {
    /// Whether it may be tried.
    pub(super) fn is_over(&self, key: &K, now: Instant) -> bool {
        let over = |until: &Instant| *until <= now;
        self.everything.as_ref().is_none_or(over)
            && self.waiting.get(key).is_none_or(|wait| over(&wait.until))
    }

    /// It was refused.
    pub(super) fn refused(&mut self, key: K, refusal: &Refusal, now: Instant) {
        let (first, longest) = match refusal {
            // The watch brings what is new; that takes a moment.
            Refusal::Outdated | Refusal::Gone | Refusal::Foreign(_) => (FIRST / 4, FIRST),
            Refusal::Later { after, .. } => {
                if let Some(after) = after {
                    self.everything = self.everything.max(Some(now + *after));
                }
                (FIRST, LONGEST)
            }
            Refusal::Never(_) => (HOPELESS, LONGEST_HOPELESS),
        };
        let times = self.waiting.get(&key).map_or(0, |wait| wait.times);
        let until = now + first.saturating_mul(1 << times.min(16)).min(longest);
        let lasts = times > 0 || matches!(refusal, Refusal::Never(_));
        let why = refusal.trouble().filter(|_| lasts).map(|trouble| trouble.to_string().into());
        self.waiting.insert(key, Wait { times: times.saturating_add(1), until, why });
    }

    /// What was refused of this and not done since; also where nothing may be tried at all.
    pub(super) fn wait(&self, key: &K, now: Instant) -> Option<Wait> {
        let busy = self.everything.filter(|until| *until > now);
        let wait = self.waiting.get(key).cloned();
        match (wait, busy) {
            (Some(wait), busy) => {
                Some(Wait { until: busy.map_or(wait.until, |busy| busy.max(wait.until)), ..wait })
            }
            (None, busy) => busy.map(|until| Wait { times: 0, until, why: None }),
        }
    }

    /// Whether nothing was refused.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        self.waiting.is_empty() && self.everything.is_none_or(|until| until <= now)
    }

    /// It was done, or need not be done any more.
    pub(super) fn done(&mut self, key: &K) {
        self.waiting.remove(key);
    }

    /// Forgets all for which nothing is left to do.
    pub(super) fn keep(&mut self, mut wanted: impl FnMut(&K) -> bool) {
        self.waiting.retain(|key, _| wanted(key));
    }

    /// When the first may be tried again. What might have been tried already is no reason to wake up.
    pub(super) fn next(&self, now: Instant) -> Option<Instant> {
        let until = |wait: &Wait| self.everything.map_or(wait.until, |until| until.max(wait.until));
        self.waiting.values().map(until).filter(|until| *until > now).min()
    }
}

#[cfg(test)]
mod tests {
    use cluster::{Trouble, Verb};

    use super::*;

    fn trouble() -> Trouble {
        Trouble::Refused { verb: Verb::Patch, resource: "nodes".to_owned(), said: "500".to_owned() }
    }

    fn waits(refusal: &Refusal, times: usize) -> Vec<u64> {
        let (mut patience, mut now, mut waited) = (Patience::default(), Instant::now(), Vec::new());
        for _ in 0..times {
            assert!(patience.is_over(&"n1", now));
            patience.refused("n1", refusal, now);
            let next = patience.next(now).unwrap();
            assert!(!patience.is_over(&"n1", now) && patience.is_over(&"n1", next));
            waited.push(u64::try_from((next - now).as_millis()).unwrap());
            now = next;
        }
        waited
    }

    #[test]
    fn it_waits_longer_each_time_up_to_an_end() {
        let later = Refusal::Later { after: None, trouble: trouble() };
        assert_eq!(waits(&later, 8), [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
        assert_eq!(waits(&Refusal::Never(trouble()), 5), [30_000, 60_000, 120_000, 240_000, 300_000]);
        assert_eq!(waits(&Refusal::Outdated, 4), [250, 500, 1000, 1000]);
    }

    #[test]
    fn an_api_server_that_is_busy_is_left_alone_by_all() {
        let (mut patience, now) = (Patience::default(), Instant::now());
        let busy = Refusal::Later { after: Some(Duration::from_secs(7)), trouble: trouble() };
        patience.refused("n1", &busy, now);
        assert!(!patience.is_over(&"n2", now + Duration::from_secs(6)));
        assert!(patience.is_over(&"n2", now + Duration::from_secs(7)));
        assert_eq!(patience.next(now), Some(now + Duration::from_secs(7)));
    }

    #[test]
    fn what_is_over_wakes_nobody() {
        let (mut patience, now) = (Patience::default(), Instant::now());
        patience.refused("n1", &Refusal::Outdated, now);
        assert_eq!(patience.next(now + FIRST), None);
    }

    #[test]
    fn people_are_told_what_lasts() {
        let (mut patience, now) = (Patience::default(), Instant::now());
        let mut why = |refusal: &Refusal| {
            patience.refused("n1", refusal, now);
            patience.wait(&"n1", now).unwrap().why
        };
        let told: Option<Arc<str>> = Some(trouble().to_string().into());
        let later = Refusal::Later { after: None, trouble: trouble() };
        assert_eq!([why(&later), why(&later), why(&Refusal::Outdated)], [None, told.clone(), None]);
        assert_eq!(why(&Refusal::Never(trouble())), told);
    }

    #[test]
    fn what_is_done_or_not_wanted_any_more_is_forgotten() {
        let (mut patience, now) = (Patience::default(), Instant::now());
        for node in ["n1", "n2", "n3"] {
            patience.refused(node, &Refusal::Never(trouble()), now);
        }
        patience.done(&"n1");
        patience.keep(|node| *node == "n3");
        assert!(
            patience.is_over(&"n1", now) && patience.is_over(&"n2", now) && !patience.is_over(&"n3", now)
        );
    }
}
