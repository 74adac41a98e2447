//! What every subcommand needs of a terminal: whether it takes colours, and writing to it without falling over.

use std::io::{self, IsTerminal, Write};

/// Whether to paint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// Plain text.
    Plain,
    /// With colours.
    Coloured,
}

/// How a piece of text should stand out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    Red,
    Yellow,
    Blue,
    Bold,
    Faint,
}

impl Paint {
    /// Colours only for a person at a terminal who has not declined them.
    pub(crate) fn of_stdout() -> Self {
        Self::of(&io::stdout())
    }

    /// The same for what is said beside the output.
    pub(crate) fn of_stderr() -> Self {
        Self::of(&io::stderr())
    }

    fn of(stream: &impl IsTerminal) -> Self {
        let declined = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        if stream.is_terminal() && !declined && !dumb { Self::Coloured } else { Self::Plain }
    }

    /// The text in that tone.
    pub(crate) fn tone(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Red => "1;31",
            Tone::Yellow => "1;33",
            Tone::Blue => "1;34",
            Tone::Bold => "1",
            Tone::Faint => "2",
        };
        match self {
            Self::Plain => text.to_owned(),
            Self::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// Writes to standard output. A reader who has left, as `head` does, is no mistake of anybody's.
pub(crate) fn print(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(bytes).and_then(|()| out.flush());
}

/// The text without anything that would steer a terminal.
pub(crate) fn harmless(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\t' => ' ',
            c if c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
            {
                '\u{fffd}'
            }
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Paint, Tone, harmless};

    #[test]
    fn plain_text_stays_plain() {
        assert_eq!(Paint::Plain.tone(Tone::Red, "error"), "error");
        assert_eq!(Paint::Coloured.tone(Tone::Red, "error"), "\u{1b}[1;31merror\u{1b}[0m");
    }

    #[test]
    fn nothing_in_a_file_can_steer_the_terminal() {
        assert_eq!(harmless("a\tb\u{1b}[31mred\u{7}\u{202e}"), "a b\u{fffd}[31mred\u{fffd}\u{fffd}");
    }
}
