//! Starts an exporter and tells what it costs: memory, CPU when idle, CPU per scrape.
//!
//! `measure [--tree small|large] [--scrapes N] ADDRESS/PATH COMMAND…`; `{root}` in the command is a made host. CPU is
//! what the kernel counted for the process's threads, so what the machine does besides does not show in it.

#![expect(clippy::cast_precision_loss, reason = "milliseconds and percent for people to read")]

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agent::fixtures::Tree;

type Outcome<T> = Result<T, Box<dyn Error>>;

struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    /// CPU time of all threads in nanoseconds.
    fn cpu(&self) -> Outcome<u64> {
        let mut sum = 0;
        for task in fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let text = fs::read_to_string(task?.path().join("schedstat")).unwrap_or_default();
            sum += text.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }

    /// Threads that have ended are in no list of threads, but the kernel's ticks still count them.
    fn ticks(&self) -> Outcome<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after = stat.rsplit(')').next().ok_or("no stat")?;
        let fields: Vec<u64> =
            after.split_whitespace().skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        Ok(fields.iter().sum::<u64>() * 10_000_000)
    }

    fn status(&self, key: &str) -> Outcome<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = text.lines().find_map(|line| line.strip_prefix(key)).ok_or("no such line")?;
        Ok(line.split_whitespace().nth(0).ok_or("no number")?.parse()?)
    }
}

/// Reads one answer from a connection that stays open; returns its body's bytes as they came.
fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Outcome<Vec<u8>> {
    buffer.clear();
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Err("closed".into());
        }
        buffer.extend_from_slice(&chunk[..read]);
        let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
        let body = &buffer[end + 4..];
        let length =
            head.lines().find_map(|l| l.strip_prefix("content-length: ")).map(|l| l.trim().parse::<usize>());
        let whole = match length {
            Some(length) => body.len() >= length?,
            None if head.contains("chunked") => body.ends_with(b"0\r\n\r\n"),
            None => false,
        };
        if whole {
            return Ok(body.to_vec());
        }
    }
}

fn request(address: &str, path: &str, encoding: &str) -> String {
    format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nAccept: text/plain;version=0.0.4\r\nAccept-Encoding: {encoding}\r\n\r\n"
    )
}

fn main() -> Outcome<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut flag = |name: &str, default: &str| -> String {
        match arguments.iter().position(|argument| argument == name) {
            Some(at) if at + 1 < arguments.len() => {
                arguments.remove(at);
                arguments.remove(at)
            }
            _ => default.to_owned(),
        }
    };
    let (tree, scrapes, idle) = (flag("--tree", "none"), flag("--scrapes", "500"), flag("--idle", "20"));
    let (scrapes, idle): (u32, u64) = (scrapes.parse()?, idle.parse()?);
    let directory = tempfile::tempdir()?;
    match tree.as_str() {
        "large" => {
            Tree::at(directory.path()).large();
        }
        "small" => {
            Tree::at(directory.path()).proc(2, 2).sensors(2, 1, 1).server(1);
        }
        _ => {}
    }
    let root = directory.path().display().to_string();
    let [target, command, rest @ ..] = arguments.as_slice() else {
        return Err("an address and a command are needed".into());
    };
    let (address, path) =
        target.split_once('/').map_or((target.as_str(), "/".to_owned()), |(a, p)| (a, format!("/{p}")));
    let child = Command::new(command)
        .args(rest.iter().map(|argument| argument.replace("{root}", &root)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let running = Running { child };
    let begun = Instant::now();
    while TcpStream::connect(address).is_err() {
        if begun.elapsed() > Duration::from_secs(20) {
            return Err("it does not listen".into());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(Duration::from_secs(3));
    let rss_start = running.status("VmRSS:")?;
    let before = running.cpu()?;
    std::thread::sleep(Duration::from_secs(idle));
    let idle_share = (running.cpu()? - before) as f64 / (idle as f64 * 1e9) * 100.0;

    let mut buffer = Vec::new();
    let one =
        |connection: Option<&mut TcpStream>, encoding: &str, buffer: &mut Vec<u8>| -> Outcome<Vec<u8>> {
            let mut fresh;
            let stream = if let Some(stream) = connection {
                stream
            } else {
                fresh = TcpStream::connect(address)?;
                &mut fresh
            };
            stream.write_all(request(address, &path, encoding).as_bytes())?;
            answer(stream, buffer)
        };
    for _ in 0..20 {
        one(None, "identity", &mut buffer)?;
    }
    let body = one(None, "identity", &mut buffer)?;
    let series = body.split(|&b| b == b'\n').filter(|line| !line.is_empty() && line[0] != b'#').count();
    let mut costs = Vec::new();
    for (keep, encoding) in [(false, "identity"), (true, "identity"), (true, "gzip")] {
        let mut kept = TcpStream::connect(address)?;
        let (before, ticks) = (running.cpu()?, running.ticks()?);
        for _ in 0..scrapes {
            one(keep.then_some(&mut kept), encoding, &mut buffer)?;
        }
        let exact = (running.cpu()? - before) as f64 / f64::from(scrapes) / 1e6;
        let ticked = (running.ticks()? - ticks) as f64 / f64::from(scrapes) / 1e6;
        costs.push((exact, ticked));
    }
    println!(
        "{}: {series} series, {} bytes; idle {idle_share:.4} %; ms per scrape new {:.3} (ticks {:.3}), kept {:.3} ({:.3}), gzip {:.3} ({:.3}); RSS {rss_start} -> {} kB (peak {}), {} threads",
        command.rsplit('/').next().unwrap_or(command),
        body.len(),
        costs[0].0,
        costs[0].1,
        costs[1].0,
        costs[1].1,
        costs[2].0,
        costs[2].1,
        running.status("VmRSS:")?,
        running.status("VmHWM:")?,
        running.status("Threads:")?,
    );
    Ok(())
}
