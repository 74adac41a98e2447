//! Requests as kube-scheduler sends them, and the exact answers.

use std::sync::Arc;

use engine::fixtures::{Scene, at, policy, preference, rule};
use engine::policy::{Combine, Mode, OnMissing, Operator};
use extender::{Extender, Reply, Route, Stray, Verb};
use http::{Request, StatusCode};

/// Three nodes: a at 20 W, b at 41 W, c unknown. `power` refuses over 30 W and prefers less; `strict`
/// refuses the unknown too; `shadow` only reports.
fn extender() -> Extender {
    let power = |name| {
        policy(name)
            .dont_schedule(Combine::AnyOf, [rule("node_power", Operator::GreaterThan, "30")])
            .prefer([preference("node_power", Operator::LessThan)])
    };
    let (mut strict, mut shadow) = (power("strict"), power("shadow"));
    strict.on_missing = OnMissing::Deny;
    shadow.mode = Mode::Shadow;
    let mut scene = Scene::new(&["a", "b", "c"], [power("power"), strict, shadow, policy("empty")]);
    scene.sample("a", "node_power", "20", at(0));
    scene.sample("b", "node_power", "41", at(0));
    scene.advance(at(0));
    Extender::new(Arc::new(arc_swap::ArcSwap::from_pointee(scene.view)), 10)
}

fn post(extender: &Extender, path: &str, body: &str) -> Reply {
    let request = Request::post(path).header("content-type", "application/json").body(()).expect("a request");
    let (head, ()) = request.into_parts();
    match extender.admit(&head) {
        Ok(route) => extender.answer(&route, body.as_bytes(), at(1)),
        Err(reply) => reply,
    }
}

fn pod(policy: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"web-1","namespace":"default","uid":"u","labels":{{"app":"web","telemetry-policy":"{policy}"}}}},"spec":{{"containers":[{{"name":"c"}}]}},"status":{{}}}}"#
    )
}

fn names_only(policy: &str, names: &str) -> String {
    format!(r#"{{"Pod":{},"Nodes":null,"NodeNames":{names}}}"#, pod(policy))
}

#[track_caller]
fn assert_answer(path: &str, body: &str, expected: &str) {
    let reply = post(&extender(), path, body);
    let answer = String::from_utf8(reply.body).expect("JSON is UTF-8");
    assert_eq!((reply.status, answer.as_str()), (StatusCode::OK, expected));
}

const FILTER: &str = "/scheduler/filter";
const PRIORITIZE: &str = "/scheduler/prioritize";
const PREEMPT: &str = "/scheduler/preempt";

#[test]
fn names_only_filter_refuses_with_a_reason_that_adds_up_in_events() {
    assert_answer(
        FILTER,
        &names_only("power", r#"["a","b","c"]"#),
        r#"{"Nodes":null,"NodeNames":["a","c"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"default/power: node_power over 30"},"Error":""}"#,
    );
    assert_answer(
        FILTER,
        &names_only("strict", r#"["a","b","c","template-9"]"#),
        r#"{"Nodes":null,"NodeNames":["a"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"default/strict: node_power over 30","c":"default/strict: node_power unknown","template-9":"default/strict: node unknown"},"Error":""}"#,
    );
}

#[test]
fn full_nodes_come_back_byte_for_byte() {
    let body = format!(
        r#"{{"Pod":{},"Nodes":{{"metadata":{{}},"items":[{{"metadata":{{"name":"a","x":1.50}},"status":{{}}}},{{"metadata":{{"name":"b"}}}}]}},"NodeNames":null}}"#,
        pod("power")
    );
    assert_answer(
        FILTER,
        &body,
        r#"{"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a","x":1.50},"status":{}}]},"NodeNames":null,"FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"default/power: node_power over 30"},"Error":""}"#,
    );
    assert_answer(PRIORITIZE, &body, r#"[{"Host":"a","Score":10},{"Host":"b","Score":0}]"#);
}

#[test]
fn both_lists_are_each_answered() {
    let body = format!(
        r#"{{"Pod":{},"Nodes":{{"items":[{{"metadata":{{"name":"b"}}}}]}},"NodeNames":["a"]}}"#,
        pod("power")
    );
    assert_answer(
        FILTER,
        &body,
        r#"{"Nodes":{"metadata":{},"items":[]},"NodeNames":["a"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"default/power: node_power over 30"},"Error":""}"#,
    );
}

#[test]
fn keys_match_in_any_case() {
    let body = format!(r#"{{"pod":{},"nodenames":["a","b"]}}"#, pod("power"));
    assert_answer(PRIORITIZE, &body, r#"[{"Host":"a","Score":10},{"Host":"b","Score":0}]"#);
    let body = format!(r#"{{"POD":{},"nodeNames":["a"]}}"#, pod("power"));
    assert_answer(PRIORITIZE, &body, r#"[{"Host":"a","Score":10}]"#);
}

#[test]
fn a_pod_without_a_policy_or_with_one_nobody_knows_passes_everywhere() {
    let unlabelled = r#"{"Pod":{"metadata":{"name":"p","namespace":"default"}},"NodeNames":["a","b"]}"#;
    let all =
        r#"{"Nodes":null,"NodeNames":["a","b"],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}"#;
    for body in [unlabelled, &names_only("nowhere", r#"["a","b"]"#), &names_only("empty", r#"["a","b"]"#)] {
        assert_answer(FILTER, body, all);
        assert_answer(PRIORITIZE, body, "[]");
    }
}

#[test]
fn the_policy_is_looked_up_in_the_pods_own_namespace() {
    let body = names_only("power", r#"["b"]"#).replace(r#""namespace":"default""#, r#""namespace":"other""#);
    let extender = extender();
    let reply = post(&extender, FILTER, &body);
    assert!(String::from_utf8(reply.body).unwrap().contains(r#""NodeNames":["b"]"#));
    let stray =
        Stray { namespace: "other".into(), policy: "power".into(), pod: "web-1".into(), uid: "u".into() };
    assert_eq!(extender.strays.take(), ([stray].into(), 0));
    assert_eq!(extender.counters.counts().policy_missing, 1);
}

#[test]
fn shadow_masks_refusals_and_counts_them() {
    let extender = extender();
    let reply = post(&extender, FILTER, &names_only("shadow", r#"["a","b"]"#));
    assert!(String::from_utf8(reply.body).unwrap().contains(r#""NodeNames":["a","b"]"#));
    let counts = extender.counters.counts();
    assert_eq!((counts.nodes_asked, counts.nodes_refused, counts.nodes_shadowed), (2, 0, 1));
    let tallies = extender.tallies.all();
    let [(name, tally)] = &tallies[..] else { panic!("one policy was asked, not {tallies:?}") };
    assert_eq!(
        (name.name(), tally.requests(Verb::Filter), tally.refused(), tally.shadowed()),
        ("shadow", 1, 0, 1)
    );
    assert_eq!(post(&extender, PRIORITIZE, &names_only("shadow", r#"["a","b"]"#)).body, b"[]");
}

#[test]
fn preempt_drops_refused_nodes_and_echoes_the_rest() {
    let short = format!(
        r#"{{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{{"a":{{"Pods":[{{"UID":"u1"}}],"NumPDBViolations":1}},"b":{{"Pods":[],"NumPDBViolations":0}}}}}}"#,
        pod("power")
    );
    assert_answer(
        PREEMPT,
        &short,
        r#"{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u1"}],"NumPDBViolations":1}}}"#,
    );
    let long = format!(
        r#"{{"Pod":{},"NodeNameToVictims":{{"a":{{"Pods":[{{"metadata":{{"name":"v","uid":"u1"}},"spec":{{}}}}],"NumPDBViolations":2}},"c":{{"Pods":null}},"b":null}},"NodeNameToMetaVictims":null}}"#,
        pod("power")
    );
    assert_answer(
        PREEMPT,
        &long,
        r#"{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u1"}],"NumPDBViolations":2},"c":{"Pods":[],"NumPDBViolations":0}}}"#,
    );
    assert_answer(PREEMPT, &format!(r#"{{"Pod":{}}}"#, pod("power")), r#"{"NodeNameToMetaVictims":{}}"#);
}

#[test]
fn escapes_duplicates_and_many_names_are_answered() {
    assert_answer(
        FILTER,
        &names_only("power", r#"["\u0061","a","b\"","b"]"#),
        r#"{"Nodes":null,"NodeNames":["a","a","b\""],"FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"default/power: node_power over 30"},"Error":""}"#,
    );
    let names: Vec<String> = (0..100_000).map(|n| format!("node-{n}")).collect();
    let body = names_only("power", &serde_json::to_string(&names).unwrap());
    let reply = post(&extender(), FILTER, &body);
    let answer: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(answer["NodeNames"].as_array().map(Vec::len), Some(100_000));
    assert_answer(
        FILTER,
        &names_only("power", "[]"),
        r#"{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}"#,
    );
}

#[test]
fn names_that_pass_side_by_side_are_copied_whatever_stands_between_them() {
    let failed = r#","FailedNodes":{},"FailedAndUnresolvableNodes":{"b":"default/power: node_power over 30"},"Error":""}"#;
    for (asked, passed) in [
        (r#"["a","c","b","d","e"]"#, r#"["a","c","d","e"]"#),
        (
            r#"[ "a" , "c",
            "b","d"]"#,
            r#"["a","c","d"]"#,
        ),
        (r#"["b","a"]"#, r#"["a"]"#),
        (r#"["","b",""]"#, r#"["",""]"#),
        (r#"["a","a","b"]"#, r#"["a","a"]"#),
        (r#"["b"]"#, "[]"),
    ] {
        let expected = format!(r#"{{"Nodes":null,"NodeNames":{passed}{failed}"#);
        assert_answer(FILTER, &names_only("power", asked), &expected);
    }
    assert_answer(PRIORITIZE, &names_only("power", "[]"), "[]");
}

#[test]
fn the_via_prefix_counts_who_called() {
    let extender = extender();
    for path in ["/via/main/cp-1/7/scheduler/filter", "/via/main/cp-1/7/scheduler/prioritize"] {
        assert_eq!(post(&extender, path, &names_only("power", r#"["a"]"#)).status, StatusCode::OK);
    }
    let seen: Vec<_> =
        extender.via.all().into_iter().map(|(via, s)| (via.into_string(), s.count(), s.last())).collect();
    assert_eq!(seen, [("main/cp-1/7".to_owned(), 2, at(1))]);
}

/// One line per bad request: status and the reason people read.
#[test]
fn every_bad_body_gets_400_and_its_own_reason() {
    let deep = format!(r#"{{"Pod":{}{},"NodeNames":["a"]}}"#, "[".repeat(200), "]".repeat(200));
    for (body, expected) in [
        ("", "the body is empty; send the JSON that kube-scheduler sends its extenders"),
        (" \n", "the body is empty; send the JSON that kube-scheduler sends its extenders"),
        (
            "null",
            "the body is not an extender request: invalid type: null, expected an object with Pod and NodeNames or Nodes at line 1 column 4",
        ),
        ("{", "the body is not an extender request: EOF while parsing an object at line 1 column 1"),
        (
            "[]",
            "the body is not an extender request: invalid type: sequence, expected an object with Pod and NodeNames or Nodes at line 1 column 0",
        ),
        (r#"{"Pod":null,"NodeNames":["a"]}"#, "\"Pod\" is missing or null; say which pod is to be placed"),
        (r#"{"NodeNames":["a"]}"#, "\"Pod\" is missing or null; say which pod is to be placed"),
        (r#"{"Pod":{}}"#, "\"NodeNames\" and \"Nodes\" are both missing or null; say which nodes to judge"),
        (
            r#"{"Pod":{},"Nodes":null,"NodeNames":null}"#,
            "\"NodeNames\" and \"Nodes\" are both missing or null; say which nodes to judge",
        ),
        (
            r#"{"Pod":{},"NodeNames":[1]}"#,
            "the body is not an extender request: invalid type: integer `1`, expected a text at line 1 column 24",
        ),
        (
            r#"{"Pod":{},"NodeNames":["a"]} x"#,
            "the body is not an extender request: trailing characters at line 1 column 30",
        ),
        (
            r#"{"Pod":{},"Nodes":{"items":[7]}}"#,
            "the body is not an extender request: invalid type: integer `7`, expected a Kubernetes object at line 1 column 1",
        ),
        (
            deep.as_str(),
            "the body is not an extender request: invalid type: sequence, expected a Kubernetes object at line 1 column 7",
        ),
    ] {
        let extender = extender();
        let reply = post(&extender, FILTER, body);
        let error: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let shown = (reply.status, error["error"].as_str());
        assert_eq!(shown, (StatusCode::BAD_REQUEST, Some(expected)), "{body}");
        assert_eq!(extender.counters.counts().undecodable, 1);
    }
}

#[test]
fn bytes_that_are_not_utf8_are_refused() {
    let route = Route { verb: Verb::Filter, via: None };
    let reply = extender().answer(&route, b"{\"Pod\":{},\"NodeNames\":[\"\xff\xfe\"]}", at(0));
    assert_eq!(reply.status, StatusCode::BAD_REQUEST);
}

#[test]
fn heads_are_judged_before_a_body_is_read() {
    let head = |method: &str, path: &str, content_type: Option<&str>| {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        extender().admit(&request.body(()).unwrap().into_parts().0).map_err(|reply| reply.status)
    };
    let filter = Ok(Route { verb: Verb::Filter, via: None });
    assert_eq!(head("POST", FILTER, Some("application/json")), filter);
    assert_eq!(head("POST", FILTER, Some("Application/JSON; charset=utf-8")), filter);
    assert_eq!(head("POST", FILTER, Some("text/plain")), Err(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    assert_eq!(head("POST", FILTER, None), Err(StatusCode::UNSUPPORTED_MEDIA_TYPE));
    assert_eq!(head("GET", FILTER, None), Err(StatusCode::METHOD_NOT_ALLOWED));
    for path in [
        "/",
        "/scheduler/bind",
        "/scheduler/filter/",
        "/via/a/b/scheduler/filter",
        "/via/a//c/scheduler/filter",
    ] {
        assert_eq!(head("POST", path, Some("application/json")), Err(StatusCode::NOT_FOUND), "{path}");
    }
    let long = format!("/via/a/b/{}/scheduler/filter", "c".repeat(600));
    assert_eq!(head("POST", &long, Some("application/json")), Err(StatusCode::NOT_FOUND));
}

#[test]
fn an_answer_says_its_length_and_type() {
    let reply = post(&extender(), PRIORITIZE, &names_only("empty", r#"["a"]"#));
    let response: http::Response<Vec<u8>> = reply.into();
    assert_eq!(response.headers()["content-length"], "2");
    assert_eq!(response.headers()["content-type"], "application/json");
}
