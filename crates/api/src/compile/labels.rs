//! The labels of `labeling` rules: what `key=value` may be, and what several rules say about one key.

use std::collections::BTreeMap;
use std::sync::Arc;

use engine::policy::{Label, LabelRule, Operator};

use super::MAX_LABEL_NAME;
use crate::keys::{NODE_LABEL_PREFIX, node_label_key};
use crate::path::FieldPath;
use crate::policy::MAX_LABELS;
use crate::problem::{Code, Findings, shortened};

/// Longest prefix of a label key, up to the slash.
const MAX_LABEL_PREFIX: usize = 253;

/// Whether the policy's name fits into the prefix of its labels.
pub(super) fn prefix_fits(policy: &str, at: &FieldPath, findings: &mut Findings) -> bool {
    let fits = NODE_LABEL_PREFIX.len() + policy.len() <= MAX_LABEL_PREFIX;
    if !fits {
        findings.warn(
            at,
            Code::NameTooLong,
            format!(
                "the policy name has {} characters; with {NODE_LABEL_PREFIX:?} before it, {} fit into a label key, so no label can be written; shorten the name",
                policy.len(),
                MAX_LABEL_PREFIX - NODE_LABEL_PREFIX.len()
            ),
        );
    }
    fits
}

/// The labels of one rule; texts that are none are left out and reported.
pub(super) fn labels(
    texts: &[String],
    policy: &str,
    at: &FieldPath,
    findings: &mut Findings,
) -> Box<[Label]> {
    if texts.len() > MAX_LABELS {
        findings.error(
            at,
            Code::TooMany,
            format!("{} labels are too many for a rule; {MAX_LABELS} fit", texts.len()),
        );
        return Box::default();
    }
    let mut kept: Vec<Label> = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        let at = at.index(index);
        match label(text) {
            Err(why) => findings.warn(
                &at,
                Code::BadLabel,
                format!(
                    "the label {:?} is left out: {why}; write it like card0=true, which becomes {}=true",
                    shortened(text),
                    node_label_key(policy, "card0")
                ),
            ),
            Ok(label) => match kept.iter().find(|other| other.key == label.key) {
                Some(other) => findings.warn(
                    &at,
                    Code::DuplicateLabelKey,
                    format!(
                        "the rule sets the label {:?} twice; {:?} stays, this one is left out",
                        &*label.key,
                        format!("{}={}", other.key, other.value)
                    ),
                ),
                None => kept.push(label),
            },
        }
    }
    kept.into()
}

fn label(text: &str) -> Result<Label, String> {
    let Some((key, value)) = text.split_once('=') else {
        return Err("it has no \"=\"".to_owned());
    };
    if key.is_empty() {
        return Err("its key is empty".to_owned());
    }
    fits("key", key)?;
    if !value.is_empty() {
        fits("value", value)?;
    }
    Ok(Label { key: Arc::from(key), value: Arc::from(value) })
}

/// Whether Kubernetes takes the text as a label value or as the name part of a label key.
fn fits(what: &str, text: &str) -> Result<(), String> {
    if text.len() > MAX_LABEL_NAME {
        return Err(format!("its {what} has {} characters and {MAX_LABEL_NAME} are allowed", text.len()));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if let Some(found) = text.chars().find(|c| !allowed(*c)) {
        return Err(format!(
            "its {what} has the character {found:?}, and letters, digits, '-', '_' and '.' are allowed"
        ));
    }
    if !text.starts_with(super::is_alphanumeric) || !text.ends_with(super::is_alphanumeric) {
        return Err(format!("its {what} must start and end with a letter or a digit"));
    }
    Ok(())
}

/// Warns of label keys that rules with different operators set: largest and smallest cannot be compared.
pub(super) fn mixed_operators(rules: &[(usize, LabelRule)], at: &FieldPath, findings: &mut Findings) {
    let mut first: BTreeMap<&str, (usize, Operator)> = BTreeMap::new();
    for (place, labelled) in rules {
        let operator = labelled.rule.threshold.operator();
        for label in &labelled.labels {
            let &mut (earlier_place, earlier) = first.entry(&label.key).or_insert((*place, operator));
            if earlier.direction() != operator.direction() {
                findings.warn(
                    &at.index(*place).key("operator"),
                    Code::MixedOperators,
                    format!(
                        "rules[{earlier_place}] ({earlier:?}) and rules[{place}] ({operator:?}) both set the label {:?}; largest and smallest cannot be compared, so the earlier rule wins where both hold (Intel TAS then removes all labels of this policy from the node); use one operator per label",
                        &*label.key
                    ),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn label_texts_are_what_kubernetes_takes() {
        for good in ["card0=true", "a=", "gas-disable-card0=PCI_GROUP", "x.y_z-1=2"] {
            assert!(label(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("card0", "it has no \"=\""),
            ("", "it has no \"=\""),
            ("=true", "its key is empty"),
            ("a=b=c", "its value has the character '='"),
            ("example.com/card0=true", "its key has the character '/'"),
            ("-a=b", "its key must start and end"),
            ("a=b_", "its value must start and end"),
            ("ä=b", "its key has the character 'ä'"),
        ] {
            assert!(label(bad).unwrap_err().starts_with(why), "{bad}");
        }
        assert!(label(&format!("{}=b", "k".repeat(64))).unwrap_err().contains("64 characters"));
        assert!(label(&format!("{}={}", "k".repeat(63), "v".repeat(63))).is_ok());
    }
}
