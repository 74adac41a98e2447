//! From file contents to something that can serve, or the reason why not. Decides; reads no file, knows no clock.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{RootCertStore, ServerConfig};

use super::certificate::{Certificate, moment};
use super::clients::NamedClients;
use super::{Clients, Protocols, Settings};

/// The contents of the files that [`Settings`] names. A file that could not be read is the reason in words.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Contents {
    pub(super) certificate: Result<Vec<u8>, String>,
    pub(super) key: Result<Vec<u8>, String>,
    /// Of the client CA, if there is one.
    pub(super) ca: Option<Result<Vec<u8>, String>>,
}

/// Ready to serve.
pub(super) struct Material {
    pub(super) config: Arc<ServerConfig>,
    pub(super) certificate: Certificate,
}

/// Why certificate, key and CA cannot be used.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Problem {
    /// A file is missing, too large or not ours to read.
    #[error("cannot read {}: {reason}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        reason: String,
    },
    /// A file without a certificate in it.
    #[error("{} holds no certificate; it must have a PEM block that begins with -----BEGIN CERTIFICATE-----", path.display())]
    NoCertificate {
        /// The file.
        path: PathBuf,
    },
    /// A file without a private key in it.
    #[error("{} holds no private key; it must have a PEM block of the kind PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY, not encrypted", path.display())]
    NoKey {
        /// The file.
        path: PathBuf,
    },
    /// A file with a damaged PEM block.
    #[error("{} is not valid PEM: {reason}", path.display())]
    NotPem {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key are not a pair.
    #[error("the certificate in {} and the key in {} do not belong together; was only one of them replaced?", certificate.display(), key.display())]
    Mismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// Past its time.
    #[error("the certificate in {} expired at {}; renew it", path.display(), moment(*.at))]
    Expired {
        /// The file.
        path: PathBuf,
        /// When, in seconds since 1970.
        at: i64,
    },
    /// Before its time.
    #[error("the certificate in {} is not valid before {}; is the clock right?", path.display(), moment(*.at))]
    NotYetValid {
        /// The file.
        path: PathBuf,
        /// From when, in seconds since 1970.
        at: i64,
    },
    /// Something that the TLS library does not take.
    #[error("{} cannot be used: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What the library said.
        reason: String,
    },
}

/// Puts the pieces together, or says what is wrong with them. `now` is in seconds since 1970.
pub(super) fn assemble(contents: &Contents, settings: &Settings, now: i64) -> Result<Material, Problem> {
    let unusable = |path: &Path, error: &dyn std::fmt::Display| Problem::Unusable {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let chain = certificates(&contents.certificate, &settings.certificate)?;
    let key = private_key(&contents.key, &settings.key)?;
    let certificate = Certificate::read(&chain[0])
        .ok_or_else(|| unusable(&settings.certificate, &"its first certificate is not X.509"))?;
    if certificate.not_after < now {
        return Err(Problem::Expired { path: settings.certificate.clone(), at: certificate.not_after });
    }
    if certificate.not_before > now {
        return Err(Problem::NotYetValid { path: settings.certificate.clone(), at: certificate.not_before });
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let signing_key =
        provider.key_provider.load_private_key(key).map_err(|error| unusable(&settings.key, &error))?;
    let pair = CertifiedKey::new(chain, signing_key);
    pair.keys_match().map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => {
            Problem::Mismatch { certificate: settings.certificate.clone(), key: settings.key.clone() }
        }
        error => unusable(&settings.certificate, &error),
    })?;

    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
        .map_err(|error| unusable(&settings.certificate, &error))?;
    let builder = match (&settings.clients, &contents.ca) {
        (Clients::SignedBy { ca, names }, Some(pem)) => {
            let mut roots = RootCertStore::empty();
            for root in certificates(pem, ca)? {
                roots.add(root).map_err(|error| unusable(ca, &error))?;
            }
            let signed = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                // With hints, a Go client that holds a certificate of another CA sends none at all, and all
                // we could report is "no certificate".
                .clear_root_hint_subjects()
                .build()
                .map_err(|error| unusable(ca, &error))?;
            builder.with_client_cert_verifier(Arc::new(NamedClients::new(signed, names.clone())))
        }
        _ => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(Arc::new(SingleCertAndKey::from(pair)));
    config.alpn_protocols = match settings.protocols {
        Protocols::Http1 => vec![b"http/1.1".to_vec()],
        #[cfg(feature = "http2")]
        Protocols::Http1First => vec![b"http/1.1".to_vec(), b"h2".to_vec()],
        #[cfg(feature = "http2")]
        Protocols::Http2First => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
    };
    Ok(Material { config: Arc::new(config), certificate })
}

fn certificates(pem: &Result<Vec<u8>, String>, path: &Path) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(readable(pem, path)?).collect();
    let found = found.map_err(|error| not_pem(path, &error))?;
    if found.is_empty() { Err(Problem::NoCertificate { path: path.to_owned() }) } else { Ok(found) }
}

fn private_key(pem: &Result<Vec<u8>, String>, path: &Path) -> Result<PrivateKeyDer<'static>, Problem> {
    PrivateKeyDer::from_pem_slice(readable(pem, path)?).map_err(|error| match error {
        pem::Error::NoItemsFound => Problem::NoKey { path: path.to_owned() },
        error => not_pem(path, &error),
    })
}

fn readable<'c>(contents: &'c Result<Vec<u8>, String>, path: &Path) -> Result<&'c [u8], Problem> {
    contents
        .as_deref()
        .map_err(|reason| Problem::Unreadable { path: path.to_owned(), reason: reason.clone() })
}

/// The library's own text may quote the offending line, which in a key file is a secret: name the kind only.
fn not_pem(path: &Path, error: &pem::Error) -> Problem {
    let reason = match error {
        pem::Error::MissingSectionEnd { .. } => "a BEGIN line has no END line",
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is damaged",
        pem::Error::Base64Decode(_) => "a block is not base64",
        _ => "a block is damaged",
    };
    Problem::NotPem { path: path.to_owned(), reason: reason.to_owned() }
}
