//! Why a source gave nothing, in words for people and in a closed set of words for metrics.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// What kept a file or directory from being read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    /// The host does not have it, or it is not mounted below the root.
    #[error("{path:?} is not there")]
    Absent {
        /// What was looked for.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("{path:?} may not be read by this user")]
    Denied {
        /// What was looked for.
        path: PathBuf,
    },
    /// The kernel answered with some other error.
    #[error("{path:?} failed: {kind}")]
    Failed {
        /// What was read.
        path: PathBuf,
        /// The error as the standard library names it.
        kind: io::ErrorKind,
        /// The number behind it, for the log.
        errno: Option<i32>,
    },
    /// A FIFO, socket, device or directory where a plain file belongs.
    #[error("{path:?} is not a plain file; it was left alone because reading it could block")]
    NotAFile {
        /// What was found.
        path: PathBuf,
    },
    /// More bytes than any kernel writes there.
    #[error("{path:?} is longer than {limit} bytes")]
    TooLarge {
        /// What was read.
        path: PathBuf,
        /// Where reading stopped.
        limit: usize,
    },
    /// Bytes that mean nothing.
    #[error("{path:?} does not hold {expected}")]
    Garbage {
        /// What was read.
        path: PathBuf,
        /// What belongs there.
        expected: &'static str,
    },
}

impl Trouble {
    /// Sorts an I/O error into the kinds above.
    pub fn from_io(path: &Path, error: &io::Error) -> Self {
        let path = path.to_owned();
        match error.kind() {
            // A file system that is not mounted and a driver that has gone look the same to a user.
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Self::Absent { path },
            io::ErrorKind::PermissionDenied => Self::Denied { path },
            kind => Self::Failed { path, kind, errno: error.raw_os_error() },
        }
    }

    /// The word used as metric label.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Absent { .. } => "absent",
            Self::Denied { .. } => "denied",
            Self::Failed { .. } => "failed",
            Self::NotAFile { .. } => "not_a_file",
            Self::TooLarge { .. } => "too_large",
            Self::Garbage { .. } => "garbage",
        }
    }

    /// Whether the host simply has no such thing, which is nothing to warn about.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::Absent { .. })
    }
}

/// Why a source is not on the page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Down {
    /// Somebody is still at it.
    #[error("an earlier reading has not come back")]
    Hangs,
    /// Reading it was a mistake of ours.
    #[error("an earlier reading failed in a way it should not")]
    Panicked,
    /// It could not be read.
    #[error(transparent)]
    Trouble(#[from] Trouble),
}

impl Down {
    /// The word used as metric label.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Hangs => "timeout",
            Self::Panicked => "panicked",
            Self::Trouble(trouble) => trouble.reason(),
        }
    }
}
