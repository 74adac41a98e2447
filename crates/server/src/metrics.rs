//! What `/metrics` tells beside the servers' own counters: what the extender answered, what the feed knows
//! and how old that is. Labels come from closed sets, from metric names that policies hold, and from policies.

mod extender;
mod feed;

use std::fmt;

use cluster::events::Events;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

pub use self::extender::ExtenderMetrics;
pub use self::feed::FeedMetrics;

type Label<'a> = (&'static str, &'a str);

pub(crate) fn counter<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (Vec<Label<'a>>, u64)>,
) -> fmt::Result {
    let rows = rows.into_iter().map(|(labels, value)| (labels, ConstCounter::new(value)));
    family(encoder, (name, help, MetricType::Counter), rows)
}

pub(crate) fn gauge<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    rows: impl IntoIterator<Item = (Vec<Label<'a>>, f64)>,
) -> fmt::Result {
    let rows = rows.into_iter().map(|(labels, value)| (labels, ConstGauge::new(value)));
    family(encoder, (name, help, MetricType::Gauge), rows)
}

/// A row without labels is the only one of its family.
fn family<'a>(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help, kind): (&str, &str, MetricType),
    rows: impl Iterator<Item = (Vec<Label<'a>>, impl EncodeMetric)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, kind)?;
    for (labels, value) in rows {
        if labels.is_empty() {
            return value.encode(family);
        }
        value.encode(family.encode_family(&labels.as_slice())?)?;
    }
    Ok(())
}

fn since_epoch(moment: engine::time::Timestamp) -> f64 {
    moment.since(engine::time::Timestamp::from_millis(0)).as_secs_f64()
}

/// How telling people goes.
#[derive(Debug)]
pub struct EventMetrics {
    events: Events,
}

impl EventMetrics {
    /// Of this sender.
    pub fn new(events: Events) -> Self {
        Self { events }
    }
}

impl Collector for EventMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let dropped = [(Vec::new(), self.events.dropped())];
        counter(&mut encoder, "events_dropped", "Events dropped because too many waited to be sent.", dropped)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::extender::{Extender, Verb};
    use arc_swap::ArcSwap;
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
