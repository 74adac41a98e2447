//! The controller on a real control plane: Intel's own cases, taints without an extender, and what the audit log says
//! about all of it.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use e2e::PATIENCE;
use e2e::enforcing::{ACCOUNT, Enforcing, counted, words};
use testbed::objects::pod;
use testbed::wait::until;

use crate::TAS;

const WORKERS: [&str; 3] = ["kind-worker", "kind-worker2", "kind-worker3"];

fn policy(name: &str, strategy: &str, rules: &[&str]) -> String {
    let rules: Vec<String> = rules.iter().map(|rule| format!("      - {{{rule}}}\n")).collect();
    format!(
        "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {{name: {name}, namespace: default}}\n\
         spec:\n  strategies:\n    {strategy}:\n      rules:\n{}",
        rules.concat()
    )
}

/// Deschedule and Label 1 to 9 of Intel's own end-to-end suite, with its metrics.
#[tokio::test]
async fn intels_labels_come_out_the_same() {
    let (enforcing, _tas) = Enforcing::start(TAS, &WORKERS, &[]).await;
    enforcing.set("node_deschedule1_metric", &[("kind-worker2", 9.0)]);
    enforcing.set("node_labeling1_metric", &[("kind-worker", 10.0), ("kind-worker2", 10.0)]);
    enforcing.set(
        "node_labeling2_metric",
        &[("kind-worker", -10.0), ("kind-worker2", 71.0), ("kind-worker3", 10.0)],
    );
    let (one, two) = ("metricname: labeling1_metric", "metricname: labeling2_metric");
    let cases: [(&str, &[&str], &[&str]); 9] = [
        ("labeling1", &["operator: LessThan, target: 8, labels: [card0=true]"], &[]),
        ("labeling2", &["operator: LessThan, target: 8, labels: [card1=true]"], &["kind-worker: card1=true"]),
        (
            "labeling2",
            &["operator: Equals, target: 71, labels: [card0=false]"],
            &["kind-worker2: card0=false"],
        ),
        ("labeling2", &["operator: Equals, target: 10, labels: [card1=true]"], &["kind-worker3: card1=true"]),
        (
            "both",
            &[
                "operator: GreaterThan, target: 8, labels: [card0=true]",
                "operator: Equals, target: -10, labels: [card1=true]",
            ],
            &["kind-worker: card0=true", "kind-worker: card1=true", "kind-worker2: card0=true"],
        ),
        (
            "labeling2",
            &["operator: GreaterThan, target: -12, labels: [card1=true]"],
            &["kind-worker: card1=true", "kind-worker2: card1=true", "kind-worker3: card1=true"],
        ),
        (
            "labeling2",
            &["operator: GreaterThan, target: 70, labels: [card0=false, card1=true]"],
            &["kind-worker2: card0=false", "kind-worker2: card1=true"],
        ),
        (
            "both",
            &[
                "operator: LessThan, target: 8, labels: [foo=1]",
                "operator: LessThan, target: 8, labels: [foo=2]",
            ],
            &["kind-worker: foo=2"],
        ),
        (
            "both",
            &[
                "operator: GreaterThan, target: 8, labels: [foo=1]",
                "operator: GreaterThan, target: 8, labels: [foo=2]",
            ],
            &["kind-worker: foo=1", "kind-worker2: foo=2", "kind-worker3: foo=2"],
        ),
    ];
    let deschedule = "metricname: deschedule1_metric, operator: GreaterThan, target: 8";
    enforcing.cluster.apply(&policy("deschedule1", "deschedule", &[deschedule])).await.expect("accepted");
    for (place, (metrics, rules, _)) in cases.iter().enumerate() {
        let rules: Vec<String> = rules
            .iter()
            .enumerate()
            .map(|(rule, text)| match (*metrics, rule) {
                ("labeling1", _) | ("both", 0) => format!("{one}, {text}"),
                _ => format!("{two}, {text}"),
            })
            .collect();
        let rules: Vec<&str> = rules.iter().map(String::as_str).collect();
        let name = format!("label{}", place + 1);
        enforcing.cluster.apply(&policy(&name, "labeling", &rules)).await.expect("accepted");
    }
    enforcing.marked("deschedule1", &["kind-worker2: violating"]).await;
    for (place, (_, _, wanted)) in cases.iter().enumerate().rev() {
        enforcing.marked(&format!("label{}", place + 1), wanted).await;
    }
    // Deleting takes the labels off again, whatever else stands on the node.
    enforcing
        .cluster
        .kubectl(&["delete", "taspolicy", "deschedule1", "label6", "label9"])
        .await
        .expect("deleted");
    for gone in ["deschedule1", "label6", "label9"] {
        enforcing.marked(gone, &[]).await;
    }
    enforcing.marked("label7", &["kind-worker2: card0=false", "kind-worker2: card1=true"]).await;
}

/// A strategy removed by an edit, a policy deleted while nobody was there, a label somebody else owns.
#[tokio::test]
async fn what_nobody_asks_for_goes_even_if_nobody_was_there_when_it_was_taken_back() {
    let (enforcing, tas) = Enforcing::start(TAS, &WORKERS, &[]).await;
    let rule = "metricname: heat, operator: GreaterThan, target: 8";
    enforcing.set("node_heat", &[("kind-worker", 9.0), ("kind-worker2", 1.0), ("kind-worker3", 9.0)]);
    enforcing.cluster.kubectl(&["label", "node", "kind-worker3", "hot=mine"]).await.expect("labelled");
    for name in ["hot", "warm", "mild"] {
        enforcing.cluster.apply(&policy(name, "deschedule", &[rule])).await.expect("accepted");
    }
    enforcing.marked("hot", &["kind-worker: violating", "kind-worker3: mine"]).await;
    enforcing.marked("warm", &["kind-worker: violating", "kind-worker3: violating"]).await;
    enforcing.marked("mild", &["kind-worker: violating", "kind-worker3: violating"]).await;
    enforcing.condition("hot", "Enforced", "ForeignLabel").await;
    enforcing.condition("warm", "Violating", "NodesViolate").await;

    enforcing.cluster.apply(&policy("mild", "dontschedule", &[rule])).await.expect("accepted");
    enforcing.marked("mild", &[]).await;
    tas.component.kill();
    enforcing.cluster.kubectl(&["delete", "taspolicy", "warm"]).await.expect("deleted");
    tas.component.restart().expect("tas starts again");
    enforcing.marked("warm", &[]).await;
    enforcing.marked("hot", &["kind-worker: violating", "kind-worker3: mine"]).await;
}

#[tokio::test]
async fn a_taint_moves_new_pods_away_with_an_unmodified_scheduler_and_no_extender() {
    let (enforcing, _tas) = Enforcing::start(TAS, &WORKERS, &["--taint-namespaces", "default"]).await;
    let cluster = &enforcing.cluster;
    cluster
        .kubectl(&["taint", "node", "kind-worker3", "dedicated=gpu:PreferNoSchedule"])
        .await
        .expect("tainted by somebody else");
    enforcing.set("node_heat", &[("kind-worker", 9.0), ("kind-worker2", 1.0), ("kind-worker3", 9.0)]);
    let soft = policy("soft", "deschedule", &["metricname: heat, operator: GreaterThan, target: 8"])
        .replace("    deschedule:\n", "    deschedule:\n      action: [Taint]\n");
    cluster.apply(&soft).await.expect("accepted");
    let keys = "jsonpath={range .items[*]}{.metadata.name}:{range .spec.taints[*]} {.key}={.effect}{end}{\"\\n\"}{end}";
    let tainted = |ours: &'static str| async move {
        let lines = [
            format!("kind-worker:{ours}"),
            "kind-worker2:".to_owned(),
            format!("kind-worker3: dedicated=PreferNoSchedule{ours}"),
        ];
        until("the taints to be right", PATIENCE, || async {
            let found =
                cluster.kubectl(&["get", "nodes", "-o", keys]).await.map_err(|error| error.to_string())?;
            if found.lines().eq(lines.iter()) { Ok(()) } else { Err(found) }
        })
        .await
        .expect("tainted");
    };
    tainted(" telemetry-aware.github.io/soft=PreferNoSchedule").await;
    assert!(enforcing.marks("soft").await.is_empty(), "a taint and no label");
    for round in 1..=4 {
        let name = format!("soft-{round}");
        cluster.create_pod("default", &pod(&name)).await.expect("created");
        assert_eq!(cluster.bound("default", &name, PATIENCE).await.expect("bound"), "kind-worker2");
    }
    let hard = soft.replace("[Taint]\n", "[Taint]\n      taintEffect: NoSchedule\n");
    cluster.apply(&hard).await.expect("accepted");
    tainted(" telemetry-aware.github.io/soft=NoSchedule").await;
    enforcing.set("node_heat", &[("kind-worker", 1.0), ("kind-worker3", 1.0)]);
    tainted("").await;
}

/// One series of a node has a time of its own that stands still, as of an exporter that is seldom scraped. It must not
/// hold up what the other says.
#[tokio::test]
async fn a_fast_series_of_a_node_does_not_wait_for_a_slow_one() {
    let config = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(config.path(), "metrics: { heat: { query: node_heat, aggregation: max } }")
        .expect("writable");
    let path = config.path().to_str().expect("a name in ASCII");
    let (enforcing, _tas) = Enforcing::start(TAS, &WORKERS, &["--config", path]).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis();
    let slow = format!("node_heat{{node=\"kind-worker\",sensor=\"slow\"}} 2 {now}\n");
    enforcing.cluster.exporter().expect("there is one").append(&slow);
    enforcing.set("node_heat", &[("kind-worker", 1.0)]);
    // Prometheus itself forgets the slow one after 5 minutes, which is too late for this test.
    let rule = "metricname: heat, operator: GreaterThan, target: 8, maxAge: 10m";
    enforcing.cluster.apply(&policy("hot", "deschedule", &[rule])).await.expect("accepted");
    enforcing.condition("hot", "Violating", "NoneViolates").await;
    enforcing.set("node_heat", &[("kind-worker", 9.0)]);
    enforcing.marked("hot", &["kind-worker: violating"]).await;
    enforcing.set("node_heat", &[("kind-worker", 1.0)]);
    enforcing.marked("hot", &[]).await;
}

#[tokio::test]
async fn shadow_writes_statuses_events_and_the_lease_and_nothing_else() {
    let (enforcing, tas) = Enforcing::start(TAS, &WORKERS, &["--taint-namespaces", "*"]).await;
    enforcing.set("node_heat", &[("kind-worker", 9.0), ("kind-worker2", 1.0), ("kind-worker3", 9.0)]);
    let rule = "metricname: heat, operator: GreaterThan, target: 8";
    let shadow = policy("shadow", "deschedule", &[rule])
        .replace("spec:\n", "spec:\n  mode: Shadow\n")
        .replace("    deschedule:\n", "    deschedule:\n      action: [Label, Taint]\n");
    enforcing.cluster.apply(&shadow).await.expect("accepted");
    enforcing.condition("shadow", "Enforced", "Shadow").await;
    enforcing.condition("shadow", "Violating", "NodesViolate").await;
    tas.says("tas_controller_violating_nodes{policy=\"default/shadow\"} 2.0").await.expect("told");
    let words = words(&tas).await;
    assert!(words.contains("[+]controller ok: leading"), "{words}");
    let wrote: BTreeSet<String> = enforcing
        .writes()
        .into_iter()
        .filter_map(|request| request.object_ref)
        .map(|object| {
            if object.subresource.is_empty() {
                object.resource
            } else {
                format!("{}/{}", object.resource, object.subresource)
            }
        })
        .collect();
    assert_eq!(wrote, ["events", "leases", "taspolicies/status"].map(str::to_owned).into());

    // The pause, seen in the status, and gone with the switch.
    let enforced = shadow.replace("mode: Shadow", "mode: Enforce");
    let switch = |on: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: tas-switches, namespace: tas-system}}\ndata: {{pause: \"{on}\"}}\n"
        )
    };
    enforcing.cluster.apply(&switch("true")).await.expect("thrown");
    enforcing.condition("shadow", "Enforced", "Paused").await;
    enforcing.cluster.apply(&enforced).await.expect("accepted");
    enforcing.condition("shadow", "Accepted", "Valid").await;
    assert!(enforcing.marks("shadow").await.is_empty());
    enforcing.cluster.apply(&switch("false")).await.expect("thrown");
    enforcing.marked("shadow", &["kind-worker: violating", "kind-worker3: violating"]).await;
}

/// Nothing changes, nothing is written and nothing is listed; only the lease is renewed.
#[tokio::test]
async fn a_quiet_cluster_is_left_in_peace() {
    let (enforcing, tas) = Enforcing::start(TAS, &WORKERS, &[]).await;
    enforcing.set("node_heat", &[("kind-worker", 9.0), ("kind-worker2", 1.0), ("kind-worker3", 1.0)]);
    let rule = "metricname: heat, operator: GreaterThan, target: 8";
    enforcing.cluster.apply(&policy("hot", "deschedule", &[rule])).await.expect("accepted");
    enforcing.marked("hot", &["kind-worker: violating"]).await;
    enforcing.condition("hot", "Violating", "NodesViolate").await;
    let ours = || {
        let log = enforcing.cluster.audit().expect("readable");
        let ours = log.into_iter().filter(|asked| asked.user.username == ACCOUNT);
        // Which replica writes, and, every few minutes, that a watch is begun again: neither is about the cluster's state.
        let other =
            |object: &testbed::audit::Object| !matches!(object.resource.as_str(), "leases" | "events");
        ours.filter(|asked| asked.verb != "watch" && asked.object_ref.as_ref().is_some_and(other))
            .map(|asked| format!("{} {}", asked.verb, asked.uri))
            .collect::<Vec<_>>()
    };
    // The status follows the label within its interval; from then on there are ten plans and no write.
    let plans = async || counted(&tas, "tas_controller_plans_total").await;
    let quiet = until("ten plans without a request", PATIENCE, || async {
        let (asked, made) = (ours(), plans().await);
        until("ten more plans", PATIENCE, || async {
            if plans().await >= made + 10.0 { Ok(()) } else { Err("not yet") }
        })
        .await
        .map_err(|error| error.to_string())?;
        let more = ours().split_off(asked.len());
        if more.is_empty() { Ok(()) } else { Err(format!("{more:?}")) }
    });
    quiet.await.expect("quiet");
}
