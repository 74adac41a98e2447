//! The plan of the real engine, carried out on the spot: what stands on nodes, and so which of them pods must leave.

use std::sync::Arc;

use engine::NodeIndex;
use engine::plan::{LabelKey, Namespaces, Observed, ObservedPolicy, Settings, plan};
use engine::policy::Policy;

use super::{Cluster, Scheduler};
use crate::happening::What;

/// A cluster in which nobody has written anything on a node yet. It is one's own, so the policy may write what it likes.
pub(super) fn nothing_marked(index: &NodeIndex, policy: &Policy) -> Observed {
    Observed {
        nodes: index.names().iter().map(|name| (name.clone(), Arc::default())).collect(),
        policies: [(policy.name.clone(), ObservedPolicy::default())].into(),
        settings: Settings { may_taint: Namespaces::All, ..Settings::default() },
        ..Observed::default()
    }
}

impl Cluster {
    /// Plans and carries out. Pods that wait are tried again by the scheduler's own time here, so none is woken.
    pub(super) fn enforce(&mut self) {
        if self.scheduler == Scheduler::ByRequests {
            return;
        }
        let (plan, ledger) = plan(&self.view, &self.observed, std::mem::take(&mut self.ledger), self.now());
        self.ledger = ledger;
        self.observed = self.observed.after(&plan);
        for change in plan.nodes {
            let named = |number| *self.index.name(number) == change.node;
            let Some(machine) = self.numbers.iter().copied().position(named) else { continue };
            for deed in change.deeds {
                self.tell(What::Marked { machine, deed });
            }
        }
    }

    /// Whether a machine carries the label or the taint of `deschedule`.
    pub(super) fn is_marked(&self, machine: usize) -> bool {
        let marks = self.observed.nodes.get(self.index.name(self.numbers[machine]));
        marks.is_some_and(|marks| {
            let mut labels = marks.labels().iter();
            labels.any(|seen| matches!(seen.label.key, LabelKey::Violating(_))) || !marks.taints().is_empty()
        })
    }
}
