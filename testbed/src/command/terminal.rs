//! Speaking to a person, who may have stopped listening: a closed pipe is no reason to fall over.

use std::fmt::Display;
use std::io::Write as _;

/// A line of the answer.
pub(crate) fn say(line: impl Display) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A line about the work.
pub(crate) fn mention(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
