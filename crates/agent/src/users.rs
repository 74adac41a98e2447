//! Who may scrape: basic authentication against bcrypt hashes.
//!
//! A hash takes as long to check as its owner chose, and a scraper comes every few seconds, so what was right once is
//! remembered under a keyed hash for as long as the users stay the same.

use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Semaphore;

/// Passwords remembered.
const MAX_REMEMBERED: usize = 100;
/// Length of an `Authorization` header that is looked at.
const MAX_HEADER: usize = 4096;
/// bcrypt itself looks at 72 bytes.
const MAX_PASSWORD: usize = 72;

/// A hash at the usual cost that no password fits, so that unknown users take as long as known ones.
const NOBODY: &str = "$2b$10$CwTycUXWue0Thq9StjUM0uJ4/4Yg5fX1ZkYk1G0dC1N0m0r8u0d2e";

/// The users of one configuration.
pub struct Users {
    hashes: BTreeMap<String, String>,
    remembered: Mutex<HashSet<(u64, u64)>>,
    keys: (RandomState, RandomState),
    // One check at a time: guessing passwords must not cost a node more than one core, and not for long.
    checking: Semaphore,
}

impl Users {
    /// Users and their hashes.
    pub fn new(hashes: BTreeMap<String, String>) -> Self {
        Self {
            hashes,
            remembered: Mutex::default(),
            keys: (RandomState::new(), RandomState::new()),
            checking: Semaphore::new(1),
        }
    }

    /// Whether anybody is asked at all.
    pub fn none(&self) -> bool {
        self.hashes.is_empty()
    }

    /// Whether the header names a user with the right password.
    pub async fn admit(&self, authorization: Option<&str>) -> bool {
        let Some((user, password)) = authorization.and_then(credentials) else { return false };
        let key = (self.keys.0.hash_one((&user, &password)), self.keys.1.hash_one((&user, &password)));
        if self.remembered.lock().unwrap_or_else(PoisonError::into_inner).contains(&key) {
            return true;
        }
        let Ok(_one_at_a_time) = self.checking.acquire().await else { return false };
        let (hash, known) = match self.hashes.get(&user) {
            Some(hash) => (hash.clone(), true),
            None => (NOBODY.to_owned(), false),
        };
        let checked = tokio::task::spawn_blocking(move || bcrypt::verify(password, &hash).unwrap_or(false));
        let right = checked.await.unwrap_or(false) && known;
        if right {
            let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
            if remembered.len() >= MAX_REMEMBERED {
                remembered.clear();
            }
            remembered.insert(key);
        }
        right
    }
}

/// User and password of a `Basic` header.
fn credentials(header: &str) -> Option<(String, Vec<u8>)> {
    let (scheme, encoded) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") || header.len() > MAX_HEADER {
        return None;
    }
    let decoded = base64(encoded.trim().as_bytes())?;
    let colon = decoded.iter().position(|&b| b == b':')?;
    let user = String::from_utf8(decoded[..colon].to_vec()).ok()?;
    let password = decoded[colon + 1..].to_vec();
    (password.len() <= MAX_PASSWORD).then_some((user, password))
}

/// Decodes standard base64 with padding.
fn base64(text: &[u8]) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let body = text.strip_suffix(b"==").or_else(|| text.strip_suffix(b"=")).unwrap_or(text);
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    for group in body.chunks(4) {
        let mut bits = 0u32;
        for &byte in group {
            let value = match byte {
                b'A'..=b'Z' => byte - b'A',
                b'a'..=b'z' => byte - b'a' + 26,
                b'0'..=b'9' => byte - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(value);
        }
        let bytes = match group.len() {
            4 => 3,
            3 => 2,
            2 => 1,
            _ => return None,
        };
        bits <<= 6 * (4 - u32::try_from(group.len()).ok()?);
        out.extend_from_slice(&bits.to_be_bytes()[1..=bytes]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn alice() -> Users {
        let hash = bcrypt::hash("secret", 4).expect("hashing works");
        Users::new(BTreeMap::from([("alice".to_owned(), hash)]))
    }

    #[tokio::test]
    async fn the_right_password_is_admitted_also_the_second_time() {
        let users = alice();
        for _ in 0..2 {
            assert!(users.admit(Some("Basic YWxpY2U6c2VjcmV0")).await);
        }
        assert_eq!(users.remembered.lock().expect("no panic").len(), 1);
    }

    #[tokio::test]
    async fn everything_else_is_not() {
        let users = alice();
        let wrong = [
            None,
            Some(""),
            Some("Basic"),
            Some("Bearer YWxpY2U6c2VjcmV0"),
            Some("Basic YWxpY2U6d3Jvbmc="),
            Some("Basic Ym9iOnNlY3JldA=="),
            Some("Basic YWxpY2U="),
            Some("Basic !!!!"),
        ];
        for header in wrong {
            assert!(!users.admit(header).await, "{header:?}");
        }
        assert_eq!(users.remembered.lock().expect("no panic").len(), 0);
    }

    #[tokio::test]
    async fn a_password_is_looked_at_as_far_as_bcrypt_does_and_no_further() {
        let hash = bcrypt::hash("a".repeat(MAX_PASSWORD), 4).expect("hashing works");
        let users = Users::new(BTreeMap::from([("alice".to_owned(), hash)]));
        // "alice:" and three times 24 letters.
        let right = format!("Basic YWxpY2U6{}", "YWFh".repeat(24));
        assert!(users.admit(Some(&right)).await);
        assert!(!users.admit(Some(&format!("{right}YQ=="))).await);
        assert!(!users.admit(Some(&format!("Basic {}", "YWFh".repeat(MAX_HEADER / 4)))).await);
    }

    #[tokio::test]
    async fn no_more_passwords_are_remembered_than_there_is_room_for() {
        let hash = bcrypt::hash("x", 4).expect("hashing works");
        let names: Vec<String> = (0..=MAX_REMEMBERED).map(|n| format!("user{n}")).collect();
        let users = Users::new(names.iter().map(|name| (name.clone(), hash.clone())).collect());
        let mut most = 0;
        for name in names {
            let header = format!("Basic {}", encoded(format!("{name}:x").as_bytes()));
            assert!(users.admit(Some(&header)).await, "{name}");
            most = most.max(users.remembered.lock().expect("no panic").len());
        }
        assert_eq!((most, users.remembered.lock().expect("no panic").len()), (MAX_REMEMBERED, 1));
    }

    /// Standard base64, by the letter.
    fn encoded(bytes: &[u8]) -> String {
        const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let group = |group: &[u8]| {
            let bits =
                group.iter().fold(0usize, |bits, &b| bits << 8 | usize::from(b)) << (8 * (3 - group.len()));
            let letters: String =
                (0..=group.len()).map(|n| char::from(LETTERS[bits >> (18 - 6 * n) & 63])).collect();
            format!("{letters:=<4}")
        };
        bytes.chunks(3).map(group).collect()
    }

    #[tokio::test]
    async fn guesses_are_checked_one_after_the_other() {
        let users = alice();
        let held = users.checking.acquire().await.expect("nobody closes it");
        let waiting = tokio::time::timeout(
            std::time::Duration::from_millis(50),
            users.admit(Some("Basic YWxpY2U6d3Jvbmc=")),
        );
        assert!(waiting.await.is_err(), "a guess waits for the one before");
        drop(held);
        assert!(users.admit(Some("Basic YWxpY2U6c2VjcmV0")).await);
    }

    #[test]
    fn the_hash_that_fits_nobody_is_a_hash() {
        assert_eq!(bcrypt::verify("", NOBODY).ok(), Some(false));
    }

    #[test]
    fn base64_of_the_standard() {
        let cases: [(&[u8], &[u8]); 7] = [
            (b"", b""),
            (b"Zg==", b"f"),
            (b"Zm8=", b"fo"),
            (b"Zm9v", b"foo"),
            (b"Zm9vYg==", b"foob"),
            (b"Zm9vYmE=", b"fooba"),
            (b"/+8=", b"\xff\xef"),
        ];
        for (text, expected) in cases {
            assert_eq!(base64(text).as_deref(), Some(expected));
        }
        for wrong in [&b"Zg"[..], b"Z===", b"Zm9v=", b"Zm9*"] {
            assert_eq!(base64(wrong), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_headers_do_not_panic(header: String, bytes: Vec<u8>) {
            let _ = (credentials(&header), credentials(&format!("Basic {header}")), base64(&bytes));
        }
    }
}
