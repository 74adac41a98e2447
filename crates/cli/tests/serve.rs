//! `tas serve` as a person or kubelet starts it: the real program, its words, its exit status, its ports.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_mins(1);

fn tas(arguments: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tas"));
    command.arg("serve").args(arguments.split_whitespace()).stdin(Stdio::null());
    // Neither a cluster nor settings of whoever runs the tests.
    command.env_clear();
    command
}

fn ran(arguments: &str) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = tas(arguments).output().expect("the program runs");
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

/// A kubeconfig of an API server that is not there.
struct Nowhere(PathBuf);

impl Nowhere {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tas-serve-{name}-{}", std::process::id()));
        let text = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                    users: [{name: u, user: {}}]\ncontexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n";
        std::fs::write(&path, text).expect("a temporary file");
        Self(path)
    }

    fn flags(&self) -> String {
        format!(
            "--kubeconfig {} --prometheus-url http://127.0.0.1:1 --bind-address 127.0.0.1 --admin-bind-address 127.0.0.1 --shutdown-delay 0s",
            self.0.display()
        )
    }
}

impl Drop for Nowhere {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

struct Started {
    child: Child,
    log: Log,
    scheduler: SocketAddr,
    admin: SocketAddr,
}

impl Started {
    fn new(nowhere: &Nowhere) -> Self {
        let mut child = tas(&format!("{} --port 0 --admin-port 0", nowhere.flags()))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (lines, log) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
        });
        let mut log = Log { lines: log, seen: Vec::new() };
        let line = log.line(" serving ");
        let address = |name: &str| {
            let rest = line.split(name).nth(1).expect("the address is said");
            rest.split(' ').next().unwrap_or_default().parse().expect("an address")
        };
        let (scheduler, admin) = (address("scheduler="), address("admin="));
        Self { child, log, scheduler, admin }
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the program says on stderr. Nothing is lost by looking for something else first: which of two lines comes
/// first is often open.
struct Log {
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Log {
    /// Waits for a line with `what` in it, if it has not come already.
    fn line(&mut self, what: &str) -> String {
        let until = Instant::now() + PATIENCE;
        let mut looked_at = 0;
        loop {
            if let Some(line) = self.seen[looked_at..].iter().find(|line| line.contains(what)) {
                return line.clone();
            }
            looked_at = self.seen.len();
            match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => self.seen.push(line),
                Err(error) => unreachable!("{what:?} never came ({error}); the log had {:#?}", self.seen),
            }
        }
    }
}

/// Status line and body.
fn ask(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a whole answer");
    (head.lines().next().unwrap_or_default().to_owned(), body.to_owned())
}

fn get(address: SocketAddr, path: &str) -> (String, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: tas\r\nConnection: close\r\n\r\n"))
}

#[test]
fn wrong_arguments_are_told_all_at_once_with_the_way_out() {
    let (code, said) = ran("--cert /c --prometheus-url ftp://x");
    assert_eq!(code, Some(2), "{said}");
    for words in ["--cert needs --key", "--prometheus-url: "] {
        assert!(said.contains(words), "{said}");
    }
    let (code, said) = ran("");
    assert_eq!(code, Some(2), "{said}");
    for words in ["no certificate given", "no metric source; give --prometheus-url"] {
        assert!(said.contains(words), "{said}");
    }
    let (code, said) = ran("--unsafe --metrics custom");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--unsafe is not followed"), "{said}");
    let (code, said) = ran("--sync-perod 5s");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--sync-period"), "a slip of the finger is recognised: {said}");
}

#[test]
fn files_that_cannot_be_used_are_named_and_have_an_exit_code_of_their_own() {
    let nowhere = Nowhere::new("files");
    for (arguments, words) in [
        (
            "--metrics custom --bind-address 127.0.0.1 --port 0 --admin-port 0 --kubeconfig /no/kubeconfig",
            "/no/kubeconfig",
        ),
        (
            "--metrics custom --bind-address 127.0.0.1 --port 0 --admin-port 0",
            "outside of one, give --kubeconfig",
        ),
        ("--metrics custom --port 0 --admin-port 0 --cert /no/tls.crt --key /no/tls.key", "/no/tls.crt"),
        ("--metrics custom --bind-address 127.0.0.1 --config /no/tas.yaml", "/no/tas.yaml"),
    ] {
        let (code, said) = ran(arguments);
        assert_eq!(code, Some(3), "{arguments}: {said}");
        assert!(said.contains(words), "{arguments}: {said}");
    }
    let taken = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("its number").port();
    let (code, said) = ran(&format!("{} --admin-port 0 --port {port}", nowhere.flags()));
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{said}");
}

#[test]
fn an_api_server_that_is_away_makes_it_unready_with_the_reason_and_pods_pass() {
    let nowhere = Nowhere::new("away");
    let mut started = Started::new(&nowhere);
    started.log.line("a watch is in trouble");
    assert_eq!(get(started.admin, "/livez").0, "HTTP/1.1 200 OK");
    let until = Instant::now() + PATIENCE;
    let body = loop {
        let (status, body) = get(started.admin, "/readyz");
        assert_eq!(status, "HTTP/1.1 503 Service Unavailable");
        if body.contains("nodes: cannot reach the API server to list nodes") {
            break body;
        }
        assert!(Instant::now() < until, "{body}");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(body.contains("[-]feed failed: "), "{body}");

    let question = r#"{"Pod":{"metadata":{"name":"web","namespace":"shop","labels":{"telemetry-policy":"p"}}},"NodeNames":["a"]}"#;
    let (status, body) = ask(
        started.scheduler,
        &format!(
            "POST /scheduler/filter HTTP/1.1\r\nHost: tas\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{question}",
            question.len()
        ),
    );
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_eq!(
        body,
        r#"{"Nodes":null,"NodeNames":["a"],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}"#
    );
    let (_, metrics) = get(started.admin, "/metrics");
    for line in [
        "tas_extender_pods_without_policy_total{reason=\"policy_unknown\"} 1",
        "tas_feed_watch_up{watch=\"nodes\"} 0.0",
    ] {
        assert!(metrics.contains(line), "no {line} in\n{metrics}");
    }
    let line = started.log.line("pods name a policy that cannot be asked");
    assert!(line.contains("namespace=shop") && line.contains("policy=p"), "{line}");

    started.signal("TERM");
    assert_eq!(started.child.wait().expect("it ends").code(), Some(0));
}
