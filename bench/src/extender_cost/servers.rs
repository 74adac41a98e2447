//! The two servers under test, each in a process of its own: ours, and one that reads and answers alike but
//! does nothing between.

use std::convert::Infallible;
use std::io::{self, BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use chassis::body::Room;
use chassis::tls::{Clients, Live, Protocols, Settings, unix_now};
use chassis::{BodyLimits, Counters, Limits, Listener};
use engine::fixtures::at;
use extender::Extender;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use rustls::pki_types::ServerName;
use server::scheduler_port::SchedulerPort;

use super::caller::{Target, client};
use crate::engine_cost;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Ours,
    Nothing,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Nothing => "nothing",
        }
    }
}

/// How long the answer of the server that does nothing should be.
pub(crate) const ANSWER_BYTES: &str = "x-answer-bytes";

/// A server that runs until this is dropped.
pub(crate) struct Process {
    child: Child,
    /// Closing it is the sign to end, also when this process is killed.
    _stdin: Option<ChildStdin>,
    pub(crate) target: Target,
    directory: PathBuf,
}

impl Process {
    pub(crate) fn start(kind: Kind, tls: bool) -> io::Result<Self> {
        let directory =
            std::env::temp_dir().join(format!("tas-bench-{}-{}-{tls}", std::process::id(), kind.name()));
        std::fs::create_dir_all(&directory)?;
        if tls {
            write_certificate(&directory)?;
        }
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["extender-server", kind.name()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        if tls {
            command.arg(&directory);
        }
        let mut child = command.spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let address = line
            .trim()
            .parse()
            .map_err(|_| io::Error::other(format!("the server said {line:?}, not its address")))?;
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let tls =
            tls.then(|| Ok::<_, io::Error>((client(&directory.join("tls.crt"), None)?, name))).transpose()?;
        Ok(Self { _stdin: child.stdin.take(), child, target: Target { address, tls }, directory })
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn write_certificate(directory: &Path) -> io::Result<()> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).map_err(io::Error::other)?;
    std::fs::write(directory.join("tls.crt"), made.cert.pem())?;
    std::fs::write(directory.join("tls.key"), made.signing_key.serialize_pem())
}

/// Runs one of the two until standard input closes.
pub(crate) fn serve(kind: &str, tls: Option<&str>) -> io::Result<()> {
    std::thread::spawn(|| {
        let _ = io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let mut listener =
            Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.map_err(io::Error::other)?;
        println!("{}", listener.local_addr()?);
        if let Some(directory) = tls.map(Path::new) {
            let settings = Settings {
                certificate: directory.join("tls.crt"),
                key: directory.join("tls.key"),
                clients: Clients::Anyone,
                protocols: Protocols::Http1,
            };
            let (live, _) = Live::load(settings, unix_now()).map_err(io::Error::other)?;
            listener = listener.with_tls(live);
        }
        let (_trigger, shutdown) = chassis::shutdown::channel();
        let counters = Arc::new(Counters::default());
        if kind == Kind::Ours.name() {
            let port = SchedulerPort::new(
                Arc::new(extender()),
                BodyLimits::default(),
                Room::new(usize::MAX),
                Arc::new(|| at(1)),
            );
            chassis::serve(listener, port, Limits::default(), counters, shutdown).await;
        } else {
            let service = hyper::service::service_fn(do_nothing);
            chassis::serve(listener, service, Limits::default(), counters, shutdown).await;
        }
        Ok(())
    })
}

/// The extender on the largest cluster of the budgets.
pub(crate) fn extender() -> Extender {
    let view = engine_cost::view(engine_cost::NODES, engine_cost::POLICIES);
    Extender::new(Arc::new(arc_swap::ArcSwap::from_pointee(view)), extender::DEFAULT_SCORE_TOP)
}

async fn do_nothing(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let wanted = request.headers().get(ANSWER_BYTES).and_then(|value| value.to_str().ok()?.parse().ok());
    let _ = chassis::body::read(request.into_body(), BodyLimits::default(), &Room::new(usize::MAX)).await;
    Ok(Response::new(Full::new(Bytes::from(vec![b' '; wanted.unwrap_or(2)]))))
}
