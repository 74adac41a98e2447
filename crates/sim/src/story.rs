//! The demo's story: machines of two generations, pods whose requests say little about what they draw, and
//! in every chapter one machine that heats up, loses its sensor, and recovers.

use std::time::Duration;

use engine::policy::Policy;

use crate::chance::{Chance, Purpose};
use crate::machine::Machine;
use crate::scenario::{InFlight, Incident, Pod, Scenario, Trouble};

/// Most machines a story may have.
pub const MAX_NODES: u32 = 500;

const LAG_S: u32 = 8;
/// When the machine of a chapter heats up, from the chapter's start.
const HEATS_AT_S: u32 = 30;
/// How long after that its sensor dies.
const SENSOR_LASTS_S: u32 = 30;
/// How long nobody can judge the node before the sensor is mended.
const UNKNOWN_S: u32 = 23;
/// How long before that the heat begins to go.
const COOLS_BEFORE_S: u32 = 12;
/// From the mended sensor to the end of a chapter.
const RECOVERY_S: u32 = 36;
/// Samples are taken to expire within this, however patient the policy: a demo is short.
const PATIENCE: Duration = Duration::from_mins(5);
/// The machine that heats up is one of the first few, so that it is always on the screen.
const ON_STAGE: usize = 6;
/// One machine in so many is of the old, hungry generation.
const OLD_EVERY: u32 = 4;
/// What machines of either generation draw without pods.
const OLD_IDLE_MW: (u32, u32) = (23_500, 25_000);
const NEW_IDLE_MW: (u32, u32) = (9_500, 13_000);

/// How long one chapter takes under a policy: as long as it takes its samples to expire, and a while more.
pub fn chapter_s(policy: &Policy) -> u32 {
    HEATS_AT_S + SENSOR_LASTS_S + silence_s(policy) + RECOVERY_S
}

fn silence_s(policy: &Policy) -> u32 {
    let ages = policy.rules().map(|rule| rule.max_age);
    let ages = ages.chain(policy.scheduleonmetric.iter().map(|preference| preference.max_age));
    let age = ages.max().unwrap_or_default().min(PATIENCE);
    u32::try_from(age.as_secs()).unwrap_or(u32::MAX) + 1 + UNKNOWN_S
}

impl Scenario {
    /// The story for a seed, a policy, so many nodes and so many seconds.
    pub fn story(seed: u64, policy: &Policy, nodes: u32, length_s: u32) -> Self {
        let nodes = nodes.clamp(1, MAX_NODES);
        let chance = Chance(seed);
        let old = old_machines(chance, nodes);
        let machines: Vec<Machine> =
            (0..nodes).map(|place| machine(chance, place, nodes, old.contains(&place))).collect();
        let incidents = incidents(chance, policy, length_s, &machines);
        let pods = pods(chance, nodes, length_s);
        Self { seed, length_s, lag_s: LAG_S, in_flight: InFlight::Told, machines, pods, incidents }
    }
}

/// Which machines are of the old generation: a quarter, drawn.
fn old_machines(chance: Chance, nodes: u32) -> Vec<u32> {
    let mut places: Vec<u32> = (0..nodes).collect();
    places.sort_by_key(|&place| chance.draw(Purpose::Rank, u64::from(place), 0));
    places.truncate((nodes / OLD_EVERY) as usize);
    places
}

fn machine(chance: Chance, place: u32, nodes: u32, old: bool) -> Machine {
    let idle_mw =
        chance.between(Purpose::Idle, u64::from(place), 0, if old { OLD_IDLE_MW } else { NEW_IDLE_MW });
    let width = nodes.to_string().len();
    Machine { name: format!("node-{:0width$}", place + 1), idle_mw, cpu_m: 8_000, memory_mi: 32_768 }
}

fn incidents(chance: Chance, policy: &Policy, length_s: u32, machines: &[Machine]) -> Vec<Incident> {
    // An old machine is near its line anyway; the story is about one that was fine.
    let fine = |place: &usize| machines[*place].idle_mw < OLD_IDLE_MW.0;
    let stage: Vec<usize> = (0..machines.len().min(ON_STAGE)).filter(fine).collect();
    let mut incidents = Vec::new();
    let mut start_s = 0;
    while start_s < length_s && !stage.is_empty() {
        let drawn = chance.draw(Purpose::Trouble, u64::from(start_s), 0) % stage.len() as u64;
        let machine = stage[usize::try_from(drawn).unwrap_or_default()];
        // Without pods it just stays below its line: moving them helps.
        let alone_mw = chance.between(Purpose::Trouble, u64::from(start_s), 1, (26_000, 27_500));
        let extra_mw = alone_mw.saturating_sub(machines[machine].idle_mw);
        let heats_s = start_s + HEATS_AT_S;
        let dies_s = heats_s + SENSOR_LASTS_S;
        let mended_s = dies_s + silence_s(policy);
        let heat = Trouble::Heat { extra_mw };
        incidents.push(Incident { machine, from_s: heats_s, to_s: mended_s - COOLS_BEFORE_S, trouble: heat });
        incidents.push(Incident { machine, from_s: dies_s, to_s: mended_s, trouble: Trouble::SensorDead });
        start_s += chapter_s(policy);
    }
    incidents
}

/// Pods come all the time, about five a second for every hundred machines, and twice as fast at first.
fn pods(chance: Chance, nodes: u32, length_s: u32) -> Vec<Pod> {
    const PER_NODE_AND_SECOND: u32 = 40;
    const FILLING_S: u32 = 24;
    let mut pods = Vec::new();
    let mut due_thousandths = 0;
    for second in 0..length_s {
        let rate = if second < FILLING_S { 2 * PER_NODE_AND_SECOND } else { PER_NODE_AND_SECOND };
        due_thousandths += chance.between(Purpose::Arrival, u64::from(second), 0, (0, 2 * nodes * rate));
        while due_thousandths >= 1000 {
            due_thousandths -= 1000;
            pods.push(pod(chance, pods.len() as u64, second));
        }
    }
    pods
}

fn pod(chance: Chance, number: u64, arrives_s: u32) -> Pod {
    let draw = |purpose, range| chance.between(purpose, number, 0, range);
    Pod {
        arrives_s,
        runs_s: draw(Purpose::Lifetime, (40, 100)),
        draw_mw: draw(Purpose::Draw, (1_200, 4_000)),
        memory_mw: draw(Purpose::Memory, (1_200, 4_000)),
        cpu_request_m: 250 * draw(Purpose::Request, (1, 3)),
        memory_request_mi: 512,
    }
}
