//! Machines that others recorded: the agent says what is in their files, no more and no less, and what node_exporter
//! says who reads the same files. `testbed::recordings` tells what the recordings are.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agent::collectors::{self, Settings};
use agent::family::NameSets;
use agent::fixtures::Tree;
use agent::fixtures::damage::{Damage, Draws};
use agent::host::Host;
use agent::instruments::{Instruments, Worker};
use agent::moment::Moment;
use agent::page::Format;
use e2e::PATIENCE;
use e2e::agreement::{self, Page};
use e2e::prometheus::Bench;
use e2e::recorded::{NODE, Observed, lay_out};
use testbed::recordings::{MACHINES, Machine, NODE_EXPORTER};
use testbed::wait::until;

const AGENT: &str = env!("CARGO_BIN_EXE_tas-agent-e2e");

/// What is known about a machine by looking at its files.
struct Known {
    machine: &'static str,
    /// The sources that have something to say.
    sources: &'static [&'static str],
    /// Families that node_exporter and we have in common.
    shared: usize,
    /// What `--explain` says of a source.
    found: &'static [(&'static str, &'static str)],
    /// Series and their values.
    values: &'static [(&'static str, f64)],
}

const KNOWN: [Known; 10] = [
    Known {
        machine: "node-exporter",
        sources: &[
            "rapl", "cpu", "memory", "load", "disks", "pressure", "thermal", "throttle", "hwmon", "numa",
            "edac", "textfile",
        ],
        shared: 128,
        found: &[
            ("rapl", "package-0, core-0"),
            ("cpu", "8 CPUs"),
            ("throttle", "2 packages, 4 cores"),
            ("hwmon", "15 temperatures, 0 power readings"),
            ("numa", "3 NUMA nodes"),
            ("edac", "1 memory controllers"),
        ],
        values: &[
            ("node_power_limit_watts{constraint=\"thermal_spec\",package=\"0\"}", 95.0),
            ("node_power_limit_watts{constraint=\"long_term\",package=\"0\"}", 4_090.0),
            ("collectd_package_0_TDP_power_power{instance=\"recorded\"}", 95.0),
            ("node_cpu_seconds_total{cpu=\"1\",mode=\"user\"}", 478.69),
            ("node_memory_MemTotal_bytes", 3_742_148.0 * 1024.0),
            ("node_load1", 0.21),
            ("node_pressure_ratio{kind=\"some\",resource=\"io\",window=\"60s\"}", 0.003_4),
            ("node_pressure_irq_stalled_seconds_total", 0.008_494),
            ("node_thermal_zone_temp{type=\"cpu-thermal\",zone=\"0\"}", 12.376),
            ("node_throttle_events_total{package=\"0\"}", 30.0 + 5.0 + 0.0),
            ("node_throttle_events_total{package=\"1\"}", 6.0 + 0.0 + 9.0),
            ("node_hwmon_temp_celsius{chip=\"platform_coretemp_1\",sensor=\"temp2\"}", 54.0),
            ("node_temperature_headroom_celsius{chip=\"platform_coretemp_1\",chip_name=\"coretemp\"}", 45.0),
            (
                "node_hwmon_chip_names{chip=\"platform_asus_nb_wmi_asus_wmi_sensors\",chip_name=\"asus_wmi_sensors\"}",
                1.0,
            ),
            ("node_hwmon_temp_celsius{chip=\"ieee80211_phy0_mt7996_phy0_2\",sensor=\"temp1\"}", 57.0),
            ("node_memory_numa_MemTotal{node=\"0\"}", 134_182_340.0 * 1024.0),
            ("node_memory_numa_numa_hit_total{node=\"2\"}", 26_720_946_761.0),
            ("node_edac_correctable_errors_total{controller=\"0\"}", 1.0),
            ("node_edac_csrow_uncorrectable_errors_total{controller=\"0\",csrow=\"unknown\"}", 6.0),
            ("node_edac_csrow_uncorrectable_errors_total{controller=\"0\",csrow=\"2\"}", 5.0),
            (
                "node_edac_channel_uncorrectable_errors_total{channel=\"1\",controller=\"0\",csrow=\"1\",dimm_label=\"mc0_csrow1_channel1\"}",
                2.0,
            ),
        ],
    },
    Known {
        machine: "procfs",
        sources: &[
            "rapl", "cpu", "memory", "load", "network", "disks", "pressure", "thermal", "throttle",
            "textfile",
        ],
        shared: 99,
        // The kernel numbers zones in hexadecimal: package 10 is intel-rapl:a.
        found: &[
            ("rapl", "package-0, package-10, core-0"),
            ("network", "3 interfaces (of this container: process 1 of the host is not in sight)"),
            ("throttle", "1 packages, 2 cores"),
        ],
        values: &[
            ("node_power_limit_watts{constraint=\"thermal_spec\",package=\"10\"}", 95.0),
            ("collectd_package_10_TDP_power_power{instance=\"recorded\"}", 95.0),
            ("node_thermal_zone_temp{type=\"acpitz\",zone=\"1\"}", -44.0),
            ("node_memory_MemTotal_bytes", 15_666_184.0 * 1024.0),
            ("node_network_receive_bytes_total{device=\"vethf345468\"}", 648.0),
        ],
    },
    Known {
        machine: "two-sockets",
        sources: &["memory", "hugepages", "numa", "textfile"],
        shared: 49,
        found: &[("numa", "2 NUMA nodes"), ("hugepages", "pages of 2048 kB, 1048576 kB")],
        values: &[
            ("node_memory_MemTotal_bytes", 65_921_280.0 * 1024.0),
            ("node_memory_numa_MemTotal{node=\"0\"}", 32_980_312.0 * 1024.0),
            ("node_memory_numa_MemTotal{node=\"1\"}", 32_940_968.0 * 1024.0),
            ("node_numa_memory_free_ratio{numa=\"1\"}", 0.930_4),
            ("node_hugepages_pages{numa=\"1\",size_kb=\"1048576\",state=\"free\"}", 0.0),
            ("node_power_source_info{reason=\"absent\",source=\"none\"}", 1.0),
        ],
    },
    Known {
        machine: "hybrid-laptop",
        sources: &["memory", "hugepages", "numa", "textfile"],
        shared: 51,
        found: &[("numa", "1 NUMA nodes")],
        values: &[("node_memory_numa_MemTotal{node=\"0\"}", 32_542_668.0 * 1024.0)],
    },
    Known {
        machine: "amd-desktop",
        sources: &["memory", "textfile"],
        shared: 47,
        found: &[("memory", "32009 MiB of memory")],
        values: &[("node_memory_MemTotal_bytes", 32_777_916.0 * 1024.0)],
    },
    Known {
        machine: "cloud-gpu",
        sources: &["memory", "hugepages", "numa", "textfile"],
        shared: 43,
        found: &[("hugepages", "pages of 2048 kB")],
        values: &[("node_memory_numa_MemTotal{node=\"0\"}", 30_601_816.0 * 1024.0)],
    },
    Known {
        machine: "virtual-gpu",
        sources: &["memory", "hugepages", "numa", "textfile"],
        shared: 51,
        found: &[("memory", "1960 MiB of memory")],
        values: &[("node_memory_numa_MemTotal{node=\"0\"}", 2_007_536.0 * 1024.0)],
    },
    Known {
        machine: "offline-cpus",
        sources: &["memory", "hugepages", "numa", "textfile"],
        shared: 88,
        found: &[("numa", "1 NUMA nodes")],
        values: &[("node_memory_numa_MemTotal{node=\"0\"}", 7_881_912.0 * 1024.0)],
    },
    Known {
        machine: "arm64",
        sources: &["memory", "hugepages", "numa", "textfile"],
        shared: 48,
        found: &[("hugepages", "pages of 64 kB, 2048 kB, 32768 kB, 1048576 kB")],
        values: &[("node_memory_MemTotal_bytes", 1_888_980.0 * 1024.0)],
    },
    Known {
        machine: "s390x",
        sources: &["memory", "hugepages", "numa", "textfile"],
        shared: 46,
        found: &[("hugepages", "pages of 1024 kB")],
        values: &[("node_memory_MemTotal_bytes", 112_832_212.0 * 1024.0)],
    },
];

fn machine(name: &str) -> Machine {
    *MACHINES.iter().find(|machine| machine.name == name).expect("it is among the recordings")
}

fn value(page: &Page, series: &str) -> Option<f64> {
    let family = series.split('{').next().unwrap_or_default();
    page.get(family)?.series.get(series).copied()
}

#[tokio::test]
async fn recorded_machines_are_told_as_they_are_and_as_node_exporter_tells_them() {
    let mut told: Vec<&str> = KNOWN.iter().map(|known| known.machine).collect();
    let mut all = MACHINES.map(|machine| machine.name);
    told.sort_unstable();
    all.sort_unstable();
    assert_eq!(told, all, "something is known about every machine");

    let mut bench = Bench::prepare().await;
    for known in &KNOWN {
        let recorded = Observed::recorded(&mut bench, AGENT, machine(known.machine)).await;
        let page = recorded.ours("collectd,node,tas").await;
        assert_eq!(bench.lints(&page), Vec::<String>::new(), "{}", known.machine);
        let page = agreement::read(&page).expect("a page");
        for (series, expected) in known.values {
            let told = value(&page, series).unwrap_or(f64::NAN);
            let off = (told - expected).abs();
            assert!(off <= 1e-9 * expected.abs(), "{}: {series} is {told}, not {expected}", known.machine);
        }
        let ours = recorded.ours_with_energy().await;
        let (shared, problems) = agreement::compare(&ours, &recorded.theirs().await);
        assert_eq!(problems, Vec::<String>::new(), "{}", known.machine);
        assert_eq!(shared, known.shared, "families that both tell of {}", known.machine);
    }
}

#[tokio::test]
async fn a_made_server_is_told_as_node_exporter_tells_it() {
    let mut bench = Bench::prepare().await;
    let root = bench.directory().join("host");
    let tree = Tree::at(&root);
    // Zones that no recording has: memory of packages that are numbered backwards, dies, and the platform.
    tree.large().zone("intel-rapl:2", "package-2-die-0", 1).zone("intel-rapl:3", "package-2-die-1", 1);
    tree.zone("intel-rapl:3:0", "dram", 1).zone("intel-rapl:4", "psys", 1);
    let made = Observed::start(&mut bench, AGENT, "made", root).await;
    let (shared, problems) = agreement::compare(&made.ours_with_energy().await, &made.theirs().await);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(shared, 93, "families that both tell");
}

/// What `--explain` says: source, state, what was found, what is needed.
fn explained(agent: Child) -> Vec<[String; 4]> {
    let output = agent.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let sources = report["sources"].as_array().expect("a list");
    sources.iter().map(|row| ["source", "state", "found", "needed"].map(|name| text(row, name))).collect()
}

#[tokio::test]
async fn what_a_recorded_machine_has_and_lacks_is_explained() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut asked = Vec::new();
    for known in &KNOWN {
        let root = lay_out(machine(known.machine), directory.path().join(known.machine)).await;
        let mut command = Command::new(AGENT);
        command.args(["--explain", "--output=json", "--root"]).arg(&root);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        asked.push((known, root, command.spawn().expect("the agent starts")));
    }
    for (known, root, agent) in asked {
        let rows = explained(agent);
        for [source, state, found, needed] in &rows {
            if known.sources.contains(&source.as_str()) {
                assert_eq!((state.as_str(), needed.as_str()), ("ok", ""), "{}: {source}", known.machine);
            } else {
                assert_eq!(state, "absent", "{}: {source}", known.machine);
                assert!(found.contains(&*root.to_string_lossy()), "{}: {found}", known.machine);
                assert!(!needed.is_empty(), "{}: {source}", known.machine);
            }
        }
        for (source, expected) in known.found {
            let row = rows.iter().find(|row| row[0] == *source).expect("the source is on");
            assert_eq!(row[2], *expected, "{}: {source}", known.machine);
        }
    }
}

#[tokio::test]
async fn energy_of_a_recorded_machine_grows_as_node_exporters_does() {
    const MICROJOULES: u64 = 40_000_000;
    let mut bench = Bench::prepare().await;
    for (name, zones) in [
        ("node-exporter", &["intel-rapl:0", "intel-rapl:0:0"][..]),
        ("procfs", &["intel-rapl:0", "intel-rapl:0:0", "intel-rapl:a"]),
    ] {
        let recorded = Observed::recorded(&mut bench, AGENT, machine(name)).await;
        // Energy by directory: both write it as a label.
        let energy = |page: &Page| -> Vec<f64> {
            let series: Vec<(&String, &f64)> = page
                .iter()
                .filter(|(family, _)| family.starts_with("node_rapl_"))
                .flat_map(|(_, family)| &family.series)
                .collect();
            let of =
                |zone: &&str| series.iter().find(|(series, _)| series.ends_with(&format!("/{zone}\"}}")));
            zones.iter().filter_map(of).map(|(_, joules)| **joules).collect()
        };
        let ours = || async { Ok::<_, String>(energy(&agreement::read(&recorded.ours("node").await)?)) };
        let counted = |expected: f64| async move {
            until(format!("{expected} J in every zone"), PATIENCE, || async {
                let joules = ours().await?;
                let there = joules.len() == zones.len() && joules.iter().all(|&one| one >= expected);
                if there { Ok(joules) } else { Err(format!("{joules:?}")) }
            })
            .await
            .expect("it is counted")
        };
        let (ours_before, theirs_before) = (counted(0.0).await, energy(&recorded.theirs().await));
        let tree = Tree::at(recorded.root());
        for zone in zones {
            let file = recorded.root().join(format!("sys/class/powercap/{zone}/energy_uj"));
            let stands: u64 =
                std::fs::read_to_string(file).expect("it is there").trim().parse().expect("a number");
            tree.energy(zone, stands + MICROJOULES);
        }
        let (ours_after, theirs_after) = (counted(40.0).await, energy(&recorded.theirs().await));
        for (before, after) in [(ours_before, ours_after), (theirs_before, theirs_after)] {
            let grown: Vec<String> =
                before.iter().zip(&after).map(|(before, after)| format!("{:.3}", after - before)).collect();
            assert_eq!(grown, vec!["40.000"; zones.len()], "{name}: {before:?} {after:?}");
        }
    }
}

/// The files below a place of a tree that can be spoilt, as the agent names them.
fn files_below(tree: &Tree, place: &str, depth: usize) -> Vec<String> {
    let entries = std::fs::read_dir(tree.path(place)).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| format!("{place}/{}", entry.file_name().to_string_lossy())).collect();
    names.sort_unstable();
    let mut files = Vec::new();
    for name in names {
        let path = tree.path(&name);
        if path.is_file() {
            files.push(name);
        } else if depth > 0 && path.is_dir() {
            files.extend(files_below(tree, &name, depth - 1));
        }
    }
    files
}

#[tokio::test]
async fn a_recorded_machine_that_breaks_bit_by_bit_still_has_legal_pages() {
    const PLACES: [(&str, usize); 9] = [
        ("proc", 0),
        ("proc/net", 0),
        ("proc/pressure", 0),
        ("sys/class/powercap", 1),
        ("sys/class/thermal", 1),
        ("sys/class/hwmon", 1),
        ("sys/devices/system/cpu", 2),
        ("sys/devices/system/edac", 3),
        ("sys/devices/system/node", 3),
    ];
    let directory = tempfile::tempdir().expect("a temporary directory");
    for (machine, seed) in MACHINES.into_iter().zip(0..) {
        let root = lay_out(machine, directory.path().join(machine.name)).await;
        let tree = Tree::at(&root);
        let files: Vec<String> =
            PLACES.iter().flat_map(|(place, depth)| files_below(&tree, place, *depth)).collect();
        let clock = Arc::new(AtomicU64::new(100));
        let now = Arc::clone(&clock);
        let now = Arc::new(move || {
            let up = Duration::from_secs(now.load(Ordering::Relaxed));
            Moment { up, wall: Duration::from_hours(500_000) + up }
        });
        let collectors = collectors::all(&Host::at(&root), &Settings::default());
        let instruments = Instruments::new(collectors, NODE, now);
        let mut worker = Worker::default();
        let mut draws = Draws(seed);
        let mut counted: BTreeMap<String, f64> = BTreeMap::new();
        for round in 0..20 {
            instruments.tick(&mut worker);
            let page = instruments.page(&mut worker, Format::Text, NameSets::ALL).expect("nobody else reads");
            let text = String::from_utf8(page).expect("a page is UTF-8");
            let page = agreement::read(&text).expect("a page is legal");
            let counters = page.values().filter(|family| family.kind == "counter");
            for (series, value) in counters.flat_map(|family| &family.series) {
                let last = counted.insert(series.clone(), *value).unwrap_or(0.0);
                assert!(
                    *value >= last,
                    "{}, round {round}: {series} fell from {last} to {value}",
                    machine.name
                );
            }
            clock.fetch_add(1 + draws.below(70), Ordering::Relaxed);
            for _ in 0..draws.below(10) {
                let file = &files[draws.index(files.len())];
                Damage::of_seed(draws.draw()).apply(&tree, file);
            }
        }
    }
}

/// Where we differ from what node_exporter expects of its own text files: nothing is lost that can be told.
const OTHERWISE: [(&str, &[&str]); 3] = [
    // A line with a timestamp costs itself, not its file.
    ("client_side_timestamp", &["normal_metric is ours alone"]),
    // Another help text is no reason to leave series out.
    (
        "metrics_merge_different_help",
        &[
            "events_total{file=\"b\",foo=\"bar\"}: ours Some(30.0), theirs None",
            "events_total{file=\"b\",foo=\"baz\"}: ours Some(40.0), theirs None",
            "node_textfile_scrape_error: ours Some(0.0), theirs Some(1.0)",
        ],
    ),
    // A sum and a count that nobody wrote are not made up.
    (
        "summary_extra_dimension",
        &[
            "prometheus_rule_evaluation_duration_seconds_count{handler=\"foo\",rule_type=\"alerting\"}: ours None, theirs Some(0.0)",
            "prometheus_rule_evaluation_duration_seconds_sum{handler=\"foo\",rule_type=\"alerting\"}: ours None, theirs Some(0.0)",
        ],
    ),
];

#[tokio::test]
async fn text_files_are_told_as_node_exporter_expects() {
    let files = e2e::recorded::kept(NODE_EXPORTER).await.join("collector/fixtures/textfile");
    let empty = tempfile::tempdir().expect("a temporary directory");
    let mut asked = Vec::new();
    for entry in std::fs::read_dir(&files).expect("it is kept").flatten() {
        let directory = entry.path();
        let Ok(expected) = std::fs::read_to_string(directory.with_extension("out")) else { continue };
        if directory.is_dir() {
            let mut command = Command::new(AGENT);
            command.args(["--once", "--names=node", "--sources=textfile", "--textfile-directory"]);
            command.arg(&directory).arg("--root").arg(empty.path());
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let name = entry.file_name().to_string_lossy().into_owned();
            asked.push((name, expected, command.spawn().expect("the agent starts")));
        }
    }
    assert_eq!(asked.len(), 13, "directories with an expectation beside them");
    for (name, expected, agent) in asked {
        let output = agent.wait_with_output().expect("it ends");
        let ours = String::from_utf8(output.stdout).expect("UTF-8");
        let [ours, theirs] = [ours, expected].map(|text| {
            let mut page = agreement::read(&text).expect("a page");
            // They write it into the expectation as 1.
            page.remove("node_textfile_mtime_seconds");
            page
        });
        let (_, problems) = agreement::compare(&ours, &theirs);
        let known =
            OTHERWISE.iter().find(|(directory, _)| *directory == name).map_or(&[][..], |(_, known)| known);
        assert_eq!(problems, known, "{name}");
    }
}
