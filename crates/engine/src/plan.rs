//! What should change on the cluster, decided once per pass for all nodes and policies. [`plan()`] is a pure function;
//! whoever leads carries the [`Plan`] out.
//!
//! `survey` looks at policies one by one, `slots` at what they may ask for, `node` at what one node carries and should
//! carry. Laws: what is carried out is not planned again; nothing is ever added on what nobody knows; what somebody
//! else wrote is never touched.

mod change;
mod ledger;
mod marks;
mod node;
mod observed;
mod outcome;
mod rate;
mod slots;
mod survey;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use change::{Act, Deed, Kick, NodeChange, Plan, StatusChange};
pub use ledger::Ledger;
pub use marks::{LabelKey, MarkKey, NodeLabel, NodeMarks, Owner, SeenLabel, Taint, VIOLATING};
pub use observed::{
    DEFAULT_UNKNOWN_HOLD, Limits, Namespaces, Observed, ObservedPolicy, Rate, Refused, Settings,
};
pub use outcome::{Asks, Held, HeldBy, MAX_LISTED_NODES, Outcome, ViolatingNode};

use crate::names::{NodeName, PolicyRef};
use crate::nodes::NodeIx;
use crate::time::Timestamp;
use crate::view::View;
use ledger::NodeRecord;
use node::{Desk, Draft};
use slots::Slots;
use survey::{Node, Subject, Survey};

/// What should change, and what to remember until the next call.
///
/// The view must be of a feed that has seen everything once; until then there is nothing to decide by.
pub fn plan(view: &View, observed: &Observed, ledger: Ledger, now: Timestamp) -> (Plan, Ledger) {
    let mut ledger = ledger.renumbered(&view.nodes);
    let nodes = Node::all(view, observed);
    let Survey { mut subjects, recovered } = Survey::of(view, observed, &mut ledger, &nodes, now);
    // What is left is of policies that are gone; one that comes back by the same name is another.
    ledger.policies.clear();
    share(&mut subjects);

    let slots = Slots::of(&subjects);
    let mut pass = Pass {
        observed,
        recovered,
        now,
        plan: Plan::default(),
        kicks: 0,
        held: vec![Held::default(); subjects.len()].into(),
        foreign: BTreeMap::new(),
        unwritable: BTreeMap::new(),
    };
    let mut records = std::mem::take(&mut ledger.nodes);
    let mut draft = Draft::default();
    {
        let hold = observed.settings.unknown_hold;
        let desk = Desk { slots: &slots, subjects: &subjects, hold, now };
        for node in &nodes {
            let mut record = records.remove(node.name).unwrap_or_default();
            desk.look(node, &record, &mut draft);
            pass.node(node, &desk, &mut draft, &mut record, &mut ledger);
            if !record.is_empty(now) {
                ledger.nodes.insert(node.name.clone(), record);
            }
        }
    }
    drop(slots);
    for (subject, held) in subjects.iter_mut().zip(&pass.held) {
        subject.outcome.held.add_all(held);
    }
    for (place, node) in std::mem::take(&mut pass.foreign) {
        subjects[place].outcome.foreign = Some(node);
    }
    for (place, refusal) in std::mem::take(&mut pass.unwritable) {
        subjects[place].outcome.unwritable = Some(refusal);
    }
    pass.statuses(subjects, &mut ledger);
    (pass.plan, ledger)
}

/// Notes which policies write the same keys.
fn share(subjects: &mut [Subject<'_>]) {
    let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, subject) in subjects.iter().enumerate() {
        let asks = subject.outcome.asks;
        if (asks.labels && subject.labels) || (asks.taints && subject.taints) {
            by_name.entry(subject.policy.name()).or_default().push(place);
        }
    }
    let shared: Vec<Vec<usize>> = by_name.into_values().filter(|places| places.len() > 1).collect();
    for places in shared {
        let namespaces: Vec<Arc<str>> =
            places.iter().map(|&place| Arc::from(subjects[place].policy.namespace())).collect();
        for (own, &place) in places.iter().enumerate() {
            let others = namespaces.iter().enumerate().filter(|(other, _)| *other != own);
            subjects[place].outcome.shares = others.map(|(_, namespace)| Arc::clone(namespace)).collect();
        }
    }
}

/// One pass over the nodes.
struct Pass<'a> {
    observed: &'a Observed,
    recovered: BTreeMap<NodeIx, &'a PolicyRef>,
    now: Timestamp,
    plan: Plan,
    kicks: usize,
    /// By policy, what is held back on nodes.
    held: Box<[Held]>,
    /// By policy, the first node whose label belongs to somebody else.
    foreign: BTreeMap<usize, NodeName>,
    /// By policy, the first node that the API server does not let us write on.
    unwritable: BTreeMap<usize, (NodeName, Arc<str>)>,
}

impl Pass<'_> {
    /// Writes the draft into the plan, unless something holds it back.
    fn node<'d>(
        &mut self,
        node: &Node<'d>,
        desk: &Desk<'d, '_>,
        draft: &mut Draft<'d>,
        record: &mut NodeRecord,
        ledger: &mut Ledger,
    ) {
        let (now, settings) = (self.now, &self.observed.settings);
        let limits = &settings.limits;
        self.wake_at(draft.release);
        for &(cause, policy) in &draft.held {
            if let (HeldBy::ForeignLabel, Some(policy)) = (cause, policy) {
                self.foreign.entry(policy).or_insert_with(|| node.name.clone());
            }
            self.hold(cause, policy);
        }
        draft.remember(record);
        record.woken = record.woken.filter(|at| now.since(*at) <= settings.sync_period.saturating_mul(3));
        let refused = self.observed.refused.get(node.name);
        if draft.changes() {
            let why = refused.and_then(|refused| refused.why.as_ref()).filter(|_| !settings.paused);
            if let Some(why) = why {
                for policy in draft.doers() {
                    if let Some(policy) = policy {
                        self.unwritable.entry(policy).or_insert_with(|| (node.name.clone(), Arc::clone(why)));
                    }
                    self.hold(HeldBy::Refused, policy);
                }
            }
            // It takes no room from those that can be written.
            if !settings.paused && self.waits(refused) {
                return;
            }
            let room = [record.writes.ready(limits.node, now), ledger.cluster.ready(limits.cluster, now)];
            let cause = if settings.paused {
                Some(HeldBy::Pause)
            } else if let Some(at) = room.into_iter().flatten().max() {
                // One pass per node that there is room for would cost more than the writes: wait for room for several.
                let several = limits.cluster.every.saturating_mul(limits.cluster.burst / 8);
                self.wake_at(Some(at.after(several)));
                Some(HeldBy::RateLimit)
            } else {
                None
            };
            if let Some(cause) = cause {
                return draft.doers().for_each(|policy| self.hold(cause, policy));
            }
            // There is room in both, as was just asked.
            let _ = (record.writes.take(limits.node, now), ledger.cluster.take(limits.cluster, now));
            record.woken = Some(now);
            self.plan.nodes.push(desk.change(node, draft));
        } else if let Some(policy) = node.ix.and_then(|ix| self.recovered.get(&ix).copied()) {
            if !self.waits(refused) {
                self.kick(node, policy, record, ledger);
            }
        } else if refused.is_some() {
            self.plan.settled.push(node.name.clone());
        }
    }

    /// Counts a mark that is held back, from a policy or from none that exists.
    fn hold(&mut self, cause: HeldBy, policy: Option<usize>) {
        policy.map_or(&mut self.plan.held, |place| &mut self.held[place]).add(cause, 1);
    }

    /// Whether a refusal is too fresh to try again.
    fn waits(&mut self, refused: Option<&Refused>) -> bool {
        let until = refused.map(|refused| refused.until).filter(|until| *until > self.now);
        self.wake_at(until);
        until.is_some()
    }

    /// Wakes waiting pods by a write on a node they may go to again, unless that was done lately.
    fn kick(&mut self, node: &Node<'_>, policy: &PolicyRef, record: &mut NodeRecord, ledger: &mut Ledger) {
        let (now, settings) = (self.now, &self.observed.settings);
        let limits = &settings.limits;
        let last = record.woken.max(node.marks.kicked).filter(|at| *at <= now);
        if let Some(at) = last.map(|at| at.after(settings.sync_period)).filter(|at| *at > now) {
            return self.wake_at(Some(at));
        }
        if settings.paused {
            return self.plan.held.add(HeldBy::Pause, 1);
        }
        let room = [record.kicks.ready(limits.kicks, now), ledger.cluster.ready(limits.cluster, now)];
        let full = (self.kicks >= limits.kicks_at_once).then(|| now.after(settings.sync_period));
        if let Some(at) = room.into_iter().flatten().chain(full).max() {
            self.plan.held.add(HeldBy::RateLimit, 1);
            return self.wake_at(Some(at));
        }
        let _ = (record.kicks.take(limits.kicks, now), ledger.cluster.take(limits.cluster, now));
        record.woken = Some(now);
        self.kicks += 1;
        self.wake_at(Some(now.after(settings.sync_period)));
        self.plan.nodes.push(NodeChange {
            node: node.name.clone(),
            labels: None,
            adopts: Box::default(),
            leftovers: Box::default(),
            taints: None,
            kick: Some(Kick { at: now, policy: policy.clone() }),
            deeds: Box::default(),
        });
    }

    /// What is true of each policy, where that is news and was not told a moment ago.
    fn statuses(&mut self, subjects: Vec<Subject<'_>>, ledger: &mut Ledger) {
        let interval = self.observed.settings.limits.status_interval;
        for mut subject in subjects {
            self.plan.held.add_all(&subject.outcome.held);
            let due = match &subject.record.told {
                None => self.has_first_word(&subject),
                Some((told, _)) if **told == subject.outcome => false,
                Some((told, _)) if told.is_about_another_policy(&subject.outcome) => true,
                Some((_, at)) => {
                    let next = at.after(interval);
                    let due = next <= self.now || *at > self.now;
                    if !due {
                        self.wake_at(Some(next));
                    }
                    due
                }
            };
            if due {
                let outcome = Arc::new(std::mem::take(&mut subject.outcome));
                subject.record.told = Some((Arc::clone(&outcome), self.now));
                self.plan.statuses.push(StatusChange { policy: subject.policy.clone(), outcome });
            }
            ledger.policies.insert(subject.policy.clone(), subject.record);
        }
    }

    /// Whether a policy of which nothing was told yet is told of now. Its verdict and its first samples get a sync
    /// period to come, or else everything new would be announced as missing something and again when it is complete.
    fn has_first_word(&mut self, subject: &Subject<'_>) -> bool {
        let is_partial = subject.awaited || !subject.outcome.dry.is_empty();
        let begun = subject.record.begun;
        let ripe = begun.after(self.observed.settings.sync_period);
        // A clock that was put back must not make this last.
        if !is_partial || ripe <= self.now || begun > self.now {
            return true;
        }
        self.wake_at(Some(ripe));
        false
    }

    fn wake_at(&mut self, at: Option<Timestamp>) {
        self.plan.wake = self.plan.wake.into_iter().chain(at).min();
    }
}

impl Outcome {
    /// Whether somebody has changed the policy or the pause in between: such news does not wait.
    fn is_about_another_policy(&self, now: &Self) -> bool {
        let which = |outcome: &Self| (outcome.generation, outcome.judged, outcome.mode, outcome.paused);
        which(self) != which(now)
    }
}
