//! Memory errors the hardware corrected, and those it could not, from `/sys/devices/system/edac/mc`.

use std::path::PathBuf;

use crate::collectors::{Collector, Relist};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host, Probe};
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
    probe: Probe,
    now: Option<u64>,
}

/// The collector.
pub struct Edac {
    host: Host,
    relist: Relist,
    controllers: usize,
    counts: Vec<Count>,
}

impl Edac {
    /// Memory controllers of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), relist: Relist::default(), controllers: 0, counts: Vec::new() }
    }

    fn list(&mut self) -> Result<(), Trouble> {
        let found = host::numbered(&self.host.path("sys/devices/system/edac/mc"), "mc")?;
        self.counts.clear();
        self.controllers = found.len();
        for (controller, directory) in found.into_iter().take(MAX_CONTROLLERS) {
            let mut add = |row, place: &PathBuf, families: [&'static Family; 2]| {
                for (family, file) in families.into_iter().zip(["ce_count", "ue_count"]) {
                    let probe = self.host.attribute(place.join(file));
                    self.counts.push(Count { controller, row, family, probe, now: None });
                }
            };
            add(None, &directory, [&CORRECTED, &UNCORRECTED]);
            for (row, place) in host::numbered(&directory, "csrow")?.into_iter().take(MAX_ROWS) {
                add(Some(row), &place, [&ROW_CORRECTED, &ROW_UNCORRECTED]);
            }
        }
        Ok(())
    }
}

impl Collector for Edac {
    fn source(&self) -> &'static str {
        "edac"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        if self.relist.due(now) {
            self.list().inspect_err(|trouble| self.relist.retry(trouble))?;
        }
        let mut trouble = None;
        for count in &mut self.counts {
            count.now = match count.probe.read(buffer) {
                Ok(text) => scan::lone_number(text),
                Err(this) => {
                    trouble.get_or_insert(this);
                    None
                }
            };
        }
        if self.counts.iter().any(|count| count.now.is_some()) {
            return Ok(());
        }
        self.relist.soon();
        Err(trouble
            .unwrap_or_else(|| Trouble::Absent { path: self.host.path("sys/devices/system/edac/mc/mc0") }))
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        for family in FAMILIES {
            page.family(family);
            for count in self.counts.iter().filter(|count| std::ptr::eq(count.family, family)) {
                let Some(now) = count.now else { continue };
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
        format!("{} memory controllers", self.controllers)
    }
}
