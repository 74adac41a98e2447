//! Durations as policies write them: Go syntax, `30s`, `1h30m`, `1.5s`, read exactly.

use std::time::Duration;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Nothing there.
    #[error("an empty text is not a duration; write it like 30s, 5m or 1h30m")]
    Empty,
    /// A number without a unit.
    #[error("{text:?} has a number without unit; write it like 30s, 5m or 1h30m")]
    NoUnit {
        /// The text.
        text: String,
    },
    /// Time does not run backwards.
    #[error("{text:?} is negative; a duration is 0 or more")]
    Negative {
        /// The text.
        text: String,
    },
    /// Not of Go's duration grammar.
    #[error("{text:?} is not a duration; write it like 30s, 5m or 1h30m")]
    Malformed {
        /// The text.
        text: String,
    },
    /// More than 2^63 nanoseconds, about 292 years.
    #[error("{text:?} is longer than any duration may be (292 years)")]
    TooLong {
        /// The text.
        text: String,
    },
}

/// Reads a duration in Go syntax.
pub fn parse(text: &str) -> Result<Duration, DurationError> {
    let quoted = || crate::problem::shortened(text);
    let malformed = || DurationError::Malformed { text: quoted() };
    let too_long = || DurationError::TooLong { text: quoted() };
    let (negative, unsigned) = match text.as_bytes().first() {
        None => return Err(DurationError::Empty),
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        Some(_) => (false, text),
    };
    if unsigned == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = unsigned;
    let mut nanos = 0_u128;
    while !rest.is_empty() {
        let number_len = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let (number, after) = rest.split_at(number_len);
        let unit_len = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_len);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return Err(malformed());
        }
        if unit.is_empty() {
            return Err(DurationError::NoUnit { text: quoted() });
        }
        let unit = nanos_of(unit).ok_or_else(malformed)?;
        nanos = part(whole, fraction, unit).and_then(|part| nanos.checked_add(part)).ok_or_else(too_long)?;
        rest = after;
    }
    if unsigned.is_empty() {
        return Err(malformed());
    }
    match u64::try_from(nanos) {
        Ok(nanos) if nanos > i64::MAX.unsigned_abs() => Err(too_long()),
        Ok(0) => Ok(Duration::ZERO),
        Ok(_) if negative => Err(DurationError::Negative { text: quoted() }),
        Ok(nanos) => Ok(Duration::from_nanos(nanos)),
        Err(_) => Err(too_long()),
    }
}

fn nanos_of(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter look the same.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `whole.fraction` units in nanoseconds, cut towards zero; `None` when far too long.
fn part(whole: &str, fraction: &str, unit: u128) -> Option<u128> {
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u64>().ok()? };
    // A unit has at most 13 digits, so what stands further behind the point is below a nanosecond.
    let fraction = &fraction[..fraction.len().min(15)];
    let share = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().ok()? };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    Some(u128::from(whole) * unit + share * unit / scale)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::{DurationError, parse};

    #[test]
    fn go_durations_are_read_exactly() {
        for (text, millis) in [
            ("0", 0),
            ("-0", 0),
            ("0s", 0),
            ("30s", 30_000),
            ("+30s", 30_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            (".5m", 30_000),
            ("2.m", 120_000),
            ("250ms", 250),
            ("1m1ms", 60_001),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        assert_eq!(parse("3µs"), Ok(Duration::from_micros(3)));
        assert_eq!(parse("0.000000001s"), Ok(Duration::from_nanos(1)));
    }

    #[test]
    fn what_is_no_duration_says_why() {
        let text = |text: &str| text.to_owned();
        assert_eq!(parse(""), Err(DurationError::Empty));
        assert_eq!(parse("30"), Err(DurationError::NoUnit { text: text("30") }));
        assert_eq!(parse("1h30"), Err(DurationError::NoUnit { text: text("1h30") }));
        assert_eq!(parse("-5m"), Err(DurationError::Negative { text: text("-5m") }));
        for odd in ["5 minutes", "5d", "s", "-", "1..2s", ".s", "1h-5m", " 5s", "5S"] {
            assert_eq!(parse(odd), Err(DurationError::Malformed { text: text(odd) }), "{odd}");
        }
        for long in ["2562048h", "99999999999999999999s"] {
            assert_eq!(parse(long), Err(DurationError::TooLong { text: text(long) }), "{long}");
        }
    }

    proptest! {
        #[test]
        fn no_text_brings_the_reader_down(text in "\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn no_almost_duration_brings_the_reader_down(text in "[-+]?([0-9.]{0,30}[hmsunµ]{0,3}){0,4}") {
            let _ = parse(&text);
        }

        #[test]
        fn whole_units_add_up(hours in 0_u64..1000, minutes in 0_u64..1000, seconds in 0_u64..1000) {
            let read = parse(&format!("{hours}h{minutes}m{seconds}s"));
            prop_assert_eq!(read, Ok(Duration::from_secs(hours * 3600 + minutes * 60 + seconds)));
        }
    }
}
