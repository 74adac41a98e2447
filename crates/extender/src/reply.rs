//! Answers as they go over the wire: always JSON, always of known length, never compressed.

use http::{Response, StatusCode, header};

/// A status and a JSON body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: StatusCode,
    /// The JSON.
    pub body: Vec<u8>,
    allow: Option<&'static str>,
}

impl Reply {
    /// A good answer.
    pub fn ok(body: Vec<u8>) -> Self {
        Self { status: StatusCode::OK, body, allow: None }
    }

    /// A refusal with its reason, in the form all our servers use. kube-scheduler throws bodies of errors
    /// away, so this is for whoever looks with curl.
    pub fn error(status: StatusCode, reason: &str) -> Self {
        let body = serde_json::json!({ "error": reason });
        Self { status, body: body.to_string().into_bytes(), allow: None }
    }

    #[must_use]
    pub(crate) fn allow(mut self, methods: &'static str) -> Self {
        self.allow = Some(methods);
        self
    }
}

impl<B: From<Vec<u8>>> From<Reply> for Response<B> {
    fn from(reply: Reply) -> Self {
        let length = reply.body.len();
        let mut response = Self::new(B::from(reply.body));
        *response.status_mut() = reply.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
        headers.insert(header::CONTENT_LENGTH, length.into());
        if let Some(methods) = reply.allow {
            headers.insert(header::ALLOW, header::HeaderValue::from_static(methods));
        }
        response
    }
}
