//! Builds one program with the Go toolchain and puts it into the cache, whole or not at all.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::binaries::cache_path;
use crate::modules::{BUILD_FLAGS, link_flags};
use crate::places::{FileTrouble, Places};
use crate::processes::{SpawnError, bound, spawn};
use crate::programs::Program;
use crate::workshop::Workshop;

/// How often a running build says that it still runs.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// A build that did not give a program.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// There is no `go`.
    #[error(
        "no Go toolchain on PATH, and {program} is neither cached nor on PATH; install Go {wanted} or newer \
         (https://go.dev/dl), or set TAS_TESTBED_BIN to a directory that holds the programs"
    )]
    NoGo {
        /// What was to be built.
        program: &'static str,
        /// The oldest Go that will do.
        wanted: &'static str,
    },
    /// `go` is too old and may not fetch a newer one by itself.
    #[error(
        "the Go toolchain on PATH is {found:?}, {program} needs {wanted} or newer; install one from https://go.dev/dl, \
         or let Go fetch it with GOTOOLCHAIN=auto, or set TAS_TESTBED_BIN to a directory that holds the programs"
    )]
    OldGo {
        /// What was to be built.
        program: &'static str,
        /// The oldest Go that will do.
        wanted: &'static str,
        /// What `go version` or the refusal says.
        found: String,
    },
    /// The compiler or the download failed.
    #[error("building {program} failed; nothing was put into the cache. Go says:\n{last_lines}")]
    Failed {
        /// What was to be built.
        program: &'static str,
        /// The end of its output.
        last_lines: String,
    },
    /// The disk is full, as seen by the compiler.
    #[error(
        "no space left while building {program}; about 6 GB are needed. Free some, or set XDG_CACHE_HOME, GOCACHE and \
         GOMODCACHE to another disk"
    )]
    NoSpace {
        /// What was to be built.
        program: &'static str,
    },
    /// A file of ours could not be written.
    #[error(transparent)]
    File(#[from] FileTrouble),
    /// A process could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
}

/// Builds the program and returns its place in the cache. `turn` says where we are, as in "2 of 9".
pub fn compile(
    program: &Program,
    places: &Places,
    turn: &str,
    say: &mut dyn FnMut(String),
) -> Result<PathBuf, CompileError> {
    let go = places.go().ok_or(CompileError::NoGo { program: program.name, wanted: program.module.go() })?;
    let workshop = Workshop::open(places, program.module)?;
    check_version(&go, workshop.path(), program)?;

    let usual = program.usual.as_secs();
    say(format!("building {} ({turn}; usually {usual} s on 2 cores)", program.name));
    let started = Instant::now();
    let log = workshop.path().join("log");
    let sink = File::create(&log).map_err(|cause| FileTrouble::new("create", &log, cause))?;
    let mut command = bound(&go);
    command.arg("build").args(BUILD_FLAGS).args([
        "-tags",
        program.tags,
        "-ldflags",
        &link_flags(program),
        "-o",
    ]);
    command.arg(workshop.output().join(program.name)).arg(program.package);
    command.current_dir(workshop.path()).env("CGO_ENABLED", "0").env_remove("GOFLAGS");
    command.stdout(Stdio::null()).stderr(sink);
    let mut child = spawn(command)?;
    let mut next_sign = SIGN_OF_LIFE;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => std::thread::sleep(Duration::from_millis(100)),
            Err(cause) => return Err(FileTrouble::new("wait for", &go, cause).into()),
        }
        if started.elapsed() > next_sign {
            say(format!("  still building {} ({} s of about {usual} s)", program.name, next_sign.as_secs()));
            next_sign += SIGN_OF_LIFE;
        }
    };
    if !status.success() {
        return Err(failure(program.name, &fs::read_to_string(&log).unwrap_or_default()));
    }

    let place = cache_path(program, places);
    workshop.keep_as(place.parent().expect("a cache entry is in a directory of its own"))?;
    say(format!("  {} ready after {} s", program.name, started.elapsed().as_secs()));
    Ok(place)
}

fn failure(program: &'static str, log: &str) -> CompileError {
    if log.contains("no space left on device") {
        return CompileError::NoSpace { program };
    }
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("go: downloading")).collect();
    let last_lines = lines[lines.len().saturating_sub(20)..].join("\n");
    CompileError::Failed { program, last_lines }
}

/// Asks inside the module's directory, where a Go that may fetch a newer one answers with that one.
fn check_version(go: &Path, workshop: &Path, program: &Program) -> Result<(), CompileError> {
    let mut command = bound(go);
    command.args(["env", "GOVERSION"]).current_dir(workshop).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = spawn(command)?
        .wait_with_output()
        .map_err(|cause: io::Error| FileTrouble::new("ask the version of", go, cause))?;
    let answer =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    let wanted = program.module.go();
    if output.status.success() && fits(answer.trim(), wanted) {
        return Ok(());
    }
    let found = answer.lines().last().unwrap_or("of no known version").trim().to_owned();
    Err(CompileError::OldGo { program: program.name, wanted, found })
}

/// Whether a toolchain that calls itself `go1.26.8` may build what wants `1.26.0`.
fn fits(found: &str, wanted: &str) -> bool {
    let numbers = |text: &str| -> Option<[u32; 3]> {
        let mut parts = text.strip_prefix("go").unwrap_or(text).split(['.', '-', ' ']);
        let mut next = || parts.next().map_or(Some(0), |part| part.parse().ok());
        Some([next()?, next()?, next()?])
    };
    matches!((numbers(found), numbers(wanted)), (Some(found), Some(wanted)) if found >= wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::programs::{DO_NOTHING_EXTENDER, ETCD};
    use crate::scratch::Scratch;

    /// A `go` that is a shell script: `env GOVERSION` prints the version, `build` runs the given line.
    fn toolchain(scratch: &Scratch, version: &str, build: &str) -> Places {
        scratch.toolchain(&format!("if [ \"$1\" = env ]; then echo {version}; exit; fi\n{build}"))
    }

    /// Finds the argument after `-o`.
    const OUTPUT: &str = r#"while [ "$1" != -o ]; do shift; done; out=$2"#;

    fn quietly(places: &Places) -> Result<PathBuf, String> {
        compile(&ETCD, places, "1 of 1", &mut |_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_build_ends_up_in_the_cache() {
        let scratch = Scratch::new();
        let places = toolchain(&scratch, "go1.26.0", &format!("{OUTPUT}; echo etcd > $out"));
        assert_eq!(quietly(&places), Ok(cache_path(&ETCD, &places)));
        assert_eq!(fs::read_to_string(cache_path(&ETCD, &places)).ok().as_deref(), Some("etcd\n"));
    }

    #[test]
    fn a_program_of_our_own_is_built_from_its_source() {
        let scratch = Scratch::new();
        let places = toolchain(&scratch, "go1.26.0", &format!("{OUTPUT}; cat main.go > $out"));
        let built = compile(&DO_NOTHING_EXTENDER, &places, "1 of 1", &mut |_| ()).expect("it is built");
        assert_eq!(fs::read_to_string(built).ok().as_deref(), DO_NOTHING_EXTENDER.module.main);
    }

    #[test]
    fn a_broken_build_leaves_nothing_in_the_cache_and_shows_its_last_lines() {
        let scratch = Scratch::new();
        let build = format!(
            "{OUTPUT}; echo half > $out; echo 'go: downloading x' >&2; echo 'no such thing' >&2; exit 1"
        );
        let places = toolchain(&scratch, "go1.26.0", &build);
        assert_eq!(
            quietly(&places),
            Err("building etcd failed; nothing was put into the cache. Go says:\nno such thing".to_owned())
        );
        let left: Vec<_> = fs::read_dir(&places.cache).expect("the cache is there").flatten().collect();
        assert!(left.is_empty(), "left over: {left:?}");
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_build() {
        let refusal = failure("etcd", "link: write out: no space left on device\n");
        assert!(refusal.to_string().starts_with("no space left while building etcd;"), "{refusal}");
    }

    #[test]
    fn an_old_toolchain_names_the_way_out() {
        let scratch = Scratch::new();
        let places = toolchain(&scratch, "go1.22.3", "exit 1");
        let refusal = quietly(&places).expect_err("1.22 is too old");
        assert!(
            refusal.starts_with(r#"the Go toolchain on PATH is "go1.22.3", etcd needs 1.26.0 or newer;"#),
            "{refusal}"
        );
    }

    #[test]
    fn a_missing_toolchain_names_the_way_out() {
        let scratch = Scratch::new();
        let mut places = toolchain(&scratch, "go1.26.0", "exit 0");
        places.path = vec![scratch.path().join("empty")];
        let refusal = quietly(&places).expect_err("there is no go");
        assert!(refusal.starts_with("no Go toolchain on PATH, and etcd is neither cached"), "{refusal}");
        assert!(refusal.contains("TAS_TESTBED_BIN"), "{refusal}");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        for (found, wanted, fit) in [
            ("go1.26.8", "1.26.0", true),
            ("go1.26.0", "1.26.0", true),
            ("go1.9.9", "1.26.0", false),
            ("go1.100", "1.26.0", true),
            ("go1.27rc1", "1.26.0", false),
            ("devel", "1.26.0", false),
        ] {
            assert_eq!(fits(found, wanted), fit, "{found} for {wanted}");
        }
    }
}
