//! What `tas serve` is told on its command line, and what that comes to. Intel's flag names are understood.

mod enforcement;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use chassis::args::{AdminArgs, LimitArgs, ListenArgs, Listening, LogArgs};
use chassis::logs::Color;
use chassis::tls::Protocols;
use chassis::{BodyLimits, Exit, Limits, duration, logs};
use clap::{Args, ValueEnum};
use cluster::Kubeconfig;
use feed::config::{ConfigFile, Endpoint, FeedConfig};
use std::sync::Arc;

pub use enforcement::{Component, Enforcement, EnforcementArgs};

/// The shortest period in which metrics are read; Prometheus itself rarely scrapes more often.
const MIN_SYNC_PERIOD: Duration = Duration::from_millis(500);
/// The longest; samples would be too old before they are read.
const MAX_SYNC_PERIOD: Duration = Duration::from_hours(1);

/// Answers kube-scheduler from policies and metrics.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  tas serve --prometheus-url http://prometheus.monitoring:9090 --cert tls.crt --key tls.key --cacert ca.crt
  tas serve --kubeconfig ~/.kube/config --prometheus-url http://127.0.0.1:9090 --bind-address 127.0.0.1
  tas serve --metrics custom --cert tls.crt --key tls.key --cacert ca.crt     as Intel TAS reads them

The admin port answers /readyz?verbose and /metrics. How to attach kube-scheduler, and what to do when something
is wrong: docs/serve.md.")]
pub struct ServeArgs {
    /// File that says how to reach the API server; without it, the service account of the pod
    #[arg(long, value_name = "FILE", alias = "kubeConfig", env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// Another context of that file than the current one
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// Where metrics come from
    #[arg(long, value_enum, value_name = "SOURCE", env = "TAS_METRICS", default_value_t = Source::Prometheus)]
    pub metrics: Source,
    /// Address of Prometheus or Thanos, up to where /api/v1 begins; goes before the configuration file
    #[arg(long, value_name = "URL", env = "TAS_PROMETHEUS_URL")]
    pub prometheus_url: Option<String>,
    /// File with a bearer token for it, read again for each request
    #[arg(long, value_name = "FILE", env = "TAS_PROMETHEUS_TOKEN_FILE", requires = "prometheus_url")]
    pub prometheus_token_file: Option<PathBuf>,
    /// File with the CAs to trust for it, read again when it changes; without it, those of the system
    #[arg(long, value_name = "FILE", env = "TAS_PROMETHEUS_CA_FILE", requires = "prometheus_url")]
    pub prometheus_ca_file: Option<PathBuf>,
    /// Configuration file: queries, node labels, aggregations; read again when it changes
    #[arg(long, value_name = "FILE", env = "TAS_CONFIG")]
    pub config: Option<PathBuf>,
    /// How often metrics are read, at moments that all replicas share
    #[arg(long, value_name = "DURATION", alias = "syncPeriod", env = "TAS_SYNC_PERIOD", default_value = "5s", value_parser = sync_period)]
    pub sync_period: Duration,
    /// How old a sample may be where neither rule nor policy says
    #[arg(long, value_name = "DURATION", env = "TAS_MAX_AGE", default_value = "3m", value_parser = duration::parse)]
    pub max_age: Duration,
    /// Highest score: 10 is what kube-scheduler expects, 100 gives finer steps and ten times the weight
    #[arg(long, value_name = "TOP", env = "TAS_SCORE_RANGE", default_value = "10", value_parser = ["10", "100"])]
    pub score_range: String,
    /// What is written, and on whose behalf.
    #[command(flatten)]
    pub enforcement: EnforcementArgs,
    /// Where to listen.
    #[command(flatten)]
    pub listen: ListenArgs,
    /// Where the admin port is.
    #[command(flatten)]
    pub admin: AdminArgs,
    /// Limits on callers.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// How to log.
    #[command(flatten)]
    pub log: LogArgs,
}

/// Where metrics come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Source {
    /// Prometheus or Thanos, asked directly.
    Prometheus,
    /// The custom metrics API, as Intel TAS reads it.
    Custom,
}

fn sync_period(text: &str) -> Result<Duration, String> {
    let period = duration::parse(text).map_err(|error| error.to_string())?;
    if (MIN_SYNC_PERIOD..=MAX_SYNC_PERIOD).contains(&period) {
        return Ok(period);
    }
    let (least, most) = (duration::show(MIN_SYNC_PERIOD), duration::show(MAX_SYNC_PERIOD));
    Err(format!("{text:?} is not between {least} and {most}"))
}

/// What to do.
#[derive(Debug)]
pub struct Config {
    /// How to reach the API server.
    pub kubeconfig: Kubeconfig,
    /// Where metrics come from.
    pub metrics: Source,
    /// Which Prometheus, if the command line says.
    pub endpoint: Option<Endpoint>,
    /// The configuration file, read once already.
    pub config_file: Option<ConfigFile>,
    /// How often metrics are read.
    pub sync_period: Duration,
    /// What counts where a policy does not say.
    pub defaults: api::Defaults,
    /// The highest score.
    pub score_top: u32,
    /// The scheduler's port, if the extender runs here.
    pub listening: Option<Listening>,
    /// What is written, if the controller runs here.
    pub enforcement: Option<Enforcement>,
    /// The admin port.
    pub admin: SocketAddr,
    /// Limits on connections.
    pub limits: Limits,
    /// Limits on bodies.
    pub body: BodyLimits,
    /// How long to stay reachable once asked to stop.
    pub shutdown_delay: Duration,
}

impl Config {
    /// What the file says, or nothing at all.
    pub fn feed(&self) -> Arc<FeedConfig> {
        self.config_file.as_ref().map(|file| Arc::clone(&file.state().good)).unwrap_or_default()
    }
}

/// Why nothing was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// How the process should end.
    pub exit: Exit,
    /// Everything that is wrong.
    pub problems: Vec<String>,
}

impl ServeArgs {
    /// How to log; needed before anything else can be said.
    pub fn logs(&self) -> logs::Settings {
        self.log.resolve(Color::of_stderr())
    }

    /// What to do, or everything that is wrong.
    pub fn resolve(&self) -> Result<Config, Refusal> {
        let mut wrong = Vec::new();
        let mut unusable = Vec::new();
        let listening = if self.enforcement.runs(Component::Extender) {
            self.listen.resolve(Protocols::Http1First).map(Some).map_err(|refusals| {
                wrong.extend(refusals.iter().map(ToString::to_string));
            })
        } else {
            Ok(None)
        };
        let config_file = self.config.as_deref().map(ConfigFile::open).transpose().map_err(|problems| {
            let name = self.config.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
            unusable.extend(problems.iter().map(|problem| format!("{name}: {problem}")));
        });
        let endpoint = self.prometheus_url.as_deref().map(Endpoint::new).transpose().map_err(|problem| {
            wrong.push(format!("--prometheus-url: {problem}"));
        });
        let endpoint = endpoint.map(|endpoint| {
            endpoint.map(|endpoint| Endpoint {
                token_file: self.prometheus_token_file.clone(),
                ca_file: self.prometheus_ca_file.clone(),
                ..endpoint
            })
        });
        let in_file = matches!(&config_file, Ok(Some(file)) if file.state().good.prometheus.is_some());
        match (self.metrics, &endpoint) {
            (Source::Prometheus, Ok(None)) if !in_file && config_file.is_ok() => wrong.push(
                "no metric source; give --prometheus-url, or prometheus.url in a --config file, or --metrics custom"
                    .to_owned(),
            ),
            (Source::Custom, Ok(Some(_))) => {
                wrong.push("--metrics custom and --prometheus-url contradict each other; leave one out".to_owned());
            }
            _ => {}
        }
        let kubeconfig = match &self.kubeconfig {
            Some(path) => Kubeconfig::File { path: path.clone(), context: self.context.clone() },
            None => Kubeconfig::InCluster,
        };
        match (listening, config_file, endpoint) {
            (Ok(listening), Ok(config_file), Ok(endpoint)) if wrong.is_empty() && unusable.is_empty() => {
                Ok(Config {
                    kubeconfig,
                    metrics: self.metrics,
                    endpoint,
                    config_file,
                    sync_period: self.sync_period,
                    defaults: api::Defaults { max_age: self.max_age, ..api::Defaults::default() },
                    score_top: self.score_range.parse().unwrap_or(extender::DEFAULT_SCORE_TOP),
                    listening,
                    enforcement: self.enforcement.resolve(self.sync_period),
                    admin: self.admin.resolve(),
                    limits: self.limits.limits(),
                    body: self.limits.body(),
                    shutdown_delay: self.limits.shutdown_delay,
                })
            }
            _ => {
                let exit = if wrong.is_empty() { Exit::Configuration } else { Exit::Usage };
                wrong.append(&mut unusable);
                Err(Refusal { exit, problems: wrong })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{Config, Duration, Exit, Kubeconfig, Refusal, ServeArgs};

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        serve: ServeArgs,
    }

    fn parsed(line: &str) -> Result<ServeArgs, String> {
        let words = ["serve"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.serve).map_err(|error| error.to_string())
    }

    fn resolved(line: &str) -> Result<Config, Refusal> {
        parsed(line).map_err(|said| Refusal { exit: Exit::Usage, problems: vec![said] })?.resolve()
    }

    #[test]
    fn intels_flags_are_understood() {
        let line =
            "--kubeConfig /k --port 9001 --cert /c --key /y --cacert /a --syncPeriod 2s --metrics custom";
        let config = resolved(line).unwrap();
        let file = Kubeconfig::File { path: "/k".into(), context: None };
        assert_eq!((config.kubeconfig, config.sync_period), (file, Duration::from_secs(2)));
        assert_eq!(config.listening.unwrap().address.port(), 9001);
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once() {
        let refusal = resolved("--cert /c --config /nowhere/tas.yaml --prometheus-url ftp://x").unwrap_err();
        assert_eq!(refusal.exit, Exit::Usage);
        let wrong = refusal.problems;
        assert_eq!(wrong.len(), 3, "{wrong:#?}");
        assert!(wrong[0].starts_with("--cert needs --key"), "{wrong:#?}");
        assert!(wrong[1].starts_with("--prometheus-url: "), "{wrong:#?}");
        assert!(wrong[2].starts_with("/nowhere/tas.yaml: cannot read /nowhere/tas.yaml"), "{wrong:#?}");
    }

    #[test]
    fn a_file_that_cannot_be_used_is_told_from_wrong_arguments() {
        let refusal = resolved("--bind-address 127.0.0.1 --config /nowhere/tas.yaml").unwrap_err();
        assert_eq!((refusal.exit, refusal.problems.len()), (Exit::Configuration, 1), "{refusal:#?}");
    }

    #[test]
    fn there_is_one_metric_source_exactly() {
        let none = resolved("--bind-address 127.0.0.1").unwrap_err();
        assert_eq!(
            none.problems,
            [
                "no metric source; give --prometheus-url, or prometheus.url in a --config file, or --metrics custom"
            ]
        );
        let both =
            resolved("--bind-address 127.0.0.1 --metrics custom --prometheus-url http://p:9090").unwrap_err();
        assert_eq!(
            both.problems,
            ["--metrics custom and --prometheus-url contradict each other; leave one out"]
        );
        assert!(resolved("--bind-address 127.0.0.1 --prometheus-url http://p:9090").is_ok());
    }

    #[test]
    fn a_period_that_cannot_be_kept_is_refused() {
        for period in ["0", "10ms", "2h", "-1s", "soon"] {
            let said = parsed(&format!("--sync-period={period} --metrics custom")).unwrap_err();
            assert!(said.contains(period), "{said}");
        }
    }
}
