//! Thermal zones from `/sys/class/thermal`, and how far the hottest is from being shut down.

use std::path::Path;

use crate::collectors::Collector;
use crate::collectors::listing::{Listing, Reading, read_each};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host};
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
    temperature: Reading<i64>,
    critical: Option<i64>,
}

impl Zone {
    fn at(host: &Host, number: u32, directory: &Path, buffer: &mut Buffer) -> Self {
        let kind = host::read_once(&directory.join("type"), buffer).map(|t| scan::trimmed(t).to_vec());
        let critical = (0..MAX_TRIPS).find_map(|n| {
            let kind = host::read_once(&directory.join(format!("trip_point_{n}_type")), buffer).ok()?;
            if scan::trimmed(kind) != b"critical" {
                return None;
            }
            let text = host::read_once(&directory.join(format!("trip_point_{n}_temp")), buffer).ok()?;
            // Firmware that knows no such point says 0 or less.
            scan::lone_signed(text).filter(|&point| point > 0)
        });
        let temperature = Reading::new(host.attribute(directory.join("temp")), scan::lone_signed);
        Self { number, kind: kind.unwrap_or_default(), temperature, critical }
    }
}

/// The collector.
pub struct Thermal {
    host: Host,
    zones: Listing<Vec<Zone>>,
}

impl Thermal {
    /// Zones of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), zones: Listing::default() }
    }
}

fn list(host: &Host, buffer: &mut Buffer) -> Result<Vec<Zone>, Trouble> {
    let found = host::numbered(&host.path("sys/class/thermal"), "thermal_zone")?.into_iter().take(MAX_ZONES);
    Ok(found.map(|(number, directory)| Zone::at(host, number, &directory, buffer)).collect())
}

impl Collector for Thermal {
    fn source(&self) -> &'static str {
        "thermal"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.zones.refresh(now, || list(&self.host, buffer))?;
        let place = || self.host.path("sys/class/thermal/thermal_zone0");
        read_each(self.zones.found_mut(), place, |zone| zone.temperature.take(buffer))
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        page.family(&TEMPERATURE);
        for zone in self.zones.found() {
            if let Some(now) = zone.temperature.now {
                let number = Digits::of(u64::from(zone.number));
                page.sample(&[("zone", number.as_bytes()), ("type", &zone.kind)], Value::Signed(now, 3));
            }
        }
        page.family(&HEADROOM);
        let zones = self.zones.found().iter();
        let left = zones.filter_map(|zone| zone.critical?.checked_sub(zone.temperature.now?)).min();
        if let Some(left) = left {
            page.sample(&[], Value::Signed(left, 3));
        }
    }

    fn found(&self) -> String {
        let zones = self.zones.found();
        let with_critical = zones.iter().filter(|zone| zone.critical.is_some()).count();
        format!("{} zones, {with_critical} with a critical point", zones.len())
    }
}
