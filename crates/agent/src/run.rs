//! The process: start, serve, read the configuration again when asked, stop.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chassis::shutdown::{self, Phase, Shutdown, Signals, Trigger};
use chassis::{Counters, Limits, Listener, tls};
use clap::Parser;
use hyper::service::service_fn;
use tokio::signal::unix::{SignalKind, signal};

use crate::answer::{Desk, Manner};
use crate::args::{Args, Config};
use crate::collectors;
use crate::explain;
use crate::host::Host;
use crate::instruments::Instruments;
use crate::moment::system_clock;
use crate::page::Format;
use crate::station::{self, SOURCE_DEADLINE, Station};
use crate::users::Users;
use crate::web_config::WebConfig;

/// Long enough for three readings of everything that is sampled once a second.
const ONCE: Duration = Duration::from_millis(2_300);
/// How often the web configuration is looked at.
const LOOK_AT_WEB_EVERY: Duration = Duration::from_secs(5);

/// What a server of ours allows its callers; less than most, because a node has other things to do.
pub fn limits() -> Limits {
    Limits {
        connections: 64,
        header_bytes: 16 * 1024,
        drain_deadline: Duration::from_secs(2),
        ..Limits::default()
    }
}

/// The program from its arguments to its exit code.
pub fn main() -> ExitCode {
    let args = Args::parse();
    // Who asks for one page or for the table reads there what is missing, and need not read it twice.
    let level = if args.once || args.explain { tracing::Level::WARN } else { tracing::Level::INFO };
    let logs = tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(level);
    if args.log_json {
        logs.json().init();
    } else {
        logs.with_ansi(false).init();
    }
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tas-agent: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs until a signal, or until the one page is printed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let config = Config::resolve(args)?;
    let collectors = collectors::all(&Host::at(&config.root), &config.settings);
    let instruments = Instruments::new(collectors, &config.node_name, system_clock());
    let args = args.clone();
    let ended = station::run(instruments, SOURCE_DEADLINE, |station| async move {
        if args.once || args.explain {
            print(&args, &config, &station).await
        } else {
            serve(args, config, station).await
        }
    });
    ended.context("cannot start")?
}

async fn print(args: &Args, config: &Config, station: &Station) -> anyhow::Result<()> {
    if args.once {
        tokio::time::sleep(ONCE).await;
    }
    let page = station.page(Format::Text, config.names).await?;
    let text = if args.explain {
        explain::report(&station.instruments(), &config.root, args.output.unwrap_or_default())?.into_bytes()
    } else {
        page
    };
    match std::io::stdout().write_all(&text) {
        // Whoever reads may have seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

async fn serve(args: Args, config: Config, station: Arc<Station>) -> anyhow::Result<()> {
    let signals = Signals::install().context("cannot listen for signals")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    let web = read_web(&config)?;
    let desk = Arc::new(Desk::new(station, manner(&config, &web)));
    let (trigger, stop) = shutdown::channel();
    let mut server = Server { desk, args, config, web, web_trouble: None, stop };
    let mut door = server.open().await?;
    // With port 0 the kernel chose one; a door opened later is to be the same.
    server.config.listen = door.address;
    tracing::info!(listen = %door.address, root = %server.config.root.display(), "serving");
    let leaving = async {
        signals.drive(trigger, Duration::ZERO).await;
    };
    tokio::pin!(leaving);
    let mut looks = tokio::time::interval(LOOK_AT_WEB_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = &mut leaving => break,
            _ = hangup.recv() => {
                server.reload_everything();
                server.reload_web(&mut door).await;
            }
            _ = looks.tick() => server.reload_web(&mut door).await,
        }
    }
    door.closed().await;
    tracing::info!("stopped");
    Ok(())
}

fn read_web(config: &Config) -> anyhow::Result<WebConfig> {
    match &config.web_config {
        Some(path) => Ok(WebConfig::read(path)?),
        None => Ok(WebConfig::default()),
    }
}

fn manner(config: &Config, web: &WebConfig) -> Manner {
    Manner { names: config.names, users: Users::new(web.users.clone()), headers: web.headers.clone() }
}

struct Server {
    desk: Arc<Desk>,
    args: Args,
    config: Config,
    web: WebConfig,
    /// What was wrong with the web configuration when it was looked at last: said once, not every five seconds.
    web_trouble: Option<String>,
    stop: Shutdown,
}

/// One accept loop; a change of how TLS is spoken opens another one.
struct Door {
    address: SocketAddr,
    trigger: Trigger,
    task: tokio::task::JoinHandle<()>,
}

impl Door {
    async fn closed(self) {
        self.trigger.advance(Phase::Draining);
        let _ = self.task.await;
    }
}

impl Server {
    async fn open(&self) -> anyhow::Result<Door> {
        let listener = Listener::bind(self.config.listen).await?;
        let address = listener.local_addr().context("cannot tell the address")?;
        let (trigger, stop) = shutdown::channel();
        let listener = match &self.web.tls {
            Some(settings) => {
                let (live, reloader) = tls::Live::load(settings.clone(), tls::unix_now())?;
                tokio::spawn(reloader.run(tls::LOOK_EVERY, stop.clone()));
                listener.with_tls(live)
            }
            None => listener,
        };
        let desk = Arc::clone(&self.desk);
        let service = service_fn(move |request| {
            let desk = Arc::clone(&desk);
            async move { desk.answer(request).await }
        });
        let served = chassis::serve(listener, service, limits(), Arc::new(Counters::default()), stop);
        let task = tokio::spawn(async move {
            served.await;
        });
        Ok(Door { address, trigger, task })
    }

    /// SIGHUP: the configuration file again. What is wrong is said, and what held before still holds.
    fn reload_everything(&mut self) {
        let config = match Config::resolve(&self.args) {
            Ok(config) => config,
            Err(error) => return tracing::error!(%error, "configuration not taken over"),
        };
        let moved = config.listen.port() != 0 && config.listen != self.config.listen;
        if moved || config.node_name != self.config.node_name {
            tracing::warn!("a new address or node name takes a restart");
        }
        self.desk.station().replace(collectors::all(&Host::at(&config.root), &config.settings));
        self.config =
            Config { listen: self.config.listen, node_name: self.config.node_name.clone(), ..config };
        self.desk.replace(manner(&self.config, &self.web));
        tracing::info!("configuration read again");
    }

    /// The web configuration, if it has changed. Certificates are watched on their own.
    async fn reload_web(&mut self, door: &mut Door) {
        let web = match self.config.web_config.clone() {
            Some(path) => look_at_web(path).await,
            None => Ok(WebConfig::default()),
        };
        let web = match web {
            Ok(web) => web,
            Err(error) => return self.web_not_taken_over(&error),
        };
        if web == self.web {
            self.web_trouble = None;
            return;
        }
        let old = std::mem::replace(&mut self.web, web);
        self.desk.replace(manner(&self.config, &self.web));
        if old.tls != self.web.tls
            && let Err(error) = self.reopen(door).await
        {
            self.web = old;
            self.desk.replace(manner(&self.config, &self.web));
            return self.web_not_taken_over(&error);
        }
        self.web_trouble = None;
        tracing::info!("web configuration read again");
    }

    fn web_not_taken_over(&mut self, error: &anyhow::Error) {
        let error = format!("{error:#}");
        if self.web_trouble.as_ref() != Some(&error) {
            tracing::error!(error, "web configuration not taken over");
            self.web_trouble = Some(error);
        }
    }

    /// The port is free once the old loop has stopped accepting; its requests finish in their own time.
    async fn reopen(&self, door: &mut Door) -> anyhow::Result<()> {
        // Whether the new files can serve is found out before the old door is shut.
        if let Some(settings) = &self.web.tls {
            tls::Live::load(settings.clone(), tls::unix_now())?;
        }
        door.trigger.advance(Phase::Draining);
        let mut tries = 0;
        *door = loop {
            match self.open().await {
                Ok(door) => break door,
                Err(error) if tries == 50 || self.stop.phase() >= Phase::Draining => return Err(error),
                Err(_) => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        };
        Ok(())
    }
}

/// The file may lie on storage that hangs; that must not stop the requests.
async fn look_at_web(path: PathBuf) -> anyhow::Result<WebConfig> {
    Ok(tokio::task::spawn_blocking(move || WebConfig::read(&path)).await??)
}
