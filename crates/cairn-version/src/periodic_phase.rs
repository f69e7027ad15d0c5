//! The times of periodic compactions, spread over their interval (`periodic_compaction_phase_recovery_percent`).
//!
//! Each column family of each database has a *phase*: a point of the interval, derived from the identity of the
//! database and the number of the family, at which its files are preferably rewritten. A file is due at its
//! deadline, one interval after it was written, or earlier: a percentage of the distance from the deadline back
//! to the phase is skipped. A rewritten file has a new deadline, which is closer to the phase, so that databases
//! whose files were written at the same time diverge within a few intervals.
//!
//! Files whose time has come when the phases take effect (the anchor: an open, or a change of the options) are
//! not compacted all at once, but spread over the time up to their deadline, or if that has passed, over a
//! quarter of the interval.
//!
//! The times are those of RocksDB 11.12, so that both engines keep the phases of a database.

use cairn_format::hash::{fastrange64, hash64};

/// The golden ratio's fractional part, in units of 2^-64. Its multiples are evenly spread over the interval for
/// any number of families.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The phase of a column family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeriodicPhase {
    /// The position in the interval, in units of 2^-64.
    position: u64,
    /// The time at which the phase took effect, in seconds since 1970.
    anchor: u64,
    /// The percentage of the distance to the phase that a compaction skips, at most 100; 0 for no phase.
    percent: u64,
}

impl PeriodicPhase {
    /// Returns the phase of the family with the number `family` in the database with the identity `db_id`, in
    /// effect since `anchor`. Without one if `percent` is 0 or less; more than 100 is 100.
    #[must_use]
    pub fn new(db_id: &str, family: u32, anchor: u64, percent: i32) -> PeriodicPhase {
        let percent = u64::try_from(percent).unwrap_or(0).min(100);
        if percent == 0 {
            return PeriodicPhase::default();
        }
        let steps = GOLDEN.wrapping_mul(u64::from(family));
        PeriodicPhase {
            position: hash64(db_id.as_bytes()).wrapping_add(steps),
            anchor,
            percent,
        }
    }

    /// Returns the time at which a file written at the time `written` is due if files are rewritten every
    /// `interval` seconds.
    #[must_use]
    pub fn due(&self, written: u64, interval: u64) -> u64 {
        let deadline = written.saturating_add(interval);
        if self.percent == 0 || interval == 0 {
            return deadline;
        }
        if deadline <= self.anchor {
            return self.next_of_grid(interval / 4);
        }
        let preferred = fastrange64(self.position, interval);
        let past_phase = (written % interval + interval - preferred) % interval;
        let skipped = u128::from(past_phase) * u128::from(self.percent) / 100;
        // At most the distance, which is less than the interval.
        let due = deadline - skipped as u64;
        match due >= self.anchor {
            true => due,
            false => self.anchor + fastrange64(self.position, deadline - self.anchor),
        }
    }

    /// Returns the first time at or after the anchor whose position in a grid of `step` seconds is that of the
    /// phase. The grid does not depend on the anchor: a database that is opened often would otherwise never
    /// reach it.
    fn next_of_grid(&self, step: u64) -> u64 {
        if step == 0 {
            return self.anchor;
        }
        let position = fastrange64(self.position, step);
        self.anchor + (position + step - self.anchor % step) % step
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: u64 = 86_400;

    fn at(position: f64, anchor: u64, percent: u64) -> PeriodicPhase {
        PeriodicPhase {
            position: (position * 2_f64.powi(64)) as u64,
            anchor,
            percent,
        }
    }

    #[test]
    fn without_a_phase_a_file_is_due_at_its_deadline() {
        for percent in [0, -1] {
            let phase = PeriodicPhase::new("id", 3, 1_000_000, percent);
            assert_eq!(phase, PeriodicPhase::default());
            assert_eq!(phase.due(500, 100), 600);
        }
        assert_eq!(PeriodicPhase::new("id", 0, 5, 33).due(500, 0), 500);
        assert_eq!(
            PeriodicPhase::new("id", 0, 5, 1000),
            PeriodicPhase::new("id", 0, 5, 100)
        );
    }

    #[test]
    fn a_part_of_the_distance_to_the_phase_is_skipped() {
        // Files are preferably rewritten at 250 of 1000 seconds; this one was written at 650.
        assert_eq!(at(0.25, 0, 100).due(10_650, 1000), 11_250);
        assert_eq!(at(0.25, 0, 50).due(10_650, 1000), 11_450);
        assert_eq!(at(0.25, 0, 33).due(10_650, 1000), 11_518);
        assert_eq!(at(0.25, 0, 33).due(10_250, 1000), 11_250);
        // The phase is never reached by compacting later.
        assert_eq!(at(0.25, 0, 100).due(10_200, 1000), 10_250);
    }

    /// The times that RocksDB 11.12 computes.
    #[test]
    fn the_times_are_those_of_rocksdb() {
        let id = "6bb45a2e-31aa-4cf5-8d08-22a7df5c2b1e";
        for (family, anchor, percent, written, interval, due) in [
            (0, 0, 33, 1_700_000_000, 2_592_000, 1_701_791_882),
            (1, 0, 33, 1_700_000_000, 2_592_000, 1_702_320_523),
            (7, 0, 100, 1_700_000_000, 2_592_000, 1_701_013_006),
            (
                0,
                1_702_000_000,
                33,
                1_700_000_000,
                2_592_000,
                1_702_549_837,
            ),
            (
                2,
                1_702_591_999,
                33,
                1_700_000_000,
                2_592_000,
                1_702_591_999,
            ),
            (
                3,
                1_702_592_000,
                33,
                1_700_000_000,
                2_592_000,
                1_702_803_307,
            ),
            (
                3,
                1_800_000_000,
                33,
                1_700_000_000,
                2_592_000,
                1_800_003_307,
            ),
            (4, 1_800_000_000, 50, 1_799_999_000, 1000, 1_800_000_100),
            (5, 1_800_000_000, 50, 1_799_990_000, 3, 1_800_000_000),
            (6, 0, 250, 1_799_990_000, 86_400, 1_800_026_235),
        ] {
            let phase = PeriodicPhase::new(id, family, anchor, percent);
            assert_eq!(phase.due(written, interval), due, "{phase:?}");
        }
    }

    #[test]
    fn files_that_are_due_at_the_anchor_are_spread() {
        // Overdue: at the next position of a grid of 250 seconds.
        assert_eq!(at(0.5, 20_000, 33).due(5_000, 1000), 20_125);
        assert_eq!(at(0.5, 20_125, 33).due(5_000, 1000), 20_125);
        assert_eq!(at(0.5, 20_126, 33).due(5_000, 1000), 20_375);
        assert_eq!(at(0.5, 20_000, 33).due(5_000, 3), 20_000);
        // Due, but not overdue: up to the deadline.
        assert_eq!(at(0.5, 10_900, 100).due(10_300, 1000), 11_100);
    }

    #[test]
    fn families_and_databases_have_different_phases() {
        let of = |id: &str, family| PeriodicPhase::new(id, family, 0, 33);
        let mut positions: Vec<u64> = (0..100).map(|family| of("id", family).position).collect();
        assert_ne!(of("id", 0), of("other", 0));
        positions.sort_unstable();
        let gaps = positions.windows(2).map(|pair| pair[1] - pair[0]);
        // An even spread has gaps of 1/100.
        assert!(gaps.max().unwrap() < u64::MAX / 100 * 3);
    }

    proptest! {
        /// A file is due between the anchor and its deadline, or at most a quarter of the interval after the anchor.
        #[test]
        fn files_are_not_due_later_than_promised(
            position in any::<u64>(),
            anchor in 0..4 * DAY,
            written in 1..4 * DAY,
            interval in 1..2 * DAY,
            percent in 1..=100_u64,
        ) {
            let phase = PeriodicPhase { position, anchor, percent };
            let due = phase.due(written, interval);
            match written + interval {
                deadline if deadline <= anchor => {
                    prop_assert!(due >= anchor && due <= anchor + interval / 4);
                }
                deadline => {
                    prop_assert!(due >= anchor.min(deadline) && due <= deadline);
                    prop_assert!(due > written || due >= anchor);
                }
            }
        }

        /// Rewritten files approach the phase.
        #[test]
        fn intervals_converge_to_the_phase(position in any::<u64>(), written in 1..DAY) {
            let phase = PeriodicPhase { position, anchor: 0, percent: 33 };
            let preferred = fastrange64(position, DAY);
            let mut now = written;
            for _ in 0..40 {
                now = phase.due(now, DAY);
            }
            // A distance of three seconds rounds to nothing.
            prop_assert!((now + DAY - preferred) % DAY <= 3);
        }
    }
}
