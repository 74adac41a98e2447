//! `cargo xtask test`: every test there is, in two steps, with one closing line.
//! The first step needs Rust alone; the second a control plane, which the test bed builds from source.

use std::ffi::OsStr;
use std::fmt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::process::{Event, Patience, cargo, follow, typed};
use crate::tally::{Counter, Tally};
use crate::terminal::{Took, say};
use crate::workspace::Workspace;

/// A test run may be silent for long (a cold link, a cluster settling), but never without a word for this long.
const SILENCE: Duration = Duration::from_secs(30);

/// The members whose tests start a control plane.
const CONTROL_PLANE: [&str; 2] = ["tas-testbed", "tas-e2e"];

/// The seed of every property, unless the caller sets one: the verdict on a commit must not depend on the draw. Plain
/// `cargo test` draws anew each time, and is where new counterexamples come from.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "31");

/// Tells the end-to-end tests which Kubernetes minor to start.
const KUBERNETES: &str = "TAS_E2E_KUBERNETES";

/// What of the suite to run, and on what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) extent: Extent,
    /// Only tests with this in their names.
    pub(crate) filter: Option<String>,
    /// Another Kubernetes minor than the usual.
    pub(crate) kubernetes: Option<String>,
}

/// How much of the suite to run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Extent {
    #[default]
    Whole,
    /// Without the control plane.
    Fast,
}

/// One part of the suite, before it runs.
#[derive(Debug, PartialEq, Eq)]
struct Step {
    name: &'static str,
    usually: &'static str,
    arguments: Vec<String>,
    /// Needs the control plane, and so Go to build it.
    control_plane: bool,
}

/// How a step went.
#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    name: &'static str,
    tally: Tally,
    took: Duration,
    ending: Ending,
}

#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Clean,
    /// It ran, and cargo says that something is wrong.
    Broke(String),
    /// It could not be started.
    NotRun(String),
}

/// Runs the tests that were chosen, prints the closing line and says whether all is well.
pub(crate) fn run(workspace: &Workspace, choice: &Choice) -> bool {
    let (extent, filter) = (choice.extent, choice.filter.as_deref());
    let steps = steps(workspace, filter);
    let (run, left_out): (Vec<_>, Vec<_>) =
        steps.into_iter().partition(|step| extent == Extent::Whole || !step.control_plane);
    let go = run.iter().any(|step| step.control_plane).then(go_toolchain).unwrap_or(Ok(()));
    if let Err(problem) = &go {
        say(format_args!("error: {problem}"));
    }
    let outcomes: Vec<Outcome> = run
        .iter()
        .map(|step| match &go {
            Err(problem) if step.control_plane => {
                let ending = Ending::NotRun(problem.clone());
                Outcome { name: step.name, tally: Tally::default(), took: Duration::ZERO, ending }
            }
            _ => perform(step, workspace, choice),
        })
        .collect();
    say("");
    for step in &left_out {
        say(format_args!(
            "NOT TESTED: {} (--fast leaves out the control plane; run `cargo xtask test`)",
            step.name
        ));
    }
    outcomes.iter().for_each(say);
    let closing = close(&outcomes);
    if closing.tally.is_empty() {
        match filter {
            Some(filter) => say(format_args!("error: no test has {filter:?} in its name")),
            None => say("error: not a single test ran"),
        }
    }
    say(closing.tally);
    closing.well
}

/// The parts of the suite that this workspace has.
fn steps(workspace: &Workspace, filter: Option<&str>) -> Vec<Step> {
    let there: Vec<&str> = CONTROL_PLANE.iter().copied().filter(|package| workspace.has(package)).collect();
    let arguments = |selection: &[&str], each: &str| -> Vec<String> {
        // One failing binary must not hide the others, or the closing line would not count them.
        let fixed = ["test", "--no-fail-fast"].into_iter().chain(selection.iter().copied());
        let packages = there.iter().flat_map(|package| [each, package]);
        let filter = filter.into_iter().flat_map(|filter| ["--", filter]);
        fixed.chain(packages).chain(filter).map(str::to_owned).collect()
    };
    let mut steps = vec![Step {
        name: "unit tests",
        usually: "12 min on 2 cores when nothing is compiled yet, then 3 min",
        arguments: arguments(&["--workspace"], "--exclude"),
        control_plane: false,
    }];
    if !there.is_empty() {
        steps.push(Step {
            name: "end-to-end tests",
            usually: "8 min on 2 cores, and the first time 15 to 25 min more to build Kubernetes from source",
            arguments: arguments(&[], "--package"),
            control_plane: true,
        });
    }
    steps
}

/// The control plane is built from Go sources, unless somebody has the programs already.
fn go_toolchain() -> Result<(), String> {
    go_or_programs("go".as_ref(), std::env::var_os("TAS_TESTBED_BIN").is_some())
}

fn go_or_programs(go: &OsStr, programs_given: bool) -> Result<(), String> {
    let found = || Command::new(go).arg("version").stdin(Stdio::null()).stdout(Stdio::null()).status();
    if programs_given || found().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err("the end-to-end tests need Go to build a control plane, and `go version` does not run; install Go and put it on \
         PATH, or set TAS_TESTBED_BIN to a directory with the programs, or leave these tests out with \
         `cargo xtask test --fast`"
        .to_owned())
}

fn perform(step: &Step, workspace: &Workspace, choice: &Choice) -> Outcome {
    let start = Instant::now();
    let mut command = cargo(&workspace.root);
    command.args(&step.arguments);
    if std::env::var_os(SEED.0).is_none() {
        command.env(SEED.0, SEED.1);
    }
    if let Some(minor) = choice.kubernetes.as_ref().filter(|_| step.control_plane) {
        command.env(KUBERNETES, minor);
    }
    say(format_args!("=== {}: {} (usually {})", step.name, typed(&command), step.usually));
    let mut counter = Counter::default();
    let status = follow(&mut command, Patience { silence: SILENCE, deadline: None }, |event| match event {
        Event::Line(line) => {
            say(line);
            counter.line(line);
        }
        Event::Silence { so_far } => {
            say(format_args!("… {}: still running, {} so far", step.name, Took(so_far)));
        }
    });
    let ending = match status {
        Ok(status) if status.success() => Ending::Clean,
        Ok(status) => Ending::Broke(status.to_string()),
        Err(problem) => Ending::NotRun(problem),
    };
    Outcome { name: step.name, tally: counter.finish(), took: start.elapsed(), ending }
}

impl Outcome {
    /// What the step adds to the closing line. A step that broke without a failed test (it did not compile, or never
    /// started) is itself the failure: a run that is not well never says `0 failed` for that reason alone.
    fn counted(&self) -> Tally {
        match self.ending {
            Ending::Clean => self.tally,
            Ending::Broke(_) | Ending::NotRun(_) => Tally { failed: self.tally.failed.max(1), ..self.tally },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, tally, took, ending } = self;
        match ending {
            Ending::Clean => write!(f, "{name} … {tally} in {}", Took(*took)),
            Ending::Broke(how) if tally.failed == 0 => {
                write!(
                    f,
                    "{name} … broke off ({how}) after {}; the reason is in the lines above",
                    Took(*took)
                )
            }
            Ending::Broke(_) => write!(f, "{name} … FAILED: {tally} in {}", Took(*took)),
            Ending::NotRun(problem) => write!(f, "{name} … NOT RUN: {problem}"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Closing {
    tally: Tally,
    well: bool,
}

/// Well only if something ran, every step ran to its end, and nothing failed.
fn close(outcomes: &[Outcome]) -> Closing {
    let tally: Tally = outcomes.iter().map(Outcome::counted).sum();
    let clean = outcomes.iter().all(|outcome| outcome.ending == Ending::Clean);
    Closing { tally, well: clean && tally.failed == 0 && tally.passed > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Member;

    fn workspace(packages: &[&str]) -> Workspace {
        let member = |package: &&str| Member { package: (*package).to_owned(), needs: Vec::new() };
        Workspace {
            root: "/src/tas".into(),
            target: "/src/tas/target".into(),
            members: packages.iter().map(member).collect(),
        }
    }

    fn outcome(passed: u32, failed: u32, ending: Ending) -> Outcome {
        let tally = Tally { passed, failed, skipped: 0 };
        Outcome { name: "unit tests", tally, took: Duration::from_millis(1_500), ending }
    }

    fn closing(passed: u32, failed: u32, well: bool) -> Closing {
        Closing { tally: Tally { passed, failed, skipped: 0 }, well }
    }

    fn commands(packages: &[&str], filter: Option<&str>) -> Vec<String> {
        steps(&workspace(packages), filter).into_iter().map(|step| step.arguments.join(" ")).collect()
    }

    #[test]
    fn without_a_test_bed_the_suite_is_one_step() {
        assert_eq!(commands(&["tas-engine", "tas-bench"], None), ["test --no-fail-fast --workspace"]);
    }

    #[test]
    fn what_starts_a_control_plane_is_the_second_step() {
        assert_eq!(
            commands(&["tas-engine", "tas-testbed", "tas-e2e"], Some("spread")),
            [
                "test --no-fail-fast --workspace --exclude tas-testbed --exclude tas-e2e -- spread",
                "test --no-fail-fast --package tas-testbed --package tas-e2e -- spread"
            ]
        );
    }

    #[test]
    fn all_is_well_when_tests_ran_and_none_failed() {
        assert_eq!(close(&[outcome(3, 0, Ending::Clean), outcome(4, 0, Ending::Clean)]), closing(7, 0, true));
    }

    #[test]
    fn a_failed_test_a_broken_build_and_a_step_that_never_started_are_failures() {
        let exit = || Ending::Broke("exit status: 101".into());
        assert_eq!(close(&[outcome(3, 2, exit())]), closing(3, 2, false));
        assert_eq!(close(&[outcome(3, 0, Ending::Clean), outcome(0, 0, exit())]), closing(3, 1, false));
        assert_eq!(
            close(&[outcome(3, 0, Ending::Clean), outcome(0, 0, Ending::NotRun("no Go".into()))]),
            closing(3, 1, false)
        );
    }

    #[test]
    fn a_binary_that_died_unseen_by_cargo_is_a_failure() {
        assert_eq!(close(&[outcome(3, 1, Ending::Clean)]), closing(3, 1, false));
    }

    #[test]
    fn nothing_tested_is_not_well() {
        assert_eq!(close(&[]), closing(0, 0, false));
        assert_eq!(close(&[outcome(0, 0, Ending::Clean)]), closing(0, 0, false));
    }

    #[test]
    fn a_step_says_how_it_went() {
        let said = |passed, failed, ending| outcome(passed, failed, ending).to_string();
        assert_eq!(said(3, 0, Ending::Clean), "unit tests … 3 passed, 0 failed in 1.5 s");
        assert_eq!(
            said(3, 1, Ending::Broke("exit status: 101".into())),
            "unit tests … FAILED: 3 passed, 1 failed in 1.5 s"
        );
        assert_eq!(
            said(0, 0, Ending::Broke("exit status: 101".into())),
            "unit tests … broke off (exit status: 101) after 1.5 s; the reason is in the lines above"
        );
        assert_eq!(said(0, 0, Ending::NotRun("no Go".into())), "unit tests … NOT RUN: no Go");
    }

    #[test]
    fn a_machine_without_go_is_told_the_ways_out() {
        let problem = go_or_programs("no-such-go-here".as_ref(), false).expect_err("no Go");
        for way_out in ["install Go", "TAS_TESTBED_BIN", "cargo xtask test --fast"] {
            assert!(problem.contains(way_out), "{problem}");
        }
        assert_eq!(go_or_programs("no-such-go-here".as_ref(), true), Ok(()));
    }
}
