//! Reads the answers of `/api/v1/query` and `/api/v1/query_range`.
//!
//! One pass over the bytes: labels are borrowed, values go straight into exact numbers, and each series is handed
//! over and forgotten, so an answer costs its own bytes and little more. What a single sensor got wrong (NaN, an
//! infinity, a number beyond all bounds) is counted; what makes the answer as a whole useless is an error.

mod reading;

use std::borrow::Cow;
use std::fmt;

use engine::quantity::Quantity;
use engine::time::Timestamp;
use serde::de::DeserializeSeed;

use reading::{AnswerSeed, Reader};

/// Longest stretch of a foreign text that an error repeats.
const QUOTED_CHARS: usize = 160;

/// The label we put on the parts of a query to tell them apart; it is nobody else's business.
pub(crate) const TAG: &str = "tas_part";

/// How much an answer may hold; its bytes are limited where they are received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Series in one answer.
    pub series: usize,
    /// Labels of one series.
    pub labels: usize,
    /// Values in one answer.
    pub points: usize,
}

impl Default for DecodeLimits {
    fn default() -> Self {
        Self { series: 200_000, labels: 128, points: 4_000_000 }
    }
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A value per series.
    Vector,
    /// Values over time per series.
    Matrix,
    /// One number without labels.
    Scalar,
    /// One text without labels.
    Text,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vector => "vector",
            Self::Matrix => "matrix",
            Self::Scalar => "scalar",
            Self::Text => "string",
        })
    }
}

/// A value and the moment it was evaluated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Evaluation time.
    pub at: Timestamp,
    /// The exact value.
    pub value: Quantity,
}

/// The labels of one series.
pub type Labels<'s, 'b> = &'s [(Cow<'b, str>, Cow<'b, str>)];

/// One series, for as long as it takes to look at it.
#[derive(Clone, Copy, Debug)]
pub struct Series<'s, 'b> {
    /// Its labels, the name among them as `__name__`.
    pub labels: Labels<'s, 'b>,
    /// Its values, in the order of the answer.
    pub points: &'s [Point],
    /// What had to be left out.
    pub refused: Refused,
}

impl Series<'_, '_> {
    /// The value of a label; empty ones count as absent, as in Prometheus.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(key, value)| key == name && !value.is_empty()).map(|(_, value)| &**value)
    }

    /// The way Prometheus writes it: `name{a="b"}`.
    pub fn text(&self) -> String {
        let name = self.label("__name__").unwrap_or_default();
        let rest = self.labels.iter().filter(|(key, _)| key != "__name__" && key != TAG);
        let labels: Vec<String> = rest.map(|(key, value)| format!("{key}={value:?}")).collect();
        shortened(&format!("{name}{{{}}}", labels.join(", ")), 300)
    }
}

/// Values that were left out, by the kind of mistake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// NaN and infinities: a sensor's way to say it has no value.
    pub not_finite: u64,
    /// Beyond what an exact number holds.
    pub out_of_range: u64,
    /// No number, or no moment, at all.
    pub unreadable: u64,
    /// Native histograms, which are no single number.
    pub histograms: u64,
}

impl Refused {
    /// All of them.
    pub const fn total(self) -> u64 {
        self.not_finite + self.out_of_range + self.unreadable + self.histograms
    }
}

impl std::ops::AddAssign for Refused {
    fn add_assign(&mut self, other: Self) {
        self.not_finite += other.not_finite;
        self.out_of_range += other.out_of_range;
        self.unreadable += other.unreadable;
        self.histograms += other.histograms;
    }
}

/// What there is to say about an answer as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Series handed over.
    pub series: usize,
    /// Values left out, over all series.
    pub refused: Refused,
    /// What the backend warned of, such as a part that did not answer; cut to the first few.
    pub warnings: Vec<String>,
    /// How many warnings there were.
    pub warning_count: usize,
    /// What the backend remarked on; cut to the first few.
    pub infos: Vec<String>,
}

/// Why an answer is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// No bytes.
    #[error("the answer is empty; does the URL point at the Prometheus API?")]
    Empty,
    /// A web page, as a login or an error page of something in between.
    #[error(
        "the answer is a web page, not JSON; does the URL point at the Prometheus API, past any login page?"
    )]
    WebPage,
    /// Not JSON at all.
    #[error("the answer is not JSON: it begins with {start:?}")]
    NotJson {
        /// Its first characters.
        start: String,
    },
    /// JSON that stops in the middle.
    #[error("the answer ends in the middle, after {bytes} bytes")]
    CutOff {
        /// How many came.
        bytes: usize,
    },
    /// JSON of another form than the API has.
    #[error("the answer is not what the Prometheus API sends: {reason}")]
    Malformed {
        /// What was expected where.
        reason: String,
    },
    /// Well-formed, and a refusal.
    #[error("the query was refused ({kind}): {message}")]
    Refused {
        /// Prometheus' kind of error, such as `bad_data`.
        kind: String,
        /// Its message, shortened.
        message: String,
    },
    /// A result of another form than was asked for.
    #[error("the query gives a {found} where a {wanted} is needed; it must give a value per node")]
    WrongShape {
        /// What was asked for.
        wanted: Shape,
        /// What came.
        found: Shape,
    },
    /// More series than we take.
    #[error("the answer has more than {limit} series; narrow the query")]
    TooManySeries {
        /// How many are allowed.
        limit: usize,
    },
    /// More labels than we take.
    #[error("a series of the answer has more than {limit} labels; aggregate them away")]
    TooManyLabels {
        /// How many are allowed.
        limit: usize,
    },
    /// More values than we take.
    #[error("the answer has more than {limit} values; narrow the query")]
    TooManyPoints {
        /// How many are allowed.
        limit: usize,
    },
}

/// Reads an answer and hands its series over one by one. After an error, what was handed over is void.
pub fn decode<'b>(
    body: &'b [u8],
    wanted: Shape,
    limits: &DecodeLimits,
    each: impl FnMut(Series<'_, 'b>),
) -> Result<Summary, DecodeError> {
    let Some(first) = body.iter().find(|byte| !byte.is_ascii_whitespace()) else {
        return Err(DecodeError::Empty);
    };
    match first {
        b'{' => {}
        b'<' => return Err(DecodeError::WebPage),
        _ => {
            return Err(DecodeError::NotJson {
                start: shortened(&String::from_utf8_lossy(&body[..body.len().min(200)]), 40),
            });
        }
    }
    let mut reader = Reader::new(*limits, each);
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = AnswerSeed(&mut reader).deserialize(&mut json).and_then(|answer| json.end().map(|()| answer));
    if let Some(fault) = reader.fault {
        return Err(fault);
    }
    let answer = read.map_err(|error| {
        if error.is_eof() {
            DecodeError::CutOff { bytes: body.len() }
        } else {
            DecodeError::Malformed { reason: shortened(&error.to_string(), QUOTED_CHARS) }
        }
    })?;
    answer.verdict(wanted)?;
    Ok(reader.summary)
}

/// A text, cut to what a message can carry.
pub(crate) fn shortened(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests;
