use std::path::Path;

use super::*;

fn problems(text: &str) -> Vec<String> {
    parse(text).expect_err("the file is bad").iter().map(ToString::to_string).collect()
}

#[test]
fn a_whole_file_is_read() {
    let config = parse(
        r#"
prometheus:
  url: https://thanos-querier.openshift-monitoring.svc:9091/base
  tokenFile: /var/run/secrets/tas/token
  caFile: /var/run/secrets/tas/ca.crt
  headers: { X-Scope-OrgID: team }
  timeout: 5s
  concurrency: 2
  maxResponse: 8Mi
  delay: 30s
nodeLabels: [node, instance]
metrics:
  power:
    query: sum by (node) (collectd_package_power)
    ageQuery: time() - min by (node) (timestamp(collectd_package_power))
  temperature:
    query: node_hwmon_temp_celsius{chip="x"}
    aggregation: max
    nodeLabels: [nodename]
extraMetrics: [health_metric]
"#,
    )
    .unwrap();
    let labels = |names: &[&str]| NodeLabels(names.iter().map(|&name| name.to_owned()).collect());
    let metric = |name| MetricName::new(name).unwrap();
    let endpoint = Endpoint {
        token_file: Some("/var/run/secrets/tas/token".into()),
        ca_file: Some("/var/run/secrets/tas/ca.crt".into()),
        headers: BTreeMap::from([("X-Scope-OrgID".to_owned(), "team".to_owned())]),
        timeout: Duration::from_secs(5),
        concurrency: 2,
        max_response: 8 * 1024 * 1024,
        delay: Duration::from_secs(30),
        ..Endpoint::new("https://thanos-querier.openshift-monitoring.svc:9091/base").unwrap()
    };
    let power = MetricConfig {
        query: Query::new("sum by (node) (collectd_package_power)").unwrap(),
        age_query: Some(Query::new("time() - min by (node) (timestamp(collectd_package_power))").unwrap()),
        aggregation: None,
        node_labels: None,
    };
    let temperature = MetricConfig {
        query: Query::new("node_hwmon_temp_celsius{chip=\"x\"}").unwrap(),
        age_query: None,
        aggregation: Some(Aggregation::Max),
        node_labels: Some(labels(&["nodename"])),
    };
    assert_eq!(
        config,
        FeedConfig {
            prometheus: Some(endpoint),
            node_labels: labels(&["node", "instance"]),
            metrics: BTreeMap::from([(metric("power"), power), (metric("temperature"), temperature)]),
            extra_metrics: vec![metric("health_metric")],
        }
    );
}

#[test]
fn an_empty_file_means_every_default() {
    for text in ["", "\n", "# nothing yet\n", "{}", "metrics:\n"] {
        assert_eq!(parse(text), Ok(FeedConfig::default()), "{text:?}");
    }
}

#[test]
fn all_problems_are_told_at_once_each_with_its_place() {
    let told = problems(
        r#"
prometheus:
  url: prometheus:9090
  timeout: 10
  concurrency: 0
  retries: 3
  headers: { Authorization: Bearer abc }
nodeLabel: [node]
nodeLabels: [no-de]
metrics:
  "node power": { query: x }
  a: { query: "sum(x", aggregation: median }
  b: { ageQuery: y }
  c: { query: on, ageQuery: y }
  d: { query: true }
extraMetrics: health
"#,
    );
    assert_eq!(
        told,
        [
            "nodeLabel: unknown field; known are prometheus, nodeLabels, metrics, extraMetrics",
            "prometheus.retries: unknown field; known are url, tokenFile, caFile, headers, timeout, concurrency, maxResponse, delay",
            "prometheus.url: \"prometheus:9090\" has no scheme and host; write it like https://prometheus.monitoring.svc:9090",
            "prometheus.timeout: \"10\" is not a duration from 100ms to 300s; write it like 10s",
            "prometheus.concurrency: \"0\" is not a whole number from 1 to 64",
            "prometheus.headers.Authorization: put the token into a file and name it under tokenFile: this file is no secret",
            "nodeLabels: \"no-de\" is not a label name",
            "metrics.node power: the metric name \"node power\" has the character ' '; allowed are letters, digits, '_', '-' and ':'",
            "metrics.a.query: the '(' at byte 3 of the query has no other half",
            "metrics.a.aggregation: \"median\" is not one of max, min, sum, avg",
            "metrics.b.query: missing; write PromQL that gives one value per node",
            "metrics.c.ageQuery: the query is a plain selector, whose samples carry their own time; leave ageQuery out",
            "metrics.d.query: expected a text, found a boolean (put it in quotes if it is a text)",
            "extraMetrics: expected a list, found a text",
        ]
    );
}

#[test]
fn a_password_in_the_url_is_refused_without_repeating_it() {
    assert_eq!(
        problems("prometheus: { url: 'https://me:secret@host' }"),
        ["prometheus.url: the URL holds a password; put a token into a file and name it under tokenFile"]
    );
}

#[test]
fn what_is_not_yaml_is_told_with_its_line() {
    assert!(problems("metrics: [").concat().contains("line 1"), "{:?}", problems("metrics: ["));
    assert!(problems("a: 1\na: 2\n").concat().contains("duplicate"), "{:?}", problems("a: 1\na: 2\n"));
    assert_eq!(problems("just words"), ["expected a map, found a text"]);
    let long = format!("# {}\n", "x".repeat(MAX_FILE));
    assert_eq!(problems(&long), [format!("the file has {} bytes; {MAX_FILE} are allowed", long.len())]);
}

#[test]
fn too_many_metrics_are_refused_whole() {
    let many: Vec<String> = (0..=MAX_METRICS).map(|n| format!("  m{n}: {{ query: x }}")).collect();
    assert_eq!(
        problems(&format!("metrics:\n{}", many.join("\n"))),
        ["metrics: 1001 metrics; 1000 are allowed"]
    );
    let labels = vec!["a"; MAX_NODE_LABELS + 1].join(",");
    assert_eq!(
        problems(&format!("nodeLabels: [{labels}]")),
        ["nodeLabels: 17 labels; name 1 to 16, the most telling first"]
    );
}

/// A file of its own in the system's directory for temporary files, gone at the end.
struct TempFile(PathBuf);

impl TempFile {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tas-feed-{name}-{}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn a_bad_edit_keeps_the_last_good_one_and_says_so() {
    let file = TempFile::new("reload", "extraMetrics: [a]");
    let mut config = ConfigFile::open(&file.0).unwrap();
    let first = config.state().good.clone();
    assert_eq!(config.poll(), Polled::Unchanged);

    std::fs::write(&file.0, "extraMetrics: b").unwrap();
    assert_eq!((config.poll(), config.poll()), (Polled::Refused, Polled::Unchanged));
    assert_eq!(config.state().good, first);
    assert_eq!(config.state().problems[0].to_string(), "extraMetrics: expected a list, found a text");

    std::fs::remove_file(&file.0).unwrap();
    assert_eq!(config.poll(), Polled::Refused);
    assert_eq!(config.state().good, first);

    std::fs::write(&file.0, "extraMetrics: [b]").unwrap();
    assert_eq!(config.poll(), Polled::Changed);
    assert_eq!(config.state().problems, []);
    assert_eq!(config.state().good.extra_metrics, [MetricName::new("b").unwrap()]);
}

#[test]
fn a_file_that_is_bad_from_the_start_is_an_error() {
    let file = TempFile::new("start", "x: 1");
    assert!(ConfigFile::open(&file.0).is_err());
    assert!(ConfigFile::open(Path::new("/nowhere/at/all")).is_err());
}
