//! Interface counters from the host's own network namespace, without being in it: `/proc/1/net/dev`.

use std::path::{Path, PathBuf};

use crate::collectors::Collector;
use crate::family::{Family, NameSet};
use crate::host::{Buffer, Host, Probe};
use crate::moment::Moment;
use crate::page::{Page, Value};
use crate::scan;
use crate::trouble::Trouble;

const SOURCE: &str = "/proc/1/net/dev";
/// Without process 1 in sight this shows our own namespace. That is the host's if we look at our own host; the counters
/// of a container that looks at another's must not pass for the node's.
const FALLBACK: &str = "/proc/net/dev";
const NET: &str = "/proc/net";
/// Interfaces looked at.
pub const MAX_INTERFACES: usize = 1024;
const COLUMNS: usize = 16;

const fn node(name: &'static str, unit: &'static str, help: &'static str) -> Family {
    Family::counter(NameSet::Node, name, unit, help)
        .labels("device")
        .source(SOURCE)
        .peers("node_exporter netdev")
}

static NODE: [Family; COLUMNS] = [
    node("node_network_receive_bytes_total", "bytes", "Bytes received."),
    node("node_network_receive_packets_total", "packets", "Packets received."),
    node("node_network_receive_errs_total", "packets", "Packets received with an error."),
    node("node_network_receive_drop_total", "packets", "Packets dropped on receive."),
    node("node_network_receive_fifo_total", "packets", "Packets lost to a full receive FIFO."),
    node("node_network_receive_frame_total", "packets", "Packets received with a framing error."),
    node("node_network_receive_compressed_total", "packets", "Compressed packets received."),
    node("node_network_receive_multicast_total", "packets", "Multicast packets received."),
    node("node_network_transmit_bytes_total", "bytes", "Bytes sent."),
    node("node_network_transmit_packets_total", "packets", "Packets sent."),
    node("node_network_transmit_errs_total", "packets", "Packets not sent because of an error."),
    node("node_network_transmit_drop_total", "packets", "Packets dropped on send."),
    node("node_network_transmit_fifo_total", "packets", "Packets lost to a full send FIFO."),
    node("node_network_transmit_colls_total", "packets", "Collisions on send."),
    node("node_network_transmit_carrier_total", "packets", "Packets lost for want of a carrier."),
    node("node_network_transmit_compressed_total", "packets", "Compressed packets sent."),
];

const fn collectd(name: &'static str, help: &'static str) -> Family {
    Family::counter(NameSet::Collectd, name, "", help)
        .labels("interface, instance")
        .source(SOURCE)
        .peers("collectd interface")
}

static COLLECTD: [Family; 8] = [
    collectd(
        "collectd_interface_if_octets_rx_total",
        "write_prometheus plugin: 'interface' Type: 'if_octets', Dstype: 'derive', Dsname: 'rx'",
    ),
    collectd(
        "collectd_interface_if_octets_tx_total",
        "write_prometheus plugin: 'interface' Type: 'if_octets', Dstype: 'derive', Dsname: 'tx'",
    ),
    collectd(
        "collectd_interface_if_packets_rx_total",
        "write_prometheus plugin: 'interface' Type: 'if_packets', Dstype: 'derive', Dsname: 'rx'",
    ),
    collectd(
        "collectd_interface_if_packets_tx_total",
        "write_prometheus plugin: 'interface' Type: 'if_packets', Dstype: 'derive', Dsname: 'tx'",
    ),
    collectd(
        "collectd_interface_if_errors_rx_total",
        "write_prometheus plugin: 'interface' Type: 'if_errors', Dstype: 'derive', Dsname: 'rx'",
    ),
    collectd(
        "collectd_interface_if_errors_tx_total",
        "write_prometheus plugin: 'interface' Type: 'if_errors', Dstype: 'derive', Dsname: 'tx'",
    ),
    collectd(
        "collectd_interface_if_dropped_rx_total",
        "write_prometheus plugin: 'interface' Type: 'if_dropped', Dstype: 'derive', Dsname: 'rx'",
    ),
    collectd(
        "collectd_interface_if_dropped_tx_total",
        "write_prometheus plugin: 'interface' Type: 'if_dropped', Dstype: 'derive', Dsname: 'tx'",
    ),
];
/// The columns behind collectd's families.
const COLLECTD_COLUMNS: [usize; 8] = [0, 8, 1, 9, 2, 10, 3, 11];

static FAMILIES: [&Family; 24] = [
    &NODE[0],
    &NODE[1],
    &NODE[2],
    &NODE[3],
    &NODE[4],
    &NODE[5],
    &NODE[6],
    &NODE[7],
    &NODE[8],
    &NODE[9],
    &NODE[10],
    &NODE[11],
    &NODE[12],
    &NODE[13],
    &NODE[14],
    &NODE[15],
    &COLLECTD[0],
    &COLLECTD[1],
    &COLLECTD[2],
    &COLLECTD[3],
    &COLLECTD[4],
    &COLLECTD[5],
    &COLLECTD[6],
    &COLLECTD[7],
];

/// Reads a line such as `eth0: 1 2 3 …`; the name may touch the first number.
pub fn parse_line(line: &[u8]) -> Option<(&[u8], [u64; COLUMNS])> {
    // Names may hold colons (`eth0:1`), numbers may not.
    let colon = line.iter().rposition(|&b| b == b':')?;
    let name = scan::trimmed(&line[..colon]);
    let mut columns = [0; COLUMNS];
    let mut fields = scan::fields(&line[colon + 1..]);
    for column in &mut columns {
        *column = scan::number(fields.next()?)?;
    }
    (!name.is_empty()).then_some((name, columns))
}

/// Whether `name` fits a pattern whose last `*` stands for any rest.
fn fits(pattern: &str, name: &[u8]) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == pattern.as_bytes(),
    }
}

/// The collector.
pub struct Network {
    probe: Probe,
    fallback: Probe,
    /// The host's `/proc/net`, unless the host is where we are.
    elsewhere: Option<PathBuf>,
    ignored: Vec<String>,
    interfaces: Vec<(Vec<u8>, [u64; COLUMNS])>,
    count: usize,
    own_namespace: bool,
}

impl Network {
    /// Interfaces of this host except those that fit a pattern of `ignored`.
    pub fn new(host: &Host, ignored: &[String]) -> Self {
        Self {
            probe: host.table(host.path(SOURCE)),
            fallback: host.table(host.path(FALLBACK)),
            elsewhere: (host.path("") != Path::new("/")).then(|| host.path(NET)),
            ignored: ignored.to_vec(),
            interfaces: Vec::new(),
            count: 0,
            own_namespace: false,
        }
    }

    fn parse(&mut self, text: &[u8]) {
        self.count = 0;
        for (name, columns) in scan::lines(text).filter_map(parse_line) {
            if self.count == MAX_INTERFACES || self.ignored.iter().any(|pattern| fits(pattern, name)) {
                continue;
            }
            if self.count == self.interfaces.len() {
                self.interfaces.push((Vec::new(), columns));
            }
            let slot = &mut self.interfaces[self.count];
            slot.0.clear();
            slot.0.extend_from_slice(name);
            slot.1 = columns;
            self.count += 1;
        }
    }
}

impl Collector for Network {
    fn source(&self) -> &'static str {
        "network"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn read(&mut self, _now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.own_namespace = false;
        let text = match self.probe.read(buffer) {
            Ok(text) => text,
            // In a real /proc it is a link to that of whoever looks; in files of another host it is theirs.
            Err(trouble) if self.elsewhere.as_ref().is_some_and(|net| net.is_symlink()) => {
                return Err(trouble);
            }
            Err(trouble) => {
                self.own_namespace = true;
                self.fallback.read(buffer).map_err(|_| trouble)?
            }
        };
        self.parse(text);
        Ok(())
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        let interfaces = &self.interfaces[..self.count];
        for (column, family) in NODE.iter().enumerate() {
            if page.family(family) {
                for (name, columns) in interfaces {
                    page.sample(&[("device", name)], Value::Count(columns[column]));
                }
            }
        }
        for (family, column) in COLLECTD.iter().zip(COLLECTD_COLUMNS) {
            if page.family(family) {
                for (name, columns) in interfaces {
                    page.sample(&[("interface", name)], Value::Count(columns[column]));
                }
            }
        }
    }

    fn found(&self) -> String {
        let whose = if self.own_namespace {
            " (of this container: process 1 of the host is not in sight)"
        } else {
            ""
        };
        format!("{} interfaces{whose}", self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_real_line_and_an_alias_and_the_heading() {
        let columns = std::array::from_fn(|n| n as u64 + 1);
        assert_eq!(
            parse_line(b"  eth0: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"),
            Some((&b"eth0"[..], columns))
        );
        assert_eq!(
            parse_line(b"eth0:1:1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"),
            Some((&b"eth0:1"[..], columns))
        );
        assert_eq!(parse_line(b" face |bytes    packets errs drop fifo"), None);
        assert_eq!(parse_line(b"eth0: 1 2 3"), None);
    }

    #[test]
    fn interfaces_of_pods_are_left_out() {
        let mut network =
            Network::new(&Host::at("/nowhere".as_ref()), &["veth*".to_owned(), "lo".to_owned()]);
        network.parse(b"lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\nveth1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\nlo1: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n");
        assert_eq!(
            network.interfaces.iter().map(|(name, _)| name.as_slice()).collect::<Vec<_>>(),
            vec![b"lo1"]
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            Network::new(&Host::at("/nowhere".as_ref()), &[]).parse(&text);
        }

        #[test]
        fn any_line_reads_back(name in "[!-~]{1,15}", columns: [u64; COLUMNS]) {
            let line = columns.iter().fold(format!("{name}:"), |line, n| format!("{line} {n}"));
            prop_assert_eq!(parse_line(line.as_bytes()), Some((name.as_bytes(), columns)));
        }
    }
}
