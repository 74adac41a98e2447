//! Which programs the test bed runs, where they come from and how a fitting one is recognised.
//!
//! This is data and questions about it; finding and building them is `binaries`.

use std::time::Duration;

use crate::modules::Module;

/// A Kubernetes minor that the test bed can run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kubernetes {
    /// The one that everything is tested on.
    #[default]
    V1_36,
    /// The oldest one that our client library supports.
    V1_33,
}

/// The minor asked for is not pinned here.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("kubernetes {asked:?} is not pinned in the test bed; choose 1.36 or 1.33")]
pub struct UnknownKubernetes {
    asked: String,
}

impl std::str::FromStr for Kubernetes {
    type Err = UnknownKubernetes;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "1.36" => Ok(Self::V1_36),
            "1.33" => Ok(Self::V1_33),
            _ => Err(UnknownKubernetes { asked: text.to_owned() }),
        }
    }
}

impl std::fmt::Display for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::V1_36 => "1.36",
            Self::V1_33 => "1.33",
        })
    }
}

/// One program: the Go package it is compiled from and what it says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file name of the binary.
    pub name: &'static str,
    /// The pinned module files it is built from.
    pub module: &'static Module,
    /// The Go package of its `main`.
    pub package: &'static str,
    /// Build tags.
    pub tags: &'static str,
    /// Variables set at link time, so that the program knows its version.
    pub variables: &'static [(&'static str, &'static str)],
    /// The arguments that make it print its version.
    pub version_arguments: &'static [&'static str],
    /// A piece of that print which a binary found on `PATH` must have to be used instead of our own.
    pub version_mark: &'static str,
    /// How long a build from nothing takes on two cores, for the progress line.
    pub usual: Duration,
}

const fn program(
    name: &'static str,
    module: &'static Module,
    package: &'static str,
    variables: &'static [(&'static str, &'static str)],
    version: (&'static [&'static str], &'static str),
    usual_seconds: u64,
) -> Program {
    Program {
        name,
        module,
        package,
        tags: "",
        variables,
        version_arguments: version.0,
        version_mark: version.1,
        usual: Duration::from_secs(usual_seconds),
    }
}

const VARIABLES_1_36: &[(&str, &str)] = &[
    ("k8s.io/component-base/version.gitVersion", "v1.36.3"),
    ("k8s.io/component-base/version.gitMajor", "1"),
    ("k8s.io/component-base/version.gitMinor", "36"),
    ("k8s.io/component-base/version.gitTreeState", "archive"),
    ("k8s.io/client-go/pkg/version.gitVersion", "v1.36.3"),
    ("k8s.io/client-go/pkg/version.gitMajor", "1"),
    ("k8s.io/client-go/pkg/version.gitMinor", "36"),
];

const VARIABLES_1_33: &[(&str, &str)] = &[
    ("k8s.io/component-base/version.gitVersion", "v1.33.13"),
    ("k8s.io/component-base/version.gitMajor", "1"),
    ("k8s.io/component-base/version.gitMinor", "33"),
    ("k8s.io/component-base/version.gitTreeState", "archive"),
    ("k8s.io/client-go/pkg/version.gitVersion", "v1.33.13"),
    ("k8s.io/client-go/pkg/version.gitMajor", "1"),
    ("k8s.io/client-go/pkg/version.gitMinor", "33"),
];

const VARIABLES_PROMETHEUS: &[(&str, &str)] = &[("github.com/prometheus/common/version.Version", "3.15.0")];

/// A command of the Kubernetes module; the first one built also pays for what they share.
const fn kubernetes(
    kubernetes: Kubernetes,
    name: &'static str,
    package: &'static str,
    usual: u64,
) -> Program {
    let (module, variables, mark) = match kubernetes {
        Kubernetes::V1_36 => (&Module::KUBERNETES_1_36, VARIABLES_1_36, "v1.36."),
        Kubernetes::V1_33 => (&Module::KUBERNETES_1_33, VARIABLES_1_33, "v1.33."),
    };
    program(name, module, package, variables, (&["--version"], mark), usual)
}

/// A command of the Prometheus module, without the discovery of machines in thirty clouds: that is most of the build.
const fn prometheus(name: &'static str, package: &'static str, usual: u64) -> Program {
    let version = (&["--version"] as &[&str], "version 3.15.");
    let mut program = program(name, &Module::PROMETHEUS, package, VARIABLES_PROMETHEUS, version, usual);
    program.tags = "remove_all_sd";
    program
}

/// The API server.
pub const fn kube_apiserver(version: Kubernetes) -> Program {
    kubernetes(version, "kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", 300)
}

/// The scheduler.
pub const fn kube_scheduler(version: Kubernetes) -> Program {
    kubernetes(version, "kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", 80)
}

/// The controllers, without which no node loses its not-ready taint and no orphan is collected.
pub const fn kube_controller_manager(version: Kubernetes) -> Program {
    kubernetes(version, "kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", 60)
}

/// The command that people type.
pub const fn kubectl(version: Kubernetes) -> Program {
    let mut kubectl = kubernetes(version, "kubectl", "k8s.io/kubernetes/cmd/kubectl", 30);
    kubectl.version_arguments = &["version", "--client"];
    kubectl
}

/// The store behind the API server.
pub const ETCD: Program = program(
    "etcd",
    &Module::ETCD,
    "go.etcd.io/etcd/server/v3",
    &[],
    (&["--version"], "etcd Version: 3.7."),
    30,
);

/// The player of kubelets.
pub const KWOK: Program =
    program("kwok", &Module::KWOK, "sigs.k8s.io/kwok/cmd/kwok", &[], (&["--version"], "v0.8."), 80);

/// The monitoring system that `tas` reads.
pub const PROMETHEUS: Program =
    prometheus("prometheus", "github.com/prometheus/prometheus/cmd/prometheus", 160);

/// The checker of Prometheus configuration and rules.
pub const PROMTOOL: Program = prometheus("promtool", "github.com/prometheus/prometheus/cmd/promtool", 20);

/// The stock evictor that acts on the labels `tas` writes.
pub const DESCHEDULER: Program = program(
    "descheduler",
    &Module::DESCHEDULER,
    "sigs.k8s.io/descheduler/cmd/descheduler",
    &[("sigs.k8s.io/descheduler/pkg/version.version", "v0.36.0")],
    (&["version"], "v0.36."),
    200,
);

/// What every cluster needs, in the order in which building is quickest.
pub fn of_a_cluster(version: Kubernetes) -> Vec<Program> {
    vec![
        kube_apiserver(version),
        kube_scheduler(version),
        kube_controller_manager(version),
        kubectl(version),
        ETCD,
        KWOK,
        PROMETHEUS,
    ]
}

/// What the whole end-to-end suite needs.
pub fn standard(version: Kubernetes) -> Vec<Program> {
    let mut programs = of_a_cluster(version);
    programs.extend([PROMTOOL, DESCHEDULER, NODE_EXPORTER]);
    programs
}

/// The adapter that serves Prometheus' values as the custom metrics API.
pub const PROMETHEUS_ADAPTER: Program = program(
    "prometheus-adapter",
    &Module::PROMETHEUS_ADAPTER,
    "sigs.k8s.io/prometheus-adapter/cmd/adapter",
    &[],
    UNVERSIONED,
    150,
);

/// The usual exporter of a machine's numbers, which the agent's are compared with.
pub const NODE_EXPORTER: Program = program(
    "node_exporter",
    &Module::NODE_EXPORTER,
    "github.com/prometheus/node_exporter",
    &[("github.com/prometheus/common/version.Version", "1.12.1")],
    (&["--version"], "version 1.12."),
    30,
);

/// The collectors of node_exporter that read what `tas-agent` reads.
pub const NODE_EXPORTER_COLLECTORS: [&str; 12] = [
    "cpu",
    "stat",
    "meminfo",
    "meminfo_numa",
    "loadavg",
    "netdev",
    "diskstats",
    "pressure",
    "thermal_zone",
    "hwmon",
    "edac",
    "rapl",
];

/// Intel Telemetry Aware Scheduling.
pub const INTEL_TAS: Program = program(
    "intel-tas",
    &Module::INTEL_TAS,
    "github.com/intel/platform-aware-scheduling/telemetry-aware-scheduling/cmd",
    &[],
    UNVERSIONED,
    90,
);

/// A kube-scheduler with the load-aware plugins compiled in.
pub const SCHEDULER_PLUGINS: Program = program(
    "scheduler-plugins",
    &Module::SCHEDULER_PLUGINS,
    "sigs.k8s.io/scheduler-plugins/cmd/scheduler",
    &[("k8s.io/component-base/version.gitVersion", "v0.33.5")],
    (&["--version"], "v0.33.5"),
    300,
);

/// An extender that decides nothing, over plain HTTP: what any in Go costs kube-scheduler at least.
pub const DO_NOTHING_EXTENDER: Program = program(
    "do-nothing-extender",
    &Module::DO_NOTHING_EXTENDER,
    "testbed/do-nothing-extender",
    &[],
    UNVERSIONED,
    10,
);

/// For programs that cannot say their version: none found on `PATH` is ever taken.
const UNVERSIONED: (&[&str], &str) = (&["--help"], "no program says this of itself");

/// What tas is compared with in measurements alone.
pub const PEERS: [Program; 4] = [PROMETHEUS_ADAPTER, INTEL_TAS, SCHEDULER_PLUGINS, DO_NOTHING_EXTENDER];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minor_is_read_back_as_it_is_printed() {
        for version in [Kubernetes::V1_36, Kubernetes::V1_33] {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
    }

    #[test]
    fn a_minor_that_is_not_pinned_is_refused_with_the_ones_that_are() {
        let refusal = "1.20".parse::<Kubernetes>().expect_err("1.20 is not pinned");
        assert_eq!(
            refusal.to_string(),
            r#"kubernetes "1.20" is not pinned in the test bed; choose 1.36 or 1.33"#
        );
    }

    #[test]
    fn every_program_is_a_tool_of_its_module() {
        for version in [Kubernetes::V1_36, Kubernetes::V1_33] {
            for program in standard(version).into_iter().chain(PEERS) {
                assert!(
                    program.module.go_mod.contains(program.package),
                    "{} names no tool {}",
                    program.module.name,
                    program.package
                );
            }
        }
    }
}
