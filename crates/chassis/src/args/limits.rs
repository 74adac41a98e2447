//! The limits that an operator may want to move. The others stay as they are.

use std::time::Duration;

use super::size::Size;
use crate::duration;
use crate::limits::{BodyLimits, Limits};

/// Limits on callers.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Open connections per port; more are closed at once
    #[arg(long, value_name = "N", env = "TAS_MAX_CONNECTIONS", default_value_t = 512, value_parser = clap::value_parser!(u16).range(1..))]
    pub max_connections: u16,
    /// Largest request body; more is answered with 413
    #[arg(long, value_name = "BYTES", env = "TAS_MAX_BODY_BYTES", default_value_t = Size(64 << 20))]
    pub max_body_bytes: Size,
    /// Time for a request body to arrive; later is answered with 408
    #[arg(long, value_name = "DURATION", env = "TAS_BODY_TIMEOUT", default_value = "10s", value_parser = above_zero)]
    pub body_timeout: Duration,
    /// Time for request headers to arrive
    #[arg(long, value_name = "DURATION", env = "TAS_HEADER_TIMEOUT", default_value = "5s", value_parser = above_zero)]
    pub header_timeout: Duration,
    /// Time that a connection may stay open between requests; keep it above the callers' own (90s in Go)
    #[arg(long, value_name = "DURATION", env = "TAS_IDLE_TIMEOUT", default_value = "2m", value_parser = above_zero)]
    pub idle_timeout: Duration,
    /// Time to stay reachable but not ready after SIGTERM, so that callers go elsewhere
    #[arg(long, value_name = "DURATION", env = "TAS_SHUTDOWN_DELAY", default_value = "3s", value_parser = duration::parse)]
    pub shutdown_delay: Duration,
    /// Time for requests in flight to finish at the end
    #[arg(long, value_name = "DURATION", env = "TAS_DRAIN_TIMEOUT", default_value = "10s", value_parser = above_zero)]
    pub drain_timeout: Duration,
}

/// A duration that is a limit: a limit of nothing would refuse everybody.
fn above_zero(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(Duration::ZERO) => {
            Err(format!("{text:?} leaves no time at all; write something above 0, like 5s"))
        }
        Ok(duration) => Ok(duration),
        Err(error) => Err(error.to_string()),
    }
}

impl LimitArgs {
    /// The limits of a server.
    pub fn limits(&self) -> Limits {
        Limits {
            connections: usize::from(self.max_connections),
            header_deadline: self.header_timeout,
            idle_deadline: self.idle_timeout,
            drain_deadline: self.drain_timeout,
            ..Limits::default()
        }
    }

    /// The limits of a request body.
    pub fn body(&self) -> BodyLimits {
        BodyLimits { bytes: self.max_body_bytes.0, deadline: self.body_timeout }
    }
}
