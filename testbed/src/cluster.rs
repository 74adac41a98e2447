//! A whole cluster: started by one call, gone when dropped.
//!
//! `start` brings it up, `work` is what tests do in it, `users` is how others come in. A further node with a real
//! kubelet, and `tas` itself, are components like the ones here: see [`Cluster::attach`].

mod aggregation;
pub(crate) mod start;
mod users;
mod work;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use kube::Client;

pub use self::aggregation::AggregatedApi;

use crate::audit::{self, AuditError};
use crate::binaries::{Binaries, BinariesError};
use crate::component::{Component, ComponentError, Start};
use crate::control_plane::Layout;
use crate::directory::{Card, Directory, DirectoryError, Phase};
use crate::exporter::Exporter;
use crate::http::HttpError;
use crate::objects::NodeShape;
use crate::pki::{Authority, PkiError};
use crate::places::{FileTrouble, PlacesError};
use crate::ports::{Ports, PortsError};
use crate::processes;
use crate::programs::{Kubernetes, Program};
use crate::scheduler::{self, ConfigurationError};
use crate::tas::Replica;
use crate::wait::TimedOut;

/// What kind of cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its name; a test is given one made of its own name.
    pub name: Option<String>,
    /// The Kubernetes minor.
    pub kubernetes: Kubernetes,
    /// Nodes that KWOK plays, there and ready when the start is over.
    pub nodes: Vec<NodeShape>,
    /// Schedulers; usually one.
    pub schedulers: Vec<Scheduler>,
    /// Whether there is a Prometheus.
    pub telemetry: Telemetry,
    /// Programs beside the control plane's own that the test will attach, such as the descheduler.
    pub further_programs: Vec<Program>,
    /// The program `tas`, to be attached and asked by the scheduler. A test that wants more say attaches it itself.
    pub tas: Option<PathBuf>,
    /// The API server's port, if it matters.
    pub api_port: Option<u16>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            name: None,
            kubernetes: Kubernetes::default(),
            nodes: Vec::new(),
            schedulers: vec![Scheduler::plain()],
            telemetry: Telemetry::Scraped { every: Duration::from_secs(1) },
            further_programs: Vec::new(),
            tas: None,
            api_port: None,
        }
    }
}

/// A scheduler process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduler {
    /// The component's name. The name that pods ask for is in the configuration's profiles.
    pub name: String,
    /// A `KubeSchedulerConfiguration` in YAML; the way to the API server is added to it.
    pub configuration: String,
}

impl Scheduler {
    /// The default scheduler, without extenders.
    pub fn plain() -> Self {
        Self { name: "kube-scheduler".to_owned(), configuration: scheduler::PLAIN.to_owned() }
    }

    /// The default scheduler with this configuration.
    pub fn configured(configuration: impl Into<String>) -> Self {
        Self { name: "kube-scheduler".to_owned(), configuration: configuration.into() }
    }
}

/// Whether there is a Prometheus, and how often it looks at the exporter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telemetry {
    /// None: the cluster starts sooner.
    Absent,
    /// Prometheus scrapes the exporter whose values the test sets.
    Scraped {
        /// The time between two scrapes.
        every: Duration,
    },
}

/// Something about a cluster went wrong.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "every variant says in its message what it is")]
pub enum ClusterError {
    #[error(transparent)]
    Places(#[from] PlacesError),
    #[error(transparent)]
    Binaries(#[from] BinariesError),
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    #[error(transparent)]
    Ports(#[from] PortsError),
    #[error(transparent)]
    File(#[from] FileTrouble),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Component(#[from] ComponentError),
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error(transparent)]
    Waited(#[from] TimedOut),
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error("{name} ended ({status}) instead of answering{}; its last words:\n{lines}", why(lines))]
    Ended { name: String, status: ExitStatus, lines: String },
    #[error("the API server says: {0}")]
    Api(#[from] Box<kube::Error>),
    #[error("there is no component {name:?} in this cluster; there are {known}")]
    NoSuchComponent { name: String, known: String },
    #[error("kubectl {arguments} failed: {output}")]
    Kubectl { arguments: String, output: String },
    #[error("this cluster was started without telemetry; use Telemetry::Scraped")]
    NoTelemetry,
    #[error("the exporter cannot listen on port {port}: {cause}")]
    Exporter { port: u16, cause: std::io::Error },
    #[error("a task of the test bed was cancelled")]
    Cancelled,
}

impl From<kube::Error> for ClusterError {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

/// A running cluster. Dropping it ends every process and removes its directory; when a test fails, the logs stay and
/// the lines worth reading are printed.
pub struct Cluster {
    options: Options,
    layout: Layout,
    binaries: Binaries,
    authority: Authority,
    client: Client,
    exporter: Option<Exporter>,
    tas: OnceLock<Replica>,
    components: Mutex<Vec<Arc<Component>>>,
    ports: Mutex<Ports>,
    failed: AtomicBool,
    directory: Directory,
}

impl Cluster {
    /// A client with all rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The kubeconfig of the user with all rights, for `kubectl` and people.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig("admin")
    }

    /// The cluster's directory.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Ports and files, for programs that are attached.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The programs that were found or built for it.
    pub fn binaries(&self) -> &Binaries {
        &self.binaries
    }

    /// The authority that the API server believes; signs users and servers.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A loopback port that is this cluster's for its life.
    pub fn port(&self) -> Result<u16, ClusterError> {
        Ok(held(&self.ports).take()?)
    }

    /// The exporter that Prometheus scrapes.
    pub fn exporter(&self) -> Result<&Exporter, ClusterError> {
        self.exporter.as_ref().ok_or(ClusterError::NoTelemetry)
    }

    /// The `tas` that the options asked for.
    pub fn tas(&self) -> Option<&Replica> {
        self.tas.get()
    }

    /// A component by name: to be killed, paused, restarted or read.
    pub fn component(&self, name: &str) -> Result<Arc<Component>, ClusterError> {
        let components = held(&self.components);
        components.iter().find(|component| component.name() == name).cloned().ok_or_else(|| {
            let known: Vec<String> = components.iter().map(|component| component.name().to_owned()).collect();
            ClusterError::NoSuchComponent { name: name.to_owned(), known: known.join(", ") }
        })
    }

    /// Starts one more program in this cluster. It shares the cluster's fate and is reached by name like the others.
    ///
    /// This is where `tas` joins: the real binary, a kubeconfig from [`Cluster::service_account`], ports from
    /// [`Cluster::port`]. A real node joins the same way: containerd and kubelet are two more programs, with a
    /// certificate of `system:node:NAME` in `system:nodes` from [`Cluster::user`]; KWOK leaves such a node alone.
    pub fn attach(&self, start: Start) -> Result<Arc<Component>, ClusterError> {
        let component = Arc::new(Component::start(start, self.directory.path())?);
        held(&self.components).push(Arc::clone(&component));
        Ok(component)
    }

    /// Everything that was asked of the API server by anyone but the control plane itself.
    pub fn audit(&self) -> Result<Vec<audit::Request>, ClusterError> {
        let path = self.layout.log("audit.log");
        let log = std::fs::read(&path).map_err(|cause| FileTrouble::new("read", &path, cause))?;
        Ok(audit::read(&String::from_utf8_lossy(&log))?)
    }

    /// What other processes may know about this cluster.
    fn card(&self, phase: Phase) -> Card {
        let scraped = self.exporter.as_ref();
        Card {
            pid: std::process::id(),
            kubernetes: self.options.kubernetes.to_string(),
            phase,
            api: self.layout.api_url(),
            prometheus: scraped.map(|_| self.layout.prometheus_url()),
            exporter: scraped.map(|exporter| format!("http://127.0.0.1:{}", exporter.port())),
            tas: self.tas.get().map(|tas| tas.admin.clone()),
        }
    }

    /// The lines of all logs that a person looking for the cause would read.
    fn report(&self) -> String {
        let mut report =
            format!("cluster failed; logs are kept in {}\n", self.directory.join("logs").display());
        for component in held(&self.components).iter() {
            let lines = component.useful_lines();
            let ended = component.ended().map(|status| format!(" (ended: {status})")).unwrap_or_default();
            if !lines.is_empty() || !ended.is_empty() {
                let _ = writeln!(report, "--- {}{ended}\n{}", component.name(), lines.join("\n"));
            }
        }
        report
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let failed = self.failed.load(Ordering::Relaxed) || std::thread::panicking();
        if std::thread::panicking() {
            // Through the macro, so that a test harness shows it with the test it belongs to.
            eprint!("{}", self.report());
        } else if failed {
            let _ = std::io::stderr().write_all(self.report().as_bytes());
        }
        // Clients first, the store last: so the logs do not end with everybody complaining about everybody.
        for component in held(&self.components).iter().rev() {
            component.kill();
        }
        processes::kill_all_of(self.directory.path());
        if failed {
            let _ = self.directory.show(&self.card(Phase::Failed));
            self.directory.keep_logs();
        } else {
            self.directory.remove();
        }
    }
}

/// What the last words mean, where a person can do something about it.
fn why(lines: &str) -> &'static str {
    if lines.contains("address already in use") {
        return " because somebody else has taken its port in the meantime, so start it once more";
    }
    if lines.contains("no space left on device") {
        return " because the disk is full; free some space, or set TAS_TESTBED_STATE to another disk";
    }
    ""
}

/// A value whose last holder panicked is still the value; a test's panic must not stop the clean-up.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_that_a_person_can_do_something_about_are_explained() {
        let ended = |lines: &str| {
            let status = std::os::unix::process::ExitStatusExt::from_raw(256);
            ClusterError::Ended { name: "etcd".to_owned(), status, lines: lines.to_owned() }.to_string()
        };
        assert_eq!(
            ended("bind: address already in use"),
            "etcd ended (exit status: 1) instead of answering because somebody else has taken its port in the meantime, \
             so start it once more; its last words:\nbind: address already in use"
        );
        assert!(ended("write: no space left on device").contains("set TAS_TESTBED_STATE to another disk"));
        assert_eq!(ended("no"), "etcd ended (exit status: 1) instead of answering; its last words:\nno");
    }
}
