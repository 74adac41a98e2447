//! The manifests that most tests write: a policy of one rule, and a pod that names it.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use testbed::objects;

/// The pod of the OpenShift document, word for word.
pub const TASDEMO: &str = "\
apiVersion: v1
kind: Pod
metadata:
  name: tasdemo
  namespace: default
  labels:
    app: demo
    telemetry-policy: power-policy
spec:
  containers:
    - name: tasdemo
      image: nginx:1.14.2
      ports:
        - containerPort: 80
      resources:
        limits:
          telemetry/scheduling: 1
  schedulerName: secondary-scheduler
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms:
          - matchExpressions:
              - key: power-policy
                operator: NotIn
                values:
                  - violating
";

/// A policy in `default` with one rule, given as the inside of a YAML map.
pub fn policy(name: &str, strategy: &str, rule: &str) -> String {
    policy_with(name, &[], &[(strategy, rule)])
}

/// A policy in `default` with further fields of its spec, a line each, and a rule for each strategy.
pub fn policy_with(name: &str, spec: &[&str], strategies: &[(&str, &str)]) -> String {
    let mut rules = String::new();
    for (strategy, rule) in strategies {
        // Writing to memory cannot fail.
        let _ = write!(rules, "    {strategy}:\n      rules:\n      - {{{rule}}}\n");
    }
    let mut fields = String::new();
    for field in spec {
        let _ = writeln!(fields, "  {field}");
    }
    format!(
        "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n{fields}  strategies:\n{rules}"
    )
}

/// A pod in `default` that names a policy and asks for the resource, so that the scheduler asks `tas` about it.
pub fn pod(name: &str, policy: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default, labels: {{telemetry-policy: {policy}}}}}\n\
         spec:\n  containers:\n  - name: busybox\n    image: busybox\n    resources: {{limits: {{telemetry/scheduling: 1}}}}\n"
    )
}

/// The same pod without the resource: `tas` never hears of it.
pub fn plain_pod(name: &str) -> String {
    pod(name, "none").replace("resources: {limits: {telemetry/scheduling: 1}}", "resources: {}")
}

/// A small pod that names a policy and asks for the resource, for tests that create many.
pub fn pod_object(name: &str, policy: &str) -> Pod {
    let mut pod = objects::pod(name);
    pod.metadata.labels = Some([("telemetry-policy".to_owned(), policy.to_owned())].into());
    let resources =
        json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"telemetry/scheduling": "1"}});
    let containers = &mut pod.spec.as_mut().expect("a pod has a spec").containers;
    containers[0].resources = serde_json::from_value(resources).expect("written as resources");
    pod
}
