//! Where the test bed keeps things, and what to do when the disk will not have them.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// The directories of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Built programs; shared by all clusters and all checkouts.
    pub cache: PathBuf,
    /// A directory per cluster.
    pub state: PathBuf,
    /// Programs the user gives us instead (`TAS_TESTBED_BIN`).
    pub given: Option<PathBuf>,
    /// The directories of `PATH`, in order.
    pub path: Vec<PathBuf>,
}

/// The environment does not say where to keep things.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum PlacesError {
    /// Neither the exact variable nor a home directory.
    #[error(
        "neither {variable} nor HOME is set, so there is no place for the test bed's files; set one of them"
    )]
    Homeless {
        /// The variable that would have helped.
        variable: &'static str,
    },
    /// A directory that was given is not there.
    #[error("TAS_TESTBED_BIN is {path:?}, which is not a directory; correct it or unset it")]
    NotADirectory {
        /// What the variable says.
        path: PathBuf,
    },
}

impl Places {
    /// The places of the user who runs this process.
    pub fn of_this_user() -> Result<Self, PlacesError> {
        let places = Self::from_variables(|name| std::env::var_os(name))?;
        match &places.given {
            Some(path) if !path.is_dir() => Err(PlacesError::NotADirectory { path: path.clone() }),
            _ => Ok(places),
        }
    }

    /// The Go toolchain on `PATH`.
    pub fn go(&self) -> Option<PathBuf> {
        self.path.iter().map(|directory| directory.join("go")).find(|file| file.is_file())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, PlacesError> {
        // The XDG rules: an empty or relative value counts as unset.
        let directory = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let home = |below: &str| directory("HOME").map(|home| home.join(below));
        Ok(Self {
            cache: directory("XDG_CACHE_HOME")
                .or_else(|| home(".cache"))
                .ok_or(PlacesError::Homeless { variable: "XDG_CACHE_HOME" })?
                .join("tas/testbed"),
            state: match directory("TAS_TESTBED_STATE") {
                Some(state) => state,
                None => directory("XDG_STATE_HOME")
                    .or_else(|| home(".local/state"))
                    .ok_or(PlacesError::Homeless { variable: "TAS_TESTBED_STATE" })?
                    .join("tas/testbed"),
            },
            given: variable("TAS_TESTBED_BIN").filter(|given| !given.is_empty()).map(PathBuf::from),
            path: variable("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default(),
        })
    }
}

/// A file operation that failed, with what a person can do about it.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {path:?}: {cause}{}", way_out(cause.kind()))]
pub struct FileTrouble {
    doing: &'static str,
    path: PathBuf,
    cause: io::Error,
}

impl FileTrouble {
    /// Says what was being done to which path.
    pub fn new(doing: &'static str, path: impl AsRef<Path>, cause: io::Error) -> Self {
        Self { doing, path: path.as_ref().to_owned(), cause }
    }

    /// What the system said.
    pub fn kind(&self) -> io::ErrorKind {
        self.cause.kind()
    }
}

/// Refuses to begin in a directory that has not this much room; half a cluster explains itself badly.
pub fn check_room(directory: &Path, needed: u64) -> Result<(), FileTrouble> {
    let trouble = |cause| FileTrouble::new("use", directory, cause);
    std::fs::create_dir_all(directory).map_err(|cause| FileTrouble::new("create", directory, cause))?;
    let found = rustix::fs::statvfs(directory).map_err(|cause| trouble(cause.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free >= needed {
        return Ok(());
    }
    let text = format!("{} MB are free, {} MB are needed", free >> 20, needed >> 20);
    Err(trouble(io::Error::new(io::ErrorKind::StorageFull, text)))
}

fn way_out(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space there, or set XDG_CACHE_HOME (programs) or TAS_TESTBED_STATE (clusters) to another disk"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; set XDG_CACHE_HOME (programs) or TAS_TESTBED_STATE (clusters) to a directory you may write to"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)]) -> Result<Places, PlacesError> {
        Places::from_variables(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn a_plain_home_is_enough() {
        assert_eq!(
            places(&[("HOME", "/home/ada"), ("PATH", "/bin:/usr/bin")]),
            Ok(Places {
                cache: "/home/ada/.cache/tas/testbed".into(),
                state: "/home/ada/.local/state/tas/testbed".into(),
                given: None,
                path: vec!["/bin".into(), "/usr/bin".into()],
            })
        );
    }

    #[test]
    fn the_exact_variables_win_over_home() {
        let variables = [
            ("HOME", "/home/ada"),
            ("XDG_CACHE_HOME", "/big/cache"),
            ("TAS_TESTBED_STATE", "/fast/clusters"),
            ("TAS_TESTBED_BIN", "/opt/kube"),
        ];
        assert_eq!(
            places(&variables),
            Ok(Places {
                cache: "/big/cache/tas/testbed".into(),
                state: "/fast/clusters".into(),
                given: Some("/opt/kube".into()),
                path: Vec::new(),
            })
        );
    }

    #[test]
    fn without_a_home_the_missing_variable_is_named() {
        assert_eq!(places(&[]), Err(PlacesError::Homeless { variable: "XDG_CACHE_HOME" }));
    }

    #[test]
    fn a_disk_without_room_is_refused_before_anything_is_started() {
        let scratch = crate::scratch::Scratch::new();
        check_room(scratch.path(), 0).expect("nothing fits everywhere");
        let refusal = check_room(scratch.path(), u64::MAX).expect_err("no disk is that large");
        assert_eq!(refusal.kind(), io::ErrorKind::StorageFull);
        assert!(refusal.to_string().contains(" MB are needed; free some space there, or set "), "{refusal}");
    }

    #[test]
    fn a_full_disk_names_the_way_out() {
        let trouble = FileTrouble::new("write", "/state/x", io::ErrorKind::StorageFull.into());
        assert_eq!(
            trouble.to_string(),
            "cannot write \"/state/x\": no storage space; free some space there, or set XDG_CACHE_HOME (programs) \
             or TAS_TESTBED_STATE (clusters) to another disk"
        );
    }

    #[test]
    fn a_forbidden_directory_names_the_way_out() {
        let trouble = FileTrouble::new("create", "/state", io::ErrorKind::PermissionDenied.into());
        assert_eq!(
            trouble.to_string(),
            "cannot create \"/state\": permission denied; set XDG_CACHE_HOME (programs) or TAS_TESTBED_STATE \
             (clusters) to a directory you may write to"
        );
    }
}
