//! What the extender costs beside a server of the same stack that does nothing: CPU per call, latency.
//!
//! Both run as processes of their own and take turns in one run, so that noise meets both alike.

mod allocations;
mod bodies;
pub(crate) mod caller;
mod servers;

use std::io;
use std::time::Duration;

use crate::cpu;
use bodies::Call;
use servers::{Kind, Process};

pub(crate) use servers::serve;

const ROUNDS: usize = 7;

/// The rows of the table: what is sent, how many times per round.
const ROWS: [(Call, usize); 8] = [
    (Call::FilterNames(100), 400),
    (Call::FilterNames(1_000), 300),
    (Call::FilterNames(5_000), 100),
    (Call::PrioritizeNames(100), 400),
    (Call::PrioritizeNames(1_000), 300),
    (Call::PrioritizeNames(5_000), 100),
    (Call::FilterNodes(100), 40),
    (Call::FilterNodes(1_000), 10),
];

/// One way of asking.
#[derive(Clone, Copy, Debug)]
struct Manner {
    connections: usize,
    tls: bool,
}

const MANNERS: [Manner; 4] = [
    Manner { connections: 1, tls: false },
    Manner { connections: 8, tls: false },
    Manner { connections: 1, tls: true },
    Manner { connections: 8, tls: true },
];

/// What one round of one server measured.
struct Measured {
    cpu: Duration,
    p50: Duration,
    p99: Duration,
}

pub(crate) fn run() -> io::Result<()> {
    println!("extender beside a do-nothing server of the same stack, {ROUNDS} alternating rounds each");
    println!("CPU is per call; ratio is ours / do-nothing, median (least to most)\n");
    println!(
        "{:<26} {:>5} {:>5} {:>10} {:>10} {:>22} {:>10} {:>10}",
        "call", "conns", "tls", "CPU ours", "nothing", "CPU ratio", "p50 ours", "p99 ours"
    );
    for manner in MANNERS {
        let ours = Process::start(Kind::Ours, manner.tls)?;
        let nothing = Process::start(Kind::Nothing, manner.tls)?;
        for (call, count) in ROWS {
            row(&ours, &nothing, call, count, manner)?;
        }
        both(&ours, &nothing, manner)?;
    }
    allocations::print();
    Ok(())
}

/// One row: the same call to both, in turns.
fn row(ours: &Process, nothing: &Process, call: Call, count: usize, manner: Manner) -> io::Result<Summary> {
    let request = call.request();
    let answer_bytes = caller::answer_length(&ours.target, &request)?;
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let one = round(ours, &request, answer_bytes, count, manner)?;
        let other = round(nothing, &request, answer_bytes, count, manner)?;
        rounds.push((one, other));
    }
    let summary = Summary::of(&rounds);
    summary.print(&call.to_string(), manner);
    Ok(summary)
}

/// The budget's own row: filter and prioritize together.
fn both(ours: &Process, nothing: &Process, manner: Manner) -> io::Result<()> {
    for names in [1_000, 5_000] {
        let filter = row(ours, nothing, Call::FilterNames(names), 100, manner)?;
        let prioritize = row(ours, nothing, Call::PrioritizeNames(names), 100, manner)?;
        let ratio = (filter.ours + prioritize.ours).as_secs_f64()
            / (filter.nothing + prioritize.nothing).as_secs_f64();
        let budget = if names == 1_000 { 2 } else { 3 };
        println!("  filter + prioritize at {names} names: {ratio:.2} of do-nothing (budget {budget})");
    }
    Ok(())
}

fn round(to: &Process, request: &[u8], answer: usize, count: usize, manner: Manner) -> io::Result<Measured> {
    let before = cpu::used_by(to.id());
    let mut took = caller::ask(&to.target, request, answer, count, manner.connections)?;
    let spent = cpu::used_by(to.id()).saturating_sub(before);
    took.sort_unstable();
    let calls = u32::try_from(took.len()).unwrap_or(u32::MAX).max(1);
    let at =
        |percent: usize| took.get(took.len() * percent / 100).or(took.last()).copied().unwrap_or_default();
    Ok(Measured { cpu: spent / calls, p50: at(50), p99: at(99) })
}

/// Medians over the rounds.
struct Summary {
    ours: Duration,
    nothing: Duration,
    ratio: [f64; 3],
    p50: Duration,
    p99: Duration,
}

impl Summary {
    fn of(rounds: &[(Measured, Measured)]) -> Self {
        let mut ratios: Vec<f64> =
            rounds.iter().map(|(a, b)| a.cpu.as_secs_f64() / b.cpu.as_secs_f64()).collect();
        ratios.sort_by(f64::total_cmp);
        let median = |of: &dyn Fn(&(Measured, Measured)) -> Duration| {
            let mut all: Vec<Duration> = rounds.iter().map(of).collect();
            all.sort_unstable();
            all[all.len() / 2]
        };
        Self {
            ours: median(&|round| round.0.cpu),
            nothing: median(&|round| round.1.cpu),
            ratio: [ratios[ratios.len() / 2], ratios[0], ratios[ratios.len() - 1]],
            p50: median(&|round| round.0.p50),
            p99: median(&|round| round.0.p99),
        }
    }

    fn print(&self, call: &str, manner: Manner) {
        let [median, least, most] = self.ratio;
        let us = |duration: Duration| format!("{} us", duration.as_micros());
        println!(
            "{call:<26} {:>5} {:>5} {:>10} {:>10} {:>22} {:>10} {:>10}",
            manner.connections,
            if manner.tls { "yes" } else { "no" },
            us(self.ours),
            us(self.nothing),
            format!("{median:.2} ({least:.2} to {most:.2})"),
            us(self.p50),
            us(self.p99)
        );
    }
}
