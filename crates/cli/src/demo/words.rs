//! What happened, in words: for the screen, and for plain lines.

use api::marks::{label_key, taint_key};
use engine::plan::{Act, Deed, LabelKey, MarkKey, VIOLATING};
use engine::policy::{Mode, OnMissing};
use engine::quantity::Quantity;
use engine::reason::unit;
use engine::time::Spoken;
use engine::{Reason, Verdict};
use sim::{Decision, Happening, Kind, Signal, Trial, Trouble, What};

use super::canvas::Ink;

/// Words with their ink.
pub(crate) type Line = Vec<(Ink, String)>;

/// Virtual time the way a player shows it: `1:42`.
pub(crate) fn clock(second: u32) -> String {
    match (second / 3600, second / 60 % 60, second % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// A value in the steps that matter beside its line, always as long: `34.1 W`, `0.512`, `68.7G B`.
pub(crate) fn value(signal: &Signal, value: Quantity) -> String {
    const NANOS: i128 = 1_000_000_000;
    let unit = unit(signal.metric.as_str());
    let decimals = match signal.line.abs().nanos() / NANOS {
        1000.. => return format!("{}{unit}", rounded(value).brief()),
        10.. => 1,
        1.. => 2,
        _ => 3,
    };
    let step = NANOS / 10_i128.pow(decimals);
    let steps = (value.nanos().saturating_add(value.nanos().signum() * step / 2)) / step;
    let scale = 10_i128.pow(decimals);
    let sign = if steps < 0 { "-" } else { "" };
    let width = decimals as usize;
    format!("{sign}{}.{:0width$}{unit}", (steps / scale).abs(), (steps % scale).abs())
}

/// To three digits.
fn rounded(value: Quantity) -> Quantity {
    let digits = value.nanos().unsigned_abs().checked_ilog10().unwrap_or(0);
    let step = 10_i128.pow(digits.saturating_sub(2));
    Quantity::from_nanos(value.nanos() / step * step)
}

/// `30 W`.
pub(crate) fn line(signal: &Signal) -> String {
    format!("{}{}", signal.line.brief(), unit(signal.metric.as_str()))
}

/// `over 30 W`, or what else the policy does not want.
pub(crate) fn limit(trial: &Trial) -> String {
    match trial.signals().main() {
        None => "over the line".to_owned(),
        Some(signal) if signal.is_falling() => format!("under {}", line(signal)),
        Some(signal) => format!("over {}", line(signal)),
    }
}

fn node(trial: &Trial, machine: usize) -> String {
    trial.scenario().machines.get(machine).map_or_else(String::new, |machine| machine.name.clone())
}

/// One happening as a line.
pub(crate) fn told(trial: &Trial, happening: &Happening) -> Line {
    let node = |machine: usize| node(trial, machine);
    match &happening.what {
        What::Decided(decision) => decided(trial, decision),
        What::Moved { pod, from, to, reason } => {
            let why = reason.as_ref().map_or_else(String::new, |reason| format!(": {}", reason.numbers()));
            let moved = format!("pod-{} moves from {} to {}", pod + 1, node(*from), node(*to));
            vec![(Ink::Title, moved), (Ink::Plain, why)]
        }
        What::Marked { machine, deed } => marked(&node(*machine), deed),
        What::Heats { machine } => {
            vec![(Ink::Warm, format!("{} {}", node(*machine), trouble(trial)))]
        }
        What::Cools { machine } => vec![(Ink::Good, format!("{} recovers", node(*machine)))],
        What::SensorDies { machine } => {
            vec![(Ink::Unknown, format!("the sensor of {} falls silent", node(*machine)))]
        }
        What::SensorSpeaks { machine } => {
            vec![(Ink::Good, format!("the sensor of {} speaks again", node(*machine)))]
        }
        What::BecomesUnknown { machine, reason } => {
            vec![(Ink::Unknown, format!("{} is {}", node(*machine), reason.numbers()))]
        }
        What::PassesAgain { machine } => vec![(Ink::Good, format!("{} passes again", node(*machine)))],
    }
}

/// A mark that came or went.
fn marked(node: &str, deed: &Deed) -> Line {
    let mark = match &deed.mark {
        MarkKey::Label(key @ LabelKey::Violating(_)) => format!("label {}={VIOLATING}", label_key(key)),
        MarkKey::Label(key) => format!("label {}", label_key(key)),
        MarkKey::Taint(policy) => format!("taint {}", taint_key(policy)),
    };
    let (ink, verb) = match deed.act {
        Act::Added | Act::Changed | Act::Adopted => (Ink::Warm, "gets"),
        Act::Removed | Act::Released | Act::Swept => (Ink::Good, "loses"),
    };
    let why = deed.reason.as_ref().map_or_else(String::new, |reason| format!(": {}", reason.numbers()));
    vec![(ink, format!("{node} {verb} the {mark}")), (Ink::Plain, why)]
}

fn decided(trial: &Trial, decision: &Decision) -> Line {
    let mut line = match decision.to {
        Some(machine) => {
            vec![(Ink::Plain, format!("{:7} → {}", pod_name(decision.pod), node(trial, machine)))]
        }
        None => vec![(Ink::Warm, format!("{:7} waits", pod_name(decision.pod)))],
    };
    // What is seen tells more than what is expected.
    let seen = |(_, reason): &&(usize, Option<Reason>)| !matches!(reason, Some(Reason::Expected { .. }));
    if let Some((machine, reason)) = decision.refused.iter().find(seen).or(decision.refused.first()) {
        let why = reason.as_ref().map_or_else(String::new, |reason| format!(": {}", reason.numbers()));
        line.push((Ink::Bad, format!("   {} refused", node(trial, *machine))));
        line.push((Ink::Plain, why));
        if decision.refused.len() > 1 {
            line.push((Ink::Dim, format!(", and {} more", decision.refused.len() - 1)));
        }
    }
    line
}

fn pod_name(pod: usize) -> String {
    format!("pod-{}", pod + 1)
}

/// What goes wrong with a machine, in the policy's terms.
fn trouble(trial: &Trial) -> &'static str {
    match trial.signals().main().map(|signal| signal.kind) {
        Some(Kind::Power | Kind::Temperature) => "heats up, and no pod explains it",
        Some(Kind::Memory) => "leaks memory, and no pod explains it",
        Some(Kind::Other) | None => "struggles, and no pod explains it",
    }
}

/// The sentence of the moment: where the story stands.
pub(crate) fn caption(trial: &Trial) -> Line {
    const AFTERGLOW_S: u32 = 30;
    let at_s = trial.passed_s().saturating_sub(1);
    let of_now = |kind: fn(Trouble) -> bool| {
        trial
            .scenario()
            .incidents
            .iter()
            .rev()
            .find(|incident| kind(incident.trouble) && incident.from_s <= at_s)
    };
    let heat = of_now(|trouble| matches!(trouble, Trouble::Heat { .. }));
    let silence = of_now(|trouble| trouble == Trouble::SensorDead);
    let name = |machine: usize| node(trial, machine);
    match (heat, silence) {
        (_, Some(silence)) if at_s < silence.to_s => silent(trial, silence.machine),
        (Some(heat), _) if at_s < heat.to_s => {
            vec![(Ink::Warm, format!("{} {}", name(heat.machine), trouble(trial)))]
        }
        (_, Some(silence)) if at_s < silence.to_s + AFTERGLOW_S => {
            vec![(Ink::Good, format!("{} is well again, and its sensor speaks", name(silence.machine)))]
        }
        _ => {
            vec![(Ink::Plain, "Pods arrive. What they asked for says little about what they use.".to_owned())]
        }
    }
}

/// A node whose sensor says nothing: what that means by now.
fn silent(trial: &Trial, machine: usize) -> Line {
    let reading = trial.with().readings().into_iter().nth(machine);
    if let Some(reason) = reading.filter(|r| r.verdict == Verdict::Unknown).and_then(|r| r.reason) {
        return vec![
            (Ink::Unknown, format!("{} is {}", node(trial, machine), reason.numbers())),
            (Ink::Plain, format!(": {}", about_unknown(trial))),
        ];
    }
    let age = trial.policy().rules().map(|rule| rule.max_age).max().unwrap_or_default();
    vec![
        (Ink::Unknown, format!("The sensor of {} is silent", node(trial, machine))),
        (Ink::Plain, format!("; its last word counts for {}", Spoken(age))),
    ]
}

fn about_unknown(trial: &Trial) -> &'static str {
    match (trial.policy().mode, trial.policy().on_missing) {
        (Mode::Shadow, _) => "the policy only watches",
        (Mode::Enforce, OnMissing::Deny) => "the policy refuses what nobody can judge",
        (Mode::Enforce, OnMissing::Allow) => "the policy lets it pass, and prefers any other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_mark_is_named_as_it_stands_on_the_node() {
        let card = LabelKey::Won { policy: "power".into(), key: "card0".into() };
        let said = |act, mark| -> String {
            let line = marked("n1", &Deed { act, mark, policy: None, reason: None });
            line.into_iter().map(|(_, text)| text).collect()
        };
        for (act, mark, words) in [
            (
                Act::Added,
                MarkKey::Label(LabelKey::Violating("power".into())),
                "gets the label power=violating",
            ),
            (
                Act::Changed,
                MarkKey::Label(card.clone()),
                "gets the label telemetry.aware.scheduling.power/card0",
            ),
            (Act::Removed, MarkKey::Label(card), "loses the label telemetry.aware.scheduling.power/card0"),
            (
                Act::Released,
                MarkKey::Taint("power".into()),
                "loses the taint telemetry-aware.github.io/power",
            ),
        ] {
            assert_eq!(said(act, mark), format!("n1 {words}"));
        }
    }
}
