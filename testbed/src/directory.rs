//! The directory of one cluster, and whether somebody still lives in it.
//!
//! The owner holds a lock on a file in it. The system drops the lock when the owner dies, so "is it alive" has one
//! answer that no crash can falsify; a directory without a held lock is what a killed run left behind.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::places::FileTrouble;
use crate::processes;

/// How long the logs of a failed run are kept.
const KEEP_FAILED: Duration = Duration::from_hours(7 * 24);

/// What a cluster says about itself to other processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Card {
    /// The process that owns the cluster.
    pub pid: u32,
    /// The Kubernetes minor.
    pub kubernetes: String,
    /// How far it is.
    pub phase: Phase,
    /// Where the API server listens.
    pub api: String,
    /// Where Prometheus listens, if there is one.
    pub prometheus: Option<String>,
    /// Where metric values can be set, if there is telemetry.
    pub exporter: Option<String>,
    /// Where `tas` tells how it is, if it is attached.
    #[serde(default)]
    pub tas: Option<String>,
}

impl std::fmt::Display for Card {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string_pretty(self).map_err(|_| std::fmt::Error)?)
    }
}

/// How far a cluster is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Not everything answers yet.
    Starting,
    /// Everything answers.
    Ready,
    /// It could not start, or a test in it failed; the logs were kept.
    Failed,
}

/// Nobody can live there.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Somebody does already.
    #[error(
        "a cluster named {name:?} is running; end it with `cargo xtask cluster down {name}` or choose another name"
    )]
    Occupied {
        /// Its name.
        name: String,
    },
    /// The name would lead somewhere else.
    #[error("{name:?} is no name for a cluster; use up to 40 small letters, digits and dashes")]
    BadName {
        /// What was asked for.
        name: String,
    },
    /// The disk will not have it.
    #[error(transparent)]
    File(#[from] FileTrouble),
}

/// A directory we live in.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    _held: File,
}

impl Directory {
    /// Moves in, after throwing out what a killed run left under the same name.
    pub fn claim(state: &Path, name: &str) -> Result<Self, DirectoryError> {
        let path = place(state, name)?;
        let _registry = registry(state)?;
        create(&path)?;
        let Some(held) = try_hold(&path)? else {
            return Err(DirectoryError::Occupied { name: name.to_owned() });
        };
        empty(&path)?;
        for part in ["pki", "logs", "data"] {
            create(&path.join(part))?;
        }
        Ok(Self { path, _held: held })
    }

    /// The directory itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file or directory in it.
    pub fn join(&self, part: impl AsRef<Path>) -> PathBuf {
        self.path.join(part)
    }

    /// Writes a file in it.
    pub fn write(&self, part: &str, text: &str) -> Result<PathBuf, FileTrouble> {
        let path = self.path.join(part);
        fs::write(&path, text).map_err(|cause| FileTrouble::new("write", &path, cause))?;
        Ok(path)
    }

    /// Tells other processes how things stand.
    pub fn show(&self, card: &Card) -> Result<(), FileTrouble> {
        let text = card.to_string();
        // Renamed into place, so that a reader never meets half of it.
        let new = self.write("card.json.new", &text)?;
        let path = self.join("card.json");
        fs::rename(&new, &path).map_err(|cause| FileTrouble::new("write", &path, cause))
    }

    /// Moves out and takes everything along.
    pub fn remove(&self) {
        let _ = fs::remove_dir_all(&self.path);
    }

    /// Moves out but leaves what explains a failure; data and keys go.
    pub fn keep_logs(&self) {
        for part in ["data", "pki"] {
            let _ = fs::remove_dir_all(self.path.join(part));
        }
    }
}

/// A directory seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resident {
    /// The cluster's name.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// What it says about itself, if it got that far.
    pub card: Option<Card>,
    /// Whether its owner lives.
    pub alive: bool,
}

/// Everybody in the state directory, by name.
pub fn residents(state: &Path) -> Result<Vec<Resident>, FileTrouble> {
    let _registry = registry(state)?;
    look_around(state)
}

fn look_around(state: &Path) -> Result<Vec<Resident>, FileTrouble> {
    let clusters = state.join("clusters");
    let entries = match fs::read_dir(&clusters) {
        Ok(entries) => entries,
        Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(FileTrouble::new("read", &clusters, cause)),
    };
    let mut residents = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            let alive = try_hold(&path)?.is_none();
            let card =
                fs::read(path.join("card.json")).ok().and_then(|text| serde_json::from_slice(&text).ok());
            residents.push(Resident { name, path, card, alive });
        }
    }
    residents.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(residents)
}

/// One of them.
pub fn resident(state: &Path, name: &str) -> Result<Option<Resident>, DirectoryError> {
    place(state, name)?;
    Ok(residents(state)?.into_iter().find(|resident| resident.name == name))
}

/// Removes a directory that nobody lives in, and any process that still belongs to it.
pub fn evict(resident: &Resident) -> Result<(), FileTrouble> {
    let Some(_held) = try_hold(&resident.path)? else { return Ok(()) };
    processes::kill_all_of(&resident.path);
    fs::remove_dir_all(&resident.path).map_err(|cause| FileTrouble::new("remove", &resident.path, cause))
}

/// Removes what killed runs left, at once, and the logs of failed runs after a week. Returns the names removed.
pub fn sweep(state: &Path, now: SystemTime) -> Result<Vec<String>, FileTrouble> {
    let _registry = registry(state)?;
    let mut removed = Vec::new();
    for resident in look_around(state)?.into_iter().filter(|resident| !resident.alive) {
        let failed = resident.card.as_ref().is_some_and(|card| card.phase == Phase::Failed);
        let age = fs::metadata(&resident.path)
            .and_then(|found| found.modified())
            .ok()
            .and_then(|changed| now.duration_since(changed).ok())
            .unwrap_or_default();
        if !failed || age > KEEP_FAILED {
            evict(&resident)?;
            removed.push(resident.name);
        }
    }
    Ok(removed)
}

fn place(state: &Path, name: &str) -> Result<PathBuf, DirectoryError> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || name.len() > 40 || !name.bytes().all(plain) {
        return Err(DirectoryError::BadName { name: name.to_owned() });
    }
    Ok(state.join("clusters").join(name))
}

fn create(path: &Path) -> Result<(), FileTrouble> {
    fs::create_dir_all(path).map_err(|cause| FileTrouble::new("create", path, cause))
}

/// Held while locks of single directories are tried: a look must not be mistaken for an owner, nor a directory that is
/// just being claimed for an abandoned one.
fn registry(state: &Path) -> Result<File, FileTrouble> {
    create(state)?;
    let path = state.join("registry.lock");
    let file = File::create(&path).map_err(|cause| FileTrouble::new("create", &path, cause))?;
    file.lock().map_err(|cause| FileTrouble::new("lock", &path, cause))?;
    Ok(file)
}

/// The lock, unless somebody holds it.
fn try_hold(path: &Path) -> Result<Option<File>, FileTrouble> {
    let lock = path.join("lock");
    let file = File::create(&lock).map_err(|cause| FileTrouble::new("create", &lock, cause))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(cause)) => Err(FileTrouble::new("lock", &lock, cause)),
    }
}

/// Removes everything but the lock we hold.
fn empty(path: &Path) -> Result<(), FileTrouble> {
    processes::kill_all_of(path);
    let entries = fs::read_dir(path).map_err(|cause| FileTrouble::new("read", path, cause))?;
    for entry in entries.flatten().filter(|entry| entry.file_name() != "lock") {
        let old = entry.path();
        let gone = if old.is_dir() { fs::remove_dir_all(&old) } else { fs::remove_file(&old) };
        gone.map_err(|cause| FileTrouble::new("remove", &old, cause))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn card(phase: Phase) -> Card {
        Card {
            pid: 1,
            kubernetes: "1.36".to_owned(),
            phase,
            api: "https://127.0.0.1:15000".to_owned(),
            prometheus: None,
            exporter: None,
            tas: None,
        }
    }

    #[test]
    fn a_name_is_taken_for_as_long_as_its_owner_lives() {
        let scratch = Scratch::new();
        let first = Directory::claim(scratch.path(), "demo").expect("free");
        let refusal = Directory::claim(scratch.path(), "demo").expect_err("taken");
        assert_eq!(
            refusal.to_string(),
            "a cluster named \"demo\" is running; end it with `cargo xtask cluster down demo` or choose another name"
        );
        drop(first);
        Directory::claim(scratch.path(), "demo").expect("free again");
    }

    #[test]
    fn what_a_killed_run_left_is_gone_when_the_name_is_claimed_again() {
        let scratch = Scratch::new();
        let path =
            Directory::claim(scratch.path(), "demo").expect("free").write("data/old", "x").expect("written");
        Directory::claim(scratch.path(), "demo").expect("free again");
        assert!(!path.exists());
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        let scratch = Scratch::new();
        for name in ["", "..", "a/b", "Demo", &"x".repeat(41)] {
            let refusal = Directory::claim(scratch.path(), name).expect_err(name);
            assert!(matches!(refusal, DirectoryError::BadName { .. }), "{refusal}");
        }
    }

    #[test]
    fn sweeping_spares_the_living_and_the_freshly_failed() {
        let scratch = Scratch::new();
        let living = Directory::claim(scratch.path(), "living").expect("free");
        living.show(&card(Phase::Ready)).expect("shown");
        for (name, phase) in [("killed", Phase::Ready), ("failed", Phase::Failed)] {
            Directory::claim(scratch.path(), name).expect("free").show(&card(phase)).expect("shown");
        }
        let now = SystemTime::now();
        assert_eq!(sweep(scratch.path(), now).expect("swept"), ["killed"]);
        assert_eq!(sweep(scratch.path(), now + 2 * KEEP_FAILED).expect("swept"), ["failed"]);
        let left = residents(scratch.path()).expect("read");
        assert_eq!(
            left,
            [Resident {
                name: "living".to_owned(),
                path: living.path().to_owned(),
                card: Some(card(Phase::Ready)),
                alive: true,
            }]
        );
    }
}
