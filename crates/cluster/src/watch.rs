//! A watch that goes on whatever happens: lists, is told of changes, lists again when it may have missed some, and
//! waits longer after each failure.

use std::fmt::Debug;

use futures::{Stream, StreamExt};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;

use api::keys::SWITCHES;

use crate::lite::{NodeLite, PodLite, PolicyLite, SwitchLite};
use crate::trouble::Trouble;

/// Objects in one page of a list.
pub const PAGE: u32 = 500;

/// What a watch tells.
#[derive(Clone, Debug, PartialEq)]
pub enum News<K> {
    /// All there are: what is not among them is gone.
    All(Vec<K>),
    /// One that is new or different.
    Changed(K),
    /// One that is gone.
    Gone(K),
    /// Nothing new until this is over; told each time it is met.
    Trouble(Trouble),
}

/// All nodes.
pub fn nodes(client: &Client) -> impl Stream<Item = News<NodeLite>> + Send + use<> {
    watch(Api::all(client.clone()), watcher::Config::default())
}

/// All policies, of all namespaces.
pub fn policies(client: &Client) -> impl Stream<Item = News<PolicyLite>> + Send + use<> {
    watch(Api::all(client.clone()), watcher::Config::default())
}

/// All pods that name a policy; the API server leaves the others out.
pub fn pods(client: &Client) -> impl Stream<Item = News<PodLite>> + Send + use<> {
    watch(Api::all(client.clone()), watcher::Config::default().labels(api::keys::POD_POLICY_LABEL))
}

/// The one ConfigMap of a namespace that holds our switches.
pub fn switches(client: &Client, namespace: &str) -> impl Stream<Item = News<SwitchLite>> + Send + use<> {
    let only = watcher::Config::default().fields(&format!("metadata.name={SWITCHES}"));
    watch(Api::namespaced(client.clone(), namespace), only)
}

/// The resource as `kubectl auth can-i` takes it: `pods`, `taspolicies.telemetry.intel.com`.
pub fn resource_name<K: Resource<DynamicType = ()>>() -> String {
    let (plural, group) = (K::plural(&()), K::group(&()));
    if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") }
}

fn watch<K>(api: Api<K>, config: watcher::Config) -> impl Stream<Item = News<K>> + Send
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let resource = resource_name::<K>();
    let events = watcher(api, config.page_size(PAGE)).default_backoff();
    events
        .scan(Vec::new(), move |listed, event| {
            let news = match event {
                Ok(Event::Init) => {
                    listed.clear();
                    None
                }
                Ok(Event::InitApply(object)) => {
                    listed.push(object);
                    None
                }
                Ok(Event::InitDone) => Some(News::All(std::mem::take(listed))),
                Ok(Event::Apply(object)) => Some(News::Changed(object)),
                Ok(Event::Delete(object)) => Some(News::Gone(object)),
                Err(error) => Some(News::Trouble(Trouble::of_watch(&error, &resource))),
            };
            std::future::ready(Some(news))
        })
        .filter_map(std::future::ready)
}
