//! What we want to know of a certificate: its names, its time, and whether it is a CA's.
//!
//! A reader of a few fields, not a verifier: signatures and chains are rustls's business. Bytes come from
//! strangers, so anything unexpected is `None`, never a panic.

/// The facts of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The subject's common name; the last one if there are several, as Go's clients and servers read it.
    pub common_name: Option<String>,
    /// The subject's organisations, which Kubernetes reads as groups.
    pub organizations: Vec<String>,
    /// DNS names among the subject's alternative names.
    pub dns_names: Vec<String>,
    /// Whether it may sign other certificates.
    pub is_ca: bool,
    /// Valid from, in seconds since 1970.
    pub not_before: i64,
    /// Valid until, in seconds since 1970.
    pub not_after: i64,
}

const BOOLEAN: u8 = 0x01;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const DNS_NAME: u8 = 0x82;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ORGANIZATION: &[u8] = &[0x55, 0x04, 0x0a];
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];

impl Certificate {
    /// Reads the fields, or `None` if the bytes are not a certificate.
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut outer = Der(der);
        let mut certificate = Der(outer.expect(SEQUENCE)?);
        let mut body = Der(certificate.expect(SEQUENCE)?);
        if body.peek() == Some(VERSION) {
            body.next()?;
        }
        let _serial = body.next()?;
        let _signature = body.expect(SEQUENCE)?;
        let _issuer = body.expect(SEQUENCE)?;
        let mut validity = Der(body.expect(SEQUENCE)?);
        let not_before = time(validity.next()?)?;
        let not_after = time(validity.next()?)?;
        let mut read = Self {
            common_name: None,
            organizations: Vec::new(),
            dns_names: Vec::new(),
            is_ca: false,
            not_before,
            not_after,
        };
        read.subject(body.expect(SEQUENCE)?)?;
        let _public_key = body.expect(SEQUENCE)?;
        while let Some(tag) = body.peek() {
            let (_, content) = body.next()?;
            if tag == EXTENSIONS {
                read.extensions(Der(content).expect(SEQUENCE)?)?;
            }
        }
        Some(read)
    }

    fn subject(&mut self, names: &[u8]) -> Option<()> {
        let mut names = Der(names);
        while names.peek().is_some() {
            let mut parts = Der(names.expect(SET)?);
            while parts.peek().is_some() {
                let mut part = Der(parts.expect(SEQUENCE)?);
                let kind = part.expect(OBJECT_ID)?;
                let (tag, value) = part.next()?;
                let Some(value) = text(tag, value) else { continue };
                match kind {
                    COMMON_NAME => self.common_name = Some(value),
                    ORGANIZATION => self.organizations.push(value),
                    _ => {}
                }
            }
        }
        Some(())
    }

    fn extensions(&mut self, extensions: &[u8]) -> Option<()> {
        let mut extensions = Der(extensions);
        while extensions.peek().is_some() {
            let mut extension = Der(extensions.expect(SEQUENCE)?);
            let kind = extension.expect(OBJECT_ID)?;
            if extension.peek() == Some(BOOLEAN) {
                extension.next()?;
            }
            let mut value = Der(extension.expect(OCTET_STRING)?);
            match kind {
                SUBJECT_ALT_NAME => {
                    let mut names = Der(value.expect(SEQUENCE)?);
                    while names.peek().is_some() {
                        let (tag, name) = names.next()?;
                        if tag == DNS_NAME {
                            self.dns_names.extend(text(IA5_STRING, name));
                        }
                    }
                }
                BASIC_CONSTRAINTS => {
                    let mut constraints = Der(value.expect(SEQUENCE)?);
                    self.is_ca = constraints.peek() == Some(BOOLEAN) && constraints.next()?.1 != [0];
                }
                _ => {}
            }
        }
        Some(())
    }

    /// The names a `--client-name` is compared with: the common name, then the DNS names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.common_name.iter().chain(&self.dns_names).map(String::as_str)
    }
}

/// A run of tagged, length-prefixed values.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    fn peek(&self) -> Option<u8> {
        self.0.first().copied()
    }

    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            // Four bytes of length are 4 GiB; indefinite lengths (0x80) are not DER.
            let count = usize::from(first & 0x7f);
            if !(1..=4).contains(&count) {
                return None;
            }
            let (bytes, rest) = rest.split_at_checked(count)?;
            (bytes.iter().fold(0, |length, &byte| length << 8 | usize::from(byte)), rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.next()?;
        (found == tag).then_some(content)
    }
}

/// A string of one of the kinds that are in use; others (Teletex, BMP) are too rare to compare names with.
fn text(tag: u8, bytes: &[u8]) -> Option<String> {
    match tag {
        UTF8_STRING => String::from_utf8(bytes.to_vec()).ok(),
        PRINTABLE_STRING | IA5_STRING if bytes.is_ascii() => String::from_utf8(bytes.to_vec()).ok(),
        _ => None,
    }
}

/// `YYMMDDHHMMSSZ` (years 1950 to 2049) or `YYYYMMDDHHMMSSZ`, always UTC.
fn time((tag, bytes): (u8, &[u8])) -> Option<i64> {
    let digits = bytes.strip_suffix(b"Z")?;
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| {
        Some(digits.get(range)?.iter().fold(0, |n, digit| n * 10 + i64::from(digit - b'0')))
    };
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => (number(0..2).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        (GENERALIZED_TIME, 14) => (number(0..4)?, 4),
        _ => return None,
    };
    let two = |at: usize| number(rest + at..rest + at + 2);
    let (month, day) = (two(0)?, two(2)?);
    if !(1..=12).contains(&month) {
        return None;
    }
    Some(days_since_1970(year, month, day) * 86_400 + two(4)? * 3600 + two(6)? * 60 + two(8)?)
}

/// Counts days in years that begin in March, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 719_469
}

/// A moment for people: `2026-11-15T20:56:00Z`.
pub(super) fn moment(unix_seconds: i64) -> String {
    let (days, seconds) = (unix_seconds.div_euclid(86_400), unix_seconds.rem_euclid(86_400));
    // An estimate that is never too late, then put right.
    let mut year = 1970 + days.div_euclid(if days < 0 { 365 } else { 366 });
    while days_since_1970(year + 1, 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|&month| days_since_1970(year, month, 1) <= days).unwrap_or(1);
    let day = days - days_since_1970(year, month, 1) + 1;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn issued(change: impl FnOnce(&mut rcgen::CertificateParams)) -> Vec<u8> {
        let mut params =
            rcgen::CertificateParams::new(["a.example".to_owned(), "b.example".to_owned()]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        change(&mut params);
        let key = rcgen::KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_fields_of_a_certificate_are_read() {
        let der = issued(|params| {
            params.distinguished_name.push(rcgen::DnType::CommonName, "kube-scheduler");
            params.distinguished_name.push(rcgen::DnType::OrganizationName, "système");
            params.not_before = rcgen::date_time_ymd(2024, 2, 29);
            params.not_after = rcgen::date_time_ymd(2075, 12, 31);
            params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        });
        let expected = Certificate {
            common_name: Some("kube-scheduler".to_owned()),
            organizations: vec!["système".to_owned()],
            dns_names: vec!["a.example".to_owned(), "b.example".to_owned()],
            is_ca: true,
            not_before: 1_709_164_800,
            not_after: 3_344_976_000,
        };
        assert_eq!(Certificate::read(&der), Some(expected));
    }

    #[test]
    fn a_certificate_that_says_it_is_no_ca_is_none() {
        let der = issued(|params| params.is_ca = rcgen::IsCa::ExplicitNoCa);
        assert!(!Certificate::read(&der).unwrap().is_ca);
    }

    #[test]
    fn moments_are_printed_for_people() {
        assert_eq!(moment(0), "1970-01-01T00:00:00Z");
        assert_eq!(moment(1_709_164_800 + 86_399), "2024-02-29T23:59:59Z");
        assert_eq!(moment(-1), "1969-12-31T23:59:59Z");
        assert_eq!(moment(4_102_444_799), "2099-12-31T23:59:59Z");
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Certificate::read(&bytes);
        }

        #[test]
        fn no_damage_makes_the_reader_panic(at in any::<prop::sample::Index>(), byte: u8) {
            let mut der = issued(|_| {});
            let at = at.index(der.len());
            der[at] = byte;
            let _ = Certificate::read(&der);
        }

        #[test]
        fn half_a_certificate_is_none(cut in any::<prop::sample::Index>()) {
            let der = issued(|_| {});
            prop_assert_eq!(Certificate::read(&der[..cut.index(der.len())]), None);
        }

        #[test]
        fn a_moment_printed_and_read_is_the_same(seconds in -62_135_596_800i64..253_402_300_800) {
            let digits: String = moment(seconds).chars().filter(char::is_ascii_alphanumeric).collect();
            let compact = digits.replace('T', "");
            prop_assert_eq!(time((GENERALIZED_TIME, compact.as_bytes())), Some(seconds));
        }
    }
}
