//! What a directory holds, listed now and then and read again and again: sensors, zones, counters.

use std::path::PathBuf;
use std::time::Duration;

use crate::host::{Buffer, Probe};
use crate::moment::Moment;
use crate::trouble::Trouble;

/// How often directories are listed again for what came and went.
pub const RELIST_EVERY: Duration = Duration::from_mins(1);

/// What was found, and when it was looked for last.
#[derive(Debug, Default)]
pub struct Listing<T> {
    found: T,
    last: Option<Duration>,
}

impl<T: Default> Listing<T> {
    /// What was found last.
    pub fn found(&self) -> &T {
        &self.found
    }

    /// What was found last, to be read.
    pub fn found_mut(&mut self) -> &mut T {
        &mut self.found
    }

    /// Lists if it is time.
    pub fn refresh(&mut self, now: Moment, list: impl FnOnce() -> Result<T, Trouble>) -> Result<(), Trouble> {
        if self.last.is_some_and(|last| now.up < last + RELIST_EVERY) {
            return Ok(());
        }
        self.last = Some(now.up);
        self.found = T::default();
        self.found = list().inspect_err(|trouble| {
            // What is not there now may come, but not so soon that every scrape has to look; anything else is tried
            // again at once.
            if !trouble.is_absent() {
                self.last = None;
            }
        })?;
        Ok(())
    }

    /// Asks for a listing at the next chance.
    pub fn soon(&mut self) {
        self.last = None;
    }
}

/// A file with one value in it, and the value that was there last.
#[derive(Debug)]
pub struct Reading<T> {
    probe: Probe,
    parse: fn(&[u8]) -> Option<T>,
    /// None if it cannot be read or means nothing.
    pub now: Option<T>,
}

impl<T: Copy> Reading<T> {
    /// A file whose text `parse` understands.
    pub fn new(probe: Probe, parse: fn(&[u8]) -> Option<T>) -> Self {
        Self { probe, parse, now: None }
    }

    /// Reads the file; true if there is a value.
    pub fn take(&mut self, buffer: &mut Buffer) -> Result<bool, Trouble> {
        self.now = None;
        self.now = (self.parse)(self.probe.read(buffer)?);
        Ok(self.now.is_some())
    }
}

/// Reads one after the other. What cannot be read costs only itself: a sensor that is asleep answers ENODATA, and that
/// is its business alone. If all fail, the first trouble is the source's; if there is nothing to read, `place` is absent.
pub fn read_each<I>(
    all: impl IntoIterator<Item = I>,
    place: impl FnOnce() -> PathBuf,
    mut read: impl FnMut(I) -> Result<bool, Trouble>,
) -> Result<(), Trouble> {
    let mut any = false;
    let mut first = None;
    for one in all {
        match read(one) {
            Ok(something) => any |= something,
            Err(trouble) => drop(first.get_or_insert(trouble)),
        }
    }
    if any { Ok(()) } else { Err(first.unwrap_or_else(|| Trouble::Absent { path: place() })) }
}
