//! Options of a whole database.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_memory::{BlockCache, MemoryBudget, WriteBufferManager};
use cairn_platform::{RateLimiter, SstFileManager};

use crate::compaction_service::CompactionService;
use crate::customizable::DbPath;
use crate::default_cache::DefaultCache;
use crate::enums::{
    CacheTier, Compression, InfoLogLevel, IoMode, Temperature, WalRecoveryMode, WalWriteMode,
};
use crate::file_checksum::{FileChecksum, HandoffFileTypes};
use crate::plugin::Plugin;
use crate::rows::options;
use cairn_observe::statistics::Keeping;
use cairn_observe::{Listeners, LogSink};
use cairn_types::WalFilter;

options! {
    /// Options of a whole database (RocksDB's `DBOptions`).
    DbOptions, "DBOptions" {
        /// True if a missing database is created.
        create_if_missing: bool = false;
        /// True if missing column families are created.
        create_missing_column_families: bool = false;
        /// True if opening an existing database is an error.
        error_if_exists: bool = false;
        /// True if inconsistent data stops writes.
        paranoid_checks: bool = true, hint;
        /// True if a flush verifies the number of entries written.
        flush_verify_memtable_count: bool = true, hint;
        /// True if a compaction verifies the number of entries read and written.
        compaction_verify_record_count: bool = true, hint, recent;
        /// True if the MANIFEST tracks live WALs.
        track_and_verify_wals_in_manifest: bool = false;
        /// True if each WAL records its predecessor.
        track_and_verify_wals: bool = false, recent;
        /// True if the unique ids of tables are verified against the MANIFEST.
        verify_sst_unique_id_in_manifest: bool = true;
        /// Maximum number of open files, ten of them reserved for files other than tables; -1 for
        /// no limit.
        max_open_files: i32 = -1, dynamic;
        /// Number of threads that open the tables at startup if all are kept open.
        max_file_opening_threads: i32 = 16, hint;
        /// True if open opens the tables in the background.
        open_files_async: bool = false, hint, recent;
        /// True if opening a table skips optional work.
        fast_sst_open: bool = false, dynamic, hint, recent;
        /// True if opening skips the statistics of tables.
        skip_stats_update_on_db_open: bool = false, hint;
        /// Threads that execute the reads of futures where io_uring is not available.
        read_io_executor_threads: i32 = 1, recent;
        /// log2 of the number of table cache shards.
        table_cache_numshardbits: i32 = 6, hint;
        /// Maximum number of concurrent flushes and compactions; a quarter of them are flushes.
        max_background_jobs: i32 = 2, dynamic;
        /// Maximum number of concurrent compactions; -1 derives it from `max_background_jobs`.
        max_background_compactions: i32 = -1, dynamic;
        /// Maximum number of concurrent flushes; -1 derives it from `max_background_jobs`.
        max_background_flushes: i32 = -1, dynamic;
        /// Maximum number of subcompactions that a compaction is split into before it starts, each
        /// on its own thread. While there are no writes, idle threads of `max_background_jobs`
        /// help.
        max_subcompactions: u32 = 1, dynamic;
        /// Total size of live WALs that triggers a flush, in bytes; 0 for four times the memtable
        /// budget.
        max_total_wal_size: u64 = 0, dynamic;
        /// Minimum size at which a MANIFEST is rotated, in bytes.
        max_manifest_file_size: u64 = 1 << 30, dynamic;
        /// Space amplification of the MANIFEST that triggers rotation, in percent.
        max_manifest_space_amp_pct: i32 = 500, dynamic, recent;
        /// Bytes reserved for a new MANIFEST.
        manifest_preallocation_size: u64 = 4 << 20, dynamic, hint;
        /// True if open continues the existing MANIFEST where that is safe: its last record must
        /// state that everything before it is durable, which closing a database with this option
        /// ensures, and its size must be within `max_manifest_file_size`. Otherwise, and after a
        /// crash, open writes a new one.
        reuse_manifest_on_open: bool = false, recent;
        /// True if the MANIFEST is optimized for recovery.
        optimize_manifest_for_recovery: bool = false, dynamic, hint, recent;
        /// True if close verifies the MANIFEST and rewrites a damaged one.
        verify_manifest_content_on_close: bool = false, dynamic, recent;
        /// Treatment of damaged WALs during recovery.
        wal_recovery_mode: WalRecoveryMode = WalRecoveryMode::PointInTimeRecovery;
        /// True if transactions can be prepared, and prepared ones are recovered from the WAL. Transaction
        /// databases set it.
        allow_2pc: bool = false;
        /// Number of obsolete WALs kept for reuse.
        recycle_log_file_num: u64 = 0;
        /// True if the next WAL is created in advance.
        async_wal_precreate: bool = false, hint, recent;
        /// Retention time of archived WALs, in seconds.
        wal_ttl_seconds("WAL_ttl_seconds"): u64 = 0;
        /// Size limit of archived WALs, in MiB.
        wal_size_limit_mb("WAL_size_limit_MB"): u64 = 0;
        /// Compression of WALs: none or zstd. With others, logs are not compressed, as in RocksDB.
        wal_compression: Compression = Compression::None;
        /// True if WAL records are buffered in memory until `flush_wal`.
        manual_wal_flush: bool = false;
        /// Write mode of WALs: `kMapped` or `kPlain`. Cairn's own option. Recycled logs
        /// (`recycle_log_file_num`) are always written with write calls.
        wal_write_mode: WalWriteMode = WalWriteMode::Mapped, unwritten;
        /// Writeback interval of the WAL, in bytes; with 0, a mapped log starts writeback after
        /// each window (512 KiB in a long log), and other logs leave it to the kernel.
        wal_bytes_per_sync: u64 = 0, dynamic;
        /// Writeback interval of tables, in bytes; 0 for 4 MiB.
        bytes_per_sync: u64 = 0, dynamic;
        /// True if writeback waits for the previous one.
        strict_bytes_per_sync: bool = false, dynamic, hint;
        /// True if files are synced with `fsync` rather than `fdatasync`.
        use_fsync: bool = false;
        /// True if file space is preallocated.
        allow_fallocate: bool = true, hint;
        /// True if reads bypass the page cache.
        use_direct_reads: bool = false;
        /// True if flushes and compactions bypass the page cache.
        use_direct_io_for_flush_and_compaction: bool = false;
        /// True if compactions read tables with direct I/O, and other reads do not.
        use_direct_io_for_compaction_reads: bool = false, recent;
        /// True if tables and blob files are read through a memory mapping, which saves system
        /// calls. Data is still copied to the block cache. A failing device, or another process
        /// truncating an open file, may then terminate the process.
        allow_mmap_reads: bool = false;
        /// Permission to write files through a memory mapping. Logs are written so wherever the file system permits it,
        /// and other files never.
        allow_mmap_writes: bool = false, hint;
        /// Execution of reads that are known together, such as those of a batch of gets: `kAuto`, `kUring`,
        /// `kThreads` or `kBlocking`. Cairn's own option. The property `cairn.io` is the mode in use.
        io_mode: IoMode = IoMode::Auto, unwritten;
        /// True if the kernel is advised to expect random access to tables.
        advise_random_on_open: bool = true, hint;
        /// True if descriptors are closed on exec.
        is_fd_close_on_exec: bool = true;
        /// Readahead of compactions, in bytes.
        compaction_readahead_size: u64 = 2 << 20, dynamic;
        /// Size of the write buffer of a file, in bytes.
        writable_file_max_buffer_size: u64 = 1 << 20, dynamic, hint;
        /// Readahead of logs, in bytes; 0 for the default.
        log_readahead_size: u64 = 0, hint;
        /// Total memtable size of all column families that triggers a flush, in bytes; 0 for no
        /// limit.
        db_write_buffer_size: u64 = 0;
        /// A memtable budget that several databases may share; overrides `db_write_buffer_size`. Its
        /// text form is its size in bytes.
        write_buffer_manager: Option<Arc<WriteBufferManager>> = None, unwritten;
        /// Cache of rows: the entries of single tables for single keys, which point lookups use instead of
        /// searching index and block. Useful if lookups repeat keys whose blocks are otherwise cold. It may
        /// be the block cache. Rows are exact with snapshots, merges and, unlike in RocksDB, with range
        /// deletions, which are therefore not rejected. Families whose keys have timestamps do not use it.
        /// Its text form is its capacity in bytes.
        row_cache: Option<Arc<BlockCache>> = None, unwritten;
        /// A limit on the memory of the database, which several databases may share: it provides a block
        /// cache for families without one, limits memtables unless `write_buffer_manager` or
        /// `db_write_buffer_size` is set, and charges all other memory. Cairn's own option. Its text form is
        /// its size in bytes, or `auto` for a share of the available memory.
        memory_budget: Option<Arc<MemoryBudget>> = None, unwritten;
        /// The block cache of families without one, shared by the databases with copies of these options; `None` for a
        /// private cache of each database. Unused with a `memory_budget`. Cairn's own option, set in code.
        default_block_cache: Option<DefaultCache> = None, unwritten;
        /// Tracks the space of tables and blob files and limits the rate of deletion. Several databases
        /// may share it. Its text form is its deletion rate in bytes per second.
        sst_file_manager: Option<Arc<SstFileManager>> = None, unwritten;
        /// True if the limit of the write buffer manager is enforced during recovery.
        enforce_write_buffer_manager_during_recovery: bool = true, recent;
        /// Limits the I/O rate of flushes and compactions; several databases may share it. With a
        /// limiter, 0 means 1 MiB for `bytes_per_sync` and the limiter's rate for `delayed_write_rate`.
        /// Its text form is its rate in bytes per second.
        rate_limiter("rate_limiter_bytes_per_sec"): Option<Arc<RateLimiter>> = None, unwritten;
        /// Initial rate of delayed writes, in bytes per second; 0 for 16 MiB.
        delayed_write_rate: u64 = 0, dynamic;
        /// True if the WAL write of a group overlaps with the memtable insertion of the previous one.
        enable_pipelined_write: bool = false, hint;
        /// True if writes may reach memtables in any order. Accepted, but writes stay ordered.
        unordered_write: bool = false, hint;
        /// True if writes that only log, such as prepares, need not wait for the insertions of others into memtables.
        /// Accepted without effect: there is one queue, whose next group is logged during the insertions of this one.
        two_write_queues: bool = false, hint;
        /// True if several threads insert into a memtable at once.
        allow_concurrent_memtable_write: bool = true, hint;
        /// True if writers spin before they block.
        enable_write_thread_adaptive_yield: bool = true, hint;
        /// Maximum spin time, in microseconds.
        write_thread_max_yield_usec: u64 = 100, hint;
        /// Duration of a slow yield, in microseconds.
        write_thread_slow_yield_usec: u64 = 3, hint;
        /// Maximum size of a write group, in bytes.
        max_write_batch_group_size_bytes: u64 = 1 << 20;
        /// True if column families are flushed together, atomically.
        atomic_flush: bool = false;
        /// True if recovery keeps the replayed data in memtables instead of flushing it.
        avoid_flush_during_recovery: bool = false;
        /// True if close discards data that is not in the WAL.
        avoid_flush_during_shutdown: bool = false, dynamic;
        /// True if open recovers what it can when files are missing.
        best_efforts_recovery: bool = false;
        /// Maximum number of automatic resumes after a retryable background error.
        max_bgerror_resume_count: i32 = i32::MAX;
        /// Interval between these attempts, in microseconds.
        bgerror_resume_retry_interval: u64 = 1_000_000;
        /// Interval of statistics dumps to the LOG, in seconds; 0 for none.
        stats_dump_period_sec: u32 = 600, dynamic;
        /// Interval of statistics snapshots, in seconds; 0 for none.
        stats_persist_period_sec: u32 = 600, dynamic;
        /// True if the statistics snapshots are stored in a column family.
        persist_stats_to_disk: bool = false;
        /// Memory limit of the statistics snapshots, in bytes.
        stats_history_buffer_size: u64 = 1 << 20, dynamic;
        /// True if dumps include the allocator's statistics.
        dump_malloc_stats: bool = false, hint;
        /// True if flushes, compactions, opens and verifications are shown in thread lists.
        enable_thread_tracking: bool = false;
        /// Minimum severity of LOG messages.
        info_log_level: InfoLogLevel = InfoLogLevel::Info;
        /// Size at which the LOG file is rolled, in bytes; 0 for no limit.
        max_log_file_size: u64 = 0;
        /// Age at which the LOG file is rolled, in seconds; 0 for never.
        log_file_time_to_roll: u64 = 0;
        /// Number of LOG files kept.
        keep_log_file_num: u64 = 1000;
        /// Directory of LOG files; empty for the database's own.
        db_log_dir: PathBuf = PathBuf::new();
        /// Directories of tables with their target sizes; empty for the database directory.
        db_paths: Vec<DbPath> = Vec::new(), unwritten;
        /// Directory of WALs; empty for the database's own.
        wal_dir: PathBuf = PathBuf::new();
        /// Interval of scans for obsolete files, in microseconds.
        delete_obsolete_files_period_micros: u64 = 6 * 3600 * 1_000_000, dynamic, hint;
        /// True if the tables of a dropped family are deleted in the background when its last handle is
        /// closed. Files released by iterators always are.
        avoid_unnecessary_blocking_io: bool = false;
        /// True if obsolete WALs are closed in the background.
        background_close_inactive_wals: bool = false, hint, recent;
        /// The lowest tier of the block and blob caches in use.
        lowest_used_cache_tier: CacheTier = CacheTier::NonVolatileBlockTier;
        /// True if iterators use prefix seek only when a read option enables it.
        prefix_seek_opt_in_only: bool = false, recent;
        /// True if misuse of single deletions fails a compaction.
        enforce_single_del_contracts: bool = true;
        /// True if the MANIFEST records the database id.
        write_dbid_to_manifest: bool = true;
        /// True if the IDENTITY file is written.
        write_identity_file: bool = true, recent;
        /// Host name recorded in tables and LOG; `__hostname__` is replaced with the name of the
        /// machine.
        db_host_id: String = "__hostname__".to_owned();
        /// Checksums of whole files.
        file_checksum_gen_factory: Option<FileChecksum> = None;
        /// Types of files whose appended pieces the file system gets with their CRC-32C, if it verifies them
        /// (`FileSystem::verifies_appends`).
        checksum_handoff_file_types: HandoffFileTypes = HandoffFileTypes::default(), unwritten;
        /// True if keys may appear in error messages.
        allow_data_in_errors: bool = false, hint;
        /// True if files may be ingested behind existing data: `cf_allow_ingest_behind` for every
        /// column family.
        allow_ingest_behind: bool = false;
        /// Filters WAL records during recovery.
        wal_filter: Plugin<dyn WalFilter> = Plugin::None;
        /// True if locks spin before they block.
        use_adaptive_mutex: bool = false, hint;
        /// Maximum interval between checks for compactions triggered by age or reads, in seconds.
        /// The actual interval is at most that of statistics dumps, and at most a fifth of the
        /// shortest such age.
        max_compaction_trigger_wakeup_seconds: u64 = 43_200, dynamic, recent;
        /// Off-peak hours, as `HH:MM-HH:MM` in UTC: files due for periodic compaction before the next
        /// off-peak hours are compacted during them.
        daily_offpeak_time_utc: String = String::new(), dynamic, recent;
        /// Spreads the periodic compactions of databases with equal options. Each family has a
        /// preferred time in the interval `periodic_compaction_seconds`, derived from the identity of
        /// the database; a compaction runs earlier than its deadline by this percentage of the
        /// distance to that time. Files overdue at an open or after a change are spread over a quarter
        /// of the interval. 0 for no spreading, at most 100; RocksDB recommends 33.
        periodic_compaction_phase_recovery_percent: i32 = 0, dynamic, recent;
        /// True if remote compactions reject a MANIFEST older than their request.
        remote_compaction_manifest_floor: bool = true, dynamic, recent;
        /// True if remote compactions write to a temporary directory that open empties.
        use_session_tmp_dir_for_remote_compaction: bool = false, recent;
        /// Temperature of MANIFESTs.
        metadata_write_temperature: Temperature = Temperature::Unknown, hint, recent;
        /// Temperature of WALs, which their file system receives.
        wal_write_temperature: Temperature = Temperature::Unknown, recent;
        /// Interval of a follower's catch-up, in milliseconds.
        follower_refresh_catchup_period_ms: u64 = 10_000, recent;
        /// Maximum number of catch-up attempts of a follower.
        follower_catchup_retry_count: u64 = 10, recent;
        /// Interval between those attempts, in milliseconds.
        follower_catchup_retry_wait_ms: u64 = 100, recent;
        /// Runs compactions in other processes.
        compaction_service: Option<Arc<dyn CompactionService>> = None, unwritten;
        /// Event listeners.
        listeners: Listeners = Listeners::default(), unwritten;
        /// Statistics to collect.
        statistics: Keeping = Keeping::default(), unwritten;
        /// Receives the lines of the info log instead of the file `LOG`.
        info_log: Option<Arc<dyn LogSink>> = None, unwritten;
    }
}
