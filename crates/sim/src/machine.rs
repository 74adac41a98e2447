//! What a machine physically does. Whole milliwatts, so that every computer reckons the same.

use std::collections::VecDeque;

use crate::scenario::Pod;

/// Where a machine has had enough: 30 W. Other metrics are sized after it.
pub const LINE_MW: i64 = 30_000;
/// How long a pod takes from its placement to its full draw.
pub(crate) const START_UP_S: u32 = 6;
/// A machine's temperature closes this part of the distance to its power each second.
const THERMAL_PARTS: i64 = 16;

/// A machine, as bought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its node name.
    pub name: String,
    /// What it draws without pods.
    pub idle_mw: u32,
    /// Processor time it offers, in thousandths of a core.
    pub cpu_m: u32,
    /// Memory it offers, in MiB.
    pub memory_mi: u32,
}

/// The three things that can be measured about a machine; all in milliwatts or on their scale.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Strain {
    pub(crate) power: i64,
    pub(crate) warmth: i64,
    pub(crate) memory: i64,
}

/// A machine at work: what it does now and what it did a while ago.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    /// In millionths, so that the slow approach to the end does not stick.
    warmth_uw: i64,
    /// The newest last; as long as the lag.
    past: VecDeque<Strain>,
    lag_s: usize,
}

impl Body {
    /// A machine that has been idle for long.
    pub(crate) fn at_rest(machine: &Machine, lag_s: u32) -> Self {
        let idle = i64::from(machine.idle_mw);
        let strain = Strain { power: idle, warmth: idle, memory: idle };
        Self { warmth_uw: idle * 1000, past: [strain].into(), lag_s: lag_s as usize }
    }

    /// One second on, under that power and that much memory in use.
    pub(crate) fn pass_second(&mut self, power: i64, memory: i64) {
        self.warmth_uw += (power * 1000 - self.warmth_uw) / THERMAL_PARTS;
        let strain = Strain { power, warmth: self.warmth_uw / 1000, memory };
        self.past.push_back(strain);
        if self.past.len() > self.lag_s + 1 {
            self.past.pop_front();
        }
    }

    /// What it does now.
    pub(crate) fn truth(&self) -> Strain {
        self.past.back().copied().unwrap_or_default()
    }

    /// What its metrics show: what it did a while ago.
    pub(crate) fn shown(&self) -> Strain {
        self.past.front().copied().unwrap_or_default()
    }
}

impl Pod {
    /// The share of its load that it has reached, so long after it was placed.
    pub(crate) fn load_mw(&self, age_s: u32) -> (i64, i64) {
        let reached = |full: u32| i64::from(full) * i64::from(age_s.min(START_UP_S)) / i64::from(START_UP_S);
        (reached(self.draw_mw), reached(self.memory_mw))
    }
}

#[cfg(test)]
mod tests {
    use super::{Body, Machine, Strain};

    fn machine() -> Machine {
        Machine { name: "node-1".into(), idle_mw: 10_000, cpu_m: 4_000, memory_mi: 8_192 }
    }

    #[test]
    fn what_a_metric_shows_is_what_was_a_lag_ago() {
        let mut body = Body::at_rest(&machine(), 3);
        let shown: Vec<i64> = (1..=6)
            .map(|second| {
                body.pass_second(second * 1000, 0);
                body.shown().power
            })
            .collect();
        assert_eq!(shown, [10_000, 10_000, 10_000, 1_000, 2_000, 3_000]);
        assert_eq!(body.truth().power, 6_000);
    }

    #[test]
    fn warmth_follows_power_slowly_and_arrives() {
        let mut body = Body::at_rest(&machine(), 0);
        body.pass_second(26_000, 0);
        assert_eq!(body.truth(), Strain { power: 26_000, warmth: 11_000, memory: 0 });
        for _ in 0..300 {
            body.pass_second(26_000, 0);
        }
        assert_eq!(body.truth().warmth, 25_999);
    }
}
