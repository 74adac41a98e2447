//! The commands that documents show: found in their `console` blocks, and run in order as a reader would.
//!
//! A line that begins with `$ ` is a command (a backslash at its end continues it), any other line is output that must
//! appear, with `…` for what differs from run to run. A block that cannot be run says so behind the language:
//! `console norun: it takes an hour`.

use std::fmt::Write as _;

/// One block of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The line it begins in.
    pub line: usize,
    /// What is typed, and what is shown in answer.
    pub steps: Vec<Step>,
    /// Why it is not run.
    pub norun: Option<String>,
}

/// A command and what it prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// As typed.
    pub command: String,
    /// Lines that must be among what it prints, in this order.
    pub shown: Vec<String>,
}

/// All `console` blocks of a document, or what is wrong with them.
pub fn blocks(document: &str) -> Result<Vec<Block>, String> {
    let mut found: Vec<Block> = Vec::new();
    let mut fence: Option<(String, bool)> = None;
    for (number, line) in (1..).zip(document.lines()) {
        let text = line.trim_start();
        if let Some((end, console)) = &fence {
            if text.trim_end() == end {
                fence = None;
            } else if *console {
                let block = found.last_mut().ok_or("no block")?;
                add(block, line).map_err(|problem| format!("line {number}: {problem}"))?;
            }
            continue;
        }
        let marks = text.len() - text.trim_start_matches('`').len();
        if marks < 3 {
            continue;
        }
        let (language, rest) = text[marks..].trim().split_once(' ').unwrap_or((text[marks..].trim(), ""));
        if ["sh", "bash", "shell"].contains(&language) {
            return Err(format!("line {number}: commands stand in a block of kind console, not {language}"));
        }
        if language == "console" {
            let norun = rest.trim().strip_prefix("norun:").map(|reason| reason.trim().to_owned());
            if norun.as_deref() == Some("") || norun.is_none() && !rest.trim().is_empty() {
                return Err(format!("line {number}: {rest:?} is not `norun: reason`"));
            }
            found.push(Block { line: number, steps: Vec::new(), norun });
        }
        fence = Some((text[..marks].to_owned(), language == "console"));
    }
    if fence.is_some() {
        return Err("a block has no end".to_owned());
    }
    Ok(found)
}

fn add(block: &mut Block, line: &str) -> Result<(), String> {
    let last = block.steps.last_mut();
    if let Some(command) = line.strip_prefix("$ ") {
        block.steps.push(Step { command: command.to_owned(), shown: Vec::new() });
    } else {
        let step = last.ok_or_else(|| format!("{line:?} stands before the first command"))?;
        if step.shown.is_empty() && step.command.ends_with('\\') {
            step.command = format!("{}\n{line}", step.command);
        } else if !line.trim().is_empty() {
            step.shown.push(line.to_owned());
        }
    }
    Ok(())
}

/// Stands before the output of each command.
const MARK: &str = "@@@ command";

/// A script that runs the commands one after the other and ends at the first that fails.
pub fn script(steps: &[&Step]) -> String {
    let mut text = "set -euo pipefail\n".to_owned();
    for (place, step) in steps.iter().enumerate() {
        // Writing to memory cannot fail.
        let _ = writeln!(text, "echo '{MARK} {place}'\n{}", step.command);
    }
    text
}

/// Compares what the script printed with what the document shows; the first command that is not as shown.
pub fn compare(steps: &[&Step], printed: &str) -> Result<(), String> {
    let parts: Vec<&str> = printed.split(MARK).skip(1).collect();
    for (place, step) in steps.iter().enumerate() {
        let Some(part) = parts.get(place) else {
            return Err(format!("it did not get as far as {:?}", step.command));
        };
        let mut lines = part.lines().skip(1);
        for shown in &step.shown {
            if !lines.any(|line| fits(shown, line)) {
                let output = part.lines().skip(1).collect::<Vec<_>>().join("\n");
                return Err(format!(
                    "{:?} does not print {shown:?} (in that order) but\n{output}",
                    step.command
                ));
            }
        }
    }
    Ok(())
}

/// Whether a line is as shown; `…` stands for anything, and columns may be wider or narrower.
fn fits(shown: &str, line: &str) -> bool {
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (shown, line) = (squeezed(shown), squeezed(line));
    let parts: Vec<&str> = shown.split('…').map(str::trim).collect();
    let [first, middle @ .., last] = parts.as_slice() else { return shown == line };
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    for part in middle {
        match rest.find(part) {
            Some(place) => rest = &rest[place + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
# Page

```console
$ echo one two
one two
$ printf 'a\\n' | \\
  cat
```

```console norun: it takes an hour
$ sleep 3600
```

```text
$ not a command of ours
```
";

    #[test]
    fn commands_output_and_reasons_are_told_apart() {
        let step = |command: &str, shown: &[&str]| Step {
            command: command.to_owned(),
            shown: shown.iter().map(|line| (*line).to_owned()).collect(),
        };
        let all = blocks(PAGE).expect("well formed");
        assert_eq!(
            all,
            [
                Block {
                    line: 3,
                    steps: vec![step("echo one two", &["one two"]), step("printf 'a\\n' | \\\n  cat", &[])],
                    norun: None
                },
                Block {
                    line: 10,
                    steps: vec![step("sleep 3600", &[])],
                    norun: Some("it takes an hour".to_owned())
                },
            ]
        );
    }

    #[test]
    fn what_would_never_be_run_is_an_error() {
        for (page, problem) in [
            ("```sh\nls\n```\n", "line 1: commands stand in a block of kind console, not sh"),
            ("```console norun:\n```\n", "line 1: \"norun:\" is not `norun: reason`"),
            ("```console\nls\n```\n", "line 2: \"ls\" stands before the first command"),
            ("```console\n$ ls\n", "a block has no end"),
        ] {
            assert_eq!(blocks(page), Err(problem.to_owned()));
        }
    }

    #[test]
    fn output_is_compared_line_by_line_with_gaps() {
        let shown = |lines: &[&str]| Step {
            command: "c".to_owned(),
            shown: lines.iter().map(|line| (*line).to_owned()).collect(),
        };
        let printed = format!("{MARK} 0\nNAME   NODE\nweb    node-7   12s\n");
        for (lines, fits) in [
            (&["NAME NODE", "web node-7 …"] as &[&str], true),
            (&["web … 12s"], true),
            (&["web node-8 …"], false),
            (&["web node-7"], false),
            (&["web node-7 …", "NAME NODE"], false),
        ] {
            assert_eq!(compare(&[&shown(lines)], &printed).is_ok(), fits, "{lines:?}");
        }
        assert!(compare(&[&shown(&[]), &shown(&[])], &printed).is_err(), "it broke off");
    }
}
