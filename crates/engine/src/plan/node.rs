//! One node: what it carries beside what it should carry, and the one change that makes up the difference.

use std::sync::Arc;

use super::change::{Act, Deed, NodeChange};
use super::ledger::NodeRecord;
use super::marks::{LabelKey, MarkKey, NodeLabel, Owner, SeenLabel, Taint};
use super::outcome::HeldBy;
use super::slots::{Finding, LabelSlot, Slots, TaintSlot};
use super::survey::{Node, Subject};
use crate::policy::TaintEffect;
use crate::reason::Reason;
use crate::time::Timestamp;

/// What a look at a node yields; kept from node to node for its room alone. It only points at things: of most nodes
/// nothing is written.
#[derive(Default)]
pub(super) struct Draft<'d> {
    /// Whether the labels are to be written: we lack one, own a wrong one, or own none that we should.
    relabel: bool,
    labels: Vec<(&'d LabelKey, &'d Arc<str>)>,
    adopts: Vec<&'d LabelKey>,
    leftovers: Vec<&'d NodeLabel>,
    retaint: bool,
    taints: Vec<(&'d Arc<str>, TaintEffect)>,
    intents: Vec<Intent<'d>>,
    /// Marks that are held back whatever is written, and the policy they are held back from.
    pub(super) held: Vec<(HeldBy, Option<usize>)>,
    /// Marks that stand although nobody knows whether they hold, and since when; in order.
    unknown: Vec<(MarkAt<'d>, Timestamp)>,
    /// How many of those are remembered just so, and at the same place.
    remembered: usize,
    /// When the first of them is released.
    pub(super) release: Option<Timestamp>,
}

/// A mark where it is spelt out already.
#[derive(Clone, Copy)]
enum MarkAt<'d> {
    Label(&'d LabelKey),
    Taint(&'d Arc<str>),
}

/// A deed that may be done; why is worked out only if it is.
struct Intent<'d> {
    act: Act,
    mark: MarkAt<'d>,
    policy: Option<usize>,
    why: Option<Why<'d>>,
}

/// What can say why a mark changes.
#[derive(Clone, Copy)]
enum Why<'d> {
    Label(&'d LabelSlot<'d>),
    Taint(&'d TaintSlot<'d>),
}

/// What stays the same from node to node.
pub(super) struct Desk<'d, 'a> {
    pub(super) slots: &'d Slots<'a>,
    pub(super) subjects: &'d [Subject<'a>],
    pub(super) hold: std::time::Duration,
    pub(super) now: Timestamp,
}

/// What happens to a mark that nobody knows enough about.
enum Frozen {
    /// It stays.
    Stays,
    /// It has stayed for long enough.
    Released,
}

impl<'d> Desk<'d, '_> {
    /// Looks at a node; `draft` is overwritten.
    pub(super) fn look(&self, node: &Node<'d>, record: &NodeRecord, draft: &mut Draft<'d>) {
        draft.clear();
        self.labels(node, record, draft);
        self.taints(node, record, draft);
    }

    fn labels(&self, node: &Node<'d>, record: &NodeRecord, draft: &mut Draft<'d>) {
        let (mut slots, mut seen) =
            (self.slots.labels.iter().peekable(), node.marks.labels().iter().peekable());
        loop {
            match (slots.peek(), seen.peek()) {
                (None, None) => break,
                (Some(slot), Some(label)) if slot.key == label.label.key => {
                    self.slot(slot, Some(label), node, record, draft);
                    slots.next();
                    seen.next();
                }
                (Some(slot), label) if label.is_none_or(|label| slot.key < label.label.key) => {
                    self.slot(slot, None, node, record, draft);
                    slots.next();
                }
                (_, Some(label)) => {
                    self.unasked(label, record, draft);
                    seen.next();
                }
                // The arm before last takes every slot without a label.
                (Some(_), None) => {
                    slots.next();
                }
            }
        }
    }

    /// A label that some policy may ask for.
    fn slot(
        &self,
        slot: &'d LabelSlot<'d>,
        seen: Option<&'d SeenLabel>,
        node: &Node<'d>,
        record: &NodeRecord,
        draft: &mut Draft<'d>,
    ) {
        let finding = self.slots.finding(slot, node, self.now);
        let Some(seen) = seen else {
            if let Some(value) = finding.value {
                draft.relabel = true;
                draft.labels.push((&slot.key, value));
                let mark = MarkAt::Label(&slot.key);
                draft.intend(Act::Added, mark, Some(finding.policy), Some(Why::Label(slot)));
            }
            return;
        };
        if !self.slots.may_change(seen) {
            if finding.value.is_some() {
                draft.held.push((HeldBy::ForeignLabel, Some(finding.policy)));
            }
            return;
        }
        let mut removal = Act::Removed;
        if finding.unsure
            && finding.value.is_none_or(|value| *value != seen.label.value)
            && slot.may_be(&seen.label.value, node, self.now)
        {
            match self.freeze(MarkAt::Label(&slot.key), record, draft) {
                Frozen::Stays => {
                    draft.held.push((HeldBy::Unknown, Some(finding.policy)));
                    draft.keep(seen, finding.policy);
                    return;
                }
                Frozen::Released => removal = Act::Released,
            }
        }
        draft.settle(slot, seen, &finding, removal);
    }

    /// A label that no policy asks for.
    fn unasked(&self, seen: &'d SeenLabel, record: &NodeRecord, draft: &mut Draft<'d>) {
        let mark = MarkAt::Label(&seen.label.key);
        if seen.owner != Owner::Foreign && self.slots.silent.contains(seen.label.key.policy()) {
            if let Frozen::Stays = self.freeze(mark, record, draft) {
                draft.held.push((HeldBy::Unknown, None));
                draft.labels.push((&seen.label.key, &seen.label.value));
                return;
            }
            draft.relabel = true;
            return draft.intend(Act::Released, mark, None, None);
        }
        if !self.slots.may_change(seen) {
            return;
        }
        if self.slots.is_leftover(&seen.label) {
            draft.take_off(seen);
        } else {
            // Somebody else may hold on to it; that is theirs then.
            draft.relabel = true;
        }
        draft.intend(Act::Swept, mark, None, None);
    }

    fn taints(&self, node: &Node<'d>, record: &NodeRecord, draft: &mut Draft<'d>) {
        let mut seen = node.marks.taints();
        for slot in &self.slots.taints {
            let before = seen.iter().position(|taint| taint.policy >= slot.policy).unwrap_or(seen.len());
            let (unasked, rest) = seen.split_at(before);
            draft.sweep(unasked);
            let mine = rest.iter().position(|taint| taint.policy != slot.policy).unwrap_or(rest.len());
            let (mine, rest) = rest.split_at(mine);
            seen = rest;
            self.taint_slot(slot, mine, node, record, draft);
        }
        draft.sweep(seen);
    }

    fn taint_slot(
        &self,
        slot: &'d TaintSlot<'d>,
        seen: &'d [Taint],
        node: &Node<'d>,
        record: &NodeRecord,
        draft: &mut Draft<'d>,
    ) {
        let (certain, unsure, policy) = slot.finding(node, self.now);
        let mark = MarkAt::Taint(&slot.policy);
        let strongest: Option<TaintEffect> = seen.last().map(|taint| taint.effect);
        let (mut wanted, mut removal) = (certain, Act::Removed);
        if let Some(effect) = strongest
            && unsure
            && certain != Some(effect)
            && slot.may_be(effect, node, self.now)
        {
            match self.freeze(mark, record, draft) {
                Frozen::Stays => {
                    draft.held.push((HeldBy::Unknown, Some(policy)));
                    wanted = Some(effect);
                }
                Frozen::Released => removal = Act::Released,
            }
        }
        if let Some(effect) = wanted {
            draft.taints.push((&slot.policy, effect));
        }
        let act = match (wanted, seen) {
            (None, []) => return,
            (Some(effect), [only]) if only.effect == effect => return,
            (Some(_), []) => Act::Added,
            (Some(_), _) => Act::Changed,
            (None, _) => removal,
        };
        draft.retaint = true;
        let why = (act != Act::Removed).then_some(Why::Taint(slot));
        draft.intend(act, mark, Some(policy), why);
    }

    /// Notes since when a mark stands that nobody can judge.
    fn freeze(&self, mark: MarkAt<'d>, record: &NodeRecord, draft: &mut Draft<'d>) -> Frozen {
        // Mostly the same marks stand as before, and so at the same place.
        let place = draft.unknown.len();
        let here = record.unknown.get(place).filter(|(other, _)| mark.is(other));
        let before = here.or_else(|| {
            let mark = mark.owned();
            let found = record.unknown.binary_search_by(|(other, _)| other.cmp(&mark));
            found.ok().and_then(|place| record.unknown.get(place))
        });
        // A clock that was put back must not make this last.
        let since = before.map_or(self.now, |(_, since)| (*since).min(self.now));
        draft.remembered += usize::from(here.is_some_and(|(_, before)| *before == since));
        draft.unknown.push((mark, since));
        let release = since.after(self.hold);
        if release <= self.now {
            return Frozen::Released;
        }
        draft.release = Some(draft.release.map_or(release, |first| first.min(release)));
        Frozen::Stays
    }

    /// The draft as the change that it asks for.
    pub(super) fn change(&self, node: &Node<'d>, draft: &mut Draft<'d>) -> NodeChange {
        let labels =
            draft.labels.iter().map(|&(key, value)| NodeLabel { key: key.clone(), value: value.clone() });
        let taints = draft.taints.iter().map(|&(policy, effect)| Taint { policy: policy.clone(), effect });
        NodeChange {
            node: node.name.clone(),
            labels: draft.relabel.then(|| labels.collect()),
            adopts: draft.adopts.iter().copied().cloned().collect(),
            leftovers: draft.leftovers.iter().copied().cloned().collect(),
            taints: draft.retaint.then(|| taints.collect()),
            kick: None,
            deeds: draft.intents.drain(..).map(|intent| self.deed(intent, node)).collect(),
        }
    }

    fn deed(&self, Intent { act, mark, policy, why }: Intent<'d>, node: &Node<'d>) -> Deed {
        let reason = policy.zip(why).and_then(|(policy, why)| why.reason(policy, node, self.now));
        let policy = policy.and_then(|place| self.subjects.get(place)).map(|subject| subject.policy.clone());
        Deed { act, mark: mark.owned(), policy, reason }
    }
}

impl MarkAt<'_> {
    fn is(self, key: &MarkKey) -> bool {
        match (self, key) {
            (Self::Label(label), MarkKey::Label(other)) => label == other,
            (Self::Taint(taint), MarkKey::Taint(other)) => taint == other,
            (Self::Label(_), MarkKey::Taint(_)) | (Self::Taint(_), MarkKey::Label(_)) => false,
        }
    }

    fn owned(self) -> MarkKey {
        match self {
            Self::Label(label) => MarkKey::Label(label.clone()),
            Self::Taint(taint) => MarkKey::Taint(Arc::clone(taint)),
        }
    }
}

impl Why<'_> {
    fn reason(self, policy: usize, node: &Node<'_>, now: Timestamp) -> Option<Reason> {
        match self {
            Self::Label(slot) => slot.reason(policy, node, now),
            Self::Taint(slot) => slot.reason(policy, node, now),
        }
    }
}

impl<'d> Draft<'d> {
    fn clear(&mut self) {
        let Self {
            relabel,
            labels,
            adopts,
            leftovers,
            retaint,
            taints,
            intents,
            held,
            unknown,
            remembered,
            release,
        } = self;
        (*relabel, *retaint, *remembered, *release) = (false, false, 0, None);
        labels.clear();
        adopts.clear();
        leftovers.clear();
        taints.clear();
        intents.clear();
        held.clear();
        unknown.clear();
    }

    /// The label gets the value that is certain, or goes.
    fn settle(&mut self, slot: &'d LabelSlot<'d>, seen: &'d SeenLabel, finding: &Finding<'d>, removal: Act) {
        let (mark, why) = (MarkAt::Label(&slot.key), Some(Why::Label(slot)));
        match finding.value {
            Some(value) if *value == seen.label.value => self.keep(seen, finding.policy),
            Some(value) => {
                self.relabel = true;
                if seen.owner != Owner::Ours {
                    self.adopts.push(&slot.key);
                }
                self.labels.push((&slot.key, value));
                self.intend(Act::Changed, mark, Some(finding.policy), why);
            }
            None => {
                self.take_off(seen);
                let why = why.filter(|_| removal == Act::Released);
                self.intend(removal, mark, Some(finding.policy), why);
            }
        }
    }

    /// The label is right as it is; one that somebody else wrote is taken over.
    fn keep(&mut self, seen: &'d SeenLabel, policy: usize) {
        self.labels.push((&seen.label.key, &seen.label.value));
        if seen.owner == Owner::Foreign {
            self.relabel = true;
            self.adopts.push(&seen.label.key);
            self.intend(Act::Adopted, MarkAt::Label(&seen.label.key), Some(policy), None);
        }
    }

    fn take_off(&mut self, seen: &'d SeenLabel) {
        self.relabel |= seen.owner != Owner::Foreign;
        if seen.owner != Owner::Ours {
            self.leftovers.push(&seen.label);
        }
    }

    /// Taints that no policy asks for.
    fn sweep(&mut self, taints: &'d [Taint]) {
        for taint in taints {
            self.retaint = true;
            self.intend(Act::Swept, MarkAt::Taint(&taint.policy), None, None);
        }
    }

    fn intend(&mut self, act: Act, mark: MarkAt<'d>, policy: Option<usize>, why: Option<Why<'d>>) {
        self.intents.push(Intent { act, mark, policy, why });
    }

    /// Whether there is something to write.
    pub(super) fn changes(&self) -> bool {
        self.relabel || self.retaint || !self.leftovers.is_empty()
    }

    /// The policy of each deed.
    pub(super) fn doers(&self) -> impl Iterator<Item = Option<usize>> + '_ {
        self.intents.iter().map(|intent| intent.policy)
    }

    /// Has the record remember what is unknown now, mostly what it does already.
    pub(super) fn remember(&self, record: &mut NodeRecord) {
        if self.remembered < self.unknown.len() || self.unknown.len() < record.unknown.len() {
            record.unknown.clear();
            record.unknown.extend(self.unknown.iter().map(|&(mark, since)| (mark.owned(), since)));
        }
    }
}
