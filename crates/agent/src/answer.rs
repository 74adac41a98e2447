//! One request, one answer: metrics on any path, a page for people, a refusal with its reason.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use bytes::Bytes;
use flate2::{Compress, Compression, FlushCompress, Status};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderName,
    HeaderValue, VARY, WWW_AUTHENTICATE,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;

use crate::args::name_sets;
use crate::family::NameSets;
use crate::negotiate::{self, Answer};
use crate::page::Format;
use crate::station::Station;
use crate::users::Users;

/// Answers shorter than this are not worth compressing.
const WORTH_COMPRESSING: usize = 1024;
/// How far back gzip looks for repetitions, as a power of two. Lines repeat themselves at once, so less would do, but
/// each time the window is full its whole index has to be moved, which costs more than the memory.
const WINDOW_BITS: u8 = 15;

/// What an answer depends on apart from the host; replaced as a whole when the configuration is read again.
pub struct Manner {
    /// The sets to write unless the request says otherwise.
    pub names: NameSets,
    /// Who may ask.
    pub users: Users,
    /// Headers to set on every answer.
    pub headers: Vec<(String, String)>,
}

/// Answers requests.
pub struct Desk {
    station: Arc<Station>,
    packer: Packer,
    manner: RwLock<Arc<Manner>>,
}

type Reply = Response<Full<Bytes>>;

impl Desk {
    /// Answers from this station in this manner.
    pub fn new(station: Arc<Station>, manner: Manner) -> Self {
        Self { station, packer: Packer::default(), manner: RwLock::new(Arc::new(manner)) }
    }

    /// The station behind it.
    pub fn station(&self) -> &Arc<Station> {
        &self.station
    }

    /// Goes on in another manner; requests under way finish in the old one.
    pub fn replace(&self, manner: Manner) {
        *self.manner.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(manner);
    }

    /// Answers one request.
    pub async fn answer<B>(&self, request: Request<B>) -> Result<Reply, Infallible> {
        let manner = Arc::clone(&self.manner.read().unwrap_or_else(PoisonError::into_inner));
        let mut reply = self.reply(&request, &manner).await;
        for (name, value) in &manner.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                reply.headers_mut().insert(name, value);
            }
        }
        Ok(reply)
    }

    async fn reply<B>(&self, request: &Request<B>, manner: &Manner) -> Reply {
        if request.method() != Method::GET && request.method() != Method::HEAD {
            let mut reply = refusal(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered here");
            reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return reply;
        }
        let headers = request.headers();
        if !manner.users.none() && !manner.users.admit(text_of(headers, &AUTHORIZATION)).await {
            let mut reply = refusal(StatusCode::UNAUTHORIZED, "a user and a password are needed");
            reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic"));
            return reply;
        }
        let names = match asked_names(request.uri().query().unwrap_or_default()) {
            Ok(names) => names.unwrap_or(manner.names),
            Err(what) => return refusal(StatusCode::BAD_REQUEST, &what),
        };
        match negotiate::answer(text_of(headers, &ACCEPT).unwrap_or_default(), request.uri().path()) {
            Answer::Landing => landing(),
            Answer::Metrics(format) => self.metrics(headers, format, names).await,
        }
    }

    async fn metrics(&self, headers: &HeaderMap, format: Format, names: NameSets) -> Reply {
        let page = match self.station.page(format, names).await {
            Ok(page) => page,
            Err(none) => return refusal(StatusCode::SERVICE_UNAVAILABLE, &none.to_string()),
        };
        let gzip = page.len() >= WORTH_COMPRESSING
            && negotiate::takes_gzip(text_of(headers, &ACCEPT_ENCODING).unwrap_or_default());
        let packed = if gzip { self.packer.pack(&page) } else { None };
        let is_packed = packed.is_some();
        let mut reply = Response::new(Full::new(Bytes::from(packed.unwrap_or(page))));
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
        if is_packed {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        reply
    }
}

/// A compressor that is kept: making its tables anew costs more than compressing a page.
#[derive(Default)]
struct Packer {
    kept: Mutex<Option<Compress>>,
}

impl Packer {
    /// The page as gzip; none if that fails, and then the page is sent as it is.
    fn pack(&self, page: &[u8]) -> Option<Vec<u8>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut tables = kept.unwrap_or_else(|| Compress::new_gzip(Compression::fast(), WINDOW_BITS));
        tables.reset();
        let mut packed = Vec::with_capacity(page.len() / 4 + 1024);
        loop {
            let read = usize::try_from(tables.total_in()).ok()?;
            match tables.compress_vec(&page[read..], &mut packed, FlushCompress::Finish).ok()? {
                Status::StreamEnd => break,
                Status::Ok | Status::BufError => packed.reserve(packed.capacity()),
            }
        }
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(tables);
        Some(packed)
    }
}

fn text_of<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// `?names=collectd,node` asks for these sets only.
fn asked_names(query: &str) -> Result<Option<NameSets>, String> {
    let asked = query.split('&').find_map(|pair| pair.strip_prefix("names="));
    asked
        .map(|names| name_sets(names.replace("%2C", ",").replace("%2c", ",").split(',')))
        .transpose()
        .map_err(|bad| bad.to_string())
}

fn refusal(status: StatusCode, reason: &str) -> Reply {
    chassis::answer::refusal(status, reason)
}

fn landing() -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from_static(LANDING.as_bytes())));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    reply
}

const LANDING: &str = concat!(
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>tas-agent</title>\n",
    "<meta name=\"viewport\" content=\"width=device-width\">\n",
    "<style>body{font:16px/1.5 system-ui,sans-serif;max-width:40em;margin:3em auto;padding:0 1em}</style></head>\n",
    "<body><h1>tas-agent ",
    env!("CARGO_PKG_VERSION"),
    "</h1>\n<p>Telemetry of this node for Prometheus.</p>\n<ul>\n",
    "<li><a href=\"/metrics\">/metrics</a>: everything</li>\n",
    "<li><a href=\"/metrics?names=tas\">/metrics?names=tas</a>: power, ratios, pods; ready for policies</li>\n",
    "<li><a href=\"/metrics?names=node\">/metrics?names=node</a>: as node_exporter calls it</li>\n",
    "<li><a href=\"/metrics?names=collectd\">/metrics?names=collectd</a>: as collectd calls it</li>\n",
    "</ul></body></html>\n"
);

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn whatever_is_packed_comes_out_again(pages: Vec<Vec<u8>>) {
            use std::io::Read;
            let packer = Packer::default();
            for page in pages {
                let packed = packer.pack(&page).expect("it packs");
                let mut read = Vec::new();
                flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut read).expect("gzip");
                proptest::prop_assert_eq!(read, page);
            }
        }
    }

    #[test]
    fn names_can_be_asked_for() {
        let node = NameSets { collectd: false, node: true, tas: false };
        assert_eq!(asked_names(""), Ok(None));
        assert_eq!(asked_names("x=1&names=node"), Ok(Some(node)));
        assert_eq!(asked_names("names=node%2Ctas"), Ok(Some(NameSets { tas: true, ..node })));
        assert!(asked_names("names=all").is_err());
    }
}
