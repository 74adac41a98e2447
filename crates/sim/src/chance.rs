//! Chance without state: every draw is named by what it is for, so the two sides of a trial see the same
//! luck whatever else they do, and no order of calls can change it.

/// What a draw is for; draws for different purposes have nothing to do with each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Idle,
    Rank,
    Arrival,
    Draw,
    Memory,
    Request,
    Lifetime,
    Trouble,
    Noise,
    Tie,
}

/// The one seed that everything follows from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// The draw of that purpose and number.
    pub(crate) fn draw(self, purpose: Purpose, a: u64, b: u64) -> u64 {
        [purpose as u64, a, b].into_iter().fold(mixed(self.0), |state, part| mixed(state ^ mixed(part)))
    }

    /// A draw from `low` to `high`, both included.
    pub(crate) fn between(self, purpose: Purpose, a: u64, b: u64, (low, high): (u32, u32)) -> u32 {
        let width = u64::from(high.saturating_sub(low)) + 1;
        low + u32::try_from(self.draw(purpose, a, b) % width).expect("less than the width")
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): one step and its finaliser.
fn mixed(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Chance, Purpose, mixed};

    #[test]
    fn the_mixer_is_splitmix64() {
        // The first two outputs of the reference generator for seed 0.
        assert_eq!([mixed(0), mixed(0x9e37_79b9_7f4a_7c15)], [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4]);
    }

    #[test]
    fn draws_fill_their_range_and_stay_in_it() {
        let drawn: Vec<u32> = (0..1000).map(|i| Chance(7).between(Purpose::Idle, i, 0, (3, 12))).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&12)));
    }

    #[test]
    fn one_purpose_tells_nothing_about_another() {
        let same = (0..1000).filter(|&i| {
            Chance(7).draw(Purpose::Idle, i, 0) % 10 == Chance(7).draw(Purpose::Draw, i, 0) % 10
        });
        assert!((50..200).contains(&same.count()));
    }
}
