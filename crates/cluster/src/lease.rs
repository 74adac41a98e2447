//! Who of several replicas writes: leader election on a Lease, and a fence around every write.
//!
//! [`Candidate`] decides from what was seen and when; [`run`] asks and writes; [`Leadership`] is what everybody else
//! holds. Times of other machines are never compared with ours: a lease is taken for expired only after it has not
//! changed before our own eyes for as long as it lasts, and ours is over that long after we *sent* the renewal, less a
//! margin.

mod candidate;
mod election;
mod record;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::Instant;

pub use candidate::{Act, Candidate};
pub use election::{Election, run};
pub use record::Record;

/// How long a lease lasts after its last renewal.
pub const DURATION: Duration = Duration::from_secs(15);
/// How long before its end no write is begun any more: so long may a write be on its way, and clocks may run apart.
pub const MARGIN: Duration = Duration::from_secs(4);
/// How often the holder renews it.
pub const RENEW_EVERY: Duration = Duration::from_secs(3);
/// How often the others look at it.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How soon what failed is tried again.
pub const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How long one request about the lease may take: the holder can have one hang and still renew in time.
pub const DEADLINE: Duration = Duration::from_secs(3);
/// A lease that claims to last longer than this is taken to last this long.
pub const LONGEST: Duration = Duration::from_mins(5);

/// One moment by two clocks. Neither alone is enough: the monotonic one stands still while a machine sleeps, the
/// other can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// By the clock that only goes forward.
    pub monotonic: Instant,
    /// By the clock on the wall.
    pub wall: SystemTime,
}

impl Moment {
    /// Now, by the clocks of this machine.
    pub fn now() -> Self {
        Self { monotonic: Instant::now(), wall: SystemTime::now() }
    }

    /// How long since `earlier`: by whichever clock says longer, so that no doubt ever lengthens a term.
    #[must_use]
    pub fn at_most_since(self, earlier: Self) -> Duration {
        let wall = self.wall.duration_since(earlier.wall).unwrap_or_default();
        self.monotonic.saturating_duration_since(earlier.monotonic).max(wall)
    }
}

/// The time in which we may write, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    /// Which of the terms of this process; a plan of one term is never carried out in another.
    pub number: u64,
    /// When the renewal that it rests on was sent.
    pub renewed: Moment,
    /// When the lease was taken.
    pub since: Moment,
}

impl Term {
    /// Whether a write may begin.
    pub fn allows(&self, now: Moment) -> bool {
        now.at_most_since(self.renewed) < DURATION.saturating_sub(MARGIN)
    }
}

/// How things stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Our term, if we hold the lease; whether it is over is for [`Term::allows`] to say.
    pub term: Option<Term>,
    /// Who holds the lease, as far as we know.
    pub holder: Option<String>,
    /// Why the lease could not be looked at or written, the last time.
    pub trouble: Option<String>,
    /// How often it was looked at, with or without success.
    pub looks: u64,
}

/// What everybody but the election itself holds: whether we may write, now.
#[derive(Clone)]
pub struct Leadership {
    standing: watch::Receiver<Standing>,
    clock: Arc<dyn Fn() -> Moment + Send + Sync>,
}

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leadership").field("standing", &*self.standing.borrow()).finish_non_exhaustive()
    }
}

impl Leadership {
    /// One that leads for as long as a term lasts, without an election: for references and examples.
    pub fn of_a_leader() -> Self {
        let now = Moment::now();
        let term = Term { number: 1, renewed: now, since: now };
        let (_, standing) = watch::channel(Standing { term: Some(term), ..Standing::default() });
        Self { standing, clock: Arc::new(Moment::now) }
    }

    /// The number of the term in which a write may begin at this very moment. Asked again before each write.
    pub fn term(&self) -> Option<u64> {
        let term = self.standing.borrow().term?;
        term.allows((self.clock)()).then_some(term.number)
    }

    /// Whether a write of this term may begin at this very moment.
    pub fn allows(&self, term: u64) -> bool {
        self.term() == Some(term)
    }

    /// How things stand, for people.
    pub fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// How long ago the lease was last renewed by us, while we hold it.
    pub fn age(&self) -> Option<Duration> {
        let term = self.standing.borrow().term?;
        Some((self.clock)().at_most_since(term.renewed))
    }

    /// Returns once we lead, with the number of the term.
    pub async fn begins(&mut self) -> u64 {
        loop {
            if let Some(term) = self.term() {
                return term;
            }
            if self.standing.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns once this term is over, or nobody stands for election any more.
    pub async fn ends(&mut self, term: u64) {
        let over = |now: &Standing| now.term.is_none_or(|held| held.number != term);
        let _ = self.standing.wait_for(over).await;
    }
}
