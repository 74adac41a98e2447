//! What each policy was asked and decided, counted without a lock; only a policy's first request copies the table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use engine::View;
use engine::names::PolicyRef;

use crate::counters::add;
use crate::route::Verb;

/// Counts of one policy.
#[derive(Debug, Default)]
pub struct Tally {
    requests: [AtomicU64; 3],
    refused: AtomicU64,
    shadowed: AtomicU64,
}

impl Tally {
    /// Requests about pods that name it.
    pub fn requests(&self, verb: Verb) -> u64 {
        self.requests[verb as usize].load(Ordering::Relaxed)
    }

    /// Nodes it refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Nodes it would have refused, were it not in shadow mode.
    pub fn shadowed(&self) -> u64 {
        self.shadowed.load(Ordering::Relaxed)
    }
}

type Table = Vec<(PolicyRef, Arc<Tally>)>;

/// A tally for each policy, up to a limit; those past it share one.
#[derive(Debug)]
pub struct Tallies {
    limit: usize,
    named: ArcSwap<Table>,
    /// Of all policies that found no room.
    pub others: Arc<Tally>,
}

impl Tallies {
    /// Nothing counted yet.
    pub fn new(limit: usize) -> Self {
        Self { limit, named: ArcSwap::default(), others: Arc::default() }
    }

    fn of(&self, policy: &PolicyRef) -> Arc<Tally> {
        let find = |table: &Table| table.binary_search_by(|(name, _)| name.key().cmp(&policy.key()));
        let known = self.named.load();
        match find(&known) {
            Ok(place) => return Arc::clone(&known[place].1),
            Err(_) if known.len() >= self.limit => return Arc::clone(&self.others),
            Err(_) => {}
        }
        let fresh = Arc::<Tally>::default();
        self.named.rcu(|table| {
            let mut table = Table::clone(table);
            if let Err(place) = find(&table)
                && table.len() < self.limit
            {
                table.insert(place, (policy.clone(), Arc::clone(&fresh)));
            }
            table
        });
        let known = self.named.load();
        find(&known).map_or_else(|_| Arc::clone(&self.others), |place| Arc::clone(&known[place].1))
    }

    pub(crate) fn asked(&self, policy: &PolicyRef, verb: Verb) {
        add(&self.of(policy).requests[verb as usize], 1);
    }

    pub(crate) fn decided(&self, policy: &PolicyRef, refused: usize, shadowed: usize) {
        if refused + shadowed > 0 {
            let tally = self.of(policy);
            add(&tally.refused, refused);
            add(&tally.shadowed, shadowed);
        }
    }

    /// All tallies, in the order of the policies' names.
    pub fn all(&self) -> Arc<Vec<(PolicyRef, Arc<Tally>)>> {
        self.named.load_full()
    }

    /// Makes room: forgets policies that are gone.
    pub fn forget_gone(&self, view: &View) {
        let gone = |(policy, _): &(PolicyRef, Arc<Tally>)| view.table(policy.key()).is_none();
        if self.named.load().iter().any(gone) {
            self.named.rcu(|table| table.iter().filter(|row| !gone(row)).cloned().collect::<Table>());
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::fixtures::{Scene, at, policy};

    use super::*;

    fn named(names: &[&str]) -> Vec<PolicyRef> {
        names.iter().map(|name| policy(name).name).collect()
    }

    #[test]
    fn each_policy_is_counted_for_itself_and_those_past_the_limit_together() {
        let tallies = Tallies::new(2);
        for policy in named(&["b", "a", "c", "b"]) {
            tallies.asked(&policy, Verb::Filter);
            tallies.decided(&policy, 3, 1);
        }
        let all = tallies.all();
        let counted: Vec<_> = all
            .iter()
            .map(|(name, tally)| (name.name(), tally.requests(Verb::Filter), tally.refused()))
            .collect();
        assert_eq!(counted, [("a", 1, 3), ("b", 2, 6)]);
        assert_eq!((tallies.others.requests(Verb::Filter), tallies.others.shadowed()), (1, 1));
    }

    #[test]
    fn policies_that_are_gone_make_room() {
        let tallies = Tallies::new(1);
        let [gone, new] = &named(&["gone", "new"])[..] else { unreachable!("two names") };
        tallies.asked(gone, Verb::Filter);
        let mut scene = Scene::new(&["n"], [policy("new")]);
        scene.advance(at(0));
        tallies.forget_gone(&scene.view);
        tallies.asked(new, Verb::Filter);
        assert_eq!(tallies.all().iter().map(|(name, _)| name.name()).collect::<Vec<_>>(), ["new"]);
    }
}
