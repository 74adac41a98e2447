//! Reading somebody else's metrics in text format 0.0.4, strictly, so that they can be put on our page.
//!
//! A line that is wrong spoils its file: half of a broken file is worse than what was there before. Lines with a
//! timestamp are refused one by one, since a timestamp in a file is always old.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::scan;

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

/// What a file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exposition {
    /// By name.
    pub families: BTreeMap<String, Foreign>,
    /// Lines refused because they carry a timestamp.
    pub timestamped: usize,
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

/// Reads a whole file.
pub fn parse(text: &[u8]) -> Result<Exposition, Malformed> {
    let text = str::from_utf8(text).map_err(|error| Malformed {
        line: scan::lines(&text[..=error.valid_up_to().min(text.len() - 1)]).count(),
        what: "not UTF-8",
    })?;
    let mut read = Exposition::default();
    for (number, line) in scan::lines(text.as_bytes()).enumerate() {
        let line = str::from_utf8(line).unwrap_or_default().trim();
        let outcome = match line.strip_prefix('#') {
            _ if line.is_empty() => Ok(()),
            Some(comment) => read.comment(comment),
            None => read.sample(line),
        };
        outcome.map_err(|what| Malformed { line: number + 1, what })?;
    }
    read.families.retain(|_, family| !family.samples.is_empty());
    Ok(read)
}

impl Exposition {
    fn comment(&mut self, comment: &str) -> Result<(), &'static str> {
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
        let family = self.families.entry(name.to_owned()).or_default();
        if keyword == "HELP" {
            family.help = unescape_help(text.trim_start());
        } else if !family.kind.is_empty() {
            return Err("the type is said twice");
        } else if !family.samples.is_empty() {
            return Err("the type comes after the samples");
        } else {
            let kind = text.trim();
            family.kind =
                KINDS.iter().find(|known| **known == kind).ok_or("not a type of metric")?.to_string();
        }
        Ok(())
    }

    fn sample(&mut self, line: &str) -> Result<(), &'static str> {
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
                self.timestamped += 1;
                return Ok(());
            }
            _ => return Err("more than a value and a timestamp"),
        }
        let series = series(name, labels)?;
        let family = self.family_of(name);
        self.families.entry(family).or_default().samples.push((series, value.to_owned()));
        Ok(())
    }

    /// `x_bucket`, `x_sum` and `x_count` belong to `x` if that is a histogram or a summary.
    fn family_of(&self, name: &str) -> String {
        for suffix in ["_bucket", "_sum", "_count"] {
            if let Some(stem) = name.strip_suffix(suffix)
                && let Some(family) = self.families.get(stem)
                && matches!(family.kind.as_str(), "histogram" | "summary")
            {
                return stem.to_owned();
            }
        }
        name.to_owned()
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

    fn family(help: &str, kind: &str, samples: &[(&str, &str)]) -> Foreign {
        let own = |(series, value): &(&str, &str)| ((*series).to_owned(), (*value).to_owned());
        Foreign { help: help.to_owned(), kind: kind.to_owned(), samples: samples.iter().map(own).collect() }
    }

    #[test]
    fn the_health_demos_line_with_its_double_space() {
        let read = parse(b"node_health_metric  0\n").expect("legal");
        assert_eq!(read.families["node_health_metric"], family("", "", &[("node_health_metric", "0")]));
    }

    #[test]
    fn help_type_labels_and_a_histogram() {
        let read = parse(
            b"# HELP x Two\\nlines.\n# TYPE x counter\nx{ b = \"2\" , a=\"q\\\"\" , } 1e3\n# a remark\n\n\
              # TYPE h histogram\nh_bucket{le=\"+Inf\"} 3\nh_sum 1.5\nh_count 3\nh_total 1\n",
        )
        .expect("legal");
        let expected = [
            ("x".to_owned(), family("Two\nlines.", "counter", &[("x{a=\"q\\\"\",b=\"2\"}", "1e3")])),
            (
                "h".to_owned(),
                family(
                    "",
                    "histogram",
                    &[("h_bucket{le=\"+Inf\"}", "3"), ("h_sum", "1.5"), ("h_count", "3")],
                ),
            ),
            ("h_total".to_owned(), family("", "", &[("h_total", "1")])),
        ];
        assert_eq!(read.families, BTreeMap::from(expected));
    }

    #[test]
    fn lines_with_a_timestamp_are_refused_alone() {
        let read = parse(b"a 1 1700000000000\nb 2\n").expect("legal");
        let names: Vec<&str> = read.families.keys().map(String::as_str).collect();
        assert_eq!((names, read.timestamped), (vec!["b"], 1));
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
            assert_eq!(parse(text), Err(Malformed { line, what }), "{:?}", String::from_utf8_lossy(text));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }

        #[test]
        fn text_that_looks_right_does_not_panic(text in "(# (HELP|TYPE) )?[a-z_]{0,4}[{]?[a-z]?=?[\"]?[\\\\n\"}]{0,3}[ ]?[0-9.e]{0,3}[\n ]{0,2}") {
            let _ = parse(text.as_bytes());
        }

        #[test]
        fn any_label_value_reads_back_as_the_same_series(value: String) {
            let series = series("a", vec![("x", value.clone())]).expect("one label");
            prop_assume!(!value.is_empty());
            let read = parse(format!("{series} 1\n").as_bytes()).expect("our own escaping is legal");
            prop_assert_eq!(&read.families["a"].samples[0].0, &series);
        }
    }
}
