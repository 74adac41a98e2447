//! The report for machines: one object, whose fields only ever grow in number. Described in docs/check.md.

use serde::Serialize;

use super::source::{Source, Unreadable};
use super::{Report, Summary};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a> {
    exit_code: u8,
    strict: bool,
    summary: Summary,
    files: Vec<FileReport<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileReport<'a> {
    file: &'a str,
    skipped: usize,
    policies: Vec<PolicyReport<'a>>,
    unreadable: Vec<Trouble<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PolicyReport<'a> {
    policy: &'a str,
    line: u64,
    usable: bool,
    problems: Vec<ProblemReport<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProblemReport<'a> {
    severity: &'a str,
    code: &'a str,
    path: String,
    line: u64,
    column: u64,
    message: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Trouble<'a> {
    code: &'a str,
    line: Option<u64>,
    column: Option<u64>,
    message: &'a str,
}

/// The whole report, and a line break.
pub(super) fn text(report: &Report) -> String {
    let whole = Whole {
        exit_code: report.exit(),
        strict: report.strict,
        summary: report.summary(),
        files: report.sources.iter().map(file).collect(),
    };
    let mut text = serde_json::to_string_pretty(&whole).expect("texts and numbers serialise");
    text.push('\n');
    text
}

fn file(source: &Source) -> FileReport<'_> {
    let policies = source.policies.iter().map(|policy| PolicyReport {
        policy: &policy.name,
        line: policy.place.line,
        usable: policy.policy.is_some(),
        problems: policy
            .problems
            .iter()
            .map(|(place, problem)| ProblemReport {
                severity: problem.severity.as_str(),
                code: problem.code.as_str(),
                path: problem.path.to_string(),
                line: place.line,
                column: place.column,
                message: &problem.message,
            })
            .collect(),
    });
    FileReport {
        file: &source.name,
        skipped: source.skipped,
        policies: policies.collect(),
        unreadable: source.unreadable.iter().map(trouble).collect(),
    }
}

fn trouble(why: &Unreadable) -> Trouble<'_> {
    Trouble {
        code: why.code,
        line: why.place.map(|place| place.line),
        column: why.place.map(|place| place.column),
        message: &why.message,
    }
}
