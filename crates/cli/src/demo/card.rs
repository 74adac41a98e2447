//! What came of it, in a table, and what to try next.

use sim::Tally;

use super::canvas::{Canvas, Ink};
use super::stage::Stage;
use super::words;

/// Rows the card takes.
pub(crate) const ROWS: u16 = 10;
/// Where the numbers of either side end, from the left of the card.
const WITHOUT: u16 = 40;
const WITH: u16 = 52;

/// A row of the table.
struct Entry {
    what: String,
    without: u32,
    with: u32,
    remark: String,
}

fn entries(stage: &Stage) -> Vec<Entry> {
    let (without, with) = (stage.trial.without().tally(), stage.trial.with().tally());
    let entry = |what: &str, of: fn(&Tally) -> u32, remark: String| Entry {
        what: what.to_owned(),
        without: of(&without),
        with: of(&with),
        remark,
    };
    let over = format!("node-seconds {}", words::limit(&stage.trial));
    vec![
        entry(&over, |tally| tally.node_seconds_over, times_less(without, with)),
        entry("pods placed", |tally| tally.pods_placed, String::new()),
        entry("refusals", |tally| tally.refusals, String::new()),
        entry("pods moved", |tally| tally.pods_moved, String::new()),
        entry("flaps", |tally| tally.flaps, String::new()),
    ]
}

fn times_less(without: Tally, with: Tally) -> String {
    match without.node_seconds_over.checked_div(with.node_seconds_over) {
        Some(times @ 2..) => format!("{times} times less"),
        None if without.node_seconds_over > 0 => "none at all".to_owned(),
        _ => String::new(),
    }
}

/// Commands that exist, to go on with.
pub(crate) fn next_commands(stage: &Stage) -> [(String, &'static str); 3] {
    let program = &stage.program;
    let seed = stage.trial.scenario().seed.wrapping_add(1);
    [
        (format!("{program} demo --seed {seed}"), "another story"),
        (format!("{program} demo --print-policy > power.yaml"), "the policy, to change as you like"),
        (format!("{program} demo --policy power.yaml"), "and to try; `check` finds its traps"),
    ]
}

pub(super) fn draw(canvas: &mut Canvas, stage: &Stage, left: u16, top: u16) {
    let passed = format!("after {}", words::clock(stage.trial.passed_s()));
    canvas.put(left, top, Ink::Title, &passed);
    canvas.put_before(left + WITHOUT, top, Ink::Dim, "without tas");
    canvas.put_before(left + WITH, top, Ink::Dim, "with tas");
    let mut row = top + 1;
    for entry in entries(stage) {
        let better = entry.what.starts_with("node-seconds") && entry.with < entry.without;
        canvas.put(left, row, Ink::Plain, &entry.what);
        let (without, with) = if better { (Ink::Bad, Ink::Good) } else { (Ink::Plain, Ink::Plain) };
        canvas.put_before(left + WITHOUT, row, without, &entry.without.to_string());
        canvas.put_before(left + WITH, row, with, &entry.with.to_string());
        canvas.put(left + WITH + 3, row, Ink::Good, &entry.remark);
        row += 1;
    }
    row += 1;
    canvas.put(left, row, Ink::Dim, "next");
    for (command, what) in next_commands(stage) {
        let end = canvas.put(left + 6, row, Ink::Bold, &command);
        canvas.put(end + 2, row, Ink::Dim, what);
        row += 1;
    }
}
