//! All collectors together: a tick, and a page with what they read.
//!
//! Each collector sits behind its own lock. Whoever finds a lock taken knows that somebody is stuck in there, and
//! goes on without it; that is the whole trick by which a source that hangs hurts nobody else.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use crate::collectors::Collector;
use crate::family::{Family, NameSet, NameSets};
use crate::host::Buffer;
use crate::moment::{Clock, Moment};
use crate::page::{Format, Page, Value};
use crate::process;
use crate::trouble::Down;

static UP: Family = own(Family::gauge(
    NameSet::Own,
    "node_telemetry_source_up",
    "",
    "1 if the source could be read, 0 otherwise.",
))
.labels("source");
static REASON: Family = own(Family::gauge(
    NameSet::Own,
    "node_telemetry_source_down_info",
    "",
    "Why a source could not be read; always 1.",
))
.labels("source, reason (absent, denied, failed, not_a_file, too_large, garbage, timeout, panicked)");
static AGE: Family = own(Family::gauge(
    NameSet::Own,
    "node_telemetry_sample_age_seconds",
    "seconds",
    "How long ago what is written for the source was measured.",
))
.labels("source");
static TOOK: Family = own(Family::gauge(
    NameSet::Own,
    "node_telemetry_source_read_seconds",
    "seconds",
    "How long the source took to read, this time.",
))
.labels("source")
.peers("node_scrape_collector_duration_seconds");
static SERIES: Family = own(Family::gauge(
    NameSet::Own,
    "node_telemetry_series",
    "series",
    "Series on this page above this line.",
));
static LEFT_OUT: Family = own(Family::counter(
    NameSet::Own,
    "node_telemetry_series_left_out_total",
    "series",
    "Series left out because a page was full.",
));
static BUILD: Family =
    own(Family::gauge(NameSet::Own, "node_telemetry_build_info", "", "The agent's version; always 1."))
        .labels("version")
        .peers("node_exporter_build_info");
static CPU: Family =
    Family::counter(NameSet::Own, "process_cpu_seconds_total", "seconds", "CPU time the agent has used.")
        .source("/proc/self/stat")
        .peers("node_exporter");
static MEMORY: Family = Family::gauge(
    NameSet::Own,
    "process_resident_memory_bytes",
    "bytes",
    "Memory of the agent that is in RAM.",
)
.source("/proc/self/statm")
.peers("node_exporter");

/// The families the agent writes about itself.
pub static FAMILIES: [&Family; 9] = [&UP, &REASON, &AGE, &TOOK, &SERIES, &LEFT_OUT, &BUILD, &CPU, &MEMORY];

const fn own(family: Family) -> Family {
    family.source("the agent")
}

/// How one source did at its last reading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The source's name.
    pub source: &'static str,
    /// Why not, unless it is well.
    pub down: Option<Down>,
    /// How long reading took.
    pub took: Duration,
    /// How old what was written is.
    pub age: Duration,
}

struct Slot {
    source: &'static str,
    collector: Mutex<Box<dyn Collector>>,
}

/// The round under way; whoever is at another one has been given up.
#[derive(Debug, Default)]
struct Round {
    number: u64,
    /// The source that is being read, and since when.
    at: Option<(&'static str, Duration)>,
}

/// What belongs to the page being written.
struct Desk {
    page: Page,
    states: Vec<State>,
}

/// The collectors and the page.
pub struct Instruments {
    slots: Vec<Slot>,
    desk: Arc<Mutex<Desk>>,
    round: Mutex<Round>,
    clock: Clock,
}

/// One who works through the slots; holds what is reused between rounds.
#[derive(Debug, Default)]
pub struct Worker {
    buffer: Buffer,
    own: process::Own,
}

impl Instruments {
    /// Instruments for a node called `instance`.
    pub fn new(collectors: Vec<Box<dyn Collector>>, instance: &str, clock: Clock) -> Self {
        let desk = Desk { page: Page::new(instance), states: Vec::new() };
        Self::at_desk(collectors, Arc::new(Mutex::new(desk)), clock)
    }

    /// The same page with other collectors: counters go on from where they were.
    #[must_use]
    pub fn with(&self, collectors: Vec<Box<dyn Collector>>) -> Self {
        Self::at_desk(collectors, Arc::clone(&self.desk), Arc::clone(&self.clock))
    }

    fn at_desk(collectors: Vec<Box<dyn Collector>>, desk: Arc<Mutex<Desk>>, clock: Clock) -> Self {
        let slot = |collector: Box<dyn Collector>| Slot {
            source: collector.source(),
            collector: Mutex::new(collector),
        };
        let slots = collectors.into_iter().map(slot).collect();
        Self { slots, desk, round: Mutex::default(), clock }
    }

    /// What the clock says.
    pub fn now(&self) -> Moment {
        (self.clock)()
    }

    /// Lets every collector sample what it samples between scrapes.
    pub fn tick(&self, worker: &mut Worker) {
        let round = self.next_round();
        for slot in &self.slots {
            // A lock that is taken or poisoned is dealt with where it can be told: on the page.
            if let Ok(mut collector) = slot.collector.try_lock() {
                let Some(now) = self.start(round, slot.source) else { return };
                collector.tick(now, &mut worker.buffer);
            }
        }
        self.stop(round);
    }

    /// Reads everything and writes the page; none if meanwhile another round began, because this one was given up.
    pub fn page(&self, worker: &mut Worker, format: Format, names: NameSets) -> Option<Vec<u8>> {
        let round = self.next_round();
        let desk = || self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        desk().page.begin(format, names);
        let mut states = Vec::with_capacity(self.slots.len());
        for slot in &self.slots {
            let mut state =
                State { source: slot.source, down: None, took: Duration::ZERO, age: Duration::ZERO };
            match slot.collector.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    state.down = Some(Down::Hangs);
                }
                Err(TryLockError::Poisoned(_)) => {
                    state.down = Some(Down::Panicked);
                }
                Ok(mut collector) => {
                    let began = self.start(round, slot.source)?;
                    let outcome = collector.read(began, &mut worker.buffer);
                    let now = self.now();
                    state.took = now.up.saturating_sub(began.up);
                    state.age =
                        collector.measured_at().map_or(Duration::ZERO, |at| now.up.saturating_sub(at));
                    let mut desk = desk();
                    if !self.is_current(round) {
                        return None;
                    }
                    match outcome {
                        Ok(()) => collector.write(now, &mut desk.page),
                        // What was read before is old now: it is not written.
                        Err(trouble) => {
                            collector.write_down(&trouble, &mut desk.page);
                            state.down = Some(trouble.into());
                        }
                    }
                }
            }
            states.push(state);
        }
        self.stop(round);
        let mut desk = desk();
        if !self.is_current(round) {
            return None;
        }
        write_own(&mut desk.page, &states, worker);
        note_changes(&desk.states, &states);
        desk.states = states;
        Some(desk.page.finish().to_vec())
    }

    /// How the sources did when the last page was written.
    pub fn states(&self) -> Vec<State> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner).states.clone()
    }

    /// What each source found, for `--explain`; a source that hangs has nothing to say.
    pub fn found(&self) -> Vec<(&'static str, String)> {
        let tell =
            |slot: &Slot| (slot.source, slot.collector.try_lock().map(|c| c.found()).unwrap_or_default());
        self.slots.iter().map(tell).collect()
    }

    /// The source somebody has been stuck in for longer than `deadline`.
    pub fn stuck(&self, deadline: Duration) -> Option<&'static str> {
        let (source, since) = self.round().at?;
        (self.now().up > since + deadline).then_some(source)
    }

    /// Gives the round under way up: whoever is at it will find out and stop.
    pub fn give_up(&self) {
        self.next_round();
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        self.round.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_round(&self) -> u64 {
        let mut round = self.round();
        *round = Round { number: round.number + 1, at: None };
        round.number
    }

    fn is_current(&self, number: u64) -> bool {
        self.round().number == number
    }

    /// Notes that a source is being read from now on; none if the round is over.
    fn start(&self, number: u64, source: &'static str) -> Option<Moment> {
        let now = self.now();
        let mut round = self.round();
        (round.number == number).then(|| {
            round.at = Some((source, now.up));
            now
        })
    }

    fn stop(&self, number: u64) {
        let mut round = self.round();
        if round.number == number {
            round.at = None;
        }
    }
}

fn write_own(page: &mut Page, states: &[State], worker: &mut Worker) {
    page.family(&UP);
    for state in states {
        page.sample(&[("source", state.source.as_bytes())], Value::Count(u64::from(state.down.is_none())));
    }
    page.family(&REASON);
    for state in states {
        if let Some(down) = &state.down {
            page.sample(
                &[("source", state.source.as_bytes()), ("reason", down.reason().as_bytes())],
                Value::Count(1),
            );
        }
    }
    let micros =
        |duration: Duration| Value::Fixed(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), 6);
    page.family(&AGE);
    for state in states.iter().filter(|state| state.down.is_none()) {
        page.sample(&[("source", state.source.as_bytes())], micros(state.age));
    }
    page.family(&TOOK);
    for state in states {
        page.sample(&[("source", state.source.as_bytes())], micros(state.took));
    }
    page.family(&BUILD);
    page.sample(&[("version", env!("CARGO_PKG_VERSION").as_bytes())], Value::Count(1));
    page.family(&CPU);
    if let Some(ticks) = worker.own.cpu_hundredths(&mut worker.buffer) {
        page.sample(&[], Value::Fixed(ticks, 2));
    }
    page.family(&MEMORY);
    if let Some(bytes) = worker.own.resident_bytes(&mut worker.buffer) {
        page.sample(&[], Value::Count(bytes));
    }
    page.family(&LEFT_OUT);
    page.sample(&[], Value::Count(page.left_out()));
    page.family(&SERIES);
    page.sample(&[], Value::Count(page.series() as u64));
}

/// One line when a source goes or comes back, none while it stays as it is.
fn note_changes(before: &[State], now: &[State]) {
    for state in now {
        let old = before.iter().find(|old| old.source == state.source);
        let old = old.map(|old| old.down.as_ref().map(Down::reason));
        let new = state.down.as_ref().map(Down::reason);
        let source = state.source;
        match (&state.down, old) {
            (_, Some(old)) if old == new => {}
            (None, Some(_)) => tracing::info!(source, "source is back"),
            (None, None) => tracing::debug!(source, "source is read"),
            (Some(Down::Trouble(trouble)), _) if trouble.is_absent() => {
                tracing::info!(source, detail = %trouble, "source is not there");
            }
            (Some(down), _) => {
                tracing::warn!(source, reason = down.reason(), detail = %down, "source cannot be read");
            }
        }
    }
}
