//! Whether our page and node_exporter's say the same about the same files: family by family, series by series, value
//! by value. What may differ is listed here, and told to users in docs/agent.md.

use std::collections::{BTreeMap, BTreeSet};

use agent::exposition;

/// Families that node_exporter's collectors have and ours do not: beginnings of names.
const ONLY_THEIRS: [&str; 21] = [
    "node_cooling_device_",
    "node_cpu_isolated",
    "node_cpu_online",
    "node_disk_info",
    "node_exporter_build_info",
    "node_hwmon_fan_alarm",
    "node_hwmon_fan_beep_enabled",
    "node_hwmon_fan_manual",
    "node_hwmon_fan_max_rpm",
    "node_hwmon_fan_min_rpm",
    "node_hwmon_fan_output",
    "node_hwmon_fan_pulses",
    "node_hwmon_fan_target_rpm",
    "node_hwmon_fan_tolerance",
    "node_hwmon_freq_",
    "node_hwmon_in_",
    "node_hwmon_intrusion_",
    "node_hwmon_pwm_",
    "node_hwmon_temp_crit_alarm_",
    "node_scrape_collector_duration_seconds",
    "node_scrape_collector_success",
];

/// Families of ours that node_exporter's collectors do not have: beginnings of names. It knows the fields of meminfo
/// one by one; we tell what the kernel writes.
const ONLY_OURS: [&str; 4] = ["node_telemetry_", "process_", "node_package_power_avg", "node_memory_"];

/// The kinds of sensors that ours reads.
const SENSORS: [&str; 4] = ["temp", "power", "energy", "fan"];

/// A family: its type, and its series with their values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Family {
    /// The word after `# TYPE`.
    pub kind: String,
    /// Series with sorted labels.
    pub series: BTreeMap<String, f64>,
}

/// A page, by names of families.
pub type Page = BTreeMap<String, Family>;

/// Reads a page; an error names what no page may have: a line that cannot be read, a series twice.
pub fn read(text: &str) -> Result<Page, String> {
    let read = exposition::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    let mut page = Page::new();
    for (name, family) in read.families {
        let mut series = BTreeMap::new();
        for (one, value) in family.samples {
            let value = value.parse().map_err(|_| format!("{one} is {value:?}, not a number"))?;
            if series.insert(one.clone(), value).is_some() {
                return Err(format!("{one} is there twice"));
            }
        }
        page.insert(name, Family { kind: family.kind, series });
    }
    Ok(page)
}

/// How many families both have, and everything they do not agree on.
pub fn compare(ours: &Page, theirs: &Page) -> (usize, Vec<String>) {
    let begins = |beginnings: &[&str], name: &str| beginnings.iter().any(|begin| name.starts_with(begin));
    let mut shared = 0;
    let mut problems = Vec::new();
    for name in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        match (ours.get(name), theirs.get(name)) {
            (Some(ours), Some(theirs)) => {
                shared += 1;
                compare_families(name, ours, theirs, &mut problems);
            }
            (Some(_), None) if begins(&ONLY_OURS, name) => {}
            (None, Some(_)) if begins(&ONLY_THEIRS, name) => {}
            (Some(_), _) => problems.push(format!("{name} is ours alone")),
            (None, _) => problems.push(format!("{name} is theirs alone")),
        }
    }
    (shared, problems)
}

fn compare_families(name: &str, ours: &Family, theirs: &Family, problems: &mut Vec<String>) {
    if ours.kind != theirs.kind {
        problems.push(format!("{name} is a {} of ours and a {} of theirs", ours.kind, theirs.kind));
    }
    for series in ours.series.keys().chain(theirs.series.keys()).collect::<BTreeSet<_>>() {
        match (ours.series.get(series), theirs.series.get(series)) {
            // Theirs is the hardware's counter; ours counts from its start, and is compared by what it grows.
            _ if name.starts_with("node_rapl_")
                && ours.series.contains_key(series) == theirs.series.contains_key(series) => {}
            (Some(ours), Some(theirs)) if same(*ours, *theirs) => {}
            (None, Some(_)) if name == "node_hwmon_sensor_label" && !is_our_sensor(series) => {}
            (ours, theirs) => problems.push(format!("{series}: ours {ours:?}, theirs {theirs:?}")),
        }
    }
}

/// Equal but for the last bit, which a multiplication may cost.
fn same(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-12 * one.abs().max(other.abs())
}

fn is_our_sensor(series: &str) -> bool {
    let sensor = series.split("sensor=\"").nth(1).unwrap_or_default();
    SENSORS.iter().any(|kind| sensor.starts_with(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        read(text).expect("a page")
    }

    #[test]
    fn pages_that_say_the_same_agree_and_what_is_listed_may_differ() {
        let ours = page(
            "# TYPE node_load1 gauge\nnode_load1 0.5\n# TYPE node_rapl_core_joules_total counter\n\
             node_rapl_core_joules_total{index=\"0\"} 1\nprocess_cpu_seconds_total 1\n\
             node_hwmon_sensor_label{sensor=\"temp1\"} 1\n",
        );
        let theirs = page(
            "# TYPE node_load1 gauge\nnode_load1 0.5\n# TYPE node_rapl_core_joules_total counter\n\
             node_rapl_core_joules_total{index=\"0\"} 700\nnode_cpu_online{cpu=\"0\"} 1\n\
             node_hwmon_sensor_label{sensor=\"temp1\"} 1\nnode_hwmon_sensor_label{sensor=\"freq1\"} 1\n",
        );
        assert_eq!(compare(&ours, &theirs), (3, Vec::new()));
    }

    #[test]
    fn every_other_difference_is_told() {
        let ours = page(
            "# TYPE a gauge\na{x=\"1\"} 1\na{x=\"2\"} 2\n# TYPE node_rapl_core_joules_total counter\n\
             node_rapl_core_joules_total{index=\"0\"} 1\nonly_ours 1\n",
        );
        let theirs = page(
            "# TYPE a counter\na{x=\"1\"} 1.5\na{x=\"3\"} 3\n# TYPE node_rapl_core_joules_total counter\n\
             node_rapl_core_joules_total{index=\"1\"} 1\nonly_theirs 1\n",
        );
        let problems = [
            "a is a gauge of ours and a counter of theirs",
            "a{x=\"1\"}: ours Some(1.0), theirs Some(1.5)",
            "a{x=\"2\"}: ours Some(2.0), theirs None",
            "a{x=\"3\"}: ours None, theirs Some(3.0)",
            "node_rapl_core_joules_total{index=\"0\"}: ours Some(1.0), theirs None",
            "node_rapl_core_joules_total{index=\"1\"}: ours None, theirs Some(1.0)",
            "only_ours is ours alone",
            "only_theirs is theirs alone",
        ];
        assert_eq!(compare(&ours, &theirs), (2, problems.map(str::to_owned).to_vec()));
        assert_eq!(read("a 1\na 1\n"), Err("a is there twice".to_owned()));
    }
}
