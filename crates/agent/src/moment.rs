//! Time as collectors see it: always an argument, never asked for.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Monotonic time since the agent started; stands still while the host is suspended.
    pub up: Duration,
    /// Wall time since 1970; only ever compared with file times.
    pub wall: Duration,
}

/// Where moments come from; tests hand in a closure over a value they move by hand.
pub type Clock = Arc<dyn Fn() -> Moment + Send + Sync>;

/// The clock of this machine.
pub fn system_clock() -> Clock {
    let start = Instant::now();
    Arc::new(move || Moment {
        up: start.elapsed(),
        // Before 1970 counts as 1970: file ages are then large, which is the careful side.
        wall: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    })
}
