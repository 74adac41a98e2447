//! What the engine costs: one refresh of a large cluster, and one answer by the number of names.

use std::time::Duration;

use divan::Bencher;
use engine::fixtures::{at, key, metric, number, policy, preference, rule};
use engine::names::NodeName;
use engine::policy::{Combine, Operator, Policy};
use engine::{Batch, Inputs, Memory, NodeIndex, Sample, View, advance, answer, scores};

use crate::cpu;

pub(crate) const NODES: usize = 5_000;
const METRICS: usize = 50;
pub(crate) const POLICIES: usize = 100;
const ROUNDS: u32 = 20;

pub(crate) fn run() {
    refresh();
    crate::plan_cost::passes();
    divan::Divan::default().skip_regex("extender_cost").run_benches();
}

/// The budget's own figure: CPU of one refresh in steady state, and what it leaves resident.
fn refresh() {
    let before = cpu::resident();
    let mut inputs = inputs(NODES, POLICIES);
    let (mut view, mut memory) = (View::default(), Memory::default());
    let mut worst = Duration::ZERO;
    let mut total = Duration::ZERO;
    for round in 0..i64::from(ROUNDS) {
        inputs.samples = samples(&inputs.nodes, round);
        let start = cpu::used();
        let (next, kept, _) = advance(&view, memory, &inputs, at(round * 5));
        let spent = cpu::used().saturating_sub(start);
        (view, memory) = (next, kept);
        if round > 0 {
            worst = worst.max(spent);
            total += spent;
        }
    }
    inputs.samples = Vec::new();
    let resident = cpu::resident().saturating_sub(before) / 1_000_000;
    println!("one refresh of {POLICIES} policies x {NODES} nodes x {METRICS} metrics, {ROUNDS} rounds");
    println!("  CPU mean {:.1?}, worst {worst:.1?} (budget 100 ms)", total / (ROUNDS - 1));
    println!("  resident afterwards +{resident} MB (budget for the whole process 100 MB)\n");
}

pub(crate) fn node_name(place: usize) -> String {
    format!("ip-10-{}-{}.eu-west-1.compute.internal", place / 250, place % 250)
}

fn policy_of(place: usize) -> Policy {
    let name = |offset: usize| format!("metric_{:02}", (place + offset) % METRICS);
    let mut held = rule(&name(1), Operator::GreaterThan, "90");
    held.hold = Duration::from_secs(30);
    held.threshold = held.threshold.with_clear(number("80")).unwrap_or(held.threshold);
    policy(&format!("policy-{place:03}"))
        .dont_schedule(Combine::AnyOf, [rule(&name(0), Operator::GreaterThan, "90"), held])
        .deschedule(Combine::AnyOf, [rule(&name(0), Operator::GreaterThan, "95")])
        .prefer([preference(&name(2), Operator::LessThan)])
}

pub(crate) fn inputs(nodes: usize, policies: usize) -> Inputs {
    let names = (0..nodes).filter_map(|place| NodeName::new(&node_name(place)).ok());
    Inputs {
        nodes: NodeIndex::new(names).into(),
        policies: (0..policies).map(|place| policy_of(place).into()).collect(),
        ..Inputs::default()
    }
}

pub(crate) fn samples(nodes: &NodeIndex, round: i64) -> Vec<Batch> {
    let batch = |(place, number): (usize, i64)| {
        let value = |(node, step): (engine::NodeIx, i64)| {
            let mixed = (step * 31 + number * 17 + round * 7) % 100;
            (node, Sample::new(mixed.into(), at(round * 5)))
        };
        Batch {
            metric: metric(&format!("metric_{place:02}")),
            samples: nodes.all().zip(0..).map(value).collect(),
        }
    };
    (0..METRICS).zip(0..).map(batch).collect()
}

pub(crate) fn view(nodes: usize, policies: usize) -> View {
    let mut inputs = inputs(nodes, policies);
    inputs.samples = samples(&inputs.nodes, 0);
    advance(&View::default(), Memory::default(), &inputs, at(0)).0
}

fn asked(names: usize) -> Vec<String> {
    (0..names).map(node_name).collect()
}

/// Linear in the names asked about.
#[divan::bench(args = [100, 1_000, 5_000])]
fn filter_by_names(bencher: Bencher, names: usize) {
    let (view, names) = (view(NODES, POLICIES), asked(names));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    bencher.bench(|| answer(&view, key("policy-050"), &names, at(1)));
}

/// Linear in the names asked about.
#[divan::bench(args = [100, 1_000, 5_000])]
fn score_by_names(bencher: Bencher, names: usize) {
    let (view, names) = (view(NODES, POLICIES), asked(names));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    bencher.bench(|| scores(&view, key("policy-050"), &names, 10, at(1)));
}

/// Independent of how many policies there are.
#[divan::bench(args = [10, 100, 1_000])]
fn filter_1000_names_by_policies(bencher: Bencher, policies: usize) {
    let (view, names) = (view(1_000, policies), asked(1_000));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    bencher.bench(|| answer(&view, key("policy-005"), &names, at(1)));
}

/// Independent of how large the cluster is.
#[divan::bench(args = [1_000, 5_000, 20_000])]
fn filter_1000_names_by_cluster(bencher: Bencher, nodes: usize) {
    let (view, names) = (view(nodes, 10), asked(1_000));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    bencher.bench(|| answer(&view, key("policy-005"), &names, at(1)));
}
