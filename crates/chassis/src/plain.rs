//! Opening a file that has to be one: a pipe that nobody writes to, or a device, must not make anybody wait.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// `O_NONBLOCK` on every Linux we are built for: opening a pipe returns at once.
const O_NONBLOCK: i32 = 0o4000;

/// Why there is no file to read.
#[derive(Debug, thiserror::Error)]
pub enum NotPlain {
    /// It cannot be opened.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is a pipe, a device or a directory.
    #[error("it is not a file")]
    NotAFile,
}

/// Opens a plain file for reading, and refuses everything else without waiting for it.
pub fn open(path: &Path) -> Result<File, NotPlain> {
    let file = OpenOptions::new().read(true).custom_flags(O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(NotPlain::NotAFile) }
}
