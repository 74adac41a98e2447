//! A started agent, and an HTTP client that does exactly what it is told.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use agent::fixtures::Tree;

const PATIENCE: Duration = Duration::from_secs(30);

/// A child process with the address it said it serves on.
pub(crate) struct Started {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) tree: Tree,
    log: Receiver<String>,
    _directory: tempfile::TempDir,
}

impl Started {
    /// On a made host with two sockets, with these flags; `{}` in a flag is the tree's root.
    pub(crate) fn new(flags: &[&str]) -> Self {
        Self::on(flags, |tree| {
            tree.proc(2, 2).server(2).write("proc/sys/kernel/hostname", "n1\n");
        })
    }

    pub(crate) fn on(flags: &[&str], make: impl FnOnce(&Tree)) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let root = directory.path().display().to_string();
        let tree = Tree::at(directory.path());
        make(&tree);
        let mut child = Command::new(env!("CARGO_BIN_EXE_tas-agent"))
            .args(["--listen=127.0.0.1:0", &format!("--root={root}")])
            .args(flags.iter().map(|flag| flag.replace("{}", &root)))
            .env_clear()
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let (lines, log) = channel();
        std::thread::spawn(move || {
            stderr.lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
        });
        let mut started = Self { child, address: ([0; 4], 0).into(), tree, log, _directory: directory };
        let line = started.logged("serving");
        let address = line.split("listen=").nth(1).and_then(|rest| rest.split(' ').next());
        started.address = address.expect("the address is said").parse().expect("an address");
        started
    }

    /// Waits for a line with `what` in it.
    pub(crate) fn logged(&self, what: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self
                .log
                .recv_timeout(until.saturating_duration_since(Instant::now()))
                .expect("the line comes");
            if line.contains(what) {
                return line;
            }
        }
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream
    }

    /// One request on its own connection.
    pub(crate) fn ask(&self, request: &str) -> Reply {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it reads");
        Reply::read(&mut stream)
    }

    pub(crate) fn get(&self, path: &str, headers: &str) -> Reply {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n{headers}\r\n"))
    }

    /// Asks until the answer is as it should be.
    pub(crate) fn get_until(&self, path: &str, headers: &str, fits: impl Fn(&Reply) -> bool) -> Reply {
        let until = Instant::now() + PATIENCE;
        loop {
            let reply = self.get(path, headers);
            if fits(&reply) {
                return reply;
            }
            assert!(Instant::now() < until, "{} {}", reply.head, String::from_utf8_lossy(&reply.body));
            std::thread::yield_now();
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(sent.expect("kill runs").success());
    }

    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came back before the connection was closed.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn read(stream: &mut impl Read) -> Self {
        let mut bytes = Vec::new();
        // A peer that resets after its answer has still answered.
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").unwrap_or(bytes.len());
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let body = bytes.get(end + 4..).unwrap_or_default().to_vec();
        Self { status, head, body }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("UTF-8")
    }
}
