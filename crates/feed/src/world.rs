//! What the watches have told us of: nodes, policies, pods. Changes go in, inputs of the engine come out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::policy::TasPolicy;
use api::problem::Problem;
use api::{Compiled, Defaults};
use engine::Placement;
use engine::policy::Policy;
use engine::time::Timestamp;

use crate::directory::{Directory, NodeFacts};

/// Which object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Empty for objects of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// An object of a namespace, or of the cluster if that is empty.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// What became of a policy object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyFacts {
    /// Which object.
    pub key: ObjectKey,
    /// Its generation, so that a status can say which one it is about.
    pub generation: i64,
    /// What the engine makes of it, if anything.
    pub policy: Option<Arc<Policy>>,
    /// What there is to say about it.
    pub problems: Vec<Problem>,
    /// Why it could not even be read as a policy.
    pub unreadable: Option<String>,
}

impl PolicyFacts {
    /// Compiles an object.
    pub fn of(object: &TasPolicy, defaults: &Defaults) -> Self {
        let Compiled { policy, problems } = api::compile(object, defaults);
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        Self {
            key: ObjectKey { namespace: text(&object.metadata.namespace), name: text(&object.metadata.name) },
            generation: object.metadata.generation.unwrap_or_default(),
            policy: policy.map(Arc::new),
            problems,
            unreadable: None,
        }
    }

    /// An object that is no policy.
    pub fn unreadable(key: ObjectKey, reason: String) -> Self {
        Self { key, generation: 0, policy: None, problems: Vec::new(), unreadable: Some(reason) }
    }
}

/// A pod that went to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Which pod.
    pub key: ObjectKey,
    /// Where it went.
    pub node: String,
    /// When.
    pub bound: Timestamp,
}

/// What we watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Watched {
    /// Nodes.
    Nodes,
    /// Policies.
    Policies,
    /// Pods that name a policy.
    Pods,
}

impl Watched {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Nodes, Self::Policies, Self::Pods];

    /// The word, for logs and metric labels.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nodes => "nodes",
            Self::Policies => "policies",
            Self::Pods => "pods",
        }
    }
}

/// News of one kind of object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<T> {
    /// All there are: what is not among them is gone, even if nobody said so.
    Replaced(Vec<T>),
    /// One that is new or different.
    Applied(T),
    /// One that is gone, or that we have no use for any more.
    Deleted(ObjectKey),
}

/// News from the watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Of nodes.
    Nodes(Delta<NodeFacts>),
    /// Of policies.
    Policies(Delta<PolicyFacts>),
    /// Of pods that name a policy and have a node.
    Pods(Delta<PodFacts>),
    /// A watch is in trouble; nothing if it is well again.
    Trouble(Watched, Option<String>),
    /// An object was left out because it makes no sense.
    Skipped(Watched, String),
    /// What is wrong with the installed definition of policies; nothing if it is in order.
    Definition(Option<String>),
}

/// Everything the watches have told, up to now.
#[derive(Debug, Default)]
pub struct World {
    nodes: BTreeMap<ObjectKey, NodeFacts>,
    policies: BTreeMap<ObjectKey, PolicyFacts>,
    pods: BTreeMap<ObjectKey, PodFacts>,
    directory: Arc<Directory>,
    compiled: Vec<Arc<Policy>>,
    synced: [bool; Watched::ALL.len()],
}

impl World {
    /// Takes news in; tells whether anything is different now.
    pub fn apply(&mut self, change: Change) -> bool {
        match change {
            Change::Nodes(delta) => {
                let synced = self.sync(Watched::Nodes, &delta);
                let key = |node: &NodeFacts| ObjectKey::new("", node.name.as_str());
                let changed = merge(&mut self.nodes, delta, key);
                if changed {
                    let facts: Vec<NodeFacts> = self.nodes.values().cloned().collect();
                    self.directory = Arc::new(Directory::new(&facts));
                }
                changed || synced
            }
            Change::Policies(delta) => {
                let synced = self.sync(Watched::Policies, &delta);
                let changed = merge(&mut self.policies, delta, |policy| policy.key.clone());
                if changed {
                    self.compiled = self.policies.values().filter_map(|facts| facts.policy.clone()).collect();
                }
                changed || synced
            }
            Change::Pods(delta) => {
                let synced = self.sync(Watched::Pods, &delta);
                merge(&mut self.pods, delta, |pod| pod.key.clone()) || synced
            }
            Change::Trouble(..) | Change::Skipped(..) | Change::Definition(_) => false,
        }
    }

    fn sync<T>(&mut self, watched: Watched, delta: &Delta<T>) -> bool {
        let synced = &mut self.synced[watched as usize];
        let first = matches!(delta, Delta::Replaced(_)) && !*synced;
        *synced |= first;
        first
    }

    /// Whether a watch has told of all there is at least once.
    pub fn synced(&self, watched: Watched) -> bool {
        self.synced[watched as usize]
    }

    /// The nodes, and every text that means one of them.
    pub fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// The policies that compile.
    pub fn policies(&self) -> &[Arc<Policy>] {
        &self.compiled
    }

    /// What became of every policy object.
    pub fn policy_facts(&self) -> impl Iterator<Item = &PolicyFacts> {
        self.policies.values()
    }

    /// The pods that a fresh sample may not show yet. Older ones are left out: no sample that still counts was
    /// taken before they had settled.
    pub fn placed(&self, now: Timestamp) -> Vec<Placement> {
        let horizon = horizon(&self.compiled);
        let recent = self.pods.values().filter(|pod| now.since(pod.bound) <= horizon);
        let nodes = self.directory.nodes();
        recent.filter_map(|pod| Some(Placement { node: nodes.find(&pod.node)?, at: pod.bound })).collect()
    }
}

/// How long a pod can make a difference under any of the policies.
fn horizon(policies: &[Arc<Policy>]) -> Duration {
    let rules = policies.iter().flat_map(|policy| policy.rules()).map(|rule| rule.max_age + rule.load.settle);
    let preferences = policies.iter().flat_map(|policy| &policy.scheduleonmetric);
    rules.chain(preferences.map(|p| p.max_age + p.load.settle)).max().unwrap_or_default()
}

fn merge<T: PartialEq>(
    held: &mut BTreeMap<ObjectKey, T>,
    delta: Delta<T>,
    key: impl Fn(&T) -> ObjectKey,
) -> bool {
    match delta {
        Delta::Replaced(all) => {
            let all: BTreeMap<ObjectKey, T> = all.into_iter().map(|item| (key(&item), item)).collect();
            let changed = *held != all;
            *held = all;
            changed
        }
        Delta::Applied(item) => {
            let key = key(&item);
            let changed = held.get(&key) != Some(&item);
            held.insert(key, item);
            changed
        }
        Delta::Deleted(key) => held.remove(&key).is_some(),
    }
}

#[cfg(test)]
mod tests {
    use engine::fixtures::{at, policy, preference, rule};
    use engine::names::NodeName;
    use engine::policy::{Combine, Operator};

    use super::*;

    fn node(name: &str) -> NodeFacts {
        NodeFacts { name: NodeName::new(name).unwrap(), addresses: vec![] }
    }

    fn pod(name: &str, node: &str, bound: Timestamp) -> PodFacts {
        PodFacts { key: ObjectKey::new("default", name), node: node.to_owned(), bound }
    }

    fn judged(name: &str) -> PolicyFacts {
        let policy = policy(name)
            .dont_schedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")])
            .prefer([preference("power", Operator::LessThan)]);
        PolicyFacts {
            key: ObjectKey::new("default", name),
            generation: 1,
            policy: Some(Arc::new(policy)),
            problems: vec![],
            unreadable: None,
        }
    }

    fn names(world: &World) -> Vec<&str> {
        world.directory().nodes().names().iter().map(NodeName::as_str).collect()
    }

    #[test]
    fn a_deletion_that_nobody_told_of_shows_in_the_next_list() {
        let mut world = World::default();
        assert!(world.apply(Change::Nodes(Delta::Replaced(vec![node("a"), node("b")]))));
        assert!(world.apply(Change::Nodes(Delta::Applied(node("c")))));
        assert_eq!(names(&world), ["a", "b", "c"]);
        assert!(world.apply(Change::Nodes(Delta::Replaced(vec![node("b"), node("c")]))));
        assert!(world.apply(Change::Nodes(Delta::Deleted(ObjectKey::new("", "c")))));
        assert_eq!(names(&world), ["b"]);
    }

    #[test]
    fn what_changes_nothing_is_told_so() {
        let mut world = World::default();
        assert!(world.apply(Change::Nodes(Delta::Replaced(vec![node("a")]))));
        let directory = Arc::clone(world.directory());
        for same in [
            Change::Nodes(Delta::Replaced(vec![node("a")])),
            Change::Nodes(Delta::Applied(node("a"))),
            Change::Nodes(Delta::Deleted(ObjectKey::new("", "z"))),
        ] {
            assert!(!world.apply(same));
        }
        assert!(Arc::ptr_eq(&directory, world.directory()));
    }

    #[test]
    fn an_empty_first_list_counts_as_synced() {
        let mut world = World::default();
        assert!(!world.synced(Watched::Pods));
        assert!(world.apply(Change::Pods(Delta::Replaced(vec![]))));
        assert!(world.synced(Watched::Pods) && !world.synced(Watched::Nodes));
        assert!(!world.apply(Change::Pods(Delta::Replaced(vec![]))));
    }

    #[test]
    fn pods_count_while_a_fresh_sample_may_not_show_them() {
        let mut world = World::default();
        world.apply(Change::Nodes(Delta::Replaced(vec![node("a")])));
        world.apply(Change::Policies(Delta::Replaced(vec![judged("p")])));
        world.apply(Change::Pods(Delta::Replaced(vec![
            pod("new", "a", at(0)),
            pod("old", "a", at(-241)),
            pod("lost", "gone", at(0)),
        ])));
        // Three minutes of age and one to settle.
        let placed = |world: &World, now| world.placed(now).iter().map(|p| p.at).collect::<Vec<_>>();
        assert_eq!(placed(&world, at(0)), [at(0)]);
        assert_eq!(placed(&world, at(-1)), [at(0), at(-241)]);
        world.apply(Change::Pods(Delta::Deleted(ObjectKey::new("default", "new"))));
        assert_eq!(placed(&world, at(0)), []);
    }

    #[test]
    fn a_policy_that_does_not_compile_is_held_with_its_problems_and_not_used() {
        let mut object = TasPolicy::default();
        object.metadata.name = Some("p".to_owned());
        object.metadata.namespace = Some("default".to_owned());
        object.spec.mode = Some("Perhaps".to_owned());
        let facts = PolicyFacts::of(&object, &Defaults::default());
        assert_eq!((facts.policy.is_none(), facts.problems.is_empty()), (true, false));
        let mut world = World::default();
        let unreadable = PolicyFacts::unreadable(ObjectKey::new("default", "q"), "no map".to_owned());
        assert!(world.apply(Change::Policies(Delta::Replaced(vec![facts, unreadable, judged("r")]))));
        assert_eq!((world.policies().len(), world.policy_facts().count()), (1, 3));
    }
}
