//! What the extender was asked and answered, in all and by policy.

use std::fmt;
use std::sync::Arc;

use extender::{DURATION_BUCKETS_MICROS, Extender, Tally, Verb};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::{counter, gauge, since_epoch};

/// What the extender answered.
#[derive(Debug)]
pub struct ExtenderMetrics {
    extender: Arc<Extender>,
}

impl ExtenderMetrics {
    /// Of this extender.
    pub fn new(extender: Arc<Extender>) -> Self {
        Self { extender }
    }
}

/// The label of all policies past the limit; no policy can have it.
const OTHERS: &str = "others";
const VERBS: [Verb; 3] = [Verb::Filter, Verb::Prioritize, Verb::Preempt];

impl Collector for ExtenderMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let counts = self.extender.counters.counts();
        let plain = |value| [(Vec::new(), value)];
        counter(
            &mut encoder,
            "extender_refused_requests",
            "Requests refused before an answer: for their head, for a body that did not arrive as it should, for its contents.",
            [
                (vec![("reason", "head")], counts.refused_heads),
                (vec![("reason", "body")], counts.unread_bodies),
                (vec![("reason", "contents")], counts.undecodable),
            ],
        )?;
        counter(
            &mut encoder,
            "extender_pods_without_policy",
            "Requests about pods that pass unjudged, by why.",
            [
                (vec![("reason", "no_label")], counts.without_policy),
                (vec![("reason", "policy_unknown")], counts.policy_missing),
            ],
        )?;
        counter(&mut encoder, "extender_nodes_asked", "Nodes asked about.", plain(counts.nodes_asked))?;
        counter(&mut encoder, "extender_nodes_refused", "Nodes refused.", plain(counts.nodes_refused))?;
        counter(
            &mut encoder,
            "extender_nodes_shadow_refused",
            "Nodes that a policy in shadow mode would have refused.",
            plain(counts.nodes_shadowed),
        )?;
        self.encode_tallies(&mut encoder)?;
        let help = "Time from the last byte of a request to its answer.";
        let mut family = encoder.encode_descriptor(
            "extender_answer_duration_seconds",
            help,
            None,
            MetricType::Histogram,
        )?;
        for verb in VERBS {
            let durations = self.extender.counters.durations(verb);
            let ends = DURATION_BUCKETS_MICROS.iter().map(|&micros| seconds(micros)).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = ends.zip(durations.buckets).collect();
            let labels = [("verb", verb.name())];
            let mut labelled = family.encode_family(&labels)?;
            labelled.encode_histogram::<NoLabelSet>(
                durations.total.as_secs_f64(),
                durations.count,
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}

impl ExtenderMetrics {
    /// By policy, and by who called.
    fn encode_tallies(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let named = self.extender.tallies.all();
        let mut rows: Vec<(String, &Tally)> =
            named.iter().map(|(policy, tally)| (policy.to_string(), &**tally)).collect();
        let others = &*self.extender.tallies.others;
        if VERBS.iter().any(|verb| others.requests(*verb) > 0) {
            rows.push((OTHERS.to_owned(), others));
        }
        let by_verb = |(policy, tally): &(String, &Tally)| {
            let row = |verb: Verb| (policy.clone(), verb.name(), tally.requests(verb));
            VERBS.map(row)
        };
        let requests: Vec<(String, &str, u64)> = rows.iter().flat_map(by_verb).collect();
        counter(
            encoder,
            "extender_policy_requests",
            "Requests about pods that name the policy.",
            requests
                .iter()
                .map(|(policy, verb, count)| (vec![("policy", policy.as_str()), ("verb", *verb)], *count)),
        )?;
        counter(
            encoder,
            "extender_policy_nodes_refused",
            "Nodes that the policy refused.",
            rows.iter().map(|(policy, tally)| (vec![("policy", policy.as_str())], tally.refused())),
        )?;
        counter(
            encoder,
            "extender_policy_nodes_shadow_refused",
            "Nodes that the policy, in shadow mode, would have refused.",
            rows.iter().map(|(policy, tally)| (vec![("policy", policy.as_str())], tally.shadowed())),
        )?;
        let callers = self.extender.via.all();
        counter(
            encoder,
            "extender_via_requests",
            "Requests by the token in the caller's URL, /via/INSTALL/NODE/GENERATION.",
            callers.iter().map(|(via, sighting)| (vec![("via", &**via)], sighting.count())),
        )?;
        gauge(
            encoder,
            "extender_via_last_timestamp_seconds",
            "When a caller with that token last asked.",
            callers.iter().map(|(via, sighting)| (vec![("via", &**via)], since_epoch(sighting.last()))),
        )
    }
}

/// Microseconds as seconds; bucket ends are small, so nothing is lost.
fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}
