//! `tas check`: all that is wrong with policies in files, and the traps in them, without a cluster.

mod human;
mod json;
mod source;

use std::process::ExitCode;

use api::problem::Severity;
use clap::{Args, ValueEnum};
use engine::policy::Policy;

use crate::terminal::{self, Paint};
use source::Source;

/// Says all that is wrong with policies, and the traps in them.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tas check policy.yaml
  tas check policies/ more.yaml        directories are searched for *.yaml, *.yml and *.json
  helm template . | tas check -        standard input
  tas check --strict --output json .   for a pipeline

Exit status:
  0  every policy works, perhaps with warnings
  1  a policy has an error, or a warning with --strict
  2  something could not be read, or there is no policy at all")]
pub(crate) struct Arguments {
    /// Files or directories; - is standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<String>,
    /// Treats warnings as errors. Notes stay notes.
    #[arg(long)]
    strict: bool,
    /// How to say it.
    #[arg(long, short, value_enum, default_value_t = Output::Human, value_name = "FORMAT")]
    output: Output,
    /// Namespace of policies that name none.
    #[arg(long, short, default_value = "default", value_name = "NAME")]
    namespace: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Human,
    /// One JSON object.
    Json,
}

/// All that was found, and what it amounts to.
struct Report {
    sources: Vec<Source>,
    strict: bool,
}

/// How often what was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct Summary {
    policies: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
    skipped: usize,
    unreadable: usize,
}

pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    let defaults = api::Defaults { namespace: arguments.namespace.clone(), ..api::Defaults::default() };
    let report = Report { sources: read(&arguments.paths, &defaults), strict: arguments.strict };
    let text = match arguments.output {
        Output::Human => human::text(&report, Paint::of_stdout()),
        Output::Json => json::text(&report),
    };
    terminal::print(text.as_bytes());
    ExitCode::from(report.exit())
}

fn read(paths: &[String], defaults: &api::Defaults) -> Vec<Source> {
    let mut sources = source::all(paths, defaults);
    if sources.iter().all(|source| source.policies.is_empty() && source.unreadable.is_empty()) {
        sources = vec![source::without_policies(paths.join(" "), &sources)];
    }
    source::compare(&mut sources);
    sources
}

/// A path that should hold one policy, for commands that try one.
pub(crate) struct Checked {
    /// The policies that can be used.
    pub(crate) usable: Vec<Policy>,
    /// What `tas check` says of the path; empty if there is nothing to warn of.
    pub(crate) said: String,
    /// How it exits.
    pub(crate) exit: u8,
}

/// Checks a path on behalf of another command.
pub(crate) fn checked(path: &str, paint: Paint) -> Checked {
    let report = Report { sources: read(&[path.to_owned()], &api::Defaults::default()), strict: false };
    let summary = report.summary();
    let silent = summary.errors + summary.warnings + summary.unreadable == 0;
    let said = if silent { String::new() } else { human::text(&report, paint) };
    let exit = report.exit();
    let found = report.sources.into_iter().flat_map(|source| source.policies);
    Checked { usable: found.filter_map(|found| found.policy).collect(), said, exit }
}

impl Report {
    fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for source in &self.sources {
            summary.policies += source.policies.len();
            summary.skipped += source.skipped;
            summary.unreadable += source.unreadable.len();
            for (_, problem) in source.policies.iter().flat_map(|policy| &policy.problems) {
                match problem.severity {
                    Severity::Error => summary.errors += 1,
                    Severity::Warning => summary.warnings += 1,
                    Severity::Note => summary.notes += 1,
                }
            }
        }
        summary
    }

    /// What was not read weighs most: nobody knows what is in it.
    fn exit(&self) -> u8 {
        match self.summary() {
            Summary { unreadable: 1.., .. } => 2,
            Summary { errors: 1.., .. } => 1,
            Summary { warnings: 1.., .. } if self.strict => 1,
            _ => 0,
        }
    }
}
