//! The process: start, serve, read the configuration again when asked, stop.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use chassis::shutdown::{self, Phase, Signals, Trigger};
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
    let (trigger, mut stop) = shutdown::channel();
    // On its own: nothing that is waited for below keeps a signal from being heard.
    tokio::spawn(signals.drive(trigger, Duration::ZERO));
    let prepared = tokio::select! {
        () = stop.reached(Phase::Draining) => return Ok(()),
        prepared = prepare(&config) => prepared,
    };
    let (web, secured) = prepared?;
    let desk = Arc::new(Desk::new(station, manner(&config, &web)));
    let listener = Listener::bind(config.listen).await?;
    let address = listener.local_addr().context("cannot tell the address")?;
    // With port 0 the kernel chose one.
    let config = Config { listen: address, ..config };
    let mut server = Server { listener, desk, args, config, web, web_trouble: None };
    let mut door = server.open(secured)?;
    tracing::info!(listen = %address, root = %server.config.root.display(), "serving");
    let mut looks = tokio::time::interval(LOOK_AT_WEB_EVERY);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let everything = tokio::select! {
            () = stop.reached(Phase::Draining) => break,
            _ = hangup.recv() => true,
            _ = looks.tick() => false,
        };
        tokio::select! {
            () = stop.reached(Phase::Draining) => break,
            () = server.reload(everything, &mut door) => {}
        }
    }
    drop(server);
    door.closed().await;
    tracing::info!("stopped");
    Ok(())
}

async fn prepare(config: &Config) -> anyhow::Result<(WebConfig, Secured)> {
    let web = match config.web_config.clone() {
        Some(path) => off_the_thread(move || Ok(WebConfig::read(&path)?)).await?,
        None => WebConfig::default(),
    };
    let secured = secured(web.tls.clone()).await?;
    Ok((web, secured))
}

fn manner(config: &Config, web: &WebConfig) -> Manner {
    Manner { names: config.names, users: Users::new(web.users.clone()), headers: web.headers.clone() }
}

struct Server {
    listener: Listener,
    desk: Arc<Desk>,
    args: Args,
    config: Config,
    web: WebConfig,
    /// What was wrong with the web configuration when it was looked at last: said once, not every five seconds.
    web_trouble: Option<String>,
}

/// One accept loop; a change of how TLS is spoken opens another one, and this one finishes its requests.
struct Door {
    trigger: Trigger,
    task: tokio::task::JoinHandle<()>,
}

impl Door {
    async fn closed(self) {
        self.trigger.advance(Phase::Draining);
        let _ = self.task.await;
    }
}

type Secured = Option<(Arc<tls::Live>, tls::Reloader)>;

impl Server {
    fn open(&self, secured: Secured) -> anyhow::Result<Door> {
        let (trigger, stop) = shutdown::channel();
        let listener = self.listener.share().context("cannot listen")?;
        let listener = match secured {
            Some((live, reloader)) => {
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
        Ok(Door { trigger, task })
    }

    async fn reload(&mut self, everything: bool, door: &mut Door) {
        if everything {
            self.reload_everything().await;
        }
        self.reload_web(door).await;
    }

    /// SIGHUP: the configuration file again. What is wrong is said, and what held before still holds.
    async fn reload_everything(&mut self) {
        let args = self.args.clone();
        let config = match off_the_thread(move || Ok(Config::resolve(&args)?)).await {
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
        match self.web_again(door).await {
            Ok(changed) => {
                self.web_trouble = None;
                if changed {
                    tracing::info!("web configuration read again");
                }
            }
            Err(error) => {
                let error = format!("{error:#}");
                if self.web_trouble.as_ref() != Some(&error) {
                    tracing::error!(error, "web configuration not taken over");
                    self.web_trouble = Some(error);
                }
            }
        }
    }

    /// Whether there was anything new. Until all of it can hold, all of the old does.
    async fn web_again(&mut self, door: &mut Door) -> anyhow::Result<bool> {
        let web = match self.config.web_config.clone() {
            Some(path) => {
                let held = self.web.clone();
                off_the_thread(move || Ok(WebConfig::read_again(&path, &held)?)).await?
            }
            None => WebConfig::default(),
        };
        if web == self.web {
            return Ok(false);
        }
        let opened = if web.tls == self.web.tls { None } else { Some(secured(web.tls.clone()).await?) };
        let opened = opened.map(|secured| self.open(secured)).transpose()?;
        self.web = web;
        self.desk.replace(manner(&self.config, &self.web));
        if let Some(opened) = opened {
            // Dropping the old one's trigger asks it to finish.
            *door = opened;
        }
        Ok(true)
    }
}

async fn secured(settings: Option<tls::Settings>) -> anyhow::Result<Secured> {
    let Some(settings) = settings else { return Ok(None) };
    off_the_thread(move || Ok(Some(tls::Live::load(settings, tls::unix_now())?))).await
}

/// Files may lie on storage that hangs; that must stop neither requests nor signals.
async fn off_the_thread<T: Send + 'static>(
    read: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(read).await?
}
