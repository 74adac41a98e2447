//! One request to the backend: form-encoded POST, deadline, size limit, token and CA read again.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::decode::{DecodeError, DecodeLimits, Shape, decode, shortened};
use crate::config::Endpoint;
use crate::source::SourceError;

/// Longest token or CA file we read.
const MAX_CREDENTIAL: u64 = 1024 * 1024;
/// How long we wait at least, and at most, when told to come back later.
const WAIT: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_mins(1);
/// Without a word on how long.
const DEFAULT_WAIT: Duration = Duration::from_secs(5);
/// Where systems keep the certificates they trust.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

type HttpClient = Client<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Connections to the backend, and how long it told us to wait.
#[derive(Debug, Default)]
pub(super) struct Caller {
    client: Mutex<Option<(Trusted, HttpClient)>>,
    wait_until: Mutex<Option<Instant>>,
}

/// The certificates a client was made with.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trusted {
    /// Without, nobody's certificate is needed.
    https: bool,
    /// The CA file, if one is given.
    pem: Option<Vec<u8>>,
}

impl Caller {
    /// The body of a successful answer.
    pub(super) async fn post(
        &self,
        endpoint: &Endpoint,
        path: &str,
        form: &[(&str, &str)],
    ) -> Result<Bytes, SourceError> {
        self.check_wait()?;
        let client = self.client(endpoint)?;
        let request = request(endpoint, path, form)?;
        let answer = tokio::time::timeout(endpoint.timeout, exchange(&client, request, endpoint)).await;
        let (status, headers, body) = answer.map_err(|_| SourceError::late(endpoint.timeout))??;
        self.verdict(status, &headers, &body)?;
        Ok(body)
    }

    fn check_wait(&self) -> Result<(), SourceError> {
        let wait_until = self.wait_until.lock().unwrap_or_else(PoisonError::into_inner);
        match wait_until.and_then(|until| until.checked_duration_since(Instant::now())) {
            Some(rest) if !rest.is_zero() => Err(SourceError::Waiting { seconds: rest.as_secs() + 1 }),
            _ => Ok(()),
        }
    }

    fn verdict(&self, status: StatusCode, headers: &HeaderMap, body: &Bytes) -> Result<(), SourceError> {
        let code = status.as_u16();
        match status {
            _ if status.is_success() => return Ok(()),
            _ if status.is_redirection() => {
                let to = headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
                return Err(SourceError::Redirected { status: code, to: shortened(to, 100) });
            }
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let hint = "check that the token file holds a token that may read metrics".to_owned();
                return Err(SourceError::Denied { status: code, hint });
            }
            _ => {}
        }
        // Prometheus explains itself in JSON, whatever the status; an overloaded one does so with 503.
        let refusal = match decode(body, Shape::Vector, &DecodeLimits::default(), |_| {}) {
            Err(refusal @ DecodeError::Refused { .. }) => Some(refusal),
            _ => None,
        };
        match (status, refusal) {
            (StatusCode::TOO_MANY_REQUESTS, _) | (StatusCode::SERVICE_UNAVAILABLE, None) => {
                let wait = retry_after(headers);
                let until = Instant::now() + wait;
                *self.wait_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
                Err(SourceError::Busy { status: code, seconds: wait.as_secs() })
            }
            (_, Some(refusal)) => Err(refusal.into()),
            (_, None) => {
                let said = String::from_utf8_lossy(&body[..body.len().min(400)]).trim().to_owned();
                Err(SourceError::Status { status: code, said: shortened(&said, 120) })
            }
        }
    }

    /// The client, made again when the certificates to trust have changed.
    fn client(&self, endpoint: &Endpoint) -> Result<HttpClient, SourceError> {
        let trusted = Trusted {
            https: endpoint.url.scheme_str() == Some("https"),
            pem: endpoint.ca_file.as_ref().map(|path| read(path, "CA file")).transpose()?,
        };
        let mut held = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((with, client)) = &*held
            && *with == trusted
        {
            return Ok(client.clone());
        }
        let client = client(endpoint, &trusted)?;
        *held = Some((trusted, client.clone()));
        Ok(client)
    }
}

fn client(endpoint: &Endpoint, trusted: &Trusted) -> Result<HttpClient, SourceError> {
    let mut roots = rustls::RootCertStore::empty();
    if trusted.https {
        let (pem, whose) = match (&trusted.pem, &endpoint.ca_file) {
            (Some(pem), Some(path)) => (pem.clone(), path.display().to_string()),
            _ => system_bundle()?,
        };
        let certificates: Vec<CertificateDer<'_>> =
            CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok).collect();
        let (added, _) = roots.add_parsable_certificates(certificates);
        if added == 0 {
            return Err(SourceError::Credentials(format!("{whose} holds no certificate in PEM form")));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| SourceError::Credentials(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(http);
    Ok(Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(Duration::from_mins(1))
        .pool_max_idle_per_host(endpoint.concurrency)
        .build(https))
}

fn system_bundle() -> Result<(Vec<u8>, String), SourceError> {
    let found = SYSTEM_BUNDLES.iter().find_map(|path| Some((std::fs::read(path).ok()?, (*path).to_owned())));
    found.ok_or_else(|| {
        SourceError::Credentials(
            "this system has no certificates to trust; name some under caFile".to_owned(),
        )
    })
}

fn request(
    endpoint: &Endpoint,
    path: &str,
    form: &[(&str, &str)],
) -> Result<Request<Full<Bytes>>, SourceError> {
    let base = endpoint.url.to_string();
    let mut request = Request::post(format!("{}{path}", base.trim_end_matches('/')))
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(http::header::ACCEPT, "application/json");
    for (name, value) in &endpoint.headers {
        request = request.header(name, value);
    }
    if let Some(path) = &endpoint.token_file {
        request = request.header(AUTHORIZATION, bearer(path)?);
    }
    let body = Full::new(Bytes::from(encoded(form)));
    request.body(body).map_err(|error| SourceError::Credentials(format!("cannot ask {base}: {error}")))
}

/// Read again for each request: projected tokens change every hour.
fn bearer(path: &Path) -> Result<HeaderValue, SourceError> {
    let say = |what: &str| SourceError::Credentials(format!("the token file {} {what}", path.display()));
    let token = String::from_utf8(read(path, "token file")?).map_err(|_| say("is not text"))?;
    if token.trim().is_empty() {
        return Err(say("is empty"));
    }
    let mut value =
        HeaderValue::try_from(format!("Bearer {}", token.trim())).map_err(|_| say("holds no token"))?;
    value.set_sensitive(true);
    Ok(value)
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>, SourceError> {
    use std::io::Read as _;
    let say = |reason: String| {
        SourceError::Credentials(format!("cannot read the {what} {}: {reason}", path.display()))
    };
    let file = std::fs::File::open(path).map_err(|error| say(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(MAX_CREDENTIAL + 1).read_to_end(&mut bytes).map_err(|error| say(error.to_string()))?;
    if bytes.len() as u64 > MAX_CREDENTIAL {
        return Err(say(format!("it has more than {MAX_CREDENTIAL} bytes")));
    }
    Ok(bytes)
}

async fn exchange(
    client: &HttpClient,
    request: Request<Full<Bytes>>,
    endpoint: &Endpoint,
) -> Result<(StatusCode, HeaderMap, Bytes), SourceError> {
    let unreachable = |error: hyper_util::client::legacy::Error| SourceError::Unreachable {
        host: endpoint.url.authority().map(ToString::to_string).unwrap_or_default(),
        reason: shortened(&innermost(&error), 160),
    };
    let (parts, body) = client.request(request).await.map_err(unreachable)?.into_parts();
    let limit = endpoint.max_response;
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok((parts.status, parts.headers, collected.to_bytes())),
        Err(error) if error.is::<LengthLimitError>() => Err(SourceError::TooLarge { limit }),
        Err(_) => Err(SourceError::Broken),
    }
}

/// The cause behind the causes, which is the one that tells a person something.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    seconds.map_or(DEFAULT_WAIT, Duration::from_secs).clamp(*WAIT.start(), *WAIT.end())
}

fn encoded(form: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (name, value) in form {
        if !body.is_empty() {
            body.push('&');
        }
        body.push_str(name);
        body.push('=');
        for byte in value.bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    body.push(char::from(byte));
                }
                b' ' => body.push('+'),
                _ => {
                    const HEX: [char; 16] =
                        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'A', 'B', 'C', 'D', 'E', 'F'];
                    body.extend(['%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
                }
            }
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_encoded_as_browsers_do() {
        assert_eq!(
            encoded(&[("query", "{__name__=~\"a|b\"} or x+é\n"), ("time", "1700000000.5")]),
            "query=%7B__name__%3D~%22a%7Cb%22%7D+or+x%2B%C3%A9%0A&time=1700000000.5"
        );
    }

    #[test]
    fn being_told_to_wait_has_bounds() {
        let wait = |text: &str| {
            retry_after(&HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())]))
                .as_secs()
        };
        assert_eq!(
            ["0", "7", "86400", "soon", "-3", "Wed, 21 Oct 2026 07:28:00 GMT"].map(wait),
            [1, 7, 60, 5, 5, 5]
        );
        assert_eq!(retry_after(&HeaderMap::new()).as_secs(), 5);
    }
}
