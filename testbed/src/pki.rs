//! Throw-away certificates: the cluster's CA, the front-proxy CA, and leaves for servers and users.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair, KeyUsagePurpose,
};

use crate::places::FileTrouble;

/// A certificate could not be made or kept.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// The library refused, which means that a name was not a name.
    #[error("cannot make a certificate for {name:?}: {cause}")]
    Refused {
        /// Whose certificate.
        name: String,
        /// Why not.
        cause: rcgen::Error,
    },
    /// The disk will not have it.
    #[error(transparent)]
    File(#[from] FileTrouble),
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub struct Leaf {
    /// The certificate.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

/// Prints without the key, so that no log can show it.
impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaf").field("certificate", &self.certificate).finish_non_exhaustive()
    }
}

/// An authority that signs leaves.
pub struct Authority {
    name: String,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    /// A new self-signed one.
    pub fn new(name: &str) -> Result<Self, PkiError> {
        let refused = |cause| PkiError::Refused { name: name.to_owned(), cause };
        let mut params = CertificateParams::new(Vec::new()).map_err(refused)?;
        params.distinguished_name = named(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages =
            vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate().map_err(refused)?;
        let issuer = CertifiedIssuer::self_signed(params, key).map_err(refused)?;
        Ok(Self { name: name.to_owned(), issuer })
    }

    /// The authority's own certificate.
    pub fn certificate(&self) -> String {
        self.issuer.pem()
    }

    /// A certificate for a server that is reached under these names or addresses.
    pub fn server(&self, name: &str, reached_as: &[&str]) -> Result<Leaf, PkiError> {
        self.sign(name, None, reached_as, ExtendedKeyUsagePurpose::ServerAuth)
    }

    /// A certificate that makes its holder this user, in this group.
    pub fn client(&self, user: &str, group: Option<&str>) -> Result<Leaf, PkiError> {
        self.sign(user, group, &[], ExtendedKeyUsagePurpose::ClientAuth)
    }

    fn sign(
        &self,
        name: &str,
        group: Option<&str>,
        reached_as: &[&str],
        purpose: ExtendedKeyUsagePurpose,
    ) -> Result<Leaf, PkiError> {
        let refused = |cause| PkiError::Refused { name: name.to_owned(), cause };
        let names: Vec<String> = reached_as.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).map_err(refused)?;
        params.distinguished_name = named(name, group);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate().map_err(refused)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(refused)?;
        Ok(Leaf { certificate: certificate.pem(), key: key.serialize_pem() })
    }

    /// Writes `NAME.crt` and `NAME.key` of the authority itself.
    pub fn keep(&self, directory: &Path) -> Result<(PathBuf, PathBuf), PkiError> {
        let own = Leaf { certificate: self.certificate(), key: self.issuer.key().serialize_pem() };
        keep(directory, &self.name, &own)
    }
}

/// The pair that service account tokens are signed and checked with: private, public.
pub fn token_keys() -> Result<(String, String), PkiError> {
    let key = KeyPair::generate()
        .map_err(|cause| PkiError::Refused { name: "service account tokens".to_owned(), cause })?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

/// Writes `NAME.crt` and `NAME.key`.
pub fn keep(directory: &Path, name: &str, leaf: &Leaf) -> Result<(PathBuf, PathBuf), PkiError> {
    let certificate = directory.join(format!("{name}.crt"));
    let key = directory.join(format!("{name}.key"));
    fs::write(&certificate, &leaf.certificate)
        .map_err(|cause| FileTrouble::new("write", &certificate, cause))?;
    keep_secret(&key, &leaf.key)?;
    Ok((certificate, key))
}

/// Writes a file that only we can read.
pub fn keep_secret(path: &Path, text: &str) -> Result<(), FileTrouble> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|cause| FileTrouble::new("write", path, cause))
}

/// The subject by which Kubernetes knows a user (common name) and its group (organisation).
fn named(name: &str, group: Option<&str>) -> DistinguishedName {
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    if let Some(group) = group {
        subject.push(DnType::OrganizationName, group);
    }
    subject
}
