//! From one answer to the samples of all the metrics that shared it.

use crate::config::FeedConfig;
use crate::directory::Directory;
use crate::mapping::{Ambiguity, Gather};
use crate::source::{Answered, MetricError, SourceError, Want};

use super::decode::{DecodeError, DecodeLimits, Shape, decode};
use super::plan::{Candidate, Item, Span, Union};

/// An outcome per metric of the union, and what the backend warned of.
pub(super) struct Digest {
    pub(super) results: Vec<Result<(Answered, Candidate), MetricError>>,
    pub(super) warnings: Vec<String>,
}

/// Reads the answer to a union.
pub(super) fn digest(
    union: &Union,
    body: &[u8],
    directory: &Directory,
    config: &FeedConfig,
    wants: &[Want],
) -> Result<Digest, SourceError> {
    let mut gathers: Vec<Vec<Gather>> =
        union.items.iter().map(|item| item.candidates.iter().map(|_| Gather::default()).collect()).collect();
    let mut place = 0;
    let summary = decode(body, shape(union), &DecodeLimits::default(), |series| {
        for part in union.parts(&series) {
            let meaning = union.items[part.item].labels.locate(directory, &series);
            gathers[part.item][part.candidate].take(part.role, place, meaning, &series);
        }
        place += 1;
    })?;
    let aggregation = |item: &Item| config.metrics.get(&wants.get(item.want)?.metric)?.aggregation;
    let results = union.items.iter().zip(gathers).map(|(item, gathers)| {
        let (place, gather) = best(gathers).ok_or_else(|| not_found(item))?;
        let candidate = &item.candidates[place];
        let gathered =
            gather.finish(aggregation(item)).map_err(|ambiguity| shown(&ambiguity, union, body))?;
        if gathered.samples.is_empty() {
            let refused = gathered.refused;
            return Err(match gathered.unmapped.shown.into_iter().next() {
                Some(example) => MetricError::NoNode { count: gathered.unmapped.count, example },
                None => MetricError::NoValue {
                    not_finite: refused.not_finite,
                    histograms: refused.histograms,
                    other: refused.unreadable + refused.out_of_range,
                },
            });
        }
        let by = candidate.words().to_owned();
        Ok((Answered { by, history: item.span.length(), gathered }, candidate.clone()))
    });
    Ok(Digest { results: results.collect(), warnings: summary.warnings })
}

fn shape(union: &Union) -> Shape {
    if union.items.first().is_none_or(|item| item.span == Span::NOW) { Shape::Vector } else { Shape::Matrix }
}

/// The first that has values; failing that, the first that has anything.
fn best(gathers: Vec<Gather>) -> Option<(usize, Gather)> {
    let place = gathers
        .iter()
        .position(Gather::has_values)
        .or_else(|| gathers.iter().position(|gather| !gather.is_empty()))?;
    gathers.into_iter().enumerate().nth(place)
}

fn not_found(item: &Item) -> MetricError {
    let tried: Vec<&str> = item.candidates.iter().map(Candidate::words).collect();
    MetricError::NotFound { looked_for: tried.join(", then ") }
}

/// The two series word by word. Read a second time, because nobody keeps the labels of series that are in order.
fn shown(ambiguity: &Ambiguity, union: &Union, body: &[u8]) -> MetricError {
    let mut texts = ambiguity.series.map(|_| String::new());
    let mut place = 0;
    let again: Result<_, DecodeError> = decode(body, shape(union), &DecodeLimits::default(), |series| {
        for (text, wanted) in texts.iter_mut().zip(ambiguity.series) {
            if wanted == place {
                *text = series.text();
            }
        }
        place += 1;
    });
    debug_assert!(again.is_ok(), "what could be read once can be read twice");
    let [one, other] = texts;
    MetricError::Ambiguous { one, other }
}
