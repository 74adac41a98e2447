//! `testbed cluster up`, `run` and `down`: a cluster's beginning and end.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::binaries::provide;
use crate::directory::{self, Card, DirectoryError, Phase, Resident, evict, resident};
use crate::places::{FileTrouble, Places};
use crate::{Cluster, Options, Scheduler, objects, processes, programs};
use anyhow::{Context as _, bail};
use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

use super::Shape;
use super::terminal::{mention, say};

/// How long an orderly end may take before it is made a quick one.
const ORDERLY: Duration = Duration::from_secs(20);

/// Starts `cluster run` in the background and waits until it is ready.
pub(super) fn up(shape: &Shape) -> anyhow::Result<()> {
    let started = Instant::now();
    let places = Places::of_this_user()?;
    // What can be refused is refused here, in front of the person, and not in a log.
    options(shape)?;
    match resident(&places.state, &shape.name)? {
        Some(running) if running.alive => return Err(DirectoryError::Occupied { name: running.name }.into()),
        Some(_) => mention(format_args!("removing what an earlier cluster {:?} left behind", shape.name)),
        None => {}
    }
    provide(&programs::of_a_cluster(shape.kubernetes), &places, &mut |line| mention(line))?;
    let log = places.state.join(format!("{}.log", shape.name));
    let mut keeper = keep(shape, &log)?;
    let ready = loop {
        let found = resident(&places.state, &shape.name)?;
        match found.and_then(|found| found.card) {
            Some(card) if card.pid == keeper.id() && card.phase == Phase::Ready => break card,
            _ => {}
        }
        if let Some(status) = keeper.try_wait().context("cannot ask after the cluster's keeper")? {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let _ = fs::remove_file(&log);
            let said = said.trim().strip_prefix("error: ").unwrap_or(said.trim());
            bail!("the cluster did not start ({status}); {said}");
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let _ = fs::remove_file(&log);
    say(format_args!("cluster {:?} is ready after {:.1} s", shape.name, started.elapsed().as_secs_f64()));
    print_access(&shape.name, &ready);
    Ok(())
}

/// Keeps a cluster until it is told to end.
pub(super) fn run(shape: &Shape) -> anyhow::Result<()> {
    let options = options(shape)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let told_to_end = async {
            tokio::select! {
                _ = interrupt.recv() => (),
                _ = terminate.recv() => (),
                _ = hang_up.recv() => (),
            }
        };
        let life = async {
            let started = Instant::now();
            let _cluster = Cluster::start(options).await?;
            say(format_args!("ready after {:.1} s", started.elapsed().as_secs_f64()));
            let found = resident(&Places::of_this_user()?.state, &shape.name)?;
            if let Some(card) = found.and_then(|found| found.card) {
                print_access(&shape.name, &card);
            }
            std::future::pending::<anyhow::Result<()>>().await
        };
        // Whichever comes first; the cluster is dropped, and so ended, with the future that holds it.
        tokio::select! {
            () = told_to_end => Ok(()),
            failed = life => failed,
        }
    })
}

/// Ends a cluster and waits until it is gone.
pub(super) fn down(name: &str) -> anyhow::Result<()> {
    let places = Places::of_this_user()?;
    let Some(found) = resident(&places.state, name)? else {
        let names: Vec<String> =
            directory::residents(&places.state)?.into_iter().map(|one| one.name).collect();
        let known = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        bail!("there is no cluster {name:?}; known: {known}");
    };
    if found.alive {
        end(&places.state, &found)?;
    }
    if let Some(left) = resident(&places.state, name)? {
        evict(&left)?;
    }
    say(format_args!("cluster {name:?} is gone"));
    Ok(())
}

fn end(state: &Path, found: &Resident) -> anyhow::Result<()> {
    let Some(card) = &found.card else {
        bail!("cluster {:?} has only just begun to start; try again in a second", found.name);
    };
    let lives = || -> anyhow::Result<bool> { Ok(resident(state, &found.name)?.is_some_and(|now| now.alive)) };
    for (kind, patience) in [(Signal::TERM, ORDERLY), (Signal::KILL, ORDERLY)] {
        if lives()? {
            processes::signal(card.pid, kind).with_context(|| {
                format!("cannot end the keeper of {:?} (process {})", found.name, card.pid)
            })?;
        }
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if !lives()? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    bail!("cluster {:?} does not end; its keeper is process {}", found.name, card.pid)
}

fn options(shape: &Shape) -> anyhow::Result<Options> {
    let schedulers = match &shape.scheduler_config {
        // It is started by whoever attaches tas, when it is known where to ask.
        None if shape.tas.is_some() => Vec::new(),
        None => vec![Scheduler::plain()],
        Some(path) => {
            let text = fs::read_to_string(path).map_err(|cause| FileTrouble::new("read", path, cause))?;
            crate::scheduler::complete(&text, Path::new("kubeconfig"))?;
            vec![Scheduler::configured(text)]
        }
    };
    if let Some(path) = shape.tas.as_deref().filter(|path| !path.is_file()) {
        bail!("there is no program {}; build it with: cargo build --package tas-cli", path.display());
    }
    if let Some(port) = shape.api_port {
        crate::ports::check_free(port)?;
    }
    Ok(Options {
        name: Some(shape.name.clone()),
        kubernetes: shape.kubernetes,
        nodes: objects::nodes("node", usize::try_from(shape.nodes)?),
        schedulers,
        tas: shape.tas.clone(),
        api_port: shape.api_port,
        ..Options::default()
    })
}

/// Starts ourselves with `cluster run`, deaf to the terminal, talking to a file.
fn keep(shape: &Shape, log: &PathBuf) -> anyhow::Result<std::process::Child> {
    if let Some(parent) = log.parent() {
        fs::create_dir_all(parent).map_err(|cause| FileTrouble::new("create", parent, cause))?;
    }
    let output = File::create(log).map_err(|cause| FileTrouble::new("create", log, cause))?;
    let mut command = Command::new(std::env::current_exe().context("cannot find myself")?);
    command.args(["cluster", "run", &shape.name, "--nodes", &shape.nodes.to_string()]);
    command.args(["--kubernetes", &shape.kubernetes.to_string()]);
    if let Some(path) = &shape.scheduler_config {
        command.arg("--scheduler-config").arg(path);
    }
    if let Some(path) = &shape.tas {
        command.arg("--tas").arg(path);
    }
    if let Some(port) = shape.api_port {
        command.args(["--api-port", &port.to_string()]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).process_group(0);
    command.spawn().context("cannot start the cluster's keeper")
}

fn print_access(name: &str, card: &Card) {
    say(format_args!("API server: {}", card.api));
    if let Some(prometheus) = &card.prometheus {
        say(format_args!("Prometheus: {prometheus}"));
    }
    if let Some(tas) = &card.tas {
        say(format_args!("tas:        {tas}/metrics"));
    }
    say("next:");
    say(format_args!(
        "  eval \"$(cargo xtask cluster env {name})\"    # KUBECONFIG, and kubectl of this version"
    ));
    say(format_args!("  cargo xtask cluster metric {name} node_power_watts node-1 32.5"));
    say(format_args!("  cargo xtask cluster logs {name}{}", if card.tas.is_some() { " tas" } else { "" }));
    say(format_args!("  cargo xtask cluster down {name}"));
}
