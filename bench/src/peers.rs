//! Intel TAS as its documents run it: prometheus-adapter behind the aggregation layer, and the extender over
//! mutual TLS. Both come from the test bed, built when asked for.

use std::path::Path;
use std::sync::Arc;

use testbed::cluster::AggregatedApi;
use testbed::component::{Component, Start};
use testbed::programs::{INTEL_TAS, PROMETHEUS_ADAPTER, Program};
use testbed::{Cluster, ClusterError, pki};

/// What has to be found or built before a cluster is started for it.
pub(crate) const PROGRAMS: [Program; 2] = [PROMETHEUS_ADAPTER, INTEL_TAS];

/// The rule of Intel's chart: node metrics by the name behind `node_`, the bare series as query.
const ADAPTER_RULES: &str = "\
rules:
- seriesQuery: '{__name__=~\"^node_.*\",node!=\"\"}'
  resources: {overrides: {node: {resource: node}}}
  name: {matches: \"^node_(.*)$\", as: \"\"}
  metricsQuery: '<<.Series>>{<<.LabelMatchers>>}'
";

/// Certificates for the extender's port: files in PEM.
pub(crate) struct Certificates<'a> {
    pub(crate) ca: &'a Path,
    pub(crate) certificate: &'a Path,
    pub(crate) key: &'a Path,
}

/// Intel TAS and what it needs.
pub(crate) struct IntelTas {
    pub(crate) adapter: Arc<Component>,
    pub(crate) tas: Arc<Component>,
    pub(crate) port: u16,
}

impl IntelTas {
    /// Starts both; they may do everything, so that no missing right is what is measured.
    pub(crate) async fn start(
        cluster: &Cluster,
        certificates: Certificates<'_>,
        sync_period: &str,
    ) -> Result<Self, ClusterError> {
        let adapter = start_adapter(cluster).await?;
        let path = |path: &Path| path.display().to_string();
        let port = cluster.port()?;
        let user = cluster.user("intel-tas", Some("system:masters"))?;
        let arguments = [
            ("--kubeConfig", path(&user)),
            ("--port", port.to_string()),
            ("--cert", path(certificates.certificate)),
            ("--key", path(certificates.key)),
            ("--cacert", path(certificates.ca)),
            ("--syncPeriod", sync_period.to_owned()),
            ("--v", "2".to_owned()),
        ];
        let tas = attach(cluster, &INTEL_TAS, &arguments)?;
        Ok(Self { adapter, tas, port })
    }

    /// Both processes.
    pub(crate) fn components(&self) -> [&Component; 2] {
        [&self.tas, &self.adapter]
    }
}

async fn start_adapter(cluster: &Cluster) -> Result<Arc<Component>, ClusterError> {
    let port = cluster.port()?;
    let directory = cluster.directory().join("pki");
    let leaf = cluster.authority().server("adapter", &["prometheus-adapter.monitoring.svc", "localhost"])?;
    let (certificate, key) = pki::keep(&directory, "prometheus-adapter-server", &leaf)?;
    let rules = cluster.directory().join("adapter.yaml");
    std::fs::write(&rules, ADAPTER_RULES)
        .map_err(|cause| testbed::places::FileTrouble::new("write", &rules, cause))?;
    let path = |path: &Path| path.display().to_string();
    let user = path(&cluster.user("prometheus-adapter", Some("system:masters"))?);
    let arguments = [
        ("--bind-address", "127.0.0.1".to_owned()),
        ("--secure-port", port.to_string()),
        ("--tls-cert-file", path(&certificate)),
        ("--tls-private-key-file", path(&key)),
        ("--lister-kubeconfig", user.clone()),
        ("--authentication-kubeconfig", user.clone()),
        ("--authorization-kubeconfig", user),
        ("--prometheus-url", cluster.layout().prometheus_url()),
        ("--metrics-relist-interval", "5s".to_owned()),
        ("--metrics-max-age", "30s".to_owned()),
        ("--config", path(&rules)),
    ];
    let adapter = attach(cluster, &PROMETHEUS_ADAPTER, &arguments)?;
    let api = AggregatedApi {
        group: "custom.metrics.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        namespace: "monitoring".to_owned(),
        service: "prometheus-adapter".to_owned(),
        port,
    };
    cluster.aggregate(&api).await?;
    Ok(adapter)
}

fn attach(
    cluster: &Cluster,
    program: &Program,
    arguments: &[(&str, String)],
) -> Result<Arc<Component>, ClusterError> {
    cluster.attach(Start {
        name: program.name.to_owned(),
        binary: cluster.binaries().path(program).to_owned(),
        arguments: arguments.iter().flat_map(|(flag, value)| [(*flag).to_owned(), value.clone()]).collect(),
        environment: Vec::new(),
    })
}
