//! One process of a cluster: started, paused, killed, started again, and read when it complains.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use rustix::process::Signal;

use crate::places::FileTrouble;
use crate::processes::{self, MARK, SpawnError};

/// How to start a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The name of the component in this cluster; also of its log.
    pub name: String,
    /// The file to execute.
    pub binary: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables added to ours.
    pub environment: Vec<(String, String)>,
}

/// A component that cannot be started or reached.
#[derive(Debug, thiserror::Error)]
pub enum ComponentError {
    /// The process could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// Its log could not be opened.
    #[error(transparent)]
    File(#[from] FileTrouble),
    /// It is not running, so it cannot be signalled.
    #[error("{name} is not running")]
    NotRunning {
        /// Its name.
        name: String,
    },
    /// The system refused a signal.
    #[error("cannot signal {name}: {cause}")]
    Signal {
        /// Its name.
        name: String,
        /// What the system said.
        cause: io::Error,
    },
}

/// A program that was started in a cluster.
#[derive(Debug)]
pub struct Component {
    start: Start,
    directory: PathBuf,
    log: PathBuf,
    child: Mutex<Option<Child>>,
}

impl Component {
    /// Starts it. Its output goes to `logs/NAME.log` in the cluster's directory.
    pub fn start(start: Start, directory: &Path) -> Result<Self, ComponentError> {
        let log = directory.join("logs").join(format!("{}.log", start.name));
        let child = launch(&start, directory, &log)?;
        Ok(Self { start, directory: directory.to_owned(), log, child: Mutex::new(Some(child)) })
    }

    /// Its name in the cluster.
    pub fn name(&self) -> &str {
        &self.start.name
    }

    /// Its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        let mut child = held(&self.child);
        child.as_mut().and_then(|child| matches!(child.try_wait(), Ok(None)).then(|| child.id()))
    }

    /// How it ended, if it ended by itself.
    pub fn ended(&self) -> Option<ExitStatus> {
        held(&self.child).as_mut().and_then(|child| child.try_wait().ok().flatten())
    }

    /// Kills it as a crash would, and waits until it is gone.
    pub fn kill(&self) {
        if let Some(mut child) = held(&self.child).take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Freezes it: its connections stay open and nothing is answered.
    pub fn pause(&self) -> Result<(), ComponentError> {
        self.signal(Signal::STOP)
    }

    /// Lets a frozen one go on.
    pub fn resume(&self) -> Result<(), ComponentError> {
        self.signal(Signal::CONT)
    }

    /// Sends any other signal, such as the one that asks for an orderly end.
    pub fn signal(&self, signal: Signal) -> Result<(), ComponentError> {
        let name = || self.name().to_owned();
        let pid = self.pid().ok_or_else(|| ComponentError::NotRunning { name: name() })?;
        processes::signal(pid, signal).map_err(|cause| ComponentError::Signal { name: name(), cause })
    }

    /// Kills it if it runs, and starts it as before.
    pub fn restart(&self) -> Result<(), ComponentError> {
        self.kill();
        let child = launch(&self.start, &self.directory, &self.log)?;
        *held(&self.child) = Some(child);
        Ok(())
    }

    /// The value of one of its arguments, given as `--NAME=VALUE`.
    pub fn argument(&self, name: &str) -> Option<String> {
        let prefix = format!("--{name}=");
        self.start.arguments.iter().find_map(|argument| argument.strip_prefix(&prefix).map(str::to_owned))
    }

    /// Everything it has printed, over all its lives.
    pub fn log(&self) -> String {
        fs::read(&self.log).map(|text| String::from_utf8_lossy(&text).into_owned()).unwrap_or_default()
    }

    /// The lines that a person looking for the cause would read.
    pub fn useful_lines(&self) -> Vec<String> {
        useful(&self.log(), self.pid().is_some())
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.kill();
    }
}

fn launch(start: &Start, directory: &Path, log: &Path) -> Result<Child, ComponentError> {
    let open = || OpenOptions::new().create(true).append(true).open(log);
    let output = open().map_err(|cause| FileTrouble::new("open", log, cause))?;
    let errors = output.try_clone().map_err(|cause| FileTrouble::new("open", log, cause))?;
    let mut command = processes::bound(&start.binary);
    command.args(&start.arguments).current_dir(directory).env(MARK, directory);
    command.envs(start.environment.iter().map(|(name, value)| (name, value)));
    // A proxy from the developer's environment would be asked for loopback addresses.
    for proxy in ["HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    command.stdout(output).stderr(errors);
    Ok(processes::spawn(command)?)
}

/// Errors and crashes of a log; of a process that has ended also its last words.
pub fn useful(log: &str, running: bool) -> Vec<String> {
    const MOST: usize = 15;
    let lines: Vec<&str> = log.lines().collect();
    let last_words = if running { lines.len() } else { lines.len().saturating_sub(5) };
    let mut chosen: Vec<String> = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if index >= last_words || complains(line) {
            chosen.push(line.chars().take(400).collect());
        }
    }
    chosen.split_off(chosen.len().saturating_sub(MOST))
}

/// Whether a line is an error in one of the formats our programs write: klog, logfmt, JSON, Go's panics.
fn complains(line: &str) -> bool {
    // Said as an error by every Kubernetes program that is started without a file of feature overrides.
    if line.contains("The manifest file is empty, ignoring.") {
        return false;
    }
    let klog = matches!(line.as_bytes(), [b'E' | b'F', digits @ ..] if digits.len() >= 4 && digits[..4].iter().all(u8::is_ascii_digit));
    klog || line.contains("level=ERROR")
        || line.contains("level=error")
        || line.contains("\"level\":\"error\"")
        || line.contains("\"level\":\"fatal\"")
        || line.starts_with("panic:")
        || line.starts_with("Error:")
        || line.starts_with("fatal")
}

/// A value whose last holder panicked is still the value; a test's panic must not stop the clean-up.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn shell(scratch: &Scratch, script: &str) -> Component {
        fs::create_dir_all(scratch.path().join("logs")).expect("a directory for logs");
        let start = Start {
            name: "shell".to_owned(),
            binary: "sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            environment: Vec::new(),
        };
        Component::start(start, scratch.path()).expect("it starts")
    }

    #[test]
    fn a_dropped_component_is_gone() {
        let scratch = Scratch::new();
        let component = shell(&scratch, "exec sleep 600");
        assert!(component.pid().is_some());
        drop(component);
        assert_eq!(processes::belonging_to(scratch.path()), Vec::<u32>::new());
    }

    #[test]
    fn a_killed_component_cannot_be_signalled_until_it_is_started_again() {
        let scratch = Scratch::new();
        let component = shell(&scratch, "exec sleep 600");
        component.kill();
        assert_eq!(component.pause().expect_err("it is dead").to_string(), "shell is not running");
        component.restart().expect("it starts again");
        component.pause().expect("it lives");
        component.resume().expect("it lives");
    }

    #[test]
    fn useful_lines_are_the_errors_and_the_last_words_of_the_dead() {
        let log =
            "I0101 fine\nE0101 bad\nlevel=ERROR worse\nI0101 on\nI0101 and\nI0101 on\nI0101 until\nI0101 end";
        assert_eq!(useful(log, true), ["E0101 bad", "level=ERROR worse"]);
        assert_eq!(
            useful(log, false),
            [
                "E0101 bad",
                "level=ERROR worse",
                "I0101 on",
                "I0101 and",
                "I0101 on",
                "I0101 until",
                "I0101 end"
            ]
        );
    }
}
