//! A scraper that does nothing but scrape, so that all CPU worth counting is spent by the one who answers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long an answer may take before the measurement is given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// One way of scraping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// A connection for each scrape.
    New,
    /// One connection for all.
    Kept,
    /// One connection, and packed as Prometheus asks for it.
    Packed,
}

impl Manner {
    pub(crate) const ALL: [Self; 3] = [Self::New, Self::Kept, Self::Packed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::New => "new connection",
            Self::Kept => "kept connection",
            Self::Packed => "kept, gzip",
        }
    }
}

fn connect(to: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Scrapes `count` times and returns the last body as it came.
pub(crate) fn scrape(to: SocketAddr, manner: Manner, count: usize) -> io::Result<Vec<u8>> {
    let encoding = if manner == Manner::Packed { "gzip" } else { "identity" };
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: {to}\r\nAccept: text/plain;version=0.0.4\r\nAccept-Encoding: {encoding}\r\n\r\n"
    );
    let mut kept = None;
    let mut body = Vec::new();
    for _ in 0..count {
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => connect(to)?,
        };
        stream.write_all(request.as_bytes())?;
        body = answer(&mut stream)?;
        if manner != Manner::New {
            kept = Some(stream);
        }
    }
    Ok(body)
}

/// The page as text.
pub(crate) fn page(from: SocketAddr) -> io::Result<String> {
    let body = scrape(from, Manner::New, 1)?;
    String::from_utf8(body).map_err(|_| io::Error::other(format!("{from} answers something else than UTF-8")))
}

fn answer(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(64 * 1024);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Err(io::Error::other("the connection was closed within an answer"));
        }
        bytes.extend_from_slice(&chunk[..read]);
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        if !head.starts_with("http/1.1 200 ") {
            return Err(io::Error::other(format!(
                "the answer is {:?}",
                head.lines().next().unwrap_or_default()
            )));
        }
        let body = &bytes[end + 4..];
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        match length {
            Some(length) if body.len() >= length => return Ok(body.to_vec()),
            None if head.contains("chunked") && body.ends_with(b"0\r\n\r\n") => return Ok(joined(body)),
            _ => {}
        }
    }
}

/// The chunks of a body put together.
fn joined(mut chunks: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(chunks.len());
    while let Some(end) = chunks.windows(2).position(|window| window == b"\r\n") {
        let length =
            std::str::from_utf8(&chunks[..end]).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
        let Some(length) = length.filter(|&length| length > 0 && end + 2 + length <= chunks.len()) else {
            break;
        };
        body.extend_from_slice(&chunks[end + 2..end + 2 + length]);
        chunks = chunks.get(end + 4 + length..).unwrap_or_default();
    }
    body
}

/// Lines with a value.
pub(crate) fn series(page: &str) -> usize {
    page.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}
