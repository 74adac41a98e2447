//! Samples that were recorded, or made up for a test, read as if they came in now.

use std::sync::Arc;
use std::time::Duration;

use engine::Sample;
use engine::names::MetricName;
use engine::time::Timestamp;

use crate::directory::Meaning;
use crate::mapping::Gathered;
use crate::source::{Answered, Ask, MetricError, MetricReading, MetricSource, Reading, Want};

/// How far back the newest sample of a node may lie to be found, as in Prometheus.
const LOOK_BACK: Duration = Duration::from_mins(5);

/// One recorded sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Of which metric.
    pub metric: MetricName,
    /// Of which node: a name, or whatever else means one.
    pub node: String,
    /// The value, and when it was taken.
    pub sample: Sample,
}

/// A source that only repeats what it was given.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    recorded: Arc<[Recorded]>,
}

impl Replay {
    /// Of these samples, in any order.
    pub fn new(recorded: impl IntoIterator<Item = Recorded>) -> Self {
        let mut recorded: Vec<Recorded> = recorded.into_iter().collect();
        recorded.sort_by(|a, b| (&a.metric, a.sample.taken).cmp(&(&b.metric, b.sample.taken)));
        Self { recorded: recorded.into() }
    }

    fn metric(&self, want: &Want, ask: &Ask) -> Result<Answered, MetricError> {
        let begin = self.recorded.partition_point(|recorded| recorded.metric < want.metric);
        let of_metric = self.recorded[begin..].iter().take_while(|recorded| recorded.metric == want.metric);
        let since = earlier(ask.at, want.history.max(LOOK_BACK));
        let in_time = of_metric.filter(|recorded| (since..=ask.at).contains(&recorded.sample.taken));
        let mut gathered = Gathered::default();
        for recorded in in_time {
            match ask.directory.find(&recorded.node) {
                Meaning::Node(node) => gathered.samples.push((node, recorded.sample)),
                Meaning::NoNode | Meaning::SeveralNodes => gathered.unmapped.note(|| recorded.node.clone()),
            }
        }
        gathered.samples.sort_by_key(|&(node, sample)| (node, sample.taken));
        let by = want.metric.to_string();
        match (gathered.samples.is_empty(), gathered.unmapped.shown.first()) {
            (true, None) => Err(MetricError::NotFound { looked_for: by }),
            (true, Some(example)) => {
                Err(MetricError::NoNode { count: gathered.unmapped.count, example: example.clone() })
            }
            (false, _) => Ok(Answered { by, history: want.history, gathered }),
        }
    }
}

impl MetricSource for Replay {
    async fn read(&self, ask: Ask) -> Reading {
        let metrics = ask
            .wants
            .iter()
            .map(|want| MetricReading { metric: want.metric.clone(), outcome: self.metric(want, &ask) });
        Reading {
            at: ask.at,
            metrics: metrics.collect(),
            nodes: Arc::clone(ask.directory.nodes()),
            warnings: Vec::new(),
        }
    }
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    Timestamp::from_millis(at.millis().saturating_sub(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
}
