//! A certificate authority for tests, the pairs it issues, and directories to mount them in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate and key.
    pub(crate) pair: Pair,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        let pair = Pair { certificate, key: key.serialize_pem() };
        Self { issuer: Issuer::new(params, key), pair }
    }

    pub(crate) fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate").pem();
        Pair { certificate, key: key.serialize_pem() }
    }

    pub(crate) fn server(&self) -> Pair {
        self.issue("localhost", |params| {
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        })
    }

    pub(crate) fn client(&self, name: &str) -> Pair {
        self.issue(name, |params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth])
    }

    /// A client that trusts this authority and presents the pair.
    pub(crate) fn caller(&self, pair: Option<&Pair>) -> Caller {
        Caller::new(self, pair, &["http/1.1"], &[&rustls::version::TLS12, &rustls::version::TLS13])
    }
}

pub(crate) struct Caller(TlsConnector);

impl Caller {
    pub(crate) fn new(
        trusted: &Authority,
        pair: Option<&Pair>,
        protocols: &[&str],
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(der(&trusted.pair.certificate)).expect("a root");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .expect("versions")
            .with_root_certificates(roots);
        let mut config = match pair {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(vec![der(&pair.certificate)], key).expect("a pair")
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Self(TlsConnector::from(Arc::new(config)))
    }

    pub(crate) async fn call(&self, stream: TcpStream) -> std::io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from("localhost").expect("a name");
        super::soon("a handshake", self.0.connect(name, stream)).await
    }
}

pub(crate) fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate")
}

/// A directory like a mounted Secret: `tls.crt`, `tls.key` and `ca.crt` are links through `..data`, which is swapped.
pub(crate) struct Mount {
    pub(crate) path: PathBuf,
    version: std::cell::Cell<u32>,
}

impl Mount {
    pub(crate) fn new(test: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("a directory");
        for name in ["tls.crt", "tls.key", "ca.crt"] {
            std::os::unix::fs::symlink(format!("..data/{name}"), path.join(name)).expect("a link");
        }
        Self { path, version: std::cell::Cell::new(0) }
    }

    /// Replaces all three files in one step, as kubelet does.
    pub(crate) fn swap(&self, certificate: &str, key: &str, ca: &str) {
        let version = self.version.get() + 1;
        self.version.set(version);
        let data = format!("..version-{version}");
        std::fs::create_dir(self.path.join(&data)).expect("a directory");
        for (name, text) in [("tls.crt", certificate), ("tls.key", key), ("ca.crt", ca)] {
            std::fs::write(self.path.join(&data).join(name), text).expect("a file");
        }
        std::os::unix::fs::symlink(&data, self.path.join("..next")).expect("a link");
        std::fs::rename(self.path.join("..next"), self.path.join("..data")).expect("a swap");
    }

    /// Takes all three files away.
    pub(crate) fn empty(&self) {
        std::fs::remove_file(self.path.join("..data")).expect("a link");
    }

    pub(crate) fn settings(&self, names: &[&str]) -> chassis::tls::Settings {
        chassis::tls::Settings {
            certificate: self.path.join("tls.crt"),
            key: self.path.join("tls.key"),
            clients: chassis::tls::Clients::SignedBy {
                ca: self.path.join("ca.crt"),
                names: names.iter().map(|&name| name.to_owned()).collect(),
            },
            protocols: chassis::tls::Protocols::Http1First,
        }
    }

    /// Messages name files; without this directory they are the same everywhere.
    pub(crate) fn anonymous(&self, text: &str) -> String {
        text.replace(&self.path.display().to_string(), "/certs")
    }
}
