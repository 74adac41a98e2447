//! What the log says between two looks at the facts: what went wrong since, and what is well again.

use api::problem::Severity;
use engine::names::MetricName;
use feed::Health;
use feed::health::MetricHealth;
use feed::mapping::AgeKnown;
use feed::world::PolicyFacts;

/// Lines of one look; the rest is counted.
pub(super) const MAX_LINES: usize = 50;
/// Metrics that are named where there are many.
const NAMED: usize = 5;

/// Something to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// For people who wonder.
    Well(String),
    /// For people who should do something.
    Wrong(String),
}

/// What is different between two looks.
pub(super) fn news(before: &Health, after: &Health) -> Vec<Line> {
    let mut lines = Vec::new();
    policies(before, after, &mut lines);
    reading(before, after, &mut lines);
    if after.reading.failures_in_a_row == 0 {
        // While nothing at all can be read, each metric has the same to say.
        for (name, metric) in &after.metrics {
            let known = before.metrics.get(name);
            of_metric(name.as_str(), known, metric, &mut lines);
        }
    }
    if after.left_out != before.left_out && !after.left_out.is_empty() {
        let named: Vec<&str> = after.left_out.iter().take(NAMED).map(MetricName::as_str).collect();
        lines.push(Line::Wrong(format!(
            "policies name more metrics than are read; {} of them have no samples: {}{}",
            after.left_out.len(),
            named.join(", "),
            if after.left_out.len() > NAMED { ", …" } else { "" },
        )));
    }
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(Line::Wrong(format!("and {more} more of the kind; /metrics has them all")));
    }
    lines
}

fn policies(before: &Health, after: &Health, lines: &mut Vec<Line>) {
    for (key, facts) in &after.policies {
        let known = before.policies.get(key);
        let same = |known: &PolicyFacts| {
            known.problems == facts.problems
                && known.unreadable == facts.unreadable
                && known.policy.is_some() == facts.policy.is_some()
        };
        if known.is_some_and(same) {
            continue;
        }
        let name = format!("policy {}/{}", key.namespace, key.name);
        let grave: Vec<String> = facts
            .problems
            .iter()
            .filter(|problem| problem.severity >= Severity::Warning)
            .map(ToString::to_string)
            .chain(facts.unreadable.clone())
            .collect();
        if facts.policy.is_none() {
            lines.push(Line::Wrong(format!("{name} cannot be used: {}", grave.join("; "))));
        } else if !grave.is_empty() {
            lines.push(Line::Wrong(format!("{name}: {}", grave.join("; "))));
        } else if known.is_some_and(|known| known.policy.is_none()) {
            lines.push(Line::Well(format!("{name} can be used again")));
        }
    }
}

fn reading(before: &Health, after: &Health, lines: &mut Vec<Line>) {
    match (before.reading.failures_in_a_row, after.reading.failures_in_a_row, &after.reading.error) {
        (0, 1.., error) => lines.push(Line::Wrong(format!(
            "metrics cannot be read: {}; what was read before counts until it is too old",
            error.as_deref().unwrap_or("no sample of any metric")
        ))),
        (1.., 0, _) => lines.push(Line::Well("metrics can be read again".to_owned())),
        _ => {}
    }
    if after.reading.warnings != before.reading.warnings && !after.reading.warnings.is_empty() {
        lines.push(Line::Wrong(format!("the metric source warns: {}", after.reading.warnings.join("; "))));
    }
    if before.reading.skipped == 0 && after.reading.skipped > 0 {
        let took = after.reading.took.as_secs_f64();
        lines.push(Line::Wrong(format!(
            "reading metrics takes longer than the sync period (the last took {took:.1} s); give a longer --sync-period"
        )));
    }
}

fn of_metric(name: &str, known: Option<&MetricHealth>, metric: &MetricHealth, lines: &mut Vec<Line>) {
    let failed = known.is_some_and(|known| known.error.is_some());
    match (failed, &metric.error) {
        (false, Some(error)) => lines.push(Line::Wrong(format!("metric {name}: {error}"))),
        (_, None) if failed || known.is_none() => {
            if let Some(by) = &metric.answered_by {
                lines.push(Line::Well(format!("metric {name} is answered by {by}")));
            }
        }
        _ => {}
    }
    let unmapped = known.map_or(0, |known| known.unmapped.count);
    if unmapped == 0 && metric.unmapped.count > 0 {
        lines.push(Line::Wrong(format!(
            "metric {name}: {} series belong to no node, for example {}; nodeLabels in the configuration says which label names the node",
            metric.unmapped.count,
            metric.unmapped.shown.first().map_or("", String::as_str)
        )));
    }
    let aged = known.is_none_or(|known| known.age == AgeKnown::Yes);
    if aged && metric.age == AgeKnown::No {
        lines.push(Line::Wrong(format!(
            "metric {name}: its samples carry no time of their own (AgeUnknown), so a dead sensor goes unnoticed; give an ageQuery in the configuration"
        )));
    }
}

#[cfg(test)]
mod tests {
    use feed::health::ReadingHealth;
    use feed::mapping::Unmapped;
    use feed::world::ObjectKey;

    use super::*;

    fn name(name: &str) -> MetricName {
        MetricName::new(name).unwrap()
    }

    fn with(metric: MetricHealth) -> Health {
        Health { metrics: [(name("power"), metric)].into(), ..Health::default() }
    }

    fn answered() -> MetricHealth {
        MetricHealth { answered_by: Some("node_power".to_owned()), ..MetricHealth::default() }
    }

    fn wrong(text: &str) -> Line {
        Line::Wrong(text.to_owned())
    }

    fn well(text: &str) -> Line {
        Line::Well(text.to_owned())
    }

    #[test]
    fn the_same_facts_are_said_once() {
        let health = with(MetricHealth { error: Some("no such metric".to_owned()), ..answered() });
        assert_eq!(news(&Health::default(), &health), [wrong("metric power: no such metric")]);
        assert_eq!(news(&health, &health), []);
        assert_eq!(news(&health, &with(answered())), [well("metric power is answered by node_power")]);
        assert_eq!(news(&with(answered()), &with(answered())), []);
    }

    #[test]
    fn series_of_nobody_and_samples_without_a_time_are_told() {
        let unmapped = Unmapped { count: 7, shown: vec!["power{instance=\"x\"}".to_owned()] };
        let met = MetricHealth { age: AgeKnown::No, unmapped, ..answered() };
        assert_eq!(
            news(&with(answered()), &with(met)),
            [
                wrong(
                    "metric power: 7 series belong to no node, for example power{instance=\"x\"}; nodeLabels in the configuration says which label names the node"
                ),
                wrong(
                    "metric power: its samples carry no time of their own (AgeUnknown), so a dead sensor goes unnoticed; give an ageQuery in the configuration"
                )
            ]
        );
    }

    #[test]
    fn an_outage_is_one_line_and_its_end_another() {
        let reading = ReadingHealth {
            failures_in_a_row: 3,
            error: Some("no answer within 10 s".to_owned()),
            ..ReadingHealth::default()
        };
        let down = with(MetricHealth { error: Some("no answer within 10 s".to_owned()), ..answered() });
        let down = Health { reading, ..down };
        assert_eq!(
            news(&with(answered()), &down),
            [wrong(
                "metrics cannot be read: no answer within 10 s; what was read before counts until it is too old"
            )]
        );
        assert_eq!(news(&down, &Health::default()), [well("metrics can be read again")]);
    }

    #[test]
    fn a_policy_that_cannot_be_used_is_named_with_its_problem_and_again_when_it_can() {
        let key = ObjectKey::new("shop", "power");
        let holding =
            |facts: PolicyFacts| Health { policies: [(key.clone(), facts)].into(), ..Health::default() };
        let bad = holding(PolicyFacts::unreadable(key.clone(), "spec is no map".to_owned()));
        assert_eq!(
            news(&Health::default(), &bad),
            [wrong("policy shop/power cannot be used: spec is no map")]
        );
        let mut good = PolicyFacts::unreadable(key.clone(), String::new());
        good.unreadable = None;
        good.policy = Some(std::sync::Arc::new(engine::fixtures::policy("power")));
        assert_eq!(news(&bad, &holding(good)), [well("policy shop/power can be used again")]);
    }

    #[test]
    fn what_is_left_out_is_counted_and_a_flood_of_lines_is_cut() {
        let left_out: Vec<MetricName> = (0..7).map(|n| name(&format!("m{n}"))).collect();
        assert_eq!(
            news(&Health::default(), &Health { left_out, ..Health::default() }),
            [wrong(
                "policies name more metrics than are read; 7 of them have no samples: m0, m1, m2, m3, m4, …"
            )]
        );
        let broken = MetricHealth { error: Some("gone".to_owned()), ..MetricHealth::default() };
        let metrics = (0..60).map(|n| (name(&format!("m{n}")), broken.clone())).collect();
        let lines = news(&Health::default(), &Health { metrics, ..Health::default() });
        assert_eq!(lines.len(), MAX_LINES + 1);
        assert_eq!(lines.last(), Some(&wrong("and 10 more of the kind; /metrics has them all")));
    }
}
