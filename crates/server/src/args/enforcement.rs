//! What `tas serve` is told about writing: which parts run, whose policies may write on nodes, how much, how long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use api::keys::INSTALL_NAMESPACE;
use chassis::duration;
use clap::{Args, ValueEnum};
use engine::plan::{Limits, Namespaces, Rate, Settings};

/// Stands for every namespace.
const ALL: &str = "*";

/// See the module.
#[derive(Clone, Debug, Args)]
pub struct EnforcementArgs {
    /// Parts that run here: the extender answers kube-scheduler, the controller labels and taints nodes and writes
    /// statuses
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', env = "TAS_COMPONENTS", default_values_t = [Component::Extender, Component::Controller])]
    pub components: Vec<Component>,
    /// Namespace of this installation, where its lease and its switches are
    #[arg(long, value_name = "NAME", env = "TAS_NAMESPACE", default_value = INSTALL_NAMESPACE, value_parser = namespace)]
    pub namespace: String,
    /// Name of this replica in the lease; its process adds to it
    #[arg(long, value_name = "NAME", env = "HOSTNAME", hide_env_values = true, default_value = "tas")]
    pub replica: String,
    /// Namespaces whose policies may label nodes; * means all
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "TAS_LABEL_NAMESPACES", default_value = ALL, value_parser = namespace_or_all)]
    pub label_namespaces: Vec<String>,
    /// Namespaces whose policies may taint nodes; * means all; without it, the installation's own
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "TAS_TAINT_NAMESPACES", value_parser = namespace_or_all)]
    pub taint_namespaces: Vec<String>,
    /// How long a label or taint outlives the last sample that explained it
    #[arg(long, value_name = "DURATION", env = "TAS_UNKNOWN_HOLD", default_value = "15m", value_parser = duration::parse)]
    pub unknown_hold: Duration,
    /// Nodes written per second, after a burst of twice as many
    #[arg(long, value_name = "COUNT", env = "TAS_WRITE_RATE", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub write_rate: u32,
    /// Write nothing on nodes, only statuses; for all replicas at once, set pause: "true" in the ConfigMap tas-switches
    #[arg(long, env = "TAS_PAUSE")]
    pub pause: bool,
}

/// A part of `tas serve`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Component {
    /// Answers kube-scheduler.
    Extender,
    /// Labels and taints nodes, writes statuses.
    Controller,
}

/// What that comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enforcement {
    /// Where the lease and the switches are.
    pub namespace: String,
    /// Who we are in the lease, apart from what tells this process from others.
    pub replica: String,
    /// Paused by the flag.
    pub paused: bool,
    /// What the plan goes by.
    pub settings: Settings,
}

impl EnforcementArgs {
    /// Whether a part runs here.
    pub fn runs(&self, component: Component) -> bool {
        self.components.contains(&component)
    }

    /// What to do, if the controller runs here.
    pub fn resolve(&self, sync_period: Duration) -> Option<Enforcement> {
        self.runs(Component::Controller).then(|| {
            let own = std::slice::from_ref(&self.namespace);
            let may_taint = if self.taint_namespaces.is_empty() { own } else { &self.taint_namespaces };
            let cluster =
                Rate { burst: self.write_rate * 2, every: Duration::from_secs(1) / self.write_rate.max(1) };
            Enforcement {
                namespace: self.namespace.clone(),
                replica: self.replica.clone(),
                paused: self.pause,
                settings: Settings {
                    paused: self.pause,
                    may_label: namespaces(&self.label_namespaces),
                    may_taint: namespaces(may_taint),
                    unknown_hold: self.unknown_hold,
                    sync_period,
                    limits: Limits { cluster, ..Limits::default() },
                },
            }
        })
    }
}

fn namespaces(names: &[String]) -> Namespaces {
    if names.iter().any(|name| name == ALL) {
        return Namespaces::All;
    }
    Namespaces::Only(names.iter().map(|name| Arc::from(name.as_str())).collect::<BTreeSet<_>>())
}

fn namespace(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !text.is_empty() && text.len() <= 63 && text.chars().all(fits) {
        return Ok(text.to_owned());
    }
    Err(format!("{text:?} is not the name of a namespace: up to 63 of a-z, 0-9 and '-'"))
}

fn namespace_or_all(text: &str) -> Result<String, String> {
    if text == ALL { Ok(text.to_owned()) } else { namespace(text) }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        enforcement: EnforcementArgs,
    }

    fn parsed(line: &str) -> Result<Option<Enforcement>, String> {
        let words = ["serve"].into_iter().chain(line.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        Ok(line.enforcement.resolve(Duration::from_secs(5)))
    }

    fn only(name: &str) -> Namespaces {
        Namespaces::Only(BTreeSet::from([Arc::from(name)]))
    }

    #[test]
    fn by_default_all_may_label_and_only_the_installation_may_taint() {
        let settings = parsed("").unwrap().unwrap().settings;
        assert_eq!((settings.may_label, settings.may_taint), (Namespaces::All, only("tas-system")));
        let settings = parsed("--namespace infra --label-namespaces a").unwrap().unwrap().settings;
        assert_eq!((settings.may_label, settings.may_taint), (only("a"), only("infra")));
        let settings = parsed("--taint-namespaces a,*").unwrap().unwrap().settings;
        assert_eq!(settings.may_taint, Namespaces::All);
    }

    #[test]
    fn the_default_rate_is_that_of_the_engine() {
        assert_eq!(parsed("").unwrap().unwrap().settings.limits, Limits::default());
        assert_eq!(parsed("").unwrap().unwrap().settings.unknown_hold, Settings::default().unknown_hold);
    }

    #[test]
    fn the_controller_can_be_left_out() {
        assert_eq!(parsed("--components extender"), Ok(None));
        assert!(parsed("--components controller").unwrap().is_some());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--components page",
            "--write-rate 0",
            "--namespace A_b",
            "--taint-namespaces a,,b",
            "--unknown-hold soon",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
