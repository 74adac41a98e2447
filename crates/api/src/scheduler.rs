//! The configuration that makes kube-scheduler ask us, and what our scores weigh in it.

use std::fmt::Write;

use crate::keys;

/// The default score plugins of kube-scheduler and their weights; each gives up to 100 points per unit of weight.
pub const DEFAULT_SCORE_PLUGINS: [(&str, u32); 7] = [
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("NodeResourcesFit", 1),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
];
/// The best score an extender gives, as kube-scheduler means it.
pub const TOP_SCORE: u32 = 10;
/// What kube-scheduler multiplies an extender's score by, beside the weight, to bring it to the scale of its plugins.
pub const SCORE_SCALE: u32 = 10;
/// The weight we recommend: our best node gets as many points as all default plugins together can give.
pub const TELEMETRY_WEIGHT: u32 = 12;
/// How long kube-scheduler may wait for us. It asks twice for each pod, and nothing on its side gives up earlier.
pub const HTTP_TIMEOUT: &str = "500ms";

/// How kube-scheduler reaches us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'a> {
    /// Its way to the API server; with a configuration file its flag `--kubeconfig` no longer counts.
    pub kubeconfig: &'a str,
    /// Where we listen, up to where the routes begin.
    pub url: &'a str,
    /// The CA of our certificate.
    pub ca_file: &'a str,
    /// The certificate it shows us.
    pub cert_file: &'a str,
    /// The key of that certificate.
    pub key_file: &'a str,
    /// The names that pods choose it by.
    pub schedulers: &'a [&'a str],
}

/// The one in our documents.
pub const DOCUMENTED: Caller<'static> = Caller {
    kubeconfig: "/etc/kubernetes/scheduler.conf",
    url: "https://tas.tas-system.svc:9001",
    ca_file: "/etc/kubernetes/tas/ca.crt",
    cert_file: "/etc/kubernetes/tas/client.crt",
    key_file: "/etc/kubernetes/tas/client.key",
    schedulers: &["default-scheduler"],
};

/// A whole configuration file for kube-scheduler: names only, verified both ways, and no pod lost without us.
pub fn configuration(caller: &Caller<'_>) -> String {
    let mut profiles = String::new();
    for name in caller.schedulers {
        // Writing to memory cannot fail.
        let _ = writeln!(profiles, "- schedulerName: {name}");
    }
    let verb = |route: &'static str| route.trim_start_matches('/');
    format!(
        "\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection:
  kubeconfig: {kubeconfig}
profiles:
{profiles}\
extenders:
- urlPrefix: {url}
  filterVerb: {filter}
  prioritizeVerb: {prioritize}
  preemptVerb: {preempt}
  weight: {TELEMETRY_WEIGHT}
  enableHTTPS: true
  tlsConfig:                            # without caFile kube-scheduler would trust anybody
    caFile: {ca}
    certFile: {cert}
    keyFile: {key}
  nodeCacheCapable: true                # names of nodes travel, not whole nodes
  httpTimeout: {HTTP_TIMEOUT}                    # what one question may cost at most; the default is 5 s
  ignorable: true                       # without an answer pods are placed as if we were not there
  managedResources:                     # only pods that ask for this are ours to judge
  - name: {resource}
    ignoredByScheduler: true
",
        kubeconfig = caller.kubeconfig,
        url = caller.url,
        filter = verb(keys::FILTER_ROUTE),
        prioritize = verb(keys::PRIORITIZE_ROUTE),
        preempt = verb(keys::PREEMPT_ROUTE),
        ca = caller.ca_file,
        cert = caller.cert_file,
        key = caller.key_file,
        resource = keys::SCHEDULING_RESOURCE,
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn our_best_node_weighs_as_much_as_all_default_plugins_together() {
        let plugins: u32 = DEFAULT_SCORE_PLUGINS.iter().map(|(_, weight)| weight * 100).sum();
        assert_eq!((plugins, TOP_SCORE * SCORE_SCALE * TELEMETRY_WEIGHT), (1200, 1200));
    }

    #[test]
    fn the_configuration_asks_by_names_checks_both_sides_and_loses_no_pod() {
        let read: Value = serde_saphyr::from_str(&configuration(&DOCUMENTED)).unwrap();
        let extender = json!({
            "urlPrefix": format!("https://tas.{}.svc:{}", keys::INSTALL_NAMESPACE, keys::EXTENDER_PORT),
            "filterVerb": "scheduler/filter",
            "prioritizeVerb": "scheduler/prioritize",
            "preemptVerb": "scheduler/preempt",
            "weight": 12,
            "enableHTTPS": true,
            "tlsConfig": {
                "caFile": "/etc/kubernetes/tas/ca.crt",
                "certFile": "/etc/kubernetes/tas/client.crt",
                "keyFile": "/etc/kubernetes/tas/client.key",
            },
            "nodeCacheCapable": true,
            "httpTimeout": "500ms",
            "ignorable": true,
            "managedResources": [{"name": "telemetry/scheduling", "ignoredByScheduler": true}],
        });
        assert_eq!(
            read,
            json!({
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
                "profiles": [{"schedulerName": "default-scheduler"}],
                "extenders": [extender],
            })
        );
    }
}
