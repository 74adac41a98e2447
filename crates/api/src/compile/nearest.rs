//! "Did you mean …?"

/// The known word that was probably meant, if any is near enough.
pub(crate) fn nearest<'k>(written: &str, known: &[&'k str]) -> Option<&'k str> {
    let folded = fold(written);
    // Long texts are no typing mistakes, and comparing them takes time.
    if folded.len() > 40 {
        return None;
    }
    known
        .iter()
        .map(|&word| (distance(&folded, &fold(word)), word))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, word)| *distance * 3 <= word.len())
        .map(|(_, word)| word)
}

/// Without letter case and separators, which people remember least.
fn fold(text: &str) -> Vec<char> {
    text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// How many letters to add, drop or change to get from one to the other.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let change = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;
    use crate::compile::STRATEGIES;

    #[test]
    fn slips_find_their_word_and_other_words_do_not() {
        for (written, meant) in [
            ("dontSchedule", Some("dontschedule")),
            ("dont-schedule", Some("dontschedule")),
            ("labelling", Some("labeling")),
            ("labels", None),
            ("scheduleOnMetrics", Some("scheduleonmetric")),
            ("deshedule", Some("deschedule")),
            ("prioritize", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, &STRATEGIES), meant, "{written}");
        }
        assert_eq!(nearest(&"x".repeat(10_000), &STRATEGIES), None);
    }
}
