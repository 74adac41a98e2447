//! Bytes from anywhere: what is read, what is refused and how, and that nothing brings the reader down.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Limits, Place, ReadError, Reading, read};
use crate::compile::Defaults;
use crate::inspect::inspect;
use crate::path::FieldPath;

fn values(text: &str) -> Vec<Value> {
    let Reading { documents, errors } = read(text.as_bytes(), &Limits::default());
    assert_eq!(errors, []);
    documents.iter().map(super::Document::value).collect()
}

fn refusal(bytes: &[u8]) -> ReadError {
    let reading = read(bytes, &Limits::default());
    assert_eq!(reading.documents, []);
    reading.errors.into_iter().next().unwrap()
}

#[test]
fn scalars_are_read_as_kubernetes_reads_them() {
    assert_eq!(
        values("{a: 012, b: 0x1F, c: 1_000, d: 30.0, e: no, f: 2001-01-01, g: ~, h: '5', i: -0}"),
        [
            json!({ "a": 10, "b": 31, "c": 1000, "d": 30.0, "e": false, "f": "2001-01-01", "g": null, "h": "5", "i": 0 })
        ]
    );
}

#[test]
fn documents_come_in_order_and_empty_ones_do_not_count() {
    assert_eq!(
        values("---\na: 1\n---\n---\n# nothing\n---\nb: 2\n...\n"),
        [json!({ "a": 1 }), json!({ "b": 2 })]
    );
    assert_eq!(values(""), Vec::<Value>::new());
}

#[test]
fn a_broken_document_does_not_hide_those_before_it() {
    let Reading { documents, errors } = read(b"a: 1\n---\nb: [\n", &Limits::default());
    assert_eq!(documents.len(), 1);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].place(), Some(Place { line: 3, column: 4 }));
}

#[test]
fn places_are_those_that_people_look_for() {
    let reading = read("a:\r\n  b:\r\n  - c: {d: 1}\r\n    é: \"ü\"  # x\r\n".as_bytes(), &Limits::default());
    let document = &reading.documents[0];
    let item = FieldPath::ROOT.key("a").key("b").index(0);
    let place = |path: &FieldPath| document.place(path).to_string();
    assert_eq!(place(&FieldPath::ROOT.key("a")), "1:1");
    assert_eq!(place(&FieldPath::ROOT.key("a").key("b")), "2:3");
    assert_eq!(place(&item.key("c")), "3:5");
    assert_eq!(place(&item.key("c").key("d")), "3:12");
    assert_eq!(place(&item.key("é")), "4:8");
    assert_eq!(document.key_place(&item.key("é")).to_string(), "4:5");
    // What is not there is where it would be.
    assert_eq!(place(&item.key("missing").index(3)), "3:5");
}

#[test]
fn what_is_too_much_is_refused_by_its_limit() {
    let limits = Limits { bytes: 100, documents: 2, values: 20, repeated: 10, depth: 4 };
    let refused = |text: &str| {
        read(text.as_bytes(), &limits).errors.into_iter().map(|e| e.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(refused("[[[[1]]]]"), Vec::<String>::new());
    assert_eq!(refused("[[[[[1]]]]]"), ["maps and lists are nested too deep; the limit is 4"]);
    assert_eq!(
        refused("a:\n b:\n  c:\n   d:\n    e: 1\n"),
        ["maps and lists are nested too deep; the limit is 4"]
    );
    assert_eq!(
        refused("a: 1\n---\nb: 1\n---\nc: 1\n"),
        ["there are too many documents in this file; the limit is 2"]
    );
    assert_eq!(
        refused(&format!("[{}]", "1,".repeat(30))),
        ["there are too many values in this document; the limit is 20"]
    );
    assert_eq!(
        refused("a: &a [1, 2, 3]\nb: [*a, *a, *a]\n"),
        ["aliases (*name) repeat more values than a document may hold; the limit is 10"]
    );
    assert_eq!(refused(&"#".repeat(101)), ["it is larger than 100 bytes; a policy is a few hundred"]);
}

#[test]
fn what_is_no_text_says_so() {
    assert_eq!(refusal(b"a\0b"), ReadError::Binary { position: 1 });
    assert_eq!(refusal(b"a\xf6b"), ReadError::NotUtf8 { position: 1 });
    assert_eq!(refusal(b"\xff\xfea\0"), ReadError::Utf16);
}

#[test]
fn the_usual_causes_come_with_the_way_out() {
    assert!(refusal(b"a:\n\tb: 1\n").to_string().ends_with("YAML takes no tabs for indentation: use spaces"));
    assert!(refusal(b"a: {{ .Values.a }}\n").to_string().contains("render it first"));
    assert_eq!(refusal(b"a: 1\na: 2\n").to_string(), "the key \"a\" is there twice in one map; remove one");
}

fn corpus() -> Vec<(String, Vec<u8>)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// Everything that the library does with bytes.
fn digest(bytes: &[u8]) -> Reading {
    let reading = read(bytes, &Limits::default());
    for document in &reading.documents {
        for policy in inspect(document, &Defaults::default()).policies {
            let refused = policy
                .problems
                .iter()
                .any(|(_, problem)| problem.severity == crate::problem::Severity::Error);
            assert_eq!(policy.policy.is_none(), refused);
        }
    }
    reading
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_bring_the_reader_down(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        digest(&bytes);
    }

    #[test]
    fn no_yaml_like_text_brings_the_reader_down(text in "[-a-c:{}\\[\\]&*!|>'\"%@`#, \t\n~<?.0-9]{0,80}") {
        digest(text.as_bytes());
    }

    #[test]
    fn no_damage_to_a_known_file_brings_the_reader_down(
        pick in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        put in proptest::collection::vec(any::<u8>(), 0..4),
        drop in 0_usize..5,
    ) {
        let files: Vec<_> = corpus().into_iter().filter(|(_, bytes)| bytes.len() < 4000).collect();
        let (_, bytes) = pick.get(&files);
        let at = cut.index(bytes.len() + 1);
        let damaged = [&bytes[..at], &put, &bytes[(at + drop).min(bytes.len())..]].concat();
        digest(&damaged);
    }
}

#[test]
fn every_file_of_the_corpus_is_digested() {
    for (name, bytes) in corpus() {
        let Reading { documents, errors } = digest(&bytes);
        let nothing = ["comment-only.yaml", "empty.yaml", "null.yaml"].contains(&name.as_str());
        assert_eq!(documents.is_empty() && errors.is_empty(), nothing, "{name}");
    }
}
