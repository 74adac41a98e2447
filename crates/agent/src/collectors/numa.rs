//! Memory of each NUMA node from `/sys/devices/system/node/node*/{meminfo,numastat}`.

use crate::collectors::memory::parse_line;
use crate::collectors::{Collector, Relist};
use crate::family::{Family, Kind, NameSet};
use crate::host::{self, Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::scan;
use crate::trouble::Trouble;

/// NUMA nodes looked at.
const MAX_NODES: usize = 1024;
/// Fields looked at in one file.
const MAX_FIELDS: usize = 256;

static MEMORY: Family =
    Family::gauge(NameSet::Node, "node_memory_numa_<Field>", "bytes or pages", "Memory of a NUMA node.")
        .labels("node")
        .source("/sys/devices/system/node/node*/meminfo")
        .peers("node_exporter meminfo_numa");
static ALLOCATIONS: Family = Family::counter(
    NameSet::Node,
    "node_memory_numa_<field>_total",
    "pages",
    "Where allocations ended up, seen from a NUMA node.",
)
.labels("node")
.source("/sys/devices/system/node/node*/numastat")
.peers("node_exporter meminfo_numa");
static FREE: Family = Family::gauge(
    NameSet::Tas,
    "node_numa_memory_free_ratio",
    "ratio",
    "Share of a NUMA node's memory that is free.",
)
.labels("numa")
.source("/sys/devices/system/node/node*/meminfo");
static FAMILIES: [&Family; 3] = [&MEMORY, &ALLOCATIONS, &FREE];

struct Node {
    number: u32,
    memory: Probe,
    allocations: Probe,
    fields: Vec<(String, u64)>,
    counts: Vec<(String, u64)>,
}

/// Reads a line such as `Node 0 MemTotal:  1024 kB`.
fn parse_memory(line: &[u8]) -> Option<(&str, u64)> {
    let rest = line.strip_prefix(b"Node ")?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let (name, value, _) = parse_line(rest[digits..].strip_prefix(b" ")?)?;
    Some((name, value))
}

/// Reads a line such as `numa_hit 1024`.
fn parse_count(line: &[u8]) -> Option<(&str, u64)> {
    let mut fields = scan::fields(line);
    let name = str::from_utf8(fields.next()?).ok()?;
    Some((name, scan::number(fields.next()?)?))
}

/// Keeps the names, which stay the same, and replaces the numbers.
fn keep(fields: &mut Vec<(String, u64)>, read: Option<impl Iterator<Item = (String, u64)>>) {
    fields.clear();
    fields.extend(read.into_iter().flatten().take(MAX_FIELDS));
}

/// The collector.
pub struct Numa {
    host: Host,
    relist: Relist,
    nodes: Vec<Node>,
}

impl Numa {
    /// NUMA nodes of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), relist: Relist::default(), nodes: Vec::new() }
    }
}

impl Collector for Numa {
    fn source(&self) -> &'static str {
        "numa"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        let place = self.host.path("sys/devices/system/node");
        if self.relist.due(now) {
            let found = host::numbered(&place, "node").inspect_err(|trouble| self.relist.retry(trouble))?;
            let node = |(number, directory): (u32, std::path::PathBuf)| Node {
                number,
                memory: self.host.attribute(directory.join("meminfo")),
                allocations: self.host.attribute(directory.join("numastat")),
                fields: Vec::new(),
                counts: Vec::new(),
            };
            self.nodes = found.into_iter().take(MAX_NODES).map(node).collect();
        }
        let mut trouble = None;
        for node in &mut self.nodes {
            let own = |(name, value): (&str, u64)| (name.to_owned(), value);
            let text = node.memory.read(buffer).map_err(|this| trouble.get_or_insert(this).is_absent());
            keep(&mut node.fields, text.ok().map(|t| scan::lines(t).filter_map(parse_memory).map(own)));
            let text = node.allocations.read(buffer);
            keep(&mut node.counts, text.ok().map(|t| scan::lines(t).filter_map(parse_count).map(own)));
        }
        if self.nodes.iter().any(|node| !node.fields.is_empty()) {
            return Ok(());
        }
        Err(trouble.unwrap_or(Trouble::Absent { path: place }))
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        if page.wants(NameSet::Node) {
            // All nodes have the fields of the first: a family is written whole before the next.
            let first = self.nodes.first();
            let families = [(&MEMORY, first.map(|n| &n.fields)), (&ALLOCATIONS, first.map(|n| &n.counts))];
            for (family, fields) in families {
                let suffix = if family.kind == Kind::Counter { "_total" } else { "" };
                for (name, _) in fields.into_iter().flatten() {
                    let clean = name.trim_end_matches(')');
                    page.family_named(family, &format!("node_memory_numa_{clean}{suffix}"));
                    for node in &self.nodes {
                        let of_kind = if suffix.is_empty() { &node.fields } else { &node.counts };
                        if let Some((_, value)) = of_kind.iter().find(|(other, _)| other == name) {
                            let number = Digits::of(u64::from(node.number));
                            page.sample(&[("node", number.as_bytes())], Value::Count(*value));
                        }
                    }
                }
            }
        }
        page.family(&FREE);
        for node in &self.nodes {
            let value = |name| node.fields.iter().find(|(other, _)| other == name).map(|(_, value)| *value);
            if let (Some(free), Some(total)) = (value("MemFree"), value("MemTotal"))
                && total > 0
            {
                let share = u128::from(free.min(total)) * 10_000 / u128::from(total);
                let number = Digits::of(u64::from(node.number));
                page.sample(
                    &[("numa", number.as_bytes())],
                    Value::Fixed(u64::try_from(share).unwrap_or_default(), 4),
                );
            }
        }
    }

    fn found(&self) -> String {
        format!("{} NUMA nodes", self.nodes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn real_lines() {
        assert_eq!(parse_memory(b"Node 12 MemTotal:       16 kB"), Some(("MemTotal", 16_384)));
        assert_eq!(parse_memory(b"Node 0 HugePages_Total:     5"), Some(("HugePages_Total", 5)));
        assert_eq!(parse_count(b"numa_hit 193460335812"), Some(("numa_hit", 193_460_335_812)));
        assert_eq!(parse_memory(b"MemTotal: 1 kB"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            let _ = (parse_memory(&text), parse_count(&text));
        }

        #[test]
        fn any_line_reads_back(node: u32, name in "[A-Za-z_]{1,20}", value: u64) {
            let line = format!("Node {node} {name}: {value}");
            prop_assert_eq!(parse_memory(line.as_bytes()), Some((name.as_str(), value)));
            let line = format!("{name} {value}");
            prop_assert_eq!(parse_count(line.as_bytes()), Some((name.as_str(), value)));
        }
    }
}
