//! One picture of the two clusters, for any size of screen. A pure function of the stage.

use std::fmt::Write as _;

use engine::Verdict;
use engine::policy::{Mode, OnMissing};
use engine::time::Spoken;
use sim::{Cluster, Reading, Signal};

use super::canvas::{Canvas, Ink, Size};
use super::card;
use super::stage::Stage;
use super::words::{self, Line};

/// A bar as long as its room shows this many thousandths of the line.
const FULL_BAR: u32 = 1400;
/// From here a node is close to the line.
const WARM: u32 = 900;
/// Below this there is no room for two clusters.
const MIN_WIDTH: u16 = 44;
const MIN_HEIGHT: u16 = 10;
/// Where the nodes begin: below title, progress, blank, names and scale.
const NODES_TOP: u16 = 5;
/// Rows below the nodes, at least: their sum, a blank, the sentence of the moment and the last decisions.
const MIN_LOG_ROWS: u16 = 7;
const MARGIN: u16 = 1;
const GAP: u16 = 3;

/// Draws the stage.
pub fn frame(stage: &Stage, size: Size) -> Canvas {
    let mut canvas = Canvas::new(size);
    if size.width < MIN_WIDTH || size.height < MIN_HEIGHT {
        cramped(&mut canvas, stage);
    } else {
        roomy(&mut canvas, stage);
    }
    canvas
}

/// Too small for bars: the three lines that matter.
fn cramped(canvas: &mut Canvas, stage: &Stage) {
    let trial = &stage.trial;
    let over = |cluster: &Cluster| format!("{} s {}", cluster.tally().node_seconds_over, words::limit(trial));
    canvas.put(0, 0, Ink::Title, &format!("tas demo {}", progress(stage)));
    canvas.put(0, 1, Ink::Plain, &format!("without {}", over(trial.without())));
    canvas.put(0, 2, Ink::Plain, &format!("with    {}", over(trial.with())));
    if canvas.size().height > 4 {
        put_line(canvas, 0, 4, &words::caption(trial));
    }
}

/// As high as it takes to show all nodes and what came of them.
pub(super) fn height_of_the_end(stage: &Stage) -> u16 {
    const MOST_NODES: u16 = 40;
    let nodes = u16::try_from(stage.trial.scenario().machines.len()).unwrap_or(u16::MAX);
    NODES_TOP + nodes.min(MOST_NODES) + 1 + card::ROWS
}

fn progress(stage: &Stage) -> String {
    let trial = &stage.trial;
    format!("{} of {}", words::clock(trial.passed_s()), words::clock(trial.scenario().length_s))
}

/// Where the two halves lie.
#[derive(Clone, Copy)]
struct Halves {
    left: u16,
    right: u16,
    width: u16,
}

impl Halves {
    fn of(size: Size) -> Self {
        let width = (size.width - 2 * MARGIN - GAP) / 2;
        Self { left: MARGIN, right: MARGIN + width + GAP, width }
    }
}

fn roomy(canvas: &mut Canvas, stage: &Stage) {
    let size = canvas.size();
    let trial = &stage.trial;
    header(canvas, stage);
    let halves = Halves::of(size);
    let over = stage.is_over();
    let lower = if over { card::ROWS + 1 } else { MIN_LOG_ROWS };
    let nodes = u16::try_from(trial.scenario().machines.len()).unwrap_or(u16::MAX);
    let room = size.height.saturating_sub(NODES_TOP + lower).max(2);
    // With room to spare, bars stand apart.
    let pitch = if room >= nodes.saturating_mul(2) + 6 { 2 } else { 1 };
    let shown = nodes.min(room / pitch);
    let below = NODES_TOP + shown * pitch;
    let policy = trial.policy().name.name();
    for (left, cluster, title, subtitle) in [
        (halves.left, trial.without(), "without tas", "by requests".to_owned()),
        (halves.right, trial.with(), "with tas", format!("policy {policy}")),
    ] {
        let end = canvas.put(left, 3, Ink::Bold, title);
        put_within(canvas, end + 2, 3, left + halves.width, Ink::Dim, &subtitle);
        let mut half = Half { canvas, stage, left, width: halves.width, refuses: refuses(stage, cluster) };
        half.scale(4);
        half.bars(cluster, shown, pitch);
        if !over {
            half.sum(cluster, below);
        }
    }
    if over {
        card::draw(canvas, stage, MARGIN, below + 2 - pitch);
    } else {
        log(canvas, stage, below + 2);
    }
}

/// Whether this side turns nodes away, so that marks make sense.
fn refuses(stage: &Stage, cluster: &Cluster) -> bool {
    std::ptr::eq(cluster, stage.trial.with()) && stage.trial.policy().mode == Mode::Enforce
}

fn header(canvas: &mut Canvas, stage: &Stage) {
    let Size { width, .. } = canvas.size();
    let trial = &stage.trial;
    let end = canvas.put(MARGIN, 0, Ink::Title, "tas demo");
    let seed = format!("seed {}   {}", trial.scenario().seed, progress(stage));
    canvas.put_before(width - MARGIN, 0, Ink::Plain, &seed);
    let rule = format!("two clusters, one rule: not {}", words::limit(trial));
    let length = |text: &str| u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
    if u32::from(end + 3) + u32::from(length(&rule)) + u32::from(length(&seed)) < u32::from(width) {
        canvas.put(end + 2, 0, Ink::Dim, &rule);
    }
    let (track, length) = (width - 2 * MARGIN, trial.scenario().length_s.max(1));
    let passed = u64::from(track) * u64::from(trial.passed_s().min(length)) / u64::from(length);
    let passed = u16::try_from(passed).unwrap_or(track);
    canvas.put(MARGIN, 1, Ink::Title, &"━".repeat(usize::from(passed)));
    canvas.put(MARGIN + passed, 1, Ink::Dim, &"─".repeat(usize::from(track - passed)));
}

/// One cluster's half of the screen.
struct Half<'a> {
    canvas: &'a mut Canvas,
    stage: &'a Stage,
    left: u16,
    width: u16,
    refuses: bool,
}

/// The columns of a row of bars, from the left of its half.
struct Columns {
    flag: u16,
    bar: u16,
    bar_width: u16,
    line: u16,
    value_end: u16,
    pods: Option<u16>,
}

impl Half<'_> {
    fn signal(&self) -> Option<&Signal> {
        self.stage.trial.signals().main()
    }

    fn columns(&self) -> Columns {
        let longest = self.stage.trial.scenario().machines.iter().map(|machine| machine.name.len()).max();
        let name = u16::try_from(longest.unwrap_or(0)).unwrap_or(u16::MAX).min(self.width / 3);
        let unit = self.signal().map_or(0, |signal| words::line(signal).chars().count());
        let value = u16::try_from(unit).unwrap_or(8).clamp(4, 10) + 2;
        // A mark stands behind the value, and the number of pods where there is room for it.
        let pods = (self.width >= 48).then_some(self.left + self.width - 7);
        let value_end = self.left + self.width - if pods.is_some() { 10 } else { 2 };
        // A flag stands behind the name of a node that carries a mark.
        let flag = self.left + name;
        let bar = flag + 2;
        let bar_width = value_end.saturating_sub(bar + value + 1);
        let line = u16::try_from(u32::from(bar_width) * 1000 / FULL_BAR).unwrap_or(0);
        Columns { flag, bar, bar_width, line, value_end, pods }
    }

    fn scale(&mut self, row: u16) {
        let columns = self.columns();
        let Some(signal) = self.signal() else { return };
        let label = words::line(signal);
        let half = u16::try_from(label.chars().count() / 2).unwrap_or(0);
        self.canvas.put((columns.bar + columns.line).saturating_sub(half), row, Ink::Dim, &label);
        if let Some(pods) = columns.pods {
            self.canvas.put(pods, row, Ink::Dim, "pods");
        }
    }

    fn bars(&mut self, cluster: &Cluster, shown: u16, pitch: u16) {
        let columns = self.columns();
        let readings = cluster.readings();
        let hidden = readings.len().saturating_sub(usize::from(shown));
        for (number, reading) in (0..shown).zip(&readings) {
            let row = NODES_TOP + number * pitch;
            if hidden > 0 && number + 1 == shown {
                let more = format!("… and {} more nodes", hidden + 1);
                self.canvas.put(self.left, row, Ink::Dim, &more);
            } else {
                self.bar(&columns, row, usize::from(number), reading, cluster);
            }
        }
    }

    fn bar(&mut self, columns: &Columns, row: u16, machine: usize, reading: &Reading, cluster: &Cluster) {
        let Some(signal) = self.signal().cloned() else { return };
        let name = &self.stage.trial.scenario().machines[machine].name;
        let level = reading.value.map_or(0, |value| signal.level(value));
        let past = if signal.is_falling() { level < 1000 } else { level > 1000 };
        let close = if signal.is_falling() { level < 2000 - WARM } else { level > WARM };
        let marked = self.refuses && reading.reason.is_some();
        let ink = match (reading.verdict, past, close) {
            (Verdict::Unknown, ..) => Ink::Unknown,
            _ if !reading.fresh => Ink::Unknown,
            (_, true, _) => Ink::Bad,
            (_, _, true) => Ink::Warm,
            _ => Ink::Good,
        };
        put_within(self.canvas, self.left, row, columns.flag, Ink::Plain, name);
        if reading.marked {
            self.canvas.put(columns.flag, row, Ink::Bad, "⚑");
        }
        if self.refuses && reading.verdict == Verdict::Unknown {
            let why = reading.reason.as_ref().map_or_else(String::new, |r| r.numbers().to_string());
            put_within(self.canvas, columns.bar, row, columns.value_end, ink, &why);
        } else {
            let eighths = u64::from(level) * u64::from(columns.bar_width) * 8 / u64::from(FULL_BAR);
            let silent = (!reading.fresh).then_some('░');
            for cell in 0..columns.bar_width {
                let filled = eighths.saturating_sub(u64::from(cell) * 8).min(8);
                let shape = match (cell == columns.line, filled, silent) {
                    (true, ..) => ('┃', if past { Ink::Bold } else { Ink::Dim }),
                    (_, 0, _) => continue,
                    (_, _, Some(shade)) => (shade, ink),
                    (_, filled, None) => (eighth(filled), ink),
                };
                self.canvas.put(columns.bar + cell, row, shape.1, &shape.0.to_string());
            }
            let text = match cluster.silence(machine).filter(|_| !reading.fresh) {
                Some(silence) => format!("? {}", Spoken(silence)),
                None => reading.value.map_or_else(String::new, |value| words::value(&signal, value)),
            };
            self.canvas.put_before(columns.value_end, row, ink, &text);
        }
        if marked {
            // What nobody can judge passes unless the policy denies it.
            let lenient = self.stage.trial.policy().on_missing == OnMissing::Allow;
            let (mark, ink) =
                if lenient && reading.verdict == Verdict::Unknown { ("?", ink) } else { ("✗", Ink::Bad) };
            self.canvas.put(columns.value_end + 1, row, ink, mark);
        }
        if let Some(pods) = columns.pods {
            self.canvas.put_before(pods + 4, row, Ink::Dim, &reading.pods.to_string());
        }
    }

    fn sum(&mut self, cluster: &Cluster, row: u16) {
        let tally = cluster.tally();
        let ink = if tally.node_seconds_over == 0 { Ink::Good } else { Ink::Bold };
        let end = self.left + self.width;
        let mut column =
            put_within(self.canvas, self.left, row, end, ink, &format!("{} s", tally.node_seconds_over));
        let limit = words::limit(&self.stage.trial);
        column = put_within(self.canvas, column + 1, row, end, Ink::Plain, &limit);
        let mut rest = format!(" · {} pods", tally.pods_placed);
        if self.refuses {
            let waiting = cluster.waiting();
            // Writing to a String cannot fail.
            if waiting > 0 {
                let _ = write!(rest, " · {waiting} waiting");
            }
            if tally.pods_moved > 0 {
                let _ = write!(rest, " · {} moved", tally.pods_moved);
            }
        }
        put_within(self.canvas, column, row, end, Ink::Dim, &rest);
    }
}

/// A block that fills so many eighths of its cell from the left.
fn eighth(filled: u64) -> char {
    match filled {
        0 => ' ',
        1 => '▏',
        2 => '▎',
        3 => '▍',
        4 => '▌',
        5 => '▋',
        6 => '▊',
        7 => '▉',
        _ => '█',
    }
}

/// The sentence of the moment, and under it what was decided last, the newest on top.
fn log(canvas: &mut Canvas, stage: &Stage, top: u16) {
    let Size { width, height } = canvas.size();
    put_line(canvas, MARGIN, top, &words::caption(&stage.trial));
    let keys = "q quits   space pauses";
    let lines = stage.recent.iter().map(|happening| (happening.at_s, words::told(&stage.trial, happening)));
    for (row, (at_s, line)) in (top + 2..height.saturating_sub(1)).zip(lines) {
        let column = canvas.put(MARGIN, row, Ink::Dim, &format!("{:>5}  ", words::clock(at_s)));
        put_line(canvas, column, row, &line);
    }
    canvas.put_before(width - MARGIN, height - 1, Ink::Dim, keys);
}

/// Writes words in their inks.
fn put_line(canvas: &mut Canvas, column: u16, row: u16, line: &Line) {
    let end = canvas.size().width;
    line.iter().fold(column, |column, (ink, text)| put_within(canvas, column, row, end, *ink, text));
}

/// Writes a text that must end before `end`.
fn put_within(canvas: &mut Canvas, column: u16, row: u16, end: u16, ink: Ink, text: &str) -> u16 {
    let room = usize::from(end.saturating_sub(column));
    if text.chars().count() <= room {
        return canvas.put(column, row, ink, text);
    }
    let cut: String = text.chars().take(room.saturating_sub(1)).chain((room > 0).then_some('…')).collect();
    canvas.put(column, row, ink, &cut)
}

#[cfg(test)]
mod tests;
