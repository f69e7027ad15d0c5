//! Options of single calls: reads, writes, flushes, manual compactions.

use cairn_types::{Result, SequenceNumber};

use crate::compaction::Canceled;
use crate::enums::{BlobGarbageCollectionPolicy, BottommostLevelCompaction, ReadTier};
use crate::row::{refuse, refuse_all};
use crate::rows::{Options, options};
use crate::table_filter::TableFilter;

options! {
    /// How a read or an iterator works.
    ReadOptions, "ReadOptions" {
        /// The state of the database that is read; none for the newest.
        snapshot: Option<SequenceNumber> = None, unwritten;
        /// Entries newer than this timestamp are not seen. Only for orders with timestamps.
        timestamp: Option<Vec<u8>> = None, unwritten;
        /// An iterator shows all entries down to this timestamp.
        iter_start_ts: Option<Vec<u8>> = None, unwritten;
        /// The first key an iterator may show.
        iterate_lower_bound: Option<Vec<u8>> = None, unwritten;
        /// The key before which an iterator ends.
        iterate_upper_bound: Option<Vec<u8>> = None, unwritten;
        /// True if checksums of blocks are checked as they are read.
        verify_checksums: bool = true;
        /// True if blocks that are read enter the cache.
        fill_cache: bool = true;
        /// Bytes an iterator reads ahead; 0 grows with use.
        readahead_size: u64 = 0;
        /// True if readahead stops at the upper bound.
        auto_readahead_size: bool = true, hint;
        /// True if readahead keeps its size from file to file.
        adaptive_readahead: bool = false, hint;
        /// True if readahead happens in the background.
        async_io: bool = false, hint;
        /// True if a batched lookup may spend CPU to overlap its reads.
        optimize_multiget_for_io: bool = true, hint;
        /// True if an iterator ignores prefix filters and shows every key.
        total_order_seek: bool = false;
        /// True if an iterator uses prefix filters where that hides nothing.
        auto_prefix_mode: bool = false;
        /// True if an iterator ends with the prefix it was sought to.
        prefix_same_as_start: bool = false;
        /// True if an iterator follows new writes.
        tailing: bool = false;
        /// True if what an iterator has shown stays in memory as long as the iterator.
        pin_data: bool = false, hint;
        /// Hidden entries after which an iterator gives up with `Incomplete`; 0 for never.
        max_skippable_internal_keys: u64 = 0;
        /// Where the read may look.
        read_tier: ReadTier = ReadTier::All;
        /// True if files that an iterator kept alive are deleted in the background.
        background_purge_on_iterator_cleanup: bool = false, hint;
        /// True if an iterator renews its view as the tree changes.
        auto_refresh_iterator_with_snapshot: bool = false;
        /// True if range deletions are ignored.
        ignore_range_deletions: bool = false;
        /// Microseconds since 1970 at which the read gives up; 0 for never.
        deadline: u64 = 0;
        /// Microseconds that one read of a file may take; 0 for any.
        io_timeout: u64 = 0;
        /// More merge operands of one key than this are too many: what a point read combines of more of
        /// them says so. `None` for any number.
        merge_operand_count_threshold: Option<u64> = None, unwritten;
        /// True if an iterator reads values in blob files only when it is asked to prepare them.
        allow_unprepared_value: bool = false;
        /// Which tables an iterator looks into.
        table_filter: TableFilter = TableFilter::default(), unwritten;
        /// Bytes of values at which a batched lookup stops.
        value_size_soft_limit: u64 = u64::MAX;
    }
}

options! {
    /// How a write works.
    WriteOptions, "WriteOptions" {
        /// True if the write survives a power cut once it returns.
        sync: bool = false;
        /// Whether the write skips the log: it is lost if the process ends before a flush.
        disable_wal("disableWAL"): bool = false;
        /// True if records of dropped families are skipped rather than refused.
        ignore_missing_column_families: bool = false;
        /// True if the write fails rather than waits when writes are stalled.
        no_slowdown: bool = false;
        /// True if the write waits whenever compactions are behind.
        low_pri: bool = false;
        /// True if inserts of one batch remember where the last one went.
        memtable_insert_hint_per_batch: bool = false, hint;
        /// Bytes of checksum for each key of the batch.
        protection_bytes_per_key: u64 = 0, missing;
    }
}

options! {
    /// How a flush that a user asks for works.
    FlushOptions, "FlushOptions" {
        /// True if the call waits for the flush.
        wait: bool = true;
        /// True if the flush may begin where it stalls writes.
        allow_write_stall: bool = false;
    }
}

options! {
    /// How a compaction that a user asks for works.
    CompactRangeOptions, "CompactRangeOptions" {
        /// True if no other compaction runs meanwhile.
        exclusive_manual_compaction: bool = false;
        /// True if the result moves to the lowest level that can hold it.
        change_level: bool = false;
        /// The level it moves to; -1 for the lowest that is possible.
        target_level: i32 = -1;
        /// The data path of the output.
        target_path_id: u32 = 0;
        /// Whether the bottommost level is rewritten.
        bottommost_level_compaction: BottommostLevelCompaction =
            BottommostLevelCompaction::IfHaveCompactionFilter;
        /// True if the compaction may begin where it stalls writes.
        allow_write_stall: bool = false;
        /// Parts that run in parallel; 0 for `max_subcompactions`.
        max_subcompactions: u32 = 0;
        /// Calls the compaction off.
        canceled: Canceled = Canceled::default(), unwritten;
        /// Whether blob garbage is collected.
        blob_garbage_collection_policy: BlobGarbageCollectionPolicy =
            BlobGarbageCollectionPolicy::UseDefault;
        /// Age cutoff of that collection; below 0 for the family's.
        blob_garbage_collection_age_cutoff: f64 = -1.0;
    }
}

impl WriteOptions {
    /// Refuses options whose feature is not built. Cheap enough for every write.
    ///
    /// # Errors
    ///
    /// `NotSupported` names the first.
    #[inline]
    pub fn check_supported(&self) -> Result<()> {
        match self.protection_bytes_per_key != 0 {
            false => Ok(()),
            true => self.refuse_missing(),
        }
    }

    #[cold]
    fn refuse_missing(&self) -> Result<()> {
        refuse(
            self.protection_bytes_per_key != 0,
            "protection_bytes_per_key",
        )
    }
}

impl FlushOptions {
    /// Refuses options whose feature is not built.
    ///
    /// # Errors
    ///
    /// `NotSupported` names them.
    pub fn check_supported(&self) -> Result<()> {
        refuse_all(&self.unsupported())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The quick check and the rows say the same, and no option of a read is refused.
    #[test]
    fn calls_are_refused_where_their_rows_are() {
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
                    assert_eq!(
                        options.check_supported().is_err(),
                        !options.unsupported().is_empty(),
                        "{}",
                        row.name
                    );
                }
            }
        }
    }
}
