//! How many pods kube-scheduler places in a second with our extender (by names, over TLS), beside one in Go that
//! decides nothing (by names, plain HTTP), Intel TAS (whole nodes, TLS) and none, on one real control plane.
//! `cargo xtask bench scheduling [--nodes N] [--policies N] [--pods N] [--rounds N] [--alone]`.
//!
//! A burst waits before its scheduler is started, so that making pods costs nothing while they are placed. Then pods
//! come one by one at a rate that leaves the scheduler idle most of the time, and its own metrics say how long it took
//! for each. What plays kubelets, and the controllers, stand still meanwhile: in a real cluster they are elsewhere.

mod attempts;
mod pods;
mod subjects;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use testbed::component::Component;
use testbed::programs::{DO_NOTHING_EXTENDER, Program};
use testbed::wait::until;
use testbed::{Cluster, Scheduler};

use self::attempts::Attempts;
use self::pods::Bindings;
use self::subjects::Subject;
use crate::arena::{self, Arena, Extent, PATIENCE, SYNC, Trouble};
use crate::cpu::load_average;
use crate::spread::Spread;

const FURTHER: [Program; 1] = [DO_NOTHING_EXTENDER];
const SCRAPED: Duration = Duration::from_secs(5);
/// What has just been made or deleted is seen by everybody by then.
const SETTLE: Duration = Duration::from_secs(3);
/// The share of a burst that is placed before counting begins.
const WARM_UP: u32 = 10;

const LEAST_OF_NOTHING: f64 = 1.0;
const LEAST_OF_INTEL: f64 = 30.0;
const MOST_ADDED_MS: f64 = 1.0;

pub(crate) fn run(words: &[&str]) -> std::io::Result<()> {
    let usual = Extent { nodes: 1_000, policies: 1, rounds: 5, pods: Some(2_000), alone: false };
    arena::run(usual, words, measure)
}

/// What one of them is given to place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    burst: u32,
    /// Those that come one by one.
    single: u32,
    apart: Duration,
}

impl Load {
    fn usual(pods: u32) -> Self {
        Self { burst: pods, single: pods.min(200), apart: Duration::from_millis(50) }
    }

    /// Intel TAS places a few pods in a second, so it gets few.
    fn of_intel(pods: u32) -> Self {
        Self { burst: (pods / 50).max(10), single: 15, apart: Duration::from_secs(1) }
    }
}

/// What one turn of one of them gave.
struct Turn {
    per_second: f64,
    /// In milliseconds for a pod of the burst.
    scheduler_ms: f64,
    extender_ms: f64,
    /// Questions answered for a pod of the burst, if it can tell.
    answered: Option<f64>,
    /// How many got a pod of the burst.
    nodes: usize,
    /// How often the scheduler went on without an answer.
    skipped: usize,
    /// Of the attempts for pods that came one by one, in milliseconds.
    mean: f64,
    p50: f64,
    p99: f64,
}

async fn measure(extent: Extent, binary: &Path) -> Result<(), Trouble> {
    let Extent { nodes, policies, rounds, alone, .. } = extent;
    let pods = u32::try_from(extent.pods.unwrap_or_default())?;
    if pods < 10 {
        return Err("--pods must be 10 at least: the first tenth is not counted".into());
    }
    let (usual, intel) = (Load::usual(pods), Load::of_intel(pods));
    println!(
        "{nodes} nodes, policies: {policies}, read every {SYNC}; bursts of {} pods (Intel TAS: {}), the first tenth not counted, \
         then {} pods {} ms apart (Intel TAS: {}, {} ms); {rounds} alternating rounds; load average {}",
        usual.burst,
        intel.burst,
        usual.single,
        usual.apart.as_millis(),
        intel.single,
        intel.apart.as_millis(),
        load_average()
    );
    let arena = Arena::start(extent, SCRAPED, &FURTHER).await?;
    // None violates, so that every extender passes on as many names as it was given.
    arena.publish(|node| f64::from(u8::try_from(20 + node % 50).unwrap_or(u8::MAX)))?;
    arena.scraped().await?;
    arena.apply(&["dontschedule", "scheduleonmetric"]).await?;
    arena.cluster.start_scheduler(&Scheduler::plain()).await?;

    let mut subjects = vec![Subject::Nobody, Subject::nothing(&arena)?, Subject::Ours(arena.ours(binary)?)];
    if !alone {
        subjects.push(Subject::Intel(arena.theirs().await?));
    }
    let field = Field::new(arena)?;
    subjects.iter().for_each(Subject::end);
    let mut turns: Vec<Vec<Turn>> = subjects.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for place in 0..subjects.len() {
            let at = (place + round) % subjects.len();
            let subject = &subjects[at];
            let load = if matches!(subject, Subject::Intel(_)) { intel } else { usual };
            // No name comes twice: what plays kubelets may still hold something for the one who had it before.
            let turn = field.turn(subject, load, &format!("{round}-{at}")).await?;
            println!("  {:<20} {}", subject.name(), turn.told());
            turns[at].push(turn);
        }
    }
    conclude(&subjects, &turns);
    println!("load average at the end {}", load_average());
    Ok(())
}

/// Where all show what they can.
struct Field {
    arena: Arena,
    scheduler: Arc<Component>,
    elsewhere: [Arc<Component>; 2],
}

impl Field {
    fn new(arena: Arena) -> Result<Self, Trouble> {
        let component = |name| arena.cluster.component(name);
        let scheduler = component("kube-scheduler")?;
        scheduler.kill();
        let elsewhere = [component("kwok")?, component("kube-controller-manager")?];
        Ok(Self { arena, scheduler, elsewhere })
    }

    fn cluster(&self) -> &Cluster {
        &self.arena.cluster
    }

    /// From its start, which is no part of what is measured, to its end.
    async fn turn(&self, subject: &Subject, load: Load, batch: &str) -> Result<Turn, Trouble> {
        subject.wake(&self.arena).await?;
        let asking = subject.asking();
        pods::create(self.cluster(), &format!("burst-{batch}"), load.burst, asking).await?;
        let mut bindings = Bindings::begin(self.cluster(), load.burst).await?;
        self.elsewhere.iter().try_for_each(|component| component.pause())?;
        let passed_over = self.passed_over();
        tokio::time::sleep(SETTLE).await;
        let scheduler = subject.scheduler(&self.arena);
        let started = async { Ok::<_, Trouble>(self.cluster().reconfigure_scheduler(&scheduler).await?) };
        let (burst, ()) = tokio::try_join!(self.burst(subject, &mut bindings, load.burst), started)?;
        let nodes = bindings.nodes();
        let answered = subject.answered().await?.map(|answered| answered / f64::from(load.burst));
        pods::delete_all(self.cluster()).await?;

        tokio::time::sleep(SETTLE).await;
        let before = self.attempts().await?;
        let batch = format!("single-{batch}");
        pods::create_every(self.cluster(), (&batch, load.single), asking, load.apart).await?;
        bindings.follow(load.single, |_| ()).await?;
        let attempts = until("the scheduler to have counted its attempts", PATIENCE, || async {
            let since = self.attempts().await.map_err(|error| error.to_string())?.since(&before);
            if since.count >= f64::from(load.single) { Ok(since) } else { Err(format!("{}", since.count)) }
        })
        .await?;
        self.scheduler.kill();
        subject.end();
        pods::delete_all(self.cluster()).await?;
        self.elsewhere.iter().try_for_each(|component| component.resume())?;
        let milliseconds = |figure: Option<f64>| figure.ok_or("the scheduler has counted no attempt");
        Ok(Turn {
            per_second: burst.per_second,
            scheduler_ms: burst.scheduler_ms,
            extender_ms: burst.extender_ms,
            answered,
            nodes,
            skipped: self.passed_over() - passed_over,
            mean: milliseconds(attempts.mean())?,
            p50: milliseconds(attempts.quantile(0.5))?,
            p99: milliseconds(attempts.quantile(0.99))?,
        })
    }

    /// From the binding after the warm-up to the last one.
    async fn burst(&self, subject: &Subject, bindings: &mut Bindings, pods: u32) -> Result<Burst, Trouble> {
        let spent = || [arena::spent(&[&self.scheduler]), arena::spent(&subject.components())];
        let warm = (pods / WARM_UP).max(1);
        let mut first = None;
        let note = |number| {
            if number == warm {
                first = Some((Instant::now(), spent()));
            }
        };
        bindings.follow(pods, note).await?;
        let (began, before) = first.ok_or("no pod was bound")?;
        let (took, after) = (began.elapsed(), spent());
        let counted = f64::from(pods - warm);
        let per_pod = |at: usize| after[at].saturating_sub(before[at]).as_secs_f64() * 1e3 / counted;
        Ok(Burst {
            per_second: counted / took.as_secs_f64(),
            scheduler_ms: per_pod(0),
            extender_ms: per_pod(1),
        })
    }

    async fn attempts(&self) -> Result<Attempts, Trouble> {
        Ok(Attempts::read(&self.cluster().scheduler_metrics(self.scheduler.name()).await?)?)
    }

    /// How often the scheduler has said so far that it goes on without its extender.
    fn passed_over(&self) -> usize {
        self.scheduler.log().matches("Skipping extender as it returned error").count()
    }
}

/// What a burst gave.
struct Burst {
    per_second: f64,
    scheduler_ms: f64,
    extender_ms: f64,
}

impl Turn {
    fn told(&self) -> String {
        let answered = self.answered.map(|answered| format!(", {answered:.2} answers")).unwrap_or_default();
        let skipped = match self.skipped {
            0 => String::new(),
            times => format!("; WENT ON WITHOUT AN ANSWER {times} times"),
        };
        format!(
            "{:>6.1} pods/s; for each {:.2} ms CPU of the scheduler, {:.2} of the extender{answered}; {} nodes; one by one p50 {:.2}, \
             p99 {:.2}, mean {:.2} ms{skipped}",
            self.per_second, self.scheduler_ms, self.extender_ms, self.nodes, self.p50, self.p99, self.mean
        )
    }
}

/// What came out, beside the budgets.
fn conclude(subjects: &[Subject], turns: &[Vec<Turn>]) {
    println!(
        "\nmedian (least to most); CPU in ms for a pod of the burst, attempts in ms when pods come one by one"
    );
    println!(
        "{:<20} {:>24} {:>20} {:>20} {:>20} {:>20} {:>20} {:>20}",
        "",
        "pods/s",
        "of no extender",
        "CPU scheduler",
        "CPU extender",
        "attempt p50",
        "attempt mean",
        "attempt p99"
    );
    for (subject, own) in subjects.iter().zip(turns) {
        let column = |of: fn(&Turn) -> f64| shown(Spread::of(own.iter().map(of)));
        let rates = Spread::of(own.iter().map(|turn| turn.per_second));
        println!(
            "{:<20} {:>24} {:>20} {:>20} {:>20} {:>20} {:>20} {:>20}",
            subject.name(),
            rates.map(|rates| format!("{rates:.1}")).unwrap_or_default(),
            shown(pairs(own, &turns[0], |one, other| one.per_second / other.per_second)),
            column(|turn| turn.scheduler_ms),
            column(|turn| turn.extender_ms),
            column(|turn| turn.p50),
            column(|turn| turn.mean),
            column(|turn| turn.p99),
        );
    }
    println!("\nbudgets");
    let (ours, rate) = (&turns[2], |one: &Turn, other: &Turn| one.per_second / other.per_second);
    if let Some(ratio) = pairs(ours, &turns[1], rate) {
        let kept = verdict(ratio.median >= LEAST_OF_NOTHING);
        println!("  pods/s tas / do-nothing in Go: {ratio:.3} (at least {LEAST_OF_NOTHING}): {kept}");
    }
    if let Some(ratio) = turns.get(3).and_then(|theirs| pairs(ours, theirs, rate)) {
        let kept = verdict(ratio.median >= LEAST_OF_INTEL);
        println!("  pods/s tas / Intel TAS: {ratio:.0} (at least {LEAST_OF_INTEL}): {kept}");
    }
    let added = |one: &Turn, other: &Turn| one.p50 - other.p50;
    if let Some(added) = pairs(ours, &turns[0], added) {
        let kept = verdict(added.median <= MOST_ADDED_MS);
        println!("  attempt p50 tas - no extender: {added} ms (at most {MOST_ADDED_MS} ms): {kept}");
    }
    if let Some(added) = pairs(ours, &turns[1], added) {
        println!("  attempt p50 tas - do-nothing in Go: {added} ms");
    }
}

/// Round by round, so that what the machine did besides meets both.
fn pairs(own: &[Turn], others: &[Turn], compare: impl Fn(&Turn, &Turn) -> f64) -> Option<Spread> {
    Spread::of(own.iter().zip(others).map(|(one, other)| compare(one, other)))
}

fn shown(spread: Option<Spread>) -> String {
    spread.map_or("-".to_owned(), |spread| spread.to_string())
}

fn verdict(kept: bool) -> &'static str {
    if kept { "kept" } else { "NOT KEPT" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intel_tas_gets_a_fiftieth_of_the_burst_but_not_too_few() {
        let bursts = [50, 2_000].map(|pods| (Load::usual(pods).burst, Load::of_intel(pods).burst));
        assert_eq!(bursts, [(50, 10), (2_000, 40)]);
        assert_eq!([50, 2_000].map(|pods| Load::usual(pods).single), [50, 200]);
    }

    #[test]
    fn rounds_are_compared_one_with_one() {
        let turn = |per_second| Turn {
            per_second,
            scheduler_ms: 0.0,
            extender_ms: 0.0,
            answered: None,
            nodes: 0,
            skipped: 0,
            mean: 0.0,
            p50: 0.0,
            p99: 0.0,
        };
        let (ours, others) = ([10.0, 40.0].map(turn), [10.0, 20.0].map(turn));
        assert_eq!(
            pairs(&ours, &others, |one, other| one.per_second / other.per_second),
            Some(Spread { median: 1.5, least: 1.0, most: 2.0 })
        );
    }
}
