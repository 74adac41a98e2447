//! Requests of the sizes kube-scheduler sends.

use std::fmt;

use crate::engine_cost::node_name;

/// Images and labels that bring a node to about 8 kB, as in a small real cluster.
const IMAGES: usize = 20;

/// What is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    FilterNames(usize),
    PrioritizeNames(usize),
    FilterNodes(usize),
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FilterNames(count) => write!(f, "filter {count} names"),
            Self::PrioritizeNames(count) => write!(f, "prioritize {count} names"),
            Self::FilterNodes(count) => write!(f, "filter {count} full nodes"),
        }
    }
}

const POD: &str = r#"{"metadata":{"name":"web-7f9c","namespace":"default","uid":"6a1c","labels":{"app":"web","telemetry-policy":"policy-050"}},"spec":{"containers":[{"name":"web","image":"nginx:1.29","resources":{"limits":{"telemetry/scheduling":"1"}}}],"schedulerName":"default-scheduler"},"status":{"phase":"Pending"}}"#;

impl Call {
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::FilterNames(_) | Self::FilterNodes(_) => "/scheduler/filter",
            Self::PrioritizeNames(_) => "/scheduler/prioritize",
        }
    }

    pub(crate) fn body(self) -> String {
        let (nodes, names) = match self {
            Self::FilterNames(count) | Self::PrioritizeNames(count) => ("null".to_owned(), names(count)),
            Self::FilterNodes(count) => (node_list(count), "null".to_owned()),
        };
        format!(r#"{{"Pod":{POD},"Nodes":{nodes},"NodeNames":{names}}}"#)
    }

    /// The whole HTTP request but for its last header, which says how long the answer should be.
    pub(crate) fn request(self) -> Vec<u8> {
        let (path, body) = (self.path(), self.body());
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        );
        [head.as_bytes(), b"\r\n", body.as_bytes()].concat()
    }
}

fn names(count: usize) -> String {
    let names: Vec<String> = (0..count).map(|place| format!("\"{}\"", node_name(place))).collect();
    format!("[{}]", names.join(","))
}

fn node_list(count: usize) -> String {
    let nodes: Vec<String> = (0..count).map(node).collect();
    format!(r#"{{"metadata":{{}},"items":[{}]}}"#, nodes.join(","))
}

fn node(place: usize) -> String {
    let name = node_name(place);
    let image = |n: usize| {
        format!(
            r#"{{"names":["registry.example/team/app-{n}@sha256:{}","registry.example/team/app-{n}:v1.{n}.0"],"sizeBytes":{}}}"#,
            "0123456789abcdef".repeat(4),
            10_000_000 + n
        )
    };
    let images: Vec<String> = (0..IMAGES).map(image).collect();
    let managed = "f:status ".repeat(300);
    format!(
        r#"{{"metadata":{{"name":"{name}","uid":"u-{place}","labels":{{"kubernetes.io/hostname":"{name}","topology.kubernetes.io/zone":"z{}"}},"annotations":{{"managed":"{managed}"}}}},"spec":{{"podCIDR":"10.0.0.0/24"}},"status":{{"capacity":{{"cpu":"64","memory":"256Gi","pods":"110"}},"images":[{}]}}}}"#,
        place % 3,
        images.join(",")
    )
}
