//! The client: bad kubeconfigs are named, and an API server that says nothing is given up.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;
use std::time::Duration;

use cluster::definition::installed;
use cluster::watch::News;
use cluster::{Deadlines, Kubeconfig, client};
use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tas-cluster-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::File { path: self.0.clone(), context: None }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn pointing_at(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: '{server}'}}}}]\n\
         users: [{{name: u, user: {{}}}}]\ncontexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
    )
}

#[tokio::test]
async fn an_api_server_that_says_nothing_is_given_up_at_the_deadline() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let file = TempFile::new("silent", &pointing_at(&format!("http://{}", silent.local_addr().unwrap())));
    let deadlines = Deadlines { answer: Duration::from_millis(200), ..Deadlines::default() };
    let client = client(&file.kubeconfig(), deadlines).await.unwrap();
    let trouble = installed(&client).await.unwrap_err().to_string();
    assert!(trouble.starts_with("cannot reach the API server to get customresourcedefinitions"), "{trouble}");
    drop(silent);
    let trouble = installed(&client).await.unwrap_err().to_string();
    assert!(trouble.starts_with("cannot reach the API server to get customresourcedefinitions"), "{trouble}");
}

/// Longer than anything here takes; only a deadline that does not work would use it up.
const PATIENCE: Duration = Duration::from_mins(1);

#[tokio::test]
async fn an_api_server_that_does_not_even_accept_is_given_up_at_the_deadline() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let full = socket.listen(1).unwrap();
    let address = full.local_addr().unwrap();
    // Nobody accepts, so that soon the kernel takes no more connections either.
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(300), tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(stream);
        assert!(waiting.len() < 1000, "the kernel takes connections without end");
    }
    let file = TempFile::new("full", &pointing_at(&format!("http://{address}")));
    let deadlines = Deadlines { connect: Duration::from_millis(200), ..Deadlines::default() };
    let client = client(&file.kubeconfig(), Deadlines { answer: PATIENCE, ..deadlines }).await.unwrap();
    let asked = tokio::time::timeout(PATIENCE / 2, installed(&client)).await.expect("given up before");
    let trouble = asked.unwrap_err().to_string();
    assert!(trouble.starts_with("cannot reach the API server to get customresourcedefinitions"), "{trouble}");
}

/// Reads one request's head and tells its first line.
async fn request_line(stream: &mut tokio::net::TcpStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "closed in the middle of a head");
    }
    String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_watch_that_has_fallen_silent_is_begun_again() {
    let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let file = TempFile::new("quiet", &pointing_at(&format!("http://{}", server.local_addr().unwrap())));
    let deadlines = Deadlines { silence: Duration::from_millis(300), ..Deadlines::default() };
    let client = client(&file.kubeconfig(), deadlines).await.unwrap();
    let list = r#"{"apiVersion":"v1","kind":"NodeList","metadata":{"resourceVersion":"5"},"items":[]}"#;
    let (asked, mut lines) = tokio::sync::mpsc::unbounded_channel();
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = server.accept().await.unwrap();
            let asked = asked.clone();
            tokio::spawn(async move {
                loop {
                    let line = request_line(&mut stream).await;
                    let watch = line.contains("watch=true");
                    let _ = asked.send(line);
                    if watch {
                        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
                        stream.write_all(head.as_bytes()).await.unwrap();
                        return std::future::pending::<()>().await;
                    }
                    let head = format!(
                        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
                        list.len()
                    );
                    stream.write_all(format!("{head}{list}").as_bytes()).await.unwrap();
                }
            });
        }
    });
    let mut news = std::pin::pin!(cluster::watch::nodes(&client));
    let following = async {
        let mut told = Vec::new();
        let mut watches = 0;
        while watches < 2 {
            tokio::select! {
                news = news.next() => told.push(news),
                line = lines.recv() => watches += usize::from(line.unwrap().contains("watch=true")),
            }
        }
        told
    };
    let told = tokio::time::timeout(PATIENCE, following).await.expect("a second watch");
    assert!(matches!(told.first(), Some(Some(News::All(_)))), "{told:?}");
    assert!(told.iter().any(|news| matches!(news, Some(News::Trouble(_)))), "{told:?}");
    serving.abort();
}

#[tokio::test]
async fn a_kubeconfig_that_cannot_be_used_is_named() {
    let refused = async |text: &str| {
        let file = TempFile::new("bad", text);
        let error = client(&file.kubeconfig(), Deadlines::default()).await.err().unwrap().to_string();
        error.replace(&file.0.display().to_string(), "FILE")
    };
    assert!(refused("not: [yaml").await.starts_with("cannot use the kubeconfig \"FILE\": "));
    assert!(
        refused("apiVersion: v1\nkind: Config\n").await.starts_with("cannot use the kubeconfig \"FILE\": ")
    );
    let gone = Kubeconfig::File { path: "/nowhere/at/all".into(), context: None };
    let error = client(&gone, Deadlines::default()).await.err().unwrap().to_string();
    assert!(error.starts_with("cannot use the kubeconfig \"/nowhere/at/all\": "), "{error}");
    let joined = Kubeconfig::File { path: "/nowhere/a:/nowhere/b".into(), context: None };
    let error = client(&joined, Deadlines::default()).await.err().unwrap().to_string();
    assert_eq!(
        error,
        "cannot use the kubeconfig \"/nowhere/a:/nowhere/b\": files joined by ':' are not merged here; name one"
    );
}
