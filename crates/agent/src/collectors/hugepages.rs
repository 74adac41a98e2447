//! Huge pages, of the node and of each NUMA node.

use std::path::{Path, PathBuf};

use crate::collectors::Collector;
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::trouble::Trouble;

const SOURCE: &str = "/sys/kernel/mm/hugepages, /sys/devices/system/node/node*/hugepages";
/// Sizes looked at in one place.
const MAX_SIZES: usize = 16;
/// NUMA nodes looked at.
const MAX_NODES: usize = 1024;

static COLLECTD: Family = Family::gauge(
    NameSet::Collectd,
    "collectd_hugepages_vmpage_number",
    "pages",
    "write_prometheus plugin: 'hugepages' Type: 'vmpage_number', Dstype: 'gauge', Dsname: 'value'",
)
.labels("hugepages, type, instance")
.source(SOURCE)
.peers("collectd hugepages");
static PAGES: Family = Family::gauge(
    NameSet::Tas,
    "node_hugepages_pages",
    "pages",
    "Huge pages, free and in use, by NUMA node and by size in kB.",
)
.labels("numa, size_kb, state (free, used)")
.source(SOURCE)
.peers("collectd_hugepages_vmpage_number");
static FAMILIES: [&Family; 2] = [&COLLECTD, &PAGES];

/// Pages of one size in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pool {
    numa: Option<u32>,
    size_kb: u64,
    free: u64,
    used: u64,
}

/// The collector.
pub struct Hugepages {
    host: Host,
    pools: Vec<Pool>,
}

impl Hugepages {
    /// Huge pages of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), pools: Vec::new() }
    }

    fn list(&mut self, directory: &Path, numa: Option<u32>, buffer: &mut Buffer) -> Result<(), Trouble> {
        for name in host::names_in(directory)?.into_iter().take(MAX_SIZES) {
            let Some(size_kb) = size_kb(&name) else { continue };
            let mut count = |file| host::number_once(&directory.join(&name).join(file), buffer);
            let (all, free) = (count("nr_hugepages")?, count("free_hugepages")?);
            let surplus = count("surplus_hugepages").unwrap_or(0);
            let used = all.saturating_add(surplus).saturating_sub(free);
            self.pools.push(Pool { numa, size_kb, free, used });
        }
        Ok(())
    }
}

/// `hugepages-2048kB` holds pages of 2048 kB.
fn size_kb(directory: &str) -> Option<u64> {
    directory.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()
}

impl Collector for Hugepages {
    fn source(&self) -> &'static str {
        "hugepages"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, _now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.pools.clear();
        let all: PathBuf = self.host.path("sys/kernel/mm/hugepages");
        self.list(&all, None, buffer)?;
        let nodes = host::numbered(&self.host.path("sys/devices/system/node"), "node").unwrap_or_default();
        for (number, node) in nodes.into_iter().take(MAX_NODES) {
            // A NUMA node without memory has no such directory.
            let _ = self.list(&node.join("hugepages"), Some(number), buffer);
        }
        Ok(())
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        if page.family(&COLLECTD) {
            for pool in &self.pools {
                let place = match pool.numa {
                    Some(numa) => format!("node{numa}-{}Kb", pool.size_kb),
                    None => format!("mm-{}Kb", pool.size_kb),
                };
                for (state, pages) in [("free", pool.free), ("used", pool.used)] {
                    let labels = [("hugepages", place.as_bytes()), ("type", state.as_bytes())];
                    page.sample(&labels, Value::Count(pages));
                }
            }
        }
        if page.family(&PAGES) {
            for pool in &self.pools {
                let Some(numa) = pool.numa else { continue };
                let (numa, size) = (Digits::of(u64::from(numa)), Digits::of(pool.size_kb));
                for (state, pages) in [("free", pool.free), ("used", pool.used)] {
                    let labels: [(&str, &[u8]); 3] = [
                        ("numa", numa.as_bytes()),
                        ("size_kb", size.as_bytes()),
                        ("state", state.as_bytes()),
                    ];
                    page.sample(&labels, Value::Count(pages));
                }
            }
        }
    }

    fn found(&self) -> String {
        let sizes: Vec<String> =
            self.pools.iter().filter(|p| p.numa.is_none()).map(|p| format!("{} kB", p.size_kb)).collect();
        format!("pages of {}", sizes.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_in_the_name() {
        assert_eq!(size_kb("hugepages-1048576kB"), Some(1_048_576));
        assert_eq!(size_kb("hugepages-xkB"), None);
        assert_eq!(size_kb("demote"), None);
    }
}
