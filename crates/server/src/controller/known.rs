//! Which edition of each policy the view speaks of, and what compiling found in that one: a view that has not caught
//! up with an edit must not be told as the verdict on it.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::path::FieldPath;
use api::problem::{Code, Problem, Severity};
use engine::View;
use engine::names::PolicyRef;
use engine::plan::{Observed, ObservedPolicy, Settings};
use feed::Health;
use feed::world::{ObjectKey, PolicyFacts};

use super::sightings::{SeenPolicy, Sightings};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known(BTreeMap<PolicyRef, Edition>);

/// One edition of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Edition {
    generation: i64,
    problems: Vec<Problem>,
}

impl Known {
    /// Brings what is known in step, and puts together what plans are made from.
    pub(super) fn observe(
        &mut self,
        sightings: &Sightings,
        view: &View,
        health: &Health,
        settings: Settings,
    ) -> Observed {
        let waiting = sightings.waiting();
        let mut policies = BTreeMap::new();
        let mut known = BTreeMap::new();
        for (name, seen) in sightings.all_policies() {
            let facts = health.policies.get(&ObjectKey::new(name.namespace(), name.name()));
            let before = self.0.remove(name);
            let edition = match (facts, before) {
                (Some(facts), before) if before.is_none() || is_in_step(facts, name, view) => {
                    Edition::of(facts, seen)
                }
                (_, Some(before)) => before,
                (_, None) => Edition { generation: seen.generation, problems: Vec::new() },
            };
            let since = seen.status.as_ref().map(api::status::since).unwrap_or_default();
            let waiting = waiting.get(name).copied().unwrap_or_default();
            let awaited =
                facts.is_none_or(|facts| facts.policy.is_some() && view.table(name.key()).is_none());
            policies.insert(
                name.clone(),
                ObservedPolicy {
                    uid: seen.edition.uid.as_str().into(),
                    generation: edition.generation,
                    awaited,
                    waiting,
                    since,
                },
            );
            known.insert(name.clone(), edition);
        }
        self.0 = known;
        Observed { nodes: sightings.marks(), policies, settings, ..Observed::default() }
    }

    /// What compiling found in the edition that the last plan speaks of.
    pub(super) fn problems(&self, policy: &PolicyRef) -> &[Problem] {
        self.0.get(policy).map(|edition| edition.problems.as_slice()).unwrap_or_default()
    }
}

impl Edition {
    fn of(facts: &PolicyFacts, seen: &SeenPolicy) -> Self {
        let mut problems = facts.problems.clone();
        // The watch could not even read it, so it does not know the generation either.
        let Some(reason) = &facts.unreadable else {
            return Self { generation: facts.generation, problems };
        };
        problems.push(Problem {
            path: FieldPath::default(),
            severity: Severity::Error,
            code: Code::WrongType,
            message: format!("the object cannot be read as a policy: {reason}"),
        });
        Self { generation: seen.generation, problems }
    }
}

/// Whether the view was made from this edition.
fn is_in_step(facts: &PolicyFacts, name: &PolicyRef, view: &View) -> bool {
    match (&facts.policy, view.table(name.key())) {
        (Some(compiled), Some(table)) => Arc::ptr_eq(compiled, &table.policy) || **compiled == *table.policy,
        (None, None) => true,
        _ => false,
    }
}
