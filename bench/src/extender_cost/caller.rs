//! A caller that costs little itself: blocking sockets, kept alive, one request at a time per connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::servers::ANSWER_BYTES;

/// Whom to call, and how.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    /// The client's side of TLS, if the server speaks it, and whom the certificate must be for.
    pub(crate) tls: Option<(Arc<rustls::ClientConfig>, ServerName<'static>)>,
}

/// A client that believes servers of this CA, and shows a certificate where it has one.
pub(crate) fn client(ca: &Path, shown: Option<(&Path, &Path)>) -> io::Result<Arc<rustls::ClientConfig>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).map_err(io::Error::other)?).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots);
    Ok(Arc::new(match shown {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let certificate = CertificateDer::from_pem_file(certificate).map_err(io::Error::other)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(io::Error::other)?;
            config.with_client_auth_cert(vec![certificate], key).map_err(io::Error::other)?
        }
    }))
}

/// How long the server's answer to the request is.
pub(crate) fn answer_length(to: &Target, request: &[u8]) -> io::Result<usize> {
    let mut connection = Connection::open(to)?;
    connection.ask(&with_answer_length(request, 2))
}

/// Sends the request `count` times over so many connections and tells how long each took.
pub(crate) fn ask(
    to: &Target,
    request: &[u8],
    answer: usize,
    count: usize,
    connections: usize,
) -> io::Result<Vec<Duration>> {
    let request = with_answer_length(request, answer);
    std::thread::scope(|scope| {
        let worker = || {
            let mut connection = Connection::open(to)?;
            // The first call pays for the connection; it is not what is measured.
            connection.ask(&request)?;
            let timed = |_| {
                let started = Instant::now();
                connection.ask(&request).map(|_| started.elapsed())
            };
            (0..count / connections).map(timed).collect::<io::Result<Vec<_>>>()
        };
        let workers: Vec<_> = (0..connections).map(|_| scope.spawn(worker)).collect();
        let mut all = Vec::with_capacity(count);
        for worker in workers {
            all.extend(worker.join().map_err(|_| io::Error::other("a caller panicked"))??);
        }
        Ok(all)
    })
}

fn with_answer_length(request: &[u8], answer: usize) -> Vec<u8> {
    let head_end = request.windows(4).position(|w| w == b"\r\n\r\n").map_or(request.len(), |at| at + 2);
    let (head, rest) = request.split_at(head_end);
    [head, format!("{ANSWER_BYTES}: {answer}\r\n").as_bytes(), rest].concat()
}

enum Connection {
    Plain(TcpStream),
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl Connection {
    fn open(to: &Target) -> io::Result<Self> {
        let tcp = TcpStream::connect(to.address)?;
        tcp.set_nodelay(true)?;
        tcp.set_read_timeout(Some(Duration::from_secs(30)))?;
        let Some((config, name)) = &to.tls else { return Ok(Self::Plain(tcp)) };
        let session =
            rustls::ClientConnection::new(Arc::clone(config), name.clone()).map_err(io::Error::other)?;
        Ok(Self::Tls(Box::new(rustls::StreamOwned::new(session, tcp))))
    }

    /// Sends a request and reads its answer; tells how long the body was.
    fn ask(&mut self, request: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => exchange(tcp, request),
            Self::Tls(stream) => exchange(stream, request),
        }
    }
}

fn exchange(stream: &mut (impl Read + Write), request: &[u8]) -> io::Result<usize> {
    stream.write_all(request)?;
    stream.flush()?;
    let mut buffer = vec![0; 64 * 1024];
    let mut head = Vec::new();
    let (length, mut missing) = loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        head.extend_from_slice(&buffer[..read]);
        if let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") {
            let Some(length) = content_length(&head[..end])? else {
                return in_chunks(stream, head.split_off(end + 4), &mut buffer);
            };
            break (length, (end + 4 + length).saturating_sub(head.len()));
        }
    };
    while missing > 0 {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        missing = missing.saturating_sub(read);
    }
    Ok(length)
}

/// Reads an answer in chunks to its end, as Go sends long ones; tells how much came.
fn in_chunks(stream: &mut impl Read, mut body: Vec<u8>, buffer: &mut [u8]) -> io::Result<usize> {
    while !body.ends_with(b"0\r\n\r\n") {
        let read = stream.read(buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        body.extend_from_slice(&buffer[..read]);
    }
    Ok(body.len())
}

/// The length of the answer, if it says one. It must be a good one: a benchmark of refusals would look splendid.
fn content_length(head: &[u8]) -> io::Result<Option<usize>> {
    let text = String::from_utf8_lossy(head);
    if !text.starts_with("HTTP/1.1 200") {
        return Err(io::Error::other(format!("not a good answer: {text}")));
    }
    let line = text
        .lines()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:").map(str::to_owned));
    line.map(|value| value.trim().parse().map_err(|_| io::Error::other(format!("a length of {value:?}"))))
        .transpose()
}
