//! Whether two exporters say the same about the same host at the same moment, family by family.
//!
//! The peer is asked before and after ours: a counter of ours has to lie between its two answers, a gauge within
//! their range and a little beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use agent::exposition;

/// A page: families with their type and their series.
pub(crate) type Page = BTreeMap<String, (String, BTreeMap<String, f64>)>;

/// What one gauge may be off by, as a share of its value: it is read a moment sooner or later.
const SLACK: f64 = 0.02;

/// Reads a page; timestamps, which collectd writes, are left out, and so is the root of a made host, which node_exporter
/// writes into labels.
pub(crate) fn read(page: &str, root: &Path) -> Result<Page, String> {
    let root = format!("=\"{}", root.display().to_string().trim_end_matches('/'));
    let mut text = String::with_capacity(page.len());
    for line in page.replace(&root, "=\"").lines() {
        let value = line.rfind('}').map_or(0, |end| end + 1);
        let fields: Vec<&str> = line[value..].split_whitespace().collect();
        let stamped = !line.starts_with('#') && fields.len() == if value == 0 { 3 } else { 2 };
        let kept = if stamped { line.rsplit_once(' ').map_or(line, |(kept, _)| kept) } else { line };
        text.push_str(kept);
        text.push('\n');
    }
    let read = exposition::parse(text.as_bytes()).map_err(|error| error.to_string())?;
    let number = |(series, value): (String, String)| Some((series, value.parse().ok()?));
    let family = |(name, family): (String, exposition::Foreign)| {
        (name, (family.kind, family.samples.into_iter().filter_map(number).collect()))
    };
    Ok(read.families.into_iter().map(family).collect())
}

/// How a family compares, over all looks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) shared: usize,
    pub(crate) only_theirs: usize,
    pub(crate) only_ours: usize,
    /// The largest distance from what the peer said, as a share of it, in the best look of a gauge and the worst of a
    /// counter.
    pub(crate) off: f64,
    looks: usize,
}

impl Family {
    pub(crate) fn agrees(&self) -> bool {
        self.off <= if self.kind == "counter" { 0.0 } else { SLACK }
    }
}

/// The comparison.
#[derive(Debug, Default)]
pub(crate) struct Agreement {
    pub(crate) families: BTreeMap<String, Family>,
}

impl Agreement {
    /// Adds one look: what the peer said, what we said, what the peer said then.
    pub(crate) fn look(&mut self, before: &Page, ours: &Page, after: &Page) {
        let names: BTreeSet<&String> = before.keys().chain(ours.keys()).collect();
        let empty = (String::new(), BTreeMap::new());
        for name in names {
            let [(kind, first), (_, middle), (_, last)] =
                [before, ours, after].map(|page| page.get(name).unwrap_or(&empty));
            let family = self.families.entry(name.clone()).or_default();
            if !kind.is_empty() {
                family.kind.clone_from(kind);
            }
            let shared = middle
                .iter()
                .filter_map(|(series, ours)| Some((*first.get(series)?, *ours, *last.get(series)?)));
            // The peer's energy is the hardware's counter; ours counts from its start and is sampled once a second.
            // That both grow alike is an end-to-end test; here they have to be the same series.
            let by_growth = name.starts_with("node_rapl_");
            let far = |(first, ours, last)| if by_growth { 0.0 } else { distance(kind, first, ours, last) };
            let distances: Vec<f64> = shared.map(far).collect();
            family.shared = distances.len();
            family.only_theirs = first.keys().filter(|series| !middle.contains_key(*series)).count();
            family.only_ours = middle.keys().filter(|series| !first.contains_key(*series)).count();
            let off = distances.into_iter().fold(0.0, f64::max);
            family.off = match (family.looks, kind.as_str()) {
                (0, _) => off,
                (_, "counter") => family.off.max(off),
                _ => family.off.min(off),
            };
            family.looks += 1;
        }
    }
}

/// How far ours lies outside of what the peer said, as a share of that.
fn distance(kind: &str, first: f64, ours: f64, last: f64) -> f64 {
    let (low, high) = (first.min(last), first.max(last));
    // Seconds are told to the hundredth by one and to the last bit by the other.
    let rounding = if kind == "counter" { 0.010_001 } else { 1e-9 * high.abs() };
    if ours < low - rounding || ours > high + rounding {
        let outside = if ours < low { low - ours } else { ours - high };
        outside / high.abs().max(f64::MIN_POSITIVE)
    } else {
        0.0
    }
}
