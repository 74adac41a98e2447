//! `testbed build`: the programs, before anybody waits for them.

use testbed::binaries::provide;
use testbed::places::Places;
use testbed::programs::{self, Kubernetes};

pub(super) fn build(all: bool, kubernetes: Kubernetes) -> anyhow::Result<()> {
    let mut wanted = programs::standard(kubernetes);
    if all {
        wanted.extend(programs::PEERS);
    }
    let binaries = provide(&wanted, &Places::of_this_user()?, &mut |line| eprintln!("{line}"))?;
    for (name, path) in binaries.iter() {
        println!("{name:24} {}", path.display());
    }
    Ok(())
}
