//! TLS for our servers: certificate, key and client CA from files, watched and replaced while we serve.
//!
//! `material` decides whether file contents can serve, `reload` whether and when to swap them, `clients` who is let in,
//! `handshake` what a failure is called. [`Live`] is what the accept loop holds.

pub mod certificate;
mod clients;
pub(crate) mod handshake;
mod material;
mod reload;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::ServerConfig;

pub use self::certificate::Certificate;
use self::material::Material;
pub use self::material::Problem;
pub use self::reload::{LOOK_EVERY, Reloader, unix_now};
use crate::counters::Counter;

/// Which files to serve with, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// PEM file with our certificate, then those of intermediate CAs.
    pub certificate: PathBuf,
    /// PEM file with its private key.
    pub key: PathBuf,
    /// Who may call.
    pub clients: Clients,
    /// What to speak once the handshake is done.
    pub protocols: Protocols,
}

/// Who may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clients {
    /// Anybody; no certificate is asked for.
    Anyone,
    /// Those with a certificate signed by a CA in the file.
    SignedBy {
        /// PEM file with one or more CA certificates.
        ca: PathBuf,
        /// If not empty: only those whose common name or DNS name is one of these.
        names: Vec<String>,
    },
}

/// What to speak once the handshake is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocols {
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/1.1 unless the client knows nothing but HTTP/2. For kube-scheduler, which asks one thing at a time: when a
    /// request times out it drops an HTTP/1.1 connection and dials anew, but keeps an HTTP/2 one that may be dead.
    #[cfg(feature = "http2")]
    Http1First,
    /// HTTP/2 where the client knows it. For callers with many requests at once, such as kube-apiserver.
    #[cfg(feature = "http2")]
    Http2First,
}

/// How long a certificate has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// More than a fifth of its life.
    Fine,
    /// Less than a fifth, so whatever renews it (usually with a third left) seems to have stopped.
    Late,
    /// None.
    Expired,
}

impl Stage {
    fn of(certificate: &Certificate, now: i64) -> Self {
        let life = certificate.not_after.saturating_sub(certificate.not_before);
        let left = certificate.not_after.saturating_sub(now);
        match left {
            ..0 => Self::Expired,
            _ if left < life / 5 => Self::Late,
            _ => Self::Fine,
        }
    }
}

/// The TLS material in use, replaceable while connections are served.
pub struct Live {
    settings: Settings,
    current: ArcSwap<Material>,
    /// Why the newest files are not in use, if they are not.
    problem: Mutex<Option<Problem>>,
    /// Times that new files were taken into use.
    pub reloads: Counter,
    /// Times that new files were found bad.
    pub reload_failures: Counter,
}

impl Live {
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.load().config)
    }

    /// The certificate in use.
    pub fn certificate(&self) -> Certificate {
        self.current.load().certificate.clone()
    }

    /// When the certificate in use ends, in seconds since 1970.
    pub fn expires_at(&self) -> i64 {
        self.current.load().certificate.not_after
    }

    /// Why the newest files are not in use, if they are not.
    pub fn problem(&self) -> Option<Problem> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// For `/readyz`: whether the certificate in use still holds at `now` (seconds since 1970).
    pub fn check(&self, now: i64) -> Result<(), String> {
        let current = self.current.load();
        match Stage::of(&current.certificate, now) {
            Stage::Fine | Stage::Late => Ok(()),
            Stage::Expired => {
                let at = current.certificate.not_after;
                Err(Problem::Expired { path: self.settings.certificate.clone(), at }.to_string())
            }
        }
    }
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").field("settings", &self.settings).finish_non_exhaustive()
    }
}
