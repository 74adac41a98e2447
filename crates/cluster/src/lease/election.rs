//! Stands for election: asks, writes, and tells everybody how things stand.

use std::sync::Arc;

use http::Request;
use kube::{Client, Error};
use serde_json::Value;
use tokio::sync::watch;

use super::{Act, Candidate, DEADLINE, Leadership, Moment, Record, Standing};
use crate::trouble::{Trouble, Verb};

/// Which lease, and who we are.
#[derive(Clone)]
pub struct Election {
    /// The client.
    pub client: Client,
    /// Where the lease is.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// A name that no other process has or had.
    pub me: String,
    /// Tells the time.
    pub clock: Arc<dyn Fn() -> Moment + Send + Sync>,
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .field("me", &self.me)
            .finish_non_exhaustive()
    }
}

/// What everybody else holds, and the task that stands for election until `stop`, and then gives the lease back. Stop it
/// only after the last write has ended.
pub fn run(
    election: Election,
    stop: impl Future<Output = ()> + Send,
) -> (Leadership, impl Future<Output = ()> + Send) {
    let (told, standing) = watch::channel(Standing::default());
    let leadership = Leadership { standing, clock: Arc::clone(&election.clock) };
    (leadership, stand(election, told, stop))
}

async fn stand(election: Election, told: watch::Sender<Standing>, stop: impl Future<Output = ()> + Send) {
    let mut candidate = Candidate::new(&election.me);
    let mut stop = std::pin::pin!(stop);
    loop {
        let act = candidate.decide((election.clock)());
        // Told before the next request, which may take its time: a term that is over is over at once.
        tell(&told, &candidate, None);
        let outcome = match act {
            Act::Wait(time) => tokio::select! {
                biased;
                () = &mut stop => break,
                () = tokio::time::sleep(time) => continue,
            },
            // Not called off half way: what was asked for might be done without us knowing.
            act => step(&election, &mut candidate, act).await,
        };
        tell(&told, &candidate, Some(outcome));
    }
    let release = candidate.release((election.clock)());
    told.send_modify(|standing| standing.term = None);
    if let Some(record) = release
        && let Err(trouble) = write(&election, &record).await
    {
        tracing::warn!(%trouble, "the lease could not be given back; it runs out by itself");
    }
}

async fn step(election: &Election, candidate: &mut Candidate, act: Act) -> Result<(), Trouble> {
    let sent = (election.clock)();
    let outcome = match act {
        Act::Wait(_) => return Ok(()),
        Act::Look => look(election).await.map(|found| candidate.observe(found, (election.clock)())),
        Act::Write(record) => write(election, &record).await.map(|stored| candidate.stored(stored, sent)),
    };
    if outcome.is_err() {
        candidate.failed((election.clock)());
    }
    outcome
}

fn tell(told: &watch::Sender<Standing>, candidate: &Candidate, outcome: Option<Result<(), Trouble>>) {
    told.send_if_modified(|standing| {
        let before = standing.clone();
        standing.term = candidate.term();
        standing.holder = candidate.holder().map(str::to_owned);
        if let Some(outcome) = outcome {
            standing.looks += 1;
            standing.trouble = outcome.err().map(|trouble| trouble.to_string());
        }
        match (before.term.map(|term| term.number), standing.term.map(|term| term.number)) {
            (was, is) if was == is => {}
            (_, Some(_)) => tracing::info!("leading: this replica writes"),
            (_, None) => {
                tracing::info!(holder = standing.holder.as_deref().unwrap_or_default(), "no longer leading");
            }
        }
        if let Some(trouble) = &standing.trouble
            && before.trouble.as_ref() != Some(trouble)
        {
            tracing::warn!(%trouble, "the lease cannot be looked at or renewed");
        }
        *standing != before
    });
}

async fn look(election: &Election) -> Result<Option<Record>, Trouble> {
    let path = format!("{}/{}", collection(election), election.name);
    match send(election, Verb::Get, Request::get(path), Vec::new()).await? {
        Ok(object) => Ok(Some(Record::of(&object))),
        Err(404) => Ok(None),
        Err(code) => Err(refused(election, Verb::Get, code)),
    }
}

/// The record as it was stored, with its version.
async fn write(election: &Election, record: &Record) -> Result<Record, Trouble> {
    let object = record.object(&election.namespace, &election.name).to_string().into_bytes();
    let (verb, request) = if record.version.is_empty() {
        (Verb::Create, Request::post(collection(election)))
    } else {
        (Verb::Update, Request::put(format!("{}/{}", collection(election), election.name)))
    };
    let request = request.header(http::header::CONTENT_TYPE, "application/json");
    match send(election, verb, request, object).await? {
        Ok(stored) => Ok(Record { version: Record::of(&stored).version, ..record.clone() }),
        Err(code) => Err(refused(election, verb, code)),
    }
}

fn collection(election: &Election) -> String {
    format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", election.namespace)
}

fn resource(election: &Election) -> String {
    format!("leases.coordination.k8s.io/{} in namespace {}", election.name, election.namespace)
}

fn refused(election: &Election, verb: Verb, code: u16) -> Trouble {
    let said = match code {
        404 => format!("404 not found; does the namespace {} exist?", election.namespace),
        409 => "409 another replica was first".to_owned(),
        code => code.to_string(),
    };
    Trouble::Refused { verb, resource: resource(election), said }
}

/// The object, or the status if that is one to be told apart.
async fn send(
    election: &Election,
    verb: Verb,
    request: http::request::Builder,
    body: Vec<u8>,
) -> Result<Result<Value, u16>, Trouble> {
    let request = request.body(body).map_err(|error| Trouble::Refused {
        verb,
        resource: resource(election),
        said: error.to_string(),
    })?;
    match tokio::time::timeout(DEADLINE, election.client.request::<Value>(request)).await {
        Ok(Ok(object)) => Ok(Ok(object)),
        Ok(Err(Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(Err(status.code)),
        Ok(Err(error)) => Err(Trouble::of(&error, verb, &resource(election))),
        Err(_) => Err(Trouble::Unreachable {
            verb,
            resource: resource(election),
            reason: format!("no answer in {} s", DEADLINE.as_secs()),
        }),
    }
}
