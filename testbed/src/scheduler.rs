//! Scheduler configurations: what a test writes, completed with what only the cluster knows.

use std::path::Path;

use serde_json::{Value, json};

/// Default plugins, no extender.
pub const PLAIN: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// A configuration that cannot be completed.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// Not YAML.
    #[error("the scheduler configuration cannot be read: {cause}")]
    Unreadable {
        /// Where and why.
        cause: String,
    },
    /// YAML, but of something else.
    #[error("the scheduler configuration is not an object of kind KubeSchedulerConfiguration")]
    AnotherKind,
}

/// Adds the way to the API server and turns leader election off; everything else stays as it was written.
///
/// A `clientConnection.kubeconfig` of the original is replaced: documented configurations name a path on a
/// control-plane host.
pub fn complete(written: &str, kubeconfig: &Path) -> Result<String, ConfigurationError> {
    let mut configuration: Value = serde_saphyr::from_str(written)
        .map_err(|cause| ConfigurationError::Unreadable { cause: cause.to_string() })?;
    if configuration["kind"] != "KubeSchedulerConfiguration" {
        return Err(ConfigurationError::AnotherKind);
    }
    let mut connection = json!({"qps": 5000, "burst": 5000});
    if let Some(own) = configuration["clientConnection"].as_object() {
        connection.as_object_mut().expect("made as one").extend(own.clone());
    }
    connection["kubeconfig"] = json!(kubeconfig);
    configuration["clientConnection"] = connection;
    configuration["leaderElection"] = json!({"leaderElect": false});
    Ok(format!("{configuration:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(written: &str) -> Value {
        let text = complete(written, Path::new("/c/scheduler.kubeconfig")).expect("it can be completed");
        serde_json::from_str(&text).expect("it is JSON")
    }

    #[test]
    fn the_written_part_stays_and_the_cluster_part_is_added() {
        let written = "apiVersion: kubescheduler.config.k8s.io/v1\n\
                       kind: KubeSchedulerConfiguration\n\
                       clientConnection: {kubeconfig: /etc/kubernetes/scheduler.conf, qps: 10}\n\
                       extenders:\n\
                       - {urlPrefix: \"https://tas:9001\", weight: 1, prioritizeVerb: scheduler/prioritize}\n";
        assert_eq!(
            completed(written),
            json!({
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": "/c/scheduler.kubeconfig", "qps": 10, "burst": 5000},
                "leaderElection": {"leaderElect": false},
                "extenders": [{"urlPrefix": "https://tas:9001", "weight": 1, "prioritizeVerb": "scheduler/prioritize"}],
            })
        );
    }

    #[test]
    fn something_else_is_refused_before_a_scheduler_is_started_with_it() {
        let refusal = complete("kind: Pod\n", Path::new("/x")).expect_err("a pod is no configuration");
        assert!(matches!(refusal, ConfigurationError::AnotherKind));
        let refusal = complete("a: [", Path::new("/x")).expect_err("not YAML");
        assert!(matches!(refusal, ConfigurationError::Unreadable { .. }));
    }
}
