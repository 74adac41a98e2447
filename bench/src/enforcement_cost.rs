//! How long it takes from a sample to the label on the node, and by how many writes, beside Intel TAS with
//! prometheus-adapter on one real control plane.
//! `cargo xtask bench enforcement [--nodes N] [--policies N] [--rounds N] [--alone]`.
//!
//! One node of ten violates every policy, and then it is other nodes: the labels of the first must go and the others
//! must get them. The two take turns and never run together, for each would undo what the other writes, and every
//! status that we write on a policy would make Intel TAS take off that policy's labels and put them on again.

mod witness;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use testbed::audit::Request;
use testbed::component::Component;

use self::witness::Witness;
use crate::arena::{self, Arena, Extent, Quiet, SYNC, Trouble};
use crate::peers::IntelTas;

const SCRAPED: Duration = Duration::from_secs(1);
/// Two looks at the metrics and some more: a write that comes late is counted too.
const REST: Duration = Duration::from_secs(6);
const WATCHED: Duration = Duration::from_secs(20);

pub(crate) fn run(words: &[&str]) -> std::io::Result<()> {
    let usual = Extent { nodes: 1_000, policies: 50, rounds: 2, pods: None, alone: false };
    arena::run(usual, words, measure)
}

async fn measure(extent: Extent, binary: &Path) -> Result<(), Trouble> {
    let Extent { nodes, policies, rounds, alone, .. } = extent;
    if nodes < 30 {
        return Err(
            "--nodes must be 30 at least: a tenth violates, then another, and one node is tried first".into(),
        );
    }
    let share = nodes / 10;
    println!(
        "{nodes} nodes, {policies} policies; {share} nodes violate all of them, then {share} others; both look every \
         {SYNC}, samples are taken every {} s; rounds of two such changes: {rounds}",
        SCRAPED.as_secs()
    );
    let arena = Arena::start(extent, SCRAPED, &[]).await?;
    let field = Field { witness: Witness::start(&arena.cluster), arena, nodes, policies };
    field.publish(&field.home())?;
    field.arena.scraped().await?;
    field.arena.apply(&["deschedule"]).await?;

    let mut ours = Contender::new("tas serve", "tas-serve", vec![field.arena.ours(binary)?.component]);
    ours.turn(&field).await?;
    let mut theirs = None;
    if !alone {
        let IntelTas { adapter, tas, .. } = field.arena.theirs().await?;
        let intel = theirs.insert(Contender::new("Intel TAS + adapter", "intel-tas", vec![adapter, tas]));
        intel.turn(&field).await?;
    }
    for _ in 1..rounds {
        for contender in [Some(&mut ours), theirs.as_mut()].into_iter().flatten() {
            contender.processes.iter().try_for_each(|process| process.restart())?;
            contender.turn(&field).await?;
        }
    }
    conclude(&ours, theirs.as_ref());
    Ok(())
}

/// The numbers of the nodes that violate every policy.
type Hot = BTreeSet<usize>;

/// Where both show what they can.
struct Field {
    arena: Arena,
    witness: Witness,
    nodes: usize,
    policies: usize,
}

impl Field {
    /// The nodes that violate when a turn begins and when it ends.
    fn home(&self) -> Hot {
        (1..=self.nodes / 10).collect()
    }

    /// As many others.
    fn away(&self) -> Hot {
        self.home().iter().map(|node| node + self.nodes / 10).collect()
    }

    /// Gives out the samples by which these violate, and says when.
    fn publish(&self, hot: &Hot) -> Result<Instant, Trouble> {
        self.arena.publish(|node| if hot.contains(&node) { 95.0 } else { 50.0 })?;
        Ok(Instant::now())
    }

    /// Waits until these are labelled for every policy and no other is for any, and says since when.
    async fn labelled(&self, hot: &Hot) -> Result<Instant, Trouble> {
        let labels = |node| if hot.contains(&node) { self.policies } else { 0 };
        let wanted = (1..=self.nodes).map(|node| (format!("node-{node}"), labels(node))).collect();
        Ok(self.witness.right(&wanted).await?)
    }
}

/// One of the two, and what was seen of it.
struct Contender {
    name: &'static str,
    user: &'static str,
    processes: Vec<Arc<Component>>,
    flips: Vec<Flip>,
    quiet: Vec<Quiet>,
}

/// What a change of the samples led to.
struct Flip {
    took: Duration,
    changed: usize,
    /// On nodes, refused ones included.
    writes: usize,
    /// On the node that was written most often.
    most: usize,
    cpu: Duration,
}

impl Contender {
    fn new(name: &'static str, user: &'static str, processes: Vec<Arc<Component>>) -> Self {
        Self { name, user, processes, flips: Vec::new(), quiet: Vec::new() }
    }

    fn components(&self) -> Vec<&Component> {
        self.processes.iter().map(|process| &**process).collect()
    }

    /// From its start, which is no part of what is measured, to its end.
    async fn turn(&mut self, field: &Field) -> Result<(), Trouble> {
        // One node first, there and back: whoever marks it for every policy has read all of them and their metrics.
        let (home, mut tried) = (field.home(), field.home());
        tried.insert(field.nodes);
        for hot in [&tried, &home] {
            field.publish(hot)?;
            field.labelled(hot).await?;
        }
        tokio::time::sleep(REST).await;
        for (before, hot) in [(&home, &field.away()), (&field.away(), &home)] {
            let flip = self.flip(field, before, hot).await?;
            println!("  {:<20} {flip}", self.name);
            self.flips.push(flip);
        }
        let quiet = field.arena.quiet(&self.components(), self.user, [REST, WATCHED]).await?;
        println!("  {:<20} {}", self.name, told(&quiet));
        self.quiet.push(quiet);
        self.processes.iter().for_each(|process| process.kill());
        Ok(())
    }

    async fn flip(&self, field: &Field, before: &Hot, hot: &Hot) -> Result<Flip, Trouble> {
        let (asked, cpu) = (field.arena.asked(self.user)?.len(), arena::spent(&self.components()));
        let published = field.publish(hot)?;
        let took = field.labelled(hot).await?.saturating_duration_since(published);
        let cpu = arena::spent(&self.components()).saturating_sub(cpu);
        tokio::time::sleep(REST).await;
        let asked = field.arena.asked(self.user)?.split_off(asked);
        let mut writes: BTreeMap<&str, usize> = BTreeMap::new();
        for node in asked.iter().filter_map(node_written) {
            *writes.entry(node).or_default() += 1;
        }
        Ok(Flip {
            took,
            changed: before.symmetric_difference(hot).count(),
            writes: writes.values().sum(),
            most: writes.into_values().max().unwrap_or_default(),
            cpu,
        })
    }
}

impl fmt::Display for Flip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "all labels right after {:.1} s; {} writes for {} nodes that changed, at most {} on one; {:.1} s CPU",
            self.took.as_secs_f64(),
            self.writes,
            self.changed,
            self.most,
            self.cpu.as_secs_f64()
        )
    }
}

/// The node that a request wrote on.
fn node_written(request: &Request) -> Option<&str> {
    let reads = ["get", "list", "watch"];
    let object = request.object_ref.as_ref().filter(|object| object.resource == "nodes")?;
    (!reads.contains(&&*request.verb)).then_some(&object.name)
}

fn writes_of(quiet: &Quiet) -> usize {
    quiet.asked.iter().filter_map(node_written).count()
}

fn lists_of(quiet: &Quiet) -> usize {
    let of_nodes = |request: &&Request| request.object_ref.as_ref().is_some_and(|it| it.resource == "nodes");
    quiet.asked.iter().filter(|request| request.verb == "list").filter(of_nodes).count()
}

fn told(quiet: &Quiet) -> String {
    format!(
        "quiet for {} s: {} writes on nodes, {} lists of nodes; {:.3} cores, {} MB resident",
        WATCHED.as_secs(),
        writes_of(quiet),
        lists_of(quiet),
        quiet.cpu,
        quiet.resident / 1_000_000
    )
}

/// What came out, beside the budgets.
fn conclude(ours: &Contender, theirs: Option<&Contender>) {
    println!("\nbudgets");
    let median = |contender: &Contender| {
        let mut took: Vec<f64> = contender.flips.iter().map(|flip| flip.took.as_secs_f64()).collect();
        took.sort_by(f64::total_cmp);
        let (first, last) = (took[0], took[took.len() - 1]);
        println!(
            "  {:<20} all labels right after {:.1} s ({first:.1} to {last:.1}, {} changes)",
            contender.name,
            took[took.len() / 2],
            took.len()
        );
        took[took.len() / 2]
    };
    let our_time = median(ours);
    if let Some(theirs) = theirs {
        let times = median(theirs) / our_time;
        println!("  time tas / Intel TAS: 1/{times:.0} (at most 1/10): {}", verdict(times >= 10.0));
    }
    let one_each = ours.flips.iter().all(|flip| flip.writes == flip.changed && flip.most == 1);
    println!("  one write for each node that changed: {}", verdict(one_each));
    let silent = ours.quiet.iter().all(|quiet| writes_of(quiet) + lists_of(quiet) == 0);
    println!("  no write and no list while nothing changes: {}", verdict(silent));
}

fn verdict(kept: bool) -> &'static str {
    if kept { "kept" } else { "NOT KEPT" }
}
