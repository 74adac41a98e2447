//! One side of a trial: the machines at work, the pods on them, and the scheduler that put them there.

use std::sync::Arc;
use std::time::Duration;

use engine::plan::{Ledger, Observed};
use engine::policy::Policy;
use engine::quantity::Quantity;
use engine::time::Timestamp;
use engine::{
    Batch, Ground, Inputs, Memory, NodeIndex, NodeIx, Placement, Reason, Sample, Verdict, View, advance,
};

use crate::chance::{Chance, Purpose};
use crate::happening::{Happening, What};
use crate::machine::Body;
use crate::placing::{Ask, Candidate};
use crate::scenario::{InFlight, Scenario, Trouble};
use crate::signal::Signals;

mod enforcing;
mod scheduling;

/// How often a sensor is read.
const SCRAPE_S: u32 = 5;
/// How far a sensor is off, at most.
const NOISE_MW: u32 = 400;
/// A verdict that turns again within this time has flapped.
const FLAP_S: u32 = 60;
/// The moment a trial begins.
const START: Timestamp = Timestamp::from_secs(1_700_000_000);

/// Who chooses the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// The default scheduler: the node with the most room by requests.
    ByRequests,
    /// The same, with the policy beside it. Its plan is carried out, and pods leave nodes that `deschedule` has marked.
    WithPolicy,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pods that found a node.
    pub pods_placed: u32,
    /// Pods that had to leave a node for another.
    pub pods_moved: u32,
    /// Answers that turned a node away for a pod.
    pub refusals: u32,
    /// Seconds that nodes spent where the policy does not want them, added up over nodes.
    pub node_seconds_over: u32,
    /// Verdicts that turned again within a minute.
    pub flaps: u32,
}

/// What can be seen of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The newest sample of the policy's first metric.
    pub value: Option<Quantity>,
    /// What the policy makes of the node.
    pub verdict: Verdict,
    /// Why that is not a plain pass.
    pub reason: Option<Reason>,
    /// Whether the sensor spoke when it should have.
    pub fresh: bool,
    /// Whether it carries the label or the taint of `deschedule`.
    pub marked: bool,
    /// Pods on it.
    pub pods: usize,
}

#[derive(Clone, Copy, Debug)]
struct Running {
    pod: usize,
    machine: usize,
    since_s: u32,
    until_s: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    pod: usize,
    retry_at_s: u32,
    pause_s: u32,
}

/// The last verdict on a node that was more than a guess, and since when.
#[derive(Clone, Copy, Debug, Default)]
struct Stand {
    violating: bool,
    unknown: bool,
    turned_at_s: Option<u32>,
}

/// A cluster at a moment.
#[derive(Clone, Debug)]
pub struct Cluster {
    scheduler: Scheduler,
    scenario: Arc<Scenario>,
    signals: Arc<Signals>,
    policy: Arc<Policy>,
    index: Arc<NodeIndex>,
    /// The engine's number of each machine.
    numbers: Vec<NodeIx>,
    view: Arc<View>,
    memory: Memory,
    /// What stands on the nodes by the plans so far.
    observed: Observed,
    ledger: Ledger,
    at_s: u32,
    bodies: Vec<Body>,
    running: Vec<Running>,
    waiting: Vec<Waiting>,
    stands: Vec<Stand>,
    moved_at_s: Vec<Option<u32>>,
    tally: Tally,
    news: Vec<Happening>,
    /// No placement older than this matters to any rule.
    horizon_s: u32,
}

impl Cluster {
    pub(crate) fn new(
        scheduler: Scheduler,
        scenario: &Arc<Scenario>,
        policy: &Arc<Policy>,
        signals: &Arc<Signals>,
    ) -> Self {
        let names = scenario.machines.iter().filter_map(|m| engine::names::NodeName::new(&m.name).ok());
        let index = Arc::new(NodeIndex::new(names));
        let number = |name: &str| index.find(name).expect("a scenario names its machines well");
        Self {
            scheduler,
            numbers: scenario.machines.iter().map(|machine| number(&machine.name)).collect(),
            bodies: scenario.machines.iter().map(|m| Body::at_rest(m, scenario.lag_s)).collect(),
            stands: vec![Stand::default(); scenario.machines.len()],
            moved_at_s: vec![None; scenario.machines.len()],
            scenario: Arc::clone(scenario),
            signals: Arc::clone(signals),
            policy: Arc::clone(policy),
            observed: enforcing::nothing_marked(&index, policy),
            ledger: Ledger::default(),
            index,
            view: Arc::default(),
            memory: Memory::default(),
            at_s: 0,
            running: Vec::new(),
            waiting: Vec::new(),
            tally: Tally::default(),
            news: Vec::new(),
            horizon_s: horizon_s(policy),
        }
    }

    /// What came of it so far.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// What happened in the last second.
    pub fn news(&self) -> &[Happening] {
        &self.news
    }

    /// Pods without a node.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Pods on each machine.
    pub fn pods_per_machine(&self) -> Vec<usize> {
        let mut pods = vec![0; self.bodies.len()];
        for running in &self.running {
            pods[running.machine] += 1;
        }
        pods
    }

    /// Machines that are now where the policy does not want them, as they are and not as sensors say.
    pub fn over(&self) -> usize {
        self.bodies.iter().filter(|body| self.signals.over(body.truth())).count()
    }

    /// What can be seen of each machine.
    pub fn readings(&self) -> Vec<Reading> {
        let now = self.now();
        let main = self.signals.main().and_then(|m| self.view.snapshot.column(m.metric.as_str()));
        let reading = |(machine, pods): (usize, usize)| {
            let sample = main.and_then(|column| column.get(self.numbers[machine]));
            let (verdict, reason) = self.verdict(machine);
            Reading {
                value: sample.map(|sample| sample.value),
                verdict,
                reason,
                fresh: sample.is_some_and(|sample| {
                    now.since(sample.taken) <= Duration::from_secs(u64::from(2 * SCRAPE_S))
                }),
                marked: self.is_marked(machine),
                pods,
            }
        };
        self.pods_per_machine().into_iter().enumerate().map(reading).collect()
    }

    /// How long ago a machine's sensor last spoke.
    pub fn silence(&self, machine: usize) -> Option<Duration> {
        let column = self.view.snapshot.column(self.signals.main()?.metric.as_str())?;
        Some(self.now().since(column.get(*self.numbers.get(machine)?)?.taken))
    }

    fn now(&self) -> Timestamp {
        START.after(Duration::from_secs(u64::from(self.at_s)))
    }

    /// What the policy makes of a machine: of placement if it has a say there, else of staying.
    fn verdict(&self, machine: usize) -> (Verdict, Option<Reason>) {
        let Some(table) = self.view.table(self.policy.name.key()) else { return (Verdict::Pass, None) };
        let (node, now) = (self.numbers[machine], self.now());
        match (&table.placement, &table.deschedule, &self.policy.deschedule) {
            (None, Some(verdicts), Some(deschedule)) => {
                (verdicts.row(node, now).verdict, verdicts.reason(&deschedule.when.rules, node, now))
            }
            _ => (table.placement(node, now), table.placement_reason(node, now)),
        }
    }

    /// Lets one second pass; `at_s` is the second that begins.
    pub(crate) fn pass_second<E>(
        &mut self,
        at_s: u32,
        placing: &mut impl FnMut(&Ask<'_>) -> Result<Vec<Candidate>, E>,
    ) -> Result<(), E> {
        self.at_s = at_s;
        self.news.clear();
        self.running.retain(|running| running.until_s > at_s);
        self.work();
        self.tell_troubles();
        let samples = self.scrape();
        self.advance(samples);
        self.watch_verdicts();
        self.enforce();
        self.move_pods(placing)?;
        self.place_pods(placing)
    }

    fn work(&mut self) {
        let at_s = self.at_s;
        let mut loads: Vec<(i64, i64)> = (0..)
            .zip(&self.scenario.machines)
            .map(|(place, machine)| {
                let idle = i64::from(machine.idle_mw) + self.scenario.heat_mw(place, at_s);
                (idle, idle)
            })
            .collect();
        for running in &self.running {
            let (power, memory) = self.scenario.pods[running.pod].load_mw(at_s - running.since_s);
            loads[running.machine].0 += power;
            loads[running.machine].1 += memory;
        }
        for (body, (power, memory)) in self.bodies.iter_mut().zip(loads) {
            body.pass_second(power, memory);
        }
        self.tally.node_seconds_over += u32::try_from(self.over()).unwrap_or(u32::MAX);
    }

    fn tell_troubles(&mut self) {
        let scenario = Arc::clone(&self.scenario);
        for incident in &scenario.incidents {
            let machine = incident.machine;
            let what = match (incident.trouble, self.at_s) {
                (Trouble::Heat { .. }, s) if s == incident.from_s => What::Heats { machine },
                (Trouble::Heat { .. }, s) if s == incident.to_s => What::Cools { machine },
                (Trouble::SensorDead, s) if s == incident.from_s => What::SensorDies { machine },
                (Trouble::SensorDead, s) if s == incident.to_s => What::SensorSpeaks { machine },
                _ => continue,
            };
            self.tell(what);
        }
    }

    fn tell(&mut self, what: What) {
        self.news.push(Happening { at_s: self.at_s, what });
    }

    /// Reads the sensors whose turn it is; one that has just come back speaks at once.
    fn scrape(&self) -> Vec<Batch> {
        let (at_s, chance) = (self.at_s, Chance(self.scenario.seed));
        let due = |machine: usize| {
            let turn = (u64::from(at_s) + machine as u64).is_multiple_of(u64::from(SCRAPE_S));
            turn || at_s == 0 || !self.scenario.sensor_speaks(machine, at_s - 1)
        };
        let speakers: Vec<usize> = (0..self.bodies.len())
            .filter(|&machine| due(machine) && self.scenario.sensor_speaks(machine, at_s))
            .collect();
        let batch = |(number, signal): (u64, &crate::signal::Signal)| {
            let sample = |&machine: &usize| {
                let noise = chance.between(
                    Purpose::Noise,
                    u64::from(at_s) << 32 | number,
                    machine as u64,
                    (0, 2 * NOISE_MW),
                );
                let noise = i64::from(noise) - i64::from(NOISE_MW);
                let value = signal.value(self.bodies[machine].shown(), noise);
                (self.numbers[machine], Sample::new(value, self.now()))
            };
            Batch { metric: signal.metric.clone(), samples: speakers.iter().map(sample).collect() }
        };
        (0..).zip(self.signals.all()).map(batch).collect()
    }

    fn advance(&mut self, samples: Vec<Batch>) {
        let placed = match self.scenario.in_flight {
            InFlight::Withheld => Vec::new(),
            InFlight::Told => self
                .running
                .iter()
                .filter(|running| self.at_s - running.since_s <= self.horizon_s)
                .map(|running| Placement {
                    node: self.numbers[running.machine],
                    at: START.after(Duration::from_secs(u64::from(running.since_s))),
                })
                .collect(),
        };
        let inputs = Inputs {
            nodes: Arc::clone(&self.index),
            policies: vec![Arc::clone(&self.policy)],
            extra_metrics: Vec::new(),
            samples,
            placed,
        };
        let (view, memory, _) = advance(&self.view, std::mem::take(&mut self.memory), &inputs, self.now());
        (self.view, self.memory) = (Arc::new(view), memory);
    }

    /// Notes verdicts that turned. What is only expected is no turn: it says nothing of the sensor.
    fn watch_verdicts(&mut self) {
        let (now, at_s) = (self.now(), self.at_s);
        let Some(table) = self.view.table(self.policy.name.key()).cloned() else { return };
        let Some(verdicts) = table.placement.as_ref().or(table.deschedule.as_ref()) else { return };
        for machine in 0..self.stands.len() {
            let row = verdicts.row(self.numbers[machine], now);
            let mut stand = self.stands[machine];
            if row.ground == Ground::Expected {
                continue;
            }
            let unknown = row.verdict == Verdict::Unknown;
            if unknown && !stand.unknown {
                let (_, reason) = self.verdict(machine);
                if let Some(reason) = reason {
                    self.tell(What::BecomesUnknown { machine, reason });
                }
            }
            let violating = if unknown { stand.violating } else { row.verdict == Verdict::Violating };
            if !unknown && !violating && (stand.violating || stand.unknown) {
                self.tell(What::PassesAgain { machine });
            }
            if violating != stand.violating {
                if stand.turned_at_s.is_some_and(|turned| at_s - turned <= FLAP_S) {
                    self.tally.flaps += 1;
                }
                stand.turned_at_s = Some(at_s);
            }
            self.stands[machine] = Stand { violating, unknown, ..stand };
        }
    }
}

/// How long after its placement a pod can still be hidden from a sample that counts.
fn horizon_s(policy: &Policy) -> u32 {
    let rules = policy.rules().map(|rule| rule.load.settle.saturating_add(rule.max_age));
    let preferences = policy.scheduleonmetric.iter().map(|p| p.load.settle.saturating_add(p.max_age));
    let longest = rules.chain(preferences).max().unwrap_or_default();
    u32::try_from(longest.as_secs()).unwrap_or(u32::MAX)
}
