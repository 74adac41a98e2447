//! Objects as the watches last showed them, with the editions that a write must name. No clock, no network.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api::keys::VIOLATING;
use api::marks::{read_kick, read_label_key, read_taint_key, taint_key};
use api::policy::TasPolicyStatus;
use cluster::lite::{NodeLite, PodLite, PolicyLite};
use cluster::write::Edition;
use engine::names::{NodeName, PolicyRef};
use engine::plan::{NodeLabel, NodeMarks, Owner, SeenLabel, Taint};
use engine::policy::TaintEffect;
use feed::watches::Sighting;
use feed::world::{Delta, ObjectKey};
use serde_json::{Value, json};

/// Everything seen, up to now.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    /// Shared, because every pass keeps what it decides on.
    nodes: BTreeMap<NodeName, Arc<SeenNode>>,
    policies: BTreeMap<PolicyRef, SeenPolicy>,
    /// Pods that wait, and for which policy's sake.
    waiting: BTreeMap<ObjectKey, PolicyRef>,
    listed: Listed,
    /// Of which the newest edition is known from the answer to our own write alone.
    written: Written,
}

/// What the watches have not confirmed yet.
#[derive(Debug, Default)]
struct Written {
    nodes: BTreeSet<NodeName>,
    policies: BTreeSet<PolicyRef>,
}

/// What was listed at least once.
#[derive(Debug, Default)]
struct Listed {
    nodes: bool,
    policies: bool,
    pods: bool,
}

/// A node.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenNode {
    pub(super) edition: Arc<Edition>,
    pub(super) marks: Arc<NodeMarks>,
    /// The whole list, as it is stored.
    taints: Arc<[Value]>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenPolicy {
    pub(super) edition: Edition,
    pub(super) generation: i64,
    pub(super) status: Option<TasPolicyStatus>,
}

impl Sightings {
    /// Takes news in; tells whether anything that plans depend on is different now.
    pub(super) fn apply(&mut self, sighting: Sighting) -> bool {
        match sighting {
            Sighting::Nodes(delta) => self.nodes(delta),
            Sighting::Policies(delta) => self.policies(delta),
            Sighting::Pods(delta) => self.pods(delta),
        }
    }

    fn nodes(&mut self, delta: Delta<NodeLite>) -> bool {
        match delta {
            Delta::Replaced(all) => {
                let first = !std::mem::replace(&mut self.listed.nodes, true);
                let all = all.iter().filter_map(SeenNode::of).map(|(name, node)| (name, Arc::new(node)));
                let before = self.marks();
                let written = std::mem::take(&mut self.written.nodes);
                self.nodes =
                    listed(&self.nodes, all.collect(), &written, |node: &Arc<SeenNode>| &node.edition);
                first || self.marks() != before
            }
            Delta::Applied(node) => {
                SeenNode::of(&node).is_some_and(|(name, node)| self.node_seen(name, node))
            }
            Delta::Deleted(key) => NodeName::new(&key.name).is_ok_and(|name| {
                self.written.nodes.remove(&name);
                self.nodes.remove(&name).is_some()
            }),
        }
    }

    fn node_seen(&mut self, name: NodeName, node: SeenNode) -> bool {
        let Some(held) = self.nodes.get_mut(&name) else {
            self.nodes.insert(name, Arc::new(node));
            return true;
        };
        // The answer to a write may be here before the watch has told of what came before it.
        if is_older(&node.edition, &held.edition) {
            return false;
        }
        let differs = held.marks != node.marks;
        *held = Arc::new(node);
        self.written.nodes.remove(&name);
        differs
    }

    /// A node as a write left it. One that is gone meanwhile stays gone.
    pub(super) fn wrote_node(&mut self, node: &NodeLite) {
        if let Some((name, node)) = SeenNode::of(node)
            && self.nodes.contains_key(&name)
        {
            self.node_seen(name.clone(), node);
            self.written.nodes.insert(name);
        }
    }

    fn policies(&mut self, delta: Delta<PolicyLite>) -> bool {
        match delta {
            Delta::Replaced(all) => {
                let first = !std::mem::replace(&mut self.listed.policies, true);
                let all: BTreeMap<PolicyRef, SeenPolicy> = all.iter().filter_map(SeenPolicy::of).collect();
                let which = |policies: &BTreeMap<PolicyRef, SeenPolicy>| -> Vec<_> {
                    policies
                        .iter()
                        .map(|(name, seen)| (name.clone(), seen.edition.uid.clone(), seen.generation))
                        .collect()
                };
                let differs = which(&self.policies) != which(&all);
                let written = std::mem::take(&mut self.written.policies);
                self.policies = listed(&self.policies, all, &written, |policy| &policy.edition);
                first || differs
            }
            Delta::Applied(policy) => {
                SeenPolicy::of(&policy).is_some_and(|(name, policy)| self.policy_seen(name, policy))
            }
            Delta::Deleted(key) => PolicyRef::new(&key.namespace, &key.name).is_ok_and(|name| {
                self.written.policies.remove(&name);
                self.policies.remove(&name).is_some()
            }),
        }
    }

    fn policy_seen(&mut self, name: PolicyRef, policy: SeenPolicy) -> bool {
        let Some(held) = self.policies.get_mut(&name) else {
            self.policies.insert(name, policy);
            return true;
        };
        if is_older(&policy.edition, &held.edition) {
            return false;
        }
        let differs = held.generation != policy.generation || held.edition.uid != policy.edition.uid;
        *held = policy;
        self.written.policies.remove(&name);
        differs
    }

    /// A policy as a write left it.
    pub(super) fn wrote_policy(&mut self, policy: &PolicyLite) {
        if let Some((name, policy)) = SeenPolicy::of(policy)
            && self.policies.contains_key(&name)
        {
            self.policy_seen(name.clone(), policy);
            self.written.policies.insert(name);
        }
    }

    fn pods(&mut self, delta: Delta<PodLite>) -> bool {
        let waits = |pod: &PodLite| {
            let policy =
                pod.policy.as_deref().filter(|_| pod.unschedulable && pod.node.is_none() && !pod.finished)?;
            let policy = PolicyRef::new(pod.namespace(), policy).ok()?;
            Some((ObjectKey::new(pod.namespace(), pod.name()), policy))
        };
        match delta {
            Delta::Replaced(all) => {
                let first = !std::mem::replace(&mut self.listed.pods, true);
                let all = all.iter().filter_map(waits).collect();
                let differs = self.waiting != all;
                self.waiting = all;
                first || differs
            }
            Delta::Applied(pod) => match waits(&pod) {
                Some((key, policy)) => self.waiting.insert(key, policy).is_none(),
                None => self.waiting.remove(&ObjectKey::new(pod.namespace(), pod.name())).is_some(),
            },
            Delta::Deleted(key) => self.waiting.remove(&key).is_some(),
        }
    }

    /// Whether everything was listed once.
    pub(super) fn is_complete(&self) -> bool {
        self.listed.nodes && self.listed.policies && self.listed.pods
    }

    /// A node.
    pub(super) fn node(&self, name: &NodeName) -> Option<&Arc<SeenNode>> {
        self.nodes.get(name)
    }

    /// All nodes, as they are at this moment.
    pub(super) fn all_nodes(&self) -> BTreeMap<NodeName, Arc<SeenNode>> {
        self.nodes.clone()
    }

    /// What stands on the nodes.
    pub(super) fn marks(&self) -> BTreeMap<NodeName, Arc<NodeMarks>> {
        self.nodes.iter().map(|(name, node)| (name.clone(), Arc::clone(&node.marks))).collect()
    }

    /// A policy.
    pub(super) fn policy(&self, name: &PolicyRef) -> Option<&SeenPolicy> {
        self.policies.get(name)
    }

    /// All policies.
    pub(super) fn all_policies(&self) -> impl Iterator<Item = (&PolicyRef, &SeenPolicy)> {
        self.policies.iter()
    }

    /// How many pods wait for each policy's sake.
    pub(super) fn waiting(&self) -> BTreeMap<&PolicyRef, u32> {
        let mut counts = BTreeMap::new();
        for policy in self.waiting.values() {
            let count: &mut u32 = counts.entry(policy).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }
}

impl SeenNode {
    pub(super) fn of(node: &NodeLite) -> Option<(NodeName, Self)> {
        let labels = node.labels.iter().filter_map(|label| {
            let owner = match (label.ours, label.others) {
                (true, false) => Owner::Ours,
                (true, true) => Owner::Shared,
                (false, _) => Owner::Foreign,
            };
            let label = NodeLabel { key: read_label_key(&label.key)?, value: label.value.as_str().into() };
            Some(SeenLabel { label, owner })
        });
        let kicked = node.kicked.as_deref().and_then(read_kick);
        let marks = NodeMarks::new(labels, node.taints.iter().filter_map(taint), kicked);
        let seen = Self {
            edition: Arc::new(edition("", node.name(), node.uid(), node.version())),
            marks: Arc::new(marks),
            taints: node.taints.clone().into(),
        };
        Some((NodeName::new(node.name()).ok()?, seen))
    }

    /// Whether what was decided on `other` holds for this one too. Most editions of a node differ only in what the
    /// kubelet writes, and are no reason to decide anew.
    pub(super) fn is_as_good_as(&self, other: &Self) -> bool {
        self.edition.uid == other.edition.uid && self.marks == other.marks
    }

    /// The whole list of taints in which ours are these. What stays is written as it is stored.
    pub(super) fn taints_with(&self, ours: &[Taint]) -> Vec<Value> {
        let is_wanted = |stored: &&Value| match key_of(stored).and_then(read_taint_key) {
            None => true,
            Some(_) => taint(stored).is_some_and(|taint| ours.contains(&taint)),
        };
        let mut list: Vec<Value> = self.taints.iter().filter(is_wanted).cloned().collect();
        for wanted in ours {
            if !list.iter().any(|stored| taint(stored).as_ref() == Some(wanted)) {
                let key = taint_key(&wanted.policy);
                list.push(json!({"key": key, "value": VIOLATING, "effect": wanted.effect.as_str()}));
            }
        }
        list
    }
}

impl SeenPolicy {
    fn of(policy: &PolicyLite) -> Option<(PolicyRef, Self)> {
        let name = PolicyRef::new(policy.namespace(), policy.name()).ok()?;
        let seen = Self {
            edition: edition(policy.namespace(), policy.name(), policy.uid(), policy.version()),
            generation: policy.generation(),
            status: policy.object.as_ref().ok().and_then(|object| object.status.clone()),
        };
        Some((name, seen))
    }
}

fn edition(namespace: &str, name: &str, uid: &str, version: &str) -> Edition {
    let text = str::to_owned;
    Edition { namespace: text(namespace), name: text(name), uid: text(uid), version: text(version) }
}

/// What a list makes of what was held: all of it anew, except what we wrote while the list was made. It may show that as
/// it was before, and what was done would be done again. A second such list is believed, whatever it says.
fn listed<K: Ord, V: Clone>(
    held: &BTreeMap<K, V>,
    mut all: BTreeMap<K, V>,
    written: &BTreeSet<K>,
    edition: impl Fn(&V) -> &Edition,
) -> BTreeMap<K, V> {
    for name in written {
        if let (Some(ours), Some(listed)) = (held.get(name), all.get_mut(name))
            && is_older(edition(listed), edition(ours))
        {
            *listed = ours.clone();
        }
    }
    all
}

/// Whether `one` of the same object came before `other`. Versions are numbers that grow; where they are not, nobody
/// knows, and what came last counts.
fn is_older(one: &Edition, other: &Edition) -> bool {
    let number = |edition: &Edition| edition.version.parse::<u64>().ok();
    one.uid == other.uid && number(one).zip(number(other)).is_some_and(|(one, other)| one < other)
}

fn key_of(taint: &Value) -> Option<&str> {
    taint.get("key")?.as_str()
}

/// A taint of ours.
fn taint(stored: &Value) -> Option<Taint> {
    let policy = read_taint_key(key_of(stored)?)?;
    let effect = stored.get("effect")?.as_str()?;
    let effect = [TaintEffect::PreferNoSchedule, TaintEffect::NoSchedule]
        .into_iter()
        .find(|known| known.as_str() == effect)?;
    Some(Taint { policy: policy.into(), effect })
}

#[cfg(test)]
mod tests;
