//! Prometheus, Thanos and whoever else answers their query API.

pub mod decode;
mod digest;
mod http;
mod plan;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use engine::names::MetricName;
use engine::time::Timestamp;
use futures::StreamExt;

use crate::config::{Endpoint, FeedConfig};
use crate::demand::aligned;
use crate::desk::Desk;
use crate::source::{
    Answered, Ask, MetricError, MetricReading, MetricSource, READING_TIMEOUTS, Reading, SourceError, Want,
};
use digest::{Digest, digest};
use http::Caller;
use plan::{Candidate, Item, Span, Union, candidates, unions};

/// How many further queries one reading may take to find out which metric is at fault.
const MAX_BISECTIONS: usize = 64;
/// How long a metric that keeps failing on its own is left alone at most.
const MAX_REST: Duration = Duration::from_mins(1);
/// How long a metric whose shared query was too slow is asked for on its own.
const APART: Duration = Duration::from_mins(10);
/// How often a metric that was found is looked for in all the ways again, at moments that all replicas share: else one
/// that started before a better way was there would answer otherwise than the rest for as long as it lives.
const LOOK_AROUND: Duration = Duration::from_mins(5);
/// Warnings of one reading that are kept.
const KEPT_WARNINGS: usize = 8;

/// Reads metrics from a Prometheus or what looks like one.
#[derive(Debug)]
pub struct Prometheus {
    /// The configuration as it stands; replaced from outside.
    config: Arc<ArcSwap<FeedConfig>>,
    /// What the command line says, which goes before the file.
    endpoint: Option<Endpoint>,
    caller: Caller,
    desk: Desk,
    known: Mutex<BTreeMap<MetricName, Known>>,
}

/// What was learnt of a metric.
#[derive(Clone, Debug, Default)]
struct Known {
    /// Where it was looked for, and in which ways; nothing else holds once these have changed.
    looked: Option<(::http::Uri, Vec<Candidate>)>,
    /// Which of the ways has worked.
    found: Option<Candidate>,
    /// It failed, so it is asked for on its own.
    alone: bool,
    /// A query that it shared was too slow, so it is asked for on its own until this moment even if that works.
    apart: Option<Timestamp>,
    /// How often in a row it failed on its own.
    failures: u32,
    /// Not asked for again before this moment, and why.
    rests: Option<(Timestamp, MetricError)>,
}

/// What all queries of one reading share.
struct Context {
    endpoint: Endpoint,
    config: Arc<FeedConfig>,
    ask: Ask,
    at: Timestamp,
    bisections: AtomicUsize,
    /// No query is begun after this.
    deadline: Instant,
    /// Why further queries are pointless, once one has found out.
    down: OnceLock<SourceError>,
}

struct Outcome {
    want: usize,
    result: Result<(Answered, Candidate), MetricError>,
    /// Whether it shared its query.
    alone: bool,
}

impl MetricSource for Prometheus {
    async fn read(&self, ask: Ask) -> Reading {
        let config = self.config.load_full();
        let nodes = Arc::clone(ask.directory.nodes());
        let empty = Reading { at: ask.at, nodes, ..Reading::default() };
        let Some(endpoint) = self.endpoint.clone().or_else(|| config.prometheus.clone()) else {
            let failed = |want: &Want| MetricReading {
                metric: want.metric.clone(),
                outcome: Err(SourceError::NotConfigured.into()),
            };
            return Reading { metrics: ask.wants.iter().map(failed).collect(), ..empty };
        };
        let at =
            Timestamp::from_millis(ask.at.millis() - i64::try_from(endpoint.delay.as_millis()).unwrap_or(0));
        let deadline = Instant::now() + endpoint.timeout * READING_TIMEOUTS;
        let bisections = AtomicUsize::new(0);
        let context = Context { endpoint, config, ask, at, bisections, deadline, down: OnceLock::new() };
        let (items, mut results) = self.items(&context);
        let unions = unions(items, context.ask.directory.nodes().len());
        let mut answers = futures::stream::iter(unions)
            .map(|union| self.resolve(&context, union))
            .buffer_unordered(context.endpoint.concurrency.max(1));
        let mut warnings = Vec::new();
        while let Some((outcomes, warned)) = answers.next().await {
            for outcome in outcomes {
                let want = outcome.want;
                results[want] = Some(self.learn(&context, outcome));
            }
            for warning in warned {
                if warnings.len() < KEPT_WARNINGS && !warnings.contains(&warning) {
                    warnings.push(warning);
                }
            }
        }
        drop(answers);
        let unasked = || Err(SourceError::Broken.into());
        let metrics = context.ask.wants.into_iter().zip(results);
        let metrics = metrics
            .map(|(want, result)| MetricReading {
                metric: want.metric,
                outcome: result.unwrap_or_else(unasked),
            })
            .collect();
        Reading { metrics, warnings, ..empty }
    }
}

impl Prometheus {
    /// Reads from `endpoint` or, without one, from where the configuration says at the time.
    pub fn new(config: Arc<ArcSwap<FeedConfig>>, endpoint: Option<Endpoint>) -> Self {
        let (caller, desk) = (Caller::default(), Desk::new("answers"));
        Self { config, endpoint, caller, desk, known: Mutex::default() }
    }

    /// What to ask for, and what is known without asking.
    fn items(&self, context: &Context) -> (Vec<Item>, Vec<Option<Result<Answered, MetricError>>>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let wants = &context.ask.wants;
        known.retain(|metric, _| wants.iter().any(|want| want.metric == *metric));
        let mut items = Vec::new();
        let mut results = vec![None; wants.len()];
        let around = aligned(context.ask.at, LOOK_AROUND).after(context.ask.step) > context.ask.at;
        for (place, want) in wants.iter().enumerate() {
            let open = candidates(&want.metric, context.config.metrics.get(&want.metric));
            let known = known.entry(want.metric.clone()).or_default();
            let url = &context.endpoint.url;
            if known.looked.as_ref().is_none_or(|(at, ways)| at != url || *ways != open) {
                // The configuration has changed under it, or it is new.
                *known = Known { looked: Some((url.clone(), open.clone())), ..Known::default() };
            }
            if let Some((until, error)) = &known.rests
                && context.ask.at < *until
            {
                results[place] = Some(Err(error.clone()));
                continue;
            }
            items.push(Item {
                want: place,
                candidates: known.found.clone().filter(|_| !around).map_or(open, |found| vec![found]),
                labels: Item::labels(&want.metric, &context.config),
                alone: known.alone || known.apart.is_some_and(|until| context.ask.at < until),
                span: Span::back(want.history, context.ask.step),
            });
        }
        (items, results)
    }

    /// Asks, and asks again in halves while that can tell who is at fault.
    async fn resolve(&self, context: &Context, union: Union) -> (Vec<Outcome>, Vec<String>) {
        let (mut outcomes, mut warnings) = (Vec::new(), Vec::new());
        let mut open = vec![union];
        while let Some(union) = open.pop() {
            let alone = union.items.len() == 1;
            match self.attempt(context, &union).await {
                Ok(Digest { results, warnings: more }) => {
                    warnings.extend(more);
                    let pairs = union.items.iter().zip(results);
                    outcomes.extend(pairs.map(|(item, result)| Outcome { want: item.want, result, alone }));
                }
                Err(error) if error.is_about_the_query() && context.may_bisect() => match narrower(union) {
                    Ok(smaller) => open.extend(smaller),
                    Err(item) => outcomes.push(Outcome { want: item.want, result: Err(error.into()), alone }),
                },
                Err(error) => outcomes.extend(union.items.iter().map(|item| Outcome {
                    want: item.want,
                    result: Err(error.clone().into()),
                    alone,
                })),
            }
        }
        (outcomes, warnings)
    }

    async fn attempt(&self, context: &Context, union: &Union) -> Result<Digest, SourceError> {
        context.may_ask()?;
        let body = self.query(context, union).await.inspect_err(|error| context.note(error))?;
        let union = union.clone();
        let (directory, config) = (Arc::clone(&context.ask.directory), Arc::clone(&context.config));
        let wants = context.ask.wants.clone();
        // Megabytes of JSON are read where they hold nobody up.
        let read = self.desk.run(move || digest(&union, &body, &directory, &config, &wants)).await;
        read.unwrap_or(Err(SourceError::Broken))
    }

    async fn query(&self, context: &Context, union: &Union) -> Result<Bytes, SourceError> {
        let span = union.items.first().map_or(Span::NOW, |item| item.span);
        let timeout = format!("{}ms", context.endpoint.timeout.as_millis());
        let query = ("query", union.text.as_str());
        let end = seconds(context.at);
        if span == Span::NOW {
            let form = [query, ("time", end.as_str()), ("timeout", timeout.as_str())];
            return self.caller.post(&context.endpoint, "/api/v1/query", &form).await;
        }
        let length = i64::try_from(span.length().as_millis()).unwrap_or(0);
        let start = seconds(Timestamp::from_millis(context.at.millis() - length));
        let step = format!("{}ms", span.step.as_millis());
        let form = [
            query,
            ("start", start.as_str()),
            ("end", end.as_str()),
            ("step", step.as_str()),
            ("timeout", timeout.as_str()),
        ];
        self.caller.post(&context.endpoint, "/api/v1/query_range", &form).await
    }

    fn learn(&self, context: &Context, outcome: Outcome) -> Result<Answered, MetricError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(context.ask.wants[outcome.want].metric.clone()).or_default();
        match outcome.result {
            Ok((answered, candidate)) => {
                let (looked, apart) = (known.looked.take(), known.apart);
                *known = Known { looked, found: Some(candidate), apart, ..Known::default() };
                Ok(answered)
            }
            Err(error) => {
                known.failed(&error, outcome.alone, context);
                Err(error)
            }
        }
    }
}

impl Known {
    fn failed(&mut self, error: &MetricError, alone: bool, context: &Context) {
        match error {
            // Nobody else is held up by it, and it may come at any moment.
            MetricError::NotFound { .. } => *self = Self::default(),
            MetricError::Source(source) => {
                let slow = matches!(source, SourceError::Late { .. });
                if !slow && !source.is_about_the_query() {
                    return;
                }
                self.alone = true;
                if slow && !alone {
                    self.apart = Some(context.ask.at.after(APART));
                }
                if alone {
                    self.failures = (self.failures + 1).min(16);
                    let rest = context.ask.step.saturating_mul(1 << self.failures).min(MAX_REST);
                    self.rests = Some((context.ask.at.after(rest), error.clone()));
                }
            }
            MetricError::NoNode { .. } | MetricError::NoValue { .. } | MetricError::Ambiguous { .. } => {}
        }
    }
}

impl Context {
    fn may_ask(&self) -> Result<(), SourceError> {
        match self.down.get() {
            Some(error) => Err(error.clone()),
            None if Instant::now() >= self.deadline => {
                Err(SourceError::late(self.endpoint.timeout * READING_TIMEOUTS))
            }
            None => Ok(()),
        }
    }

    /// A backend that is away, or wants nothing to do with us, says so to every query alike.
    fn note(&self, error: &SourceError) {
        if !error.is_about_the_query() && !matches!(error, SourceError::Late { .. } | SourceError::Broken) {
            let _ = self.down.set(error.clone());
        }
    }

    fn may_bisect(&self) -> bool {
        self.bisections.fetch_add(1, Ordering::Relaxed) < MAX_BISECTIONS
    }
}

/// Smaller queries in place of one that failed; a single metric can still be asked for without its past.
fn narrower(union: Union) -> Result<Vec<Union>, Item> {
    if union.items.len() > 1 {
        return Ok(union.halves().map(|(one, other)| vec![other, one]).unwrap_or_default());
    }
    match union.items.into_iter().next() {
        Some(item) if item.span != Span::NOW => Ok(vec![Union::of(vec![Item { span: Span::NOW, ..item }])]),
        Some(item) => Err(item),
        None => Ok(Vec::new()),
    }
}

/// As the API takes it.
fn seconds(at: Timestamp) -> String {
    let millis = at.millis();
    format!("{}.{:03}", millis.div_euclid(1000), millis.rem_euclid(1000))
}
