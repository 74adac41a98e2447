//! Hosts as they were recorded from real machines.

use agent::fixtures::Tree;

use crate::watched::{Watched, value};

/// A virtual machine with two CPUs, Linux 6.18: no powercap, no sensors, no ECC, no kubelet.
const VIRTUAL_MACHINE: &str = include_str!("../recorded/virtual-machine.txt");

#[test]
fn a_recorded_virtual_machine_has_what_it_had_and_says_what_it_lacks() {
    let mut host = Watched::new(|tree: &Tree| {
        tree.recorded(VIRTUAL_MACHINE);
    });
    host.tick().later(5).tick();
    let samples = host.samples();
    let down: Vec<(&str, &str)> =
        host.states().iter().filter_map(|s| Some((s.source, s.down.as_ref()?.reason()))).collect();
    let absent = ["rapl", "thermal", "throttle", "hwmon", "edac", "pods"].map(|source| (source, "absent"));
    assert_eq!(down, absent);
    let expected = [
        ("node_cpu_seconds_total{cpu=\"0\",mode=\"user\"}", "4986.64"),
        ("node_cpu_seconds_total{cpu=\"1\",mode=\"steal\"}", "104.7"),
        ("collectd_cpu_total{cpu=\"1\",instance=\"n1\",type=\"nice\"}", "665099"),
        ("node_intr_total", "25880185"),
        ("node_context_switches_total", "51743668"),
        ("node_procs_running", "33"),
        ("node_memory_MemTotal_bytes", "25274793984"),
        ("node_memory_numa_MemTotal{node=\"0\"}", "25274793984"),
        ("collectd_memory{instance=\"n1\",memory=\"buffered\"}", "183574528"),
        ("collectd_hugepages_vmpage_number{hugepages=\"node0-2048Kb\",instance=\"n1\",type=\"free\"}", "0"),
        ("node_power_source_info{reason=\"absent\",source=\"none\"}", "1"),
    ];
    for (series, expected) in expected {
        assert_eq!(value(&samples, series), Some(expected), "{series}");
    }
    for family in ["node_network_receive_bytes_total{", "node_disk_io_now{", "node_pressure_ratio{"] {
        assert!(samples.keys().any(|series| series.starts_with(family)), "{family}");
    }
}
