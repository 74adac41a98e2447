//! `--explain`: what this host offers, what is missing, and what it would take, as a table or as JSON.

use std::fmt::Write as _;
use std::path::Path;

use serde::Serialize;

use crate::args::Output;
use crate::instruments::{Instruments, State};

/// How one source does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Row {
    source: &'static str,
    /// `ok`, or the reason as it is on the page.
    state: &'static str,
    /// What there is, or what went wrong.
    found: String,
    /// What would have to be different; empty if nothing.
    needed: String,
}

/// Everything that is told.
#[derive(Debug, Serialize)]
struct Report {
    root: String,
    sources: Vec<Row>,
}

/// Writes the table, or the object.
pub fn report(instruments: &Instruments, root: &Path, output: Output) -> Result<String, serde_json::Error> {
    let found = instruments.found();
    let told = |state: State| {
        let found = found.iter().find(|(source, _)| *source == state.source);
        row(&state, found.map_or("", |(_, found)| found.as_str()), root)
    };
    let sources: Vec<Row> = instruments.states().into_iter().map(told).collect();
    match output {
        Output::Human => Ok(render(&sources)),
        Output::Json => {
            let report = Report { root: root.display().to_string(), sources };
            serde_json::to_string_pretty(&report).map(|text| text + "\n")
        }
    }
}

fn row(state: &State, found: &str, root: &Path) -> Row {
    let source = state.source;
    match &state.down {
        None => Row { source, state: "ok", found: found.to_owned(), needed: String::new() },
        Some(down) => Row {
            source,
            state: down.reason(),
            found: down.to_string(),
            needed: needed(source, down.reason(), root),
        },
    }
}

/// What would have to be different.
fn needed(source: &str, reason: &str, root: &Path) -> String {
    let mounted = if root == Path::new("/") {
        String::new()
    } else {
        format!(", or a read-only mount of it below {}", root.display())
    };
    match (source, reason) {
        ("rapl", "denied") => {
            "uid 0 without capabilities: the kernel lets only root read energy counters".to_owned()
        }
        ("rapl", "absent") => format!(
            "hardware with RAPL; most virtual machines have none, and in a container the host's /sys must be mounted elsewhere than at /sys{mounted}"
        ),
        ("edac", "absent") => format!("ECC memory and its EDAC driver{mounted}"),
        ("hwmon" | "thermal" | "throttle", "absent") => {
            format!("sensors and their drivers; virtual machines have none{mounted}")
        }
        ("pressure", "absent") => {
            format!("a kernel with PSI; on some distributions boot it with psi=1{mounted}")
        }
        ("network", "absent" | "denied") if root != Path::new("/") => format!(
            "the whole /proc of the host, where process 1 can be seen, mounted read-only at {}",
            root.join("proc").display()
        ),
        ("pods", "absent") => format!("a kubelet on this node, and its control groups{mounted}"),
        (_, "absent") => format!("a kernel that has it{mounted}"),
        (_, "denied") => "a user who may read it".to_owned(),
        (_, "timeout") => "a driver that answers; the kernel log may say why it does not".to_owned(),
        _ => "a look at the file: no kernel writes this".to_owned(),
    }
}

fn render(rows: &[Row]) -> String {
    const HEADINGS: [&str; 4] = ["SOURCE", "STATE", "FOUND", "NEEDED"];
    let cells = |row: &'_ Row| -> [String; 4] {
        [row.source.to_owned(), row.state.to_owned(), row.found.clone(), row.needed.clone()]
    };
    let lines: Vec<[String; 4]> =
        std::iter::once(HEADINGS.map(str::to_owned)).chain(rows.iter().map(cells)).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let [a, b, c] = [0, 1, 2].map(width);
    let mut text = String::new();
    for [source, state, found, needed] in &lines {
        let _ = write!(text, "{source:<a$}  {state:<b$}  {found:<c$}  {needed}");
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trouble::{Down, Trouble};
    use std::time::Duration;

    fn state(source: &'static str, trouble: Option<Trouble>) -> State {
        State { source, down: trouble.map(Down::from), took: Duration::ZERO, age: Duration::ZERO }
    }

    #[test]
    fn a_table_people_can_read() {
        let rows = [
            row(&state("cpu", None), "2 CPUs", Path::new("/")),
            row(&state("rapl", Some(Trouble::Denied { path: "energy_uj".into() })), "", Path::new("/")),
            row(&state("edac", Some(Trouble::Absent { path: "mc0".into() })), "", Path::new("/host")),
            row(&state("network", Some(Trouble::Absent { path: "dev".into() })), "", Path::new("/host")),
        ];
        let expected = "\
SOURCE   STATE   FOUND                                     NEEDED
cpu      ok      2 CPUs
rapl     denied  \"energy_uj\" may not be read by this user  uid 0 without capabilities: the kernel lets only root read energy counters
edac     absent  \"mc0\" is not there                        ECC memory and its EDAC driver, or a read-only mount of it below /host
network  absent  \"dev\" is not there                        the whole /proc of the host, where process 1 can be seen, mounted read-only at /host/proc
";
        assert_eq!(render(&rows), expected);
    }
}
