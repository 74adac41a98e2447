//! Text archives, as Prometheus keeps recorded `/proc` and `/sys` trees: every file between a line with its path and
//! one with its mode. Modes are not restored, so that a tree reads the same for every user.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Component, Path};

use crate::places::FileTrouble;

/// One entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    /// A directory.
    Directory(&'a str),
    /// A file and what is in it.
    File(&'a str, Vec<u8>),
    /// A symbolic link and where it points.
    Link(&'a str, &'a str),
}

impl Entry<'_> {
    /// Where it goes.
    pub fn path(&self) -> &str {
        let (Self::Directory(path) | Self::File(path, _) | Self::Link(path, _)) = self;
        path
    }
}

/// The archive is not one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum TtarError {
    /// A line that means nothing where it stands.
    #[error("line {number} of the archive is {line:?}, which says neither path nor mode")]
    Line {
        /// Counted from 1.
        number: usize,
        /// The line.
        line: String,
    },
    /// It ends inside a file.
    #[error("the archive ends inside {path:?}")]
    Short {
        /// The file.
        path: String,
    },
    /// A path that leads out of where it is unpacked.
    #[error("the archive holds {path:?}, which is not below the directory it is unpacked in")]
    Outside {
        /// The path.
        path: String,
    },
}

/// Reads an archive.
pub fn read(archive: &str) -> Result<Vec<Entry<'_>>, TtarError> {
    let mut entries = Vec::new();
    let mut path = None;
    // Not `lines()`, which would take a carriage return for part of the line's end.
    let mut lines = archive.strip_suffix('\n').unwrap_or(archive).split('\n').enumerate();
    while let Some((number, line)) = lines.next() {
        let odd = || TtarError::Line { number: number + 1, line: line.to_owned() };
        if line.starts_with('#') || line.starts_with("Mode: ") || line.is_empty() {
        } else if let Some(directory) = line.strip_prefix("Directory: ") {
            entries.push(Entry::Directory(inside(directory)?));
        } else if let Some(file) = line.strip_prefix("Path: ") {
            path = Some(inside(file)?);
        } else if let Some(target) = line.strip_prefix("SymlinkTo: ") {
            entries.push(Entry::Link(path.take().ok_or_else(odd)?, target));
        } else if let Some(count) = line.strip_prefix("Lines: ") {
            let path = path.take().ok_or_else(odd)?;
            let count: usize = count.parse().map_err(|_| odd())?;
            let mut text = Vec::new();
            for _ in 0..count {
                let (_, line) = lines.next().ok_or_else(|| TtarError::Short { path: path.to_owned() })?;
                text.extend(unescaped(line));
            }
            entries.push(Entry::File(path, text));
        } else {
            return Err(odd());
        }
    }
    Ok(entries)
}

/// A line as it stood in the file: a bare `EOF` marks a last line without its newline, `NULLBYTE` is a zero byte, and a
/// backslash before either is only there to say that it is meant as it stands.
fn unescaped(line: &str) -> Vec<u8> {
    let (mut text, mut rest, mut whole) = (Vec::new(), line, true);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("\\EOF") {
            text.extend(b"EOF");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("\\NULLBYTE") {
            text.extend(b"NULLBYTE");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("NULLBYTE") {
            text.push(0);
            rest = after;
        } else if rest == "EOF" {
            whole = false;
            rest = "";
        } else {
            let length = rest.chars().next().map_or(1, char::len_utf8);
            text.extend(&rest.as_bytes()[..length]);
            rest = &rest[length..];
        }
    }
    if whole {
        text.push(b'\n');
    }
    text
}

fn inside(path: &str) -> Result<&str, TtarError> {
    let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    if plain { Ok(path) } else { Err(TtarError::Outside { path: path.to_owned() }) }
}

/// Writes what an archive holds into a directory.
pub fn write(entries: &[Entry<'_>], directory: &Path) -> Result<(), FileTrouble> {
    for entry in entries {
        let place = directory.join(entry.path());
        let parent =
            if matches!(entry, Entry::Directory(_)) { Some(place.as_path()) } else { place.parent() };
        let parent = parent.unwrap_or(directory);
        fs::create_dir_all(parent).map_err(|cause| FileTrouble::new("create", parent, cause))?;
        let written = match entry {
            Entry::Directory(_) => Ok(()),
            Entry::File(_, text) => fs::write(&place, text),
            Entry::Link(_, target) => symlink(target, &place),
        };
        written.map_err(|cause| FileTrouble::new("write", &place, cause))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    const ARCHIVE: &str = "# Archive created by ttar\n\
        Directory: sys/class\nMode: 755\n# ttar - - -\n\
        Path: sys/class/name\nLines: 1\ncoretemp\nMode: 644\n# ttar - - -\n\
        Path: sys/class/odd\nLines: 2\na\\EOFbNULLBYTE\\NULLBYTE\nlastEOF\nMode: 644\n# ttar - - -\n\
        Path: sys/class/empty\nLines: 0\nMode: 644\n# ttar - - -\n\
        Path: sys/class/device\nSymlinkTo: ../devices/x\n# ttar - - -\n";

    #[test]
    fn files_links_and_directories_come_out_as_they_went_in() {
        let expected = [
            Entry::Directory("sys/class"),
            Entry::File("sys/class/name", b"coretemp\n".to_vec()),
            Entry::File("sys/class/odd", b"aEOFb\0NULLBYTE\nlast".to_vec()),
            Entry::File("sys/class/empty", Vec::new()),
            Entry::Link("sys/class/device", "../devices/x"),
        ];
        let entries = read(ARCHIVE).expect("it is one");
        assert_eq!(entries, expected);

        let scratch = Scratch::new();
        write(&entries, scratch.path()).expect("the directory is writable");
        let place = scratch.path().join("sys/class");
        assert_eq!(fs::read(place.join("odd")).expect("written"), b"aEOFb\0NULLBYTE\nlast");
        assert_eq!(fs::read_link(place.join("device")).expect("a link"), Path::new("../devices/x"));
    }

    #[test]
    fn what_is_no_archive_is_refused() {
        let cases = [
            ("hello\n", "line 1 of the archive is \"hello\", which says neither path nor mode"),
            ("Lines: 1\nx\n", "line 1 of the archive is \"Lines: 1\", which says neither path nor mode"),
            (
                "Path: a\nLines: x\n",
                "line 2 of the archive is \"Lines: x\", which says neither path nor mode",
            ),
            ("Path: a\nLines: 2\nx\n", "the archive ends inside \"a\""),
            (
                "Path: ../a\nLines: 0\n",
                "the archive holds \"../a\", which is not below the directory it is unpacked in",
            ),
            (
                "Directory: /etc\n",
                "the archive holds \"/etc\", which is not below the directory it is unpacked in",
            ),
        ];
        for (archive, expected) in cases {
            assert_eq!(
                read(archive).map_err(|error| error.to_string()),
                Err(expected.to_owned()),
                "{archive}"
            );
        }
    }
}
