//! `tas demo`: one seed, two clusters in virtual time, with and without a policy.

mod args;
mod caller;
pub mod canvas;
mod card;
mod frame;
mod lines;
mod live;
mod report;
mod screen;
mod stage;
mod words;

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use api::{Defaults, inspect, manifest};
use engine::policy::Policy;
use sim::{Scenario, Trial, chapter_s};

use crate::check;
use crate::terminal::{Paint, harmless};

pub use args::{Arguments, Output};
pub use caller::Caller;
use canvas::Colour;
pub use frame::frame;
pub use stage::Stage;

/// The policy that the demo shows, unless the user brings one.
pub const POWER_POLICY: &str = include_str!("demo/power-policy.yaml");
/// Virtual seconds a second, where somebody watches: the whole story in a minute.
const SPEED: f64 = 3.0;

/// Runs `tas demo`.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if arguments.print_policy {
        return ended(print(POWER_POLICY));
    }
    let policy = match arguments.policy.as_deref().map(own_policy) {
        None => power_policy(),
        Some(Ok(policy)) => policy,
        Some(Err(exit)) => return exit,
    };
    let length_s = arguments.length.map_or_else(|| chapter_s(&policy), whole_seconds);
    let scenario = Scenario::story(arguments.seed, &policy, arguments.nodes, length_s);
    let mut caller = match Caller::new() {
        Ok(caller) => caller,
        Err(error) => return ended(Err(error)),
    };
    let mut stage = Stage::new(Trial::new(scenario, policy), program(), move |ask| caller.ask(ask));
    ended(match arguments.output {
        Output::Json => {
            let played = stage.play_until(length_s);
            let report = played.and_then(|()| Ok(report::json(&stage)?));
            report.and_then(|json| print(&format!("{json}\n")))
        }
        Output::Human => watch(&mut stage, arguments.speed),
    })
}

/// The built-in policy, compiled.
pub fn power_policy() -> Policy {
    let read = manifest::read(POWER_POLICY.as_bytes(), &manifest::Limits::default());
    let mut found =
        read.documents.iter().flat_map(|document| inspect(document, &Defaults::default()).policies);
    found.find_map(|found| found.policy).expect("the built-in policy is a good one")
}

/// The only policy that a path holds; anything else is said the way `tas check` says it.
fn own_policy(path: &str) -> Result<Policy, ExitCode> {
    let name = harmless(path);
    if Path::new(path).is_dir() {
        eprintln!("error: {name} is a directory, and the demo tries one policy; name its file");
        return Err(ExitCode::from(2));
    }
    let check::Checked { mut usable, said, exit } = check::checked(path, Paint::of_stderr());
    eprint!("{said}");
    match (exit, usable.pop()) {
        (0, Some(policy)) if usable.is_empty() => Ok(policy),
        (0, _) => {
            eprintln!("error: {name} holds {} policies, and the demo tries one at a time", usable.len() + 1);
            Err(ExitCode::from(2))
        }
        (exit, _) => Err(ExitCode::from(exit)),
    }
}

/// Frames where they can be shown, lines elsewhere. A pipe has nobody to wait for.
fn watch(stage: &mut Stage, speed: Option<f64>) -> io::Result<()> {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb" || term.is_empty());
    let watched = io::stdout().is_terminal();
    if watched && io::stdin().is_terminal() && !dumb {
        let colour = if set("NO_COLOR") { Colour::Off } else { Colour::On };
        return live::play(stage, speed.unwrap_or(SPEED), colour);
    }
    let speed = speed.or(watched.then_some(SPEED));
    let pace = speed.map(|speed| Duration::from_secs_f64(1.0 / speed));
    lines::tell(stage, &mut io::stdout().lock(), pace)
}

/// How to call this program again: the way it was called.
fn program() -> &'static str {
    let by_cargo = std::env::var_os("CARGO_PKG_NAME").is_some_and(|name| name == env!("CARGO_PKG_NAME"));
    if by_cargo { "cargo run --release --" } else { "tas" }
}

fn whole_seconds(length: Duration) -> u32 {
    u32::try_from(length.as_secs()).unwrap_or(u32::MAX)
}

fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// A reader that has seen enough is no failure.
fn ended(result: io::Result<()>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: the demo could not be shown: {error}");
            ExitCode::from(2)
        }
    }
}
