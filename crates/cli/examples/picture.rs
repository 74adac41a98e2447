//! Prints the picture of the README: a frame of the demo as SVG, at the moment that shows most.

use cli::demo::canvas::Size;
use cli::demo::{Caller, Stage, frame, power_policy};
use sim::{Scenario, Trial, chapter_s};

/// Both clusters are busy, one node was hot until its sensor died, and both reasons are among the last decisions.
const MOMENT_S: u32 = 122;

fn main() -> std::io::Result<()> {
    let policy = power_policy();
    let scenario = Scenario::story(1, &policy, 8, chapter_s(&policy));
    let mut caller = Caller::new()?;
    let mut stage = Stage::new(Trial::new(scenario, policy), "tas", move |ask| caller.ask(ask));
    stage.play_until(MOMENT_S)?;
    let describes = "tas demo in a terminal: eight nodes as bars against a line at 30 watts, without tas on \
                     the left and with tas on the right, and below them the last decisions with their reasons";
    print!("{}", frame(&stage, Size { width: 84, height: 24 }).svg(describes));
    Ok(())
}
