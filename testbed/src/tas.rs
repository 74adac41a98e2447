//! `tas serve` in a cluster: under its generated rights, over mutual TLS, called by kube-scheduler.
//!
//! The rights, the definition and the scheduler's configuration are the ones that are shipped and documented; only
//! addresses and files are the cluster's. Nothing here runs as an administrator.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use api::scheduler::{Caller, DOCUMENTED};

use crate::cluster::{Cluster, ClusterError, Scheduler};
use crate::component::{Component, Start};
use crate::http;
use crate::pki::{self, Authority};
use crate::places::FileTrouble;
use crate::wait::{TimedOut, until};

const DEFINITION: &str = include_str!("../../deploy/crds/telemetry.intel.com_taspolicies.yaml");
const RIGHTS: &str = include_str!("../../deploy/rbac/tas-serve.yaml");

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// What the scheduler sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Names of nodes: what we document.
    NamesOnly,
    /// Whole nodes: what Intel's documents configure.
    FullNodes,
}

/// What `tas` needs in a cluster beside its own process: definition, rights, certificates.
pub struct Installation {
    kubeconfig: PathBuf,
    directory: PathBuf,
    authority: Authority,
    rotations: AtomicU32,
}

/// How one `tas serve` is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where it finds Prometheus; the cluster's own if nothing is said.
    pub prometheus: Option<String>,
    /// Further arguments; what they say about metrics and their period goes before ours.
    pub arguments: Vec<String>,
}

/// A running `tas serve`.
#[derive(Clone, Debug)]
pub struct Replica {
    /// Its process.
    pub component: Arc<Component>,
    /// Where the scheduler asks it.
    pub port: u16,
    /// Its admin port's address.
    pub admin: String,
}

impl Installation {
    /// Installs the definition and the rights and makes certificates for server and scheduler.
    pub async fn new(cluster: &Cluster) -> Result<Self, ClusterError> {
        let kubeconfig = cluster.service_account("tas-system", "tas-serve").await?;
        cluster.apply(DEFINITION).await?;
        cluster.apply(RIGHTS).await?;
        let directory = cluster.directory().join("tas");
        fs::create_dir_all(&directory).map_err(|cause| FileTrouble::new("create", &directory, cause))?;
        let authority = Authority::new("ca")?;
        let installation = Self { kubeconfig, directory, authority, rotations: AtomicU32::new(0) };
        installation.rotate()?;
        Ok(installation)
    }

    /// The authority that `tas` and the scheduler believe.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A file of the certificates in use: `ca.crt`, `server.crt`, `server.key`, `client.crt`, `client.key`.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.join("certificates").join(name)
    }

    /// Puts new leaves of server and client in the place of the old, all at once, as a mounted Secret changes.
    pub fn rotate(&self) -> Result<(), ClusterError> {
        let turn = self.rotations.fetch_add(1, Ordering::Relaxed);
        let fresh = self.directory.join(format!("certificates-{turn}"));
        fs::create_dir_all(&fresh).map_err(|cause| FileTrouble::new("create", &fresh, cause))?;
        self.authority.keep(&fresh)?;
        pki::keep(&fresh, "server", &self.authority.server("tas", &["127.0.0.1"])?)?;
        pki::keep(&fresh, "client", &self.authority.client("kube-scheduler", None)?)?;
        let (link, next) = (self.directory.join("certificates"), self.directory.join("next"));
        symlink(&fresh, &next)
            .and_then(|()| fs::rename(&next, &link))
            .map_err(|cause| FileTrouble::new("replace", &link, cause))?;
        Ok(())
    }

    /// Starts `binary`, which is `tas`, under this name.
    pub fn start(
        &self,
        cluster: &Cluster,
        name: &str,
        binary: &Path,
        settings: &Settings,
    ) -> Result<Replica, ClusterError> {
        let (port, admin_port) = (cluster.port()?, cluster.port()?);
        let path = |path: PathBuf| path.display().to_string();
        let ours = [
            ("--kubeconfig", path(self.kubeconfig.clone())),
            ("--bind-address", "127.0.0.1".to_owned()),
            ("--port", port.to_string()),
            ("--cert", path(self.file("server.crt"))),
            ("--key", path(self.file("server.key"))),
            ("--cacert", path(self.file("ca.crt"))),
            ("--client-name", "kube-scheduler".to_owned()),
            ("--admin-bind-address", "127.0.0.1".to_owned()),
            ("--admin-port", admin_port.to_string()),
        ];
        let mut arguments = vec!["serve".to_owned()];
        arguments.extend(ours.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]));
        let unsaid = |flag: &str| !settings.arguments.iter().any(|argument| argument == flag);
        if unsaid("--sync-period") {
            arguments.extend(["--sync-period".to_owned(), "1s".to_owned()]);
        }
        if unsaid("--metrics") {
            let given = settings.prometheus.clone();
            let url = given.unwrap_or_else(|| cluster.layout().prometheus_url());
            arguments.extend(["--prometheus-url".to_owned(), url]);
        }
        arguments.extend(settings.arguments.iter().cloned());
        let start =
            Start { name: name.to_owned(), binary: binary.to_owned(), arguments, environment: Vec::new() };
        let component = cluster.attach(start)?;
        Ok(Replica { component, port, admin: format!("http://127.0.0.1:{admin_port}") })
    }

    /// The scheduler, asking at this port.
    ///
    /// By names its configuration is the one of our documents, with whole nodes the stanza that Intel's documents
    /// print, but for the CA (without which kube-scheduler checks nobody) and the weight of Intel's own test suite.
    pub fn scheduler(&self, payload: Payload, port: u16) -> Scheduler {
        let file = |name: &str| self.file(name).display().to_string();
        let (ca, cert, key) = (file("ca.crt"), file("client.crt"), file("client.key"));
        let url = &format!("https://127.0.0.1:{port}");
        if payload == Payload::NamesOnly {
            let schedulers = &["default-scheduler", "secondary-scheduler"];
            let (ca_file, cert_file, key_file) = (&*ca, &*cert, &*key);
            let caller = Caller { url, ca_file, cert_file, key_file, schedulers, ..DOCUMENTED };
            return Scheduler::configured(api::scheduler::configuration(&caller));
        }
        Scheduler::configured(format!(
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
             \x20   caFile: {ca}\n\
             \x20   certFile: {cert}\n\
             \x20   keyFile: {key}\n"
        ))
    }
}

impl Replica {
    /// Waits until it is ready; one that has ended will not be, and its last words say why.
    pub async fn ready(&self, cluster: &Cluster) -> Result<(), ClusterError> {
        let url = format!("{}/readyz", self.admin);
        cluster.ready(&self.component, || http::get(&url)).await
    }

    /// What `/metrics` says now.
    pub async fn metrics(&self) -> Result<String, String> {
        metrics(&self.admin).await
    }

    /// The value of a series, written as `/metrics` writes it up to the value; nothing if it is not there.
    pub async fn value(&self, series: &str) -> Result<Option<f64>, String> {
        reading(&self.admin, series).await
    }

    /// Waits until `/metrics` has this line.
    pub async fn says(&self, line: &str) -> Result<(), TimedOut> {
        until(format!("/metrics to say {line}"), PATIENCE, || async {
            let metrics = self.metrics().await?;
            let family = line.split(['{', ' ']).next().unwrap_or_default();
            let found: Vec<&str> = metrics.lines().filter(|found| found.starts_with(family)).collect();
            if found.contains(&line) { Ok(()) } else { Err(found.join("\n")) }
        })
        .await
    }
}

async fn metrics(admin: &str) -> Result<String, String> {
    let body = http::get(&format!("{admin}/metrics")).await.map_err(|error| error.to_string())?;
    String::from_utf8(body.to_vec()).map_err(|error| error.to_string())
}

/// The value of a series of the `tas` with this admin address; nothing if it is not there.
pub(crate) async fn reading(admin: &str, series: &str) -> Result<Option<f64>, String> {
    let metrics = metrics(admin).await?;
    let found = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    found.map(|value| value.parse().map_err(|_| format!("{series} is {value:?}"))).transpose()
}
