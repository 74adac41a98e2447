//! A detour on loopback: passes bytes on, late, or answers for the other side.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// What the relay does with each piece that comes along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Passes it on.
    Faithful,
    /// Passes it on after this long.
    Late(Duration),
    /// Takes a request and answers this instead of the other side.
    Lying(&'static str),
}

/// A running relay.
pub struct Relay {
    port: u16,
    manner: Arc<Mutex<Manner>>,
    server: JoinHandle<()>,
}

impl Relay {
    /// Listens on a free loopback port and leads to `to`.
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let manner = Arc::new(Mutex::new(Manner::Faithful));
        let shared = Arc::clone(&manner);
        let server = tokio::spawn(async move {
            // Connections end with the relay.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(carry(stream, to, Arc::clone(&shared)));
            }
        });
        Self { port, manner, server }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on, also for connections that are open.
    pub fn be(&self, manner: Manner) {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn carry(mut near: TcpStream, to: u16, manner: Arc<Mutex<Manner>>) {
    let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, to)).await else { return };
    let (mut asked, mut told) = (vec![0; 64 << 10], vec![0; 64 << 10]);
    loop {
        let (piece, from_near) = tokio::select! {
            read = near.read(&mut asked) => (read, true),
            read = far.read(&mut told) => (read, false),
        };
        let Ok(length @ 1..) = piece else { return };
        let now = manner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let passed = match now {
            Manner::Lying(answer) if from_near => near.write_all(answer.as_bytes()).await,
            Manner::Lying(_) => Ok(()),
            Manner::Faithful | Manner::Late(_) => {
                if let Manner::Late(delay) = now {
                    tokio::time::sleep(delay).await;
                }
                if from_near {
                    far.write_all(&asked[..length]).await
                } else {
                    near.write_all(&told[..length]).await
                }
            }
        };
        if passed.is_err() {
            return;
        }
    }
}
