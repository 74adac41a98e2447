//! CPU time and memory of this process, as the kernel counts them.

use std::time::Duration;

/// CPU time this thread has used so far.
pub(crate) fn used() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanos)
}

/// Resident memory now, in bytes.
pub(crate) fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap_or(0) * 1024
}

/// CPU time all threads of a process have used so far.
pub(crate) fn used_by(process: u32) -> Duration {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{process}/task")) else { return Duration::ZERO };
    let spent = |text: String| text.split_whitespace().next().and_then(|field| field.parse::<u64>().ok());
    let read = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("schedstat")).ok();
    threads.flatten().filter_map(read).filter_map(spent).map(Duration::from_nanos).sum()
}
