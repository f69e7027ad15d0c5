//! Switching a memtable before it is full, if keys are written in order and nearly as fast as flushes write
//! them.
//!
//! While a memtable is flushed the next one grows, and just before the flush ends both are in memory. If
//! filling a memtable takes little longer than flushing it, that is nearly twice `write_buffer_size`. Loads
//! in key order are that fast, and their tables are never merged: compactions move them unchanged, whatever
//! their size. Such memtables are therefore switched early enough that two of them take [`AIM`] of
//! `write_buffer_size` together. The size at the switch depends on the fill rate of the memtable and on the
//! speed of the last flush; it is at least half of the full size.
//!
//! All other memtables are switched when they are full: smaller tables would have to be merged more often.
//! This includes memtables of families that use another compaction style or have automatic compactions
//! disabled, that merge memtables or have room for only one, and memtables smaller than [`LEAST_FULL`] or
//! sorted at read time. It also includes all memtables if families are flushed together, or if a switch of
//! logs has to wait for a sync of the old one.
//!
//! Invariants: only the write-group leader checks; no memtable is switched early while another one of the
//! family is waiting for its flush. Cost: about ten checks by leaders while a memtable is filled.

use cairn_memtable::Memtable;
use cairn_options::{CompactionStyle, FamilyOptions, MemtableFactory};
use cairn_platform::sync::{Arc, AtomicU64, Mutex, Ordering};
use cairn_version::Version;

/// The maximum memory of two memtables together, in eighths of `write_buffer_size`.
const AIM: usize = 10;

/// The smallest `write_buffer_size` with early switches: smaller ones would save too little memory for the
/// additional tables.
const LEAST_FULL: usize = 16 << 20;

/// The assumed speed of flushes before the first one, in bytes of memtables per second.
const FIRST_SPEED: u64 = 350_000_000;

/// The state that determines the early switch of a family's memtable.
pub(crate) struct EarlySwitch {
    /// The first check of the memtable: its time, in nanoseconds of the monotonic clock, and the size of the
    /// memtable.
    mark: Mutex<Option<(u64, usize)>>,
    /// The speed of the last flush, in bytes of memtables per second.
    speed: AtomicU64,
}

/// The result of a check of a memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The memtable is to be switched now.
    Switch,
    /// The size of the memtable at the next check.
    CheckAt(usize),
}

impl Default for EarlySwitch {
    fn default() -> EarlySwitch {
        EarlySwitch {
            mark: Mutex::default(),
            speed: AtomicU64::new(FIRST_SPEED),
        }
    }
}

/// True if memtables of a family with `options` may be switched early.
fn applies(options: &FamilyOptions) -> bool {
    options.write_buffer_size >= LEAST_FULL
        && options.compaction_style == CompactionStyle::Level
        && options.memtable_factory != MemtableFactory::Vector
        && options.max_write_buffer_number > 1
        && options.memtables_to_merge() == 1
        && !options.disable_auto_compactions
}

/// The growth of a memtable until the next check, given the size `full` at which it is switched.
pub(crate) fn step(full: usize) -> usize {
    full / 16
}

/// True if no table in `version` would have to be merged with the table of `memtable`.
pub(crate) fn overlaps_nothing(memtable: &Arc<Memtable>, version: &Version) -> bool {
    let (mut first, mut last) = (memtable.iter(), memtable.iter());
    first.seek_to_first();
    last.seek_to_last();
    let overlaps = |level| version.overlaps(level, Some(first.key()), Some(last.key()));
    first.valid() && !memtable.has_range_tombstones() && !(0..version.num_levels()).any(overlaps)
}

impl EarlySwitch {
    /// Records a new active memtable. Returns the size at the first check, if it may be switched early.
    pub(crate) fn memtable_began(&self, options: &FamilyOptions) -> Option<usize> {
        *self.mark.lock() = None;
        applies(options).then_some(options.write_buffer_size / 4)
    }

    /// Records a flush of `bytes` of memtables in `nanos`.
    pub(crate) fn flushed(&self, bytes: usize, nanos: u64) {
        let speed = bytes as f64 / nanos.max(1) as f64 * 1e9;
        // Relaxed: no other access depends on it.
        self.speed.store(speed as u64, Ordering::Relaxed);
    }

    /// Checks the memtable, which takes `used` bytes at `now`. `None` if it is not switched early.
    pub(crate) fn decide(
        &self,
        options: &FamilyOptions,
        used: usize,
        now: u64,
    ) -> Option<Decision> {
        if !applies(options) {
            return None;
        }
        let full = options.write_buffer_size;
        let least = full / 2;
        let (since, was) = *self.mark.lock().get_or_insert((now, used));
        if used < least {
            return Some(Decision::CheckAt(least));
        }
        let filled = used.saturating_sub(was) as f64;
        let seconds = now.saturating_sub(since) as f64 / 1e9;
        let flushed = self.speed.load(Ordering::Relaxed) as f64 * seconds;
        // While a memtable of one byte is flushed, `filled / flushed` bytes are written.
        let end = match filled > 0.0 {
            true => (full / 8 * AIM) as f64 * flushed / (flushed + filled),
            false => full as f64,
        };
        let end = (end as usize).clamp(least, full);
        Some(match used >= end {
            true => Decision::Switch,
            false => Decision::CheckAt(end.min(used + step(full))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1 << 20;

    fn options() -> FamilyOptions {
        FamilyOptions {
            write_buffer_size: 64 * MB,
            ..FamilyOptions::default()
        }
    }

    /// Returns the size at the switch of a memtable filled at `fill` megabytes per second, after a flush at
    /// `flush` per second.
    fn end(fill: u64, flush: u64) -> usize {
        let early = EarlySwitch::default();
        early.flushed(flush as usize * MB, 1_000_000_000);
        let options = options();
        let mut next = early
            .memtable_began(&options)
            .expect("it may be switched early");
        let mut looks = 0;
        loop {
            looks += 1;
            assert!(looks <= 12, "{fill} {flush}");
            // A writer adds a megabyte at a time.
            let used = next.div_ceil(MB) * MB;
            let now = 5 + used as u64 * 1_000_000_000 / (fill * MB as u64);
            match early.decide(&options, used, now) {
                Some(Decision::Switch) => return used / MB,
                Some(Decision::CheckAt(at)) => next = at,
                None => unreachable!("it may be switched early"),
            }
            assert!(next > used || used >= 64 * MB);
        }
    }

    #[test]
    fn slower_flushes_cause_earlier_switches() {
        // 80 MB together: 64 and a quarter of it, 53 and half of it, 40 and as much again.
        assert_eq!(end(100, 400), 64);
        assert_eq!(end(200, 400), 54);
        assert_eq!(end(400, 400), 40);
        // At least half of it, and no more than the full size.
        assert_eq!(end(4_000, 400), 32);
        assert_eq!(end(1, 400), 64);
    }

    #[test]
    fn each_memtable_is_measured_separately() {
        let early = EarlySwitch::default();
        let options = options();
        for start in [0, 1_000_000_000_000] {
            assert_eq!(early.memtable_began(&options), Some(16 * MB));
            let look = |used: usize, nanos| early.decide(&options, used * MB, start + nanos);
            assert_eq!(look(16, 0), Some(Decision::CheckAt(32 * MB)));
            // 16 MB in no time at all.
            assert_eq!(look(32, 0), Some(Decision::Switch));
            // In the time of a flush of 56 MB.
            let nanos = 56 * MB as u64 * 1_000_000_000 / FIRST_SPEED;
            assert_eq!(look(32, nanos), Some(Decision::CheckAt(36 * MB)));
        }
    }

    #[test]
    fn families_that_would_not_benefit_are_excluded() {
        let alone: [fn(&mut FamilyOptions); 6] = [
            |options| options.write_buffer_size = 8 * MB,
            |options| options.compaction_style = CompactionStyle::Universal,
            |options| options.memtable_factory = MemtableFactory::Vector,
            |options| options.max_write_buffer_number = 1,
            |options| {
                options.max_write_buffer_number = 4;
                options.min_write_buffer_number_to_merge = 2;
            },
            |options| options.disable_auto_compactions = true,
        ];
        for change in alone {
            let mut options = options();
            change(&mut options);
            let early = EarlySwitch::default();
            assert_eq!(early.memtable_began(&options), None);
            assert_eq!(early.decide(&options, 63 * MB, 1), None);
        }
    }
}
