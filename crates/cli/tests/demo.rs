//! `tas demo` as a person or a pipeline runs it: the real program, its words, its exit status, its terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use serde_json::Value;

fn tas(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tas"));
    command.args(arguments).stdin(Stdio::null());
    // Whoever runs the tests may have opinions; the program under test has none to inherit.
    command.env_remove("NO_COLOR").env_remove("CARGO_PKG_NAME").env("TERM", "xterm");
    command
}

fn demo(arguments: &[&str]) -> Output {
    tas(&[&["demo"], arguments].concat()).output().expect("the program runs")
}

fn fed(arguments: &[&str], text: &str) -> Output {
    let mut child = tas(&[&["demo"], arguments].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("its input is ours");
    stdin.write_all(text.as_bytes()).expect("it reads its input");
    drop(stdin);
    child.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("the program speaks UTF-8")
}

fn report(seed: u64) -> Value {
    let output = demo(&["--for", "120s", "--output", "json", "--seed", &seed.to_string()]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

#[test]
fn the_policy_cuts_the_time_over_target_to_a_fifth_for_any_of_two_dozen_seeds() {
    for seed in 0..24 {
        let report = report(seed);
        let over = |side: &str| report[side]["nodeSecondsOverTarget"].as_u64().unwrap();
        assert!(over("withPolicy") * 5 <= over("withoutPolicy"), "{report}");
    }
}

#[test]
fn a_report_has_what_scripts_rely_on() {
    let report = report(7);
    assert_eq!((&report["seed"], &report["virtualSeconds"]), (&Value::from(7), &Value::from(120)));
    for side in ["withPolicy", "withoutPolicy"] {
        for field in ["podsPlaced", "podsMoved", "podsWaiting", "nodeSecondsOverTarget", "flaps", "refusals"]
        {
            assert!(report[side][field].is_u64(), "{side}.{field} in {report}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |seed: &str| demo(&["--for", "60s", "--output", "json", "--seed", seed]).stdout;
    assert_eq!(run("5"), run("5"));
    assert_ne!(run("5"), run("6"));
}

#[test]
fn a_pipe_gets_the_story_as_lines_without_waiting() {
    let output = demo(&[]);
    let story = text(&output.stdout);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    assert!(!story.contains('\u{1b}'), "{story}");
    for words in [
        "refused: 3",
        "W over 30",
        "gets the label power-policy=violating: 3",
        "falls silent",
        "unknown, 61 s old",
        "passes again",
        "loses the label power-policy=violating\n",
        "times less",
    ] {
        assert!(story.contains(words), "no {words:?} in\n{story}");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_failure() {
    let mut child = tas(&["demo", "--for", "1h", "--nodes", "50"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 16];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn bad_values_are_refused_with_the_way_out() {
    for (arguments, way_out) in [
        (&["--nodes", "0"][..], "give 1 to 500 nodes"),
        (&["--nodes", "100000"], "give 1 to 500 nodes"),
        (&["--nodes", "-3"], "give 1 to 500 nodes"),
        (&["--speed", "-1"], "time only runs forwards"),
        (&["--speed", "NaN"], "give a factor from 0.1 to 1000"),
        (&["--for", "0s"], "a story lasts from 1s to 1h"),
        (&["--for", "-5s"], "a duration is 0 or more"),
        (&["--for", "1000000h"], "a story lasts from 1s to 1h"),
        (&["--for", "soon"], "write it like 30s, 5m or 1h30m"),
        (&["--seed", "-1"], "give a whole number from 0"),
        (&["--output", "xml"], "possible values: human, json"),
        (&["--print-policy", "--policy", "x"], "cannot be used with"),
    ] {
        let output = demo(arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(way_out), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_largest_cluster_allowed_is_played() {
    let output = demo(&["--nodes", "500", "--for", "2s", "--output", "json"]);
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn the_printed_policy_is_the_one_that_is_played() {
    let policy = text(&demo(&["--print-policy"]).stdout);
    let own = fed(&["--policy", "-", "--output", "json"], &policy);
    assert_eq!(text(&own.stdout), text(&demo(&["--output", "json"]).stdout));
}

const FREE_MEMORY: &str = "
apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: free-memory}
spec:
  strategies:
    dontschedule:
      rules: [{metricname: mem_available_bytes, operator: LessThan, target: 64Gi}]
";

#[test]
fn an_own_policy_is_played_in_its_own_terms() {
    let story = text(&fed(&["--policy", "-"], FREE_MEMORY).stdout);
    for words in ["policy default/free-memory: not under 68.72G B", "B under 68.72G", "leaks memory"] {
        assert!(story.contains(words), "no {words:?} in\n{story}");
    }
}

#[test]
fn a_policy_that_cannot_be_played_says_why_and_exits_like_check() {
    let twice = format!("{FREE_MEMORY}---{}", FREE_MEMORY.replace("free-memory", "other"));
    for (policy, status, why) in [
        (FREE_MEMORY.replace("64Gi", "64Gi!"), 1, "64Gi!"),
        (FREE_MEMORY.replace("LessThan", "Less"), 1, "LessThan"),
        (String::new(), 2, "empty"),
        ("kind: Pod".to_owned(), 2, "TASPolicy"),
        (twice, 2, "one at a time"),
        ("a: [".to_owned(), 2, "not-yaml"),
        ("\0".to_owned(), 2, "binary"),
    ] {
        let output = fed(&["--policy", "-"], &policy);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{policy:?}: {said}");
        assert!(said.contains(why), "{policy:?}: {said}");
        assert!(output.stdout.is_empty());
    }
    for path in ["no-such-file.yaml", "/"] {
        let output = demo(&["--policy", path]);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(path));
    }
}

/// A terminal that the program believes in, and what it writes there.
struct Screen {
    near: File,
    far: File,
    written: Receiver<Vec<u8>>,
    seen: String,
}

impl Screen {
    fn new(width: u16, height: u16) -> Self {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&near).expect("ours to use");
        unlockpt(&near).expect("ours to use");
        let path = ptsname(&near, Vec::new()).expect("its other end has a name");
        let far = File::options()
            .read(true)
            .write(true)
            .open(path.to_str().expect("a plain name"))
            .expect("its other end opens");
        let near = File::from(near);
        let (send, written) = mpsc::channel();
        let mut reader = near.try_clone().expect("a second handle");
        // Ends when the test is over and nobody takes what it reads.
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = reader.read(&mut bytes) {
                if send.send(bytes[..read].to_vec()).is_err() {
                    break;
                }
            }
        });
        let screen = Self { near, far, written, seen: String::new() };
        screen.resize(width, height);
        screen
    }

    fn resize(&self, width: u16, height: u16) {
        let size = Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.near, size).expect("it has a size");
    }

    fn start(&self, command: &mut Command) -> Child {
        let end = || Stdio::from(self.far.try_clone().expect("a second handle"));
        command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the program starts")
    }

    fn press(&mut self, key: &str) {
        self.near.write_all(key.as_bytes()).expect("it takes keys");
    }

    fn wait_for(&mut self, words: &str) {
        let deadline = Instant::now() + Duration::from_mins(1);
        while !self.seen.contains(words) {
            let left = deadline.saturating_duration_since(Instant::now());
            let written = self.written.recv_timeout(left).ok();
            assert!(written.is_some(), "{words:?} never came; the screen had {:?}", self.seen);
            self.seen.push_str(&String::from_utf8_lossy(&written.unwrap_or_default()));
        }
    }

    /// How the terminal is set.
    fn settings(&self) -> String {
        format!("{:?}", tcgetattr(&self.far).expect("it has settings"))
    }
}

const OTHER_SCREEN: &str = "\u{1b}[?1049h";
const OWN_SCREEN: &str = "\u{1b}[?25h\u{1b}[?1049l";

#[test]
fn any_way_to_quit_gives_the_terminal_back_as_it_was() {
    for key in ["q", "\u{3}", "\u{1b}"] {
        let mut screen = Screen::new(80, 24);
        let before = screen.settings();
        let mut child = screen.start(&mut tas(&["demo"]));
        screen.wait_for("q quits");
        assert!(screen.seen.contains(OTHER_SCREEN));
        assert_ne!(screen.settings(), before);
        screen.press(key);
        screen.wait_for(OWN_SCREEN);
        screen.wait_for("tas demo --seed 2");
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(screen.settings(), before);
    }
}

#[test]
fn a_signal_gives_the_terminal_back_as_it_was() {
    for signal in ["TERM", "INT"] {
        let mut screen = Screen::new(80, 24);
        let before = screen.settings();
        let mut child = screen.start(&mut tas(&["demo"]));
        screen.wait_for("q quits");
        let killed = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        screen.wait_for(OWN_SCREEN);
        screen.wait_for("tas demo --seed 2");
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(screen.settings(), before);
    }
}

#[test]
fn the_end_of_the_story_gives_the_terminal_back_by_itself() {
    let mut screen = Screen::new(80, 24);
    let mut child = screen.start(&mut tas(&["demo", "--for", "20s", "--speed", "1000"]));
    screen.wait_for(OWN_SCREEN);
    screen.wait_for("tas demo --seed 2");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_terminal_that_grows_gets_larger_frames() {
    let mut screen = Screen::new(50, 16);
    let mut child = screen.start(&mut tas(&["demo"]));
    screen.wait_for("q quits");
    assert!(!screen.seen.contains("policy power-policy"));
    screen.resize(100, 30);
    screen.wait_for("policy power-policy");
    screen.press("q");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn colours_are_left_out_when_nobody_wants_them() {
    for (wish, colours) in [("1", false), ("", true)] {
        let mut screen = Screen::new(80, 24);
        let mut child = screen.start(tas(&["demo"]).env("NO_COLOR", wish));
        screen.wait_for("node-8");
        screen.press("q");
        screen.wait_for("tas demo --seed 2");
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert_eq!(screen.seen.contains("\u{1b}[0;32m"), colours, "NO_COLOR={wish:?}");
    }
}

#[test]
fn a_dumb_terminal_gets_lines() {
    let mut screen = Screen::new(80, 24);
    let mut child = screen.start(tas(&["demo", "--for", "20s", "--speed", "1000"]).env("TERM", "dumb"));
    screen.wait_for("after 0:20");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(!screen.seen.contains('\u{1b}'));
}
