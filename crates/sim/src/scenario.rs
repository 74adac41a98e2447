//! What is going to happen, as data: the machines, the pods that will arrive, and what will go wrong.

use crate::machine::Machine;

/// A whole story. Both sides of a trial play the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Decides noise and ties.
    pub seed: u64,
    /// How long it lasts.
    pub length_s: u32,
    /// How long a metric takes to show what is.
    pub lag_s: u32,
    /// Whether the engine is told of pods placed lately.
    pub in_flight: InFlight,
    /// The machines, in the order of their names.
    pub machines: Vec<Machine>,
    /// The pods, in the order they arrive.
    pub pods: Vec<Pod>,
    /// What goes wrong.
    pub incidents: Vec<Incident>,
}

/// Whether the engine is told of pods placed lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InFlight {
    /// As in a cluster, where placements are watched.
    #[default]
    Told,
    /// Kept from it, to see what that costs.
    Withheld,
}

/// A pod that will arrive. What it draws and what it asked for have little to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pod {
    /// When it arrives.
    pub arrives_s: u32,
    /// How long it runs once it is placed.
    pub runs_s: u32,
    /// What it adds to a machine's power.
    pub draw_mw: u32,
    /// What it adds to a machine's memory, on the same scale: [`crate::LINE_MW`] is a full machine.
    pub memory_mw: u32,
    /// The processor time it asked for, in thousandths of a core.
    pub cpu_request_m: u32,
    /// The memory it asked for, in MiB.
    pub memory_request_mi: u32,
}

/// Something that goes wrong with one machine for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incident {
    /// Which machine, by its place.
    pub machine: usize,
    /// From when.
    pub from_s: u32,
    /// Until when.
    pub to_s: u32,
    /// What.
    pub trouble: Trouble,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It draws more than its pods explain: a failing fan, a neighbour's heat.
    Heat {
        /// At its worst.
        extra_mw: u32,
    },
    /// Its sensor says nothing.
    SensorDead,
}

/// How long heat takes to build up, and to go.
const HEAT_RAMP_S: u32 = 15;

impl Incident {
    fn lasts(&self, at_s: u32) -> bool {
        (self.from_s..self.to_s).contains(&at_s)
    }
}

impl Scenario {
    /// What trouble adds to a machine's power at a moment.
    pub(crate) fn heat_mw(&self, machine: usize, at_s: u32) -> i64 {
        let heat = |incident: &Incident| match incident.trouble {
            Trouble::Heat { extra_mw } if incident.machine == machine => {
                let rising = at_s.saturating_sub(incident.from_s).min(HEAT_RAMP_S);
                let falling = at_s.saturating_sub(incident.to_s).min(HEAT_RAMP_S);
                i64::from(extra_mw) * i64::from(rising - falling.min(rising)) / i64::from(HEAT_RAMP_S)
            }
            _ => 0,
        };
        self.incidents.iter().map(heat).sum()
    }

    /// Whether a machine's sensor speaks at a moment.
    pub(crate) fn sensor_speaks(&self, machine: usize, at_s: u32) -> bool {
        !self
            .incidents
            .iter()
            .any(|i| i.machine == machine && i.trouble == Trouble::SensorDead && i.lasts(at_s))
    }
}

#[cfg(test)]
mod tests {
    use super::{InFlight, Incident, Scenario, Trouble};

    #[test]
    fn heat_builds_up_stays_and_goes() {
        let scenario = Scenario {
            seed: 0,
            length_s: 100,
            lag_s: 0,
            in_flight: InFlight::Told,
            machines: Vec::new(),
            pods: Vec::new(),
            incidents: vec![
                Incident { machine: 2, from_s: 30, to_s: 60, trouble: Trouble::Heat { extra_mw: 15_000 } },
                Incident { machine: 2, from_s: 40, to_s: 50, trouble: Trouble::SensorDead },
            ],
        };
        let heat: Vec<i64> = [0, 30, 35, 45, 59, 65, 75, 99].map(|s| scenario.heat_mw(2, s)).into();
        assert_eq!(heat, [0, 0, 5_000, 15_000, 15_000, 10_000, 0, 0]);
        assert_eq!(scenario.heat_mw(1, 45), 0);
        let speaks = [39, 40, 49, 50].map(|s| scenario.sensor_speaks(2, s));
        assert_eq!(speaks, [true, false, false, true]);
    }
}
