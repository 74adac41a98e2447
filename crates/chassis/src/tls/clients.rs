//! Which clients are let in: those whose certificate is signed by the CA and, if names are given, bears one.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};

use super::certificate::Certificate;

/// What is wrong with a client certificate beyond what rustls can say.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Unwelcome {
    #[error("a CA's own certificate was presented as a client's")]
    Authority { names: Vec<String> },
    #[error("the certificate is in order but its names are not wanted")]
    Name { names: Vec<String>, wanted: Vec<String> },
}

impl From<Unwelcome> for Error {
    fn from(unwelcome: Unwelcome) -> Self {
        CertificateError::Other(OtherError(Arc::new(unwelcome))).into()
    }
}

/// The CA's verifier, then the names.
#[derive(Debug)]
pub(super) struct NamedClients {
    signed: Arc<dyn ClientCertVerifier>,
    wanted: Vec<String>,
}

impl NamedClients {
    pub(super) fn new(signed: Arc<dyn ClientCertVerifier>, wanted: Vec<String>) -> Self {
        Self { signed, wanted }
    }

    fn welcome(&self, certificate: Option<&Certificate>) -> Result<(), Unwelcome> {
        let mut names = certificate.into_iter().flat_map(Certificate::names);
        let is_wanted = |name: &str| self.wanted.iter().any(|wanted| wanted.eq_ignore_ascii_case(name));
        if self.wanted.is_empty() || names.any(is_wanted) {
            return Ok(());
        }
        Err(Unwelcome::Name { names: names_of(certificate), wanted: self.wanted.clone() })
    }
}

/// The names for the log: each once, and not more than a line can bear, because anybody can write anything into a
/// certificate.
fn names_of(certificate: Option<&Certificate>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in certificate.into_iter().flat_map(Certificate::names) {
        let name = name.chars().take(100).collect();
        if names.len() < 5 && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

impl ClientCertVerifier for NamedClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let certificate = Certificate::read(end_entity);
        match self.signed.verify_client_cert(end_entity, intermediates, now) {
            Ok(verified) => {
                self.welcome(certificate.as_ref())?;
                Ok(verified)
            }
            // The library's error for this case is opaque; ours carries the names and is told apart.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if certificate.as_ref().is_some_and(|certificate| certificate.is_ca) =>
            {
                Err(Unwelcome::Authority { names: names_of(certificate.as_ref()) }.into())
            }
            Err(error) => Err(error),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signed.supported_verify_schemes()
    }
}
