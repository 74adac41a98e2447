//! The file on disk, looked at again and again: a good edit is taken, a bad one is told and changes nothing.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{FeedConfig, MAX_FILE, Problem, parse};

/// The file, and what we hold of it.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    seen: Result<String, String>,
    state: ConfigState,
}

/// What counts, and what is wrong with the newest edit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigState {
    /// The last good configuration.
    pub good: Arc<FeedConfig>,
    /// Why the file as it stands is not in use; empty if it is.
    pub problems: Vec<Problem>,
}

/// What a look at the file found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Polled {
    /// The same as before.
    Unchanged,
    /// A good edit, now in use.
    Changed,
    /// A bad edit; the last good one stays in use.
    Refused,
}

impl ConfigFile {
    /// Reads the file for the first time; a bad one is an error, as there is no last good one.
    pub fn open(path: &Path) -> Result<Self, Vec<Problem>> {
        let text = read(path).map_err(|message| vec![Problem { path: String::new(), message }])?;
        let good = Arc::new(parse(&text)?);
        let state = ConfigState { good, problems: Vec::new() };
        Ok(Self { path: path.to_owned(), seen: Ok(text), state })
    }

    /// What counts now.
    pub fn state(&self) -> &ConfigState {
        &self.state
    }

    /// Looks again. Contents are compared, not times: mounted files are swapped by symlink.
    pub fn poll(&mut self) -> Polled {
        let found = read(&self.path);
        if found == self.seen {
            return Polled::Unchanged;
        }
        let parsed = match &found {
            Ok(text) => parse(text),
            Err(message) => Err(vec![Problem { path: String::new(), message: message.clone() }]),
        };
        self.seen = found;
        match parsed {
            Ok(good) => {
                self.state = ConfigState { good: Arc::new(good), problems: Vec::new() };
                Polled::Changed
            }
            Err(problems) => {
                self.state.problems = problems;
                Polled::Refused
            }
        }
    }
}

/// The text, or why there is none; a byte past the limit is enough to know that it is too long.
fn read(path: &Path) -> Result<String, String> {
    let say = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(say)?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE as u64 + 1).read_to_end(&mut bytes).map_err(say)?;
    String::from_utf8(bytes).map_err(|_| format!("{} is not UTF-8", path.display()))
}
