//! The objects a test creates most: nodes that KWOK plays, and small pods.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::json;

/// A node to be played by KWOK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeShape {
    /// Its name.
    pub name: String,
    /// Labels beside the usual ones.
    pub labels: BTreeMap<String, String>,
    /// Capacity, all of it allocatable.
    pub capacity: BTreeMap<String, String>,
}

impl NodeShape {
    /// A node of 16 cores, 64 GiB and 110 pods.
    pub fn new(name: impl Into<String>) -> Self {
        let capacity = [("cpu", "16"), ("memory", "64Gi"), ("pods", "110")];
        Self {
            name: name.into(),
            labels: BTreeMap::new(),
            capacity: capacity.map(|(resource, amount)| (resource.to_owned(), amount.to_owned())).into(),
        }
    }

    /// With one more label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    /// With another amount of a resource, or a resource more.
    #[must_use]
    pub fn capacity(mut self, resource: &str, amount: &str) -> Self {
        self.capacity.insert(resource.to_owned(), amount.to_owned());
        self
    }

    /// As the object that is sent to the API server; `index` gives it an address of its own.
    pub fn object(&self, index: usize) -> Node {
        let mut labels = self.labels.clone();
        for (key, value) in [
            ("kubernetes.io/hostname", self.name.as_str()),
            ("kubernetes.io/os", "linux"),
            ("kubernetes.io/arch", "amd64"),
            ("type", "kwok"),
        ] {
            labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
        let address = format!("10.{}.{}.{}", 200 + index / 62_500 % 50, index / 250 % 250, index % 250 + 1);
        let node = json!({
            "metadata": {
                "name": self.name,
                "labels": labels,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
            },
            "status": {
                "capacity": self.capacity,
                "allocatable": self.capacity,
                "addresses": [
                    {"type": "InternalIP", "address": address},
                    {"type": "Hostname", "address": self.name},
                ],
                "nodeInfo": {
                    "architecture": "amd64", "operatingSystem": "linux", "osImage": "kwok",
                    "kernelVersion": "kwok", "containerRuntimeVersion": "kwok", "kubeletVersion": "kwok",
                    "kubeProxyVersion": "", "bootID": "", "machineID": "", "systemUUID": "",
                },
            },
        });
        serde_json::from_value(node).expect("written as a node")
    }
}

/// `PREFIX-1` to `PREFIX-COUNT`.
pub fn nodes(prefix: &str, count: usize) -> Vec<NodeShape> {
    (1..=count).map(|number| NodeShape::new(format!("{prefix}-{number}"))).collect()
}

/// A pod that asks for little and runs wherever it is put; change what the test is about.
pub fn pod(name: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "main",
                "image": "example.invalid/image:1",
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}},
            }],
        },
    });
    serde_json::from_value(pod).expect("written as a pod")
}
