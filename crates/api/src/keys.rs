//! Every name of ours that other software reads: API groups, labels, annotations, ports, routes, field managers.
//!
//! A literal of these anywhere else is a mistake; the derive attributes in `policy` cannot use constants, so a test
//! there compares them with this list.

/// The group of `TASPolicy`, kept from Intel TAS so that existing objects load unchanged.
pub const POLICY_GROUP: &str = "telemetry.intel.com";
/// The only served and stored version of `TASPolicy`.
pub const POLICY_VERSION: &str = "v1alpha1";
/// Group and version as objects write them.
pub const POLICY_API_VERSION: &str = "telemetry.intel.com/v1alpha1";
/// The kind of a policy object.
pub const POLICY_KIND: &str = "TASPolicy";
/// The resource name of policies.
pub const POLICY_PLURAL: &str = "taspolicies";
/// The name of the policies' CustomResourceDefinition.
pub const POLICY_CRD: &str = "taspolicies.telemetry.intel.com";

/// Our own API group, for kinds that Intel TAS does not have.
pub const OWN_GROUP: &str = "telemetry-aware.github.io";
/// The version of our own group.
pub const OWN_VERSION: &str = "v1alpha1";

/// Pod label that names the policy, which lives in the pod's own namespace.
pub const POD_POLICY_LABEL: &str = "telemetry-policy";
/// Extended resource that routes a pod through the extender.
pub const SCHEDULING_RESOURCE: &str = "telemetry/scheduling";
/// Value of the node label `<policy name>` while `deschedule` holds.
pub const VIOLATING: &str = engine::plan::VIOLATING;
/// Node labels of `labeling` start with this and the policy's name; other software reads them byte for byte.
pub const NODE_LABEL_PREFIX: &str = "telemetry.aware.scheduling.";
/// Prefix of the key of our taints, before the policy's name; nobody else writes under it.
pub const TAINT_PREFIX: &str = "telemetry-aware.github.io/";
/// Annotation of a node that was touched to wake waiting pods; says when, in milliseconds since the epoch.
pub const KICK_ANNOTATION: &str = "telemetry-aware.github.io/pods-woken-at";
/// Annotation that says the same as `spec.mode`, for clusters whose installed CRD prunes that field.
pub const MODE_ANNOTATION: &str = "telemetry-aware.github.io/mode";

/// The group of the custom metrics API.
pub const CUSTOM_METRICS_GROUP: &str = "custom.metrics.k8s.io";

/// Route that filters nodes.
pub const FILTER_ROUTE: &str = "/scheduler/filter";
/// Route that scores nodes.
pub const PRIORITIZE_ROUTE: &str = "/scheduler/prioritize";
/// Route that drops nodes from preemption.
pub const PREEMPT_ROUTE: &str = "/scheduler/preempt";
/// Prefix under which the same routes tell who is calling: `/via/INSTALL/NODE/GENERATION/scheduler/filter`.
pub const VIA_PREFIX: &str = "/via/";
/// Route of the liveness probe, on the admin port.
pub const LIVEZ_ROUTE: &str = "/livez";
/// Route of the readiness probe, on the admin port.
pub const READYZ_ROUTE: &str = "/readyz";
/// Route of the Prometheus metrics, on the admin port and on the agent's.
pub const METRICS_ROUTE: &str = "/metrics";

/// Port of the extender.
pub const EXTENDER_PORT: u16 = 9001;
/// Port of the aggregated custom metrics API.
pub const METRICS_API_PORT: u16 = 6443;
/// Port of probes, metrics and the page.
pub const ADMIN_PORT: u16 = 9402;
/// Port of the node agent.
pub const AGENT_PORT: u16 = 9103;

/// Namespace an installation lives in.
pub const INSTALL_NAMESPACE: &str = "tas-system";
/// The Lease that says which replica writes.
pub const LEASE: &str = "tas-controller";
/// The ConfigMap in the installation's namespace that people throw switches in.
pub const SWITCHES: &str = "tas-switches";
/// Its key that pauses everything that is written on nodes, while it says `true`.
pub const PAUSE_KEY: &str = "pause";
/// Field manager of everything we apply.
pub const FIELD_MANAGER: &str = "tas";
/// Field manager of the annotation that wakes waiting pods, so that it never disturbs what else we apply.
pub const KICK_MANAGER: &str = "tas-kick";

/// The full key of a node label of `labeling`: `telemetry.aware.scheduling.<policy>/<key>`.
pub fn node_label_key(policy: &str, key: &str) -> String {
    format!("{NODE_LABEL_PREFIX}{policy}/{key}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn node_labels_read_as_intel_tas_writes_them() {
        assert_eq!(super::node_label_key("gpu", "card0"), "telemetry.aware.scheduling.gpu/card0");
    }

    #[test]
    fn joined_names_agree_with_their_parts() {
        assert_eq!(super::POLICY_API_VERSION, format!("{}/{}", super::POLICY_GROUP, super::POLICY_VERSION));
        assert_eq!(super::POLICY_CRD, format!("{}.{}", super::POLICY_PLURAL, super::POLICY_GROUP));
    }
}
