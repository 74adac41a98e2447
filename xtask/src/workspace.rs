//! What cargo says about our own crates: where they are and what they depend on.
//! Declared edges only: nothing is resolved and nothing is fetched to learn them.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::process::{cargo, typed};

/// The crates of this repository.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    /// Where built programs end up.
    pub(crate) target: PathBuf,
    pub(crate) members: Vec<Member>,
}

/// One of our crates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) package: String,
    pub(crate) needs: Vec<Need>,
}

/// One line of a crate's dependency tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) package: String,
    pub(crate) kind: Kind,
}

/// Which of the three tables the line stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Normal,
    Build,
    Dev,
}

impl Workspace {
    /// Asks cargo about the workspace we were called in; the alias `cargo xtask` exists only inside it.
    pub(crate) fn load() -> Result<Self, String> {
        let mut command = cargo(Path::new("."));
        command.args(["metadata", "--no-deps", "--format-version", "1"]).stderr(Stdio::inherit());
        let name = typed(&command);
        let answer = command.output().map_err(|problem| format!("`{name}` could not be run: {problem}"))?;
        if !answer.status.success() {
            return Err(format!("`{name}` failed ({}); its message is above", answer.status));
        }
        Self::read(&answer.stdout)
            .map_err(|problem| format!("`{name}` answered something unexpected: {problem}"))
    }

    /// Reads the answer of `cargo metadata --no-deps`.
    pub(crate) fn read(metadata: &[u8]) -> Result<Self, String> {
        let metadata: Value = serde_json::from_slice(metadata).map_err(|problem| problem.to_string())?;
        let packages = list(&metadata, "packages")?;
        let members = packages.iter().map(member).collect::<Result<_, _>>()?;
        let path = |key| text(&metadata, key).map(PathBuf::from);
        Ok(Self { root: path("workspace_root")?, target: path("target_directory")?, members })
    }

    pub(crate) fn has(&self, package: &str) -> bool {
        self.members.iter().any(|member| member.package == package)
    }
}

fn member(package: &Value) -> Result<Member, String> {
    let needs = list(package, "dependencies")?.iter().map(need).collect::<Result<_, _>>()?;
    Ok(Member { package: text(package, "name")?.to_owned(), needs })
}

fn need(dependency: &Value) -> Result<Need, String> {
    let kind = match &dependency["kind"] {
        Value::Null => Kind::Normal,
        Value::String(kind) if kind == "dev" => Kind::Dev,
        Value::String(kind) if kind == "build" => Kind::Build,
        other => return Err(format!("dependency kind {other} is new to us")),
    };
    Ok(Need { package: text(dependency, "name")?.to_owned(), kind })
}

fn list<'v>(value: &'v Value, key: &str) -> Result<&'v [Value], String> {
    value[key].as_array().map(Vec::as_slice).ok_or_else(|| format!("no list {key:?}"))
}

fn text<'v>(value: &'v Value, key: &str) -> Result<&'v str, String> {
    value[key].as_str().ok_or_else(|| format!("no text {key:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from `cargo metadata --no-deps --format-version 1`, cut down to the keys we read and a few more.
    const RECORDED: &[u8] = include_bytes!("workspace/recorded.json");

    #[test]
    fn a_recorded_answer_is_read_whole() {
        let need = |package: &str, kind| Need { package: package.into(), kind };
        let expected = Workspace {
            root: "/src/tas".into(),
            target: "/src/tas/target".into(),
            members: vec![
                Member {
                    package: "tas-api".into(),
                    needs: vec![
                        need("tas-engine", Kind::Normal),
                        need("serde_json", Kind::Normal),
                        need("tas-engine", Kind::Dev),
                        need("cc", Kind::Build),
                    ],
                },
                Member {
                    package: "tas-engine".into(),
                    needs: vec![need("thiserror", Kind::Normal), need("proptest", Kind::Dev)],
                },
                Member { package: "tas-e2e".into(), needs: vec![need("tas-api", Kind::Normal)] },
            ],
        };
        assert_eq!(Workspace::read(RECORDED), Ok(expected));
    }

    #[test]
    fn an_answer_of_another_shape_is_refused_with_the_missing_key() {
        let refused = |text: &str| Workspace::read(text.as_bytes()).expect_err("not metadata");
        assert_eq!(refused("{}"), r#"no list "packages""#);
        assert_eq!(refused(r#"{"packages": []}"#), r#"no text "workspace_root""#);
        assert!(refused("error: no such file").starts_with("expected value at line 1"));
    }
}
