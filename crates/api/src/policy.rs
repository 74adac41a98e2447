//! `telemetry.intel.com/v1alpha1 TASPolicy`: Intel's schema, and the optional fields we add.
//!
//! The Rust types hold what a user wrote, even where it is wrong: a policy stored under an older schema must load and
//! be told what is wrong with it ([`crate::compile`]) rather than break the watch. The schema derived from the same
//! types ([`crate::crd`]) is strict: the API server refuses mistakes in fields of ours, and what Intel's schema refused.

#![expect(unreachable_pub, reason = "the schema derive repeats these structs inside functions")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use kube::{CustomResource, KubeSchema, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::number::Number;

/// Most strategies in a policy. Four are known; the rest of the room is for spelling mistakes, which load and are reported.
pub const MAX_STRATEGIES: usize = 16;
/// Most rules in a strategy.
pub const MAX_RULES: usize = 1000;
/// Most labels of a rule.
pub const MAX_LABELS: usize = 64;
/// Most nodes that a status lists by name; the count beside the list is exact.
pub const MAX_LISTED_NODES: usize = engine::plan::MAX_LISTED_NODES;
/// What a duration must look like: Go syntax without a sign.
pub const DURATION_PATTERN: &str = r"^(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(h|m|s|ms|us|µs|μs|ns))+)$";
/// Longest duration text.
pub const MAX_DURATION_LENGTH: usize = 32;
/// Heaviest weight of a `scheduleonmetric` rule.
pub const MAX_WEIGHT: i64 = 1000;

/// A policy object. Like Intel's, it may lack a spec, which means that it says nothing.
#[derive(Resource, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[resource(inherit = "Definition")]
#[serde(into = "Definition", default)]
pub struct TasPolicy {
    /// Name, namespace, annotations and the rest.
    pub metadata: ObjectMeta,
    /// What the user wants.
    pub spec: TasPolicySpec,
    /// What we made of it. A status that we cannot read is as good as none: it is ours to write again.
    #[serde(deserialize_with = "readable")]
    pub status: Option<TasPolicyStatus>,
}

fn readable<'de, D: Deserializer<'de>>(status: D) -> Result<Option<TasPolicyStatus>, D::Error> {
    Ok(serde_json::from_value(serde_json::Value::deserialize(status)?).ok())
}

/// The form that carries group, version and kind; the one place where the derive macro needs its own struct.
impl From<TasPolicy> for Definition {
    fn from(policy: TasPolicy) -> Self {
        Self { metadata: policy.metadata, spec: policy.spec, status: policy.status }
    }
}

#[expect(clippy::duplicated_attributes, reason = "columns of one type are not duplicates")]
/// What should count against nodes, what should count for them, and which labels they should carry.
#[derive(CustomResource, KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "telemetry.intel.com",
    version = "v1alpha1",
    kind = "TASPolicy",
    root = "Definition",
    plural = "taspolicies",
    singular = "taspolicy",
    shortname = "tasp",
    namespaced,
    status = "TasPolicyStatus",
    derive = "PartialEq",
    doc = "Places pods by what the machines are really doing. A pod names its policy with the label telemetry-policy.",
    printcolumn(
        json_path = ".status.conditions[?(@.type==\"Accepted\")].status",
        name = "Accepted",
        type_ = "string"
    ),
    printcolumn(
        json_path = ".status.conditions[?(@.type==\"MetricsAvailable\")].status",
        name = "Metrics",
        type_ = "string"
    ),
    printcolumn(
        json_path = ".status.conditions[?(@.type==\"Enforced\")].reason",
        name = "Enforced",
        type_ = "string"
    ),
    printcolumn(json_path = ".status.violating.count", name = "Violating", type_ = "integer"),
    printcolumn(json_path = ".status.violating.unknown", name = "Unknown", type_ = "integer", priority = 1),
    printcolumn(json_path = ".status.message", name = "Message", type_ = "string", priority = 1),
    printcolumn(json_path = ".metadata.creationTimestamp", name = "Age", type_ = "date")
)]
#[serde(rename_all = "camelCase")]
pub struct TasPolicySpec {
    /// The strategies by name: dontschedule, scheduleonmetric, deschedule, labeling. Any other name is ignored and
    /// reported.
    #[serde(default)]
    #[schemars(extend("maxProperties" = MAX_STRATEGIES))]
    #[x_kube(
        validation = Rule::new("self.all(k, k == 'scheduleonmetric' || self[k].rules.all(r, !has(r.weight) && !has(r.normalize)))").message("weight and normalize have a meaning only under scheduleonmetric"),
        validation = Rule::new("!('scheduleonmetric' in self) || self['scheduleonmetric'].rules.all(r, !has(r.clear) && !has(r.__for__))").message("clear and for have no meaning under scheduleonmetric, where no rule is a violation"),
        validation = Rule::new("self.all(k, k == 'deschedule' || !has(self[k].action))").message("action has a meaning only under deschedule"),
        validation = Rule::new("self.all(k, !has(self[k].taintEffect) || (k == 'deschedule' && has(self[k].action) && 'Taint' in self[k].action))").message("taintEffect has a meaning only under deschedule, beside the action Taint"),
    )]
    pub strategies: BTreeMap<String, Strategy>,
    /// Enforce (the default) acts. Shadow evaluates and reports, but refuses, scores, labels and evicts nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["Enforce", "Shadow"]))]
    pub mode: Option<String>,
    /// What placement does about a node without fresh data: Allow (the default) lets it pass, Deny refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["Allow", "Deny"]))]
    pub on_missing: Option<String>,
    /// How old a sample may be, like 90s or 3m. Rules may say otherwise; the server's default is 3m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = MAX_DURATION_LENGTH), regex(pattern = DURATION_PATTERN))]
    pub max_age: Option<String>,
}

/// Rules, and how they combine.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Strategy {
    /// Kept for existing objects; the policy's own name is what counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub policy_name: Option<String>,
    /// anyOf (the default): one true rule is a violation. allOf: only all of them together are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["allOf", "anyOf"]))]
    pub logical_operator: Option<String>,
    /// The conditions, each on one metric. Under dontschedule, deschedule and labeling a true rule is a violation; under scheduleonmetric the
    /// operator says which end of the metric is better.
    #[serde(default)]
    #[schemars(length(max = MAX_RULES))]
    pub rules: Vec<PolicyRule>,
    /// Under deschedule: how a node is marked, Label (the default), Taint or both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<DescheduleAction>", length(min = 1, max = 2))]
    pub action: Option<Vec<String>>,
    /// Beside the action Taint: PreferNoSchedule (the default) asks new pods to go elsewhere, NoSchedule keeps them away.
    /// Neither evicts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["PreferNoSchedule", "NoSchedule"]))]
    pub taint_effect: Option<String>,
}

/// A way to mark a node.
#[derive(JsonSchema)]
#[schemars(inline)]
#[expect(dead_code, reason = "its variants are for the schema; objects hold the text")]
enum DescheduleAction {
    Label,
    Taint,
}

/// One condition on one metric.
// Whether clear lies on the right side of target is left to `compile`: comparing quantities costs the API server more
// than it allows.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
#[x_kube(
    validation = Rule::new("!has(self.clear) || self.operator in ['GreaterThan', 'GreaterOrEqual', 'LessThan', 'LessOrEqual']").message("clear goes with GreaterThan, GreaterOrEqual, LessThan and LessOrEqual only: a point has no side to leave on"),
)]
pub struct PolicyRule {
    /// The metric looked at.
    #[serde(default)]
    #[schemars(length(max = 512), regex(pattern = "^[a-zA-Z0-9_:-]+$"))]
    pub metricname: String,
    /// How the metric's value is compared with the target.
    #[serde(default)]
    #[schemars(extend("enum" = ["Equals", "LessThan", "GreaterThan", "GreaterOrEqual", "LessOrEqual", "NotEquals"]))]
    pub operator: String,
    /// A whole number, or a quantity in quotes like "2.5", "300m" or "64Gi"; nothing means 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Number")]
    pub target: Option<Number>,
    /// Under labeling: the labels of a node while the rule holds, each written key=value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_LABELS))]
    pub labels: Vec<String>,
    /// The value at which a violation ends, if that is another than the target: a node over 80 may have to come down to 70.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Number")]
    pub clear: Option<Number>,
    /// How long a change must last before the verdict follows, like 30s or 5m.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = MAX_DURATION_LENGTH), regex(pattern = DURATION_PATTERN))]
    pub hold: Option<String>,
    /// How old a sample may be for this rule, like 90s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = MAX_DURATION_LENGTH), regex(pattern = DURATION_PATTERN))]
    pub max_age: Option<String>,
    /// Under scheduleonmetric: how much this rule counts beside the others, 1 to 1000. The first rule counts 1 where it
    /// does not say; further rules without weight are ignored, as in Intel TAS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", range(min = 1, max = MAX_WEIGHT))]
    pub weight: Option<i64>,
    /// Under scheduleonmetric: a fixed scale, instead of the spread among the nodes in question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Normalize")]
    pub normalize: Option<Normalize>,
    /// What one more pod adds to the metric; negative for what pods use up, like free memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Number")]
    pub per_pod: Option<Number>,
    /// How long the metric takes to show a pod, like 60s (the default).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = MAX_DURATION_LENGTH), regex(pattern = DURATION_PATTERN))]
    pub settle: Option<String>,
}

/// The two ends of a fixed scale.
#[derive(Serialize, JsonSchema, Deserialize, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Normalize {
    /// The value that scores lowest where more is better, highest where less is.
    #[serde(default)]
    #[schemars(with = "Number")]
    pub min: Option<Number>,
    /// The value at the other end.
    #[serde(default)]
    #[schemars(with = "Number")]
    pub max: Option<Number>,
}

/// What the policy does at present, as the leading replica sees it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct TasPolicyStatus {
    /// The generation of the policy that this status speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub observed_generation: Option<i64>,
    /// Accepted, MetricsAvailable, Enforced and Violating, each with its reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// Nodes that violate the policy now.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Violating")]
    pub violating: Option<Violating>,
    /// Compliant, Violating or Unknown, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub compliance: Option<String>,
    /// The same in a sentence, or what is wrong with the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub message: Option<String>,
}

/// Nodes that violate a policy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
pub struct Violating {
    /// How many there are.
    pub count: i64,
    /// How many more cannot be judged, for want of fresh samples.
    pub unknown: i64,
    /// The first of those that violate, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MAX_LISTED_NODES))]
    pub nodes: Vec<ViolatingNode>,
}

/// A node that violates a policy.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct ViolatingNode {
    /// Its name.
    pub name: String,
    /// Since when.
    pub since: Time,
    /// The rule that it violates.
    #[serde(default)]
    pub reason: String,
}
