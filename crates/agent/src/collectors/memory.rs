//! Memory from `/proc/meminfo`.

use crate::collectors::Collector;
use crate::collectors::fields::{Fields, parse_line};
use crate::family::{Family, NameSet};
use crate::host::{Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/proc/meminfo";

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

/// The collector.
pub struct Memory {
    probe: Probe,
    fields: Fields,
}

impl Memory {
    /// Memory of this host.
    pub fn new(host: &Host) -> Self {
        Self { probe: host.attribute(host.path(SOURCE)), fields: Fields::default() }
    }

    fn parse(&mut self, text: &[u8]) {
        self.fields.take(scan::lines(text).filter_map(parse_line), |name, bytes| {
            format!("node_memory_{name}{}", if bytes { "_bytes" } else { "" })
        });
    }

    /// What collectd 5.12 makes of it: six parts that sum to the total.
    fn collectd_parts(&self) -> Option<[(&'static str, u64); 6]> {
        let total = self.fields.value("MemTotal")?;
        let part = |name| self.fields.value(name).unwrap_or(0);
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
            for field in self.fields.lines() {
                page.family_named(if field.bytes { &BYTES } else { &PAGES }, &field.family);
                page.sample(&[], Value::Count(field.value));
            }
        }
        page.family(&COLLECTD);
        for (part, bytes) in self.collectd_parts().into_iter().flatten() {
            page.sample(&[("memory", part.as_bytes())], Value::Count(bytes));
        }
        page.family(&AVAILABLE);
        if let (Some(available), Some(total)) =
            (self.fields.value("MemAvailable"), self.fields.value("MemTotal"))
            && total > 0
        {
            let share = u128::from(available.min(total)) * 10_000 / u128::from(total);
            page.sample(&[], Value::Fixed(u64::try_from(share).unwrap_or_default(), 4));
        }
    }

    fn found(&self) -> String {
        format!("{} MiB of memory", self.fields.value("MemTotal").unwrap_or(0) / (1024 * 1024))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
    }
}
