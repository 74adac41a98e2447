//! `testbed build`: the programs, before anybody waits for them.

use crate::binaries::provide;
use crate::places::Places;
use crate::programs::{self, Kubernetes};

use super::terminal::{mention, say};

pub(super) fn build(all: bool, kubernetes: Kubernetes) -> anyhow::Result<()> {
    let mut wanted = programs::standard(kubernetes);
    if all {
        wanted.extend(programs::PEERS);
    }
    let binaries = provide(&wanted, &Places::of_this_user()?, &mut |line| mention(line))?;
    for (name, path) in binaries.iter() {
        say(format_args!("{name:24} {}", path.display()));
    }
    Ok(())
}
