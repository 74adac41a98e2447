//! What `tas serve` costs beside Intel TAS with prometheus-adapter, on one real control plane: idle, and by the
//! call with whole nodes. `cargo xtask bench serve [--nodes N] [--policies N] [--alone]`.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use testbed::component::Component;
use testbed::tas::{Installation, Replica, Settings};
use testbed::wait::until;
use testbed::{Cluster, Options, Telemetry, objects};

use crate::cpu;
use crate::extender_cost::caller::{self, Target};
use crate::peers::{self, Certificates, IntelTas};

const METRICS: usize = 50;
const SYNC: &str = "2s";
const SETTLE: Duration = Duration::from_secs(15);
const WATCHED: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_mins(5);
const ROUNDS: usize = 5;

/// What to measure.
#[derive(Debug, PartialEq, Eq)]
struct Extent {
    nodes: usize,
    policies: usize,
    /// Without the peers.
    alone: bool,
}

impl Extent {
    fn parse(words: &[&str]) -> Result<Self, String> {
        let mut extent = Self { nodes: 1_000, policies: 50, alone: false };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut number = || {
                let text = words.next().copied().unwrap_or_default();
                text.parse()
                    .map_err(|_| format!("{word} {text:?} is not a number; write it like {word} 1000"))
            };
            match *word {
                "--nodes" => extent.nodes = number()?,
                "--policies" => extent.policies = number()?,
                "--alone" => extent.alone = true,
                other => {
                    return Err(format!(
                        "serve does not know {other:?}; it takes --nodes, --policies, --alone"
                    ));
                }
            }
        }
        Ok(extent)
    }
}

/// What was seen while nothing changed.
struct Idle {
    /// In cores.
    cpu: f64,
    resident: u64,
    lists: usize,
    requests: usize,
}

pub(crate) fn run(words: &[&str]) -> io::Result<()> {
    let extent = Extent::parse(words).map_err(io::Error::other)?;
    let binary = build()?;
    tokio::runtime::Runtime::new()?
        .block_on(measure(&extent, &binary))
        .map_err(|problem| io::Error::other(problem.to_string()))
}

/// The shipped program, built as a user would build it.
fn build() -> io::Result<PathBuf> {
    let status = std::process::Command::new(env!("CARGO"))
        .args(["build", "--release", "--package", "tas-cli", "--bin", "tas"])
        .status()?;
    if !status.success() {
        return Err(io::Error::other("tas could not be built"));
    }
    Ok(std::env::current_exe()?.with_file_name("tas"))
}

type Trouble = Box<dyn std::error::Error + Send + Sync>;

async fn measure(extent: &Extent, binary: &Path) -> Result<(), Trouble> {
    let Extent { nodes, policies, alone } = *extent;
    println!("{nodes} quiet nodes, {policies} policies, {METRICS} metrics, both look every {SYNC}");
    let cluster = Cluster::start(Options {
        nodes: objects::nodes("node", nodes),
        schedulers: Vec::new(),
        telemetry: Telemetry::Scraped { every: Duration::from_secs(5) },
        further_programs: if alone { Vec::new() } else { peers::PROGRAMS.to_vec() },
        ..Options::default()
    })
    .await?;
    let installation = Installation::new(&cluster).await?;
    quiet_metrics(&cluster, nodes).await?;
    cluster.apply(&policies_of(policies)).await?;

    let settings =
        Settings { arguments: ["--sync-period", SYNC].map(str::to_owned).into(), ..Settings::default() };
    let ours = installation.start(&cluster, "tas", binary, &settings)?;
    ours.ready(&cluster).await?;
    ours.says(&format!("tas_feed_metric_nodes{{metric=\"m{:02}\"}} {nodes}.0", policies.min(METRICS) - 1))
        .await?;
    let idle_ours = idle(&cluster, &[&ours.component], "tas-serve").await?;
    print_idle("tas serve", &idle_ours);
    if alone {
        return Ok(());
    }

    ours.component.pause()?;
    let (ca, certificate, key) =
        (installation.file("ca.crt"), installation.file("server.crt"), installation.file("server.key"));
    let certificates = Certificates { ca: &ca, certificate: &certificate, key: &key };
    let theirs = IntelTas::start(&cluster, certificates, SYNC).await?;
    let target = target_of(&installation, theirs.port)?;
    let small = whole_nodes(&cluster, 10).await?;
    until("Intel TAS to know its policies", PATIENCE, || async {
        caller::answer_length(&target, &small).map_err(|error| error.to_string()).map(drop)
    })
    .await?;
    let idle_theirs = idle(&cluster, &theirs.components(), "intel-tas").await?;
    print_idle("Intel TAS + adapter", &idle_theirs);
    println!("  tas / Intel TAS + adapter: CPU 1/{:.0} (budget 1/20)\n", idle_theirs.cpu / idle_ours.cpu);

    for count in [100, nodes] {
        calls(&cluster, &installation, &ours, &theirs, count).await?;
    }
    Ok(())
}

/// The same value everywhere, for ever.
async fn quiet_metrics(cluster: &Cluster, nodes: usize) -> Result<(), Trouble> {
    let exporter = cluster.exporter()?;
    for metric in 0..METRICS {
        for node in 1..=nodes {
            exporter.set(&format!("node_m{metric:02}"), &format!("node-{node}"), 50.0);
        }
    }
    let counted = format!("count(node_m{:02})", METRICS - 1);
    until("Prometheus to have every series", PATIENCE, || async {
        let series = cluster.query(&counted).await.map_err(|error| error.to_string())?;
        let all = series.iter().any(|one| one.value.1 == nodes.to_string());
        if all { Ok(()) } else { Err(format!("{series:?}")) }
    })
    .await?;
    Ok(())
}

fn policies_of(count: usize) -> String {
    let mut text = String::new();
    for policy in 0..count {
        let rule =
            format!("rules: [{{metricname: m{:02}, operator: GreaterThan, target: 80}}]", policy % METRICS);
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "---\napiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\n\
             metadata: {{name: quiet-{policy:03}, namespace: default}}\n\
             spec: {{strategies: {{dontschedule: {{{rule}}}, deschedule: {{{rule}}}}}}}"
        );
    }
    text
}

/// Watches processes, and what their user asks of the API server, while nothing changes.
async fn idle(cluster: &Cluster, components: &[&Component], user: &str) -> Result<Idle, Trouble> {
    tokio::time::sleep(SETTLE).await;
    let pids: Vec<u32> = components.iter().filter_map(|component| component.pid()).collect();
    let asked = || -> Result<_, Trouble> {
        let all = cluster.audit()?;
        let of_user = all.into_iter().filter(|request| request.user.username.ends_with(user));
        Ok(of_user.map(|request| request.verb).collect::<Vec<_>>())
    };
    let spent = || pids.iter().map(|pid| cpu::ticks_of(*pid)).sum::<Duration>();
    let (before, asked_before, started) = (spent(), asked()?, Instant::now());
    tokio::time::sleep(WATCHED).await;
    let cpu = spent().saturating_sub(before);
    let asked = asked()?.split_off(asked_before.len());
    Ok(Idle {
        cpu: cpu.as_secs_f64() / started.elapsed().as_secs_f64(),
        resident: pids.iter().map(|pid| cpu::status_of(*pid, "VmRSS:")).sum(),
        lists: asked.iter().filter(|verb| *verb == "list").count(),
        requests: asked.len(),
    })
}

fn print_idle(who: &str, idle: &Idle) {
    println!(
        "  {who:<20} {:>7.4} cores, {:>5} MB resident, {:>4} lists and {:>5} requests in {} s",
        idle.cpu,
        idle.resident / 1_000_000,
        idle.lists,
        idle.requests,
        WATCHED.as_secs()
    );
}

fn target_of(installation: &Installation, port: u16) -> Result<Target, Trouble> {
    let (certificate, key) = (installation.file("client.crt"), installation.file("client.key"));
    let client = caller::client(&installation.file("ca.crt"), Some((&certificate, &key)))?;
    let name = ServerName::try_from("127.0.0.1")?.to_owned();
    Ok(Target { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), tls: Some((client, name)) })
}

/// A filter request with so many nodes as the API server has them.
async fn whole_nodes(cluster: &Cluster, count: usize) -> Result<Vec<u8>, Trouble> {
    let request = http::Request::get(format!("/api/v1/nodes?limit={count}")).body(Vec::new())?;
    let nodes = cluster.client().request_text(request).await?;
    let body = format!(
        r#"{{"Pod":{{"metadata":{{"name":"web","namespace":"default","labels":{{"telemetry-policy":"quiet-000"}}}}}},"Nodes":{nodes},"NodeNames":null}}"#
    );
    let head = format!(
        "POST /scheduler/filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
        body.len()
    );
    Ok([head.as_bytes(), b"\r\n", body.as_bytes()].concat())
}

/// The same request to both in turns; whoever is not asked is stopped, so that its polling costs nothing.
async fn calls(
    cluster: &Cluster,
    installation: &Installation,
    ours: &Replica,
    theirs: &IntelTas,
    nodes: usize,
) -> Result<(), Trouble> {
    let request = whole_nodes(cluster, nodes).await?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        theirs.components().iter().try_for_each(|component| component.pause())?;
        ours.component.resume()?;
        let one = round(&target_of(installation, ours.port)?, &ours.component, &request, 40)?;
        ours.component.pause()?;
        theirs.components().iter().try_for_each(|component| component.resume())?;
        let other = round(&target_of(installation, theirs.port)?, &theirs.tas, &request, 8)?;
        rounds.push((one, other));
    }
    ours.component.resume()?;
    let ratio = |of: fn(&Call) -> Duration| {
        let mut all: Vec<f64> =
            rounds.iter().map(|(one, other)| of(other).as_secs_f64() / of(one).as_secs_f64()).collect();
        all.sort_by(f64::total_cmp);
        format!("1/{:.0} (1/{:.0} to 1/{:.0})", all[all.len() / 2], all[0], all[all.len() - 1])
    };
    println!(
        "filter, {nodes} whole nodes, {} bytes: tas / Intel TAS (budget 1/10 at 1,000 nodes)",
        request.len()
    );
    println!("  latency p50 {}, CPU {}", ratio(|call| call.p50), ratio(|call| call.cpu));
    Ok(())
}

struct Call {
    p50: Duration,
    cpu: Duration,
}

fn round(to: &Target, component: &Component, request: &[u8], count: usize) -> Result<Call, Trouble> {
    let pid = component.pid().ok_or("the server has ended")?;
    let before = cpu::used_by(pid);
    let mut took = caller::ask(to, request, 0, count, 1)?;
    // One call more was made than was timed: the first, which pays for the connection.
    let calls = u32::try_from(took.len() + 1)?;
    let cpu = cpu::used_by(pid).saturating_sub(before) / calls;
    took.sort_unstable();
    Ok(Call { p50: took[took.len() / 2], cpu })
}
