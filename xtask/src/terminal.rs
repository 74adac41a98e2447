//! What a person reads while a task runs: plain lines on standard output and durations in words.
//! What a task says goes to standard output, so that its last line is the last line there is.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

/// Prints one line. A reader that went away (`| head`) is no reason to stop a task half-way.
pub(crate) fn say(line: impl fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A duration as people say it: `0.4 s`, `59.9 s`, `1 min 03 s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Took(pub(crate) Duration);

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = self.0.as_millis() / 100;
        let seconds = self.0.as_secs();
        if seconds < 60 {
            write!(f, "{}.{} s", tenths / 10, tenths % 10)
        } else {
            write!(f, "{} min {:02} s", seconds / 60, seconds % 60)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_people_say_them() {
        let said = |millis| Took(Duration::from_millis(millis)).to_string();
        assert_eq!(
            [said(0), said(1_249), said(59_999), said(60_000), said(3_723_000)],
            ["0.0 s", "1.2 s", "59.9 s", "1 min 00 s", "62 min 03 s"]
        );
    }
}
