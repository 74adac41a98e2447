//! The node agent with the programs it is made for: Prometheus reads what it writes, promtool finds nothing wrong with
//! it, and a policy places pods by the power it measures.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use agent::collectors::{self, Settings};
use agent::family::NameSets;
use agent::fixtures::Tree;
use agent::fixtures::damage::{Damage, Draws, FILES};
use agent::host::Host;
use agent::instruments::{Instruments, Worker};
use agent::moment::Moment;
use agent::page::Format;
use e2e::prometheus::{Bench, Target};
use e2e::tas::{Attached, Payload};
use e2e::{PATIENCE, cluster_of};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Api, ListParams, PostParams};
use testbed::component::{Component, Start};
use testbed::http;
use testbed::wait::until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const AGENT: &str = env!("CARGO_BIN_EXE_tas-agent-e2e");
const TAS: &str = env!("CARGO_BIN_EXE_tas-e2e");
const UID: &str = "0f1c9e1a-8a52-4d1e-9a35-1c7f0a1b2c3d";
const HEALTH: &str = "# HELP node_health_metric As the health demo writes it.\n# TYPE node_health_metric gauge\nnode_health_metric  0\n";

/// A host that has everything the agent reads.
fn furnish(tree: &Tree) {
    tree.proc(4, 3)
        .sensors(4, 2, 2)
        .server(2)
        .pod_v2("shop", "web-1", UID)
        .write("textfiles/health.prom", HEALTH);
}

/// An agent on a tree, answering.
async fn agent_on(bench: &mut Bench, name: &str, root: &Path) -> (Component, String) {
    let address = format!("127.0.0.1:{}", bench.port());
    let flags = [
        format!("--listen={address}"),
        format!("--root={}", root.display()),
        format!("--node-name={name}"),
        format!("--textfile-directory={}", root.join("textfiles").display()),
    ];
    let component = bench.start(name, AGENT, &flags.each_ref().map(String::as_str));
    let url = format!("http://{address}/metrics");
    until("the agent to have measured power", PATIENCE, || async {
        let body = http::get(&url).await.map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&body).into_owned();
        if root == Path::new("/") || text.contains("\ncollectd_package_1_power_power{") {
            Ok(())
        } else {
            Err(text)
        }
    })
    .await
    .expect("two readings are enough");
    (component, address)
}

#[tokio::test]
async fn prometheus_scrapes_all_three_name_sets_in_both_formats_without_a_warning() {
    let mut bench = Bench::prepare().await;
    let root = bench.directory().join("host");
    furnish(&Tree::at(&root));
    let (_made, made) = agent_on(&mut bench, "made", &root).await;
    let (_here, here) = agent_on(&mut bench, "here", Path::new("/")).await;
    let mut jobs = String::from("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs:\n");
    let mut count = 0;
    for names in ["collectd", "node", "tas", "collectd,node,tas"] {
        for format in ["PrometheusText0.0.4", "OpenMetricsText1.0.0"] {
            let _ = writeln!(
                jobs,
                "- job_name: {names} {format}\n  scrape_protocols: [{format}]\n  params: {{names: [\"{names}\"]}}\n  \
                 static_configs: [{{targets: [\"{made}\", \"{here}\"]}}]"
            );
            count += 2;
        }
    }
    let prometheus = bench.prometheus(&jobs).await;
    let scraped = "count(count_over_time(up[5m]) >= 3 and min_over_time(up[5m]) == 1)";
    until("three good scrapes of each", PATIENCE, || async {
        let found = http::query(prometheus.url(), scraped).await.map_err(|error| error.to_string())?;
        let good = found.first().map(|series| series.value.1.clone()).unwrap_or_default();
        if good == count.to_string() { Ok(()) } else { Err(good) }
    })
    .await
    .expect("every scrape is good");
    for target in prometheus.targets(count).await {
        assert_eq!((target.health.as_str(), target.error.as_str()), ("up", ""), "{target:?}");
    }
    assert_eq!(prometheus.complaints().await, Vec::<String>::new());
    // Types arrive: without them a counter would be shown as a number to look at.
    let metadata = http::get(&format!("{}/api/v1/metadata?limit_per_metric=1", prometheus.url())).await;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.expect("an answer")).expect("JSON");
    for (metric, kind) in [
        ("node_cpu_seconds_total", "counter"),
        ("node_cpu_seconds", "counter"),
        ("collectd_package_1_power_power", "gauge"),
        ("node_power_watts", "gauge"),
        ("node_health_metric", "gauge"),
    ] {
        assert_eq!(metadata["data"][metric][0]["type"], kind, "{metric}");
    }
}

#[tokio::test]
async fn promtool_finds_nothing_but_the_names_that_node_exporter_gave() {
    let mut bench = Bench::prepare().await;
    let root = bench.directory().join("host");
    furnish(&Tree::at(&root));
    let (_agent, address) = agent_on(&mut bench, "made", &root).await;
    let (_here, here) = agent_on(&mut bench, "here", Path::new("/")).await;
    for address in [address, here] {
        for names in ["collectd", "node", "tas"] {
            let body = http::get(&format!("http://{address}/metrics?names={names}")).await.expect("a page");
            let page = String::from_utf8(body.to_vec()).expect("UTF-8");
            assert_eq!(bench.lints(&page), Vec::<String>::new(), "{names}");
        }
    }
}

/// Pages of one broken host, in both formats.
fn pages(seed: u64) -> [String; 2] {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let tree = Tree::at(directory.path());
    furnish(&tree);
    let settings = Settings {
        textfile_directory: Some(tree.path("textfiles")),
        ignored_interfaces: Vec::new(),
        ..Settings::default()
    };
    let clock = Arc::new(AtomicU64::new(100));
    let now = Arc::clone(&clock);
    let now = Arc::new(move || {
        let up = Duration::from_secs(now.load(Ordering::Relaxed));
        Moment { up, wall: Duration::from_hours(500_000) + up }
    });
    let host = Host::at(directory.path());
    let instruments = Instruments::new(collectors::all(&host, &settings), "n\"1\\", now);
    let mut worker = Worker::default();
    let mut draws = Draws(seed);
    for _ in 0..3 {
        instruments.tick(&mut worker);
        clock.fetch_add(1 + draws.below(70), Ordering::Relaxed);
        for _ in 0..draws.below(5) {
            let file = FILES[draws.index(FILES.len())];
            Damage::of_seed(draws.draw()).apply(&tree, file);
        }
    }
    [Format::Text, Format::OpenMetrics].map(|format| {
        let page = instruments.page(&mut worker, format, NameSets::ALL).expect("nobody else reads");
        String::from_utf8(page).expect("a page is UTF-8")
    })
}

/// Answers `/N` with the Nth page and its type, until it is aborted.
async fn serve(listener: TcpListener, pages: Arc<Vec<(Format, String)>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        let pages = Arc::clone(&pages);
        tokio::spawn(async move {
            // A scraper that goes away has its reasons.
            let _ = answer(stream, &pages).await;
        });
    }
}

async fn answer(mut stream: TcpStream, pages: &[(Format, String)]) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let number =
        request.split(' ').nth(1).and_then(|path| path.trim_start_matches('/').parse::<usize>().ok());
    let Some((format, page)) = number.and_then(|number| pages.get(number)) else { return Ok(()) };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        format.content_type(),
        page.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(page.as_bytes()).await
}

#[tokio::test]
async fn whatever_the_host_prometheus_reads_the_page() {
    const HOSTS: u64 = 100;
    let mut all: Vec<(Format, String)> = Vec::new();
    for seed in 0..HOSTS {
        let [text, open] = pages(seed);
        all.extend([(Format::Text, text), (Format::OpenMetrics, open)]);
    }
    // Two that nobody can read: otherwise this test might see nothing at all.
    let broken = [(Format::Text, "a{b=\"c} 1\n".to_owned()), (Format::OpenMetrics, "a 1\n".to_owned())];
    let good = all.len();
    all.extend(broken);

    let mut bench = Bench::prepare().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("it is bound");
    let mut job = String::from(
        "global: {scrape_interval: 10s, scrape_timeout: 10s}\nscrape_configs:\n- job_name: pages\n  static_configs:\n",
    );
    for page in 0..all.len() {
        let _ = writeln!(
            job,
            "  - {{targets: [\"{address}\"], labels: {{__metrics_path__: \"/{page}\", page: \"{page}\"}}}}"
        );
    }
    let all = Arc::new(all);
    let server = tokio::spawn(serve(listener, Arc::clone(&all)));
    let prometheus = bench.prometheus(&job).await;
    let targets = prometheus.targets(all.len()).await;
    let (up, down): (Vec<Target>, Vec<Target>) =
        targets.into_iter().partition(|target| target.health == "up");
    let refused: BTreeSet<usize> = down.iter().filter_map(|target| target.page.parse().ok()).collect();
    if let Some(page) = refused.iter().find(|&&page| page < good) {
        let error = down.iter().find(|target| target.page == page.to_string()).map(|target| &target.error);
        assert!(*page >= good, "{error:?}\n{}", all[*page].1);
    }
    assert_eq!((up.len(), refused), (good, BTreeSet::from([good, good + 1])));
    let complaints: Vec<String> = prometheus.complaints().await;
    let ours =
        complaints.iter().filter(|line| !(good..all.len()).any(|page| line.contains(&format!("/{page}\""))));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<&String>::new());
    server.abort();
}

/// The policy of the OpenShift document: nodes that draw more than so many watts take no more pods.
const POLICY: &str = "apiVersion: telemetry.intel.com/v1alpha1
kind: TASPolicy
metadata: {name: power-policy, namespace: default}
spec:
  strategies:
    dontschedule:
      rules:
      - {metricname: collectd_package_0_power_power, operator: GreaterThan, target: 30}
";

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: default, labels: {{telemetry-policy: power-policy}}}}\n\
         spec:\n  containers:\n  - name: app\n    image: nginx\n    resources: {{limits: {{telemetry/scheduling: 1}}}}\n"
    )
}

/// Moves the energy counters of hosts at given watts, until it is dropped.
struct Load {
    watts: Arc<Vec<[AtomicU64; 2]>>,
    stop: Arc<AtomicBool>,
}

impl Load {
    fn on(trees: Vec<Tree>, watts: &[[u64; 2]]) -> Self {
        let watts: Vec<[AtomicU64; 2]> = watts.iter().map(|pair| pair.map(AtomicU64::new)).collect();
        let load = Self { watts: Arc::new(watts), stop: Arc::default() };
        let (watts, stop) = (Arc::clone(&load.watts), Arc::clone(&load.stop));
        tokio::task::spawn_blocking(move || {
            let mut energy = vec![[1_000_000_000u64; 2]; trees.len()];
            let mut last = Instant::now();
            while !stop.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(50));
                let passed = u64::try_from(last.elapsed().as_micros()).unwrap_or_default();
                last = Instant::now();
                for ((tree, energy), watts) in trees.iter().zip(&mut energy).zip(&*watts) {
                    for package in 0..2 {
                        energy[package] += passed * watts[package].load(Ordering::Relaxed);
                        // The kernel numbers zones as it likes; here backwards.
                        tree.energy(&format!("intel-rapl:{}", 1 - package), energy[package]);
                    }
                }
            }
        });
        load
    }

    fn set(&self, host: usize, package: usize, watts: u64) {
        self.watts[host][package].store(watts, Ordering::Relaxed);
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Waits until every value that `tas` judges power by was taken after this moment.
async fn newer(attached: &Attached, than: SystemTime) {
    const OLDEST: &str =
        "tas_feed_metric_oldest_timestamp_seconds{metric=\"collectd_package_0_power_power\"} ";
    let than = than.duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs_f64();
    until("tas to have newer values", PATIENCE, || async {
        let metrics = attached.metrics().await?;
        let oldest = metrics.lines().find_map(|line| line.strip_prefix(OLDEST)).unwrap_or_default();
        if oldest.parse::<f64>().is_ok_and(|oldest| oldest > than) { Ok(()) } else { Err(oldest.to_owned()) }
    })
    .await
    .expect("tas reads on");
}

#[tokio::test]
async fn pods_go_where_little_power_is_drawn_as_the_agents_measure_it() {
    const NODES: [&str; 3] =
        ["node7.ocp4rony.dfw.ocp.run", "node8.ocp4rony.dfw.ocp.run", "node9.ocp4rony.dfw.ocp.run"];
    let attached = Attached::start(TAS, &NODES, Payload::NamesOnly).await;
    let cluster = &attached.cluster;
    let mut targets = Vec::new();
    let mut trees = Vec::new();
    for node in NODES {
        let root = cluster.directory().join(node);
        let tree = Tree::at(&root);
        tree.proc(4, 2).server(2);
        trees.push(tree);
        let address = format!("127.0.0.1:{}", cluster.port().expect("a port"));
        let flags = [
            ("--listen", address.clone()),
            ("--root", root.display().to_string()),
            ("--node-name", node.to_owned()),
        ];
        let start = Start {
            name: format!("agent-{node}"),
            binary: AGENT.into(),
            arguments: flags.into_iter().flat_map(|(flag, value)| [flag.to_owned(), value]).collect(),
            environment: Vec::new(),
        };
        cluster.attach(start).expect("the agent starts");
        targets.push(address);
    }
    let load = Load::on(trees, &[[45, 10], [23, 60], [20, 10]]);
    // As the document does it: the pods' own addresses are scraped, and the node is in the label that collectd gives.
    let configuration = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: agents\n  static_configs: [{{targets: {targets:?}}}]\n"
    );
    std::fs::write(cluster.directory().join("prometheus.yaml"), configuration)
        .expect("the directory is writable");
    cluster.component("prometheus").expect("it is there").restart().expect("it starts again");
    cluster.apply(POLICY).await.expect("the policy is accepted");
    attached.says("tas_feed_metric_nodes{metric=\"collectd_package_0_power_power\"} 3.0").await;
    let watts = |node: &str| format!("collectd_package_0_power_power{{exported_instance=\"{node}\"}} > 30");
    let hot = async |node: &str, hot: bool| {
        until(
            format!("{node} to draw {} than 30 W", if hot { "more" } else { "less" }),
            PATIENCE,
            || async {
                let found = cluster.query(&watts(node)).await.map_err(|error| error.to_string())?;
                if found.len() == usize::from(hot) { Ok(()) } else { Err(format!("{found:?}")) }
            },
        )
        .await
        .expect("the agent measures it");
    };
    hot(NODES[0], true).await;
    for (host, package) in [(1, 0), (2, 0)] {
        load.set(host, package, 45);
        hot(NODES[host], true).await;
    }
    // What tas judges by is a little older than what Prometheus has.
    newer(&attached, SystemTime::now() + Duration::from_secs(2)).await;
    // All are hot now: nothing fits, and the scheduler says why in the words of the policy.
    cluster.apply(&pod("first")).await.expect("the pod is accepted");
    let said = attached.refusal("first").await;
    assert!(said.contains("3 default/power-policy: collectd_package_0_power_power over 30"), "{said}");
    // The second socket of node8 is still busy, but the policy looks at the first.
    load.set(1, 0, 12);
    hot(NODES[1], false).await;
    newer(&attached, SystemTime::now() + Duration::from_secs(2)).await;
    assert_eq!(attached.placed("second", &pod("second")).await, NODES[1]);
    load.set(1, 0, 50);
    load.set(2, 0, 5);
    hot(NODES[1], true).await;
    hot(NODES[2], false).await;
    newer(&attached, SystemTime::now() + Duration::from_secs(2)).await;
    assert_eq!(attached.placed("third", &pod("third")).await, NODES[2]);
}

const DAEMON_SET: &str = include_str!("../../../deploy/agent/daemonset.yaml");

#[tokio::test]
async fn the_daemon_set_runs_on_every_node_with_no_more_rights_than_it_says() {
    let cluster = cluster_of(3).await;
    cluster
        .kubectl(&["taint", "nodes", "node-2", "node-role.kubernetes.io/control-plane:NoSchedule"])
        .await
        .expect("tainted");
    cluster.apply(DAEMON_SET).await.expect("the API server takes it");
    let pods: Api<Pod> = Api::namespaced(cluster.client(), "tas-agent");
    let running = until("an agent to run on each node", PATIENCE, || async {
        let found = pods.list(&ListParams::default()).await.map_err(|error| error.to_string())?.items;
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone());
        let running: Vec<&Pod> =
            found.iter().filter(|pod| phase(pod).as_deref() == Some("Running")).collect();
        if running.len() == 3 { Ok(found.clone()) } else { Err(format!("{found:?}")) }
    })
    .await
    .expect("also where others may not");
    let on: BTreeSet<&str> =
        running.iter().filter_map(|pod| pod.spec.as_ref()?.node_name.as_deref()).collect();
    assert_eq!(on, BTreeSet::from(["node-1", "node-2", "node-3"]));

    // No token was added, so there is no way to the API server.
    let spec = running[0].spec.clone().expect("pods have one");
    let volumes: Vec<&str> = spec.volumes.iter().flatten().map(|volume| volume.name.as_str()).collect();
    assert_eq!(volumes, ["proc", "sys", "pod-logs"]);

    // What the strictest of Kubernetes' own levels objects to is all the privilege there is.
    cluster
        .apply(
            "apiVersion: v1\nkind: Namespace\nmetadata: {name: strict, labels: {pod-security.kubernetes.io/enforce: restricted}}\n",
        )
        .await
        .expect("a namespace");
    let bare = Pod {
        metadata: ObjectMeta { name: Some("agent".to_owned()), ..ObjectMeta::default() },
        spec: Some(PodSpec { node_name: None, affinity: None, ..spec }),
        status: None,
    };
    let strict: Api<Pod> = Api::namespaced(cluster.client(), "strict");
    // Until the namespace has its service account, every pod is refused for want of that.
    let refused = until("the pod to be judged", PATIENCE, || async {
        match strict.create(&PostParams::default(), &bare).await {
            Err(kube::Error::Api(status)) if status.message.contains("violates PodSecurity") => {
                Ok(status.message.clone())
            }
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .expect("host paths are refused");
    let objections: Vec<&str> = refused
        .split_once("violates PodSecurity \"restricted:latest\": ")
        .map(|(_, all)| all.split("), ").filter_map(|one| one.split(" (").next()).collect())
        .unwrap_or_default();
    assert_eq!(objections, ["restricted volume types", "runAsNonRoot != true", "runAsUser=0"], "{refused}");
}
