//! The page a scrape gets: text 0.0.4 or OpenMetrics, written in one pass into one buffer that is kept.
//!
//! Whatever collectors hand in, the page stays legal: names are made of legal characters, label values are
//! escaped UTF-8, no family opens twice, no series is written twice, counters never fall.

use std::borrow::Cow;

use crate::family::{Family, Kind, NameSet, NameSets};
use crate::ledger::{Ledger, hash};

/// Series a page holds at most besides the agent's own; what is left out is counted.
pub const MAX_SERIES: usize = 50_000;

/// The two text formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text exposition format 0.0.4.
    Text,
    /// OpenMetrics 1.0.
    OpenMetrics,
}

impl Format {
    /// What the answer's `Content-Type` says.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// A sample's value; whole numbers with a decimal point put in, so that nothing is rounded on the way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Count(u64),
    /// A number of steps of 10^-decimals.
    Fixed(u64, u8),
    /// The same with a sign.
    Signed(i64, u8),
    /// Anything else.
    Real(f64),
}

/// A family's name that is partly the host's. Made once where it can be: pages are written often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegalName(String);

impl LegalName {
    /// Illegal characters become `_`.
    pub fn of(name: &str) -> Self {
        let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        Self(name.chars().map(legal).collect())
    }
}

/// A label: its name and its value in bytes.
pub type Label<'a> = (&'a str, &'a [u8]);

/// The page being written.
#[derive(Debug)]
pub struct Page {
    text: Vec<u8>,
    format: Format,
    names: NameSets,
    instance: Vec<u8>,
    ledger: Ledger,
    open: Open,
    series: usize,
    /// Of them the agent's own, which are few and always have room.
    own: usize,
    left_out: u64,
}

/// The family being written; its header waits for the first sample.
#[derive(Debug, Default)]
struct Open {
    wanted: bool,
    name: Vec<u8>,
    help: Cow<'static, str>,
    plain_help: bool,
    kind: Kind,
    unit: &'static str,
    set: NameSet,
    header_written: bool,
}

impl Page {
    /// A page for a node called `instance`, which is what collectd's names carry as a label.
    pub fn new(instance: &str) -> Self {
        Self {
            text: Vec::new(),
            format: Format::Text,
            names: NameSets::ALL,
            instance: instance.as_bytes().to_vec(),
            ledger: Ledger::default(),
            open: Open::default(),
            series: 0,
            own: 0,
            left_out: 0,
        }
    }

    /// Starts over for a new scrape.
    pub fn begin(&mut self, format: Format, names: NameSets) {
        self.text.clear();
        self.open.wanted = false;
        (self.series, self.own) = (0, 0);
        self.format = format;
        self.names = names;
        self.ledger.turn();
    }

    /// Whether families of this set are wanted at all.
    pub fn wants(&self, set: NameSet) -> bool {
        self.names.contain(set)
    }

    /// Opens a family; false if its set is not wanted or the page has it already.
    pub fn family(&mut self, family: &'static Family) -> bool {
        self.open(family.name.as_bytes(), family, Cow::Borrowed)
    }

    /// Opens a family whose name is partly the host's.
    pub fn family_named(&mut self, family: &'static Family, name: &LegalName) -> bool {
        let name = &name.0;
        self.open(name.as_bytes(), family, |help| {
            // collectd's help text repeats the name of the plugin, which holds the host's part.
            if family.set == NameSet::Collectd && help.contains("<name>") {
                Cow::Owned(help.replace("<name>", name.strip_prefix("collectd_").unwrap_or(name)))
            } else {
                Cow::Borrowed(help)
            }
        })
    }

    fn open(
        &mut self,
        name: &[u8],
        family: &'static Family,
        help: impl FnOnce(&'static str) -> Cow<'static, str>,
    ) -> bool {
        // A family that may not be written swallows its samples: they must not end up under the one before.
        self.open.wanted = self.wants(family.set) && self.claim(name, family.kind);
        if self.open.wanted {
            let open = &mut self.open;
            open.name.clear();
            open.name.extend_from_slice(name);
            open.help = help(family.help);
            (open.kind, open.unit, open.set) = (family.kind, family.unit, family.set);
            open.plain_help = family.plain_help;
            open.header_written = false;
        }
        self.open.wanted
    }

    /// Takes a family name for this page; false if it is taken.
    pub fn claim(&mut self, name: &[u8], kind: Kind) -> bool {
        // A family without labels has a series of the same name, which is another thing.
        self.ledger.note(!hash(family_name(name, kind, self.format)))
    }

    /// Writes one sample of the open family.
    pub fn sample(&mut self, labels: &[Label<'_>], value: Value) {
        if !self.open.wanted {
            return;
        }
        let Some(value) = finite(value) else { return };
        // A full page must still say that it is full, and how its sources do.
        if self.open.set != NameSet::Own && !self.room() {
            return;
        }
        let before = self.text.len();
        if !self.open.header_written {
            self.header();
        }
        let start = self.text.len();
        self.text.extend_from_slice(&self.open.name);
        self.labels(labels);
        let series = hash(&self.text[start..]);
        let value = match (self.open.kind, value) {
            (Kind::Counter, Value::Count(raw)) => self.ledger.count(series, raw).map(Value::Count),
            (Kind::Counter, Value::Fixed(raw, d)) => {
                self.ledger.count(series, raw).map(|n| Value::Fixed(n, d))
            }
            (_, value) => self.ledger.note(series).then_some(value),
        };
        let Some(value) = value else {
            self.text.truncate(before);
            return;
        };
        self.open.header_written = true;
        self.series += 1;
        self.own += usize::from(self.open.set == NameSet::Own);
        self.text.push(b' ');
        write_value(&mut self.text, value);
        self.text.push(b'\n');
    }

    /// Writes a line of somebody else's as it stands; false if the page has the series already.
    pub fn foreign(&mut self, series: &[u8], value: &[u8]) -> bool {
        if !self.room() || !self.ledger.note(hash(series)) {
            return false;
        }
        self.series += 1;
        self.text.extend_from_slice(series);
        self.text.push(b' ');
        self.text.extend_from_slice(value);
        self.text.push(b'\n');
        true
    }

    /// Writes the header of somebody else's family; `kind` is the word after the name.
    pub fn foreign_header(&mut self, name: &[u8], help: &[u8], kind: &[u8]) {
        write_escaped_comment(&mut self.text, self.format, b"# HELP ", name, help);
        write_comment(&mut self.text, b"# TYPE ", name, kind);
    }

    /// Whether there is room for nothing but the agent's own.
    pub fn is_full(&self) -> bool {
        self.series - self.own >= MAX_SERIES
    }

    /// Counts series that were not even tried.
    pub fn leave_out(&mut self, series: usize) {
        self.left_out += series as u64;
    }

    fn room(&mut self) -> bool {
        let full = self.is_full();
        self.leave_out(usize::from(full));
        !full
    }

    fn header(&mut self) {
        let Open { name, help, plain_help, kind, unit, .. } = &self.open;
        let (text, format) = (&mut self.text, self.format);
        let family = family_name(name, *kind, format);
        let word: &[u8] = match (kind, format) {
            (Kind::Counter, _) => b"counter",
            (Kind::Gauge, _) => b"gauge",
            (Kind::Untyped, Format::Text) => b"untyped",
            (Kind::Untyped, Format::OpenMetrics) => b"unknown",
        };
        if *plain_help {
            write_comment(text, b"# HELP ", family, help.as_bytes());
        } else {
            write_escaped_comment(text, format, b"# HELP ", family, help.as_bytes());
        }
        write_comment(text, b"# TYPE ", family, word);
        // OpenMetrics wants the unit to be the end of the name; where history says otherwise there is none.
        let suffix = family.strip_suffix(unit.as_bytes());
        let fits = !unit.is_empty() && suffix.is_some_and(|rest| rest.ends_with(b"_"));
        if format == Format::OpenMetrics && fits {
            write_comment(text, b"# UNIT ", family, unit.as_bytes());
        }
    }

    fn labels(&mut self, labels: &[Label<'_>]) {
        let mut mark = b'{';
        for &(name, value) in labels {
            self.text.push(mark);
            mark = b',';
            write_label(&mut self.text, name, value);
        }
        if self.open.set == NameSet::Collectd {
            self.text.push(mark);
            mark = b',';
            write_label(&mut self.text, "instance", &self.instance);
        }
        if mark == b',' {
            self.text.push(b'}');
        }
    }

    /// Ends the page and returns it.
    pub fn finish(&mut self) -> &[u8] {
        self.open.wanted = false;
        if self.format == Format::OpenMetrics {
            self.text.extend_from_slice(b"# EOF\n");
        }
        &self.text
    }

    /// Series written so far.
    pub fn series(&self) -> usize {
        self.series
    }

    /// Series left out over all pages for want of room.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// The format of this page.
    pub fn format(&self) -> Format {
        self.format
    }
}

/// Policies take no NaN and no infinity, so none is written.
fn finite(value: Value) -> Option<Value> {
    match value {
        Value::Real(real) if !real.is_finite() => None,
        value => Some(value),
    }
}

/// In OpenMetrics a counter's family goes by the name without `_total`.
fn family_name(name: &[u8], kind: Kind, format: Format) -> &[u8] {
    match (format, kind) {
        (Format::OpenMetrics, Kind::Counter) => name.strip_suffix(b"_total").unwrap_or(name),
        _ => name,
    }
}

fn write_comment(text: &mut Vec<u8>, what: &[u8], name: &[u8], said: &[u8]) {
    text.extend_from_slice(what);
    text.extend_from_slice(name);
    text.push(b' ');
    text.extend_from_slice(said);
    text.push(b'\n');
}

fn write_escaped_comment(text: &mut Vec<u8>, format: Format, what: &[u8], name: &[u8], said: &[u8]) {
    let quotes = format == Format::OpenMetrics;
    let mut escaped = Vec::with_capacity(said.len() + 8);
    for &byte in said {
        match byte {
            b'\\' => escaped.extend_from_slice(b"\\\\"),
            b'\n' => escaped.extend_from_slice(b"\\n"),
            b'"' if quotes => escaped.extend_from_slice(b"\\\""),
            byte => escaped.push(byte),
        }
    }
    write_comment(text, what, name, &escaped);
}

fn write_label(text: &mut Vec<u8>, name: &str, value: &[u8]) {
    text.extend_from_slice(name.as_bytes());
    text.extend_from_slice(b"=\"");
    if value.iter().all(|b| b.is_ascii() && !matches!(b, b'"' | b'\\' | b'\n')) {
        text.extend_from_slice(value);
    } else {
        for character in String::from_utf8_lossy(value).chars() {
            match character {
                '\\' => text.extend_from_slice(b"\\\\"),
                '"' => text.extend_from_slice(b"\\\""),
                '\n' => text.extend_from_slice(b"\\n"),
                other => text.extend_from_slice(other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
    }
    text.push(b'"');
}

fn write_value(text: &mut Vec<u8>, value: Value) {
    match value {
        Value::Count(n) => text.extend_from_slice(Digits::of(n).as_bytes()),
        Value::Fixed(n, decimals) => write_fixed(text, n, decimals),
        Value::Signed(n, decimals) => {
            if n < 0 {
                text.push(b'-');
            }
            write_fixed(text, n.unsigned_abs(), decimals);
        }
        Value::Real(real) => {
            use std::io::Write;
            // Writing to a vector cannot fail.
            let _ = write!(text, "{real}");
        }
    }
}

fn write_fixed(text: &mut Vec<u8>, steps: u64, decimals: u8) {
    let scale = 10u64.pow(u32::from(decimals.min(18)));
    text.extend_from_slice(Digits::of(steps / scale).as_bytes());
    let mut fraction = steps % scale;
    if fraction == 0 {
        return;
    }
    text.push(b'.');
    let mut step = scale / 10;
    while fraction > 0 {
        text.extend_from_slice(Digits::of(fraction / step).as_bytes());
        fraction %= step;
        step /= 10;
    }
}

/// A number in decimal, on the stack.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    bytes: [u8; 20],
    start: usize,
}

impl Digits {
    /// Writes the number.
    pub fn of(mut number: u64) -> Self {
        let mut digits = Self { bytes: [b'0'; 20], start: 20 };
        loop {
            digits.start -= 1;
            digits.bytes[digits.start] += u8::try_from(number % 10).unwrap_or_default();
            number /= 10;
            if number == 0 {
                return digits;
            }
        }
    }

    /// What was written.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

#[cfg(test)]
mod tests;
