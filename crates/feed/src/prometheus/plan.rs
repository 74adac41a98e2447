//! Which queries bring the metrics asked for, as few as possible.
//!
//! Every metric contributes parts to one union: its values, and when they were taken. Series found by name are told
//! apart by that name; every other part is tagged, as PromQL's functions drop names.

use std::collections::BTreeMap;
use std::time::Duration;

use engine::names::MetricName;

use crate::config::{FeedConfig, MetricConfig};
use crate::mapping::{NodeLabels, Role};
use crate::prometheus::decode::{Series, TAG};
use crate::promql::{Kind, Query};

/// Longest union; VictoriaMetrics takes 16 KiB.
const MAX_UNION: usize = 14 * 1024;
/// Most evaluations in one look back.
const MAX_STEPS: u32 = 240;
/// How many values one answer should hold at most.
const POINTS_PER_QUERY: usize = 20_000;

/// One way to find a metric, in one or more parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// The query that has the values.
    pub(super) query: Query,
    /// The series' name, where the query is nothing but that.
    name: Option<String>,
    /// Where ages come from.
    age: Option<Query>,
    /// Whether it may bring several series of a node.
    several: bool,
}

impl Candidate {
    /// Who answered, for people: a bare name is enough where there is one.
    pub(super) fn words(&self) -> &str {
        self.name.as_deref().unwrap_or_else(|| self.query.as_str())
    }
}

/// The ways to find a metric, the likeliest first.
pub(super) fn candidates(metric: &MetricName, configured: Option<&MetricConfig>) -> Vec<Candidate> {
    if let Some(configured) = configured {
        let (query, age) = (configured.query.clone(), configured.age_query.clone());
        return vec![Candidate { query, name: None, age, several: configured.aggregation.is_some() }];
    }
    let named =
        |name: String| Candidate { query: Query::named(&name), name: Some(name), age: None, several: false };
    let own = metric.as_str().to_owned();
    // Intel's adapter serves node_health as health, and policies name what it serves.
    let prefixed = (!own.starts_with("node_")).then(|| format!("node_{own}"));
    std::iter::once(own).chain(prefixed).map(named).collect()
}

/// A metric to be asked for.
#[derive(Clone, Debug)]
pub(super) struct Item {
    /// Its place among the metrics asked for.
    pub(super) want: usize,
    /// The ways to find it that are still open.
    pub(super) candidates: Vec<Candidate>,
    /// Labels that name its nodes.
    pub(super) labels: NodeLabels,
    /// Not to share a query with others: it has failed before.
    pub(super) alone: bool,
    /// Which evaluations the query spans.
    pub(super) span: Span,
}

/// Evaluations that end at the moment asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    /// How many before that moment.
    pub(super) steps: u32,
    /// How far apart.
    pub(super) step: Duration,
}

impl Span {
    /// The moment alone.
    pub(super) const NOW: Self = Self { steps: 0, step: Duration::ZERO };

    /// As far back as asked, in steps of the sync period or, if those were too many, in longer ones.
    pub(super) fn back(history: Duration, step: Duration) -> Self {
        let step = step.max(Duration::from_millis(1));
        if history.is_zero() {
            return Self::NOW;
        }
        let stretch = history.as_millis().div_ceil(step.as_millis() * u128::from(MAX_STEPS)).max(1);
        let step = step * u32::try_from(stretch).unwrap_or(u32::MAX);
        let steps = history.as_millis().div_ceil(step.as_millis());
        Self { steps: u32::try_from(steps).unwrap_or(MAX_STEPS).min(MAX_STEPS), step }
    }

    /// How far back that is.
    pub(super) fn length(self) -> Duration {
        self.step * self.steps
    }
}

impl Item {
    pub(super) fn labels(metric: &MetricName, config: &FeedConfig) -> NodeLabels {
        let own = config.metrics.get(metric).and_then(|configured| configured.node_labels.clone());
        own.unwrap_or_else(|| config.node_labels.clone())
    }
}

/// What a series of a union's answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The place of its item in the query.
    pub(super) item: usize,
    /// Which of the item's candidates.
    pub(super) candidate: usize,
    /// What it tells.
    pub(super) role: Role,
}

/// Several metrics in one query.
#[derive(Clone, Debug)]
pub(super) struct Union {
    /// Which metrics.
    pub(super) items: Vec<Item>,
    /// The PromQL.
    pub(super) text: String,
    by_tag: BTreeMap<String, Part>,
    by_name: BTreeMap<String, Vec<Part>>,
}

impl Union {
    pub(super) fn of(items: Vec<Item>) -> Self {
        let (mut by_tag, mut by_name) = (BTreeMap::new(), BTreeMap::<String, Vec<Part>>::new());
        let mut tagged: Vec<String> = Vec::new();
        for (place, item) in items.iter().enumerate() {
            for (way, candidate) in item.candidates.iter().enumerate() {
                let part = |role| Part { item: place, candidate: way, role };
                let mut add = |role, kind: &str, query: String| {
                    let tag = format!("{kind}{place}.{way}");
                    // The line ends keep a comment at the end of a query to itself.
                    tagged.push(format!("label_replace(\n{query}\n,\"{TAG}\",\"{tag}\",\"\",\"\")"));
                    by_tag.insert(tag, part(role));
                };
                match &candidate.name {
                    Some(name) => by_name.entry(name.clone()).or_default().push(part(Role::Value)),
                    None => add(Role::Value, "v", candidate.query.to_string()),
                }
                if candidate.query.kind() == Kind::Selector {
                    // The oldest of a node is all we need, with no more labels than tell the node; where there may
                    // be several, the newest tells that one of them has changed.
                    let labels = item.labels.0.join(",");
                    let times = |which| format!("{which} by ({labels}) (timestamp({}))", candidate.query);
                    add(Role::Taken, "t", times("min"));
                    if candidate.several {
                        add(Role::Newest, "n", times("max"));
                    }
                }
                if let Some(age) = &candidate.age {
                    add(Role::Age, "a", age.to_string());
                }
            }
        }
        let names: Vec<&str> = by_name.keys().map(String::as_str).collect();
        let selector = format!("{{__name__=~\"{}\"}}", names.join("|"));
        let text = match (names.is_empty(), tagged.is_empty()) {
            (true, _) => joined(&tagged),
            (false, true) => selector,
            (false, false) => format!("{selector} or {}", joined(&tagged)),
        };
        Self { items, text, by_tag, by_name }
    }

    /// What a series of the answer is; nothing if it was not asked for.
    pub(super) fn parts(&self, series: &Series<'_, '_>) -> &[Part] {
        match series.label(TAG) {
            Some(tag) => self.by_tag.get(tag).map(std::slice::from_ref).unwrap_or_default(),
            None => series
                .label("__name__")
                .and_then(|name| self.by_name.get(name))
                .map(Vec::as_slice)
                .unwrap_or_default(),
        }
    }

    /// The two halves, to find out which of them is at fault.
    pub(super) fn halves(mut self) -> Option<(Self, Self)> {
        if self.items.len() < 2 {
            return None;
        }
        let second = self.items.split_off(self.items.len() / 2);
        Some((Self::of(self.items), Self::of(second)))
    }
}

/// Parts as one expression. Prometheus compares everything left of an `or` with what is right of it, so one after the
/// other would look at the first part as often as there are parts.
fn joined(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        several => {
            let (first, second) = several.split_at(several.len() / 2);
            format!("({} or {})", joined(first), joined(second))
        }
    }
}

/// The queries for these metrics on so many nodes: few enough values in each to be read without much memory.
pub(super) fn unions(items: Vec<Item>, nodes: usize) -> Vec<Union> {
    let mut unions = Vec::new();
    let mut open: BTreeMap<Span, (Vec<Item>, usize, usize)> = BTreeMap::new();
    for item in items {
        if item.alone {
            unions.push(Union::of(vec![item]));
            continue;
        }
        let parts_of = |c: &Candidate| 2 + usize::from(c.age.is_some()) + usize::from(c.several);
        let parts: usize = item.candidates.iter().map(parts_of).sum();
        let points = parts * nodes.max(1) * (item.span.steps as usize + 1);
        let bytes = Union::of(vec![item.clone()]).text.len() + 8;
        // Only metrics that look equally far back can share a query.
        let (shared, points_so_far, bytes_so_far) = open.entry(item.span).or_default();
        if !shared.is_empty()
            && (*points_so_far + points > POINTS_PER_QUERY || *bytes_so_far + bytes > MAX_UNION)
        {
            unions.push(Union::of(std::mem::take(shared)));
            (*points_so_far, *bytes_so_far) = (0, 0);
        }
        shared.push(item);
        *points_so_far += points;
        *bytes_so_far += bytes;
    }
    unions.extend(
        open.into_values().filter(|(items, ..)| !items.is_empty()).map(|(items, ..)| Union::of(items)),
    );
    unions
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use engine::fixtures::metric;

    use super::*;
    use crate::mapping::Aggregation;
    use crate::prometheus::decode::Refused;

    fn item(name: &str, configured: Option<&MetricConfig>) -> Item {
        let candidates = candidates(&metric(name), configured);
        Item {
            want: 0,
            candidates,
            labels: NodeLabels(["node".to_owned()].into()),
            alone: false,
            span: Span::NOW,
        }
    }

    fn configured(text: &str, age: Option<&str>) -> MetricConfig {
        let query = |text: &str| Query::new(text).unwrap();
        MetricConfig { query: query(text), age_query: age.map(query), aggregation: None, node_labels: None }
    }

    fn parts(union: &Union, labels: &[(&str, &str)]) -> Vec<(usize, usize, Role)> {
        let labels: Vec<_> = labels.iter().map(|&(k, v)| (Cow::Borrowed(k), Cow::Borrowed(v))).collect();
        let series = Series { labels: &labels, points: &[], refused: Refused::default() };
        union.parts(&series).iter().map(|part| (part.item, part.candidate, part.role)).collect()
    }

    #[test]
    fn names_share_one_selector_and_each_brings_its_times() {
        let union = Union::of(vec![item("power", None), item("node_power", None)]);
        assert_eq!(
            union.text.replace('\n', ""),
            concat!(
                r#"{__name__=~"node_power|power"}"#,
                r#" or (label_replace(min by (node) (timestamp({__name__="power"})),"tas_part","t0.0","","")"#,
                r#" or (label_replace(min by (node) (timestamp({__name__="node_power"})),"tas_part","t0.1","","")"#,
                r#" or label_replace(min by (node) (timestamp({__name__="node_power"})),"tas_part","t1.0","","")))"#,
            )
        );
        assert_eq!(parts(&union, &[("__name__", "power")]), [(0, 0, Role::Value)]);
        assert_eq!(parts(&union, &[("__name__", "node_power")]), [(0, 1, Role::Value), (1, 0, Role::Value)]);
        assert_eq!(parts(&union, &[("tas_part", "t0.1")]), [(0, 1, Role::Taken)]);
        assert_eq!(parts(&union, &[("__name__", "other")]), []);
        assert_eq!(parts(&union, &[]), []);
    }

    #[test]
    fn an_expression_brings_its_age_query_and_a_selector_its_times() {
        let sum = configured("sum(x) # all", Some("time() - timestamp(x)"));
        let plain = configured("x{a=\"b\"}", None);
        let union = Union::of(vec![item("a", Some(&sum)), item("b", Some(&plain))]);
        assert_eq!(
            union.text,
            concat!(
                "((label_replace(\nsum(x) # all\n,\"tas_part\",\"v0.0\",\"\",\"\")",
                " or label_replace(\ntime() - timestamp(x)\n,\"tas_part\",\"a0.0\",\"\",\"\"))",
                " or (label_replace(\nx{a=\"b\"}\n,\"tas_part\",\"v1.0\",\"\",\"\")",
                " or label_replace(\nmin by (node) (timestamp(x{a=\"b\"}))\n,\"tas_part\",\"t1.0\",\"\",\"\")))",
            )
        );
        assert_eq!(parts(&union, &[("tas_part", "a0.0")]), [(0, 0, Role::Age)]);
        assert_eq!(parts(&union, &[("__name__", "x"), ("tas_part", "v1.0")]), [(1, 0, Role::Value)]);
    }

    #[test]
    fn where_a_node_may_have_several_series_the_newest_time_is_asked_for_too() {
        let several = MetricConfig { aggregation: Some(Aggregation::Sum), ..configured("x", None) };
        let union = Union::of(vec![item("a", Some(&several))]);
        assert_eq!(
            union.text.replace('\n', ""),
            concat!(
                r#"(label_replace(x,"tas_part","v0.0","","")"#,
                r#" or (label_replace(min by (node) (timestamp(x)),"tas_part","t0.0","","")"#,
                r#" or label_replace(max by (node) (timestamp(x)),"tas_part","n0.0","","")))"#,
            )
        );
        assert_eq!(parts(&union, &[("tas_part", "n0.0")]), [(0, 0, Role::Newest)]);
    }

    #[test]
    fn metrics_share_queries_up_to_a_size_and_never_with_one_that_failed() {
        let items = |count: usize| (0..count).map(|n| item(&format!("node_m{n}"), None)).collect::<Vec<_>>();
        let sizes =
            |items, nodes| unions(items, nodes).iter().map(|union| union.items.len()).collect::<Vec<_>>();
        assert_eq!(sizes(items(50), 10), [50]);
        assert_eq!(sizes(items(50), 5000), [2; 25]);
        assert_eq!(sizes(items(2), 1_000_000), [1, 1]);
        let mut some = items(4);
        some[1].alone = true;
        some[2].span.steps = 30;
        assert_eq!(sizes(some, 10), [1, 2, 1]);
        assert!(unions(items(500), 10).iter().all(|union| union.text.len() <= MAX_UNION));
        assert_eq!(sizes(vec![], 10), [0_usize; 0]);
    }

    #[test]
    fn a_look_back_reaches_far_enough_in_a_bounded_number_of_steps() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_mins(1));
        assert_eq!(Span::back(Duration::ZERO, 5 * second), Span::NOW);
        assert_eq!(Span::back(minute, 5 * second), Span { steps: 12, step: 5 * second });
        assert_eq!(Span::back(62 * second, 5 * second), Span { steps: 13, step: 5 * second });
        assert_eq!(Span::back(60 * minute, 2 * second), Span { steps: 225, step: 16 * second });
        assert_eq!(Span::back(minute, Duration::ZERO).length(), minute);
    }

    #[test]
    fn halves_lose_nothing() {
        let union = Union::of((0..5).map(|n| item(&format!("m{n}"), None)).collect());
        let (one, other) = union.halves().unwrap();
        assert_eq!((one.items.len(), other.items.len()), (2, 3));
        assert!(Union::of(vec![item("m", None)]).halves().is_none());
    }
}
