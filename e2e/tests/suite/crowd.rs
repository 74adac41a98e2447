//! Many pods at once: a burst spreads although the metric lags, and a thousand on a thousand nodes are all well placed.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use e2e::manifests::{pod_object, policy};
use e2e::tas::{Attached, Payload};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams, PostParams};
use testbed::objects;
use testbed::tas::Settings;
use testbed::wait::until;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::TAS;

/// Creates the pods of these numbers, several at a time.
async fn create(attached: &Attached, policy: &str, numbers: RangeInclusive<usize>) {
    let pods: Api<Pod> = Api::namespaced(attached.cluster.client(), "default");
    let room = Arc::new(Semaphore::new(16));
    let mut creations = JoinSet::new();
    for number in numbers {
        let (pods, room) = (pods.clone(), Arc::clone(&room));
        let pod = pod_object(&format!("{policy}-{number}"), policy);
        creations.spawn(async move {
            let _place = room.acquire().await;
            pods.create(&PostParams::default(), &pod).await.map(drop)
        });
    }
    while let Some(created) = creations.join_next().await {
        created.expect("not cancelled").expect("accepted");
    }
}

/// Waits until so many pods of a policy are bound: how many went where.
async fn bound(attached: &Attached, policy: &str, count: usize) -> BTreeMap<String, usize> {
    let pods: Api<Pod> = Api::namespaced(attached.cluster.client(), "default");
    let ours = ListParams::default().labels(&format!("telemetry-policy={policy}"));
    until(format!("{count} pods to be bound"), Duration::from_mins(5), || async {
        let listed = pods.list(&ours).await.map_err(|error| error.to_string())?.items;
        let mut by_node: BTreeMap<String, usize> = BTreeMap::new();
        for node in listed.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.clone()) {
            *by_node.entry(node).or_default() += 1;
        }
        let bound: usize = by_node.values().sum();
        if bound == count { Ok(by_node) } else { Err(format!("{bound} bound of {}", listed.len())) }
    })
    .await
    .expect("all are bound")
}

/// The metric says what was so half a minute ago, and nothing newer while the burst lasts.
///
/// Ten come at a time, because what the scheduler binds before `tas` hears of it cannot be counted in, and how many
/// those are depends on the machine: ten on one node is the worst that may happen.
#[tokio::test]
async fn a_burst_of_a_hundred_pods_spreads_although_the_metric_lags_by_half_a_minute() {
    let nodes = objects::nodes("node", 10);
    let attached = Attached::with(TAS, nodes, Payload::NamesOnly, &Settings::default()).await;
    let rule = "metricname: power, operator: LessThan, perPod: \"2.5\", settle: 30s";
    attached.cluster.apply(&policy("burst", "scheduleonmetric", rule)).await.expect("accepted");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let then = now.as_millis() - 30_000;
    let mut page = String::new();
    for (number, watts) in (1..=10).zip(10..) {
        writeln!(page, "node_power{{node=\"node-{number}\"}} {watts} {then}").expect("memory");
    }
    attached.cluster.exporter().expect("there is one").append(&page);
    attached.says("tas_feed_metric_nodes{metric=\"power\"} 10.0").await;

    let mut by_node = BTreeMap::new();
    for ten in 0..10 {
        create(&attached, "burst", ten * 10 + 1..=ten * 10 + 10).await;
        by_node = bound(&attached, "burst", ten * 10 + 10).await;
        let views = "tas_feed_views_total";
        let before = attached.tas.value(views).await.expect("an answer").unwrap_or_default();
        // One may have been under way already when the last pod was bound; the next after it was not.
        attached.sees(views, |count| count >= before + 2.0).await;
    }
    // By the metric alone all hundred would go to the first node, which had the lowest value before the first of them.
    let most = by_node.values().max().copied().unwrap_or_default();
    assert!(by_node.len() == 10 && most <= 20, "{by_node:?}");
}

#[tokio::test]
async fn of_a_thousand_pods_on_a_thousand_nodes_none_is_lost_and_none_is_where_it_must_not_be() {
    let nodes = objects::nodes("node", 1000);
    let attached = Attached::with(TAS, nodes, Payload::NamesOnly, &Settings::default()).await;
    let exporter = attached.cluster.exporter().expect("there is one");
    let is_hot = |number: usize| number.is_multiple_of(10);
    for number in 1..=1000 {
        exporter.set("node_thermal", &format!("node-{number}"), if is_hot(number) { 90.0 } else { 50.0 });
    }
    let rule = "metricname: thermal, operator: GreaterThan, target: 80";
    attached.cluster.apply(&policy("thermal", "dontschedule", rule)).await.expect("accepted");
    attached.says("tas_feed_metric_nodes{metric=\"thermal\"} 1000.0").await;

    create(&attached, "thermal", 1..=1000).await;
    let by_node = bound(&attached, "thermal", 1000).await;
    let number = |node: &str| node.trim_start_matches("node-").parse::<usize>().expect("a number");
    let wrong: Vec<&String> = by_node.keys().filter(|node| is_hot(number(node))).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let refused = attached.tas.value("tas_extender_nodes_refused_total").await.expect("an answer");
    assert!(refused.is_some_and(|count| count > 1000.0), "so many were in question: {refused:?}");
}
