//! Thermal zones from `/sys/class/thermal`, and how far the hottest is from being shut down.

use crate::collectors::{Collector, Relist};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/sys/class/thermal/thermal_zone*/temp";
/// Zones looked at.
const MAX_ZONES: usize = 256;
/// Trip points looked at in a zone.
const MAX_TRIPS: u32 = 16;

static TEMPERATURE: Family =
    Family::gauge(NameSet::Node, "node_thermal_zone_temp", "celsius", "Temperature of a thermal zone.")
        .labels("zone, type")
        .source(SOURCE)
        .peers("node_exporter thermal_zone");
static HEADROOM: Family = Family::gauge(
    NameSet::Tas,
    "node_thermal_headroom_celsius",
    "celsius",
    "Degrees left until the zone that is nearest to its critical trip point reaches it.",
)
.source("/sys/class/thermal/thermal_zone*/{temp,trip_point_*}");
static FAMILIES: [&Family; 2] = [&TEMPERATURE, &HEADROOM];

struct Zone {
    number: u32,
    kind: Vec<u8>,
    temperature: Probe,
    critical: Option<i64>,
    now: Option<i64>,
}

/// The collector.
pub struct Thermal {
    host: Host,
    relist: Relist,
    zones: Vec<Zone>,
}

impl Thermal {
    /// Zones of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), relist: Relist::default(), zones: Vec::new() }
    }

    fn list(&mut self, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.zones.clear();
        let found = host::numbered(&self.host.path("sys/class/thermal"), "thermal_zone")?;
        for (number, directory) in found.into_iter().take(MAX_ZONES) {
            let kind = host::read_once(&directory.join("type"), buffer).map(|t| scan::trimmed(t).to_vec());
            let critical = (0..MAX_TRIPS).find_map(|n| {
                let kind = host::read_once(&directory.join(format!("trip_point_{n}_type")), buffer).ok()?;
                if scan::trimmed(kind) != b"critical" {
                    return None;
                }
                let text = host::read_once(&directory.join(format!("trip_point_{n}_temp")), buffer).ok()?;
                // Firmware that knows no such point says 0 or less.
                scan::signed(scan::trimmed(text)).filter(|&point| point > 0)
            });
            let temperature = self.host.attribute(directory.join("temp"));
            self.zones.push(Zone {
                number,
                kind: kind.unwrap_or_default(),
                temperature,
                critical,
                now: None,
            });
        }
        Ok(())
    }
}

impl Collector for Thermal {
    fn source(&self) -> &'static str {
        "thermal"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        if self.relist.due(now) {
            self.list(buffer).inspect_err(|trouble| self.relist.retry(trouble))?;
        }
        let mut trouble = None;
        for zone in &mut self.zones {
            zone.now = match zone.temperature.read(buffer) {
                Ok(text) => scan::signed(scan::trimmed(text)),
                Err(this) => {
                    // Sleeping zones answer ENODATA or EINVAL; that is their business alone.
                    trouble.get_or_insert(this);
                    None
                }
            };
        }
        match trouble {
            Some(trouble) if self.zones.iter().all(|zone| zone.now.is_none()) => Err(trouble),
            _ if self.zones.is_empty() => {
                Err(Trouble::Absent { path: self.host.path("sys/class/thermal/thermal_zone0") })
            }
            _ => Ok(()),
        }
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        page.family(&TEMPERATURE);
        for zone in &self.zones {
            if let Some(now) = zone.now {
                let number = Digits::of(u64::from(zone.number));
                page.sample(&[("zone", number.as_bytes()), ("type", &zone.kind)], Value::Signed(now, 3));
            }
        }
        page.family(&HEADROOM);
        let left = self.zones.iter().filter_map(|zone| zone.critical?.checked_sub(zone.now?)).min();
        if let Some(left) = left {
            page.sample(&[], Value::Signed(left, 3));
        }
    }

    fn found(&self) -> String {
        let with_critical = self.zones.iter().filter(|zone| zone.critical.is_some()).count();
        format!("{} zones, {with_critical} with a critical point", self.zones.len())
    }
}
