//! The grid as an SVG that looks like a terminal. Blocks are drawn as rectangles and texts are held to the
//! grid, so that it looks the same in every font.

use std::fmt::Write as _;

use super::{Canvas, Cell, Ink};

const CELL_WIDTH: u32 = 9;
const CELL_HEIGHT: u32 = 20;
const MARGIN: u32 = 18;
/// Room for the three buttons of a window.
const TITLE_BAR: u32 = 34;
/// From the top of a row to where letters stand.
const BASELINE: u32 = 15;

impl Ink {
    fn fill(self) -> &'static str {
        match self {
            Self::Plain => "#c9d1d9",
            Self::Dim => "#6e7681",
            Self::Bold => "#f0f6fc",
            Self::Title => "#79c0ff",
            Self::Good => "#3fb950",
            Self::Warm => "#e3b341",
            Self::Bad => "#ff7b72",
            Self::Unknown => "#d2a8ff",
        }
    }

    fn weight(self) -> &'static str {
        if matches!(self, Self::Bold | Self::Title | Self::Bad) { " font-weight=\"600\"" } else { "" }
    }
}

/// How many eighths of a cell a block fills from the left.
fn eighths(shape: char) -> Option<u32> {
    match shape {
        '█' => Some(8),
        '▉' => Some(7),
        '▊' => Some(6),
        '▋' => Some(5),
        '▌' => Some(4),
        '▍' => Some(3),
        '▎' => Some(2),
        '▏' => Some(1),
        _ => None,
    }
}

impl Canvas {
    /// The grid as a picture; `describes` says what is on it for those who cannot see it.
    pub fn svg(&self, describes: &str) -> String {
        let width = u32::from(self.size.width) * CELL_WIDTH + 2 * MARGIN;
        let height = u32::from(self.size.height) * CELL_HEIGHT + TITLE_BAR + MARGIN;
        let mut svg = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{}\">",
            escaped(describes)
        );
        let _ = writeln!(
            svg,
            "<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"10\" fill=\"#0d1117\" stroke=\"#30363d\"/>",
            width - 1,
            height - 1
        );
        for (place, fill) in ["#ff5f57", "#febc2e", "#28c840"].into_iter().enumerate() {
            let _ = writeln!(svg, "<circle cx=\"{}\" cy=\"17\" r=\"5.5\" fill=\"{fill}\"/>", 20 + 18 * place);
        }
        svg.push_str(
            "<g font-family=\"ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace\" font-size=\"15\" xml:space=\"preserve\">\n",
        );
        for (row, cells) in (0..).zip(self.rows()) {
            draw_row(&mut svg, cells, TITLE_BAR + row * CELL_HEIGHT);
        }
        svg.push_str("</g>\n</svg>\n");
        svg
    }
}

fn draw_row(svg: &mut String, cells: &[Cell], top: u32) {
    let mut column = 0;
    for run in cells.chunk_by(|a, b| a.ink == b.ink && kind(a.shape) == kind(b.shape)) {
        let (left, length) = (MARGIN + column * CELL_WIDTH, u32::try_from(run.len()).unwrap_or(0));
        column += length;
        let (ink, shape) = (run[0].ink, run[0].shape);
        match kind(shape) {
            Kind::Blank => {}
            Kind::Block => {
                let eighths: u32 = run.iter().filter_map(|cell| eighths(cell.shape)).sum();
                let width = f64::from(eighths * CELL_WIDTH) / 8.0;
                let (y, height) = (top + 3, CELL_HEIGHT - 6);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{}\"/>",
                    ink.fill()
                );
            }
            Kind::Shade => {
                let (y, width, height) = (top + 3, length * CELL_WIDTH, CELL_HEIGHT - 6);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{}\" opacity=\"0.35\"/>",
                    ink.fill()
                );
            }
            Kind::Upright => {
                let (x, y) = (left + CELL_WIDTH / 2, top);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"1.5\" height=\"{CELL_HEIGHT}\" fill=\"{}\"/>",
                    ink.fill()
                );
            }
            Kind::Level => {
                let (y, width) = (top + CELL_HEIGHT / 2, length * CELL_WIDTH);
                let _ = writeln!(
                    svg,
                    "<rect x=\"{left}\" y=\"{y}\" width=\"{width}\" height=\"{}\" fill=\"{}\"/>",
                    if shape == '━' { 2 } else { 1 },
                    ink.fill()
                );
            }
            Kind::Text => draw_text(svg, run, left, top),
        }
    }
}

/// Word by word, so that a font of another width cannot push what stands behind.
fn draw_text(svg: &mut String, run: &[Cell], left: u32, top: u32) {
    let ink = run[0].ink;
    let text: String = run.iter().map(|cell| cell.shape).collect();
    let length = u32::try_from(run.len()).unwrap_or(0) * CELL_WIDTH;
    let _ = writeln!(
        svg,
        "<text x=\"{left}\" y=\"{}\" textLength=\"{length}\" lengthAdjust=\"spacingAndGlyphs\" fill=\"{}\"{}>{}</text>",
        top + BASELINE,
        ink.fill(),
        ink.weight(),
        escaped(&text)
    );
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Blank,
    Block,
    Shade,
    Upright,
    Level,
    Text,
}

fn kind(shape: char) -> Kind {
    match shape {
        ' ' => Kind::Blank,
        '░' | '▒' => Kind::Shade,
        '│' | '┃' => Kind::Upright,
        '─' | '━' => Kind::Level,
        block if eighths(block).is_some() => Kind::Block,
        _ => Kind::Text,
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::{Canvas, Ink, Size};

    #[test]
    fn texts_keep_to_the_grid_and_blocks_are_rectangles() {
        let mut canvas = Canvas::new(Size { width: 12, height: 1 });
        canvas.put(0, 0, Ink::Bold, "a<b");
        canvas.put(4, 0, Ink::Good, "██▌");
        let svg = canvas.svg("a \"test\"");
        assert!(svg.contains("aria-label=\"a &quot;test&quot;\""), "{svg}");
        assert!(svg.contains("textLength=\"27\" lengthAdjust=\"spacingAndGlyphs\" fill=\"#f0f6fc\" font-weight=\"600\">a&lt;b</text>"), "{svg}");
        assert!(
            svg.contains("<rect x=\"54\" y=\"37\" width=\"22.5\" height=\"14\" fill=\"#3fb950\"/>"),
            "{svg}"
        );
    }
}
