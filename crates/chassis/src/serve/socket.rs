//! The byte stream under a connection: reports to the [`Pulse`] and closes without losing the last answer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pulse::Pulse;

pub(super) struct Socket<T> {
    inner: T,
    pulse: Arc<Pulse>,
    read_ended: bool,
    write_closed: bool,
    write_blocked: bool,
}

impl<T> Socket<T> {
    pub(super) fn new(inner: T, pulse: Arc<Pulse>) -> Self {
        Self { inner, pulse, read_ended: false, write_closed: false, write_blocked: false }
    }

    fn note_write<R>(&mut self, result: &Poll<R>) {
        if result.is_pending() {
            self.write_blocked = true;
            self.pulse.write_blocked();
        } else if std::mem::take(&mut self.write_blocked) {
            self.pulse.write_advanced();
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Socket<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.pulse.bytes_read();
        } else {
            self.read_ended = buf.remaining() > 0;
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.note_write(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.note_write(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.inner).poll_flush(cx);
        self.note_write(&result);
        result
    }

    /// Closes our side, then reads and discards until the caller closes its own. Closing a socket with unread
    /// input makes the kernel reset the connection, and a reset destroys the answer (413, say) that is still
    /// on its way. The linger deadline bounds this.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.write_closed {
            this.pulse.lingers();
            ready!(Pin::new(&mut this.inner).poll_shutdown(cx))?;
            this.write_closed = true;
        }
        if this.read_ended {
            return Poll::Ready(Ok(()));
        }
        let mut discarded = [0; 4096];
        loop {
            let mut buf = ReadBuf::new(&mut discarded);
            match ready!(Pin::new(&mut this.inner).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {}
                // End of input, or a caller that broke off: either way there is nothing left to wait for.
                Ok(()) | Err(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}
