//! Every document does what it shows: its `console` blocks are run as printed, and its links lead somewhere.
//!
//! A document's blocks are run by one shell in a scratch directory that looks like the repository. There `cargo` is a
//! script that runs the programs under test at once instead of building them first.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use e2e::documents::{Block, Step, blocks, compare, script};
use testbed::directory::residents;
use testbed::processes;

use crate::TAS;

const TESTBED: &str = env!("CARGO_BIN_EXE_testbed-e2e");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// How long all commands of one document may take.
const LIMIT: Duration = Duration::from_mins(8);

/// Every Markdown file of the repository, by its path in it.
fn documents() -> Vec<(String, String)> {
    fn look(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).expect("readable").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
                look(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let root = Path::new(ROOT).canonicalize().expect("it is there");
    let mut found = Vec::new();
    look(&root, &mut found);
    found.sort();
    let relative = |path: &Path| path.strip_prefix(&root).expect("found below it").display().to_string();
    found.iter().map(|path| (relative(path), fs::read_to_string(path).expect("text"))).collect()
}

fn blocks_of(name: &str, text: &str) -> Vec<Block> {
    blocks(text).map_err(|problem| format!("{name}: {problem}")).expect("a document in good form")
}

/// A place where commands do no harm; clusters that were started there end with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(document: &str) -> Self {
        let plain = document.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let path = std::env::temp_dir().join(format!("tas-documents-{}-{plain}", std::process::id()));
        fs::create_dir_all(path.join("bin")).expect("the temporary directory is writable");
        fs::create_dir_all(path.join("work")).expect("the temporary directory is writable");
        for entry in fs::read_dir(ROOT).expect("readable").flatten() {
            let target = entry.path().canonicalize().expect("it is there");
            symlink(target, path.join("work").join(entry.file_name())).expect("linked");
        }
        let cargo = path.join("bin/cargo");
        let text = format!(
            "#!/bin/sh\n\
             case \"$1 $2 $3\" in\n\
             'run --release --') shift 3; exec {TAS} \"$@\" ;;\n\
             'xtask cluster up') shift 2; exec {TESTBED} cluster \"$@\" --tas {TAS} ;;\n\
             'xtask cluster '*) shift 2; exec {TESTBED} cluster \"$@\" ;;\n\
             esac\n\
             echo \"no test runs: cargo $*\" >&2\n\
             exit 64\n"
        );
        fs::write(&cargo, text).expect("written");
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).expect("made executable");
        Self(path)
    }

    /// Runs the commands: what is wrong with them, if anything.
    fn run(&self, steps: &[&Step]) -> Option<String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = processes::bound(Path::new("bash"));
        command.arg("-c").arg(script(steps)).current_dir(self.0.join("work"));
        command.env("PATH", format!("{}:{path}", self.0.join("bin").display()));
        command.env("TAS_TESTBED_STATE", self.state()).env_remove("KUBECONFIG");
        let (out, err) = (self.0.join("out"), self.0.join("err"));
        let file = |path: &Path| Stdio::from(fs::File::create(path).expect("created"));
        command.stdout(file(&out)).stderr(file(&err));
        let mut shell = processes::spawn(command).expect("bash starts");
        let deadline = Instant::now() + LIMIT;
        let status = loop {
            if let Some(status) = shell.try_wait().expect("it can be asked after") {
                break status;
            }
            if Instant::now() > deadline {
                let _ = shell.kill();
                break shell.wait().expect("it is gone");
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let printed = fs::read_to_string(&out).expect("text");
        let compared = compare(steps, &printed);
        if status.success() && compared.is_ok() {
            return None;
        }
        let said = fs::read_to_string(&err).unwrap_or_default();
        Some(format!("{status}; {compared:?}\n--- printed\n{printed}\n--- complained\n{said}"))
    }

    fn state(&self) -> PathBuf {
        self.0.join("state")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for one in residents(&self.state()).unwrap_or_default() {
            if let (true, Some(card)) = (one.alive, &one.card) {
                let _ = processes::signal(card.pid, testbed::processes::Signal::KILL);
            }
            processes::kill_all_of(&one.path);
        }
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs every block that can be run, of the documents chosen.
fn run_all(chosen: impl Fn(&[Block]) -> bool) -> usize {
    let mut commands = 0;
    for (name, text) in documents() {
        let all = blocks_of(&name, &text);
        if !chosen(&all) {
            continue;
        }
        let steps: Vec<&Step> =
            all.iter().filter(|block| block.norun.is_none()).flat_map(|block| &block.steps).collect();
        commands += steps.len();
        let problem = Scratch::new(&name).run(&steps);
        assert!(problem.is_none(), "{name}: {}", problem.unwrap_or_default());
    }
    commands
}

fn starts_a_cluster(blocks: &[Block]) -> bool {
    blocks.iter().flat_map(|block| &block.steps).any(|step| step.command.contains("xtask cluster up"))
}

#[test]
fn every_command_that_a_document_shows_works_as_shown() {
    assert!(run_all(|blocks| !starts_a_cluster(blocks)) >= 4);
}

#[test]
fn every_command_on_a_cluster_of_ones_own_works_as_shown() {
    assert!(run_all(starts_a_cluster) >= 30);
}

#[test]
fn every_file_that_a_document_links_to_is_there() {
    let mut missing = Vec::new();
    for (name, text) in documents() {
        let beside = Path::new(ROOT).join(&name).parent().map(Path::to_owned).unwrap_or_default();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let path = link.split('#').next().unwrap_or_default();
            if !path.is_empty() && !path.contains("://") && !beside.join(path).exists() {
                missing.push(format!("{name}: {link}"));
            }
        }
    }
    assert_eq!(missing, Vec::<String>::new());
}
