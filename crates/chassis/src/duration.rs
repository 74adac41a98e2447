//! Durations as Go writes them: `2s`, `1m30s`, `500ms`, `1.5h`. Intel's flags and Kubernetes use this syntax.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum DurationError {
    /// Not of the syntax.
    #[error("{text:?} is not a duration; write it like 500ms, 2s or 1m30s")]
    Syntax {
        /// The text.
        text: String,
    },
    /// Below zero.
    #[error("{text:?} is negative; a duration here is at least 0")]
    Negative {
        /// The text.
        text: String,
    },
    /// More than fits.
    #[error("{text:?} is longer than 292 years; write something shorter")]
    TooLong {
        /// The text.
        text: String,
    },
}

/// In nanoseconds. Longer names come first, so that `m` does not match the start of `ms`.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Reads Go's syntax; `0` needs no unit. Digits past the nanosecond are dropped, as Go drops them.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let syntax = || DurationError::Syntax { text: text.to_owned() };
    let too_long = || DurationError::TooLong { text: text.to_owned() };
    if let Some(rest) = text.strip_prefix('-') {
        let negative = || DurationError::Negative { text: text.to_owned() };
        return if parse(rest).is_ok_and(|duration| duration.is_zero()) {
            Ok(Duration::ZERO)
        } else {
            Err(parse(rest).map_or_else(|_| syntax(), |_| negative()))
        };
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(syntax());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = match after.strip_prefix('.') {
            Some(after) => digits(after),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(syntax());
        }
        let unit = UNITS.iter().find(|(name, _)| {
            after.strip_prefix(name).is_some_and(|next| !next.starts_with(char::is_alphabetic))
        });
        let &(name, nanoseconds) = unit.ok_or_else(syntax)?;
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_long())? };
        let part = whole
            .checked_mul(nanoseconds)
            .and_then(|part| part.checked_add(fraction_of(fraction, nanoseconds)));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(too_long)?;
        rest = &after[name.len()..];
    }
    // Go's durations are signed 64-bit nanoseconds; what it refuses, we refuse.
    if i64::try_from(total).is_err() { Err(too_long()) } else { Ok(Duration::from_nanos(total)) }
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// `0.digits` of a unit, rounded down. Twenty digits are finer than a nanosecond of an hour.
fn fraction_of(digits: &str, nanoseconds: u64) -> u64 {
    let (mut sum, mut scale) = (0u128, 1u128);
    for digit in digits.bytes().take(20) {
        sum = sum * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    u64::try_from(sum * u128::from(nanoseconds) / scale).unwrap_or(u64::MAX)
}

/// Writes Go's syntax, as short as it can be: `1m30s`, `2s`, `500ms`, `0s`.
pub fn show(duration: Duration) -> String {
    let mut text = String::new();
    let mut rest = duration.as_nanos();
    for (name, nanoseconds) in [("h", 3_600_000_000_000), ("m", 60_000_000_000), ("s", 1_000_000_000)] {
        push(&mut text, &mut rest, name, nanoseconds);
    }
    for (name, nanoseconds) in [("ms", 1_000_000), ("us", 1_000), ("ns", 1)] {
        push(&mut text, &mut rest, name, nanoseconds);
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn push(text: &mut String, rest: &mut u128, name: &str, nanoseconds: u128) {
    let count = *rest / nanoseconds;
    *rest %= nanoseconds;
    if count > 0 {
        text.push_str(&count.to_string());
        text.push_str(name);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_go_reads_is_read() {
        let cases = [
            ("0", 0),
            ("-0s", 0),
            ("2s", 2_000_000_000),
            ("+5s", 5_000_000_000),
            ("1m30s", 90_000_000_000),
            ("500ms", 500_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("3us", 3_000),
            ("3µs", 3_000),
            ("3μs", 3_000),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("9223372036854775807ns", i64::MAX as u64),
        ];
        for (text, nanoseconds) in cases {
            assert_eq!(parse(text), Ok(Duration::from_nanos(nanoseconds)), "{text}");
        }
    }

    #[test]
    fn what_go_refuses_is_refused_with_the_text_quoted() {
        let refusals =
            ["", "2", "s", ".s", "2 s", "2S", "1d", "1ss", "--1s", "-1s", "9223372036854775808ns", "é"]
                .map(|text| parse(text).expect_err(text).to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        "" is not a duration; write it like 500ms, 2s or 1m30s
        "2" is not a duration; write it like 500ms, 2s or 1m30s
        "s" is not a duration; write it like 500ms, 2s or 1m30s
        ".s" is not a duration; write it like 500ms, 2s or 1m30s
        "2 s" is not a duration; write it like 500ms, 2s or 1m30s
        "2S" is not a duration; write it like 500ms, 2s or 1m30s
        "1d" is not a duration; write it like 500ms, 2s or 1m30s
        "1ss" is not a duration; write it like 500ms, 2s or 1m30s
        "--1s" is not a duration; write it like 500ms, 2s or 1m30s
        "-1s" is negative; a duration here is at least 0
        "9223372036854775808ns" is longer than 292 years; write something shorter
        "é" is not a duration; write it like 500ms, 2s or 1m30s
        "#);
    }

    proptest! {
        #[test]
        fn what_is_shown_reads_back_the_same(nanoseconds in 0..=i64::MAX as u64) {
            let duration = Duration::from_nanos(nanoseconds);
            prop_assert_eq!(parse(&show(duration)), Ok(duration));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "[-+0-9.a-zµ ]{0,12}|\\PC{0,12}") {
            let _ = parse(&text);
        }
    }
}
