use super::{Quantity, QuantityError};
use proptest::prelude::*;

fn nanos(text: &str) -> i128 {
    text.parse::<Quantity>().unwrap_or_else(|e| panic!("{text}: {e}")).nanos()
}

#[test]
fn every_suffix_means_what_kubernetes_says() {
    let giga = 1_000_000_000;
    for (text, expected) in [
        ("0", 0),
        ("-0", 0),
        ("1n", 1),
        ("1u", 1_000),
        ("300m", 300_000_000),
        ("40", 40 * giga),
        ("+40", 40 * giga),
        ("-40", -40 * giga),
        ("2.5", 2_500_000_000),
        (".5", 500_000_000),
        ("5.", 5 * giga),
        ("1k", 1_000 * giga),
        ("1M", 1_000_000 * giga),
        ("1G", giga * giga),
        ("1T", 1_000 * giga * giga),
        ("1P", 1_000_000 * giga * giga),
        ("1E", giga * giga * giga),
        ("1Ki", 1024 * giga),
        ("64Gi", 64 * 1024 * 1024 * 1024 * giga),
        ("1Ei", 1024_i128.pow(6) * giga),
        ("1e3", 1_000 * giga),
        ("1E3", 1_000 * giga),
        ("1e-3", giga / 1_000),
        ("1.5e+1", 15 * giga),
        (" 7 ", 7 * giga),
    ] {
        assert_eq!(nanos(text), expected, "{text}");
    }
}

#[test]
fn finer_than_nano_is_rounded_away_from_zero_as_kubernetes_does() {
    assert_eq!("29.9018074700547".parse::<Quantity>().unwrap().to_string(), "29.901807471");
    assert_eq!(nanos("-0.0000000001"), -1);
    assert_eq!(nanos("1e-400"), 1);
    assert_eq!(nanos("5e-324"), 1);
    assert_eq!(nanos("0e-400"), 0);
    assert_eq!(nanos("0.00000000000000000000000000000000000000000000000001Ki"), 1);
}

#[test]
fn malformed_texts_are_refused_with_the_text_quoted() {
    for text in [
        "3O", "1.2.3", "--1", "+-1", ".", "-", "m", "1 k", "1kk", "0x10", "1e", "1e+", "1e1.5", "1K", "1mi",
        "٣", "1_000",
    ] {
        assert_eq!(
            text.parse::<Quantity>(),
            Err(QuantityError::NotANumber { text: text.to_owned() }),
            "{text}"
        );
    }
    assert_eq!("".parse::<Quantity>(), Err(QuantityError::Empty));
    assert_eq!(" \t".parse::<Quantity>(), Err(QuantityError::Empty));
}

#[test]
fn what_is_not_finite_is_never_a_value() {
    for text in ["NaN", "nan", "+Inf", "-Inf", "Inf", "infinity"] {
        assert!(matches!(text.parse::<Quantity>(), Err(QuantityError::NotFinite { .. })), "{text}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_shortened() {
    let long = "9".repeat(400);
    for text in ["1e400", "1e30", "200000000000E", &long, "-1e30", "1e99999999999999999999"] {
        assert!(matches!(text.parse::<Quantity>(), Err(QuantityError::OutOfRange { .. })), "{text}");
    }
    assert_eq!(
        long.parse::<Quantity>().unwrap_err().to_string(),
        format!("\"{}…\" is out of range; the largest magnitude is about 1.7e29", "9".repeat(40))
    );
    assert_eq!(nanos(&format!("0.{}", "9".repeat(400))), 1_000_000_000);
    assert_eq!(nanos(&format!("{}7", "0".repeat(400))), 7_000_000_000);
}

#[test]
fn people_read_about_four_digits() {
    for (text, expected) in [
        ("41", "41"),
        ("41.0277", "41.03"),
        ("0.12345", "0.1235"),
        ("147173376", "147.2M"),
        ("64Gi", "68.72G"),
        ("1999999", "2M"),
        ("-3.14159", "-3.142"),
        ("-0.0000001", "-0.0000001"),
        ("0", "0"),
        ("0.000123456", "0.0001235"),
        ("12345.6", "12346"),
    ] {
        let brief = text.parse::<Quantity>().unwrap().brief().to_string();
        assert_eq!(brief, expected, "{text}");
    }
}

#[test]
fn a_value_just_past_its_target_is_printed_so_that_it_differs() {
    let (value, target) = ("30.00001".parse::<Quantity>().unwrap(), Quantity::from(30));
    assert_eq!(value.brief_beside(target).to_string(), "30.00001");
    assert_eq!(Quantity::from(41).brief_beside(target).to_string(), "41");
    assert_eq!(target.brief_beside(target).to_string(), "30");
}

proptest! {
    #[test]
    fn what_is_printed_parses_to_the_same_value(nanos in any::<i128>()) {
        let value = Quantity::from_nanos(nanos.max(-i128::MAX));
        prop_assert_eq!(value.to_string().parse::<Quantity>(), Ok(value));
    }

    #[test]
    fn order_of_values_is_order_of_numbers(a in -1_000_000_000i64..1_000_000_000, b in -1_000_000_000i64..1_000_000_000) {
        let parsed = |milli: i64| format!("{milli}m").parse::<Quantity>().unwrap();
        prop_assert_eq!(parsed(a).cmp(&parsed(b)), a.cmp(&b));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = text.parse::<Quantity>();
    }

    #[test]
    fn near_numbers_never_panic(text in "[-+]?[0-9.]{0,50}[eEkKMGTPmunpi]{0,2}[-+]?[0-9]{0,12}") {
        if let Ok(value) = text.parse::<Quantity>() {
            let _ = (value.to_string(), value.brief().to_string());
        }
    }

    #[test]
    fn binary_suffixes_are_exact(count in 0i128..1_000_000_000_000, tier in 1u32..=6) {
        let suffix = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][tier as usize - 1];
        let expected = 1024_i128.pow(tier).checked_mul(count).and_then(|v| v.checked_mul(1_000_000_000));
        let parsed = format!("{count}{suffix}").parse::<Quantity>().ok().map(Quantity::nanos);
        prop_assert_eq!(parsed, expected);
    }
}
