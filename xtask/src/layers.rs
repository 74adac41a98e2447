//! The gate that keeps the arrows between our crates as the design drew them.
//! `judge` decides from values; `run` asks cargo for them.

mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::process::{cargo, typed};
use crate::workspace::{Kind, Workspace};
use table::{OUTGROWN, ROOMS, Room, Uses};

/// The packages that each crate of ours reaches when built alone, by package name.
type Reach = BTreeMap<String, Vec<String>>;

/// Compares the workspace with the table; the error lists every broken arrow.
pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let mut reach = Reach::new();
    for member in &workspace.members {
        if room(&member.package).is_some_and(|room| !room.world.never.is_empty()) {
            reach.insert(member.package.clone(), reached(workspace, &member.package)?);
        }
    }
    let broken = judge(workspace, &reach);
    if broken.is_empty() { Ok(()) } else { Err(broken.join("\n\n")) }
}

/// What `package` brings along when it is built alone. Not from `cargo metadata`: that resolves features for the whole
/// workspace at once, so every crate that touches axum would seem to reach what the server switches on in it.
fn reached(workspace: &Workspace, package: &str) -> Result<Vec<String>, String> {
    let mut command = cargo(&workspace.root);
    command.args(["tree", "--edges", "normal,no-proc-macro", "--prefix", "none", "--package", package]);
    let name = typed(&command);
    let answer = command.output().map_err(|problem| format!("`{name}` could not be run: {problem}"))?;
    if !answer.status.success() {
        return Err(format!("`{name}` failed:\n{}", String::from_utf8_lossy(&answer.stderr)));
    }
    Ok(packages(&String::from_utf8_lossy(&answer.stdout)))
}

/// The package names in the lines of `cargo tree --prefix none`, each once.
fn packages(tree: &str) -> Vec<String> {
    let mut names: Vec<String> =
        tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// Every way in which the workspace differs from the table, as text for whoever caused it.
fn judge(workspace: &Workspace, reach: &Reach) -> Vec<String> {
    let mut broken = Vec::new();
    for member in &workspace.members {
        let package = &member.package;
        let Some(room) = room(package) else {
            broken.push(unknown(package));
            continue;
        };
        // A room's tests may borrow from any other room; what ships may not.
        let ships = member.needs.iter().filter(|need| need.kind != Kind::Dev);
        broken.extend(
            ships
                .filter(|need| workspace.has(&need.package))
                .filter_map(|need| wrong_arrow(room, &need.package)),
        );
        let reached = reach.get(package).map(Vec::as_slice).unwrap_or_default();
        let never = room.world.never.iter().filter(|never| reached.iter().any(|package| package == *never));
        broken.extend(never.map(|never| wrong_world(room, package, never)));
        for (name, instead) in OUTGROWN {
            if member.needs.iter().any(|need| need.package == *name) {
                broken.push(format!("{package} names {name}\n  way out: {instead}"));
            }
        }
    }
    broken
}

fn room(package: &str) -> Option<&'static Room> {
    ROOMS.iter().find(|room| room.name == directory(package))
}

/// The name of a package in the table: `tas-engine` lives in `engine`.
fn directory(package: &str) -> &str {
    package.strip_prefix("tas-").unwrap_or(package)
}

fn unknown(package: &str) -> String {
    format!(
        "{package} is not in the table\n  \
         the design: a new crate is allowed only for a different process or a different dependency allowance\n  \
         way out: make it a module of the crate it serves, or add its row to xtask/src/layers/table.rs and \
         ARCHITECTURE.md, with the reason in docs/adr/"
    )
}

fn wrong_arrow(room: &Room, package: &str) -> Option<String> {
    let target = directory(package);
    let allowed: Vec<&str> = match room.uses {
        Uses::Any => return None,
        Uses::Only(names) => names.to_vec(),
        Uses::AllAbove => {
            ROOMS.iter().map(|other| other.name).take_while(|name| *name != room.name).collect()
        }
    };
    if allowed.contains(&target) {
        return None;
    }
    let allowed = if allowed.is_empty() { "none of ours".to_owned() } else { allowed.join(", ") };
    Some(format!(
        "{} uses {target}, but may use only: {allowed}\n  \
         the design: {} ({})\n  \
         way out: take what you need as an argument, move the code to the room it belongs in, or change \
         xtask/src/layers/table.rs and ARCHITECTURE.md together, with the reason in docs/adr/",
        room.name, room.is, room.world.says
    ))
}

fn wrong_world(room: &Room, package: &str, never: &str) -> String {
    format!(
        "{} reaches {never}\n  \
         the design: {} Outside world: {}\n  \
         way out: see who brings it with `cargo tree --edges normal --package {package} --invert {never}`, then \
         switch off that feature (`default-features = false`) or do this in a crate that may",
        room.name, room.is, room.world.says
    )
}
