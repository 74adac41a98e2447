//! Memory from `/proc/meminfo`.

use crate::collectors::Collector;
use crate::family::{Family, NameSet};
use crate::host::{Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{LegalName, Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/proc/meminfo";
/// Fields looked at; kernels write about sixty.
const MAX_FIELDS: usize = 256;

static BYTES: Family =
    Family::gauge(NameSet::Node, "node_memory_<Field>_bytes", "bytes", "Memory: a field of /proc/meminfo.")
        .source(SOURCE)
        .peers("node_exporter meminfo");
static PAGES: Family =
    Family::gauge(NameSet::Node, "node_memory_HugePages_<state>", "pages", "Huge pages of the default size.")
        .source(SOURCE)
        .peers("node_exporter meminfo");
static COLLECTD: Family = Family::gauge(
    NameSet::Collectd,
    "collectd_memory",
    "bytes",
    "write_prometheus plugin: 'memory' Type: 'memory', Dstype: 'gauge', Dsname: 'value'",
)
.labels("memory, instance")
.source(SOURCE)
.peers("collectd memory");
static AVAILABLE: Family = Family::gauge(
    NameSet::Tas,
    "node_memory_available_ratio",
    "ratio",
    "Share of memory that a new workload could have without swapping.",
)
.source(SOURCE)
.peers("node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes");
static FAMILIES: [&Family; 4] = [&BYTES, &PAGES, &COLLECTD, &AVAILABLE];

/// One line: the field's name, its value, and whether that is in bytes (rather than a count).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// As the kernel writes it.
    pub name: String,
    /// The family it goes to under node_exporter's names.
    family: LegalName,
    /// Bytes, or pages.
    pub value: u64,
    /// Whether the line said kB.
    pub bytes: bool,
}

impl Field {
    fn new(name: &str, value: u64, bytes: bool) -> Self {
        // `Active(anon)` is written `Active_anon`.
        let clean = name.trim_end_matches(')').replace('(', "_");
        let suffix = if bytes { "_bytes" } else { "" };
        Self {
            name: name.to_owned(),
            family: LegalName::of(&format!("node_memory_{clean}{suffix}")),
            value,
            bytes,
        }
    }
}

/// Reads a line such as `MemTotal:  1024 kB`.
pub fn parse_line(line: &[u8]) -> Option<(&[u8], u64, bool)> {
    let colon = line.iter().position(|&b| b == b':')?;
    let name = Some(scan::trimmed(&line[..colon])).filter(|name| !name.is_empty())?;
    let mut fields = scan::fields(&line[colon + 1..]);
    let value = scan::number(fields.next()?)?;
    match fields.next() {
        Some(b"kB") => Some((name, value.checked_mul(1024)?, true)),
        None => Some((name, value, false)),
        Some(_) => None,
    }
}

/// The collector.
pub struct Memory {
    probe: Probe,
    fields: Vec<Field>,
}

impl Memory {
    /// Memory of this host.
    pub fn new(host: &Host) -> Self {
        Self { probe: host.attribute(host.path(SOURCE)), fields: Vec::new() }
    }

    fn parse(&mut self, text: &[u8]) {
        let mut count = 0;
        for (name, value, bytes) in scan::lines(text).filter_map(parse_line).take(MAX_FIELDS) {
            // The kernel writes the same fields in the same order every time; their names are kept.
            match self.fields.get_mut(count) {
                Some(field) if field.name.as_bytes() == name => (field.value, field.bytes) = (value, bytes),
                known => {
                    let Ok(name) = str::from_utf8(name) else { continue };
                    let field = Field::new(name, value, bytes);
                    match known {
                        Some(known) => *known = field,
                        None => self.fields.push(field),
                    }
                }
            }
            count += 1;
        }
        self.fields.truncate(count);
    }

    fn value(&self, name: &str) -> Option<u64> {
        self.fields.iter().find(|field| field.name == name).map(|field| field.value)
    }

    /// What collectd 5.12 makes of it: six parts that sum to the total.
    fn collectd_parts(&self) -> Option<[(&'static str, u64); 6]> {
        let total = self.value("MemTotal")?;
        let part = |name| self.value(name).unwrap_or(0);
        let [buffered, cached, free] = ["Buffers", "Cached", "MemFree"].map(part);
        let [reclaimable, unreclaimable] = ["SReclaimable", "SUnreclaim"].map(part);
        let rest = [buffered, cached, free, reclaimable, unreclaimable];
        let used = rest.iter().fold(total, |left, &part| left.saturating_sub(part));
        Some([
            ("buffered", buffered),
            ("cached", cached),
            ("free", free),
            ("slab_recl", reclaimable),
            ("slab_unrecl", unreclaimable),
            ("used", used),
        ])
    }
}

impl Collector for Memory {
    fn source(&self) -> &'static str {
        "memory"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, _now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        let text = self.probe.read(buffer)?;
        self.parse(text);
        if self.fields.is_empty() {
            return Err(Trouble::Garbage { path: self.probe.path().to_owned(), expected: "memory sizes" });
        }
        Ok(())
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        if page.wants(NameSet::Node) {
            for field in &self.fields {
                page.family_named(if field.bytes { &BYTES } else { &PAGES }, &field.family);
                page.sample(&[], Value::Count(field.value));
            }
        }
        page.family(&COLLECTD);
        for (part, bytes) in self.collectd_parts().into_iter().flatten() {
            page.sample(&[("memory", part.as_bytes())], Value::Count(bytes));
        }
        page.family(&AVAILABLE);
        if let (Some(available), Some(total)) = (self.value("MemAvailable"), self.value("MemTotal"))
            && total > 0
        {
            let share = u128::from(available.min(total)) * 10_000 / u128::from(total);
            page.sample(&[], Value::Fixed(u64::try_from(share).unwrap_or_default(), 4));
        }
    }

    fn found(&self) -> String {
        format!("{} MiB of memory", self.value("MemTotal").unwrap_or(0) / (1024 * 1024))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_with_and_without_a_unit() {
        assert_eq!(parse_line(b"MemTotal:       16 kB"), Some((&b"MemTotal"[..], 16_384, true)));
        assert_eq!(parse_line(b"HugePages_Total:    3"), Some((&b"HugePages_Total"[..], 3, false)));
        assert_eq!(parse_line(b"MemTotal: 16 MB"), None);
        assert_eq!(parse_line(b"MemTotal 16 kB"), None);
    }

    #[test]
    fn collectds_six_parts_sum_to_the_total() {
        let mut memory = Memory::new(&Host::at("/nowhere".as_ref()));
        memory.parse(b"MemTotal: 100 kB\nMemFree: 20 kB\nBuffers: 5 kB\nCached: 30 kB\nSReclaimable: 7 kB\nSUnreclaim: 8 kB\n");
        let parts = memory.collectd_parts().expect("a total is there");
        assert_eq!(parts[5], ("used", 30 * 1024));
        assert_eq!(parts.iter().map(|(_, bytes)| bytes).sum::<u64>(), 100 * 1024);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            Memory::new(&Host::at("/nowhere".as_ref())).parse(&text);
        }

        #[test]
        fn any_field_reads_back(name in "[A-Za-z_()]{1,20}", kib in 0u64..u64::MAX / 1024) {
            let line = format!("{name}:   {kib} kB");
            prop_assert_eq!(parse_line(line.as_bytes()), Some((name.as_bytes(), kib * 1024, true)));
        }
    }
}
