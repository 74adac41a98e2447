//! TLS and users in the format Prometheus exporters share (`web-config.yml`), as far as we keep its promises.
//!
//! What we cannot do as asked is refused with the way out; nothing that protects is ignored in silence.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chassis::tls;
use serde::Deserialize;

use crate::args::read_small;

/// Whoever writes the file in several steps takes them within this.
const SETTLES_WITHIN: Duration = Duration::from_millis(200);
/// Cost factors accepted in password hashes: 2^15 rounds take seconds.
const MAX_BCRYPT_COST: u32 = 15;
/// The headers the format allows to be set.
const HEADERS: [&str; 5] = [
    "Content-Security-Policy",
    "Strict-Transport-Security",
    "X-Content-Type-Options",
    "X-Frame-Options",
    "X-XSS-Protection",
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    tls_server_config: Option<TlsServer>,
    http_server_config: HttpServer,
    basic_auth_users: BTreeMap<String, String>,
    rate_limit: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct TlsServer {
    cert_file: Option<PathBuf>,
    key_file: Option<PathBuf>,
    cert: Option<String>,
    key: Option<String>,
    client_ca: Option<String>,
    client_ca_file: Option<PathBuf>,
    client_auth_type: Option<String>,
    client_allowed_sans: Vec<String>,
    min_version: Option<String>,
    max_version: Option<String>,
    cipher_suites: Vec<String>,
    prefer_server_cipher_suites: Option<bool>,
    curve_preferences: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HttpServer {
    // We speak HTTP/1.1; a caller that knows both does not notice.
    #[serde(rename = "http2")]
    _http2: Option<bool>,
    headers: BTreeMap<String, String>,
}

/// What holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebConfig {
    /// TLS, if there is to be any.
    pub tls: Option<tls::Settings>,
    /// Users and their bcrypt hashes; if there are none, nobody is asked.
    pub users: BTreeMap<String, String>,
    /// Headers to set on every answer.
    pub headers: Vec<(String, String)>,
}

/// What is wrong with the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("web configuration {path:?}: {what}")]
pub struct BadWebConfig {
    path: PathBuf,
    what: String,
}

impl WebConfig {
    /// Reads the file; paths in it are relative to where it is.
    pub fn read(path: &Path) -> Result<Self, BadWebConfig> {
        Ok(Self::look(path)?.0)
    }

    /// What the file says, and whether that is nothing at all.
    fn look(path: &Path) -> Result<(Self, bool), BadWebConfig> {
        let bad = |what: String| BadWebConfig { path: path.to_owned(), what };
        let text = read_small(path).map_err(bad)?;
        let base = path.parent().unwrap_or(Path::new(""));
        Ok((Self::parse(&text, base).map_err(bad)?, text.trim().is_empty()))
    }

    /// Reads the file again. One that is being written is not taken for what it is to become: an empty one does not end
    /// what `held` protects, and a change counts when two looks show it.
    pub fn read_again(path: &Path, held: &Self) -> Result<Self, BadWebConfig> {
        let web = Self::read(path)?;
        if web == *held {
            return Ok(web);
        }
        std::thread::sleep(SETTLES_WITHIN);
        let bad = |what: &str| Err(BadWebConfig { path: path.to_owned(), what: what.to_owned() });
        let (again, empty) = Self::look(path)?;
        if again != web {
            return bad("it is being written; it is looked at again soon");
        }
        let protects = |web: &Self| web.tls.is_some() || !web.users.is_empty();
        if empty && protects(held) {
            return bad("it is empty; to serve without TLS and passwords from now on, write `{}`");
        }
        Ok(web)
    }

    fn parse(text: &str, base: &Path) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        // The parser shows an excerpt of the file, and the file holds password hashes: only the place is told.
        let file: File = serde_saphyr::from_str(text).map_err(|error| without_excerpt(&error.to_string()))?;
        if file.rate_limit.is_some() {
            return Err(
                "rate_limit is not supported; leave it out, connections are limited anyway".to_owned()
            );
        }
        let tls = file.tls_server_config.map(|tls| tls_settings(tls, base)).transpose()?;
        for (user, hash) in &file.basic_auth_users {
            check_hash(hash).map_err(|what| format!("password of user {user:?}: {what}"))?;
        }
        let headers: Vec<(String, String)> = file.http_server_config.headers.into_iter().collect();
        for (name, value) in &headers {
            if !HEADERS.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                return Err(format!(
                    "header {name:?} may not be set; those that may are {}",
                    HEADERS.join(", ")
                ));
            }
            if http::HeaderValue::from_str(value).is_err() {
                return Err(format!("header {name:?} has a value with characters that a header cannot hold"));
            }
        }
        Ok(Self { tls, users: file.basic_auth_users, headers })
    }
}

fn without_excerpt(error: &str) -> String {
    error.lines().next().unwrap_or_default().to_owned()
}

fn tls_settings(tls: TlsServer, base: &Path) -> Result<tls::Settings, String> {
    if tls.cert.is_some() || tls.key.is_some() || tls.client_ca.is_some() {
        return Err(
            "certificates inside the file are not supported; use cert_file, key_file, client_ca_file"
                .to_owned(),
        );
    }
    if !tls.cipher_suites.is_empty() || !tls.curve_preferences.is_empty() {
        return Err("cipher_suites and curve_preferences are not supported; leave them out, only strong ones are spoken".to_owned());
    }
    // Which side prefers its suites does not matter when all are strong.
    let _ = tls.prefer_server_cipher_suites;
    match tls.min_version.as_deref() {
        None | Some("TLS10" | "TLS11" | "TLS12") => {}
        Some(other) => {
            return Err(format!("min_version {other:?} is not supported; leave it out, the least is TLS12"));
        }
    }
    match tls.max_version.as_deref() {
        None | Some("TLS13") => {}
        Some(other) => {
            return Err(format!("max_version {other:?} is not supported; leave it out, the most is TLS13"));
        }
    }
    let path = |path: Option<PathBuf>, what: &str| {
        path.filter(|path| !path.as_os_str().is_empty())
            .map(|path| base.join(path))
            .ok_or_else(|| format!("tls_server_config needs {what}"))
    };
    let ca = tls.client_ca_file;
    let clients = match tls.client_auth_type.as_deref() {
        Some("RequireAndVerifyClientCert") => {
            tls::Clients::SignedBy { ca: path(ca, "client_ca_file")?, names: tls.client_allowed_sans }
        }
        None | Some("" | "NoClientCert") if ca.is_none() => tls::Clients::Anyone,
        None | Some("" | "NoClientCert") => {
            return Err("client_ca_file is given but client_auth_type asks for no certificate; write RequireAndVerifyClientCert".to_owned());
        }
        Some(other) => {
            return Err(format!(
                "client_auth_type {other:?} lets callers in without a checked certificate; write RequireAndVerifyClientCert or NoClientCert"
            ));
        }
    };
    Ok(tls::Settings {
        certificate: path(tls.cert_file, "cert_file")?,
        key: path(tls.key_file, "key_file")?,
        clients,
        protocols: tls::Protocols::Http1,
    })
}

/// Whether a hash can ever be verified, and in reasonable time.
fn check_hash(hash: &str) -> Result<(), String> {
    let mut parts = hash.split('$');
    let (empty, variant, cost, rest) = (parts.next(), parts.next(), parts.next(), parts.next());
    let known = empty == Some("") && matches!(variant, Some("2a" | "2b" | "2x" | "2y"));
    let cost: Option<u32> = cost.and_then(|cost| cost.parse().ok());
    match cost {
        Some(cost) if known && rest.is_some_and(|rest| rest.len() == 53) && parts.next().is_none() => {
            if (4..=MAX_BCRYPT_COST).contains(&cost) {
                Ok(())
            } else {
                Err(format!("cost {cost} is not between 4 and {MAX_BCRYPT_COST}"))
            }
        }
        _ => Err("not a bcrypt hash; make one with `htpasswd -nBC 10 \"\"`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// bcrypt of "secret" at cost 4.
    const HASH: &str = "$2b$04$HwPyUi.ZFeZC.Zs3xpcYfuvvYxIWDS.OTjmSeMTSkQEVyBAhl1Nte";

    fn parse(text: &str) -> Result<WebConfig, String> {
        WebConfig::parse(text, Path::new("/etc/agent"))
    }

    #[test]
    fn the_documented_example() {
        let text = format!(
            "tls_server_config:\n  cert_file: server.crt\n  key_file: /keys/server.key\n  client_auth_type: RequireAndVerifyClientCert\n  \
             client_ca_file: ca.crt\n  client_allowed_sans: [prometheus]\n  min_version: TLS12\n\
             http_server_config:\n  http2: true\n  headers:\n    X-Frame-Options: deny\n\
             basic_auth_users:\n  alice: {HASH}\n"
        );
        let expected = WebConfig {
            tls: Some(tls::Settings {
                certificate: "/etc/agent/server.crt".into(),
                key: "/keys/server.key".into(),
                clients: tls::Clients::SignedBy {
                    ca: "/etc/agent/ca.crt".into(),
                    names: vec!["prometheus".to_owned()],
                },
                protocols: tls::Protocols::Http1,
            }),
            users: BTreeMap::from([("alice".to_owned(), HASH.to_owned())]),
            headers: vec![("X-Frame-Options".to_owned(), "deny".to_owned())],
        };
        assert_eq!(parse(&text), Ok(expected));
        assert_eq!(parse(""), Ok(WebConfig::default()));
    }

    #[test]
    fn what_would_weaken_the_protection_is_refused_with_the_way_out() {
        let cases = [
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: VerifyClientCertIfGiven\n",
                "write RequireAndVerifyClientCert",
            ),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_ca_file: c\n",
                "write RequireAndVerifyClientCert",
            ),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  client_auth_type: RequireAndVerifyClientCert\n",
                "needs client_ca_file",
            ),
            ("tls_server_config:\n  cert_file: a\n", "needs key_file"),
            (
                "tls_server_config:\n  cert_file: a\n  key_file: b\n  min_version: TLS13\n",
                "the least is TLS12",
            ),
            ("tls_server_config:\n  cert_file: a\n  key_file: b\n  cipher_suites: [X]\n", "leave them out"),
            ("tls_server_config:\n  cert: a\n", "use cert_file"),
            ("basic_auth_users:\n  alice: secret\n", "not a bcrypt hash"),
            (
                "basic_auth_users:\n  alice: $2y$31$HwPyUi.ZFeZC.Zs3xpcYfuvvYxIWDS.OTjmSeMTSkQEVyBAhl1Nte\n",
                "cost 31",
            ),
            ("http_server_config:\n  headers:\n    X-Other: 1\n", "may not be set"),
            ("rate_limit:\n  burst: 1\n", "rate_limit is not supported"),
            ("tls_server_confg: {}\n", "tls_server_confg"),
        ];
        for (text, expected) in cases {
            let error = parse(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn an_error_never_shows_what_the_file_holds() {
        let error =
            parse(&format!("basic_auth_users:\n  alice: {HASH}\n  : :\n  - x\n")).expect_err("broken");
        assert!(!error.contains("HwPyUi"), "{error}");
    }
}
