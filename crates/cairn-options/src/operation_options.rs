//! Options of single operations: reads, writes, flushes, manual compactions.

use cairn_types::{Error, Result, SequenceNumber};

use crate::compaction::Canceled;
use crate::enums::{BlobGarbageCollectionPolicy, BottommostLevelCompaction, IoCharge, ReadTier};
use crate::row::refuse_all;
use crate::rows::{Options, options};
use crate::table_filter::TableFilter;

options! {
    /// Options of a read or an iterator.
    ReadOptions, "ReadOptions" {
        /// The snapshot to read; `None` for the newest state.
        snapshot: Option<SequenceNumber> = None, unwritten;
        /// Entries with newer timestamps are invisible. Only for comparators with timestamps.
        timestamp: Option<Vec<u8>> = None, unwritten;
        /// An iterator returns all versions down to this timestamp.
        iter_start_ts: Option<Vec<u8>> = None, unwritten;
        /// Inclusive lower bound of an iterator.
        iterate_lower_bound: Option<Vec<u8>> = None, unwritten;
        /// Exclusive upper bound of an iterator.
        iterate_upper_bound: Option<Vec<u8>> = None, unwritten;
        /// True if block checksums are verified on read.
        verify_checksums: bool = true;
        /// True if blocks read are inserted into the block cache.
        fill_cache: bool = true;
        /// Readahead of an iterator, in bytes; 0 for automatic readahead.
        readahead_size: u64 = 0;
        /// True if readahead stops at the bounds, and leaves out what the cache holds if it is in the background.
        auto_readahead_size: bool = true;
        /// True if readahead keeps its size from file to file.
        adaptive_readahead: bool = false;
        /// True if an iterator reads ahead in the background, also backward and in blob files, and if a batched
        /// lookup reads the files of a level in parallel instead of one after another.
        async_io: bool = false;
        /// True if a batched lookup with `async_io` reads all levels in parallel.
        optimize_multiget_for_io: bool = true;
        /// True if an iterator ignores prefix filters and returns every key.
        total_order_seek: bool = false;
        /// True if an iterator uses prefix filters where they cannot change its result.
        auto_prefix_mode: bool = false;
        /// True if an iterator ends at the end of the prefix of its seek key.
        prefix_same_as_start: bool = false;
        /// True if an iterator sees writes made after its creation.
        tailing: bool = false;
        /// True if entries returned by an iterator stay pinned in memory for its lifetime.
        pin_data: bool = false, hint;
        /// Number of hidden entries after which an iterator fails with `Incomplete`; 0 for no limit.
        max_skippable_internal_keys: u64 = 0;
        /// The tiers that a read may access.
        read_tier: ReadTier = ReadTier::All;
        /// True if files that an iterator kept alive are deleted in the background.
        background_purge_on_iterator_cleanup: bool = false, hint;
        /// True if an iterator refreshes its view when the tree changes.
        auto_refresh_iterator_with_snapshot: bool = false;
        /// True if range deletions are ignored.
        ignore_range_deletions: bool = false;
        /// Deadline of the read, in microseconds since 1970; 0 for none.
        deadline: u64 = 0;
        /// Timeout of a single file read, in microseconds; 0 for none.
        io_timeout: u64 = 0;
        /// Number of merge operands above which a point read reports `MergeOperandThresholdExceeded`.
        /// `None` for no limit.
        merge_operand_count_threshold: Option<u64> = None, unwritten;
        /// True if an iterator reads values from blob files only in `prepare_value`.
        allow_unprepared_value: bool = false;
        /// Selects the tables whose entries an iterator reads. Range tombstones of the others still apply.
        table_filter: TableFilter = TableFilter::default(), unwritten;
        /// Total size of values at which a batched lookup stops, in bytes.
        value_size_soft_limit: u64 = u64::MAX;
        /// The priority with which reads of files take their bytes from `rate_limiter`, if its mode includes reads. Reads of
        /// futures take none.
        rate_limiter_priority: IoCharge = IoCharge::Uncharged;
    }
}

options! {
    /// Options of a write.
    WriteOptions, "WriteOptions" {
        /// True if the WAL is synced before the write returns.
        sync: bool = false;
        /// True if the write bypasses the WAL: it is lost if the process dies before a flush.
        disable_wal("disableWAL"): bool = false;
        /// True if records of dropped families are skipped instead of failing the write.
        ignore_missing_column_families: bool = false;
        /// True to fail with `Incomplete` instead of waiting while writes are stalled.
        no_slowdown: bool = false;
        /// True if the write waits while compactions are behind.
        low_pri: bool = false;
        /// True if insertions of a batch reuse the position of the previous one.
        memtable_insert_hint_per_batch: bool = false, hint;
        /// The priority with which the bytes of the batch are taken from `rate_limiter` before it is logged: `IO_USER` or
        /// none. It excludes `disable_wal` and `manual_wal_flush`.
        rate_limiter_priority: IoCharge = IoCharge::Uncharged;
        /// Bytes of checksum for each key of the batch, from the call to the memtable: 0 or 8.
        protection_bytes_per_key: u64 = 0;
    }
}

options! {
    /// Options of a manual flush.
    FlushOptions, "FlushOptions" {
        /// True if the call waits for the flush.
        wait: bool = true;
        /// True if the flush may start even if it causes a write stall.
        allow_write_stall: bool = false;
        /// True if the families are flushed together, as with `atomic_flush`.
        force_atomic_flush: bool = false;
        /// Without effect: a flush that waits always waits for its listeners, too.
        listener_wait: bool = false, hint;
    }
}

options! {
    /// Options of a manual compaction.
    CompactRangeOptions, "CompactRangeOptions" {
        /// True if no other compaction runs at the same time.
        exclusive_manual_compaction: bool = false;
        /// True if the result is moved to the highest level that can hold it.
        change_level: bool = false;
        /// The level that the result is moved to; -1 for the highest possible.
        target_level: i32 = -1;
        /// The data path of the output.
        target_path_id: u32 = 0;
        /// Selects whether the bottommost level is rewritten.
        bottommost_level_compaction: BottommostLevelCompaction =
            BottommostLevelCompaction::IfHaveCompactionFilter;
        /// True if the compaction may start even if it causes a write stall.
        allow_write_stall: bool = false;
        /// Maximum number of subcompactions; 0 for `max_subcompactions`.
        max_subcompactions: u32 = 0;
        /// Cancellation flag.
        canceled: Canceled = Canceled::default(), unwritten;
        /// Selects whether blob garbage is collected.
        blob_garbage_collection_policy: BlobGarbageCollectionPolicy =
            BlobGarbageCollectionPolicy::UseDefault;
        /// Age cutoff of blob garbage collection; that of the column family if not from 0 to 1.
        blob_garbage_collection_age_cutoff: f64 = -1.0;
        /// The timestamp to which `full_history_ts_low` is increased first. Only for comparators with timestamps, and for a
        /// compaction of all keys.
        full_history_ts_low: Option<Vec<u8>> = None, unwritten;
    }
}

impl WriteOptions {
    /// Rejects invalid options. Cheap enough to be called for every write.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, with the name of the option.
    #[inline]
    pub fn check_supported(&self) -> Result<()> {
        if !matches!(self.protection_bytes_per_key, 0 | 8) {
            return Err(Error::invalid_argument(
                "WriteOptions::protection_bytes_per_key must be 0 or 8",
            ));
        }
        match self.rate_limiter_priority {
            IoCharge::Uncharged | IoCharge::User => Ok(()),
            _ => Err(Error::invalid_argument(
                "WriteOptions::rate_limiter_priority must be IO_USER or IO_TOTAL",
            )),
        }
    }
}

impl FlushOptions {
    /// Rejects unsupported options.
    ///
    /// # Errors
    ///
    /// `NotSupported`, with their names.
    pub fn check_supported(&self) -> Result<()> {
        refuse_all(&self.unsupported())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_of_a_read_or_write_is_unsupported() {
        assert!(WriteOptions::default().check_supported().is_ok());
        for value in ["true", "1", "kMemtableTier", "00"] {
            for row in ReadOptions::rows() {
                let mut options = ReadOptions::default();
                if (row.set)(&mut options, value).is_ok() {
                    assert!(options.unsupported().is_empty(), "{}", row.name);
                }
            }
            for row in WriteOptions::rows() {
                let mut options = WriteOptions::default();
                if (row.set)(&mut options, value).is_ok() {
                    assert!(options.unsupported().is_empty(), "{}", row.name);
                    // 8 bytes or none.
                    let is_odd = options.protection_bytes_per_key == 1;
                    assert_eq!(options.check_supported().is_err(), is_odd, "{}", row.name);
                }
            }
        }
    }
}
