//! One node: what it carries beside what it should carry, and the one change that makes up the difference.

use super::change::{Act, Deed};
use super::ledger::NodeRecord;
use super::marks::{LabelKey, MarkKey, NodeLabel, Owner, SeenLabel, Taint};
use super::outcome::HeldBy;
use super::slots::{Finding, LabelSlot, Slots, TaintSlot};
use super::survey::{Node, Subject};
use crate::policy::TaintEffect;
use crate::reason::Reason;
use crate::time::Timestamp;

/// What a look at a node yields; kept from node to node for its room alone.
#[derive(Default)]
pub(super) struct Draft {
    /// Whether the labels are to be written: we lack one, own a wrong one, or own none that we should.
    pub(super) relabel: bool,
    pub(super) labels: Vec<NodeLabel>,
    pub(super) adopts: Vec<LabelKey>,
    pub(super) leftovers: Vec<NodeLabel>,
    pub(super) retaint: bool,
    pub(super) taints: Vec<Taint>,
    pub(super) deeds: Vec<Deed>,
    /// Marks that are held back whatever is written, and the policy they are held back from.
    pub(super) held: Vec<(HeldBy, Option<usize>)>,
    /// The policy of each deed.
    pub(super) doers: Vec<Option<usize>>,
    /// Marks that stand although nobody knows whether they hold, and since when.
    unknown: Vec<(MarkKey, Timestamp)>,
    /// When the first of them is released.
    pub(super) release: Option<Timestamp>,
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

impl Desk<'_, '_> {
    /// Looks at a node; `draft` is overwritten.
    pub(super) fn look(&self, node: &Node<'_>, record: &NodeRecord, draft: &mut Draft) {
        draft.clear();
        self.labels(node, record, draft);
        self.taints(node, record, draft);
    }

    fn labels(&self, node: &Node<'_>, record: &NodeRecord, draft: &mut Draft) {
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
        slot: &LabelSlot<'_>,
        seen: Option<&SeenLabel>,
        node: &Node<'_>,
        record: &NodeRecord,
        draft: &mut Draft,
    ) {
        let finding = self.slots.finding(slot, node, self.now);
        let Some(seen) = seen else {
            if let Some(value) = finding.value {
                draft.relabel = true;
                draft.labels.push(NodeLabel { key: slot.key.clone(), value: value.clone() });
                let reason = slot.reason(finding.policy, node, self.now);
                self.deed(Act::Added, MarkKey::Label(slot.key.clone()), Some(finding.policy), reason, draft);
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
            match self.freeze(MarkKey::Label(slot.key.clone()), record, draft) {
                Frozen::Stays => {
                    draft.held.push((HeldBy::Unknown, Some(finding.policy)));
                    self.keep(seen, finding.policy, draft);
                    return;
                }
                Frozen::Released => removal = Act::Released,
            }
        }
        self.settle(slot, seen, &finding, removal, node, draft);
    }

    /// The label gets the value that is certain, or goes.
    fn settle(
        &self,
        slot: &LabelSlot<'_>,
        seen: &SeenLabel,
        finding: &Finding<'_>,
        removal: Act,
        node: &Node<'_>,
        draft: &mut Draft,
    ) {
        let mark = || MarkKey::Label(slot.key.clone());
        let reason = || slot.reason(finding.policy, node, self.now);
        match finding.value {
            Some(value) if *value == seen.label.value => self.keep(seen, finding.policy, draft),
            Some(value) => {
                draft.relabel = true;
                if seen.owner != Owner::Ours {
                    draft.adopts.push(slot.key.clone());
                }
                draft.labels.push(NodeLabel { key: slot.key.clone(), value: value.clone() });
                self.deed(Act::Changed, mark(), Some(finding.policy), reason(), draft);
            }
            None => {
                draft.take_off(seen);
                let reason = if removal == Act::Released { reason() } else { None };
                self.deed(removal, mark(), Some(finding.policy), reason, draft);
            }
        }
    }

    /// The label is right as it is; one that somebody else wrote is taken over.
    fn keep(&self, seen: &SeenLabel, policy: usize, draft: &mut Draft) {
        draft.labels.push(seen.label.clone());
        if seen.owner == Owner::Foreign {
            draft.relabel = true;
            draft.adopts.push(seen.label.key.clone());
            self.deed(Act::Adopted, MarkKey::Label(seen.label.key.clone()), Some(policy), None, draft);
        }
    }

    /// A label that no policy asks for.
    fn unasked(&self, seen: &SeenLabel, record: &NodeRecord, draft: &mut Draft) {
        let mark = || MarkKey::Label(seen.label.key.clone());
        if seen.owner != Owner::Foreign && self.slots.silent.contains(seen.label.key.policy()) {
            if let Frozen::Stays = self.freeze(mark(), record, draft) {
                draft.held.push((HeldBy::Unknown, None));
                draft.labels.push(seen.label.clone());
                return;
            }
            draft.relabel = true;
            return self.deed(Act::Released, mark(), None, None, draft);
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
        self.deed(Act::Swept, mark(), None, None, draft);
    }

    fn taints(&self, node: &Node<'_>, record: &NodeRecord, draft: &mut Draft) {
        let mut seen = node.marks.taints();
        for slot in &self.slots.taints {
            let before = seen.iter().position(|taint| taint.policy >= slot.policy).unwrap_or(seen.len());
            let (unasked, rest) = seen.split_at(before);
            self.unasked_taints(unasked, draft);
            let mine = rest.iter().position(|taint| taint.policy != slot.policy).unwrap_or(rest.len());
            let (mine, rest) = rest.split_at(mine);
            seen = rest;
            self.taint_slot(slot, mine, node, record, draft);
        }
        self.unasked_taints(seen, draft);
    }

    fn unasked_taints(&self, seen: &[Taint], draft: &mut Draft) {
        for taint in seen {
            draft.retaint = true;
            self.deed(Act::Swept, MarkKey::Taint(taint.policy.clone()), None, None, draft);
        }
    }

    fn taint_slot(
        &self,
        slot: &TaintSlot<'_>,
        seen: &[Taint],
        node: &Node<'_>,
        record: &NodeRecord,
        draft: &mut Draft,
    ) {
        let (certain, unsure, policy) = slot.finding(node, self.now);
        let mark = || MarkKey::Taint(slot.policy.clone());
        let strongest: Option<TaintEffect> = seen.last().map(|taint| taint.effect);
        let (mut wanted, mut removal) = (certain, Act::Removed);
        if let Some(effect) = strongest
            && unsure
            && certain != Some(effect)
            && slot.may_be(effect, node, self.now)
        {
            match self.freeze(mark(), record, draft) {
                Frozen::Stays => {
                    draft.held.push((HeldBy::Unknown, Some(policy)));
                    wanted = Some(effect);
                }
                Frozen::Released => removal = Act::Released,
            }
        }
        if let Some(effect) = wanted {
            draft.taints.push(Taint { policy: slot.policy.clone(), effect });
        }
        let act = match (wanted, seen) {
            (None, []) => return,
            (Some(effect), [only]) if only.effect == effect => return,
            (Some(_), []) => Act::Added,
            (Some(_), _) => Act::Changed,
            (None, _) => removal,
        };
        draft.retaint = true;
        let reason = if act == Act::Removed { None } else { slot.reason(policy, node, self.now) };
        self.deed(act, mark(), Some(policy), reason, draft);
    }

    /// Notes since when a mark stands that nobody can judge.
    fn freeze(&self, mark: MarkKey, record: &NodeRecord, draft: &mut Draft) -> Frozen {
        let before = record.unknown.iter().find(|(other, _)| *other == mark).map(|(_, since)| *since);
        // A clock that was put back must not make this last.
        let since = before.map_or(self.now, |since| since.min(self.now));
        draft.unknown.push((mark, since));
        let release = since.after(self.hold);
        if release <= self.now {
            return Frozen::Released;
        }
        draft.release = Some(draft.release.map_or(release, |first| first.min(release)));
        Frozen::Stays
    }

    fn deed(
        &self,
        act: Act,
        mark: MarkKey,
        policy: Option<usize>,
        reason: Option<Reason>,
        draft: &mut Draft,
    ) {
        let name = policy.and_then(|place| self.subjects.get(place)).map(|subject| subject.policy.clone());
        draft.deeds.push(Deed { act, mark, policy: name, reason });
        draft.doers.push(policy);
    }
}

impl Draft {
    fn clear(&mut self) {
        let Self {
            relabel,
            labels,
            adopts,
            leftovers,
            retaint,
            taints,
            deeds,
            held,
            doers,
            unknown,
            release,
        } = self;
        (*relabel, *retaint, *release) = (false, false, None);
        labels.clear();
        adopts.clear();
        leftovers.clear();
        taints.clear();
        deeds.clear();
        held.clear();
        doers.clear();
        unknown.clear();
    }

    fn take_off(&mut self, seen: &SeenLabel) {
        self.relabel |= seen.owner != Owner::Foreign;
        if seen.owner != Owner::Ours {
            self.leftovers.push(seen.label.clone());
        }
    }

    /// Whether there is something to write.
    pub(super) fn changes(&self) -> bool {
        self.relabel || self.retaint || !self.leftovers.is_empty()
    }

    pub(super) fn take_unknown(&mut self) -> Vec<(MarkKey, Timestamp)> {
        std::mem::take(&mut self.unknown)
    }
}
