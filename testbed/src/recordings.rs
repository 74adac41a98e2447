//! Machines that others recorded and publish inside their Go modules: fetched once, kept in the cache, laid out as the
//! `proc` and `sys` of a host. None of their files is in this repository.
//!
//! What they are, so that nobody takes them for more: those of ghw are recordings of real machines, which hold memory,
//! NUMA nodes, huge pages and CPU topology only. Those of node_exporter and procfs are collages: real files of several
//! machines side by side, some edited by hand, made to exercise parsers.

pub mod ttar;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::binaries::lock;
use crate::modules::{Module, cache_name};
use crate::places::{FileTrouble, Places};
use crate::processes::{SpawnError, bound, spawn};
use crate::workshop::Workshop;
use ttar::TtarError;

/// A Go module that carries recordings, as `go/recordings/go.mod` pins it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// How the cache calls it.
    pub name: &'static str,
    /// The module's path.
    pub module: &'static str,
    /// The module's version.
    pub version: &'static str,
    /// The files and directories of it that are kept.
    pub kept: &'static [&'static str],
}

/// What node_exporter is tested on.
pub const NODE_EXPORTER: Source = Source {
    name: "node-exporter",
    module: "github.com/prometheus/node_exporter",
    version: "v1.12.1",
    kept: &["collector/fixtures/sys.ttar", "collector/fixtures/proc", "collector/fixtures/textfile"],
};

/// What the library below node_exporter is tested on.
pub const PROCFS: Source = Source {
    name: "procfs",
    module: "github.com/prometheus/procfs",
    version: "v0.21.1",
    kept: &["testdata/fixtures.ttar"],
};

/// Snapshots that users of a hardware inventory sent in.
pub const GHW: Source = Source {
    name: "ghw",
    module: "github.com/jaypipes/ghw",
    version: "v0.26.0",
    kept: &["testdata/snapshots"],
};

/// All of them.
pub const SOURCES: [Source; 3] = [NODE_EXPORTER, PROCFS, GHW];

/// One recorded machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What tests call it.
    pub name: &'static str,
    /// Who publishes it.
    pub source: Source,
    parts: &'static [Part],
    /// Where its `proc` and `sys` are in what is unpacked.
    root: &'static str,
}

/// A file or directory of a module that a machine is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A text archive.
    Ttar(&'static str),
    /// A compressed archive.
    TarGz(&'static str),
    /// A directory as it is, and what it is called in the tree.
    Directory(&'static str, &'static str),
}

const fn snapshot(name: &'static str, parts: &'static [Part; 1]) -> Machine {
    Machine { name, source: GHW, parts, root: "" }
}

/// Every machine there is.
pub const MACHINES: [Machine; 10] = [
    Machine {
        name: "node-exporter",
        source: NODE_EXPORTER,
        parts: &[
            Part::Ttar("collector/fixtures/sys.ttar"),
            Part::Directory("collector/fixtures/proc", "proc"),
        ],
        root: "",
    },
    Machine {
        name: "procfs",
        source: PROCFS,
        parts: &[Part::Ttar("testdata/fixtures.ttar")],
        root: "fixtures",
    },
    snapshot(
        "two-sockets",
        &[Part::TarGz("testdata/snapshots/linux-amd64-8581cf3a529e5d8b97ea876eade2f60d.tar.gz")],
    ),
    snapshot(
        "hybrid-laptop",
        &[Part::TarGz("testdata/snapshots/linux-amd64-415ee03b8c4d1c4f07ae2e9d8b3d3d6d.tar.gz")],
    ),
    snapshot(
        "amd-desktop",
        &[Part::TarGz("testdata/snapshots/linux-amd64-61797caf7c0b6bca1725ad7975ed4773.tar.gz")],
    ),
    snapshot("cloud-gpu", &[Part::TarGz("testdata/snapshots/linux-amd64-accel-nvidia.tar.gz")]),
    snapshot("virtual-gpu", &[Part::TarGz("testdata/snapshots/linux-amd64-accel.tar.gz")]),
    snapshot("offline-cpus", &[Part::TarGz("testdata/snapshots/linux-amd64-offlineCPUs.tar.gz")]),
    snapshot(
        "arm64",
        &[Part::TarGz("testdata/snapshots/linux-arm64-c288e0776090cd558ef793b2a4e61939.tar.gz")],
    ),
    snapshot("s390x", &[Part::TarGz("testdata/snapshots/linux-s390x-snapshot.tar.gz")]),
];

/// Pieces of paths that neither the agent nor the collectors it is compared with read: two thirds of the files, which
/// need not be written.
const UNREAD: [&str; 8] = [
    "/cache/",
    "sys/block/",
    "sys/bus/",
    "sys/class/drm/",
    "sys/class/infiniband/",
    "sys/class/net/",
    "sys/devices/pci",
    "sys/fs/b",
];

/// A recording can be neither found nor fetched, or not be laid out.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// There is no `go`.
    #[error(
        "no Go toolchain on PATH, and the recordings of {module} are not in the cache; install Go {wanted} or newer \
         (https://go.dev/dl)"
    )]
    NoGo {
        /// What was to be fetched.
        module: &'static str,
        /// The oldest Go that will do.
        wanted: &'static str,
    },
    /// The download failed, or is not what was pinned.
    #[error("fetching {module} {version} failed; nothing was put into the cache. Go says:\n{said}")]
    Failed {
        /// What was to be fetched.
        module: &'static str,
        /// The version of it.
        version: &'static str,
        /// The end of its output.
        said: String,
    },
    /// An archive cannot be unpacked.
    #[error("cannot unpack {archive:?}: {cause}")]
    Archive {
        /// Which one.
        archive: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileTrouble),
    /// A process could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// The directory that holds what is kept of a module; fetched if it is not there yet.
pub fn provide(
    source: &Source,
    places: &Places,
    say: &mut dyn FnMut(String),
) -> Result<PathBuf, RecordingError> {
    let place = cache_path(source, places);
    if place.is_dir() {
        return Ok(place);
    }
    let _only_one = lock(places, say)?;
    if place.is_dir() {
        return Ok(place);
    }
    say(format!("fetching the recordings of {} {}", source.module, source.version));
    fetch(source, places, &place)?;
    Ok(place)
}

/// Where the cache has, or would have, what is kept of a module.
fn cache_path(source: &Source, places: &Places) -> PathBuf {
    let mut parts = vec![Module::RECORDINGS.go_sum, source.module, source.version];
    parts.extend_from_slice(source.kept);
    places.cache.join("recordings").join(cache_name(source.name, &parts))
}

fn fetch(source: &Source, places: &Places, place: &Path) -> Result<(), RecordingError> {
    let Source { module, version, .. } = *source;
    let go = places.go().ok_or(RecordingError::NoGo { module, wanted: Module::RECORDINGS.go() })?;
    let workshop = Workshop::open(places, &Module::RECORDINGS)?;
    let mut command = bound(&go);
    command.args(["mod", "download", "-json", &format!("{module}@{version}")]);
    command.current_dir(workshop.path()).env_remove("GOFLAGS").stdout(Stdio::piped()).stderr(Stdio::piped());
    let fetched =
        spawn(command)?.wait_with_output().map_err(|cause| FileTrouble::new("wait for", &go, cause))?;
    let answer: serde_json::Value = serde_json::from_slice(&fetched.stdout).unwrap_or_default();
    let Some(directory) = answer["Dir"].as_str().filter(|_| fetched.status.success()) else {
        let complaint = answer["Error"].as_str().map(str::to_owned);
        let said = complaint.unwrap_or_else(|| String::from_utf8_lossy(&fetched.stderr).trim().to_owned());
        return Err(RecordingError::Failed { module, version, said });
    };
    for kept in source.kept {
        copy(&Path::new(directory).join(kept), &workshop.output().join(kept))?;
    }
    Ok(workshop.keep_as(place)?)
}

/// Copies a file or a directory. What is in a module's directory may not be written to; copies may.
fn copy(from: &Path, to: &Path) -> Result<(), FileTrouble> {
    let trouble = |cause| FileTrouble::new("copy", from, cause);
    if from.is_dir() {
        fs::create_dir_all(to).map_err(|cause| FileTrouble::new("create", to, cause))?;
        for entry in fs::read_dir(from).map_err(trouble)? {
            let name = entry.map_err(trouble)?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent).map_err(|cause| FileTrouble::new("create", parent, cause))?;
    let text = fs::read(from).map_err(trouble)?;
    fs::write(to, text).map_err(|cause| FileTrouble::new("write", to, cause))
}

impl Machine {
    /// Lays the machine out below an empty directory, but for what is [`UNREAD`]; returns where its `proc` and `sys` are.
    /// `kept` is what [`provide`] returned for its source.
    pub fn lay_out(&self, kept: &Path, directory: &Path) -> Result<PathBuf, RecordingError> {
        for part in self.parts {
            match part {
                Part::Ttar(archive) => unpack_ttar(&kept.join(archive), directory)?,
                Part::TarGz(archive) => unpack_tar_gz(&kept.join(archive), directory)?,
                Part::Directory(from, to) => copy(&kept.join(from), &directory.join(to))?,
            }
        }
        Ok(if self.root.is_empty() { directory.to_owned() } else { directory.join(self.root) })
    }
}

fn unpack_ttar(archive: &Path, directory: &Path) -> Result<(), RecordingError> {
    let text = fs::read(archive).map_err(|cause| FileTrouble::new("read", archive, cause))?;
    let text = String::from_utf8_lossy(&text);
    let mut entries = ttar::read(&text).map_err(|cause: TtarError| RecordingError::Archive {
        archive: archive.to_owned(),
        cause: cause.to_string(),
    })?;
    entries.retain(|entry| !UNREAD.iter().any(|unread| entry.path().contains(unread)));
    Ok(ttar::write(&entries, directory)?)
}

fn unpack_tar_gz(archive: &Path, directory: &Path) -> Result<(), RecordingError> {
    let mut command = bound(Path::new("tar"));
    command.args(["--no-same-owner", "--no-same-permissions"]);
    command.args(UNREAD.map(|unread| format!("--exclude=*{unread}*")));
    command.arg("-xzf").arg(archive).arg("-C").arg(directory);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let output =
        spawn(command)?.wait_with_output().map_err(|cause| FileTrouble::new("unpack", archive, cause))?;
    if output.status.success() {
        return Ok(());
    }
    let cause = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(RecordingError::Archive { archive: archive.to_owned(), cause })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn every_source_is_pinned() {
        for Source { module, version, .. } in SOURCES {
            assert!(Module::RECORDINGS.go_mod.contains(&format!("\t{module} {version}\n")), "{module}");
            assert!(Module::RECORDINGS.go_sum.contains(&format!("{module} {version} h1:")), "{module}");
        }
    }

    #[test]
    fn every_machine_has_a_name_of_its_own_and_parts_that_are_kept() {
        let mut names: Vec<&str> = MACHINES.iter().map(|machine| machine.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), MACHINES.len());
        for machine in MACHINES {
            for Part::Ttar(path) | Part::TarGz(path) | Part::Directory(path, _) in machine.parts {
                assert!(machine.source.kept.iter().any(|kept| path.starts_with(kept)), "{path}");
            }
        }
    }

    #[test]
    fn what_was_fetched_once_needs_no_toolchain() {
        let scratch = Scratch::new();
        let module = scratch.path().join("module/testdata");
        fs::create_dir_all(&module).expect("a module");
        fs::write(module.join("fixtures.ttar"), "Path: fixtures/proc/loadavg\nLines: 1\n1 2 3\nMode: 644\n")
            .expect("an archive");
        let answer =
            format!(r#"echo '{{"Dir": "{}"}}'"#, module.parent().expect("it is in a directory").display());
        let mut places = scratch.toolchain(&answer);
        let fetched = provide(&PROCFS, &places, &mut |_| ()).expect("it is fetched");
        places.path.clear();
        assert_eq!(provide(&PROCFS, &places, &mut |_| ()).expect("it is there"), fetched);

        let tree = scratch.path().join("tree");
        let root = MACHINES[1].lay_out(&fetched, &tree).expect("it is laid out");
        assert_eq!(fs::read_to_string(root.join("proc/loadavg")).expect("unpacked"), "1 2 3\n");
    }

    #[test]
    fn a_refused_download_leaves_nothing_in_the_cache_and_says_why() {
        let scratch = Scratch::new();
        let places = scratch.toolchain(r#"echo '{"Error": "checksum mismatch"}'; exit 1"#);
        let refusal = provide(&GHW, &places, &mut |_| ()).expect_err("it is refused").to_string();
        assert_eq!(
            refusal,
            "fetching github.com/jaypipes/ghw v0.26.0 failed; nothing was put into the cache. Go says:\nchecksum mismatch"
        );
        assert!(!places.cache.join("recordings").exists());
        let places = scratch.toolchain("echo 'no such module' >&2; exit 1");
        let refusal = provide(&GHW, &places, &mut |_| ()).expect_err("it is refused").to_string();
        assert!(refusal.ends_with("Go says:\nno such module"), "{refusal}");
    }

    #[test]
    fn a_missing_toolchain_names_the_way_out() {
        let scratch = Scratch::new();
        let mut places = scratch.toolchain("exit 1");
        places.path.clear();
        let refusal = provide(&GHW, &places, &mut |_| ()).expect_err("there is no go").to_string();
        assert!(
            refusal.starts_with("no Go toolchain on PATH, and the recordings of github.com/jaypipes/ghw"),
            "{refusal}"
        );
    }
}
