//! What was typed and what the configuration file says, and from both what holds: `Args` → `Config`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use serde::Deserialize;

use crate::collectors::{SOURCES, Settings};
use crate::family::NameSets;
use crate::host::{Buffer, Host, read_once};
use crate::scan;

/// The largest configuration file that is read.
pub const MAX_CONFIG_FILE: u64 = 64 * 1024;

/// Telemetry of this node for Prometheus: power, temperature, pressure, CPU, memory, network, disks and pods.
#[derive(Clone, Debug, Default, Parser)]
#[command(
    name = "tas-agent",
    version,
    max_term_width = 110,
    after_help = "\
Examples:
  tas-agent                                          serve on port 9103, any path
  tas-agent --explain                                what this host offers, and what is missing
  tas-agent --once --names tas                       one page on standard output
  tas-agent --listen 127.0.0.1:9103 --without pods   for this host alone, without its pods
  tas-agent --root /host --web-config web.yml        in a container, with TLS and users
  tas-agent --textfile-directory /var/lib/metrics    with what other programs measure

All metrics: docs/metrics-agent.md. How to deploy it: docs/agent.md."
)]
pub struct Args {
    /// Address to serve on, or :PORT for all addresses [default: :9103]
    #[arg(long, value_name = "ADDR", env = "TAS_AGENT_LISTEN", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,

    /// Where the host's `proc` and `sys` are [default: /]
    #[arg(long, value_name = "DIR", env = "TAS_AGENT_ROOT")]
    pub root: Option<PathBuf>,

    /// Sets of names to write: collectd, node, tas [default: all three]
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "TAS_AGENT_NAMES")]
    pub names: Option<Vec<String>>,

    /// Read these sources only (see --explain for their names)
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "TAS_AGENT_SOURCES")]
    pub sources: Option<Vec<String>>,

    /// Leave these sources out
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "TAS_AGENT_WITHOUT")]
    pub without: Option<Vec<String>>,

    /// What the node is called in collectd's names [default: the host's name]
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    pub node_name: Option<String>,

    /// Watts one package was built for, where the kernel does not say (AMD)
    #[arg(long, value_name = "WATTS", env = "TAS_AGENT_TDP_WATTS")]
    pub tdp_watts: Option<u32>,

    /// Interfaces to leave out; `*` at the end stands for any rest [default: veth*,cali*,lxc*]
    #[arg(long, value_name = "LIST", value_delimiter = ',', env = "TAS_AGENT_IGNORE_INTERFACES")]
    pub ignore_interfaces: Option<Vec<String>>,

    /// Directory with `*.prom` files whose metrics are passed on
    #[arg(
        long,
        value_name = "DIR",
        env = "TAS_AGENT_TEXTFILE_DIRECTORY",
        alias = "collector.textfile.directory"
    )]
    pub textfile_directory: Option<PathBuf>,

    /// Age in seconds at which such a file is dropped [default: never]
    #[arg(long, value_name = "SECONDS", env = "TAS_AGENT_TEXTFILE_MAX_AGE")]
    pub textfile_max_age: Option<u64>,

    /// Directory with the kubelet's pod logs, whose names are those of the pods [default: var/log/pods below the root]
    #[arg(long, value_name = "DIR", env = "TAS_AGENT_POD_LOGS")]
    pub pod_logs: Option<PathBuf>,

    /// File with the same settings (YAML, flag names as keys); read again on SIGHUP
    #[arg(long, value_name = "FILE", env = "TAS_AGENT_CONFIG")]
    pub config: Option<PathBuf>,

    /// TLS and users, in the format of Prometheus exporters; read again when it changes
    #[arg(long, value_name = "FILE", env = "TAS_AGENT_WEB_CONFIG", alias = "web.config.file")]
    pub web_config: Option<PathBuf>,

    /// Sample for two seconds, print one page and exit
    #[arg(long, conflicts_with = "explain")]
    pub once: bool,

    /// Print what this host offers, what is missing and which right it would take, and exit
    #[arg(long)]
    pub explain: bool,

    /// How --explain says it: human or json [default: human]
    #[arg(long, short, value_enum, value_name = "FORMAT", requires = "explain")]
    pub output: Option<Output>,

    /// Write logs as JSON
    #[arg(long, env = "TAS_AGENT_LOG_JSON")]
    pub log_json: bool,
}

/// For whom something is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table for people.
    #[default]
    Human,
    /// One JSON object.
    Json,
}

/// The configuration file: the flags that make sense in it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct File {
    listen: Option<String>,
    root: Option<PathBuf>,
    names: Option<Vec<String>>,
    sources: Option<Vec<String>>,
    without: Option<Vec<String>>,
    node_name: Option<String>,
    tdp_watts: Option<u32>,
    ignore_interfaces: Option<Vec<String>>,
    textfile_directory: Option<PathBuf>,
    textfile_max_age: Option<u64>,
    pod_logs: Option<PathBuf>,
    web_config: Option<PathBuf>,
}

/// What holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where to serve.
    pub listen: SocketAddr,
    /// Where the host is.
    pub root: PathBuf,
    /// What to write.
    pub names: NameSets,
    /// What the node is called.
    pub node_name: String,
    /// What collectors need to know.
    pub settings: Settings,
    /// Where TLS and users are described.
    pub web_config: Option<PathBuf>,
}

/// What is wrong with the settings.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSetting {
    /// A set of names we do not speak.
    #[error(
        "unknown set of names {name:?}; write collectd, node, tas or several of them with commas between"
    )]
    NameSet {
        /// As it was written.
        name: String,
    },
    /// A source we do not have.
    #[error("unknown source {name:?}; there are {}", SOURCES.join(", "))]
    Source {
        /// As it was written.
        name: String,
    },
    /// An address in the file that is none.
    #[error("listen address {text:?} is not like 127.0.0.1:9103, [::1]:9103 or :9103")]
    Listen {
        /// As it was written.
        text: String,
    },
    /// The file cannot be read or understood.
    #[error("configuration file {path:?}: {what}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it, with line and column.
        what: String,
    },
}

/// Reads `127.0.0.1:9103`, or `:9103` for all addresses, as other exporters do.
fn listen_address(text: &str) -> Result<SocketAddr, BadSetting> {
    let all = text.strip_prefix(':').and_then(|port| port.parse().ok());
    let all = all.map(|port: u16| SocketAddr::from(([0u16; 8], port)));
    all.or_else(|| text.parse().ok()).ok_or_else(|| BadSetting::Listen { text: text.to_owned() })
}

/// Reads `collectd,node` and the like.
pub fn name_sets<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<NameSets, BadSetting> {
    let mut sets = NameSets { collectd: false, node: false, tas: false };
    for name in names {
        match name.trim() {
            "collectd" => sets.collectd = true,
            "node" => sets.node = true,
            "tas" => sets.tas = true,
            _ => return Err(BadSetting::NameSet { name: name.to_owned() }),
        }
    }
    Ok(sets)
}

impl Config {
    /// Reads the file, if there is one, and puts the flags over it.
    pub fn resolve(args: &Args) -> Result<Self, BadSetting> {
        let file = args.config.as_deref().map(read).transpose()?.unwrap_or_default();
        let listen = match (args.listen, file.listen) {
            (Some(listen), _) => listen,
            (None, Some(text)) => listen_address(&text)?,
            (None, None) => SocketAddr::from(([0u16; 8], 9103)),
        };
        let root = args.root.clone().or(file.root).unwrap_or_else(|| PathBuf::from("/"));
        let names = match args.names.as_ref().or(file.names.as_ref()) {
            Some(names) => name_sets(names.iter().map(String::as_str))?,
            None => NameSets::ALL,
        };
        let only = args.sources.as_ref().or(file.sources.as_ref());
        let without = args.without.as_ref().or(file.without.as_ref());
        // A manifest may set the variable to nothing; a node without a name is nobody's.
        let said = |name: &String| !name.trim().is_empty();
        let node_name = args.node_name.clone().filter(said).or(file.node_name.filter(said));
        let node_name = node_name.unwrap_or_else(|| host_name(&root));
        let standard = Settings::default();
        let patterns =
            args.ignore_interfaces.clone().or(file.ignore_interfaces).unwrap_or(standard.ignored_interfaces);
        let settings = Settings {
            off: off(only, without)?,
            tdp_watts: args.tdp_watts.or(file.tdp_watts),
            ignored_interfaces: patterns.into_iter().filter(|pattern| !pattern.is_empty()).collect(),
            textfile_directory: args.textfile_directory.clone().or(file.textfile_directory),
            textfile_max_age: args.textfile_max_age.or(file.textfile_max_age).map(Duration::from_secs),
            pod_logs: args.pod_logs.clone().or(file.pod_logs),
        };
        let web_config = args.web_config.clone().or(file.web_config);
        Ok(Self { listen, root, names, node_name, settings, web_config })
    }
}

fn off(only: Option<&Vec<String>>, without: Option<&Vec<String>>) -> Result<Vec<String>, BadSetting> {
    let all = only.into_iter().chain(without).flatten();
    if let Some(name) = all.into_iter().find(|name| !SOURCES.contains(&name.trim())) {
        return Err(BadSetting::Source { name: name.clone() });
    }
    let is_off = |source: &&&str| {
        let named = |list: &Vec<String>| list.iter().any(|name| name.trim() == **source);
        only.is_some_and(|only| !named(only)) || without.is_some_and(named)
    };
    Ok(SOURCES.iter().filter(is_off).map(|source| (*source).to_owned()).collect())
}

fn read(path: &Path) -> Result<File, BadSetting> {
    let text = read_small(path).map_err(|what| BadSetting::File { path: path.to_owned(), what })?;
    // An empty file is a file without settings.
    if text.trim().is_empty() {
        return Ok(File::default());
    }
    serde_saphyr::from_str(&text)
        .map_err(|error| BadSetting::File { path: path.to_owned(), what: error.to_string() })
}

/// The text of a small file, without ever blocking on it.
pub fn read_small(path: &Path) -> Result<String, String> {
    use std::io::Read;
    let file = crate::host::open_plain(path).map_err(|trouble| trouble.to_string())?;
    let mut text = String::new();
    file.take(MAX_CONFIG_FILE + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_CONFIG_FILE {
        return Err(format!("longer than {MAX_CONFIG_FILE} bytes"));
    }
    Ok(text)
}

/// What the host calls itself; with a root that is the host's name, not the container's.
fn host_name(root: &Path) -> String {
    let mut buffer = Buffer::default();
    let name = read_once(&Host::at(root).path("proc/sys/kernel/hostname"), &mut buffer);
    let name = name.map(|text| String::from_utf8_lossy(scan::trimmed(text)).into_owned()).unwrap_or_default();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[expect(clippy::unwrap_in_result, reason = "a set-up that fails ends the test")]
    fn config(flags: &[&str], file: Option<&str>) -> Result<Config, BadSetting> {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("agent.yaml");
        let mut all = vec!["tas-agent".to_owned()];
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        if let Some(text) = file {
            std::fs::write(&path, text).expect("ours");
            all.push(format!("--config={}", path.display()));
        }
        all.push(format!("--root={}", directory.path().display()));
        Config::resolve(&Args::try_parse_from(all).expect("flags that exist"))
            .map(|config| Config { root: PathBuf::new(), ..config })
    }

    #[test]
    fn the_flags_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn without_anything_all_names_are_served_on_9103() {
        let expected = Config {
            listen: "[::]:9103".parse().expect("an address"),
            root: PathBuf::new(),
            names: NameSets::ALL,
            node_name: "localhost".to_owned(),
            settings: Settings::default(),
            web_config: None,
        };
        assert_eq!(config(&[], None), Ok(expected.clone()));
        assert_eq!(config(&[], Some("")), Ok(expected));
    }

    #[test]
    fn a_flag_goes_before_the_file() {
        let file = "names: [node]\ntdp-watts: 200\nlisten: 127.0.0.1:9\nwithout: [pods]\n";
        let from_file = config(&[], Some(file)).expect("legal");
        assert_eq!(from_file.names, NameSets { collectd: false, node: true, tas: false });
        assert_eq!((from_file.settings.tdp_watts, from_file.listen.port()), (Some(200), 9));
        assert_eq!(listen_address(":9104"), Ok("[::]:9104".parse().expect("an address")));
        assert_eq!(from_file.settings.off, vec!["pods"]);
        let from_both = config(&["--names=tas,collectd", "--tdp-watts=300"], Some(file)).expect("legal");
        assert_eq!(from_both.names, NameSets { collectd: true, node: false, tas: true });
        assert_eq!(from_both.settings.tdp_watts, Some(300));
    }

    #[test]
    fn sources_can_be_chosen_and_left_out() {
        let off = config(&["--sources=cpu,load,rapl", "--without=load"], None).expect("legal").settings.off;
        assert_eq!(off.len(), SOURCES.len() - 2);
        assert!(!off.contains(&"cpu".to_owned()) && off.contains(&"load".to_owned()));
    }

    #[test]
    fn blanks_around_a_source_and_an_empty_name_of_the_node_do_not_matter() {
        let off = |flag: &str| config(&[flag], None).expect("legal").settings.off;
        assert_eq!(off("--sources=rapl, cpu"), off("--sources=rapl,cpu"));
        assert_eq!(off("--without= pods ,load"), off("--without=pods,load"));
        let name = |flags: &[&str], file| config(flags, file).expect("legal").node_name;
        assert_eq!(name(&["--node-name="], None), "localhost");
        assert_eq!(name(&["--node-name="], Some("node-name: n2\n")), "n2");
        assert_eq!(name(&["--node-name=n1"], Some("node-name: n2\n")), "n1");
    }

    #[test]
    fn what_is_wrong_is_quoted_with_the_way_out() {
        let words = |error: Result<Config, BadSetting>| error.expect_err("wrong").to_string();
        assert_eq!(
            words(config(&["--names=node,nagios"], None)),
            "unknown set of names \"nagios\"; write collectd, node, tas or several of them with commas between"
        );
        assert!(
            words(config(&["--without=gpu"], None))
                .starts_with("unknown source \"gpu\"; there are rapl, cpu,")
        );
        assert_eq!(
            words(config(&[], Some("listen: here\n"))),
            "listen address \"here\" is not like 127.0.0.1:9103, [::1]:9103 or :9103"
        );
        let unknown = words(config(&[], Some("nmaes: [node]\n")));
        assert!(unknown.contains("agent.yaml") && unknown.contains("nmaes"), "{unknown}");
        let long = words(config(&[], Some(&"#".repeat(70_000))));
        assert!(long.ends_with("longer than 65536 bytes"), "{long}");
    }
}
