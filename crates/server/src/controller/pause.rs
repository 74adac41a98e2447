//! The switch that pauses everything: a flag for this process, or a key of a ConfigMap for all of them at once.

use api::keys::{PAUSE_KEY, SWITCHES};
use cluster::watch::{News, switches};
use cluster::{Client, Trouble};
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

    /// What counts when it cannot be read: what was last known. If nothing is known yet it may be on, and we go on
    /// asking; only for a right that nobody granted we cannot wait.
    fn after(self, trouble: &Trouble) -> Self {
        match trouble {
            Trouble::Forbidden { .. } if self == Self::unknown() => {
                Self { on: false, why: Some(trouble.to_string()) }
            }
            _ => self,
        }
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
            News::Trouble(trouble) => {
                let pause = told.borrow().clone().after(&trouble);
                if !pause.on && pause.why.is_some() {
                    tracing::warn!(%trouble, "the pause switch cannot be read; taken as off");
                }
                pause
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
    use cluster::Verb;

    use super::*;

    #[test]
    fn a_switch_that_cannot_be_read_stays_as_it_was_unless_nobody_may_read_it() {
        let (resource, said) = ("configmaps".to_owned(), "no".to_owned());
        let forbidden =
            Trouble::Forbidden { verb: Verb::Watch, resource: resource.clone(), said: said.clone() };
        let other = Trouble::Unauthorized { resource, said };
        assert_eq!(Pause::unknown().after(&other), Pause::unknown());
        assert!(!Pause::unknown().after(&forbidden).on);
        for trouble in [&forbidden, &other] {
            assert_eq!(Pause::of(Some("true")).after(trouble), Pause::of(Some("true")));
            assert_eq!(Pause::of(None).after(trouble), Pause::of(None));
        }
    }

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
