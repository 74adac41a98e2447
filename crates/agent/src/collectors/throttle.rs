//! How often CPUs were slowed down for heat, from `/sys/devices/system/cpu/cpu*/thermal_throttle`.

use std::collections::BTreeMap;

use crate::collectors::{Collector, Relist};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/sys/devices/system/cpu/cpu*/thermal_throttle/{core,package}_throttle_count";
/// CPUs looked at.
const MAX_CPUS: usize = 8192;

static CORE: Family = Family::counter(
    NameSet::Node,
    "node_cpu_core_throttles_total",
    "",
    "Times the core was throttled for heat.",
)
.labels("package, core")
.source(SOURCE)
.peers("node_exporter cpu");
static PACKAGE: Family = Family::counter(
    NameSet::Node,
    "node_cpu_package_throttles_total",
    "",
    "Times the package was throttled for heat.",
)
.labels("package")
.source(SOURCE)
.peers("node_exporter cpu");
static EVENTS: Family = Family::counter(
    NameSet::Tas,
    "node_throttle_events_total",
    "",
    "Times anything in the package was throttled for heat: the package as a whole plus each of its cores.",
)
.labels("package")
.source(SOURCE);
static FAMILIES: [&Family; 3] = [&CORE, &PACKAGE, &EVENTS];

struct Count {
    probe: Probe,
    now: Option<u64>,
}

/// The collector.
pub struct Throttle {
    host: Host,
    relist: Relist,
    // Hyperthreads of one core count the same events, so one of them speaks for the core.
    cores: BTreeMap<(u64, u64), Count>,
    packages: BTreeMap<u64, Count>,
}

impl Throttle {
    /// CPUs of this host.
    pub fn new(host: &Host) -> Self {
        Self {
            host: host.clone(),
            relist: Relist::default(),
            cores: BTreeMap::new(),
            packages: BTreeMap::new(),
        }
    }

    fn list(&mut self, buffer: &mut Buffer) -> Result<(), Trouble> {
        let found = host::numbered(&self.host.path("sys/devices/system/cpu"), "cpu")?;
        let (mut cores, mut packages) = (BTreeMap::new(), BTreeMap::new());
        for (_, cpu) in found.into_iter().take(MAX_CPUS) {
            let counts = cpu.join("thermal_throttle");
            if !counts.is_dir() {
                continue;
            }
            let package = host::number_once(&cpu.join("topology/physical_package_id"), buffer);
            let core = host::number_once(&cpu.join("topology/core_id"), buffer);
            let (Ok(package), Ok(core)) = (package, core) else { continue };
            let count = |name| Count { probe: self.host.attribute(counts.join(name)), now: None };
            cores.entry((package, core)).or_insert_with(|| count("core_throttle_count"));
            packages.entry(package).or_insert_with(|| count("package_throttle_count"));
        }
        (self.cores, self.packages) = (cores, packages);
        Ok(())
    }
}

impl Collector for Throttle {
    fn source(&self) -> &'static str {
        "throttle"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        if self.relist.due(now) {
            self.list(buffer).inspect_err(|trouble| self.relist.retry(trouble))?;
        }
        let mut trouble = None;
        let mut any = false;
        for count in self.cores.values_mut().chain(self.packages.values_mut()) {
            count.now = match count.probe.read(buffer) {
                Ok(text) => scan::lone_number(text),
                Err(this) => {
                    trouble.get_or_insert(this);
                    None
                }
            };
            any |= count.now.is_some();
        }
        let absent =
            || Trouble::Absent { path: self.host.path("sys/devices/system/cpu/cpu0/thermal_throttle") };
        if any { Ok(()) } else { Err(trouble.unwrap_or_else(absent)) }
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        page.family(&CORE);
        for ((package, core), count) in &self.cores {
            if let Some(now) = count.now {
                let (package, core) = (Digits::of(*package), Digits::of(*core));
                page.sample(&[("package", package.as_bytes()), ("core", core.as_bytes())], Value::Count(now));
            }
        }
        page.family(&PACKAGE);
        for (package, count) in &self.packages {
            if let Some(now) = count.now {
                page.sample(&[("package", Digits::of(*package).as_bytes())], Value::Count(now));
            }
        }
        page.family(&EVENTS);
        for (package, count) in &self.packages {
            let cores =
                self.cores.range((*package, 0)..=(*package, u64::MAX)).filter_map(|(_, core)| core.now);
            let events = cores.fold(count.now.unwrap_or(0), u64::saturating_add);
            page.sample(&[("package", Digits::of(*package).as_bytes())], Value::Count(events));
        }
    }

    fn found(&self) -> String {
        format!("{} packages, {} cores", self.packages.len(), self.cores.len())
    }
}
