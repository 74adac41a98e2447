//! The sources, one a file. A collector reads (which may fail or hang) and, apart from that, writes (which may not).

pub mod cpu;
pub mod disks;
pub mod edac;
pub mod fields;
pub mod hugepages;
pub mod hwmon;
pub mod listing;
pub mod load;
pub mod memory;
pub mod network;
pub mod numa;
pub mod pods;
pub mod pressure;
pub mod rapl;
pub mod textfile;
pub mod thermal;
pub mod throttle;

use std::path::PathBuf;
use std::time::Duration;

use crate::family::Family;
use crate::host::{Buffer, Host};
use crate::moment::Moment;
use crate::page::Page;
use crate::trouble::Trouble;

/// A source of metrics.
pub trait Collector: Send {
    /// Its name in flags, in `node_telemetry_*` and in `--explain`.
    fn source(&self) -> &'static str;

    /// Every family it can write.
    fn families(&self) -> &'static [&'static Family];

    /// Called once a second, for what must be sampled between scrapes. May block.
    fn tick(&mut self, _now: Moment, _buffer: &mut Buffer) {}

    /// Called at every scrape, to read what is cheap enough to be read live. May block.
    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble>;

    /// Writes what was read. Never blocks, never reads.
    fn write(&self, now: Moment, page: &mut Page);

    /// Writes what there is to say about a source that could not be read.
    fn write_down(&self, _trouble: &Trouble, _page: &mut Page) {}

    /// When what it writes was measured, if that is not the last `read`.
    fn measured_at(&self) -> Option<Duration> {
        None
    }

    /// What `--explain` says beside the state, after a read: what was found, and what is missing.
    fn found(&self) -> String;
}

/// The names of all sources, in the order they are read.
pub const SOURCES: [&str; 15] = [
    "rapl",
    "cpu",
    "memory",
    "load",
    "network",
    "disks",
    "pressure",
    "thermal",
    "throttle",
    "hwmon",
    "hugepages",
    "numa",
    "edac",
    "pods",
    "textfile",
];

/// What collectors need to know beyond the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Sources that are off.
    pub off: Vec<String>,
    /// Watts one package may draw, where the kernel does not say.
    pub tdp_watts: Option<u32>,
    /// Interfaces to leave out; a `*` at the end stands for any rest.
    pub ignored_interfaces: Vec<String>,
    /// Where `*.prom` files are.
    pub textfile_directory: Option<PathBuf>,
    /// How old a text file may be before its metrics are dropped.
    pub textfile_max_age: Option<Duration>,
    /// Where the kubelet keeps pod logs, whose directory names tell pods' names.
    pub pod_logs: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            off: Vec::new(),
            tdp_watts: None,
            ignored_interfaces: ["veth*", "cali*", "lxc*"].map(str::to_owned).to_vec(),
            textfile_directory: None,
            textfile_max_age: None,
            pod_logs: None,
        }
    }
}

/// The collectors that are on, in the order of `SOURCES`.
pub fn all(host: &Host, settings: &Settings) -> Vec<Box<dyn Collector>> {
    let all: Vec<Box<dyn Collector>> = vec![
        Box::new(rapl::Rapl::new(host, settings.tdp_watts)),
        Box::new(cpu::Cpu::new(host)),
        Box::new(memory::Memory::new(host)),
        Box::new(load::Load::new(host)),
        Box::new(network::Network::new(host, &settings.ignored_interfaces)),
        Box::new(disks::Disks::new(host)),
        Box::new(pressure::Pressure::new(host)),
        Box::new(thermal::Thermal::new(host)),
        Box::new(throttle::Throttle::new(host)),
        Box::new(hwmon::Hwmon::new(host)),
        Box::new(hugepages::Hugepages::new(host)),
        Box::new(numa::Numa::new(host)),
        Box::new(edac::Edac::new(host)),
        Box::new(pods::Pods::new(host, settings.pod_logs.clone())),
        Box::new(textfile::Textfile::new(settings.textfile_directory.clone(), settings.textfile_max_age)),
    ];
    all.into_iter().filter(|c| !settings.off.iter().any(|off| off == c.source())).collect()
}
