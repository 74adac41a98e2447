//! Metrics other programs leave in `*.prom` files, such as the health demo's `node_health_metric`.
//!
//! A file is read when it changes. While it is being written, cannot be read or is broken, what it said before stays
//! for a minute: a file that is broken in passing must not make policies waver. After that it is left out, whatever the
//! allowed age: a value that nobody stands for any more is unknown, and policies know what to do with that.

use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thiserror::Error;

use crate::collectors::Collector;
use crate::exposition::{self, Head, Malformed, Packed};
use crate::family::{Family, Kind, NameSet};
use crate::host::{self, Buffer};
use crate::moment::Moment;
use crate::page::{Format, MAX_SERIES, Page, Value};
use crate::trouble::Trouble;

/// Bytes of one file.
pub const MAX_FILE: u64 = 1024 * 1024;
/// Bytes of all files.
pub const MAX_ALL: u64 = 4 * 1024 * 1024;
/// Series of all files, counted before they are read.
pub const MAX_ALL_SERIES: usize = MAX_SERIES;
/// Files in the directory.
pub const MAX_FILES: usize = 64;
/// A file without a line end is taken as half written for this long after it was touched.
const SETTLE: Duration = Duration::from_secs(5);
/// For so long what a file said stands in for what it fails to say.
pub const HOLD: Duration = Duration::from_mins(1);
const SOURCE: &str = "<textfile directory>/*.prom";

static MTIME: Family = Family::gauge(
    NameSet::Node,
    "node_textfile_mtime_seconds",
    "seconds",
    "When the file was changed to what was last understood of it.",
)
.labels("file")
.source(SOURCE)
.peers("node_exporter textfile");
// Whoever has other names still wants to know that a metric of theirs is not there.
static ERROR: Family = Family::gauge(
    NameSet::Own,
    "node_textfile_scrape_error",
    "",
    "1 if any file could not be read or understood, or a series of it had to be left out; 0 otherwise.",
)
.source(SOURCE)
.peers("node_exporter textfile");
static STALE: Family = Family::gauge(
    NameSet::Tas,
    "node_textfile_stale",
    "",
    "1 for a file that is too old, and whose metrics are left out for that.",
)
.labels("file")
.source(SOURCE);
static REFUSED: Family = Family::gauge(
    NameSet::Tas,
    "node_textfile_refused_series",
    "series",
    "Series left out because they carry a timestamp, are there already, or have a name the agent uses itself.",
)
.source(SOURCE);
static FAMILIES: [&Family; 4] = [&MTIME, &ERROR, &STALE, &REFUSED];

/// Names that speak of the agent alone: of any other program they would be wrong on its page.
const OWN_PREFIXES: [&str; 3] = ["node_telemetry_", "node_textfile_", "process_"];

/// What tells one state of a file from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Print {
    inode: u64,
    size: u64,
    changed: Duration,
}

/// What keeps a file from being passed on; never what stands in it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
enum Ailment {
    #[error(transparent)]
    Trouble(#[from] Trouble),
    #[error("{path:?}, {malformed}")]
    Malformed { path: PathBuf, malformed: Malformed },
    #[error("{path:?} has been half written for {} seconds", HOLD.as_secs())]
    HalfWritten { path: PathBuf },
    #[error(
        "{path:?} is left out: with those before it it has more than {MAX_ALL} bytes or {MAX_ALL_SERIES} series"
    )]
    Crowded { path: PathBuf },
}

impl Ailment {
    /// What stays the same while a file is broken in the same way.
    fn reason(&self) -> &'static str {
        match self {
            Self::Trouble(trouble) => trouble.reason(),
            Self::Malformed { malformed, .. } => malformed.what,
            Self::HalfWritten { .. } => "half written",
            Self::Crowded { .. } => "crowded out",
        }
    }
}

/// What a file takes, or what is left for those after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Room {
    bytes: u64,
    series: usize,
}

impl Room {
    const ALL: Self = Self { bytes: MAX_ALL, series: MAX_ALL_SERIES };

    fn has(self, taken: Self) -> bool {
        taken.bytes <= self.bytes && taken.series <= self.series
    }

    fn less(self, taken: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(taken.bytes),
            series: self.series.saturating_sub(taken.series),
        }
    }
}

struct File {
    name: String,
    /// The state that was read last, well or broken; it is not read twice.
    seen: Option<Print>,
    /// The state that was last understood.
    good: Option<Print>,
    /// When the file last stood as it was understood, or else when it was found.
    good_at: Duration,
    exposition: Packed,
    /// What that takes; if there is no room for it, what it would take.
    takes: Room,
    ailment: Option<Ailment>,
    /// What the log said last about it.
    told: Option<&'static str>,
    crowded: bool,
    stale: bool,
}

/// The collector.
pub struct Textfile {
    directory: Option<PathBuf>,
    max_age: Option<Duration>,
    files: Vec<File>,
    /// Files past the limit.
    unseen: usize,
    /// Families of all files by name: which file's, and which of them.
    merged: Vec<(usize, usize)>,
    timestamped: usize,
}

impl Textfile {
    /// Files in `directory`, none older than `max_age`.
    pub fn new(directory: Option<PathBuf>, max_age: Option<Duration>) -> Self {
        Self { directory, max_age, files: Vec::new(), unseen: 0, merged: Vec::new(), timestamped: 0 }
    }

    fn sweep(&mut self, directory: &Path, now: Moment) -> Result<bool, Trouble> {
        let mut names = host::names_in(directory)?;
        names.retain(|name| name.to_ascii_lowercase().ends_with(".prom") && !name.starts_with('.'));
        let unseen = names.len().saturating_sub(MAX_FILES);
        if (unseen > 0) != (self.unseen > 0) {
            tracing::warn!(unseen, limit = MAX_FILES, "text files past the limit are not read");
        }
        self.unseen = unseen;
        names.truncate(MAX_FILES);
        let before = self.files.len();
        self.files.retain(|file| names.contains(&file.name));
        let mut changed = self.files.len() != before;
        let mut room = Room::ALL;
        for name in names {
            let at = self.files.iter().position(|file| file.name == name).unwrap_or_else(|| {
                self.files.push(File::found(name.clone(), now));
                // The others may stand elsewhere now.
                changed = true;
                self.files.len() - 1
            });
            changed |= self.files[at].refresh(&directory.join(&name), &mut room, self.max_age, now);
        }
        self.files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(changed)
    }

    /// Puts all files together; of two files with one family the first says what it is.
    fn merge(&mut self) {
        self.timestamped = self.files.iter().map(|file| file.exposition.timestamped).sum();
        let files = &self.files;
        let families = |(at, file): (usize, &File)| (0..file.exposition.families()).map(move |n| (at, n));
        self.merged.clear();
        self.merged.extend(files.iter().enumerate().flat_map(families));
        self.merged.sort_unstable_by_key(|&(at, n)| (files[at].exposition.family(n).name, at));
    }

    fn families(&self) -> usize {
        let name = |&(at, n): &(usize, usize)| self.files[at].exposition.family(n).name;
        self.merged.chunk_by(|a, b| name(a) == name(b)).count()
    }

    fn path_of(&self, file: &File) -> PathBuf {
        self.directory.as_deref().unwrap_or(Path::new("")).join(&file.name)
    }

    /// What is wrong with a file now.
    fn ailment(&self, file: &File) -> Option<Ailment> {
        let crowded = || file.crowded.then(|| Ailment::Crowded { path: self.path_of(file) });
        file.ailment.clone().or_else(crowded)
    }

    /// One line when a file's ailment changes or is over, none while it stays as it is.
    fn tell(&mut self) {
        for at in 0..self.files.len() {
            let ailment = self.ailment(&self.files[at]);
            let file = &mut self.files[at];
            let reason = ailment.as_ref().map(Ailment::reason);
            match &ailment {
                _ if reason == file.told => {}
                Some(ailment) => {
                    tracing::warn!(file = ?file.name, detail = %ailment, "text file cannot be used");
                }
                None => tracing::info!(file = ?file.name, "text file is well again"),
            }
            file.told = reason;
        }
    }

    /// Writes the files' families and returns how many series had to be left out.
    fn write_foreign(&self, page: &mut Page) -> usize {
        let mut refused = self.timestamped;
        let family = |&(at, n): &(usize, usize)| self.files[at].exposition.family(n);
        for parts in self.merged.chunk_by(|a, b| family(a).name == family(b).name) {
            let Head { name, help, kind: word } = family(&parts[0]);
            let samples = || parts.iter().flat_map(|&(at, n)| self.files[at].exposition.samples(n));
            let kind = if word == "counter" { Kind::Counter } else { Kind::Untyped };
            let own = OWN_PREFIXES.iter().any(|own| name.starts_with(own));
            // Without room there is no header either, nor is the name remembered.
            if own || page.is_full() || !page.claim(name.as_bytes(), kind) {
                let series = samples().count();
                refused += series;
                if !own && page.is_full() {
                    page.leave_out(series);
                }
                continue;
            }
            let (header_name, word) = match page.format() {
                Format::Text => (name, if word.is_empty() { "untyped" } else { word }),
                // OpenMetrics has no untyped, and counters end in `_total`, which their family does not.
                Format::OpenMetrics => match (name.strip_suffix("_total"), word) {
                    (Some(stem), "counter") => (stem, "counter"),
                    (None, "counter") | (_, "" | "untyped") => (name, "unknown"),
                    (_, word) => (name, word),
                },
            };
            let help = if help.is_empty() { "From a text file." } else { help };
            page.foreign_header(header_name.as_bytes(), help.as_bytes(), word.as_bytes());
            for (series, value) in samples() {
                refused += usize::from(!page.foreign(series.as_bytes(), value.as_bytes()));
            }
        }
        refused
    }
}

impl File {
    fn found(name: String, now: Moment) -> Self {
        Self {
            name,
            seen: None,
            good: None,
            good_at: now.up,
            exposition: Packed::default(),
            takes: Room::default(),
            ailment: None,
            told: None,
            crowded: false,
            stale: false,
        }
    }

    /// Reads the file if it changed; true if what is passed on of it is different now.
    fn refresh(&mut self, path: &Path, room: &mut Room, max_age: Option<Duration>, now: Moment) -> bool {
        let held = now.up.saturating_sub(self.good_at) <= HOLD;
        let mut changed = false;
        match print(path).map_err(Ailment::from) {
            Ok(print) if self.seen == Some(print) && !(self.crowded && room.has(self.takes)) => {}
            Ok(print) => match read(path, print, *room, now.wall.saturating_sub(print.changed)) {
                Ok(Reading::Whole(exposition, takes)) => {
                    (self.exposition, self.takes, self.crowded) = (exposition, takes, false);
                    (self.seen, self.good, self.ailment) = (Some(print), Some(print), None);
                    changed = true;
                }
                Ok(Reading::Crowded(takes)) => {
                    (self.takes, self.crowded) = (takes, true);
                    (self.seen, self.ailment) = (Some(print), None);
                    changed |= self.forget();
                }
                Ok(Reading::Underway) => {
                    self.seen = None;
                    if !held && self.ailment.is_none() {
                        self.ailment = Some(Ailment::HalfWritten { path: path.to_owned() });
                    }
                }
                Err(ailment) => (self.seen, self.ailment) = (Some(print), Some(ailment)),
            },
            Err(ailment) => (self.seen, self.ailment) = (None, Some(ailment)),
        }
        if self.seen.is_some() && self.seen == self.good {
            self.good_at = now.up;
        } else if !held {
            changed |= self.forget();
        }
        // The age is that of what is passed on: a file that is only ever broken anew grows old all the same.
        let age = self.good.map_or(Duration::ZERO, |good| now.wall.saturating_sub(good.changed));
        let was_stale = std::mem::replace(&mut self.stale, max_age.is_some_and(|max| age > max));
        if was_stale && !self.stale && !changed {
            // A clock that was set back.
            self.seen = None;
        } else if self.stale {
            changed |= self.forget();
        }
        if !self.exposition.is_empty() {
            if room.has(self.takes) {
                *room = room.less(self.takes);
            } else {
                self.crowded = true;
                changed |= self.forget();
            }
        }
        changed || was_stale != self.stale
    }

    /// Lets go of what the file said; true if that was something.
    fn forget(&mut self) -> bool {
        std::mem::take(&mut self.exposition) != Packed::default()
    }
}

enum Reading {
    Whole(Packed, Room),
    Crowded(Room),
    Underway,
}

fn print(path: &Path) -> Result<Print, Trouble> {
    let metadata = path.metadata().map_err(|error| Trouble::from_io(path, &error))?;
    if !metadata.is_file() {
        return Err(Trouble::NotAFile { path: path.to_owned() });
    }
    let seconds = Duration::from_secs(u64::try_from(metadata.mtime()).unwrap_or(0));
    let nanos = Duration::from_nanos(u64::try_from(metadata.mtime_nsec()).unwrap_or(0));
    Ok(Print { inode: metadata.ino(), size: metadata.size(), changed: seconds + nanos })
}

fn read(path: &Path, before: Print, room: Room, age: Duration) -> Result<Reading, Ailment> {
    let too_large =
        Trouble::TooLarge { path: path.to_owned(), limit: usize::try_from(MAX_FILE).unwrap_or(usize::MAX) };
    if before.size > MAX_FILE {
        return Err(too_large.into());
    }
    let mut takes = Room { bytes: before.size, series: 0 };
    if !room.has(takes) {
        return Ok(Reading::Crowded(takes));
    }
    let file = host::open_plain(path)?;
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| Trouble::from_io(path, &error))?;
    let unfinished = text.is_empty() || !text.ends_with(b"\n");
    if print(path).ok() != Some(before) || (unfinished && age < SETTLE) {
        return Ok(Reading::Underway);
    }
    let malformed = |malformed| Ailment::Malformed { path: path.to_owned(), malformed };
    takes.series = exposition::series_in(&text);
    if !room.has(takes) {
        return Ok(Reading::Crowded(takes));
    }
    Ok(Reading::Whole(exposition::pack(&text).map_err(malformed)?, takes))
}

impl Collector for Textfile {
    fn source(&self) -> &'static str {
        "textfile"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, now: Moment, _buffer: &mut Buffer) -> Result<(), Trouble> {
        let Some(directory) = self.directory.clone() else { return Ok(()) };
        if self.sweep(&directory, now)? {
            self.merge();
        }
        self.tell();
        Ok(())
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        if self.directory.is_none() {
            return;
        }
        page.family(&MTIME);
        for file in &self.files {
            if let Some(good) = file.good {
                let millis = u64::try_from(good.changed.as_millis()).unwrap_or(u64::MAX);
                let path = self.path_of(file);
                page.sample(&[("file", path.as_os_str().as_bytes())], Value::Fixed(millis, 3));
            }
        }
        page.family(&STALE);
        for file in self.files.iter().filter(|file| file.stale) {
            page.sample(&[("file", self.path_of(file).as_os_str().as_bytes())], Value::Count(1));
        }
        let refused = self.write_foreign(page);
        page.family(&ERROR);
        let ails = |file: &File| file.ailment.is_some() || file.crowded;
        let failed = refused > 0 || self.unseen > 0 || self.files.iter().any(ails);
        page.sample(&[], Value::Count(u64::from(failed)));
        page.family(&REFUSED);
        page.sample(&[], Value::Count(refused as u64));
    }

    fn write_down(&self, _trouble: &Trouble, page: &mut Page) {
        page.family(&ERROR);
        page.sample(&[], Value::Count(1));
    }

    fn found(&self) -> String {
        if self.directory.is_none() {
            return "no directory given; see --textfile-directory".to_owned();
        }
        let mut found = format!("{} files, {} families", self.files.len(), self.families());
        for ailment in self.files.iter().filter_map(|file| self.ailment(file)) {
            let _ = write!(found, "; {ailment}");
        }
        if self.unseen > 0 {
            let _ = write!(found, "; {} files past the limit of {MAX_FILES} are not read", self.unseen);
        }
        if self.timestamped > 0 {
            let _ = write!(found, "; {} lines refused for their timestamps", self.timestamped);
        }
        found
    }
}
