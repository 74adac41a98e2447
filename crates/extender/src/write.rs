//! Answers as JSON, written straight into their buffer.

use std::ops::Range;

use crate::decode::Victims;

/// Writes JSON items with commas between them.
pub(crate) struct List<'o> {
    out: &'o mut Vec<u8>,
    empty: bool,
}

impl<'o> List<'o> {
    pub(crate) fn open(out: &'o mut Vec<u8>, with: &[u8]) -> Self {
        out.extend_from_slice(with);
        Self { out, empty: true }
    }

    pub(crate) fn close(self, with: &[u8]) {
        self.out.extend_from_slice(with);
    }

    fn comma(&mut self) {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
    }

    pub(crate) fn raw(&mut self, json: &str) {
        self.comma();
        self.out.extend_from_slice(json.as_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.comma();
        write_text(self.out, text);
    }

    pub(crate) fn key(&mut self, key: &str) {
        self.text(key);
        self.out.push(b':');
    }

    pub(crate) fn pair(&mut self, key: &str, value: &str) {
        self.key(key);
        write_text(self.out, value);
    }

    pub(crate) fn victims(&mut self, victims: &Victims<'_>) {
        match victims {
            Victims::Short(raw) => self.out.extend_from_slice(raw.get().as_bytes()),
            Victims::Long { uids, broken_budgets } => {
                let mut pods = List::open(self.out, br#"{"Pods":["#);
                for uid in uids {
                    pods.comma();
                    pods.out.extend_from_slice(br#"{"UID":"#);
                    write_text(pods.out, uid.as_str());
                    pods.out.push(b'}');
                }
                pods.close(br#"],"NumPDBViolations":"#);
                write_number(self.out, *broken_budgets);
                self.out.push(b'}');
            }
        }
    }
}

/// Copies names out of the body they borrow from. Neighbours that both pass go in one piece, with the quotes
/// and the comma between them: where few nodes are refused, the answer is a few long copies.
pub(crate) struct Run<'b> {
    body: &'b [u8],
    piece: Range<usize>,
}

impl<'b> Run<'b> {
    pub(crate) fn of(body: &'b [u8]) -> Self {
        Self { body, piece: 0..0 }
    }

    /// Adds a name that stands in the body between quotes.
    pub(crate) fn add(&mut self, list: &mut List<'_>, name: &str) {
        let first = name.as_ptr().addr().wrapping_sub(self.body.as_ptr().addr()).wrapping_sub(1);
        let end = first.wrapping_add(name.len() + 2);
        let follows = first == self.piece.end + 1 && self.body.get(self.piece.end) == Some(&b',');
        if follows {
            self.piece.end = end;
        } else {
            self.end(list);
            self.piece = first..end;
        }
    }

    /// Writes what is still to be written.
    pub(crate) fn end(&mut self, list: &mut List<'_>) {
        match self.body.get(std::mem::take(&mut self.piece)) {
            Some(piece) if !piece.is_empty() => {
                list.comma();
                list.out.extend_from_slice(piece);
            }
            _ => {}
        }
    }
}

/// Writes scores. What stands around a number is the same for every node that has it, so it is made once.
#[derive(Debug)]
pub(crate) struct Scores {
    /// By score: what stands between the name before and the name after.
    between: Box<[Box<[u8]>]>,
}

const OPENING: &[u8] = br#"[{"Host":"#;
const NEXT: &[u8] = br#",{"Host":"#;

impl Scores {
    pub(crate) fn up_to(top: u32) -> Self {
        let between = |score| [format!(r#","Score":{score}}}"#).as_bytes(), NEXT].concat().into_boxed_slice();
        Self { between: (0..=top).map(between).collect() }
    }

    /// The list of nodes with their scores, which never pass the top.
    pub(crate) fn write(
        &self,
        names: &[&str],
        scores: &[u32],
        write_name: fn(&mut Vec<u8>, &str),
    ) -> Vec<u8> {
        let longest = self.between.last().map_or(0, |piece| piece.len()) + 2;
        let letters: usize = names.iter().map(|name| name.len()).sum();
        let mut out = Vec::with_capacity(letters + names.len() * longest + OPENING.len());
        out.extend_from_slice(OPENING);
        for (name, score) in names.iter().zip(scores) {
            write_name(&mut out, name);
            out.extend_from_slice(self.between.get(*score as usize).map_or(&[], |piece| piece));
        }
        // Behind the last name there is no next one; without any name, only the bracket stays.
        out.truncate(out.len() - NEXT.len().min(out.len() - 1));
        out.push(b']');
        out
    }
}

/// Writes a text that is known to need no escape.
pub(crate) fn write_plain(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    // Counting, where the first find would do, lets the compiler look at many bytes at once.
    let special = text.bytes().filter(|byte| *byte < b' ' || *byte == b'"' || *byte == b'\\').count();
    if special == 0 {
        write_plain(out, text);
    } else {
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(out, text);
    }
}

fn write_number(out: &mut Vec<u8>, number: i64) {
    let _ = serde_json::to_writer(out, &number);
}
