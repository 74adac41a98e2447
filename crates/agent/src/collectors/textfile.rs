//! Metrics other programs leave in `*.prom` files, such as the health demo's `node_health_metric`.
//!
//! A file is read when it changes. While it is being written, or if it is broken, what it said before stays.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::collectors::Collector;
use crate::exposition::{self, Exposition, Foreign};
use crate::family::{Family, Kind, NameSet};
use crate::host::{self, Buffer};
use crate::moment::Moment;
use crate::page::{Format, Page, Value};
use crate::trouble::Trouble;

/// Bytes of one file.
pub const MAX_FILE: u64 = 1024 * 1024;
/// Bytes of all files.
pub const MAX_ALL: u64 = 4 * 1024 * 1024;
/// Files in the directory.
pub const MAX_FILES: usize = 64;
/// A file without a line end is taken as half written for this long after it was touched.
const SETTLE: Duration = Duration::from_secs(5);
const SOURCE: &str = "<textfile directory>/*.prom";

static MTIME: Family =
    Family::gauge(NameSet::Node, "node_textfile_mtime_seconds", "seconds", "When the file was last changed.")
        .labels("file")
        .source(SOURCE)
        .peers("node_exporter textfile");
static ERROR: Family = Family::gauge(
    NameSet::Node,
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

/// Names the agent keeps for itself.
const OWN_PREFIX: &str = "node_telemetry_";

/// What tells one state of a file from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Print {
    inode: u64,
    size: u64,
    changed: Duration,
}

struct File {
    name: String,
    print: Option<Print>,
    exposition: Exposition,
    trouble: Option<String>,
    stale: bool,
}

/// The collector.
pub struct Textfile {
    directory: Option<PathBuf>,
    max_age: Option<Duration>,
    files: Vec<File>,
    merged: BTreeMap<String, Foreign>,
    timestamped: usize,
}

impl Textfile {
    /// Files in `directory`, none older than `max_age`.
    pub fn new(directory: Option<PathBuf>, max_age: Option<Duration>) -> Self {
        Self { directory, max_age, files: Vec::new(), merged: BTreeMap::new(), timestamped: 0 }
    }

    fn sweep(&mut self, directory: &Path, now: Moment) -> Result<bool, Trouble> {
        let mut names = host::names_in(directory)?;
        names.retain(|name| name.to_ascii_lowercase().ends_with(".prom") && !name.starts_with('.'));
        names.truncate(MAX_FILES);
        let before = self.files.len();
        self.files.retain(|file| names.contains(&file.name));
        let mut changed = self.files.len() != before;
        for name in names {
            let at = self.files.iter().position(|file| file.name == name).unwrap_or_else(|| {
                let fresh = File {
                    name: name.clone(),
                    print: None,
                    exposition: Exposition::default(),
                    trouble: None,
                    stale: false,
                };
                self.files.push(fresh);
                self.files.len() - 1
            });
            changed |= self.files[at].refresh(&directory.join(&name), self.max_age, now);
        }
        self.files.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(changed)
    }

    /// Puts all files together; of two files with one family the first says what it is.
    fn merge(&mut self) {
        self.merged.clear();
        self.timestamped = 0;
        let mut bytes = 0;
        for file in &mut self.files {
            if file.stale {
                continue;
            }
            self.timestamped += file.exposition.timestamped;
            if file.exposition.families.is_empty() {
                continue;
            }
            bytes += file.print.map_or(0, |print| print.size.min(MAX_FILE));
            if bytes > MAX_ALL {
                file.trouble = Some(format!("files before it hold {MAX_ALL} bytes already"));
                continue;
            }
            for (name, family) in &file.exposition.families {
                let all = self.merged.entry(name.clone()).or_insert_with(|| Foreign {
                    help: family.help.clone(),
                    kind: family.kind.clone(),
                    samples: Vec::new(),
                });
                all.samples.extend(family.samples.iter().cloned());
            }
        }
    }

    fn path_of(&self, file: &File) -> String {
        self.directory.as_deref().unwrap_or(Path::new("")).join(&file.name).to_string_lossy().into_owned()
    }

    /// Writes the files' families and returns how many series had to be left out.
    fn write_foreign(&self, page: &mut Page) -> usize {
        let mut refused = self.timestamped;
        for (name, family) in &self.merged {
            let counts = family.kind == "counter";
            let kind = if counts { Kind::Counter } else { Kind::Untyped };
            if name.starts_with(OWN_PREFIX) || !page.claim(name.as_bytes(), kind) {
                refused += family.samples.len();
                continue;
            }
            let (header_name, word) = match page.format() {
                Format::Text => {
                    (name.as_str(), if family.kind.is_empty() { "untyped" } else { family.kind.as_str() })
                }
                // OpenMetrics has no untyped, and counters end in `_total`, which their family does not.
                Format::OpenMetrics => match (name.strip_suffix("_total"), family.kind.as_str()) {
                    (Some(stem), "counter") => (stem, "counter"),
                    (None, "counter") | (_, "" | "untyped") => (name.as_str(), "unknown"),
                    (_, kind) => (name.as_str(), kind),
                },
            };
            let help = if family.help.is_empty() { "From a text file." } else { family.help.as_str() };
            page.foreign_header(header_name.as_bytes(), help.as_bytes(), word.as_bytes());
            for (series, value) in &family.samples {
                refused += usize::from(!page.foreign(series.as_bytes(), value.as_bytes()));
            }
        }
        refused
    }
}

impl File {
    /// Reads the file if it changed; true if what it says is different now.
    fn refresh(&mut self, path: &Path, max_age: Option<Duration>, now: Moment) -> bool {
        let print = match print(path) {
            Ok(print) => print,
            Err(trouble) => {
                self.trouble = Some(trouble.to_string());
                return false;
            }
        };
        let age = now.wall.saturating_sub(print.changed);
        let was_stale = std::mem::replace(&mut self.stale, max_age.is_some_and(|max| age > max));
        let mut changed = was_stale != self.stale;
        if self.print == Some(print) {
            return changed;
        }
        match read(path, print, age) {
            Ok(Reading::Whole(exposition)) => {
                self.exposition = exposition;
                (self.print, self.trouble) = (Some(print), None);
                changed = true;
            }
            Ok(Reading::Underway) => {}
            Err(what) => (self.print, self.trouble) = (Some(print), Some(what)),
        }
        changed
    }
}

enum Reading {
    Whole(Exposition),
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

fn read(path: &Path, before: Print, age: Duration) -> Result<Reading, String> {
    if before.size > MAX_FILE {
        return Err(format!("{} is longer than {MAX_FILE} bytes", path.display()));
    }
    let file = host::open_plain(path).map_err(|trouble| trouble.to_string())?;
    let mut text = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut text).map_err(|error| format!("{}: {error}", path.display()))?;
    let unfinished = text.is_empty() || !text.ends_with(b"\n");
    if print(path).ok() != Some(before) || (unfinished && age < SETTLE) {
        return Ok(Reading::Underway);
    }
    let exposition =
        exposition::parse(&text).map_err(|malformed| format!("{}, {malformed}", path.display()))?;
    Ok(Reading::Whole(exposition))
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
        Ok(())
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        if self.directory.is_none() {
            return;
        }
        page.family(&MTIME);
        for file in &self.files {
            if let Some(print) = file.print {
                let millis = u64::try_from(print.changed.as_millis()).unwrap_or(u64::MAX);
                page.sample(&[("file", self.path_of(file).as_bytes())], Value::Fixed(millis, 3));
            }
        }
        page.family(&STALE);
        for file in self.files.iter().filter(|file| file.stale) {
            page.sample(&[("file", self.path_of(file).as_bytes())], Value::Count(1));
        }
        let refused = self.write_foreign(page);
        page.family(&ERROR);
        let failed = refused > 0 || self.files.iter().any(|file| file.trouble.is_some());
        page.sample(&[], Value::Count(u64::from(failed)));
        page.family(&REFUSED);
        page.sample(&[], Value::Count(refused as u64));
    }

    fn found(&self) -> String {
        if self.directory.is_none() {
            return "no directory given; see --textfile-directory".to_owned();
        }
        let mut found = format!("{} files, {} families", self.files.len(), self.merged.len());
        for trouble in self.files.iter().filter_map(|file| file.trouble.as_deref()) {
            let _ = write!(found, "; {trouble}");
        }
        if self.timestamped > 0 {
            let _ = write!(found, "; {} lines refused for their timestamps", self.timestamped);
        }
        found
    }
}
