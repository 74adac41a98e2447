use proptest::prelude::*;
use sim::{Ask, Candidate, Scenario, Trial, by_engine, chapter_s};

use super::super::canvas::{Colour, Size};
use super::super::power_policy;
use super::super::stage::Stage;
use super::frame;

fn direct(ask: &Ask<'_>) -> std::io::Result<Vec<Candidate>> {
    by_engine(ask).map_err(|never| match never {})
}

fn stage_at(second: u32) -> Stage {
    let policy = power_policy();
    let scenario = Scenario::story(1, &policy, 8, chapter_s(&policy));
    let mut stage = Stage::new(Trial::new(scenario, policy), "tas", direct);
    stage.play_until(second).unwrap();
    stage
}

fn picture(second: u32, width: u16, height: u16) -> String {
    frame(&stage_at(second), Size { width, height }).plain()
}

#[test]
fn the_hot_node_is_refused_and_says_why() {
    insta::assert_snapshot!(picture(59, 80, 24));
}

#[test]
fn a_silent_sensor_ends_in_an_unknown_node() {
    insta::assert_snapshot!(picture(125, 120, 40));
}

#[test]
fn the_end_is_a_card_below_all_nodes() {
    insta::assert_snapshot!(picture(180, 80, 24));
}

#[test]
fn the_first_frame_is_there_before_the_first_second() {
    insta::assert_snapshot!(picture(0, 80, 24));
}

#[test]
fn a_narrow_screen_cuts_with_an_ellipsis() {
    insta::assert_snapshot!(picture(100, 50, 16));
}

#[test]
fn a_tiny_screen_keeps_what_matters() {
    insta::assert_snapshot!(picture(100, 30, 6));
}

#[test]
fn more_nodes_than_rows_are_counted() {
    let policy = power_policy();
    let scenario = Scenario::story(1, &policy, 100, 60);
    let mut stage = Stage::new(Trial::new(scenario, policy), "tas", direct);
    stage.play_until(50).unwrap();
    let picture = frame(&stage, Size { width: 80, height: 24 }).plain();
    assert_eq!(picture.matches("… and 89 more nodes").count(), 2, "{picture}");
}

#[test]
fn a_stopped_story_shows_its_card_at_once() {
    let mut stage = stage_at(70);
    stage.stop();
    let picture = frame(&stage, Size { width: 80, height: 24 }).plain();
    assert!(picture.contains("after 1:10") && picture.contains("tas demo --seed 2"), "{picture}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_size_brings_a_frame_down_or_out_of_bounds(width in 0_u16..300, height in 0_u16..100, second in 0_u32..185) {
        let picture = frame(&stage_at(second), Size { width, height });
        let text = picture.plain();
        prop_assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)));
        prop_assert!(text.lines().count() <= usize::from(height));
        let ansi = picture.ansi(Colour::Off, "\r\n").replace("\x1b[K", "");
        prop_assert!(ansi.split("\r\n").all(|line| line.chars().count() <= usize::from(width)));
        prop_assert!(ansi.split("\r\n").count() <= usize::from(height).max(1));
    }
}
