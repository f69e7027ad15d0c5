//! Options of a whole database.

use std::path::PathBuf;
use std::sync::Arc;

use cairn_memory::WriteBufferManager;
use cairn_platform::{RateLimiter, SstFileManager};

use crate::customizable::DbPath;
use crate::enums::{
    CacheTier, Compression, FileChecksum, InfoLogLevel, Temperature, WalRecoveryMode, WalWriteMode,
};
use crate::plugin::Plugin;
use crate::rows::options;
use cairn_observe::statistics::Keeping;
use cairn_observe::{Listeners, LogSink};
use cairn_types::WalFilter;

options! {
    /// Options of a whole database (RocksDB's `DBOptions`).
    DbOptions, "DBOptions" {
        /// True if a database that does not exist is created.
        create_if_missing: bool = false;
        /// True if column families that do not exist are created.
        create_missing_column_families: bool = false;
        /// True if a database that exists is refused.
        error_if_exists: bool = false;
        /// True if doubtful data stops writes rather than being worked around.
        paranoid_checks: bool = true, hint;
        /// True if a flush counts the entries it wrote.
        flush_verify_memtable_count: bool = true, hint;
        /// True if a compaction counts the entries it read and wrote.
        compaction_verify_record_count: bool = true, hint, recent;
        /// True if the MANIFEST lists live WALs.
        track_and_verify_wals_in_manifest: bool = false;
        /// True if each WAL names the one before it.
        track_and_verify_wals: bool = false, recent;
        /// True if tables are checked against the unique ids in the MANIFEST.
        verify_sst_unique_id_in_manifest: bool = true;
        /// Files kept open, ten of which are not tables; -1 for all.
        max_open_files: i32 = -1, dynamic;
        /// Threads that open tables when all are kept open.
        max_file_opening_threads: i32 = 16, hint;
        /// True if tables are opened in the background.
        open_files_async: bool = false, hint, recent;
        /// True if opening a table skips what it can.
        fast_sst_open: bool = false, dynamic, hint, recent;
        /// True if opening skips the statistics of tables.
        skip_stats_update_on_db_open: bool = false, hint;
        /// Threads of asynchronous reads.
        read_io_executor_threads: i32 = 1, hint, recent;
        /// Shards of the table cache, as a power of two.
        table_cache_numshardbits: i32 = 6, hint;
        /// Flushes and compactions at once; a quarter of them flushes.
        max_background_jobs: i32 = 2, dynamic;
        /// Compactions at once; -1 derives it from `max_background_jobs`.
        max_background_compactions: i32 = -1, dynamic;
        /// Flushes at once; -1 derives it from `max_background_jobs`.
        max_background_flushes: i32 = -1, dynamic;
        /// Parts that a compaction is split into before it begins, each with a thread of its own. While
        /// nobody writes, threads that `max_background_jobs` leaves help beside these.
        max_subcompactions: u32 = 1, dynamic;
        /// Bytes of live WALs at which families are flushed; 0 for four times all memtables.
        max_total_wal_size: u64 = 0, dynamic;
        /// Size of a MANIFEST below which it is never replaced, in bytes.
        max_manifest_file_size: u64 = 1 << 30, dynamic;
        /// Percent by which a MANIFEST may outgrow what it describes.
        max_manifest_space_amp_pct: i32 = 500, dynamic, recent;
        /// Bytes reserved for a new MANIFEST.
        manifest_preallocation_size: u64 = 4 << 20, dynamic, hint;
        /// True if opening goes on with the MANIFEST it finds, where that is safe: its last record must
        /// say that all before it is durable, as closing a database with this option makes it say, and
        /// its size must be within `max_manifest_file_size`. Else, after a crash too, a fresh one is written.
        reuse_manifest_on_open: bool = false, recent;
        /// True if the MANIFEST is laid out for a fast start.
        optimize_manifest_for_recovery: bool = false, dynamic, hint, recent;
        /// True if closing reads the MANIFEST back, and replaces one that is damaged.
        verify_manifest_content_on_close: bool = false, dynamic, recent;
        /// What recovery does with a damaged log.
        wal_recovery_mode: WalRecoveryMode = WalRecoveryMode::PointInTimeRecovery;
        /// True if two-phase commits survive in the log.
        allow_2pc: bool = false, missing;
        /// Old WALs kept to be written again.
        recycle_log_file_num: u64 = 0;
        /// True if the next WAL is made in advance.
        async_wal_precreate: bool = false, hint, recent;
        /// Seconds for which old WALs are kept.
        wal_ttl_seconds("WAL_ttl_seconds"): u64 = 0;
        /// Size up to which old WALs are kept, in MiB.
        wal_size_limit_mb("WAL_size_limit_MB"): u64 = 0;
        /// Compression of WALs: none or zstd.
        wal_compression: Compression = Compression::None;
        /// True if the log waits in memory until `flush_wal`.
        manual_wal_flush: bool = false;
        /// How WALs are written: `kMapped` or `kPlain`. Cairn's own. A log that is written over another
        /// (`recycle_log_file_num`) is written by calls in any case.
        wal_write_mode: WalWriteMode = WalWriteMode::Mapped, unwritten;
        /// Bytes of WAL after which write-back begins; with 0 that of a mapped log begins behind each window (512 KiB
        /// in a long log), and of others when the kernel likes.
        wal_bytes_per_sync: u64 = 0, dynamic;
        /// Bytes of table after which write-back begins; 0 for 4 MiB.
        bytes_per_sync: u64 = 0, dynamic;
        /// True if that write-back waits for the one before.
        strict_bytes_per_sync: bool = false, dynamic, hint;
        /// True if files are synced with `fsync` rather than `fdatasync`.
        use_fsync: bool = false;
        /// True if space for files is reserved.
        allow_fallocate: bool = true, hint;
        /// True if reads bypass the page cache.
        use_direct_reads: bool = false;
        /// True if flushes and compactions bypass the page cache.
        use_direct_io_for_flush_and_compaction: bool = false;
        /// True if compactions read tables past the page cache, and other reads through it.
        use_direct_io_for_compaction_reads: bool = false, recent;
        /// True if tables and blob files are read through a mapping, which spares calls. What is read is
        /// copied into the block cache as without. A device that fails, or a file that others cut off
        /// while the database has it open, may then end the process.
        allow_mmap_reads: bool = false;
        /// True if files are written through a mapping.
        allow_mmap_writes: bool = false, missing;
        /// True if the kernel is told that tables are read here and there.
        advise_random_on_open: bool = true, hint;
        /// True if descriptors are closed on exec.
        is_fd_close_on_exec: bool = true, missing;
        /// Bytes that compactions read ahead.
        compaction_readahead_size: u64 = 2 << 20, dynamic;
        /// Buffer of files that are written, in bytes.
        writable_file_max_buffer_size: u64 = 1 << 20, dynamic, hint;
        /// Bytes of a log read at once; 0 for the default.
        log_readahead_size: u64 = 0, hint;
        /// Memtable bytes of all families at which one is flushed; 0 for no limit.
        db_write_buffer_size: u64 = 0;
        /// A budget for memtables that several databases may share; takes the place of
        /// `db_write_buffer_size`. As text its size in bytes.
        write_buffer_manager: Option<Arc<WriteBufferManager>> = None, unwritten;
        /// What watches the room that tables and blob files take, and how fast they are deleted. Several
        /// databases may share it. As text its deletion rate in bytes a second.
        sst_file_manager: Option<Arc<SstFileManager>> = None, unwritten;
        /// True if that limit holds during recovery.
        enforce_write_buffer_manager_during_recovery: bool = true, recent;
        /// What flushes and compactions may write and read a second; several databases may share
        /// it. With it, 0 means 1 MiB for `bytes_per_sync` and the limiter's rate for
        /// `delayed_write_rate`. As text the bytes a second.
        rate_limiter("rate_limiter_bytes_per_sec"): Option<Arc<RateLimiter>> = None, unwritten;
        /// Bytes a second that delayed writes get at first; 0 for 16 MiB.
        delayed_write_rate: u64 = 0, dynamic;
        /// True if log and memtable of a write group overlap with those of the next.
        enable_pipelined_write: bool = false, hint;
        /// True if writes may reach memtables in any order. They keep their order all the same: what
        /// the option gives up is not given up.
        unordered_write: bool = false, hint;
        /// True if writes without memtable have a queue of their own.
        two_write_queues: bool = false, missing;
        /// True if several threads insert into a memtable at once.
        allow_concurrent_memtable_write: bool = true, hint;
        /// True if waiting writers spin first.
        enable_write_thread_adaptive_yield: bool = true, hint;
        /// Microseconds they spin at most.
        write_thread_max_yield_usec: u64 = 100, hint;
        /// Microseconds of a yield that counts as slow.
        write_thread_slow_yield_usec: u64 = 3, hint;
        /// Bytes of a write group.
        max_write_batch_group_size_bytes: u64 = 1 << 20;
        /// True if flushes of several families take effect together.
        atomic_flush: bool = false;
        /// True if recovery leaves its data in memtables.
        avoid_flush_during_recovery: bool = false;
        /// True if closing drops data that has no log.
        avoid_flush_during_shutdown: bool = false, dynamic;
        /// True if opening makes the best of missing files.
        best_efforts_recovery: bool = false;
        /// Attempts to resume after a background error that may pass.
        max_bgerror_resume_count: i32 = i32::MAX;
        /// Microseconds between them.
        bgerror_resume_retry_interval: u64 = 1_000_000;
        /// Seconds between dumps of statistics to the LOG; 0 for none.
        stats_dump_period_sec: u32 = 600, dynamic;
        /// Seconds between snapshots of statistics; 0 for none.
        stats_persist_period_sec: u32 = 600, dynamic;
        /// True if those snapshots are stored in a column family.
        persist_stats_to_disk: bool = false, missing;
        /// Bytes of those snapshots in memory.
        stats_history_buffer_size: u64 = 1 << 20, dynamic;
        /// True if dumps include the allocator's statistics.
        dump_malloc_stats: bool = false, hint;
        /// True if flushes, compactions, openings and verifications say what they do, for lists of threads.
        enable_thread_tracking: bool = false;
        /// The least important message that goes to the LOG file.
        info_log_level: InfoLogLevel = InfoLogLevel::Info;
        /// Size of a LOG file at which a new one begins, in bytes; 0 for no limit.
        max_log_file_size: u64 = 0;
        /// Seconds after which a new LOG file begins; 0 for never.
        log_file_time_to_roll: u64 = 0;
        /// LOG files that are kept.
        keep_log_file_num: u64 = 1000;
        /// Directory of LOG files; empty for the database's own.
        db_log_dir: PathBuf = PathBuf::new();
        /// Directories of tables, each with the bytes it should hold; empty for the database's own.
        db_paths: Vec<DbPath> = Vec::new(), unwritten;
        /// Directory of WALs; empty for the database's own.
        wal_dir: PathBuf = PathBuf::new();
        /// Microseconds between searches for obsolete files.
        delete_obsolete_files_period_micros: u64 = 6 * 3600 * 1_000_000, dynamic, hint;
        /// True if the tables of a dropped family are deleted in the background when its last handle goes. What iterators
        /// leave behind always is.
        avoid_unnecessary_blocking_io: bool = false;
        /// True if obsolete WALs are closed in the background.
        background_close_inactive_wals: bool = false, hint, recent;
        /// Caches that may be used.
        lowest_used_cache_tier: CacheTier = CacheTier::NonVolatileBlockTier, hint;
        /// True if iterators ignore prefixes unless asked.
        prefix_seek_opt_in_only: bool = false, recent;
        /// True if misuse of single deletions fails the compaction that sees it.
        enforce_single_del_contracts: bool = true;
        /// True if the MANIFEST carries the database's id.
        write_dbid_to_manifest: bool = true;
        /// True if the IDENTITY file is written.
        write_identity_file: bool = true, recent;
        /// The host's name in tables and LOG; `__hostname__` stands for the machine's.
        db_host_id: String = "__hostname__".to_owned();
        /// Checksums of whole files.
        file_checksum_gen_factory: Option<FileChecksum> = None;
        /// True if key bytes may appear in errors.
        allow_data_in_errors: bool = false, hint;
        /// True if ingested files may go below existing data: `cf_allow_ingest_behind` of every family.
        allow_ingest_behind: bool = false;
        /// What sees the log during recovery.
        wal_filter: Plugin<dyn WalFilter> = Plugin::None;
        /// True if locks spin first.
        use_adaptive_mutex: bool = false, hint;
        /// Longest time without looking for compactions that are due by the age of files or by reads, in
        /// seconds. Sooner where statistics come sooner, or a fifth of the shortest such age is shorter.
        max_compaction_trigger_wakeup_seconds: u64 = 43_200, dynamic, recent;
        /// Hours of little work, as `HH:MM-HH:MM` in UTC: periodic compactions of all files that come
        /// of age before the next such hours run in them.
        daily_offpeak_time_utc: String = String::new(), dynamic, recent;
        /// Percent of the interval of periodic compactions by which one is early, to spread them.
        periodic_compaction_phase_recovery_percent: i32 = 0, dynamic, missing, recent;
        /// True if remote compactions refuse a MANIFEST that is older than they were sent for.
        remote_compaction_manifest_floor: bool = true, dynamic, hint, recent;
        /// True if remote compactions write to a directory that an opening empties.
        use_session_tmp_dir_for_remote_compaction: bool = false, missing, recent;
        /// Temperature of MANIFESTs.
        metadata_write_temperature: Temperature = Temperature::Unknown, missing, recent;
        /// Temperature of WALs.
        wal_write_temperature: Temperature = Temperature::Unknown, missing, recent;
        /// Milliseconds between a follower's looks at its leader.
        follower_refresh_catchup_period_ms: u64 = 10_000, hint, recent;
        /// A follower's attempts to catch up.
        follower_catchup_retry_count: u64 = 10, hint, recent;
        /// Milliseconds between them.
        follower_catchup_retry_wait_ms: u64 = 100, hint, recent;
        /// Who is told of flushes, compactions and the like.
        listeners: Listeners = Listeners::default(), unwritten;
        /// Which statistics are kept.
        statistics: Keeping = Keeping::default(), unwritten;
        /// What takes the lines of the info log in the place of the file `LOG`.
        info_log: Option<Arc<dyn LogSink>> = None, unwritten;
    }
}
