//! Kubernetes documents as people keep them: YAML or JSON, several to a file, each value with its place.
//!
//! Bytes come from anywhere, so everything has a limit: size, documents, nesting, values, and what aliases grow into.

mod node;

use std::fmt;

use serde_json::Value;
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::options::{NonFiniteFloatPolicy, Options};
use serde_saphyr::{Error as YamlError, MessageFormatter, UserMessageFormatter};

use crate::path::FieldPath;
use crate::problem::shortened;
use node::Item;

/// What one file may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in all.
    pub bytes: usize,
    /// Documents in all.
    pub documents: usize,
    /// Values in a document.
    pub values: usize,
    /// Values in a document that aliases repeat.
    pub repeated: usize,
    /// Maps and lists inside each other.
    pub depth: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 3 << 20, documents: 1000, values: 200_000, repeated: 20_000, depth: 48 }
    }
}

/// A spot in a file, counted from 1; columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column.
    pub column: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// One document that could be read.
#[derive(Clone, Debug, PartialEq)]
pub struct Document(Item);

impl Document {
    /// What it says.
    pub fn value(&self) -> Value {
        self.0.node.value()
    }

    /// Where it begins.
    pub fn start(&self) -> Place {
        self.0.place
    }

    /// Where the value of a field is (its key, if the value is a map or a list), or the nearest part around it that
    /// exists.
    pub fn place(&self, path: &FieldPath) -> Place {
        self.0.find(path.steps()).value
    }

    /// Where the key of a field is, or the nearest part around it that exists.
    pub fn key_place(&self, path: &FieldPath) -> Place {
        self.0.find(path.steps()).key
    }
}

/// Why the rest of a file, or one document of it, could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// Refused by its size alone.
    #[error("it is larger than {limit} bytes; a policy is a few hundred")]
    TooLarge {
        /// The limit.
        limit: usize,
    },
    /// A text, but not in the encoding that Kubernetes reads.
    #[error("it is UTF-16 text; save it as UTF-8")]
    Utf16,
    /// Not a text.
    #[error("it is binary (a zero byte at position {position}), not YAML or JSON")]
    Binary {
        /// Where the first zero byte is.
        position: usize,
    },
    /// Nearly a text.
    #[error("it is not UTF-8 text: the byte at position {position} belongs to no character")]
    NotUtf8 {
        /// Where the first stray byte is.
        position: usize,
    },
    /// Not YAML.
    #[error("{message}")]
    Syntax {
        /// Where the parser gave up.
        place: Option<Place>,
        /// What it says.
        message: String,
    },
    /// More of something than there may be.
    #[error("{what}; the limit is {limit}")]
    Limit {
        /// Where it was exceeded.
        place: Option<Place>,
        /// What there is too much of.
        what: &'static str,
        /// How much there may be.
        limit: usize,
    },
}

impl ReadError {
    /// Where it happened, if it happened somewhere.
    pub fn place(&self) -> Option<Place> {
        match self {
            Self::Syntax { place, .. } | Self::Limit { place, .. } => *place,
            _ => None,
        }
    }
}

/// What a file holds: the documents that could be read, and what stood in the way of others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// In the order of the file.
    pub documents: Vec<Document>,
    /// Likewise.
    pub errors: Vec<ReadError>,
}

/// Reads all documents of a file.
pub fn read(bytes: &[u8], limits: &Limits) -> Reading {
    match text(bytes, limits) {
        Err(error) => Reading { documents: Vec::new(), errors: vec![error] },
        Ok(text) => documents(text, limits),
    }
}

/// The bytes as text, without a byte order mark.
pub fn text<'b>(bytes: &'b [u8], limits: &Limits) -> Result<&'b str, ReadError> {
    if bytes.len() > limits.bytes {
        return Err(ReadError::TooLarge { limit: limits.bytes });
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(ReadError::Utf16);
    }
    if let Some(position) = bytes.iter().position(|byte| *byte == 0) {
        return Err(ReadError::Binary { position });
    }
    let bytes = bytes.strip_prefix(&[0xef, 0xbb, 0xbf]).unwrap_or(bytes);
    str::from_utf8(bytes).map_err(|error| ReadError::NotUtf8 { position: error.valid_up_to() })
}

fn documents(text: &str, limits: &Limits) -> Reading {
    let mut reading = Reading::default();
    let mut bytes = text.as_bytes();
    for read in serde_saphyr::read_with_options::<_, Item>(&mut bytes, options(limits)) {
        if reading.documents.len() + reading.errors.len() >= limits.documents {
            let what = "there are too many documents in this file";
            reading.errors.push(ReadError::Limit { place: None, what, limit: limits.documents });
            break;
        }
        match read {
            Ok(item) => reading.documents.push(Document(item)),
            Err(error) => reading.errors.push(described(&error, text, limits)),
        }
    }
    reading
}

fn options(limits: &Limits) -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(limits.bytes),
            max_events: limits.values * 3,
            max_nodes: limits.values,
            max_depth: limits.depth,
            flow_nesting_limit: limits.depth,
            max_total_scalar_bytes: limits.bytes,
            max_recorded_anchor_events: limits.values,
            max_recorded_anchor_bytes: limits.bytes,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: limits.repeated,
        },
        // As Kubernetes reads them.
        legacy_octal_numbers: true,
        // An infinite target is a wrong target, not an unreadable document.
        non_finite_float_policy: NonFiniteFloatPolicy::PassThrough,
        with_snippet: false,
    }
}

fn described(error: &YamlError, text: &str, limits: &Limits) -> ReadError {
    let place = error.location().and_then(node::place);
    let limit = |what, limit| ReadError::Limit { place, what, limit };
    let mut cause = error.without_snippet();
    while let YamlError::AliasError { error, .. } = cause {
        cause = error.without_snippet();
    }
    match cause {
        YamlError::AliasReplayLimitExceeded { .. }
        | YamlError::AliasReplayCounterOverflow { .. }
        | YamlError::AliasExpansionLimitExceeded { .. }
        | YamlError::AliasReplayStackDepthExceeded { .. }
        | YamlError::Budget {
            breach:
                BudgetBreach::AliasAnchorRatio { .. }
                | BudgetBreach::Aliases { .. }
                | BudgetBreach::RecordedAnchorEvents { .. }
                | BudgetBreach::RecordedAnchorBytes { .. },
            ..
        } => limit("aliases (*name) repeat more values than a document may hold", limits.repeated),
        YamlError::Budget { breach: BudgetBreach::Depth { .. }, .. } => limit(TOO_DEEP, limits.depth),
        YamlError::Budget { .. } => limit("there are too many values in this document", limits.values),
        YamlError::DuplicateMappingKey { key: Some(key), .. } => {
            let message = format!("the key {:?} is there twice in one map; remove one", shortened(key));
            ReadError::Syntax { place, message }
        }
        YamlError::NullIntoString { .. } => {
            syntax("a key is empty; every entry of a map needs one", place, text)
        }
        YamlError::Unexpected { expected: "string scalar", .. } => {
            syntax("a key is a map or a list; it must be a text", place, text)
        }
        other => match UserMessageFormatter.format_message(other).as_ref() {
            "recursion limit exceeded" => limit(TOO_DEEP, limits.depth),
            message => syntax(message, place, text),
        },
    }
}

const TOO_DEEP: &str = "maps and lists are nested too deep";

/// The parser's words, with the way out where the usual causes show.
fn syntax(message: &str, place: Option<Place>, text: &str) -> ReadError {
    let line = place.and_then(|place| text.lines().nth(usize::try_from(place.line).ok()?.checked_sub(1)?));
    let indent = line.map(|line| &line[..line.len() - line.trim_start().len()]);
    let way_out = if text.contains("{{") {
        "; this looks like a template: render it first, as in `helm template . | tas check -`"
    } else if indent.is_some_and(|indent| indent.contains('\t')) {
        "; YAML takes no tabs for indentation: use spaces"
    } else {
        ""
    };
    ReadError::Syntax { place, message: format!("not YAML: {message}{way_out}") }
}

#[cfg(test)]
mod tests;
