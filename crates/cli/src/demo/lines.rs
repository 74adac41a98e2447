//! The story as plain lines, for pipes and for terminals that can do no better.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use super::canvas::{Canvas, Size};
use super::card;
use super::stage::Stage;
use super::words::{self, Line};

/// How often the two sides are compared.
const COMPARED_EVERY_S: u32 = 30;
/// Wide enough for every line of the card.
const CARD_WIDTH: u16 = 100;

/// Tells the whole story; with a pace, each virtual second takes that long.
pub(super) fn tell(stage: &mut Stage, out: &mut impl Write, pace: Option<Duration>) -> io::Result<()> {
    let scenario = stage.trial.scenario();
    writeln!(
        out,
        "tas demo: seed {}, {} nodes, {} of virtual time, policy {}: not {}",
        scenario.seed,
        scenario.machines.len(),
        words::clock(scenario.length_s),
        stage.trial.policy().name,
        words::limit(&stage.trial),
    )?;
    while !stage.is_over() {
        stage.step()?;
        for happening in stage.trial.with().news() {
            let text = text(&words::told(&stage.trial, happening));
            writeln!(out, "{:>7}  {text}", words::clock(happening.at_s))?;
        }
        let passed_s = stage.trial.passed_s();
        if passed_s.is_multiple_of(COMPARED_EVERY_S) {
            let (without, with) = (stage.trial.without().tally(), stage.trial.with().tally());
            writeln!(
                out,
                "{:>7}  node-seconds {} so far: {} without tas, {} with",
                words::clock(passed_s),
                words::limit(&stage.trial),
                without.node_seconds_over,
                with.node_seconds_over
            )?;
        }
        if let Some(pace) = pace {
            out.flush()?;
            thread::sleep(pace);
        }
    }
    let mut canvas = Canvas::new(Size { width: CARD_WIDTH, height: card::ROWS });
    card::draw(&mut canvas, stage, 0, 0);
    writeln!(out, "\n{}", canvas.plain())?;
    out.flush()
}

fn text(line: &Line) -> String {
    line.iter().map(|(_, text)| text.as_str()).collect()
}
