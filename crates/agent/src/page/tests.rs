//! What the page promises, whatever is handed to it.

use super::*;
use proptest::prelude::*;

static PLAIN: Family = Family::gauge(NameSet::Tas, "node_room_celsius", "celsius", "Warmth of the \"room\".");
static MOVES: Family = Family::counter(NameSet::Node, "node_steps_total", "", "Steps.");
static THEIRS: Family = Family::gauge(NameSet::Collectd, "collectd_<name>", "", "plugin: '<name>'");

fn written(format: Format, names: NameSets, write: impl FnOnce(&mut Page)) -> String {
    let mut page = Page::new("n1");
    page.begin(format, names);
    write(&mut page);
    String::from_utf8(page.finish().to_vec()).expect("a page is UTF-8")
}

fn all_three(page: &mut Page) {
    page.family(&PLAIN);
    page.sample(&[("room", b"a\"b\\c\nd")], Value::Signed(-1500, 3));
    page.sample(&[("room", b"caf\xff")], Value::Real(0.5));
    page.family(&MOVES);
    page.sample(&[], Value::Fixed(1234, 2));
    page.family_named(&THEIRS, &LegalName::of("collectd_mem ory"));
    page.sample(&[("type", b"x")], Value::Count(7));
    page.sample(&[], Value::Count(8));
}

fn unescaped(text: &str) -> String {
    let mut characters = text.chars();
    let mut out = String::new();
    while let Some(character) = characters.next() {
        out.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                other => other.expect("a backslash escapes something"),
            },
            other => other,
        });
    }
    out
}

#[test]
fn text_format() {
    let expected = "\
# HELP node_room_celsius Warmth of the \"room\".
# TYPE node_room_celsius gauge
node_room_celsius{room=\"a\\\"b\\\\c\\nd\"} -1.5
node_room_celsius{room=\"caf\u{fffd}\"} 0.5
# HELP node_steps_total Steps.
# TYPE node_steps_total counter
node_steps_total 12.34
# HELP collectd_mem_ory plugin: 'mem_ory'
# TYPE collectd_mem_ory gauge
collectd_mem_ory{type=\"x\",instance=\"n1\"} 7
collectd_mem_ory{instance=\"n1\"} 8
";
    assert_eq!(written(Format::Text, NameSets::ALL, all_three), expected);
}

#[test]
fn openmetrics_drops_total_from_the_family_names_the_unit_and_ends() {
    let expected = "\
# HELP node_room_celsius Warmth of the \\\"room\\\".
# TYPE node_room_celsius gauge
# UNIT node_room_celsius celsius
node_room_celsius{room=\"a\\\"b\\\\c\\nd\"} -1.5
node_room_celsius{room=\"caf\u{fffd}\"} 0.5
# HELP node_steps Steps.
# TYPE node_steps counter
node_steps_total 12.34
# EOF
";
    let names = NameSets { collectd: false, ..NameSets::ALL };
    assert_eq!(written(Format::OpenMetrics, names, all_three), expected);
}

#[test]
fn a_family_without_samples_leaves_no_header() {
    let text = written(Format::Text, NameSets::ALL, |page| {
        page.family(&PLAIN);
        page.family(&MOVES);
        page.sample(&[], Value::Count(1));
    });
    assert_eq!(text, "# HELP node_steps_total Steps.\n# TYPE node_steps_total counter\nnode_steps_total 1\n");
}

#[test]
fn the_second_opening_of_a_family_writes_nothing() {
    let text = written(Format::Text, NameSets::ALL, |page| {
        assert!(page.family(&MOVES));
        page.sample(&[], Value::Count(1));
        assert!(!page.family(&MOVES));
        page.sample(&[("other", b"label")], Value::Count(2));
    });
    assert_eq!(text.matches("node_steps_total").count(), 3);
}

#[test]
fn a_page_stops_at_its_limit_and_counts_what_is_left_out() {
    let mut page = Page::new("n1");
    page.begin(Format::Text, NameSets::ALL);
    page.family(&PLAIN);
    for n in 0..MAX_SERIES as u64 + 3 {
        page.sample(&[("n", Digits::of(n).as_bytes())], Value::Count(n));
    }
    assert_eq!((page.series(), page.left_out()), (MAX_SERIES, 3));
}

#[test]
fn a_full_page_has_room_for_what_the_agent_says_of_itself_and_for_nothing_else() {
    static OWN: Family = Family::gauge(NameSet::Own, "node_telemetry_mood", "", "Mood.");
    let mut page = Page::new("n1");
    page.begin(Format::Text, NameSets::ALL);
    for n in 0..MAX_SERIES {
        assert!(page.foreign(format!("a{n}").as_bytes(), b"1"));
    }
    page.family(&OWN);
    page.sample(&[], Value::Count(1));
    assert!(!page.foreign(b"b", b"1"), "whatever family is open, another's line is no own one");
    page.family(&PLAIN);
    page.sample(&[], Value::Count(1));
    assert_eq!((page.series(), page.left_out()), (MAX_SERIES + 1, 2));
    assert!(page.finish().ends_with(b"\nnode_telemetry_mood 1\n"));
}

#[test]
fn numbers_that_are_not_finite_are_not_written() {
    let text = written(Format::Text, NameSets::ALL, |page| {
        page.family(&PLAIN);
        page.sample(&[], Value::Real(f64::NAN));
        page.sample(&[], Value::Real(f64::INFINITY));
    });
    assert_eq!(text, "");
}

proptest! {
    #[test]
    fn any_value_reads_back(n: u64, i: i64, decimals in 0u8..=9) {
        let text = |value| {
            let mut text = Vec::new();
            write_value(&mut text, value);
            String::from_utf8(text).expect("digits are UTF-8")
        };
        prop_assert_eq!(text(Value::Count(n)), n.to_string());
        let steps = crate::scan::fixed(text(Value::Fixed(n % 1_000_000_000, decimals)).as_bytes(), u32::from(decimals));
        prop_assert_eq!(steps, Some(n % 1_000_000_000));
        prop_assert_eq!(text(Value::Signed(i, 0)), i.to_string());
    }

    #[test]
    fn any_label_bytes_give_one_line_that_reads_back(values: Vec<Vec<u8>>) {
        let text = written(Format::Text, NameSets::ALL, |page| {
            page.family(&PLAIN);
            for value in &values {
                page.sample(&[("v", value)], Value::Count(1));
            }
        });
        let mut expected: Vec<String> = Vec::new();
        for value in &values {
            let value = String::from_utf8_lossy(value).into_owned();
            if !expected.contains(&value) {
                expected.push(value);
            }
        }
        let read: Vec<String> = text.split('\n').filter(|l| l.starts_with("node_")).map(|line| {
            let inner = line.strip_prefix("node_room_celsius{v=\"").and_then(|l| l.strip_suffix("\"} 1"));
            unescaped(inner.expect("one sample a line"))
        }).collect();
        prop_assert_eq!(read, expected);
    }
}
