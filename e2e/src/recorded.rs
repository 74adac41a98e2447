//! Machines in directories, recorded or made, each with an agent and a node_exporter that read the same files.

use std::path::{Path, PathBuf};

use testbed::binaries::provide;
use testbed::component::Component;
use testbed::http;
use testbed::places::Places;
use testbed::programs::{NODE_EXPORTER, NODE_EXPORTER_COLLECTORS};
use testbed::recordings::{self, Machine, Source};
use testbed::wait::until;

use crate::PATIENCE;
use crate::agreement::{self, Page};
use crate::prometheus::Bench;

/// What the node is called in collectd's names.
pub const NODE: &str = "recorded";

/// A machine that both observe.
pub struct Observed {
    root: PathBuf,
    agent: String,
    exporter: String,
    // Ended when dropped.
    _processes: [Component; 2],
}

/// The directory with what is kept of a module, fetched if need be.
#[expect(
    clippy::panic,
    reason = "a test without its recordings has nothing to say, and Display reads better than Debug"
)]
pub async fn kept(source: Source) -> PathBuf {
    let fetched = tokio::task::spawn_blocking(move || {
        let places = Places::of_this_user().expect("there is a place for the test bed's files");
        recordings::provide(&source, &places, &mut |line| eprintln!("{line}"))
    });
    match fetched.await.expect("it is not cancelled") {
        Ok(kept) => kept,
        Err(error) => panic!("{error}"),
    }
}

/// Lays a machine out in a directory; returns where its `proc` and `sys` are.
pub async fn lay_out(machine: Machine, directory: PathBuf) -> PathBuf {
    let kept = kept(machine.source).await;
    let laid_out = tokio::task::spawn_blocking(move || {
        std::fs::create_dir_all(&directory).expect("the directory is writable");
        machine.lay_out(&kept, &directory)
    });
    laid_out.await.expect("it is not cancelled").expect("the recording can be laid out")
}

impl Observed {
    /// Starts both on a recorded machine.
    pub async fn recorded(bench: &mut Bench, agent: &str, machine: Machine) -> Self {
        let root = lay_out(machine, bench.directory().join(machine.name)).await;
        Self::start(bench, agent, machine.name, root).await
    }

    /// Starts both on a machine whose `proc` and `sys` are below `root`, and waits until they answer.
    pub async fn start(bench: &mut Bench, agent: &str, name: &str, root: PathBuf) -> Self {
        let exporter_program = tokio::task::spawn_blocking(|| {
            let places = Places::of_this_user().expect("there is a place for the test bed's files");
            let found = provide(&[NODE_EXPORTER], &places, &mut |line| eprintln!("{line}"));
            found.expect("node_exporter can be built").path(&NODE_EXPORTER).to_owned()
        });
        let exporter_program = exporter_program.await.expect("it is not cancelled");
        let [ours, theirs] = [bench.port(), bench.port()].map(|port| format!("127.0.0.1:{port}"));
        let flags = [
            format!("--listen={ours}"),
            format!("--root={}", root.display()),
            format!("--node-name={NODE}"),
            "--ignore-interfaces=".to_owned(),
        ];
        let agent_process = start(bench, &format!("agent-{name}"), agent.into(), &flags);
        let mut flags: Vec<String> =
            NODE_EXPORTER_COLLECTORS.iter().map(|name| format!("--collector.{name}")).collect();
        flags.extend(
            [
                "--collector.disable-defaults",
                "--web.disable-exporter-metrics",
                "--no-collector.netdev.netlink",
            ]
            .map(str::to_owned),
        );
        flags.extend([
            format!("--path.procfs={}", root.join("proc").display()),
            format!("--path.sysfs={}", root.join("sys").display()),
            format!("--web.listen-address={theirs}"),
        ]);
        let name = format!("node-exporter-{name}");
        let exporter_process = start(bench, &name, exporter_program, &flags);
        let observed = Self {
            root,
            agent: format!("http://{ours}/metrics"),
            exporter: format!("http://{theirs}/metrics"),
            _processes: [agent_process, exporter_process],
        };
        for url in [&observed.agent, &observed.exporter] {
            until(format!("{url} to answer"), PATIENCE, || http::get(url)).await.expect("it answers");
        }
        observed
    }

    /// Where the machine's `proc` and `sys` are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the agent says under these names.
    pub async fn ours(&self, names: &str) -> String {
        text(&format!("{}?names={names}", self.agent)).await
    }

    /// What the agent says under node_exporter's names, once it has read energy twice, if there is any.
    pub async fn ours_with_energy(&self) -> Page {
        let measured = self.root.join("sys/class/powercap").is_dir();
        let page = until("everything that is sampled twice", PATIENCE, || async {
            let page = agreement::read(&self.ours("node").await)?;
            let there = page.keys().any(|family| family.starts_with("node_rapl_"));
            if there || !measured { Ok(page) } else { Err("no energy yet".to_owned()) }
        });
        page.await.expect("two readings are enough")
    }

    /// What node_exporter says, as it would without the directory that the machine is laid out in.
    pub async fn theirs(&self) -> Page {
        let text = text(&self.exporter).await;
        agreement::read(&text.replace(&self.root.display().to_string(), "")).expect("a page")
    }
}

fn start(bench: &Bench, name: &str, program: PathBuf, flags: &[String]) -> Component {
    bench.start(name, program, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

async fn text(url: &str) -> String {
    let body = http::get(url).await.expect("it answers");
    String::from_utf8(body.to_vec()).expect("UTF-8")
}
