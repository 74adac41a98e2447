//! Block devices from `/proc/diskstats`.

use crate::collectors::Collector;
use crate::family::{Family, NameSet};
use crate::host::{Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/proc/diskstats";
/// The kernel counts in sectors of 512 bytes whatever the device does.
const SECTOR: u64 = 512;
/// Devices looked at.
pub const MAX_DISKS: usize = 1024;
const COLUMNS: usize = 17;

const fn counter(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::counter(NameSet::Node, name, unit, help)
        .labels("device")
        .source(SOURCE)
        .peers("node_exporter diskstats")
}

/// In the order of the file's columns.
static NODE: [Family; COLUMNS] = [
    counter("node_disk_reads_completed_total", "", "Reads completed."),
    counter("node_disk_reads_merged_total", "", "Reads merged with a neighbour."),
    counter("node_disk_read_bytes_total", "bytes", "Bytes read."),
    counter("node_disk_read_time_seconds_total", "seconds", "Time spent by all reads."),
    counter("node_disk_writes_completed_total", "", "Writes completed."),
    counter("node_disk_writes_merged_total", "", "Writes merged with a neighbour."),
    counter("node_disk_written_bytes_total", "bytes", "Bytes written."),
    counter("node_disk_write_time_seconds_total", "seconds", "Time spent by all writes."),
    Family::gauge(NameSet::Node, "node_disk_io_now", "", "Requests under way.")
        .labels("device")
        .source(SOURCE)
        .peers("node_exporter diskstats"),
    counter("node_disk_io_time_seconds_total", "seconds", "Time with any request under way."),
    counter(
        "node_disk_io_time_weighted_seconds_total",
        "seconds",
        "Time with requests under way, times their number.",
    ),
    counter("node_disk_discards_completed_total", "", "Discards completed."),
    counter("node_disk_discards_merged_total", "", "Discards merged with a neighbour."),
    counter("node_disk_discarded_sectors_total", "sectors", "Sectors discarded."),
    counter("node_disk_discard_time_seconds_total", "seconds", "Time spent by all discards."),
    counter("node_disk_flush_requests_total", "", "Flushes completed."),
    counter("node_disk_flush_requests_time_seconds_total", "seconds", "Time spent by all flushes."),
];
const BYTE_COLUMNS: [usize; 2] = [2, 6];
const MILLISECOND_COLUMNS: [usize; 6] = [3, 7, 9, 10, 14, 16];

static FAMILIES: [&Family; COLUMNS] = [
    &NODE[0], &NODE[1], &NODE[2], &NODE[3], &NODE[4], &NODE[5], &NODE[6], &NODE[7], &NODE[8], &NODE[9],
    &NODE[10], &NODE[11], &NODE[12], &NODE[13], &NODE[14], &NODE[15], &NODE[16],
];

/// What a line says: the device, its columns, and how many there were (older kernels write fewer).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// As in `/dev`.
    pub name: Vec<u8>,
    /// As in the file.
    pub columns: [u64; COLUMNS],
    /// How many of them the kernel wrote.
    pub written: usize,
}

/// Reads a line such as `8 0 sda 1 2 3 …`.
pub fn parse_line(line: &[u8]) -> Option<Disk> {
    let mut fields = scan::fields(line).skip(2);
    let name = fields.next()?.to_vec();
    let mut columns = [0; COLUMNS];
    let mut written = 0;
    for (column, field) in columns.iter_mut().zip(fields) {
        *column = scan::number(field)?;
        written += 1;
    }
    (written >= 11).then_some(Disk { name, columns, written })
}

/// Whole disks only: no partitions (`sda1`, `nvme0n1p1`), RAM disks, loops or floppies. What node_exporter leaves out.
fn is_whole_disk(name: &[u8]) -> bool {
    let stem = name.trim_ascii_end();
    let digits = stem.iter().rev().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 {
        return true;
    }
    let stem = &stem[..stem.len() - digits];
    if matches!(stem, b"ram" | b"zram" | b"loop" | b"fd") {
        return false;
    }
    // sda1, hdb2, vdc3, xvdd4
    for kind in [&b"xvd"[..], b"hd", b"sd", b"vd"] {
        if let Some([letter]) = stem.strip_prefix(kind) {
            return !letter.is_ascii_lowercase();
        }
    }
    let is_nvme_partition = stem.starts_with(b"nvme") && stem.ends_with(b"p") && stem.contains(&b'n');
    !is_nvme_partition
}

/// The collector.
pub struct Disks {
    probe: Probe,
    disks: Vec<Disk>,
}

impl Disks {
    /// Disks of this host.
    pub fn new(host: &Host) -> Self {
        Self { probe: host.table(host.path(SOURCE)), disks: Vec::new() }
    }
}

impl Collector for Disks {
    fn source(&self) -> &'static str {
        "disks"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, _now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        let text = self.probe.read(buffer)?;
        self.disks.clear();
        let whole = |line: &&[u8]| scan::fields(line).nth(2).is_some_and(is_whole_disk);
        self.disks.extend(scan::lines(text).filter(whole).filter_map(parse_line).take(MAX_DISKS));
        Ok(())
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        for (column, family) in NODE.iter().enumerate() {
            if !page.family(family) {
                return;
            }
            for disk in self.disks.iter().filter(|disk| column < disk.written) {
                let raw = disk.columns[column];
                let value = if BYTE_COLUMNS.contains(&column) {
                    Value::Count(raw.saturating_mul(SECTOR))
                } else if MILLISECOND_COLUMNS.contains(&column) {
                    Value::Fixed(raw, 3)
                } else {
                    Value::Count(raw)
                };
                page.sample(&[("device", &disk.name)], value);
            }
        }
    }

    fn found(&self) -> String {
        format!("{} disks", self.disks.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_old_and_a_new_kernels_line() {
        let old = parse_line(b"   8       0 sda 1 2 3 4 5 6 7 8 9 10 11").expect("eleven columns");
        assert_eq!((old.name.as_slice(), old.written, old.columns[10]), (&b"sda"[..], 11, 11));
        let new = parse_line(b"259 0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17")
            .expect("seventeen columns");
        assert_eq!((new.written, new.columns[16]), (17, 17));
        assert_eq!(parse_line(b"8 1 sda1 1 2 3 4"), None);
    }

    #[test]
    fn partitions_and_toys_are_left_out() {
        let whole = ["sda", "vda", "nvme0n1", "dm-0", "md127", "sr0", "mmcblk0", "nbd0"];
        let parts = ["sda1", "vda15", "xvda2", "nvme0n1p2", "ram0", "zram0", "loop12", "fd0"];
        assert_eq!(whole.map(|name| is_whole_disk(name.as_bytes())), [true; 8]);
        assert_eq!(parts.map(|name| is_whole_disk(name.as_bytes())), [false; 8]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            let _ = (parse_line(&text), is_whole_disk(&text));
        }

        #[test]
        fn any_line_reads_back(name in "[a-z0-9-]{1,12}", columns: [u64; COLUMNS]) {
            let line = columns.iter().fold(format!("8 0 {name}"), |line, n| format!("{line} {n}"));
            let expected = Disk { name: name.into_bytes(), columns, written: COLUMNS };
            prop_assert_eq!(parse_line(line.as_bytes()), Some(expected));
        }
    }
}
