//! Where policies come from: files, directories, standard input; what could not be read, and why.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use api::manifest::{self, Limits, Place, ReadError};
use api::{Defaults, Inspected};

use super::human::counted;

/// How far a directory is searched.
const REACH: Reach = Reach { files: 10_000, depth: 32 };

/// How many files a search takes, and how deep it goes.
#[derive(Clone, Copy, Debug)]
struct Reach {
    files: usize,
    depth: usize,
}

/// One file or standard input, and what was found there.
#[derive(Debug, Default)]
pub(super) struct Source {
    /// As the user would write it.
    pub(super) name: String,
    /// For excerpts.
    pub(super) text: String,
    pub(super) policies: Vec<Inspected>,
    /// How many other objects there are.
    pub(super) skipped: usize,
    pub(super) unreadable: Vec<Unreadable>,
}

/// Something that could not be read.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// Stable, for machines.
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) place: Option<Place>,
}

impl Unreadable {
    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), place: None }
    }

    fn of(error: &ReadError) -> Self {
        let code = match error {
            ReadError::TooLarge { .. } => "too-large",
            ReadError::Utf16 => "utf-16",
            ReadError::Binary { .. } => "binary",
            ReadError::NotUtf8 { .. } => "not-utf-8",
            ReadError::Syntax { .. } => "not-yaml",
            ReadError::Limit { .. } => "limit",
        };
        Self { code, message: error.to_string(), place: error.place() }
    }
}

impl Source {
    /// A source that gave nothing but a reason.
    pub(super) fn unreadable(name: String, why: Unreadable) -> Self {
        Self { name, unreadable: vec![why], ..Self::default() }
    }

    /// Whether somebody forgot to render a template.
    pub(super) fn looks_like_a_template(&self) -> bool {
        self.text.contains("{{")
    }
}

/// Reads everything that the user named.
pub(super) fn all(paths: &[String], defaults: &Defaults) -> Vec<Source> {
    let limits = Limits::default();
    let mut sources = Vec::new();
    for path in paths {
        if path == "-" {
            sources.push(read("standard input".to_owned(), io::stdin().lock(), &limits, defaults));
        } else if Path::new(path).is_dir() {
            directory(path, &limits, defaults, &mut sources);
        } else {
            sources.push(file(path.clone(), Path::new(path), &limits, defaults));
        }
    }
    sources
}

/// What to say where everything could be read and nothing was a policy.
pub(super) fn without_policies(name: String, sources: &[Source]) -> Source {
    let skipped = sources.iter().map(|source| source.skipped).sum();
    let why = if sources.iter().all(|source| source.text.trim().is_empty()) {
        Unreadable::new("empty", "it is empty; a policy begins with apiVersion: telemetry.intel.com/v1alpha1")
    } else {
        let objects = counted(skipped, "other object", "other objects");
        let files = counted(sources.len(), "file", "files");
        Unreadable::new(
            "no-policies",
            format!("no TASPolicy here ({objects} in {files}); name the file that holds it"),
        )
    };
    Source { skipped, ..Source::unreadable(name, why) }
}

/// Adds what policies of all sources do to each other.
pub(super) fn compare(sources: &mut [Source]) {
    let all = || sources.iter().flat_map(|source| &source.policies).filter_map(|found| found.policy.as_ref());
    let conflicts = api::conflicts(&all().collect::<Vec<_>>());
    let mut usable: Vec<&mut Inspected> = sources
        .iter_mut()
        .flat_map(|source| &mut source.policies)
        .filter(|found| found.policy.is_some())
        .collect();
    for (index, problem) in conflicts {
        let found = &mut *usable[index];
        found.problems.insert(0, (found.place, problem));
    }
}

fn directory(path: &str, limits: &Limits, defaults: &Defaults, sources: &mut Vec<Source>) {
    let mut found = Found { reach: REACH, files: Vec::new(), problems: Vec::new() };
    found.search(Path::new(path), 0);
    if found.files.is_empty() && found.problems.is_empty() {
        let why = Unreadable::new(
            "no-files",
            "no *.yaml, *.yml or *.json in this directory; name the files themselves",
        );
        sources.push(Source::unreadable(path.to_owned(), why));
    }
    for (path, why) in found.problems {
        sources.push(Source::unreadable(path.display().to_string(), why));
    }
    found.files.sort();
    for path in found.files {
        sources.push(file(path.display().to_string(), &path, limits, defaults));
    }
}

/// What a search has come upon.
struct Found {
    reach: Reach,
    files: Vec<PathBuf>,
    problems: Vec<(PathBuf, Unreadable)>,
}

impl Found {
    fn search(&mut self, directory: &Path, depth: usize) {
        let entries = match fs::read_dir(directory).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
            Ok(entries) => entries,
            Err(error) => return self.problems.push((directory.to_owned(), refused(&error))),
        };
        for entry in entries {
            let (path, name) = (entry.path(), entry.file_name());
            // Not followed: a link to a directory may lead back here.
            let Ok(kind) = entry.file_type() else { continue };
            let hidden = name.to_string_lossy().starts_with('.');
            if kind.is_dir() && !hidden {
                if depth < self.reach.depth {
                    self.search(&path, depth + 1);
                } else {
                    let why = format!(
                        "directories are searched {} deep, and this one is deeper; name it itself",
                        self.reach.depth
                    );
                    self.problems.push((path, Unreadable::new("limit", why)));
                }
            } else if is_manifest(&path) && path.is_file() {
                if self.files.len() < self.reach.files {
                    self.files.push(path);
                } else {
                    let why = format!(
                        "there are more than {} files here; name fewer directories",
                        self.reach.files
                    );
                    return self.problems.push((directory.to_owned(), Unreadable::new("limit", why)));
                }
            }
        }
    }
}

fn is_manifest(path: &Path) -> bool {
    path.extension().is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
}

fn file(name: String, path: &Path, limits: &Limits, defaults: &Defaults) -> Source {
    match File::open(path) {
        Ok(file) => read(name, file, limits, defaults),
        Err(error) => Source::unreadable(name, refused(&error)),
    }
}

fn refused(error: &io::Error) -> Unreadable {
    match error.kind() {
        io::ErrorKind::NotFound => Unreadable::new("missing", "there is no such file or directory"),
        io::ErrorKind::PermissionDenied => {
            Unreadable::new("not-permitted", "you are not permitted to read it")
        }
        _ => Unreadable::new("io", format!("it cannot be read: {error}")),
    }
}

/// Reads one source, never more of it than a file may hold.
fn read(name: String, from: impl Read, limits: &Limits, defaults: &Defaults) -> Source {
    let mut bytes = Vec::new();
    let most = u64::try_from(limits.bytes).unwrap_or(u64::MAX).saturating_add(1);
    if let Err(error) = from.take(most).read_to_end(&mut bytes) {
        return Source::unreadable(name, refused(&error));
    }
    let reading = manifest::read(&bytes, limits);
    let text = manifest::text(&bytes, limits).unwrap_or_default().to_owned();
    let mut source = Source { name, text, ..Source::default() };
    source.unreadable.extend(reading.errors.iter().map(Unreadable::of));
    for document in &reading.documents {
        let inspection = api::inspect(document, defaults);
        source.policies.extend(inspection.policies);
        source.skipped += inspection.others;
    }
    source
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::path::Path;

    use super::{Found, Reach, refused};

    /// A search of the directory where the policies for tests are.
    fn searched(reach: Reach) -> (usize, Vec<String>) {
        let mut found = Found { reach, files: Vec::new(), problems: Vec::new() };
        found.search(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../api/fixtures/..")), 0);
        (found.files.len(), found.problems.into_iter().map(|(_, why)| why.message).collect())
    }

    #[test]
    fn a_search_ends_at_its_limits_and_says_so() {
        let (files, problems) = searched(Reach { files: 10_000, depth: 32 });
        assert!(files > 50);
        assert_eq!(problems, Vec::<String>::new());
        let (files, problems) = searched(Reach { files: 3, depth: 32 });
        assert_eq!(files, 3);
        assert_eq!(problems[0], "there are more than 3 files here; name fewer directories");
        let (files, problems) = searched(Reach { files: 10_000, depth: 0 });
        assert_eq!(files, 0);
        assert_eq!(problems[0], "directories are searched 0 deep, and this one is deeper; name it itself");
    }

    #[test]
    fn the_system_says_no_in_plain_words() {
        let code = |kind| refused(&Error::from(kind)).code;
        assert_eq!(code(ErrorKind::NotFound), "missing");
        assert_eq!(code(ErrorKind::PermissionDenied), "not-permitted");
        assert_eq!(code(ErrorKind::IsADirectory), "io");
    }
}
