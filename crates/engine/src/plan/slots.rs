//! Every label and taint that some policy may ask for, and what the policies say about it on a node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::marks::{LabelKey, NodeLabel, Owner, SeenLabel, VIOLATING};
use super::survey::{Node, Subject};
use crate::policy::{Combine, LabelRule, Mark, TaintEffect};
use crate::quantity::Quantity;
use crate::reason::Reason;
use crate::time::Timestamp;
use crate::verdict::{Verdict, Verdicts};
use crate::view::Table;

/// All that may be asked for, each in the order of its keys.
pub(super) struct Slots<'a> {
    pub(super) labels: Vec<LabelSlot<'a>>,
    pub(super) taints: Vec<TaintSlot<'a>>,
    /// Names of policies that exist but cannot be judged.
    pub(super) silent: BTreeSet<&'a str>,
    /// Names of policies that label nodes: what an earlier TAS left for them is ours to take over.
    labelling: BTreeSet<&'a str>,
    violating: Arc<str>,
}

/// A label that some policy may ask for. Policies of one name share it.
pub(super) struct LabelSlot<'a> {
    pub(super) key: LabelKey,
    says: Vec<LabelSay<'a>>,
}

/// What one policy has to say about a label; policies by their place in the survey.
enum LabelSay<'a> {
    Deschedule { policy: usize, table: &'a Table, verdicts: &'a Verdicts },
    Labeling { policy: usize, table: &'a Table, combine: Combine, rules: Vec<Bid<'a>> },
    Silent { policy: usize },
}

/// A rule of `labeling` that brings the label.
#[derive(Clone, Copy)]
struct Bid<'a> {
    rule: &'a LabelRule,
    verdicts: &'a Verdicts,
    value: &'a Arc<str>,
}

/// What the policies say together.
pub(super) struct Finding<'s> {
    /// The value that the label certainly has, or nothing.
    pub(super) value: Option<&'s Arc<str>>,
    /// Whether something unknown could turn that.
    pub(super) unsure: bool,
    /// The policy that decided, or else one that could not.
    pub(super) policy: usize,
}

/// A taint that some policy may ask for.
pub(super) struct TaintSlot<'a> {
    pub(super) policy: Arc<str>,
    says: Vec<TaintSay<'a>>,
}

struct TaintSay<'a> {
    policy: usize,
    /// Nothing for a policy that cannot be judged.
    known: Option<(&'a Table, &'a Verdicts, TaintEffect)>,
}

impl<'a> Slots<'a> {
    pub(super) fn of(subjects: &[Subject<'a>]) -> Self {
        let mut labels: BTreeMap<LabelKey, Vec<LabelSay<'a>>> = BTreeMap::new();
        let mut taints: BTreeMap<&'a str, Vec<TaintSay<'a>>> = BTreeMap::new();
        let (mut silent, mut labelling) = (BTreeSet::new(), BTreeSet::new());
        for (policy, subject) in subjects.iter().enumerate() {
            let name = subject.policy.name();
            let violating = || LabelKey::Violating(Arc::from(name));
            let Some(table) = subject.table else {
                silent.insert(name);
                labels.entry(violating()).or_default().push(LabelSay::Silent { policy });
                taints.entry(name).or_default().push(TaintSay { policy, known: None });
                continue;
            };
            if subject.labels {
                labelling.insert(name);
            }
            if let (Some(deschedule), Some(verdicts)) = (&table.policy.deschedule, &table.deschedule) {
                for mark in &deschedule.marks {
                    match *mark {
                        Mark::Label if subject.labels => {
                            let says = labels.entry(violating()).or_default();
                            says.push(LabelSay::Deschedule { policy, table, verdicts });
                        }
                        Mark::Taint(effect) if subject.taints => {
                            let known = Some((table, verdicts, effect));
                            taints.entry(name).or_default().push(TaintSay { policy, known });
                        }
                        Mark::Label | Mark::Taint(_) => {}
                    }
                }
            }
            if let Some(labeling) = table.policy.labeling.as_ref().filter(|_| subject.labels) {
                let mut bids: BTreeMap<&Arc<str>, Vec<Bid<'a>>> = BTreeMap::new();
                for (rule, verdicts) in labeling.rules.iter().zip(&table.labeling) {
                    for label in &rule.labels {
                        let bid = Bid { rule, verdicts, value: &label.value };
                        bids.entry(&label.key).or_default().push(bid);
                    }
                }
                for (key, rules) in bids {
                    let key = LabelKey::Won { policy: Arc::from(name), key: Arc::clone(key) };
                    let combine = labeling.combine;
                    labels.entry(key).or_default().push(LabelSay::Labeling { policy, table, combine, rules });
                }
            }
        }
        let taints = taints.into_iter().map(|(name, says)| TaintSlot { policy: Arc::from(name), says });
        Self {
            labels: labels.into_iter().map(|(key, says)| LabelSlot { key, says }).collect(),
            taints: taints.collect(),
            silent,
            labelling,
            violating: Arc::from(VIOLATING),
        }
    }

    /// Whether a label is ours to change: we wrote it, or an earlier TAS did for a policy that labels nodes now.
    pub(super) fn may_change(&self, seen: &SeenLabel) -> bool {
        seen.owner != Owner::Foreign || self.is_leftover(&seen.label)
    }

    /// Whether an earlier TAS may have written it, for a policy that labels nodes now.
    pub(super) fn is_leftover(&self, label: &NodeLabel) -> bool {
        let fits = match label.key {
            LabelKey::Violating(_) => &*label.value == VIOLATING,
            LabelKey::Won { .. } => true,
        };
        fits && self.labelling.contains(label.key.policy())
    }

    /// What the policies say about a label on a node.
    pub(super) fn finding<'s>(
        &'s self,
        slot: &'s LabelSlot<'a>,
        node: &Node<'_>,
        now: Timestamp,
    ) -> Finding<'s> {
        let mut finding =
            Finding { value: None, unsure: false, policy: slot.says.first().map_or(0, LabelSay::policy) };
        for say in &slot.says {
            let (value, unsure) = say.value(&self.violating, node, now);
            if let (Some(value), None) = (value, finding.value) {
                (finding.value, finding.policy) = (Some(value), say.policy());
            }
            if unsure && !finding.unsure && finding.value.is_none() {
                finding.policy = say.policy();
            }
            finding.unsure |= unsure;
        }
        if matches!(slot.key, LabelKey::Violating(_)) && finding.value.is_some() {
            // One is enough, and there is but one value.
            finding.unsure = false;
        }
        finding
    }
}

impl LabelSlot<'_> {
    /// Whether the label may have this value, as far as anybody knows.
    pub(super) fn may_be(&self, value: &str, node: &Node<'_>, now: Timestamp) -> bool {
        self.says.iter().any(|say| match say {
            LabelSay::Deschedule { .. } => value == VIOLATING,
            LabelSay::Silent { .. } => true,
            LabelSay::Labeling { rules, .. } => rules
                .iter()
                .any(|bid| &**bid.value == value && node.verdict(bid.verdicts, now) != Verdict::Pass),
        })
    }

    /// Why the label is as it is, or why nobody knows; by the policy of the finding.
    pub(super) fn reason(&self, policy: usize, node: &Node<'_>, now: Timestamp) -> Option<Reason> {
        let say = self.says.iter().find(|say| say.policy() == policy)?;
        let ix = node.ix?;
        match say {
            LabelSay::Silent { .. } => None,
            LabelSay::Deschedule { table, verdicts, .. } => {
                verdicts.reason(&table.policy.deschedule.as_ref()?.when.rules, ix, now)
            }
            LabelSay::Labeling { rules, .. } => {
                let bid = won(rules.iter().copied(), node, now).or_else(|| {
                    rules.iter().copied().find(|bid| node.verdict(bid.verdicts, now) == Verdict::Unknown)
                })?;
                bid.verdicts.reason(std::slice::from_ref(&bid.rule.rule), ix, now)
            }
        }
    }
}

impl LabelSay<'_> {
    fn policy(&self) -> usize {
        match *self {
            Self::Deschedule { policy, .. } | Self::Labeling { policy, .. } | Self::Silent { policy } => {
                policy
            }
        }
    }

    /// The value that is certain, and whether something unknown could turn it.
    fn value<'s>(
        &'s self,
        violating: &'s Arc<str>,
        node: &Node<'_>,
        now: Timestamp,
    ) -> (Option<&'s Arc<str>>, bool) {
        match self {
            Self::Silent { .. } => (None, true),
            Self::Deschedule { verdicts, .. } => match node.verdict(verdicts, now) {
                Verdict::Violating => (Some(violating), false),
                Verdict::Pass => (None, false),
                Verdict::Unknown => (None, true),
            },
            Self::Labeling { table, combine: Combine::AllOf, rules, .. } => {
                let mut unknown = false;
                for verdicts in &table.labeling {
                    match node.verdict(verdicts, now) {
                        Verdict::Pass => return (None, false),
                        Verdict::Unknown => unknown = true,
                        Verdict::Violating => {}
                    }
                }
                if unknown {
                    return (None, true);
                }
                (won(rules.iter().copied(), node, now).map(|bid| bid.value), false)
            }
            Self::Labeling { combine: Combine::AnyOf, rules, .. } => {
                let unknown = rules.iter().any(|bid| node.verdict(bid.verdicts, now) == Verdict::Unknown);
                (won(rules.iter().copied(), node, now).map(|bid| bid.value), unknown)
            }
        }
    }
}

/// The rule that wins a key among those that hold: the first written, unless a later one of the same direction saw a
/// larger value (or a smaller one, where less is meant). Rules of different directions cannot be compared: the earlier
/// stays.
fn won<'a>(bids: impl Iterator<Item = Bid<'a>>, node: &Node<'_>, now: Timestamp) -> Option<Bid<'a>> {
    let mut best: Option<(Bid<'a>, Option<Quantity>)> = None;
    for bid in bids.filter(|bid| node.verdict(bid.verdicts, now) == Verdict::Violating) {
        let seen = node.ix.and_then(|ix| bid.verdicts.observed(ix));
        let direction = bid.rule.rule.threshold.operator().direction();
        let beats = match &best {
            None => true,
            Some((first, at)) => {
                use crate::policy::Direction::{HigherIsBetter, LowerIsBetter};
                match (first.rule.rule.threshold.operator().direction(), direction) {
                    (Some(HigherIsBetter), Some(HigherIsBetter)) => seen > *at,
                    (Some(LowerIsBetter), Some(LowerIsBetter)) => seen < *at,
                    _ => false,
                }
            }
        };
        if beats {
            best = Some((bid, seen));
        }
    }
    best.map(|(bid, _)| bid)
}

impl TaintSlot<'_> {
    /// The strongest effect that is certain, whether something unknown could turn that, and who decided.
    pub(super) fn finding(&self, node: &Node<'_>, now: Timestamp) -> (Option<TaintEffect>, bool, usize) {
        let (mut certain, mut unsure) = (None, false);
        let mut decided = self.says.first().map_or(0, |say| say.policy);
        for say in &self.says {
            let Some((_, verdicts, effect)) = say.known else {
                unsure = true;
                continue;
            };
            match node.verdict(verdicts, now) {
                Verdict::Violating if certain.is_none_or(|other| other < effect) => {
                    (certain, decided) = (Some(effect), say.policy);
                }
                Verdict::Violating | Verdict::Pass => {}
                Verdict::Unknown => {
                    unsure = true;
                    if certain.is_none() {
                        decided = say.policy;
                    }
                }
            }
        }
        (certain, unsure, decided)
    }

    /// Whether the taint may have this effect, as far as anybody knows.
    pub(super) fn may_be(&self, effect: TaintEffect, node: &Node<'_>, now: Timestamp) -> bool {
        self.says.iter().any(|say| match say.known {
            None => true,
            Some((_, verdicts, asked)) => asked == effect && node.verdict(verdicts, now) != Verdict::Pass,
        })
    }

    /// Why the taint is as it is, or why nobody knows.
    pub(super) fn reason(&self, policy: usize, node: &Node<'_>, now: Timestamp) -> Option<Reason> {
        let (table, verdicts, _) = self.says.iter().find(|say| say.policy == policy)?.known?;
        verdicts.reason(&table.policy.deschedule.as_ref()?.when.rules, node.ix?, now)
    }
}
