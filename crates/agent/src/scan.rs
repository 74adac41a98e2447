//! Reading kernel text byte by byte: lines, fields, numbers. No allocation, no panic, whatever the bytes.

/// The lines of `text` without their line ends.
pub fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = (!text.is_empty()).then(|| text.strip_suffix(b"\n").unwrap_or(text));
    std::iter::from_fn(move || {
        let text = rest?;
        let end = text.iter().position(|&b| b == b'\n');
        rest = end.map(|end| &text[end + 1..]);
        Some(&text[..end.unwrap_or(text.len())])
    })
}

/// The fields of a line, separated by any run of blanks.
pub fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        let field;
        (field, rest) = rest.split_at(end);
        (!field.is_empty()).then_some(field)
    })
}

/// A decimal number and nothing else. Larger than 64 bits counts as not a number.
pub fn number(field: &[u8]) -> Option<u64> {
    if field.is_empty() {
        return None;
    }
    field.iter().try_fold(0u64, |sum, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { sum.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// A decimal number that may carry a minus sign.
pub fn signed(field: &[u8]) -> Option<i64> {
    match field.strip_prefix(b"-") {
        Some(digits) => 0i64.checked_sub_unsigned(number(digits)?),
        None => i64::try_from(number(field)?).ok(),
    }
}

/// A number written with up to `decimals` decimals, as an integer of the smallest step: `1.25` with 2 is 125.
/// Further decimals are cut off.
pub fn fixed(field: &[u8], decimals: u32) -> Option<u64> {
    let dot = field.iter().position(|&b| b == b'.');
    let (whole, rest) = match dot {
        Some(at) => (&field[..at], &field[at + 1..]),
        None => (field, &b""[..]),
    };
    if dot.is_some() && (rest.is_empty() || !rest.iter().all(u8::is_ascii_digit)) {
        return None;
    }
    let kept = &rest[..rest.len().min(decimals as usize)];
    let fraction = if kept.is_empty() { 0 } else { number(kept)? };
    let missing = decimals - u32::try_from(kept.len()).ok()?;
    let fraction = fraction.checked_mul(10u64.checked_pow(missing)?)?;
    number(whole)?.checked_mul(10u64.checked_pow(decimals)?)?.checked_add(fraction)
}

/// The text without blanks at both ends.
pub fn trimmed(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

/// The one number a sysfs attribute consists of.
pub fn lone_number(text: &[u8]) -> Option<u64> {
    number(trimmed(text))
}

/// The same with a sign.
pub fn lone_signed(text: &[u8]) -> Option<i64> {
    signed(trimmed(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_and_fields_of_a_kernel_file() {
        let text = b"cpu  1 2\n\ncpu0 3\n";
        let all: Vec<Vec<&[u8]>> = lines(text).map(|l| fields(l).collect()).collect();
        assert_eq!(all, vec![vec![&b"cpu"[..], b"1", b"2"], vec![], vec![b"cpu0", b"3"]]);
        assert_eq!(lines(b"").count(), 0);
        assert_eq!(lines(b"x").count(), 1);
    }

    #[test]
    fn a_number_is_all_digits_and_fits() {
        let cases: &[(&[u8], Option<u64>)] = &[
            (b"0", Some(0)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"18446744073709551616", None),
            (b"", None),
            (b"-1", None),
            (b"+1", None),
            (b"1 ", None),
            (b"0x1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn decimals_are_kept_to_the_step_asked_for() {
        let cases: &[(&[u8], Option<u64>)] = &[
            (b"1.25", Some(125)),
            (b"1.2", Some(120)),
            (b"1", Some(100)),
            (b"1.259", Some(125)),
            (b"1.", None),
            (b".5", None),
            (b"1.x", None),
            (b"1.2x", None),
            (b"1.25x", None),
        ];
        for (text, expected) in cases {
            assert_eq!(fixed(text, 2), *expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_number_reads_back(n: u64, i: i64) {
            prop_assert_eq!(number(n.to_string().as_bytes()), Some(n));
            prop_assert_eq!(signed(i.to_string().as_bytes()), Some(i));
        }

        #[test]
        fn any_fixed_number_reads_back(whole in 0u64..1_000_000_000, cents in 0u64..100) {
            prop_assert_eq!(fixed(format!("{whole}.{cents:02}").as_bytes(), 2), Some(whole * 100 + cents));
        }

        #[test]
        fn arbitrary_bytes_are_read_without_a_panic_and_nothing_is_lost(text: Vec<u8>) {
            let _ = (number(&text), signed(&text), fixed(&text, 2), fixed(&text, 6), lone_number(&text));
            let kept: usize = lines(&text).map(|l| fields(l).map(<[u8]>::len).sum::<usize>()).sum();
            prop_assert_eq!(kept, text.iter().filter(|b| !b.is_ascii_whitespace()).count());
        }
    }
}
