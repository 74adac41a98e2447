//! What this process itself costs, from `/proc/self`.

use std::path::Path;

use crate::host::{Buffer, Host, Probe};
use crate::scan;

/// What the kernel hands memory out in, on every target this agent is built for.
const PAGE: u64 = 4096;

/// The files of this process.
#[derive(Debug)]
pub struct Own {
    stat: Probe,
    statm: Probe,
}

impl Default for Own {
    fn default() -> Self {
        // Whatever the root is, this process is here.
        let here = Host::at(Path::new("/"));
        let file = |name: &str| here.attribute(here.path(name));
        Self { stat: file("proc/self/stat"), statm: file("proc/self/statm") }
    }
}

impl Own {
    /// CPU time used so far, in hundredths of a second.
    pub fn cpu_hundredths(&mut self, buffer: &mut Buffer) -> Option<u64> {
        parse_cpu(self.stat.read(buffer).ok()?)
    }

    /// Bytes in RAM.
    pub fn resident_bytes(&mut self, buffer: &mut Buffer) -> Option<u64> {
        let text = self.statm.read(buffer).ok()?;
        scan::number(scan::fields(text).nth(1)?)?.checked_mul(PAGE)
    }
}

/// The command's name stands in parentheses and may hold anything, so fields are counted from the last one.
fn parse_cpu(stat: &[u8]) -> Option<u64> {
    let end = stat.iter().rposition(|&b| b == b')')?;
    let mut fields = scan::fields(&stat[end + 1..]).skip(11);
    scan::number(fields.next()?)?.checked_add(scan::number(fields.next()?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn user_and_system_time_are_found_behind_any_name() {
        let stat = b"42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 17 5 0 0 20 0 1 0 100 1000 10";
        assert_eq!(parse_cpu(stat), Some(22));
        let (mut own, mut buffer) = (Own::default(), Buffer::default());
        for _ in 0..2 {
            assert!(own.cpu_hundredths(&mut buffer).is_some() && own.resident_bytes(&mut buffer).is_some());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_not_panic(text: Vec<u8>) {
            let _ = parse_cpu(&text);
        }
    }
}
