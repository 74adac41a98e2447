//! Named checks, and their report in the form that Kubernetes' own servers use.

use std::fmt::Write;

use http::StatusCode;

use crate::shutdown::{Phase, Shutdown};

/// What a check is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// `/livez`: would a restart help?
    Live,
    /// `/readyz`: should callers come here?
    Ready,
}

impl Probe {
    fn name(self) -> &'static str {
        match self {
            Self::Live => "livez",
            Self::Ready => "readyz",
        }
    }
}

/// What there is to say when all is well, or why it is not.
type Outcome = Result<String, String>;

struct Check {
    probe: Probe,
    name: &'static str,
    run: Box<dyn Fn() -> Outcome + Send + Sync>,
}

/// The checks of a process, in the order in which they are reported. Without any it is live and ready.
#[derive(Default)]
pub struct Health {
    checks: Vec<Check>,
}

impl Health {
    /// Adds a check. It runs on the thread of the request, so it must look something up, not do something.
    #[must_use]
    pub fn with(
        self,
        probe: Probe,
        name: &'static str,
        run: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        self.with_words(probe, name, move || run().map(|()| String::new()))
    }

    /// The same for a check that has something to say even when it passes.
    #[must_use]
    pub fn with_words(
        mut self,
        probe: Probe,
        name: &'static str,
        run: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) -> Self {
        self.checks.push(Check { probe, name, run: Box::new(run) });
        self
    }

    /// Not ready from the moment we are asked to stop.
    #[must_use]
    pub fn with_shutdown(self, shutdown: Shutdown) -> Self {
        self.with(Probe::Ready, "shutdown", move || match shutdown.phase() {
            Phase::Serving => Ok(()),
            Phase::Leaving | Phase::Draining => Err("the process is stopping".to_owned()),
        })
    }

    /// Status and text. `verbose` in the query lists all checks, `exclude=name` leaves one out; a failure is always
    /// listed.
    pub(super) fn report(&self, probe: Probe, query: Option<&str>) -> (StatusCode, String) {
        let parameters = || query.unwrap_or_default().split('&');
        let excluded = |name: &str| parameters().any(|part| part.strip_prefix("exclude=") == Some(name));
        let verbose = parameters().any(|part| part == "verbose" || part.starts_with("verbose="));

        let mut list = String::new();
        let mut passed = true;
        for check in self.checks.iter().filter(|check| check.probe == probe) {
            let name = check.name;
            // Writing to a string cannot fail.
            let _ = match (excluded(name), (check.run)()) {
                (true, _) => writeln!(list, "[+]{name} excluded: ok"),
                (false, Ok(words)) if words.is_empty() => writeln!(list, "[+]{name} ok"),
                (false, Ok(words)) => writeln!(list, "[+]{name} ok: {words}"),
                (false, Err(reason)) => {
                    passed = false;
                    writeln!(list, "[-]{name} failed: {reason}")
                }
            };
        }
        match (passed, verbose) {
            (true, false) => (StatusCode::OK, "ok".to_owned()),
            (true, true) => (StatusCode::OK, format!("{list}{} check passed\n", probe.name())),
            (false, _) => (StatusCode::SERVICE_UNAVAILABLE, format!("{list}{} check failed\n", probe.name())),
        }
    }
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.checks.iter().map(|check| (check.probe, check.name))).finish()
    }
}
