//! Huge pages, of the node and of each NUMA node.

use std::collections::BTreeSet;
use std::path::Path;

use crate::collectors::Collector;
use crate::collectors::listing::{Listing, read_each};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/sys/kernel/mm/hugepages, /sys/devices/system/node/node*/hugepages";
const PLACE: &str = "sys/kernel/mm/hugepages";
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
.peers("collectd_hugepages_vmpage_number (counts surplus pages in use twice)");
static FAMILIES: [&Family; 2] = [&COLLECTD, &PAGES];

/// Pages of one size in one place.
struct Pool {
    numa: Option<u32>,
    size_kb: u64,
    /// What collectd calls the place.
    place: String,
    all: Probe,
    free: Probe,
    surplus: Probe,
    now: Option<Pages>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Pages {
    /// Those beyond what was configured included.
    all: u64,
    free: u64,
    surplus: u64,
}

impl Pages {
    fn used(self) -> u64 {
        self.all.saturating_sub(self.free)
    }

    /// As collectd reckons, which counts pages beyond what was configured twice.
    fn used_as_collectd_says(self) -> u64 {
        self.all.saturating_add(self.surplus).saturating_sub(self.free)
    }
}

impl Pool {
    fn take(&mut self, buffer: &mut Buffer) -> Result<bool, Trouble> {
        self.now = None;
        let mut count = |probe: &mut Probe| {
            let number = scan::lone_number(probe.read(buffer)?);
            number.ok_or_else(|| Trouble::Garbage {
                path: probe.path().to_owned(),
                expected: "a number of pages",
            })
        };
        let (all, free) = (count(&mut self.all)?, count(&mut self.free)?);
        let surplus = count(&mut self.surplus).unwrap_or(0);
        self.now = Some(Pages { all, free, surplus });
        Ok(true)
    }
}

/// The collector.
pub struct Hugepages {
    host: Host,
    pools: Listing<Vec<Pool>>,
}

impl Hugepages {
    /// Huge pages of this host.
    pub fn new(host: &Host) -> Self {
        Self { host: host.clone(), pools: Listing::default() }
    }
}

fn list(host: &Host) -> Result<Vec<Pool>, Trouble> {
    let nodes = host::numbered(&host.path("sys/devices/system/node"), "node").unwrap_or_default();
    let of_nodes = nodes.into_iter().take(MAX_NODES).flat_map(|(number, node)| {
        // A NUMA node without memory has no such directory.
        list_in(host, &node.join("hugepages"), Some(number)).unwrap_or_default()
    });
    let mut of_nodes = of_nodes.peekable();
    let whole = match list_in(host, &host.path(PLACE), None) {
        // Where /sys/kernel is out of sight the nodes still tell.
        Err(trouble) if trouble.is_absent() && of_nodes.peek().is_some() => Vec::new(),
        whole => whole?,
    };
    Ok(whole.into_iter().chain(of_nodes).collect())
}

fn list_in(host: &Host, directory: &Path, numa: Option<u32>) -> Result<Vec<Pool>, Trouble> {
    let mut pools = Vec::new();
    for name in host::names_in(directory)?.into_iter().take(MAX_SIZES) {
        let Some(size_kb) = size_kb(&name) else { continue };
        let place = match numa {
            Some(numa) => format!("node{numa}-{size_kb}Kb"),
            None => format!("mm-{size_kb}Kb"),
        };
        let probe = |file| host.attribute(directory.join(&name).join(file));
        let [all, free, surplus] = ["nr_hugepages", "free_hugepages", "surplus_hugepages"].map(probe);
        pools.push(Pool { numa, size_kb, place, all, free, surplus, now: None });
    }
    Ok(pools)
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

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.pools.refresh(now, || list(&self.host))?;
        read_each(self.pools.found_mut(), || self.host.path(PLACE), |pool| pool.take(buffer))
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        if page.family(&COLLECTD) {
            for (pool, pages) in self.pools.found().iter().filter_map(|pool| Some((pool, pool.now?))) {
                for (state, pages) in [("free", pages.free), ("used", pages.used_as_collectd_says())] {
                    let labels = [("hugepages", pool.place.as_bytes()), ("type", state.as_bytes())];
                    page.sample(&labels, Value::Count(pages));
                }
            }
        }
        if page.family(&PAGES) {
            for (pool, pages) in self.pools.found().iter().filter_map(|pool| Some((pool, pool.now?))) {
                let Some(numa) = pool.numa else { continue };
                let (numa, size) = (Digits::of(u64::from(numa)), Digits::of(pool.size_kb));
                for (state, pages) in [("free", pages.free), ("used", pages.used())] {
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
        let sizes: BTreeSet<u64> = self.pools.found().iter().map(|pool| pool.size_kb).collect();
        let sizes: Vec<String> = sizes.iter().map(|size| format!("{size} kB")).collect();
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
