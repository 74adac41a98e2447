//! Power from RAPL through `/sys/class/powercap`, sampled once a second.
//!
//! A zone is known by its name, never by its number; `zones` finds them, `energy` judges the counters.

pub mod zones;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::collectors::Collector;
use crate::collectors::listing::RELIST_EVERY;
use crate::energy::Meter;
use crate::family::{Family, NameSet};
use crate::host::{Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Digits, LegalName, Page, Value};
use crate::scan;
use crate::trouble::Trouble;
use zones::{Alias, Domain, Limits, ZoneId};

/// What is written as "the" power of a package.
pub const WINDOW: Duration = Duration::from_secs(10);
const LONG_WINDOW: Duration = Duration::from_mins(1);
/// How soon a zone that has gone is looked for again.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Believable watts of a zone, whatever its limits say: firmware without limits writes 4,090 W or more.
const CEILING_WATTS: u64 = 2_000;
/// The same for the whole platform.
const PLATFORM_CEILING_WATTS: u64 = 20_000;

const ENERGY_FILE: &str = "/sys/class/powercap/intel-rapl:*/energy_uj";
const LIMIT_FILES: &str = "/sys/class/powercap/intel-rapl:*/constraint_*_{power_limit,max_power}_uw";

static JOULES: Family = Family::counter(
    NameSet::Tas,
    "node_energy_joules_total",
    "joules",
    "Energy used since the agent started, corrected for wraps and resets of the hardware counter.",
)
.labels("zone (package, core, uncore, dram, psys), package, die")
.source(ENERGY_FILE)
.root_only()
.peers("node_rapl_<zone>_joules_total (wraps), scaph_*, kepler_node_*");
static WATTS: Family =
    Family::gauge(NameSet::Tas, "node_power_watts", "watts", "Power of a zone, mean over the window.")
        .labels("zone, package, die, window (10s, 60s)")
        .source(ENERGY_FILE)
        .root_only()
        .peers("collectd_package_<N>_power_power, scaph_socket_power_microwatts, kepler_node_cpu_watts");
static LIMIT: Family = Family::gauge(
    NameSet::Tas,
    "node_power_limit_watts",
    "watts",
    "Limits of a package: thermal_spec is what it was built for, long_term and short_term are what is set now.",
)
.labels("package, die, constraint (thermal_spec, long_term, short_term)")
.source(LIMIT_FILES)
.peers("collectd_package_<N>_TDP_power_power");
static AVERAGE: Family = Family::gauge(
    NameSet::Node,
    "node_package_power_avg",
    "percent",
    "Power of the packages in percent of what they were built for, mean over all packages and 10 seconds.",
)
.source("/sys/class/powercap/intel-rapl:*/{energy_uj,constraint_*}")
.root_only()
.peers("the recording rule of the same name (two sockets only)");
static SHARE: Family = Family::gauge(
    NameSet::Tas,
    "node_package_power_ratio",
    "ratio",
    "Power of a package as a share of what it was built for, mean over 10 seconds.",
)
.labels("package")
.source("/sys/class/powercap/intel-rapl:*/{energy_uj,constraint_*}")
.root_only();
static NODE_WATTS: Family = Family::gauge(
    NameSet::Tas,
    "node_power_total_watts",
    "watts",
    "Power of the node as far as RAPL sees it: the platform zone if it works, else packages plus memory.",
)
.labels("source (psys, rapl)")
.source(ENERGY_FILE)
.root_only()
.peers("scaph_host_power_microwatts");
static POWER_SOURCE: Family = Family::gauge(
    NameSet::Tas,
    "node_power_source_info",
    "",
    "Where power comes from and, if from nowhere, why; always 1.",
)
.labels("source (psys, rapl, none), reason")
.source(ENERGY_FILE);
static NODE_JOULES: Family = Family::counter(
    NameSet::Node,
    "node_rapl_<zone>_joules_total",
    "joules",
    "Energy used by the zone since the agent started; unlike the hardware counter it does not wrap.",
)
.labels("index, path")
.source(ENERGY_FILE)
.root_only()
.peers("node_exporter rapl (the raw counter, which wraps)");
static COLLECTD_POWER: Family = Family::gauge(
    NameSet::Collectd,
    "collectd_package_<N>_power_power",
    "watts",
    "write_prometheus plugin: '<name>' Type: 'power', Dstype: 'gauge', Dsname: 'value'",
)
.labels("instance")
.source(ENERGY_FILE)
.root_only()
.peers("collectd python pkgpower");
static COLLECTD_TDP: Family = Family::gauge(
    NameSet::Collectd,
    "collectd_package_<N>_TDP_power_power",
    "watts",
    "write_prometheus plugin: '<name>' Type: 'power', Dstype: 'gauge', Dsname: 'value'",
)
.labels("instance")
.source("/sys/class/powercap/intel-rapl:*/constraint_0_max_power_uw")
.peers("collectd python pkgpower");
static FAMILIES: [&Family; 10] = [
    &JOULES,
    &WATTS,
    &LIMIT,
    &AVERAGE,
    &SHARE,
    &NODE_WATTS,
    &POWER_SOURCE,
    &NODE_JOULES,
    &COLLECTD_POWER,
    &COLLECTD_TDP,
];

struct Zone {
    alias: Alias,
    probe: Probe,
    limits: Limits,
    trouble: Option<Trouble>,
}

/// One package over all its dies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Package {
    /// Tenths of a watt; none if any die is silent.
    deciwatts: Option<u64>,
    /// Microwatts; none if any die's is unknown.
    tdp: Option<u64>,
}

impl Package {
    /// Power in hundredths of a percent of TDP: tenths of a watt over microwatts.
    fn share(&self) -> Option<u128> {
        let tdp = self.tdp.filter(|&tdp| tdp > 0)?;
        Some(u128::from(self.deciwatts?) * 1_000_000_000 / u128::from(tdp))
    }
}

/// The collector.
pub struct Rapl {
    host: Host,
    configured_tdp: Option<u64>,
    /// When zones are looked for next; at once if never yet.
    list_at: Duration,
    zones: BTreeMap<ZoneId, Zone>,
    // Kept when a zone goes, so that its joules go on from where they were when it returns.
    meters: BTreeMap<ZoneId, Meter>,
    listing: Option<Trouble>,
    sampled: Option<Duration>,
}

impl Rapl {
    /// Zones of this host; `tdp_watts` is for packages whose kernel does not say.
    pub fn new(host: &Host, tdp_watts: Option<u32>) -> Self {
        Self {
            host: host.clone(),
            configured_tdp: tdp_watts.map(|watts| u64::from(watts) * 1_000_000),
            list_at: Duration::ZERO,
            zones: BTreeMap::new(),
            meters: BTreeMap::new(),
            listing: None,
            sampled: None,
        }
    }

    fn list(&mut self, buffer: &mut Buffer) {
        let found = match zones::find(&self.host, buffer) {
            Ok(found) => found,
            Err(trouble) => {
                self.listing = Some(trouble);
                self.zones.clear();
                return;
            }
        };
        self.listing = None;
        self.zones.retain(|id, _| found.contains_key(id));
        self.meters.retain(|id, _| found.contains_key(id) || found.len() < zones::MAX_ZONES);
        for (id, zone) in found {
            self.meters.entry(id.clone()).or_insert_with(|| Meter::new(zone.range)).returned(zone.range);
            let probe = self.host.attribute(zone.directory.join("energy_uj"));
            let old = self.zones.remove(&id).filter(|old| old.probe.path() == probe.path());
            let probe = old.map_or(probe, |old| old.probe);
            self.zones.insert(id, Zone { alias: zone.alias, probe, limits: zone.limits, trouble: None });
        }
    }

    /// What a package was built for: what the kernel says, else the limit that is set, else the configuration.
    fn tdp(&self, limits: Limits) -> Option<u64> {
        let believable = |limit: &u64| *limit <= CEILING_WATTS * 1_000_000;
        let [built_for, set] = [limits.thermal_spec, limits.long_term].map(|limit| limit.filter(believable));
        built_for.or(set).or(self.configured_tdp)
    }

    /// Packages by number, dies added up.
    fn packages(&self, now: Duration) -> BTreeMap<u32, Package> {
        let mut packages = BTreeMap::new();
        for (id, zone) in &self.zones {
            if let (Domain::Package, Some(number)) = (&id.domain, id.package) {
                let watts = self.deciwatts(id, now, WINDOW);
                let tdp = self.tdp(zone.limits);
                let sum = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_add(b?));
                packages
                    .entry(number)
                    .and_modify(|p: &mut Package| {
                        *p = Package { deciwatts: sum(p.deciwatts, watts), tdp: sum(p.tdp, tdp) };
                    })
                    .or_insert(Package { deciwatts: watts, tdp });
            }
        }
        packages
    }

    /// A zone that cannot be read now has no power, though its meter may remember some.
    fn deciwatts(&self, id: &ZoneId, now: Duration, span: Duration) -> Option<u64> {
        self.zones.get(id).filter(|zone| zone.trouble.is_none())?;
        self.meters.get(id)?.deciwatts(now, span)
    }

    /// The node's power: never a zone inside another one twice.
    fn node_deciwatts(&self, now: Duration) -> Option<(&'static str, u64)> {
        let sum = |domain: Domain| -> Option<u64> {
            let ids = self.zones.keys().filter(|id| id.domain == domain);
            ids.map(|id| self.deciwatts(id, now, WINDOW)).try_fold(0u64, |sum, w| sum.checked_add(w?))
        };
        let has = |domain| self.zones.keys().any(|id| id.domain == domain);
        let packages = has(Domain::Package).then(|| sum(Domain::Package)).flatten();
        // Some firmware has a platform zone that stands still or counts in another unit.
        let platform = has(Domain::Psys).then(|| sum(Domain::Psys)).flatten();
        if let Some(watts) = platform.filter(|&watts| watts > 0 && watts >= packages.unwrap_or(0)) {
            return Some(("psys", watts));
        }
        Some(("rapl", packages?.saturating_add(sum(Domain::Dram)?)))
    }

    fn trouble(&self) -> Option<&Trouble> {
        let readable = self.zones.values().any(|zone| zone.trouble.is_none());
        if readable {
            None
        } else {
            self.listing.as_ref().or(self.zones.values().find_map(|z| z.trouble.as_ref()))
        }
    }

    fn write_zones(&self, now: Moment, page: &mut Page) {
        let live = || self.zones.iter().filter(|(_, zone)| zone.trouble.is_none());
        if page.family(&JOULES) {
            for (id, _) in live() {
                if let Some(total) = self.meters.get(id).and_then(Meter::total) {
                    zone_sample(page, id, None, Value::Fixed(total, 6));
                }
            }
        }
        if page.family(&WATTS) {
            for (id, _) in live() {
                for (name, span) in [("10s", WINDOW), ("60s", LONG_WINDOW)] {
                    if let Some(watts) = self.deciwatts(id, now.up, span) {
                        zone_sample(page, id, Some(("window", name)), Value::Fixed(watts, 1));
                    }
                }
            }
        }
        if page.family(&LIMIT) {
            for (id, zone) in self.zones.iter().filter(|(id, _)| id.domain == Domain::Package) {
                let Limits { thermal_spec, long_term, short_term } = zone.limits;
                let limits =
                    [("thermal_spec", thermal_spec), ("long_term", long_term), ("short_term", short_term)];
                for (name, limit) in limits {
                    if let Some(limit) = limit {
                        zone_sample(page, id, Some(("constraint", name)), Value::Fixed(limit, 6));
                    }
                }
            }
        }
        if page.wants(NameSet::Node) {
            let mut names: Vec<&str> = self.zones.values().map(|zone| zone.alias.name.as_str()).collect();
            names.sort_unstable();
            names.dedup();
            for name in names {
                page.family_named(&NODE_JOULES, &LegalName::of(&format!("node_rapl_{name}_joules_total")));
                for (id, Zone { alias, .. }) in live().filter(|(_, zone)| zone.alias.name == name) {
                    if let Some(total) = self.meters.get(id).and_then(Meter::total) {
                        let index = Digits::of(alias.index);
                        let labels = [("index", index.as_bytes()), ("path", alias.path.as_bytes())];
                        page.sample(&labels, Value::Fixed(total, 6));
                    }
                }
            }
        }
    }
}

fn write_source(page: &mut Page, source: &str, reason: &str) {
    page.family(&POWER_SOURCE);
    page.sample(&[("source", source.as_bytes()), ("reason", reason.as_bytes())], Value::Count(1));
}

fn zone_sample(page: &mut Page, id: &ZoneId, extra: Option<(&str, &str)>, value: Value) {
    let package = id.package.map(|n| Digits::of(u64::from(n)));
    let die = id.die.map(|n| Digits::of(u64::from(n)));
    let mut labels: Vec<(&str, &[u8])> = Vec::with_capacity(4);
    // Limits are of packages alone, so there the zone would say nothing.
    if extra.is_none_or(|(name, _)| name != "constraint") {
        labels.push(("zone", id.domain.name().as_bytes()));
    }
    if let Some(package) = &package {
        labels.push(("package", package.as_bytes()));
    }
    if let Some(die) = &die {
        labels.push(("die", die.as_bytes()));
    }
    if let Some((name, value)) = extra {
        labels.push((name, value.as_bytes()));
    }
    page.sample(&labels, value);
}

impl Collector for Rapl {
    fn source(&self) -> &'static str {
        "rapl"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn tick(&mut self, now: Moment, buffer: &mut Buffer) {
        if now.up >= self.list_at {
            self.list(buffer);
            self.list_at = now.up + RELIST_EVERY;
        }
        for (id, zone) in &mut self.zones {
            let read = zone.probe.read_current(buffer).map(scan::lone_number);
            zone.trouble = match (read, self.meters.get_mut(id)) {
                (Ok(Some(raw)), Some(meter)) => {
                    meter.read(now.up, raw, ceiling(&id.domain, zone.limits, self.configured_tdp));
                    self.sampled = Some(now.up);
                    None
                }
                (Ok(_), _) => {
                    let path = zone.probe.path().to_owned();
                    Some(Trouble::Garbage { path, expected: "a number of microjoules" })
                }
                (Err(trouble), _) => Some(trouble),
            };
        }
        // A zone that was there once may return, and should not wait a minute to be seen.
        let gone = self.meters.len() > self.zones.len() || self.zones.is_empty();
        let missing = gone || self.zones.values().any(|zone| zone.trouble.is_some());
        if missing {
            self.list_at = self.list_at.min(now.up + LOOK_AGAIN_AFTER);
        }
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        if self.sampled.is_none() && self.listing.is_none() && self.zones.is_empty() {
            self.tick(now, buffer);
        }
        self.trouble().map_or(Ok(()), |trouble| Err(trouble.clone()))
    }

    fn write(&self, now: Moment, page: &mut Page) {
        self.write_zones(now, page);
        let packages = self.packages(now.up);
        page.family(&AVERAGE);
        if let Some(percent) = average_percent(&packages) {
            page.sample(&[], Value::Fixed(percent, 2));
        }
        if page.family(&SHARE) {
            for (number, package) in &packages {
                if let Some(share) = package.share().and_then(|share| u64::try_from(share).ok()) {
                    let number = Digits::of(u64::from(*number));
                    page.sample(&[("package", number.as_bytes())], Value::Fixed(share, 4));
                }
            }
        }
        let node = self.node_deciwatts(now.up);
        page.family(&NODE_WATTS);
        if let Some((source, watts)) = node {
            page.sample(&[("source", source.as_bytes())], Value::Fixed(watts, 1));
        }
        match node {
            Some((source, _)) => write_source(page, source, ""),
            None => write_source(page, "none", "no_second_reading_yet"),
        }
        for (number, package) in &packages {
            if let Some(watts) = package.deciwatts {
                page.family_named(
                    &COLLECTD_POWER,
                    &LegalName::of(&format!("collectd_package_{number}_power_power")),
                );
                page.sample(&[], Value::Fixed(watts, 1));
            }
            if let Some(tdp) = package.tdp {
                page.family_named(
                    &COLLECTD_TDP,
                    &LegalName::of(&format!("collectd_package_{number}_TDP_power_power")),
                );
                page.sample(&[], Value::Fixed(tdp, 6));
            }
        }
    }

    fn write_down(&self, trouble: &Trouble, page: &mut Page) {
        write_source(page, "none", trouble.reason());
    }

    fn measured_at(&self) -> Option<Duration> {
        self.sampled
    }

    fn found(&self) -> String {
        let names: Vec<String> = self
            .zones
            .iter()
            .map(|(id, zone)| {
                let state = zone.trouble.as_ref().map(|t| format!(" ({})", t.reason())).unwrap_or_default();
                format!("{id}{state}")
            })
            .collect();
        let tdp = self.packages(Duration::ZERO).values().any(|p| p.tdp.is_none());
        let tdp = if tdp { "; no TDP in sight, give --tdp-watts" } else { "" };
        if names.is_empty() { "no zones".to_owned() } else { format!("{}{tdp}", names.join(", ")) }
    }
}

/// The most that is believable: twice the largest limit, up to a number no hardware reaches.
fn ceiling(domain: &Domain, limits: Limits, configured: Option<u64>) -> u64 {
    let known =
        [limits.thermal_spec, limits.long_term, limits.short_term, configured].into_iter().flatten().max();
    match (domain, known) {
        (Domain::Psys, _) => PLATFORM_CEILING_WATTS,
        // Memory and the rest have no limits of their own that mean anything.
        (Domain::Package, Some(limit)) => (limit.saturating_mul(2) / 1_000_000).clamp(50, CEILING_WATTS),
        _ => CEILING_WATTS,
    }
}

/// Hundredths of a percent of TDP, mean over packages; none unless all packages have both numbers.
fn average_percent(packages: &BTreeMap<u32, Package>) -> Option<u64> {
    let shares: Option<Vec<u128>> = packages.values().map(Package::share).collect();
    let shares = shares.filter(|shares| !shares.is_empty())?;
    u64::try_from(shares.iter().sum::<u128>() / shares.len() as u128).ok()
}
