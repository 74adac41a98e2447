//! An agent without its thread and its socket, on a made host, with a clock moved by hand.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agent::collectors::{self, Collector, Settings};
use agent::exposition;
use agent::family::NameSets;
use agent::fixtures::Tree;
use agent::host::Host;
use agent::instruments::{Instruments, State, Worker};
use agent::moment::Moment;
use agent::page::Format;

pub(crate) struct Watched {
    pub(crate) tree: Tree,
    _directory: tempfile::TempDir,
    now: Arc<Mutex<Duration>>,
    instruments: Instruments,
    worker: Worker,
}

/// What a page says: series and values.
pub(crate) type Samples = BTreeMap<String, String>;

impl Watched {
    pub(crate) fn new(make: impl FnOnce(&Tree)) -> Self {
        Self::with(&Settings::default(), make)
    }

    pub(crate) fn with(settings: &Settings, make: impl FnOnce(&Tree)) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let tree = Tree::at(directory.path());
        make(&tree);
        let collectors = collectors::all(&Host::at(directory.path()), settings);
        Self::of(directory, collectors)
    }

    pub(crate) fn of(directory: tempfile::TempDir, collectors: Vec<Box<dyn Collector>>) -> Self {
        let now = Arc::new(Mutex::new(Duration::from_secs(100)));
        let clock = Arc::clone(&now);
        let clock = Arc::new(move || {
            let up = *clock.lock().expect("nobody panics with the clock");
            Moment { up, wall: Duration::from_hours(500_000) + up }
        });
        let instruments = Instruments::new(collectors, "n1", clock);
        let tree = Tree::at(directory.path());
        Self { tree, _directory: directory, now, instruments, worker: Worker::default() }
    }

    pub(crate) fn later(&mut self, seconds: u64) -> &mut Self {
        *self.now.lock().expect("nobody panics with the clock") += Duration::from_secs(seconds);
        self
    }

    pub(crate) fn tick(&mut self) -> &mut Self {
        self.instruments.tick(&mut self.worker);
        self
    }

    pub(crate) fn text(&mut self, format: Format, names: NameSets) -> String {
        let page = self.instruments.page(&mut self.worker, format, names).expect("nobody else reads");
        String::from_utf8(page).expect("a page is UTF-8")
    }

    /// The page, checked for what any page must be.
    pub(crate) fn samples(&mut self) -> Samples {
        let text = self.text(Format::Text, NameSets::ALL);
        let mut samples = Samples::new();
        let mut families = Vec::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let name = rest.split(' ').next().expect("a name follows").to_owned();
                assert!(!families.contains(&name), "family {name} twice");
                families.push(name);
            }
        }
        let read = exposition::parse(text.as_bytes()).expect("a page is legal");
        for (series, value) in read.families.into_values().flat_map(|family| family.samples) {
            assert_eq!(samples.insert(series.clone(), value), None, "series {series} twice");
        }
        samples
    }

    pub(crate) fn states(&self) -> Vec<State> {
        self.instruments.states()
    }

    pub(crate) fn found(&self, source: &str) -> String {
        let found = self.instruments.found();
        found.into_iter().find(|(name, _)| *name == source).expect("the source is on").1
    }

    pub(crate) fn down(&mut self, source: &str) -> Option<&'static str> {
        self.samples();
        self.states().into_iter().find(|state| state.source == source)?.down.map(|down| down.reason())
    }
}

pub(crate) fn value<'s>(samples: &'s Samples, series: &str) -> Option<&'s str> {
    samples.get(series).map(String::as_str)
}
