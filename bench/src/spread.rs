//! What rounds of the same measurement gave: the middle, and how far they lie apart.

use std::fmt;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Some(Self { median: f64::midpoint(low, high), least, most })
    }
}

/// With as many decimals as are asked for.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, least, most } = self;
        let decimals = f.precision().unwrap_or(2);
        f.pad_integral(true, "", &format!("{median:.decimals$} ({least:.decimals$} to {most:.decimals$})"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middle_ones() {
        let spread = |median, least, most| Some(Spread { median, least, most });
        assert_eq!(Spread::of([3.0, 1.0, 8.0]), spread(3.0, 1.0, 8.0));
        assert_eq!(Spread::of([3.0, 1.0, 8.0, 4.0]), spread(3.5, 1.0, 8.0));
        assert_eq!(Spread::of([7.0]), spread(7.0, 7.0, 7.0));
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn it_is_written_with_the_decimals_and_the_width_asked_for() {
        let spread = Spread { median: 1.25, least: 1.0, most: 2.0 };
        assert_eq!(format!("{spread:.1}"), "1.2 (1.0 to 2.0)");
        assert_eq!(format!("{spread:>22}"), "   1.25 (1.00 to 2.00)");
    }
}
