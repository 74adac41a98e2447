//! Where pods' control groups are: versions 1 and 2, both cgroup drivers of the kubelet, any nesting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::host::{self, Host};
use crate::trouble::Trouble;

/// How deep `kubepods` is looked for; kind and some distributions put it below the kubelet's own group.
const SEARCH_DEPTH: usize = 3;
/// Directories looked into in search of it.
const MAX_SEARCHED: usize = 2000;

/// Which control groups a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy for each controller.
    One,
    /// One hierarchy for all.
    Two,
}

/// A pod's control groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// As the API server knows it.
    pub uid: String,
    /// Which files to expect.
    pub version: Version,
    /// The group that counts CPU time; with version 2 everything.
    pub cpu: Option<PathBuf>,
    /// The group that counts memory, with version 1.
    pub memory: Option<PathBuf>,
}

/// All pods, by uid.
pub fn find(host: &Host) -> Result<Vec<Pod>, Trouble> {
    let root = host.path("sys/fs/cgroup");
    let entries = host::names_in(&root)?;
    if entries.iter().any(|name| name == "cgroup.controllers") {
        let pods = pods_below(&root)?;
        let pod = |(uid, group)| Pod { uid, version: Version::Two, cpu: Some(group), memory: None };
        return Ok(pods.into_iter().map(pod).collect());
    }
    // With version 1 a pod has a group in each hierarchy; `cpu,cpuacct` and its two links are one and the same.
    let hierarchy = |names: [&str; 2]| {
        names.iter().map(|name| root.join(name)).find(|path| path.is_dir()).map(|path| pods_below(&path))
    };
    let cpu = hierarchy(["cpuacct", "cpu,cpuacct"]).unwrap_or_else(|| Ok(BTreeMap::new()));
    let mut memory =
        hierarchy(["memory", "memory"]).unwrap_or_else(|| Ok(BTreeMap::new())).unwrap_or_default();
    let mut pods: Vec<Pod> = Vec::new();
    for (uid, group) in cpu? {
        let memory = memory.remove(&uid);
        pods.push(Pod { uid, version: Version::One, cpu: Some(group), memory });
    }
    let rest = memory.into_iter();
    pods.extend(rest.map(|(uid, group)| Pod { uid, version: Version::One, cpu: None, memory: Some(group) }));
    Ok(pods)
}

fn pods_below(hierarchy: &Path) -> Result<BTreeMap<String, PathBuf>, Trouble> {
    let mut searched = 0;
    let kubepods = search(hierarchy, SEARCH_DEPTH, &mut searched)
        .ok_or_else(|| Trouble::Absent { path: hierarchy.join("kubepods.slice") })?;
    let mut pods = BTreeMap::new();
    for name in host::names_in(&kubepods)? {
        let path = kubepods.join(&name);
        if let Some(uid) = uid(&name) {
            pods.insert(uid, path);
        } else if name.contains("burstable") || name.contains("besteffort") {
            // A class may go while it is looked into; the other one still counts.
            for name in host::names_in(&path).unwrap_or_default() {
                if let Some(uid) = uid(&name) {
                    pods.insert(uid, path.join(&name));
                }
            }
        }
    }
    Ok(pods)
}

fn search(directory: &Path, depth: usize, searched: &mut usize) -> Option<PathBuf> {
    let names: Vec<String> = host::names_in(directory).unwrap_or_default();
    let is_kubepods = |name: &&String| matches!(name.trim_end_matches(".slice"), n if n == "kubepods" || n.ends_with("-kubepods"));
    if let Some(name) = names.iter().find(is_kubepods) {
        return Some(directory.join(name));
    }
    let deeper = depth.checked_sub(1)?;
    names.iter().find_map(|name| {
        let path = directory.join(name);
        *searched += 1;
        // Only groups that hold a kubelet can hold its pods: slices, scopes, and what it is called.
        let hopeful =
            ["kubelet", "docker", "kind", "k3s", "rke", "podruntime"].iter().any(|part| name.contains(part));
        (*searched < MAX_SEARCHED && hopeful && path.is_dir())
            .then(|| search(&path, deeper, searched))
            .flatten()
    })
}

/// The uid in a group's name: `pod<uid>` (cgroupfs) or `kubepods-burstable-pod<uid>.slice` (systemd, `-` as `_`).
pub fn uid(name: &str) -> Option<String> {
    let (uid, systemd) = match name.strip_suffix(".slice") {
        Some(name) => (name.rsplit_once("-pod")?.1, true),
        None => (name.strip_prefix("pod")?, false),
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || c == if systemd { '_' } else { '-' };
    let fits = (8..=64).contains(&uid.len()) && uid.chars().all(legal);
    fits.then(|| uid.replace('_', "-"))
}

/// A log directory's name: the uid, and the namespace and name behind it.
pub fn parse_log_directory(name: &str) -> Option<(String, (String, String))> {
    let mut parts = name.split('_');
    let (namespace, pod, uid) = (parts.next()?, parts.next()?, parts.next()?);
    let complete = parts.next().is_none() && !namespace.is_empty() && !pod.is_empty() && !uid.is_empty();
    complete.then(|| (uid.to_owned(), (namespace.to_owned(), pod.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UID: &str = "0f1c9e1a-8a52-4d1e-9a35-1c7f0a1b2c3d";

    #[test]
    fn both_drivers_name_their_groups() {
        let cases = [
            (format!("pod{UID}"), Some(UID.to_owned())),
            (format!("kubepods-burstable-pod{}.slice", UID.replace('-', "_")), Some(UID.to_owned())),
            (format!("kubepods-pod{}.slice", UID.replace('-', "_")), Some(UID.to_owned())),
            (
                "pod8d2f5a1c9b7e4f3a6d5c4b3a29181706".to_owned(),
                Some("8d2f5a1c9b7e4f3a6d5c4b3a29181706".to_owned()),
            ),
            ("kubepods-besteffort.slice".to_owned(), None),
            ("pod".to_owned(), None),
            ("podman-1.scope".to_owned(), None),
        ];
        for (name, expected) in cases {
            assert_eq!(uid(&name), expected, "{name}");
        }
    }

    #[test]
    fn log_directories_tell_names() {
        let expected = (UID.to_owned(), ("kube-system".to_owned(), "coredns-1".to_owned()));
        assert_eq!(parse_log_directory(&format!("kube-system_coredns-1_{UID}")), Some(expected));
        for other in ["a_b", "a_b_c_d", "", "__"] {
            assert_eq!(parse_log_directory(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_name_is_read_without_a_panic(name: String) {
            let _ = (uid(&name), parse_log_directory(&name));
        }
    }
}
