//! Logs: text for people or JSON for machines, always to stderr.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

/// How a line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "args", derive(clap::ValueEnum))]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One object per line.
    Json,
}

/// Whether text is coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Color {
    /// Yes.
    On,
    /// No.
    Off,
}

impl Color {
    /// Colour is for terminals, unless `NO_COLOR` is set to something (see no-color.org).
    pub fn choose(no_color: Option<&std::ffi::OsStr>, is_terminal: bool) -> Self {
        if is_terminal && no_color.is_none_or(std::ffi::OsStr::is_empty) { Self::On } else { Self::Off }
    }

    /// Of this process's stderr.
    pub fn of_stderr() -> Self {
        Self::choose(std::env::var_os("NO_COLOR").as_deref(), std::io::stderr().is_terminal())
    }
}

/// A level that cannot be read.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "{text:?} is not a log level; write error, warn, info, debug or trace, and for single modules info,hyper=debug"
)]
pub struct LevelError {
    /// The offending part.
    pub text: String,
}

/// What is logged: a level, and others for single modules.
#[derive(Clone, Debug, PartialEq)]
pub struct Filter(Targets);

impl std::str::FromStr for Filter {
    type Err = LevelError;

    /// `info` or `info,hyper=debug`. Stricter than the library, which reads a misspelt level as a module name and
    /// then logs nothing at all.
    fn from_str(text: &str) -> Result<Self, LevelError> {
        let mut default = LevelFilter::INFO;
        let mut modules = Vec::new();
        for part in text.split(',').map(str::trim) {
            let level = |level: &str| match level.parse::<LevelFilter>() {
                // The library also takes numbers, with another meaning than klog's.
                Ok(parsed) if level.chars().all(char::is_alphabetic) && !level.is_empty() => Ok(parsed),
                _ => Err(LevelError { text: part.to_owned() }),
            };
            match part.split_once('=') {
                Some((target, of_target)) => modules.push((target.trim(), level(of_target.trim())?)),
                None => default = level(part)?,
            }
        }
        // What is asked for by name comes last and goes before.
        Ok(Self(quiet(default).with_targets(modules)))
    }
}

/// A module that logs each request that failed as an error of its own. Whoever asked tells it too, once and with the
/// reason, so these lines are for finding faults.
const CHATTY: &str = "kube_client";

fn quiet(default: LevelFilter) -> Targets {
    let chatty = if default > LevelFilter::INFO { default } else { LevelFilter::OFF };
    Targets::new().with_default(default).with_target(CHATTY, chatty)
}

impl Filter {
    /// What `-v N` means by the custom of Kubernetes: up to 2 is for every day, 4 is for finding faults, 5 and more
    /// shows everything.
    pub fn of_verbosity(v: u8) -> Self {
        let level = match v {
            0..=2 => LevelFilter::INFO,
            3..=4 => LevelFilter::DEBUG,
            5.. => LevelFilter::TRACE,
        };
        Self(quiet(level))
    }
}

/// What to log and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// How a line looks.
    pub format: Format,
    /// What is logged.
    pub filter: Filter,
    /// Whether text is coloured.
    pub color: Color,
}

/// Sends the logs of this process, and its panics, to stderr. Says whether it was the first to try.
pub fn init(settings: Settings) -> bool {
    let first = tracing::subscriber::set_global_default(subscriber(settings, std::io::stderr)).is_ok();
    if first {
        std::panic::set_hook(Box::new(|panic| {
            let at = panic.location().map(ToString::to_string).unwrap_or_default();
            let what = panic.payload_as_str().unwrap_or("no message");
            tracing::error!(%at, what, "panic; this is a defect, please report it");
        }));
    }
    first
}

fn subscriber<W>(settings: Settings, writer: W) -> Box<dyn tracing::Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let Settings { format, filter: Filter(filter), color } = settings;
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    match format {
        Format::Text => {
            let lines = lines.with_ansi(color == Color::On).with_filter(filter);
            Box::new(tracing_subscriber::registry().with(lines))
        }
        Format::Json => {
            let lines = lines.json().flatten_event(true).with_span_list(false).with_filter(filter);
            Box::new(tracing_subscriber::registry().with(lines))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn colour_is_for_terminals_without_no_color() {
        assert_eq!(Color::choose(None, true), Color::On);
        assert_eq!(Color::choose(Some(OsStr::new("")), true), Color::On);
        assert_eq!(Color::choose(Some(OsStr::new("1")), true), Color::Off);
        assert_eq!(Color::choose(None, false), Color::Off);
    }

    #[test]
    fn a_misspelt_level_is_refused() {
        let refusals = ["inof", "", "info,", "hyper=loud", "2", "info,hyper=3"]
            .map(|text| text.parse::<Filter>().expect_err(text).to_string());
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        "inof" is not a log level; write error, warn, info, debug or trace, and for single modules info,hyper=debug
        "" is not a log level; write error, warn, info, debug or trace, and for single modules info,hyper=debug
        "" is not a log level; write error, warn, info, debug or trace, and for single modules info,hyper=debug
        "hyper=loud" is not a log level; write error, warn, info, debug or trace, and for single modules info,hyper=debug
        "2" is not a log level; write error, warn, info, debug or trace, and for single modules info,hyper=debug
        "hyper=3" is not a log level; write error, warn, info, debug or trace, and for single modules info,hyper=debug
        "#);
    }

    #[test]
    fn verbosity_follows_the_custom_of_kubernetes() {
        let levels = [0, 2, 3, 4, 5, 10].map(Filter::of_verbosity);
        let expected =
            ["info", "info", "debug", "debug", "trace", "trace"].map(|level| level.parse().unwrap());
        assert_eq!(levels, expected);
    }

    #[derive(Clone, Default)]
    struct Caught(Arc<Mutex<Vec<u8>>>);

    impl Write for Caught {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().map_err(|_| std::io::ErrorKind::Other)?.write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// What is written with this format and filter, without the time, which is always first.
    fn written(format: Format, color: Color, filter: &str) -> String {
        let caught = Caught::default();
        let writer = caught.clone();
        let settings = Settings { format, filter: filter.parse().unwrap(), color };
        tracing::subscriber::with_default(subscriber(settings, move || writer.clone()), || {
            tracing::info!(target: "feed", metric = "node_power", age_s = 61, "sample \"too old\"");
            tracing::debug!(target: "feed", "quiet");
            tracing::debug!(target: "hyper::proto", "noisy");
        });
        let bytes = caught.0.lock().unwrap().clone();
        let text = String::from_utf8(bytes).unwrap();
        let timeless = |line: &str| {
            let (before, after) = line.split_once("20").unwrap();
            format!("{before}{}", &after[after.find('Z').unwrap() + 1..])
        };
        text.lines().map(timeless).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn lines_are_text_for_people() {
        insta::assert_snapshot!(written(Format::Text, Color::Off, "info,hyper=debug"), @r#"
         INFO feed: sample "too old" metric="node_power" age_s=61
        DEBUG hyper::proto: noisy
        "#);
    }

    #[test]
    fn lines_are_json_for_machines() {
        insta::assert_snapshot!(written(Format::Json, Color::On, "info"), @r#"{"timestamp":"","level":"INFO","message":"sample \"too old\"","metric":"node_power","age_s":61,"target":"feed"}"#);
    }

    #[test]
    fn a_library_that_repeats_what_we_say_is_heard_when_asked_for() {
        let heard = |filter: &str| {
            let Filter(targets) = filter.parse().unwrap();
            targets.would_enable("kube_client::client::builder", &tracing::Level::ERROR)
        };
        assert_eq!(
            ["info", "warn,hyper=debug", "debug", "info,kube_client=error"].map(heard),
            [false, false, true, true]
        );
    }

    #[test]
    fn colour_is_used_when_asked_for() {
        assert!(written(Format::Text, Color::On, "info").contains("\u{1b}["));
    }
}
