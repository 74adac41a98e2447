//! What planning costs: all policies on all nodes, from quiet to the worst that can be.

use std::sync::Arc;
use std::time::Duration;

use divan::Bencher;
use engine::fixtures::at;
use engine::plan::{Ledger, Limits, NodeMarks, Observed, ObservedPolicy, Plan, Rate, plan};
use engine::time::Timestamp;
use engine::{Batch, Memory, Sample, View, advance};

use crate::cpu;
use crate::engine_cost::{NODES, POLICIES, inputs, samples};

const ROUNDS: u32 = 20;

/// A leader's pass over a cluster, in the state that a bench wants.
struct Reign {
    view: View,
    observed: Observed,
    ledger: Ledger,
}

/// What the metrics say.
#[derive(Clone, Copy)]
enum Weather {
    /// Four nodes of a hundred violate each policy.
    Usual,
    /// Every node violates every policy.
    AllHot,
    /// Nothing is known of any node.
    Dark,
}

impl Reign {
    fn new(weather: Weather) -> Self {
        let mut inputs = inputs(NODES, POLICIES);
        inputs.samples = samples(&inputs.nodes, 0);
        if let Weather::AllHot = weather {
            for Batch { samples, .. } in &mut inputs.samples {
                for (_, sample) in samples {
                    *sample = Sample { value: 99.into(), ..*sample };
                }
            }
        }
        let (view, _, _) = advance(&View::default(), Memory::default(), &inputs, at(0));
        let nodes = view.nodes.names().iter().map(|name| (name.clone(), Arc::<NodeMarks>::default()));
        let policies = inputs.policies.iter().map(|policy| (policy.name.clone(), ObservedPolicy::default()));
        let mut observed =
            Observed { nodes: nodes.collect(), policies: policies.collect(), ..Observed::default() };
        observed.settings.limits = unlimited();
        Self { view, observed, ledger: Ledger::default() }
    }

    fn pass(&mut self, now: Timestamp) -> Plan {
        let (plan, ledger) = plan(&self.view, &self.observed, std::mem::take(&mut self.ledger), now);
        self.ledger = ledger;
        plan
    }

    /// Where everything planned has been done.
    fn settled(mut self) -> Self {
        let plan = self.pass(at(0));
        self.observed = self.observed.after(&plan);
        self
    }

    /// Long after the last sample.
    fn gone_dark(mut self) -> Self {
        self.pass(at(200));
        self
    }
}

/// The budget's own figures: CPU of one pass.
pub(crate) fn passes() {
    println!("one plan for {POLICIES} policies x {NODES} nodes, {ROUNDS} rounds (budget 50 ms)");
    let report = |what: &str, mut round: Box<dyn FnMut() -> (Duration, usize)>| {
        let (mut total, mut worst, mut writes) = (Duration::ZERO, Duration::ZERO, 0);
        for _ in 0..ROUNDS {
            let (spent, written) = round();
            (total, worst, writes) = (total + spent, worst.max(spent), writes.max(written));
        }
        println!(
            "  {what}: CPU mean {:.1?}, worst {worst:.1?}, at most {writes} nodes written",
            total / ROUNDS
        );
    };
    for (what, weather, now) in [
        ("steady, 4 % violating", Weather::Usual, 1),
        ("steady, every node violates every policy", Weather::AllHot, 1),
        ("nothing known, every node marked for every policy", Weather::Dark, 201),
    ] {
        let settled =
            Reign::new(if let Weather::Dark = weather { Weather::AllHot } else { weather }).settled();
        let mut reign = if let Weather::Dark = weather { settled.gone_dark() } else { settled };
        report(what, Box::new(move || timed(&mut reign, at(now))));
    }
    for (what, weather) in [
        ("first, 4 % violating", Weather::Usual),
        ("first, every node violates every policy", Weather::AllHot),
    ] {
        for (limit, limits) in [("as limited", Limits::default()), ("without limit", unlimited())] {
            let mut fresh = Reign::new(weather);
            fresh.observed.settings.limits = limits;
            report(&format!("{what}, {limit}"), Box::new(move || timed(&mut fresh.clone(), at(0))));
        }
    }
    println!();
}

/// What a plan costs at its largest, however it is spread out in earnest.
fn unlimited() -> Limits {
    Limits { cluster: Rate { burst: u32::MAX, every: Duration::from_nanos(1) }, ..Limits::default() }
}

impl Clone for Reign {
    fn clone(&self) -> Self {
        Self { view: self.view.clone(), observed: self.observed.clone(), ledger: self.ledger.clone() }
    }
}

fn timed(reign: &mut Reign, now: Timestamp) -> (Duration, usize) {
    let start = cpu::used();
    let plan = reign.pass(now);
    (cpu::used().saturating_sub(start), plan.nodes.len())
}

/// A pass that finds nothing to do.
#[divan::bench]
fn plan_in_steady_state(bencher: Bencher) {
    let reign = Reign::new(Weather::Usual).settled();
    bencher
        .with_inputs(|| reign.ledger.clone())
        .bench_values(|ledger| plan(&reign.view, &reign.observed, ledger, at(1)));
}

/// A pass that marks every node that violates something.
#[divan::bench]
fn plan_of_a_new_leader(bencher: Bencher) {
    let reign = Reign::new(Weather::Usual);
    bencher.bench(|| plan(&reign.view, &reign.observed, Ledger::default(), at(0)));
}
