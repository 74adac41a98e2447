//! The gate on what others wrote: licences, sources, banned and duplicate crates, by cargo-deny and `deny.toml`.
//! Brings cargo-deny along where it is missing. Known vulnerabilities are looked up only where their database can be had.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::process::{cargo, gather};
use crate::terminal::say;
use crate::workspace::Workspace;

/// The one version whose reading of `deny.toml` we know.
const VERSION: &str = "0.20.2";
/// The database is a small repository; who cannot have it in this time cannot have it.
const FETCH: Duration = Duration::from_mins(1);

/// Checks the dependencies; the success says what was not looked at.
pub(crate) fn run(workspace: &Workspace) -> Result<Option<String>, String> {
    let tool = tool(&workspace.root)?;
    let deny = |arguments: &[&str]| {
        let mut command = Command::new(&tool);
        command.current_dir(&workspace.root).stdin(Stdio::null()).arg("--workspace").args(arguments);
        command
    };
    // Exceptions for crates that are not in the tree (yet, or any more) would only bury what is wrong.
    let calm = ["--allow", "unmatched-skip", "--allow", "unused-wrapper"];
    gather(deny(&["check"]).args(calm).args(["bans", "licenses", "sources"]), None)?;
    // Without an account there is nothing to ask for; git would wait for an answer.
    if let Err(problem) = gather(deny(&["fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0"), Some(FETCH)) {
        return Ok(Some(format!(
            "known vulnerabilities not looked up, their database cannot be had: {}",
            last_words(&problem)
        )));
    }
    gather(&mut deny(&["--offline", "check", "advisories"]), None)?;
    Ok(None)
}

/// The last thing a failed program said itself; the line about how it ended is ours.
fn last_words(problem: &str) -> &str {
    let mut lines = problem.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let ending = lines.next().unwrap_or_default();
    lines.next().unwrap_or(ending)
}

/// A cargo-deny of the right version: from PATH, from our cache, or built into our cache now.
fn tool(root: &Path) -> Result<PathBuf, String> {
    let on_path = PathBuf::from("cargo-deny");
    if is_right(&on_path) {
        return Ok(on_path);
    }
    let home = cache(std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME"))?;
    let place = home.join("tas/tools").join(format!("cargo-deny-{VERSION}"));
    let cached = place.join("bin/cargo-deny");
    if is_right(&cached) {
        return Ok(cached);
    }
    say(format_args!(
        "deny: building cargo-deny {VERSION} once into {} (about 2 min on 2 idle cores)",
        place.display()
    ));
    install(root, &place)?;
    if is_right(&cached) {
        Ok(cached)
    } else {
        Err(format!(
            "{} does not say that it is cargo-deny {VERSION}; remove {} and try again",
            cached.display(),
            place.display()
        ))
    }
}

fn is_right(tool: &Path) -> bool {
    let answer = Command::new(tool).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    answer.is_ok_and(|answer| answer.stdout.trim_ascii() == format!("cargo-deny {VERSION}").as_bytes())
}

/// Cargo locks the place, so two who ask at once build once, and puts the program there only when it is whole.
fn install(root: &Path, place: &Path) -> Result<(), String> {
    let mut command = cargo(root);
    command.args(["install", "cargo-deny", "--locked", "--version", VERSION, "--root"]).arg(place);
    // Its own release profile is for shipping (fat LTO); ours is for running once.
    command.env("CARGO_PROFILE_RELEASE_LTO", "off").env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    gather(&mut command, Some(Duration::from_mins(30))).map(|_| ())
}

/// The user's cache directory, by the rules of the XDG base directory specification.
fn cache(xdg: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, String> {
    let absolute = |path: OsString| Some(PathBuf::from(path)).filter(|path| path.is_absolute());
    xdg.and_then(absolute)
        .or_else(|| home.and_then(absolute).map(|home| home.join(".cache")))
        .ok_or_else(|| format!("no place for cargo-deny: set HOME, or put cargo-deny {VERSION} on PATH"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_is_where_the_user_wants_it() {
        let at = |xdg: Option<&str>, home: Option<&str>| cache(xdg.map(Into::into), home.map(Into::into));
        assert_eq!(at(Some("/fast/cache"), Some("/home/ada")), Ok("/fast/cache".into()));
        assert_eq!(at(None, Some("/home/ada")), Ok("/home/ada/.cache".into()));
        assert_eq!(at(Some("not/absolute"), Some("/home/ada")), Ok("/home/ada/.cache".into()));
        assert_eq!(
            at(Some(""), None),
            Err("no place for cargo-deny: set HOME, or put cargo-deny 0.20.2 on PATH".into())
        );
    }

    #[test]
    fn another_program_is_not_taken_for_the_tool() {
        assert!(!is_right(Path::new("true")));
        assert!(!is_right(Path::new("no-such-tool-here")));
    }

    #[test]
    fn the_reason_given_is_the_last_line_of_the_program_itself() {
        assert_eq!(
            last_words("cloning\nfatal: no such host\n\n`x` failed (exit status: 1)"),
            "fatal: no such host"
        );
        assert_eq!(last_words("`x` did not end within 60 s"), "`x` did not end within 60 s");
    }
}
