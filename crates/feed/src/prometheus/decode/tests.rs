use engine::fixtures::number;
use proptest::prelude::*;

use super::*;

/// A series as a test looks at it.
type Seen = (Vec<(String, String)>, Vec<(i64, Quantity)>);

fn read_as(shape: Shape, body: &str) -> Result<(Vec<Seen>, Summary), DecodeError> {
    let mut seen = Vec::new();
    let summary = decode(body.as_bytes(), shape, &DecodeLimits::default(), |series| {
        let labels = series.labels.iter().map(|(k, v)| (k.clone().into_owned(), v.clone().into_owned()));
        let points = series.points.iter().map(|point| (point.at.millis(), point.value));
        seen.push((labels.collect(), points.collect()));
    })?;
    Ok((seen, summary))
}

fn read(body: &str) -> Result<(Vec<Seen>, Summary), DecodeError> {
    read_as(Shape::Vector, body)
}

fn vector(result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":{result}}}}}"#)
}

fn said(body: &str) -> String {
    read(body).expect_err("the answer is bad").to_string()
}

fn labels(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn a_vector_is_read_with_exact_values() {
    let (seen, summary) = read(&vector(
        r#"[{"metric":{"__name__":"power","node":"n1"},"value":[1700000000.123,"29.900000001"]},
            {"metric":{"node":"n\"2"},"value":[1700000000,"-1e+06"]}]"#,
    ))
    .unwrap();
    assert_eq!(
        seen,
        [
            (
                labels(&[("__name__", "power"), ("node", "n1")]),
                vec![(1_700_000_000_123, number("29.900000001"))]
            ),
            (labels(&[("node", "n\"2")]), vec![(1_700_000_000_000, number("-1000000"))]),
        ]
    );
    assert_eq!(summary, Summary { series: 2, ..Summary::default() });
}

#[test]
fn a_matrix_is_read_whatever_the_order_of_its_fields() {
    let body = r#"{"data":{"result":[{"values":[[1,"1"],[2,"2.5"]],"metric":{"node":"n1"}}],"resultType":"matrix"},
        "infos":["hm"],"status":"success","stats":{"deep":[[[]]]}}"#;
    let (seen, summary) = read_as(Shape::Matrix, body).unwrap();
    assert_eq!(seen, [(labels(&[("node", "n1")]), vec![(1000, number("1")), (2000, number("2.5"))])]);
    assert_eq!(summary.infos, ["hm"]);
}

#[test]
fn an_empty_vector_is_no_error() {
    for nothing in ["[]", "null"] {
        assert_eq!(read(&vector(nothing)).unwrap(), (vec![], Summary::default()));
    }
}

#[test]
fn values_that_are_none_are_counted_and_the_rest_is_kept() {
    let body = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":
        [[1,"NaN"],[2,"+Inf"],[3,"-Inf"],[4,"1e300"],[5,"watts"],[6,"5k"],[7,""],[1e300,"1"],[8,"-3"],[99999999999,"4"]],
        "histograms":[[9,{"count":"3","sum":"2","buckets":[[1,"0","1","2"]]}]]}]}}"#;
    let (seen, summary) = read_as(Shape::Matrix, body).unwrap();
    assert_eq!(seen, [(vec![], vec![(8000, number("-3")), (99_999_999_999_000, number("4"))])]);
    assert_eq!(summary.refused, Refused { not_finite: 3, out_of_range: 1, unreadable: 4, histograms: 1 });
}

#[test]
fn a_native_histogram_is_counted_and_gives_no_value() {
    let (seen, summary) =
        read(&vector(r#"[{"metric":{"node":"n1"},"histogram":[1,{"count":"3","sum":"2","buckets":[]}]}]"#))
            .unwrap();
    assert_eq!(seen, [(labels(&[("node", "n1")]), vec![])]);
    assert_eq!(summary.refused.histograms, 1);
}

#[test]
fn warnings_are_kept_up_to_a_point_and_counted() {
    let warnings = vec![format!("\"{}\"", "w".repeat(500)); 9].join(",");
    let body = format!(
        r#"{{"status":"success","warnings":[{warnings}],"data":{{"resultType":"vector","result":[]}}}}"#
    );
    let summary = read(&body).unwrap().1;
    assert_eq!((summary.warning_count, summary.warnings.len()), (9, 4));
    assert_eq!(summary.warnings[0], format!("{}…", "w".repeat(160)));
}

#[test]
fn every_useless_answer_says_what_it_is() {
    assert_eq!(said(""), "the answer is empty; does the URL point at the Prometheus API?");
    assert_eq!(said(" \n"), "the answer is empty; does the URL point at the Prometheus API?");
    assert_eq!(
        said("<!DOCTYPE html><html></html>"),
        "the answer is a web page, not JSON; does the URL point at the Prometheus API, past any login page?"
    );
    assert_eq!(said("upstream timed out"), "the answer is not JSON: it begins with \"upstream timed out\"");
    let whole = vector(r#"[{"metric":{"node":"n1"},"value":[1,"1"]}]"#);
    assert_eq!(said(&whole[..60]), "the answer ends in the middle, after 60 bytes");
    assert_eq!(
        said(r#"{"status":"error","errorType":"bad_data","error":"1:5: parse error: unexpected ')'"}"#),
        "the query was refused (bad_data): 1:5: parse error: unexpected ')'"
    );
    assert_eq!(
        said(r#"{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}"#),
        "the query gives a scalar where a vector is needed; it must give a value per node"
    );
    assert_eq!(
        said(r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#),
        "the query gives a matrix where a vector is needed; it must give a value per node"
    );
    assert_eq!(
        said(r#"{"status":"success","data":{"resultType":"string","result":[1,"x"]}}"#),
        "the query gives a string where a vector is needed; it must give a value per node"
    );
    assert_eq!(
        said(r#"{"kind":"Status","status":"Failure"}"#),
        "the answer is not what the Prometheus API sends: its status is \"Failure\""
    );
    assert_eq!(said("{}"), "the answer is not what the Prometheus API sends: it has no status");
    assert_eq!(
        said(r#"{"status":"success"}"#),
        "the answer is not what the Prometheus API sends: it has no data with resultType and result"
    );
    assert_eq!(
        said(&vector(r#"[{"metric":{},"values":[[1,"1"]]}]"#)),
        "the answer is not what the Prometheus API sends: its result is no vector although it says so"
    );
    assert_eq!(
        said(&vector(r#"[{"metric":{}}]"#)),
        "the answer is not what the Prometheus API sends: a series without value or values at line 1 column 73"
    );
    assert!(matches!(read(&format!("{whole} x")), Err(DecodeError::Malformed { .. })));
}

#[test]
fn limits_are_named_when_they_are_passed() {
    let with = |limits: DecodeLimits| {
        let body = vector(r#"[{"metric":{"a":"1","b":"2"},"value":[1,"1"]},{"metric":{},"value":[1,"2"]}]"#);
        decode(body.as_bytes(), Shape::Vector, &limits, |_| {}).map(|summary| summary.series)
    };
    let wide = DecodeLimits::default();
    assert_eq!(with(DecodeLimits { series: 2, labels: 2, points: 2 }), Ok(2));
    assert_eq!(with(DecodeLimits { series: 1, ..wide }), Err(DecodeError::TooManySeries { limit: 1 }));
    assert_eq!(with(DecodeLimits { labels: 1, ..wide }), Err(DecodeError::TooManyLabels { limit: 1 }));
    assert_eq!(with(DecodeLimits { points: 1, ..wide }), Err(DecodeError::TooManyPoints { limit: 1 }));
}

#[test]
fn deep_nesting_is_refused_or_skipped_but_never_followed() {
    let deep = "[".repeat(200_000);
    for body in [
        format!(r#"{{"status":"success","data":{deep}"#),
        format!(r#"{{"status":"success","other":{deep}"#),
        vector(&deep),
    ] {
        assert!(read(&body).is_err());
    }
}

#[test]
fn a_series_reads_as_prometheus_writes_it() {
    let body = vector(r#"[{"metric":{"__name__":"power","node":"n1","cpu":"0"},"value":[1,"1"]}]"#);
    let mut text = String::new();
    decode(body.as_bytes(), Shape::Vector, &DecodeLimits::default(), |series| text = series.text()).unwrap();
    assert_eq!(text, r#"power{node="n1", cpu="0"}"#);
}

/// Whole answers that byte-level properties start from; each found its place here for a reason its name says.
const CORPUS: [&[u8]; 8] = [
    include_bytes!("../../../tests/corpus/vector.json"),
    include_bytes!("../../../tests/corpus/matrix.json"),
    include_bytes!("../../../tests/corpus/histogram.json"),
    include_bytes!("../../../tests/corpus/error.json"),
    include_bytes!("../../../tests/corpus/warnings.json"),
    include_bytes!("../../../tests/corpus/scalar.json"),
    include_bytes!("../../../tests/corpus/escapes.json"),
    include_bytes!("../../../tests/corpus/login.html"),
];

/// What a decoder must hold to for any bytes: it returns, and counts what it handed over.
fn hold_together(body: &[u8]) {
    for shape in [Shape::Vector, Shape::Matrix] {
        let mut handed_over = 0;
        let limits = DecodeLimits { series: 50, labels: 20, points: 200 };
        let result = decode(body, shape, &limits, |series| {
            handed_over += 1;
            assert!(series.labels.len() <= limits.labels && series.points.len() <= limits.points);
        });
        assert!(handed_over <= limits.series);
        if let Ok(summary) = result {
            assert_eq!(summary.series, handed_over);
        }
    }
}

#[test]
fn the_corpus_holds_together_and_so_does_every_prefix_of_it() {
    for body in CORPUS {
        hold_together(body);
        for end in 0..body.len() {
            hold_together(&body[..end]);
        }
    }
}

proptest! {
    #[test]
    fn no_bytes_bring_the_decoder_down(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        hold_together(&body);
    }

    #[test]
    fn no_damage_to_a_real_answer_brings_the_decoder_down(
        which in 0..CORPUS.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..8),
    ) {
        let mut body = CORPUS[which].to_vec();
        for (place, byte, kind) in edits {
            let place = place.index(body.len().max(1));
            match kind {
                0 if place < body.len() => body[place] = byte,
                1 if place < body.len() => drop(body.remove(place)),
                _ => body.insert(place.min(body.len()), byte),
            }
        }
        hold_together(&body);
    }

    #[test]
    fn what_prometheus_prints_is_read_back_exactly(nanos in -1_000_000_000_000_000_000_i128..1_000_000_000_000_000_000, millis in 0_i64..4_000_000_000_000) {
        let value = Quantity::from_nanos(nanos);
        let body = vector(&format!(r#"[{{"metric":{{}},"value":[{}.{:03},"{value}"]}}]"#, millis / 1000, millis % 1000));
        prop_assert_eq!(read(&body).unwrap().0, [(vec![], vec![(millis, value)])]);
    }
}
