//! `--explain`: what this host offers, what is missing, and what it would take, as a table.

use std::fmt::Write as _;
use std::path::Path;

use crate::instruments::{Instruments, State};

/// Writes the table.
pub fn table(instruments: &Instruments, root: &Path) -> String {
    let found = instruments.found();
    let rows: Vec<[String; 4]> = instruments
        .states()
        .into_iter()
        .map(|state| {
            let found = found.iter().find(|(source, _)| *source == state.source);
            row(&state, found.map_or("", |(_, found)| found.as_str()), root)
        })
        .collect();
    render(&rows)
}

fn row(state: &State, found: &str, root: &Path) -> [String; 4] {
    let (word, told, needed) = match &state.down {
        None => ("ok", found.to_owned(), String::new()),
        Some(down) => (down.reason(), down.to_string(), needed(state.source, down.reason(), root)),
    };
    [state.source.to_owned(), word.to_owned(), told, needed]
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
        ("pods", "absent") => format!("a kubelet on this node, and its control groups{mounted}"),
        (_, "absent") => format!("a kernel that has it{mounted}"),
        (_, "denied") => "a user who may read it".to_owned(),
        (_, "timeout") => "a driver that answers; the kernel log may say why it does not".to_owned(),
        _ => "a look at the file: no kernel writes this".to_owned(),
    }
}

fn render(rows: &[[String; 4]]) -> String {
    const HEADINGS: [&str; 4] = ["SOURCE", "STATE", "FOUND", "NEEDED"];
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([HEADINGS[column].len()]).max().unwrap_or(0)
    };
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    let mut line = |cells: [&str; 4]| {
        let _ = write!(
            text,
            "{:<a$}  {:<b$}  {:<c$}  {}",
            cells[0],
            cells[1],
            cells[2],
            cells[3],
            a = widths[0],
            b = widths[1],
            c = widths[2]
        );
        text.truncate(text.trim_end().len());
        text.push('\n');
    };
    line(HEADINGS);
    for row in rows {
        line([&row[0], &row[1], &row[2], &row[3]]);
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
        ];
        let expected = "\
SOURCE  STATE   FOUND                                     NEEDED
cpu     ok      2 CPUs
rapl    denied  \"energy_uj\" may not be read by this user  uid 0 without capabilities: the kernel lets only root read energy counters
edac    absent  \"mc0\" is not there                        ECC memory and its EDAC driver, or a read-only mount of it below /host
";
        assert_eq!(render(&rows), expected);
    }
}
