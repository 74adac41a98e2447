//! `testbed build`: the programs and the recorded machines, before anybody waits for them.

use crate::binaries::provide;
use crate::places::Places;
use crate::programs::{self, Kubernetes};
use crate::recordings;

use super::terminal::{mention, say};

pub(super) fn build(all: bool, kubernetes: Kubernetes) -> anyhow::Result<()> {
    let mut wanted = programs::standard(kubernetes);
    if all {
        wanted.extend(programs::PEERS);
    }
    let places = Places::of_this_user()?;
    let binaries = provide(&wanted, &places, &mut |line| mention(line))?;
    for (name, path) in binaries.iter() {
        say(format_args!("{name:24} {}", path.display()));
    }
    for source in recordings::SOURCES {
        let kept = recordings::provide(&source, &places, &mut |line| mention(line))?;
        say(format_args!("recordings of {:13} {}", source.name, kept.display()));
    }
    Ok(())
}
