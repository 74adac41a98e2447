//! What `tas serve` costs beside Intel TAS with prometheus-adapter, on one real control plane: idle, and by the
//! call with whole nodes. `cargo xtask bench serve [--nodes N] [--policies N] [--rounds N] [--alone]`.

use std::path::Path;
use std::time::Duration;

use testbed::component::Component;
use testbed::tas::Replica;

use crate::arena::{self, Arena, Extent, Quiet, SYNC, Trouble};
use crate::cpu;
use crate::extender_cost::caller::{self, Target};
use crate::peers::IntelTas;

const SETTLE: Duration = Duration::from_secs(15);
const WATCHED: Duration = Duration::from_secs(30);

pub(crate) fn run(words: &[&str]) -> std::io::Result<()> {
    let usual = Extent { nodes: 1_000, policies: 50, rounds: 5, pods: None, alone: false };
    arena::run(usual, words, measure)
}

async fn measure(extent: Extent, binary: &Path) -> Result<(), Trouble> {
    let Extent { nodes, policies, rounds, alone, .. } = extent;
    let metrics = extent.metrics();
    println!("{nodes} quiet nodes, {policies} policies, {metrics} metrics, both look every {SYNC}");
    let arena = Arena::start(extent, Duration::from_secs(5), &[]).await?;
    // The same value everywhere, for ever.
    arena.publish(|_| 50.0)?;
    arena.scraped().await?;
    arena.apply(&["dontschedule", "deschedule"]).await?;

    let ours = arena.ours(binary)?;
    arena.ours_knows(&ours).await?;
    let idle_ours = arena.quiet(&[&ours.component], "tas-serve", [SETTLE, WATCHED]).await?;
    print_idle("tas serve", &idle_ours);
    if alone {
        return Ok(());
    }

    ours.component.pause()?;
    let theirs = arena.theirs().await?;
    arena.theirs_knows(&theirs).await?;
    let idle_theirs = arena.quiet(&theirs.components(), "intel-tas", [SETTLE, WATCHED]).await?;
    print_idle("Intel TAS + adapter", &idle_theirs);
    println!("  tas / Intel TAS + adapter: CPU 1/{:.0} (budget 1/20)\n", idle_theirs.cpu / idle_ours.cpu);

    for count in [100, nodes] {
        calls(&arena, &ours, &theirs, count, rounds).await?;
    }
    Ok(())
}

fn print_idle(who: &str, idle: &Quiet) {
    println!(
        "  {who:<20} {:>7.4} cores, {:>5} MB resident, {:>4} lists and {:>5} requests in {} s",
        idle.cpu,
        idle.resident / 1_000_000,
        idle.asked.iter().filter(|request| request.verb == "list").count(),
        idle.asked.len(),
        WATCHED.as_secs()
    );
}

/// The same request to both in turns; whoever is not asked is stopped, so that its polling costs nothing.
async fn calls(
    arena: &Arena,
    ours: &Replica,
    theirs: &IntelTas,
    nodes: usize,
    count: usize,
) -> Result<(), Trouble> {
    let request = arena.whole_nodes(nodes).await?;
    let mut rounds = Vec::new();
    for _ in 0..count {
        theirs.components().iter().try_for_each(|component| component.pause())?;
        ours.component.resume()?;
        let one = round(&arena.target(ours.port)?, &ours.component, &request, 40)?;
        ours.component.pause()?;
        theirs.components().iter().try_for_each(|component| component.resume())?;
        let other = round(&arena.target(theirs.port)?, &theirs.tas, &request, 8)?;
        rounds.push((one, other));
    }
    ours.component.resume()?;
    let ratio = |of: fn(&Call) -> Duration| {
        let mut all: Vec<f64> =
            rounds.iter().map(|(one, other)| of(other).as_secs_f64() / of(one).as_secs_f64()).collect();
        all.sort_by(f64::total_cmp);
        format!("1/{:.0} (1/{:.0} to 1/{:.0})", all[all.len() / 2], all[0], all[all.len() - 1])
    };
    println!(
        "filter, {nodes} whole nodes, {} bytes: tas / Intel TAS (budget 1/10 at 1,000 nodes)",
        request.len()
    );
    println!("  latency p50 {}, CPU {}", ratio(|call| call.p50), ratio(|call| call.cpu));
    Ok(())
}

struct Call {
    p50: Duration,
    cpu: Duration,
}

fn round(to: &Target, component: &Component, request: &[u8], count: usize) -> Result<Call, Trouble> {
    let pid = component.pid().ok_or("the server has ended")?;
    let before = cpu::used_by(pid);
    let mut took = caller::ask(to, request, 0, count, 1)?;
    // One call more was made than was timed: the first, which pays for the connection.
    let calls = u32::try_from(took.len() + 1)?;
    let cpu = cpu::used_by(pid).saturating_sub(before) / calls;
    took.sort_unstable();
    Ok(Call { p50: took[took.len() / 2], cpu })
}
