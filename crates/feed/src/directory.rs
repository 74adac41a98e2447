//! Which node a text means: its name, an address, its short name. Exact or not at all; nothing is guessed.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use engine::names::NodeName;
use engine::{NodeIndex, NodeIx};

/// What a Node object says of who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: NodeName,
    /// Its addresses of the types InternalIP and Hostname.
    pub addresses: Vec<String>,
}

/// All nodes, and every text that means one of them.
#[derive(Debug, Default)]
pub struct Directory {
    nodes: Arc<NodeIndex>,
    /// Addresses in their canonical form; nothing where two nodes claim the same.
    addresses: HashMap<String, Option<NodeIx>>,
    /// First parts of names that have more than one; nothing where two nodes share one.
    short_names: HashMap<String, Option<NodeIx>>,
}

/// What a text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// This node.
    Node(NodeIx),
    /// None of the nodes there are.
    NoNode,
    /// Two nodes or more.
    SeveralNodes,
}

impl Directory {
    /// Of these nodes; one listed twice counts with the addresses of both.
    pub fn new(facts: &[NodeFacts]) -> Self {
        let nodes = Arc::new(NodeIndex::new(facts.iter().map(|node| node.name.clone())));
        let (mut addresses, mut short_names) = (HashMap::new(), HashMap::new());
        for fact in facts {
            let Some(node) = nodes.find(fact.name.as_str()) else { continue };
            for address in &fact.addresses {
                claim(&mut addresses, canonical(address), node);
            }
            if let Some((short, _)) = fact.name.as_str().split_once('.') {
                claim(&mut short_names, short.to_owned(), node);
            }
        }
        Self { nodes, addresses, short_names }
    }

    /// The nodes, numbered.
    pub fn nodes(&self) -> &Arc<NodeIndex> {
        &self.nodes
    }

    /// Which node the value of a label means.
    pub fn find(&self, text: &str) -> Meaning {
        if let Some(node) = self.nodes.find(text) {
            return Meaning::Node(node);
        }
        let host = host_of(text);
        let host = canonical(host);
        if let Some(node) = self.nodes.find(&host) {
            return Meaning::Node(node);
        }
        if let Some(claimed) = self.addresses.get(&host) {
            return claimed.map_or(Meaning::SeveralNodes, Meaning::Node);
        }
        if host.parse::<IpAddr>().is_ok() {
            return Meaning::NoNode;
        }
        // One of the two must itself be short: node7.a and node7.b are not the same machine.
        match host.split_once('.') {
            Some((short, _)) => self.nodes.find(short).map_or(Meaning::NoNode, Meaning::Node),
            None => match self.short_names.get(&host) {
                Some(claimed) => claimed.map_or(Meaning::SeveralNodes, Meaning::Node),
                None => Meaning::NoNode,
            },
        }
    }
}

fn claim(claims: &mut HashMap<String, Option<NodeIx>>, text: String, node: NodeIx) {
    claims
        .entry(text)
        .and_modify(|claimed| {
            if *claimed != Some(node) {
                *claimed = None;
            }
        })
        .or_insert(Some(node));
}

/// Without a port: `10.0.0.7:9103`, `[fd00::7]:9103`, `node7:9103`; a bare IPv6 address has none.
fn host_of(text: &str) -> &str {
    if let Some(inside) = text.strip_prefix('[') {
        return inside.split_once(']').map_or(text, |(host, _)| host);
    }
    if text.parse::<Ipv6Addr>().is_ok() {
        return text;
    }
    match text.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) => host,
        _ => text,
    }
}

/// One spelling for what is the same: IPv6 addresses have many, host names have no case.
fn canonical(host: &str) -> String {
    let without_zone = host.split_once('%').map_or(host, |(address, _)| address);
    match without_zone.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => host.trim_end_matches('.').to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Directory, Meaning, NodeFacts, NodeName};

    fn directory(nodes: &[(&str, &[&str])]) -> Directory {
        let fact = |(name, addresses): &(&str, &[&str])| NodeFacts {
            name: NodeName::new(name).unwrap(),
            addresses: addresses.iter().map(|&address| address.to_owned()).collect(),
        };
        Directory::new(&nodes.iter().map(fact).collect::<Vec<_>>())
    }

    fn meanings<const N: usize>(directory: &Directory, texts: [&str; N]) -> [String; N] {
        texts.map(|text| match directory.find(text) {
            Meaning::Node(node) => directory.nodes().name(node).to_string(),
            Meaning::NoNode => "-".to_owned(),
            Meaning::SeveralNodes => "several".to_owned(),
        })
    }

    #[test]
    fn a_node_is_found_by_name_address_and_short_name() {
        let directory = directory(&[
            ("node7.ocp.run", &["10.0.0.7", "fd00::7", "node7-host"]),
            ("worker", &["10.0.0.8", "worker.internal"]),
        ]);
        let texts = [
            "node7.ocp.run",
            "NODE7.ocp.run:9100",
            "10.0.0.7:9103",
            "[fd00:0::7]:9103",
            "fd00::7",
            "::ffff:10.0.0.7",
            "node7-host:9100",
            "node7",
            "node7:9100",
            "worker.elsewhere:80",
            "worker.internal",
            "10.0.0.8",
        ];
        assert_eq!(
            meanings(&directory, texts),
            [
                "node7.ocp.run",
                "node7.ocp.run",
                "node7.ocp.run",
                "node7.ocp.run",
                "node7.ocp.run",
                "node7.ocp.run",
                "node7.ocp.run",
                "node7.ocp.run",
                "node7.ocp.run",
                "worker",
                "worker",
                "worker",
            ]
        );
    }

    #[test]
    fn nothing_is_guessed() {
        let directory =
            directory(&[("a.east", &["10.0.0.1"]), ("a.west", &["10.0.0.1"]), ("b.east", &["10.0.0.2"])]);
        assert_eq!(
            meanings(
                &directory,
                ["a", "10.0.0.1:9", "b.west", "b", "c", "", ":9100", "[", "10.0.0.20", "10"]
            ),
            ["several", "several", "-", "b.east", "-", "-", "-", "-", "-", "-"]
        );
    }

    #[test]
    fn a_name_beats_another_nodes_address() {
        let directory = directory(&[("n1", &["n2"]), ("n2", &[])]);
        assert_eq!(meanings(&directory, ["n2"]), ["n2"]);
    }

    proptest! {
        #[test]
        fn no_text_brings_the_directory_down(text in "\\PC{0,40}|[\\[\\]:%.0-9a-f]{0,20}") {
            let _ = directory(&[("n1.x", &["10.0.0.1", "fe80::1%eth0"])]).find(&text);
        }

        #[test]
        fn every_node_is_found_by_its_own_name(names in proptest::collection::btree_set("[a-z][a-z0-9.-]{0,12}", 1..8)) {
            let nodes: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[] as &[&str])).collect();
            let directory = directory(&nodes);
            for name in &names {
                prop_assert_eq!(&meanings(&directory, [name]), std::slice::from_ref(name));
            }
        }
    }
}
