//! The demo on a terminal: frames as time passes, until the end, `q` or a signal.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use chassis::shutdown::{self, Phase};

use super::canvas::{Colour, Size};
use super::frame::{frame, height_of_the_end};
use super::screen::{Key, Screen};
use super::stage::Stage;

/// About fifteen frames a second.
const FRAME: Duration = Duration::from_millis(66);

/// Plays the stage at so many virtual seconds a second; leaves the last picture on the screen.
pub(super) fn play(stage: &mut Stage, speed: f64, colour: Colour) -> io::Result<()> {
    // Before the terminal is taken, so that no signal can end us without giving it back.
    let asked = shutdown::listen()?;
    let screen = Screen::take()?;
    let mut clock = Clock { virtual_s: 0.0, seen: Instant::now(), speed, runs: true };
    while !stage.is_over() {
        stage.play_until(clock.advance(Instant::now()))?;
        screen.show(&frame(stage, Screen::size()).ansi(colour, "\r\n"))?;
        let key = screen.key(FRAME)?;
        if asked.phase() > Phase::Serving {
            stage.stop();
        }
        match key {
            Some(Key::Quit) => stage.stop(),
            Some(Key::Pause) => clock.runs = !clock.runs,
            Some(Key::Other) | None => {}
        }
    }
    drop(screen);
    let size = Size { width: Screen::size().width, height: height_of_the_end(stage) };
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{}", frame(stage, size).ansi(colour, "\n"))?;
    stdout.flush()
}

/// From real time to virtual time.
struct Clock {
    virtual_s: f64,
    seen: Instant,
    speed: f64,
    runs: bool,
}

impl Clock {
    /// The virtual second that has begun.
    fn advance(&mut self, now: Instant) -> u32 {
        if self.runs {
            self.virtual_s += now.duration_since(self.seen).as_secs_f64() * self.speed;
        }
        self.seen = now;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive float saturates when cast"
        )]
        let second = self.virtual_s as u32;
        second.saturating_add(1)
    }
}
