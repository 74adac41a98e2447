//! A caller of the extender that is not kube-scheduler: asks one `tas` directly, with the certificate it is given.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testbed::pki::Leaf;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

/// How long one question may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Who asks, and whom they believe.
#[derive(Clone)]
pub struct Caller {
    tls: TlsConnector,
}

impl Caller {
    /// Believes servers of this CA (in PEM) and shows this certificate, or none.
    pub fn new(ca: &str, shown: Option<&Leaf>) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).expect("PEM")).expect("a certificate");
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(roots);
        let config = match shown {
            None => config.with_no_client_auth(),
            Some(leaf) => {
                let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).expect("PEM");
                config.with_client_auth_cert(vec![certificate], key).expect("they belong together")
            }
        };
        Self { tls: TlsConnector::from(Arc::new(config)) }
    }

    /// Which of these nodes may take a pod of `default` that names this policy: those that may, and why not the others.
    pub async fn filter(&self, port: u16, policy: &str, nodes: &[&str]) -> Result<Filtered, String> {
        let pod = json!({"metadata": {"name": "p", "namespace": "default", "labels": {"telemetry-policy": policy}}});
        let body = json!({"Pod": pod, "Nodes": null, "NodeNames": nodes});
        let answer = self.post(port, "/scheduler/filter", &body).await?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let passed = answer["NodeNames"].as_array().ok_or_else(|| format!("no names in {answer}"))?;
        let failed = answer["FailedAndUnresolvableNodes"].as_object();
        let failed = failed.ok_or_else(|| format!("no failures in {answer}"))?;
        Ok(Filtered {
            passed: passed.iter().map(text).collect(),
            failed: failed.iter().map(|(node, why)| (node.clone(), text(why))).collect(),
        })
    }

    /// The certificate that the server shows on a new connection.
    pub async fn shown_by(&self, port: u16) -> Result<Vec<u8>, String> {
        let stream = self.connect(port).await?;
        let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        Ok(shown.ok_or("it shows none")?.to_vec())
    }

    async fn connect(&self, port: u16) -> Result<TlsStream<TcpStream>, String> {
        let stream =
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.map_err(|error| error.to_string())?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        self.tls.connect(name, stream).await.map_err(|error| error.to_string())
    }

    /// Asks over a connection of its own.
    pub async fn post(&self, port: u16, route: &str, body: &Value) -> Result<Value, String> {
        let asked = async {
            let said = |error: std::io::Error| error.to_string();
            let mut stream = self.connect(port).await?;
            let body = body.to_string();
            let request = format!(
                "POST {route} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).await.map_err(said)?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.map_err(said)?;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let (head, body) =
                answer.split_once("\r\n\r\n").ok_or_else(|| format!("no answer: {answer:?}"))?;
            if !head.starts_with("HTTP/1.1 200") {
                return Err(format!("{head}\n{body}"));
            }
            serde_json::from_str(body).map_err(|error| format!("{error}: {body}"))
        };
        tokio::time::timeout(LIMIT, asked).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }
}

/// An answer to [`Caller::filter`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filtered {
    /// Nodes that may take the pod.
    pub passed: Vec<String>,
    /// The others, each with the reason given.
    pub failed: Vec<(String, String)>,
}
