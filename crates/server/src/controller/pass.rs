//! One pass after the other while we lead: observe, plan, carry out. Every write asks first whether the term still
//! holds and the process still stays.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::marks::{kick, label_key};
use api::policy::TasPolicyStatus;
use chassis::shutdown::{Phase, Shutdown};
use cluster::Client;
use cluster::events::Events;
use cluster::lease::Leadership;
use cluster::lite::NodeLite;
use cluster::write::{self, Foreign, Refusal};
use engine::View;
use engine::names::{NodeName, PolicyRef};
use engine::plan::{Ledger, NodeChange, Outcome, Plan, Refused, Settings, plan};
use engine::time::Timestamp;
use feed::Published;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::known::Known;
use super::patience::Patience;
use super::sightings::{SeenNode, Sightings};
use super::stored::Stored;
use super::tally::{Kind, Tally};
use super::{LOOK_AGAIN, lock, tell};

/// Writes under way at once.
pub const AT_ONCE: usize = 8;
/// However soon a plan wants to be made again, not sooner than this.
const SOONEST: Duration = Duration::from_millis(50);

/// What a term works with.
pub(super) struct Pass {
    pub(super) client: Client,
    pub(super) leadership: Leadership,
    pub(super) term: u64,
    pub(super) shutdown: Shutdown,
    pub(super) published: Published,
    pub(super) sightings: Arc<Mutex<Sightings>>,
    pub(super) events: Events,
    pub(super) tally: Arc<Tally>,
    pub(super) clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    pub(super) memory: Memory,
}

/// What a term remembers; the next one begins anew, from what stands on the objects.
#[derive(Default)]
pub(super) struct Memory {
    ledger: Ledger,
    known: Known,
    patience: Mutex<Patience<Object>>,
    /// Outcomes that are not in the status yet.
    untold: BTreeMap<PolicyRef, Arc<Outcome>>,
    /// Whether the installed definition drops what we tell.
    pruned: AtomicBool,
    /// The last trouble logged, so as not to repeat it.
    logged: Mutex<Option<String>>,
}

/// What is written on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Object {
    Node(NodeName),
    Policy(PolicyRef),
}

/// Why a write did not happen.
enum Stop {
    /// It may not begin any more.
    Fenced,
    Refused(Refusal),
}

impl Pass {
    /// Plans and carries out; tells when to come back even if nothing happens.
    pub(super) async fn carry_out(&mut self, settings: Settings) -> Instant {
        let later = Instant::now() + LOOK_AGAIN;
        let (view, health) = (self.published.view.load_full(), self.published.health.load_full());
        // Until everything was seen once, what is not there may only not have been told yet.
        if !health.unready().is_empty() {
            return later;
        }
        let (mut observed, decided_on) = {
            let seen = lock(&self.sightings);
            if !seen.is_complete() {
                return later;
            }
            (self.memory.known.observe(&seen, &view, &health, settings), seen.all_nodes())
        };
        if health.definition.is_none() {
            self.memory.pruned.store(false, Ordering::Relaxed);
        }
        let (ledger, now, begun) = (std::mem::take(&mut self.memory.ledger), (self.clock)(), Instant::now());
        observed.refused = self.refused(observed.nodes.keys(), now, begun);
        let judged = Arc::clone(&view);
        let planning = tokio::task::spawn_blocking(move || plan(&judged, &observed, ledger, now));
        let Ok((plan, ledger)) = planning.await else {
            tracing::error!("planning broke off; the next pass begins with nothing remembered");
            return later;
        };
        self.memory.ledger = ledger;
        self.tally.planned(&plan, begun.elapsed());
        for change in &plan.statuses {
            self.memory.untold.insert(change.policy.clone(), Arc::clone(&change.outcome));
        }
        self.forget(&plan);
        self.nodes(&plan, &decided_on, &view).await;
        self.statuses().await;
        self.wake(&plan)
    }

    /// What was refused of these nodes, by the clock that plans go by.
    fn refused<'n>(
        &self,
        nodes: impl Iterator<Item = &'n NodeName>,
        now: Timestamp,
        begun: Instant,
    ) -> BTreeMap<NodeName, Refused> {
        let patience = lock(&self.memory.patience);
        if patience.is_idle(begun) {
            return BTreeMap::new();
        }
        let refused = |node: &NodeName| {
            let wait = patience.wait(&Object::Node(node.clone()), begun)?;
            let until = now.after(wait.until.saturating_duration_since(begun));
            Some((node.clone(), Refused { until, why: wait.why }))
        };
        nodes.filter_map(refused).collect()
    }

    /// Forgets what was held for objects that are gone, and refusals of what is not wanted any more.
    fn forget(&mut self, plan: &Plan) {
        let seen = lock(&self.sightings);
        self.memory.untold.retain(|policy, _| seen.policy(policy).is_some());
        let untold = &self.memory.untold;
        lock(&self.memory.patience).keep(|object| match object {
            Object::Node(node) => seen.node(node).is_some() && plan.settled.binary_search(node).is_err(),
            Object::Policy(policy) => untold.contains_key(policy),
        });
        self.tally.forget(|policy| seen.policy(policy).is_some());
    }

    fn wake(&self, plan: &Plan) -> Instant {
        let now = Instant::now();
        let planned = plan.wake.map(|at| now + at.since((self.clock)()));
        let refused = lock(&self.memory.patience).next(now);
        let first = planned.into_iter().chain(refused).min();
        first.map_or(now + LOOK_AGAIN, |at| at.max(now + SOONEST))
    }

    /// Whether a write may begin at this very moment.
    fn may_write(&self) -> bool {
        self.leadership.allows(self.term) && self.shutdown.phase() == Phase::Serving
    }

    /// One request, unless it may not begin any more.
    async fn attempt<T>(
        &self,
        kind: Kind,
        writing: impl Future<Output = Result<T, Refusal>>,
    ) -> Result<T, Stop> {
        if !self.may_write() {
            self.tally.wrote(kind, "fenced");
            return Err(Stop::Fenced);
        }
        let written = writing.await;
        self.tally.wrote(kind, written.as_ref().map_or_else(Refusal::as_str, |_| "stored"));
        written.map_err(Stop::Refused)
    }

    fn is_patient(&self, object: &Object) -> bool {
        !lock(&self.memory.patience).is_over(object, Instant::now())
    }

    /// What follows from a refusal.
    fn note(&self, object: Object, stop: &Stop) {
        let Stop::Refused(refusal) = stop else { return };
        if let Some(trouble) = refusal.trouble().map(ToString::to_string) {
            let mut logged = lock(&self.memory.logged);
            if logged.as_ref() != Some(&trouble) {
                tracing::warn!(%trouble, ?object, "a write was refused; it is tried again");
                *logged = Some(trouble);
            }
        }
        lock(&self.memory.patience).refused(object, refusal, Instant::now());
    }

    async fn nodes(&self, plan: &Plan, decided_on: &BTreeMap<NodeName, Arc<SeenNode>>, view: &View) {
        let work = plan.nodes.iter().filter_map(|change| {
            let before = decided_on.get(&change.node)?;
            Some(self.node(change, before, view).boxed())
        });
        let done: Vec<NodeChange> = a_few_at_once(work.collect()).await;
        let done: Vec<&NodeChange> = done.iter().collect();
        let seen = lock(&self.sightings);
        for notice in tell::of_policies(&done, |policy| seen.policy(policy).map(|seen| &seen.edition)) {
            self.events.tell_first(notice);
        }
    }

    /// The change with the deeds that were done, if any was.
    async fn node(&self, change: &NodeChange, before: &SeenNode, view: &View) -> Option<NodeChange> {
        let object = Object::Node(change.node.clone());
        if self.is_patient(&object) {
            self.tally.put_off();
            return None;
        }
        let mut stored = Stored::default();
        if let Err(stop) = self.write_node(change, before, &mut stored).await {
            self.note(object, &stop);
        } else {
            lock(&self.memory.patience).done(&object);
            if let Some(taken) = sampled(change, view) {
                self.tally.acted((self.clock)().since(taken));
            }
        }
        let done = stored.of(change)?;
        for notice in tell::of_node(&before.edition, &done) {
            self.events.tell(notice);
        }
        Some(done)
    }

    /// Writes one request after the other, each on the edition that the one before has made; `stored` tells how far it
    /// came. Labels and taints cannot share one: applied taints would be ours with everybody else's, and gone with the
    /// first apply that leaves them out; patched labels would not be ours to let go of.
    async fn write_node(
        &self,
        change: &NodeChange,
        before: &SeenNode,
        stored: &mut Stored,
    ) -> Result<(), Stop> {
        let seen = lock(&self.sightings).node(&change.node).cloned();
        let mut node = seen.ok_or(Stop::Refused(Refusal::Gone))?;
        if !node.is_as_good_as(before) {
            return Err(Stop::Refused(Refusal::Outdated));
        }
        if let Some(labels) = &change.labels {
            let mut labels: BTreeMap<String, String> =
                labels.iter().map(|label| (label_key(&label.key), label.value.to_string())).collect();
            let foreign = if change.adopts.is_empty() { Foreign::Leave } else { Foreign::TakeOver };
            let apply = async |labels: &BTreeMap<String, String>| {
                let writing = write::labels(&self.client, &node.edition, labels, foreign);
                self.attempt(Kind::Labels, writing).await
            };
            let mut written = apply(&labels).await;
            if let Err(Stop::Refused(Refusal::Foreign(keys))) = written {
                // Somebody was there first, and it is theirs. The others are not held up by that.
                tracing::warn!(node = %change.node, ?keys, "labels of somebody else are left alone");
                labels.retain(|key, _| !keys.contains(key));
                stored.left_alone = keys;
                written = apply(&labels).await;
            }
            node = self.took(&written?)?;
            stored.labels = true;
        }
        let off: Vec<String> = change.leftovers.iter().map(|label| label_key(&label.key)).collect();
        if change.taints.is_some() || !off.is_empty() {
            let taints = change.taints.as_ref().map(|taints| node.taints_with(taints));
            let kind = if taints.is_some() { Kind::Taints } else { Kind::Leftovers };
            let writing = write::overwrite(&self.client, &node.edition, &off, taints.as_deref());
            node = self.took(&self.attempt(kind, writing).await?)?;
            stored.rest = true;
        }
        if let Some(wake) = &change.kick {
            let stamp = kick(wake.at);
            let writing = write::kick(&self.client, &node.edition, &stamp);
            self.took(&self.attempt(Kind::Kick, writing).await?)?;
        }
        Ok(())
    }

    /// A node as a write has left it.
    fn took(&self, written: &NodeLite) -> Result<Arc<SeenNode>, Stop> {
        lock(&self.sightings).wrote_node(written);
        let seen = SeenNode::of(written).map(|(_, node)| Arc::new(node));
        seen.ok_or(Stop::Refused(Refusal::Gone))
    }

    async fn statuses(&mut self) {
        let untold = std::mem::take(&mut self.memory.untold);
        let this = &*self;
        let work = untold.into_iter().map(|(policy, outcome)| {
            async move { (!this.status(&policy, &outcome).await).then_some((policy, outcome)) }.boxed()
        });
        let left = a_few_at_once(work.collect()).await;
        self.memory.untold.extend(left);
    }

    /// Whether the status says what it should.
    async fn status(&self, policy: &PolicyRef, outcome: &Outcome) -> bool {
        let object = Object::Policy(policy.clone());
        let Some(seen) = lock(&self.sightings).policy(policy).cloned() else { return true };
        let before = seen.status.unwrap_or_default();
        let problems = self.memory.known.problems(policy);
        let mut wanted = api::status::status(problems, outcome, Some(&before), (self.clock)());
        if self.memory.pruned.load(Ordering::Relaxed) {
            wanted = api::status::legacy(wanted);
        }
        let Some(change) = write::difference(&as_value(&before), &as_value(&wanted)) else {
            lock(&self.memory.patience).done(&object);
            return true;
        };
        if self.is_patient(&object) {
            return false;
        }
        let stored =
            match self.attempt(Kind::Status, write::status(&self.client, &seen.edition, &change)).await {
                Ok(stored) => stored,
                Err(stop) => {
                    self.note(object, &stop);
                    return false;
                }
            };
        lock(&self.memory.patience).done(&object);
        let kept = stored.object.as_ref().ok().and_then(|object| object.status.as_ref());
        if !wanted.conditions.is_empty() && kept.is_none_or(|kept| kept.conditions.is_empty()) {
            tracing::warn!(%policy, "the installed definition drops what the status says; apply deploy/crds");
            self.memory.pruned.store(true, Ordering::Relaxed);
        }
        lock(&self.sightings).wrote_policy(&stored);
        for notice in tell::of_conditions(&seen.edition, &before, &wanted) {
            self.events.tell_first(notice);
        }
        true
    }
}

/// Does it all, [`AT_ONCE`] at a time; what yields nothing is left out.
async fn a_few_at_once<T>(work: Vec<BoxFuture<'_, Option<T>>>) -> Vec<T> {
    stream::iter(work).buffer_unordered(AT_ONCE).filter_map(std::future::ready).collect().await
}

fn as_value(status: &TasPolicyStatus) -> Value {
    serde_json::to_value(status).unwrap_or_else(|_| json!({}))
}

/// When the newest sample behind a change was taken.
fn sampled(change: &NodeChange, view: &View) -> Option<Timestamp> {
    let node = view.nodes.find(change.node.as_str())?;
    let policies = change.deeds.iter().filter_map(|deed| view.table(deed.policy.as_ref()?.key()));
    let metrics = policies.flat_map(|table| table.policy.metrics());
    metrics.filter_map(|metric| Some(view.snapshot.column(metric.as_str())?.get(node)?.newest)).max()
}
