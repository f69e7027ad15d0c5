//! The write path's state of a column family: the size at which its memtable is checked next, and the delays
//! of its writes.
//!
//! It is part of [`crate::catalog::family::FamilyState`], so that a writer finds it without a search. The
//! catalog creates it and passes on new options. The write path does everything else: leaders set the size of
//! the next check, and stall conditions set the throttle and the flag.
//!
//! Cost of an insertion: one relaxed load and a comparison ([`FamilyWrites::wants_attention`]).

use cairn_options::FamilyOptions;
use cairn_platform::sync::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use cairn_types::FileNumber;

use super::early_switch::EarlySwitch;
use super::pace::Pace;
use super::stall::Throttle;

/// The state of the writes of one family.
pub(crate) struct FamilyWrites {
    /// The size of the memtable, in bytes, at which the next leader must check it.
    attention_at: AtomicUsize,
    /// True if writes have to be delayed or stopped.
    stalled: AtomicBool,
    /// The rate of delayed writes.
    pub(crate) throttle: Throttle,
    /// The pace of writes while the memtable is nearly full and the previous one is being flushed.
    pub(crate) pace: Pace,
    /// The rule for switching the memtable before it is full.
    pub(crate) early: EarlySwitch,
    /// The first log with a prepared section that the memtable has entries of; the maximum if there is none.
    held_log: AtomicU64,
}

impl FamilyWrites {
    /// Creates the state for an empty memtable of a family with `options`.
    pub(crate) fn new(options: &FamilyOptions) -> FamilyWrites {
        let writes = FamilyWrites {
            attention_at: AtomicUsize::new(0),
            stalled: AtomicBool::new(false),
            throttle: Throttle::new(0),
            pace: Pace::default(),
            early: EarlySwitch::default(),
            held_log: AtomicU64::new(u64::MAX),
        };
        writes.begin_memtable(options);
        writes
    }

    /// Sets the size of the first check of a memtable that is new, or whose options have changed.
    pub(crate) fn begin_memtable(&self, options: &FamilyOptions) {
        let first = self.early.memtable_began(options);
        self.set_attention(first.unwrap_or_else(|| nearly_full(options)));
    }

    /// Sets the size at which a leader checks the memtable next.
    pub(crate) fn set_attention(&self, bytes: usize) {
        self.attention_at.store(bytes, Ordering::Relaxed);
    }

    /// True if a leader must check the memtable, which takes `used` bytes.
    #[inline]
    pub(crate) fn wants_attention(&self, used: usize) -> bool {
        // Relaxed: a leader that reads a stale limit checks one write later.
        used >= self.attention_at.load(Ordering::Relaxed)
    }

    /// Keeps `log`, which has a prepared section, until the memtable is flushed.
    pub(crate) fn hold_log(&self, log: FileNumber) {
        // Relaxed: the section is unregistered later, under a lock, and a reader looks for registered sections first.
        self.held_log.fetch_min(log.0, Ordering::Relaxed);
    }

    /// Returns the first log that is kept for the memtable.
    pub(crate) fn held_log(&self) -> Option<FileNumber> {
        let log = self.held_log.load(Ordering::Relaxed);
        (log != u64::MAX).then_some(FileNumber(log))
    }

    /// Takes the first log that is kept for the memtable, which is replaced. No insertion is in progress.
    pub(crate) fn take_held_log(&self) -> Option<FileNumber> {
        let log = self.held_log();
        self.held_log.store(u64::MAX, Ordering::Relaxed);
        log
    }

    /// Sets whether writes have to be delayed or stopped.
    pub(crate) fn set_stalled(&self, stalled: bool) {
        self.stalled.store(stalled, Ordering::Release);
    }

    /// True if writes have to be delayed or stopped.
    pub(crate) fn is_stalled(&self) -> bool {
        // Acquire pairs with the store above.
        self.stalled.load(Ordering::Acquire)
    }

    /// True if writes have to be delayed, stopped or paced.
    pub(crate) fn is_held_back(&self) -> bool {
        self.is_stalled() || self.pace.is_on()
    }
}

/// Returns the size at which the log of a memtable with `options` is first synced in the background.
pub(super) fn nearly_full(options: &FamilyOptions) -> usize {
    options.write_buffer_size / 8 * 7
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_leader_checks_a_memtable_that_is_nearly_full_and_a_large_one_earlier() {
        let options = |bytes| FamilyOptions {
            write_buffer_size: bytes,
            ..FamilyOptions::default()
        };
        let writes = FamilyWrites::new(&options(8 << 20));
        assert!(!writes.wants_attention((7 << 20) - 1) && writes.wants_attention(7 << 20));
        writes.begin_memtable(&options(64 << 20));
        assert!(!writes.wants_attention((16 << 20) - 1) && writes.wants_attention(16 << 20));
        writes.set_attention(32 << 20);
        assert!(!writes.wants_attention(16 << 20));
    }

    #[test]
    fn writes_are_delayed_by_a_stall_and_by_a_slow_pace() {
        let writes = FamilyWrites::new(&FamilyOptions::default());
        assert!(!writes.is_held_back());
        writes.set_stalled(true);
        assert!(writes.is_stalled() && writes.is_held_back());
        writes.set_stalled(false);
        writes.pace.begin(1);
        assert!(!writes.is_stalled() && writes.is_held_back());
        writes.pace.end(2);
        assert!(!writes.is_held_back());
    }
}
