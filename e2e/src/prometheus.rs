//! Prometheus alone, with a configuration of the test's own.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use testbed::binaries::{Binaries, provide};
use testbed::component::{Component, Start};
use testbed::http;
use testbed::places::Places;
use testbed::ports::Ports;
use testbed::programs::{PROMETHEUS, PROMTOOL};
use testbed::wait::until;

use crate::PATIENCE;

/// What it says of itself when a page had a series twice, or samples out of order.
const COMPLAINTS: [&str; 3] = [
    "prometheus_target_scrapes_sample_duplicate_timestamp_total",
    "prometheus_target_scrapes_sample_out_of_order_total",
    "prometheus_target_scrapes_sample_out_of_bounds_total",
];

/// A place with ports, for programs that need no cluster.
pub struct Bench {
    directory: tempfile::TempDir,
    ports: Ports,
    binaries: Binaries,
}

impl Bench {
    /// A directory, ports, Prometheus and promtool.
    pub async fn prepare() -> Self {
        let places = Places::of_this_user().expect("there is a place for the test bed's files");
        let ports = Ports::reserve(&places.state, std::process::id()).expect("ports are free");
        let found = tokio::task::spawn_blocking(move || {
            provide(&[PROMETHEUS, PROMTOOL], &places, &mut |line| eprintln!("{line}"))
        });
        let binaries = found.await.expect("it is not cancelled").expect("Prometheus can be built");
        let directory = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir_all(directory.path().join("logs")).expect("a directory for logs");
        Self { directory, ports, binaries }
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A loopback port that nobody else of us uses.
    pub fn port(&mut self) -> u16 {
        self.ports.take().expect("a port")
    }

    /// What promtool would have named otherwise, but for the names that node_exporter gave.
    pub fn lints(&self, page: &str) -> Vec<String> {
        let mut child = Command::new(self.binaries.path(&PROMTOOL))
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("promtool starts");
        child.stdin.take().expect("piped").write_all(page.as_bytes()).expect("it reads");
        let output = child.wait_with_output().expect("it ends");
        let said =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        // 3 is "there are lints"; anything else is a page that cannot be read.
        assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
        said.lines().filter(|line| !inherited(line)).map(str::to_owned).collect()
    }

    /// Starts a program here.
    pub fn start(&self, name: &str, binary: impl Into<PathBuf>, arguments: &[&str]) -> Component {
        let start = Start {
            name: name.to_owned(),
            binary: binary.into(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: Vec::new(),
        };
        Component::start(start, self.directory()).expect("it starts")
    }

    /// Starts Prometheus with this configuration and waits until it is ready.
    pub async fn prometheus(&mut self, configuration: &str) -> Prometheus {
        let file = self.directory().join("prometheus.yaml");
        std::fs::write(&file, configuration).expect("the directory is writable");
        let address = format!("127.0.0.1:{}", self.port());
        let arguments = [
            format!("--config.file={}", file.display()),
            format!("--storage.tsdb.path={}", self.directory().join("data").display()),
            format!("--web.listen-address={address}"),
            "--log.level=warn".to_owned(),
        ];
        let component = self.start(
            "prometheus",
            self.binaries.path(&PROMETHEUS),
            &arguments.each_ref().map(String::as_str),
        );
        let url = format!("http://{address}");
        let ready = format!("{url}/-/ready");
        until("Prometheus to be ready", PATIENCE, || http::get(&ready))
            .await
            .expect("Prometheus becomes ready");
        Prometheus { component, url }
    }
}

/// The lints of node_exporter's own names, which stay as its users know them. docs/agent.md lists them.
fn inherited(lint: &str) -> bool {
    // /proc/meminfo's fields.
    let camel = " metric names should be written in 'snake_case' not 'camelCase'";
    lint.starts_with("node_memory_") && lint.ends_with(camel)
}

/// A running Prometheus.
pub struct Prometheus {
    component: Component,
    url: String,
}

/// A target as Prometheus sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The job it belongs to.
    pub job: String,
    /// Its label `page`, if it has one.
    pub page: String,
    /// `up`, `down` or `unknown`.
    pub health: String,
    /// What was wrong with the last scrape.
    pub error: String,
}

impl Prometheus {
    /// Its address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its targets, once each has been scraped.
    pub async fn targets(&self, count: usize) -> Vec<Target> {
        let url = format!("{}/api/v1/targets?state=active", self.url);
        until(format!("{count} targets to be scraped"), PATIENCE, || async {
            let body = http::get(&url).await.map_err(|error| error.to_string())?;
            let answer: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
            let targets: Vec<Target> =
                answer["data"]["activeTargets"].as_array().into_iter().flatten().map(target).collect();
            let scraped = targets.iter().filter(|target| target.health != "unknown").count();
            if scraped == count { Ok(targets) } else { Err(format!("{scraped} of {}", targets.len())) }
        })
        .await
        .expect("all are scraped")
    }

    /// Everything it has to complain about: lines of its log, and samples it did not take.
    pub async fn complaints(&self) -> Vec<String> {
        let mut complaints: Vec<String> = self.component.log().lines().map(str::to_owned).collect();
        let metrics = http::get(&format!("{}/metrics", self.url)).await.expect("its own metrics");
        let metrics = String::from_utf8_lossy(&metrics).into_owned();
        for name in COMPLAINTS {
            let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            if value != Some("0") {
                complaints.push(format!("{name} {value:?}"));
            }
        }
        complaints
    }
}

fn target(value: &Value) -> Target {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Target {
        job: text(&value["labels"]["job"]),
        page: text(&value["labels"]["page"]),
        health: text(&value["health"]),
        error: text(&value["lastError"]),
    }
}
