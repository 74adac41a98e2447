//! The controller on `/metrics`.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cluster::lease::Leadership;
use engine::names::PolicyRef;
use engine::plan::{HeldBy, Plan, StatusChange};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::tally::{ACTED_BUCKETS_MS, Kind, Tally};
use crate::metrics::{counter, gauge};

/// Policies that are told one by one.
const MAX_NAMED: usize = 1000;

/// See the module.
#[derive(Debug)]
pub struct ControllerMetrics {
    leadership: Leadership,
    tally: Arc<Tally>,
}

impl ControllerMetrics {
    /// Of this controller.
    pub fn new(leadership: Leadership, tally: Arc<Tally>) -> Self {
        Self { leadership, tally }
    }

    /// With a row in every family, for the reference.
    pub fn of_a_leader() -> Self {
        let tally = Tally::default();
        tally.wrote(Kind::Labels, "stored");
        if let Ok(policy) = PolicyRef::new("default", "p") {
            let outcome = Arc::default();
            let statuses = vec![StatusChange { policy, outcome }];
            tally.planned(&Plan { statuses, ..Plan::default() }, Duration::ZERO);
        }
        Self::new(Leadership::of_a_leader(), Arc::new(tally))
    }
}

impl Collector for ControllerMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.tally.counts();
        let size = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        let plain = |value: f64| [(Vec::new(), value)];
        let leads = self.leadership.term().is_some();
        gauge(
            &mut encoder,
            "controller_leader",
            "Whether this replica writes.",
            plain(f64::from(u8::from(leads))),
        )?;
        gauge(
            &mut encoder,
            "controller_lease_age_seconds",
            "How long ago this replica renewed its lease; nothing where it holds none.",
            self.leadership.age().map(|age| (Vec::new(), age.as_secs_f64())),
        )?;
        counter(&mut encoder, "controller_plans", "Plans made.", [(Vec::new(), counts.plans)])?;
        gauge(
            &mut encoder,
            "controller_plan_duration_seconds",
            "How long the last plan took to make.",
            plain(counts.took.as_secs_f64()),
        )?;
        gauge(
            &mut encoder,
            "controller_plan_nodes",
            "Nodes to be written in the last plan.",
            plain(size(counts.nodes)),
        )?;
        gauge(
            &mut encoder,
            "controller_held_back",
            "Marks that should be written on nodes but are not, by cause.",
            HeldBy::ALL.map(|cause| (vec![("cause", cause.as_str())], size(counts.held.by(cause)))),
        )?;
        counter(
            &mut encoder,
            "controller_writes",
            "Writes by what and how they ended.",
            counts.writes.iter().map(|((kind, outcome), count)| {
                (vec![("kind", kind.as_str()), ("outcome", *outcome)], *count)
            }),
        )?;
        counter(
            &mut encoder,
            "controller_writes_put_off",
            "Writes put off because the same was refused a moment ago.",
            [(Vec::new(), counts.put_off)],
        )?;
        let named = counts.violating.iter().take(MAX_NAMED);
        let violating: Vec<(String, f64)> =
            named.map(|(policy, nodes)| (policy.to_string(), size(*nodes))).collect();
        gauge(
            &mut encoder,
            "controller_violating_nodes",
            "Nodes that violate a policy, as its status last told.",
            violating.iter().map(|(policy, nodes)| (vec![("policy", policy.as_str())], *nodes)),
        )?;
        let mut family = encoder.encode_descriptor(
            "controller_sample_to_action_seconds",
            "Time from when a sample was taken to when what follows from it stood on the node.",
            None,
            MetricType::Histogram,
        )?;
        let ends = ACTED_BUCKETS_MS.iter().map(|&end| Duration::from_millis(end).as_secs_f64());
        let buckets: Vec<(f64, u64)> = ends.chain([f64::INFINITY]).zip(counts.acted).collect();
        family.encode_histogram::<NoLabelSet>(
            counts.acted_total.as_secs_f64(),
            counts.acted.iter().sum(),
            &buckets,
            None,
        )
    }
}
