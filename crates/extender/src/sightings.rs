//! A bounded tally of names seen in requests: how often, and when last. Reading and counting take no lock;
//! only a name never seen before copies the table.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use engine::time::Timestamp;

/// How often and when last a name was seen.
#[derive(Debug, Default)]
pub struct Sighting {
    count: AtomicU64,
    last_millis: AtomicI64,
}

impl Sighting {
    fn mark(&self, now: Timestamp) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.last_millis.fetch_max(now.millis(), Ordering::Relaxed);
    }

    /// How often.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// When last.
    pub fn last(&self) -> Timestamp {
        Timestamp::from_millis(self.last_millis.load(Ordering::Relaxed))
    }
}

type Tally = BTreeMap<Box<str>, Arc<Sighting>>;

/// Names and their sightings, up to a limit.
#[derive(Debug)]
pub struct Sightings {
    limit: usize,
    named: ArcSwap<Tally>,
    /// Sightings of names that came after the table was full.
    pub others: Sighting,
}

impl Sightings {
    /// An empty tally of at most so many names.
    pub fn new(limit: usize) -> Self {
        Self { limit, named: ArcSwap::default(), others: Sighting::default() }
    }

    /// Counts a sighting.
    pub fn saw(&self, name: &str, now: Timestamp) {
        let seen = self.named.load();
        if let Some(sighting) = seen.get(name) {
            return sighting.mark(now);
        }
        if seen.len() >= self.limit {
            return self.others.mark(now);
        }
        let fresh = Arc::new(Sighting::default());
        self.named.rcu(|tally| {
            let mut tally = Tally::clone(tally);
            if tally.len() < self.limit {
                tally.entry(name.into()).or_insert_with(|| Arc::clone(&fresh));
            }
            tally
        });
        self.named.load().get(name).map_or(&self.others, |sighting| &**sighting).mark(now);
    }

    /// All names seen, in order.
    pub fn all(&self) -> Vec<(Box<str>, Arc<Sighting>)> {
        self.named.load().iter().map(|(name, sighting)| (name.clone(), Arc::clone(sighting))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Sightings, Timestamp};

    #[test]
    fn names_past_the_limit_count_as_one() {
        let sightings = Sightings::new(2);
        for (secs, name) in [(1, "a"), (2, "b"), (3, "c"), (4, "a"), (2, "a")] {
            sightings.saw(name, Timestamp::from_secs(secs));
        }
        let seen: Vec<_> =
            sightings.all().iter().map(|(name, s)| (name.to_string(), s.count(), s.last())).collect();
        assert_eq!(
            seen,
            [("a".to_owned(), 3, Timestamp::from_secs(4)), ("b".to_owned(), 1, Timestamp::from_secs(2))]
        );
        assert_eq!((sightings.others.count(), sightings.others.last()), (1, Timestamp::from_secs(3)));
    }

    #[test]
    fn threads_that_meet_a_name_at_once_lose_no_count() {
        let sightings = Sightings::new(64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..64).for_each(|n| sightings.saw(&n.to_string(), Timestamp::from_secs(n))));
            }
        });
        assert!(sightings.all().iter().all(|(_, sighting)| sighting.count() == 4));
        assert_eq!((sightings.all().len(), sightings.others.count()), (64, 0));
    }
}
