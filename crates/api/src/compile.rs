//! From what a user wrote to what the engine holds: all problems at once, each with its place and the way out.
//!
//! What Intel TAS accepts compiles, with a warning where it is a trap. Mistakes in fields of ours are errors, because
//! nobody relies on them yet and the API server refuses them too.

mod contradictions;
mod labels;
mod nearest;
mod rule;
mod strategy;

use std::collections::BTreeSet;
use std::time::Duration;

use engine::names::PolicyRef;
use engine::policy::{DEFAULT_MAX_AGE, DEFAULT_SETTLE, Mode, OnMissing, Policy};

use crate::keys;
use crate::path::FieldPath;
use crate::policy::{MAX_STRATEGIES, TasPolicy, TasPolicySpec};
use crate::problem::{Code, Findings, Problem, shortened};

pub(crate) use nearest::nearest;

/// Longest text that a label value or the name part of a label key may have.
const MAX_LABEL_NAME: usize = 63;
/// The strategies, in the order in which people think of them.
pub(crate) const STRATEGIES: [&str; 4] = ["dontschedule", "scheduleonmetric", "deschedule", "labeling"];

/// What counts where a policy does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defaults {
    /// Namespace of an object that names none, as in a file.
    pub namespace: String,
    /// How old a sample may be.
    pub max_age: Duration,
    /// How long a metric takes to show a pod.
    pub settle: Duration,
}

impl Default for Defaults {
    fn default() -> Self {
        Self { namespace: "default".to_owned(), max_age: DEFAULT_MAX_AGE, settle: DEFAULT_SETTLE }
    }
}

/// What became of a policy object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// The policy; there is one exactly when no problem is an error.
    pub policy: Option<Policy>,
    /// All there is to say, in the order of the object's fields.
    pub problems: Vec<Problem>,
}

/// Compiles a policy object.
pub fn compile(object: &TasPolicy, defaults: &Defaults) -> Compiled {
    let mut findings = Findings::default();
    let policy = policy(object, defaults, &mut findings);
    debug_assert!(policy.is_some() || findings.has_errors(), "a policy is refused for a reason");
    Compiled { policy: policy.filter(|_| !findings.has_errors()), problems: findings.0 }
}

fn policy(object: &TasPolicy, defaults: &Defaults, findings: &mut Findings) -> Option<Policy> {
    let name = name(object, defaults, findings);
    let at = FieldPath::ROOT.key("spec");
    let mode = mode(object, findings);
    let on_missing = on_missing(&object.spec, &at, findings);
    let max_age = match &object.spec.max_age {
        None => Some(defaults.max_age),
        Some(text) => rule::duration(text, &at.key("maxAge"), &rule::MAX_AGE, findings),
    };
    let context = strategy::Context {
        policy_name: name.as_ref().map_or("", PolicyRef::name),
        max_age: max_age.unwrap_or(defaults.max_age),
        settle: defaults.settle,
    };
    let strategies = strategies(&object.spec, &at.key("strategies"), &context, findings);
    pruned_elsewhere(&object.spec, &at, findings);
    Some(Policy {
        mode: mode?,
        on_missing: on_missing?,
        dontschedule: strategies.dontschedule,
        scheduleonmetric: strategies.scheduleonmetric,
        deschedule: strategies.deschedule,
        labeling: strategies.labeling,
        ..Policy::empty(name?)
    })
}

fn name(object: &TasPolicy, defaults: &Defaults, findings: &mut Findings) -> Option<PolicyRef> {
    let at = FieldPath::ROOT.key("metadata");
    let Some(name) = object.metadata.name.as_deref().filter(|name| !name.is_empty()) else {
        findings.error(
            &at,
            Code::BadName,
            "the policy has no name; pods name their policy, so give it one under metadata.name",
        );
        return None;
    };
    let namespace = object.metadata.namespace.as_deref().unwrap_or(&defaults.namespace);
    let at_name = at.key("name");
    let reference = match (PolicyRef::new("default", name), PolicyRef::new(namespace, "policy")) {
        (Err(problem), _) => {
            findings.error(&at_name, Code::BadName, problem.to_string());
            return None;
        }
        (_, Err(problem)) => {
            findings.error(&at.key("namespace"), Code::BadName, problem.to_string());
            return None;
        }
        (Ok(_), Ok(_)) => PolicyRef::new(namespace, name).ok()?,
    };
    if !name.starts_with(is_alphanumeric) || !name.ends_with(is_alphanumeric) {
        findings.error(
            &at_name,
            Code::BadName,
            format!("the policy name {name:?} must start and end with a letter or a digit"),
        );
        return None;
    }
    if name.len() > MAX_LABEL_NAME {
        findings.warn(
            &at_name,
            Code::NameTooLong,
            format!(
                "the policy name has {} characters; pods name their policy in a label value, which holds {MAX_LABEL_NAME}, so no pod can name this one; shorten it",
                name.len()
            ),
        );
    }
    Some(reference)
}

fn is_alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

/// The mode that field and annotation agree on; where they do not, the one that does less.
fn mode(object: &TasPolicy, findings: &mut Findings) -> Option<Mode> {
    let mut read = |text: Option<&str>, at: &FieldPath| match text {
        None => Some(None),
        Some("Enforce") => Some(Some(Mode::Enforce)),
        Some("Shadow") => Some(Some(Mode::Shadow)),
        Some(other) => {
            findings.error(
                at,
                Code::UnknownMode,
                format!("{:?} is no mode; write Enforce or Shadow", shortened(other)),
            );
            None
        }
    };
    let annotations = FieldPath::ROOT.key("metadata").key("annotations").key(keys::MODE_ANNOTATION);
    let annotation = object.metadata.annotations.as_ref().and_then(|map| map.get(keys::MODE_ANNOTATION));
    let noted = read(annotation.map(String::as_str), &annotations);
    let written = read(object.spec.mode.as_deref(), &FieldPath::ROOT.key("spec").key("mode"));
    match (written?, noted?) {
        (Some(one), Some(other)) if one != other => {
            findings.warn(
                &annotations,
                Code::ModeConflict,
                format!("the annotation says {other:?} and spec.mode says {one:?}; Shadow wins, because it does less; remove one of the two"),
            );
            Some(Mode::Shadow)
        }
        (one, other) => Some(one.or(other).unwrap_or_default()),
    }
}

fn on_missing(spec: &TasPolicySpec, at: &FieldPath, findings: &mut Findings) -> Option<OnMissing> {
    match spec.on_missing.as_deref() {
        None | Some("Allow") => Some(OnMissing::Allow),
        Some("Deny") => Some(OnMissing::Deny),
        Some(other) => {
            findings.error(
                &at.key("onMissing"),
                Code::UnknownOnMissing,
                format!("{:?} is not known here; write Allow or Deny", shortened(other)),
            );
            None
        }
    }
}

fn strategies(
    spec: &TasPolicySpec,
    at: &FieldPath,
    context: &strategy::Context<'_>,
    findings: &mut Findings,
) -> strategy::Strategies {
    let mut compiled = strategy::Strategies::default();
    if spec.strategies.is_empty() {
        findings.warn(
            at,
            Code::EmptyPolicy,
            "the policy has no strategies: every node passes and none is better; add dontschedule, scheduleonmetric, deschedule or labeling",
        );
    }
    if spec.strategies.len() > MAX_STRATEGIES {
        findings.error(
            at,
            Code::TooMany,
            format!(
                "{} strategies are too many; {MAX_STRATEGIES} fit, and four are known",
                spec.strategies.len()
            ),
        );
        return compiled;
    }
    for (key, strategy) in &spec.strategies {
        let at = at.key(key);
        match key.as_str() {
            "dontschedule" => compiled.dontschedule = context.dontschedule(strategy, &at, findings),
            "scheduleonmetric" => {
                compiled.scheduleonmetric = context.scheduleonmetric(strategy, &at, findings);
            }
            "deschedule" => compiled.deschedule = context.deschedule(strategy, &at, findings),
            "labeling" => compiled.labeling = context.labeling(strategy, &at, findings),
            other => {
                let hint = nearest(other, &STRATEGIES).map_or_else(
                    || format!("known are {}", STRATEGIES.join(", ")),
                    |known| format!("did you mean {known}?"),
                );
                findings.warn(
                    &at,
                    Code::UnknownStrategy,
                    format!(
                        "the strategy {:?} is not known and is ignored (Intel TAS drops other strategies of the policy with it, at random); {hint}",
                        shortened(other)
                    ),
                );
            }
        }
    }
    compiled
}

/// Says which fields an older definition, installed by Intel TAS, would drop without a word.
fn pruned_elsewhere(spec: &TasPolicySpec, at: &FieldPath, findings: &mut Findings) {
    let mut used = BTreeSet::new();
    let mut mark = |name: &'static str, present: bool| {
        if present {
            used.insert(name);
        }
    };
    mark("mode", spec.mode.is_some());
    mark("onMissing", spec.on_missing.is_some());
    mark("maxAge", spec.max_age.is_some());
    for strategy in spec.strategies.values() {
        mark("action", strategy.action.is_some());
        mark("taintEffect", strategy.taint_effect.is_some());
        for rule in &strategy.rules {
            mark("clear", rule.clear.is_some());
            mark("for", rule.hold.is_some());
            mark("maxAge", rule.max_age.is_some());
            mark("weight", rule.weight.is_some());
            mark("normalize", rule.normalize.is_some());
            mark("perPod", rule.per_pod.is_some());
            mark("settle", rule.settle.is_some());
        }
    }
    if !used.is_empty() {
        let names = used.into_iter().collect::<Vec<_>>().join(", ");
        findings.note(
            at,
            Code::NeedsOurCrd,
            format!("the CRD that Intel TAS installs drops these fields in silence: {names}; replace it with deploy/crds/telemetry.intel.com_taspolicies.yaml first"),
        );
    }
}

#[cfg(test)]
mod tests;
