//! What hostile callers see: nothing that helps them, and the others are served as before.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::started::{Reply, Started};

#[test]
fn smuggling_is_refused() {
    let agent = Started::new(&[]);
    let both = "GET / HTTP/1.1\r\nHost: n1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n";
    let two_lengths = "GET / HTTP/1.1\r\nHost: n1\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcd";
    let bad_coding = "GET / HTTP/1.1\r\nHost: n1\r\nTransfer-Encoding: xchunked\r\n\r\n";
    let space = "GET / HTTP/1.1\r\nHost : n1\r\nContent-Length : 4\r\n\r\nabcd";
    for request in [two_lengths, bad_coding, space] {
        assert_eq!(agent.ask(request).status, 400, "{request}");
    }
    // The chunked framing holds and the connection ends with that request: nothing is taken for a second one.
    let reply = agent.ask(both);
    let answers = String::from_utf8_lossy(&reply.body).matches("HTTP/1.1 ").count();
    assert!(reply.status == 400 || answers == 0, "{}", reply.head);
    assert_eq!(agent.get("/", "").status, 200);
}

#[test]
fn huge_headers_and_rubbish_are_refused() {
    let agent = Started::new(&[]);
    let huge = format!("GET / HTTP/1.1\r\nHost: n1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(agent.ask(&huge).status, 431);
    assert_eq!(agent.ask("\u{16}\u{3}\u{1}\r\n\r\n").status, 400);
    assert_eq!(agent.get("/", "").status, 200);
}

#[test]
fn a_slow_caller_is_cut_off() {
    let agent = Started::new(&[]);
    let mut slow = agent.connect();
    slow.write_all(b"GET / HTTP/1.1\r\nHost: n1\r\n").expect("it reads");
    let mut rest = Vec::new();
    // Ends at the header deadline; the read's own timeout is far longer.
    slow.read_to_end(&mut rest).expect("it is closed, not left hanging");
    assert_eq!(agent.get("/", "").status, 200);
}

/// As many as `agent::run::limits` allows.
const CONNECTIONS: usize = 64;

#[test]
fn connections_that_do_nothing_keep_no_scraper_out() {
    let agent = Started::new(&[]);
    // Each has been answered, so each has its place and could keep it for minutes.
    let mut held: Vec<TcpStream> = Vec::new();
    for n in 0..CONNECTIONS {
        let mut stream = agent.connect();
        stream.write_all(b"HEAD /metrics?names=tas HTTP/1.1\r\nHost: n1\r\n\r\n").expect("it reads");
        let mut first = [0; 15];
        stream.read_exact(&mut first).expect("it is answered");
        assert_eq!(&first, b"HTTP/1.1 200 OK", "connection {n}");
        held.push(stream);
    }
    for _ in 0..3 {
        let reply = agent.get("/metrics", "");
        assert!(reply.status == 200 && reply.text().contains("node_load1"), "{}", reply.head);
    }
    let mut rest = Vec::new();
    // The longest without a word has given way: closed or reset, but not left waiting until the read's own timeout.
    let read = held[0].read_to_end(&mut rest);
    assert!(read.map_or_else(|error| error.kind() != std::io::ErrorKind::WouldBlock, |_| true));
    agent.logged("all connections are taken");
}

#[test]
fn ten_thousand_connections_do_not_matter_to_the_next_scrape() {
    let agent = Started::new(&[]);
    let mut held: Vec<TcpStream> = Vec::new();
    for n in 0..10_000 {
        if let Ok(stream) = TcpStream::connect(agent.address)
            && n % 200 == 0
        {
            // Some are kept open, though not so many that no scraper gets in.
            held.push(stream);
        }
    }
    let reply = agent.get_until("/metrics", "", |reply| reply.status == 200);
    assert!(reply.text().contains("node_load1"));
    let memory = reply.text().lines().find_map(|line| line.strip_prefix("process_resident_memory_bytes "));
    let memory: u64 = memory.expect("told").parse().expect("a number");
    assert!(memory < 64 * 1024 * 1024, "{memory} bytes");
    drop(held);
}

#[test]
fn requests_one_after_the_other_without_waiting_are_all_answered() {
    let agent = Started::new(&["--names=tas"]);
    let mut stream = agent.connect();
    let one = "GET / HTTP/1.1\r\nHost: n1\r\n\r\n";
    let last = "GET / HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n";
    stream.write_all(format!("{one}{one}{last}").as_bytes()).expect("it reads");
    let mut all = Vec::new();
    stream.read_to_end(&mut all).expect("it is closed after the last");
    assert_eq!(String::from_utf8_lossy(&all).matches("HTTP/1.1 200 OK").count(), 3);
    let _ = Reply::read(&mut &all[..]);
}
