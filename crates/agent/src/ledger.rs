//! What was written before: each series once per page, and counters that never go backwards.
//!
//! Kernel counters do step back (idle time by a tick, an interface created anew, a CPU taken offline). A small
//! step is held; a fall below half is a restart of the counter and is added on top, as `rate()` would read it.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Pages after which a series that is not written any more is forgotten.
const FORGET_AFTER_PAGES: u32 = 128;
/// More than any page has series and families; past this, what was not on the last page is forgotten at once.
const MAX_ENTRIES: usize = 120_000;

/// Remembers the series of earlier pages.
#[derive(Debug, Default)]
pub struct Ledger {
    page: u32,
    entries: Vec<Entry>,
    places: HashMap<u64, usize, BuildHasherDefault<AsIs>>,
    /// Where the next series is, if this page goes on as the one before.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    series: u64,
    page: u32,
    raw: u64,
    carried: u64,
}

impl Ledger {
    /// Starts a new page.
    pub fn turn(&mut self) {
        self.page = self.page.wrapping_add(1);
        self.next = 0;
        let crowded = self.entries.len() > MAX_ENTRIES;
        if crowded || self.page.is_multiple_of(FORGET_AFTER_PAGES) {
            let page = self.page;
            let pages = if crowded { 2 } else { FORGET_AFTER_PAGES };
            self.entries.retain(|entry| page.wrapping_sub(entry.page) < pages);
            self.places.clear();
            self.places.extend(self.entries.iter().enumerate().map(|(place, entry)| (entry.series, place)));
        }
    }

    /// Notes a series of any kind; false if this page has it already.
    pub fn note(&mut self, series: u64) -> bool {
        self.count(series, 0).is_some()
    }

    /// Notes a counter and returns the value to write; none if this page has the series already.
    pub fn count(&mut self, series: u64, raw: u64) -> Option<u64> {
        let page = self.page;
        let entry = self.entry(series, raw);
        if entry.page == page {
            return None;
        }
        entry.page = page;
        if raw < entry.raw / 2 {
            entry.carried = entry.carried.saturating_add(entry.raw);
            entry.raw = raw;
        } else if raw > entry.raw {
            entry.raw = raw;
        }
        Some(entry.carried.saturating_add(entry.raw))
    }

    /// The entry of a series, new if there was none. Pages are much the same from one scrape to the next, so it is
    /// nearly always the one after the last.
    fn entry(&mut self, series: u64, raw: u64) -> &mut Entry {
        let here = self.entries.get(self.next).is_some_and(|entry| entry.series == series);
        let place = if here {
            self.next
        } else {
            *self.places.entry(series).or_insert_with(|| {
                let page = self.page.wrapping_sub(1);
                self.entries.push(Entry { series, page, raw, carried: 0 });
                self.entries.len() - 1
            })
        };
        self.next = place + 1;
        &mut self.entries[place]
    }
}

/// Keys are hashes already.
#[derive(Debug, Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash(bytes);
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }
}

/// A 64-bit hash of a series as written: eight bytes a step, then mixed so that all bits count.
pub fn hash(bytes: &[u8]) -> u64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut sum = bytes.len() as u64 ^ STEP;
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut tail = [0u8; 8];
    tail[..rest.len()].copy_from_slice(rest);
    for chunk in chunks.iter().chain(std::iter::once(&tail)) {
        sum = (sum.rotate_left(23) ^ u64::from_le_bytes(*chunk)).wrapping_mul(STEP);
    }
    sum ^= sum >> 32;
    sum = sum.wrapping_mul(0xd6e8_feb8_6659_fd93);
    sum ^ (sum >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_series_is_written_once_a_page() {
        let mut ledger = Ledger::default();
        ledger.turn();
        assert_eq!((ledger.note(7), ledger.note(7), ledger.note(8)), (true, false, true));
        ledger.turn();
        assert!(ledger.note(7));
    }

    #[test]
    fn a_small_step_back_is_held_and_a_restart_is_carried() {
        let mut ledger = Ledger::default();
        let written: Vec<u64> = [100, 99, 101, 5, 7]
            .into_iter()
            .filter_map(|raw| {
                ledger.turn();
                ledger.count(1, raw)
            })
            .collect();
        assert_eq!(written, vec![100, 100, 101, 106, 108]);
    }

    #[test]
    fn series_that_are_gone_are_forgotten() {
        let mut ledger = Ledger::default();
        for n in 0..10_000u64 {
            ledger.turn();
            ledger.note(n);
        }
        assert!(ledger.entries.len() <= 2 * FORGET_AFTER_PAGES as usize, "{}", ledger.entries.len());
    }

    #[test]
    fn names_that_are_new_on_every_page_do_not_pile_up() {
        let mut ledger = Ledger::default();
        for page in 0..20 {
            ledger.turn();
            assert_eq!(ledger.count(u64::MAX, 100 + page), Some(100 + page));
            for n in 0..50_000 {
                ledger.note(page * 50_000 + n);
            }
        }
        assert!(ledger.entries.len() <= MAX_ENTRIES + 50_001, "{}", ledger.entries.len());
    }

    proptest! {
        #[test]
        fn no_sequence_of_readings_makes_a_counter_fall(readings: Vec<u64>) {
            let mut ledger = Ledger::default();
            let mut last = 0;
            for raw in readings {
                ledger.turn();
                let written = ledger.count(1, raw).expect("a new page has no series yet");
                prop_assert!(written >= last);
                last = written;
            }
        }

        #[test]
        fn whatever_the_order_a_page_has_each_series_once(pages in prop::collection::vec(prop::collection::vec(0u64..20, 0..40), 0..8)) {
            let mut ledger = Ledger::default();
            for page in pages {
                ledger.turn();
                let mut written = std::collections::HashSet::new();
                for series in page {
                    // Far from the others', so that a count under another's entry would show.
                    let raw = (series + 1) * 1_000 + u64::from(ledger.page);
                    let expected = written.insert(series).then_some(raw);
                    prop_assert_eq!(ledger.count(series, raw), expected);
                }
            }
        }

        #[test]
        fn different_texts_hash_apart(a: Vec<u8>, b: Vec<u8>) {
            prop_assert_eq!(a == b, hash(&a) == hash(&b));
        }
    }
}
