//! Who is measured: ours, node_exporter and collectd, each as a process of its own on loopback.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use testbed::binaries;
use testbed::places::Places;
use testbed::programs;

use crate::cpu;

/// How long a process may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// What collectd's names carry as the host's name, and ours with them.
pub(crate) const NODE: &str = "node-1";

/// The collectors that both have, as ours calls them.
const SOURCES: &str = "cpu,memory,load,network,disks,pressure,thermal,throttle,hwmon,numa,edac,rapl";

/// How the kernel's account of a process is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Account {
    /// To the nanosecond, but only of threads that live.
    Threads,
    /// To the hundredth of a second, and of threads that have ended too.
    Ticks,
}

/// The programs to start.
pub(crate) struct Programs {
    ours: PathBuf,
    node_exporter: PathBuf,
    collectd: Option<PathBuf>,
}

/// One process under measurement, until it is dropped.
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
    child: Child,
    account: Account,
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Programs {
    /// Builds ours as it is shipped and finds the peers.
    pub(crate) fn find() -> io::Result<Self> {
        let ours = built()?;
        let places = Places::of_this_user().map_err(io::Error::other)?;
        let found = binaries::provide(&[programs::NODE_EXPORTER], &places, &mut |line| eprintln!("{line}"));
        let node_exporter = found.map_err(io::Error::other)?.path(&programs::NODE_EXPORTER).to_owned();
        // Debian keeps daemons where the search path of a plain user does not look.
        let directories = places.path.iter().cloned().chain([PathBuf::from("/usr/sbin")]);
        let collectd = directories.map(|directory| directory.join("collectd")).find(|file| file.is_file());
        Ok(Self { ours, node_exporter, collectd })
    }

    pub(crate) fn has_collectd(&self) -> bool {
        self.collectd.is_some()
    }

    /// Ours with node_exporter's names and the collectors that both have.
    pub(crate) fn ours_alike(&self, root: &Path) -> io::Result<Subject> {
        let sources = format!("--sources={SOURCES}");
        self.ours("tas-agent", root, &["--names=node", "--ignore-interfaces=", &sources])
    }

    /// Ours with collectd's names and the collectors that both have.
    pub(crate) fn ours_as_collectd(&self) -> io::Result<Subject> {
        let flags =
            ["--names=collectd", "--ignore-interfaces=", "--sources=cpu,memory,load,network,hugepages"];
        self.ours("tas-agent", Path::new("/"), &flags)
    }

    /// Ours with everything on.
    pub(crate) fn ours_whole(&self, root: &Path) -> io::Result<Subject> {
        self.ours("tas-agent", root, &["--ignore-interfaces="])
    }

    fn ours(&self, name: &str, root: &Path, flags: &[&str]) -> io::Result<Subject> {
        let mut command = Command::new(&self.ours);
        command.args(flags).arg("--node-name").arg(NODE).arg("--root").arg(root);
        start(name, Account::Threads, command, |command, address| {
            command.arg(format!("--listen={address}"));
            Ok(())
        })
    }

    /// node_exporter with the collectors that both have; on a made host everything is read from its files.
    pub(crate) fn node_exporter_alike(&self, root: &Path) -> io::Result<Subject> {
        let mut flags =
            vec!["--collector.disable-defaults".to_owned(), "--web.disable-exporter-metrics".to_owned()];
        flags.extend(programs::NODE_EXPORTER_COLLECTORS.iter().map(|name| format!("--collector.{name}")));
        if root != Path::new("/") {
            flags.push("--no-collector.netdev.netlink".to_owned());
            flags.push(format!("--path.procfs={}", root.join("proc").display()));
            flags.push(format!("--path.sysfs={}", root.join("sys").display()));
        }
        self.node_exporter(&flags)
    }

    /// node_exporter as it comes.
    pub(crate) fn node_exporter_whole(&self) -> io::Result<Subject> {
        self.node_exporter(&[])
    }

    fn node_exporter(&self, flags: &[String]) -> io::Result<Subject> {
        let mut command = Command::new(&self.node_exporter);
        command.args(flags);
        start("node_exporter", Account::Threads, command, |command, address| {
            command.arg(format!("--web.listen-address={address}"));
            Ok(())
        })
    }

    /// collectd with the plugins of the OpenShift document that run anywhere, read every `interval` seconds.
    pub(crate) fn collectd(&self, directory: &Path, interval: u32) -> io::Result<Option<Subject>> {
        let Some(binary) = &self.collectd else { return Ok(None) };
        let file = directory.join(format!("collectd-{interval}.conf"));
        let mut command = Command::new(binary);
        command.arg("-f").arg("-C").arg(&file);
        let account = Account::Ticks;
        start("collectd", account, command, |_, address| {
            let (ip, port) = (address.ip(), address.port());
            let plugins = "cpu memory load interface hugepages write_prometheus";
            let load = format!("LoadPlugin {}", plugins.replace(' ', "\nLoadPlugin "));
            let data = directory.display();
            fs::write(
                &file,
                format!(
                    "Hostname \"{NODE}\"\nFQDNLookup false\nInterval {interval}\nBaseDir \"{data}\"\n\
                     PIDFile \"{data}/collectd.pid\"\n{load}\n\
                     <Plugin write_prometheus>\n  Host \"{ip}\"\n  Port \"{port}\"\n\
                     </Plugin>\n"
                ),
            )
        })
        .map(Some)
    }
}

/// The agent as it is shipped: optimised, stripped and static.
fn built() -> io::Result<PathBuf> {
    eprintln!("building tas-agent as it is shipped (dist-agent, static)");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let built = Command::new(cargo)
        .args(["rustc", "--quiet", "--profile=dist-agent", "--package=tas-agent", "--bin=tas-agent"])
        .args(["--message-format=json-render-diagnostics", &format!("--target={triple}"), "--"])
        .args(["-C", "target-feature=+crt-static"])
        .stderr(Stdio::inherit())
        .output()?;
    if !built.status.success() {
        return Err(io::Error::other("the agent cannot be built; see above"));
    }
    // Cargo says where it put what it built: one line of JSON for each artefact, the executable's path in the last.
    let text = String::from_utf8_lossy(&built.stdout).into_owned();
    let path =
        text.lines().filter_map(|line| line.split("\"executable\":\"").nth(1)?.split('"').next()).next_back();
    path.map(PathBuf::from).ok_or_else(|| io::Error::other("cargo does not say where the agent is"))
}

/// Starts a process on a port that was free a moment ago and waits until it listens there.
fn start(
    name: &str,
    account: Account,
    mut command: Command,
    at: impl FnOnce(&mut Command, SocketAddr) -> io::Result<()>,
) -> io::Result<Subject> {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    at(&mut command, address)?;
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let mut subject = Subject { name: name.to_owned(), address, child, account };
    let until = Instant::now() + PATIENCE;
    while TcpStream::connect(address).is_err() {
        if let Some(status) = subject.child.try_wait()? {
            return Err(io::Error::other(format!(
                "{name} ended ({status}) instead of listening on {address}"
            )));
        }
        if Instant::now() > until {
            return Err(io::Error::other(format!("{name} does not listen on {address}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(subject)
}

impl Subject {
    /// CPU time spent so far.
    pub(crate) fn spent(&self) -> Duration {
        match self.account {
            Account::Threads => cpu::used_by(self.child.id()),
            Account::Ticks => cpu::ticks_of(self.child.id()),
        }
    }

    /// One figure for many rounds: the lower quartile, or, where the account is too coarse for one round, the mean.
    pub(crate) fn firm(&self, rounds: &[f64]) -> f64 {
        match self.account {
            Account::Threads => super::lower_quartile(rounds),
            Account::Ticks => {
                rounds.iter().sum::<f64>()
                    / f64::from(u32::try_from(rounds.len()).unwrap_or(u32::MAX)).max(1.0)
            }
        }
    }

    /// Memory in RAM now and at most so far, in bytes.
    pub(crate) fn resident(&self) -> (u64, u64) {
        (cpu::status_of(self.child.id(), "VmRSS:"), cpu::status_of(self.child.id(), "VmHWM:"))
    }

    /// Bytes of its program: the executable, and the libraries of its own that it has loaded.
    pub(crate) fn program_bytes(&self) -> u64 {
        let id = self.child.id();
        let size = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).unwrap_or_default();
        let mut plugins: Vec<&str> = maps
            .lines()
            .filter_map(|line| line.split_once('/').map(|(_, path)| path))
            .filter(|path| path.contains(&format!("lib/{}/", self.name)))
            .collect();
        plugins.sort_unstable();
        plugins.dedup();
        let plugins: u64 = plugins.iter().map(|path| size(&Path::new("/").join(path))).sum();
        size(&PathBuf::from(format!("/proc/{id}/exe"))) + plugins
    }
}
