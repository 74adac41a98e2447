//! A scripted HTTP server on loopback, which can also misbehave.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a server that belongs to tests")]

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: String,
    pub(crate) form: Vec<(String, String)>,
}

impl Request {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.form.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }
}

/// What the server does about it.
pub(crate) enum Reply {
    /// A whole answer.
    Json(u16, String),
    /// These bytes, and the connection is closed.
    Raw(Vec<u8>),
    /// Nothing, for as long as the caller waits.
    Silence,
    /// What this comes to.
    Later(std::pin::Pin<Box<dyn Future<Output = Reply> + Send>>),
}

pub(crate) fn ok(body: impl Into<String>) -> Reply {
    Reply::Json(200, body.into())
}

/// A vector in the words of Prometheus; each element is its labels and a value.
pub(crate) fn vector(at: &str, series: &[(&str, &str)]) -> Reply {
    let series: Vec<String> = series
        .iter()
        .map(|(labels, value)| format!(r#"{{"metric":{{{labels}}},"value":[{at},"{value}"]}}"#))
        .collect();
    ok(format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#, series.join(",")))
}

pub(crate) struct Backend {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Backend {
    pub(crate) async fn start(script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let (script, seen) = (Arc::new(script), Arc::clone(&requests));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, seen) = (Arc::clone(&script), Arc::clone(&seen));
                tokio::spawn(async move {
                    let _ = converse(stream, &*script, &seen).await;
                });
            }
        });
        Self { url, requests, task }
    }

    /// What has come in so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

async fn converse(
    mut stream: TcpStream,
    script: &(impl Fn(&Request) -> Reply + Send + Sync),
    seen: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let head = loop {
            if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
                break end + 4;
            }
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        };
        let headers = String::from_utf8_lossy(&bytes[..head]).into_owned();
        let length: usize = headers
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok())
            .unwrap_or(0);
        while bytes.len() < head + length {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
        }
        let body = String::from_utf8_lossy(&bytes[head..head + length]).into_owned();
        bytes.drain(..head + length);
        let mut line = headers.split_whitespace();
        let request = Request {
            method: line.next().unwrap_or_default().to_owned(),
            path: line.next().unwrap_or_default().to_owned(),
            headers: headers.clone(),
            form: decoded(&body),
        };
        seen.lock().unwrap().push(request.clone());
        let mut reply = script(&request);
        while let Reply::Later(later) = reply {
            reply = later.await;
        }
        match reply {
            Reply::Json(status, body) => {
                let head = format!(
                    "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all(head.as_bytes()).await?;
                stream.write_all(body.as_bytes()).await?;
            }
            Reply::Raw(bytes) => {
                stream.write_all(&bytes).await?;
                return stream.shutdown().await;
            }
            Reply::Silence | Reply::Later(_) => std::future::pending().await,
        }
    }
}

fn decoded(form: &str) -> Vec<(String, String)> {
    let plain = |text: &str| {
        let mut bytes = Vec::new();
        let mut rest = text.bytes();
        while let Some(byte) = rest.next() {
            match byte {
                b'+' => bytes.push(b' '),
                b'%' => {
                    let digits = [rest.next().unwrap(), rest.next().unwrap()];
                    bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
                }
                other => bytes.push(other),
            }
        }
        String::from_utf8(bytes).unwrap()
    };
    form.split('&').filter_map(|pair| pair.split_once('=')).map(|(k, v)| (plain(k), plain(v))).collect()
}
