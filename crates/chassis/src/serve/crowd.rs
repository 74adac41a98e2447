//! Who has a place, and who gives it up when all are taken: somebody who holds one without using it must not be able to
//! keep others out.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::{AbortHandle, Id};

use super::pulse::Pulse;

/// How often a full house is told of in the log.
const TELL_EVERY: Duration = Duration::from_mins(1);

/// The connections that are open.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    places: HashMap<Id, (AbortHandle, Arc<Pulse>)>,
    told: Option<Instant>,
}

/// Whether a new connection finds a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// There is one free.
    Free,
    /// Somebody has given up theirs.
    Made,
    /// Everybody is being answered.
    None,
}

impl Crowd {
    /// Sees to it that there is a place, if at most `limit` may be taken.
    pub(super) fn make_room(&mut self, limit: usize) -> Room {
        if self.places.len() < limit {
            return Room::Free;
        }
        self.tell(limit);
        let willing = |(id, (_, pulse)): (&Id, &(AbortHandle, Arc<Pulse>))| Some((pulse.gives_way()?, *id));
        let first = self.places.iter().filter_map(willing).min_by_key(|(way, _)| *way);
        let Some((abort, _)) = first.and_then(|(_, id)| self.places.remove(&id)) else { return Room::None };
        // Dropping the connection closes its socket.
        abort.abort();
        Room::Made
    }

    pub(super) fn enters(&mut self, task: AbortHandle, pulse: Arc<Pulse>) {
        self.places.insert(task.id(), (task, pulse));
    }

    pub(super) fn left(&mut self, task: Id) {
        self.places.remove(&task);
    }

    fn tell(&mut self, limit: usize) {
        let now = Instant::now();
        if self.told.is_none_or(|told| now.duration_since(told) >= TELL_EVERY) {
            self.told = Some(now);
            tracing::warn!(limit, "all connections are taken; those that do nothing give way to new ones");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crowd of one for each activity, the oldest first, and what each is called.
    fn crowd(pulses: &[(&'static str, &Arc<Pulse>)]) -> (Crowd, HashMap<Id, &'static str>) {
        let (mut crowd, mut names) = (Crowd::default(), HashMap::new());
        for (name, pulse) in pulses {
            let task = tokio::spawn(std::future::pending::<()>()).abort_handle();
            names.insert(task.id(), *name);
            crowd.enters(task, Arc::clone(pulse));
        }
        (crowd, names)
    }

    #[tokio::test]
    async fn strangers_give_way_before_guests_the_oldest_first_and_who_is_being_answered_never() {
        let start = Instant::now();
        let at = |second| Arc::new(Pulse::new(start + Duration::from_secs(second)));
        let [busy, guest, old, young] = [at(0), at(1), at(2), at(3)];
        busy.request_started();
        guest.request_started();
        guest.request_finished();
        young.bytes_read();
        let all = [("young", &young), ("busy", &busy), ("guest", &guest), ("old", &old)];
        let (mut crowd, mut names) = crowd(&all);
        assert_eq!(crowd.make_room(5), Room::Free);
        for (limit, gone) in [(4, "old"), (3, "young"), (2, "guest")] {
            assert_eq!(crowd.make_room(limit), Room::Made);
            names.retain(|id, name| {
                let here = crowd.places.contains_key(id);
                assert!(here || *name == gone, "{name} has gone, and it was {gone}'s turn");
                here
            });
        }
        assert_eq!(crowd.make_room(1), Room::None);
        let busy = *names.keys().next().expect("one is left");
        crowd.left(busy);
        assert_eq!(crowd.make_room(1), Room::Free);
    }
}
