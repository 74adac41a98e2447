//! What is wrong with a policy, or a trap in it: the same list for the terminal, the status and the log.

use std::fmt;

use crate::path::FieldPath;

/// Longest stretch of a user's text that a message repeats.
const QUOTED_CHARS: usize = 60;

/// One thing to know about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub path: FieldPath,
    /// How bad.
    pub severity: Severity,
    /// Which kind, for machines; stable.
    pub code: Code,
    /// For people: what is there, and the way out.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, severity, code, message } = self;
        if path.steps().is_empty() {
            return write!(f, "{severity}: {message} [{code}]");
        }
        write!(f, "{severity} {path}: {message} [{code}]")
    }
}

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// The policy works, but probably not as meant.
    Warning,
    /// The policy cannot be used.
    Error,
}

impl Severity {
    /// The word, as in output and JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal,)*) => {
        /// The kinds of problem. Their texts are part of the JSON output and do not change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The stable text.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

codes! {
    /// A value of another type than the field has.
    WrongType = "wrong-type",
    /// A field that the object must have.
    MissingField = "missing-field",
    /// A field nobody knows, which the API server drops.
    UnknownField = "unknown-field",
    /// A field without a value, which the API server drops.
    EmptyField = "empty-field",
    /// A `TASPolicy` of a group or version that does not exist.
    UnknownVersion = "unknown-version",
    /// Something that looks like a policy but does not say its kind.
    MissingKind = "missing-kind",
    /// The name or namespace is none.
    BadName = "bad-name",
    /// The name does not fit where it is used.
    NameTooLong = "name-too-long",
    /// Mode is neither `Enforce` nor `Shadow`.
    UnknownMode = "unknown-mode",
    /// Field and annotation disagree on the mode.
    ModeConflict = "mode-conflict",
    /// `onMissing` is neither `Allow` nor `Deny`.
    UnknownOnMissing = "unknown-on-missing",
    /// The policy says nothing.
    EmptyPolicy = "empty-policy",
    /// A strategy nobody knows.
    UnknownStrategy = "unknown-strategy",
    /// More strategies, rules or labels than fit.
    TooMany = "too-many",
    /// A lot of rules, though not too many.
    ManyRules = "many-rules",
    /// A strategy without rules.
    EmptyRules = "empty-rules",
    /// `logicalOperator` is neither `allOf` nor `anyOf`.
    UnknownLogicalOperator = "unknown-logical-operator",
    /// `policyName` says another name than the policy has.
    IgnoredPolicyName = "ignored-policy-name",
    /// A field that has no effect where it stands; Intel TAS ignores it too.
    IgnoredField = "ignored-field",
    /// A field of ours where it has no meaning.
    MisplacedField = "misplaced-field",
    /// `action` names an unknown way to mark a node, none, or one twice; or `taintEffect` an unknown effect.
    UnknownAction = "unknown-action",
    /// The metric's name is none.
    BadMetricName = "bad-metric-name",
    /// The metric is called `node_…`, which Intel's adapter serves without that prefix.
    NodePrefix = "node-prefix",
    /// The operator is none of the six.
    UnknownOperator = "unknown-operator",
    /// A rule without target, which counts as 0.
    MissingTarget = "missing-target",
    /// A number that is none.
    BadNumber = "bad-number",
    /// `Equals` or `NotEquals` on a metric that is hardly ever exactly anything.
    EqualsOnFraction = "equals-on-fraction",
    /// A `scheduleonmetric` rule whose operator has no direction.
    OrdersNothing = "orders-nothing",
    /// A further `scheduleonmetric` rule without weight.
    IgnoredRule = "ignored-rule",
    /// The same rule twice.
    DuplicateRule = "duplicate-rule",
    /// A rule that changes nothing beside another.
    RedundantRule = "redundant-rule",
    /// Rules that can never hold together, or of which one always holds.
    ContradictoryRules = "contradictory-rules",
    /// `clear` does not go with target and operator.
    BadClear = "bad-clear",
    /// `clear` equals the target.
    ClearWithoutEffect = "clear-without-effect",
    /// A duration that is none.
    BadDuration = "bad-duration",
    /// A duration outside what makes sense at all.
    DurationOutOfRange = "duration-out-of-range",
    /// A duration that is probably not meant.
    UnusualDuration = "unusual-duration",
    /// A weight outside 1 to 1000.
    BadWeight = "bad-weight",
    /// The ends of `normalize` are missing, equal or swapped.
    BadNormalize = "bad-normalize",
    /// `perPod` or `settle` changes nothing.
    LoadWithoutEffect = "load-without-effect",
    /// `perPod` makes a node look better with every pod.
    PerPodSign = "per-pod-sign",
    /// A label text that is not `key=value`.
    BadLabel = "bad-label",
    /// A label key that one rule sets twice.
    DuplicateLabelKey = "duplicate-label-key",
    /// A labelling rule without labels.
    RuleWithoutLabels = "rule-without-labels",
    /// Rules with different operators set one label key.
    MixedOperators = "mixed-operators",
    /// The same policy twice among those looked at.
    DuplicatePolicy = "duplicate-policy",
    /// Policies of one name in several namespaces write the same node labels.
    SharedLabel = "shared-label",
    /// Fields that the CRD of Intel TAS drops in silence.
    NeedsOurCrd = "needs-our-crd",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A user's text, cut to what a message can carry.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

/// Problems as they are found.
#[derive(Debug, Default)]
pub(crate) struct Findings(pub(crate) Vec<Problem>);

impl Findings {
    pub(crate) fn note(&mut self, path: &FieldPath, code: Code, message: impl Into<String>) {
        self.add(path, Severity::Note, code, message.into());
    }

    pub(crate) fn warn(&mut self, path: &FieldPath, code: Code, message: impl Into<String>) {
        self.add(path, Severity::Warning, code, message.into());
    }

    pub(crate) fn error(&mut self, path: &FieldPath, code: Code, message: impl Into<String>) {
        self.add(path, Severity::Error, code, message.into());
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == Severity::Error)
    }

    fn add(&mut self, path: &FieldPath, severity: Severity, code: Code, message: String) {
        self.0.push(Problem { path: path.clone(), severity, code, message });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::Code;

    #[test]
    fn codes_are_distinct_and_kebab_case() {
        let texts: BTreeSet<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        assert_eq!(texts.len(), Code::ALL.len());
        assert!(texts.iter().all(|text| text.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
    }
}
