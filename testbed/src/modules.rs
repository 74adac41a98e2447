//! The pinned Go module files, carried inside the binary, and the name under which their builds are cached.

use std::fmt::Write as _;

use ring::digest::{Context, SHA256};

use crate::programs::Program;

/// One directory of `testbed/go`: the exact versions a family of programs is built from.
#[derive(Debug, PartialEq, Eq)]
pub struct Module {
    /// The directory's name.
    pub name: &'static str,
    /// `go.mod`, with a `tool` line per program.
    pub go_mod: &'static str,
    /// `go.sum`, which makes the build refuse anything but what was pinned.
    pub go_sum: &'static str,
    /// `main.go`, where the program is our own.
    pub main: Option<&'static str>,
}

macro_rules! module {
    ($directory:literal) => {
        Module {
            name: $directory,
            go_mod: include_str!(concat!("../go/", $directory, "/go.mod")),
            go_sum: include_str!(concat!("../go/", $directory, "/go.sum")),
            main: None,
        }
    };
}

impl Module {
    /// API server, scheduler, controllers and kubectl.
    pub const KUBERNETES_1_36: Self = module!("kubernetes-1.36");
    /// The same, oldest supported minor.
    pub const KUBERNETES_1_33: Self = module!("kubernetes-1.33");
    /// etcd.
    pub const ETCD: Self = module!("etcd");
    /// KWOK.
    pub const KWOK: Self = module!("kwok");
    /// Prometheus and promtool.
    pub const PROMETHEUS: Self = module!("prometheus");
    /// The descheduler.
    pub const DESCHEDULER: Self = module!("descheduler");
    /// The custom metrics API, for comparison.
    pub const PROMETHEUS_ADAPTER: Self = module!("prometheus-adapter");
    /// The usual exporter, for comparison.
    pub const NODE_EXPORTER: Self = module!("node-exporter");
    /// The predecessor, for comparison.
    pub const INTEL_TAS: Self = module!("intel-tas");
    /// Load-aware plugins, for comparison.
    pub const SCHEDULER_PLUGINS: Self = module!("scheduler-plugins");
    /// What any extender in Go costs, for comparison; it needs nothing but Go.
    pub const DO_NOTHING_EXTENDER: Self = Self {
        name: "do-nothing-extender",
        go_mod: include_str!("../go/do-nothing-extender/go.mod"),
        go_sum: "",
        main: Some(include_str!("../go/do-nothing-extender/main.go")),
    };

    /// Recorded machines; nothing is built from these.
    pub const RECORDINGS: Self = module!("recordings");

    /// The oldest Go that may build this module, as its `go` line says.
    pub fn go(&self) -> &'static str {
        self.go_mod.lines().find_map(|line| line.strip_prefix("go ")).unwrap_or("1.26.0").trim()
    }
}

/// The flags every program is built with; static, and free of the builder's paths.
pub const BUILD_FLAGS: &[&str] = &["-mod=readonly", "-trimpath", "-buildvcs=false"];

/// What the linker is told: no symbols, and the version variables.
pub fn link_flags(program: &Program) -> String {
    let mut flags = "-s -w".to_owned();
    for (variable, value) in program.variables {
        let _ = write!(flags, " -X {variable}={value}");
    }
    flags
}

/// The cache directory of a program: it changes with anything that would change the binary.
pub fn cache_key(program: &Program) -> String {
    let link = link_flags(program);
    let mut parts = vec![
        program.module.go_mod,
        program.module.go_sum,
        program.package,
        program.tags,
        &link,
        "CGO_ENABLED=0",
    ];
    parts.extend_from_slice(BUILD_FLAGS);
    parts.extend(program.module.main);
    parts.extend_from_slice(&[std::env::consts::OS, std::env::consts::ARCH]);
    cache_name(program.name, &parts)
}

/// What the cache calls something that is made of these parts.
pub(crate) fn cache_name(name: &str, parts: &[&str]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        // The length keeps "ab"+"c" and "a"+"bc" apart.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part.as_bytes());
    }
    let mut key = format!("{name}-");
    for byte in &context.finish().as_ref()[..8] {
        let _ = write!(key, "{byte:02x}");
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{DO_NOTHING_EXTENDER, ETCD, Kubernetes, kube_apiserver};

    #[test]
    fn programs_of_two_minors_do_not_share_a_cache_directory() {
        assert_ne!(
            cache_key(&kube_apiserver(Kubernetes::V1_36)),
            cache_key(&kube_apiserver(Kubernetes::V1_33))
        );
    }

    #[test]
    fn a_changed_version_variable_changes_the_cache_directory() {
        let other = Program { variables: &[("main.version", "2")], ..ETCD };
        assert_ne!(cache_key(&ETCD), cache_key(&other));
    }

    #[test]
    fn a_changed_source_of_our_own_changes_the_cache_directory() {
        const OTHER: Module = Module { main: Some("package main"), ..Module::DO_NOTHING_EXTENDER };
        let other = Program { module: &OTHER, ..DO_NOTHING_EXTENDER };
        assert_ne!(cache_key(&DO_NOTHING_EXTENDER), cache_key(&other));
    }

    #[test]
    fn the_linker_is_told_every_version_variable() {
        let program = Program { variables: &[("a.version", "1"), ("b.version", "2")], ..ETCD };
        assert_eq!(link_flags(&program), "-s -w -X a.version=1 -X b.version=2");
    }
}
