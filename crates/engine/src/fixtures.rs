//! Builders for tests: policies in one line, and a cluster that samples can be fed to.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use crate::names::{MetricName, NodeName, PolicyKey, PolicyRef};
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

    /// Feeds one sample.
    pub fn sample(&mut self, node: &str, name: &str, value: &str, taken: Timestamp) {
        let sample = Sample { value: number(value), taken };
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
