//! The custom metrics API of Kubernetes, as Intel TAS reads it: whatever adapter serves it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api::keys::CUSTOM_METRICS_GROUP;
use bytes::Bytes;
use engine::Sample;
use engine::names::MetricName;
use engine::quantity::{Quantity, QuantityError};
use engine::time::Timestamp;
use futures::StreamExt;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::Client;
use kube::client::Body;
use serde::Deserialize;
use tokio::time::Instant;

use crate::directory::{Directory, Meaning};
use crate::mapping::Gathered;
use crate::prometheus::decode::shortened;
use crate::source::{
    Answered, Ask, MetricError, MetricReading, MetricSource, READING_TIMEOUTS, Reading, SourceError,
};

/// The versions we understand, in the order of preference where the API server has none.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// How long the version is taken for granted; Intel TAS never asks again.
const REDISCOVER: Duration = Duration::from_mins(5);

/// What one request may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CustomLimits {
    /// From a request to the last byte of its answer.
    pub timeout: Duration,
    /// Longest answer.
    pub max_response: usize,
    /// Requests at the same time.
    pub concurrency: usize,
}

impl Default for CustomLimits {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(10), max_response: 32 * 1024 * 1024, concurrency: 4 }
    }
}

/// Reads metrics from `custom.metrics.k8s.io`.
pub struct CustomMetrics {
    client: Client,
    limits: CustomLimits,
    version: Mutex<Option<(&'static str, Instant)>>,
}

impl std::fmt::Debug for CustomMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CustomMetrics").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl MetricSource for CustomMetrics {
    async fn read(&self, ask: Ask) -> Reading {
        let nodes = Arc::clone(ask.directory.nodes());
        let version = self.version().await;
        let patience = self.limits.timeout * READING_TIMEOUTS;
        let (deadline, late) = (Instant::now() + patience, &SourceError::late(patience));
        let (shared, found) = (&ask, &version);
        let metrics = futures::stream::iter(0..ask.wants.len())
            .map(move |place| async move {
                let metric = shared.wants[place].metric.clone();
                let outcome = match found {
                    Ok(_) if Instant::now() >= deadline => Err(late.clone().into()),
                    Ok(version) => self.metric(version, &metric, &shared.directory).await,
                    Err(error) => Err(error.clone().into()),
                };
                MetricReading { metric, outcome }
            })
            .buffered(self.limits.concurrency.max(1));
        let metrics: Vec<MetricReading> = metrics.collect().await;
        if !metrics.is_empty() && metrics.iter().all(|metric| metric.outcome.is_err()) {
            // Perhaps another version is served now.
            *self.version.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
        Reading { at: ask.at, nodes, metrics, warnings: Vec::new() }
    }
}

impl CustomMetrics {
    /// Reads through this client.
    pub fn new(client: Client, limits: CustomLimits) -> Self {
        Self { client, limits, version: Mutex::default() }
    }

    async fn version(&self) -> Result<&'static str, SourceError> {
        let known = *self.version.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((version, learnt)) = known
            && learnt.elapsed() < REDISCOVER
        {
            return Ok(version);
        }
        let (status, body) = self.get(&format!("/apis/{CUSTOM_METRICS_GROUP}")).await?;
        let version = match status {
            StatusCode::NOT_FOUND => None,
            _ => preferred(&checked(status, body)?)?,
        };
        let Some(version) = version else {
            return Err(SourceError::Status {
                status: status.as_u16(),
                said: format!(
                    "{CUSTOM_METRICS_GROUP} is not served; install a metrics adapter, or use --metrics prometheus"
                ),
            });
        };
        *self.version.lock().unwrap_or_else(PoisonError::into_inner) = Some((version, Instant::now()));
        Ok(version)
    }

    async fn metric(
        &self,
        version: &str,
        metric: &MetricName,
        directory: &Directory,
    ) -> Result<Answered, MetricError> {
        let path = format!("/apis/{CUSTOM_METRICS_GROUP}/{version}/nodes/%2A/{metric}");
        let (status, body) = self.get(&path).await?;
        if status == StatusCode::NOT_FOUND {
            return Err(MetricError::NotFound {
                looked_for: format!("nodes/*/{metric} in {CUSTOM_METRICS_GROUP}/{version}"),
            });
        }
        let gathered = gather(&checked(status, body)?, directory)?;
        if gathered.samples.is_empty() {
            let refused = gathered.refused;
            return Err(match gathered.unmapped.shown.into_iter().next() {
                Some(example) => MetricError::NoNode { count: gathered.unmapped.count, example },
                None if refused.total() == 0 => MetricError::NotFound { looked_for: path },
                None => MetricError::NoValue {
                    not_finite: refused.not_finite,
                    histograms: 0,
                    other: refused.out_of_range + refused.unreadable,
                },
            });
        }
        Ok(Answered { by: format!("nodes/*/{metric}"), history: Duration::ZERO, gathered })
    }

    async fn get(&self, path: &str) -> Result<(StatusCode, Bytes), SourceError> {
        let exchange = tokio::time::timeout(self.limits.timeout, self.exchange(path));
        exchange.await.map_err(|_| SourceError::late(self.limits.timeout))?
    }

    async fn exchange(&self, path: &str) -> Result<(StatusCode, Bytes), SourceError> {
        let unreachable = |reason: String| SourceError::Unreachable {
            host: "the API server".to_owned(),
            reason: shortened(&reason, 160),
        };
        let request = Request::get(path).header(http::header::ACCEPT, "application/json").body(Body::empty());
        let request = request.map_err(|error| unreachable(error.to_string()))?;
        let answer = self.client.send(request).await.map_err(|error| unreachable(error.to_string()))?;
        let (parts, body) = answer.into_parts();
        let limit = self.limits.max_response;
        match Limited::new(body, limit).collect().await {
            Ok(collected) => Ok((parts.status, collected.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => Err(SourceError::TooLarge { limit }),
            Err(_) => Err(SourceError::Broken),
        }
    }
}

fn checked(status: StatusCode, body: Bytes) -> Result<Bytes, SourceError> {
    match status.as_u16() {
        200..=299 => Ok(body),
        code @ (401 | 403) => Err(SourceError::Denied {
            status: code,
            hint: format!(
                "grant get on nodes/* of {CUSTOM_METRICS_GROUP}, as deploy/rbac/tas-serve.yaml does"
            ),
        }),
        code => {
            let said = String::from_utf8_lossy(&body[..body.len().min(400)]).trim().to_owned();
            Err(SourceError::Status { status: code, said: shortened(&said, 160) })
        }
    }
}

/// The version the API server prefers, if we know it; else the first that we do.
fn preferred(group: &[u8]) -> Result<Option<&'static str>, SourceError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Group {
        #[serde(default)]
        versions: Vec<Version>,
        preferred_version: Option<Version>,
    }
    #[derive(Deserialize)]
    struct Version {
        version: String,
    }
    let group: Group = serde_json::from_slice(group).map_err(|error| malformed(&error))?;
    let known = |version: &Version| VERSIONS.into_iter().find(|known| *known == version.version);
    Ok(group.preferred_version.as_ref().and_then(known).or_else(|| {
        VERSIONS.into_iter().find(|known| group.versions.iter().any(|version| version.version == *known))
    }))
}

fn malformed(error: &serde_json::Error) -> SourceError {
    SourceError::NoMetricList { reason: shortened(&error.to_string(), 160) }
}

/// Both versions carry what we need under the same names.
fn gather(list: &[u8], directory: &Directory) -> Result<Gathered, MetricError> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        items: Vec<Item>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Item {
        described_object: Described,
        timestamp: String,
        value: String,
    }
    #[derive(Deserialize)]
    struct Described {
        #[serde(default)]
        name: String,
    }
    let list: List = serde_json::from_slice(list).map_err(|error| malformed(&error))?;
    let mut gathered = Gathered::default();
    for item in list.items {
        let Meaning::Node(node) = directory.find(&item.described_object.name) else {
            gathered.unmapped.note(|| format!("{:?}", item.described_object.name));
            continue;
        };
        let taken = item.timestamp.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond);
        match (item.value.parse::<Quantity>(), taken) {
            (Ok(value), Ok(millis)) => {
                gathered.samples.push((node, Sample::new(value, Timestamp::from_millis(millis))));
            }
            (Err(QuantityError::NotFinite { .. }), _) => gathered.refused.not_finite += 1,
            (Err(QuantityError::OutOfRange { .. }), _) => gathered.refused.out_of_range += 1,
            _ => gathered.refused.unreadable += 1,
        }
    }
    gathered.samples.sort_by_key(|&(node, sample)| (node, sample.taken));
    let twice = gathered.samples.windows(2).find(|pair| pair[0].0 == pair[1].0);
    if let Some([(node, one), (_, other)]) = twice {
        let name = directory.nodes().name(*node);
        let text = |sample: &Sample| format!("{name} = {}", sample.value);
        return Err(MetricError::Ambiguous { one: text(one), other: text(other) });
    }
    Ok(gathered)
}

#[cfg(test)]
mod tests;
