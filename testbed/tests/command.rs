//! The command as a person uses it, each test in a state directory of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testbed::directory::{Phase, residents};
use testbed::processes;

/// A state directory; clusters in it are ended with it.
struct State(PathBuf);

impl State {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("testbed-command-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_testbed"));
        command.env("TAS_TESTBED_STATE", &self.0).args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("testbed can be run")
    }

    /// What a successful command prints.
    fn said(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// What a refused command complains about.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(!output.status.success(), "{arguments:?} was not refused");
        String::from_utf8(output.stderr).expect("text").trim().to_owned()
    }

    fn cluster(&self, name: &str) -> PathBuf {
        self.0.join("clusters").join(name)
    }

    fn phase(&self, name: &str) -> Option<Phase> {
        let all = residents(&self.0).expect("readable");
        all.into_iter().find(|one| one.name == name && one.alive)?.card.map(|card| card.phase)
    }

    fn keeper(&self, name: &str) -> u32 {
        let all = residents(&self.0).expect("readable");
        let found = all.into_iter().find(|one| one.name == name).expect("it is there");
        found.card.expect("it has a card").pid
    }
}

impl Drop for State {
    fn drop(&mut self) {
        for one in residents(&self.0).unwrap_or_default() {
            if let (true, Some(card)) = (one.alive, &one.card) {
                let _ = processes::signal(card.pid, rustix::process::Signal::KILL);
            }
            processes::kill_all_of(&one.path);
        }
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn wait_until(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(2);
    while !look() {
        assert!(Instant::now() < deadline, "waited two minutes for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn two_clusters_live_side_by_side_and_end_one_by_one() {
    let state = State::new("two");
    for name in ["one", "two"] {
        let said = state.said(&["cluster", "up", name, "--nodes", "2"]);
        assert!(said.starts_with(&format!("cluster {name:?} is ready after")), "{said}");
        assert!(said.contains(&format!("eval \"$(cargo xtask cluster env {name})\"")), "{said}");
        let environment = state.said(&["cluster", "env", name]);
        let kubeconfig = state.cluster(name).join("pki/admin.kubeconfig");
        assert!(
            environment.starts_with(&format!("export KUBECONFIG='{}'\n", kubeconfig.display())),
            "{environment}"
        );
    }
    let status = state.said(&["cluster", "status"]);
    assert_eq!(status.lines().filter(|line| line.contains(" ready ")).count(), 2, "{status}");
    assert_eq!(
        state.refused(&["cluster", "up", "one"]),
        "error: a cluster named \"one\" is running; end it with `cargo xtask cluster down one` or choose another name"
    );
    assert_eq!(state.said(&["cluster", "down", "one"]), "cluster \"one\" is gone\n");
    assert_eq!(processes::belonging_to(&state.cluster("one")), Vec::<u32>::new());
    assert_eq!(state.phase("two"), Some(Phase::Ready));
    state.said(&["cluster", "down", "two"]);
    assert_eq!(processes::belonging_to(&state.cluster("two")), Vec::<u32>::new());
}

#[test]
fn a_killed_keeper_takes_its_processes_along_and_its_remains_are_no_obstacle() {
    let state = State::new("killed");
    state.said(&["cluster", "up", "demo", "--nodes", "1"]);
    assert!(!processes::belonging_to(&state.cluster("demo")).is_empty());
    processes::signal(state.keeper("demo"), rustix::process::Signal::KILL).expect("it lives");
    wait_until("the processes to go", || processes::belonging_to(&state.cluster("demo")).is_empty());
    // A process that is ending has no environment any more while it still holds its lock for a moment.
    wait_until("the status to say so", || {
        let status = state.said(&["cluster", "status"]);
        status.lines().any(|line| line.starts_with("demo") && line.contains(" killed "))
    });
    state.said(&["cluster", "up", "demo", "--nodes", "1"]);
    state.said(&["cluster", "down", "demo"]);
    assert_eq!(
        state.said(&["cluster", "status"]),
        "no clusters; start one with: cargo xtask cluster up --nodes 3\n"
    );
}

/// Ends the process if the test does not get that far.
struct Foreground(Child);

impl Drop for Foreground {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_keeper_that_is_interrupted_cleans_up() {
    let state = State::new("interrupted");
    let mut command = state.command(&["cluster", "run", "demo", "--nodes", "1"]);
    let mut keeper = Foreground(command.stdout(Stdio::null()).spawn().expect("it starts"));
    wait_until("the cluster", || state.phase("demo") == Some(Phase::Ready));
    processes::signal(keeper.0.id(), rustix::process::Signal::INT).expect("it lives");
    assert!(keeper.0.wait().expect("it ends").success());
    assert_eq!(processes::belonging_to(&state.cluster("demo")), Vec::<u32>::new());
    assert!(!state.cluster("demo").exists());
}

#[test]
fn what_cannot_be_is_refused_with_the_way_out() {
    let state = State::new("refused");
    assert_eq!(
        state.refused(&["cluster", "up", "../x"]),
        "error: \"../x\" is no name for a cluster; use up to 40 small letters, digits and dashes"
    );
    assert_eq!(
        state.refused(&["cluster", "down", "ghost"]),
        "error: there is no cluster \"ghost\"; known: there is none"
    );
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    assert_eq!(
        state.refused(&["cluster", "up", "--api-port", &port.to_string()]),
        format!(
            "error: port {port} on 127.0.0.1 is taken; end what listens there, or choose another with --api-port, \
             or leave it out"
        )
    );
    let configuration = state.0.join("pod.yaml");
    std::fs::write(&configuration, "kind: Pod\n").expect("written");
    assert_eq!(
        state.refused(&["cluster", "up", "--scheduler-config", configuration.to_str().expect("text")]),
        "error: the scheduler configuration is not an object of kind KubeSchedulerConfiguration"
    );
    assert_eq!(
        state.refused(&["cluster", "up", "--tas", "/no/such/tas"]),
        "error: there is no program /no/such/tas; build it with: cargo build --package tas-cli"
    );
    for wait in ["settle", "env"] {
        let said = state.refused(&["cluster", wait, "ghost"]);
        assert_eq!(said, "error: there is no cluster \"ghost\"; see: cargo xtask cluster status");
    }
}

#[test]
fn a_directory_that_may_not_be_written_is_named_with_the_variable_that_chooses_another() {
    // Not even root may create directories there, wherever it is mounted and how.
    for command in [&["cluster", "up"] as &[&str], &["cluster", "status"]] {
        let mut homeless = Command::new(env!("CARGO_BIN_EXE_testbed"));
        let output = homeless.args(command).env("TAS_TESTBED_STATE", "/sys/kernel/tas").output();
        let output = output.expect("testbed can be run");
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("error: cannot create \"/sys/kernel/tas\": "), "{said}");
        assert!(said.contains("TAS_TESTBED_STATE (clusters) to a directory you may write to"), "{said}");
    }
}

/// Half a directory of a run that was killed while it made it: no card, no keys, and a file of no known kind.
#[test]
fn what_a_run_left_that_was_killed_early_is_no_obstacle() {
    let state = State::new("early");
    let left = state.cluster("demo");
    std::fs::create_dir_all(left.join("pki")).expect("made");
    std::fs::write(left.join("card.json"), "{\"pid\": 1, \"kub").expect("written");
    // A process that is ending has no environment any more while it still holds its lock for a moment.
    wait_until("the status to say so", || {
        let status = state.said(&["cluster", "status"]);
        status.lines().any(|line| line.starts_with("demo") && line.contains(" killed "))
    });
    state.said(&["cluster", "up", "demo", "--nodes", "1"]);
    assert_eq!(state.phase("demo"), Some(Phase::Ready));
    state.said(&["cluster", "down", "demo"]);
}

#[test]
fn a_scheduler_that_refuses_its_configuration_is_quoted_and_its_logs_are_kept() {
    let state = State::new("weightless");
    let configuration = state.0.join("scheduler.yaml");
    let text = "apiVersion: kubescheduler.config.k8s.io/v1\n\
                kind: KubeSchedulerConfiguration\n\
                extenders: [{urlPrefix: \"http://127.0.0.1:1\", prioritizeVerb: p, weight: 0}]\n";
    std::fs::write(&configuration, text).expect("written");
    let said = state.refused(&[
        "cluster",
        "up",
        "demo",
        "--nodes",
        "1",
        "--scheduler-config",
        configuration.to_str().expect("text"),
    ]);
    assert!(said.contains("kube-scheduler ended"), "{said}");
    assert!(said.contains("must have a positive weight"), "{said}");
    assert_eq!(processes::belonging_to(&state.cluster("demo")), Vec::<u32>::new());
    assert!(
        state.said(&["cluster", "logs", "demo", "kube-scheduler"]).contains("must have a positive weight")
    );
}

#[test]
fn a_reader_that_stops_listening_is_no_reason_to_fall_over() {
    let state = State::new("deaf");
    let mut command = state.command(&["cluster", "status"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
