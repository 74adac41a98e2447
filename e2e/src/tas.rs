//! `tas serve` in a cluster, under its generated rights and over mutual TLS, with kube-scheduler calling it.

use api::scheduler::{Caller, DOCUMENTED};
use testbed::component::Start;
use testbed::pki::{self, Authority};
use testbed::wait::until;
use testbed::{Cluster, Options, Scheduler, http, objects::NodeShape};

use crate::{PATIENCE, started};

const DEFINITION: &str = include_str!("../../deploy/crds/telemetry.intel.com_taspolicies.yaml");
const RIGHTS: &str = include_str!("../../deploy/rbac/tas-serve.yaml");

/// What the scheduler sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Names of nodes: what we document.
    NamesOnly,
    /// Whole nodes: what Intel's documents configure.
    FullNodes,
}

/// A cluster whose scheduler asks `tas`.
pub struct Attached {
    /// The cluster.
    pub cluster: Cluster,
    admin: String,
}

impl Attached {
    /// Starts a cluster of these nodes and attaches `binary`, which is `tas`.
    pub async fn start(binary: &str, nodes: &[&str], payload: Payload) -> Self {
        let nodes = nodes.iter().map(|name| NodeShape::new(*name)).collect();
        let cluster = started(Options { nodes, ..Options::default() }).await;
        let kubeconfig =
            cluster.service_account("tas-system", "tas-serve").await.expect("an account for tas");
        cluster.apply(DEFINITION).await.expect("the definition is accepted");
        cluster.apply(RIGHTS).await.expect("the rights are granted");

        let directory = cluster.directory().join("tas");
        std::fs::create_dir_all(&directory).expect("a directory for tas");
        let authority = Authority::new("tas").expect("a CA");
        let (ca, _) = authority.keep(&directory).expect("the CA is kept");
        let server = authority.server("tas", &["127.0.0.1"]).expect("a certificate for tas");
        let client = authority.client("kube-scheduler", None).expect("a certificate for the scheduler");
        let (server_certificate, server_key) = pki::keep(&directory, "server", &server).expect("kept");
        let (client_certificate, client_key) = pki::keep(&directory, "client", &client).expect("kept");

        let port = cluster.port().expect("a port");
        let admin_port = cluster.port().expect("a port");
        let path = |path: &std::path::Path| path.display().to_string();
        let arguments = [
            ("--kubeconfig", path(&kubeconfig)),
            ("--prometheus-url", cluster.layout().prometheus_url()),
            ("--sync-period", "1s".to_owned()),
            ("--bind-address", "127.0.0.1".to_owned()),
            ("--port", port.to_string()),
            ("--cert", path(&server_certificate)),
            ("--key", path(&server_key)),
            ("--cacert", path(&ca)),
            ("--client-name", "kube-scheduler".to_owned()),
            ("--admin-bind-address", "127.0.0.1".to_owned()),
            ("--admin-port", admin_port.to_string()),
        ];
        let start = Start {
            name: "tas".to_owned(),
            binary: binary.into(),
            arguments: ["serve".to_owned()]
                .into_iter()
                .chain(arguments.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]))
                .collect(),
            environment: Vec::new(),
        };
        cluster.attach(start).expect("tas starts");
        let attached = Self { cluster, admin: format!("http://127.0.0.1:{admin_port}") };
        attached.ready().await;
        let configuration = configuration(
            payload,
            port,
            [path(&ca), path(&client_certificate), path(&client_key)].each_ref().map(String::as_str),
        );
        attached
            .cluster
            .reconfigure_scheduler(&Scheduler::configured(configuration))
            .await
            .expect("the scheduler takes the configuration");
        attached
    }

    /// Waits until `tas` is ready.
    pub async fn ready(&self) {
        let url = format!("{}/readyz", self.admin);
        until("tas to be ready", PATIENCE, || async {
            http::get(&url).await.map(|_| ()).map_err(|error| error.to_string())
        })
        .await
        .expect("tas becomes ready");
    }

    /// What `/metrics` says now.
    pub async fn metrics(&self) -> Result<String, String> {
        let body = http::get(&format!("{}/metrics", self.admin)).await.map_err(|error| error.to_string())?;
        String::from_utf8(body.to_vec()).map_err(|error| error.to_string())
    }

    /// Waits until `/metrics` has this line.
    pub async fn says(&self, line: &str) {
        until(&format!("/metrics to say {line}"), PATIENCE, || async {
            let metrics = self.metrics().await?;
            let family = line.split(['{', ' ']).next().unwrap_or_default();
            let found: Vec<&str> = metrics.lines().filter(|found| found.starts_with(family)).collect();
            if found.contains(&line) { Ok(()) } else { Err(found.join("\n")) }
        })
        .await
        .expect("tas knows");
    }

    /// Sets a metric on these nodes and applies a policy that looks at it, then waits until `tas` has both.
    pub async fn policy(&self, policy: &str, metric: &str, values: &[(&str, f64)]) {
        for (node, value) in values {
            self.cluster.set_metric(&format!("node_{metric}"), node, *value).await.expect("scraped");
        }
        self.cluster.apply(policy).await.expect("the policy is accepted");
        self.says(&format!("tas_feed_metric_nodes{{metric=\"{metric}\"}} {:.1}", as_float(values.len())))
            .await;
    }

    /// Where the pod of this manifest goes.
    pub async fn placed(&self, name: &str, manifest: &str) -> String {
        self.cluster.apply(manifest).await.expect("the pod is accepted");
        self.cluster.bound("default", name, PATIENCE).await.expect("it is bound")
    }

    /// What the scheduler says about a pod that cannot be placed.
    pub async fn refusal(&self, pod: &str) -> String {
        until("the scheduler's event", PATIENCE, || async {
            let events = self.cluster.events("default", pod).await.map_err(|error| error.to_string())?;
            let failure =
                events.into_iter().find(|event| event.reason.as_deref() == Some("FailedScheduling"));
            failure.and_then(|event| event.message).ok_or_else(|| "no such event".to_owned())
        })
        .await
        .expect("the scheduler says why")
    }
}

fn as_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// What makes the scheduler ask us: by names it is the configuration of our documents, with whole nodes the stanza
/// that Intel's documents print, but for the CA (without which kube-scheduler checks nobody) and the weight of
/// Intel's own test suite. Addresses and files are this cluster's in both.
fn configuration(payload: Payload, port: u16, [ca_file, cert_file, key_file]: [&str; 3]) -> String {
    let url = &format!("https://127.0.0.1:{port}");
    if payload == Payload::NamesOnly {
        let schedulers = &["default-scheduler", "secondary-scheduler"];
        let caller = Caller { url, ca_file, cert_file, key_file, schedulers, ..DOCUMENTED };
        return api::scheduler::configuration(&caller);
    }
    format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\n\
         kind: KubeSchedulerConfiguration\n\
         profiles:\n\
         - schedulerName: default-scheduler\n\
         - schedulerName: secondary-scheduler\n\
         extenders:\n\
         - urlPrefix: {url}\n\
         \x20 filterVerb: scheduler/filter\n\
         \x20 prioritizeVerb: scheduler/prioritize\n\
         \x20 weight: 100\n\
         \x20 enableHTTPS: true\n\
         \x20 nodeCacheCapable: false\n\
         \x20 ignorable: true\n\
         \x20 managedResources:\n\
         \x20 - name: telemetry/scheduling\n\
         \x20   ignoredByScheduler: true\n\
         \x20 tlsConfig:\n\
         \x20   insecure: false\n\
         \x20   caFile: {ca_file}\n\
         \x20   certFile: {cert_file}\n\
         \x20   keyFile: {key_file}\n"
    )
}
