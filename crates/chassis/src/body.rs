//! Reading a request body whole, within a size and a deadline.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, Full};

use crate::answer;
use crate::limits::BodyLimits;

/// Why a body was not read. `Display` is the reason that goes into the answer.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Refusal {
    /// Declared or turned out to be longer than the limit.
    #[error("request body is longer than {limit} bytes; send less, or raise --max-body-bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Did not arrive in time.
    #[error("request body did not arrive within {} ms; send it faster", .deadline.as_millis())]
    Late {
        /// The deadline.
        deadline: Duration,
    },
    /// The connection broke, or the framing was wrong.
    #[error("request body could not be read: {reason}")]
    Broken {
        /// What the HTTP layer said.
        reason: String,
    },
}

impl Refusal {
    /// 413, 408 or 400.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Late { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Broken { .. } => StatusCode::BAD_REQUEST,
        }
    }

    /// The answer to send: status and reason as JSON.
    pub fn response(&self) -> Response<Full<Bytes>> {
        answer::refusal(self.status(), &self.to_string())
    }
}

/// Reads the whole body. A body that came in one piece is returned without a copy.
pub async fn read<B>(body: B, limits: BodyLimits) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let too_large = Refusal::TooLarge { limit: limits.bytes };
    // A length that is declared too large is refused before a byte of it is read.
    if body.size_hint().lower() > limits.bytes as u64 {
        return Err(too_large);
    }
    let whole = async {
        let mut body = std::pin::pin!(body);
        let Some(mut first) = next_piece(body.as_mut()).await? else { return Ok(Bytes::new()) };
        let mut rest = BytesMut::new();
        loop {
            if first.len() + rest.len() > limits.bytes {
                return Err(too_large);
            }
            let Some(piece) = next_piece(body.as_mut()).await? else { break };
            if rest.is_empty() {
                // Declared lengths are promises of strangers: believe at most a mebibyte of them.
                let expected = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
                rest.reserve(first.len() + piece.len() + expected.min(1024 * 1024));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&piece);
        }
        Ok(if rest.is_empty() { first } else { rest.freeze() })
    };
    tokio::time::timeout(limits.deadline, whole)
        .await
        .unwrap_or(Err(Refusal::Late { deadline: limits.deadline }))
}

/// The next piece with bytes in it; trailers are skipped.
async fn next_piece<B>(mut body: std::pin::Pin<&mut B>) -> Result<Option<Bytes>, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::Broken { reason: error.to_string() })?;
        match frame.into_data() {
            Ok(data) if !data.is_empty() => return Ok(Some(data)),
            _ => {}
        }
    }
    Ok(None)
}
