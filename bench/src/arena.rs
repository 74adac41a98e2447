//! The one real cluster on which `tas serve` is measured beside Intel TAS: how large it is, which policies and samples
//! it has, and what either of them asked of the API server.

use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use testbed::audit::Request;
use testbed::component::Component;
use testbed::programs::Program;
use testbed::tas::{Installation, Replica, Settings};
use testbed::wait::until;
use testbed::{Cluster, Options, Telemetry, objects};

use crate::cpu;
use crate::extender_cost::caller::{self, Target};
use crate::peers::{self, Certificates, IntelTas};

/// How often both look at the metrics.
pub(crate) const SYNC: &str = "2s";
/// Policies are spread over so many at most.
const METRICS: usize = 50;
/// Longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_mins(10);

pub(crate) type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) nodes: usize,
    pub(crate) policies: usize,
    pub(crate) rounds: usize,
    /// Of a burst, where pods are measured.
    pub(crate) pods: Option<usize>,
    /// Without the peers.
    pub(crate) alone: bool,
}

impl Extent {
    /// What the words say, and for the rest what is usual.
    fn parse(usual: Self, words: &[&str]) -> Result<Self, String> {
        let mut extent = usual;
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let number = match *word {
                "--nodes" => &mut extent.nodes,
                "--policies" => &mut extent.policies,
                "--rounds" => &mut extent.rounds,
                "--alone" => {
                    extent.alone = true;
                    continue;
                }
                other => match &mut extent.pods {
                    Some(pods) if other == "--pods" => pods,
                    pods => {
                        let further = if pods.is_some() { " --pods," } else { "" };
                        return Err(format!(
                            "there is no {other:?} here; there are --nodes, --policies, --rounds,{further} --alone"
                        ));
                    }
                },
            };
            let text = words.next().copied().unwrap_or_default();
            *number =
                text.parse().ok().filter(|number| *number > 0).ok_or_else(|| {
                    format!("{word} {text:?} is no number of them; write it like {word} 100")
                })?;
        }
        Ok(extent)
    }

    /// How many metrics the policies speak of.
    pub(crate) fn metrics(self) -> usize {
        self.policies.min(METRICS)
    }
}

/// Builds what is measured, and measures it.
pub(crate) fn run(
    usual: Extent,
    words: &[&str],
    measure: impl AsyncFnOnce(Extent, &Path) -> Result<(), Trouble>,
) -> io::Result<()> {
    let extent = Extent::parse(usual, words).map_err(io::Error::other)?;
    let binary = build()?;
    tokio::runtime::Runtime::new()?
        .block_on(measure(extent, &binary))
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

/// See the module.
pub(crate) struct Arena {
    pub(crate) cluster: Cluster,
    pub(crate) installation: Installation,
    extent: Extent,
}

/// What a process, or two, cost while nothing changed.
pub(crate) struct Quiet {
    /// In cores.
    pub(crate) cpu: f64,
    pub(crate) resident: u64,
    /// What was asked of the API server.
    pub(crate) asked: Vec<Request>,
}

impl Arena {
    /// A cluster without scheduler, scraped so often, in which nobody acts yet.
    pub(crate) async fn start(
        extent: Extent,
        scraped: Duration,
        further_programs: &[Program],
    ) -> Result<Self, Trouble> {
        let peers: &[Program] = if extent.alone { &[] } else { &peers::PROGRAMS };
        let cluster = Cluster::start(Options {
            nodes: objects::nodes("node", extent.nodes),
            schedulers: Vec::new(),
            telemetry: Telemetry::Scraped { every: scraped },
            further_programs: [further_programs, peers].concat(),
            ..Options::default()
        })
        .await?;
        let installation = Installation::new(&cluster).await?;
        Ok(Self { cluster, installation, extent })
    }

    /// From the next scrape on, every metric of a node has this value, by the number of the node; all at once.
    pub(crate) fn publish(&self, value: impl Fn(usize) -> f64) -> Result<(), Trouble> {
        let (nodes, value) = (self.extent.nodes, &value);
        let of_metric = move |metric: usize| {
            (1..=nodes).map(move |node| (format!("node_m{metric:02}"), format!("node-{node}"), value(node)))
        };
        self.cluster.exporter()?.set_all((0..self.extent.metrics()).flat_map(of_metric));
        Ok(())
    }

    /// Waits until Prometheus has every series.
    pub(crate) async fn scraped(&self) -> Result<(), Trouble> {
        let last = self.extent.metrics() - 1;
        let (counted, nodes) = (format!("count(node_m{last:02})"), self.extent.nodes.to_string());
        until("Prometheus to have every series", PATIENCE, || async {
            let series = self.cluster.query(&counted).await.map_err(|error| error.to_string())?;
            let all = series.iter().any(|one| one.value.1 == nodes);
            if all { Ok(()) } else { Err(format!("{series:?}")) }
        })
        .await?;
        Ok(())
    }

    /// Applies the policies, each with these strategies over one metric: past 80 a node violates it.
    pub(crate) async fn apply(&self, strategies: &[&str]) -> Result<(), Trouble> {
        let mut text = String::new();
        for policy in 0..self.extent.policies {
            let metric = policy % METRICS;
            let rule =
                format!("{{rules: [{{metricname: m{metric:02}, operator: GreaterThan, target: 80}}]}}");
            let strategies: Vec<String> =
                strategies.iter().map(|strategy| format!("{strategy}: {rule}")).collect();
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "---\napiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\n\
                 metadata: {{name: {}, namespace: default}}\nspec: {{strategies: {{{}}}}}",
                policy_name(policy),
                strategies.join(", ")
            );
        }
        self.cluster.apply(&text).await?;
        Ok(())
    }

    /// Starts `tas serve`.
    pub(crate) fn ours(&self, binary: &Path) -> Result<Replica, Trouble> {
        let settings =
            Settings { arguments: ["--sync-period", SYNC].map(str::to_owned).into(), ..Settings::default() };
        Ok(self.installation.start(&self.cluster, "tas", binary, &settings)?)
    }

    /// Starts Intel TAS and the adapter that it needs.
    pub(crate) async fn theirs(&self) -> Result<IntelTas, Trouble> {
        let file = |name| self.installation.file(name);
        let (ca, certificate, key) = (file("ca.crt"), file("server.crt"), file("server.key"));
        let certificates = Certificates { ca: &ca, certificate: &certificate, key: &key };
        Ok(IntelTas::start(&self.cluster, certificates, SYNC).await?)
    }

    /// Waits until `tas serve` has every sample of every policy's metric.
    pub(crate) async fn ours_knows(&self, ours: &Replica) -> Result<(), Trouble> {
        ours.ready(&self.cluster).await?;
        let (last, nodes) = (self.extent.metrics() - 1, self.extent.nodes);
        ours.says(&format!("tas_feed_metric_nodes{{metric=\"m{last:02}\"}} {nodes}.0")).await?;
        Ok(())
    }

    /// Waits until Intel TAS answers for a policy.
    pub(crate) async fn theirs_knows(&self, theirs: &IntelTas) -> Result<(), Trouble> {
        let (target, small) = (self.target(theirs.port)?, self.whole_nodes(10).await?);
        until("Intel TAS to know its policies", PATIENCE, || async {
            caller::answer_length(&target, &small).map_err(|error| error.to_string()).map(drop)
        })
        .await?;
        Ok(())
    }

    /// An extender that speaks TLS at this port, as the scheduler calls it.
    pub(crate) fn target(&self, port: u16) -> Result<Target, Trouble> {
        let file = |name| self.installation.file(name);
        let (certificate, key) = (file("client.crt"), file("client.key"));
        let client = caller::client(&file("ca.crt"), Some((&certificate, &key)))?;
        let name = ServerName::try_from("127.0.0.1")?.to_owned();
        Ok(Target { address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)), tls: Some((client, name)) })
    }

    /// A filter request with so many nodes as the API server has them.
    pub(crate) async fn whole_nodes(&self, count: usize) -> Result<Vec<u8>, Trouble> {
        let request = http::Request::get(format!("/api/v1/nodes?limit={count}")).body(Vec::new())?;
        let nodes = self.cluster.client().request_text(request).await?;
        let body = format!(
            r#"{{"Pod":{{"metadata":{{"name":"web","namespace":"default","labels":{{"telemetry-policy":"policy-000"}}}}}},"Nodes":{nodes},"NodeNames":null}}"#
        );
        let head = format!(
            "POST /scheduler/filter HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        Ok([head.as_bytes(), b"\r\n", body.as_bytes()].concat())
    }

    /// Everything that a user has asked of the API server so far.
    pub(crate) fn asked(&self, user: &str) -> Result<Vec<Request>, Trouble> {
        let mut asked = self.cluster.audit()?;
        asked.retain(|request| request.user.username.ends_with(user));
        Ok(asked)
    }

    /// Lets things settle, then watches processes, and what their user asks of the API server, for a while.
    pub(crate) async fn quiet(
        &self,
        components: &[&Component],
        user: &str,
        [settle, watched]: [Duration; 2],
    ) -> Result<Quiet, Trouble> {
        tokio::time::sleep(settle).await;
        let (before, asked_before, started) = (spent(components), self.asked(user)?.len(), Instant::now());
        tokio::time::sleep(watched).await;
        let cpu = spent(components).saturating_sub(before);
        let asked = self.asked(user)?.split_off(asked_before);
        let pids = components.iter().filter_map(|component| component.pid());
        Ok(Quiet {
            cpu: cpu.as_secs_f64() / started.elapsed().as_secs_f64(),
            resident: pids.map(|pid| cpu::status_of(pid, "VmRSS:")).sum(),
            asked,
        })
    }
}

/// CPU time that processes have used so far.
pub(crate) fn spent(components: &[&Component]) -> Duration {
    components.iter().filter_map(|component| component.pid()).map(cpu::ticks_of).sum()
}

/// The name of a policy by its number.
pub(crate) fn policy_name(policy: usize) -> String {
    format!("policy-{policy:03}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const USUAL: Extent = Extent { nodes: 1_000, policies: 50, rounds: 2, pods: None, alone: false };

    #[test]
    fn what_is_not_said_is_as_usual() {
        assert_eq!(Extent::parse(USUAL, &[]), Ok(USUAL));
        assert_eq!(
            Extent::parse(USUAL, &["--nodes", "40", "--alone", "--rounds", "1"]),
            Ok(Extent { nodes: 40, rounds: 1, alone: true, ..USUAL })
        );
    }

    #[test]
    fn pods_are_only_spoken_of_where_they_are_measured() {
        let usual = Extent { pods: Some(2_000), ..USUAL };
        assert_eq!(Extent::parse(usual, &["--pods", "50"]), Ok(Extent { pods: Some(50), ..USUAL }));
        assert_eq!(
            [usual, USUAL].map(|usual| Extent::parse(usual, &["-v"]).unwrap_err()),
            ["--rounds, --pods,", "--rounds,"].map(|flags| format!(
                "there is no \"-v\" here; there are --nodes, --policies, {flags} --alone"
            ))
        );
        assert!(Extent::parse(USUAL, &["--pods", "50"]).is_err());
    }

    #[test]
    fn metrics_are_as_many_as_the_policies_speak_of() {
        assert_eq!([1, 50, 100].map(|policies| Extent { policies, ..USUAL }.metrics()), [1, 50, 50]);
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        for (words, refusal) in [
            (["--nodes", "many"], "--nodes \"many\" is no number of them; write it like --nodes 100"),
            (["--rounds", "0"], "--rounds \"0\" is no number of them; write it like --rounds 100"),
            (["--alone", "--policies"], "--policies \"\" is no number of them; write it like --policies 100"),
            (["--alone", "-v"], "there is no \"-v\" here; there are --nodes, --policies, --rounds, --alone"),
        ] {
            assert_eq!(Extent::parse(USUAL, &words), Err(refusal.to_owned()));
        }
    }
}
