//! Ghosts, the records of evicted entries: a table of four-byte records, addressed by hash.
//!
//! ```text
//! bits   12            9                 5         6
//!        fingerprint   window stamp      time      score
//! ```
//!
//! The table has sets of eight records, youngest first; a full set forgets the oldest. A lookup compares
//! fingerprints only, so that about one of 500 lookups finds the record of another entry.

use super::score::{self, Score};

/// The number of records per set.
const WAYS: usize = 8;
/// The minimum number of sets of a table in use.
const MIN_SETS: usize = 8;
/// Records per entry of the cache at which the table doubles.
const RECORDS_PER_ENTRY: usize = 2;

const SCORE_BITS: u32 = 6;
const TIME_BITS: u32 = 5;
const STAMP_BITS: u32 = 9;
const TIME_SHIFT: u32 = SCORE_BITS;
const STAMP_SHIFT: u32 = TIME_SHIFT + TIME_BITS;
const FINGERPRINT_SHIFT: u32 = STAMP_SHIFT + STAMP_BITS;

/// The stamp of an entry that was not evicted from the window.
const NO_STAMP: u32 = (1 << STAMP_BITS) - 1;
/// Exclusive upper bound of stamps.
pub(super) const STAMPS: u32 = NO_STAMP;

/// Bits of the mantissa of a stored score.
const MANTISSA_BITS: u32 = 3;
/// Bits of a score that are not stored.
const UNIT_SHIFT: u32 = 1;
/// Ticks of a unit of stored times.
const TIME_UNIT: u16 = score::TICKS_PER_HALF_LIFE / 2;

/// The record of an eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ghost {
    /// The score at the time of the lookup.
    pub(super) score: Score,
    /// The stamp given at the eviction, if it was from the window.
    pub(super) stamp: Option<u32>,
}

/// The table of evicted entries.
#[derive(Default)]
pub(super) struct Ghosts {
    /// Records, zero if unused. Empty until the first eviction.
    records: Vec<u32>,
}

impl Ghosts {
    /// Records an eviction at time `now` from a cache with `entries` entries.
    pub(super) fn insert(
        &mut self,
        hash: u64,
        score: Score,
        stamp: Option<u32>,
        now: u16,
        entries: usize,
    ) {
        if self.records.len() < RECORDS_PER_ENTRY * entries.max(MIN_SETS * WAYS / 2) {
            self.grow();
        }
        let time = now / TIME_UNIT;
        // The score is adjusted to the start of its time unit, so that decay is not rounded.
        let score = score::grown(score, now % TIME_UNIT);
        let record = (fingerprint(hash) << FINGERPRINT_SHIFT)
            | (stamp.unwrap_or(NO_STAMP) << STAMP_SHIFT)
            | (low_bits(time) << TIME_SHIFT)
            | encode(score);
        let set = self.set(hash);
        let set = &mut self.records[set];
        let unused = |record: &u32| *record == 0 || same(*record, hash);
        let slot = set.iter().position(unused).unwrap_or(WAYS - 1);
        set[..=slot].rotate_right(1);
        set[0] = record;
    }

    /// Removes and returns the record of an entry.
    pub(super) fn take(&mut self, hash: u64, now: u16) -> Option<Ghost> {
        let slot = self.set(hash).find(|at| same(self.records[*at], hash))?;
        let record = std::mem::take(&mut self.records[slot]);
        let elapsed = age(record, now / TIME_UNIT) * TIME_UNIT + now % TIME_UNIT;
        let stamp = (record >> STAMP_SHIFT) & NO_STAMP;
        Some(Ghost {
            score: score::decayed(decode(record & ((1 << SCORE_BITS) - 1)), elapsed),
            stamp: (stamp != NO_STAMP).then_some(stamp),
        })
    }

    /// The number of records that the table has room for.
    pub(super) fn capacity(&self) -> usize {
        self.records.len()
    }

    /// Doubles the table. The records of a set are copied to both sets that replace it, since the rest of
    /// their hashes is unknown; the copy in the wrong set is never found and is eventually replaced.
    fn grow(&mut self) {
        let sets = self.records.len() / WAYS;
        if sets == 0 {
            self.records = vec![0; MIN_SETS * WAYS];
            return;
        }
        self.records.extend_from_within(..);
    }

    fn set(&self, hash: u64) -> std::ops::Range<usize> {
        let sets = self.records.len() / WAYS;
        if sets == 0 {
            return 0..0;
        }
        // Truncation is intended: the lowest bits are used.
        let set = mixed(hash) as usize & (sets - 1);
        set * WAYS..(set + 1) * WAYS
    }
}

/// A hash whose bits do not depend on those that select the shard.
fn mixed(hash: u64) -> u64 {
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// The fingerprint of a hash. It is never zero, and neither is a record.
fn fingerprint(hash: u64) -> u32 {
    let bits = 32 - FINGERPRINT_SHIFT;
    // Truncation is intended: the highest bits are used.
    ((mixed(hash) >> (64 - bits)) as u32).max(1)
}

fn same(record: u32, hash: u64) -> bool {
    record >> FINGERPRINT_SHIFT == fingerprint(hash)
}

/// The lowest bits of a time, as stored.
fn low_bits(time: u16) -> u32 {
    u32::from(time) & ((1 << TIME_BITS) - 1)
}

/// Units of time between a record and `time`, modulo the range of stored times.
fn age(record: u32, time: u16) -> u16 {
    let stored = (record >> TIME_SHIFT) & ((1 << TIME_BITS) - 1);
    // The difference of two numbers of five bits fits.
    (low_bits(time).wrapping_sub(stored) & ((1 << TIME_BITS) - 1)) as u16
}

/// A score as a floating-point number of six bits, rounded down.
fn encode(score: Score) -> u32 {
    let score = u32::from(score) >> UNIT_SHIFT;
    let Some(top) = score.checked_ilog2() else {
        return 0;
    };
    let shift = top.saturating_sub(MANTISSA_BITS);
    let mantissa = score >> shift;
    let code = (shift << MANTISSA_BITS) + mantissa;
    code.min((1 << SCORE_BITS) - 1)
}

fn decode(code: u32) -> Score {
    // Codes below two mantissas are exact; a larger one has an implicit leading bit.
    let shift = (code >> MANTISSA_BITS).saturating_sub(1);
    let mantissa = code - (shift << MANTISSA_BITS);
    // At most 15 << 6 << 1, which fits.
    ((mantissa << shift) << UNIT_SHIFT) as Score
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_rounded_down_by_an_eighth_at_most() {
        for score in 0..=score::MOST {
            let stored = decode(encode(score));
            assert!(stored <= score, "{score} {stored}");
            let most = (15u16 << 6) << UNIT_SHIFT;
            assert!(stored + score / 8 + 2 > score.min(most), "{score} {stored}");
        }
    }

    #[test]
    fn an_eviction_is_remembered_once() {
        let mut ghosts = Ghosts::default();
        assert_eq!(ghosts.take(7, 0), None);
        ghosts.insert(7, 48, Some(5), 16, 10);
        ghosts.insert(8, 160, None, 16, 10);
        let found = ghosts.take(7, 16 + 16).expect("it was inserted");
        assert_eq!((found.score, found.stamp), (24, Some(5)));
        assert_eq!(ghosts.take(7, 32), None);
        let found = ghosts.take(8, 16 + 160).expect("it was inserted");
        assert_eq!((found.score, found.stamp), (0, None));
    }

    #[test]
    fn the_table_grows_with_the_cache_and_keeps_its_records() {
        let mut ghosts = Ghosts::default();
        for hash in 0..1000u64 {
            ghosts.insert(hash, 32, None, 0, 20 + hash as usize);
        }
        assert!((2000..4100).contains(&ghosts.capacity()));
        let found = (0..1000u64).filter(|hash| ghosts.take(*hash, 0).is_some());
        assert!(found.count() > 800);
    }
}
