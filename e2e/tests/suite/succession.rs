//! Several replicas, one of which writes: killed in the middle, stopped and woken up.

use std::collections::BTreeMap;

use e2e::PATIENCE;
use e2e::enforcing::{Enforcing, counted, leads};
use testbed::component::Signal;
use testbed::tas::Replica;
use testbed::wait::until;
use testbed::{Options, objects};

use crate::TAS;

/// Enough that a leader can be killed in the middle of writing.
const NODES: usize = 1000;

fn hot() -> String {
    "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {name: hot, namespace: default}\n\
     spec: {strategies: {deschedule: {rules: [{metricname: heat, operator: GreaterThan, target: 8}]}}}\n"
        .to_owned()
}

async fn leader(replicas: &[Replica]) -> usize {
    until("one to lead", PATIENCE, || async {
        let mut leading = Vec::new();
        for (place, replica) in replicas.iter().enumerate() {
            if leads(replica).await {
                leading.push(place);
            }
        }
        if let [one] = leading[..] { Ok(one) } else { Err(format!("{leading:?} lead")) }
    })
    .await
    .expect("one leads")
}

/// Labels written on each node so far, by whether the API server took them.
fn labelled(enforcing: &Enforcing) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in enforcing.writes() {
        let stored = request.response_status.is_some_and(|status| status.code == 200);
        if let Some(object) = request.object_ref.filter(|object| object.resource == "nodes" && stored) {
            *counts.entry(object.name).or_default() += 1;
        }
    }
    counts
}

#[tokio::test]
async fn a_leader_killed_in_the_middle_of_many_writes_leaves_nothing_half_done() {
    let options = Options { nodes: objects::nodes("node", NODES), ..Options::default() };
    let enforcing = Enforcing::prepare(TAS, options).await;
    // Not faster than by default, so that the middle is long enough to be hit.
    let rate = ["--write-rate", "100"];
    let replicas = [enforcing.replica("tas-0", &rate).await, enforcing.replica("tas-1", &rate).await];
    let first = leader(&replicas).await;
    let names: Vec<String> = (1..=NODES).map(|n| format!("node-{n}")).collect();
    enforcing.set("node_heat", &names.iter().map(|name| (name.as_str(), 9.0)).collect::<Vec<_>>());
    enforcing.cluster.apply(&hot()).await.expect("accepted");
    until("some labels to be written", PATIENCE, || async {
        let written = labelled(&enforcing).len();
        if written >= 300 { Ok(()) } else { Err(format!("{written}")) }
    })
    .await
    .expect("written");
    replicas[first].component.kill();
    let before = labelled(&enforcing).len();
    assert!(before < NODES, "killed in the middle, after {before}");
    let wanted: Vec<String> = names.iter().map(|name| format!("{name}: violating")).collect();
    enforcing.marked("hot", &wanted.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert!(leads(&replicas[1 - first]).await);
    let twice: Vec<_> = labelled(&enforcing).into_iter().filter(|(_, count)| *count > 1).collect();
    assert!(twice.is_empty(), "no node was written twice: {twice:?}");

    // The first comes back, follows, and takes over again when the other leaves in an orderly way, at once.
    replicas[first].component.restart().expect("started again");
    replicas[1 - first].component.signal(Signal::TERM).expect("asked to leave");
    until("the first to lead again", PATIENCE, || async {
        if leads(&replicas[first]).await { Ok(()) } else { Err("it follows") }
    })
    .await
    .expect("it leads");
    enforcing.set("node_heat", &names.iter().map(|name| (name.as_str(), 1.0)).collect::<Vec<_>>());
    enforcing.marked("hot", &[]).await;
}

#[tokio::test]
async fn a_leader_that_was_stopped_and_wakes_up_writes_nothing_stale() {
    let options = Options { nodes: objects::nodes("node", 3), ..Options::default() };
    let enforcing = Enforcing::prepare(TAS, options).await;
    let replicas = [enforcing.replica("tas-0", &[]).await, enforcing.replica("tas-1", &[]).await];
    let first = leader(&replicas).await;
    enforcing.set("node_heat", &[("node-1", 9.0), ("node-2", 1.0), ("node-3", 1.0)]);
    enforcing.cluster.apply(&hot()).await.expect("accepted");
    enforcing.marked("hot", &["node-1: violating"]).await;

    replicas[first].component.pause().expect("stopped");
    // It knows of node-1 only; the other must not find its work undone when this one wakes up.
    enforcing.set("node_heat", &[("node-1", 1.0), ("node-2", 9.0)]);
    until("the other to lead", PATIENCE, || async {
        if leads(&replicas[1 - first]).await { Ok(()) } else { Err("it follows") }
    })
    .await
    .expect("it leads");
    enforcing.marked("hot", &["node-2: violating"]).await;
    let before = labelled(&enforcing);
    replicas[first].component.resume().expect("woken up");
    replicas[first].says("tas_controller_leader 0.0").await.expect("it follows");
    // It has caught up once it has made views again; then it has had every chance to write.
    let views = async || counted(&replicas[first], "tas_feed_views_total").await;
    let woken = views().await;
    until("it to have caught up", PATIENCE, || async {
        if views().await >= woken + 3.0 { Ok(()) } else { Err("not yet") }
    })
    .await
    .expect("caught up");
    assert_eq!(labelled(&enforcing), before);
    enforcing.marked("hot", &["node-2: violating"]).await;
}
