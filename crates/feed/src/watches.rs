//! Follows nodes, policies and pods, and hands on what is new.

use std::time::Duration;

use api::Defaults;
use cluster::definition::{Definition, installed};
use cluster::lite::{NodeLite, PodLite, PolicyLite};
use cluster::watch::{self, News};
use engine::names::NodeName;
use engine::time::Timestamp;
use futures::{Stream, StreamExt};
use kube::{Client, Resource};
use tokio::sync::mpsc;

use crate::directory::NodeFacts;
use crate::world::{Change, Delta, ObjectKey, PodFacts, PolicyFacts, Watched};

/// How often the installed definition is looked at.
const DEFINITION_PERIOD: Duration = Duration::from_mins(5);
/// The same while there is none.
const MISSING_DEFINITION_PERIOD: Duration = Duration::from_secs(15);

/// The same news for whoever writes: objects as they stand, with the editions that a write must name.
#[derive(Clone, Debug, PartialEq)]
pub enum Sighting {
    /// Of nodes.
    Nodes(Delta<NodeLite>),
    /// Of policies.
    Policies(Delta<PolicyLite>),
    /// Of pods that name a policy.
    Pods(Delta<PodLite>),
}

/// Follows everything until nobody listens any more; `sightings` is for whoever writes, if anybody does.
pub async fn follow(
    client: Client,
    defaults: Defaults,
    changes: mpsc::Sender<Change>,
    sightings: Option<mpsc::Sender<Sighting>>,
) {
    let sightings = sightings.as_ref();
    let (nodes, pods) = (watch::nodes(&client), watch::pods(&client));
    let nodes = hand_on(Watched::Nodes, nodes, of_nodes, &changes, Sighting::Nodes, sightings);
    let pods = hand_on(Watched::Pods, pods, of_pods, &changes, Sighting::Pods, sightings);
    let compiled = |news| of_policies(news, &defaults);
    let policies = watch::policies(&client);
    let policies = hand_on(Watched::Policies, policies, compiled, &changes, Sighting::Policies, sightings);
    let definition = look_at_definition(&client, &changes);
    tokio::select! {
        () = nodes => {}
        () = pods => {}
        () = policies => {}
        () = definition => {}
    }
}

/// A watch that met no new trouble for this long is well: it is taken up again without a word where nothing has
/// changed, and tried again long before.
const CALM: Duration = Duration::from_mins(2);

async fn hand_on<K: Resource + Clone>(
    watched: Watched,
    news: impl Stream<Item = News<K>>,
    translate: impl Fn(News<K>) -> Vec<Change>,
    changes: &mpsc::Sender<Change>,
    sighting: impl Fn(Delta<K>) -> Sighting,
    sightings: Option<&mpsc::Sender<Sighting>>,
) {
    let mut news = std::pin::pin!(news);
    let mut trouble: Option<String> = None;
    loop {
        let news = match tokio::time::timeout(CALM, news.next()).await {
            Ok(Some(news)) => Some(news),
            Ok(None) => return,
            Err(_) => None,
        };
        let mut translated = Vec::new();
        if let Some(News::Trouble(met)) = &news {
            let met = met.to_string();
            // Met again and again, told once.
            if trouble.as_ref() != Some(&met) {
                tracing::warn!(watch = watched.as_str(), trouble = %met, "a watch is in trouble");
                translated.push(Change::Trouble(watched, Some(met.clone())));
                trouble = Some(met);
            }
        } else if trouble.take().is_some() {
            tracing::info!(watch = watched.as_str(), "the watch is well again");
            translated.push(Change::Trouble(watched, None));
        }
        if let Some(sightings) = sightings
            && let Some(delta) = news.as_ref().and_then(seen)
        {
            // If nobody writes any more, the rest goes on.
            let _ = sightings.send(sighting(delta)).await;
        }
        translated.extend(news.map(&translate).unwrap_or_default());
        for change in translated {
            if let Change::Skipped(watched, what) = &change {
                tracing::warn!(watch = watched.as_str(), %what, "an object is left out");
            }
            if changes.send(change).await.is_err() {
                return;
            }
        }
    }
}

fn seen<K: Resource + Clone>(news: &News<K>) -> Option<Delta<K>> {
    match news {
        News::All(all) => Some(Delta::Replaced(all.clone())),
        News::Changed(object) => Some(Delta::Applied(object.clone())),
        News::Gone(object) => {
            let meta = object.meta();
            let text = |field: &Option<String>| field.clone().unwrap_or_default();
            Some(Delta::Deleted(ObjectKey { namespace: text(&meta.namespace), name: text(&meta.name) }))
        }
        News::Trouble(_) => None,
    }
}

/// Said once for each different finding.
async fn look_at_definition(client: &Client, changes: &mpsc::Sender<Change>) {
    let mut told = None;
    loop {
        let found = installed(client).await;
        let period = match &found {
            Ok(Definition::Complete | Definition::Lacks(_)) => DEFINITION_PERIOD,
            Ok(Definition::Missing) | Err(_) => MISSING_DEFINITION_PERIOD,
        };
        let words = match found {
            Ok(definition) => definition.words(),
            Err(trouble) => Some(trouble.to_string()),
        };
        if told.as_ref() != Some(&words) {
            if let Some(words) = &words {
                tracing::warn!(definition = %words, "the installed definition of policies");
            }
            if changes.send(Change::Definition(words.clone())).await.is_err() {
                return;
            }
            told = Some(words);
        }
        tokio::time::sleep(period).await;
    }
}

fn of_nodes(news: News<NodeLite>) -> Vec<Change> {
    let facts = |node: NodeLite| match NodeName::new(node.name()) {
        Ok(name) => Ok(NodeFacts { name, addresses: node.addresses }),
        Err(error) => Err(Change::Skipped(Watched::Nodes, format!("{:?}: {error}", node.name()))),
    };
    translated(news, Change::Nodes, facts, |node| ObjectKey::new("", node.name()))
}

fn of_policies(news: News<PolicyLite>, defaults: &Defaults) -> Vec<Change> {
    let key = |policy: &PolicyLite| ObjectKey::new(policy.namespace(), policy.name());
    let mut skipped = Vec::new();
    let mut note = |policy: &PolicyLite| {
        if let Err(reason) = &policy.object {
            let what = format!("{}/{}: {reason}", policy.namespace(), policy.name());
            skipped.push(Change::Skipped(Watched::Policies, what));
        }
    };
    match &news {
        News::All(all) => all.iter().for_each(&mut note),
        News::Changed(policy) => note(policy),
        News::Gone(_) | News::Trouble(_) => {}
    }
    // Held all the same, so that its status can say what is wrong with it.
    let facts = |policy: PolicyLite| {
        Ok(match &policy.object {
            Ok(object) => PolicyFacts::of(object, defaults),
            Err(reason) => PolicyFacts::unreadable(key(&policy), reason.clone()),
        })
    };
    let mut changes = translated(news, Change::Policies, facts, key);
    changes.append(&mut skipped);
    changes
}

fn of_pods(news: News<PodLite>) -> Vec<Change> {
    let key = |pod: &PodLite| ObjectKey::new(pod.namespace(), pod.name());
    let facts = |pod: PodLite| match (&pod.node, pod.bound) {
        (Some(node), Some(bound)) if !pod.finished => {
            Ok(PodFacts { key: key(&pod), node: node.clone(), bound: Timestamp::from_millis(bound) })
        }
        // It adds nothing to any node, not yet or not any more.
        _ => Err(Change::Pods(Delta::Deleted(key(&pod)))),
    };
    translated(news, Change::Pods, facts, key)
}

/// `facts` gives what to hold of an object, or what to tell instead.
fn translated<K, T>(
    news: News<K>,
    change: impl Fn(Delta<T>) -> Change,
    facts: impl Fn(K) -> Result<T, Change>,
    key: impl Fn(&K) -> ObjectKey,
) -> Vec<Change> {
    match news {
        News::All(all) => {
            let (mut held, mut instead) = (Vec::new(), Vec::new());
            for object in all {
                match facts(object) {
                    Ok(fact) => held.push(fact),
                    Err(skipped @ Change::Skipped(..)) => instead.push(skipped),
                    Err(_) => {}
                }
            }
            instead.push(change(Delta::Replaced(held)));
            instead
        }
        News::Changed(object) => {
            let gone = key(&object);
            match facts(object) {
                Ok(fact) => vec![change(Delta::Applied(fact))],
                Err(skipped @ Change::Skipped(..)) => vec![skipped, change(Delta::Deleted(gone))],
                Err(other) => vec![other],
            }
        }
        News::Gone(object) => vec![change(Delta::Deleted(key(&object)))],
        News::Trouble(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read<K: serde::de::DeserializeOwned>(object: Value) -> K {
        serde_json::from_value(object).unwrap()
    }

    fn node(name: &str) -> NodeLite {
        read(json!({"metadata": {"name": name}}))
    }

    fn pod(name: &str, spec: &Value, phase: &str) -> PodLite {
        read(
            json!({"metadata": {"name": name, "namespace": "default", "creationTimestamp": "1970-01-01T00:00:05Z"},
            "spec": spec, "status": {"phase": phase}}),
        )
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_without_new_trouble_is_well_again_although_nothing_changes() {
        let away = || cluster::Trouble::Unreachable {
            verb: cluster::Verb::Watch,
            resource: "nodes".to_owned(),
            reason: "refused".to_owned(),
        };
        let troubles = futures::stream::iter([News::Trouble(away()), News::Trouble(away())]);
        let (sender, mut changes) = mpsc::channel(4);
        let handing = hand_on(
            Watched::Nodes,
            troubles.chain(futures::stream::pending()),
            of_nodes,
            &sender,
            Sighting::Nodes,
            None,
        );
        let told = tokio::select! {
            () = handing => unreachable!("the watch does not end"),
            told = async { [changes.recv().await, changes.recv().await] } => told,
        };
        assert_eq!(
            told,
            [
                Some(Change::Trouble(Watched::Nodes, Some(away().to_string()))),
                Some(Change::Trouble(Watched::Nodes, None))
            ]
        );
    }

    #[test]
    fn a_node_that_makes_no_sense_is_named_and_the_others_count() {
        let held = |name: &str| NodeFacts { name: NodeName::new(name).unwrap(), addresses: vec![] };
        let skipped =
            Change::Skipped(Watched::Nodes, "\"Bad Name\": the node name \"Bad Name\" has the character 'B'; allowed are a-z, 0-9, '-' and '.'".to_owned());
        assert_eq!(
            of_nodes(News::All(vec![node("a"), node("Bad Name"), node("b")])),
            [skipped.clone(), Change::Nodes(Delta::Replaced(vec![held("a"), held("b")]))]
        );
        assert_eq!(
            of_nodes(News::Changed(node("Bad Name"))),
            [skipped, Change::Nodes(Delta::Deleted(ObjectKey::new("", "Bad Name")))]
        );
        assert_eq!(of_nodes(News::Gone(node("a"))), [Change::Nodes(Delta::Deleted(ObjectKey::new("", "a")))]);
    }

    #[test]
    fn pods_count_from_being_bound_to_having_finished() {
        let bound = json!({"nodeName": "n1"});
        let key = ObjectKey::new("default", "p");
        let held = PodFacts { key: key.clone(), node: "n1".to_owned(), bound: Timestamp::from_secs(5) };
        let gone = [Change::Pods(Delta::Deleted(key))];
        assert_eq!(of_pods(News::Changed(pod("p", &json!({}), "Pending"))), gone);
        assert_eq!(
            of_pods(News::Changed(pod("p", &bound, "Running"))),
            [Change::Pods(Delta::Applied(held.clone()))]
        );
        assert_eq!(of_pods(News::Changed(pod("p", &bound, "Succeeded"))), gone);
        assert_eq!(
            of_pods(News::All(vec![pod("p", &bound, "Running"), pod("q", &json!({}), "Pending")])),
            [Change::Pods(Delta::Replaced(vec![held]))]
        );
    }

    #[test]
    fn a_policy_that_cannot_be_read_is_named_and_held() {
        let bad: PolicyLite = read(json!({"metadata": {"name": "p", "namespace": "default"}, "spec": 5}));
        let good: PolicyLite =
            read(json!({"metadata": {"name": "q", "namespace": "default"}, "spec": {"strategies": {}}}));
        let changes = of_policies(News::All(vec![bad, good]), &Defaults::default());
        let [Change::Policies(Delta::Replaced(held)), Change::Skipped(Watched::Policies, what)] =
            &changes[..]
        else {
            panic!("a list and what was left out, not {changes:?}");
        };
        assert_eq!(held.iter().map(|facts| facts.policy.is_some()).collect::<Vec<_>>(), [false, true]);
        assert!(what.starts_with("default/p: "), "{what}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_definition_that_is_missing_is_told_once_and_looked_for_until_it_is_there() {
        let (service, handle) =
            tower_test::mock::pair::<http::Request<kube::client::Body>, http::Response<kube::client::Body>>();
        let mut server = std::pin::pin!(handle);
        let client = Client::new(service, "default");
        let (changes, mut told) = mpsc::channel(4);
        let missing = json!({"kind": "Status", "status": "Failure", "code": 404, "message": "not found", "reason": "NotFound"});
        let intels = json!({"spec": {"versions": [{"name": "v1alpha1", "schema": {"openAPIV3Schema": {}}}]}});
        let ours = serde_json::to_value(api::crd()).unwrap();
        let script = async {
            for (status, body) in [(404, &missing), (404, &missing), (200, &intels), (200, &ours)] {
                let (_, reply) = server.next_request().await.unwrap();
                let body = kube::client::Body::from(body.to_string().into_bytes());
                reply.send_response(http::Response::builder().status(status).body(body).unwrap());
            }
            let mut words = Vec::new();
            for _ in 0..3 {
                let Some(Change::Definition(said)) = told.recv().await else {
                    panic!("about the definition")
                };
                words.push(said.map(|said| said.split([';', ',']).next().unwrap_or_default().to_owned()));
            }
            words
        };
        let words = tokio::select! {
            words = script => words,
            () = look_at_definition(&client, &changes) => panic!("it looks for ever"),
        };
        let [first, second, third] = &words[..] else { panic!("three findings, not {words:?}") };
        let name = "CustomResourceDefinition taspolicies.telemetry.intel.com";
        assert_eq!(first.as_deref(), Some(format!("the {name} is not installed").as_str()));
        assert!(second.as_ref().is_some_and(|said| said.starts_with(&format!("the installed {name} drops"))));
        assert_eq!(*third, None);
    }
}
