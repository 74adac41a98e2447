//! Pressure stall information of the node from `/proc/pressure`.

use std::time::Duration;

use crate::collectors::Collector;
use crate::collectors::listing::RELIST_EVERY;
use crate::family::{Family, NameSet};
use crate::host::{Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/proc/pressure/{cpu,memory,io,irq}";
const RESOURCES: [&str; 4] = ["cpu", "memory", "io", "irq"];
const IRQ: usize = 3;

const fn node(name: &'static str, help: &'static str) -> Family {
    Family::counter(NameSet::Node, name, "seconds", help).source(SOURCE).peers("node_exporter pressure")
}

static CPU_WAITING: Family =
    node("node_pressure_cpu_waiting_seconds_total", "Time with any task waiting for a CPU.");
static MEMORY_WAITING: Family =
    node("node_pressure_memory_waiting_seconds_total", "Time with any task waiting for memory.");
static MEMORY_STALLED: Family =
    node("node_pressure_memory_stalled_seconds_total", "Time with all tasks waiting for memory.");
static IO_WAITING: Family =
    node("node_pressure_io_waiting_seconds_total", "Time with any task waiting for I/O.");
static IO_STALLED: Family =
    node("node_pressure_io_stalled_seconds_total", "Time with all tasks waiting for I/O.");
static IRQ_STALLED: Family =
    node("node_pressure_irq_stalled_seconds_total", "Time with all tasks held up by interrupts.");
static RATIO: Family = Family::gauge(
    NameSet::Tas,
    "node_pressure_ratio",
    "ratio",
    "Share of time with some or all tasks waiting for the resource, mean over the window.",
)
.labels("resource, kind (some, full), window (10s, 60s)")
.source(SOURCE);
static FAMILIES: [&Family; 7] =
    [&CPU_WAITING, &MEMORY_WAITING, &MEMORY_STALLED, &IO_WAITING, &IO_STALLED, &IRQ_STALLED, &RATIO];

/// One line: means in 1/100 percent over 10 s and 60 s, and the total in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Mean over 10 seconds, in hundredths of a percent.
    pub avg10: u64,
    /// Mean over a minute, in hundredths of a percent.
    pub avg60: u64,
    /// Since boot, in microseconds.
    pub total: u64,
}

/// What a pressure file says; `some` comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// At least one task waited.
    pub some: Option<Stall>,
    /// All tasks waited.
    pub full: Option<Stall>,
}

/// Reads a pressure file.
pub fn parse(text: &[u8]) -> Stalls {
    let mut stalls = Stalls::default();
    for line in scan::lines(text) {
        let mut fields = scan::fields(line);
        match fields.next() {
            Some(b"some") => stalls.some = parse_stall(fields),
            Some(b"full") => stalls.full = parse_stall(fields),
            _ => {}
        }
    }
    stalls
}

fn parse_stall<'a>(fields: impl Iterator<Item = &'a [u8]>) -> Option<Stall> {
    let (mut avg10, mut avg60, mut total) = (None, None, None);
    for field in fields {
        if let Some(value) = field.strip_prefix(b"avg10=") {
            avg10 = scan::fixed(value, 2);
        } else if let Some(value) = field.strip_prefix(b"avg60=") {
            avg60 = scan::fixed(value, 2);
        } else if let Some(value) = field.strip_prefix(b"total=") {
            total = scan::number(value);
        }
    }
    Some(Stall { avg10: avg10?, avg60: avg60?, total: total? })
}

/// The collector.
pub struct Pressure {
    probes: [Probe; 4],
    stalls: [Stalls; 4],
    /// Kernels before 6.1 and some others have no `irq`; until then it is not looked for again.
    no_irq_until: Duration,
}

impl Pressure {
    /// Pressure on this host.
    pub fn new(host: &Host) -> Self {
        let probe = |resource| host.attribute(host.path(&format!("proc/pressure/{resource}")));
        Self { probes: RESOURCES.map(probe), stalls: Default::default(), no_irq_until: Duration::ZERO }
    }
}

impl Collector for Pressure {
    fn source(&self) -> &'static str {
        "pressure"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        let mut trouble = None;
        for (at, (probe, stalls)) in self.probes.iter_mut().zip(&mut self.stalls).enumerate() {
            *stalls = Stalls::default();
            if at == IRQ && now.up < self.no_irq_until {
                continue;
            }
            match probe.read(buffer) {
                Ok(text) => *stalls = parse(text),
                Err(this) => {
                    if at == IRQ && this.is_absent() {
                        self.no_irq_until = now.up + RELIST_EVERY;
                    }
                    // The first resource speaks for the source.
                    trouble.get_or_insert(this);
                }
            }
        }
        let nothing = self.stalls.iter().all(|stalls| *stalls == Stalls::default());
        match trouble {
            Some(trouble) if nothing => Err(trouble),
            None if nothing => {
                Err(Trouble::Garbage { path: self.probes[0].path().to_owned(), expected: "pressure" })
            }
            _ => Ok(()),
        }
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        let [cpu, memory, io, irq] = &self.stalls;
        let totals = [
            (&CPU_WAITING, cpu.some),
            (&MEMORY_WAITING, memory.some),
            (&MEMORY_STALLED, memory.full),
            (&IO_WAITING, io.some),
            (&IO_STALLED, io.full),
            (&IRQ_STALLED, irq.full),
        ];
        for (family, stall) in totals {
            page.family(family);
            if let Some(stall) = stall {
                page.sample(&[], Value::Fixed(stall.total, 6));
            }
        }
        page.family(&RATIO);
        for (resource, stalls) in RESOURCES.iter().zip(&self.stalls) {
            for (kind, stall) in [("some", stalls.some), ("full", stalls.full)] {
                let Some(stall) = stall else { continue };
                for (window, mean) in [("10s", stall.avg10), ("60s", stall.avg60)] {
                    let labels: [(&str, &[u8]); 3] = [
                        ("resource", resource.as_bytes()),
                        ("kind", kind.as_bytes()),
                        ("window", window.as_bytes()),
                    ];
                    page.sample(&labels, Value::Fixed(mean, 4));
                }
            }
        }
    }

    fn found(&self) -> String {
        let there = RESOURCES.iter().zip(&self.stalls).filter(|(_, s)| **s != Stalls::default());
        let names: Vec<&str> = there.map(|(name, _)| *name).collect();
        format!("pressure of {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_real_file() {
        let stalls = parse(
            b"some avg10=1.50 avg60=0.26 avg300=0.70 total=8662782\nfull avg10=0.00 avg60=100.00 avg300=0.66 total=7\n",
        );
        let expected = Stalls {
            some: Some(Stall { avg10: 150, avg60: 26, total: 8_662_782 }),
            full: Some(Stall { avg10: 0, avg60: 10_000, total: 7 }),
        };
        assert_eq!(stalls, expected);
        assert_eq!(parse(b"some avg10=1.50\n"), Stalls::default());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }

        #[test]
        fn any_stall_reads_back(avg10 in 0u64..10_001, avg60 in 0u64..10_001, total: u64) {
            let cents = |n: u64| format!("{}.{:02}", n / 100, n % 100);
            let text = format!("full avg10={} avg60={} avg300=0.00 total={total}\n", cents(avg10), cents(avg60));
            prop_assert_eq!(parse(text.as_bytes()).full, Some(Stall { avg10, avg60, total }));
        }
    }
}
