//! Laws that hold whatever is in the tree: the page parses, nothing is there twice, counters never fall.

use std::collections::BTreeMap;

use crate::watched::Watched;
use agent::family::NameSets;
use agent::page::Format;
use proptest::prelude::*;

/// Files worth spoiling: every kind of source.
const FILES: [&str; 16] = [
    "proc/stat",
    "proc/meminfo",
    "proc/loadavg",
    "proc/1/net/dev",
    "proc/diskstats",
    "proc/pressure/cpu",
    "sys/class/powercap/intel-rapl:0/energy_uj",
    "sys/class/powercap/intel-rapl:0/name",
    "sys/class/powercap/intel-rapl:0/max_energy_range_uj",
    "sys/class/thermal/thermal_zone0/temp",
    "sys/class/thermal/thermal_zone0/type",
    "sys/class/hwmon/hwmon0/name",
    "sys/class/hwmon/hwmon0/temp1_label",
    "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count",
    "sys/devices/system/node/node0/meminfo",
    "sys/devices/system/edac/mc/mc0/ce_count",
];

#[derive(Clone, Debug)]
enum Spoil {
    Bytes(Vec<u8>),
    /// The file's own lines, shuffled about: duplicates, halves, other numbers.
    Lines(Vec<(usize, u64)>),
    Number(u64),
    Remove,
}

fn spoil() -> impl Strategy<Value = Spoil> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Spoil::Bytes),
        prop::collection::vec((0usize..40, any::<u64>()), 0..20).prop_map(Spoil::Lines),
        any::<u64>().prop_map(Spoil::Number),
        Just(Spoil::Remove),
    ]
}

fn apply(host: &Watched, file: &str, spoil: &Spoil) {
    let old = std::fs::read_to_string(host.tree.path(file)).unwrap_or_default();
    let lines: Vec<&str> = old.lines().collect();
    match spoil {
        Spoil::Bytes(bytes) => drop(host.tree.write(file, bytes)),
        Spoil::Number(number) => drop(host.tree.write(file, format!("{number}\n"))),
        Spoil::Remove => {
            let _ = std::fs::remove_file(host.tree.path(file));
        }
        Spoil::Lines(picked) => {
            let mut text = String::new();
            for (at, number) in picked {
                if let Some(line) = lines.get(at % lines.len().max(1)) {
                    // Put another number in place of the second field.
                    let fields: Vec<String> = line
                        .split_whitespace()
                        .enumerate()
                        .map(|(n, field)| {
                            if n == 1 && field.parse::<u64>().is_ok() {
                                number.to_string()
                            } else {
                                field.to_owned()
                            }
                        })
                        .collect();
                    text.push_str(&fields.join(" "));
                    text.push('\n');
                }
            }
            host.tree.write(file, text);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_tree_the_page_is_legal_and_counters_never_fall(
        rounds in prop::collection::vec((prop::collection::vec((0..FILES.len(), spoil()), 0..6), 0u64..20), 1..6),
    ) {
        let mut host = Watched::new(|tree| {
            tree.proc(2, 2).sensors(2, 1, 1).server(1);
        });
        host.tick();
        let mut before: BTreeMap<String, f64> = BTreeMap::new();
        for (spoils, seconds) in rounds {
            for (file, spoil) in &spoils {
                apply(&host, FILES[*file], spoil);
            }
            host.later(seconds).tick();
            // `samples` itself fails on a page that does not parse or has anything twice.
            let text = host.text(Format::Text, NameSets::ALL);
            let counters: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
            for (series, value) in host.samples() {
                let family = series.split('{').next().unwrap_or_default();
                let number: f64 = value.parse().expect("a number");
                prop_assert!(number.is_finite(), "{} {}", series, value);
                if counters.contains(&family) {
                    let last = before.insert(series.clone(), number).unwrap_or(0.0);
                    prop_assert!(number >= last, "{} fell from {} to {}", series, last, number);
                }
            }
            let open = host.text(Format::OpenMetrics, NameSets::ALL);
            let mut families: Vec<&str> = open.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
            let all = families.len();
            families.sort_unstable();
            families.dedup();
            prop_assert_eq!(families.len(), all);
        }
    }
}
