//! The aggregation layer reaches programs on loopback, introduces itself with the front proxy's certificate and says on
//! whose behalf it asks.

use std::net::Ipv4Addr;
use std::sync::Arc;

use e2e::cluster_of;
use testbed::cluster::AggregatedApi;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig, crypto};

const ANSWER: &str = r#"{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"custom.metrics.k8s.io/v1beta1","resources":[{"name":"nodes/power_watts","singularName":"","namespaced":false,"kind":"MetricValueList","verbs":["get"]}]}"#;

fn tls(cluster: &testbed::Cluster, name: &str) -> TlsAcceptor {
    let leaf = cluster.authority().server("metrics", &[name]).expect("a certificate");
    let certificate = CertificateDer::from_pem_slice(leaf.certificate.as_bytes()).expect("PEM");
    let key = PrivateKeyDer::from_pem_slice(leaf.key.as_bytes()).expect("PEM");
    let mut roots = RootCertStore::empty();
    let front_proxy = CertificateDer::from_pem_file(cluster.layout().pki("front-proxy-ca.crt")).expect("PEM");
    roots.add(front_proxy).expect("a certificate");
    let provider = Arc::new(crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_client_cert_verifier(verifier.build().expect("there is a root"))
        .with_single_cert(vec![certificate], key)
        .expect("they belong together");
    TlsAcceptor::from(Arc::new(config))
}

/// Answers every request alike and passes its head on.
async fn serve(listener: TcpListener, tls: TlsAcceptor, heads: mpsc::UnboundedSender<String>) {
    while let Ok((stream, _)) = listener.accept().await {
        let (tls, heads) = (tls.clone(), heads.clone());
        tokio::spawn(async move {
            // Whoever has no certificate of the front proxy ends here.
            let Ok(mut stream) = tls.accept(stream).await else { return };
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                match stream.read_u8().await {
                    Ok(byte) => head.push(byte),
                    Err(_) => return,
                }
            }
            let _ = heads.send(String::from_utf8_lossy(&head).into_owned());
            let length = ANSWER.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
                 Connection: close\r\n\r\n{ANSWER}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        });
    }
}

#[tokio::test]
async fn an_aggregated_api_on_loopback_is_called_with_the_users_name() {
    let cluster = cluster_of(0).await;
    let port = cluster.port().expect("a port");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.expect("it is ours");
    let (heads, mut seen) = mpsc::unbounded_channel();
    let server = tokio::spawn(serve(listener, tls(&cluster, "metrics.tas-system.svc"), heads));
    let api = AggregatedApi {
        group: "custom.metrics.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        namespace: "tas-system".to_owned(),
        service: "metrics".to_owned(),
        port,
    };
    cluster.aggregate(&api).await.expect("the API server finds it");
    let path = "/apis/custom.metrics.k8s.io/v1beta1?asked=by-the-test";
    let answer = cluster.kubectl(&["get", "--raw", path]).await.expect("an answer");
    assert_eq!(answer, ANSWER);
    let mut asked = Vec::new();
    while let Ok(head) = seen.try_recv() {
        asked.push(head.to_ascii_lowercase());
    }
    let ours =
        asked.iter().find(|head| head.contains("asked=by-the-test")).expect("the question came through");
    assert!(ours.contains("\r\nx-remote-user: testbed:admin\r\n"), "{ours}");
    server.abort();
}
