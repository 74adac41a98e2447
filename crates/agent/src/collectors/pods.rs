//! CPU, memory and pressure of each pod from its control group, versions 1 and 2, swept every ten seconds.
//!
//! Pods' names come from the kubelet's log directories, so no call to the API server is ever made.

pub mod groups;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::collectors::Collector;
use crate::collectors::pressure::{self, Stalls};
use crate::family::{Family, NameSet};
use crate::host::{self, Buffer, Host};
use crate::moment::Moment;
use crate::page::{Digits, Page, Value};
use crate::scan;
use crate::trouble::Trouble;
use groups::{Pod, Version};

/// Pods written; the rest is counted.
pub const MAX_PODS: usize = 1000;
const SWEEP_EVERY: Duration = Duration::from_secs(10);
const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];
const LABELS: &str = "namespace, pod, uid";

static CPU: Family =
    Family::counter(NameSet::Tas, "node_pod_cpu_seconds_total", "seconds", "CPU time used by the pod.")
        .labels(LABELS)
        .source("/sys/fs/cgroup/…/cpu.stat (v2), cpuacct.usage (v1)")
        .peers("container_cpu_usage_seconds_total (kubelet)");
static MEMORY: Family = Family::gauge(
    NameSet::Tas,
    "node_pod_memory_bytes",
    "bytes",
    "Memory charged to the pod, caches included.",
)
.labels(LABELS)
.source("/sys/fs/cgroup/…/memory.current (v2), memory.usage_in_bytes (v1)")
.peers("container_memory_usage_bytes (kubelet)");
static WORKING: Family = Family::gauge(
    NameSet::Tas,
    "node_pod_memory_working_set_bytes",
    "bytes",
    "Memory charged to the pod, without file pages that could be dropped at once.",
)
.labels(LABELS)
.source("/sys/fs/cgroup/…/memory.stat")
.peers("container_memory_working_set_bytes (kubelet)");
static STALLED: Family = Family::counter(
    NameSet::Tas,
    "node_pod_pressure_seconds_total",
    "seconds",
    "Time with some or all tasks of the pod waiting for the resource.",
)
.labels("namespace, pod, uid, resource, kind (some, full)")
.source("/sys/fs/cgroup/…/{cpu,memory,io}.pressure (v2 only)")
.peers("container_pressure_*_seconds_total (kubelet 1.34)");
static RATIO: Family = Family::gauge(
    NameSet::Tas,
    "node_pod_pressure_ratio",
    "ratio",
    "Share of time with some or all tasks of the pod waiting for the resource, mean over 10 seconds.",
)
.labels("namespace, pod, uid, resource, kind (some, full)")
.source("/sys/fs/cgroup/…/{cpu,memory,io}.pressure (v2 only)");
static COUNT: Family =
    Family::gauge(NameSet::Tas, "node_pods", "pods", "Pods with a control group on this node.")
        .source("/sys/fs/cgroup");
static DROPPED: Family = Family::gauge(
    NameSet::Tas,
    "node_pod_left_out",
    "pods",
    "Pods that have no series of their own because there are too many.",
)
.source("/sys/fs/cgroup");
static FAMILIES: [&Family; 7] = [&CPU, &MEMORY, &WORKING, &STALLED, &RATIO, &COUNT, &DROPPED];

/// What one sweep saw of a pod.
struct Seen {
    uid: String,
    namespace: String,
    pod: String,
    /// Nanoseconds.
    cpu: Option<u64>,
    memory: Option<u64>,
    working: Option<u64>,
    stalls: [Stalls; 3],
}

/// The collector.
pub struct Pods {
    host: Host,
    logs: PathBuf,
    swept: Option<Duration>,
    outcome: Result<(), Trouble>,
    seen: Vec<Seen>,
    count: usize,
    named: usize,
}

impl Pods {
    /// Pods of this host; names from `logs`, else from where the kubelet puts them below the root.
    pub fn new(host: &Host, logs: Option<PathBuf>) -> Self {
        Self {
            host: host.clone(),
            logs: logs.unwrap_or_else(|| host.path("var/log/pods")),
            swept: None,
            outcome: Ok(()),
            seen: Vec::new(),
            count: 0,
            named: 0,
        }
    }

    fn sweep(&mut self, buffer: &mut Buffer) -> Result<(), Trouble> {
        self.seen.clear();
        let found = groups::find(&self.host)?;
        self.count = found.len();
        let names = self.names();
        self.named = names.len();
        for pod in found.iter().take(MAX_PODS) {
            if let Some(mut seen) = look(pod, buffer) {
                if let Some((namespace, name)) = names.get(&seen.uid) {
                    (seen.namespace, seen.pod) = (namespace.clone(), name.clone());
                }
                self.seen.push(seen);
            }
        }
        Ok(())
    }

    /// `<namespace>_<pod>_<uid>` are the names of log directories; none of the three can hold an underscore.
    fn names(&self) -> HashMap<String, (String, String)> {
        let entries = host::names_in(&self.logs).unwrap_or_default();
        entries.iter().filter_map(|entry| groups::parse_log_directory(entry)).collect()
    }

    fn samples(&self, page: &mut Page, family: &'static Family, of: impl Fn(&Seen) -> Option<Value>) {
        if page.family(family) {
            for seen in &self.seen {
                if let Some(value) = of(seen) {
                    page.sample(&seen.labels(), value);
                }
            }
        }
    }

    fn stalls(&self, page: &mut Page, family: &'static Family, of: impl Fn(&pressure::Stall) -> Value) {
        if !page.family(family) {
            return;
        }
        for seen in &self.seen {
            let [namespace, pod, uid] = seen.labels();
            for (resource, stalls) in RESOURCES.iter().zip(&seen.stalls) {
                for (kind, stall) in [("some", stalls.some), ("full", stalls.full)] {
                    if let Some(stall) = stall {
                        let what: [(&str, &[u8]); 5] = [
                            namespace,
                            pod,
                            uid,
                            ("resource", resource.as_bytes()),
                            ("kind", kind.as_bytes()),
                        ];
                        page.sample(&what, of(&stall));
                    }
                }
            }
        }
    }
}

impl Seen {
    fn labels(&self) -> [(&str, &[u8]); 3] {
        [("namespace", self.namespace.as_bytes()), ("pod", self.pod.as_bytes()), ("uid", self.uid.as_bytes())]
    }
}

/// Reads one pod's files; none if it has gone meanwhile.
fn look(pod: &Pod, buffer: &mut Buffer) -> Option<Seen> {
    let mut seen = Seen {
        uid: pod.uid.clone(),
        namespace: String::new(),
        pod: String::new(),
        cpu: None,
        memory: None,
        working: None,
        stalls: Default::default(),
    };
    let memory = pod.memory.as_deref();
    match pod.version {
        Version::Two => {
            let group = pod.cpu.as_deref()?;
            let stat = host::read_once(&group.join("cpu.stat"), buffer).ok();
            seen.cpu = stat.and_then(|t| keyed(t, b"usage_usec")).and_then(|us| us.checked_mul(1000));
            seen.memory = host::number_once(&group.join("memory.current"), buffer).ok();
            for (resource, stalls) in RESOURCES.iter().zip(&mut seen.stalls) {
                if let Ok(text) = host::read_once(&group.join(format!("{resource}.pressure")), buffer) {
                    *stalls = pressure::parse(text);
                }
            }
        }
        Version::One => {
            if let Some(group) = pod.cpu.as_deref() {
                seen.cpu = host::number_once(&group.join("cpuacct.usage"), buffer).ok();
            }
            if let Some(group) = memory {
                seen.memory = host::number_once(&group.join("memory.usage_in_bytes"), buffer).ok();
            }
        }
    }
    let (group, key): (_, &[u8]) = match pod.version {
        Version::Two => (pod.cpu.as_deref(), b"inactive_file"),
        Version::One => (memory, b"total_inactive_file"),
    };
    if let (Some(group), Some(charged)) = (group, seen.memory) {
        let stat = host::read_once(&group.join("memory.stat"), buffer).ok();
        seen.working = stat.and_then(|t| keyed(t, key)).map(|inactive| charged.saturating_sub(inactive));
    }
    (seen.cpu.is_some() || seen.memory.is_some()).then_some(seen)
}

/// The number behind `key` in lines of `key number`.
fn keyed(text: &[u8], key: &[u8]) -> Option<u64> {
    let line = scan::lines(text).find(|line| scan::fields(line).next() == Some(key))?;
    scan::number(scan::fields(line).nth(1)?)
}

impl Collector for Pods {
    fn source(&self) -> &'static str {
        "pods"
    }

    fn families(&self) -> &'static [&'static Family] {
        &FAMILIES
    }

    fn tick(&mut self, now: Moment, buffer: &mut Buffer) {
        if self.swept.is_none_or(|swept| now.up >= swept + SWEEP_EVERY) {
            self.outcome = self.sweep(buffer);
            self.swept = Some(now.up);
        }
    }

    fn read(&mut self, now: Moment, buffer: &mut Buffer) -> Result<(), Trouble> {
        if self.swept.is_none() {
            self.tick(now, buffer);
        }
        self.outcome.clone()
    }

    fn write(&self, _now: Moment, page: &mut Page) {
        self.samples(page, &CPU, |seen| Some(Value::Fixed(seen.cpu?, 9)));
        self.samples(page, &MEMORY, |seen| Some(Value::Count(seen.memory?)));
        self.samples(page, &WORKING, |seen| Some(Value::Count(seen.working?)));
        self.stalls(page, &STALLED, |stall| Value::Fixed(stall.total, 6));
        self.stalls(page, &RATIO, |stall| Value::Fixed(stall.avg10, 4));
        page.family(&COUNT);
        page.sample(&[], Value::Count(self.count as u64));
        page.family(&DROPPED);
        page.sample(&[], Value::Count(self.count.saturating_sub(MAX_PODS) as u64));
    }

    fn measured_at(&self) -> Option<Duration> {
        self.swept
    }

    fn found(&self) -> String {
        let names = match (self.count, self.named) {
            (0, _) => "",
            (_, 0) => "; without names: mount the kubelet's pod logs",
            _ => "",
        };
        let digits = Digits::of(self.count as u64);
        format!("{} pods{names}", String::from_utf8_lossy(digits.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_number_is_found_behind_its_key() {
        let text = b"usage_usec 12\nuser_usec 7\nusage_usec_more 3\n";
        assert_eq!(keyed(text, b"usage_usec"), Some(12));
        assert_eq!(keyed(text, b"user"), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>, key: Vec<u8>) {
            let _ = keyed(&text, &key);
        }
    }
}
