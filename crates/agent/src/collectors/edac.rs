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
const ROW: &str = "/sys/devices/system/edac/mc/mc*/{csrow*/{ce,ue},{ce,ue}_noinfo}_count";
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
        .labels("controller, csrow (a number, unknown)")
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

/// What a counter is about.
#[derive(Clone, Copy)]
enum Row {
    /// All of the controller.
    All,
    /// Nobody knows which row.
    Unknown,
    /// One row.
    Number(u32),
}

/// One counter and where its value goes.
struct Count {
    controller: u32,
    row: Row,
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
        let mut add = |row, place: &Path, families: [&'static Family; 2], files: [&str; 2]| {
            for (family, file) in families.into_iter().zip(files) {
                let errors = Reading::new(host.attribute(place.join(file)), scan::lone_number);
                counts.push(Count { controller, row, family, errors });
            }
        };
        let by_row = [&ROW_CORRECTED, &ROW_UNCORRECTED];
        add(Row::All, &directory, [&CORRECTED, &UNCORRECTED], ["ce_count", "ue_count"]);
        add(Row::Unknown, &directory, by_row, ["ce_noinfo_count", "ue_noinfo_count"]);
        for (row, place) in host::numbered(&directory, "csrow")?.into_iter().take(MAX_ROWS) {
            add(Row::Number(row), &place, by_row, ["ce_count", "ue_count"]);
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
                let controller = ("controller", controller.as_bytes());
                match count.row {
                    Row::All => page.sample(&[controller], Value::Count(now)),
                    Row::Unknown => page.sample(&[controller, ("csrow", b"unknown")], Value::Count(now)),
                    Row::Number(row) => {
                        let row = Digits::of(u64::from(row));
                        page.sample(&[controller, ("csrow", row.as_bytes())], Value::Count(now));
                    }
                }
            }
        }
    }

    fn found(&self) -> String {
        let controllers =
            self.counts.found().iter().filter(|count| std::ptr::eq(count.family, &raw const CORRECTED));
        format!("{} memory controllers", controllers.count())
    }
}
