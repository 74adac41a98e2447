//! Hosts as directory trees: made ones for tests, for measurements and for demos on machines without sensors.

pub mod damage;
pub mod faults;

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use faults::Errno;

/// A host's `proc` and `sys` in a directory.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
}

/// The counter's range on most server packages, in microjoules.
pub const PACKAGE_RANGE: u64 = 262_143_328_850;
/// The same for memory.
pub const DRAM_RANGE: u64 = 65_712_999_613;

impl Tree {
    /// A tree in an existing, empty directory.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Where it is.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The path of `relative` in the tree.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    /// Writes a file in place, so that descriptors that are open see it as they would see the kernel's.
    pub fn write(&self, relative: &str, text: impl AsRef<[u8]>) -> &Self {
        let path = self.path(relative);
        fs::create_dir_all(path.parent().expect("files are below the root")).expect("the tree is writable");
        fs::write(path, text).expect("the tree is writable");
        self
    }

    /// Removes a file or a directory.
    pub fn remove(&self, relative: &str) -> &Self {
        let path = self.path(relative);
        let removed = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        removed.expect("what is removed is there");
        self
    }

    /// From now on reading this file, or listing this directory, fails like this; with none it works again.
    pub fn fails(&self, relative: &str, errno: Option<Errno>) -> &Self {
        faults::set(self.path(relative), errno);
        self
    }

    /// Writes the files of a recorded host: each after a line `==> PATH <==`, as `tail -n +1 FILE…` prints them.
    pub fn recorded(&self, archive: &str) -> &Self {
        let mut open: Option<(&str, String)> = None;
        for line in archive.lines() {
            if let Some(path) = line.strip_prefix("==> ").and_then(|rest| rest.strip_suffix(" <==")) {
                if let Some((path, text)) = open.replace((path, String::new())) {
                    self.write(path, text);
                }
            } else if let Some((_, text)) = &mut open {
                text.push_str(line);
                text.push('\n');
            }
        }
        if let Some((path, text)) = open {
            self.write(path, text);
        }
        self
    }

    /// A zone: its directory's name, its own name, and where its counter stands.
    pub fn zone(&self, directory: &str, name: &str, energy_uj: u64) -> &Self {
        let range = if name == "dram" { DRAM_RANGE } else { PACKAGE_RANGE };
        let place = format!("sys/class/powercap/{directory}");
        self.write(&format!("{place}/name"), format!("{name}\n"));
        self.write(&format!("{place}/max_energy_range_uj"), format!("{range}\n"));
        self.energy(directory, energy_uj)
    }

    /// Moves a zone's counter. Whoever reads meanwhile sees the old number or the new one, as with the kernel's.
    pub fn energy(&self, directory: &str, energy_uj: u64) -> &Self {
        let file = format!("sys/class/powercap/{directory}/energy_uj");
        let text = format!("{energy_uj:012}\n");
        match fs::OpenOptions::new().write(true).open(self.path(&file)) {
            Ok(open) if open.metadata().is_ok_and(|found| found.len() <= text.len() as u64) => {
                open.write_all_at(text.as_bytes(), 0).expect("the tree is writable");
                self
            }
            _ => self.write(&file, text),
        }
    }

    /// Limits of a package in watts: built for, and set.
    pub fn limits(&self, directory: &str, thermal_spec: u64, long_term: u64, short_term: u64) -> &Self {
        let file = |what: &str| format!("sys/class/powercap/{directory}/constraint_{what}");
        let watts = |watts: u64| format!("{}\n", watts * 1_000_000);
        self.write(&file("0_name"), "long_term\n");
        self.write(&file("0_max_power_uw"), watts(thermal_spec));
        self.write(&file("0_power_limit_uw"), watts(long_term));
        self.write(&file("1_name"), "short_term\n");
        self.write(&file("1_power_limit_uw"), watts(short_term));
        self.write(&file("1_max_power_uw"), "0\n")
    }

    /// A server with `sockets` packages of 250 W with their memory, numbered backwards, as the kernel may do.
    pub fn server(&self, sockets: u32) -> &Self {
        self.write("sys/class/powercap/intel-rapl/enabled", "1\n");
        for socket in 0..sockets {
            let index = sockets - 1 - socket;
            self.zone(&format!("intel-rapl:{index}"), &format!("package-{socket}"), 1_000_000_000);
            self.limits(&format!("intel-rapl:{index}"), 250, 250, 300);
            self.zone(&format!("intel-rapl:{index}:0"), "dram", 500_000_000);
        }
        self
    }

    /// Where the counters of a `server` stand after its packages have drawn these watts for so long.
    pub fn drawn(&self, watts: &[u64], since: Duration) -> &Self {
        let micros = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        for (index, watts) in watts.iter().rev().enumerate() {
            let energy = 1_000_000_000u64.saturating_add(watts.saturating_mul(micros)) % PACKAGE_RANGE;
            self.energy(&format!("intel-rapl:{index}"), energy);
        }
        self
    }

    /// `/proc` of a host with some CPUs and interfaces.
    pub fn proc(&self, cpus: u32, interfaces: u32) -> &Self {
        self.stat(cpus, 0);
        let mut meminfo = String::new();
        for (name, kib) in MEMINFO {
            let _ = writeln!(meminfo, "{:<16}{kib:>12} kB", format!("{name}:"));
        }
        meminfo.push_str("HugePages_Total:       8\nHugePages_Free:        2\nHugePages_Surp:        0\n");
        self.write("proc/meminfo", meminfo);
        self.write("proc/loadavg", "1.50 2.25 12.00 3/999 4711\n");
        for resource in ["cpu", "memory", "io"] {
            self.write(
                &format!("proc/pressure/{resource}"),
                "some avg10=1.50 avg60=0.25 avg300=0.10 total=123456789\n\
                 full avg10=0.50 avg60=0.05 avg300=0.01 total=23456789\n",
            );
        }
        self.write("proc/pressure/irq", "full avg10=0.00 avg60=0.00 avg300=0.00 total=4711\n");
        let mut net = String::from(
            "Inter-|   Receive                                                |  Transmit\n\
             \u{20}face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n",
        );
        let _ = writeln!(net, "    lo: 5000 50 0 0 0 0 0 0 5000 50 0 0 0 0 0 0");
        for interface in 0..interfaces {
            let name = if interface < 2 { format!("eth{interface}") } else { format!("veth{interface:06x}") };
            let _ = writeln!(
                net,
                "{name}: 987654321{interface} 7654321 1 2 0 0 0 9 876543210 6543210 3 4 0 0 0 0"
            );
        }
        self.write("proc/1/net/dev", net);
        let disks = "   8       0 sda 100 10 2000 300 400 40 8000 500 1 600 700 5 1 50 6 70 80\n   8       1 sda1 9 9 9 9 9 9 9 9 9 9 9\n 259       0 nvme0n1 1 2 3 4 5 6 7 8 9 10 11\n   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11\n";
        self.write("proc/diskstats", disks)
    }

    /// `/proc/stat` after `seconds` of work, each CPU a quarter busy.
    pub fn stat(&self, cpus: u32, seconds: u64) -> &Self {
        let line = |name: &str, times: u64| {
            let idle = 900_000 + seconds * 75 * times;
            let user = 100_000 + seconds * 20 * times;
            let system = 50_000 + seconds * 5 * times;
            format!("{name} {user} 10 {system} {idle} 3000 0 500 7 9 1\n")
        };
        let mut stat = line("cpu ", u64::from(cpus));
        for cpu in 0..cpus {
            stat.push_str(&line(&format!("cpu{cpu}"), 1));
        }
        stat.push_str("intr 123456789 1 2 3\nctxt 987654321\nbtime 1700000000\nprocesses 4711\nprocs_running 3\nprocs_blocked 1\n");
        self.write("proc/stat", stat)
    }

    /// Temperatures, throttle counts, huge pages, NUMA nodes and memory controllers of a server.
    pub fn sensors(&self, cpus: u32, sockets: u32, numa_nodes: u32) -> &Self {
        for socket in 0..sockets {
            let zone = format!("sys/class/thermal/thermal_zone{socket}");
            self.write(&format!("{zone}/type"), "x86_pkg_temp\n");
            self.write(&format!("{zone}/temp"), "54500\n");
            self.write(&format!("{zone}/trip_point_0_type"), "critical\n");
            self.write(&format!("{zone}/trip_point_0_temp"), "100000\n");
            let chip = format!("sys/class/hwmon/hwmon{socket}");
            self.write(&format!("{chip}/name"), "coretemp\n");
            for core in 0..(cpus / sockets / 2).max(1) {
                self.write(&format!("{chip}/temp{}_input", core + 1), format!("{}\n", 50_000 + core * 100));
                self.write(&format!("{chip}/temp{}_crit", core + 1), "100000\n");
                self.write(&format!("{chip}/temp{}_label", core + 1), format!("Core {core}\n"));
            }
        }
        let meter = format!("sys/class/hwmon/hwmon{sockets}");
        self.write(&format!("{meter}/name"), "power_meter\n");
        self.write(&format!("{meter}/power1_average"), "412000000\n");
        for cpu in 0..cpus {
            let place = format!("sys/devices/system/cpu/cpu{cpu}");
            self.write(
                &format!("{place}/topology/physical_package_id"),
                format!("{}\n", cpu * sockets / cpus),
            );
            self.write(&format!("{place}/topology/core_id"), format!("{}\n", cpu / 2));
            self.write(&format!("{place}/thermal_throttle/core_throttle_count"), "3\n");
            self.write(&format!("{place}/thermal_throttle/package_throttle_count"), "5\n");
        }
        for size in ["2048", "1048576"] {
            self.hugepages(&format!("sys/kernel/mm/hugepages/hugepages-{size}kB"));
        }
        for node in 0..numa_nodes {
            let place = format!("sys/devices/system/node/node{node}");
            self.hugepages(&format!("{place}/hugepages/hugepages-2048kB"));
            let mut meminfo = String::new();
            for (name, kib) in MEMINFO.iter().take(6) {
                let _ = writeln!(meminfo, "Node {node} {name}: {kib} kB");
            }
            self.write(&format!("{place}/meminfo"), meminfo);
            self.write(&format!("{place}/numastat"), "numa_hit 100\nnuma_miss 1\nlocal_node 99\n");
        }
        for controller in 0..sockets {
            let place = format!("sys/devices/system/edac/mc/mc{controller}");
            for (file, count) in [
                ("ce_count", 3),
                ("ue_count", 0),
                ("ce_noinfo_count", 1),
                ("ue_noinfo_count", 0),
                ("csrow0/ce_count", 2),
                ("csrow0/ue_count", 0),
                ("csrow0/ch0_ce_count", 2),
                ("csrow0/ch1_ce_count", 0),
                ("csrow0/ch1_ue_count", 0),
            ] {
                self.write(&format!("{place}/{file}"), format!("{count}\n"));
            }
            let label = format!("mc#{controller}csrow#0channel#0\n");
            self.write(&format!("{place}/csrow0/ch0_dimm_label"), label);
        }
        self
    }

    /// The link to the device that a chip sits on.
    pub fn device(&self, link: &str, device: &str) -> &Self {
        let place = self.path(&format!("sys/devices/platform/{device}"));
        fs::create_dir_all(&place).expect("the tree is writable");
        std::os::unix::fs::symlink(place, self.path(link)).expect("the tree is writable");
        self
    }

    fn hugepages(&self, place: &str) {
        for (file, pages) in [("nr_hugepages", 8), ("free_hugepages", 2), ("surplus_hugepages", 1)] {
            self.write(&format!("{place}/{file}"), format!("{pages}\n"));
        }
    }

    /// A pod under version 2 with the systemd driver, and its log directory.
    pub fn pod_v2(&self, namespace: &str, name: &str, uid: &str) -> &Self {
        self.write("sys/fs/cgroup/cgroup.controllers", "cpu memory io\n");
        let slice = uid.replace('-', "_");
        let place = format!(
            "sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice"
        );
        self.write(
            &format!("{place}/cpu.stat"),
            "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n",
        );
        self.write(&format!("{place}/memory.current"), "104857600\n");
        self.write(&format!("{place}/memory.stat"), "anon 50000000\ninactive_file 4857600\n");
        for resource in ["cpu", "memory", "io"] {
            self.write(
                &format!("{place}/{resource}.pressure"),
                "some avg10=2.00 avg60=1.00 avg300=0.00 total=1500000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
            );
        }
        self.write(&format!("var/log/pods/{namespace}_{name}_{uid}/app/0.log"), "")
    }

    /// A pod under version 1 with the cgroupfs driver.
    pub fn pod_v1(&self, uid: &str) -> &Self {
        let group = format!("kubepods/besteffort/pod{uid}");
        self.write(&format!("sys/fs/cgroup/cpuacct/{group}/cpuacct.usage"), "2500000000\n");
        self.write(&format!("sys/fs/cgroup/memory/{group}/memory.usage_in_bytes"), "104857600\n");
        self.write(
            &format!("sys/fs/cgroup/memory/{group}/memory.stat"),
            "cache 1\ntotal_inactive_file 4857600\n",
        )
    }

    /// The large host of the measurements: two sockets, 128 CPUs, 8 NUMA nodes, 170 interfaces, 110 pods.
    pub fn large(&self) -> &Self {
        self.proc(128, 170).sensors(128, 2, 8).server(2);
        // node_exporter looks at the network of its own process.
        self.write("proc/net/dev", fs::read(self.path("proc/1/net/dev")).expect("just written"));
        for (chip, device) in ["coretemp.0", "coretemp.1", "ACPI000D:00"].into_iter().enumerate() {
            self.device(&format!("sys/class/hwmon/hwmon{chip}/device"), device);
        }
        for pod in 0..110 {
            self.pod_v2("shop", &format!("web-{pod}"), &format!("0f1c9e1a-8a52-4d1e-9a35-{pod:012x}"));
        }
        self
    }
}

const MEMINFO: [(&str, u64); 12] = [
    ("MemTotal", 65_536_000),
    ("MemFree", 10_000_000),
    ("MemAvailable", 32_768_000),
    ("Buffers", 500_000),
    ("Cached", 20_000_000),
    ("Active(anon)", 3_000_000),
    ("SReclaimable", 700_000),
    ("SUnreclaim", 300_000),
    ("Slab", 1_000_000),
    ("SwapTotal", 0),
    ("Dirty", 4_000),
    ("Hugepagesize", 2048),
];
