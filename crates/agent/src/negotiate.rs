//! What the caller wants, from its `Accept` and `Accept-Encoding`.

use crate::page::Format;

/// What to answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A page of metrics.
    Metrics(Format),
    /// A page for people.
    Landing,
}

/// The media ranges looked at in one header.
const MAX_RANGES: usize = 32;

/// Chooses by `Accept` and path: people who open `/` in a browser get a page to read, all else gets metrics.
pub fn answer(accept: &str, path: &str) -> Answer {
    let (mut text, mut open, mut html) = (0, 0, 0);
    for (range, quality) in ranges(accept) {
        match range {
            "application/openmetrics-text" => open = open.max(quality),
            "text/plain" | "text/*" | "*/*" => text = text.max(quality),
            "text/html" => html = html.max(quality),
            _ => {}
        }
    }
    if html > open && html >= text && path == "/" {
        Answer::Landing
    } else if open > text {
        Answer::Metrics(Format::OpenMetrics)
    } else {
        Answer::Metrics(Format::Text)
    }
}

/// Whether the caller takes gzip.
pub fn takes_gzip(accept_encoding: &str) -> bool {
    ranges(accept_encoding).find(|(coding, _)| *coding == "gzip").is_some_and(|(_, quality)| quality > 0)
}

/// Ranges and their quality in thousandths.
fn ranges(header: &str) -> impl Iterator<Item = (&str, u32)> {
    header.split(',').take(MAX_RANGES).map(|part| {
        let mut parameters = part.split(';').map(str::trim);
        let range = parameters.next().unwrap_or_default();
        let quality = parameters.find_map(|p| p.strip_prefix("q=")).map_or(1000, thousandths);
        (range, quality)
    })
}

/// `0.25` is 250; what is no number is taken as 0, which is "not that".
fn thousandths(text: &str) -> u32 {
    crate::scan::fixed(text.as_bytes(), 3).and_then(|n| u32::try_from(n).ok()).unwrap_or(0).min(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TEXT: Answer = Answer::Metrics(Format::Text);
    const OPEN: Answer = Answer::Metrics(Format::OpenMetrics);

    #[test]
    fn real_callers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                          application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
                          text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let older = "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                        application/openmetrics-text;version=1.0.0;q=0.5,*/*;q=0.2";
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let cases = [
            ("", "/metrics", TEXT),
            ("*/*", "/", TEXT),
            (prometheus, "/metrics", OPEN),
            (older, "/", OPEN),
            (protobuf, "/metrics", OPEN),
            ("text/plain;version=0.0.4", "/", TEXT),
            (browser, "/", Answer::Landing),
            (browser, "/metrics", TEXT),
            ("application/openmetrics-text;q=0", "/", TEXT),
        ];
        for (accept, path, expected) in cases {
            assert_eq!(answer(accept, path), expected, "{accept} {path}");
        }
    }

    #[test]
    fn ranges_past_the_limit_are_not_looked_at() {
        let after = |others: usize| format!("{}gzip", "br,".repeat(others));
        assert!(takes_gzip(&after(MAX_RANGES - 1)) && !takes_gzip(&after(MAX_RANGES)));
    }

    #[test]
    fn gzip_is_taken_unless_refused() {
        let cases =
            [("gzip", true), ("deflate, gzip;q=0.5", true), ("gzip;q=0", false), ("", false), ("br", false)];
        for (header, expected) in cases {
            assert_eq!(takes_gzip(header), expected, "{header}");
        }
    }

    proptest! {
        #[test]
        fn any_header_has_an_answer(accept: String, path: String) {
            let _ = (answer(&accept, &path), takes_gzip(&accept));
        }
    }
}
