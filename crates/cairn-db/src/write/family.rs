//! The state that the write path keeps for each column family: when its memtable is looked at, and how its writes are
//! held back.
//!
//! The state of a family ([`crate::catalog::family::FamilyState`]) has one of these, so that a writer finds it without a search. The catalog makes it and reports new options;
//! all else is the write path's: leaders set the size of the next look, stall conditions set throttle and flag.
//!
//! Cost of an insertion: one relaxed load and a comparison ([`FamilyWrites::wants_attention`]).

use cairn_options::FamilyOptions;
use cairn_platform::sync::{AtomicBool, AtomicUsize, Ordering};

use super::early_switch::EarlySwitch;
use super::pace::Pace;
use super::stall::Throttle;

/// The state of the writes of one family.
pub(crate) struct FamilyWrites {
    /// The size of the memtable, in bytes, at which the next leader must look at it.
    attention_at: AtomicUsize,
    /// Writes have to be delayed or stopped.
    stalled: AtomicBool,
    /// The rate of delayed writes.
    pub(crate) throttle: Throttle,
    /// The pace of writes while the memtable is nearly full and the one before it is being flushed.
    pub(crate) pace: Pace,
    /// The rule by which the memtable is switched before it is full.
    pub(crate) early: EarlySwitch,
}

impl FamilyWrites {
    /// The state for an empty memtable of a family with `options`.
    pub(crate) fn new(options: &FamilyOptions) -> FamilyWrites {
        let writes = FamilyWrites {
            attention_at: AtomicUsize::new(0),
            stalled: AtomicBool::new(false),
            throttle: Throttle::new(0),
            pace: Pace::default(),
            early: EarlySwitch::default(),
        };
        writes.begin_memtable(options);
        writes
    }

    /// Sets the size of the first look at a memtable that begins now, or whose options have changed.
    pub(crate) fn begin_memtable(&self, options: &FamilyOptions) {
        let first = self.early.memtable_began(options);
        self.set_attention(first.unwrap_or_else(|| nearly_full(options)));
    }

    /// Sets the size at which a leader looks at the memtable next.
    pub(crate) fn set_attention(&self, bytes: usize) {
        self.attention_at.store(bytes, Ordering::Relaxed);
    }

    /// True if a leader must look at the memtable, which takes `used` bytes.
    #[inline]
    pub(crate) fn wants_attention(&self, used: usize) -> bool {
        // Relaxed: a leader that reads an old limit looks one write later.
        used >= self.attention_at.load(Ordering::Relaxed)
    }

    /// Writes have to be delayed or stopped, or need not be any more.
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

/// The size at which the log of a memtable of `options` is first synced in the background.
pub(super) fn nearly_full(options: &FamilyOptions) -> usize {
    options.write_buffer_size / 8 * 7
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_leader_looks_at_a_memtable_that_is_nearly_full_and_at_a_large_one_earlier() {
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
    fn writes_are_held_back_by_a_stall_and_by_a_slow_pace() {
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
