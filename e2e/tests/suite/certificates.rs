//! Mutual TLS on the scheduler's port: leaves change while questions come in, and strangers are turned away.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use e2e::caller::Caller;
use e2e::manifests::{pod, policy};
use e2e::tas::{Attached, Payload};
use testbed::pki::Authority;

use crate::TAS;

const NODES: [&str; 2] = ["hot", "cool"];

/// Asks in a row, each time over a connection of its own, until told to stop: how often it was answered, and what else.
async fn ask_until(
    over: Arc<AtomicBool>,
    answered: Arc<AtomicU32>,
    caller: Caller,
    port: u16,
) -> Vec<String> {
    let mut failures = Vec::new();
    while !over.load(Ordering::Relaxed) {
        match caller.filter(port, "thermal", &NODES).await {
            Ok(answer) if answer.passed == ["cool"] => drop(answered.fetch_add(1, Ordering::Relaxed)),
            other => failures.push(format!("{other:?}")),
        }
    }
    failures
}

#[tokio::test]
async fn leaves_change_without_a_failed_call_and_strangers_are_refused_and_counted() {
    let attached = Attached::start(TAS, &NODES, Payload::NamesOnly).await;
    let thermal = policy("thermal", "dontschedule", "metricname: thermal, operator: GreaterThan, target: 80");
    attached.policy(&thermal, "thermal", &[("hot", 90.0), ("cool", 50.0)]).await;
    let authority = attached.installation.authority();
    let ca = authority.certificate();
    let client = |name: &str| authority.client(name, None).expect("a certificate");
    let port = attached.tas.port;

    let (over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let caller = Caller::new(&ca, Some(&client("kube-scheduler")));
    let load: Vec<_> = (0..2)
        .map(|_| tokio::spawn(ask_until(Arc::clone(&over), Arc::clone(&answered), caller.clone(), port)))
        .collect();
    for turn in 1..=2 {
        let before = caller.shown_by(port).await.expect("a certificate");
        attached.installation.rotate().expect("new files");
        attached
            .says(&format!("tas_certificate_reloads_total{{server=\"scheduler\",outcome=\"used\"}} {turn}"))
            .await;
        assert_ne!(caller.shown_by(port).await.expect("a certificate"), before, "the new leaf is in use");
        let name = format!("placed-{turn}");
        assert_eq!(attached.placed(&name, &pod(&name, "thermal")).await, "cool");
    }
    over.store(true, Ordering::Relaxed);
    for worker in load {
        assert_eq!(worker.await.expect("no panic"), Vec::<String>::new());
    }
    let answered = answered.load(Ordering::Relaxed);
    assert!(answered > 20, "the load was none: {answered}");
    let failed = |metrics: &str| -> Vec<String> {
        let failures = metrics.lines().filter(|line| line.starts_with("tas_server_handshake_failures_total"));
        failures.filter(|line| !line.ends_with(" 0")).map(str::to_owned).collect()
    };
    assert_eq!(failed(&attached.metrics().await.expect("an answer")), Vec::<String>::new());
    let scheduler = attached.cluster.component("kube-scheduler").expect("there is one").log();
    let skipped: Vec<&str> = scheduler.lines().filter(|line| line.contains("Skipping extender")).collect();
    assert_eq!(skipped, Vec::<&str>::new(), "kube-scheduler had no failed call");

    let foreign =
        Authority::new("foreign").expect("another CA").client("kube-scheduler", None).expect("a leaf");
    for (stranger, reason) in [
        (Caller::new(&ca, None), "no_certificate"),
        (Caller::new(&ca, Some(&foreign)), "unknown_issuer"),
        (Caller::new(&ca, Some(&client("somebody"))), "name"),
    ] {
        let refusal = stranger.filter(port, "thermal", &NODES).await;
        assert!(refusal.is_err(), "{reason}: {refusal:?}");
        let counted =
            format!("tas_server_handshake_failures_total{{server=\"scheduler\",reason=\"{reason}\"}} 1");
        attached.says(&counted).await;
    }
}
