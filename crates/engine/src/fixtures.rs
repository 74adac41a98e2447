//! Builders for tests: policies in one line, a cluster that samples can be fed to, and a leader that acts on it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::names::{MetricName, NodeName, PolicyKey, PolicyRef};
use crate::plan::{self, LabelKey, Ledger, NodeLabel, NodeMarks, Observed, Outcome, Owner, Plan, SeenLabel};
use crate::policy::{
    Combine, DEFAULT_MAX_AGE, Deschedule, Label, LabelRule, Labeling, Load, Mark, Operator, Policy,
    Preference, Rule, RuleSet, Threshold,
};
use crate::quantity::Quantity;
use crate::time::Timestamp;
use crate::{Batch, Inputs, Memory, NodeIndex, Placement, Sample, View, advance};

/// A number, or the end of the test.
pub fn number(text: &str) -> Quantity {
    text.parse().expect("a test writes numbers well")
}

/// A moment so many seconds into the test.
pub fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + secs)
}

/// A metric name, or the end of the test.
pub fn metric(text: &str) -> MetricName {
    MetricName::new(text).expect("a test names metrics well")
}

/// A rule with a plain target.
pub fn rule(name: &str, operator: Operator, target: &str) -> Rule {
    Rule {
        metric: metric(name),
        threshold: Threshold::new(operator, number(target)),
        hold: Duration::ZERO,
        max_age: DEFAULT_MAX_AGE,
        load: Load::default(),
    }
}

/// A preference of weight one.
pub fn preference(name: &str, operator: Operator) -> Preference {
    Preference {
        metric: metric(name),
        direction: operator.direction(),
        weight: NonZeroU32::MIN,
        normalize: None,
        max_age: DEFAULT_MAX_AGE,
        load: Load::default(),
    }
}

/// An empty policy in namespace `default`.
pub fn policy(name: &str) -> Policy {
    Policy::empty(PolicyRef::new("default", name).expect("a test names policies well"))
}

/// How a pod in namespace `default` names its policy.
pub fn key(name: &str) -> PolicyKey<'_> {
    PolicyKey { namespace: "default", name }
}

impl Policy {
    /// With these `dontschedule` rules.
    #[must_use]
    pub fn dont_schedule(mut self, combine: Combine, rules: impl Into<Box<[Rule]>>) -> Self {
        self.dontschedule = Some(RuleSet { combine, rules: rules.into() });
        self
    }

    /// With these `deschedule` rules, marking by label.
    #[must_use]
    pub fn deschedule(mut self, combine: Combine, rules: impl Into<Box<[Rule]>>) -> Self {
        self.deschedule =
            Some(Deschedule { when: RuleSet { combine, rules: rules.into() }, marks: [Mark::Label].into() });
        self
    }

    /// Marking like this.
    #[must_use]
    pub fn marking(mut self, marks: impl Into<Box<[Mark]>>) -> Self {
        if let Some(deschedule) = &mut self.deschedule {
            deschedule.marks = marks.into();
        }
        self
    }

    /// In another namespace.
    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        self.name = PolicyRef::new(namespace, self.name.name()).expect("a test names namespaces well");
        self
    }

    /// With these `labeling` rules, each bringing labels written `key=value`.
    #[must_use]
    pub fn label(mut self, combine: Combine, rules: &[(Rule, &[&str])]) -> Self {
        let label = |text: &&str| {
            let (key, value) = text.split_once('=').expect("a test writes labels well");
            Label { key: key.into(), value: value.into() }
        };
        let rules = rules.iter().map(|(rule, labels)| LabelRule {
            rule: rule.clone(),
            labels: labels.iter().map(label).collect(),
        });
        self.labeling = Some(Labeling { combine, rules: rules.collect() });
        self
    }

    /// With these preferences.
    #[must_use]
    pub fn prefer(mut self, preferences: impl Into<Box<[Preference]>>) -> Self {
        self.scheduleonmetric = preferences.into();
        self
    }
}

/// A cluster in a test: samples go in, views come out.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// The newest view.
    pub view: View,
    /// What is remembered.
    pub memory: Memory,
    /// What the next [`Scene::advance`] takes in.
    pub inputs: Inputs,
    /// When the engine wants to be called again.
    pub wake: Option<Timestamp>,
}

impl Scene {
    /// A cluster of these nodes and policies.
    pub fn new(nodes: &[&str], policies: impl IntoIterator<Item = Policy>) -> Self {
        let nodes = nodes.iter().map(|name| NodeName::new(name).expect("a test names nodes well"));
        let inputs = Inputs {
            nodes: Arc::new(NodeIndex::new(nodes)),
            policies: policies.into_iter().map(Arc::new).collect(),
            ..Inputs::default()
        };
        Self { inputs, ..Self::default() }
    }

    /// Feeds one sample of one reading.
    pub fn sample(&mut self, node: &str, name: &str, value: &str, taken: Timestamp) {
        self.feed(node, name, Sample::new(number(value), taken));
    }

    /// Feeds one sample.
    pub fn feed(&mut self, node: &str, name: &str, sample: Sample) {
        self.inputs.samples.push(Batch::by_name(metric(name), &self.inputs.nodes, [(node, sample)]));
    }

    /// Tells of a pod.
    pub fn place(&mut self, node: &str, at: Timestamp) {
        let node = self.inputs.nodes.find(node).expect("a test places pods on nodes it made");
        self.inputs.placed.push(Placement { node, at });
    }

    /// Takes in what was fed.
    pub fn advance(&mut self, now: Timestamp) -> &View {
        let (view, memory, wake) = advance(&self.view, std::mem::take(&mut self.memory), &self.inputs, now);
        self.inputs.samples.clear();
        (self.view, self.memory, self.wake) = (view, memory, wake);
        &self.view
    }

    /// The nodes that do not pass, by name.
    pub fn refused(&self, policy: &str, now: Timestamp) -> Vec<String> {
        let names: Vec<&str> = self.view.nodes.names().iter().map(NodeName::as_str).collect();
        let answer = crate::answer(&self.view, key(policy), &names, now);
        let refused = answer
            .rulings
            .iter()
            .zip(&names)
            .filter(|(ruling, _)| matches!(ruling, crate::Ruling::Refused(_)));
        refused.map(|(_, name)| (*name).to_owned()).collect()
    }

    /// The scores of all nodes from 0 to 10, in the order of their names.
    pub fn scores(&self, policy: &str, now: Timestamp) -> Option<Vec<u32>> {
        let names: Vec<&str> = self.view.nodes.names().iter().map(NodeName::as_str).collect();
        crate::scores(&self.view, key(policy), &names, 10, now)
    }
}

/// A leader in a test: it sees a cluster, decides, and what it decides comes true.
#[derive(Clone, Debug, Default)]
pub struct Leader {
    /// What the feed sees.
    pub scene: Scene,
    /// What is on the cluster.
    pub observed: Observed,
    /// What the leader remembers.
    pub ledger: Ledger,
}

impl Leader {
    /// A new leader over a cluster where nothing is marked.
    pub fn new(nodes: &[&str], policies: impl IntoIterator<Item = Policy>) -> Self {
        let mut leader = Self { scene: Scene::new(nodes, policies), ..Self::default() };
        let names = leader.scene.inputs.nodes.names().iter().cloned();
        leader.observed.nodes = names.map(|name| (name, Arc::default())).collect();
        leader.know_policies();
        leader
    }

    /// Sees the policies that the scene has now.
    pub fn know_policies(&mut self) {
        let policies = self.scene.inputs.policies.iter();
        self.observed.policies = policies
            .map(|policy| {
                let seen = self.observed.policies.get(&policy.name).cloned().unwrap_or_default();
                (policy.name.clone(), seen)
            })
            .collect();
    }

    /// Replaces all policies.
    pub fn set_policies(&mut self, policies: impl IntoIterator<Item = Policy>) {
        self.scene.inputs.policies = policies.into_iter().map(Arc::new).collect();
        self.know_policies();
    }

    /// Puts labels on a node, written `power=violating` or `power/card0=true`.
    pub fn put(&mut self, node: &str, owner: Owner, labels: &[&str]) {
        let node = self.observed.nodes.get_mut(node).expect("a test labels nodes it made");
        let new = labels.iter().map(|text| {
            let (key, value) = text.split_once('=').expect("a test writes labels well");
            let key = match key.split_once('/') {
                None => LabelKey::Violating(key.into()),
                Some((policy, key)) => LabelKey::Won { policy: policy.into(), key: key.into() },
            };
            SeenLabel { label: NodeLabel { key, value: value.into() }, owner }
        });
        let labels: Vec<SeenLabel> = node.labels().iter().cloned().chain(new).collect();
        *node = Arc::new(NodeMarks::new(labels, node.taints().iter().cloned(), node.kicked));
    }

    /// What should be done; nothing is.
    pub fn decide(&mut self, now: Timestamp) -> Plan {
        self.scene.advance(now);
        let (plan, ledger) =
            plan::plan(&self.scene.view, &self.observed, std::mem::take(&mut self.ledger), now);
        self.ledger = ledger;
        plan
    }

    /// What should be done, and is.
    pub fn act(&mut self, now: Timestamp) -> Plan {
        let plan = self.decide(now);
        self.observed = self.observed.after(&plan);
        plan
    }

    /// The labels of a node, written as in [`Leader::put`].
    pub fn labels(&self, node: &str) -> Vec<String> {
        let spelt = |seen: &SeenLabel| match &seen.label.key {
            LabelKey::Violating(policy) => format!("{policy}={}", seen.label.value),
            LabelKey::Won { policy, key } => format!("{policy}/{key}={}", seen.label.value),
        };
        self.observed.nodes[node].labels().iter().map(spelt).collect()
    }

    /// The taints of a node, written `power:NoSchedule`.
    pub fn taints(&self, node: &str) -> Vec<String> {
        let taints = self.observed.nodes[node].taints().iter();
        taints.map(|taint| format!("{}:{}", taint.policy, taint.effect.as_str())).collect()
    }

    /// What was told last of a policy in namespace `default`.
    pub fn told(plan: &Plan, policy: &str) -> Option<Arc<Outcome>> {
        let about = |change: &&plan::StatusChange| change.policy.key() == key(policy);
        plan.statuses.iter().find(about).map(|change| Arc::clone(&change.outcome))
    }
}
