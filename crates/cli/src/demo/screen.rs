//! The terminal while the demo has it: another screen, no echo, keys one by one. Dropping gives it back as
//! it was, whatever happened.

use std::io::{self, Write};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::canvas::Size;

const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[2J\x1b[?25h\x1b[?1049l";
/// Terminals that know it show a frame only when it is whole; others ignore it.
const BEGIN_FRAME: &str = "\x1b[?2026h\x1b[H";
const END_FRAME: &str = "\x1b[J\x1b[?2026l";
const USUAL: Size = Size { width: 80, height: 24 };

/// A key that means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Quit,
    Pause,
    Other,
}

impl Key {
    fn of(bytes: &[u8]) -> Self {
        const CTRL_C: u8 = 3;
        const CTRL_D: u8 = 4;
        const ESCAPE: u8 = 27;
        match bytes {
            // A terminal that is gone reads as nothing.
            [] | [b'q' | b'Q' | CTRL_C | CTRL_D, ..] | [ESCAPE] => Self::Quit,
            [b' ', ..] => Self::Pause,
            _ => Self::Other,
        }
    }
}

/// The terminal in our hands.
pub(super) struct Screen {
    keys: io::Stdin,
    out: io::Stdout,
    before: Termios,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take() -> io::Result<Self> {
        let (keys, out) = (io::stdin(), io::stdout());
        let before = tcgetattr(&keys)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(&keys, OptionalActions::Now, &raw)?;
        let taken = Self { keys, out, before };
        taken.write(ENTER)?;
        Ok(taken)
    }

    /// Its size now; it may change between any two frames.
    pub(super) fn size() -> Size {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { width: size.ws_col, height: size.ws_row }
            }
            _ => USUAL,
        }
    }

    /// Shows a frame in the place of the last.
    pub(super) fn show(&self, frame: &str) -> io::Result<()> {
        self.write(&format!("{BEGIN_FRAME}{frame}{END_FRAME}"))
    }

    /// Waits for a key, so long at most.
    pub(super) fn key(&self, wait: Duration) -> io::Result<Option<Key>> {
        let wait = Timespec { tv_sec: 0, tv_nsec: wait.subsec_nanos().into() };
        let ready = match poll(&mut [PollFd::new(&self.keys, PollFlags::IN)], Some(&wait)) {
            // A signal on the way is no key.
            Err(rustix::io::Errno::INTR) => 0,
            other => other?,
        };
        if ready == 0 {
            return Ok(None);
        }
        let mut bytes = [0; 32];
        let read = rustix::io::read(&self.keys, &mut bytes)?;
        Ok(Some(Key::of(&bytes[..read])))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut out = self.out.lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone there is nobody to tell.
        let _ = self.write(LEAVE);
        let _ = tcsetattr(&self.keys, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::Key;

    #[test]
    fn an_arrow_is_not_an_escape() {
        assert_eq!(
            [&b"q"[..], b"\x03", b"\x1b", b"", b" ", b"\x1b[A", b"x"].map(Key::of),
            [Key::Quit, Key::Quit, Key::Quit, Key::Quit, Key::Pause, Key::Other, Key::Other]
        );
    }
}
