//! The arguments of every program of the control plane. Pure: paths and ports go in, a command line comes out.

use std::path::{Path, PathBuf};

/// The files and ports that the command lines speak of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The cluster's directory.
    pub directory: PathBuf,
    /// etcd for the API server.
    pub etcd: u16,
    /// etcd for its peers, of which there are none.
    pub etcd_peer: u16,
    /// The API server.
    pub api: u16,
    /// The controllers' own health and metrics.
    pub controllers: u16,
    /// KWOK's health.
    pub kwok: u16,
    /// Prometheus.
    pub prometheus: u16,
    /// How long a node may be silent before it counts as lost.
    pub node_lease_seconds: u32,
}

/// What the API server writes down: who asked for what, except the control plane's own chatter.
pub const AUDIT_POLICY: &str = r#"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  users: ["system:apiserver", "system:kube-scheduler", "system:kube-controller-manager", "testbed:kwok", "testbed:admin"]
- level: None
  userGroups: ["system:serviceaccounts:kube-system", "system:nodes"]
- level: None
  nonResourceURLs: ["/readyz*", "/livez*", "/healthz*", "/version*", "/openapi*", "/api", "/api/*", "/apis", "/apis/*"]
- level: Metadata
"#;

impl Layout {
    /// The API server as clients see it.
    pub fn api_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.api)
    }

    /// etcd as the API server sees it.
    pub fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.etcd)
    }

    /// Prometheus as everybody sees it.
    pub fn prometheus_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.prometheus)
    }

    /// A certificate or key.
    pub fn pki(&self, file: &str) -> PathBuf {
        self.directory.join("pki").join(file)
    }

    /// A kubeconfig.
    pub fn kubeconfig(&self, user: &str) -> PathBuf {
        self.directory.join("pki").join(format!("{user}.kubeconfig"))
    }

    /// A log file.
    pub fn log(&self, file: &str) -> PathBuf {
        self.directory.join("logs").join(file)
    }

    /// etcd: nothing in it outlives the test, so it need not wait for the disk.
    pub fn etcd_arguments(&self) -> Vec<String> {
        let client = self.etcd_url();
        let peer = format!("http://127.0.0.1:{}", self.etcd_peer);
        Arguments::new()
            .path("data-dir", &self.directory.join("data/etcd"))
            .text("listen-client-urls", &client)
            .text("advertise-client-urls", &client)
            .text("listen-peer-urls", &peer)
            .text("initial-advertise-peer-urls", &peer)
            .text("initial-cluster", &format!("default={peer}"))
            .text("quota-backend-bytes", "4294967296")
            .text("log-level", "warn")
            .flag("unsafe-no-fsync")
            .done()
    }

    /// The API server: RBAC and the aggregation layer as in a real cluster.
    ///
    /// Nothing routes cluster addresses here, so it announces none (`endpoint-reconciler-type`), and aggregated APIs
    /// are reached through services of type `ExternalName`, which it resolves without a route.
    pub fn api_server_arguments(&self) -> Vec<String> {
        Arguments::new()
            .text("etcd-servers", &self.etcd_url())
            .text("bind-address", "127.0.0.1")
            .text("secure-port", &self.api.to_string())
            .text("advertise-address", "10.254.254.1")
            .text("endpoint-reconciler-type", "none")
            .text("service-cluster-ip-range", "10.0.0.0/16")
            .path("tls-cert-file", &self.pki("kube-apiserver.crt"))
            .path("tls-private-key-file", &self.pki("kube-apiserver.key"))
            .path("client-ca-file", &self.pki("ca.crt"))
            .text("authorization-mode", "Node,RBAC")
            .text("enable-admission-plugins", "NodeRestriction")
            .flag("allow-privileged")
            .text("service-account-issuer", "https://kubernetes.default.svc")
            .path("service-account-key-file", &self.pki("tokens.pub"))
            .path("service-account-signing-key-file", &self.pki("tokens.key"))
            .path("requestheader-client-ca-file", &self.pki("front-proxy-ca.crt"))
            .text("requestheader-allowed-names", "front-proxy-client")
            .text("requestheader-extra-headers-prefix", "X-Remote-Extra-")
            .text("requestheader-group-headers", "X-Remote-Group")
            .text("requestheader-username-headers", "X-Remote-User")
            .path("proxy-client-cert-file", &self.pki("front-proxy-client.crt"))
            .path("proxy-client-key-file", &self.pki("front-proxy-client.key"))
            .path("audit-policy-file", &self.directory.join("audit-policy.yaml"))
            .path("audit-log-path", &self.log("audit.log"))
            .text("max-requests-inflight", "3000")
            .text("max-mutating-requests-inflight", "1500")
            .flag("profiling=false")
            .done()
    }

    /// The controllers, each under its own service account as in a real cluster.
    pub fn controller_manager_arguments(&self) -> Vec<String> {
        let kubeconfig = self.kubeconfig("kube-controller-manager");
        Arguments::new()
            .path("kubeconfig", &kubeconfig)
            .path("authentication-kubeconfig", &kubeconfig)
            .path("authorization-kubeconfig", &kubeconfig)
            .text("bind-address", "127.0.0.1")
            .text("secure-port", &self.controllers.to_string())
            .path("tls-cert-file", &self.pki("local.crt"))
            .path("tls-private-key-file", &self.pki("local.key"))
            // A hint for kubelets, of which there are none; it would be rewritten on every node as their number grows.
            .text("controllers", "*,-ttl-controller")
            .flag("leader-elect=false")
            .flag("use-service-account-credentials")
            .path("service-account-private-key-file", &self.pki("tokens.key"))
            .path("root-ca-file", &self.pki("ca.crt"))
            .path("cluster-signing-cert-file", &self.pki("ca.crt"))
            .path("cluster-signing-key-file", &self.pki("ca.key"))
            .text("node-monitor-grace-period", &format!("{}s", self.node_lease_seconds + 15))
            .text("kube-api-qps", "500")
            .text("kube-api-burst", "1000")
            .flag("profiling=false")
            .done()
    }

    /// A scheduler with this configuration file on this port.
    pub fn scheduler_arguments(&self, configuration: &Path, port: u16) -> Vec<String> {
        let kubeconfig = self.kubeconfig("kube-scheduler");
        Arguments::new()
            .path("config", configuration)
            .path("authentication-kubeconfig", &kubeconfig)
            .path("authorization-kubeconfig", &kubeconfig)
            .text("bind-address", "127.0.0.1")
            .text("secure-port", &port.to_string())
            .path("tls-cert-file", &self.pki("local.crt"))
            .path("tls-private-key-file", &self.pki("local.key"))
            .done()
    }

    /// KWOK plays only the nodes that say so, which leaves room for a real kubelet beside it.
    pub fn kwok_arguments(&self) -> Vec<String> {
        Arguments::new()
            .path("kubeconfig", &self.kubeconfig("kwok"))
            .path("config", &self.directory.join("stages.yaml"))
            .text("manage-all-nodes", "false")
            .text("manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake")
            .text("node-lease-duration-seconds", &self.node_lease_seconds.to_string())
            .text("v", "WARN")
            .text("cidr", "10.64.0.1/12")
            .text("server-address", &format!("127.0.0.1:{}", self.kwok))
            .done()
    }

    /// Prometheus, with nothing to remember.
    pub fn prometheus_arguments(&self) -> Vec<String> {
        Arguments::new()
            .path("config.file", &self.directory.join("prometheus.yaml"))
            .path("storage.tsdb.path", &self.directory.join("data/prometheus"))
            .text("web.listen-address", &format!("127.0.0.1:{}", self.prometheus))
            .text("log.level", "warn")
            .done()
    }
}

/// KWOK renews every lease four times in its duration: thousands of nodes want long leases, few want quick detection.
pub fn node_lease_seconds(nodes: usize) -> u32 {
    u32::try_from(nodes / 5).unwrap_or(u32::MAX).clamp(40, 600)
}

/// Scrapes the exporter whose values a test sets; the labels it gives are taken as they are.
pub fn prometheus_configuration(exporter: u16, scrape_interval: &str) -> String {
    format!(
        "global: {{scrape_interval: {scrape_interval}, evaluation_interval: {scrape_interval}}}\n\
         scrape_configs:\n\
         - job_name: nodes\n\
         \x20 honor_labels: true\n\
         \x20 static_configs: [{{targets: [\"127.0.0.1:{exporter}\"]}}]\n"
    )
}

struct Arguments(Vec<String>);

impl Arguments {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn text(mut self, name: &str, value: &str) -> Self {
        self.0.push(format!("--{name}={value}"));
        self
    }

    fn path(self, name: &str, value: &Path) -> Self {
        let value = value.display().to_string();
        self.text(name, &value)
    }

    fn flag(mut self, name: &str) -> Self {
        self.0.push(format!("--{name}"));
        self
    }

    fn done(self) -> Vec<String> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leases_are_short_for_a_few_nodes_and_long_for_thousands() {
        assert_eq!([3, 1000, 1_000_000].map(node_lease_seconds), [40, 200, 600]);
    }

    #[test]
    fn prometheus_scrapes_the_exporter_and_keeps_its_labels() {
        assert_eq!(
            prometheus_configuration(15007, "1s"),
            "global: {scrape_interval: 1s, evaluation_interval: 1s}\n\
             scrape_configs:\n\
             - job_name: nodes\n\
             \x20 honor_labels: true\n\
             \x20 static_configs: [{targets: [\"127.0.0.1:15007\"]}]\n"
        );
    }
}
