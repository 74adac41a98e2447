//! Counting tests from what libtest prints. A test binary that dies before it has counted itself must not look like one
//! with nothing to count, so the tests it had announced and not finished count as failed.

use std::fmt;

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
    pub(crate) skipped: u32,
}

impl Tally {
    pub(crate) fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            passed: self.passed + other.passed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), |sum, tally| sum + tally)
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

/// Reads the output of `cargo test` line by line; `finish` gives the sum.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    counted: Tally,
    /// A binary that has said how many tests it runs, but not yet how they went.
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    announced: u32,
    seen: Tally,
}

impl Counter {
    pub(crate) fn line(&mut self, line: &str) {
        let line = without_colour(line);
        if let Some(announced) = announcement(&line) {
            self.close();
            self.running = Some(Running { announced, seen: Tally::default() });
        } else if let Some(tally) = result(&line) {
            self.running = None;
            self.counted = self.counted + tally;
        } else if let Some(running) = &mut self.running {
            running.seen = running.seen + single(&line);
        }
    }

    pub(crate) fn finish(mut self) -> Tally {
        self.close();
        self.counted
    }

    /// A binary that is still open when the next one starts has died on the way.
    fn close(&mut self) {
        if let Some(Running { announced, seen }) = self.running.take() {
            let lost = announced.saturating_sub(seen.passed + seen.skipped).max(1);
            self.counted = self.counted + Tally { failed: lost, ..seen };
        }
    }
}

/// `running 3 tests`.
fn announcement(line: &str) -> Option<u32> {
    let count = line.strip_prefix("running ")?;
    count.strip_suffix(" tests").or_else(|| count.strip_suffix(" test"))?.parse().ok()
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s`.
fn result(line: &str) -> Option<Tally> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut tally = Tally::default();
    for count in counts.split("; ") {
        match count.split_once(' ') {
            Some((number, "passed")) => tally.passed = number.parse().ok()?,
            Some((number, "failed")) => tally.failed = number.parse().ok()?,
            Some((number, "ignored")) => tally.skipped = number.parse().ok()?,
            _ => {}
        }
    }
    Some(tally)
}

/// `test engine::rank ... ok`; what a failed one says is not needed, because what is not seen to pass has failed.
fn single(line: &str) -> Tally {
    let ending =
        line.strip_prefix("test ").and_then(|test| test.rsplit_once(" ... ")).map(|(_, ending)| ending);
    match ending {
        Some("ok") => Tally { passed: 1, ..Tally::default() },
        Some(ending) if ending.starts_with("ignored") => Tally { skipped: 1, ..Tally::default() },
        _ => Tally::default(),
    }
}

/// Drops `ESC [ … letter`: rustdoc colours its results when cargo is told to colour.
fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |end| end + 1);
        rest = &after[end..];
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(output: &str) -> Tally {
        let mut counter = Counter::default();
        output.lines().for_each(|line| counter.line(line));
        counter.finish()
    }

    fn tally(passed: u32, failed: u32, skipped: u32) -> Tally {
        Tally { passed, failed, skipped }
    }

    #[test]
    fn results_of_all_binaries_and_doc_tests_add_up() {
        let output = "\
   Compiling tas-engine v0.1.0
     Running unittests src/lib.rs (target/debug/deps/engine-0a1b)

running 3 tests
test quantity::tests::half_is_500m ... ok
test names::tests::empty ... ok
test names::tests::long ... ignored, takes an hour

test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s

     Running tests/laws.rs (target/debug/deps/laws-0a1b)

running 1 test
test order_does_not_matter ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 7 filtered out; finished in 2.31s

   Doc-tests engine

running 1 test
test crates/engine/src/lib.rs - (line 5) ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

all doctests ran in 0.41s; merged doctests compilation took 0.40s
";
        assert_eq!(sum(output), tally(4, 0, 1));
    }

    #[test]
    fn failures_are_counted_once_though_they_are_printed_three_times() {
        let output = "\
running 2 tests
test a ... ok
test b ... FAILED

failures:

---- b stdout ----
thread 'b' panicked at src/lib.rs:9:9:
assertion failed: test result: ok. 9 passed; 9 failed

failures:
    b

test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s

error: test failed, to rerun pass `--lib`
error: 1 target failed:
    `--lib`
";
        assert_eq!(sum(output), tally(1, 1, 0));
    }

    #[test]
    fn what_a_dead_binary_had_announced_and_not_finished_has_failed() {
        let output = "\
running 5 tests
test a ... ok
test b ... ignored
thread 'c' has overflowed its stack
error: test failed, to rerun pass `-p tas-engine --lib`

Caused by:
  process didn't exit successfully: `target/debug/deps/engine-0a1b` (signal: 6, SIGABRT: process abort signal)

running 1 test
test d ... ok

test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
";
        assert_eq!(sum(output), tally(2, 3, 1));
    }

    #[test]
    fn a_binary_that_dies_after_its_last_test_is_still_a_failure() {
        assert_eq!(sum("running 1 test\ntest a ... ok\n"), tally(1, 1, 0));
        assert_eq!(sum("running 0 tests\n"), tally(0, 1, 0));
    }

    #[test]
    fn a_build_error_counts_no_tests() {
        let output = "\
   Compiling tas-engine v0.1.0
error[E0425]: cannot find value `x` in this scope
error: could not compile `tas-engine` (lib test) due to 1 previous error
";
        assert_eq!(sum(output), tally(0, 0, 0));
    }

    #[test]
    fn an_empty_binary_counts_nothing() {
        let output =
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(sum(output), tally(0, 0, 0));
    }

    #[test]
    fn colour_does_not_hide_a_result() {
        let output =
            "test result: \u{1b}[32mok\u{1b}[0m. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out";
        assert_eq!(sum(output), tally(3, 0, 0));
        assert_eq!(without_colour("a\u{1b}[1;31mb\u{1b}["), "ab");
    }

    #[test]
    fn skipped_tests_are_mentioned_only_when_there_are_some() {
        assert_eq!(tally(3, 0, 0).to_string(), "3 passed, 0 failed");
        assert_eq!(tally(3, 1, 2).to_string(), "3 passed, 1 failed, 2 skipped");
    }
}
