use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use engine::Batch;
use engine::fixtures::{Scene, metric, number, policy, rule};
use engine::names::NodeName;
use engine::policy::{Combine, Operator};
use proptest::prelude::*;

use super::*;
use crate::directory::NodeFacts;
use crate::prometheus::decode::Point;

fn directory() -> Directory {
    let fact = |name: &str, address: &str| NodeFacts {
        name: NodeName::new(name).unwrap(),
        addresses: vec![address.to_owned()],
    };
    Directory::new(&[fact("n1", "10.0.0.1"), fact("n2", "10.0.0.2")])
}

fn located(labels: &[(&str, &str)]) -> Option<String> {
    let directory = directory();
    let labels: Vec<_> = labels.iter().map(|&(k, v)| (Cow::Borrowed(k), Cow::Borrowed(v))).collect();
    let series = Series { labels: &labels, points: &[], refused: Refused::default() };
    match NodeLabels::default().locate(&directory, &series) {
        Meaning::Node(node) => Some(directory.nodes().name(node).to_string()),
        Meaning::NoNode | Meaning::SeveralNodes => None,
    }
}

#[test]
fn the_first_label_that_names_a_node_counts() {
    assert_eq!(located(&[("instance", "10.0.0.2:9100"), ("node", "n1")]), Some("n1".to_owned()));
    assert_eq!(
        located(&[("exported_instance", "n2.example"), ("instance", "10.1.1.1:9103")]),
        Some("n2".to_owned())
    );
    assert_eq!(located(&[("instance", "10.1.1.1:9103"), ("kubernetes_node", "n1")]), Some("n1".to_owned()));
    assert_eq!(located(&[("node", ""), ("nodename", "n1")]), Some("n1".to_owned()));
    assert_eq!(located(&[("job", "n1")]), None);
}

#[test]
fn a_numa_node_is_not_mistaken_for_a_machine() {
    assert_eq!(located(&[("node", "0"), ("instance", "10.0.0.1:9100")]), Some("n1".to_owned()));
}

#[test]
fn a_node_that_is_gone_does_not_become_the_one_its_exporter_runs_on() {
    assert_eq!(located(&[("node", "gone"), ("instance", "10.0.0.1:8080")]), None);
}

/// Series of node n1 with one value each, evaluated at second 100.
fn gather(values: &[(Role, &str)]) -> Gather {
    let directory = directory();
    let meaning = directory.find("n1");
    let mut gather = Gather::default();
    for (place, (role, value)) in values.iter().enumerate() {
        let points = [Point { at: Timestamp::from_secs(100), value: number(value) }];
        gather.take(
            *role,
            place,
            meaning,
            &Series { labels: &[], points: &points, refused: Refused::default() },
        );
    }
    gather
}

fn only(gathered: Result<Gathered, Ambiguity>) -> (Quantity, i64, AgeKnown) {
    let gathered = gathered.unwrap();
    let [(_, sample)] = gathered.samples[..] else { panic!("one sample, not {:?}", gathered.samples) };
    (sample.value, sample.taken.millis(), gathered.age)
}

#[test]
fn several_series_of_a_node_come_to_what_is_configured_or_to_nothing() {
    let values = [(Role::Value, "3"), (Role::Value, "1"), (Role::Value, "3.5")];
    let come_to = |aggregation| only(gather(&values).finish(Some(aggregation))).0;
    assert_eq!(
        Aggregation::ALL.map(|(_, aggregation)| come_to(aggregation)),
        [number("3.5"), number("1"), number("7.5"), number("2.5")]
    );
    assert_eq!(gather(&values).finish(None), Err(Ambiguity { series: [0, 1] }));
}

#[test]
fn the_time_a_sample_was_taken_is_that_of_its_oldest_input() {
    let one = |parts: &[(Role, &str)]| only(gather(parts).finish(Some(Aggregation::Max)));
    let value = (Role::Value, "7");
    assert_eq!(
        one(&[value, (Role::Taken, "95.1234"), (Role::Taken, "96")]),
        (number("7"), 95_123, AgeKnown::Yes)
    );
    assert_eq!(one(&[(Role::Age, "4.9999999"), value]), (number("7"), 95_000, AgeKnown::Yes));
    assert_eq!(one(&[value]), (number("7"), 100_000, AgeKnown::No));
}

#[test]
fn the_news_of_a_sample_are_those_of_its_newest_input_and_no_newer_than_the_evaluation() {
    let newest = |parts: &[(Role, &str)]| {
        let gathered = gather(parts).finish(Some(Aggregation::Max)).unwrap();
        let [(_, sample)] = gathered.samples[..] else { panic!("one sample, not {:?}", gathered.samples) };
        [sample.taken, sample.newest].map(Timestamp::millis)
    };
    let value = (Role::Value, "7");
    assert_eq!(newest(&[value]), [100_000, 100_000]);
    assert_eq!(newest(&[value, (Role::Taken, "95")]), [95_000, 95_000]);
    assert_eq!(newest(&[value, (Role::Taken, "40"), (Role::Newest, "95")]), [40_000, 95_000]);
    assert_eq!(newest(&[value, (Role::Age, "60"), (Role::Age, "5")]), [40_000, 95_000]);
    assert_eq!(newest(&[value, (Role::Taken, "40"), (Role::Newest, "500")]), [40_000, 100_000]);
    assert_eq!(newest(&[value, (Role::Taken, "500")]), [500_000, 500_000], "the engine leaves it out");
}

#[test]
fn series_of_nobody_are_counted_and_a_few_are_shown() {
    let mut gather = Gather::default();
    for place in 0..10 {
        let text = place.to_string();
        let labels = [(Cow::Borrowed("node"), Cow::Borrowed(text.as_str()))];
        let series = Series { labels: &labels, points: &[], refused: Refused::default() };
        gather.take(Role::Value, place, Meaning::NoNode, &series);
        gather.take(Role::Taken, place, Meaning::NoNode, &series);
    }
    let shown = ["{node=\"0\"}", "{node=\"1\"}", "{node=\"2\"}"].map(str::to_owned).to_vec();
    assert_eq!(gather.finish(None).unwrap().unmapped, Unmapped { count: 10, shown });
}

/// A series of node n1, scraped and brought in at its own pace.
#[derive(Clone, Debug)]
struct Exporter {
    every: usize,
    first: usize,
    /// How long a scrape is on its way.
    late: usize,
    /// When it goes away, if it does.
    gone: Option<usize>,
    values: Vec<i64>,
}

impl Exporter {
    /// Its newest scrape at a second: value and second.
    fn at(&self, second: usize) -> Option<(i64, usize)> {
        if self.gone.is_some_and(|gone| gone <= second) {
            return None;
        }
        let scrapes = second.checked_sub(self.first + self.late)? / self.every;
        Some((*self.values.get(scrapes % self.values.len())?, self.first + scrapes * self.every))
    }
}

fn exporters(gone: impl Strategy<Value = Option<usize>>) -> impl Strategy<Value = Vec<Exporter>> {
    let values = proptest::collection::vec(0_i64..60, 1..9);
    let exporter = (1_usize..70, 0_usize..60, 0_usize..12, gone, values)
        .prop_map(|(every, first, late, gone, values)| Exporter { every, first, late, gone, values });
    proptest::collection::vec(exporter, 1..5)
}

/// What a query brings that is evaluated at these seconds.
fn evaluated(exporters: &[Exporter], seconds: &[usize]) -> Vec<(NodeIx, Sample)> {
    let mut gather = Gather::default();
    let meaning = directory().find("n1");
    let moment = |second: usize| Timestamp::from_secs(i64::try_from(second).unwrap());
    for &second in seconds {
        let seen: Vec<_> = exporters.iter().filter_map(|exporter| exporter.at(second)).collect();
        let mut take = |role, place, value: i64| {
            let points = [Point { at: moment(second), value: value.into() }];
            let series = Series { labels: &[], points: &points, refused: Refused::default() };
            gather.take(role, place, meaning, &series);
        };
        for (place, &(value, _)) in seen.iter().enumerate() {
            take(Role::Value, place, value);
        }
        let times = || seen.iter().map(|&(_, scraped)| i64::try_from(scraped).unwrap());
        if let (Some(oldest), Some(newest)) = (times().min(), times().max()) {
            take(Role::Taken, seen.len(), oldest);
            take(Role::Newest, seen.len(), newest);
        }
    }
    gather.finish(Some(Aggregation::Sum)).unwrap().samples
}

/// Node n1 under a rule that holds at once and one that does not.
fn scene() -> Scene {
    let mut held = rule("power", Operator::GreaterThan, "60");
    held.hold = Duration::from_secs(20);
    let rules = [rule("power", Operator::GreaterThan, "60"), held];
    let mut scene = Scene::new(&[], [policy("p").dont_schedule(Combine::AllOf, rules)]);
    scene.inputs.nodes = Arc::clone(directory().nodes());
    scene
}

fn fed(scene: &mut Scene, samples: Vec<(NodeIx, Sample)>) {
    scene.inputs.samples = vec![Batch { metric: metric("power"), samples }];
    scene.advance(Timestamp::from_secs(400));
}

proptest! {
    #[test]
    fn what_has_changed_at_any_exporter_counts_with_the_next_reading(exporters in exporters(Just(None))) {
        let mut scene = scene();
        for second in (0..400).step_by(5) {
            fed(&mut scene, evaluated(&exporters, &[second]));
            let seen: Vec<_> = exporters.iter().filter_map(|exporter| exporter.at(second)).collect();
            let Some(oldest) = seen.iter().map(|&(_, scraped)| scraped).min() else { continue };
            let node = scene.view.nodes.find("n1").unwrap();
            let sample = scene.view.snapshot.column("power").unwrap().get(node).unwrap();
            prop_assert_eq!(sample.value, seen.iter().map(|&(value, _)| value).sum::<i64>().into());
            prop_assert_eq!(sample.taken, Timestamp::from_secs(i64::try_from(oldest).unwrap()));
        }
    }

    #[test]
    fn a_replica_that_looks_back_comes_to_what_one_that_was_there_knows(
        exporters in exporters(proptest::option::of(0_usize..400)),
    ) {
        let seconds: Vec<usize> = (0..400).step_by(5).collect();
        let (mut there, mut started) = (scene(), scene());
        for &second in &seconds {
            fed(&mut there, evaluated(&exporters, &[second]));
        }
        fed(&mut started, evaluated(&exporters, &seconds));
        prop_assert_eq!(&there.memory, &started.memory);
        prop_assert_eq!(&there.view.tables, &started.view.tables);
    }

    #[test]
    fn the_order_of_series_changes_nothing(values in proptest::collection::vec(-1000_i64..1000, 1..6), which in 0..4_usize) {
        let texts: Vec<String> = values.iter().map(i64::to_string).collect();
        let parts: Vec<(Role, &str)> = texts.iter().map(|text| (Role::Value, text.as_str())).collect();
        let reversed: Vec<_> = parts.iter().rev().copied().collect();
        let aggregation = Some(Aggregation::ALL[which].1);
        prop_assert_eq!(gather(&parts).finish(aggregation), gather(&reversed).finish(aggregation));
    }

    #[test]
    fn no_time_brings_the_mapping_down(text in "-?[0-9]{1,28}(\\.[0-9]{1,9})?") {
        let _ = gather(&[(Role::Value, "1"), (Role::Taken, &text), (Role::Age, &text)]).finish(None);
    }
}
