use super::{EmptySpan, Operator, Quantity, Span, Threshold};

fn number(text: &str) -> Quantity {
    text.parse().unwrap()
}

/// Intel's operator table (their `operator_test.go`), and the three operators they lack.
#[test]
fn operators_compare_exactly() {
    use Operator::{Equals, GreaterOrEqual, GreaterThan, LessOrEqual, LessThan, NotEquals};
    for (value, operator, target, expected) in [
        ("100", LessThan, "1000", true),
        ("100000", GreaterThan, "1", true),
        ("1", Equals, "1", true),
        ("10000", LessThan, "10", false),
        ("1", GreaterThan, "10000", false),
        ("1", Equals, "100", false),
        ("29.118254348", GreaterThan, "29", true),
        ("29.000000001", Equals, "29", false),
        ("29", GreaterOrEqual, "29", true),
        ("28.999999999", GreaterOrEqual, "29", false),
        ("29", LessOrEqual, "29", true),
        ("29.000000001", LessOrEqual, "29", false),
        ("1", NotEquals, "2", true),
        ("2", NotEquals, "2", false),
    ] {
        assert_eq!(operator.holds(number(value), number(target)), expected, "{value} {operator:?} {target}");
    }
}

#[test]
fn a_clear_value_must_lie_on_the_way_back() {
    let over = Threshold::new(Operator::GreaterThan, number("30"));
    let under = Threshold::new(Operator::LessThan, number("30"));
    let point = Threshold::new(Operator::Equals, number("30"));
    let text =
        |result: Result<Threshold, super::ThresholdError>| result.map_err(|e| e.to_string()).map(|_| ());
    assert_eq!(text(over.with_clear(number("25"))), Ok(()));
    assert_eq!(text(over.with_clear(number("30"))), Ok(()));
    assert_eq!(
        text(over.with_clear(number("35"))),
        Err("clear 35 is on the wrong side of target 30; with GreaterThan it must be at or under the target"
            .to_owned())
    );
    assert_eq!(
        text(under.with_clear(number("25"))),
        Err("clear 25 is on the wrong side of target 30; with LessThan it must be at or over the target"
            .to_owned())
    );
    assert_eq!(
        text(point.with_clear(number("30"))),
        Err("clear 30 has no meaning beside Equals; it goes with GreaterThan, GreaterOrEqual, LessThan and LessOrEqual".to_owned())
    );
}

#[test]
fn a_span_has_a_lower_and_an_upper_end() {
    let (low, high) = (number("1"), number("2"));
    assert!(Span::new(low, high).is_ok());
    assert_eq!(Span::new(high, low), Err(EmptySpan { low: high, high: low }));
    assert_eq!(Span::new(low, low), Err(EmptySpan { low, high: low }));
}
