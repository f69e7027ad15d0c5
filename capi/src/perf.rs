//! Perf contexts: counters of the calling thread.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_observe::perf::{self, PerfLevel, PerfMetric};

use crate::error::malloc_text;
use crate::handle::{create, of};

handles! {
    /// The counters of whichever thread asks.
    rocksdb_perfcontext_t = ();
}

c_destructors! {
    /// Frees a handle; the thread's counters stay.
    rocksdb_perfcontext_destroy(rocksdb_perfcontext_t);
}

/// The counters that have a number in the C interface, in the order of the numbers.
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
    /// Sets what the calling thread counts, by the numbers of RocksDB's `PerfLevel`: 2 for counts, 4
    /// for times but those of locks, 6 for everything. Other numbers change nothing.
    fn rocksdb_set_perf_level(v0: c_int) {
        if let Some(level) = PerfLevel::from_number(i64::from(v0)) {
            perf::set_level(level);
        }
    }
    /// A handle of the calling thread's counters. Threads count once one has asked for them.
    fn rocksdb_perfcontext_create() -> *mut rocksdb_perfcontext_t {
        perf::begin_use();
        create(())
    }
    /// The counters begin anew.
    fn rocksdb_perfcontext_reset(context: *mut rocksdb_perfcontext_t) {
        let () = of(context.cast_const());
        perf::reset();
    }
    /// All counters as text. Freed with `free`.
    fn rocksdb_perfcontext_report(
        context: *mut rocksdb_perfcontext_t,
        exclude_zero_counters: c_uchar,
    ) -> *mut c_char {
        let () = of(context.cast_const());
        malloc_text(&perf::report(exclude_zero_counters != 0))
    }
    /// One counter; 0 for a number that none has.
    fn rocksdb_perfcontext_metric(context: *mut rocksdb_perfcontext_t, metric: c_int) -> u64 {
        let () = of(context.cast_const());
        let metric = usize::try_from(metric).ok().and_then(|number| METRICS.get(number));
        metric.map_or(0, |metric| perf::metric(*metric))
    }
}
