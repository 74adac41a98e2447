//! CPU time and memory of this process and of others, as the kernel counts them.

use std::time::Duration;

/// CPU time this thread has used so far.
pub(crate) fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanos)
}

/// Resident memory now, in bytes.
pub(crate) fn resident() -> u64 {
    status_of(std::process::id(), "VmRSS:")
}

/// A line of a process's status that is given in kB, in bytes.
pub(crate) fn status_of(process: u32, key: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// CPU time all threads of a process have used so far. Threads that have ended do not count.
pub(crate) fn used_by(process: u32) -> Duration {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return Duration::ZERO };
    let spent = |text: String| text.split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
    let read = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("schedstat")).ok();
    threads.flatten().filter_map(read).filter_map(spent).map(Duration::from_nanos).sum()
}

/// CPU time a process has used so far, with that of threads that have ended, in steps of 1/100 s.
pub(crate) fn ticks_of(process: u32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The command's name stands in parentheses and may hold anything.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// How busy the machine has been lately: over 1, 5 and 15 minutes.
pub(crate) fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}
