//! `tas check` as a person or a pipeline runs it: the real program, its words and its exit status.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const CORPUS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/corpus");
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../api/fixtures");

fn tas(directory: impl AsRef<Path>, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tas"));
    command.current_dir(directory).args(arguments).stdin(Stdio::null());
    command
}

fn check(directory: impl AsRef<Path>, arguments: &[&str]) -> Output {
    tas(directory, &[&["check"], arguments].concat()).output().expect("the program runs")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("the program ends by itself")
}

fn said(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("the program speaks UTF-8")
}

/// A fresh directory for one test.
fn directory(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("the test's own directory");
    path
}

fn names(directory: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a committed directory");
    let names = entries.map(|entry| entry.expect("a committed file").file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().expect("a plain name")).collect();
    names.sort();
    names
}

#[test]
fn every_hostile_file_gets_its_own_words_and_status() {
    let mut report = String::new();
    for name in names(CORPUS) {
        let output = check(CORPUS, &[&name]);
        assert!(output.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        writeln!(report, "$ tas check {name}\n{}status {}\n", said(&output), code(&output)).unwrap();
    }
    insta::assert_snapshot!(report);
}

#[test]
fn what_intel_tas_and_its_users_wrote_passes_even_strictly() {
    let output = check(FIXTURES, &["--strict", "."]);
    // Two of the five are called default/demo-policy, in documents that were never meant for one cluster.
    assert_eq!(code(&output), 1, "{}", said(&output));
    for name in names(FIXTURES) {
        let output = check(FIXTURES, &["--strict", &name]);
        assert_eq!((code(&output), said(&output)), (0, "1 policy, nothing wrong\n"), "{name}");
    }
}

#[test]
fn warnings_count_only_when_asked_to() {
    assert_eq!(code(&check(CORPUS, &["old-traps.yaml"])), 0);
    assert_eq!(code(&check(CORPUS, &["--strict", "old-traps.yaml"])), 1);
}

#[test]
fn notes_never_count() {
    let path = directory("notes");
    let yaml = "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {name: p}\nspec: {mode: Shadow, strategies: {dontschedule: {rules: [{metricname: node_x, operator: GreaterThan, target: 1}]}}}\n";
    std::fs::write(path.join("p.yaml"), yaml).unwrap();
    let output = check(&path, &["--strict", "p.yaml"]);
    assert_eq!(code(&output), 0);
    assert!(said(&output).ends_with("1 policy, 2 notes\n"));
}

#[test]
fn standard_input_is_a_file_like_any_other() {
    let mut child = tas(".", &["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let policy = std::fs::read(Path::new(CORPUS).join("no-target.yaml")).unwrap();
    child.stdin.take().unwrap().write_all(&policy).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 0);
    assert!(said(&output).contains("  --> standard input:9:9  spec.strategies.dontschedule.rules[0]\n"));
}

#[test]
fn directories_are_searched_and_other_files_left_alone() {
    let path = directory("tree");
    std::fs::create_dir_all(path.join("a/b")).unwrap();
    std::fs::create_dir_all(path.join(".git")).unwrap();
    for (file, from) in
        [("a/one.yaml", "policy.json"), ("a/b/two.yml", "list.yaml"), ("three.json", "other-kinds.yaml")]
    {
        std::fs::copy(Path::new(CORPUS).join(from), path.join(file)).unwrap();
    }
    std::fs::write(path.join("README.md"), "{{ not yaml").unwrap();
    std::fs::write(path.join(".git/x.yaml"), "{{ not yaml").unwrap();
    std::os::unix::fs::symlink(&path, path.join("a/loop")).unwrap();
    let output = check(&path, &["."]);
    assert_eq!(code(&output), 0, "{}", said(&output));
    assert!(said(&output).ends_with("2 policies, 1 warning, 3 other objects skipped\n"), "{}", said(&output));
}

#[test]
fn what_cannot_be_read_says_why() {
    let path = directory("unreadable");
    std::fs::create_dir(path.join("empty")).unwrap();
    let huge = std::fs::File::create(path.join("huge.yaml")).unwrap();
    huge.set_len(100 << 20).unwrap();
    for (name, words) in [
        ("nowhere.yaml", "unreadable[missing]: there is no such file or directory\n  --> nowhere.yaml\n"),
        (
            "empty",
            "unreadable[no-files]: no *.yaml, *.yml or *.json in this directory; name the files themselves\n",
        ),
        ("huge.yaml", "unreadable[too-large]: it is larger than 3145728 bytes; a policy is a few hundred\n"),
    ] {
        let output = check(&path, &[name]);
        assert_eq!(code(&output), 2, "{name}");
        assert!(said(&output).starts_with(words), "{name}: {}", said(&output));
    }
    // One that cannot be read does not keep the others from being looked at.
    let good = Path::new(CORPUS).join("policy.json");
    let output = check(&path, &["nowhere.yaml", good.to_str().unwrap()]);
    assert_eq!(code(&output), 2);
    assert!(said(&output).ends_with("1 policy, nothing wrong, 1 unreadable\n"), "{}", said(&output));
}

#[test]
fn a_thousand_rules_are_told_apart_from_a_thousand_and_one() {
    let path = directory("rules");
    for count in [1000, 1001] {
        let rules: Vec<_> =
            (0..count).map(|n| format!("- {{metricname: m{n}, operator: Over, target: x}}")).collect();
        let rules = rules.join("\n      ");
        let yaml = format!(
            "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {{name: p}}\nspec:\n  strategies:\n    dontschedule:\n      rules:\n      {rules}\n"
        );
        std::fs::write(path.join(format!("{count}.yaml")), yaml).unwrap();
    }
    let sum = |name: &str| {
        let output = check(&path, &[name]);
        (code(&output), said(&output).lines().last().unwrap().to_owned())
    };
    assert_eq!(sum("1000.yaml"), (1, "1 policy, 2000 errors, 1 warning".to_owned()));
    assert_eq!(sum("1001.yaml"), (1, "1 policy, 1 error".to_owned()));
}

#[test]
fn the_report_for_machines_is_one_object() {
    let output = check(CORPUS, &["--output", "json", "clear.yaml", "tabs.yaml", "other-kinds.yaml"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(code(&output), 2);
    assert_eq!(report["exitCode"], 2);
    assert_eq!(report["strict"], false);
    assert_eq!(
        report["summary"],
        json!({ "policies": 1, "errors": 4, "warnings": 1, "notes": 1, "skipped": 2, "unreadable": 1 })
    );
    assert_eq!(
        report["files"][0]["policies"][0]["problems"][1],
        json!({
            "severity": "error",
            "code": "bad-clear",
            "path": "spec.strategies.dontschedule.rules[0].clear",
            "line": 9,
            "column": 67,
            "message": "clear 90 is on the wrong side of target 80; with GreaterThan it must be at or under the target",
        })
    );
    assert_eq!(report["files"][1]["unreadable"][0]["code"], "not-yaml");
    assert_eq!(report["files"][1]["unreadable"][0]["line"], 6);
    assert_eq!(
        report["files"][2],
        json!({ "file": "other-kinds.yaml", "skipped": 2, "policies": [], "unreadable": [] })
    );
}

#[test]
fn policies_of_one_name_are_compared_across_files() {
    let path = directory("across");
    for namespace in ["a", "b"] {
        let yaml = format!(
            "apiVersion: telemetry.intel.com/v1alpha1\nkind: TASPolicy\nmetadata: {{name: p, namespace: {namespace}}}\nspec: {{strategies: {{deschedule: {{rules: [{{metricname: m, operator: GreaterThan, target: 1}}]}}}}}}\n"
        );
        std::fs::write(path.join(format!("{namespace}.yaml")), yaml).unwrap();
    }
    let output = check(&path, &["a.yaml", "b.yaml"]);
    assert!(
        said(&output).starts_with("warning[shared-label]: a/p labels nodes under the same name"),
        "{}",
        said(&output)
    );
    let output = check(&path, &["a.yaml", "a.yaml"]);
    assert!(said(&output).starts_with("warning[duplicate-policy]: a/p is there twice"), "{}", said(&output));
}

#[test]
fn a_reader_who_leaves_early_changes_nothing() {
    let mut child = tas(CORPUS, &["check", "numbers.yaml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), String::from_utf8_lossy(&output.stderr).as_ref()), (1, ""));
}

#[test]
fn wrong_arguments_are_told_from_wrong_policies() {
    let output = check(".", &[]);
    assert_eq!(code(&output), 2);
    assert!(String::from_utf8_lossy(&output.stderr).contains("<PATH>..."));
}

#[test]
fn the_help_shows_by_example() {
    let help = |arguments: &[&str]| {
        let output = tas(".", arguments).output().unwrap();
        assert_eq!(code(&output), 0);
        said(&output).to_owned()
    };
    insta::assert_snapshot!(format!("{}\n-----\n{}", help(&["--help"]), help(&["check", "--help"])));
    assert_eq!(help(&["--version"]), format!("tas {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(help(&["completion", shell]).contains("tas"), "{shell}");
    }
}
