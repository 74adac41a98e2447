//! The stages of a certificate's life. Files and clients are tested over real sockets in `tests/tls.rs`.

use super::*;

#[test]
fn a_certificate_is_late_in_the_last_fifth_of_its_life() {
    let certificate = Certificate {
        common_name: None,
        organizations: Vec::new(),
        dns_names: Vec::new(),
        is_ca: false,
        not_before: 1000,
        not_after: 2000,
    };
    let stages = [1800, 1801, 2000, 2001].map(|now| Stage::of(&certificate, now));
    assert_eq!(stages, [Stage::Fine, Stage::Late, Stage::Late, Stage::Expired]);
}
