//! Laws that hold whatever is in the tree: the page parses, nothing is there twice, counters never fall.

use std::collections::BTreeMap;

use crate::watched::Watched;
use agent::family::NameSets;
use agent::fixtures::damage::{Damage, FILES};
use agent::fixtures::faults::Errno;
use agent::page::Format;
use proptest::prelude::*;

fn damage() -> impl Strategy<Value = Damage> {
    let errno =
        prop::sample::select(vec![Errno::Eacces, Errno::Eio, Errno::Enodata, Errno::Einval, Errno::Enodev]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200).prop_map(Damage::Bytes),
        prop::collection::vec((0usize..40, any::<u64>()), 0..20).prop_map(Damage::Lines),
        any::<u64>().prop_map(Damage::Number),
        errno.prop_map(Damage::Fails),
        Just(Damage::Removed),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_tree_the_page_is_legal_and_counters_never_fall(
        rounds in prop::collection::vec((prop::collection::vec((0..FILES.len(), damage()), 0..6), 0u64..20), 1..6),
    ) {
        let mut host = Watched::new(|tree| {
            tree.proc(2, 2).sensors(2, 1, 1).server(1);
        });
        host.tick();
        let mut before: BTreeMap<String, f64> = BTreeMap::new();
        for (damages, seconds) in rounds {
            for (file, damage) in &damages {
                damage.apply(&host.tree, FILES[*file]);
            }
            host.later(seconds).tick();
            // `samples` itself fails on a page that does not parse or has anything twice.
            let text = host.text(Format::Text, NameSets::ALL);
            let counters: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter")).collect();
            for (series, value) in host.samples() {
                let family = series.split('{').next().unwrap_or_default();
                let number: f64 = value.parse().expect("a number");
                prop_assert!(number.is_finite(), "{} {}", series, value);
                if counters.contains(&family) {
                    let last = before.insert(series.clone(), number).unwrap_or(0.0);
                    prop_assert!(number >= last, "{} fell from {} to {}", series, last, number);
                }
            }
            let open = host.text(Format::OpenMetrics, NameSets::ALL);
            let mut families: Vec<&str> = open.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
            let all = families.len();
            families.sort_unstable();
            families.dedup();
            prop_assert_eq!(families.len(), all);
        }
    }
}
