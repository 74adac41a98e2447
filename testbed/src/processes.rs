//! Starting processes that cannot outlive us, and finding the ones that belong to a directory.
//!
//! A runner may be killed with SIGKILL, so cleaning up cannot be its own business alone. Every process is started
//! through `setpriv --pdeathsig KILL`: the kernel kills it when its parent is gone, whatever the reason. The kernel
//! means the parent *thread*, so all of them are started by one thread that lives as long as this process. A
//! supervising child at the end of a pipe would do as well, but it would be one more process that can be killed,
//! and it would have to name processes by number after their parent is gone.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::time::{Duration, Instant};

use rustix::process::Pid;

pub use rustix::process::Signal;

/// Names the cluster's directory in the environment of each of its processes.
pub const MARK: &str = "TAS_TESTBED_DIRECTORY";

/// A process could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The tool that ties a child to us is missing or too old.
    #[error(
        "the test bed needs setpriv with --pdeathsig so that no process outlives it; \
         install util-linux 2.33 or newer (on Alpine: apk add setpriv)"
    )]
    NoSetpriv,
    /// The system refused.
    #[error("cannot start {program:?}: {cause}")]
    Refused {
        /// What was to be started.
        program: String,
        /// What the system said.
        cause: io::Error,
    },
}

type Request = (Command, SyncSender<io::Result<Child>>);

static SPAWNER: LazyLock<Sender<Request>> = LazyLock::new(|| {
    let (requests, inbox) = channel::<Request>();
    std::thread::spawn(move || {
        for (mut command, answer) in inbox {
            // Nobody waiting for the answer means nobody owns the child: do not leave it behind.
            if let Err(unwanted) = answer.send(command.spawn())
                && let Ok(mut child) = unwanted.0
            {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    });
    requests
});

static SETPRIV: LazyLock<bool> = LazyLock::new(|| {
    Command::new("setpriv")
        .arg("--help")
        .stdin(Stdio::null())
        .output()
        .is_ok_and(|help| String::from_utf8_lossy(&help.stdout).contains("--pdeathsig"))
});

/// A command that will die with this process and does not hear the terminal's Ctrl-C.
pub fn bound(binary: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(binary).stdin(Stdio::null()).process_group(0);
    command
}

/// Starts a command made by [`bound`].
pub fn spawn(command: Command) -> Result<Child, SpawnError> {
    if !*SETPRIV {
        return Err(SpawnError::NoSetpriv);
    }
    let program =
        command.get_args().nth(3).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let (answer, child) = sync_channel(1);
    let gone = || io::Error::other("the spawning thread is gone");
    SPAWNER
        .send((command, answer))
        .map_err(|_| gone())
        .and_then(|()| child.recv().unwrap_or_else(|_| Err(gone())))
        .map_err(|cause| SpawnError::Refused { program, cause })
}

/// Runs a short command to its end and returns what it printed on both outputs, or `None` if it cannot be run, fails
/// or takes too long.
pub fn capture(binary: &Path, arguments: &[&str], limit: Duration) -> Option<String> {
    let mut command = bound(binary);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command).ok()?;
    let deadline = Instant::now() + limit;
    while child.try_wait().ok()?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().ok()?;
    let text =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    output.status.success().then_some(text)
}

/// The living processes whose environment names this directory, whoever their parent is by now.
pub fn belonging_to(directory: &Path) -> Vec<u32> {
    let mark = [MARK.as_bytes(), b"=", directory.as_os_str().as_bytes()].concat();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            // The environment of a zombie is empty, so it does not count as living.
            fs::read(format!("/proc/{pid}/environ")).is_ok_and(|environment| {
                environment.split(|byte| *byte == 0).any(|variable| variable == mark)
            })
        })
        .collect()
}

/// Kills what [`belonging_to`] finds until there is nothing left; returns how many there were.
pub fn kill_all_of(directory: &Path) -> usize {
    let mut killed = BTreeSet::new();
    for _ in 0..50 {
        let living = belonging_to(directory);
        if living.is_empty() {
            break;
        }
        for pid in living {
            if signal(pid, Signal::KILL).is_ok() {
                killed.insert(pid);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    killed.len()
}

/// Sends a signal to one process.
pub fn signal(pid: u32, signal: Signal) -> io::Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(pid, signal)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_process_is_found_by_its_directory_and_gone_after_the_kill() {
        let directory = std::env::temp_dir().join(format!("testbed-mark-{}", std::process::id()));
        let mut command = bound(Path::new("sleep"));
        command.arg("600").env(MARK, &directory);
        let mut child = spawn(command).expect("sleep starts");
        // `setpriv` becomes `sleep` by exec: same process, same environment, before and after.
        assert_eq!(belonging_to(&directory), [child.id()]);
        assert_eq!(kill_all_of(&directory), 1);
        assert_eq!(belonging_to(&directory), Vec::<u32>::new());
        assert!(!child.wait().expect("it can be waited for").success());
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        assert_eq!(capture(Path::new("sleep"), &["600"], Duration::from_millis(20)), None);
    }

    #[test]
    fn a_command_that_fails_gives_nothing() {
        assert_eq!(capture(Path::new("false"), &[], Duration::from_secs(10)), None);
    }

    #[test]
    fn both_outputs_are_captured() {
        let script = "echo out; echo err >&2";
        assert_eq!(
            capture(Path::new("sh"), &["-c", script], Duration::from_secs(10)).as_deref(),
            Some("out\nerr\n")
        );
    }
}
