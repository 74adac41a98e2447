//! Events at objects, for people who look there first. Never waited for, never too many; what sums up many comes before
//! the many.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::trouble::{Trouble, Verb};

/// Events that wait to be sent, and as many that go first; more are dropped and counted.
pub const QUEUE: usize = 256;
/// The same event is not sent again for this long.
pub const QUIET: Duration = Duration::from_mins(5);
/// Longest note; the API server takes 1,024 bytes.
pub const MAX_NOTE: usize = 1000;
/// How long one may take to be sent.
const DEADLINE: Duration = Duration::from_secs(10);
/// Events remembered so as not to repeat them.
const REMEMBERED: usize = 4096;

/// How an event is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tone {
    /// Worth knowing.
    Normal,
    /// Something is wrong.
    Warning,
}

/// One thing to tell at an object.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// At which object.
    pub about: ObjectReference,
    /// How it is meant.
    pub tone: Tone,
    /// Why, in one word: `PolicyNotFound`.
    pub reason: &'static str,
    /// What we were doing, in one word: `Filter`.
    pub action: &'static str,
    /// The text.
    pub note: String,
}

/// Where to hand notices in. Cheap to clone; never waits.
#[derive(Clone, Debug)]
pub struct Events {
    first: mpsc::Sender<Notice>,
    queue: mpsc::Sender<Notice>,
    dropped: Arc<AtomicU64>,
}

impl Events {
    /// A place to hand in notices, and the task that sends them, to be spawned.
    pub fn new(client: Client, instance: Option<String>) -> (Self, impl Future<Output = ()> + Send) {
        let (first, ahead) = mpsc::channel(QUEUE);
        let (queue, behind) = mpsc::channel(QUEUE);
        let events = Self { first, queue, dropped: Arc::default() };
        let reporter = Reporter { controller: api::keys::FIELD_MANAGER.to_owned(), instance };
        (events, send_all(client, reporter, ahead, behind))
    }

    /// Hands a notice in, or drops it if too many wait already.
    pub fn tell(&self, notice: Notice) {
        self.hand_in(&self.queue, notice);
    }

    /// The same for a notice that speaks for many: it has room of its own and is sent before all that is handed in by
    /// [`Events::tell`].
    pub fn tell_first(&self, notice: Notice) {
        self.hand_in(&self.first, notice);
    }

    fn hand_in(&self, queue: &mpsc::Sender<Notice>, notice: Notice) {
        if queue.try_send(notice).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// What is to be sent next, from the first queue that has something; nothing once nobody can hand anything in.
async fn next(ahead: &mut mpsc::Receiver<Notice>, behind: &mut mpsc::Receiver<Notice>) -> Option<Notice> {
    tokio::select! {
        biased;
        Some(notice) = ahead.recv() => Some(notice),
        Some(notice) = behind.recv() => Some(notice),
        else => None,
    }
}

async fn send_all(
    client: Client,
    reporter: Reporter,
    mut ahead: mpsc::Receiver<Notice>,
    mut behind: mpsc::Receiver<Notice>,
) {
    let mut repeats = Repeats::default();
    let mut last_trouble = None;
    while let Some(mut notice) = next(&mut ahead, &mut behind).await {
        shorten(&mut notice.note);
        if !repeats.is_new(&notice, Instant::now()) {
            continue;
        }
        let event = Event {
            type_: match notice.tone {
                Tone::Normal => EventType::Normal,
                Tone::Warning => EventType::Warning,
            },
            reason: notice.reason.to_owned(),
            note: Some(notice.note.clone()),
            action: notice.action.to_owned(),
            secondary: None,
        };
        // A new one for each: it takes events that differ only in their note for one event, and keeps the first note.
        let recorder = Recorder::new(client.clone(), reporter.clone());
        let trouble = match tokio::time::timeout(DEADLINE, recorder.publish(&event, &notice.about)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(Trouble::of(&error, Verb::Create, "events.events.k8s.io").to_string()),
            Err(_) => Some(format!("sending an event took more than {} s", DEADLINE.as_secs())),
        };
        if trouble.is_some() {
            repeats.forget(&notice);
        }
        if let Some(trouble) = &trouble
            && last_trouble.as_ref() != Some(trouble)
        {
            tracing::warn!(%trouble, "events cannot be sent");
        }
        last_trouble = trouble;
    }
}

/// What was sent lately.
#[derive(Debug, Default)]
struct Repeats(HashMap<Vec<String>, Instant>);

impl Repeats {
    fn key(notice: &Notice) -> Vec<String> {
        let about = &notice.about;
        let part = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            part(&about.kind),
            part(&about.namespace),
            part(&about.name),
            notice.reason.to_owned(),
            notice.note.clone(),
        ]
    }

    /// It was not sent after all.
    fn forget(&mut self, notice: &Notice) {
        self.0.remove(&Self::key(notice));
    }

    fn is_new(&mut self, notice: &Notice, now: Instant) -> bool {
        if self.0.len() >= REMEMBERED {
            self.0.retain(|_, sent| now.duration_since(*sent) < QUIET);
        }
        // Better to say something twice than to fall silent.
        if self.0.len() >= REMEMBERED {
            self.0.clear();
        }
        let key = Self::key(notice);
        match self.0.get(&key) {
            Some(sent) if now.duration_since(*sent) < QUIET => false,
            _ => {
                self.0.insert(key, now);
                true
            }
        }
    }
}

fn shorten(note: &mut String) {
    if note.len() > MAX_NOTE {
        let mut end = MAX_NOTE - '…'.len_utf8();
        while !note.is_char_boundary(end) {
            end -= 1;
        }
        note.truncate(end);
        note.push('…');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(name: &str, note: &str) -> Notice {
        Notice {
            about: ObjectReference {
                kind: Some("Pod".to_owned()),
                name: Some(name.to_owned()),
                ..ObjectReference::default()
            },
            tone: Tone::Warning,
            reason: "PolicyNotFound",
            action: "Filter",
            note: note.to_owned(),
        }
    }

    #[test]
    fn the_same_event_is_not_sent_twice_in_a_row() {
        let mut repeats = Repeats::default();
        let now = Instant::now();
        assert!(repeats.is_new(&notice("a", "x"), now));
        assert!(!repeats.is_new(&notice("a", "x"), now + QUIET / 2));
        assert!(repeats.is_new(&notice("a", "y"), now) && repeats.is_new(&notice("b", "x"), now));
        assert!(repeats.is_new(&notice("a", "x"), now + QUIET));
    }

    #[test]
    fn the_memory_of_events_is_bounded_and_never_silences_anybody() {
        let mut repeats = Repeats::default();
        let now = Instant::now();
        for n in 0..REMEMBERED + 100 {
            assert!(repeats.is_new(&notice(&n.to_string(), "x"), now));
            assert!(repeats.0.len() <= REMEMBERED);
        }
    }

    #[test]
    fn a_note_fits_what_the_api_server_takes() {
        let mut note = "é".repeat(900);
        shorten(&mut note);
        assert!(note.len() <= MAX_NOTE && note.ends_with('…'));
    }
}
