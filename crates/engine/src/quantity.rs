//! Exact numbers in Kubernetes syntax: a count of nano steps, never a float.
//!
//! Parsing follows the Kubernetes quantity grammar (`40`, `2.5`, `300m`, `64Gi`, `1e3`) and the numbers
//! Prometheus prints. Finer than nano is rounded away from zero, as Kubernetes does.

use std::fmt;
use std::str::FromStr;

/// Decimal digits kept behind the point.
const DECIMALS: i32 = 9;
const NANOS: i128 = 1_000_000_000;
/// How much of a bad input an error repeats.
const QUOTED_CHARS: usize = 40;

/// An exact number: metric value, target, what a pod adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Quantity(i128);

/// Why a text is not a [`Quantity`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Nothing but white space.
    #[error("an empty text is not a number; write it like 40, 2.5, 300m or 64Gi")]
    Empty,
    /// Not of the Kubernetes quantity grammar.
    #[error("{text:?} is not a number; write it like 40, 2.5, 300m or 64Gi")]
    NotANumber {
        /// The offending text, shortened.
        text: String,
    },
    /// NaN or an infinity: a sensor's way to say it has no value.
    #[error("{text:?} is not a finite number")]
    NotFinite {
        /// The offending text, shortened.
        text: String,
    },
    /// Beyond what an exact nano-step number holds.
    #[error("{text:?} is out of range; the largest magnitude is about 1.7e29")]
    OutOfRange {
        /// The offending text, shortened.
        text: String,
    },
}

impl Quantity {
    /// Nought.
    pub const ZERO: Self = Self(0);

    /// A quantity of so many nano steps.
    pub const fn from_nanos(nanos: i128) -> Self {
        Self(nanos)
    }

    /// The exact value in nano steps.
    pub const fn nanos(self) -> i128 {
        self.0
    }

    /// The magnitude.
    #[must_use]
    pub const fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }

    /// The sum, held at the ends of the range: a garbage sensor must not wrap into a sensible value.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, held at the ends of the range.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// This many times the quantity, held at the ends of the range.
    #[must_use]
    pub const fn saturating_times(self, count: u32) -> Self {
        Self(self.0.saturating_mul(count as i128))
    }

    /// A fraction of the quantity, cut towards zero.
    #[must_use]
    pub const fn divided_by(self, parts: u32) -> Self {
        Self(if parts == 0 { self.0 } else { self.0 / parts as i128 })
    }

    /// Whether it is a whole number.
    pub const fn is_whole(self) -> bool {
        self.0 % NANOS == 0
    }

    /// For people: about four significant digits, large numbers with a decimal suffix.
    pub const fn brief(self) -> Brief {
        Brief { value: self, digits: 4 }
    }

    /// For people, with as many digits as it takes to differ from `other` where the two differ at all:
    /// nobody should read "30 over 30".
    pub fn brief_beside(self, other: Self) -> Brief {
        let reads_as = |value, digits| Brief { value, digits }.to_string();
        let mut digits = 4;
        while digits < 38 && self != other && reads_as(self, digits) == reads_as(other, digits) {
            digits += 1;
        }
        Brief { value: self, digits }
    }
}

impl From<i64> for Quantity {
    fn from(whole: i64) -> Self {
        Self(i128::from(whole) * NANOS)
    }
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        parse(text.trim())
    }
}

/// The exact decimal form, which is also a valid Kubernetes quantity.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let magnitude = self.0.unsigned_abs();
        let (whole, fraction) = (magnitude / NANOS.unsigned_abs(), magnitude % NANOS.unsigned_abs());
        let mut text = whole.to_string();
        if fraction != 0 {
            text.push('.');
            text.push_str(format!("{fraction:09}").trim_end_matches('0'));
        }
        f.pad_integral(self.0 >= 0, "", &text)
    }
}

/// A quantity shortened for reading; made by [`Quantity::brief`].
#[derive(Clone, Copy, Debug)]
pub struct Brief {
    value: Quantity,
    digits: u32,
}

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SUFFIXES: [(&str, u32); 5] = [("E", 27), ("P", 24), ("T", 21), ("G", 18), ("M", 15)];
        let magnitude = self.value.0.unsigned_abs();
        let (suffix, unit) = SUFFIXES
            .into_iter()
            .find(|&(_, power)| magnitude >= 10_u128.pow(power))
            .map_or(("", NANOS.unsigned_abs()), |(suffix, power)| (suffix, 10_u128.pow(power)));
        // Round to the wanted number of significant digits, but never cut into the whole part.
        let decimals = match (magnitude / unit).checked_ilog10() {
            Some(log) => self.digits.saturating_sub(log + 1),
            None => self.digits + unit.ilog10() - 1 - magnitude.checked_ilog10().unwrap_or(unit.ilog10() - 1),
        };
        let decimals = decimals.min(unit.ilog10());
        let step = unit / 10_u128.pow(decimals);
        let rounded = magnitude.saturating_add(step / 2) / step;
        let scale = 10_u128.pow(decimals);
        let mut text = (rounded / scale).to_string();
        if !rounded.is_multiple_of(scale) {
            let fraction = format!("{:0width$}", rounded % scale, width = decimals as usize);
            text.push('.');
            text.push_str(fraction.trim_end_matches('0'));
        }
        text.push_str(suffix);
        f.pad_integral(self.value.0 >= 0 || rounded == 0, "", &text)
    }
}

/// What the suffix multiplies by: two to the `binary` times ten to the `decimal`.
struct Scale {
    binary: u32,
    decimal: i32,
}

fn parse(text: &str) -> Result<Quantity, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Empty);
    }
    let (negative, unsigned) = match text.as_bytes()[0] {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if ["nan", "inf", "infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word)) {
        return Err(QuantityError::NotFinite { text: quoted(text) });
    }
    let malformed = || QuantityError::NotANumber { text: quoted(text) };
    let number_len = unsigned.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
    let (number, suffix) = unsigned.split_at(number_len);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }
    let scale = scale_of(suffix).ok_or_else(malformed)?;
    let magnitude = magnitude(whole, fraction, &scale)
        .and_then(|nanos| i128::try_from(nanos).ok())
        .ok_or_else(|| QuantityError::OutOfRange { text: quoted(text) })?;
    Ok(Quantity(if negative { -magnitude } else { magnitude }))
}

fn scale_of(suffix: &str) -> Option<Scale> {
    let decimal = |decimal| Some(Scale { binary: 0, decimal });
    let binary = |binary| Some(Scale { binary, decimal: 0 });
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => decimal(exponent(suffix)?),
    }
}

/// The power of an `e3`, `E-6` or `e+21`; one too long to read is as good as a million.
fn exponent(suffix: &str) -> Option<i32> {
    let power = suffix.strip_prefix(['e', 'E'])?;
    let (negative, digits) = match power.as_bytes().first()? {
        b'-' => (true, &power[1..]),
        b'+' => (false, &power[1..]),
        _ => (false, power),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let size = digits.parse::<i32>().unwrap_or(1_000_000).min(1_000_000);
    Some(if negative { -size } else { size })
}

/// The value in nano steps, rounded away from zero; `None` when it does not fit.
fn magnitude(whole: &str, fraction: &str, scale: &Scale) -> Option<u128> {
    let mut digits = 0_u128;
    let mut power = i64::from(scale.decimal) + i64::from(DECIMALS) - i64::try_from(fraction.len()).ok()?;
    // Digits past what 128 bits hold cannot change a value that still fits, but for its last step.
    let (mut full, mut inexact) = (false, false);
    for digit in whole.bytes().chain(fraction.bytes()).map(|b| u128::from(b - b'0')) {
        match digits.checked_mul(10).and_then(|shifted| shifted.checked_add(digit)) {
            Some(longer) if !full => digits = longer,
            _ => {
                full = true;
                inexact |= digit != 0;
                power += 1;
            }
        }
    }
    if digits == 0 && !inexact {
        return Some(0);
    }
    for _ in 0..scale.binary {
        while digits > u128::MAX / 2 {
            // More digits than fit beside the suffix: give up the last one rather than the value.
            inexact |= !digits.is_multiple_of(10);
            digits /= 10;
            power += 1;
        }
        digits *= 2;
    }
    while power > 0 {
        digits = digits.checked_mul(10)?;
        power -= 1;
    }
    while power < 0 && digits != 0 {
        inexact |= !digits.is_multiple_of(10);
        digits /= 10;
        power += 1;
    }
    digits.checked_add(u128::from(inexact))
}

fn quoted(text: &str) -> String {
    match text.char_indices().nth(QUOTED_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
    }
}

#[cfg(test)]
mod tests;
