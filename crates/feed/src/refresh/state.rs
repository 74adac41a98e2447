//! What the refresher holds between two events, and what it makes of each. No clock, no waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::names::MetricName;
use engine::time::Timestamp;
use engine::{Batch, Inputs, Memory, View, advance};

use crate::config::{FeedConfig, Problem};
use crate::demand::{Demand, Remembering, aligned, remembering, wants};
use crate::health::{Health, MetricHealth, NAMED_SKIPPED};
use crate::mapping::AgeKnown;
use crate::source::{Ask, MetricError, Reading, SourceError, Want};
use crate::world::{Change, Watched, World};

/// Everything between two events.
#[derive(Debug)]
pub struct State {
    step: Duration,
    world: World,
    extra_metrics: Vec<MetricName>,
    /// Held back while a job is under way.
    memory: Memory,
    view: Arc<View>,
    pending: Vec<Reading>,
    /// For which moment each metric was last read with success.
    read: BTreeMap<MetricName, Timestamp>,
    /// What needs the past of its metric.
    remembering: Remembering,
    /// Metrics whose past is wanted again, and not asked for yet.
    look_back: BTreeSet<MetricName>,
    /// What the reading under way, or the last one, was to bring.
    asked: Vec<MetricName>,
    need: Need,
    dirty: bool,
    wake: Option<Timestamp>,
    took: Duration,
    health: Health,
    health_changed: bool,
}

/// Whether to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// The next shared moment has not come.
    None,
    /// Policies have changed: if they want what was not asked for.
    IfNew,
    /// A shared moment has come, or metrics may be found another way now.
    Now,
}

/// One call of the engine, ready to run anywhere.
#[derive(Debug)]
pub struct Job {
    prev: Arc<View>,
    memory: Memory,
    inputs: Inputs,
    now: Timestamp,
    after_reading: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Done {
    view: View,
    memory: Memory,
    wake: Option<Timestamp>,
    took: Duration,
    after_reading: bool,
}

impl Job {
    /// Judges. The one expensive step.
    pub fn run(self) -> Done {
        let begun = Instant::now();
        let (view, memory, wake) = advance(&self.prev, self.memory, &self.inputs, self.now);
        Done { view, memory, wake, took: begun.elapsed(), after_reading: self.after_reading }
    }
}

impl State {
    /// Nothing known yet; metrics are read at multiples of `step`.
    pub fn new(step: Duration) -> Self {
        Self {
            step,
            world: World::default(),
            extra_metrics: Vec::new(),
            memory: Memory::default(),
            view: Arc::default(),
            pending: Vec::new(),
            read: BTreeMap::new(),
            remembering: Remembering::new(),
            look_back: BTreeSet::new(),
            asked: Vec::new(),
            need: Need::Now,
            dirty: false,
            wake: None,
            took: Duration::ZERO,
            health: Health::default(),
            health_changed: true,
        }
    }

    /// Takes a new configuration in.
    pub fn configured(&mut self, config: &FeedConfig) {
        if self.extra_metrics != config.extra_metrics {
            self.extra_metrics.clone_from(&config.extra_metrics);
            self.dirty = true;
        }
        self.need = Need::Now;
    }

    /// Remembers what is wrong with the newest edit of the configuration.
    pub fn config_problems(&mut self, problems: Vec<Problem>) {
        self.health.config_problems = problems;
        self.health_changed = true;
    }

    /// Takes news of the watches in.
    pub fn change(&mut self, change: Change) {
        match &change {
            Change::Trouble(watched, trouble) => {
                self.health.watches.entry(*watched).or_default().trouble.clone_from(trouble);
                self.health_changed = true;
            }
            Change::Skipped(watched, what) => {
                let watch = self.health.watches.entry(*watched).or_default();
                watch.skipped += 1;
                watch.skipped_lately.retain(|known| known != what);
                watch.skipped_lately.push(what.clone());
                let surplus = watch.skipped_lately.len().saturating_sub(NAMED_SKIPPED);
                watch.skipped_lately.drain(..surplus);
                self.health_changed = true;
            }
            Change::Definition(wrong) => {
                self.health.definition.clone_from(wrong);
                self.health_changed = true;
            }
            Change::Nodes(_) | Change::Policies(_) | Change::Pods(_) => {}
        }
        let policies = matches!(change, Change::Policies(_));
        if !self.world.apply(change) {
            return;
        }
        self.dirty = true;
        self.health_changed = true;
        for watched in Watched::ALL {
            self.health.watches.entry(watched).or_default().synced = self.world.synced(watched);
        }
        if policies {
            self.need = self.need.max(Need::IfNew);
            self.remember();
            self.health.policies =
                self.world.policy_facts().map(|facts| (facts.key.clone(), facts.clone())).collect();
        }
    }

    /// An edit may have brought a condition whose past nobody has read yet.
    fn remember(&mut self) {
        let remembering = remembering(self.world.policies());
        for (metric, ..) in remembering.difference(&self.remembering) {
            if self.read.remove(metric).is_some() || self.asked.binary_search(metric).is_ok() {
                self.look_back.insert(metric.clone());
                self.need = Need::Now;
            }
        }
        self.remembering = remembering;
    }

    /// A shared moment has come; `reading` says whether the reading for the one before is still under way.
    pub fn moment_came(&mut self, reading: bool) {
        if reading {
            self.health.reading.skipped += 1;
            self.health_changed = true;
        }
        self.need = Need::Now;
    }

    /// What to read now, if anything: at a shared moment, or when something is wanted that was not asked for.
    pub fn ask(&mut self, now: Timestamp) -> Option<Ask> {
        let listed = self.world.synced(Watched::Nodes) && self.world.synced(Watched::Policies);
        if !listed || self.need == Need::None {
            return None;
        }
        let need = std::mem::replace(&mut self.need, Need::None);
        let at = aligned(now, self.step);
        let Demand { wants, left_out } =
            wants(self.world.policies(), &self.extra_metrics, &self.read, at, self.step);
        let is_new = |want: &Want| self.asked.binary_search(&want.metric).is_err();
        if need == Need::IfNew && !wants.iter().any(is_new) {
            return None;
        }
        self.asked = wants.iter().map(|want| want.metric.clone()).collect();
        self.read.retain(|metric, _| self.asked.binary_search(metric).is_ok());
        self.look_back.clear();
        if self.health.left_out != left_out {
            self.health.left_out = left_out;
            self.health_changed = true;
        }
        if wants.is_empty() {
            // There is nothing to wait for: nobody wants any metric.
            if self.health.reading.attempts == 0 {
                self.health.reading.attempts = 1;
            }
            self.health.reading.failures_in_a_row = 0;
            self.health.reading.error = None;
            self.health.metrics.clear();
            self.health_changed = true;
            self.dirty |= !self.health.judging.after_reading;
            return None;
        }
        Some(Ask { at, step: self.step, wants, directory: Arc::clone(self.world.directory()) })
    }

    /// Takes a reading in.
    pub fn reading(&mut self, mut reading: Reading, took: Duration) {
        let at = reading.at;
        let mut metrics = BTreeMap::new();
        let (mut succeeded, mut error) = (false, None);
        for metric in &mut reading.metrics {
            let mut health = self.health.metrics.remove(&metric.metric).unwrap_or_default();
            match &mut metric.outcome {
                Ok(answered) => {
                    succeeded = true;
                    // A reading that was under way when the past became wanted does not have it.
                    if !self.look_back.contains(&metric.metric) {
                        self.read.insert(metric.metric.clone(), at);
                    }
                    health.answered_by = Some(answered.by.clone());
                    health.answered = Some(at);
                    health.error = None;
                    health.age = answered.gathered.age;
                    health.unmapped = std::mem::take(&mut answered.gathered.unmapped);
                    health.refused += answered.gathered.refused;
                }
                Err(failed) => {
                    note_failure(&mut health, failed);
                    if matches!(failed, MetricError::Source(_)) || error.is_none() {
                        error = Some(failed.to_string());
                    }
                }
            }
            metrics.insert(metric.metric.clone(), health);
        }
        let health = &mut self.health.reading;
        health.attempts += 1;
        health.last = Some(at);
        health.took = took;
        health.warnings = std::mem::take(&mut reading.warnings);
        if succeeded || reading.metrics.is_empty() {
            health.last_success = Some(at);
            health.failures_in_a_row = 0;
            health.error = None;
        } else {
            health.failures_in_a_row = health.failures_in_a_row.saturating_add(1);
            health.error = error;
        }
        self.health.metrics = metrics;
        self.health_changed = true;
        if succeeded {
            self.pending.push(reading);
            self.dirty = true;
        } else {
            // Whoever waits for the first reading waits for a view that was made after it, even if it brought nothing.
            self.dirty |= !self.health.judging.after_reading;
        }
    }

    /// A reading ended in a panic.
    pub fn reading_broke_off(&mut self) {
        tracing::error!("a reading broke off");
        let outcome = || Err(SourceError::Broken.into());
        let metrics = self.asked.iter().cloned();
        let metrics =
            metrics.map(|metric| crate::source::MetricReading { metric, outcome: outcome() }).collect();
        let at = self.health.reading.last.unwrap_or_default();
        self.reading(Reading { at, metrics, ..Reading::default() }, Duration::ZERO);
    }

    /// The first verdict has expired.
    pub fn expired(&mut self) {
        self.wake = None;
        self.dirty = true;
    }

    /// Whether there is anything to judge.
    pub fn is_dirty(&self) -> bool {
        self.dirty
    }

    /// When to judge again even if nothing comes in.
    pub fn wake(&self) -> Option<Timestamp> {
        self.wake
    }

    /// How long the last judging took.
    pub fn last_took(&self) -> Duration {
        self.took
    }

    /// Everything the engine needs, out of our hands until [`State::finish`].
    pub fn begin(&mut self, now: Timestamp) -> Job {
        self.dirty = false;
        let nodes = Arc::clone(self.world.directory().nodes());
        let mut samples = Vec::new();
        for reading in std::mem::take(&mut self.pending) {
            for metric in reading.metrics {
                let Ok(answered) = metric.outcome else { continue };
                let mut numbered = answered.gathered.samples;
                if *reading.nodes != *nodes {
                    // Nodes have come or gone while the reading was under way.
                    let renumbered = numbered.into_iter().filter_map(|(node, sample)| {
                        Some((nodes.find(reading.nodes.name(node).as_str())?, sample))
                    });
                    numbered = renumbered.collect();
                }
                samples.push(Batch { metric: metric.metric, samples: numbered });
            }
        }
        let inputs = Inputs {
            placed: self.world.placed(now),
            policies: self.world.policies().to_vec(),
            extra_metrics: self.extra_metrics.clone(),
            nodes,
            samples,
        };
        Job {
            prev: Arc::clone(&self.view),
            memory: std::mem::take(&mut self.memory),
            inputs,
            now,
            after_reading: self.health.reading.attempts > 0,
        }
    }

    /// Takes the new view in, to be published.
    pub fn finish(&mut self, done: Done, now: Timestamp) -> Arc<View> {
        self.view = Arc::new(done.view);
        self.memory = done.memory;
        self.wake = done.wake;
        self.took = done.took;
        let judging = &mut self.health.judging;
        judging.views += 1;
        judging.after_reading |= done.after_reading;
        judging.view = self.view.id;
        judging.published = Some(now);
        judging.took = done.took;
        judging.nodes = self.view.nodes.len();
        judging.policies = self.view.tables.len();
        judging.from_the_future += self.view.dropped.from_the_future;
        for (metric, health) in &mut self.health.metrics {
            health.extent = self.view.snapshot.column(metric.as_str()).and_then(|column| column.extent());
        }
        self.health_changed = true;
        Arc::clone(&self.view)
    }

    /// The job ended in a panic and took the memory with it: `for` and `clear` begin anew from the newest samples.
    pub fn broke_off(&mut self) {
        self.health.judging.panics += 1;
        self.health_changed = true;
        self.read.clear();
        self.wake = None;
    }

    /// The facts, if they have changed since the last call.
    pub fn take_health(&mut self) -> Option<Health> {
        std::mem::take(&mut self.health_changed).then(|| self.health.clone())
    }
}

fn note_failure(health: &mut MetricHealth, failed: &MetricError) {
    health.error = Some(failed.to_string());
    if let MetricError::NoNode { count, example } = failed {
        health.unmapped.count = *count;
        health.unmapped.shown = vec![example.clone()];
    }
    if let MetricError::NoValue { not_finite, histograms, other } = failed {
        health.refused.not_finite += not_finite;
        health.refused.histograms += histograms;
        health.refused.unreadable += other;
    }
    if health.answered.is_none() {
        health.age = AgeKnown::default();
    }
}

#[cfg(test)]
mod tests;
