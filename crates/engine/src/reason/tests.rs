use super::{Duration, MetricName, Quantity, Reason, Threshold, unit};
use crate::policy::Operator;

fn power() -> MetricName {
    MetricName::new("collectd_package_0_power_power").unwrap()
}

fn over_30() -> Threshold {
    Threshold::new(Operator::GreaterThan, Quantity::from(30)).with_clear(Quantity::from(25)).unwrap()
}

#[test]
fn every_reason_reads_as_a_sentence_with_and_without_its_numbers() {
    let (metric, threshold) = (power(), over_30());
    let watts = |text: &str| text.parse::<Quantity>().unwrap();
    let hold = Duration::from_mins(2);
    let cases = [
        Reason::Breaks { metric: metric.clone(), threshold, observed: watts("41") },
        Reason::Breaks { metric: metric.clone(), threshold, observed: watts("30.00004") },
        Reason::Held { metric: metric.clone(), threshold, observed: watts("28.4"), hold },
        Reason::Held { metric: metric.clone(), threshold, observed: watts("24"), hold },
        Reason::Expected { metric: metric.clone(), threshold, expected: watts("33"), pods: 1 },
        Reason::Expected { metric: metric.clone(), threshold, expected: watts("36"), pods: 2 },
        Reason::Missing { metric: metric.clone() },
        Reason::Stale { metric, age: Duration::from_secs(61) },
        Reason::NodeUnknown,
    ];
    let table: Vec<String> =
        cases.iter().map(|reason| format!("{} | {}", reason.numbers(), reason.stable())).collect();
    assert_eq!(
        table,
        [
            "41 W over 30 | collectd_package_0_power_power over 30",
            "30.00004 W over 30 | collectd_package_0_power_power over 30",
            "28.4 W still over 25 | collectd_package_0_power_power over 30",
            "24 W no longer over 25, but not yet for 2 min | collectd_package_0_power_power over 30",
            "expected 33 W over 30 with 1 pod placed lately | collectd_package_0_power_power expected over 30",
            "expected 36 W over 30 with 2 pods placed lately | collectd_package_0_power_power expected over 30",
            "unknown, no sample yet | collectd_package_0_power_power unknown",
            "unknown, 61 s old | collectd_package_0_power_power unknown",
            "node unknown | node unknown",
        ]
    );
    assert_eq!(cases[0].to_string(), "collectd_package_0_power_power 41 W over 30");
}

#[test]
fn a_unit_is_shown_only_where_the_name_gives_it_away() {
    assert_eq!(
        ["node_memory_MemFree_bytes", "package_power_avg", "node_hwmon_temp_celsius", "health_metric"]
            .map(unit),
        [" B", " W", " °C", ""]
    );
}
