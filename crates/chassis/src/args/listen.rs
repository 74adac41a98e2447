//! Where to listen and whether with TLS. Intel's flag names; plain HTTP only where nobody else can hear it.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use crate::exit::Exit;
use crate::serve::{BindError, Listener};
use crate::tls::{Clients, Live, Problem, Protocols, Reloader, Settings};

/// Where to listen and with what.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Listening")]
pub struct ListenArgs {
    /// Address to listen on; `::` is all addresses
    #[arg(long, value_name = "IP", env = "TAS_BIND_ADDRESS", default_value_t = IpAddr::V6(Ipv6Addr::UNSPECIFIED))]
    pub bind_address: IpAddr,
    /// Port to listen on; 0 picks a free one
    #[arg(long, value_name = "PORT", env = "TAS_LISTEN_PORT", default_value_t = 9001)]
    pub port: u16,
    /// PEM file with our certificate, then those of intermediate CAs; read again when it changes
    #[arg(long, value_name = "FILE", env = "TAS_CERT")]
    pub cert: Option<PathBuf>,
    /// PEM file with the private key of our certificate
    #[arg(long, value_name = "FILE", env = "TAS_KEY")]
    pub key: Option<PathBuf>,
    /// PEM file with the CAs whose clients may call; without it anybody may
    #[arg(long, value_name = "FILE", alias = "caCert", alias = "ca-cert", env = "TAS_CACERT")]
    pub cacert: Option<PathBuf>,
    /// Only clients whose certificate bears this common name or DNS name; may be given several times
    #[arg(
        long = "client-name",
        value_name = "NAME",
        alias = "clientName",
        env = "TAS_CLIENT_NAMES",
        value_delimiter = ','
    )]
    pub client_names: Vec<String>,
    /// Speak plain HTTP to the network: anybody who can reach the port can ask, and read the answers
    #[arg(long, env = "TAS_INSECURE_HTTP", alias = "insecureHttp", value_name = "BOOL", hide_possible_values = true, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub insecure_http: bool,
    /// Intel's switch of old for no TLS; answered with what to use instead
    #[arg(long = "unsafe", hide = true, num_args = 0..=1, require_equals = true, default_value_t = false, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub without_tls: bool,
}

/// What to listen with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// Plain HTTP.
    Plain,
    /// TLS only.
    Tls(Settings),
}

/// Where to listen and with what, in agreement with each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The address to bind.
    pub address: SocketAddr,
    /// What to speak there.
    pub transport: Transport,
}

/// A bound address, and the TLS material that keeps itself current while its reloader runs.
#[derive(Debug)]
pub struct Opened {
    /// Ready to be served.
    pub listener: Listener,
    /// With TLS: what is live, and what keeps it so; run the latter as a task.
    pub tls: Option<(Arc<Live>, Reloader)>,
}

/// Why listening could not begin.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The address.
    #[error(transparent)]
    Address(#[from] BindError),
    /// Certificate, key or CA.
    #[error(transparent)]
    Tls(#[from] Problem),
}

impl OpenError {
    /// How the process should end.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Address(_) => Exit::Address,
            Self::Tls(_) => Exit::Configuration,
        }
    }
}

impl Listening {
    /// Reads the TLS files, at `now` (seconds since 1970), and binds the address.
    pub async fn open(self, now: i64) -> Result<Opened, OpenError> {
        let address = self.address;
        match self.transport {
            Transport::Plain => {
                if !address.ip().to_canonical().is_loopback() {
                    tracing::warn!(%address, "plain HTTP to the network, as --insecure-http asks");
                }
                Ok(Opened { listener: Listener::bind(address).await?, tls: None })
            }
            Transport::Tls(settings) => {
                if settings.clients == Clients::Anyone {
                    tracing::warn!(%address, "no --cacert, so whoever can reach the port may ask");
                }
                let (live, reloader) = Live::load(settings, now)?;
                let listener = Listener::bind(address).await?.with_tls(Arc::clone(&live));
                Ok(Opened { listener, tls: Some((live, reloader)) })
            }
        }
    }
}

/// What is wrong with the arguments.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// `--unsafe`.
    #[error(
        "--unsafe is not followed: it would speak plain HTTP to the whole network. Leave it out and give --cert and --key; or, on a network that you trust, say --insecure-http"
    )]
    Unsafe,
    /// No certificate and not on loopback.
    #[error(
        "no certificate given and {address} can be reached from outside; give --cert and --key, or listen on 127.0.0.1 (--bind-address), or, on a network that you trust, say --insecure-http"
    )]
    Exposed {
        /// The address.
        address: SocketAddr,
    },
    /// `--cert` alone.
    #[error("--cert needs --key, the file with its private key")]
    KeyMissing,
    /// `--key` alone.
    #[error("--key needs --cert, the file with its certificate")]
    CertificateMissing,
    /// `--cacert` without a certificate of our own.
    #[error("--cacert asks clients for certificates, which needs TLS; give --cert and --key as well")]
    AuthorityWithoutTls,
    /// `--client-name` without `--cacert`.
    #[error(
        "--client-name needs --cacert: a name means something only in a certificate that a known CA has signed"
    )]
    NamesWithoutAuthority,
    /// `--client-name ""`.
    #[error("--client-name is empty; leave it out to allow every client of the CA")]
    EmptyName,
    /// Both.
    #[error("--insecure-http and --cert contradict each other; leave one out")]
    Contradiction,
}

impl ListenArgs {
    /// Where to listen and with what, or everything that is wrong.
    pub fn resolve(&self, protocols: Protocols) -> Result<Listening, Vec<Refusal>> {
        let address = SocketAddr::new(self.bind_address, self.port);
        let mut refusals = Vec::new();
        let has_tls = self.cert.is_some() || self.key.is_some();
        if self.without_tls {
            refusals.push(Refusal::Unsafe);
        }
        if has_tls && self.insecure_http {
            refusals.push(Refusal::Contradiction);
        }
        if !has_tls && self.cacert.is_some() {
            refusals.push(Refusal::AuthorityWithoutTls);
        }
        if self.cacert.is_none() && !self.client_names.is_empty() {
            refusals.push(Refusal::NamesWithoutAuthority);
        }
        if self.client_names.iter().any(|name| name.trim().is_empty()) {
            refusals.push(Refusal::EmptyName);
        }
        let transport = match (&self.cert, &self.key) {
            (Some(certificate), Some(key)) => Some(Transport::Tls(Settings {
                certificate: certificate.clone(),
                key: key.clone(),
                clients: match &self.cacert {
                    None => Clients::Anyone,
                    Some(ca) => Clients::SignedBy { ca: ca.clone(), names: self.client_names.clone() },
                },
                protocols,
            })),
            (None, None) => {
                let may_be_plain = self.insecure_http || address.ip().to_canonical().is_loopback();
                if !may_be_plain && !self.without_tls {
                    refusals.push(Refusal::Exposed { address });
                }
                Some(Transport::Plain)
            }
            (Some(_), None) => {
                refusals.push(Refusal::KeyMissing);
                None
            }
            (None, Some(_)) => {
                refusals.push(Refusal::CertificateMissing);
                None
            }
        };
        match transport {
            Some(transport) if refusals.is_empty() => Ok(Listening { address, transport }),
            _ => Err(refusals),
        }
    }
}
