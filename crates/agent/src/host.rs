//! The host's files below a root, and probes that read them without ever waiting for a writer.
//!
//! Probes keep their descriptor between reads, check what they opened, and stop at a limit.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chassis::plain::{self, NotPlain};

use crate::trouble::Trouble;

/// Descriptors kept open between reads; past this many, files are opened anew each time.
pub const MAX_KEPT_DESCRIPTORS: usize = 512;
/// The most a sysfs attribute can hold is a page; this leaves room.
pub const ATTRIBUTE_LIMIT: usize = 8 * 1024;
/// The most read from one file of /proc: `/proc/stat` of a 4,096-CPU host fits.
pub const TABLE_LIMIT: usize = 1024 * 1024;
/// Entries looked at in one directory.
pub const MAX_ENTRIES: usize = 20_000;

/// Where the host's `proc` and `sys` are.
#[derive(Clone, Debug)]
pub struct Host {
    root: PathBuf,
    kept: Arc<AtomicUsize>,
}

impl Host {
    /// A host whose files are below `root`; `/` is this machine.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_owned(), kept: Arc::default() }
    }

    /// The path of `relative` below the root.
    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative.trim_start_matches('/'))
    }

    /// A probe of a sysfs attribute or another file whose text comes in one read.
    pub fn attribute(&self, path: PathBuf) -> Probe {
        Probe { path, shape: Shape::Whole, limit: ATTRIBUTE_LIMIT, file: None, kept: Arc::clone(&self.kept) }
    }

    /// A probe of a /proc table, which the kernel hands out page by page.
    pub fn table(&self, path: PathBuf) -> Probe {
        Probe { path, shape: Shape::Paged, limit: TABLE_LIMIT, file: None, kept: Arc::clone(&self.kept) }
    }
}

/// How the kernel hands out a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// A read shorter than the buffer is the whole text.
    Whole,
    /// The kernel hands out whole lines, as many as fit into a page: a read that leaves half a page free was the last,
    /// and otherwise only an empty one is the end.
    Paged,
}

impl Shape {
    /// Whether a read of so many bytes, where so many were asked for, was the last.
    fn ended(self, read: usize, asked: usize) -> bool {
        match self {
            Self::Whole => read < asked,
            Self::Paged => read < asked.min(HALF_A_PAGE),
        }
    }
}

/// More than any line of a /proc table that has more than one.
const HALF_A_PAGE: usize = 2048;

/// A file to be read again and again.
#[derive(Debug)]
pub struct Probe {
    path: PathBuf,
    shape: Shape,
    limit: usize,
    file: Option<File>,
    kept: Arc<AtomicUsize>,
}

impl Probe {
    /// What it reads.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file from its beginning into `buffer` and returns what is there.
    pub fn read<'b>(&mut self, buffer: &'b mut Buffer) -> Result<&'b [u8], Trouble> {
        // On any error the descriptor is dropped: a driver that was reloaded has new files under the old names.
        let file = match self.file.take() {
            Some(file) => {
                self.kept.fetch_sub(1, Ordering::Relaxed);
                file
            }
            None => open_plain(&self.path)?,
        };
        let length = read_open(&self.path, &file, self.shape, self.limit, buffer)?;
        if self.kept.fetch_add(1, Ordering::Relaxed) < MAX_KEPT_DESCRIPTORS {
            self.file = Some(file);
        } else {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(&buffer.bytes[..length])
    }

    /// As `read`, but opens the file again if the one held has been deleted.
    pub fn read_current<'b>(&mut self, buffer: &'b mut Buffer) -> Result<&'b [u8], Trouble> {
        let gone = self.file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|m| m.nlink() == 0));
        if gone {
            self.forget();
        }
        self.read(buffer)
    }

    fn forget(&mut self) {
        if self.file.take().is_some() {
            self.kept.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.forget();
    }
}

/// Opens a plain file, and refuses everything that could block, without blocking.
pub fn open_plain(path: &Path) -> Result<File, Trouble> {
    plain::open(path).map_err(|not_plain| match not_plain {
        NotPlain::Io(error) => Trouble::from_io(path, &error),
        NotPlain::NotAFile => Trouble::NotAFile { path: path.to_owned() },
    })
}

/// Reads a small file once, keeping no descriptor.
pub fn read_once<'b>(path: &Path, buffer: &'b mut Buffer) -> Result<&'b [u8], Trouble> {
    let file = open_plain(path)?;
    let length = read_open(path, &file, Shape::Whole, ATTRIBUTE_LIMIT, buffer)?;
    Ok(&buffer.bytes[..length])
}

/// Reads an open file from its beginning; returns how many bytes there are in the buffer.
fn read_open(
    path: &Path,
    file: &File,
    shape: Shape,
    limit: usize,
    buffer: &mut Buffer,
) -> Result<usize, Trouble> {
    fault(path)?;
    buffer.fill(file, shape, limit).map_err(|error| match error {
        FillError::Io(error) => Trouble::from_io(path, &error),
        FillError::TooLarge => Trouble::TooLarge { path: path.to_owned(), limit },
    })
}

/// Errors that tests ask for; without made hosts there are none.
#[cfg(feature = "fixtures")]
fn fault(path: &Path) -> Result<(), Trouble> {
    crate::fixtures::faults::at(path).map_or(Ok(()), |error| Err(Trouble::from_io(path, &error)))
}

#[cfg(not(feature = "fixtures"))]
#[expect(clippy::unnecessary_wraps, reason = "the other one can fail")]
fn fault(_path: &Path) -> Result<(), Trouble> {
    Ok(())
}

/// Reads one number from a small file, keeping no descriptor.
pub fn number_once(path: &Path, buffer: &mut Buffer) -> Result<u64, Trouble> {
    let text = read_once(path, buffer)?;
    crate::scan::lone_number(text)
        .ok_or_else(|| Trouble::Garbage { path: path.to_owned(), expected: "one number" })
}

/// The names in a directory, sorted; names that are not UTF-8 are left out, as the kernel writes none.
pub fn names_in(directory: &Path) -> Result<Vec<String>, Trouble> {
    let trouble = |error: io::Error| Trouble::from_io(directory, &error);
    fault(directory)?;
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(trouble)?.take(MAX_ENTRIES) {
        if let Ok(name) = entry.map_err(trouble)?.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A byte buffer that grows to what was needed and is then reused.
#[derive(Debug, Default)]
pub struct Buffer {
    bytes: Vec<u8>,
}

enum FillError {
    Io(io::Error),
    TooLarge,
}

impl Buffer {
    fn fill(&mut self, file: &File, shape: Shape, limit: usize) -> Result<usize, FillError> {
        if self.bytes.is_empty() {
            self.bytes.resize(4096, 0);
        }
        let mut length = 0;
        loop {
            if length == self.bytes.len() {
                if length > limit {
                    return Err(self.give_up());
                }
                self.bytes.resize(length * 2, 0);
            }
            let room = &mut self.bytes[length..];
            let asked = room.len();
            match file.read_at(room, length as u64) {
                Ok(0) => break,
                Ok(read) => {
                    length += read;
                    if shape.ended(read, asked) {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FillError::Io(error)),
            }
        }
        if length > limit { Err(self.give_up()) } else { Ok(length) }
    }

    /// One absurd file must not leave its size behind in this process.
    fn give_up(&mut self) -> FillError {
        self.bytes = Vec::new();
        FillError::TooLarge
    }
}

/// The entries `<prefix><number>` of a directory, by number.
pub fn numbered(directory: &Path, prefix: &str) -> Result<Vec<(u32, PathBuf)>, Trouble> {
    let number = |name: &String| name.strip_prefix(prefix)?.parse::<u32>().ok();
    let mut found: Vec<(u32, PathBuf)> =
        names_in(directory)?.iter().filter_map(|name| Some((number(name)?, directory.join(name)))).collect();
    found.sort_unstable();
    found.dedup_by_key(|(number, _)| *number);
    Ok(found)
}

#[cfg(test)]
mod tests;
