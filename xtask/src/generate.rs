//! `cargo xtask gen`: the files in this repository that a program of ours writes, and the comparison that keeps them true.
//! A new one is a new line in `OUTPUTS`.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::process::{cargo, gather};
use crate::terminal::say;
use crate::workspace::Workspace;

/// A committed file, or a part of one, and the cargo example that prints it.
#[derive(Clone, Copy, Debug)]
struct Output {
    path: &'static str,
    /// The name of the part between `<!-- generated: NAME -->` and `<!-- end of NAME -->`; without it, the whole file.
    part: Option<&'static str>,
    package: &'static str,
    example: &'static str,
}

/// Every generated file: its path, and the package and example whose standard output it is. The names of examples must
/// differ between packages, because all are built at once.
const OUTPUTS: &[Output] = &[
    Output {
        path: "deploy/crds/telemetry.intel.com_taspolicies.yaml",
        part: None,
        package: "tas-api",
        example: "crd",
    },
    Output { path: "docs/demo.svg", part: None, package: "tas-cli", example: "picture" },
    Output { path: "docs/agent.md", part: Some("flags"), package: "tas-agent", example: "agent_flags" },
    Output { path: "docs/metrics-agent.md", part: None, package: "tas-agent", example: "metrics_reference" },
    Output { path: "docs/reference/cli.md", part: None, package: "tas-cli", example: "reference" },
    Output { path: "deploy/rbac/tas-serve.yaml", part: None, package: "tas-cluster", example: "rbac" },
    Output { path: "docs/metrics-serve.md", part: None, package: "tas-server", example: "serve_metrics" },
    Output { path: "README.md", part: Some("scheduler"), package: "tas-api", example: "scheduler" },
];

/// What to do with what the producers print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Write,
    Compare,
}

/// Brings every generated file up to date, or compares it; the error lists all that is wrong.
pub(crate) fn run(workspace: &Workspace, mode: Mode) -> Result<(), String> {
    generate(&workspace.root, OUTPUTS, mode)
}

fn generate(root: &Path, outputs: &[Output], mode: Mode) -> Result<(), String> {
    if outputs.is_empty() && mode == Mode::Write {
        say("no file is generated yet; the table is in xtask/src/generate.rs");
    }
    let producers = build(root, outputs)?;
    let mut wrong = Vec::new();
    for (output, producer) in outputs.iter().zip(producers) {
        let fresh = produce(root, &producer).and_then(|printed| match output.part {
            None => Ok(printed),
            Some(part) => put(root, output.path, part, &printed),
        });
        let done = fresh.and_then(|fresh| match mode {
            Mode::Write => write(root, output.path, &fresh)
                .map(|written| say(format_args!("{} … {written}", output.path))),
            Mode::Compare => compare(root, output.path, &fresh),
        });
        wrong.extend(done.err().map(|problem| format!("{}: {problem}", output.path)));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

/// Builds all producers in one go and says where each is, in the order of `outputs`.
fn build(root: &Path, outputs: &[Output]) -> Result<Vec<PathBuf>, String> {
    if outputs.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = cargo(root);
    command.args(["build", "--message-format", "json-render-diagnostics"]);
    for output in outputs {
        command.args(["--package", output.package, "--example", output.example]);
    }
    let examples = examples(&gather(&mut command, None)?);
    let find = |output: &Output| {
        let found = examples
            .iter()
            .find(|(package, example, _)| package == output.package && example == output.example);
        found.map(|(_, _, program)| program.clone()).ok_or_else(|| {
            format!("{} has no example {:?} that prints {}", output.package, output.example, output.path)
        })
    };
    outputs.iter().map(find).collect()
}

/// Package, name and program of each example in cargo's messages.
fn examples(messages: &[String]) -> Vec<(String, String, PathBuf)> {
    let example = |line: &String| {
        let message: Value = serde_json::from_str(line).ok()?;
        let target = &message["target"];
        let is_example = target["kind"].as_array()?.iter().any(|kind| kind == "example");
        let program = message["executable"].as_str().filter(|_| is_example)?;
        Some((
            package_of(message["package_id"].as_str()?).to_owned(),
            target["name"].as_str()?.to_owned(),
            program.into(),
        ))
    };
    messages.iter().filter_map(example).collect()
}

/// The package in an identifier like `path+file:///src/tas/crates/api#tas-api@0.1.0`; where the directory has the same
/// name as the package, cargo leaves it out behind the `#`.
fn package_of(id: &str) -> &str {
    let (place, name) = id.rsplit_once('#').unwrap_or((id, id));
    match name.split_once('@') {
        Some((package, _)) => package,
        None => place.rsplit('/').next().unwrap_or(place),
    }
}

fn produce(root: &Path, producer: &Path) -> Result<Vec<u8>, String> {
    let printed = Command::new(producer)
        .current_dir(root)
        .stdin(Stdio::null())
        .output()
        .map_err(|problem| format!("`{}` could not be run: {problem}", producer.display()))?;
    if !printed.status.success() {
        let words = String::from_utf8_lossy(&printed.stderr);
        return Err(format!("`{}` failed ({}):\n{words}", producer.display(), printed.status));
    }
    if printed.stdout.is_empty() {
        return Err(format!("`{}` printed nothing", producer.display()));
    }
    Ok(printed.stdout)
}

/// The committed file with the named part replaced by what was printed.
fn put(root: &Path, path: &str, part: &str, printed: &[u8]) -> Result<Vec<u8>, String> {
    let file = committed(&root.join(path))?.unwrap_or_default();
    let file = String::from_utf8(file).map_err(|_| "is not text".to_owned())?;
    let (begin, end) = (format!("<!-- generated: {part} -->\n"), format!("<!-- end of {part} -->"));
    let marked = file.split_once(&begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(&end)?;
        Some((before, after))
    });
    let Some((before, after)) = marked else {
        return Err(format!(
            "has no place for {part}; it begins with {:?} and ends with {end:?}",
            begin.trim()
        ));
    };
    let printed = String::from_utf8_lossy(printed);
    Ok(format!("{before}{begin}{printed}{end}{after}").into_bytes())
}

fn committed(path: &Path) -> Result<Option<Vec<u8>>, String> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(problem) => Err(format!("cannot be read: {problem}")),
    }
}

/// Writes the file if it differs, and says which it was.
fn write(root: &Path, path: &str, fresh: &[u8]) -> Result<&'static str, String> {
    let place = root.join(path);
    if committed(&place)?.as_deref() == Some(fresh) {
        return Ok("unchanged");
    }
    let folder = place.parent().unwrap_or(root);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&place, fresh))
        .map_err(|problem| format!("cannot be written: {problem}"))?;
    Ok("written")
}

fn compare(root: &Path, path: &str, fresh: &[u8]) -> Result<(), String> {
    let way_out = "run `cargo xtask gen` and commit the result";
    match committed(&root.join(path))? {
        None => Err(format!("does not exist; {way_out}")),
        Some(committed) => match difference(&committed, fresh) {
            None => Ok(()),
            Some(difference) => Err(format!("is not what its program prints; {way_out}\n{difference}")),
        },
    }
}

/// The first lines in which two texts differ.
#[derive(Debug, PartialEq, Eq)]
struct Difference {
    /// Counted from one.
    line: usize,
    committed: Vec<String>,
    generated: Vec<String>,
}

/// As many lines of each side as a person needs to recognise the change.
const SHOWN: usize = 4;

fn difference(committed: &[u8], generated: &[u8]) -> Option<Difference> {
    if committed == generated {
        return None;
    }
    let lines = |bytes: &[u8]| -> Vec<String> {
        bytes
            .split_inclusive(|byte| *byte == b'\n')
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect()
    };
    let (committed, generated) = (lines(committed), lines(generated));
    let same = committed.iter().zip(&generated).take_while(|(one, other)| one == other).count();
    let shown = |lines: &[String]| lines[same..].iter().take(SHOWN).cloned().collect();
    Some(Difference { line: same + 1, committed: shown(&committed), generated: shown(&generated) })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  first difference in line {}:", self.line)?;
        // Escaped, so that a blank, a tab or a line end that differs can be seen.
        let sides = [("committed", &self.committed), ("generated", &self.generated)];
        for (side, lines) in sides {
            if lines.is_empty() {
                write!(f, "\n  {side}  (ends here)")?;
            }
            for line in lines {
                write!(f, "\n  {side}  {}", line.escape_debug())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(difference(b"a\nb\n", b"a\nb\n"), None);
    }

    #[test]
    fn the_first_differing_lines_are_shown() {
        let found = difference(b"a\nb\nc\n", b"a\nB\nc\nd\ne\nf\n");
        let expected = Difference {
            line: 2,
            committed: text(&["b\n", "c\n"]),
            generated: text(&["B\n", "c\n", "d\n", "e\n"]),
        };
        assert_eq!(found, Some(expected));
    }

    #[test]
    fn a_missing_line_end_and_a_shorter_file_can_be_seen() {
        let shown = |committed: &[u8], generated: &[u8]| {
            difference(committed, generated).map(|difference| difference.to_string()).unwrap_or_default()
        };
        assert_eq!(
            shown(b"a\nb", b"a\nb\n"),
            "  first difference in line 2:\n  committed  b\n  generated  b\\n"
        );
        assert_eq!(
            shown(b"a\n", b"a\nb\n"),
            "  first difference in line 2:\n  committed  (ends here)\n  generated  b\\n"
        );
    }

    #[test]
    fn programs_are_found_in_the_messages_of_cargo() {
        let messages = text(&[
            "   Compiling tas-api v0.1.0 (/src/tas/crates/api)",
            r#"{"reason":"compiler-artifact","package_id":"path+file:///src/tas/crates/api#tas-api@0.1.0","target":{"kind":["lib"],"name":"api"},"executable":null}"#,
            r#"{"reason":"compiler-artifact","package_id":"path+file:///src/tas/crates/api#tas-api@0.1.0","target":{"kind":["example"],"name":"crd"},"executable":"/src/tas/target/debug/examples/crd"}"#,
            r#"{"reason":"build-finished","success":true}"#,
        ]);
        let crd =
            ("tas-api".to_owned(), "crd".to_owned(), PathBuf::from("/src/tas/target/debug/examples/crd"));
        assert_eq!(examples(&messages), [crd]);
    }

    #[test]
    fn a_package_is_named_by_its_identifier_in_both_spellings() {
        assert_eq!(package_of("path+file:///src/tas/crates/api#tas-api@0.1.0"), "tas-api");
        assert_eq!(package_of("path+file:///src/tas/xtask#0.1.0"), "xtask");
    }

    #[test]
    fn files_are_written_once_compared_and_reported_stale() {
        let root = std::env::temp_dir().join(format!("xtask-generate-{}", std::process::id()));
        let path = "docs/reference/cli.md";
        let missing = compare(&root, path, b"new\n");
        assert_eq!(missing, Err("does not exist; run `cargo xtask gen` and commit the result".into()));
        assert_eq!(write(&root, path, b"new\n"), Ok("written"));
        assert_eq!(write(&root, path, b"new\n"), Ok("unchanged"));
        assert_eq!(compare(&root, path, b"new\n"), Ok(()));
        let stale = compare(&root, path, b"newer\n").expect_err("stale");
        assert_eq!(
            stale,
            "is not what its program prints; run `cargo xtask gen` and commit the result\n  \
             first difference in line 1:\n  committed  new\\n\n  generated  newer\\n"
        );
        std::fs::remove_dir_all(root).expect("our own directory");
    }

    #[test]
    fn a_part_of_a_file_is_replaced_and_the_rest_stays() {
        let root = std::env::temp_dir().join(format!("xtask-part-{}", std::process::id()));
        let file = b"a\n<!-- generated: x -->\nold\n<!-- end of x -->\nb\n";
        assert_eq!(write(&root, "page.md", file), Ok("written"));
        let fresh = put(&root, "page.md", "x", b"new\n").expect("it has the place");
        assert_eq!(String::from_utf8_lossy(&fresh), "a\n<!-- generated: x -->\nnew\n<!-- end of x -->\nb\n");
        assert_eq!(
            put(&root, "page.md", "y", b"new\n"),
            Err("has no place for y; it begins with \"<!-- generated: y -->\" and ends with \"<!-- end of y -->\"".into())
        );
        std::fs::remove_dir_all(root).expect("our own directory");
    }

    #[test]
    fn nothing_to_generate_is_fine_and_builds_nothing() {
        assert_eq!(generate(Path::new("/nowhere"), &[], Mode::Compare), Ok(()));
    }
}
