//! Whatever bytes come in, an answer goes out, and no answer names a node that was not asked about.

use std::collections::BTreeSet;
use std::sync::Arc;

use engine::fixtures::{Scene, at, policy, preference, rule};
use engine::policy::{Combine, OnMissing, Operator};
use extender::{Extender, Route, Verb};
use proptest::prelude::*;

fn extender() -> Extender {
    let mut strict = policy("p")
        .dont_schedule(Combine::AnyOf, [rule("m", Operator::GreaterThan, "30")])
        .prefer([preference("m", Operator::LessThan)]);
    strict.on_missing = OnMissing::Deny;
    let mut scene = Scene::new(&["a", "b", "c"], [strict]);
    scene.sample("a", "m", "20", at(0));
    scene.sample("b", "m", "41", at(0));
    scene.advance(at(0));
    Extender::new(Arc::new(arc_swap::ArcSwap::from_pointee(scene.view)), 10)
}

fn answers(body: &[u8]) -> [extender::Reply; 3] {
    let extender = extender();
    [Verb::Filter, Verb::Prioritize, Verb::Preempt]
        .map(|verb| extender.answer(&Route { verb, via: None }, body, at(1)))
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(body).is_ok()
}

#[test]
fn the_corpus_gets_answers() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus");
    let mut seen = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let body = std::fs::read(&path).unwrap();
        for reply in answers(&body) {
            assert!(is_json(&reply.body), "{}", path.display());
        }
        seen += 1;
    }
    assert!(seen >= 20, "the corpus is gone: {seen} files");
}

const GOOD: &str = r#"{"Pod":{"metadata":{"name":"w","namespace":"default","labels":{"telemetry-policy":"p"}}},"Nodes":{"items":[{"metadata":{"name":"b"}}]},"NodeNames":["a","b","\u0063"],"NodeNameToMetaVictims":{"a":{"Pods":[],"NumPDBViolations":0}}}"#;

proptest! {
    #[test]
    fn any_bytes_get_an_answer(body in prop::collection::vec(any::<u8>(), 0..200)) {
        for reply in answers(&body) {
            prop_assert!(is_json(&reply.body));
        }
    }

    #[test]
    fn a_damaged_request_gets_an_answer(at in 0..GOOD.len(), cut in 0usize..8, put in prop::collection::vec(any::<u8>(), 0..8)) {
        let mut body = GOOD.as_bytes().to_vec();
        let end = (at + cut).min(body.len());
        body.splice(at..end, put);
        for reply in answers(&body) {
            prop_assert!(is_json(&reply.body), "{}", String::from_utf8_lossy(&reply.body));
        }
    }

    #[test]
    fn every_name_asked_about_is_answered_once_and_no_other(names in prop::collection::vec("[abc]|\\PC{0,6}", 0..30)) {
        let body = serde_json::json!({
            "Pod": {"metadata": {"name": "w", "namespace": "default", "labels": {"telemetry-policy": "p"}}},
            "NodeNames": names,
        });
        let [filtered, scored, _] = answers(body.to_string().as_bytes());
        let filtered: serde_json::Value = serde_json::from_slice(&filtered.body).unwrap();
        let passed = filtered["NodeNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
        let refused = filtered["FailedAndUnresolvableNodes"].as_object().unwrap().keys().cloned();
        let answered: BTreeSet<String> = passed.chain(refused).collect();
        prop_assert_eq!(answered, names.iter().cloned().collect::<BTreeSet<_>>());
        let scored: serde_json::Value = serde_json::from_slice(&scored.body).unwrap();
        let hosts: Vec<&str> = scored.as_array().unwrap().iter().map(|entry| entry["Host"].as_str().unwrap()).collect();
        prop_assert_eq!(hosts, names.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
