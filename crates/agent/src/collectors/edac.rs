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
const CHANNEL: &str = "/sys/devices/system/edac/mc/mc*/csrow*/ch*_{ce,ue}_count";
/// Controllers looked at, rows in each, and channels of a row.
const MAX_CONTROLLERS: usize = 128;
const MAX_ROWS: usize = 128;
const MAX_CHANNELS: usize = 16;

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

const fn of_channel(name: &'static str, help: &'static str) -> Family {
    Family::counter(NameSet::Node, name, "errors", help)
        .labels("controller, csrow, channel, dimm_label")
        .source(CHANNEL)
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
static CHANNEL_CORRECTED: Family = of_channel(
    "node_edac_channel_correctable_errors_total",
    "Memory errors that were corrected, by row and channel: one memory module.",
);
static CHANNEL_UNCORRECTED: Family = of_channel(
    "node_edac_channel_uncorrectable_errors_total",
    "Memory errors that could not be corrected, by row and channel: one memory module.",
);
static FAMILIES: [&Family; 6] =
    [&CORRECTED, &UNCORRECTED, &ROW_CORRECTED, &ROW_UNCORRECTED, &CHANNEL_CORRECTED, &CHANNEL_UNCORRECTED];

/// What a counter is about.
#[derive(Clone)]
enum Extent {
    /// All of the controller.
    All,
    /// Nobody knows which row.
    UnknownRow,
    /// One row.
    Row(u32),
    /// One channel of a row, and what the board calls the module there.
    Channel(u32, u32, Vec<u8>),
}

/// One counter and where its value goes.
struct Count {
    controller: u32,
    extent: Extent,
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

fn list(host: &Host, buffer: &mut Buffer) -> Result<Vec<Count>, Trouble> {
    let found = host::numbered(&host.path("sys/devices/system/edac/mc"), "mc")?;
    let mut counts = Vec::new();
    for (controller, directory) in found.into_iter().take(MAX_CONTROLLERS) {
        let mut add = |extent: Extent, place: &Path, families: [&'static Family; 2], files: [&str; 2]| {
            for (family, file) in families.into_iter().zip(files) {
                let errors = Reading::new(host.attribute(place.join(file)), scan::lone_number);
                counts.push(Count { controller, extent: extent.clone(), family, errors });
            }
        };
        let by_row = [&ROW_CORRECTED, &ROW_UNCORRECTED];
        add(Extent::All, &directory, [&CORRECTED, &UNCORRECTED], ["ce_count", "ue_count"]);
        add(Extent::UnknownRow, &directory, by_row, ["ce_noinfo_count", "ue_noinfo_count"]);
        for (row, place) in host::numbered(&directory, "csrow")?.into_iter().take(MAX_ROWS) {
            add(Extent::Row(row), &place, by_row, ["ce_count", "ue_count"]);
            for channel in channels(&place) {
                let extent = Extent::Channel(row, channel, module_label(&place, channel, buffer));
                let files = ["ce", "ue"].map(|kind| format!("ch{channel}_{kind}_count"));
                let by_channel = [&CHANNEL_CORRECTED, &CHANNEL_UNCORRECTED];
                add(extent, &place, by_channel, files.each_ref().map(String::as_str));
            }
        }
    }
    Ok(counts)
}

/// The channels of a row that count errors.
fn channels(row: &Path) -> Vec<u32> {
    let number = |name: &String| name.strip_prefix("ch")?.strip_suffix("_ce_count")?.parse().ok();
    let mut channels: Vec<u32> = host::names_in(row).unwrap_or_default().iter().filter_map(number).collect();
    channels.sort_unstable();
    channels.dedup();
    channels.truncate(MAX_CHANNELS);
    channels
}

/// What the board calls the module of a channel, written as node_exporter does: `mc#0csrow#1channel#0` is
/// `mc0_csrow1_channel0`.
fn module_label(row: &Path, channel: u32, buffer: &mut Buffer) -> Vec<u8> {
    match host::read_once(&row.join(format!("ch{channel}_dimm_label")), buffer) {
        Ok(text) => {
            let label = String::from_utf8_lossy(scan::trimmed(text)).replace('#', "");
            label.replace("csrow", "_csrow").replace("channel", "_channel").into_bytes()
        }
        Err(_) => b"unknown".to_vec(),
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
        self.counts.refresh(now, || list(&self.host, buffer))?;
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
                match &count.extent {
                    Extent::All => page.sample(&[controller], Value::Count(now)),
                    Extent::UnknownRow => {
                        page.sample(&[controller, ("csrow", b"unknown")], Value::Count(now));
                    }
                    Extent::Row(row) => {
                        let row = Digits::of(u64::from(*row));
                        page.sample(&[controller, ("csrow", row.as_bytes())], Value::Count(now));
                    }
                    Extent::Channel(row, channel, label) => {
                        let [row, channel] = [*row, *channel].map(|number| Digits::of(u64::from(number)));
                        let labels = [
                            controller,
                            ("csrow", row.as_bytes()),
                            ("channel", channel.as_bytes()),
                            ("dimm_label", label),
                        ];
                        page.sample(&labels, Value::Count(now));
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
