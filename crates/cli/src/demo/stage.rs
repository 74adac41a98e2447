//! What the screen is drawn from: the trial, and what was said about it lately.

use std::collections::VecDeque;

use sim::{Happening, Trial, by_engine};

/// How many happenings are kept; more than any screen has rows.
const KEPT: usize = 200;

/// A trial with an audience.
#[derive(Clone, Debug)]
pub struct Stage {
    pub(crate) trial: Trial,
    /// What happened on the policy's side, the newest first.
    pub(crate) recent: VecDeque<Happening>,
    /// How this program is called, for commands to try next.
    pub(crate) program: String,
    stopped: bool,
}

impl Stage {
    /// Before the first second.
    pub fn new(trial: Trial, program: &str) -> Self {
        Self { trial, recent: VecDeque::new(), program: program.to_owned(), stopped: false }
    }

    /// Lets one second pass.
    pub fn step(&mut self) {
        let Ok(()) = self.trial.step(by_engine);
        for happening in self.trial.with().news() {
            self.recent.push_front(happening.clone());
        }
        self.recent.truncate(KEPT);
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
    pub fn play_until(&mut self, second: u32) {
        while self.trial.passed_s() < second && !self.is_over() {
            self.step();
        }
    }
}
