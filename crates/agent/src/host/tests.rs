//! Files that block, vanish, are replaced or are absurd.

use std::process::Command;

use super::*;

fn host() -> (tempfile::TempDir, Host) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let host = Host::at(directory.path());
    (directory, host)
}

#[test]
fn a_probe_reads_what_is_there_now_through_one_descriptor() {
    let (_tree, host) = host();
    let path = host.path("/sys/value");
    fs::create_dir_all(path.parent().expect("below the root")).expect("mkdir");
    let mut probe = host.attribute(path.clone());
    let mut buffer = Buffer::default();
    for text in ["1\n", "22\n", ""] {
        fs::write(&path, text).expect("write");
        assert_eq!(probe.read(&mut buffer), Ok(text.as_bytes()));
    }
    assert_eq!(host.kept.load(Ordering::Relaxed), 1);
    drop(probe);
    assert_eq!(host.kept.load(Ordering::Relaxed), 0);
}

#[test]
fn a_file_that_was_replaced_is_read_anew() {
    let (_tree, host) = host();
    let path = host.path("value");
    fs::write(&path, "old").expect("write");
    let mut probe = host.attribute(path.clone());
    let mut buffer = Buffer::default();
    assert_eq!(probe.read_current(&mut buffer), Ok(&b"old"[..]));
    fs::remove_file(&path).expect("remove");
    assert_eq!(probe.read_current(&mut buffer), Err(Trouble::Absent { path: path.clone() }));
    fs::write(&path, "new").expect("write");
    assert_eq!(probe.read_current(&mut buffer), Ok(&b"new"[..]));
}

#[test]
fn a_fifo_a_directory_and_a_device_are_refused_at_once() {
    let (_tree, host) = host();
    let fifo = host.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    for path in [fifo, host.path(""), PathBuf::from("/dev/zero")] {
        let mut buffer = Buffer::default();
        assert_eq!(
            host.attribute(path.clone()).read(&mut buffer),
            Err(Trouble::NotAFile { path: path.clone() }),
        );
    }
}

#[test]
fn an_absurdly_long_file_is_refused_and_leaves_no_memory_behind() {
    let (_tree, host) = host();
    let path = host.path("long");
    fs::write(&path, vec![b'1'; 10 * 1024 * 1024]).expect("write");
    let mut buffer = Buffer::default();
    let refusal = |limit| Trouble::TooLarge { path: path.clone(), limit };
    assert_eq!(host.attribute(path.clone()).read(&mut buffer), Err(refusal(ATTRIBUTE_LIMIT)));
    assert_eq!(host.table(path.clone()).read(&mut buffer), Err(refusal(TABLE_LIMIT)));
    assert_eq!(buffer.bytes.capacity(), 0);
}

#[test]
fn past_the_limit_files_are_read_without_keeping_them_open() {
    let (_tree, host) = host();
    let path = host.path("value");
    fs::write(&path, "7").expect("write");
    let mut buffer = Buffer::default();
    let mut probes: Vec<Probe> =
        (0..MAX_KEPT_DESCRIPTORS + 20).map(|_| host.attribute(path.clone())).collect();
    for probe in &mut probes {
        assert_eq!(probe.read(&mut buffer), Ok(&b"7"[..]));
    }
    assert_eq!(probes.iter().filter(|p| p.file.is_some()).count(), MAX_KEPT_DESCRIPTORS);
    assert_eq!(host.kept.load(Ordering::Relaxed), MAX_KEPT_DESCRIPTORS);
}

#[test]
fn numbered_entries_come_in_the_order_of_their_numbers() {
    let (_tree, host) = host();
    for name in ["cpu10", "cpu9", "cpufreq", "cpu", "cpu-1", "other1"] {
        fs::create_dir(host.path(name)).expect("mkdir");
    }
    let names: Vec<u32> =
        numbered(&host.path(""), "cpu").expect("readable").into_iter().map(|(n, _)| n).collect();
    assert_eq!(names, vec![9, 10]);
}

#[test]
fn a_directory_is_listed_up_to_its_limit() {
    let (_tree, host) = host();
    for n in 0..MAX_ENTRIES + 5 {
        fs::File::create(host.path(&format!("{n}"))).expect("ours");
    }
    assert_eq!(names_in(&host.path("")).map(|names| names.len()), Ok(MAX_ENTRIES));
}
