//! What `/metrics` tells beside the servers' own counters: what the extender answered, what the feed knows
//! and how old that is. Labels come from closed sets, and from metric names that policies hold.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use extender::{DURATION_BUCKETS_MICROS, Extender, Verb};
use feed::Health;
use feed::world::Watched;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

type Label<'a> = (&'static str, &'a str);

fn counter<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (Vec<Label<'a>>, u64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (labels, value) in rows {
        if labels.is_empty() {
            return ConstCounter::new(value).encode(family);
        }
        ConstCounter::new(value).encode(family.encode_family(&labels.as_slice())?)?;
    }
    Ok(())
}

fn gauge<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (Vec<Label<'a>>, f64)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (labels, value) in rows {
        if labels.is_empty() {
            return ConstGauge::new(value).encode(family);
        }
        ConstGauge::new(value).encode(family.encode_family(&labels.as_slice())?)?;
    }
    Ok(())
}

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

/// Microseconds as seconds; bucket ends are small, so nothing is lost.
fn seconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64()
}

/// What the feed knows, and how old that is.
#[derive(Debug)]
pub struct FeedMetrics {
    health: Arc<ArcSwap<Health>>,
}

impl FeedMetrics {
    /// Of what the feed publishes.
    pub fn new(health: Arc<ArcSwap<Health>>) -> Self {
        Self { health }
    }
}

impl Collector for FeedMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let health = self.health.load();
        let watch = |watched: Watched| health.watches.get(&watched).cloned().unwrap_or_default();
        gauge(
            &mut encoder,
            "feed_watch_up",
            "Whether a watch has listed everything and is in no trouble.",
            Watched::ALL.map(|watched| {
                let watch = watch(watched);
                let up = watch.synced && watch.trouble.is_none();
                (vec![("watch", watched.as_str())], f64::from(u8::from(up)))
            }),
        )?;
        counter(
            &mut encoder,
            "feed_objects_skipped",
            "Objects left out because they make no sense.",
            Watched::ALL.map(|watched| (vec![("watch", watched.as_str())], watch(watched).skipped)),
        )?;
        counter(
            &mut encoder,
            "feed_readings",
            "Readings of metrics that ended, with or without samples.",
            [(Vec::new(), health.reading.attempts)],
        )?;
        let plain = |value: f64| [(Vec::new(), value)];
        gauge(
            &mut encoder,
            "feed_reading_failures_in_a_row",
            "Readings in a row without a single sample although metrics were wanted.",
            plain(f64::from(health.reading.failures_in_a_row)),
        )?;
        gauge(
            &mut encoder,
            "feed_view_duration_seconds",
            "How long the last view took to make.",
            plain(health.judging.took.as_secs_f64()),
        )?;
        counter(&mut encoder, "feed_views", "Views published.", [(Vec::new(), health.judging.views)])?;
        counter(
            &mut encoder,
            "feed_samples_from_the_future",
            "Samples left out because a sensor's clock runs too far ahead.",
            [(Vec::new(), health.judging.from_the_future)],
        )?;
        let size = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        gauge(&mut encoder, "feed_nodes", "Nodes in the view.", plain(size(health.judging.nodes)))?;
        gauge(&mut encoder, "feed_policies", "Policies in the view.", plain(size(health.judging.policies)))?;
        let bad = health.policies.values().filter(|policy| policy.policy.is_none()).count();
        gauge(
            &mut encoder,
            "feed_policies_unusable",
            "Policy objects that do not compile.",
            plain(size(bad)),
        )?;
        gauge(
            &mut encoder,
            "feed_config_problems",
            "What is wrong with the configuration file as it stands; the last good one is in use.",
            plain(size(health.config_problems.len())),
        )?;
        let of_metrics = |value: fn(&feed::health::MetricHealth) -> Option<f64>| {
            let rows = health.metrics.iter().filter_map(move |(name, metric)| Some((name, value(metric)?)));
            rows.map(|(name, value)| (vec![("metric", name.as_str())], value)).collect::<Vec<_>>()
        };
        gauge(
            &mut encoder,
            "feed_metric_up",
            "Whether the last reading had samples of the metric.",
            of_metrics(|metric| Some(f64::from(u8::from(metric.error.is_none())))),
        )?;
        gauge(
            &mut encoder,
            "feed_metric_nodes",
            "Nodes with a sample of the metric, however old.",
            of_metrics(|metric| Some(f64::from(u32::try_from(metric.extent?.nodes).unwrap_or(u32::MAX)))),
        )?;
        gauge(
            &mut encoder,
            "feed_metric_newest_timestamp_seconds",
            "When the newest sample of the metric was taken.",
            of_metrics(|metric| Some(since_epoch(metric.extent?.newest))),
        )?;
        gauge(
            &mut encoder,
            "feed_metric_oldest_timestamp_seconds",
            "When the oldest sample in use of the metric was taken.",
            of_metrics(|metric| Some(since_epoch(metric.extent?.oldest))),
        )
    }
}

fn since_epoch(moment: engine::time::Timestamp) -> f64 {
    moment.since(engine::time::Timestamp::from_millis(0)).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use extender::{Extender, Verb};
    use prometheus_client::registry::Registry;

    use super::{ExtenderMetrics, FeedMetrics};

    #[test]
    fn every_family_is_written_as_prometheus_reads_it() {
        let extender = Arc::new(Extender::new(Arc::default(), 10));
        extender.counters.took(Verb::Filter, std::time::Duration::from_secs(1));
        let mut registry = Registry::with_prefix("tas");
        registry.register_collector(Box::new(ExtenderMetrics::new(extender)));
        registry.register_collector(Box::new(FeedMetrics::new(Arc::new(ArcSwap::default()))));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        assert_eq!(text.matches("le=\"+Inf\"").count(), 3, "one for each verb:\n{text}");
        assert!(text.contains("tas_feed_policies 0.0\n") && !text.contains("{}"), "{text}");
    }
}
