//! What the scheduler is told: which of the nodes it asks about pass, and how they compare. Lookups and
//! arithmetic only; every rule was evaluated before.

use std::sync::Arc;

use crate::names::PolicyKey;
use crate::nodes::NodeIx;
use crate::policy::{Mode, OnMissing};
use crate::reason::Reason;
use crate::score::score;
use crate::time::Timestamp;
use crate::verdict::{Cause, Verdict};
use crate::view::{Table, View};

/// Whether a node may take the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It may.
    Pass,
    /// It may not.
    Refused(Cause),
}

/// One ruling per name asked about, in the same order.
#[derive(Debug)]
pub struct Answer<'v, 'n> {
    view: &'v View,
    table: Option<&'v Arc<Table>>,
    asked: &'n [&'n str],
    now: Timestamp,
    /// A ruling per name.
    pub rulings: Vec<Ruling>,
    /// How many a policy in shadow mode would have refused.
    pub would_refuse: usize,
}

/// Judges the nodes asked about by the policy. A policy nobody knows passes them all.
pub fn answer<'v, 'n>(
    view: &'v View,
    policy: PolicyKey<'_>,
    asked: &'n [&'n str],
    now: Timestamp,
) -> Answer<'v, 'n> {
    let table = view.table(policy);
    let Some(found) = table else {
        return Answer { view, table, asked, now, rulings: vec![Ruling::Pass; asked.len()], would_refuse: 0 };
    };
    let shadow = found.policy.mode == Mode::Shadow;
    let mut would_refuse = 0;
    let rulings = asked
        .iter()
        .map(|name| match ruling(view, found, name, now) {
            Ruling::Refused(_) if shadow => {
                would_refuse += 1;
                Ruling::Pass
            }
            ruling => ruling,
        })
        .collect();
    Answer { view, table, asked, now, rulings, would_refuse }
}

/// The ruling by the policy's own words, whatever its mode.
fn ruling(view: &View, table: &Table, name: &str, now: Timestamp) -> Ruling {
    let Some(verdicts) = &table.placement else { return Ruling::Pass };
    let (verdict, cause) = match view.nodes.find(name) {
        None => (Verdict::Unknown, Cause::NodeUnknown),
        Some(node) => {
            let row = verdicts.row(node, now);
            (row.verdict, Cause::Rule { place: row.rule, ground: row.ground })
        }
    };
    match (verdict, table.policy.on_missing) {
        (Verdict::Pass, _) | (Verdict::Unknown, OnMissing::Allow) => Ruling::Pass,
        (Verdict::Violating, _) | (Verdict::Unknown, OnMissing::Deny) => Ruling::Refused(cause),
    }
}

impl<'v> Answer<'v, '_> {
    /// The table the answer was looked up in; nothing if nobody knows the policy.
    pub fn table(&self) -> Option<&'v Arc<Table>> {
        self.table
    }

    /// Why the node at this place of the list does not pass, or would not but for the policy's mode or its
    /// leniency towards the unknown.
    pub fn reason(&self, place: usize) -> Option<Reason> {
        let table = self.table?;
        table.placement.as_ref()?;
        match self.view.nodes.find(self.asked.get(place)?) {
            Some(node) => table.placement_reason(node, self.now),
            None => Some(Reason::NodeUnknown),
        }
    }

    /// How many names are refused.
    pub fn refused(&self) -> usize {
        self.rulings.iter().filter(|ruling| matches!(ruling, Ruling::Refused(_))).count()
    }
}

/// A score from 0 to `top` per name asked about, in the same order. Nothing if the policy prefers no node:
/// nobody knows it, it only reports, or it has no `scheduleonmetric`.
pub fn scores(
    view: &View,
    policy: PolicyKey<'_>,
    asked: &[&str],
    top: u32,
    now: Timestamp,
) -> Option<Vec<u32>> {
    let table = view.table(policy)?;
    if table.scorers.is_empty() || table.policy.mode == Mode::Shadow {
        return None;
    }
    let mut places: Vec<u32> =
        asked.iter().map(|name| view.nodes.find(name).map_or(u32::MAX, NodeIx::number)).collect();
    score(&table.scorers, &mut places, top, now);
    Some(places)
}
