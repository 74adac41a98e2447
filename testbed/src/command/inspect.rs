//! `testbed cluster status`, `env`, `logs` and `metric`: looking at clusters, and telling their exporter what to say.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use axum::http::Method;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};

use crate::binaries::provide;
use crate::cluster::start::client_of;
use crate::component::useful;
use crate::directory::{Phase, Resident, resident, residents};
use crate::places::Places;
use crate::{exporter, http, processes, programs};

use super::terminal::{mention, say};

pub(super) fn status() -> anyhow::Result<()> {
    let all = residents(&Places::of_this_user()?.state)?;
    if all.is_empty() {
        say("no clusters; start one with: cargo xtask cluster up --nodes 3");
        return Ok(());
    }
    say(format_args!("{:32} {:9} {:11} API", "NAME", "STATE", "KUBERNETES"));
    for one in all {
        let kubernetes = one.card.as_ref().map_or("", |card| card.kubernetes.as_str());
        let api = one.card.as_ref().map_or("", |card| card.api.as_str());
        say(format_args!(
            "{:32} {:9} {kubernetes:11} {}",
            one.name,
            state(&one),
            if one.alive { api } else { "" }
        ));
    }
    Ok(())
}

pub(super) fn status_of(name: &str) -> anyhow::Result<()> {
    let one = find(name)?;
    say(format_args!("{name}: {}", state(&one)));
    say(format_args!("directory: {}", one.path.display()));
    if !one.alive {
        say(format_args!("its keeper is gone; remove it with: cargo xtask cluster down {name}"));
    }
    if let Some(card) = one.card {
        say(format_args!("{card}"));
    }
    for pid in processes::belonging_to(&one.path) {
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        say(format_args!("{pid:>8} {}", command.trim()));
    }
    Ok(())
}

pub(super) fn logs(name: &str, component: Option<&str>) -> anyhow::Result<()> {
    let directory = find(name)?.path.join("logs");
    let read = |file: &str| -> anyhow::Result<String> {
        let path = directory.join(file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut files: Vec<String> = fs::read_dir(&directory)
        .with_context(|| format!("cannot read {}", directory.display()))?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    if let Some(component) = component {
        let file = format!("{component}.log");
        if !files.contains(&file) {
            let known: Vec<&str> = files.iter().filter_map(|file| file.strip_suffix(".log")).collect();
            bail!("cluster {name:?} has no component {component:?}; it has {}", known.join(", "));
        }
        say(read(&file)?.trim_end());
        return Ok(());
    }
    say(format_args!("# {}", directory.display()));
    for file in files.iter().filter(|file| *file != "audit.log") {
        say(format_args!("--- {file}"));
        for line in useful(&read(file)?, true) {
            say(format_args!("{line}"));
        }
    }
    Ok(())
}

pub(super) fn set_metric(name: &str, metric: &str, node: &str, value: Option<&str>) -> anyhow::Result<()> {
    let one = find(name)?;
    let Some(exporter) = one.card.filter(|_| one.alive).and_then(|card| card.exporter) else {
        bail!("cluster {name:?} is not running, so there is nothing that could be scraped");
    };
    let (method, body) = match value {
        Some(value) => {
            exporter::parse(value).map_err(anyhow::Error::msg)?;
            (Method::PUT, value.to_owned())
        }
        None => (Method::DELETE, String::new()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let nodes = match node {
            "all" => names_of_nodes(&kubeconfig(&one.path)).await?,
            one => vec![one.to_owned()],
        };
        for node in &nodes {
            http::send(method.clone(), &format!("{exporter}/metrics/{metric}/{node}"), body.clone()).await?;
        }
        Ok(())
    })
}

async fn names_of_nodes(kubeconfig: &Path) -> anyhow::Result<Vec<String>> {
    let nodes: Api<Node> = Api::all(client_of(kubeconfig).await?);
    let listed = nodes.list_metadata(&ListParams::default()).await.context("cannot list the nodes")?;
    Ok(listed.items.into_iter().filter_map(|node| node.metadata.name).collect())
}

/// Two lines for a shell.
pub(super) fn environment(name: &str) -> anyhow::Result<()> {
    let places = Places::of_this_user()?;
    let one = find(name)?;
    let Some(card) = one.card.filter(|_| one.alive) else {
        bail!("cluster {name:?} is not running; start it with: cargo xtask cluster up {name}");
    };
    let kubectl = programs::kubectl(card.kubernetes.parse()?);
    let binaries = provide(&[kubectl], &places, &mut |line| mention(line))?;
    let directory = binaries.path(&kubectl).parent().map(Path::to_owned).unwrap_or_default();
    say(format_args!("export KUBECONFIG={}", quoted(&kubeconfig(&one.path))));
    say(format_args!("export PATH={}:\"$PATH\"", quoted(&directory)));
    Ok(())
}

pub(super) fn kubeconfig(directory: &Path) -> PathBuf {
    directory.join("pki/admin.kubeconfig")
}

/// As a shell reads it back, whatever is in it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

pub(super) fn find(name: &str) -> anyhow::Result<Resident> {
    let found = resident(&Places::of_this_user()?.state, name)?;
    found.with_context(|| format!("there is no cluster {name:?}; see: cargo xtask cluster status"))
}

/// In a word.
fn state(one: &Resident) -> &'static str {
    match (&one.card, one.alive) {
        (Some(card), true) if card.phase == Phase::Ready => "ready",
        (_, true) => "starting",
        (Some(card), false) if card.phase == Phase::Failed => "failed",
        (_, false) => "killed",
    }
}
