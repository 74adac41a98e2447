//! Load averages from `/proc/loadavg`.

use crate::collectors::Collector;
use crate::family::{Family, NameSet};
use crate::host::{Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/proc/loadavg";

static NODE: [Family; 3] = [
    Family::gauge(NameSet::Node, "node_load1", "", "Tasks running or waiting, mean over 1 minute.")
        .source(SOURCE),
    Family::gauge(NameSet::Node, "node_load5", "", "Tasks running or waiting, mean over 5 minutes.")
        .source(SOURCE),
    Family::gauge(NameSet::Node, "node_load15", "", "Tasks running or waiting, mean over 15 minutes.")
        .source(SOURCE),
];
static COLLECTD: [Family; 3] = [
    collectd(
        "collectd_load_shortterm",
        "write_prometheus plugin: 'load' Type: 'load', Dstype: 'gauge', Dsname: 'shortterm'",
    ),
    collectd(
        "collectd_load_midterm",
        "write_prometheus plugin: 'load' Type: 'load', Dstype: 'gauge', Dsname: 'midterm'",
    ),
    collectd(
        "collectd_load_longterm",
        "write_prometheus plugin: 'load' Type: 'load', Dstype: 'gauge', Dsname: 'longterm'",
    ),
];
static FAMILIES: [&Family; 6] = [&NODE[0], &NODE[1], &NODE[2], &COLLECTD[0], &COLLECTD[1], &COLLECTD[2]];

const fn collectd(name: &'static str, help: &'static str) -> Family {
    Family::gauge(NameSet::Collectd, name, "", help).source(SOURCE).peers("collectd load")
}

/// The three averages in hundredths.
pub type Averages = [u64; 3];

/// Reads `/proc/loadavg`.
pub fn parse(text: &[u8]) -> Option<Averages> {
    let mut fields = scan::fields(text).map(|field| scan::fixed(field, 2));
    Some([fields.next()??, fields.next()??, fields.next()??])
}

/// The collector.
pub struct Load {
    probe: Probe,
    averages: Averages,
}

impl Load {
    /// Load of this host.
    pub fn new(host: &Host) -> Self {
        Self { probe: host.attribute(host.path(SOURCE)), averages: [0; 3] }
    }
}

impl Collector for Load {
    fn source(&self) -> &'static str {
        "load"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, _now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        let parsed = parse(self.probe.read(buffer)?);
        self.averages = parsed.ok_or_else(|| Trouble::Garbage {
            path: self.probe.path().to_owned(),
            expected: "three load averages",
        })?;
        Ok(())
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        for family in FAMILIES.chunks(3) {
            for (family, average) in family.iter().zip(self.averages) {
                page.family(family);
                page.sample(&[], Value::Fixed(average, 2));
            }
        }
    }

    fn found(&self) -> String {
        "load over 1, 5 and 15 minutes".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_real_line() {
        assert_eq!(parse(b"0.52 1.58 12.59 1/139 12345\n"), Some([52, 158, 1259]));
        assert_eq!(parse(b"0.52 1.58\n"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
