//! Reading a request body whole, within a size, a deadline and the room that all bodies share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    /// Too many large bodies at once.
    #[error("the requests being read already hold {room} bytes, which is all they may; try again")]
    NoRoom {
        /// What all bodies together may hold, in bytes.
        room: usize,
    },
    /// The connection broke, or the framing was wrong.
    #[error("request body could not be read: {reason}")]
    Broken {
        /// What the HTTP layer said.
        reason: String,
    },
}

impl Refusal {
    /// 413, 408, 503 or 400.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Late { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::NoRoom { .. } => StatusCode::SERVICE_UNAVAILABLE,
            Self::Broken { .. } => StatusCode::BAD_REQUEST,
        }
    }

    /// The answer to send: status and reason as JSON.
    pub fn response(&self) -> Response<Full<Bytes>> {
        answer::refusal(self.status(), &self.to_string())
    }
}

/// What all bodies of a server may hold together. One body within its limit is harmless; as many as there are
/// connections would not be.
#[derive(Debug)]
pub struct Room {
    bytes: usize,
    taken: AtomicUsize,
}

impl Room {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self { bytes, taken: AtomicUsize::new(0) })
    }

    /// Bytes taken now.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

/// A body that has been read. It takes up its room until it is dropped.
#[derive(Debug)]
pub struct Held {
    bytes: Bytes,
    share: Share,
}

impl std::ops::Deref for Held {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.bytes
    }
}

impl Held {
    /// What of the room this body takes up.
    pub fn taken(&self) -> usize {
        self.share.bytes
    }
}

#[derive(Debug)]
struct Share {
    room: Arc<Room>,
    bytes: usize,
}

impl Share {
    fn grow(&mut self, more: usize) -> Result<(), Refusal> {
        let fits = |taken: usize| taken.checked_add(more).filter(|&taken| taken <= self.room.bytes);
        match self.room.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits) {
            Ok(_) => {
                self.bytes += more;
                Ok(())
            }
            Err(_) => Err(Refusal::NoRoom { room: self.room.bytes }),
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Reads the whole body. A body that came in one piece is not copied.
pub async fn read<B>(body: B, limits: BodyLimits, room: &Arc<Room>) -> Result<Held, Refusal>
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
        let mut share = Share { room: Arc::clone(room), bytes: 0 };
        let mut body = std::pin::pin!(body);
        let mut first = Bytes::new();
        let mut rest = BytesMut::new();
        while let Some(piece) = next_piece(body.as_mut()).await? {
            if share.bytes + piece.len() > limits.bytes {
                return Err(too_large);
            }
            // Paid for as it arrives: a length that is only declared takes no room from others.
            share.grow(piece.len())?;
            if first.is_empty() && rest.is_empty() {
                first = piece;
                continue;
            }
            if rest.is_empty() {
                // Declared lengths are promises of strangers: believe at most a mebibyte of them.
                let expected = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
                rest.reserve(share.bytes + expected.min(1024 * 1024));
                rest.extend_from_slice(&std::mem::take(&mut first));
            }
            rest.extend_from_slice(&piece);
        }
        let bytes = if rest.is_empty() { first } else { rest.freeze() };
        Ok(Held { bytes, share })
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
