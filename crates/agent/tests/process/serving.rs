//! What callers see.

use std::io::Read;
use std::process::Command;

use agent::args::Args;
use agent::fixtures::Tree;
use clap::Parser as _;

use crate::started::Started;

#[test]
fn metrics_are_served_on_any_path_as_collectd_does() {
    let agent = Started::new(&[]);
    for path in ["/metrics", "/", "/anything/else?x=1"] {
        let reply = agent.get(path, "Accept: */*\r\n");
        assert_eq!(reply.status, 200, "{path}");
        assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
        assert!(reply.text().contains("collectd_memory{memory=\"free\",instance=\"n1\"} 10240000000\n"));
        assert!(
            reply.text().contains("\nnode_load1 1.5\n")
                && reply.text().contains("\nnode_memory_available_ratio 0.5\n")
        );
    }
}

#[test]
fn browsers_get_a_page_and_prometheus_gets_openmetrics() {
    let agent = Started::new(&[]);
    let page = agent.get("/", "Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert!(page.text().contains("<a href=\"/metrics\">"));
    let open = agent
        .get("/metrics", "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;q=0.3\r\n");
    assert_eq!(
        open.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(open.text().ends_with("# EOF\n"));
}

#[test]
fn gzip_is_packed_and_head_has_no_body() {
    let agent = Started::new(&[]);
    let packed = agent.get("/metrics", "Accept-Encoding: gzip\r\n");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed.body.as_slice()).read_to_string(&mut text).expect("gzip");
    assert!(text.contains("\nnode_load1 1.5\n"));
    let head = agent.ask("HEAD /metrics HTTP/1.1\r\nHost: n1\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.body.len()), (200, 0));
    let length: usize = head.header("content-length").expect("said").parse().expect("a number");
    assert!(length > 1000, "{length}");
}

#[test]
fn other_methods_and_unknown_names_are_refused_with_a_reason() {
    let agent = Started::new(&[]);
    let post =
        agent.ask("POST /metrics HTTP/1.1\r\nHost: n1\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
    let names = agent.get("/metrics?names=nagios", "");
    assert_eq!(names.status, 400);
    assert!(names.text().contains("unknown set of names"), "{}", names.text());
    let tas = agent.get("/metrics?names=tas", "");
    assert!(!tas.text().contains("collectd_") && tas.text().contains("node_pressure_ratio"));
}

#[test]
fn power_is_sampled_without_anybody_scraping() {
    let agent = Started::new(&["--names=tas"]);
    // The counters stand still, which is 0 W once there are two readings.
    let reply = agent.get_until("/", "", |reply| reply.text().contains("node_power_watts{"));
    assert!(
        reply.text().contains("node_power_watts{zone=\"package\",package=\"1\",window=\"10s\"} 0\n"),
        "{}",
        reply.text()
    );
}

#[test]
fn sighup_reads_the_configuration_again_and_keeps_what_held_if_it_is_wrong() {
    let made = |tree: &Tree| {
        tree.proc(2, 2).write("agent.yaml", "names: [node]\n");
    };
    let agent = Started::on(&["--config={}/agent.yaml"], made);
    assert!(!agent.get("/", "").text().contains("collectd_"));
    agent.tree.write("agent.yaml", "names: [collectd]\nwithout: [load]\n");
    agent.signal("HUP");
    agent.logged("configuration read again");
    let reply = agent.get("/", "");
    assert!(reply.text().contains("collectd_memory") && !reply.text().contains("load"), "{}", reply.text());
    agent.tree.write("agent.yaml", "names: [nagios]\n");
    agent.signal("HUP");
    assert!(agent.logged("configuration not taken over").contains("nagios"));
    assert!(agent.get("/", "").text().contains("collectd_memory"));
}

#[test]
fn sigterm_ends_it_well() {
    let mut agent = Started::new(&[]);
    agent.signal("TERM");
    assert_eq!(agent.wait(), Some(0));
}

#[test]
fn once_prints_one_page_with_rates() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    Tree::at(directory.path()).proc(2, 1).server(1);
    let root = format!("--root={}", directory.path().display());
    let output =
        Command::new(env!("CARGO_BIN_EXE_tas-agent")).args([&root, "--once"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success() && text.contains("node_power_watts{"), "{text}");
}

#[test]
fn explain_is_a_table_of_what_there_is_and_what_is_not() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    Tree::at(directory.path()).proc(2, 1);
    let root = format!("--root={}", directory.path().display());
    let output =
        Command::new(env!("CARGO_BIN_EXE_tas-agent")).args([&root, "--explain"]).output().expect("it runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line =
        |source: &str| text.lines().find(|line| line.starts_with(source)).unwrap_or_default().to_owned();
    assert!(line("cpu").contains("ok") && line("cpu").contains("2 CPUs"), "{text}");
    assert!(line("rapl").contains("absent") && line("rapl").contains("hardware with RAPL"), "{text}");
}

#[test]
fn explain_tells_programs_the_same_as_people() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    Tree::at(directory.path()).proc(2, 1);
    let root = format!("--root={}", directory.path().display());
    let output = Command::new(env!("CARGO_BIN_EXE_tas-agent"))
        .args([&root, "--explain", "--output=json", "--sources=cpu,edac"])
        .output()
        .expect("it runs");
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let mc = directory.path().join("sys/devices/system/edac/mc");
    let expected = serde_json::json!({
        "root": directory.path(),
        "sources": [
            {"source": "cpu", "state": "ok", "found": "2 CPUs", "needed": ""},
            {
                "source": "edac",
                "state": "absent",
                "found": format!("{mc:?} is not there"),
                "needed": format!(
                    "ECC memory and its EDAC driver, or a read-only mount of it below {}",
                    directory.path().display()
                ),
            },
        ],
    });
    assert_eq!(told, expected);
}

#[test]
fn the_help_shows_how_it_is_used_and_every_example_is_understood() {
    let help = Command::new(env!("CARGO_BIN_EXE_tas-agent")).arg("--help").output().expect("it runs");
    let text = String::from_utf8(help.stdout).expect("UTF-8");
    let examples: Vec<Vec<&str>> = text
        .lines()
        .skip_while(|line| *line != "Examples:")
        .filter_map(|line| line.strip_prefix("  tas-agent")?.split("  ").next())
        .map(|flags| flags.split_whitespace().collect())
        .collect();
    assert!(help.status.success() && examples.len() >= 5, "{text}");
    for flags in examples {
        let parsed = Args::try_parse_from(std::iter::once("tas-agent").chain(flags.iter().copied()));
        assert!(parsed.is_ok(), "{flags:?}");
    }
}

#[test]
fn a_mistake_on_the_command_line_is_one_clear_line() {
    let run = |flag: &str| Command::new(env!("CARGO_BIN_EXE_tas-agent")).arg(flag).output().expect("it runs");
    let output = run("--names=nagios");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.starts_with("tas-agent: unknown set of names \"nagios\""), "{text}");
    assert_eq!(run("--no-such-flag").status.code(), Some(2));
}

#[test]
fn the_log_says_once_that_a_text_file_is_broken_and_once_that_it_is_well_again() {
    let agent = Started::on(&["--textfile-directory={}/prom", "--sources=textfile"], |tree| {
        tree.write("prom/a.prom", "a{token=\"s3cret\n");
    });
    let error = |expected: &str| {
        let line = format!("\nnode_textfile_scrape_error {expected}\n");
        agent.get_until("/", "", |reply| String::from_utf8_lossy(&reply.body).contains(&line));
    };
    error("1");
    agent.tree.write("prom/a.prom", "\na{token=\"s3cret, again\n");
    error("1");
    let line = agent.logged("text file");
    assert!(line.contains("WARN") && line.contains("a label value without an end"), "{line}");
    assert!(line.contains("a.prom") && !line.contains("s3cret"), "{line}");
    agent.tree.write("prom/a.prom", "a 1\n");
    error("0");
    let line = agent.logged("text file");
    assert!(line.contains("INFO") && line.contains("is well again"), "the same again is not said: {line}");
}
