//! Arguments that several of our processes share, as clap groups to flatten, and their way into settings.
//!
//! A group holds what was typed; its `resolve` returns what to do, or everything that is wrong with it.
//! Environment names avoid `TAS_PORT` and the like, which Kubernetes sets itself for a Service of that name.

mod argv;
mod limits;
#[cfg(feature = "tls")]
mod listen;
#[cfg(feature = "logs")]
mod log;
mod size;

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

pub use self::argv::{long_flags, normalise};
pub use self::limits::LimitArgs;
#[cfg(feature = "tls")]
pub use self::listen::{ListenArgs, Listening, OpenError, Opened, Refusal, Transport};
#[cfg(feature = "logs")]
pub use self::log::LogArgs;
pub use self::size::{Size, SizeError};

/// Where the admin port is.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Admin port")]
pub struct AdminArgs {
    /// Address of the admin port (/livez, /readyz, /metrics); `::` is all addresses
    #[arg(long, value_name = "IP", env = "TAS_ADMIN_BIND_ADDRESS", default_value_t = IpAddr::V6(Ipv6Addr::UNSPECIFIED))]
    pub admin_bind_address: IpAddr,
    /// Admin port; 0 picks a free one
    #[arg(long, value_name = "PORT", env = "TAS_ADMIN_LISTEN_PORT", default_value_t = 9402)]
    pub admin_port: u16,
}

impl AdminArgs {
    /// The address to bind.
    pub fn resolve(&self) -> SocketAddr {
        SocketAddr::new(self.admin_bind_address, self.admin_port)
    }
}
