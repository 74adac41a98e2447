//! CPU time and process counts from `/proc/stat`, and how busy the node was lately.

use std::time::Duration;

use crate::collectors::Collector;
use crate::family::{Family, NameSet};
use crate::host::{Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::scan;
use crate::trouble::Trouble;
use crate::window::Window;

const SOURCE: &str = "/proc/stat";
/// How often the node's total is sampled for the ratio.
const SAMPLE_EVERY: Duration = Duration::from_secs(5);
const WINDOW: Duration = Duration::from_mins(1);
/// CPUs looked at.
const MAX_CPUS: usize = 8192;

static SECONDS: Family =
    Family::counter(NameSet::Node, "node_cpu_seconds_total", "seconds", "CPU time by mode.")
        .labels("cpu, mode")
        .source(SOURCE)
        .peers("node_exporter cpu");
static GUEST: Family = Family::counter(
    NameSet::Node,
    "node_cpu_guest_seconds_total",
    "seconds",
    "CPU time spent in guests; it is part of user and nice time too.",
)
.labels("cpu, mode")
.source(SOURCE)
.peers("node_exporter cpu");
static INTERRUPTS: Family = stat(Family::counter(NameSet::Node, "node_intr_total", "", "Interrupts served."));
static SWITCHES: Family =
    stat(Family::counter(NameSet::Node, "node_context_switches_total", "", "Context switches."));
static FORKS: Family = stat(Family::counter(NameSet::Node, "node_forks_total", "", "Processes created."));
static BOOTED: Family = stat(Family::gauge(
    NameSet::Node,
    "node_boot_time_seconds",
    "seconds",
    "When the node booted, in seconds since 1970.",
));
static RUNNING: Family = stat(Family::gauge(NameSet::Node, "node_procs_running", "", "Tasks that can run."));
static BLOCKED: Family =
    stat(Family::gauge(NameSet::Node, "node_procs_blocked", "", "Tasks waiting for I/O to complete."));
static COLLECTD: Family = Family::counter(
    NameSet::Collectd,
    "collectd_cpu_total",
    "jiffies (1/100 s)",
    "write_prometheus plugin: 'cpu' Type: 'cpu', Dstype: 'derive', Dsname: 'value'",
)
.labels("cpu, type, instance")
.source(SOURCE)
.peers("collectd cpu");
static BUSY: Family = Family::gauge(
    NameSet::Tas,
    "node_cpu_utilization_ratio",
    "ratio",
    "Share of all CPU time that was neither idle nor waiting for I/O, mean over the last minute.",
)
.source(SOURCE)
.peers("rate() over node_cpu_seconds_total");
static FAMILIES: [&Family; 10] =
    [&SECONDS, &GUEST, &INTERRUPTS, &SWITCHES, &FORKS, &BOOTED, &RUNNING, &BLOCKED, &COLLECTD, &BUSY];

const fn stat(family: Family) -> Family {
    family.source(SOURCE).peers("node_exporter stat")
}

/// The columns of a `cpu` line, under node_exporter's and collectd's names.
const MODES: [(&str, &str); 8] = [
    ("user", "user"),
    ("nice", "nice"),
    ("system", "system"),
    ("idle", "idle"),
    ("iowait", "wait"),
    ("irq", "interrupt"),
    ("softirq", "softirq"),
    ("steal", "steal"),
];
const GUEST_MODES: [&str; 2] = ["user", "nice"];
const IDLE: usize = 3;
const IOWAIT: usize = 4;

/// Times of one CPU in 1/100 s, columns as in the file.
pub type Times = [u64; 10];

/// What `/proc/stat` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// The sum over all CPUs.
    pub total: Option<Times>,
    /// Each CPU by its number.
    pub cpus: Vec<(u32, Times)>,
    /// `intr`, `ctxt`, `processes`, `btime`, `procs_running`, `procs_blocked`.
    pub counts: [Option<u64>; 6],
}

const COUNTS: [&[u8]; 6] = [b"intr", b"ctxt", b"processes", b"btime", b"procs_running", b"procs_blocked"];

impl Stat {
    /// Reads `/proc/stat` over what was there before.
    pub fn parse(&mut self, text: &[u8]) {
        self.cpus.clear();
        self.total = None;
        self.counts = [None; 6];
        for line in scan::lines(text) {
            let mut fields = scan::fields(line);
            let Some(key) = fields.next() else { continue };
            if let Some(number) = key.strip_prefix(b"cpu") {
                let times = times(fields);
                if number.is_empty() {
                    self.total = times;
                } else if let (Some(number), Some(times)) = (scan::number(number), times)
                    && let Ok(number) = u32::try_from(number)
                    && self.cpus.len() < MAX_CPUS
                {
                    self.cpus.push((number, times));
                }
            } else if let Some(at) = COUNTS.iter().position(|&name| name == key) {
                self.counts[at] = fields.next().and_then(scan::number);
            }
        }
    }
}

/// Kernels before 2.6.33 write fewer columns; those that are missing are zero.
fn times<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Option<Times> {
    let mut times = [0; 10];
    let mut read = 0;
    for (slot, field) in times.iter_mut().zip(fields) {
        *slot = scan::number(field)?;
        read += 1;
    }
    (read >= 4).then_some(times)
}

/// Busy and total time. Guest time is part of user time, so the last two columns do not count.
fn busy(times: &Times) -> (u64, u64) {
    let total: u64 = times[..8].iter().fold(0, |sum, &t| sum.saturating_add(t));
    (total - times[IDLE].saturating_add(times[IOWAIT]).min(total), total)
}

/// The collector.
pub struct Cpu {
    probe: Probe,
    stat: Stat,
    sampled: Option<(Duration, u64, u64)>,
    // Busy time per total time: the total takes the place of the clock, so a late tick does no harm.
    window: Window,
    last_tick: Duration,
}

impl Cpu {
    /// CPUs of this host.
    pub fn new(host: &Host) -> Self {
        Self {
            probe: host.table(host.path(SOURCE)),
            stat: Stat::default(),
            sampled: None,
            window: Window::new(WINDOW),
            last_tick: Duration::ZERO,
        }
    }
}

impl Collector for Cpu {
    fn source(&self) -> &'static str {
        "cpu"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn tick(&mut self, now: Moment, buffer: &mut Buffer) {
        let settled = self.window.sum(now.up, WINDOW).is_some();
        if self.sampled.is_some_and(|(then, ..)| settled && now.up < then + SAMPLE_EVERY) {
            return;
        }
        if self.read(now, buffer).is_err() {
            return;
        }
        let Some((busy, total)) = self.stat.total.as_ref().map(busy) else { return };
        if let Some((_, busy_before, total_before)) = self.sampled
            && let Some(passed) = total.checked_sub(total_before)
        {
            let busy = busy.saturating_sub(busy_before).min(passed);
            self.window.push(now.up, Duration::from_millis(passed.saturating_mul(10)), busy);
        }
        self.sampled = Some((now.up, busy, total));
        self.last_tick = now.up;
    }

    fn read(&mut self, _now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.stat.parse(self.probe.read(buffer)?);
        if self.stat == Stat::default() {
            return Err(Trouble::Garbage { path: self.probe.path().to_owned(), expected: "CPU times" });
        }
        Ok(())
    }

    fn write(&self, now: Moment, page: &mut Page) {
        if page.family(&SECONDS) {
            for (cpu, times) in &self.stat.cpus {
                let cpu = Digits::of(u64::from(*cpu));
                for ((mode, _), time) in MODES.iter().zip(times) {
                    page.sample(
                        &[("cpu", cpu.as_bytes()), ("mode", mode.as_bytes())],
                        Value::Fixed(*time, 2),
                    );
                }
            }
        }
        if page.family(&GUEST) {
            for (cpu, times) in &self.stat.cpus {
                let cpu = Digits::of(u64::from(*cpu));
                for (mode, time) in GUEST_MODES.iter().zip(&times[8..]) {
                    page.sample(
                        &[("cpu", cpu.as_bytes()), ("mode", mode.as_bytes())],
                        Value::Fixed(*time, 2),
                    );
                }
            }
        }
        let counts = [&INTERRUPTS, &SWITCHES, &FORKS, &BOOTED, &RUNNING, &BLOCKED];
        for (family, count) in counts.into_iter().zip(self.stat.counts) {
            page.family(family);
            if let Some(count) = count {
                page.sample(&[], Value::Count(count));
            }
        }
        if page.family(&COLLECTD) {
            for (cpu, times) in &self.stat.cpus {
                let cpu = Digits::of(u64::from(*cpu));
                for ((_, mode), time) in MODES.iter().zip(times) {
                    page.sample(&[("cpu", cpu.as_bytes()), ("type", mode.as_bytes())], Value::Count(*time));
                }
            }
        }
        if let Some((busy, passed)) = self.window.sum(now.up, WINDOW) {
            page.family(&BUSY);
            let ratio = u128::from(busy) * 100_000 / (passed.as_millis() / 10).max(1);
            page.sample(&[], Value::Fixed(u64::try_from(ratio).unwrap_or(u64::MAX).div_ceil(10), 4));
        }
    }

    fn found(&self) -> String {
        format!("{} CPUs", self.stat.cpus.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_real_file() {
        let mut stat = Stat::default();
        stat.parse(
            b"cpu  10 20 30 40 50 60 70 80 90 100\ncpu0 1 2 3 4 5 6 7 8 9 10\ncpu12 1 2 3 4\nintr 500 1 2 3\n\
              ctxt 7\nbtime 1700000000\nprocesses 9\nprocs_running 2\nprocs_blocked 1\nsoftirq 1 2\n",
        );
        let expected = Stat {
            total: Some([10, 20, 30, 40, 50, 60, 70, 80, 90, 100]),
            cpus: vec![(0, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), (12, [1, 2, 3, 4, 0, 0, 0, 0, 0, 0])],
            counts: [Some(500), Some(7), Some(9), Some(1_700_000_000), Some(2), Some(1)],
        };
        assert_eq!(stat, expected);
        assert_eq!(busy(&[10, 0, 10, 70, 10, 0, 0, 0, 99, 99]), (20, 100));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>, times: Times) {
            Stat::default().parse(&text);
            let (busy, total) = busy(&times);
            prop_assert!(busy <= total);
        }

        #[test]
        fn any_cpu_line_reads_back(cpu: u32, times: Times) {
            let line = times.iter().fold(format!("cpu{cpu}"), |line, t| format!("{line} {t}"));
            let mut stat = Stat::default();
            stat.parse(line.as_bytes());
            prop_assert_eq!(stat.cpus, vec![(cpu, times)]);
        }
    }
}
