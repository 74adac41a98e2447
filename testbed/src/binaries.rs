//! Finds each program, or builds it once for everybody.
//!
//! Looked for in this order: the directory the user gives, the cache, `PATH` (if the version fits). What is found
//! nowhere is built by `compile` into the cache.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::compile::{CompileError, compile};
use crate::modules::cache_key;
use crate::places::{FileTrouble, Places, check_room};
use crate::processes::capture;
use crate::programs::Program;

/// How long a program on `PATH` may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// What all programs together take in the cache; the Go toolchain's own cache takes several times that.
const ROOM: u64 = 1 << 30;

/// The programs of a cluster, each with the file to start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binaries {
    found: BTreeMap<&'static str, PathBuf>,
}

/// A program can be neither found nor built.
#[derive(Debug, thiserror::Error)]
pub enum BinariesError {
    /// The disk will not have it.
    #[error(transparent)]
    File(#[from] FileTrouble),
    /// The build failed.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

impl Binaries {
    /// The file of a program that was asked for in [`provide`].
    pub fn path(&self, program: &Program) -> &Path {
        self.found.get(program.name).expect("a cluster asks only for programs it has provided")
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        self.found.iter().map(|(name, path)| (*name, path.as_path()))
    }
}

/// Finds or builds all of these. Blocks for as long as a build takes, and says so line by line.
pub fn provide(
    programs: &[Program],
    places: &Places,
    say: &mut dyn FnMut(String),
) -> Result<Binaries, BinariesError> {
    let mut binaries = Binaries::default();
    let mut missing = Vec::new();
    for program in programs {
        match locate(program, places) {
            Some(path) => drop(binaries.found.insert(program.name, path)),
            None => missing.push(*program),
        }
    }
    if missing.is_empty() {
        return Ok(binaries);
    }
    let _only_builder = lock(places, say)?;
    check_room(&places.cache, ROOM)?;
    for (index, program) in missing.iter().enumerate() {
        // Somebody else may have built it while we waited for the lock.
        let path = if let Some(path) = cached(program, places) {
            path
        } else {
            if let Some(other) = of_another_version(program, places) {
                say(format!(
                    "{} has only {other} of another version; it stays there, remove it if you need the room",
                    places.cache.join("bin").display(),
                ));
            }
            compile(program, places, &format!("{} of {}", index + 1, missing.len()), say)?
        };
        binaries.found.insert(program.name, path);
    }
    Ok(binaries)
}

/// Where the cache has, or would have, this program.
pub fn cache_path(program: &Program, places: &Places) -> PathBuf {
    places.cache.join("bin").join(cache_key(program)).join(program.name)
}

fn locate(program: &Program, places: &Places) -> Option<PathBuf> {
    let given =
        places.given.as_ref().map(|directory| directory.join(program.name)).filter(|file| executable(file));
    given.or_else(|| cached(program, places)).or_else(|| {
        places.path.iter().map(|directory| directory.join(program.name)).find(|file| {
            executable(file)
                && capture(file, program.version_arguments, VERSION_LIMIT)
                    .is_some_and(|version| version.contains(program.version_mark))
        })
    })
}

fn cached(program: &Program, places: &Places) -> Option<PathBuf> {
    Some(cache_path(program, places)).filter(|file| executable(file))
}

/// The entry of the same program built from other module files or with other flags, if there is one.
fn of_another_version(program: &Program, places: &Places) -> Option<String> {
    let prefix = format!("{}-", program.name);
    let entries = fs::read_dir(places.cache.join("bin")).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter(|name| *name != cache_key(program))
        .filter(|name| {
            name.strip_prefix(&prefix).is_some_and(|key| key.bytes().all(|byte| byte.is_ascii_hexdigit()))
        })
        .min()
}

fn executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// One builder at a time: two would fight for the same cores and the same packages.
pub(crate) fn lock(places: &Places, say: &mut dyn FnMut(String)) -> Result<File, FileTrouble> {
    fs::create_dir_all(&places.cache).map_err(|cause| FileTrouble::new("create", &places.cache, cause))?;
    let path = places.cache.join("build.lock");
    let file = File::create(&path).map_err(|cause| FileTrouble::new("create", &path, cause))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            say("another process is building the test bed's programs; waiting for it".to_owned());
            file.lock().map_err(|cause| FileTrouble::new("lock", &path, cause))?;
            Ok(file)
        }
        Err(TryLockError::Error(cause)) => Err(FileTrouble::new("lock", &path, cause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::ETCD;
    use crate::scratch::Scratch;

    fn script(directory: &Path, says: &str) -> PathBuf {
        fs::create_dir_all(directory).expect("a directory for the script");
        let file = directory.join(ETCD.name);
        // Written under another name first: a file that is still open for writing cannot be executed.
        fs::write(directory.join("new"), format!("#!/bin/sh\necho '{says}'\n"))
            .expect("the script is written");
        fs::set_permissions(directory.join("new"), fs::Permissions::from_mode(0o755))
            .expect("made executable");
        fs::rename(directory.join("new"), &file).expect("put into place");
        file
    }

    fn places(scratch: &Scratch) -> Places {
        Places {
            cache: scratch.path().join("cache"),
            state: scratch.path().join("state"),
            given: None,
            path: vec![scratch.path().join("old"), scratch.path().join("new")],
        }
    }

    #[test]
    fn a_program_of_another_version_on_path_is_passed_over() {
        let scratch = Scratch::new();
        script(&scratch.path().join("old"), "etcd Version: 3.4.1");
        assert_eq!(locate(&ETCD, &places(&scratch)), None);
        let fitting = script(&scratch.path().join("new"), "etcd Version: 3.7.9");
        assert_eq!(locate(&ETCD, &places(&scratch)), Some(fitting));
    }

    #[test]
    fn the_cache_wins_over_path_and_the_given_directory_over_both() {
        let scratch = Scratch::new();
        let mut places = places(&scratch);
        script(&scratch.path().join("new"), "etcd Version: 3.7.9");
        let cached = cache_path(&ETCD, &places);
        script(cached.parent().expect("a cache entry is in a directory"), "cached");
        assert_eq!(locate(&ETCD, &places), Some(cached));
        let given = script(&scratch.path().join("given"), "whatever the user says");
        places.given = Some(scratch.path().join("given"));
        assert_eq!(locate(&ETCD, &places), Some(given));
    }

    /// A `go` that takes its time and writes a line for every build.
    fn slow_toolchain(scratch: &Scratch) -> PathBuf {
        let bin = scratch.path().join("bin");
        let builds = scratch.path().join("builds");
        let text = format!(
            "#!/bin/sh\nif [ \"$1\" = env ]; then echo go1.26.0; exit; fi\n\
             while [ \"$1\" != -o ]; do shift; done\n\
             echo built >> {}\nsleep 0.2\necho program > $2\nchmod +x $2\n",
            builds.display()
        );
        fs::create_dir_all(&bin).expect("a directory for go");
        fs::write(bin.join("new"), text).expect("the script is written");
        fs::set_permissions(bin.join("new"), fs::Permissions::from_mode(0o755)).expect("made executable");
        fs::rename(bin.join("new"), bin.join("go")).expect("put into place");
        builds
    }

    #[test]
    fn two_that_ask_at_once_build_once() {
        let scratch = Scratch::new();
        let builds = slow_toolchain(&scratch);
        let places = Places { path: vec![scratch.path().join("bin")], ..places(&scratch) };
        let ask = || provide(&[ETCD], &places, &mut |_| ()).expect("it is built");
        let (one, other) = std::thread::scope(|scope| {
            let threads = (scope.spawn(ask), scope.spawn(ask));
            (threads.0.join().expect("no panic"), threads.1.join().expect("no panic"))
        });
        assert_eq!(one.path(&ETCD), cache_path(&ETCD, &places));
        assert_eq!(one, other);
        assert_eq!(fs::read_to_string(builds).expect("something was built"), "built\n");
    }

    #[test]
    fn a_cache_of_another_version_is_left_alone_and_mentioned() {
        let scratch = Scratch::new();
        slow_toolchain(&scratch);
        let places = Places { path: vec![scratch.path().join("bin")], ..places(&scratch) };
        let old = places.cache.join("bin/etcd-0123456789abcdef");
        script(&old, "an old etcd");
        script(&places.cache.join("bin/etcd-proxy-0123456789abcdef"), "another program");
        let mut said = Vec::new();
        let found = provide(&[ETCD], &places, &mut |line| said.push(line)).expect("it is built");
        assert_eq!(found.path(&ETCD), cache_path(&ETCD, &places));
        assert!(old.join("etcd").exists());
        let bin = places.cache.join("bin");
        assert_eq!(
            said.first(),
            Some(&format!(
                "{} has only etcd-0123456789abcdef of another version; it stays there, remove it if you need the room",
                bin.display()
            ))
        );
    }

    #[test]
    fn a_cache_directory_without_the_program_counts_as_empty() {
        let scratch = Scratch::new();
        let places = places(&scratch);
        fs::create_dir_all(cache_path(&ETCD, &places).parent().expect("it has a parent")).expect("made");
        assert_eq!(locate(&ETCD, &places), None);
    }
}
