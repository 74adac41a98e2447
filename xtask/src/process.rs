//! Starting other programs and following what they print, line by line, with a sign of life when they are silent.
//! Knows nothing of what the lines mean.

use std::ffi::OsStr;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use crate::terminal::{Took, say};

/// A line longer than this is handed on in pieces, so that no program can make us hold all it prints.
const LONGEST_LINE: u64 = 64 * 1024;
/// How often a silent program is looked at.
const TICK: Duration = Duration::from_millis(200);
/// After a program ended, its own children may still hold its output open. We stop listening at the first quiet moment
/// this long after its end, or after more lines than a pipe can hold: those cannot have been its own.
const LAST_WORDS: Duration = Duration::from_secs(2);
const LAST_LINES: usize = 100_000;

/// A program whose lines are kept back is mentioned this often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(20);

/// What happens while a program runs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// It printed a line, on either of its outputs.
    Line(&'a str),
    /// It has printed nothing for another whole period.
    Silence { so_far: Duration },
}

/// How long to bear a program.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// A sign of life is due after this much silence.
    pub(crate) silence: Duration,
    /// The program is ended after this long.
    pub(crate) deadline: Option<Duration>,
}

/// The cargo that started us, as if we had not been started by it.
///
/// `cargo run` describes our own package in the environment. Some build scripts (ring's, for one) ask to be run again
/// whenever those variables change, so handing them on would recompile half the tree at each switch between plain cargo
/// and `cargo xtask`.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        if describes_our_package(&name) {
            command.env_remove(name);
        }
    }
    command
}

fn describes_our_package(variable: &OsStr) -> bool {
    let Some(name) = variable.to_str() else { return false };
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO_PRIMARY_PACKAGE"
}

/// A command as it would be typed, for messages.
pub(crate) fn typed(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a program to its end and reports each line of its two outputs in the order they were written.
pub(crate) fn follow(
    command: &mut Command,
    patience: Patience,
    mut on: impl FnMut(Event<'_>),
) -> Result<ExitStatus, String> {
    let name = typed(command);
    let broken = |problem: io::Error| format!("`{name}` could not be run: {problem}");
    let (output, input) = io::pipe().map_err(broken)?;
    command.stdout(input.try_clone().map_err(broken)?).stderr(input);
    let spawned = command.spawn().map_err(broken);
    // Ours must be the reading end alone, or the output never ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = spawned?;
    let lines = lines_of(output);
    let ended = watch(&mut child, &lines, patience, &mut on);
    if ended.is_err() {
        // The program may have ended meanwhile; either way there is nobody left to tell.
        let _ = child.kill().and_then(|()| child.wait());
    }
    ended.map_err(|problem| format!("`{name}` {problem}"))
}

/// Runs a program to its end and keeps what it prints, with a line about its progress now and then.
/// The error is for people: all it printed, and how it ended.
pub(crate) fn gather(command: &mut Command, deadline: Option<Duration>) -> Result<Vec<String>, String> {
    let name = typed(command);
    let start = Instant::now();
    let mut told = start;
    let mut printed: Vec<String> = Vec::new();
    let status = follow(command, Patience { silence: SIGN_OF_LIFE, deadline }, |event| {
        if let Event::Line(line) = event {
            printed.push(line.to_owned());
        }
        // The lines are kept back, so a busy program looks as silent as a dead one.
        if told.elapsed() >= SIGN_OF_LIFE {
            told = Instant::now();
            let last = printed.iter().rfind(|line| !line.starts_with('{')).map_or("", |line| line.trim());
            say(format_args!("… {name}: {} so far {last}", Took(start.elapsed())));
        }
    })?;
    if status.success() {
        return Ok(printed);
    }
    printed.push(format!("`{name}` failed ({status})"));
    Err(printed.join("\n"))
}

fn watch(
    child: &mut Child,
    lines: &Receiver<String>,
    patience: Patience,
    on: &mut impl FnMut(Event<'_>),
) -> Result<ExitStatus, String> {
    let start = Instant::now();
    let lost = |problem: io::Error| format!("could not be waited for: {problem}");
    let mut heard = start;
    let mut ended: Option<(ExitStatus, Instant)> = None;
    let mut last_lines = 0;
    loop {
        let quiet = match lines.recv_timeout(TICK) {
            Ok(line) => {
                heard = Instant::now();
                last_lines += usize::from(ended.is_some());
                on(Event::Line(&line));
                false
            }
            Err(RecvTimeoutError::Disconnected) => return child.wait().map_err(lost),
            Err(RecvTimeoutError::Timeout) => true,
        };
        if quiet && heard.elapsed() >= patience.silence {
            heard = Instant::now();
            on(Event::Silence { so_far: start.elapsed() });
        }
        if ended.is_none() {
            ended = child.try_wait().map_err(lost)?.map(|status| (status, Instant::now()));
        }
        match ended {
            Some((status, at)) if (quiet && at.elapsed() >= LAST_WORDS) || last_lines > LAST_LINES => {
                return Ok(status);
            }
            None if patience.deadline.is_some_and(|deadline| start.elapsed() >= deadline) => {
                return Err(format!("did not end within {} s", start.elapsed().as_secs()));
            }
            _ => {}
        }
    }
}

/// Lines as they come, without their ends; the channel closes when every writer is gone.
fn lines_of(output: io::PipeReader) -> Receiver<String> {
    let (send, lines) = sync_channel(1024);
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            match output.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let text = String::from_utf8_lossy(&line);
            if send.send(text.trim_end_matches(['\n', '\r']).to_owned()).is_err() {
                return;
            }
        }
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Patience =
        Patience { silence: Duration::from_mins(1), deadline: Some(Duration::from_mins(1)) };

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::null());
        command
    }

    fn heard(script: &str) -> (Vec<String>, Result<Option<i32>, String>) {
        let mut lines = Vec::new();
        let status = follow(&mut shell(script), CALM, |event| {
            if let Event::Line(line) = event {
                lines.push(line.to_owned());
            }
        });
        (lines, status.map(|status| status.code()))
    }

    #[test]
    fn both_outputs_arrive_in_the_order_they_were_written() {
        let (lines, status) = heard("echo one; echo two >&2; printf 'three'; exit 7");
        assert_eq!((lines, status), (vec!["one".into(), "two".into(), "three".into()], Ok(Some(7))));
    }

    #[test]
    fn bytes_that_are_no_text_do_not_stop_the_reading() {
        let (lines, status) = heard(r"printf '\377\nafter\n'");
        assert_eq!((lines, status), (vec!["\u{fffd}".into(), "after".into()], Ok(Some(0))));
    }

    #[test]
    fn a_grandchild_that_keeps_the_output_open_does_not_keep_us() {
        let (lines, status) = heard("(exec sleep 30) & echo $!");
        assert_eq!(status, Ok(Some(0)));
        let left = shell(&format!("kill {}", lines[0])).status().expect("sh runs");
        assert!(left.success(), "the grandchild was still alive, so the reading ended before it did");
    }

    #[test]
    fn a_grandchild_that_never_stops_talking_does_not_keep_us_either() {
        let (lines, status) = heard("(while echo me; do :; done) & echo mine");
        assert_eq!((lines.contains(&"mine".to_owned()), status), (true, Ok(Some(0))));
    }

    #[test]
    fn a_program_past_its_deadline_is_ended_and_named() {
        let hasty = Patience { silence: CALM.silence, deadline: Some(Duration::ZERO) };
        let ended = follow(&mut shell("exec sleep 30"), hasty, |_| {});
        assert_eq!(ended, Err("`sh -c exec sleep 30` did not end within 0 s".into()));
    }

    #[test]
    fn a_silent_program_gives_a_sign_of_life() {
        let attentive = Patience { silence: Duration::ZERO, deadline: CALM.deadline };
        let noticed = std::env::temp_dir().join(format!("xtask-silence-{}", std::process::id()));
        let script = format!("until [ -e {0} ]; do sleep 0.05; done; rm {0}", noticed.display());
        let status = follow(&mut shell(&script), attentive, |event| {
            if matches!(event, Event::Silence { .. }) {
                let _ = std::fs::write(&noticed, "");
            }
        });
        assert_eq!(status.map(|status| status.code()), Ok(Some(0)));
    }

    #[test]
    fn a_failing_program_shows_all_it_said() {
        assert_eq!(gather(&mut shell("echo one; echo two >&2"), None), Ok(vec!["one".into(), "two".into()]));
        assert_eq!(
            gather(&mut shell("echo one; echo two >&2; exit 3"), None),
            Err("one\ntwo\n`sh -c echo one; echo two >&2; exit 3` failed (exit status: 3)".into())
        );
    }

    #[test]
    fn a_program_that_does_not_exist_is_named() {
        let ended = follow(&mut Command::new("no-such-program-here"), CALM, |_| {});
        let message = ended.expect_err("nothing to run");
        assert!(message.starts_with("`no-such-program-here` could not be run: "), "{message}");
    }

    #[test]
    fn only_what_describes_our_package_is_kept_from_the_cargo_we_start() {
        let kept = |name: &str| !describes_our_package(OsStr::new(name));
        let dropped =
            ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_PRIMARY_PACKAGE"];
        assert!(!dropped.into_iter().any(kept));
        assert!(
            ["CARGO_HOME", "CARGO_BUILD_BUILD_DIR", "CARGO_TERM_COLOR", "PATH", "RUSTFLAGS"]
                .into_iter()
                .all(kept)
        );
    }
}
