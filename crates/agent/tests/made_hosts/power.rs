//! Power on every kind of host: sockets, dies, platforms, virtual machines, and counters that misbehave.

use crate::watched::{Samples, Watched, value};
use agent::collectors::Settings;
use agent::fixtures::faults::Errno;
use agent::fixtures::{PACKAGE_RANGE, Tree};

const J: u64 = 1_000_000;

/// Moves every package by `watts` (package n by n watts more) and its memory by 10 W, for one second.
fn work(host: &mut Watched, sockets: u64, watts: u64, second: u64) {
    host.later(1);
    for index in 0..sockets {
        let socket = sockets - 1 - index;
        host.tree.energy(&format!("intel-rapl:{index}"), 1000 * J + (watts + socket) * J * second);
        host.tree.energy(&format!("intel-rapl:{index}:0"), 500 * J + 10 * J * second);
    }
    host.tick();
}

fn watts(samples: &Samples, zone: &str, package: u64) -> Option<String> {
    value(samples, &format!("node_power_watts{{package=\"{package}\",window=\"10s\",zone=\"{zone}\"}}"))
        .map(str::to_owned)
}

#[test]
fn any_number_of_sockets_is_measured_by_name_not_by_number() {
    for sockets in [1, 2, 4, 8] {
        let mut host = Watched::new(|tree| {
            tree.server(sockets);
        });
        host.tick();
        assert_eq!(watts(&host.samples(), "package", 0), None, "nothing after one reading");
        for second in 1..=5 {
            work(&mut host, u64::from(sockets), 100, second);
        }
        let samples = host.samples();
        for socket in 0..u64::from(sockets) {
            assert_eq!(watts(&samples, "package", socket), Some((100 + socket).to_string()));
            assert_eq!(watts(&samples, "dram", socket).as_deref(), Some("10"));
            let collectd = format!("collectd_package_{socket}_power_power{{instance=\"n1\"}}");
            assert_eq!(value(&samples, &collectd), Some((100 + socket).to_string().as_str()));
            let tdp = format!("collectd_package_{socket}_TDP_power_power{{instance=\"n1\"}}");
            assert_eq!(value(&samples, &tdp), Some("250"));
            let share = format!("node_package_power_ratio{{package=\"{socket}\"}}");
            // Of 250 W each watt is 0.004.
            assert_eq!(
                value(&samples, &share),
                Some(format!("0.{}", 400 + 4 * socket).trim_end_matches('0'))
            );
        }
        let sockets = u64::from(sockets);
        let total = (0..sockets).map(|socket| 110 + socket).sum::<u64>();
        assert_eq!(
            value(&samples, "node_power_total_watts{source=\"rapl\"}"),
            Some(total.to_string().as_str())
        );
        let percent: f64 =
            value(&samples, "node_package_power_avg").expect("all have a TDP").parse().expect("a number");
        // 100 W of 250 W, and half a watt more for each socket but the first.
        let expected = 40.0 + 0.2 * f64::from(u32::try_from(sockets).expect("few") - 1);
        assert!((percent - expected).abs() < 0.02, "{percent} is not {expected}");
    }
}

#[test]
fn more_numa_nodes_than_sockets_change_nothing_about_power() {
    let mut host = Watched::new(|tree| {
        tree.server(2).sensors(16, 2, 8);
    });
    host.tick();
    work(&mut host, 2, 100, 1);
    let samples = host.samples();
    assert_eq!(
        (watts(&samples, "package", 0), watts(&samples, "package", 1)),
        (Some("100".into()), Some("101".into()))
    );
    assert_eq!(samples.keys().filter(|series| series.starts_with("node_numa_memory_free_ratio")).count(), 8);
}

#[test]
fn amd_has_no_limits_so_its_tdp_comes_from_the_configuration() {
    let amd = |tree: &Tree| {
        tree.zone("intel-rapl:0", "package-0", 1000 * J).zone("intel-rapl:0:0", "core", 10 * J);
    };
    let run = |settings| {
        let mut host = Watched::with(&settings, amd);
        host.tick();
        host.tree.energy("intel-rapl:0", 1090 * J).energy("intel-rapl:0:0", 40 * J);
        host.later(1).tick();
        (host.samples(), host.found("rapl"))
    };
    let (samples, found) = run(Settings::default());
    assert_eq!(watts(&samples, "package", 0).as_deref(), Some("90"));
    assert_eq!(value(&samples, "node_package_power_avg"), None);
    assert_eq!(found, "package-0, core-0; no TDP in sight, give --tdp-watts");
    let (samples, _) = run(Settings { tdp_watts: Some(180), ..Settings::default() });
    assert_eq!(value(&samples, "node_package_power_avg"), Some("50"));
    // The cores are inside the package.
    assert_eq!(value(&samples, "node_power_total_watts{source=\"rapl\"}"), Some("90"));
}

#[test]
fn a_limit_that_no_package_reaches_is_no_tdp() {
    // As firmware writes that sets no limits, here without a word about what the part was built for.
    let unlimited = |tree: &Tree| {
        tree.zone("intel-rapl:0", "package-0", 1000 * J).limits("intel-rapl:0", 0, 4090, 4090);
    };
    let mut host = Watched::new(unlimited);
    host.tick();
    host.tree.energy("intel-rapl:0", 1250 * J);
    let samples = host.later(1).tick().samples();
    assert_eq!(watts(&samples, "package", 0).as_deref(), Some("250"), "an unlimited part may draw much");
    assert_eq!(value(&samples, "node_package_power_avg"), None);
    assert_eq!(
        value(&samples, "node_power_limit_watts{constraint=\"long_term\",package=\"0\"}"),
        Some("4090")
    );
    assert_eq!(host.found("rapl"), "package-0; no TDP in sight, give --tdp-watts");
    host.tree.energy("intel-rapl:0", 4250 * J);
    let samples = host.later(1).tick().samples();
    assert_eq!(
        value(&samples, "node_energy_joules_total{package=\"0\",zone=\"package\"}"),
        Some("250"),
        "3,000 W are a jump of the counter"
    );
}

#[test]
fn zones_have_node_exporters_names_and_numbers() {
    // Its numbers of memory are a count in the order of directories, whichever package comes first.
    let mut host = Watched::new(|tree| {
        tree.server(2);
        tree.zone("intel-rapl:2", "package-2-die-1", 0).zone("intel-rapl-mmio:0", "package-1", 0);
    });
    host.tick().later(1).tick();
    let rapl: Vec<String> = host.samples().into_keys().filter(|s| s.starts_with("node_rapl_")).collect();
    let series = |zone: &str, index: u32, directory: &str| {
        format!("node_rapl_{zone}_joules_total{{index=\"{index}\",path=\"/sys/class/powercap/{directory}\"}}")
    };
    let expected = [
        series("dram", 0, "intel-rapl:0:0"),
        series("dram", 1, "intel-rapl:1:0"),
        series("package_2_die_1", 0, "intel-rapl:2"),
        series("package", 0, "intel-rapl:1"),
        series("package", 1, "intel-rapl:0"),
    ];
    assert_eq!(rapl, expected);
}

#[test]
fn a_virtual_machine_without_powercap_is_up_and_says_why_there_is_no_power() {
    let mut host = Watched::new(|tree| {
        tree.proc(2, 1);
    });
    host.tick();
    let samples = host.samples();
    assert_eq!(value(&samples, "node_power_source_info{reason=\"absent\",source=\"none\"}"), Some("1"));
    assert_eq!(value(&samples, "node_telemetry_source_up{source=\"rapl\"}"), Some("0"));
    assert_eq!(value(&samples, "node_telemetry_source_up{source=\"cpu\"}"), Some("1"));
}

#[test]
fn dies_add_up_to_their_package() {
    let mut host = Watched::new(|tree| {
        for die in 0..2 {
            tree.zone(&format!("intel-rapl:{die}"), &format!("package-0-die-{die}"), 1000 * J);
            tree.limits(&format!("intel-rapl:{die}"), 150, 150, 200);
        }
    });
    host.tick();
    host.tree.energy("intel-rapl:0", 1050 * J).energy("intel-rapl:1", 1070 * J);
    let samples = host.later(1).tick().samples();
    assert_eq!(value(&samples, "collectd_package_0_power_power{instance=\"n1\"}"), Some("120"));
    assert_eq!(value(&samples, "collectd_package_0_TDP_power_power{instance=\"n1\"}"), Some("300"));
    assert_eq!(value(&samples, "node_package_power_avg"), Some("40"));
    let die = "node_power_watts{die=\"1\",package=\"0\",window=\"10s\",zone=\"package\"}";
    assert_eq!(value(&samples, die), Some("70"));
}

#[test]
fn a_host_with_nothing_but_a_platform_zone_has_a_total() {
    let mut host = Watched::new(|tree| {
        tree.zone("intel-rapl:0", "psys", 1000 * J);
    });
    host.tick();
    host.tree.energy("intel-rapl:0", 1300 * J);
    let samples = host.later(1).tick().samples();
    assert_eq!(value(&samples, "node_power_total_watts{source=\"psys\"}"), Some("300"));
    assert_eq!(value(&samples, "node_package_power_avg"), None);
}

#[test]
fn the_platform_zone_counts_only_if_it_works_and_nothing_is_counted_twice() {
    for (platform, expected) in [(200, ("psys", "200")), (0, ("rapl", "110")), (50, ("rapl", "110"))] {
        let mut host = Watched::new(|tree| {
            tree.server(1).zone("intel-rapl:1", "psys", 0);
            // What the memory-mapped interface has is the same package once more.
            tree.zone("intel-rapl-mmio:0", "package-0", 0);
        });
        host.tick();
        host.tree.energy("intel-rapl:1", platform * J).energy("intel-rapl-mmio:0", 400 * J);
        work(&mut host, 1, 100, 1);
        host.tree.energy("intel-rapl:1", platform * J);
        let samples = host.samples();
        let total = format!("node_power_total_watts{{source=\"{}\"}}", expected.0);
        assert_eq!(value(&samples, &total), Some(expected.1));
        assert_eq!(watts(&samples, "package", 0).as_deref(), Some("100"));
        let rapl = samples.keys().filter(|series| series.starts_with("node_rapl_package_joules_total"));
        assert_eq!(
            rapl.collect::<Vec<_>>(),
            vec!["node_rapl_package_joules_total{index=\"0\",path=\"/sys/class/powercap/intel-rapl:0\"}"]
        );
    }
}

#[test]
fn a_wrap_changes_neither_watts_nor_joules() {
    let mut host = Watched::new(|tree| {
        tree.server(1).energy("intel-rapl:0", PACKAGE_RANGE - 150 * J);
    });
    host.tick();
    let mut last = 0.0;
    for second in 1..=4u64 {
        host.tree.energy("intel-rapl:0", (PACKAGE_RANGE - 150 * J + 100 * J * second) % PACKAGE_RANGE);
        let samples = host.later(1).tick().samples();
        assert_eq!(watts(&samples, "package", 0).as_deref(), Some("100"));
        let joules: f64 = value(&samples, "node_energy_joules_total{package=\"0\",zone=\"package\"}")
            .expect("measured")
            .parse()
            .expect("a number");
        assert!(joules > last, "{joules} after {last}");
        last = joules;
    }
    assert!((last - 400.0).abs() < 1e-6);
}

#[test]
fn a_reset_and_a_jump_leave_no_spike() {
    let mut host = Watched::new(|tree| {
        tree.server(1);
    });
    host.tick();
    // 100 W, then the counter starts again at 0, then it jumps by a megajoule, then 100 W.
    for energy in [1100, 1200, 0, 100, 1_000_100, 1_000_200] {
        host.tree.energy("intel-rapl:0", energy * J);
        let samples = host.later(1).tick().samples();
        assert_eq!(watts(&samples, "package", 0).as_deref(), Some("100"), "at {energy} J");
    }
    let samples = host.samples();
    assert_eq!(value(&samples, "node_energy_joules_total{package=\"0\",zone=\"package\"}"), Some("400"));
}

#[test]
fn a_zone_that_vanishes_and_returns_goes_on_from_where_it_was() {
    let joules = "node_energy_joules_total{package=\"0\",zone=\"package\"}";
    let mut host = Watched::new(|tree| {
        tree.server(2);
    });
    host.tick();
    work(&mut host, 2, 100, 1);
    assert_eq!(value(&host.samples(), joules), Some("100"));
    host.tree.remove("sys/class/powercap/intel-rapl:1").energy("intel-rapl:0", 1202 * J);
    host.later(1).tick();
    let samples = host.samples();
    assert_eq!(value(&samples, joules), None);
    assert_eq!(watts(&samples, "package", 1).as_deref(), Some("101"), "the other socket is still there");
    assert_eq!(host.down("rapl"), None);
    host.later(10).tick();
    // Its driver was loaded again: the counter begins anew.
    host.tree.zone("intel-rapl:1", "package-0", 7 * J);
    for second in 0..12 {
        host.tree.energy("intel-rapl:1", 7 * J + second * 100 * J);
        host.later(1).tick();
    }
    let after: f64 = value(&host.samples(), joules).expect("back").parse().expect("a number");
    assert!((100.0..=1300.0).contains(&after), "{after}");
}

#[test]
fn a_clock_that_stood_still_makes_no_power() {
    let mut host = Watched::new(|tree| {
        tree.server(1);
    });
    host.tick();
    work(&mut host, 1, 100, 1);
    for energy in [1200, 1300, 1400] {
        host.tree.energy("intel-rapl:0", energy * J);
        let samples = host.tick().samples();
        assert_eq!(watts(&samples, "package", 0).as_deref(), Some("100"));
    }
    // Woken up after a night: the counter went on, the clock did not. 40 kJ in one second is no power.
    host.tree.energy("intel-rapl:0", 41_400 * J);
    assert_eq!(watts(&host.later(1).tick().samples(), "package", 0).as_deref(), Some("100"));
}

/// A reason, and what is done to a file to earn it.
type Case = (&'static str, fn(&Tree, &str));

#[test]
fn what_cannot_be_read_is_a_reason_and_the_others_are_read() {
    let energy = "sys/class/powercap/intel-rapl:1/energy_uj";
    let cases: [Case; 5] = [
        ("absent", |tree, path| {
            tree.remove(path);
        }),
        ("not_a_file", |tree, path| {
            tree.remove(path);
            let made = std::process::Command::new("mkfifo").arg(tree.path(path)).status();
            assert!(made.expect("mkfifo runs").success());
        }),
        ("garbage", |tree, path| {
            tree.write(path, "no number\n");
        }),
        ("too_large", |tree, path| {
            tree.write(path, vec![b'7'; 10 * 1024 * 1024]);
        }),
        ("not_a_file", |tree, path| {
            tree.remove(path).write(&format!("{path}/x"), "");
        }),
    ];
    for (reason, spoil) in cases {
        let mut host = Watched::new(|tree| {
            tree.server(2);
            spoil(tree, energy);
        });
        host.tick();
        host.tree.energy("intel-rapl:0", 1100 * J);
        host.later(1).tick();
        let samples = host.samples();
        assert_eq!(watts(&samples, "package", 0), None, "{reason}");
        assert_eq!(watts(&samples, "package", 1).as_deref(), Some("100"), "{reason}");
        assert_eq!(value(&samples, "node_package_power_avg"), None, "half of the sockets is no mean");
        assert!(host.found("rapl").contains(&format!("package-0 ({reason})")), "{}", host.found("rapl"));
    }
}

#[test]
fn an_error_of_the_kernel_is_a_reason_and_ends_with_the_error() {
    let energy = "sys/class/powercap/intel-rapl:1/energy_uj";
    let errors = [
        (Errno::Eacces, "denied"),
        (Errno::Eio, "failed"),
        (Errno::Enodata, "failed"),
        (Errno::Einval, "failed"),
        (Errno::Enodev, "failed"),
    ];
    for (errno, reason) in errors {
        let mut host = Watched::new(|tree| {
            tree.server(2);
        });
        host.tick();
        work(&mut host, 2, 100, 1);
        assert_eq!(watts(&host.samples(), "package", 0).as_deref(), Some("100"), "{errno:?}");
        host.tree.fails(energy, Some(errno));
        work(&mut host, 2, 100, 2);
        let samples = host.samples();
        assert_eq!(watts(&samples, "package", 0), None, "{errno:?}");
        assert_eq!(watts(&samples, "package", 1).as_deref(), Some("101"), "{errno:?}");
        assert_eq!(value(&samples, "node_package_power_avg"), None, "half of the sockets is no mean");
        assert!(host.found("rapl").contains(&format!("package-0 ({reason})")), "{}", host.found("rapl"));
        host.tree.fails(energy, None);
        work(&mut host, 2, 100, 3);
        let samples = host.samples();
        assert_eq!(watts(&samples, "package", 0).as_deref(), Some("100"), "{errno:?}");
        let joules = value(&samples, "node_energy_joules_total{package=\"0\",zone=\"package\"}");
        assert_eq!(joules, Some("300"), "what was used meanwhile is not lost: {errno:?}");
    }
}

#[test]
fn where_only_root_may_read_the_counters_the_source_says_so() {
    let mut host = Watched::new(|tree| {
        tree.server(1);
        for zone in ["intel-rapl:0", "intel-rapl:0:0"] {
            tree.fails(&format!("sys/class/powercap/{zone}/energy_uj"), Some(Errno::Eacces));
        }
    });
    host.tick();
    assert_eq!(host.down("rapl"), Some("denied"));
    let samples = host.samples();
    assert_eq!(value(&samples, "node_power_source_info{reason=\"denied\",source=\"none\"}"), Some("1"));
    // Some kernels hide the whole directory.
    host.tree.fails("sys/class/powercap", Some(Errno::Eacces));
    host.later(61).tick();
    assert_eq!(host.down("rapl"), Some("denied"));
}
