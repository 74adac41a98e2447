//! What the feed knows, how old that is, and what it had to leave out.

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwap;
use feed::Health;
use feed::mapping::AgeKnown;
use feed::world::Watched;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{counter, gauge, since_epoch};

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
            "feed_reading_duration_seconds",
            "How long the last reading took.",
            plain(health.reading.took.as_secs_f64()),
        )?;
        counter(
            &mut encoder,
            "feed_readings_skipped",
            "Moments that passed because the reading before took too long.",
            [(Vec::new(), health.reading.skipped)],
        )?;
        gauge(
            &mut encoder,
            "feed_reading_last_success_timestamp_seconds",
            "The moment of the last reading with samples.",
            health.reading.last_success.map(|moment| (Vec::new(), since_epoch(moment))),
        )?;
        Self::encode_view(&mut encoder, &health)?;
        Self::encode_metrics(&mut encoder, &health)
    }
}

impl FeedMetrics {
    /// What all of it came to.
    fn encode_view(encoder: &mut DescriptorEncoder<'_>, health: &Health) -> fmt::Result {
        let plain = |value: f64| [(Vec::new(), value)];
        gauge(
            encoder,
            "feed_view_timestamp_seconds",
            "When the view in use was made; its age is time() minus this.",
            health.judging.published.map(|moment| (Vec::new(), since_epoch(moment))),
        )?;
        counter(
            encoder,
            "feed_view_panics",
            "How often making a view broke off; the view before stays in use.",
            [(Vec::new(), health.judging.panics)],
        )?;
        gauge(
            encoder,
            "feed_view_duration_seconds",
            "How long the last view took to make.",
            plain(health.judging.took.as_secs_f64()),
        )?;
        counter(encoder, "feed_views", "Views published.", [(Vec::new(), health.judging.views)])?;
        counter(
            encoder,
            "feed_samples_from_the_future",
            "Samples left out because a sensor's clock runs too far ahead.",
            [(Vec::new(), health.judging.from_the_future)],
        )?;
        let size = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        gauge(encoder, "feed_nodes", "Nodes in the view.", plain(size(health.judging.nodes)))?;
        gauge(encoder, "feed_policies", "Policies in the view.", plain(size(health.judging.policies)))?;
        let bad = health.policies.values().filter(|policy| policy.policy.is_none()).count();
        gauge(encoder, "feed_policies_unusable", "Policy objects that do not compile.", plain(size(bad)))?;
        gauge(
            encoder,
            "feed_config_problems",
            "What is wrong with the configuration file as it stands; the last good one is in use.",
            plain(size(health.config_problems.len())),
        )?;
        gauge(
            encoder,
            "feed_definition_ok",
            "Whether the installed CustomResourceDefinition of policies knows all our fields.",
            plain(f64::from(u8::from(health.definition.is_none()))),
        )?;
        gauge(
            encoder,
            "feed_metrics_left_out",
            "Metrics that policies name and nobody reads, because they are too many.",
            plain(size(health.left_out.len())),
        )
    }

    /// One row for each metric that policies name.
    fn encode_metrics(encoder: &mut DescriptorEncoder<'_>, health: &Health) -> fmt::Result {
        let of_metrics = |value: fn(&feed::health::MetricHealth) -> Option<f64>| {
            let rows = health.metrics.iter().filter_map(move |(name, metric)| Some((name, value(metric)?)));
            rows.map(|(name, value)| (vec![("metric", name.as_str())], value)).collect::<Vec<_>>()
        };
        gauge(
            encoder,
            "feed_metric_up",
            "Whether the last reading had samples of the metric.",
            of_metrics(|metric| Some(f64::from(u8::from(metric.error.is_none())))),
        )?;
        gauge(
            encoder,
            "feed_metric_nodes",
            "Nodes with a sample of the metric, however old.",
            of_metrics(|metric| Some(f64::from(u32::try_from(metric.extent?.nodes).unwrap_or(u32::MAX)))),
        )?;
        gauge(
            encoder,
            "feed_metric_newest_timestamp_seconds",
            "When the newest sample of the metric was taken.",
            of_metrics(|metric| Some(since_epoch(metric.extent?.newest))),
        )?;
        gauge(
            encoder,
            "feed_metric_oldest_timestamp_seconds",
            "When the oldest sample in use of the metric was taken.",
            of_metrics(|metric| Some(since_epoch(metric.extent?.oldest))),
        )?;
        gauge(
            encoder,
            "feed_metric_age_known",
            "Whether samples of the metric carry their own time; if not, a dead sensor goes unnoticed.",
            of_metrics(|metric| Some(f64::from(u8::from(metric.age == AgeKnown::Yes)))),
        )?;
        gauge(
            encoder,
            "feed_metric_unmapped_series",
            "Series of the last answer that belong to no node.",
            of_metrics(|metric| Some(f64::from(u32::try_from(metric.unmapped.count).unwrap_or(u32::MAX)))),
        )?;
        let refused = health.metrics.iter().flat_map(|(name, metric)| {
            let refused = metric.refused;
            [
                ("not_finite", refused.not_finite),
                ("out_of_range", refused.out_of_range),
                ("unreadable", refused.unreadable),
                ("histogram", refused.histograms),
            ]
            .map(|(reason, count)| (vec![("metric", name.as_str()), ("reason", reason)], count))
        });
        counter(encoder, "feed_metric_values_refused", "Values that are no number to go by.", refused)
    }
}
