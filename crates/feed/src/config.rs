//! The configuration file of the feed: where metrics come from, and how each is queried.
//!
//! Strict: an unknown field is a problem, and all problems are told at once, each with its place.

mod reload;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use engine::names::MetricName;
use engine::quantity::Quantity;

use crate::mapping::{Aggregation, NodeLabels};
use crate::promql::{Kind, Query};
use tree::Piece;

pub use reload::{ConfigFile, ConfigState, Polled};

/// Longest configuration file we take.
pub const MAX_FILE: usize = 1024 * 1024;
/// Most metrics in the file.
pub const MAX_METRICS: usize = 1000;
/// Most labels that may name a node.
pub const MAX_NODE_LABELS: usize = 16;

/// Everything the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedConfig {
    /// Where Prometheus is, if the file says so.
    pub prometheus: Option<Endpoint>,
    /// Which labels name the node of a series.
    pub node_labels: NodeLabels,
    /// How metrics are queried that are not found by their name alone.
    pub metrics: BTreeMap<MetricName, MetricConfig>,
    /// Metrics to keep beside those that policies name.
    pub extra_metrics: Vec<MetricName>,
}

/// A backend and how we talk to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Up to where `/api/v1` begins.
    pub url: http::Uri,
    /// A file with a bearer token, read again for each request.
    pub token_file: Option<PathBuf>,
    /// A file with the certificates to trust, read again when it changes; without it, those of the system.
    pub ca_file: Option<PathBuf>,
    /// Further headers, such as a tenant's.
    pub headers: BTreeMap<String, String>,
    /// For one request, from connecting to the last byte.
    pub timeout: Duration,
    /// Requests at the same time.
    pub concurrency: usize,
    /// Longest answer.
    pub max_response: usize,
    /// How far in the past queries are evaluated, for backends that learn of samples late.
    pub delay: Duration,
}

/// Default of [`Endpoint::timeout`].
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Default of [`Endpoint::concurrency`].
pub const DEFAULT_CONCURRENCY: usize = 4;
/// Default of [`Endpoint::max_response`].
pub const DEFAULT_MAX_RESPONSE: usize = 64 * 1024 * 1024;

impl Endpoint {
    /// This address with every default.
    pub fn new(url: &str) -> Result<Self, String> {
        Ok(Self {
            url: address(url)?,
            token_file: None,
            ca_file: None,
            headers: BTreeMap::new(),
            timeout: DEFAULT_TIMEOUT,
            concurrency: DEFAULT_CONCURRENCY,
            max_response: DEFAULT_MAX_RESPONSE,
            delay: Duration::ZERO,
        })
    }
}

/// How one metric is queried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricConfig {
    /// What gives its values, one per node.
    pub query: Query,
    /// What gives their ages in seconds; for expressions, whose values carry no time of their own.
    pub age_query: Option<Query>,
    /// What several series of a node come to.
    pub aggregation: Option<Aggregation>,
    /// Labels that name the node, where they differ from the rest.
    pub node_labels: Option<NodeLabels>,
}

/// One thing that is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where, like `metrics.power.query`; empty for the file as a whole.
    pub path: String,
    /// What, and the way out.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            f.write_str(&self.message)
        } else {
            write!(f, "{}: {}", self.path, self.message)
        }
    }
}

/// Reads the file's text.
pub fn parse(text: &str) -> Result<FeedConfig, Vec<Problem>> {
    let whole = |message: String| vec![Problem { path: String::new(), message }];
    if text.len() > MAX_FILE {
        return Err(whole(format!("the file has {} bytes; {MAX_FILE} are allowed", text.len())));
    }
    if text.trim().is_empty() {
        return Ok(FeedConfig::default());
    }
    // A metric may well be called `y` or `on`: only true and false are booleans.
    let options = serde_saphyr::options! { strict_booleans: true };
    let root: Piece =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| whole(error.to_string()))?;
    let mut reader = Reader::default();
    let config = reader.config(&root);
    if reader.problems.is_empty() { Ok(config) } else { Err(reader.problems) }
}

#[derive(Default)]
struct Reader {
    problems: Vec<Problem>,
}

/// Where a piece stands.
#[derive(Clone, Copy)]
struct At<'a> {
    above: Option<&'a At<'a>>,
    name: &'a str,
}

impl<'a> At<'a> {
    const ROOT: At<'static> = At { above: None, name: "" };

    fn key(&'a self, name: &'a str) -> At<'a> {
        At { above: Some(self), name }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(above) = self.above.filter(|above| !above.name.is_empty()) {
            write!(f, "{above}.")?;
        }
        f.write_str(self.name)
    }
}

impl Reader {
    fn problem(&mut self, at: At<'_>, message: impl Into<String>) {
        self.problems.push(Problem { path: at.to_string(), message: message.into() });
    }

    /// The fields of a map that are known; the others are problems.
    fn fields<'p, const N: usize>(
        &mut self,
        at: At<'_>,
        piece: &'p Piece,
        known: [&str; N],
    ) -> [Option<&'p Piece>; N] {
        let mut found = [None; N];
        match piece {
            Piece::Nothing => {}
            Piece::Map(entries) => {
                for (key, value) in entries {
                    match known.iter().position(|name| name == key) {
                        Some(place) => found[place] = Some(value).filter(|piece| **piece != Piece::Nothing),
                        None => self
                            .problem(at.key(key), format!("unknown field; known are {}", known.join(", "))),
                    }
                }
            }
            other => self.problem(at, format!("expected a map, found {}", other.words())),
        }
        found
    }

    fn config(&mut self, root: &Piece) -> FeedConfig {
        let at = At::ROOT;
        let [prometheus, labels, metrics, extra] =
            self.fields(at, root, ["prometheus", "nodeLabels", "metrics", "extraMetrics"]);
        FeedConfig {
            prometheus: prometheus.and_then(|piece| self.endpoint(at.key("prometheus"), piece)),
            node_labels: labels.map(|piece| self.labels(at.key("nodeLabels"), piece)).unwrap_or_default(),
            metrics: metrics.map(|piece| self.metrics(at.key("metrics"), piece)).unwrap_or_default(),
            extra_metrics: extra.map(|piece| self.names(at.key("extraMetrics"), piece)).unwrap_or_default(),
        }
    }

    fn endpoint(&mut self, at: At<'_>, piece: &Piece) -> Option<Endpoint> {
        let [url, token, ca, headers, timeout, concurrency, max_response, delay] = self.fields(
            at,
            piece,
            ["url", "tokenFile", "caFile", "headers", "timeout", "concurrency", "maxResponse", "delay"],
        );
        let url = match url {
            None => {
                self.problem(at.key("url"), "missing; write it like https://prometheus.monitoring.svc:9090");
                None
            }
            Some(piece) => self
                .text(at.key("url"), piece)
                .and_then(|text| self.checked(at.key("url"), Endpoint::new(text))),
        };
        let second = Duration::from_secs(1);
        let timeout =
            timeout.and_then(|piece| self.duration(at.key("timeout"), piece, second / 10, second * 300));
        let delay =
            delay.and_then(|piece| self.duration(at.key("delay"), piece, Duration::ZERO, second * 300));
        let concurrency = concurrency.and_then(|piece| self.whole(at.key("concurrency"), piece, 1, 64));
        let max_response = max_response
            .and_then(|piece| self.whole(at.key("maxResponse"), piece, 64 * 1024, 1024 * 1024 * 1024));
        let headers = headers.map(|piece| self.headers(at.key("headers"), piece)).unwrap_or_default();
        let token_file = token.and_then(|piece| self.text(at.key("tokenFile"), piece)).map(PathBuf::from);
        let ca_file = ca.and_then(|piece| self.text(at.key("caFile"), piece)).map(PathBuf::from);
        let plain = url?;
        Some(Endpoint {
            token_file,
            ca_file,
            headers,
            timeout: timeout.unwrap_or(plain.timeout),
            concurrency: concurrency.unwrap_or(plain.concurrency),
            max_response: max_response.unwrap_or(plain.max_response),
            delay: delay.unwrap_or(plain.delay),
            ..plain
        })
    }

    fn headers(&mut self, at: At<'_>, piece: &Piece) -> BTreeMap<String, String> {
        let mut headers = BTreeMap::new();
        for (name, value) in self.entries(at, piece) {
            let here = at.key(name);
            let Some(value) = self.text(here, value) else { continue };
            if name.eq_ignore_ascii_case("authorization") {
                self.problem(
                    here,
                    "put the token into a file and name it under tokenFile: this file is no secret",
                );
            } else if http::HeaderName::try_from(name).is_err() || http::HeaderValue::try_from(value).is_err()
            {
                self.problem(here, "not a header name and value");
            } else {
                headers.insert(name.to_owned(), value.to_owned());
            }
        }
        headers
    }

    fn metrics(&mut self, at: At<'_>, piece: &Piece) -> BTreeMap<MetricName, MetricConfig> {
        let mut metrics = BTreeMap::new();
        let entries = self.entries(at, piece);
        if entries.len() > MAX_METRICS {
            self.problem(at, format!("{} metrics; {MAX_METRICS} are allowed", entries.len()));
            return metrics;
        }
        for (name, piece) in entries {
            let here = at.key(name);
            let name = self.checked(here, MetricName::new(name));
            let metric = self.metric(here, piece);
            if let (Some(name), Some(metric)) = (name, metric) {
                metrics.insert(name, metric);
            }
        }
        metrics
    }

    fn metric(&mut self, at: At<'_>, piece: &Piece) -> Option<MetricConfig> {
        let [query, age_query, aggregation, labels] =
            self.fields(at, piece, ["query", "ageQuery", "aggregation", "nodeLabels"]);
        if query.is_none() {
            self.problem(at.key("query"), "missing; write PromQL that gives one value per node");
        }
        let query = query.and_then(|piece| self.query(at.key("query"), piece));
        let age_query = age_query.and_then(|piece| self.query(at.key("ageQuery"), piece));
        if age_query.is_some() && query.as_ref().is_some_and(|query| query.kind() == Kind::Selector) {
            self.problem(
                at.key("ageQuery"),
                "the query is a plain selector, whose samples carry their own time; leave ageQuery out",
            );
        }
        let aggregation = aggregation.and_then(|piece| {
            let text = self.text(at.key("aggregation"), piece)?;
            let known = Aggregation::ALL.iter().find(|(name, _)| *name == text);
            if known.is_none() {
                self.problem(at.key("aggregation"), format!("{text:?} is not one of max, min, sum, avg"));
            }
            known.map(|(_, aggregation)| *aggregation)
        });
        let node_labels = labels.map(|piece| self.labels(at.key("nodeLabels"), piece));
        Some(MetricConfig { query: query?, age_query, aggregation, node_labels })
    }

    fn labels(&mut self, at: At<'_>, piece: &Piece) -> NodeLabels {
        let mut labels = Vec::new();
        for piece in self.items(at, piece) {
            let Some(text) = self.text(at, piece) else { continue };
            let mut chars = text.chars();
            let starts_well = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
            if !starts_well || !chars.all(|c| c.is_ascii_alphanumeric() || c == '_') {
                self.problem(at, format!("{text:?} is not a label name"));
            }
            labels.push(text.to_owned());
        }
        if labels.is_empty() || labels.len() > MAX_NODE_LABELS {
            self.problem(
                at,
                format!("{} labels; name 1 to {MAX_NODE_LABELS}, the most telling first", labels.len()),
            );
        }
        NodeLabels(labels.into())
    }

    fn names(&mut self, at: At<'_>, piece: &Piece) -> Vec<MetricName> {
        let items = self.items(at, piece);
        if items.len() > MAX_METRICS {
            self.problem(at, format!("{} metrics; {MAX_METRICS} are allowed", items.len()));
            return Vec::new();
        }
        let texts: Vec<_> = items.iter().filter_map(|piece| self.text(at, piece)).collect();
        texts.into_iter().filter_map(|text| self.checked(at, MetricName::new(text))).collect()
    }

    fn query(&mut self, at: At<'_>, piece: &Piece) -> Option<Query> {
        let text = match piece {
            Piece::Number(text) => text,
            other => self.text(at, other)?,
        };
        self.checked(at, Query::new(text))
    }

    fn text<'p>(&mut self, at: At<'_>, piece: &'p Piece) -> Option<&'p str> {
        match piece {
            Piece::Text(text) if !text.is_empty() => Some(text),
            Piece::Text(_) => {
                self.problem(at, "empty");
                None
            }
            other => {
                self.problem(at, format!("expected a text, found {}", other.words()));
                None
            }
        }
    }

    fn whole(&mut self, at: At<'_>, piece: &Piece, least: usize, most: usize) -> Option<usize> {
        let (Piece::Text(text) | Piece::Number(text)) = piece else {
            self.problem(at, format!("expected a number, found {}", piece.words()));
            return None;
        };
        let number = text.parse::<Quantity>().ok().filter(|number| number.is_whole());
        let number = number.and_then(|number| usize::try_from(number.nanos() / 1_000_000_000).ok());
        let number = number.filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.problem(at, format!("{text:?} is not a whole number from {least} to {most}"));
        }
        number
    }

    fn duration(&mut self, at: At<'_>, piece: &Piece, least: Duration, most: Duration) -> Option<Duration> {
        let (Piece::Text(text) | Piece::Number(text)) = piece else {
            self.problem(at, format!("expected a duration like 10s, found {}", piece.words()));
            return None;
        };
        let duration = api::duration::parse(text).ok().filter(|duration| (least..=most).contains(duration));
        if duration.is_none() {
            self.problem(
                at,
                format!("{text:?} is not a duration from {least:?} to {most:?}; write it like 10s"),
            );
        }
        duration
    }

    fn entries<'p>(&mut self, at: At<'_>, piece: &'p Piece) -> Vec<(&'p str, &'p Piece)> {
        match piece {
            Piece::Map(entries) => entries.iter().map(|(key, value)| (key.as_str(), value)).collect(),
            other => {
                self.problem(at, format!("expected a map, found {}", other.words()));
                Vec::new()
            }
        }
    }

    fn items<'p>(&mut self, at: At<'_>, piece: &'p Piece) -> &'p [Piece] {
        match piece {
            Piece::List(items) => items,
            other => {
                self.problem(at, format!("expected a list, found {}", other.words()));
                &[]
            }
        }
    }

    fn checked<T, E: fmt::Display>(&mut self, at: At<'_>, result: Result<T, E>) -> Option<T> {
        result.map_err(|error| self.problem(at, error.to_string())).ok()
    }
}

fn address(text: &str) -> Result<http::Uri, String> {
    let url: http::Uri = text.parse().map_err(|_| {
        format!("{text:?} is not a URL; write it like https://prometheus.monitoring.svc:9090")
    })?;
    if !matches!(url.scheme_str(), Some("http" | "https")) || url.host().is_none_or(str::is_empty) {
        return Err(format!(
            "{text:?} has no scheme and host; write it like https://prometheus.monitoring.svc:9090"
        ));
    }
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(
            "the URL holds a password; put a token into a file and name it under tokenFile".to_owned()
        );
    }
    if url.query().is_some() {
        return Err(format!("{text:?} has a query; leave it out"));
    }
    Ok(url)
}

#[cfg(test)]
mod tests;
