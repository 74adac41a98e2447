//! Memory errors the hardware corrected, and those it could not, from `/sys/devices/system/edac/mc`.

use std::path::Path;

use crate::collectors::Collector;
use crate::collectors::listing::{Listing, Reading, read_each};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const CONTROLLER: &str = "/sys/devices/system/edac/mc/mc*/{ce,ue}_count";
const ROW: &str = "/sys/devices/system/edac/mc/mc*/csrow*/{ce,ue}_count";
/// Controllers looked at, and rows in each.
const MAX_CONTROLLERS: usize = 128;
const MAX_ROWS: usize = 128;

const fn of_controller(name: &'static str, help: &'static str) -> Family {
    Family::counter(NameSet::Node, name, "errors", help)
        .labels("controller")
        .source(CONTROLLER)
        .peers("node_exporter edac")
}

const fn of_row(name: &'static str, help: &'static str) -> Family {
    Family::counter(NameSet::Node, name, "errors", help)
        .labels("controller, csrow")
        .source(ROW)
        .peers("node_exporter edac")
}

static CORRECTED: Family =
    of_controller("node_edac_correctable_errors_total", "Memory errors that were corrected.");
static UNCORRECTED: Family =
    of_controller("node_edac_uncorrectable_errors_total", "Memory errors that could not be corrected.");
static ROW_CORRECTED: Family =
    of_row("node_edac_csrow_correctable_errors_total", "Memory errors that were corrected, by row.");
static ROW_UNCORRECTED: Family = of_row(
    "node_edac_csrow_uncorrectable_errors_total",
    "Memory errors that could not be corrected, by row.",
);
static FAMILIES: [&Family; 4] = [&CORRECTED, &UNCORRECTED, &ROW_CORRECTED, &ROW_UNCORRECTED];

/// One counter and where its value goes.
struct Count {
    controller: u32,
    row: Option<u32>,
    family: &'static Family,
    errors: Reading<u64>,
}

/// The collector.
pub struct Edac {
    host: Host,
    counts: Listing<Vec<Count>>,
}

impl Edac {
    /// Memory controllers of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), counts: Listing::default() }
    }
}

fn list(host: &Host) -> Result<Vec<Count>, Trouble> {
    let found = host::numbered(&host.path("sys/devices/system/edac/mc"), "mc")?;
    let mut counts = Vec::new();
    for (controller, directory) in found.into_iter().take(MAX_CONTROLLERS) {
        let mut add = |row, place: &Path, families: [&'static Family; 2]| {
            for (family, file) in families.into_iter().zip(["ce_count", "ue_count"]) {
                let errors = Reading::new(host.attribute(place.join(file)), scan::lone_number);
                counts.push(Count { controller, row, family, errors });
            }
        };
        add(None, &directory, [&CORRECTED, &UNCORRECTED]);
        for (row, place) in host::numbered(&directory, "csrow")?.into_iter().take(MAX_ROWS) {
            add(Some(row), &place, [&ROW_CORRECTED, &ROW_UNCORRECTED]);
        }
    }
    Ok(counts)
}

impl Collector for Edac {
    fn source(&self) -> &'static str {
        "edac"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.counts.refresh(now, || list(&self.host))?;
        let place = || self.host.path("sys/devices/system/edac/mc/mc0");
        let read = read_each(self.counts.found_mut(), place, |count| count.errors.take(buffer));
        // Controllers come and go with their driver.
        read.inspect_err(|_| self.counts.soon())
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        for family in FAMILIES {
            page.family(family);
            for count in self.counts.found().iter().filter(|count| std::ptr::eq(count.family, family)) {
                let Some(now) = count.errors.now else { continue };
                let controller = Digits::of(u64::from(count.controller));
                let row = count.row.map(|row| Digits::of(u64::from(row)));
                let labels = [
                    ("controller", controller.as_bytes()),
                    ("csrow", row.as_ref().map_or(&[][..], Digits::as_bytes)),
                ];
                page.sample(&labels[..=usize::from(row.is_some())], Value::Count(now));
            }
        }
    }

    fn found(&self) -> String {
        let controllers =
            self.counts.found().iter().filter(|count| std::ptr::eq(count.family, &raw const CORRECTED));
        format!("{} memory controllers", controllers.count())
    }
}
