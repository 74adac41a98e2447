//! A document, the policies in it, and all there is to say about them.

use std::collections::{HashMap, HashSet};

use engine::names::PolicyRef;
use engine::policy::Policy;
use serde_json::Value;

use crate::compile::{Defaults, compile, nearest};
use crate::keys;
use crate::manifest::{Document, Place};
use crate::path::{FieldPath, Step};
use crate::problem::{Code, Findings, Problem, Severity};
use crate::shape::shape;

/// What a document holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inspection {
    /// Its policies, wrong ones included.
    pub policies: Vec<Inspected>,
    /// How many other objects it holds.
    pub others: usize,
}

/// A policy, and all there is to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Inspected {
    /// `namespace/name`, as far as known.
    pub name: String,
    /// Where it begins.
    pub place: Place,
    /// The policy; there is one exactly when no problem is an error.
    pub policy: Option<Policy>,
    /// The problems and where they are, in the order of the file.
    pub problems: Vec<(Place, Problem)>,
}

/// What policies do to each other: for each finding, which of them it is about.
pub fn conflicts(policies: &[&Policy]) -> Vec<(usize, Problem)> {
    let mut findings = Vec::new();
    let mut report = |about: usize, code: Code, message: String| {
        let path = FieldPath::ROOT.key("metadata").key("name");
        findings.push((about, Problem { path, severity: Severity::Warning, code, message }));
    };
    let mut seen: HashSet<&PolicyRef> = HashSet::new();
    let mut labelling: HashMap<&str, &PolicyRef> = HashMap::new();
    for (index, policy) in policies.iter().enumerate() {
        let name = &policy.name;
        if !seen.insert(name) {
            let message =
                format!("{name} is there twice, and the one applied last wins; remove or rename one");
            report(index, Code::DuplicatePolicy, message);
        }
        if policy.deschedule.is_some() || policy.labeling.is_some() {
            let first = *labelling.entry(name.name()).or_insert(name);
            if first != name {
                let message = format!(
                    "{first} labels nodes under the same name, and node labels carry no namespace, so a node that violates either is labelled for both; rename one"
                );
                report(index, Code::SharedLabel, message);
            }
        }
    }
    findings
}

/// Looks for policies in a document, lists included, and at each of them.
pub fn inspect(document: &Document, defaults: &Defaults) -> Inspection {
    let mut inspection = Inspection::default();
    collect(&document.value(), &FieldPath::ROOT, document, defaults, &mut inspection);
    inspection
}

fn collect(value: &Value, at: &FieldPath, document: &Document, defaults: &Defaults, found: &mut Inspection) {
    let text = |field: &str| value.get(field).and_then(Value::as_str);
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if let (Some(items), Some("List" | "TASPolicyList")) =
        (value.get("items").and_then(Value::as_array), kind)
    {
        // A list holds no lists, so there is no depth to fear.
        for (index, item) in items.iter().enumerate() {
            let at = at.key("items").index(index);
            if item.get("items").is_some() {
                found.others += 1;
            } else {
                collect(item, &at, document, defaults, found);
            }
        }
        return;
    }
    let mut findings = Findings::default();
    match (api_version, kind) {
        (Some(keys::POLICY_API_VERSION), Some(keys::POLICY_KIND)) => {}
        (version, Some(keys::POLICY_KIND)) => findings.error(
            &at.key("apiVersion"),
            Code::UnknownVersion,
            format!(
                "there is no TASPolicy of apiVersion {:?}; write apiVersion: {}",
                version.unwrap_or_default(),
                keys::POLICY_API_VERSION
            ),
        ),
        (Some(keys::POLICY_API_VERSION), kind)
            if kind.is_none_or(|kind| nearest(kind, &[keys::POLICY_KIND]).is_some()) =>
        {
            findings.error(
                &at.key("kind"),
                Code::MissingKind,
                format!("kind {:?} is not known to {}; write kind: TASPolicy", kind.unwrap_or_default(), keys::POLICY_GROUP),
            );
        }
        (None, None) if value.pointer("/spec/strategies").is_some() => findings.error(
            at,
            Code::MissingKind,
            format!(
                "this looks like a policy but does not say so; write apiVersion: {} and kind: TASPolicy above it",
                keys::POLICY_API_VERSION
            ),
        ),
        _ => {
            found.others += 1;
            return;
        }
    }
    found.policies.push(inspected(value, at, document, defaults, findings));
}

fn inspected(
    value: &Value,
    at: &FieldPath,
    document: &Document,
    defaults: &Defaults,
    mut findings: Findings,
) -> Inspected {
    let object = shape(value, at, &mut findings);
    let compiled = compile(&object, defaults);
    let errors = findings.0.iter().filter(|problem| problem.severity == Severity::Error);
    let wrong: HashSet<FieldPath> =
        errors.map(|problem| problem.path.clone()).filter(|path| path != at).collect();
    // What stands in for a wrong value is nobody's mistake.
    let genuine = compiled
        .problems
        .into_iter()
        .map(|problem| Problem { path: under(at, &problem.path), ..problem })
        .filter(|problem| !problem.path.ancestors().any(|path| wrong.contains(&path)));
    findings.0.extend(genuine);
    let policy = compiled.policy.filter(|_| !findings.has_errors());
    let placed = |problem: Problem| {
        let about_the_key = matches!(
            problem.code,
            Code::UnknownField
                | Code::EmptyField
                | Code::UnknownStrategy
                | Code::IgnoredField
                | Code::MisplacedField
        );
        let place =
            if about_the_key { document.key_place(&problem.path) } else { document.place(&problem.path) };
        (place, problem)
    };
    let mut problems: Vec<_> = findings.0.into_iter().map(placed).collect();
    problems.sort_by_key(|(place, _)| *place);
    let namespace = object.metadata.namespace.as_deref().unwrap_or(&defaults.namespace);
    let name = object.metadata.name.as_deref().unwrap_or("?");
    Inspected { name: format!("{namespace}/{name}"), place: document.place(at), policy, problems }
}

fn under(at: &FieldPath, path: &FieldPath) -> FieldPath {
    path.steps().iter().fold(at.clone(), |at, step: &Step| at.then(step.clone()))
}

#[cfg(test)]
mod tests;
