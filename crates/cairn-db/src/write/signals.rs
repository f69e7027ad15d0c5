//! Signals to writers: flags that a write checks with one load each, so that the common case is cheap.
//!
//! Most are set by other threads (jobs, changes of options, callers of `lock_wal`); a leader requests attention when a log
//! or a memtable reaches a limit. Only a leader clears the request, before it checks anything, so that no request is lost.

use cairn_options::FamilyOptions;
use cairn_platform::sync::{AtomicBool, AtomicU64, Ordering};
use cairn_types::{KeyOrder, PrefixExtractor};

#[cfg(not(loom))]
use cairn_platform::sync::AtomicBool as Flag;

#[cfg(loom)]
use super::loomed::AtomicBool as Flag;

/// The request that the next leader checks memtables, log and budget before it writes.
#[derive(Default)]
struct Attention(Flag);

// Both changes are exchanges, so that the later one sees the earlier one and everything before it.
impl Attention {
    fn request(&self) {
        self.0.swap(true, Ordering::AcqRel);
    }

    #[inline]
    fn is_requested(&self) -> bool {
        // Acquire pairs with the request.
        self.0.load(Ordering::Acquire)
    }

    fn clear(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

/// The signals to the writers of a database.
#[derive(Default)]
pub(crate) struct Signals {
    attention: Attention,
    /// Writes of some family are delayed, stopped or paced.
    stalls: AtomicBool,
    /// Compactions are behind, or nearly.
    compactions_behind: AtomicBool,
    /// The size of the logs at which memtables are switched so that old logs can be deleted; 0 for no limit.
    wal_limit: AtomicU64,
    /// Something was written without a log since all memtables were last flushed.
    unlogged: AtomicBool,
    /// Some family may have `max_successive_merges`.
    may_merge_early: AtomicBool,
    /// The keys of some family have timestamps.
    has_timestamps: AtomicBool,
    /// Some family may have callbacks of the program that insertions into memtables call.
    insertion_calls_out: AtomicBool,
    /// Some family may write blobs directly.
    writes_blobs: AtomicBool,
}

impl Signals {
    /// Records the options of a family before its first write with them. The flags are never cleared: a stale
    /// one costs a check.
    pub(crate) fn note_options(&self, options: &FamilyOptions) {
        // Relaxed: a family and its options are published to writers by later stores.
        let merges = options.max_successive_merges > 0;
        if merges {
            self.may_merge_early.store(true, Ordering::Relaxed);
        }
        let extracts = matches!(options.prefix_extractor, Some(PrefixExtractor::Custom(_)));
        if merges || extracts || matches!(options.comparator, KeyOrder::Custom(_)) {
            self.insertion_calls_out.store(true, Ordering::Relaxed);
        }
        if options.enable_blob_direct_write {
            self.writes_blobs.store(true, Ordering::Relaxed);
        }
        if options.comparator.timestamp_size() > 0 {
            self.has_timestamps.store(true, Ordering::Relaxed);
        }
    }

    /// True if some family may have `max_successive_merges`.
    #[inline]
    pub(crate) fn may_merge_early(&self) -> bool {
        self.may_merge_early.load(Ordering::Relaxed)
    }

    /// True if the keys of some family have timestamps.
    #[inline]
    pub(crate) fn has_timestamps(&self) -> bool {
        self.has_timestamps.load(Ordering::Relaxed)
    }

    /// True if some family may write blobs directly.
    #[inline]
    pub(crate) fn writes_blobs(&self) -> bool {
        self.writes_blobs.load(Ordering::Relaxed)
    }

    /// True if insertions into memtables may call code of the program.
    #[inline]
    pub(crate) fn insertion_calls_out(&self) -> bool {
        self.insertion_calls_out.load(Ordering::Relaxed)
    }

    /// Makes the next leader check memtables, log and budget before it writes.
    pub(crate) fn request_attention(&self) {
        self.attention.request();
    }

    /// True if the leader must check before it writes.
    #[inline]
    pub(crate) fn wants_attention(&self) -> bool {
        self.attention.is_requested()
    }

    /// Clears the request before the leader checks: a later request is for the next leader.
    pub(crate) fn clear_attention(&self) {
        self.attention.clear();
    }

    /// Records whether writes of some family are delayed. The caller has stored which before.
    pub(crate) fn set_stalls(&self, any: bool) {
        self.stalls.store(any, Ordering::Release);
    }

    /// True if writes of some family are delayed.
    #[inline]
    pub(crate) fn has_stalls(&self) -> bool {
        // Acquire pairs with the store above: the state of each family has the details.
        self.stalls.load(Ordering::Acquire)
    }

    /// Records whether compactions are behind.
    pub(crate) fn set_compactions_behind(&self, behind: bool) {
        // Relaxed: low-priority writes may notice it late.
        self.compactions_behind.store(behind, Ordering::Relaxed);
    }

    /// True if compactions are behind.
    pub(crate) fn are_compactions_behind(&self) -> bool {
        self.compactions_behind.load(Ordering::Relaxed)
    }

    /// Sets the size of the logs at which memtables are switched; 0 for no limit.
    pub(crate) fn set_wal_limit(&self, bytes: u64) {
        self.wal_limit.store(bytes, Ordering::Relaxed);
    }

    /// Returns the size of the logs at which memtables are switched; 0 for no limit.
    pub(crate) fn wal_limit(&self) -> u64 {
        self.wal_limit.load(Ordering::Relaxed)
    }

    /// Records a write without a log.
    pub(crate) fn note_unlogged(&self) {
        self.unlogged.store(true, Ordering::Release);
    }

    /// True if something was written without a log.
    pub(crate) fn has_unlogged(&self) -> bool {
        self.unlogged.load(Ordering::Acquire)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// A leader that clears a request sees its reason, or the request is still there for the next leader.
    #[test]
    fn no_request_is_lost() {
        loom::model(|| {
            let shared = Arc::new((Attention::default(), Flag::new(false)));
            shared.0.request();
            let other = {
                let shared = shared.clone();
                thread::spawn(move || {
                    shared.1.store(true, Ordering::Relaxed);
                    shared.0.request();
                })
            };
            shared.0.clear();
            let sees_reason = shared.1.load(Ordering::Relaxed);
            other.join().unwrap();
            assert!(sees_reason || shared.0.is_requested());
        });
    }
}
