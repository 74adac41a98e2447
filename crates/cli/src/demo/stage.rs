//! What the screen is drawn from: the trial, and what was said about it lately.

use std::collections::VecDeque;
use std::io;

use sim::{Ask, Candidate, Happening, Trial};

/// How many happenings are kept; more than any screen has rows.
const KEPT: usize = 200;

/// Who answers for the policy.
type Placing = Box<dyn FnMut(&Ask<'_>) -> io::Result<Vec<Candidate>>>;

/// A trial with an audience.
pub struct Stage {
    pub(crate) trial: Trial,
    /// What happened on the policy's side, the newest first.
    pub(crate) recent: VecDeque<Happening>,
    /// How this program is called, for commands to try next.
    pub(crate) program: String,
    placing: Placing,
    stopped: bool,
}

impl Stage {
    /// Before the first second; `placing` answers for the policy.
    pub fn new(
        trial: Trial,
        program: &str,
        placing: impl FnMut(&Ask<'_>) -> io::Result<Vec<Candidate>> + 'static,
    ) -> Self {
        let (recent, program) = (VecDeque::new(), program.to_owned());
        Self { trial, recent, program, placing: Box::new(placing), stopped: false }
    }

    /// Lets one second pass.
    pub fn step(&mut self) -> io::Result<()> {
        self.trial.step(&mut self.placing)?;
        for happening in self.trial.with().news() {
            self.recent.push_front(happening.clone());
        }
        self.recent.truncate(KEPT);
        Ok(())
    }

    /// Ends it before its time.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Whether there is nothing more to see.
    pub fn is_over(&self) -> bool {
        self.stopped || self.trial.is_over()
    }

    /// Lets time pass until that second, or the end.
    pub fn play_until(&mut self, second: u32) -> io::Result<()> {
        while self.trial.passed_s() < second && !self.is_over() {
            self.step()?;
        }
        Ok(())
    }
}
