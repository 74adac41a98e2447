//! The controller against an API server in memory, in virtual time: exact requests, every fault on purpose, and nothing
//! written when nothing changed.

mod stage;

use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::fixtures::{policy, rule};
use engine::plan::{Namespaces, Settings};
use engine::policy::{Combine, Mark, Mode, Operator, Policy, TaintEffect};
use serde_json::{Value, json};
use server::controller::{AT_ONCE, Pause};
use stage::api_server::{ApiServer, Fault, refusal};
use stage::{NODES, POLICIES, Stage, node};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/tas-system/leases/tas-controller";
const VIOLATING: &str = r#"labels {"power":"violating"}"#;

fn power() -> Policy {
    policy("power").deschedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")])
}

fn all_hot(stage: &mut Stage, nodes: &[&str]) {
    stage.samples(&nodes.iter().map(|name| (*name, "41")).collect::<Vec<_>>());
}

/// The writes that are under way at once stay so.
fn all_hot_and_eight_unanswered(stage: &mut Stage, nodes: &[&str]) {
    for name in nodes.iter().take(8) {
        stage.server.fault(name, Fault::Silence);
    }
    all_hot(stage, nodes);
}

fn held_by(holder: &str) -> Value {
    json!({"metadata": {"name": "tas-controller"}, "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15}})
}

fn labelled(name: &str, manager: &str, operation: &str) -> Value {
    let mut node = node(name);
    node["metadata"]["labels"] = json!({"power": "violating"});
    node["metadata"]["managedFields"] = json!([{"manager": manager, "operation": operation, "fieldsV1": {"f:metadata": {"f:labels": {"f:power": {}}}}}]);
    node
}

#[tokio::test(start_paused = true)]
async fn a_hot_node_gets_its_label_by_one_write_and_then_nothing_is_written_any_more() {
    let mut stage = Stage::new(ApiServer::default(), &["n1", "n2"], vec![power()]).await;
    stage.samples(&[("n1", "41"), ("n2", "20")]);
    let asked = stage.pass(SECOND).await;
    assert_eq!(asked.len(), 2, "{asked:#?}");
    assert_eq!(asked[0].said, "PATCH /api/v1/nodes/n1?fieldManager=tas&force=false");
    assert_eq!(
        asked[0].sent,
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "uid": "uid-of-/api/v1/nodes/n1", "resourceVersion": "1", "labels": {"power": "violating"}}})
    );
    assert_eq!(asked[1].said, format!("PATCH {POLICIES}/power/status?fieldManager=tas"));
    assert_eq!(asked[1].sent["status"]["violating"]["count"], 1);

    // The watch tells of what we wrote, metrics are read again and again, and none of it is a reason to write.
    stage.see_node("n1").await;
    for _ in 0..100 {
        stage.samples(&[("n1", "41"), ("n2", "20")]);
        assert_eq!(stage.pass(5 * SECOND).await, []);
    }
    stage.samples(&[("n1", "20"), ("n2", "20")]);
    assert_eq!(stage.on_nodes(SECOND).await, ["n1: labels {}"]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_before_everything_was_seen_once() {
    let server = ApiServer::default();
    server.put(&format!("{NODES}/n1"), labelled("n1", "tas", "Apply"));
    let mut stage = Stage::unlisted(server, &["n1"], vec![power()], Settings::default()).await;
    stage.samples(&[("n1", "41")]);
    stage.list_nodes().await;
    assert_eq!(stage.pass(MINUTE).await, [], "whose label that is cannot be known without policies");
    stage.list().await;
    stage.samples(&[("n1", "41")]);
    assert_eq!(stage.pass(SECOND).await.len(), 1, "the status");
    // Nor before there is a view of it all.
    let stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    assert_eq!(stage.pass(MINUTE).await, []);
}

#[tokio::test(start_paused = true)]
async fn whoever_takes_over_finds_all_right_and_writes_nothing() {
    let server = ApiServer::default();
    let mut first = Stage::new(server.clone(), &["n1", "n2"], vec![power()]).await;
    first.samples(&[("n1", "41"), ("n2", "20")]);
    assert_eq!(first.pass(SECOND).await.len(), 2);
    first.leave().await;
    let mut second = Stage::new(server, &["n1", "n2"], vec![power()]).await;
    second.samples(&[("n1", "41"), ("n2", "20")]);
    assert_eq!(second.pass(MINUTE).await, []);
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_nobody_was_there_is_put_right_at_the_start() {
    let server = ApiServer::default();
    // Of a policy that was deleted, of a node that has cooled down, and of somebody else.
    let mut gone = labelled("n1", "tas", "Apply");
    gone["metadata"]["labels"] = json!({"gone": "violating"});
    gone["metadata"]["managedFields"][0]["fieldsV1"] = json!({"f:metadata": {"f:labels": {"f:gone": {}}}});
    server.put(&format!("{NODES}/n1"), gone);
    server.put(&format!("{NODES}/n2"), labelled("n2", "tas", "Apply"));
    let mut foreign = node("n3");
    foreign["metadata"]["labels"] = json!({"power": "supply-b"});
    server.put(&format!("{NODES}/n3"), foreign);
    let mut stage = Stage::new(server, &["n1", "n2", "n3"], vec![power()]).await;
    stage.samples(&[("n1", "20"), ("n2", "20"), ("n3", "41")]);
    let mut done = stage.on_nodes(SECOND).await;
    done.sort();
    assert_eq!(done, ["n1: labels {}", "n2: labels {}"]);
    assert_eq!(reason(&stage, "power", "Enforced").as_deref(), Some("ForeignLabel"));
    assert_eq!(stage.on_nodes(10 * MINUTE).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn leftovers_of_an_earlier_tas_are_taken_over_or_taken_off() {
    let server = ApiServer::default();
    for name in ["n1", "n2"] {
        server.put(&format!("{NODES}/{name}"), labelled(name, "extender", "Update"));
    }
    let mut stage = Stage::new(server, &["n1", "n2"], vec![power()]).await;
    stage.samples(&[("n1", "41"), ("n2", "20")]);
    let mut done = stage.on_nodes(SECOND).await;
    done.sort();
    assert_eq!(
        done,
        [
            format!("n1: {}", VIOLATING.replace("labels", "labels by force")),
            "n2: off {\"power\":null} taints null".to_owned()
        ]
    );
    assert_eq!(stage.server.get(&format!("{NODES}/n2"))["metadata"]["labels"], json!({}));
    assert_eq!(stage.on_nodes(10 * MINUTE).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_policy_that_is_deleted_or_loses_its_strategy_leaves_nothing_behind() {
    let other = policy("other").deschedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")]);
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power(), other]).await;
    stage.samples(&[("n1", "41")]);
    assert_eq!(stage.on_nodes(SECOND).await, [r#"n1: labels {"other":"violating","power":"violating"}"#]);
    stage.edit(policy("other")).await;
    stage.samples(&[("n1", "41")]);
    assert_eq!(stage.on_nodes(SECOND).await, [format!("n1: {VIOLATING}")]);
    stage.delete_policy("power").await;
    stage.samples(&[("n1", "41")]);
    assert_eq!(stage.on_nodes(SECOND).await, ["n1: labels {}"]);
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_changes_nothing_about_a_node_writes_nothing_on_it() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    stage.samples(&[("n1", "41")]);
    assert_eq!(stage.on_nodes(SECOND).await.len(), 1);
    let lower = policy("power").deschedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "25")]);
    stage.edit(lower).await;
    let asked = stage.pass(SECOND).await;
    assert!(asked.is_empty(), "nobody has looked at the edit yet, so nobody speaks of it: {asked:?}");
    stage.facts();
    let asked = stage.pass(MINUTE).await;
    assert!(asked.is_empty(), "the view has not caught up with the edit: {asked:?}");
    stage.samples(&[("n1", "41")]);
    let asked = stage.pass(SECOND).await;
    assert_eq!(
        asked.iter().map(|asked| asked.sent["status"]["observedGeneration"].as_i64()).collect::<Vec<_>>(),
        [Some(2)]
    );
}

/// What the status of a policy says about this, and why.
fn reason(stage: &Stage, policy: &str, condition: &str) -> Option<String> {
    let status = stage.server.get(&format!("{POLICIES}/{policy}"))["status"].clone();
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|found| found["type"] == condition);
    found.and_then(|found| found["reason"].as_str().map(str::to_owned))
}

#[tokio::test(start_paused = true)]
async fn a_new_policy_costs_one_status_although_it_is_seen_judged_and_measured_one_after_the_other() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![]).await;
    stage.samples(&[]);
    stage.pass(SECOND).await;
    stage.create(power()).await;
    assert_eq!(stage.pass(SECOND).await, [], "seen");
    stage.samples(&[]);
    assert_eq!(stage.pass(SECOND).await, [], "judged");
    stage.samples(&[("n1", "20")]);
    let asked: Vec<String> = stage.pass(MINUTE).await.into_iter().map(|asked| asked.said).collect();
    assert_eq!(asked, [format!("PATCH {POLICIES}/power/status?fieldManager=tas")], "measured");
    assert_eq!(reason(&stage, "power", "MetricsAvailable").as_deref(), Some("Fresh"));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_understands_is_told_at_once() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![]).await;
    stage.create(policy("odd")).await;
    stage.scene.inputs.policies.clear();
    stage.unreadable.push("odd".to_owned());
    stage.samples(&[]);
    stage.pass(SECOND).await;
    assert_eq!(reason(&stage, "odd", "Accepted").as_deref(), Some("Invalid"));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_deleted_in_the_middle_is_not_made_again() {
    let mut stage = Stage::new(ApiServer::default(), &["n1", "n2"], vec![power()]).await;
    stage.server.delete(&format!("{NODES}/n1"));
    stage.samples(&[("n1", "41"), ("n2", "41")]);
    stage.pass(2 * SECOND).await;
    assert_eq!(stage.server.get(&format!("{NODES}/n1")), Value::Null);
    assert_eq!(stage.server.get(&format!("{NODES}/n2"))["metadata"]["labels"], json!({"power": "violating"}));
    stage.see_node("n1").await;
    stage.pass(SECOND).await;
    assert_eq!(
        stage.on_nodes(10 * MINUTE).await,
        [""; 0],
        "and once the watch has told, it is not tried any more"
    );
}

#[tokio::test(start_paused = true)]
async fn a_busy_api_server_is_left_alone_for_as_long_as_it_asks() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    stage.server.fault("n1", Fault::Busy(429, "7"));
    stage.samples(&[("n1", "41")]);
    assert_eq!(stage.pass(6 * SECOND).await.len(), 1, "not even the status is written");
    assert_eq!(stage.on_nodes(2 * SECOND).await, [format!("n1: {VIOLATING}")]);

    // What is under way when it says so cannot be called back; of the rest of the plan nothing begins.
    let names: Vec<String> = (0..100).map(|n| format!("n{n:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::new(ApiServer::default(), &nodes, vec![power()]).await;
    stage.server.fault("n00", Fault::Busy(429, "7"));
    all_hot(&mut stage, &nodes);
    let begun = stage.on_nodes(6 * SECOND).await;
    assert!(begun.len() <= 2 * AT_ONCE, "{begun:?}");
    stage.pass(MINUTE).await;
    let missing = nodes.iter().filter(|name| {
        stage.server.get(&format!("{NODES}/{name}"))["metadata"]["labels"]["power"] != "violating"
    });
    assert_eq!(missing.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn whatever_goes_wrong_on_one_node_is_tried_again_and_holds_up_no_other() {
    for fault in [
        Fault::Answer(500, refusal(500, "etcd is away")),
        Fault::Silence,
        Fault::Answer(200, json!("half an ob")),
        Fault::Answer(409, refusal(409, "modified")),
    ] {
        let mut stage = Stage::new(ApiServer::default(), &["n1", "n2"], vec![power()]).await;
        stage.server.fault("n1", fault.clone());
        stage.samples(&[("n1", "41"), ("n2", "41")]);
        let mut done = stage.on_nodes(10 * SECOND).await;
        done.sort();
        let (n1, n2) = (format!("n1: {VIOLATING}"), format!("n2: {VIOLATING}"));
        assert_eq!(done, [n1.clone(), n1, n2], "{fault:?}");
        assert_eq!(stage.on_nodes(10 * MINUTE).await, [""; 0], "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_asked_for_now_and_then_and_not_all_the_time() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    for _ in 0..4 {
        stage.server.fault("n1", Fault::Answer(403, refusal(403, "nodes is forbidden")));
    }
    for _ in 0..60 {
        stage.samples(&[("n1", "41")]);
        stage.pass(5 * SECOND).await;
    }
    let writes = stage.tally.counts().writes;
    let forbidden: u64 =
        writes.iter().filter(|((_, outcome), _)| *outcome == "forbidden").map(|(_, n)| n).sum();
    assert!((3..=4).contains(&forbidden), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_and_is_not_wanted_any_more_wakes_nobody() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    stage.server.fault("n1", Fault::Answer(500, refusal(500, "etcd is away")));
    stage.server.fault("power/status", Fault::Silence);
    stage.samples(&[("n1", "41")]);
    stage.pass(Duration::from_millis(500)).await;
    stage.samples(&[("n1", "20")]);
    stage.pass(20 * SECOND).await;
    let before = stage.tally.counts().plans;
    assert_eq!(stage.on_nodes(MINUTE).await, [""; 0]);
    let plans = stage.tally.counts().plans - before;
    assert!(plans <= 3, "{plans} plans in a minute in which nothing happens");
}

#[tokio::test(start_paused = true)]
async fn views_without_end_are_planned_a_few_times_in_a_second_and_the_first_at_once() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    stage.samples(&[("n1", "20")]);
    stage.pass(20 * SECOND).await;
    let before = stage.tally.counts().plans;
    stage.samples(&[("n1", "41")]);
    assert_eq!(stage.on_nodes(Duration::from_millis(30)).await, [format!("n1: {VIOLATING}")]);
    for _ in 0..100 {
        stage.samples(&[("n1", "41")]);
        stage.pass(Duration::from_millis(20)).await;
    }
    let plans = stage.tally.counts().plans - before;
    assert!((5..=9).contains(&plans), "{plans} plans in two seconds");
}

#[tokio::test(start_paused = true)]
async fn what_was_refused_and_then_not_wanted_is_forgiven() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    stage.server.fault("n1", Fault::Answer(403, refusal(403, "nodes is forbidden")));
    stage.samples(&[("n1", "41")]);
    assert_eq!(stage.on_nodes(SECOND).await.len(), 1);
    assert_eq!(stage.events.asked(), [], "what was not stored is not told as done");
    stage.samples(&[("n1", "20")]);
    assert_eq!(stage.on_nodes(SECOND).await, [""; 0]);
    stage.samples(&[("n1", "41")]);
    assert_eq!(
        stage.on_nodes(SECOND).await,
        [format!("n1: {VIOLATING}")],
        "it does not wait for half a minute"
    );
    let told: Vec<Value> =
        stage.events.asked().into_iter().map(|asked| asked.sent["regarding"]["kind"].clone()).collect();
    assert_eq!(told, [json!("TASPolicy"), json!("Node")]);
}

#[tokio::test(start_paused = true)]
async fn a_policy_whose_writes_are_refused_says_so_until_one_is_stored() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    for _ in 0..2 {
        stage.server.fault("n1", Fault::Answer(403, refusal(403, "nodes is forbidden")));
    }
    let mut told = Vec::new();
    for _ in 0..30 {
        stage.samples(&[("n1", "41")]);
        stage.pass(5 * SECOND).await;
        let status = stage.server.get(&format!("{POLICIES}/power"))["status"].clone();
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let enforced = conditions.iter().find(|c| c["type"] == "Enforced").cloned().unwrap_or_default();
        told.push(format!("{} {}", enforced["status"], enforced["reason"]).replace('"', ""));
    }
    told.dedup();
    assert_eq!(told, ["True Enforcing", "False WriteRefused", "True Enforcing"]);
    assert_eq!(stage.server.get(&format!("{NODES}/n1"))["metadata"]["labels"], json!({"power": "violating"}));
}

#[tokio::test(start_paused = true)]
async fn a_label_of_somebody_else_is_left_alone_and_the_others_are_written() {
    let gpu = policy("gpu").deschedule(Combine::AnyOf, [rule("power", Operator::GreaterThan, "30")]);
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power(), gpu]).await;
    let causes = json!([{"reason": "FieldManagerConflict", "field": ".metadata.labels.gpu"}]);
    let conflict =
        json!({"kind": "Status", "code": 409, "message": "conflict", "details": {"causes": causes}});
    stage.server.fault("n1", Fault::Answer(409, conflict));
    stage.samples(&[("n1", "41")]);
    assert_eq!(
        stage.on_nodes(100 * Duration::from_millis(1)).await,
        [r#"n1: labels {"gpu":"violating","power":"violating"}"#.to_owned(), format!("n1: {VIOLATING}")]
    );
}

#[tokio::test(start_paused = true)]
async fn what_sums_up_a_pass_is_told_before_the_events_of_its_many_nodes() {
    let names: Vec<String> = (0..100).map(|n| format!("n{n:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::new(ApiServer::default(), &nodes, vec![power()]).await;
    // The first event takes ten seconds, in which all the others come to wait.
    stage.events.fault("/events", Fault::Silence);
    all_hot(&mut stage, &nodes);
    stage.pass(MINUTE).await;
    let told = stage.events.asked();
    let about = |place: usize| (&told[place].sent["regarding"]["kind"], &told[place].sent["note"]);
    assert_eq!((told.len(), about(0).0), (101, &json!("Node")));
    let note = "n00, n01, n02 and 97 more: the label violating was put on: power over 30";
    assert_eq!(about(1), (&json!("TASPolicy"), &json!(note)));
}

#[tokio::test(start_paused = true)]
async fn a_term_that_ends_in_the_middle_of_a_plan_ends_the_plan() {
    let names: Vec<String> = (0..40).map(|n| format!("n{n:02}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::new(ApiServer::default(), &nodes, vec![power()]).await;
    // Eight are under way at once, and none of them is answered before the process is stopped; it wakes up a minute
    // later, as by SIGSTOP and SIGCONT, while another replica leads.
    all_hot_and_eight_unanswered(&mut stage, &nodes);
    let begun = stage.on_nodes(SECOND).await;
    assert_eq!(begun.len(), 8, "{begun:?}");
    stage.server.put(LEASE, held_by("other"));
    stage.ahead.store(60, Ordering::Relaxed);
    assert_eq!(stage.pass(5 * SECOND).await, [], "nothing stale is written");
    assert_eq!(stage.leadership.term(), None);
    let fenced: u64 = stage
        .tally
        .counts()
        .writes
        .iter()
        .filter(|((_, outcome), _)| *outcome == "fenced")
        .map(|(_, n)| n)
        .sum();
    assert!(fenced >= 1, "{:?}", stage.tally.counts().writes);
}

#[tokio::test(start_paused = true)]
async fn whoever_leads_again_after_another_did_begins_anew() {
    let mut stage = Stage::new(ApiServer::default(), &["n1", "n2"], vec![power()]).await;
    stage.samples(&[("n1", "20"), ("n2", "41")]);
    assert_eq!(stage.on_nodes(SECOND).await.len(), 1);
    assert_eq!(stage.tally.counts().violating.len(), 1);
    stage.server.put(LEASE, held_by("other"));
    stage.pass(5 * SECOND).await;
    assert_eq!((stage.leadership.term(), stage.tally.counts().violating.len()), (None, 0));
    stage.server.put(LEASE, held_by(""));
    stage.pass(20 * SECOND).await;
    assert!(stage.leadership.term().is_some());
    stage.samples(&[("n1", "41"), ("n2", "41")]);
    assert_eq!(stage.on_nodes(SECOND).await, [format!("n1: {VIOLATING}")]);
}

#[tokio::test(start_paused = true)]
async fn an_edition_that_is_no_longer_the_newest_is_refused_even_behind_the_fence() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    // Another replica has written meanwhile, and our watch has not told yet.
    stage.server.put(&format!("{NODES}/n1"), labelled("n1", "tas", "Apply"));
    stage.samples(&[("n1", "20")]);
    stage.pass(SECOND).await;
    stage.samples(&[("n1", "41")]);
    stage.pass(100 * Duration::from_millis(1)).await;
    assert_eq!(stage.tally.counts().writes.iter().filter(|((_, o), _)| *o == "outdated").count(), 1);
    stage.see_node("n1").await;
    assert_eq!(stage.on_nodes(MINUTE).await, [""; 0], "it stands there already");
}

#[tokio::test(start_paused = true)]
async fn what_was_decided_before_somebody_else_marked_the_node_is_not_written_after() {
    let names: Vec<String> = (0..9).map(|n| format!("n{n}")).collect();
    let nodes: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut stage = Stage::new(ApiServer::default(), &nodes, vec![power()]).await;
    all_hot_and_eight_unanswered(&mut stage, &nodes);
    stage.pass(SECOND).await;
    // The ninth waits for its turn while its label is set by hand, and the watch tells.
    let mut taken = node("n8");
    taken["metadata"]["labels"] = json!({"power": "supply-b"});
    stage.server.put(&format!("{NODES}/n8"), taken);
    stage.see_node("n8").await;
    let done = stage.on_nodes(MINUTE).await;
    assert!(!done.iter().any(|done| done.starts_with("n8")), "{done:?}");
    assert_eq!(done.len(), 8, "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn shadow_and_pause_write_statuses_and_nothing_else() {
    let shadow = Policy { mode: Mode::Shadow, ..power() };
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![shadow]).await;
    stage.samples(&[("n1", "41")]);
    let asked = stage.pass(MINUTE).await;
    assert_eq!(
        asked.iter().map(|asked| asked.said.ends_with("/status?fieldManager=tas")).collect::<Vec<_>>(),
        [true]
    );

    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    stage.pause.send_replace(Pause::unknown());
    stage.samples(&[("n1", "41")]);
    assert_eq!(
        stage.pass(MINUTE).await,
        [],
        "before anybody knows whether it is paused, nothing is said either"
    );
    stage.pause.send_replace(Pause::of(Some("true")));
    stage.samples(&[("n1", "41")]);
    assert_eq!(stage.on_nodes(MINUTE).await, [""; 0]);
    assert_eq!(reason(&stage, "power", "Enforced").as_deref(), Some("Paused"));
    stage.pause.send_replace(Pause::of(None));
    assert_eq!(stage.on_nodes(SECOND).await, [format!("n1: {VIOLATING}")]);
    assert_eq!(reason(&stage, "power", "Enforced").as_deref(), Some("Enforcing"));
}

#[tokio::test(start_paused = true)]
async fn taints_of_others_stay_as_they_are() {
    let server = ApiServer::default();
    let other = json!({"key": "dedicated", "value": "gpu", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"});
    let mut tainted = node("n1");
    tainted["spec"] = json!({"taints": [other]});
    server.put(&format!("{NODES}/n1"), tainted);
    let mut hot = power();
    hot.deschedule.as_mut().unwrap().marks = [Mark::Taint(TaintEffect::PreferNoSchedule)].into();
    let settings = Settings { may_taint: Namespaces::All, ..Settings::default() };
    let mut stage = Stage::with(server, &["n1"], vec![hot], settings).await;
    stage.samples(&[("n1", "41")]);
    let asked = stage.pass(SECOND).await;
    assert_eq!(
        asked[0].sent["spec"]["taints"],
        json!([other, {"key": "telemetry-aware.github.io/power", "value": "violating", "effect": "PreferNoSchedule"}])
    );
    assert_eq!(asked[0].sent["metadata"]["labels"], Value::Null);
    stage.samples(&[("n1", "20")]);
    assert_eq!(stage.on_nodes(SECOND).await, [format!("n1: off null taints [{other}]")]);
}

#[tokio::test(start_paused = true)]
async fn labels_and_taints_of_a_node_are_written_one_on_top_of_the_other() {
    let mut hot = power();
    hot.deschedule.as_mut().unwrap().marks = [Mark::Label, Mark::Taint(TaintEffect::NoSchedule)].into();
    let settings = Settings { may_taint: Namespaces::All, ..Settings::default() };
    let mut stage = Stage::with(ApiServer::default(), &["n1"], vec![hot], settings).await;
    stage.samples(&[("n1", "41")]);
    let taint =
        json!({"key": "telemetry-aware.github.io/power", "value": "violating", "effect": "NoSchedule"});
    assert_eq!(
        stage.on_nodes(MINUTE).await,
        [format!("n1: {VIOLATING}"), format!("n1: off null taints [{taint}]")],
        "the second names the edition that the first has made, or it would be refused"
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_drops_our_status_gets_what_it_keeps_and_not_again_and_again() {
    let server = ApiServer::default();
    server.prune_statuses();
    let mut stage = Stage::new(server, &["n1"], vec![power()]).await;
    stage.definition = Some("it drops our fields".to_owned());
    let mut statuses = 0;
    for _ in 0..60 {
        stage.samples(&[("n1", "20")]);
        statuses += stage.pass(5 * SECOND).await.len();
    }
    assert_eq!(statuses, 1);
    let status = &stage.server.get(&format!("{POLICIES}/power"))["status"];
    assert_eq!(*status, json!({"compliance": "Compliant", "message": "no node violates the policy"}));
    stage.samples(&[("n1", "41")]);
    let sent = stage.pass(MINUTE).await.into_iter().filter(|asked| asked.said.contains("/status?"));
    let sent: Vec<Value> = sent.map(|asked| asked.sent["status"].clone()).collect();
    let told = json!({"compliance": "Violating", "message": "1 of 1 nodes violates: n1 (power over 30)"});
    assert_eq!(sent, [told], "what would be dropped is not even sent");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_leaves_begins_no_write_and_gives_the_lease_back() {
    let mut stage = Stage::new(ApiServer::default(), &["n1"], vec![power()]).await;
    let server = stage.server.clone();
    stage.samples(&[("n1", "41")]);
    stage.leave().await;
    assert_eq!(server.asked(), []);
    tokio::time::sleep(SECOND).await;
    let lease = server.get(LEASE);
    assert_eq!(lease["spec"]["holderIdentity"], "");
}
