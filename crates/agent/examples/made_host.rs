//! Makes a host in a directory, for `tas-agent --root`: `made_host DIR server|large [WATTS…]`.
//!
//! With watts, one number for each package, it keeps the energy counters moving at that power until it is ended, so
//! that power demos run on machines that have no counters.

use std::error::Error;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use agent::fixtures::Tree;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, kind, watts @ ..] = arguments.as_slice() else {
        return Err("write: made_host DIR server|large [WATTS…]".into());
    };
    let watts: Vec<u64> = watts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    std::fs::create_dir_all(directory)?;
    let tree = Tree::at(Path::new(directory));
    let sockets = u32::try_from(watts.len().max(2))?;
    match kind.as_str() {
        "large" => tree.large(),
        "server" => tree.proc(8, 2).sensors(8, sockets, sockets).server(sockets),
        other => return Err(format!("unknown kind {other:?}; write server or large").into()),
    };
    let begun = Instant::now();
    while !watts.is_empty() {
        sleep(Duration::from_millis(100));
        tree.drawn(&watts, begun.elapsed());
    }
    Ok(())
}
