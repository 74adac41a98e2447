//! As much PromQL as we must understand: is a query a plain selector, whose samples have a time of their own,
//! and can it stand inside a larger query without spilling over.

use std::fmt;

/// What kind of query a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `name`, `{…}` or `name{…}`: each sample keeps the time it was taken.
    Selector,
    /// Anything else: its values belong to the moment they were computed.
    Expression,
}

/// A query that can be put inside a larger one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    text: String,
    kind: Kind,
}

/// Why a text cannot be a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// Nothing but white space.
    #[error("the query is empty")]
    Empty,
    /// Longer than we take.
    #[error("the query has {length} bytes; {MAX_QUERY} are allowed, so make it a recording rule")]
    TooLong {
        /// How long it is.
        length: usize,
    },
    /// A bracket without its other half.
    #[error("the {bracket:?} at byte {at} of the query has no other half")]
    Unbalanced {
        /// Which.
        bracket: char,
        /// Where.
        at: usize,
    },
    /// A text without its closing quote.
    #[error("the text that begins at byte {at} of the query has no closing {quote}")]
    OpenText {
        /// Which quote.
        quote: char,
        /// Where it begins.
        at: usize,
    },
}

/// Longest query we take; with its wrapping it must pass through proxies and VictoriaMetrics (16 KiB).
pub const MAX_QUERY: usize = 8 * 1024;

impl Query {
    /// Checks the text.
    pub fn new(text: &str) -> Result<Self, QueryError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(QueryError::Empty);
        }
        if text.len() > MAX_QUERY {
            return Err(QueryError::TooLong { length: text.len() });
        }
        balance(text)?;
        let kind = if is_selector(text) { Kind::Selector } else { Kind::Expression };
        Ok(Self { text: text.to_owned(), kind })
    }

    /// The selector of all series of that name, whatever characters it has.
    pub fn named(name: &str) -> Self {
        Self { text: format!("{{__name__={name:?}}}"), kind: Kind::Selector }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is left of a text once strings and comments are taken as wholes.
fn balance(text: &str) -> Result<(), QueryError> {
    let mut open = Vec::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '#' => drop(chars.by_ref().find(|&(_, c)| c == '\n')),
            '"' | '\'' | '`' => {
                let mut escaped = false;
                let end = chars.by_ref().find(|&(_, inside)| {
                    let ends = inside == c && !escaped;
                    escaped = inside == '\\' && !escaped && c != '`';
                    ends
                });
                if end.is_none() {
                    return Err(QueryError::OpenText { quote: c, at });
                }
            }
            '(' | '[' | '{' => open.push((at, c)),
            ')' | ']' | '}' => {
                let partner = match c {
                    ')' => '(',
                    ']' => '[',
                    _ => '{',
                };
                if open.pop().is_none_or(|(_, opening)| opening != partner) {
                    return Err(QueryError::Unbalanced { bracket: c, at });
                }
            }
            _ => {}
        }
    }
    match open.pop() {
        Some((at, bracket)) => Err(QueryError::Unbalanced { bracket, at }),
        None => Ok(()),
    }
}

/// Holds for a balanced text.
fn is_selector(text: &str) -> bool {
    let (name, braces) = match text.split_once('{') {
        Some((name, rest)) => (name.trim_end(), Some(rest)),
        None => (text, None),
    };
    let mut chars = name.chars();
    let starts_well = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_' || c == ':');
    let named = starts_well && chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':');
    match braces {
        None => named,
        Some(rest) => (named || name.is_empty()) && closes_at_end(rest),
    }
}

/// Whether the first closing brace outside of strings is the last character.
fn closes_at_end(rest: &str) -> bool {
    let mut quote: Option<char> = None;
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match quote {
            Some(open) => {
                if c == open && !escaped {
                    quote = None;
                }
                escaped = c == '\\' && !escaped && open != '`';
            }
            None => match c {
                '"' | '\'' | '`' => quote = Some(c),
                '}' => return at + 1 == rest.len(),
                '#' => return false,
                _ => {}
            },
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Kind, Query, QueryError};

    #[test]
    fn plain_selectors_are_told_from_expressions() {
        let kind = |text: &str| Query::new(text).unwrap().kind();
        for selector in [
            "node_power",
            " job:power:avg ",
            "{__name__=\"x\"}",
            "power{job=\"a}b\", x=~'c\\'}'}",
            "power {node!=``}",
            "{}",
        ] {
            assert_eq!(kind(selector), Kind::Selector, "{selector}");
        }
        for expression in [
            "rate(x[5m])",
            "a + b",
            "power{} * 2",
            "power offset 5m",
            "1",
            "(power)",
            "sum by (node) (x{a=\"}\"})",
            "x{a=\"b\"} or y{a=\"b\"}",
            "x{ # comment }\n}",
            "power[5m]",
        ] {
            assert_eq!(kind(expression), Kind::Expression, "{expression}");
        }
    }

    #[test]
    fn a_query_that_would_spill_over_is_refused() {
        let said = |text: &str| Query::new(text).unwrap_err().to_string();
        assert_eq!(said("  "), "the query is empty");
        assert_eq!(said("a) or (b"), "the ')' at byte 1 of the query has no other half");
        assert_eq!(said("sum(x"), "the '(' at byte 3 of the query has no other half");
        assert_eq!(said("x{a=\"b}"), "the text that begins at byte 4 of the query has no closing \"");
        assert_eq!(Query::new(&"x".repeat(9000)), Err(QueryError::TooLong { length: 9000 }));
        assert!(Query::new("x # ) comment").is_ok());
    }

    proptest! {
        #[test]
        fn no_text_brings_the_reader_down(text in "[a-z(){}\\[\\]\"'`\\\\# \n=~,é]{0,40}") {
            let _ = Query::new(&text);
        }

        #[test]
        fn a_named_selector_is_one(name in "[a-zA-Z_:][a-zA-Z0-9_:-]{0,20}") {
            prop_assert_eq!(Query::new(Query::named(&name).as_str()).unwrap(), Query::named(&name));
        }
    }
}
