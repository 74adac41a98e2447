//! `testbed cluster status`, `logs` and `metric`: looking at clusters, and telling their exporter what to say.

use std::fs;

use anyhow::{Context as _, bail};
use axum::http::Method;
use testbed::component::useful;
use testbed::directory::{Phase, Resident, resident, residents};
use testbed::places::Places;
use testbed::{exporter, http, processes};

use super::terminal::say;

pub(super) fn status() -> anyhow::Result<()> {
    let all = residents(&Places::of_this_user()?.state)?;
    if all.is_empty() {
        say("no clusters; start one with: testbed cluster up --nodes 3");
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
        say(format_args!("its keeper is gone; remove it with: testbed cluster down {name}"));
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
    let url = format!("{exporter}/metrics/{metric}/{node}");
    let (method, body) = match value {
        Some(value) => {
            exporter::parse(value).map_err(anyhow::Error::msg)?;
            (Method::PUT, value.to_owned())
        }
        None => (Method::DELETE, String::new()),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(http::send(method, &url, body))?;
    Ok(())
}

fn find(name: &str) -> anyhow::Result<Resident> {
    let found = resident(&Places::of_this_user()?.state, name)?;
    found.with_context(|| format!("there is no cluster {name:?}; see: testbed cluster status"))
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
