//! The development entry point: `cargo xtask <task>`. Generators and gates; uses none of our crates, so that it compiles
//! in seconds and can judge the others when they do not compile.

mod arguments;
mod check;
mod deny;
mod generate;
mod layers;
mod process;
mod suite;
mod tally;
mod terminal;
mod workspace;

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};

use arguments::Task;
use terminal::say;
use workspace::Workspace;

fn main() -> ExitCode {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let workspace = match Workspace::load() {
        Ok(workspace) => workspace,
        Err(problem) => return fail(&problem, 1),
    };
    match arguments::parse(&words, &workspace) {
        Ok(task) => perform(&task, &workspace),
        Err(problem) => fail(&problem, 2),
    }
}

fn perform(task: &Task, workspace: &Workspace) -> ExitCode {
    let done = match task {
        Task::Help => {
            say(arguments::help(workspace));
            Ok(true)
        }
        Task::Check => Ok(check::run(workspace)),
        Task::Test(choice) => Ok(suite::run(workspace, choice)),
        Task::Gen(mode) => generate::run(workspace, *mode).map(|()| true),
        Task::Layers => layers::run(workspace).map(|()| {
            say(format_args!("{} crates, every arrow as drawn", workspace.members.len()));
            true
        }),
        Task::Forward(commands) => Err(forward(commands, workspace)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(problem) => fail(&problem, 1),
    }
}

/// Runs all but the last to their ends and becomes the last, so that signals and the exit code need nobody to carry
/// them; returns only if something failed.
fn forward(commands: &[Vec<String>], workspace: &Workspace) -> String {
    for (place, words) in commands.iter().enumerate() {
        let mut command = process::cargo(&workspace.root);
        command.args(words).stdin(Stdio::inherit());
        let name = process::typed(&command);
        if place + 1 == commands.len() {
            return format!("`{name}` could not be run: {}", command.exec());
        }
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(status) => return format!("`{name}` failed ({status}); its message is above"),
            Err(problem) => return format!("`{name}` could not be run: {problem}"),
        }
    }
    "there is nothing to run".to_owned()
}

fn fail(problem: &str, code: u8) -> ExitCode {
    // Where standard error is closed, the exit code has to do.
    let _ = writeln!(std::io::stderr(), "error: {problem}");
    ExitCode::from(code)
}
