//! What people are told where they look: events at pods, `/readyz?verbose`.

use e2e::PATIENCE;
use e2e::tas::{Attached, Payload};
use testbed::wait::until;

use crate::TAS;

#[tokio::test]
async fn a_pod_that_names_a_policy_nobody_knows_is_placed_and_its_events_say_so() {
    let attached = Attached::start(TAS, &["kind-worker"], Payload::NamesOnly).await;
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: lost, namespace: default, labels: {telemetry-policy: nowhere}}\n\
               spec:\n  containers:\n  - {name: c, image: busybox, resources: {limits: {telemetry/scheduling: 1}}}\n";
    assert_eq!(attached.placed("lost", pod).await, "kind-worker");
    let event = until("our event at the pod", PATIENCE, || async {
        let events = attached.cluster.events("default", "lost").await.map_err(|error| error.to_string())?;
        let ours = events.into_iter().find(|event| event.reason.as_deref() == Some("PolicyNotFound"));
        ours.ok_or_else(|| "no such event".to_owned())
    })
    .await
    .expect("tas says why");
    assert_eq!(
        event.message.as_deref(),
        Some(
            "the label telemetry-policy names the TASPolicy \"nowhere\", but there is none of that name in the pod's namespace; the pod is placed without it"
        )
    );
    assert!(event.involved_object.uid.is_some(), "or kubectl describe would not find it: {event:?}");
}
