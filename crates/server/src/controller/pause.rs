//! The switch that pauses everything: a flag for this process, or a key of a ConfigMap for all of them at once.

use api::keys::{PAUSE_KEY, SWITCHES};
use cluster::Client;
use cluster::watch::{News, switches};
use futures::StreamExt;
use tokio::sync::watch;

/// Whether everything is paused, and on whose word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Whether it is.
    pub on: bool,
    /// Why, or what keeps us from knowing.
    pub why: Option<String>,
}

impl Pause {
    /// Before anybody has looked: it may be on.
    pub fn unknown() -> Self {
        Self { on: true, why: Some(format!("the ConfigMap {SWITCHES} was not looked at yet")) }
    }

    /// By the flag.
    pub fn by_flag() -> Self {
        Self { on: true, why: Some("--pause".to_owned()) }
    }

    /// What the key says. What is neither yes nor no was meant by somebody, so it pauses.
    pub fn of(text: Option<&str>) -> Self {
        let why = |why: String| Self { on: true, why: Some(why) };
        match text.map(str::trim) {
            None | Some("" | "false") => Self { on: false, why: None },
            Some("true") => why(format!("{PAUSE_KEY}: true in the ConfigMap {SWITCHES}")),
            Some(other) => {
                let shown: String = other.chars().take(20).collect();
                why(format!("{PAUSE_KEY}: {shown:?} in the ConfigMap {SWITCHES} is neither true nor false"))
            }
        }
    }
}

/// Follows the ConfigMap until nobody listens any more.
pub async fn follow(client: Client, namespace: String, told: watch::Sender<Pause>) {
    let mut news = std::pin::pin!(switches(&client, &namespace));
    while let Some(news) = news.next().await {
        let pause = match news {
            News::All(all) => Pause::of(all.first().and_then(|switch| switch.pause.as_deref())),
            News::Changed(switch) => Pause::of(switch.pause.as_deref()),
            News::Gone(_) => Pause::of(None),
            // What was last known counts on. If nothing is known yet, we cannot wait for a right that nobody granted.
            News::Trouble(trouble) => {
                let known = told.borrow().clone();
                if known == Pause::unknown() {
                    tracing::warn!(%trouble, "the pause switch cannot be read; taken as off");
                    Pause { on: false, why: Some(trouble.to_string()) }
                } else {
                    known
                }
            }
        };
        let changed = told.send_if_modified(|now| {
            let changed = *now != pause;
            now.clone_from(&pause);
            changed
        });
        if changed {
            tracing::info!(on = pause.on, why = pause.why.as_deref().unwrap_or_default(), "the pause switch");
        }
        if told.is_closed() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_no_lets_anything_be_written() {
        assert!(!Pause::of(None).on && !Pause::of(Some("false")).on && !Pause::of(Some(" ")).on);
        assert!(Pause::of(Some("true")).on && Pause::of(Some("yes")).on && Pause::unknown().on);
        assert_eq!(
            Pause::of(Some("yes")).why.unwrap(),
            "pause: \"yes\" in the ConfigMap tas-switches is neither true nor false"
        );
    }
}
