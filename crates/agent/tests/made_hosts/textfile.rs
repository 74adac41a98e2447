//! Text files of other programs: good, broken, half written, huge, old.

use std::fs;
use std::time::{Duration, SystemTime};

use agent::collectors::textfile::{HOLD, MAX_FILE, MAX_FILES, Textfile};
use agent::collectors::{self, Settings};
use agent::family::NameSets;
use agent::host::Host;
use agent::page::Format;

use crate::watched::{Watched, value};

/// The wall clock of a watched host begins here, and its monotonic one at 100 s.
const EPOCH: Duration = Duration::from_hours(500_000);

fn with_files(max_age: Option<Duration>) -> Watched {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let prom = directory.path().join("prom");
    fs::create_dir(&prom).expect("mkdir");
    let mut all = collectors::all(
        &Host::at(directory.path()),
        &Settings { off: vec!["textfile".to_owned()], ..Settings::default() },
    );
    all.push(Box::new(Textfile::new(Some(prom), max_age)));
    Watched::of(directory, all)
}

/// Writes a file as of `age` seconds before the watched host's start.
fn write(host: &Watched, name: &str, text: impl AsRef<[u8]>, age: u64) {
    let path = format!("prom/{name}");
    host.tree.write(&path, text);
    let time = SystemTime::UNIX_EPOCH + EPOCH + Duration::from_secs(100) - Duration::from_secs(age);
    fs::File::options()
        .write(true)
        .open(host.tree.path(&path))
        .expect("made")
        .set_modified(time)
        .expect("ours");
}

#[test]
fn the_health_metric_of_the_demo_comes_through() {
    let mut host = with_files(None);
    write(&host, "health.prom", "node_health_metric  2\n", 60);
    write(&host, "notes.txt", "no metrics\n", 60);
    let samples = host.samples();
    assert_eq!(value(&samples, "node_health_metric"), Some("2"));
    assert_eq!(value(&samples, "node_textfile_scrape_error"), Some("0"));
}

#[test]
fn a_change_is_seen_and_a_file_that_goes_takes_its_metrics_with_it() {
    let mut host = with_files(None);
    write(&host, "a.prom", "a 1\n", 60);
    assert_eq!(value(&host.samples(), "a"), Some("1"));
    write(&host, "a.prom", "a 2\n", 50);
    assert_eq!(value(&host.samples(), "a"), Some("2"));
    host.tree.remove("prom/a.prom");
    assert_eq!(value(&host.samples(), "a"), None);
}

#[test]
fn while_a_file_is_being_written_what_it_said_before_stays() {
    let mut host = with_files(None);
    write(&host, "a.prom", "a 1\n", 60);
    assert_eq!(value(&host.samples(), "a"), Some("1"));
    for half in ["", "a ", "a 2"] {
        write(&host, "a.prom", half, 1);
        assert_eq!(value(&host.samples(), "a"), Some("1"), "{half:?}");
    }
    // Nobody is writing any more: the last line simply has no end.
    host.later(10);
    assert_eq!(value(&host.samples(), "a"), Some("2"));
}

#[test]
fn a_broken_file_is_an_error_and_leaves_the_others_alone() {
    for broken in [&b"b one\n"[..], b"\xff\xfe\n", b"b{x=\"} 1\n"] {
        let mut host = with_files(None);
        write(&host, "a.prom", "a 1\n", 60);
        write(&host, "b.prom", broken, 60);
        let samples = host.samples();
        assert_eq!(
            (value(&samples, "a"), value(&samples, "node_textfile_scrape_error")),
            (Some("1"), Some("1"))
        );
    }
}

/// A metric, the error, and when the file was understood: seconds before the watched host's start.
fn state(host: &mut Watched) -> (Option<String>, Option<String>, Option<u64>) {
    let samples = host.samples();
    let file = host.tree.path("prom/a.prom");
    let mtime = value(&samples, &format!("node_textfile_mtime_seconds{{file=\"{}\"}}", file.display()));
    let start = EPOCH.as_secs() + 100;
    let said = |series: &str| value(&samples, series).map(str::to_owned);
    let mtime = mtime.map(|seconds| start - seconds.parse::<u64>().expect("whole seconds"));
    (said("a"), said("node_textfile_scrape_error"), mtime)
}

fn told(metric: Option<&str>, error: &str, mtime: u64) -> (Option<String>, Option<String>, Option<u64>) {
    (metric.map(str::to_owned), Some(error.to_owned()), Some(mtime))
}

#[test]
fn a_file_that_is_broken_anew_all_the_time_is_held_for_a_minute_and_not_for_ever() {
    let mut host = with_files(None);
    write(&host, "a.prom", "a 0\n", 300);
    assert_eq!(state(&mut host), told(Some("0"), "0", 300));
    for age in [30, 20] {
        write(&host, "a.prom", "a: what went wrong\n", age);
        assert_eq!(state(&mut host), told(Some("0"), "1", 300), "the time is that of the last good one");
    }
    host.later(HOLD.as_secs() + 1);
    write(&host, "a.prom", "a: what went wrong\n", 10);
    assert_eq!(state(&mut host), told(None, "1", 300));
    write(&host, "a.prom", "a 1\n", 5);
    assert_eq!(state(&mut host), told(Some("1"), "0", 5));
}

#[test]
fn what_is_held_grows_old_whatever_is_written_after_it() {
    let mut host = with_files(Some(Duration::from_mins(5)));
    write(&host, "a.prom", "a 0\n", 290);
    assert_eq!(state(&mut host), told(Some("0"), "0", 290));
    host.later(20);
    write(&host, "a.prom", "garbage\n", 0);
    assert_eq!(state(&mut host), told(None, "1", 290));
    // The same for one that is there and cannot be looked at.
    let mut host = with_files(Some(Duration::from_mins(5)));
    write(&host, "a.prom", "a 0\n", 290);
    assert_eq!(state(&mut host), told(Some("0"), "0", 290));
    host.later(20);
    host.tree.remove("prom/a.prom");
    std::os::unix::fs::symlink("nowhere", host.tree.path("prom/a.prom")).expect("ours");
    assert_eq!(state(&mut host), told(None, "1", 290));
}

#[test]
fn a_file_that_is_never_complete_is_an_error_after_a_while() {
    let mut host = with_files(None);
    write(&host, "a.prom", "a 0\n", 60);
    assert_eq!(state(&mut host), told(Some("0"), "0", 60));
    write(&host, "a.prom", "a 1", 0);
    assert_eq!(state(&mut host), told(Some("0"), "0", 60));
    host.later(HOLD.as_secs() + 1);
    let time = SystemTime::UNIX_EPOCH + EPOCH + Duration::from_secs(100) + HOLD;
    let file = fs::File::options().write(true).open(host.tree.path("prom/a.prom")).expect("made");
    file.set_modified(time).expect("ours");
    assert_eq!(state(&mut host), told(None, "1", 60));
    assert!(
        host.found("textfile").ends_with("has been half written for 60 seconds"),
        "{}",
        host.found("textfile")
    );
}

#[test]
fn an_error_is_told_whatever_names_are_asked_for_and_without_the_directory() {
    let mut host = with_files(None);
    write(&host, "a.prom", "garbage\n", 60);
    let names = NameSets { collectd: true, node: false, tas: false };
    assert!(host.text(Format::Text, names).contains("\nnode_textfile_scrape_error 1\n"));
    host.tree.remove("prom");
    assert!(host.text(Format::Text, names).contains("\nnode_textfile_scrape_error 1\n"));
}

#[test]
fn a_page_that_text_files_fill_still_has_what_the_agent_says_of_itself() {
    let mut host = with_files(None);
    host.tree.proc(1, 0);
    for file in 0..4 {
        let lines: Vec<String> = (0..12_500).map(|n| format!("f{file}_{n} 1\n")).collect();
        write(&host, &format!("{file}.prom"), lines.concat(), 60);
    }
    let page = host.text(Format::Text, NameSets::ALL);
    let value = |series: &str| {
        let line =
            page.lines().rfind(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<f64>().ok())
    };
    assert_eq!(value("node_load1"), Some(1.5));
    assert_eq!(value("node_telemetry_source_up{source=\"textfile\"}"), Some(1.0));
    assert_eq!(value("node_textfile_scrape_error"), Some(1.0));
    let headers = page.lines().filter(|line| line.starts_with("# TYPE f")).count();
    let series = page.lines().filter(|line| line.starts_with('f')).count();
    let left_out = value("node_telemetry_series_left_out_total");
    let expected = 50_000.0 - f64::from(u32::try_from(series).expect("few"));
    // And the number of those that were refused, which is a series like others.
    assert_eq!((headers, left_out), (series, Some(expected + 1.0)));
    assert!(left_out > Some(0.0), "there are others before them");
    assert!(value("node_telemetry_series") > Some(50_000.0));
    assert!(
        value("process_resident_memory_bytes") > Some(0.0) && value("process_cpu_seconds_total").is_some()
    );
}

#[test]
fn series_of_all_files_have_a_limit_that_is_kept_before_they_are_read() {
    let mut host = with_files(None);
    let lines =
        |name: &str, count: usize| (0..count).map(|n| format!("{name}{n} 1\n")).collect::<Vec<_>>().concat();
    write(&host, "a.prom", lines("a", 30_000), 60);
    write(&host, "b.prom", lines("b", 30_000), 60);
    write(&host, "c.prom", lines("c", 20_000), 60);
    let there = |host: &mut Watched| {
        let page = host.text(Format::Text, NameSets::ALL);
        ["a0 1", "b0 1", "c0 1", "node_textfile_scrape_error 1"]
            .map(|line| page.contains(&format!("\n{line}\n")))
    };
    assert_eq!(there(&mut host), [true, false, true, true]);
    let found = host.found("textfile");
    assert!(found.starts_with("3 files, 50000 families; ") && found.contains("b.prom"), "{found}");
    write(&host, "a.prom", lines("a", 1), 50);
    assert_eq!(there(&mut host), [true, true, false, true], "in the order of their names");
    write(&host, "b.prom", lines("b", 1), 50);
    assert_eq!(there(&mut host), [true, true, true, false]);
    write(&host, "a.prom", lines("a", 40_000), 40);
    assert_eq!(there(&mut host), [true, true, false, true], "one that grows crowds those after it out");
    write(&host, "a.prom", lines("a", 60_000), 30);
    assert_eq!(there(&mut host), [false, true, true, true]);
}

#[test]
fn files_that_say_nothing_come_and_go_before_one_that_does() {
    let mut host = with_files(None);
    write(&host, "b.prom", "b 1\n", 60);
    assert_eq!(value(&host.samples(), "b"), Some("1"));
    for text in ["garbage\n", "# nothing\n"] {
        write(&host, "a.prom", text, 60);
        assert_eq!(value(&host.samples(), "b"), Some("1"), "beside {text:?}");
        host.tree.remove("prom/a.prom");
        assert_eq!(value(&host.samples(), "b"), Some("1"), "after {text:?}");
    }
    write(&host, "a.prom", "a", 0);
    assert_eq!(value(&host.samples(), "b"), Some("1"), "beside one that is being written");
}

#[test]
fn files_past_their_number_are_an_error() {
    let mut host = with_files(None);
    for file in 0..MAX_FILES + 2 {
        write(&host, &format!("{file:03}.prom"), format!("f{file} 1\n"), 60);
    }
    let samples = host.samples();
    assert_eq!(value(&samples, "node_textfile_scrape_error"), Some("1"));
    assert!((samples.contains_key("f63"), samples.contains_key("f64")) == (true, false));
    let found = host.found("textfile");
    assert_eq!(found, "64 files, 64 families; 2 files past the limit of 64 are not read");
}

#[test]
fn a_hundred_megabytes_a_fifo_and_a_directory_are_errors_at_once() {
    let mut host = with_files(None);
    write(&host, "a.prom", "a 1\n", 60);
    let huge = fs::File::create(host.tree.path("prom/huge.prom")).expect("ours");
    huge.set_len(100 * MAX_FILE).expect("a sparse file");
    fs::create_dir(host.tree.path("prom/directory.prom")).expect("mkdir");
    let fifo = std::process::Command::new("mkfifo").arg(host.tree.path("prom/fifo.prom")).status();
    assert!(fifo.expect("mkfifo runs").success());
    let samples = host.samples();
    assert_eq!((value(&samples, "a"), value(&samples, "node_textfile_scrape_error")), (Some("1"), Some("1")));
    for named in ["huge.prom", "directory.prom", "fifo.prom"] {
        assert!(host.found("textfile").contains(named), "{}", host.found("textfile"));
    }
}

#[test]
fn stamped_lines_twins_and_the_agents_own_names_are_refused_and_counted() {
    let mut host = with_files(None);
    host.tree.proc(1, 0);
    write(&host, "a.prom", "a 1\na 2 1700000000000\nx{p=\"1\",q=\"2\"} 1\n", 60);
    write(&host, "b.prom", "x{q=\"2\",p=\"1\"} 2\nnode_load1 99\nnode_telemetry_series 0\n", 60);
    let samples = host.samples();
    assert_eq!(value(&samples, "a"), Some("1"));
    assert_eq!(value(&samples, "x{p=\"1\",q=\"2\"}"), Some("1"), "the first file wins");
    assert_eq!(value(&samples, "node_load1"), Some("1.5"));
    assert_eq!(value(&samples, "node_textfile_refused_series"), Some("4"));
    assert_eq!(
        value(&samples, "node_textfile_scrape_error"),
        Some("1"),
        "somebody may wait for what was left out"
    );
    assert_eq!(host.found("textfile"), "2 files, 4 families; 1 lines refused for their timestamps");
}

#[test]
fn what_the_agent_says_of_itself_is_taken_over_by_no_file() {
    let lines = "process_cpu_seconds 7\nprocess_resident_memory_bytes 7\nnode_textfile_refused_series 7\n\
                 node_textfile_scrape_error 7\nnode_telemetry_series 7\nb 7\n";
    let mut host = with_files(None);
    write(&host, "a.prom", lines, 60);
    for format in [Format::Text, Format::OpenMetrics] {
        let page = host.text(format, NameSets::ALL);
        let sevens: Vec<&str> = page.lines().filter(|line| line.ends_with(" 7")).collect();
        assert_eq!(sevens, ["b 7"]);
        for own in
            ["process_cpu_seconds_total ", "process_resident_memory_bytes ", "node_textfile_refused_series 5"]
        {
            assert!(page.contains(&format!("\n{own}")), "{own}");
        }
    }
}

#[test]
fn a_file_of_nothing_but_stamped_lines_is_an_error_too() {
    let mut host = with_files(None);
    write(&host, "a.prom", "a 1 1700000000000\nb 2 1700000000000\n", 60);
    let samples = host.samples();
    assert_eq!(value(&samples, "node_textfile_refused_series"), Some("2"));
    assert_eq!(value(&samples, "node_textfile_scrape_error"), Some("1"));
}

#[test]
fn a_family_in_two_files_is_written_once() {
    let mut host = with_files(None);
    write(&host, "a.prom", "# TYPE x gauge\nx{n=\"1\"} 1\n", 60);
    write(&host, "b.prom", "# TYPE x gauge\nx{n=\"2\"} 2\n", 60);
    let samples = host.samples();
    assert_eq!((value(&samples, "x{n=\"1\"}"), value(&samples, "x{n=\"2\"}")), (Some("1"), Some("2")));
}

#[test]
fn a_file_past_its_age_is_dropped_and_said_to_be_stale() {
    let mut host = with_files(Some(Duration::from_mins(5)));
    write(&host, "a.prom", "a 1\n", 200);
    assert_eq!(value(&host.samples(), "a"), Some("1"));
    host.later(200);
    let samples = host.samples();
    let file = host.tree.path("prom/a.prom");
    let stale = format!("node_textfile_stale{{file=\"{}\"}}", file.display());
    assert_eq!((value(&samples, "a"), value(&samples, &stale)), (None, Some("1")));
    write(&host, "a.prom", "a 3\n", 0);
    assert_eq!(value(&host.samples(), "a"), Some("3"));
}

#[test]
fn in_openmetrics_types_are_ones_it_knows() {
    let mut host = with_files(None);
    write(
        &host,
        "a.prom",
        "# TYPE jobs_total counter\njobs_total 1\n# TYPE odd counter\nodd 1\nbare 1\n",
        60,
    );
    let text = host.text(Format::OpenMetrics, NameSets::ALL);
    for line in [
        "# TYPE jobs counter\njobs_total 1\n",
        "# TYPE odd unknown\nodd 1\n",
        "# TYPE bare unknown\nbare 1\n",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn files_past_their_common_limit_are_errors() {
    let mut host = with_files(None);
    for file in 0..6 {
        let line = format!("f{file} 1\n");
        let padding = "#".repeat(1024 * 1024 - line.len() - 1);
        write(&host, &format!("{file}.prom"), format!("{line}{padding}\n"), 60);
    }
    let samples = host.samples();
    let there: Vec<bool> = (0..6).map(|file| samples.contains_key(&format!("f{file}"))).collect();
    assert_eq!(there, [true, true, true, true, false, false]);
    assert_eq!(value(&samples, "node_textfile_scrape_error"), Some("1"));
    for file in 0..3 {
        write(&host, &format!("{file}.prom"), format!("f{file} 2\n"), 50);
    }
    let samples = host.samples();
    assert!((0..6).all(|file| samples.contains_key(&format!("f{file}"))), "there is room again");
    assert_eq!(value(&samples, "node_textfile_scrape_error"), Some("0"));
}
