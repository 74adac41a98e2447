//! What can be typed behind `tas demo`, and what is wrong with what was typed.

use std::time::Duration;

use clap::ValueEnum;
use sim::MAX_NODES;

/// Shortest and longest story.
const MIN_LENGTH: Duration = Duration::from_secs(1);
const MAX_LENGTH: Duration = Duration::from_hours(1);
/// Slowest and fastest, in virtual seconds a second.
const MIN_SPEED: f64 = 0.1;
const MAX_SPEED: f64 = 1000.0;

/// Shows a policy at work on two clusters in virtual time, one with it and one without.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tas demo                             watch it; q quits, space pauses
  tas demo --seed 7 --nodes 20         another story, on a larger cluster
  tas demo --policy policy.yaml        your own policy instead
  tas demo --for 120s --output json    only what came of it

Exit status:
  0  the story was told
  1  the policy has an error
  2  something could not be read, or makes no sense")]
pub struct Arguments {
    /// Tries this policy instead of the built-in one; - is standard input.
    #[arg(long, value_name = "FILE")]
    pub policy: Option<String>,
    /// Prints the built-in policy.
    #[arg(long, conflicts_with = "policy")]
    pub print_policy: bool,
    /// Decides all chance: the same seed tells the same story.
    #[arg(long, value_name = "NUMBER", default_value = "1", value_parser = seed, allow_negative_numbers = true)]
    pub seed: u64,
    /// How many nodes each cluster has.
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = nodes, allow_negative_numbers = true)]
    pub nodes: u32,
    /// Virtual seconds a second: 3 where somebody watches, as fast as can be elsewhere.
    #[arg(long, value_name = "FACTOR", value_parser = speed, allow_negative_numbers = true)]
    pub speed: Option<f64>,
    /// Virtual time to play, like 120s or 5m; if not given, until the story is told.
    #[arg(long = "for", value_name = "DURATION", value_parser = length, allow_hyphen_values = true)]
    pub length: Option<Duration>,
    /// How to tell it.
    #[arg(long, short, value_enum, default_value_t = Output::Human, value_name = "FORMAT")]
    pub output: Output,
}

/// How to tell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people: pictures on a terminal, lines elsewhere.
    Human,
    /// What came of it, as one JSON object.
    Json,
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("give a whole number from 0 to {}", u64::MAX))
}

fn nodes(text: &str) -> Result<u32, String> {
    let way_out = format!("give 1 to {MAX_NODES} nodes");
    match text.parse() {
        Ok(0) => Err(format!("a cluster without nodes places no pods; {way_out}")),
        Ok(nodes) if nodes <= MAX_NODES => Ok(nodes),
        _ => Err(way_out),
    }
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (MIN_SPEED..=MAX_SPEED).contains(&speed) => Ok(speed),
        Ok(speed) if speed <= 0.0 => {
            Err(format!("time only runs forwards; give a factor from {MIN_SPEED} to {MAX_SPEED}"))
        }
        _ => Err(format!("give a factor from {MIN_SPEED} to {MAX_SPEED}, like 3 or 0.5")),
    }
}

fn length(text: &str) -> Result<Duration, String> {
    let length = api::duration::parse(text).map_err(|error| error.to_string())?;
    if (MIN_LENGTH..=MAX_LENGTH).contains(&length) {
        Ok(length)
    } else {
        Err("a story lasts from 1s to 1h of virtual time".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{length, nodes, seed, speed};

    #[test]
    fn what_makes_no_sense_is_refused_with_the_way_out() {
        for text in ["-1", "1.5", "luck", "18446744073709551616"] {
            let way_out = "give a whole number from 0 to 18446744073709551615";
            assert_eq!(seed(text), Err(way_out.to_owned()), "{text}");
        }
        let no_nodes = "a cluster without nodes places no pods; give 1 to 500 nodes";
        assert_eq!(nodes("0"), Err(no_nodes.to_owned()));
        for text in ["100000", "501", "-1", "many", "1.5", "99999999999999999999"] {
            assert_eq!(nodes(text), Err("give 1 to 500 nodes".to_owned()), "{text}");
        }
        for text in ["0", "-1", "-inf"] {
            let backwards = "time only runs forwards; give a factor from 0.1 to 1000";
            assert_eq!(speed(text), Err(backwards.to_owned()), "{text}");
        }
        for text in ["NaN", "inf", "1e9", "0.01", "fast"] {
            assert_eq!(
                speed(text),
                Err("give a factor from 0.1 to 1000, like 3 or 0.5".to_owned()),
                "{text}"
            );
        }
        for text in ["0s", "1ms", "61m", "1000h"] {
            assert_eq!(length(text), Err("a story lasts from 1s to 1h of virtual time".to_owned()), "{text}");
        }
        assert_eq!(
            length("120"),
            Err("\"120\" has a number without unit; write it like 30s, 5m or 1h30m".to_owned())
        );
        assert_eq!(length("-5s"), Err("\"-5s\" is negative; a duration is 0 or more".to_owned()));
    }

    #[test]
    fn the_ends_of_each_range_are_in_it() {
        assert_eq!((nodes("1"), nodes("500")), (Ok(1), Ok(500)));
        assert_eq!((seed("0"), seed("18446744073709551615")), (Ok(0), Ok(u64::MAX)));
        assert_eq!((speed("0.1"), speed("1000")), (Ok(0.1), Ok(1000.0)));
        assert_eq!((length("1s"), length("1h")), (Ok(Duration::from_secs(1)), Ok(Duration::from_hours(1))));
    }
}
