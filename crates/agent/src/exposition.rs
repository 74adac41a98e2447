//! Reading somebody else's metrics in text format 0.0.4, strictly, so that they can be put on our page.
//!
//! A line that is wrong spoils its file: half of a broken file is worse than what was there before. Lines with a
//! timestamp are refused one by one, since a timestamp in a file is always old.
//!
//! What is read is kept in one text with places in it: a string of its own for each name and value would take many times
//! the memory of the file.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use thiserror::Error;

use crate::scan;

/// What a page says, for whoever looks families up in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exposition {
    /// By name.
    pub families: BTreeMap<String, Foreign>,
    /// Lines refused because they carry a timestamp.
    pub timestamped: usize,
}

/// A family of somebody else's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Foreign {
    /// The help text, unescaped.
    pub help: String,
    /// The word after `# TYPE`; empty if there was none.
    pub kind: String,
    /// Series with sorted labels, ready to be written, and their values as they stood.
    pub samples: Vec<(String, String)>,
}

/// What stands before a family's series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'e> {
    /// Its name.
    pub name: &'e str,
    /// The help text, unescaped.
    pub help: &'e str,
    /// The word after `# TYPE`; empty if there was none.
    pub kind: &'static str,
}

/// What a file says, in little more memory than the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packed {
    text: String,
    families: Vec<Family>,
    samples: Vec<Sample>,
    /// Lines refused because they carry a timestamp.
    pub timestamped: usize,
}

/// A place in the text.
type Place = Range<u32>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Family {
    name: Place,
    help: Place,
    kind: &'static str,
    samples: Place,
}

/// A series with sorted labels, ready to be written, and its value as it stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sample {
    family: u32,
    start: u32,
    value: u32,
    end: u32,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct Malformed {
    /// Counted from 1.
    pub line: usize,
    /// In words.
    pub what: &'static str,
}

const KINDS: [&str; 5] = ["counter", "gauge", "histogram", "summary", "untyped"];

/// Series and headers of a file before it is read: what it will take at most.
pub fn series_in(text: &[u8]) -> usize {
    let (mut series, mut headers) = (0, 0usize);
    for line in scan::lines(text) {
        match scan::trimmed(line) {
            [] => {}
            [b'#', ..] => headers += 1,
            _ => series += 1,
        }
    }
    // A family has two headers at most, unless it has no series.
    headers.div_ceil(2).max(series)
}

/// Reads a whole page.
pub fn parse(text: &[u8]) -> Result<Exposition, Malformed> {
    let packed = pack(text)?;
    let own = |(series, value): (&str, &str)| (series.to_owned(), value.to_owned());
    let family = |number| {
        let Head { name, help, kind } = packed.family(number);
        let samples = packed.samples(number).map(own).collect();
        (name.to_owned(), Foreign { help: help.to_owned(), kind: kind.to_owned(), samples })
    };
    let families = (0..packed.families()).map(family).collect();
    Ok(Exposition { families, timestamped: packed.timestamped })
}

/// Reads a whole file.
pub fn pack(text: &[u8]) -> Result<Packed, Malformed> {
    let text = str::from_utf8(text).map_err(|error| Malformed {
        line: scan::lines(&text[..=error.valid_up_to().min(text.len() - 1)]).count(),
        what: "not UTF-8",
    })?;
    let mut reader = Reader { read: Packed::default(), names: HashMap::new() };
    for (number, line) in scan::lines(text.as_bytes()).enumerate() {
        let line = str::from_utf8(line).unwrap_or_default().trim();
        let outcome = match line.strip_prefix('#') {
            _ if line.is_empty() => Ok(()),
            Some(comment) => reader.comment(comment),
            None => reader.sample(line),
        };
        outcome.map_err(|what| Malformed { line: number + 1, what })?;
    }
    Ok(reader.read.sorted())
}

impl Packed {
    /// Whether there are no series in it.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// How many families there are.
    pub fn families(&self) -> usize {
        self.families.len()
    }

    /// A family by its number.
    pub fn family(&self, number: usize) -> Head<'_> {
        let Family { name, help, kind, .. } = &self.families[number];
        Head { name: self.at(name), help: self.at(help), kind }
    }

    /// A family's series and their values.
    pub fn samples(&self, number: usize) -> impl ExactSizeIterator<Item = (&str, &str)> {
        let Range { start, end } = self.families[number].samples;
        self.samples[start as usize..end as usize]
            .iter()
            .map(|sample| (self.at(&(sample.start..sample.value)), self.at(&(sample.value..sample.end))))
    }

    fn at(&self, place: &Place) -> &str {
        &self.text[place.start as usize..place.end as usize]
    }

    fn keep(&mut self, text: &str) -> Result<Place, &'static str> {
        let start = self.text.len();
        self.text.push_str(text);
        let place = |at: usize| u32::try_from(at).map_err(|_| "more than 4 GiB");
        Ok(place(start)?..place(self.text.len())?)
    }

    /// Each family's samples together, in the order they stood; no family without any.
    fn sorted(mut self) -> Self {
        self.samples.sort_by_key(|sample| sample.family);
        for family in &mut self.families {
            family.samples = 0..0;
        }
        for (number, sample) in (0u32..).zip(&self.samples) {
            let samples = &mut self.families[sample.family as usize].samples;
            let start = if samples.end == 0 { number } else { samples.start };
            *samples = start..number + 1;
        }
        self.families.retain(|family| !family.samples.is_empty());
        self.text.shrink_to_fit();
        self.families.shrink_to_fit();
        self.samples.shrink_to_fit();
        self
    }
}

/// An exposition being read, with the numbers of its families by name.
struct Reader<'t> {
    read: Packed,
    names: HashMap<&'t str, u32>,
}

impl<'t> Reader<'t> {
    fn comment(&mut self, comment: &'t str) -> Result<(), &'static str> {
        let comment = comment.trim_start();
        let Some((keyword, rest)) = comment.split_once([' ', '\t']) else { return Ok(()) };
        if keyword != "HELP" && keyword != "TYPE" {
            return Ok(());
        }
        let rest = rest.trim_start();
        let (name, text) = rest.split_once([' ', '\t']).unwrap_or((rest, ""));
        if !is_metric_name(name) {
            return Err("not a metric name");
        }
        let number = self.family(name)?;
        if keyword == "HELP" {
            let help = self.read.keep(&unescape_help(text.trim_start()))?;
            self.read.families[number as usize].help = help;
            return Ok(());
        }
        let family = &mut self.read.families[number as usize];
        if !family.kind.is_empty() {
            Err("the type is said twice")
        } else if !family.samples.is_empty() {
            Err("the type comes after the samples")
        } else {
            family.kind = KINDS.iter().find(|known| **known == text.trim()).ok_or("not a type of metric")?;
            Ok(())
        }
    }

    fn sample(&mut self, line: &'t str) -> Result<(), &'static str> {
        let name_end = line.find(['{', ' ', '\t']).ok_or("a value is missing")?;
        let (name, rest) = line.split_at(name_end);
        if !is_metric_name(name) {
            return Err("not a metric name");
        }
        let rest = rest.trim_start();
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(inner) => parse_labels(inner)?,
            None => (Vec::new(), rest),
        };
        let mut fields = rest.split_ascii_whitespace();
        let value = fields.next().ok_or("a value is missing")?;
        // Rust reads what Go reads, apart from hexadecimal and underscores, which nobody writes.
        value.parse::<f64>().map_err(|_| "not a number")?;
        match (fields.next(), fields.next()) {
            (None, _) => {}
            (Some(stamp), None) if stamp.parse::<i64>().is_ok() => {
                self.read.timestamped += 1;
                return Ok(());
            }
            _ => return Err("more than a value and a timestamp"),
        }
        let series = self.read.keep(&series(name, labels)?)?;
        let value = self.read.keep(value)?;
        let family = self.family_of(name)?;
        // That there are some; which ones is known at the end.
        self.read.families[family as usize].samples = 0..1;
        self.read.samples.push(Sample { family, start: series.start, value: value.start, end: value.end });
        Ok(())
    }

    /// `x_bucket`, `x_sum` and `x_count` belong to `x` if that is a histogram or a summary.
    fn family_of(&mut self, name: &'t str) -> Result<u32, &'static str> {
        for suffix in ["_bucket", "_sum", "_count"] {
            if let Some(stem) = name.strip_suffix(suffix)
                && let Some(&number) = self.names.get(stem)
                && matches!(self.read.families[number as usize].kind, "histogram" | "summary")
            {
                return Ok(number);
            }
        }
        self.family(name)
    }

    /// The number of a family, new if there was none.
    fn family(&mut self, name: &'t str) -> Result<u32, &'static str> {
        if let Some(&number) = self.names.get(name) {
            return Ok(number);
        }
        let number = u32::try_from(self.read.families.len()).map_err(|_| "more than 4 GiB")?;
        let name_kept = self.read.keep(name)?;
        self.read.families.push(Family { name: name_kept, ..Family::default() });
        self.names.insert(name, number);
        Ok(number)
    }
}

/// Labels are sorted, so that the same series is the same text.
fn series(name: &str, mut labels: Vec<(&str, String)>) -> Result<String, &'static str> {
    labels.sort();
    if labels.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return Err("the same label twice");
    }
    let mut series = name.to_owned();
    let mut mark = '{';
    for (name, value) in &labels {
        series.push(mark);
        mark = ',';
        series.push_str(name);
        series.push_str("=\"");
        for character in value.chars() {
            match character {
                '\\' => series.push_str("\\\\"),
                '"' => series.push_str("\\\""),
                '\n' => series.push_str("\\n"),
                other => series.push(other),
            }
        }
        series.push('"');
    }
    if mark == ',' {
        series.push('}');
    }
    Ok(series)
}

/// Labels and what follows the closing brace.
type LabelsAndRest<'t> = (Vec<(&'t str, String)>, &'t str);

/// Reads `a="x",b="y"} rest`.
fn parse_labels(mut text: &str) -> Result<LabelsAndRest<'_>, &'static str> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start();
        if let Some(rest) = text.strip_prefix('}') {
            return Ok((labels, rest));
        }
        let (name, rest) = text.split_once('=').ok_or("a label without a value")?;
        let name = name.trim();
        if !is_label_name(name) {
            return Err("not a label name");
        }
        let rest = rest.trim_start().strip_prefix('"').ok_or("a label value without quotes")?;
        let (value, rest) = unquote(rest)?;
        // An empty label is no label.
        if !value.is_empty() {
            labels.push((name, value));
        }
        text = rest.trim_start();
        text = match text.strip_prefix(',') {
            Some(rest) => rest,
            None if text.starts_with('}') => text,
            None => return Err("a comma or a brace is missing after a label"),
        };
    }
}

/// Reads up to the closing quote.
fn unquote(text: &str) -> Result<(String, &str), &'static str> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => value.push(match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => '\n',
                Some(escaped @ ('\\' | '"')) => escaped,
                _ => return Err("an unknown escape in a label value"),
            }),
            other => value.push(other),
        }
    }
    Err("a label value without an end")
}

fn unescape_help(text: &str) -> String {
    text.replace("\\\\", "\u{0}").replace("\\n", "\n").replace('\u{0}', "\\")
}

fn is_metric_name(name: &str) -> bool {
    is_name(name, |c| c == b'_' || c == b':')
}

fn is_label_name(name: &str) -> bool {
    is_name(name, |c| c == b'_')
}

fn is_name(name: &str, extra: impl Fn(u8) -> bool) -> bool {
    let legal = |c: u8| c.is_ascii_alphabetic() || extra(c);
    match name.as_bytes() {
        [first, rest @ ..] => legal(*first) && rest.iter().all(|&c| legal(c) || c.is_ascii_digit()),
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Families in the order they came up, each with its samples.
    fn told(read: &Packed) -> Vec<(Head<'_>, Vec<(&str, &str)>)> {
        (0..read.families()).map(|n| (read.family(n), read.samples(n).collect())).collect()
    }

    fn family<'e>(name: &'e str, help: &'e str, kind: &'static str) -> Head<'e> {
        Head { name, help, kind }
    }

    #[test]
    fn the_health_demos_line_with_its_double_space() {
        let read = pack(b"node_health_metric  0\n").expect("legal");
        let expected = (family("node_health_metric", "", ""), vec![("node_health_metric", "0")]);
        assert_eq!(told(&read), [expected]);
    }

    #[test]
    fn help_type_labels_and_a_histogram() {
        let read = pack(
            b"# HELP x Two\\nlines.\n# TYPE x counter\nx{ b = \"2\" , a=\"q\\\"\" , } 1e3\n# a remark\n\n\
              # TYPE h histogram\nh_bucket{le=\"+Inf\"} 3\nh_sum 1.5\nh_count 3\nh_total 1\n",
        )
        .expect("legal");
        let expected = [
            (family("x", "Two\nlines.", "counter"), vec![("x{a=\"q\\\"\",b=\"2\"}", "1e3")]),
            (
                family("h", "", "histogram"),
                vec![("h_bucket{le=\"+Inf\"}", "3"), ("h_sum", "1.5"), ("h_count", "3")],
            ),
            (family("h_total", "", ""), vec![("h_total", "1")]),
        ];
        assert_eq!(told(&read), expected);
    }

    #[test]
    fn lines_with_a_timestamp_are_refused_alone() {
        let read = pack(b"a 1 1700000000000\nb 2\n").expect("legal");
        assert_eq!((told(&read), read.timestamped), (vec![(family("b", "", ""), vec![("b", "2")])], 1));
    }

    #[test]
    fn what_a_file_will_take_is_known_before_it_is_read() {
        for (text, series) in [
            (&b""[..], 0),
            (b"\n# HELP a A.\n# TYPE a gauge\na 1\n", 1),
            (b"a 1\n a 2\n\nb 1", 3),
            (b"# HELP a A.\n# HELP b B.\n# HELP c C.\n", 2),
        ] {
            assert_eq!(series_in(text), series, "{:?}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let cases: &[(&[u8], usize, &str)] = &[
            (b"a 1\nb\n", 2, "a value is missing"),
            (b"a{} \n", 1, "a value is missing"),
            (b"1a 1\n", 1, "not a metric name"),
            (b"a one\n", 1, "not a number"),
            (b"a 1 2 3\n", 1, "more than a value and a timestamp"),
            (b"a{x=\"1\",x=\"2\"} 1\n", 1, "the same label twice"),
            (b"a{x=\"1\n", 1, "a label value without an end"),
            (b"a{x=\"1\" y=\"2\"} 1\n", 1, "a comma or a brace is missing after a label"),
            (b"a{x=1} 1\n", 1, "a label value without quotes"),
            (b"# TYPE a gauge\n# TYPE a gauge\na 1\n", 2, "the type is said twice"),
            (b"a 1\n# TYPE a gauge\n", 2, "the type comes after the samples"),
            (b"# TYPE a speed\na 1\n", 1, "not a type of metric"),
            (b"a 1\n\xff 2\n", 2, "not UTF-8"),
        ];
        for &(text, line, what) in cases {
            assert_eq!(pack(text), Err(Malformed { line, what }), "{:?}", String::from_utf8_lossy(text));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            let _ = pack(&text);
        }

        #[test]
        fn text_that_looks_right_does_not_panic(text in "(# (HELP|TYPE) )?[a-z_]{0,4}[{]?[a-z]?=?[\"]?[\\\\n\"}]{0,3}[ ]?[0-9.e]{0,3}[\n ]{0,2}") {
            let _ = pack(text.as_bytes());
        }

        #[test]
        fn any_label_value_reads_back_as_the_same_series(value: String) {
            let series = series("a", vec![("x", value.clone())]).expect("one label");
            prop_assume!(!value.is_empty());
            let read = pack(format!("{series} 1\n").as_bytes()).expect("our own escaping is legal");
            prop_assert_eq!(read.samples(0).next(), Some((series.as_str(), "1")));
        }

        #[test]
        fn families_that_take_turns_keep_the_order_of_their_series(turns in prop::collection::vec(0u8..4, 0..40)) {
            let lines: Vec<String> =
                turns.iter().enumerate().map(|(n, family)| format!("f{family}{{n=\"{n}\"}} {n}\n")).collect();
            let read = pack(lines.concat().as_bytes()).expect("legal");
            let mut all = Vec::new();
            for (family, samples) in told(&read) {
                let own: Vec<String> = turns.iter().enumerate().filter(|(_, turn)| format!("f{turn}") == family.name)
                    .map(|(n, _)| n.to_string()).collect();
                prop_assert_eq!(samples.iter().map(|(_, value)| (*value).to_owned()).collect::<Vec<_>>(), own);
                all.extend(samples);
            }
            prop_assert_eq!(all.len(), turns.len());
        }
    }
}
