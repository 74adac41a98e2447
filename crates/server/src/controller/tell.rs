//! What was done and what is wrong, as events at the objects concerned.

use std::collections::BTreeMap;

use api::keys::{POLICY_API_VERSION, POLICY_KIND};
use api::policy::TasPolicyStatus;
use cluster::events::{Notice, Tone};
use cluster::write::Edition;
use engine::names::{NodeName, PolicyRef};
use engine::plan::{Act, Deed, NodeChange};
use k8s_openapi::api::core::v1::ObjectReference;

/// Nodes that one event names.
const NAMED: usize = 3;
/// What we were doing.
const ENFORCE: &str = "Enforce";

fn object(kind: &str, version: &str, edition: &Edition) -> ObjectReference {
    ObjectReference {
        api_version: Some(version.to_owned()),
        kind: Some(kind.to_owned()),
        name: Some(edition.name.clone()),
        namespace: Some(edition.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        uid: Some(edition.uid.clone()),
        ..ObjectReference::default()
    }
}

/// One word for what was done; it does not change.
const fn reason(act: Act) -> &'static str {
    match act {
        Act::Added => "NodeMarked",
        Act::Changed => "NodeMarkChanged",
        Act::Adopted => "NodeMarkAdopted",
        Act::Removed => "NodeUnmarked",
        Act::Released => "NodeMarkReleased",
        Act::Swept => "NodeMarkSwept",
    }
}

const fn tone(act: Act) -> Tone {
    match act {
        Act::Added | Act::Released => Tone::Warning,
        Act::Changed | Act::Adopted | Act::Removed | Act::Swept => Tone::Normal,
    }
}

/// At the node: deeds of one kind in one event, each with its policy. Fifty policies that mark a node at once must not
/// crowd out the others.
pub(super) fn of_node(node: &Edition, change: &NodeChange) -> Vec<Notice> {
    let words = |deed: &Deed| match &deed.policy {
        Some(policy) => format!("{policy}: {deed}"),
        None => deed.to_string(),
    };
    let mut alike: BTreeMap<Act, Vec<String>> = BTreeMap::new();
    for deed in &change.deeds {
        alike.entry(deed.act).or_default().push(words(deed));
    }
    let notice = |(act, deeds): (Act, Vec<String>)| Notice {
        about: object("Node", "v1", node),
        tone: tone(act),
        reason: reason(act),
        action: ENFORCE,
        note: deeds.join("; "),
    };
    alike.into_iter().map(notice).collect()
}

/// At the policies: one event for all nodes with the same deed.
pub(super) fn of_policies<'e>(
    done: &[&NodeChange],
    edition: impl Fn(&PolicyRef) -> Option<&'e Edition>,
) -> Vec<Notice> {
    let mut alike: BTreeMap<(&PolicyRef, Act, String), Vec<&NodeName>> = BTreeMap::new();
    for change in done {
        for deed in &change.deeds {
            if let Some(policy) = &deed.policy {
                alike.entry((policy, deed.act, deed.to_string())).or_default().push(&change.node);
            }
        }
    }
    let notice = |((policy, act, deed), mut nodes): ((&PolicyRef, Act, String), Vec<&NodeName>)| {
        nodes.sort();
        let named: Vec<&str> = nodes.iter().take(NAMED).map(|node| node.as_str()).collect();
        let more = nodes.len() - named.len();
        let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
        Some(Notice {
            about: object(POLICY_KIND, POLICY_API_VERSION, edition(policy)?),
            tone: tone(act),
            reason: reason(act),
            action: ENFORCE,
            note: format!("{}{rest}: {deed}", named.join(", ")),
        })
    };
    alike.into_iter().filter_map(notice).collect()
}

/// At the policy: what has become wrong, or well again.
pub(super) fn of_conditions(
    policy: &Edition,
    before: &TasPolicyStatus,
    now: &TasPolicyStatus,
) -> Vec<Notice> {
    let words = [
        ("Accepted", "PolicyRefused", "PolicyAccepted"),
        ("MetricsAvailable", "MetricsMissing", "MetricsAvailable"),
        ("Enforced", "NotEnforced", "Enforced"),
    ];
    let find = |status: &TasPolicyStatus, name: &str| {
        status.conditions.iter().find(|condition| condition.type_ == name).cloned()
    };
    let mut notices = Vec::new();
    for (name, wrong, well) in words {
        let Some(condition) = find(now, name) else { continue };
        let was = find(before, name).map(|condition| condition.status);
        let (tone, reason) = match (was.as_deref(), condition.status.as_str()) {
            (was, "False") if was != Some("False") => (Tone::Warning, wrong),
            (Some("False"), "True") => (Tone::Normal, well),
            _ => continue,
        };
        notices.push(Notice {
            about: object(POLICY_KIND, POLICY_API_VERSION, policy),
            tone,
            reason,
            action: ENFORCE,
            note: condition.message,
        });
    }
    notices
}
