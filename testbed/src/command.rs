//! The arguments of the command and where each goes.

mod build;
mod inspect;
mod life;
mod settle;
mod terminal;

use std::path::PathBuf;
use std::process::ExitCode;

use crate::programs::Kubernetes;
use clap::{Args, Parser, Subcommand};

/// The whole program: reads the arguments, does what they say, and complains in one line if that is impossible.
pub fn main() -> ExitCode {
    match Command::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            terminal::mention(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// A real Kubernetes control plane as plain processes, for tests and for trying things out.
#[derive(Debug, Parser)]
#[command(name = "testbed", version)]
pub(crate) enum Command {
    /// Build the programs now instead of when they are first needed.
    Build {
        /// Also build the programs that tas is compared with.
        #[arg(long)]
        all: bool,
        /// The Kubernetes minor.
        #[arg(long, default_value_t)]
        kubernetes: Kubernetes,
    },
    /// Start, end and look at clusters.
    #[command(subcommand)]
    Cluster(Cluster),
}

/// What to do with clusters.
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Start a cluster in the background and print how to reach it.
    Up(Shape),
    /// Start a cluster and stay with it until Ctrl-C.
    Run(Shape),
    /// End a cluster, or remove what a killed one left behind.
    Down {
        /// Which one.
        #[arg(default_value = "default")]
        name: String,
    },
    /// Print what a shell needs to use a cluster: eval "$(cargo xtask cluster env NAME)".
    Env {
        /// Which one.
        #[arg(default_value = "default")]
        name: String,
    },
    /// Wait until Prometheus and tas have seen every change made so far; for scripts.
    Settle {
        /// Which one.
        #[arg(default_value = "default")]
        name: String,
    },
    /// Show all clusters, or the processes of one.
    Status {
        /// Which one.
        name: Option<String>,
    },
    /// Show the lines worth reading of every component, or the whole log of one.
    Logs {
        /// Which cluster.
        #[arg(default_value = "default")]
        name: String,
        /// Which component, as in `kube-scheduler`.
        component: Option<String>,
    },
    /// Set what a node's metric is from the next scrape on.
    Metric {
        /// Which cluster.
        name: String,
        /// The metric, as in `node_power_watts`.
        metric: String,
        /// The node, or `all` for every node there is.
        node: String,
        /// The value; none takes the series away.
        value: Option<String>,
    },
}

/// What kind of cluster.
#[derive(Clone, Debug, Args)]
pub(crate) struct Shape {
    /// Its name; several can run side by side.
    #[arg(default_value = "default")]
    pub(crate) name: String,
    /// How many nodes KWOK plays, named node-1, node-2, …
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub(crate) nodes: u32,
    /// The Kubernetes minor.
    #[arg(long, default_value_t)]
    pub(crate) kubernetes: Kubernetes,
    /// A KubeSchedulerConfiguration for the scheduler; the way to the API server is added to it.
    #[arg(long, value_name = "FILE")]
    pub(crate) scheduler_config: Option<PathBuf>,
    /// The program `tas`: it is attached under its own rights and over mutual TLS, and the scheduler asks it.
    #[arg(long, value_name = "FILE", conflicts_with = "scheduler_config")]
    pub(crate) tas: Option<PathBuf>,
    /// The API server's port; any free one if left out.
    #[arg(long, value_name = "PORT")]
    pub(crate) api_port: Option<u16>,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Build { all, kubernetes } => build::build(all, kubernetes),
            Self::Cluster(Cluster::Up(shape)) => life::up(&shape),
            Self::Cluster(Cluster::Run(shape)) => life::run(&shape),
            Self::Cluster(Cluster::Down { name }) => life::down(&name),
            Self::Cluster(Cluster::Env { name }) => inspect::environment(&name),
            Self::Cluster(Cluster::Settle { name }) => settle::settle(&name),
            Self::Cluster(Cluster::Status { name: None }) => inspect::status(),
            Self::Cluster(Cluster::Status { name: Some(name) }) => inspect::status_of(&name),
            Self::Cluster(Cluster::Logs { name, component }) => inspect::logs(&name, component.as_deref()),
            Self::Cluster(Cluster::Metric { name, metric, node, value }) => {
                inspect::set_metric(&name, &metric, &node, value.as_deref())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_arguments_make_sense() {
        Command::command().debug_assert();
    }
}
