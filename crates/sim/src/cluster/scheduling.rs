//! The scheduler of a side: pods that arrive, pods that wait, pods that must leave.

use std::sync::Arc;

use engine::Reason;

use super::{Cluster, Running, Scheduler, Waiting};
use crate::chance::{Chance, Purpose};
use crate::happening::{Decision, What};
use crate::placing::{Ask, Candidate, Room, total};
use crate::scenario::Pod;

/// How long after a move the next pod may leave the same node.
const MOVE_PAUSE_S: u32 = 3;
/// How long an unplaced pod waits at most before it is tried again; it starts with a second and doubles.
const MAX_RETRY_S: u32 = 10;

/// Where a pod goes, and which machines were refused.
struct Choice {
    to: Option<usize>,
    refused: Vec<(usize, Option<Reason>)>,
}

impl Cluster {
    /// Moves one pod off each node that `deschedule` has marked, if another node takes it: what the stock descheduler
    /// does with pods that flee the mark.
    pub(super) fn move_pods<E>(
        &mut self,
        placing: &mut impl FnMut(&Ask<'_>) -> Result<Vec<Candidate>, E>,
    ) -> Result<(), E> {
        let policy = Arc::clone(&self.policy);
        let Some(deschedule) = &policy.deschedule else { return Ok(()) };
        for machine in 0..self.bodies.len() {
            let rested = |moved: u32| self.at_s - moved >= MOVE_PAUSE_S;
            if !self.is_marked(machine) || !self.moved_at_s[machine].is_none_or(rested) {
                continue;
            }
            let (node, now) = (self.numbers[machine], self.now());
            // The newest has the least to lose.
            let newest = (0..self.running.len())
                .filter(|&i| self.running[i].machine == machine)
                .max_by_key(|&i| (self.running[i].since_s, self.running[i].pod));
            let Some(leaving) = newest else { continue };
            let pod = self.running[leaving].pod;
            let Some(to) = self.choose(pod, Some(machine), placing)?.to else { continue };
            let verdicts = self.view.table(policy.name.key()).and_then(|table| table.deschedule.as_ref());
            let reason = verdicts.and_then(|verdicts| verdicts.reason(&deschedule.when.rules, node, now));
            self.running[leaving].machine = to;
            self.running[leaving].since_s = self.at_s;
            self.moved_at_s[machine] = Some(self.at_s);
            self.tally.pods_moved += 1;
            self.tell(What::Moved { pod, from: machine, to, reason });
            self.advance(Vec::new());
        }
        Ok(())
    }

    /// Places the pods that arrive now, and those whose time to try again has come.
    pub(super) fn place_pods<E>(
        &mut self,
        placing: &mut impl FnMut(&Ask<'_>) -> Result<Vec<Candidate>, E>,
    ) -> Result<(), E> {
        let at_s = self.at_s;
        let arrived = self.scenario.pods.partition_point(|pod| pod.arrives_s < at_s);
        let arriving = self.scenario.pods.partition_point(|pod| pod.arrives_s <= at_s);
        let (due, later): (Vec<Waiting>, Vec<Waiting>) =
            self.waiting.iter().partition(|waiting| waiting.retry_at_s <= at_s);
        self.waiting = later;
        let arrivals = (arrived..arriving).map(|pod| Waiting { pod, retry_at_s: at_s, pause_s: 1 });
        for waiting in due.into_iter().chain(arrivals) {
            let Waiting { pod, pause_s, .. } = waiting;
            let Choice { to, refused } = self.choose(pod, None, placing)?;
            self.tally.refusals += u32::try_from(refused.len()).unwrap_or(u32::MAX);
            self.tell(What::Decided(Decision { pod, to, refused }));
            let Some(machine) = to else {
                let retry_at_s = at_s + pause_s;
                self.waiting.push(Waiting { pod, retry_at_s, pause_s: (2 * pause_s).min(MAX_RETRY_S) });
                continue;
            };
            self.tally.pods_placed += 1;
            let until_s = at_s.saturating_add(self.scenario.pods[pod].runs_s);
            self.running.push(Running { pod, machine, since_s: at_s, until_s });
            self.advance(Vec::new());
        }
        Ok(())
    }

    /// The best machine for a pod, other than the one it must leave.
    fn choose<E>(
        &self,
        pod: usize,
        leaves: Option<usize>,
        placing: &mut impl FnMut(&Ask<'_>) -> Result<Vec<Candidate>, E>,
    ) -> Result<Choice, E> {
        let Pod { cpu_request_m, memory_request_mi, .. } = self.scenario.pods[pod];
        let rooms = self.rooms();
        let fitting: Vec<usize> = (0..rooms.len())
            .filter(|&machine| Some(machine) != leaves)
            .filter(|&machine| rooms[machine].fits(cpu_request_m, memory_request_mi))
            .collect();
        let candidates = match self.scheduler {
            Scheduler::ByRequests => (0..fitting.len()).map(|place| Candidate { place, score: 0 }).collect(),
            Scheduler::WithPolicy => {
                let names: Vec<&str> =
                    fitting.iter().map(|&m| self.index.name(self.numbers[m]).as_str()).collect();
                let name = format!("pod-{}", pod + 1);
                placing(&Ask {
                    view: &self.view,
                    policy: self.policy.name.key(),
                    pod: &name,
                    nodes: &names,
                    now: self.now(),
                })?
            }
        };
        let mut passed = vec![false; fitting.len()];
        let chance = Chance(self.scenario.seed);
        let mut best: Option<((u32, u64), usize)> = None;
        for candidate in candidates {
            let Some(&machine) = fitting.get(candidate.place) else { continue };
            passed[candidate.place] = true;
            let by_requests = rooms[machine].least_allocated(cpu_request_m, memory_request_mi);
            let tie = chance.draw(Purpose::Tie, pod as u64, machine as u64);
            let standing = (total(by_requests, candidate.score), tie);
            if best.is_none_or(|(so_far, _)| standing > so_far) {
                best = Some((standing, machine));
            }
        }
        let table = self.view.table(self.policy.name.key());
        let why = |machine: usize| table?.placement_reason(self.numbers[machine], self.now());
        let refused = fitting.iter().zip(&passed).filter(|(_, passed)| !**passed);
        Ok(Choice {
            to: best.map(|(_, machine)| machine),
            refused: refused.map(|(&machine, _)| (machine, why(machine))).collect(),
        })
    }

    fn rooms(&self) -> Vec<Room> {
        let mut rooms: Vec<Room> = self
            .scenario
            .machines
            .iter()
            .map(|m| Room { cpu_m: m.cpu_m, memory_mi: m.memory_mi, cpu_asked_m: 0, memory_asked_mi: 0 })
            .collect();
        for running in &self.running {
            let pod = &self.scenario.pods[running.pod];
            rooms[running.machine].cpu_asked_m += pod.cpu_request_m;
            rooms[running.machine].memory_asked_mi += pod.memory_request_mi;
        }
        rooms
    }
}
