//! Tells people what is wrong where they look for it: at the pod, in the log. All of it beside the request path.

mod lines;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api::problem::Severity;
use arc_swap::ArcSwap;
use chassis::shutdown::{Phase, Shutdown};
use cluster::events::{Events, Notice, QUIET, Tone};
use extender::{Extender, Stray};
use feed::world::{ObjectKey, Watched};
use feed::{Health, Published};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::{Instant, interval};

use lines::{Line, news};

/// How often we look.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Events about pods in one look; a thousand replicas with the same mistake need no thousand events.
const MAX_EVENTS: usize = 20;
/// Policies whose absence was logged lately.
const MAX_QUIET: usize = 1024;

/// Looks until the process ends.
pub(crate) async fn tell(
    extender: Arc<Extender>,
    published: Published,
    events: Events,
    mut shutdown: Shutdown,
) {
    let mut told = Told::default();
    let mut looks = interval(LOOK_EVERY);
    loop {
        tokio::select! {
            () = shutdown.reached(Phase::Draining) => return,
            _ = looks.tick() => {}
        }
        told.look(&extender, &published.health, &events);
        extender.tallies.forget_gone(&published.view.load());
    }
}

/// What was said so far.
#[derive(Debug, Default)]
struct Told {
    health: Health,
    missing: BTreeMap<ObjectKey, Instant>,
}

impl Told {
    fn look(&mut self, extender: &Extender, health: &ArcSwap<Health>, events: &Events) {
        let health = health.load();
        for line in news(&self.health, &health) {
            match line {
                Line::Well(text) => tracing::info!("{text}"),
                Line::Wrong(text) => tracing::warn!("{text}"),
            }
        }
        self.remember(&health);
        let (strays, left_out) = extender.strays.take();
        for (policy, pods) in self.newly_missing(&strays, Instant::now()) {
            let ObjectKey { namespace, name } = &policy;
            let why = unusable(&health, &policy);
            tracing::warn!(%namespace, policy = %name, pods, why, "pods name a policy that cannot be asked");
        }
        if left_out > 0 {
            tracing::warn!(
                requests = left_out,
                "more pods name unknown policies than can be told one by one"
            );
        }
        if lists_policies(&health) {
            strays.iter().take(MAX_EVENTS).for_each(|stray| events.tell(at_pod(stray, &health)));
        }
    }

    /// While nothing can be read, what was known of each metric stays what is compared with.
    fn remember(&mut self, health: &Health) {
        let before = std::mem::take(&mut self.health.metrics);
        self.health = health.clone();
        if health.reading.failures_in_a_row > 0 {
            self.health.metrics = before;
        }
    }

    /// Policies that were not missed lately, and how many pods miss them.
    fn newly_missing(&mut self, strays: &BTreeSet<Stray>, now: Instant) -> BTreeMap<ObjectKey, usize> {
        self.missing.retain(|_, said| now.duration_since(*said) < QUIET);
        let mut missed: BTreeMap<ObjectKey, usize> = BTreeMap::new();
        for stray in strays {
            *missed.entry(ObjectKey::new(&stray.namespace, &stray.policy)).or_default() += 1;
        }
        missed.retain(|policy, _| !self.missing.contains_key(policy) && self.missing.len() < MAX_QUIET);
        self.missing.extend(missed.keys().map(|policy| (policy.clone(), now)));
        missed
    }
}

/// Why a policy could not be asked.
fn unusable(health: &Health, policy: &ObjectKey) -> String {
    match health.policies.get(policy) {
        None if !lists_policies(health) => "policies are not listed yet".to_owned(),
        None => "there is none of that name in the pod's namespace".to_owned(),
        Some(facts) if facts.policy.is_some() => "it was not known yet when the scheduler asked".to_owned(),
        Some(facts) => {
            let grave = facts.problems.iter().find(|problem| problem.severity == Severity::Error);
            let reason = grave.map(ToString::to_string).or_else(|| facts.unreadable.clone());
            format!("it cannot be used: {}", reason.unwrap_or_default())
        }
    }
}

/// Before that nobody can say that a policy does not exist.
fn lists_policies(health: &Health) -> bool {
    health.watches.get(&Watched::Policies).is_some_and(|watch| watch.synced)
}

fn at_pod(stray: &Stray, health: &Health) -> Notice {
    let Stray { namespace, policy, pod, uid } = stray;
    let why = unusable(health, &ObjectKey::new(namespace, policy));
    Notice {
        about: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(namespace.to_string()),
            name: Some(pod.to_string()),
            uid: Some(uid.to_string()).filter(|uid| !uid.is_empty()),
            ..ObjectReference::default()
        },
        tone: Tone::Warning,
        reason: "PolicyNotFound",
        action: "Filter",
        note: format!(
            "the label {} names the TASPolicy {policy:?}, but {why}; the pod is placed without it",
            api::keys::POD_POLICY_LABEL
        ),
    }
}

#[cfg(test)]
mod tests {
    use feed::health::WatchHealth;
    use feed::world::PolicyFacts;

    use super::*;

    fn listed(facts: Option<PolicyFacts>) -> Health {
        let watch = WatchHealth { synced: true, ..WatchHealth::default() };
        let policies = facts.into_iter().map(|facts| (facts.key.clone(), facts)).collect();
        Health { watches: [(Watched::Policies, watch)].into(), policies, ..Health::default() }
    }

    fn stray(policy: &str, pod: &str) -> Stray {
        Stray { namespace: "shop".into(), policy: policy.into(), pod: pod.into(), uid: "u-1".into() }
    }

    #[test]
    fn the_event_is_at_the_pod_and_says_what_became_of_it() {
        let notice = at_pod(&stray("power", "web-0"), &listed(None));
        let about = &notice.about;
        assert_eq!(
            [&about.kind, &about.namespace, &about.name, &about.uid].map(|part| part.clone().unwrap()),
            ["Pod", "shop", "web-0", "u-1"]
        );
        assert_eq!(
            notice.note,
            "the label telemetry-policy names the TASPolicy \"power\", but there is none of that name in the pod's namespace; the pod is placed without it"
        );
    }

    #[test]
    fn a_policy_that_is_there_but_broken_or_late_is_told_from_one_that_is_not() {
        let key = ObjectKey::new("shop", "power");
        let broken = PolicyFacts::unreadable(key.clone(), "spec is no map".to_owned());
        assert_eq!(unusable(&listed(Some(broken.clone())), &key), "it cannot be used: spec is no map");
        let policy = Some(Arc::new(engine::fixtures::policy("power")));
        let late = PolicyFacts { policy, unreadable: None, ..broken };
        assert_eq!(unusable(&listed(Some(late)), &key), "it was not known yet when the scheduler asked");
        assert_eq!(unusable(&Health::default(), &key), "policies are not listed yet");
    }

    #[test]
    fn a_missing_policy_is_logged_once_in_a_while_however_many_pods_miss_it() {
        let mut told = Told::default();
        let now = Instant::now();
        let strays: BTreeSet<Stray> = (0..7).map(|n| stray("power", &format!("web-{n}"))).collect();
        let missing = |policy, pods| BTreeMap::from([(ObjectKey::new("shop", policy), pods)]);
        assert_eq!(told.newly_missing(&strays, now), missing("power", 7));
        assert_eq!(told.newly_missing(&strays, now + QUIET / 2), BTreeMap::new());
        assert_eq!(told.newly_missing(&[stray("heat", "x")].into(), now), missing("heat", 1));
        assert_eq!(told.newly_missing(&strays, now + QUIET), missing("power", 7));
    }
}
