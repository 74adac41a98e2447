//! Flags (`chassis`) and policies (`api`) may not know of each other; what both call a duration is the same.

use proptest::prelude::*;

fn both(text: &str) -> [Option<std::time::Duration>; 2] {
    [api::duration::parse(text).ok(), chassis::duration::parse(text).ok()]
}

#[test]
fn the_usual_and_the_odd_are_read_alike() {
    for text in [
        "0",
        "+0",
        "-0",
        "0s",
        "-0s",
        "30s",
        "1h30m",
        "1.5s",
        ".5s",
        "1.s",
        "500ms",
        "1us",
        "1µs",
        "1μs",
        "7ns",
        "0.1ns",
        "1.9ns",
        "1",
        "",
        " ",
        "+",
        "-",
        ".",
        "s",
        "1x",
        "-5s",
        "1s-1s",
        "1d",
        "292y",
        "9223372036s",
        "9223372037s",
        "106751d",
        "2562047h",
        "2562048h",
        "1e3s",
        "1_000s",
        "١s",
        "1 s",
    ] {
        let [policy, flag] = both(text);
        assert_eq!(policy, flag, "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_alike(text in "[-+]?([0-9]{0,11}(\\.[0-9]{0,11})?(h|m|s|ms|us|µs|ns|x)?){0,3}|\\PC{0,8}") {
        let [policy, flag] = both(&text);
        prop_assert_eq!(policy, flag, "{:?}", text);
    }
}
