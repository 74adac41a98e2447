//! TLS towards the backend: whom we trust is read again, and mistakes are named.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use engine::fixtures::metric;
use engine::time::Timestamp;
use feed::config::{Endpoint, FeedConfig};
use feed::directory::Directory;
use feed::source::{Ask, Want};
use feed::{MetricSource, Prometheus};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A backend that has no metrics, behind a certificate for `localhost`; gives its port.
async fn backend(authority: &CertifiedIssuer<'static, KeyPair>) -> u16 {
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let chain: Vec<CertificateDer<'static>> = vec![certificate.der().clone()];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut stream = acceptor.accept(stream).await?;
                let mut bytes = vec![0; 4096];
                let _ = stream.read(&mut bytes).await?;
                let body = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
                let head =
                    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
                stream.write_all((head + body).as_bytes()).await?;
                stream.shutdown().await
            });
        }
    });
    port
}

async fn told(source: &Prometheus) -> String {
    let ask = Ask {
        at: Timestamp::from_secs(0),
        step: Duration::from_secs(5),
        wants: vec![Want { metric: metric("power"), history: Duration::ZERO }],
        directory: Arc::new(Directory::default()),
    };
    source.read(ask).await.metrics[0].outcome.as_ref().unwrap_err().to_string()
}

#[tokio::test]
async fn the_certificates_to_trust_are_read_again_when_they_change() {
    let (ours, other) = (authority(), authority());
    let port = backend(&ours).await;
    let file: PathBuf = std::env::temp_dir().join(format!("tas-feed-ca-{}", std::process::id()));
    std::fs::write(&file, other.pem()).unwrap();
    let endpoint = Endpoint {
        ca_file: Some(file.clone()),
        timeout: Duration::from_secs(20),
        ..Endpoint::new(&format!("https://localhost:{port}")).unwrap()
    };
    let config = Arc::new(ArcSwap::from_pointee(FeedConfig::default()));
    let source = Prometheus::new(config, Some(endpoint));
    let refused = told(&source).await;
    assert!(
        refused.starts_with(&format!("cannot reach localhost:{port}: ")) && refused.contains("certificate"),
        "{refused}"
    );

    std::fs::write(&file, ours.pem()).unwrap();
    assert_eq!(told(&source).await, "no series found; looked for power, then node_power");

    std::fs::write(&file, "no certificate at all").unwrap();
    assert_eq!(told(&source).await, format!("{} holds no certificate in PEM form", file.display()));
    std::fs::remove_file(&file).unwrap();
    assert!(told(&source).await.starts_with(&format!("cannot read the CA file {}", file.display())));
}

#[tokio::test]
async fn an_address_that_becomes_https_is_trusted_by_the_same_file() {
    let ours = authority();
    let port = backend(&ours).await;
    let file: PathBuf = std::env::temp_dir().join(format!("tas-feed-ca-edit-{}", std::process::id()));
    std::fs::write(&file, ours.pem()).unwrap();
    let of_scheme = |scheme: &str| FeedConfig {
        prometheus: Some(Endpoint {
            ca_file: Some(file.clone()),
            timeout: Duration::from_secs(20),
            ..Endpoint::new(&format!("{scheme}://localhost:{port}")).unwrap()
        }),
        ..FeedConfig::default()
    };
    let config = Arc::new(ArcSwap::from_pointee(of_scheme("http")));
    let source = Prometheus::new(Arc::clone(&config), None);
    assert!(told(&source).await.starts_with("cannot reach localhost:"));
    config.store(Arc::new(of_scheme("https")));
    assert_eq!(told(&source).await, "no series found; looked for power, then node_power");
    std::fs::remove_file(&file).unwrap();
}
