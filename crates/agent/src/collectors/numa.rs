//! Memory of each NUMA node from `/sys/devices/system/node/node*/{meminfo,numastat}`.

use std::path::Path;

use crate::collectors::Collector;
use crate::collectors::fields::{Fields, Line, parse_line};
use crate::collectors::listing::{Listing, read_each};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const PLACE: &str = "sys/devices/system/node";
/// NUMA nodes looked at.
const MAX_NODES: usize = 1024;

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
    fields: Fields,
    counts: Fields,
}

/// Reads a line such as `Node 0 MemTotal:  1024 kB`.
fn parse_memory(line: &[u8]) -> Option<Line<'_>> {
    let rest = line.strip_prefix(b"Node ")?;
    let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    parse_line(rest[digits..].strip_prefix(b" ")?)
}

/// Reads a line such as `numa_hit 1024`.
fn parse_count(line: &[u8]) -> Option<Line<'_>> {
    let mut fields = scan::fields(line);
    Some((fields.next()?, scan::number(fields.next()?)?, false))
}

impl Node {
    fn at(host: &Host, number: u32, directory: &Path) -> Self {
        Self {
            number,
            memory: host.attribute(directory.join("meminfo")),
            allocations: host.attribute(directory.join("numastat")),
            fields: Fields::default(),
            counts: Fields::default(),
        }
    }

    fn sample(&self, page: &mut Page, value: Option<u64>) {
        if let Some(value) = value {
            page.sample(&[("node", Digits::of(u64::from(self.number)).as_bytes())], Value::Count(value));
        }
    }

    fn take(&mut self, buffer: &mut Buffer) -> Result<bool, Trouble> {
        match self.allocations.read(buffer) {
            Ok(text) => self.counts.take(scan::lines(text).filter_map(parse_count), |name, _| {
                format!("node_memory_numa_{name}_total")
            }),
            Err(_) => self.counts.clear(),
        }
        let text = self.memory.read(buffer).inspect_err(|_| self.fields.clear())?;
        self.fields
            .take(scan::lines(text).filter_map(parse_memory), |name, _| format!("node_memory_numa_{name}"));
        Ok(!self.fields.is_empty())
    }
}

/// The collector.
pub struct Numa {
    host: Host,
    nodes: Listing<Vec<Node>>,
}

impl Numa {
    /// NUMA nodes of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), nodes: Listing::default() }
    }
}

fn list(host: &Host) -> Result<Vec<Node>, Trouble> {
    let found = host::numbered(&host.path(PLACE), "node")?.into_iter().take(MAX_NODES);
    Ok(found.map(|(number, directory)| Node::at(host, number, &directory)).collect())
}

/// Writes a table of all nodes, field by field: a family is written whole before the next. The node that has the most
/// fields says which there are, as the first may be the one that cannot be read.
fn write_tables(nodes: &[Node], page: &mut Page, family: &'static Family, table: fn(&Node) -> &Fields) {
    let Some(longest) = nodes.iter().map(table).max_by_key(|table| table.lines().len()) else { return };
    for (place, field) in longest.lines().iter().enumerate() {
        page.family_named(family, &field.family);
        for node in nodes {
            node.sample(page, table(node).value_near(place, &field.name));
        }
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
        self.nodes.refresh(now, || list(&self.host))?;
        read_each(self.nodes.found_mut(), || self.host.path(PLACE), |node| node.take(buffer))
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        let nodes = self.nodes.found();
        if page.wants(NameSet::Node) {
            write_tables(nodes, page, &MEMORY, |node| &node.fields);
            write_tables(nodes, page, &ALLOCATIONS, |node| &node.counts);
        }
        page.family(&FREE);
        for node in nodes {
            let [free, total] = ["MemFree", "MemTotal"].map(|name| node.fields.value(name));
            if let (Some(free), Some(total)) = (free, total)
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
        format!("{} NUMA nodes", self.nodes.found().len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn real_lines() {
        assert_eq!(parse_memory(b"Node 12 MemTotal:       16 kB"), Some((&b"MemTotal"[..], 16_384, true)));
        assert_eq!(parse_memory(b"Node 0 HugePages_Total:     5"), Some((&b"HugePages_Total"[..], 5, false)));
        assert_eq!(parse_count(b"numa_hit 193460335812"), Some((&b"numa_hit"[..], 193_460_335_812, false)));
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
            prop_assert_eq!(parse_memory(line.as_bytes()), Some((name.as_bytes(), value, false)));
            let line = format!("{name} {value}");
            prop_assert_eq!(parse_count(line.as_bytes()), Some((name.as_bytes(), value, false)));
        }
    }
}
