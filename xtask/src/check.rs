//! `cargo xtask check`: the gates before the tests, all of them every time, one line each.

use std::time::{Duration, Instant};

use crate::process::{cargo, gather};
use crate::terminal::{Took, say};
use crate::workspace::Workspace;
use crate::{deny, generate, layers};

/// What a gate found: nothing wrong (perhaps with a remark), or all that is wrong.
type Finding = Result<Option<String>, String>;

/// A gate and its name.
type Gate = (&'static str, fn(&Workspace) -> Finding);

/// In order of how soon they answer people who made a slip, not of importance: none may fail.
const GATES: &[Gate] = &[
    ("format", |workspace| cargo_gate(workspace, &["fmt", "--all", "--check"])),
    ("clippy", |workspace| {
        cargo_gate(workspace, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    }),
    ("gen --check", |workspace| generate::run(workspace, generate::Mode::Compare).map(|()| None)),
    ("layers", |workspace| layers::run(workspace).map(|()| None)),
    ("deny", deny::run),
];

/// Runs every gate and says whether all were passed.
pub(crate) fn run(workspace: &Workspace) -> bool {
    say(format_args!("{} gates; clippy is the long one when nothing is compiled yet", GATES.len()));
    let failed: Vec<&str> =
        GATES.iter().filter(|gate| !pass(gate, workspace)).map(|(name, _)| *name).collect();
    if failed.is_empty() {
        say("all gates passed");
    } else {
        say(format_args!("{} of {} gates failed: {}", failed.len(), GATES.len(), failed.join(", ")));
    }
    failed.is_empty()
}

fn pass((name, gate): &Gate, workspace: &Workspace) -> bool {
    let start = Instant::now();
    let finding = gate(workspace);
    for line in report(name, &finding, start.elapsed()) {
        say(line);
    }
    finding.is_ok()
}

/// What is printed about a gate: its line, and below it all that a failed one said.
fn report(name: &str, finding: &Finding, took: Duration) -> Vec<String> {
    match finding {
        Ok(None) => vec![format!("{name} … ok {}", Took(took))],
        Ok(Some(remark)) => vec![format!("{name} … ok {} ({remark})", Took(took))],
        Err(said) => {
            vec![format!("{name} … FAILED {}", Took(took)), said.trim_end().to_owned(), String::new()]
        }
    }
}

/// A gate that is a cargo command: silent when passed, shown whole when not.
fn cargo_gate(workspace: &Workspace, arguments: &[&str]) -> Finding {
    gather(cargo(&workspace.root).args(arguments), None).map(|_| None)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(1_234);

    #[test]
    fn a_passed_gate_is_one_line() {
        assert_eq!(report("format", &Ok(None), TOOK), ["format … ok 1.2 s"]);
        assert_eq!(report("deny", &Ok(Some("no database".into())), TOOK), ["deny … ok 1.2 s (no database)"]);
    }

    #[test]
    fn a_failed_gate_shows_all_it_said() {
        let said = Err("error: unused\n --> src/lib.rs:1\n".to_owned());
        assert_eq!(
            report("clippy", &said, TOOK),
            ["clippy … FAILED 1.2 s", "error: unused\n --> src/lib.rs:1", ""]
        );
    }

    #[test]
    fn the_gates_are_those_of_the_house_and_no_others() {
        let names: Vec<_> = GATES.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["format", "clippy", "gen --check", "layers", "deny"]);
    }
}
