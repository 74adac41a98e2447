//! Waiting for a condition, with a deadline and a word on what was seen last. Nothing here sleeps for a fixed time and
//! hopes.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

/// The first and the longest pause between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(250));

/// The longest rest after a look that took long itself.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// The condition did not come true in time.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("waited {} s for {what}; last seen: {seen}", limit.as_secs())]
pub struct TimedOut {
    what: String,
    limit: Duration,
    seen: String,
}

/// Looks again and again until `look` returns a value; its error says what it saw instead.
pub async fn until<T, E, F>(
    what: impl Into<String>,
    limit: Duration,
    mut look: impl FnMut() -> F,
) -> Result<T, TimedOut>
where
    F: Future<Output = Result<T, E>>,
    E: Display,
{
    let deadline = Instant::now() + limit;
    let mut pause = PAUSES.0;
    let mut seen = "nothing, the first look has not come back".to_owned();
    loop {
        let began = Instant::now();
        match timeout_at(deadline, look()).await {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(other)) => seen = other.to_string(),
            Err(_) => return Err(TimedOut { what: what.into(), limit, seen }),
        }
        // A costly look is repeated less often, or looking would hold up what is waited for.
        let rest = pause.max(began.elapsed().min(LONGEST_REST));
        if Instant::now() + rest > deadline {
            return Err(TimedOut { what: what.into(), limit, seen });
        }
        sleep(rest).await;
        pause = (pause * 2).min(PAUSES.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_value_of_the_first_good_look_is_returned() {
        let mut looks = 0;
        let value = until("three looks", Duration::from_secs(30), || {
            looks += 1;
            std::future::ready(if looks == 3 { Ok(looks) } else { Err("not yet") })
        });
        assert_eq!(value.await, Ok(3));
    }

    #[tokio::test]
    async fn a_timeout_says_what_was_awaited_and_what_was_seen() {
        let never = until("rain", Duration::from_millis(1), || std::future::ready(Err::<(), _>("sunshine")));
        let error = never.await.expect_err("it never rains here");
        assert_eq!(error.to_string(), "waited 0 s for rain; last seen: sunshine");
    }

    #[tokio::test]
    async fn a_look_that_hangs_does_not_hang_the_wait() {
        let hanging =
            until("an answer", Duration::from_millis(1), std::future::pending::<Result<(), String>>);
        let error = hanging.await.expect_err("there is no answer");
        assert_eq!(
            error.to_string(),
            "waited 0 s for an answer; last seen: nothing, the first look has not come back"
        );
    }
}
