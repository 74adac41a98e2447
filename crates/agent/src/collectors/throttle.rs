//! How often CPUs were slowed down for heat, from `/sys/devices/system/cpu/cpu*/thermal_throttle`.

use std::collections::BTreeMap;

use crate::collectors::Collector;
use crate::collectors::listing::{Listing, Reading, read_each};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/sys/devices/system/cpu/cpu*/thermal_throttle/{core,package}_throttle_count";
const CPUS: &str = "sys/devices/system/cpu";
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

#[derive(Default)]
struct Counts {
    // Hyperthreads of one core count the same events, so one of them speaks for the core.
    cores: BTreeMap<(u64, u64), Reading<u64>>,
    packages: BTreeMap<u64, Reading<u64>>,
}

/// The collector.
pub struct Throttle {
    host: Host,
    counts: Listing<Counts>,
}

impl Throttle {
    /// CPUs of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), counts: Listing::default() }
    }
}

fn list(host: &Host, buffer: &mut Buffer) -> Result<Counts, Trouble> {
    let mut counts = Counts::default();
    for (_, cpu) in host::numbered(&host.path(CPUS), "cpu")?.into_iter().take(MAX_CPUS) {
        let place = cpu.join("thermal_throttle");
        if !place.is_dir() {
            continue;
        }
        let package = host::number_once(&cpu.join("topology/physical_package_id"), buffer);
        let core = host::number_once(&cpu.join("topology/core_id"), buffer);
        let (Ok(package), Ok(core)) = (package, core) else { continue };
        let count = |name| Reading::new(host.attribute(place.join(name)), scan::lone_number);
        counts.cores.entry((package, core)).or_insert_with(|| count("core_throttle_count"));
        counts.packages.entry(package).or_insert_with(|| count("package_throttle_count"));
    }
    Ok(counts)
}

impl Collector for Throttle {
    fn source(&self) -> &'static str {
        "throttle"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.counts.refresh(now, || list(&self.host, buffer))?;
        let Counts { cores, packages } = self.counts.found_mut();
        let place = || self.host.path(CPUS).join("cpu0/thermal_throttle");
        read_each(cores.values_mut().chain(packages.values_mut()), place, |count| count.take(buffer))
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        let Counts { cores, packages } = self.counts.found();
        page.family(&CORE);
        for ((package, core), count) in cores {
            if let Some(now) = count.now {
                let (package, core) = (Digits::of(*package), Digits::of(*core));
                page.sample(&[("package", package.as_bytes()), ("core", core.as_bytes())], Value::Count(now));
            }
        }
        page.family(&PACKAGE);
        for (package, count) in packages {
            if let Some(now) = count.now {
                page.sample(&[("package", Digits::of(*package).as_bytes())], Value::Count(now));
            }
        }
        page.family(&EVENTS);
        for (package, count) in packages {
            let of_package = cores.range((*package, 0)..=(*package, u64::MAX));
            let events =
                of_package.filter_map(|(_, core)| core.now).fold(count.now.unwrap_or(0), u64::saturating_add);
            page.sample(&[("package", Digits::of(*package).as_bytes())], Value::Count(events));
        }
    }

    fn found(&self) -> String {
        let Counts { cores, packages } = self.counts.found();
        format!("{} packages, {} cores", packages.len(), cores.len())
    }
}
