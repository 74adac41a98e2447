//! What `tas-agent` costs beside node_exporter and collectd, and whether they say the same.
//!
//! All run as processes of their own and take turns in one run. CPU is what the kernel counted for the process. What the
//! machine does besides still shows in it, since it empties caches, but only ever adds: the figure is the lower quartile
//! of the rounds.

mod agreement;
mod scrape;
mod subjects;

use std::io;
use std::path::Path;
use std::time::Duration;

use agent::fixtures::Tree;
use agreement::Agreement;
use scrape::Manner;
use subjects::{Programs, Subject};

const ROUNDS: usize = 20;
/// How long nobody asks, for the idle figure.
const IDLE: Duration = Duration::from_secs(20);
/// How often values are compared: gauges move between two looks.
const LOOKS: usize = 12;
/// collectd reads at this interval where its values are compared, and serves what it read.
const COLLECTD_READS_EVERY: u32 = 1;

/// What one host may cost.
struct Budget {
    scrape_ms: f64,
    resident: Option<u64>,
}

const SMALL: Budget = Budget { scrape_ms: 0.5, resident: Some(6_000_000) };
/// For the memory of a host full of pods there is no budget; it is reported.
const LARGE: Budget = Budget { scrape_ms: 3.0, resident: None };
const LARGE_SERIES: usize = 6_800;
const RATIO_BUDGET: f64 = 0.1;
const IDLE_BUDGET_PERCENT: f64 = 0.1;
const PROGRAM_BUDGET: u64 = 5_000_000;

pub(crate) fn run() -> io::Result<()> {
    let programs = Programs::find()?;
    let directory = tempfile::tempdir()?;
    println!(
        "tas-agent beside its peers, {ROUNDS} alternating rounds; CPU of the process, lower quartile (least to most)"
    );
    println!("load average at the start: {}", crate::cpu::load_average());
    if !programs.has_collectd() {
        println!("collectd is not installed, so it is left out; on Debian: apt-get install collectd-core");
    }

    let here = Path::new("/");
    println!("\nThis host, the collectors that both have, node_exporter's names");
    let pair = [programs.ours_alike(here)?, programs.node_exporter_alike(here)?];
    measure(&pair, 60, &SMALL)?;

    println!("\nThis host, each as it comes (ours with all three sets of names)");
    let pair = [programs.ours_whole(here)?, programs.node_exporter_whole()?];
    measure(&pair, 60, &SMALL)?;
    drop(pair);

    if let Some(collectd) = programs.collectd(directory.path(), 10)? {
        println!(
            "\nThis host, the plugins that both have, collectd's names (it reads every 10 s and serves a copy; ours reads when asked)"
        );
        let pair = [programs.ours_as_collectd()?, collectd];
        measure(&pair, 200, &SMALL)?;
    }

    let tree = directory.path().join("host");
    std::fs::create_dir_all(&tree)?;
    Tree::at(&tree).large();
    println!(
        "\nA made host with 128 CPUs, 2 sockets, 8 NUMA nodes, 170 interfaces, the collectors that both have"
    );
    let pair = [programs.ours_alike(&tree)?, programs.node_exporter_alike(&tree)?];
    measure(&pair, 20, &LARGE)?;
    let peer = std::slice::from_ref(&pair[1]);
    agree("the made host", &tree, &peer[0], &pair[0], Duration::ZERO, 2)?;
    drop(pair);
    println!("\nThe same host, everything on (110 pods, all three sets of names), alone");
    let whole = [programs.ours_whole(&tree)?];
    let series = scrape::series(&scrape::page(whole[0].address)?);
    println!(
        "{}",
        verdict(&format!("{series} series"), series >= LARGE_SERIES, &format!("at least {LARGE_SERIES}"))
    );
    measure(&whole, 40, &LARGE)?;
    drop(whole);

    let pair = [programs.ours_alike(here)?, programs.node_exporter_alike(here)?];
    agree("this host", here, &pair[1], &pair[0], Duration::ZERO, LOOKS)?;
    if let Some(collectd) = programs.collectd(directory.path(), COLLECTD_READS_EVERY)? {
        let ours = programs.ours_as_collectd()?;
        // It has to have read twice before it says anything, and once more before what it says is newer than ours.
        std::thread::sleep(Duration::from_secs(3));
        agree("this host", here, &collectd, &ours, Duration::from_millis(2_200), LOOKS / 2)?;
    }
    Ok(())
}

/// Figures of one subject: a row of CPU times for each manner, one value a round.
struct Figures {
    cpu: Vec<Vec<f64>>,
}

/// Measures subjects in turns and prints their table; the first one is ours.
fn measure(subjects: &[Subject], scrapes: usize, budget: &Budget) -> io::Result<()> {
    for subject in subjects {
        scrape::scrape(subject.address, Manner::New, 20)?;
    }
    let before: Vec<Duration> = subjects.iter().map(Subject::spent).collect();
    std::thread::sleep(IDLE);
    let idle = |(subject, before): (&Subject, &Duration)| {
        subject.spent().saturating_sub(*before).as_secs_f64() / IDLE.as_secs_f64() * 100.0
    };
    let idle: Vec<f64> = subjects.iter().zip(&before).map(idle).collect();
    let mut figures: Vec<Figures> =
        subjects.iter().map(|_| Figures { cpu: vec![Vec::new(); Manner::ALL.len()] }).collect();
    for round in 0..ROUNDS {
        for (place, manner) in Manner::ALL.into_iter().enumerate() {
            for turn in 0..subjects.len() {
                let at = (turn + round) % subjects.len();
                let before = subjects[at].spent();
                scrape::scrape(subjects[at].address, manner, scrapes)?;
                let spent = subjects[at].spent().saturating_sub(before);
                figures[at].cpu[place].push(spent.as_secs_f64() * 1e3 / as_float(scrapes));
            }
        }
    }
    println!(
        "{:<14} {:>7} {:>8} {:>24} {:>24} {:>24} {:>10} {:>14} {:>9}",
        "",
        "series",
        "bytes",
        "ms CPU, new connection",
        "ms CPU, kept",
        "ms CPU, kept, gzip",
        "idle CPU",
        "RSS (peak) MB",
        "program"
    );
    for ((subject, figures), idle) in subjects.iter().zip(&figures).zip(&idle) {
        let page = scrape::page(subject.address)?;
        let (resident, peak) = subject.resident();
        println!(
            "{:<14} {:>7} {:>8} {:>24} {:>24} {:>24} {:>10} {:>14} {:>9}",
            subject.name,
            scrape::series(&page),
            page.len(),
            spread(&figures.cpu[0]),
            spread(&figures.cpu[1]),
            spread(&figures.cpu[2]),
            format!("{idle:.3} %"),
            format!("{:.1} ({:.1})", megabytes(resident), megabytes(peak)),
            format!("{:.1} MB", megabytes(subject.program_bytes())),
        );
    }
    judge(subjects, &figures, &idle, budget);
    Ok(())
}

/// The budgets, each with what was measured.
fn judge(subjects: &[Subject], figures: &[Figures], idle: &[f64], budget: &Budget) {
    let kept = |what: String, kept: bool, budget: String| println!("{}", verdict(&what, kept, &budget));
    for (place, manner) in Manner::ALL.into_iter().enumerate() {
        let name = manner.name();
        let ours = subjects[0].firm(&figures[0].cpu[place]);
        kept(
            format!("{name}: {ours:.3} ms"),
            ours <= budget.scrape_ms,
            format!("at most {} ms", budget.scrape_ms),
        );
        for (subject, theirs) in subjects.iter().zip(figures).skip(1) {
            // The same figure of both, whichever the coarser account allows.
            let ratio = subject.firm(&figures[0].cpu[place]) / subject.firm(&theirs.cpu[place]);
            let text = format!("{name}: {ratio:.3} of {}", subject.name);
            if subject.name == "node_exporter" {
                kept(text, ratio <= RATIO_BUDGET, format!("at most {RATIO_BUDGET}"));
            } else {
                println!("  {text}");
            }
        }
    }
    let (resident, _) = subjects[0].resident();
    let program = subjects[0].program_bytes();
    kept(format!("idle: {:.3} %", idle[0]), idle[0] <= IDLE_BUDGET_PERCENT, "at most 0.1 %".to_owned());
    let used = format!("RSS: {:.1} MB", megabytes(resident));
    match budget.resident {
        Some(most) => kept(used, resident <= most, format!("at most {:.0} MB", megabytes(most))),
        None => println!("  {used}"),
    }
    kept(
        format!("program: {:.2} MB", megabytes(program)),
        program <= PROGRAM_BUDGET,
        "at most 5 MB".to_owned(),
    );
}

fn verdict(what: &str, kept: bool, budget: &str) -> String {
    format!("  {what} ({}: {budget})", if kept { "kept" } else { "NOT KEPT" })
}

/// Compares values and prints the table.
fn agree(
    host: &str,
    root: &Path,
    peer: &Subject,
    ours: &Subject,
    wait: Duration,
    looks: usize,
) -> io::Result<()> {
    let mut agreement = Agreement::default();
    let page = |of: &Subject| {
        agreement::read(&scrape::page(of.address)?, root)
            .map_err(|error| io::Error::other(format!("{}: {error}", of.name)))
    };
    for _ in 0..looks {
        let before = page(peer)?;
        let middle = page(ours)?;
        std::thread::sleep(wait);
        agreement.look(&before, &middle, &page(peer)?);
    }
    println!("\nValues of {host}, {} asked before and after ours, {looks} times", peer.name);
    println!(
        "{:<52} {:<8} {:>6} {:>11} {:>9} {:>8}",
        "family", "type", "shared", "only theirs", "only ours", ""
    );
    let (shared, apart): (Vec<_>, Vec<_>) =
        agreement.families.iter().partition(|(_, family)| family.shared > 0);
    for (name, family) in &shared {
        let word =
            if family.agrees() { "agrees".to_owned() } else { format!("{:.1} % off", family.off * 100.0) };
        println!(
            "{name:<52} {:<8} {:>6} {:>11} {:>9} {word:>8}",
            family.kind, family.shared, family.only_theirs, family.only_ours
        );
    }
    let agreeing = shared.iter().filter(|(_, family)| family.agrees()).count();
    println!("{agreeing} of {} shared families agree", shared.len());
    let names = |theirs: bool| {
        let of = apart.iter().filter(|(_, family)| (family.only_theirs > 0) == theirs);
        of.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
    };
    println!("only {}: {}\nonly tas-agent: {}", peer.name, names(true), names(false));
    Ok(())
}

fn lower_quartile(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 4).copied().unwrap_or_default()
}

fn spread(values: &[f64]) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    format!("{:.3} ({least:.3} to {most:.3})", lower_quartile(values))
}

fn as_float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn megabytes(bytes: u64) -> f64 {
    as_float(usize::try_from(bytes / 1000).unwrap_or(usize::MAX)) / 1000.0
}
