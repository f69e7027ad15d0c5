//! The perf context: counters of the calling thread.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_observe::perf::{self, PerfLevel, PerfMetric};

use crate::error::malloc_text;
use crate::handle::{create, of};

handles! {
    /// A handle without state: the counters are those of the calling thread.
    rocksdb_perfcontext_t = ();
}

c_destructors! {
    /// Frees a handle; the counters of the thread are not affected.
    rocksdb_perfcontext_destroy(rocksdb_perfcontext_t);
}

/// The counters, indexed by their numbers in the C interface.
const METRICS: [PerfMetric; 84] = [
    PerfMetric::UserKeyComparisonCount,
    PerfMetric::BlockCacheHitCount,
    PerfMetric::BlockReadCount,
    PerfMetric::BlockReadByte,
    PerfMetric::BlockReadTime,
    PerfMetric::BlockChecksumTime,
    PerfMetric::BlockDecompressTime,
    PerfMetric::GetReadBytes,
    PerfMetric::MultigetReadBytes,
    PerfMetric::IterReadBytes,
    PerfMetric::InternalKeySkippedCount,
    PerfMetric::InternalDeleteSkippedCount,
    PerfMetric::InternalRecentSkippedCount,
    PerfMetric::InternalMergeCount,
    PerfMetric::GetSnapshotTime,
    PerfMetric::GetFromMemtableTime,
    PerfMetric::GetFromMemtableCount,
    PerfMetric::GetPostProcessTime,
    PerfMetric::GetFromOutputFilesTime,
    PerfMetric::SeekOnMemtableTime,
    PerfMetric::SeekOnMemtableCount,
    PerfMetric::NextOnMemtableCount,
    PerfMetric::PrevOnMemtableCount,
    PerfMetric::SeekChildSeekTime,
    PerfMetric::SeekChildSeekCount,
    PerfMetric::SeekMinHeapTime,
    PerfMetric::SeekMaxHeapTime,
    PerfMetric::SeekInternalSeekTime,
    PerfMetric::FindNextUserEntryTime,
    PerfMetric::WriteWalTime,
    PerfMetric::WriteMemtableTime,
    PerfMetric::WriteDelayTime,
    PerfMetric::WritePreAndPostProcessTime,
    PerfMetric::DbMutexLockNanos,
    PerfMetric::DbConditionWaitNanos,
    PerfMetric::MergeOperatorTimeNanos,
    PerfMetric::ReadIndexBlockNanos,
    PerfMetric::ReadFilterBlockNanos,
    PerfMetric::NewTableBlockIterNanos,
    PerfMetric::NewTableIteratorNanos,
    PerfMetric::BlockSeekNanos,
    PerfMetric::FindTableNanos,
    PerfMetric::BloomMemtableHitCount,
    PerfMetric::BloomMemtableMissCount,
    PerfMetric::BloomSstHitCount,
    PerfMetric::BloomSstMissCount,
    PerfMetric::KeyLockWaitTime,
    PerfMetric::KeyLockWaitCount,
    PerfMetric::EnvNewSequentialFileNanos,
    PerfMetric::EnvNewRandomAccessFileNanos,
    PerfMetric::EnvNewWritableFileNanos,
    PerfMetric::EnvReuseWritableFileNanos,
    PerfMetric::EnvNewRandomRwFileNanos,
    PerfMetric::EnvNewDirectoryNanos,
    PerfMetric::EnvFileExistsNanos,
    PerfMetric::EnvGetChildrenNanos,
    PerfMetric::EnvGetChildrenFileAttributesNanos,
    PerfMetric::EnvDeleteFileNanos,
    PerfMetric::EnvCreateDirNanos,
    PerfMetric::EnvCreateDirIfMissingNanos,
    PerfMetric::EnvDeleteDirNanos,
    PerfMetric::EnvGetFileSizeNanos,
    PerfMetric::EnvGetFileModificationTimeNanos,
    PerfMetric::EnvRenameFileNanos,
    PerfMetric::EnvLinkFileNanos,
    PerfMetric::EnvLockFileNanos,
    PerfMetric::EnvUnlockFileNanos,
    PerfMetric::EnvNewLoggerNanos,
    PerfMetric::NumberAsyncSeek,
    PerfMetric::BlobCacheHitCount,
    PerfMetric::BlobReadCount,
    PerfMetric::BlobReadByte,
    PerfMetric::BlobReadTime,
    PerfMetric::BlobChecksumTime,
    PerfMetric::BlobDecompressTime,
    PerfMetric::InternalRangeDelReseekCount,
    PerfMetric::BlockReadCpuTime,
    PerfMetric::InternalMergePointLookupCount,
    PerfMetric::DataBlockReadByte,
    PerfMetric::IndexBlockReadByte,
    PerfMetric::FilterBlockReadByte,
    PerfMetric::CompressionDictBlockReadByte,
    PerfMetric::MetadataBlockReadByte,
    PerfMetric::BlobCacheReadByte,
];

c_functions! {
    /// Sets the perf level of the calling thread, a number of RocksDB's `PerfLevel`: 2 for counts,
    /// 4 for times except those of mutexes, 6 for everything. Numbers out of range are ignored.
    fn rocksdb_set_perf_level(v0: c_int) {
        if let Some(level) = PerfLevel::from_number(i64::from(v0)) {
            perf::set_level(level);
        }
    }
    /// Creates a handle for the counters of the calling thread, and enables them if needed.
    fn rocksdb_perfcontext_create() -> *mut rocksdb_perfcontext_t {
        perf::begin_use();
        create(())
    }
    /// Resets the counters.
    fn rocksdb_perfcontext_reset(context: *mut rocksdb_perfcontext_t) {
        let () = of(context.cast_const());
        perf::reset();
    }
    /// Returns all counters as text, to be freed with `free`.
    fn rocksdb_perfcontext_report(
        context: *mut rocksdb_perfcontext_t,
        exclude_zero_counters: c_uchar,
    ) -> *mut c_char {
        let () = of(context.cast_const());
        malloc_text(perf::report(exclude_zero_counters != 0))
    }
    /// Returns a counter; 0 for an unknown number.
    fn rocksdb_perfcontext_metric(context: *mut rocksdb_perfcontext_t, metric: c_int) -> u64 {
        let () = of(context.cast_const());
        let metric = usize::try_from(metric).ok().and_then(|number| METRICS.get(number));
        metric.map_or(0, |metric| perf::metric(*metric))
    }
}
