//! Which powercap zones there are, once each, by name.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::host::{self, Buffer, Host};
use crate::scan;
use crate::trouble::Trouble;

/// Zones looked at.
pub const MAX_ZONES: usize = 256;
/// Constraints looked at in a zone.
const MAX_CONSTRAINTS: u32 = 4;

/// What a zone measures.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Domain {
    /// A socket: contains core and uncore.
    Package,
    /// The cores of a package.
    Core,
    /// The rest of a package.
    Uncore,
    /// Memory of a package; outside of it on servers.
    Dram,
    /// The platform: contains everything.
    Psys,
    /// Something the kernel learned to measure since.
    Other(String),
}

impl Domain {
    /// As the kernel and the labels say it.
    pub fn name(&self) -> &str {
        match self {
            Self::Package => "package",
            Self::Core => "core",
            Self::Uncore => "uncore",
            Self::Dram => "dram",
            Self::Psys => "psys",
            Self::Other(name) => name,
        }
    }
}

/// What makes a zone the same zone, whatever its number today.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ZoneId {
    /// What it measures.
    pub domain: Domain,
    /// The socket it belongs to.
    pub package: Option<u32>,
    /// The die in that socket, where the kernel tells dies apart.
    pub die: Option<u32>,
}

impl fmt::Display for ZoneId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.domain.name())?;
        if let Some(package) = self.package {
            write!(f, "-{package}")?;
        }
        self.die.map_or(Ok(()), |die| write!(f, "-die-{die}"))
    }
}

/// Limits in microwatts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// What the part was built for.
    pub thermal_spec: Option<u64>,
    /// PL1 as it is set.
    pub long_term: Option<u64>,
    /// PL2 as it is set.
    pub short_term: Option<u64>,
}

/// What node_exporter makes of a zone: `node_rapl_<name>_joules_total{index,path}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The zone's own name without a package's number.
    pub name: String,
    /// That number, or how many zones of this name came before.
    pub index: u64,
    /// Its directory as the host sees it.
    pub path: String,
}

/// A zone as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Where its files are.
    pub directory: PathBuf,
    /// What node_exporter calls it.
    pub alias: Alias,
    /// Where the counter wraps.
    pub range: Option<u64>,
    /// Its limits.
    pub limits: Limits,
    rank: u8,
}

/// Reads a zone's own name: `package-0`, `package-0-die-1`, `psys`, `psys-1`; others have no package in them.
pub fn parse_name(name: &str) -> ZoneId {
    let mut parts = name.split('-');
    let stem = parts.next().unwrap_or_default();
    let numbers: Vec<&str> = parts.collect();
    let (package, die) = match numbers.as_slice() {
        [package] => (package.parse().ok(), None),
        [package, "die", die] => (package.parse().ok(), die.parse().ok()),
        _ => (None, None),
    };
    let domain = match stem {
        "package" if package.is_some() => Domain::Package,
        "psys" => Domain::Psys,
        "core" if numbers.is_empty() => Domain::Core,
        "uncore" if numbers.is_empty() => Domain::Uncore,
        "dram" if numbers.is_empty() => Domain::Dram,
        _ => return ZoneId { domain: Domain::Other(name.to_owned()), package: None, die: None },
    };
    ZoneId { domain, package, die }
}

/// node_exporter's name and index of a zone. It takes `dram` of every package for the same name and counts; of
/// `package-0-die-1` it makes a name of its own.
fn name_and_index(own: &str, counted: &mut BTreeMap<String, u64>) -> (String, u64) {
    let numbered = own.split_once('-').and_then(|(stem, number)| Some((stem, number.parse().ok()?)));
    let (name, index) = numbered.unwrap_or((own, counted.get(own).copied().unwrap_or(0)));
    counted.insert(name.to_owned(), index.saturating_add(1));
    (name.to_owned(), index)
}

/// All zones, each once: `intel-rapl-mmio` repeats what `intel-rapl` has.
pub fn find(host: &Host, buffer: &mut Buffer) -> Result<BTreeMap<ZoneId, Found>, Trouble> {
    let class = host.path("sys/class/powercap");
    let directories = match host::names_in(&class) {
        Ok(names) => names.iter().map(|name| class.join(name)).collect(),
        // Where only the devices are mounted the links of the class are missing.
        Err(trouble) => below(&host.path("sys/devices/virtual/powercap"), 3).map_err(|_| trouble)?,
    };
    let mut found: BTreeMap<ZoneId, Found> = BTreeMap::new();
    let mut denied = None;
    let mut counted = BTreeMap::new();
    for directory in directories.iter().take(MAX_ZONES) {
        let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((control, numbers)) = name.split_once(':') else { continue };
        let (own, id) = match identify(directory, numbers, &directories, buffer) {
            Ok(identified) => identified,
            Err(trouble) => {
                denied.get_or_insert(trouble);
                continue;
            }
        };
        let (alias, index) = name_and_index(&own, &mut counted);
        let rank = match control {
            "intel-rapl" => 0,
            "intel-rapl-mmio" => 2,
            _ => 1,
        };
        if found.get(&id).is_some_and(|other| other.rank <= rank) {
            continue;
        }
        let range = host::number_once(&directory.join("max_energy_range_uj"), buffer).ok().filter(|&r| r > 0);
        let limits = limits(directory, buffer);
        let alias = Alias { name: alias, index, path: format!("/sys/class/powercap/{name}") };
        found.insert(id, Found { directory: directory.clone(), alias, range, limits, rank });
    }
    match denied {
        _ if !found.is_empty() => Ok(found),
        Some(trouble) => Err(trouble),
        None => Err(Trouble::Absent { path: class.join("intel-rapl:0") }),
    }
}

/// Directories below `directory`, down to `depth`.
fn below(directory: &Path, depth: usize) -> Result<Vec<PathBuf>, Trouble> {
    let mut all = Vec::new();
    for name in host::names_in(directory)? {
        let path = directory.join(&name);
        if name.contains("rapl") && path.is_dir() {
            if depth > 0 {
                all.extend(below(&path, depth - 1)?);
            }
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// A zone's own name and what it is. A subzone (`core`, `dram`) belongs to the package whose numbers begin its own.
fn identify(
    directory: &Path,
    numbers: &str,
    all: &[PathBuf],
    buffer: &mut Buffer,
) -> Result<(String, ZoneId), Trouble> {
    let mut name = |directory: &Path| -> Result<String, Trouble> {
        let text = host::read_once(&directory.join("name"), buffer)?;
        Ok(String::from_utf8_lossy(scan::trimmed(text)).into_owned())
    };
    let called = name(directory)?;
    let mut id = parse_name(&called);
    if let Some((parent_numbers, _)) = numbers.rsplit_once(':') {
        let own = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let parent_name = own.strip_suffix(&numbers[parent_numbers.len()..]);
        let parent = all.iter().find(|other| other.file_name().and_then(|n| n.to_str()) == parent_name);
        if let Some(parent) = parent {
            let parent = parse_name(&name(parent)?);
            (id.package, id.die) = (parent.package, parent.die);
        }
    }
    Ok((called, id))
}

fn limits(directory: &Path, buffer: &mut Buffer) -> Limits {
    let mut limits = Limits::default();
    for number in 0..MAX_CONSTRAINTS {
        let file = |what: &str| directory.join(format!("constraint_{number}_{what}"));
        // 0 is what zones say that have no such limit.
        let mut watts = |what| host::number_once(&file(what), buffer).ok().filter(|&watts| watts > 0);
        let (limit, built_for) = (watts("power_limit_uw"), watts("max_power_uw"));
        let name = host::read_once(&file("name"), buffer).map(scan::trimmed);
        match name {
            Ok(b"long_term") => (limits.long_term, limits.thermal_spec) = (limit, built_for),
            Ok(b"short_term") => limits.short_term = limit,
            _ => {}
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_say_what_and_where() {
        let id = |domain, package, die| ZoneId { domain, package, die };
        let cases = [
            ("package-0", id(Domain::Package, Some(0), None)),
            ("package-3-die-1", id(Domain::Package, Some(3), Some(1))),
            ("psys", id(Domain::Psys, None, None)),
            ("psys-1", id(Domain::Psys, Some(1), None)),
            ("core", id(Domain::Core, None, None)),
            ("dram", id(Domain::Dram, None, None)),
            ("package", id(Domain::Other("package".to_owned()), None, None)),
            ("gpu-x", id(Domain::Other("gpu-x".to_owned()), None, None)),
        ];
        for (name, expected) in cases {
            assert_eq!(parse_name(name), expected, "{name}");
        }
    }

    #[test]
    fn zones_have_the_names_and_numbers_that_node_exporter_gives_them() {
        // In the order of their directories, on a host whose first zone is its second package.
        let zones =
            ["package-1", "dram", "package-0", "core", "dram", "package-0-die-1", "psys", "psys-1", "gpu-x"];
        let mut counted = BTreeMap::new();
        let named: Vec<(String, u64)> = zones.iter().map(|zone| name_and_index(zone, &mut counted)).collect();
        let expected = [
            ("package", 1),
            ("dram", 0),
            ("package", 0),
            ("core", 0),
            ("dram", 1),
            ("package-0-die-1", 0),
            ("psys", 0),
            ("psys", 1),
            ("gpu-x", 0),
        ];
        assert_eq!(named, expected.map(|(name, index)| (name.to_owned(), index)));
    }

    proptest! {
        #[test]
        fn any_name_is_something_and_packages_read_back(name: String, package: u32, die: u32) {
            let _ = parse_name(&name);
            let id = ZoneId { domain: Domain::Package, package: Some(package), die: Some(die) };
            prop_assert_eq!(parse_name(&id.to_string()), id);
            let _ = name_and_index(&name, &mut BTreeMap::from([(name.clone(), u64::MAX)]));
        }
    }
}
