//! The same story twice, side by side: by requests alone, and with the policy.

use std::sync::Arc;

use engine::policy::Policy;

use crate::cluster::{Cluster, Scheduler};
use crate::placing::{Ask, Candidate};
use crate::scenario::Scenario;
use crate::signal::Signals;

/// Two clusters that differ in nothing but the scheduler.
#[derive(Clone, Debug)]
pub struct Trial {
    scenario: Arc<Scenario>,
    policy: Arc<Policy>,
    signals: Arc<Signals>,
    passed_s: u32,
    without: Cluster,
    with: Cluster,
}

impl Trial {
    /// Before the first second.
    pub fn new(scenario: Scenario, policy: Policy) -> Self {
        let (scenario, policy) = (Arc::new(scenario), Arc::new(policy));
        let signals = Arc::new(Signals::of(&policy));
        let cluster = |scheduler| Cluster::new(scheduler, &scenario, &policy, &signals);
        let (without, with) = (cluster(Scheduler::ByRequests), cluster(Scheduler::WithPolicy));
        Self { scenario, policy, signals, passed_s: 0, without, with }
    }

    /// Lets one second pass on both sides; `placing` answers for the policy. An answer that cannot be had
    /// ends the trial.
    pub fn step<E>(
        &mut self,
        mut placing: impl FnMut(&Ask<'_>) -> Result<Vec<Candidate>, E>,
    ) -> Result<(), E> {
        self.without.pass_second(self.passed_s, &mut placing)?;
        self.with.pass_second(self.passed_s, &mut placing)?;
        self.passed_s += 1;
        Ok(())
    }

    /// Whether the story is over.
    pub fn is_over(&self) -> bool {
        self.passed_s >= self.scenario.length_s
    }

    /// How much of it has passed.
    pub fn passed_s(&self) -> u32 {
        self.passed_s
    }

    /// What is being played.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The policy under trial.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What its metrics say of a machine.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// The side that places by requests alone.
    pub fn without(&self) -> &Cluster {
        &self.without
    }

    /// The side that asks the policy.
    pub fn with(&self) -> &Cluster {
        &self.with
    }
}
