//! The pods that are placed: made many at once or one by one, watched until they are bound, and taken away again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use cluster::lite::PodLite;
use cluster::watch::{self, News};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use testbed::wait::until;
use testbed::{Cluster, objects};

use crate::arena::{self, PATIENCE, Trouble};

const NAMESPACE: &str = "default";
/// How many creations are under way at once.
const AT_ONCE: usize = 32;
/// After so long without any news of pods something is wrong.
const SILENCE: Duration = Duration::from_mins(2);

/// Whose pods they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// They ask for the resource by which an extender's pods are told.
    Extender,
    /// They do not: without an extender no node would have it.
    Nobody,
}

/// A pod of a kind, told apart by batch and number.
fn pod(batch: &str, number: u32, asking: Asking) -> Pod {
    let mut pod = objects::pod(&format!("{batch}-{number:05}"));
    let policy = (api::keys::POD_POLICY_LABEL.to_owned(), arena::policy_name(0));
    pod.metadata.labels = Some(BTreeMap::from([policy]));
    if asking == Asking::Extender {
        for container in pod.spec.iter_mut().flat_map(|spec| &mut spec.containers) {
            let one = (api::keys::SCHEDULING_RESOURCE.to_owned(), Quantity("1".to_owned()));
            container.resources.get_or_insert_default().limits = Some(BTreeMap::from([one]));
        }
    }
    pod
}

/// Makes them as fast as the API server takes them.
pub(super) async fn create(
    cluster: &Cluster,
    batch: &str,
    count: u32,
    asking: Asking,
) -> Result<(), Trouble> {
    let creations = futures::stream::iter(0..count).map(|number| async move {
        cluster.create_pod(NAMESPACE, &pod(batch, number, asking)).await.map(drop)
    });
    Ok(creations.buffer_unordered(AT_ONCE).try_collect().await?)
}

/// Makes one after the other, this long apart.
pub(super) async fn create_every(
    cluster: &Cluster,
    (batch, count): (&str, u32),
    asking: Asking,
    apart: Duration,
) -> Result<(), Trouble> {
    let mut moments = tokio::time::interval(apart);
    for number in 0..count {
        moments.tick().await;
        cluster.create_pod(NAMESPACE, &pod(batch, number, asking)).await?;
    }
    Ok(())
}

/// Takes all of them away at once.
pub(super) async fn delete_all(cluster: &Cluster) -> Result<(), Trouble> {
    let pods: Api<Pod> = Api::namespaced(cluster.client(), NAMESPACE);
    let (at_once, all) = (DeleteParams::default().grace_period(0), ListParams::default());
    until("all pods to be gone", PATIENCE, || async {
        // Cut short by the API server if there are many, and then asked for again.
        pods.delete_collection(&at_once, &all).await.map_err(|error| error.to_string())?;
        let left = pods.list(&ListParams::default().limit(1)).await.map_err(|error| error.to_string())?;
        if left.items.is_empty() { Ok(()) } else { Err("some are left".to_owned()) }
    })
    .await?;
    Ok(())
}

/// Who sees which pods are bound: one watch.
pub(super) struct Bindings {
    news: BoxStream<'static, News<PodLite>>,
    /// The nodes that pods were bound to, by pod.
    bound: HashMap<String, String>,
}

impl Bindings {
    /// Begins to look, and is told of so many pods that wait.
    pub(super) async fn begin(cluster: &Cluster, waiting: u32) -> Result<Self, Trouble> {
        let mut bindings = Self { news: watch::pods(&cluster.client()).boxed(), bound: HashMap::new() };
        match bindings.next().await? {
            News::All(pods)
                if pods.len() == waiting as usize && pods.iter().all(|pod| pod.node.is_none()) =>
            {
                Ok(bindings)
            }
            other => Err(format!("{waiting} pods should wait, and it is {other:?}").into()),
        }
    }

    async fn next(&mut self) -> Result<News<PodLite>, Trouble> {
        let news = tokio::time::timeout(SILENCE, self.news.next()).await;
        let news = news.map_err(|_| format!("no pod was bound in {} s", SILENCE.as_secs()))?;
        Ok(news.ok_or("the watch has ended")?)
    }

    /// Waits until so many more are bound, and tells the number of each as it is seen.
    pub(super) async fn follow(&mut self, count: u32, mut each: impl FnMut(u32)) -> Result<(), Trouble> {
        let mut number = 0;
        while number < count {
            let pods = match self.next().await? {
                News::All(pods) => pods,
                News::Changed(pod) => vec![pod],
                // It begins again by itself.
                News::Gone(_) | News::Trouble(_) => continue,
            };
            for pod in &pods {
                let Some(node) = &pod.node else { continue };
                if self.bound.insert(pod.name().to_owned(), node.clone()).is_none() {
                    number += 1;
                    each(number);
                }
            }
        }
        Ok(())
    }

    /// How many nodes have got a pod so far.
    pub(super) fn nodes(&self) -> usize {
        self.bound.values().collect::<HashSet<_>>().len()
    }
}
