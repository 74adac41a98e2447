//! How to log.

use crate::logs::{Color, Filter, Format, Settings};

/// How to log.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "Logs")]
pub struct LogArgs {
    /// Text for people or one JSON object per line
    #[arg(long, value_name = "FORMAT", value_enum, env = "TAS_LOG_FORMAT", default_value_t)]
    pub log_format: Format,
    /// What to log: a level (error, warn, info, debug, trace), and others for single modules: info,hyper=debug
    #[arg(long, value_name = "LEVEL", env = "TAS_LOG_LEVEL", default_value = "info")]
    pub log_level: Filter,
    /// Verbosity as Kubernetes counts it: 0 to 2 info, 3 and 4 debug, 5 and more trace; goes before --log-level
    #[arg(short, long = "v", value_name = "N")]
    pub v: Option<u8>,
}

impl LogArgs {
    /// What to log and how; the colour is that of the stream the logs go to.
    pub fn resolve(&self, color: Color) -> Settings {
        let filter = self.v.map_or_else(|| self.log_level.clone(), Filter::of_verbosity);
        Settings { format: self.log_format, filter, color }
    }
}
