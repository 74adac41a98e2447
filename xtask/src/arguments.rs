//! What can be asked of us: the tasks, their help and how they are typed. Tasks whose crate does not exist in this
//! workspace are not offered.

use std::fmt::Write as _;

use crate::generate::Mode;
use crate::suite::{Choice, Extent};
use crate::workspace::Workspace;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    Help,
    Check,
    Test(Choice),
    Gen(Mode),
    Layers,
    /// Cargo commands that do it, one after the other.
    Forward(Vec<Vec<String>>),
}

/// A task as the help shows it.
struct Entry {
    typed: &'static str,
    does: &'static str,
    /// The member without which the task does not exist.
    member: Option<&'static str>,
}

const BENCH: &str = "tas-bench";
const CLI: &str = "tas-cli";
const TESTBED: &str = "tas-testbed";

const ENTRIES: &[Entry] = &[
    Entry {
        typed: "check",
        does: "run every gate but the tests: format, clippy, gen --check, layers, deny",
        member: None,
    },
    Entry {
        typed: "test [--fast] [FILTER]",
        does: "run all tests, or those with FILTER in their names; --fast leaves out the control plane, --kubernetes 1.33 chooses another",
        member: None,
    },
    Entry {
        typed: "gen [--check]",
        does: "write the generated files; --check compares them only",
        member: None,
    },
    Entry { typed: "layers", does: "compare the arrows between our crates with the design", member: None },
    Entry { typed: "bench NAME", does: "measure, beside the peers where there are any", member: Some(BENCH) },
    Entry {
        typed: "testbed build",
        does: "build the control plane that the end-to-end tests start",
        member: Some(TESTBED),
    },
    Entry {
        typed: "cluster up|down|status|logs …",
        does: "a local Kubernetes with KWOK nodes, Prometheus and tas (--without-tas leaves it out), as plain processes",
        member: Some(TESTBED),
    },
];

const EXAMPLES: &str = "\
examples:
  cargo xtask check                 before a commit
  cargo xtask test --fast quantity  while working on quantities
  cargo xtask test                  what a change must pass
";

/// All tasks of this workspace, with a line each.
pub(crate) fn help(workspace: &Workspace) -> String {
    let mut text = "usage: cargo xtask TASK\n\n".to_owned();
    for entry in offered(workspace) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:31} {}", entry.typed, entry.does);
    }
    text + "\n" + EXAMPLES.trim_end()
}

fn offered(workspace: &Workspace) -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter().filter(|entry| entry.member.is_none_or(|package| workspace.has(package)))
}

/// Reads what was typed behind `cargo xtask`.
pub(crate) fn parse(words: &[String], workspace: &Workspace) -> Result<Task, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (task, rest) = match words.as_slice() {
        [] | ["help" | "-h" | "--help", ..] => return Ok(Task::Help),
        [task, rest @ ..] => (*task, rest),
    };
    let offered = offered(workspace).any(|entry| entry.typed.split(' ').next() == Some(task));
    match (task, rest) {
        ("bench" | "testbed" | "cluster", _) if offered => Ok(forwarded(task, rest, workspace)),
        ("check" | "test" | "gen" | "layers", ["-h" | "--help"]) => Ok(Task::Help),
        ("check", []) => Ok(Task::Check),
        ("layers", []) => Ok(Task::Layers),
        ("gen", []) => Ok(Task::Gen(Mode::Write)),
        ("gen", ["--check"]) => Ok(Task::Gen(Mode::Compare)),
        ("test", rest) => test(rest),
        ("check" | "layers" | "gen", [word, ..]) => {
            Err(format!("{task} does not know {word:?}; `cargo xtask --help` shows what it takes"))
        }
        _ => Err(format!("there is no task {task:?}; `cargo xtask --help` lists those there are")),
    }
}

fn forwarded(task: &str, rest: &[&str], workspace: &Workspace) -> Task {
    let owned = |words: &[&str]| -> Vec<String> { words.iter().map(|word| (*word).to_owned()).collect() };
    let start: &[&str] = match task {
        "bench" => &["run", "--quiet", "--release", "--package", BENCH, "--"],
        "cluster" => &["run", "--quiet", "--package", TESTBED, "--", "cluster"],
        _ => &["run", "--quiet", "--package", TESTBED, "--"],
    };
    let (leave_out, rest): (Vec<&str>, Vec<&str>) = rest.iter().partition(|word| **word == "--without-tas");
    let mut last = owned(&[start, &rest].concat());
    let begins = matches!((task, rest.as_slice()), ("cluster", ["up" | "run", ..]));
    // Whoever brings a scheduler's configuration or a `tas`, or only wants to know, needs none of ours.
    let own = ["--tas", "--scheduler-config", "-h", "--help"];
    let brings = |word: &&str| own.contains(&word.split('=').next().unwrap_or_default());
    if !begins || !leave_out.is_empty() || rest.iter().any(brings) || !workspace.has(CLI) {
        return Task::Forward(vec![last]);
    }
    let tas = workspace.target.join("debug").join("tas");
    last.extend(["--tas".to_owned(), tas.to_string_lossy().into_owned()]);
    Task::Forward(vec![owned(&["build", "--package", CLI, "--bin", "tas"]), last])
}

fn test(words: &[&str]) -> Result<Task, String> {
    let mut choice = Choice::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--fast" => choice.extent = Extent::Fast,
            "--kubernetes" => match words.next() {
                Some(minor) => choice.kubernetes = Some((*minor).to_owned()),
                None => return Err("--kubernetes wants a minor, as in --kubernetes 1.33".to_owned()),
            },
            option if option.starts_with('-') => {
                return Err(format!(
                    "test does not know {option:?}; it takes --fast, --kubernetes MINOR and one FILTER"
                ));
            }
            text => {
                if let Some(earlier) = choice.filter.replace(text.to_owned()) {
                    return Err(format!("test takes one FILTER, not both {earlier:?} and {text:?}"));
                }
            }
        }
    }
    Ok(Task::Test(choice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Member;

    fn with(packages: &[&str]) -> Workspace {
        let member = |package: &&str| Member { package: (*package).to_owned(), needs: Vec::new() };
        Workspace {
            root: "/src/tas".into(),
            target: "/src/tas/target".into(),
            members: packages.iter().map(member).collect(),
        }
    }

    fn asked(line: &str) -> Result<Task, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words, &with(&["xtask", TESTBED, CLI]))
    }

    #[test]
    fn every_task_can_be_typed() {
        let test = |extent, filter: Option<&str>| {
            Ok(Task::Test(Choice { extent, filter: filter.map(str::to_owned), kubernetes: None }))
        };
        assert_eq!(asked(""), Ok(Task::Help));
        assert_eq!(asked("--help"), Ok(Task::Help));
        assert_eq!(asked("test --help"), Ok(Task::Help));
        assert_eq!(asked("check"), Ok(Task::Check));
        assert_eq!(asked("layers"), Ok(Task::Layers));
        assert_eq!(asked("gen"), Ok(Task::Gen(Mode::Write)));
        assert_eq!(asked("gen --check"), Ok(Task::Gen(Mode::Compare)));
        assert_eq!(asked("test"), test(Extent::Whole, None));
        assert_eq!(asked("test burst --fast"), test(Extent::Fast, Some("burst")));
        let older = Choice { kubernetes: Some("1.33".to_owned()), ..Choice::default() };
        assert_eq!(asked("test --kubernetes 1.33"), Ok(Task::Test(older)));
    }

    #[test]
    fn tasks_of_other_crates_are_handed_on_with_all_their_words() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let alone = |line: &str| Ok(Task::Forward(vec![words(line)]));
        assert_eq!(
            asked("cluster down demo"),
            alone("run --quiet --package tas-testbed -- cluster down demo")
        );
        assert_eq!(asked("testbed build --help"), alone("run --quiet --package tas-testbed -- build --help"));
    }

    #[test]
    fn a_cluster_comes_with_our_tas_unless_somebody_says_otherwise() {
        let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
        let up = "run --quiet --package tas-testbed -- cluster up --nodes 1000";
        assert_eq!(
            asked("cluster up --nodes 1000"),
            Ok(Task::Forward(vec![
                words("build --package tas-cli --bin tas"),
                words(&format!("{up} --tas /src/tas/target/debug/tas")),
            ]))
        );
        assert_eq!(asked("cluster up --without-tas --nodes 1000"), Ok(Task::Forward(vec![words(up)])));
        for own in ["--scheduler-config=x.yaml", "--tas /bin/tas", "--help"] {
            let line = format!("{up} {own}");
            assert_eq!(
                asked(&format!("cluster up --nodes 1000 {own}")),
                Ok(Task::Forward(vec![words(&line)]))
            );
        }
    }

    #[test]
    fn a_task_without_its_crate_does_not_exist() {
        assert_eq!(
            asked("bench answer"),
            Err("there is no task \"bench\"; `cargo xtask --help` lists those there are".into())
        );
        assert!(!help(&with(&["xtask"])).contains("bench"));
        assert!(help(&with(&["xtask", BENCH])).contains("bench NAME"));
    }

    #[test]
    fn what_cannot_be_understood_is_quoted() {
        assert_eq!(
            asked("chekc"),
            Err("there is no task \"chekc\"; `cargo xtask --help` lists those there are".into())
        );
        assert_eq!(
            asked("gen --chekc"),
            Err("gen does not know \"--chekc\"; `cargo xtask --help` shows what it takes".into())
        );
        assert_eq!(
            asked("test --quick"),
            Err("test does not know \"--quick\"; it takes --fast, --kubernetes MINOR and one FILTER".into())
        );
        assert_eq!(
            asked("test --kubernetes"),
            Err("--kubernetes wants a minor, as in --kubernetes 1.33".into())
        );
        assert_eq!(asked("test a b"), Err("test takes one FILTER, not both \"a\" and \"b\"".into()));
    }

    #[test]
    fn the_help_gives_each_task_a_line_and_ends_with_examples() {
        let text = help(&with(&["xtask"]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "usage: cargo xtask TASK");
        assert_eq!(
            lines.iter().filter(|line| line.starts_with("  ") && !line.contains("cargo xtask")).count(),
            4
        );
        assert_eq!(lines.iter().filter(|line| line.starts_with("  cargo xtask ")).count(), 3);
    }
}
