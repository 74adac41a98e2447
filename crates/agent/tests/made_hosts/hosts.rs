//! Whole hosts: what a page says under the three name sets, and files that are missing, broken or absurd.

use crate::watched::{Watched, value};
use std::fmt::Write as _;

use agent::collectors::{SOURCES, Settings};
use agent::family::NameSets;
use agent::fixtures::faults::Errno;
use agent::page::Format;

const NONE: NameSets = NameSets { collectd: false, node: false, tas: false };
const UID: &str = "0f1c9e1a-8a52-4d1e-9a35-1c7f0a1b2c3d";

fn full() -> Watched {
    let mut host = Watched::new(|tree| {
        tree.proc(4, 3).sensors(4, 1, 2).server(1).pod_v2("shop", "web-1", UID);
    });
    host.tick();
    host.tree.energy("intel-rapl:0", 1_100_000_000).stat(4, 5);
    host.later(5).tick();
    host
}

#[test]
fn a_host_with_everything_has_every_source_up() {
    let mut host = full();
    let samples = host.samples();
    for source in SOURCES {
        let up = value(&samples, &format!("node_telemetry_source_up{{source=\"{source}\"}}"));
        assert_eq!(up, Some("1"), "{source}: {:?}", host.states());
    }
}

#[test]
fn values_under_all_names() {
    let samples = full().samples();
    let expected = [
        ("node_cpu_seconds_total{cpu=\"3\",mode=\"user\"}", "1001"),
        ("node_cpu_seconds_total{cpu=\"0\",mode=\"iowait\"}", "30"),
        ("collectd_cpu_total{cpu=\"3\",instance=\"n1\",type=\"user\"}", "100100"),
        ("collectd_cpu_total{cpu=\"0\",instance=\"n1\",type=\"wait\"}", "3000"),
        ("node_cpu_utilization_ratio", "0.25"),
        ("node_context_switches_total", "987654321"),
        ("node_memory_MemTotal_bytes", "67108864000"),
        ("node_memory_Active_anon_bytes", "3072000000"),
        ("node_memory_HugePages_Total", "8"),
        ("collectd_memory{instance=\"n1\",memory=\"slab_recl\"}", "716800000"),
        ("collectd_memory{instance=\"n1\",memory=\"used\"}", "34852864000"),
        ("node_memory_available_ratio", "0.5"),
        ("node_load15", "12"),
        ("collectd_load_shortterm{instance=\"n1\"}", "1.5"),
        ("node_network_receive_bytes_total{device=\"eth1\"}", "9876543211"),
        ("collectd_interface_if_errors_tx_total{instance=\"n1\",interface=\"eth0\"}", "3"),
        ("node_disk_read_bytes_total{device=\"sda\"}", "1024000"),
        ("node_disk_io_time_weighted_seconds_total{device=\"sda\"}", "0.7"),
        ("node_pressure_io_stalled_seconds_total", "23.456789"),
        ("node_pressure_ratio{kind=\"some\",resource=\"cpu\",window=\"10s\"}", "0.015"),
        ("node_thermal_zone_temp{type=\"x86_pkg_temp\",zone=\"0\"}", "54.5"),
        ("node_thermal_headroom_celsius", "45.5"),
        ("node_hwmon_temp_celsius{chip=\"coretemp\",sensor=\"temp2\"}", "50.1"),
        ("node_power_meter_watts{chip=\"power_meter\",chip_name=\"power_meter\",sensor=\"power1\"}", "412"),
        ("node_cpu_package_throttles_total{package=\"0\"}", "5"),
        ("node_throttle_events_total{package=\"0\"}", "11"),
        ("collectd_hugepages_vmpage_number{hugepages=\"mm-2048Kb\",instance=\"n1\",type=\"used\"}", "7"),
        ("collectd_hugepages_vmpage_number{hugepages=\"node1-2048Kb\",instance=\"n1\",type=\"free\"}", "2"),
        // Of 8 pages, of which 1 is more than was configured, 2 are free.
        ("node_hugepages_pages{numa=\"1\",size_kb=\"2048\",state=\"used\"}", "6"),
        ("node_memory_numa_MemFree{node=\"1\"}", "10240000000"),
        ("node_memory_numa_numa_hit_total{node=\"0\"}", "100"),
        ("node_edac_correctable_errors_total{controller=\"0\"}", "3"),
        ("node_edac_csrow_correctable_errors_total{controller=\"0\",csrow=\"unknown\"}", "1"),
        ("node_edac_csrow_uncorrectable_errors_total{controller=\"0\",csrow=\"0\"}", "0"),
        (
            "node_edac_channel_correctable_errors_total{channel=\"0\",controller=\"0\",csrow=\"0\",dimm_label=\"mc0_csrow0_channel0\"}",
            "2",
        ),
        (
            "node_edac_channel_uncorrectable_errors_total{channel=\"1\",controller=\"0\",csrow=\"0\",dimm_label=\"unknown\"}",
            "0",
        ),
        ("node_package_power_avg", "8"),
        ("collectd_package_0_power_power{instance=\"n1\"}", "20"),
    ];
    for (series, expected) in expected {
        assert_eq!(value(&samples, series), Some(expected), "{series}");
    }
}

#[test]
fn interfaces_of_pods_and_parts_of_disks_are_left_out() {
    let samples = full().samples();
    assert_eq!(value(&samples, "node_network_receive_bytes_total{device=\"veth000002\"}"), None);
    assert_eq!(value(&samples, "node_disk_io_now{device=\"sda1\"}"), None);
    assert_eq!(value(&samples, "node_disk_io_now{device=\"loop0\"}"), None);
}

#[test]
fn pods_of_both_versions_have_cpu_memory_and_pressure() {
    let pod = format!("namespace=\"shop\",pod=\"web-1\",uid=\"{UID}\"");
    let samples = full().samples();
    assert_eq!(value(&samples, &format!("node_pod_cpu_seconds_total{{{pod}}}")), Some("2.5"));
    assert_eq!(value(&samples, &format!("node_pod_memory_working_set_bytes{{{pod}}}")), Some("100000000"));
    let stalled = format!(
        "node_pod_pressure_seconds_total{{kind=\"some\",namespace=\"shop\",pod=\"web-1\",resource=\"io\",uid=\"{UID}\"}}"
    );
    assert_eq!(value(&samples, &stalled), Some("1.5"));

    let mut old = Watched::new(|tree| {
        tree.pod_v1(UID);
    });
    old.tick();
    let samples = old.samples();
    // An empty label is no label: without log directories the uid is all there is.
    assert_eq!(value(&samples, &format!("node_pod_cpu_seconds_total{{uid=\"{UID}\"}}")), Some("2.5"));
    assert_eq!(value(&samples, &format!("node_pod_memory_bytes{{uid=\"{UID}\"}}")), Some("104857600"));
    assert_eq!(old.found("pods"), "1 pods; without names: mount the kubelet's pod logs");
}

#[test]
fn pods_that_vanish_while_they_are_looked_at_are_left_out_and_too_many_are_counted() {
    let mut host = Watched::new(|tree| {
        tree.pod_v2("shop", "web-1", UID);
        for pod in 0..10_000 {
            let group = format!(
                "sys/fs/cgroup/kubepods.slice/kubepods-pod{pod:08}_8a52_4d1e_9a35_1c7f0a1b2c3d.slice"
            );
            // Every second one is on its way out: its directory is there, its files are gone.
            if pod % 2 == 0 {
                tree.write(&format!("{group}/memory.current"), "1\n");
            } else {
                std::fs::create_dir_all(tree.path(&group)).expect("mkdir");
            }
        }
    });
    host.tick();
    let samples = host.samples();
    assert_eq!(value(&samples, "node_pods"), Some("10001"));
    assert_eq!(value(&samples, "node_pod_left_out"), Some("9001"));
    let written = samples.keys().filter(|series| series.starts_with("node_pod_memory_bytes")).count();
    assert!((499..=501).contains(&written), "{written}");
}

#[test]
fn each_name_set_can_be_had_alone() {
    let mut host = full();
    let text = |host: &mut Watched, names| host.text(Format::Text, names);
    let names_in = |text: &str| -> Vec<String> {
        text.lines()
            .filter_map(|l| l.strip_prefix("# TYPE "))
            .map(|l| l.split(' ').next().unwrap_or_default().to_owned())
            .collect()
    };
    let collectd = names_in(&text(&mut host, NameSets { collectd: true, ..NONE }));
    let own = |name: &&String| name.starts_with("node_telemetry_") || name.starts_with("process_");
    assert!(collectd.iter().filter(|n| !own(n)).all(|name| name.starts_with("collectd_")), "{collectd:?}");
    let node = names_in(&text(&mut host, NameSets { node: true, ..NONE }));
    let tas = names_in(&text(&mut host, NameSets { tas: true, ..NONE }));
    assert!(node.iter().chain(&tas).all(|name| !name.starts_with("collectd_")));
    assert!(node.iter().filter(|n| !own(n)).all(|name| !tas.contains(name)), "a name belongs to one set");
    assert!(names_in(&text(&mut host, NONE)).iter().all(|name| own(&name)));
}

#[test]
fn openmetrics_ends_and_has_counters_without_total_in_their_type() {
    let text = full().text(Format::OpenMetrics, NameSets::ALL);
    assert!(text.ends_with("# EOF\n"));
    assert!(text.contains(
        "# TYPE node_cpu_seconds counter\n# UNIT node_cpu_seconds seconds\nnode_cpu_seconds_total{"
    ));
    let mut families: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let all = families.len();
    families.sort_unstable();
    families.dedup();
    assert_eq!(families.len(), all, "a family twice");
}

#[test]
fn counters_of_our_own_namespace_do_not_pass_for_those_of_the_host() {
    let mut host = Watched::new(|tree| {
        tree.proc(2, 2).write("proc/self/net/dev", "eth9: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
        std::os::unix::fs::symlink("self/net", tree.path("proc/net")).expect("ours");
    });
    host.tree.remove("proc/1/net/dev");
    let samples = host.samples();
    assert_eq!(samples.keys().find(|series| series.contains("network_")), None);
    assert_eq!(host.down("network"), Some("absent"));
    // A recording has no links into whoever looks at it.
    std::fs::remove_file(host.tree.path("proc/net")).expect("ours");
    host.tree.write("proc/net/dev", "eth9: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
    let samples = host.samples();
    assert_eq!(value(&samples, "node_network_receive_packets_total{device=\"eth9\"}"), Some("2"));
}

type Spoil<'f> = Box<dyn Fn(&Watched) + 'f>;

#[test]
fn one_spoilt_file_takes_nothing_else_with_it() {
    let files = [
        ("cpu", "proc/stat"),
        ("memory", "proc/meminfo"),
        ("load", "proc/loadavg"),
        ("network", "proc/1/net/dev"),
        ("disks", "proc/diskstats"),
    ];
    for (source, file) in files {
        let spoilt: [(&str, Spoil<'_>); 3] = [
            (
                "absent",
                Box::new(|host| {
                    host.tree.remove(file);
                }),
            ),
            (
                "too_large",
                Box::new(|host| {
                    host.tree.write(file, vec![b'x'; 10 * 1024 * 1024]);
                }),
            ),
            (
                "not_a_file",
                Box::new(|host| {
                    host.tree.remove(file);
                    let made = std::process::Command::new("mkfifo").arg(host.tree.path(file)).status();
                    assert!(made.expect("mkfifo runs").success());
                }),
            ),
        ];
        for (reason, spoil) in spoilt {
            let mut host = Watched::new(|tree| {
                tree.proc(2, 1);
            });
            spoil(&host);
            let samples = host.samples();
            let down = format!("node_telemetry_source_down_info{{reason=\"{reason}\",source=\"{source}\"}}");
            assert_eq!(value(&samples, &down), Some("1"), "{source} {reason}");
            let others = files.iter().filter(|(other, _)| *other != source);
            for (other, _) in others {
                let up = format!("node_telemetry_source_up{{source=\"{other}\"}}");
                assert_eq!(value(&samples, &up), Some("1"), "{other} beside {source}");
            }
        }
    }
}

#[test]
fn an_error_of_the_kernel_costs_the_source_it_hits_and_no_other() {
    let files = [
        ("cpu", "proc/stat"),
        ("memory", "proc/meminfo"),
        ("load", "proc/loadavg"),
        ("network", "proc/1/net/dev"),
        ("disks", "proc/diskstats"),
        ("thermal", "sys/class/thermal/thermal_zone0/temp"),
        ("thermal", "sys/class/thermal"),
        ("hwmon", "sys/class/hwmon"),
        ("throttle", "sys/devices/system/cpu"),
        ("hugepages", "sys/kernel/mm/hugepages"),
        ("edac", "sys/devices/system/edac/mc"),
        ("pods", "sys/fs/cgroup"),
    ];
    for (source, file) in files {
        let mut host = full();
        for (errno, reason) in [(Errno::Eio, "failed"), (Errno::Eacces, "denied"), (Errno::Enodata, "failed")]
        {
            host.tree.fails(file, Some(errno));
            // Directories are looked at once a minute.
            host.later(61).tick();
            assert_eq!(host.down(source), Some(reason), "{source} {errno:?}");
            let down: Vec<&str> =
                host.states().iter().filter(|s| s.down.is_some()).map(|s| s.source).collect();
            assert_eq!(down, [source], "{errno:?}");
        }
        host.tree.fails(file, None);
        host.later(61).tick();
        assert_eq!(host.down(source), None, "{source} is back");
    }
}

#[test]
fn a_sensor_that_is_asleep_is_left_out_and_the_others_stay() {
    let mut host = full();
    let temperatures = |host: &mut Watched| {
        let samples = host.samples();
        samples.keys().filter(|series| series.starts_with("node_hwmon_temp_celsius{")).count()
    };
    let all = temperatures(&mut host);
    host.tree.fails("sys/class/hwmon/hwmon0/temp1_input", Some(Errno::Enodata));
    assert_eq!((temperatures(&mut host), host.down("hwmon")), (all - 1, None));
    host.tree.fails("sys/class/hwmon/hwmon0/temp1_input", None);
    assert_eq!(temperatures(&mut host), all);
}

#[test]
fn a_source_that_goes_leaves_no_old_values_and_comes_back() {
    let mut host = full();
    assert!(host.samples().contains_key("node_load1"));
    let text = std::fs::read(host.tree.path("proc/loadavg")).expect("made");
    host.tree.write("proc/loadavg", "garbage\n");
    assert_eq!((host.down("load"), host.samples().contains_key("node_load1")), (Some("garbage"), false));
    host.tree.write("proc/loadavg", text);
    assert_eq!((host.down("load"), host.samples().contains_key("node_load1")), (None, true));
}

#[test]
fn pressure_of_interrupts_is_told_where_there_is_any_and_looked_for_again() {
    let stalled = "node_pressure_irq_stalled_seconds_total";
    let mut host = Watched::new(|tree| {
        tree.proc(2, 1).remove("proc/pressure/irq");
    });
    assert_eq!((value(&host.samples(), stalled), host.down("pressure")), (None, None));
    host.tree.proc(2, 1);
    host.later(61);
    assert_eq!(value(&host.samples(), stalled), Some("0.004711"));
}

#[test]
fn the_age_of_what_is_sampled_is_told() {
    let mut host = full();
    host.later(7);
    let samples = host.samples();
    assert_eq!(value(&samples, "node_telemetry_sample_age_seconds{source=\"rapl\"}"), Some("7"));
    assert_eq!(value(&samples, "node_telemetry_sample_age_seconds{source=\"cpu\"}"), Some("0"));
}

#[test]
fn sources_that_are_off_are_not_there() {
    let off = vec!["cpu".to_owned(), "pods".to_owned()];
    let mut host = Watched::with(&Settings { off, ..Settings::default() }, |tree| {
        tree.proc(2, 1);
    });
    let samples = host.samples();
    assert!(
        samples.keys().all(|series| !series.starts_with("node_cpu_") && !series.contains("source=\"pods\""))
    );
    assert!(samples.contains_key("node_load1"));
}

#[test]
fn the_large_host_has_more_series_than_the_measurement_asks_for() {
    let ignored = Settings { ignored_interfaces: Vec::new(), ..Settings::default() };
    let mut host = Watched::with(&ignored, |tree| {
        tree.large();
    });
    host.tick();
    let count = host.samples().len();
    assert!(count >= 6_800, "{count}");
}

#[test]
fn chips_on_one_device_are_told_apart_as_node_exporter_does() {
    let chips = [("nvme", 40), ("nvme", 41), ("asus", 42), ("Asus-WMI", 43), ("BAT0", 44)];
    let mut host = Watched::new(|tree| {
        for (number, (name, degrees)) in chips.iter().enumerate() {
            tree.write(&format!("sys/class/hwmon/hwmon{number}/name"), format!("{name}\n"));
            tree.write(&format!("sys/class/hwmon/hwmon{number}/temp1_input"), format!("{degrees}000\n"));
        }
        tree.device("sys/class/hwmon/hwmon2/device", "board")
            .device("sys/class/hwmon/hwmon3/device", "board");
    });
    let samples = host.samples();
    let expected = [
        ("nvme_hwmon0", "nvme", "40"),
        ("nvme_hwmon1", "nvme", "41"),
        ("platform_board_asus", "asus", "42"),
        ("platform_board_asus_wmi", "asus_wmi", "43"),
        ("bat0", "bat0", "44"),
    ];
    for (chip, name, degrees) in expected {
        let series = format!("node_hwmon_temp_celsius{{chip=\"{chip}\",sensor=\"temp1\"}}");
        assert_eq!(value(&samples, &series), Some(degrees), "{series}");
        let series = format!("node_hwmon_chip_names{{chip=\"{chip}\",chip_name=\"{name}\"}}");
        assert_eq!(value(&samples, &series), Some("1"), "{series}");
    }
}

#[test]
fn huge_pages_of_numa_nodes_are_told_where_those_of_the_whole_are_out_of_sight() {
    let mut host = full();
    host.tree.remove("sys/kernel/mm/hugepages");
    let samples = host.samples();
    let series = "node_hugepages_pages{numa=\"0\",size_kb=\"2048\",state=\"free\"}";
    assert_eq!(value(&samples, series), Some("2"));
    assert_eq!(host.found("hugepages"), "pages of 2048 kB");
}

#[test]
fn a_numa_node_that_cannot_be_read_takes_no_other_with_it() {
    let mut host = full();
    host.tree.fails("sys/devices/system/node/node0/meminfo", Some(Errno::Eio));
    let samples = host.samples();
    assert_eq!(value(&samples, "node_memory_numa_MemTotal{node=\"0\"}"), None);
    assert!(value(&samples, "node_memory_numa_MemTotal{node=\"1\"}").is_some(), "{samples:?}");
}

#[test]
fn the_committed_reference_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics-agent.md");
    let committed = std::fs::read_to_string(path).expect("the page is committed");
    assert!(
        committed == agent::reference::page(),
        "run `cargo run -p tas-agent --example metrics_reference > docs/metrics-agent.md`"
    );
}

#[test]
fn whatever_is_written_is_in_the_reference() {
    let known: Vec<&str> = agent::reference::families().iter().map(|(_, family)| family.name).collect();
    let fits = |name: &str| {
        known.iter().any(|pattern| match (pattern.find('<'), pattern.rfind('>')) {
            (Some(open), Some(close)) => {
                name.starts_with(&pattern[..open]) && name.ends_with(&pattern[close + 1..])
            }
            _ => *pattern == name,
        })
    };
    for series in full().samples().keys() {
        let name = series.split('{').next().unwrap_or_default();
        assert!(fits(name), "{name}");
    }
}

#[test]
fn tables_are_read_up_to_their_limits() {
    let mut net = String::new();
    let mut disks = String::new();
    for n in 0..1_100 {
        let _ = writeln!(net, "eth{n}: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16");
        let _ = writeln!(disks, "8 0 sd-{n} 1 2 3 4 5 6 7 8 9 10 11");
    }
    let mut host = Watched::new(|tree| {
        tree.write("proc/1/net/dev", net).write("proc/diskstats", disks);
        for sensor in 1..=2_100 {
            tree.write(&format!("sys/class/hwmon/hwmon0/temp{sensor}_input"), "1\n");
        }
        for zone in 0..300 {
            tree.zone(&format!("intel-rapl:{zone}"), &format!("package-{zone}"), 0);
            tree.write(&format!("sys/class/thermal/thermal_zone{zone}/temp"), "1\n");
        }
    });
    host.tick().later(1).tick();
    let samples = host.text(Format::Text, NameSets { node: true, ..NONE });
    let count = |start: &str| samples.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(count("node_network_receive_bytes_total{"), 1_024);
    assert_eq!(count("node_disk_io_now{"), 1_024);
    assert_eq!(count("node_hwmon_temp_celsius{"), 2_048);
    assert_eq!(count("node_rapl_package_joules_total{"), 256);
    assert_eq!(count("node_thermal_zone_temp{"), 256);
    let mut meminfo = String::new();
    for n in 0..300 {
        let _ = writeln!(meminfo, "Field{n}: 1 kB");
    }
    let mut host = Watched::new(|tree| {
        tree.write("proc/meminfo", meminfo);
        for node in 0..1_100 {
            tree.write(&format!("sys/devices/system/node/node{node}/meminfo"), "Node 0 MemFree: 1 kB\n");
        }
        for n in 0..150 {
            tree.write(&format!("sys/class/hwmon/hwmon{n}/name"), "nvme\n");
            for place in [format!("mc{n}"), format!("mc0/csrow{n}")] {
                for file in ["ce_count", "ue_count"] {
                    tree.write(&format!("sys/devices/system/edac/mc/{place}/{file}"), "1\n");
                }
            }
        }
        for size in 1..=20 {
            for file in ["nr_hugepages", "free_hugepages", "surplus_hugepages"] {
                tree.write(&format!("sys/kernel/mm/hugepages/hugepages-{size}kB/{file}"), "1\n");
            }
        }
        for channel in 0..20 {
            tree.write(&format!("sys/devices/system/edac/mc/mc0/csrow0/ch{channel}_ce_count"), "1\n");
        }
        tree.write("sys/class/hwmon/hwmon0/temp1_input", "1\n");
    });
    host.tick();
    let samples = host.text(Format::Text, NameSets::ALL);
    let count = |start: &str| samples.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(count("node_memory_Field"), 256);
    assert_eq!(count("node_memory_numa_MemFree{"), 1_024);
    assert_eq!(count("node_hwmon_chip_names{"), 128);
    assert_eq!(count("node_edac_correctable_errors_total{"), 128);
    assert_eq!(count("node_edac_csrow_correctable_errors_total{"), 128);
    assert_eq!(count("node_edac_channel_correctable_errors_total{"), 16);
    assert_eq!(count("collectd_hugepages_vmpage_number{"), 2 * 16);
    let mut stat = String::new();
    for cpu in 0..9_000 {
        let _ = writeln!(stat, "cpu{cpu} 1 2 3 4");
    }
    let mut host = Watched::new(|tree| {
        tree.write("proc/stat", stat);
    });
    host.text(Format::Text, NONE);
    assert_eq!(host.found("cpu"), "8192 CPUs");
}
