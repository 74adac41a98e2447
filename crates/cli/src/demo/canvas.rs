//! A grid of characters that things are drawn on, and its three ways out: plain text, a terminal, a picture.
//! Nothing can be drawn outside of it, so no frame is ever wider or higher than asked for.

use std::fmt::Write as _;

mod picture;

/// How many columns and rows there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// Whether the terminal shows colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// It does.
    On,
    /// It does not, or nobody wants them.
    Off,
}

/// What a character means, which decides how it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ink {
    #[default]
    Plain,
    Dim,
    Bold,
    Title,
    Good,
    Warm,
    Bad,
    Unknown,
}

impl Ink {
    fn escape(self) -> &'static str {
        match self {
            Self::Plain => "\x1b[0m",
            Self::Dim => "\x1b[0;90m",
            Self::Bold => "\x1b[0;1m",
            Self::Title => "\x1b[0;1;36m",
            Self::Good => "\x1b[0;32m",
            Self::Warm => "\x1b[0;33m",
            Self::Bad => "\x1b[0;1;31m",
            Self::Unknown => "\x1b[0;35m",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    shape: char,
    ink: Ink,
}

const BLANK: Cell = Cell { shape: ' ', ink: Ink::Plain };

/// The grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canvas {
    size: Size,
    cells: Vec<Cell>,
}

impl Canvas {
    pub(crate) fn new(size: Size) -> Self {
        Self { size, cells: vec![BLANK; usize::from(size.width) * usize::from(size.height)] }
    }

    pub(crate) fn size(&self) -> Size {
        self.size
    }

    /// Writes a text; what does not fit is left out. Returns the column behind it.
    pub(crate) fn put(&mut self, column: u16, row: u16, ink: Ink, text: &str) -> u16 {
        let mut column = column;
        for shape in text.chars() {
            if column >= self.size.width || row >= self.size.height {
                break;
            }
            let place = usize::from(row) * usize::from(self.size.width) + usize::from(column);
            // Every character takes one column here; one that would not is no character of ours.
            let shape = if shape.is_control() { ' ' } else { shape };
            self.cells[place] = Cell { shape, ink };
            column += 1;
        }
        column
    }

    /// Writes a text that ends before `end`.
    pub(crate) fn put_before(&mut self, end: u16, row: u16, ink: Ink, text: &str) {
        let width = u16::try_from(text.chars().count()).unwrap_or(u16::MAX);
        let skipped = usize::from(width.saturating_sub(end));
        let shown: String = text.chars().skip(skipped).collect();
        self.put(end.saturating_sub(width), row, ink, &shown);
    }

    fn rows(&self) -> impl Iterator<Item = &[Cell]> {
        // A canvas without columns has no rows to show either.
        self.cells.chunks(usize::from(self.size.width).max(1))
    }

    /// Plain text, a line per row, without blanks at the ends.
    pub fn plain(&self) -> String {
        let lines: Vec<String> = self
            .rows()
            .map(|row| row.iter().map(|cell| cell.shape).collect::<String>().trim_end().to_owned())
            .collect();
        lines.join("\n").trim_end().to_owned()
    }

    /// Text for a terminal, a line per row. Every row wipes what was behind it.
    pub fn ansi(&self, colour: Colour, end_of_line: &str) -> String {
        let mut text = String::with_capacity(self.cells.len() * 2);
        for (number, row) in self.rows().enumerate() {
            if number > 0 {
                text.push_str(end_of_line);
            }
            let used = row.iter().rposition(|cell| cell.shape != ' ').map_or(0, |last| last + 1);
            let mut ink = Ink::Plain;
            for cell in &row[..used] {
                if cell.ink != ink && colour == Colour::On && cell.shape != ' ' {
                    ink = cell.ink;
                    text.push_str(ink.escape());
                }
                text.push(cell.shape);
            }
            if ink != Ink::Plain {
                text.push_str(Ink::Plain.escape());
            }
            // Writing to a String cannot fail.
            let _ = write!(text, "\x1b[K");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::{Canvas, Colour, Ink, Size};

    #[test]
    fn nothing_is_drawn_outside() {
        let mut canvas = Canvas::new(Size { width: 5, height: 2 });
        assert_eq!(canvas.put(3, 0, Ink::Plain, "abc"), 5);
        canvas.put(0, 7, Ink::Plain, "abc");
        canvas.put(9, 1, Ink::Plain, "abc");
        canvas.put_before(2, 1, Ink::Plain, "xyz");
        assert_eq!(canvas.plain(), "   ab\nyz");
        assert_eq!(Canvas::new(Size { width: 0, height: 3 }).plain(), "");
    }

    #[test]
    fn colours_are_set_where_they_change_and_left_out_when_unwanted() {
        let mut canvas = Canvas::new(Size { width: 8, height: 1 });
        canvas.put(0, 0, Ink::Bad, "ab c");
        assert_eq!(canvas.ansi(Colour::On, "\r\n"), "\x1b[0;1;31mab c\x1b[0m\x1b[K");
        assert_eq!(canvas.ansi(Colour::Off, "\r\n"), "ab c\x1b[K");
    }
}
