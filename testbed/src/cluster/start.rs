//! Bringing a cluster up: everything that can start at once does, and every wait has an end.

use std::fmt::Display;
use std::future::Future;
use std::io::Write as _;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tokio::net::TcpStream;

use super::{Cluster, ClusterError, Options, Scheduler, Telemetry};
use crate::access::{Credentials, kubeconfig};
use crate::binaries::{Binaries, provide};
use crate::component::{Component, Start};
use crate::control_plane::{AUDIT_POLICY, Layout, node_lease_seconds, prometheus_configuration};
use crate::directory::{self, Directory, Phase};
use crate::exporter::Exporter;
use crate::http;
use crate::pki::{self, Authority};
use crate::places::{Places, check_room};
use crate::ports::{self, Ports};
use crate::programs::{self, Program};
use crate::scheduler::complete;
use crate::tas::{Installation, Payload, Settings};
use crate::wait::until;

/// How long one component may take to answer on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(90);

/// What a small cluster takes; etcd alone begins with 128 MB.
const ROOM: u64 = 512 << 20;

impl Cluster {
    /// Starts a cluster with the places and programs of this user, building what is missing.
    pub async fn start(options: Options) -> Result<Self, ClusterError> {
        let places = Places::of_this_user()?;
        directory::sweep(&places.state, SystemTime::now())?;
        let mut wanted = programs::of_a_cluster(options.kubernetes);
        wanted.extend(&options.further_programs);
        let cache = places.clone();
        let found = tokio::task::spawn_blocking(move || {
            provide(&wanted, &cache, &mut |line| drop(writeln!(std::io::stderr(), "{line}")))
        });
        let binaries = found.await.map_err(|_| ClusterError::Cancelled)??;
        Self::start_with(options, &places, binaries).await
    }

    /// Starts a cluster with these programs.
    pub async fn start_with(
        options: Options,
        places: &Places,
        binaries: Binaries,
    ) -> Result<Self, ClusterError> {
        let cluster = Self::prepare(options, places, binaries).await?;
        if let Err(error) = cluster.bring_up().await {
            cluster.failed.store(true, Ordering::Relaxed);
            return Err(error);
        }
        cluster.directory.show(&cluster.card(Phase::Ready))?;
        Ok(cluster)
    }

    /// Everything that needs no process yet: directory, ports, certificates, files.
    async fn prepare(options: Options, places: &Places, binaries: Binaries) -> Result<Self, ClusterError> {
        let name = options.name.clone().unwrap_or_else(name_of_this_test);
        check_room(&places.state, ROOM)?;
        let directory = Directory::claim(&places.state, &name)?;
        let mut ports = Ports::reserve(&places.state, std::process::id())?;
        let layout = Layout {
            directory: directory.path().to_owned(),
            etcd: ports.take()?,
            etcd_peer: ports.take()?,
            api: match options.api_port {
                Some(port) => ports::check_free(port)?,
                None => ports.take()?,
            },
            controllers: ports.take()?,
            kwok: ports.take()?,
            prometheus: ports.take()?,
            node_lease_seconds: node_lease_seconds(options.nodes.len()),
        };
        let authority = certificates(&layout)?;
        directory.write("audit-policy.yaml", AUDIT_POLICY)?;
        directory.write("stages.yaml", include_str!("../stages.yaml"))?;
        let exporter = match options.telemetry {
            Telemetry::Absent => None,
            Telemetry::Scraped { every } => {
                let port = ports.take()?;
                let listening = Exporter::start(port).await;
                let exporter = listening.map_err(|cause| ClusterError::Exporter { port, cause })?;
                let interval = format!("{}ms", every.as_millis().max(1));
                directory.write("prometheus.yaml", &prometheus_configuration(port, &interval))?;
                Some(exporter)
            }
        };
        let client = client_of(&layout.kubeconfig("admin")).await?;
        let cluster = Self {
            options,
            layout,
            binaries,
            authority,
            client,
            exporter,
            tas: OnceLock::new(),
            components: Mutex::default(),
            ports: Mutex::new(ports),
            failed: AtomicBool::new(false),
            directory,
        };
        cluster.directory.show(&cluster.card(Phase::Starting))?;
        Ok(cluster)
    }

    async fn bring_up(&self) -> Result<(), ClusterError> {
        let layout = &self.layout;
        let kubernetes = self.options.kubernetes;
        let prometheus = match self.exporter {
            Some(_) => Some(self.run(&programs::PROMETHEUS, layout.prometheus_arguments())?),
            None => None,
        };
        let etcd = self.run(&programs::ETCD, layout.etcd_arguments())?;
        let health = format!("{}/health", layout.etcd_url());
        self.ready(&etcd, || http::get(&health)).await?;
        let api_server = self.run(&programs::kube_apiserver(kubernetes), layout.api_server_arguments())?;
        self.ready(&api_server, || self.api_is_ready()).await?;
        self.default_service_account().await?;

        let controllers =
            self.run(&programs::kube_controller_manager(kubernetes), layout.controller_manager_arguments())?;
        let kwok = self.run(&programs::KWOK, layout.kwok_arguments())?;
        let schedulers = async {
            for scheduler in &self.options.schedulers {
                self.start_scheduler(scheduler).await?;
            }
            Ok(())
        };
        let nodes = self.create_nodes(&self.options.nodes);
        let telemetry = async {
            let ready = format!("{}/-/ready", layout.prometheus_url());
            match &prometheus {
                Some(prometheus) => self.ready(prometheus, || http::get(&ready)).await,
                None => Ok(()),
            }
        };
        tokio::try_join!(
            self.ready(&controllers, || listening(layout.controllers)),
            self.ready(&kwok, || listening(layout.kwok)),
            schedulers,
            nodes,
            telemetry,
        )?;
        match &self.options.tas {
            Some(binary) => self.bring_up_tas(binary).await,
            None => Ok(()),
        }
    }

    async fn bring_up_tas(&self, binary: &Path) -> Result<(), ClusterError> {
        let installation = Installation::new(self).await?;
        let tas = installation.start(self, "tas", binary, &Settings::default())?;
        tas.ready(self).await?;
        let mut scheduler = installation.scheduler(Payload::NamesOnly, tas.port);
        // Of more than a hundred nodes the scheduler would ask about some. Here a person wants to see what a policy does
        // to all of them.
        scheduler.configuration.push_str("percentageOfNodesToScore: 100\n");
        self.start_scheduler(&scheduler).await?;
        self.tas.get_or_init(|| tas);
        Ok(())
    }

    /// Starts one more scheduler and waits until it listens.
    pub async fn start_scheduler(&self, scheduler: &Scheduler) -> Result<(), ClusterError> {
        let port = self.port()?;
        let configuration = self.scheduler_configuration(scheduler)?;
        let program = programs::kube_scheduler(self.options.kubernetes);
        let component = self.attach(Start {
            name: scheduler.name.clone(),
            binary: self.binaries.path(&program).to_owned(),
            arguments: self.layout.scheduler_arguments(&configuration, port),
            environment: Vec::new(),
        })?;
        self.ready(&component, || listening(port)).await
    }

    /// Gives a running scheduler another configuration, which means starting it again.
    pub async fn reconfigure_scheduler(&self, scheduler: &Scheduler) -> Result<(), ClusterError> {
        let component = self.component(&scheduler.name)?;
        self.scheduler_configuration(scheduler)?;
        component.restart()?;
        let port = scheduler_port(&component);
        self.ready(&component, || listening(port)).await
    }

    /// What a scheduler's own `/metrics` says now.
    pub async fn scheduler_metrics(&self, scheduler: &str) -> Result<String, ClusterError> {
        let mut config = config_of(&self.admin_kubeconfig()).await?;
        let at = format!("https://127.0.0.1:{}", scheduler_port(&*self.component(scheduler)?));
        config.cluster_url = at.parse().expect("written as an address");
        let page = axum::http::Request::get("/metrics").body(Vec::new()).expect("a plain request");
        Ok(Client::try_from(config)?.request_text(page).await?)
    }

    fn scheduler_configuration(&self, scheduler: &Scheduler) -> Result<PathBuf, ClusterError> {
        let text = complete(&scheduler.configuration, &self.layout.kubeconfig("kube-scheduler"))?;
        Ok(self.directory.write(&format!("{}.yaml", scheduler.name), &text)?)
    }

    fn run(
        &self,
        program: &Program,
        arguments: Vec<String>,
    ) -> Result<std::sync::Arc<Component>, ClusterError> {
        self.attach(Start {
            name: program.name.to_owned(),
            binary: self.binaries.path(program).to_owned(),
            arguments,
            environment: Vec::new(),
        })
    }

    /// Waits until a component answers; one that has ended will not, and its last words say why.
    pub async fn ready<T, E, F>(
        &self,
        component: &Component,
        mut look: impl FnMut() -> F,
    ) -> Result<(), ClusterError>
    where
        F: Future<Output = Result<T, E>>,
        E: Display,
    {
        let name = component.name().to_owned();
        until(format!("{name} to answer"), PATIENCE, || {
            let answer = look();
            let ended = component.ended();
            async move {
                match (answer.await, ended) {
                    (Ok(_), _) => Ok(Ok(())),
                    (Err(_), Some(status)) => Ok(Err(status)),
                    (Err(seen), None) => Err(seen),
                }
            }
        })
        .await?
        .map_err(|status| ClusterError::Ended {
            name,
            status,
            lines: component.useful_lines().join("\n"),
        })
    }

    /// Waits until the API server answers, as after a restart.
    pub async fn api_server_ready(&self) -> Result<(), ClusterError> {
        let component = self.component("kube-apiserver")?;
        self.ready(&component, || self.api_is_ready()).await
    }

    async fn api_is_ready(&self) -> Result<(), kube::Error> {
        let request = axum::http::Request::get("/readyz").body(Vec::new()).expect("a plain request");
        self.client.request_text(request).await.map(drop)
    }

    /// Pods are refused until the namespace has its account, which the controllers would make a little later.
    async fn default_service_account(&self) -> Result<(), ClusterError> {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let look = || async { namespaces.get("default").await.map(drop) };
        until("the namespace \"default\"", PATIENCE, look).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), "default");
        let mut account = ServiceAccount::default();
        account.metadata.name = Some("default".to_owned());
        match accounts.create(&PostParams::default(), &account).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            other => Ok(other.map(drop)?),
        }
    }
}

/// A client that comes in with this kubeconfig.
pub(crate) async fn client_of(path: &Path) -> Result<Client, ClusterError> {
    Ok(Client::try_from(config_of(path).await?)?)
}

async fn config_of(path: &Path) -> Result<Config, ClusterError> {
    let read = Kubeconfig::read_from(path).map_err(kube::Error::from);
    let config = Config::from_custom_kubeconfig(read?, &KubeConfigOptions::default()).await;
    let mut config = config.map_err(kube::Error::from)?;
    // A proxy from the developer's environment would be asked for a loopback address.
    config.proxy_url = None;
    Ok(config)
}

fn scheduler_port(scheduler: &Component) -> u16 {
    let port = scheduler.argument("secure-port").and_then(|port| port.parse().ok());
    port.expect("every scheduler is started with a port")
}

async fn listening(port: u16) -> std::io::Result<()> {
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map(drop)
}

/// Makes every certificate and kubeconfig of the control plane.
fn certificates(layout: &Layout) -> Result<Authority, ClusterError> {
    let directory = layout.directory.join("pki");
    let authority = Authority::new("ca")?;
    authority.keep(&directory)?;
    let front_proxy = Authority::new("front-proxy-ca")?;
    front_proxy.keep(&directory)?;
    pki::keep(&directory, "front-proxy-client", &front_proxy.client("front-proxy-client", None)?)?;
    let names = ["127.0.0.1", "localhost", "10.0.0.1", "kubernetes.default.svc"];
    pki::keep(&directory, "kube-apiserver", &authority.server("kube-apiserver", &names)?)?;
    pki::keep(&directory, "local", &authority.server("local", &["127.0.0.1", "localhost"])?)?;
    let (private, public) = pki::token_keys()?;
    pki::keep_secret(&layout.pki("tokens.key"), &private)?;
    pki::keep_secret(&layout.pki("tokens.pub"), &public)?;
    for (file, user, group) in [
        ("admin", "testbed:admin", Some("system:masters")),
        ("kwok", "testbed:kwok", Some("system:masters")),
        ("kube-scheduler", "system:kube-scheduler", None),
        ("kube-controller-manager", "system:kube-controller-manager", None),
    ] {
        let (certificate, key) = pki::keep(&directory, file, &authority.client(user, group)?)?;
        let credentials = Credentials::Certificate { certificate, key };
        let text = kubeconfig(&layout.api_url(), &layout.pki("ca.crt"), &credentials);
        pki::keep_secret(&layout.kubeconfig(file), &text)?;
    }
    Ok(authority)
}

/// The running test's name, made fit for a directory and told apart from its namesakes.
fn name_of_this_test() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let thread = std::thread::current();
    let test =
        thread.name().and_then(|name| name.rsplit("::").next()).unwrap_or("cluster").to_ascii_lowercase();
    let plain: String =
        test.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(24).collect();
    format!("{plain}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
