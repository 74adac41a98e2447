//! How Kubernetes spells what the engine plans: label keys, taint keys, the annotation of a kick.

use std::sync::Arc;

use engine::names::PolicyRef;
use engine::plan::LabelKey;
use engine::time::Timestamp;

use crate::keys::{NODE_LABEL_PREFIX, TAINT_PREFIX, node_label_key};

/// The key as the node carries it.
pub fn label_key(key: &LabelKey) -> String {
    match key {
        LabelKey::Violating(policy) => policy.to_string(),
        LabelKey::Won { policy, key } => node_label_key(policy, key),
    }
}

/// Which label of ours this could be: any key without prefix could be a policy's name, so whether it is one is for the
/// plan to say. Nothing for keys that no policy can lead to.
pub fn read_label_key(text: &str) -> Option<LabelKey> {
    match text.split_once('/') {
        None => is_policy_name(text).then(|| LabelKey::Violating(Arc::from(text))),
        Some((prefix, key)) => {
            let policy = prefix.strip_prefix(NODE_LABEL_PREFIX).filter(|policy| is_policy_name(policy))?;
            Some(LabelKey::Won { policy: Arc::from(policy), key: Arc::from(key) })
        }
    }
}

/// The key of the taint of a policy.
pub fn taint_key(policy: &str) -> String {
    format!("{TAINT_PREFIX}{policy}")
}

/// The policy whose taint has this key; nothing for a taint of somebody else.
pub fn read_taint_key(text: &str) -> Option<&str> {
    text.strip_prefix(TAINT_PREFIX).filter(|policy| !policy.is_empty())
}

/// The value of the annotation of a kick.
pub fn kick(at: Timestamp) -> String {
    at.millis().to_string()
}

/// When the annotation says that the node was kicked.
pub fn read_kick(text: &str) -> Option<Timestamp> {
    text.parse().ok().map(Timestamp::from_millis)
}

fn is_policy_name(text: &str) -> bool {
    PolicyRef::new("default", text).is_ok()
}

#[cfg(test)]
mod tests {
    use engine::plan::LabelKey;
    use engine::time::Timestamp;

    use super::{kick, label_key, read_kick, read_label_key, read_taint_key, taint_key};

    #[test]
    fn labels_read_as_intel_tas_and_gpu_aware_scheduling_write_them() {
        let won = |policy: &str, key: &str| LabelKey::Won { policy: policy.into(), key: key.into() };
        for (text, key) in [
            ("deschedule1", LabelKey::Violating("deschedule1".into())),
            ("telemetry.aware.scheduling.labeling1/card0", won("labeling1", "card0")),
            ("telemetry.aware.scheduling.gpu/gas-disable-card0", won("gpu", "gas-disable-card0")),
            (
                "telemetry.aware.scheduling.gpu/gas-deschedule-pods-card0",
                won("gpu", "gas-deschedule-pods-card0"),
            ),
            ("telemetry.aware.scheduling.gpu/gas-prefer-gpu", won("gpu", "gas-prefer-gpu")),
            (
                "telemetry.aware.scheduling.a.b/gas-tile-disable-card0_gt1",
                won("a.b", "gas-tile-disable-card0_gt1"),
            ),
        ] {
            assert_eq!(label_key(&key), text);
            assert_eq!(read_label_key(text), Some(key));
        }
        for foreign in ["kubernetes.io/hostname", "Zone", "telemetry.aware.scheduling./x", ""] {
            assert_eq!(read_label_key(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn taints_and_kicks_read_back() {
        assert_eq!(taint_key("power"), "telemetry-aware.github.io/power");
        assert_eq!(read_taint_key("telemetry-aware.github.io/power"), Some("power"));
        assert_eq!(read_taint_key("node.kubernetes.io/unreachable"), None);
        let at = Timestamp::from_millis(1_700_000_000_123);
        assert_eq!(read_kick(&kick(at)), Some(at));
        assert_eq!(read_kick("yesterday"), None);
    }
}
