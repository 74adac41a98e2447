//! The ground everything else stands on: pods are bound, and components survive what tests do to them.

use e2e::{PATIENCE, cluster_of};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::json;
use testbed::objects::{self, NodeShape};
use testbed::wait::until;
use testbed::{Cluster, Scheduler};

async fn phase(cluster: &Cluster, pod: &str) -> String {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let found = pods.get(pod).await.expect("the pod is there");
    found.status.and_then(|status| status.phase).unwrap_or_default()
}

#[tokio::test]
async fn a_pod_is_bound_to_a_node_that_fits_and_runs_there() {
    let cluster = cluster_of(2).await;
    cluster.create_nodes(&[NodeShape::new("warm").label("zone", "south")]).await.expect("one more node");
    let mut pod = objects::pod("web");
    pod.spec.as_mut().expect("a pod has a spec").node_selector =
        Some([("zone".to_owned(), "south".to_owned())].into());
    cluster.create_pod("default", &pod).await.expect("the pod is accepted");
    assert_eq!(cluster.bound("default", "web", PATIENCE).await.expect("it is bound"), "warm");
    until("the pod to run", PATIENCE, || async {
        let phase = phase(&cluster, "web").await;
        if phase == "Running" { Ok(()) } else { Err(phase) }
    })
    .await
    .expect("KWOK runs it");
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_waits_and_its_event_says_why() {
    let cluster = cluster_of(2).await;
    let mut pod = objects::pod("huge");
    let containers = &mut pod.spec.as_mut().expect("a pod has a spec").containers;
    containers[0].resources =
        serde_json::from_value(json!({"requests": {"cpu": "1000"}})).expect("resources");
    cluster.create_pod("default", &pod).await.expect("the pod is accepted");
    let said = until("the scheduler's event", PATIENCE, || async {
        let events = cluster.events("default", "huge").await.map_err(|error| error.to_string())?;
        let failure = events.into_iter().find(|event| event.reason.as_deref() == Some("FailedScheduling"));
        failure.and_then(|event| event.message).ok_or_else(|| "no such event".to_owned())
    })
    .await
    .expect("the scheduler says why");
    assert!(said.starts_with("0/2 nodes are available: 2 Insufficient cpu."), "{said}");
}

#[tokio::test]
async fn a_pod_whose_node_is_deleted_is_replaced_on_another() {
    let cluster = cluster_of(2).await;
    cluster
        .kubectl(&["create", "deployment", "web", "--image=example.invalid/web:1"])
        .await
        .expect("created");
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "default");
    let placed = || async {
        let listed = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?;
        match listed.items.as_slice() {
            [pod] => {
                pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).ok_or("one, not bound".to_owned())
            }
            other => Err(format!("{} pods", other.len())),
        }
    };
    let first = until("the first pod", PATIENCE, placed).await.expect("it is bound");
    let nodes: Api<Node> = Api::all(cluster.client());
    nodes.delete(&first, &DeleteParams::default()).await.expect("the node is deleted");
    // The collector of orphaned pods lets a missing node be missing for 40 seconds.
    let moved = || async {
        let node = placed().await?;
        if node == first { Err(format!("still on {node}")) } else { Ok(node) }
    };
    until("the replacement", PATIENCE * 2, moved).await.expect("it is placed on the other node");
}

#[tokio::test]
async fn a_killed_api_server_comes_back_with_its_objects() {
    let cluster = cluster_of(1).await;
    cluster.create_pod("default", &objects::pod("before")).await.expect("accepted");
    cluster.bound("default", "before", PATIENCE).await.expect("bound");
    cluster.component("kube-apiserver").expect("there is one").restart().expect("started again");
    cluster.api_server_ready().await.expect("it answers again");
    cluster.create_pod("default", &objects::pod("after")).await.expect("accepted");
    for pod in ["before", "after"] {
        assert_eq!(cluster.bound("default", pod, PATIENCE).await.expect("bound"), "node-1");
    }
}

#[tokio::test]
async fn a_paused_scheduler_binds_nothing_until_it_goes_on() {
    let cluster = cluster_of(1).await;
    let scheduler = cluster.component("kube-scheduler").expect("there is one");
    scheduler.pause().expect("paused");
    cluster.create_pod("default", &objects::pod("web")).await.expect("accepted");
    let refusal = cluster.bound("default", "web", std::time::Duration::from_secs(2)).await;
    let refusal = refusal.expect_err("nobody binds it").to_string();
    assert_eq!(
        refusal,
        "waited 2 s for pod default/web to be bound; last seen: not looked at by any scheduler"
    );
    scheduler.resume().expect("goes on");
    cluster.bound("default", "web", PATIENCE).await.expect("bound");
}

#[tokio::test]
async fn a_second_scheduler_binds_the_pods_that_ask_for_it() {
    let cluster = cluster_of(1).await;
    let configuration = "apiVersion: kubescheduler.config.k8s.io/v1\n\
                         kind: KubeSchedulerConfiguration\n\
                         profiles: [{schedulerName: secondary-scheduler}]\n";
    let second = Scheduler { name: "second".to_owned(), configuration: configuration.to_owned() };
    cluster.start_scheduler(&second).await.expect("it starts");
    let mut pod = objects::pod("web");
    pod.spec.as_mut().expect("a pod has a spec").scheduler_name = Some("secondary-scheduler".to_owned());
    cluster.create_pod("default", &pod).await.expect("accepted");
    cluster.bound("default", "web", PATIENCE).await.expect("bound");
    let by = until("the event of the binding", PATIENCE, || async {
        let events = cluster.events("default", "web").await.map_err(|error| error.to_string())?;
        let binding = events.into_iter().find(|event| event.reason.as_deref() == Some("Scheduled"));
        binding.and_then(|event| event.reporting_component).ok_or_else(|| "no such event".to_owned())
    });
    assert_eq!(by.await.expect("the scheduler reports"), "secondary-scheduler");
}
