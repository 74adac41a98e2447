//! The commands that the README shows do what it says.

use std::process::Command;

const README: &str = include_str!("../../../README.md");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn every_command_of_the_readme_works() {
    let lines: Vec<&str> =
        README.lines().filter_map(|line| line.strip_prefix("$ cargo run --release -- ")).collect();
    assert!(lines.len() >= 4, "{lines:?}");
    for line in lines {
        // With its output piped the demo tells its story without waiting.
        let ran =
            Command::new(env!("CARGO_BIN_EXE_tas")).args(line.split(' ')).current_dir(ROOT).output().unwrap();
        assert!(ran.status.success() && !ran.stdout.is_empty(), "tas {line}: {ran:?}");
    }
}

#[test]
fn every_file_the_readme_links_to_is_there() {
    let links = README.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let missing: Vec<&str> = links.filter(|link| !std::path::Path::new(ROOT).join(link).exists()).collect();
    assert_eq!(missing, Vec::<&str>::new());
}
