//! Scores: estimates of how often an entry is read, which halve with time.
//!
//! A read adds one to the score of an entry, and the score halves once in a half-life. Time is counted in
//! ticks of the policy's clock, 16 of which are a half-life. Scores are kept in sixteenths.

/// A number of reads, in sixteenths.
pub(super) type Score = u16;

/// The score of one read.
pub(super) const READ: Score = 16;
/// The highest score.
pub(super) const MOST: Score = 255 * READ;
/// Ticks of the clock in which a score halves.
pub(super) const TICKS_PER_HALF_LIFE: u16 = 16;
/// Number of groups of scores, by power of two.
pub(super) const BANDS: usize = 9;

/// 2^(-i/16), in units of 2^-16.
const DECAY: [u32; 16] = [
    65536, 62757, 60097, 57549, 55109, 52772, 50535, 48393, 46341, 44376, 42495, 40693, 38968,
    37316, 35734, 34219,
];

/// Returns the rest of `score` after a number of ticks.
pub(super) fn decayed(score: Score, ticks: u16) -> Score {
    let halvings = u32::from(ticks / TICKS_PER_HALF_LIFE);
    let part = DECAY[usize::from(ticks % TICKS_PER_HALF_LIFE)];
    let rest = (u32::from(score) * part) >> 16;
    // A score does not grow.
    rest.checked_shr(halvings).unwrap_or(0) as Score
}

/// The score that decays to `score` within `ticks`, which are less than a half-life.
pub(super) fn grown(score: Score, ticks: u16) -> Score {
    let part = DECAY[usize::from(ticks % TICKS_PER_HALF_LIFE)];
    // At most twice the score, and bounded.
    ((u32::from(score) << 16) / part).min(u32::from(MOST)) as Score
}

/// The score after a number of further reads.
pub(super) fn with_reads(score: Score, reads: u8) -> Score {
    (score + Score::from(reads) * READ).min(MOST)
}

/// The group of a score: 0 below one read, 1 below two, 2 below four, and so on.
pub(super) fn band(score: Score) -> usize {
    let reads = score / READ;
    let band = reads.checked_ilog2().map_or(0, |log| log as usize + 1);
    band.min(BANDS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_halve_in_a_half_life() {
        assert_eq!(decayed(160, 0), 160);
        assert_eq!(decayed(160, 16), 80);
        assert_eq!(decayed(160, 33), 38);
        assert_eq!(decayed(MOST, u16::MAX), 0);
        for ticks in 0..TICKS_PER_HALF_LIFE {
            let back = decayed(grown(1000, ticks), ticks);
            assert!((998..=1000).contains(&back), "{back}");
        }
    }

    #[test]
    fn bands_are_powers_of_two() {
        let bands = [0, 1, 2, 3, 4, 7, 8, 255].map(|reads| band(reads * READ));
        assert_eq!(bands, [0, 1, 2, 2, 3, 3, 4, 8]);
        assert_eq!(with_reads(MOST - 1, 200), MOST);
    }
}
