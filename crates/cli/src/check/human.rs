//! The report for people: what, where, the line itself, and a closing sum.

use std::fmt::Write;

use api::manifest::Place;
use api::problem::{Problem, Severity};

use super::Report;
use super::source::{Source, Unreadable};
use crate::terminal::{Paint, Tone, harmless};

/// Longest stretch of a line that an excerpt shows.
const EXCERPT: usize = 100;
/// So many problems of a file come with the line that they are in. Nobody reads more, and finding a spot in one line of
/// three megabytes takes time.
const EXCERPTS: usize = 200;

/// The whole report.
pub(super) fn text(report: &Report, paint: Paint) -> String {
    let mut writer = Writer { out: String::new(), paint, strict: report.strict, excerpts: EXCERPTS };
    for source in &report.sources {
        writer.excerpts = EXCERPTS;
        for policy in &source.policies {
            for (place, problem) in &policy.problems {
                writer.problem(source, *place, problem);
            }
        }
        for why in &source.unreadable {
            writer.unreadable(source, why);
        }
        if source.looks_like_a_template() && source.policies.iter().any(|policy| policy.policy.is_none()) {
            writer.advice(
                &source.name,
                "it looks like a template: render it first, as in `helm template . | tas check -`",
            );
        }
    }
    writer.sum(report);
    writer.out
}

struct Writer {
    out: String,
    paint: Paint,
    strict: bool,
    /// How many more excerpts this file gets.
    excerpts: usize,
}

impl Writer {
    fn problem(&mut self, source: &Source, place: Place, problem: &Problem) {
        let tone = match problem.severity {
            Severity::Error => Tone::Red,
            Severity::Warning if self.strict => Tone::Red,
            Severity::Warning => Tone::Yellow,
            Severity::Note => Tone::Blue,
        };
        let what = format!("{}[{}]", problem.severity, problem.code);
        self.head(tone, &what, &problem.message);
        let path = problem.path.to_string();
        self.excerpt(source, Some(place), &path, tone);
    }

    fn unreadable(&mut self, source: &Source, why: &Unreadable) {
        self.head(Tone::Red, &format!("unreadable[{}]", why.code), &why.message);
        self.excerpt(source, why.place, "", Tone::Red);
    }

    fn advice(&mut self, name: &str, advice: &str) {
        self.head(Tone::Blue, "help", advice);
        self.line(&format!("  --> {}", harmless(name)));
        self.line("");
    }

    fn head(&mut self, tone: Tone, what: &str, message: &str) {
        let line =
            format!("{}: {}", self.paint.tone(tone, what), self.paint.tone(Tone::Bold, &harmless(message)));
        self.line(&line);
    }

    /// Where it is, and the line that it is in.
    fn excerpt(&mut self, source: &Source, place: Option<Place>, path: &str, tone: Tone) {
        let name = harmless(&source.name);
        let (Some(place), path) = (place, harmless(path)) else {
            self.line(&format!("  --> {name}"));
            return self.line("");
        };
        let path = if path.is_empty() { path } else { format!("  {}", self.paint.tone(Tone::Faint, &path)) };
        self.line(&format!("  --> {name}:{place}{path}"));
        let line = usize::try_from(place.line).ok().filter(|_| self.excerpts > 0);
        if let Some(line) = line.and_then(|line| source.text.lines().nth(line.checked_sub(1)?)) {
            self.excerpts -= 1;
            let column = usize::try_from(place.column).unwrap_or(1).saturating_sub(1);
            let (shown, column) = cropped(line, column);
            let number = place.line.to_string();
            let margin = " ".repeat(number.len());
            let bar = self.paint.tone(Tone::Faint, "|");
            let caret = self.paint.tone(tone, "^");
            self.line(&format!(" {} {bar} {}", self.paint.tone(Tone::Faint, &number), harmless(&shown)));
            self.line(&format!(" {margin} {bar} {}{caret}", " ".repeat(column)));
        }
        self.line("");
    }

    /// The last line.
    fn sum(&mut self, report: &Report) {
        let sum = report.summary();
        let mut parts = vec![counted(sum.policies, "policy", "policies")];
        for (count, one, many) in [
            (sum.errors, "error", "errors"),
            (sum.warnings, "warning", "warnings"),
            (sum.notes, "note", "notes"),
        ] {
            if count > 0 {
                parts.push(counted(count, one, many));
            }
        }
        if sum.errors + sum.warnings + sum.notes == 0 && sum.policies > 0 {
            parts.push("nothing wrong".to_owned());
        }
        if sum.skipped > 0 {
            parts.push(format!("{} skipped", counted(sum.skipped, "other object", "other objects")));
        }
        if sum.unreadable > 0 {
            parts.push(format!("{} unreadable", sum.unreadable));
        }
        let line = parts.join(", ");
        let line = self.paint.tone(Tone::Bold, &line);
        self.line(&line);
    }

    fn line(&mut self, line: &str) {
        let _ = writeln!(self.out, "{}", line.trim_end());
    }
}

/// So many of them, in words.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The part of a line around a column, and the column within that part.
fn cropped(line: &str, column: usize) -> (String, usize) {
    let length = line.chars().count();
    if length <= EXCERPT {
        return (line.to_owned(), column.min(length));
    }
    let start = column.saturating_sub(EXCERPT / 2).min(length - EXCERPT);
    let lead = if start > 0 { "…" } else { "" };
    let trail = if start + EXCERPT < length { "…" } else { "" };
    let part: String = line.chars().skip(start).take(EXCERPT).collect();
    (format!("{lead}{part}{trail}"), column.saturating_sub(start).min(EXCERPT) + lead.chars().count())
}

#[cfg(test)]
mod tests {
    use super::cropped;

    #[test]
    fn long_lines_are_cut_around_the_spot() {
        let line: String = ('a'..='z').cycle().take(300).collect();
        assert_eq!(cropped("short", 2), ("short".to_owned(), 2));
        for column in [0, 10, 150, 299, 1000] {
            let (shown, at) = cropped(&line, column);
            assert!(shown.chars().count() <= 102);
            if column < 300 {
                assert_eq!(shown.chars().nth(at), line.chars().nth(column), "{column}");
            }
        }
    }
}
