//! Validates and sanitizes options.
//!
//! `validate` rejects contradictions, `sanitize` adjusts values and resolves "auto" values; both follow
//! RocksDB 11.9. A database keeps the sanitized options and writes them to its OPTIONS file.

use cairn_format::protection::is_checksum_len;
use cairn_format::table::footer::LATEST_VERSION;
use cairn_types::{Error, Result};
use std::path::Path;

use crate::customizable::{DbPath, FlushBlockPolicy};
use crate::db::DbOptions;
use crate::enums::{
    ChargeDecision, CompactionStyle, Compression, DataBlockIndexType, IndexType, TableKind,
    WalRecoveryMode,
};
use crate::family::{DEFAULT_TTL, FamilyOptions};
use crate::offpeak;
use crate::rows::Options;
use crate::struct_options::CompressionOptions;
use crate::table::TableOptions;

/// Older format versions can be read (which RocksDB no longer does) but not written.
const OLDEST_WRITTEN_VERSION: u32 = 2;
const MIB: u64 = 1 << 20;
/// The least number of open files that is in effect.
const MIN_OPEN_FILES: i32 = 20;
/// The part of `max_open_files` reserved for files other than tables.
const OTHER_FILES: usize = 10;
/// The automatic value of `ttl` and `periodic_compaction_seconds`: 30 days.
const THIRTY_DAYS: u64 = 30 * 24 * 3600;

/// Returns `InvalidArgument` unless `holds`.
fn require(holds: bool, why: &str) -> Result<()> {
    match holds {
        true => Ok(()),
        false => Err(Error::invalid_argument(why)),
    }
}

/// The maximum of `num_levels`, which RocksDB does not limit. A MANIFEST with higher levels is corrupt.
pub const MAX_LEVELS: usize = 64;

/// The most blob files that writes of a family append to.
const MAX_BLOB_PARTITIONS: u32 = 1024;

/// Rejects unsupported options.
fn refuse_missing(names: &[&str]) -> Result<()> {
    match names {
        [] => Ok(()),
        names => Err(Error::not_supported(format!(
            "options that Cairn does not support yet: {}",
            names.join(", ")
        ))),
    }
}

impl DbOptions {
    /// Rejects options with which no database can be opened.
    ///
    /// # Errors
    ///
    /// `InvalidArgument`, or `NotSupported` as in RocksDB.
    pub fn validate(&self) -> Result<()> {
        require(
            self.keep_log_file_num > 0,
            "keep_log_file_num must be greater than 0",
        )?;
        require(
            self.write_dbid_to_manifest || self.write_identity_file,
            "the database id must be recorded: set write_dbid_to_manifest or write_identity_file",
        )?;
        require(
            !self.unordered_write || self.allow_concurrent_memtable_write,
            "unordered_write requires allow_concurrent_memtable_write",
        )?;
        require(
            !self.enable_pipelined_write || !(self.unordered_write || self.atomic_flush),
            "enable_pipelined_write is incompatible with unordered_write and atomic_flush",
        )?;
        let hours = offpeak::parse(&self.daily_offpeak_time_utc);
        require(
            self.daily_offpeak_time_utc.is_empty() || hours.is_some_and(|(from, to)| from != to),
            "daily_offpeak_time_utc must be two times in the format HH:mm-HH:mm (e.g. 04:30-07:30)",
        )?;
        for (name, direct) in [
            ("use_direct_reads", self.use_direct_reads),
            (
                "use_direct_io_for_compaction_reads",
                self.use_direct_io_for_compaction_reads,
            ),
        ] {
            if self.allow_mmap_reads && direct {
                return Err(Error::not_supported(format!(
                    "allow_mmap_reads and {name} are mutually exclusive"
                )));
            }
        }
        Ok(())
    }

    /// Rejects unsupported options, when a database is opened for writing.
    ///
    /// # Errors
    ///
    /// `NotSupported`, with their names.
    pub fn check_supported(&self) -> Result<()> {
        let mut names = self.unsupported();
        // The option names an object that is not registered.
        if self.wal_filter.is_unresolved() {
            names.push("wal_filter");
        }
        refuse_missing(&names)
    }

    /// True if logs can be compressed with `wal_compression`. Otherwise, they are not compressed, as in RocksDB.
    #[must_use]
    pub fn can_compress_wal(&self) -> bool {
        matches!(self.wal_compression, Compression::None | Compression::Zstd)
    }

    /// Returns the effective options.
    #[must_use]
    pub fn sanitize(mut self) -> DbOptions {
        if self.max_open_files != -1 {
            self.max_open_files = self.max_open_files.max(MIN_OPEN_FILES);
        }
        if !self.can_compress_wal() {
            self.wal_compression = Compression::None;
        }
        if self.rate_limiter.is_some() && self.bytes_per_sync == 0 {
            self.bytes_per_sync = MIB;
        }
        if self.delayed_write_rate == 0 {
            let limiter = self.rate_limiter.as_ref();
            self.delayed_write_rate =
                limiter.map_or(16 * MIB, |limiter| limiter.bytes_per_second());
        }
        // A recycled log ends with records of its previous use, which these modes cannot distinguish
        // from damage.
        if matches!(
            self.wal_recovery_mode,
            WalRecoveryMode::TolerateCorruptedTailRecords | WalRecoveryMode::AbsoluteConsistency
        ) {
            self.recycle_log_file_num = 0;
        }
        // Archived logs are not reused.
        if self.wal_ttl_seconds > 0 || self.wal_size_limit_mb > 0 {
            self.recycle_log_file_num = 0;
        }
        if self.use_direct_reads && self.compaction_readahead_size == 0 {
            self.compaction_readahead_size = 2 * MIB;
        }
        self
    }

    /// Returns the maximum numbers of concurrent flushes and compactions.
    #[must_use]
    pub fn background_limits(&self) -> (usize, usize) {
        let at_least_one = |count: i32| usize::try_from(count).unwrap_or(0).max(1);
        if self.max_background_flushes == -1 && self.max_background_compactions == -1 {
            let flushes = at_least_one(self.max_background_jobs / 4);
            let all = at_least_one(self.max_background_jobs);
            (flushes, all.saturating_sub(flushes).max(1))
        } else {
            (
                at_least_one(self.max_background_flushes),
                at_least_one(self.max_background_compactions),
            )
        }
    }

    /// Returns the maximum number of open tables; `None` for no limit.
    #[must_use]
    pub fn open_table_limit(&self) -> Option<usize> {
        if self.max_open_files == -1 {
            return None;
        }
        let files = usize::try_from(self.max_open_files.max(MIN_OPEN_FILES)).ok()?;
        Some(files.saturating_sub(OTHER_FILES).max(1))
    }

    /// Returns the directory of the logs of a database in `dir`.
    #[must_use]
    pub fn wal_dir_of<'a>(&'a self, dir: &'a Path) -> &'a Path {
        match self.wal_dir.as_os_str().is_empty() {
            true => dir,
            false => &self.wal_dir,
        }
    }

    /// Returns the total WAL size that triggers flushes, given all families of the database.
    #[must_use]
    pub fn wal_limit<'a>(&self, families: impl IntoIterator<Item = &'a FamilyOptions>) -> u64 {
        if self.max_total_wal_size > 0 {
            return self.max_total_wal_size;
        }
        let budget = |family: &FamilyOptions| {
            let buffers = u64::try_from(family.max_write_buffer_number).unwrap_or(1);
            (family.write_buffer_size as u64).saturating_mul(buffers)
        };
        let all = families.into_iter().map(budget);
        all.fold(0, u64::saturating_add).saturating_mul(4)
    }
}

impl TableOptions {
    /// Rejects options with which no table can be written.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` with the reason.
    pub fn validate(&self) -> Result<()> {
        require(
            self.format_version <= LATEST_VERSION,
            "Unsupported BlockBasedTable format_version: it must be 0 to 8",
        )?;
        require(
            self.block_size <= u64::from(u32::MAX),
            "block_size must be less than 4 GiB",
        )?;
        require(
            !self.block_align || self.block_size.is_power_of_two(),
            "block_align requires a block_size that is a power of two",
        )?;
        let align = self.super_block_alignment_size;
        require(
            align == 0 || align.is_power_of_two(),
            "super_block_alignment_size must be 0 or a power of two",
        )?;
        require(
            align <= u64::from(u32::MAX),
            "super_block_alignment_size must be less than 4 GiB",
        )?;
        require(
            !(1..4).contains(&self.super_block_alignment_space_overhead_ratio),
            "super_block_alignment_space_overhead_ratio must be 0, or 4 or more",
        )?;
        require(
            !(self.no_block_cache && self.cache_index_and_filter_blocks),
            "cache_index_and_filter_blocks requires a block cache, but no_block_cache is set",
        )?;
        require(
            !(self.no_block_cache && self.pin_l0_filter_and_index_blocks_in_cache),
            "pin_l0_filter_and_index_blocks_in_cache requires a block cache, but no_block_cache is set",
        )?;
        let charged = &self.cache_usage_options;
        let decisions = [
            charged.options,
            charged.compression_dictionary_building_buffer,
            charged.filter_construction,
            charged.block_based_table_reader,
            charged.file_metadata,
            charged.blob_cache,
        ];
        require(
            !(self.no_block_cache && decisions.contains(&ChargeDecision::Enabled)),
            "cache_usage_options charges to the block cache, but no_block_cache is set",
        )?;
        let ratio = self.data_block_hash_table_util_ratio;
        require(
            !ratio.is_nan(),
            "data_block_hash_table_util_ratio must be a number",
        )?;
        require(
            self.data_block_index_type != DataBlockIndexType::BinaryAndHash || ratio > 0.0,
            "data_block_hash_table_util_ratio must be greater than 0 with a data_block_index_type of \
             kDataBlockBinaryAndHash",
        )
    }

    /// Returns the effective options.
    #[must_use]
    pub fn sanitize(mut self) -> TableOptions {
        self.block_restart_interval = self.block_restart_interval.max(1);
        self.index_block_restart_interval = match self.index_type {
            IndexType::HashSearch => 1,
            _ => self.index_block_restart_interval.max(1),
        };
        if !(0..=100).contains(&self.block_size_deviation) {
            self.block_size_deviation = 0;
        }
        self.partition_filters &= self.index_type == IndexType::TwoLevelIndexSearch;
        self
    }
}

/// The limits from which writes are slowed down and stopped; see [`FamilyOptions::write_limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteLimits {
    /// The number of files in level 0 from which writes are slowed down; negative for never.
    pub slowdown_files: i32,
    /// The number from which they stop.
    pub stop_files: i32,
    /// The bytes waiting to be compacted from which writes are slowed down; 0 for never.
    pub soft_bytes: u64,
    /// The number from which they stop; 0 for never.
    pub hard_bytes: u64,
}

impl FamilyOptions {
    /// Returns the directories of the family's tables; empty for the database directory.
    #[must_use]
    pub fn paths_of<'a>(&'a self, db: &'a DbOptions) -> &'a [DbPath] {
        match self.cf_paths.is_empty() {
            true => &db.db_paths,
            false => &self.cf_paths,
        }
    }

    /// Rejects multiple directories where they are not supported.
    ///
    /// # Errors
    ///
    /// `NotSupported`, as in RocksDB.
    pub fn check_paths(&self, db: &DbOptions) -> Result<()> {
        let paths = self.paths_of(db);
        if paths.len() > 4 {
            return Err(Error::not_supported(
                "more than four table paths are not supported",
            ));
        }
        let in_levels = matches!(
            self.compaction_style,
            CompactionStyle::Level | CompactionStyle::Universal
        );
        if paths.len() > 1 && !in_levels {
            return Err(Error::not_supported(
                "several paths of tables need compaction_style kCompactionStyleLevel or \
                 kCompactionStyleUniversal",
            ));
        }
        Ok(())
    }

    /// True if files may be ingested behind existing data, into a last level reserved for them.
    #[must_use]
    pub fn allows_ingest_behind(&self, db: &DbOptions) -> bool {
        self.cf_allow_ingest_behind || db.allow_ingest_behind
    }

    /// Rejects a last level reserved for ingestion if compactions would write to it.
    ///
    /// # Errors
    ///
    /// `NotSupported` for styles other than universal.
    pub fn check_ingest_behind(&self, db: &DbOptions) -> Result<()> {
        let universal = self.compaction_style == CompactionStyle::Universal;
        match self.allows_ingest_behind(db) && !universal {
            true => Err(Error::not_supported(
                "allow_ingest_behind requires compaction_style kCompactionStyleUniversal",
            )),
            false => Ok(()),
        }
    }

    /// Rejects invalid family options.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` with the reason.
    pub fn validate(&self) -> Result<()> {
        let blocks = self.table_factory == TableKind::BlockBased;
        if blocks {
            self.table.validate()?;
        }
        require(
            self.num_levels <= MAX_LEVELS as i32,
            &format!("num_levels must be at most {MAX_LEVELS}"),
        )?;
        require(
            self.max_bytes_for_level_multiplier.is_finite(),
            "max_bytes_for_level_multiplier must be a finite number",
        )?;
        let charges_blobs = self.table.cache_usage_options.blob_cache == ChargeDecision::Enabled;
        require(
            !blocks || !charges_blobs || self.blob_cache.is_some(),
            "cache_usage_options charges the blob cache, but there is no blob_cache",
        )?;
        let all = self.compression_per_level.iter().chain([&self.compression]);
        for kind in all.chain(&self.bottommost_compression) {
            require(kind.is_supported(), &kind.absence())?;
            require(
                !blocks || !self.table.block_align || *kind == Compression::None,
                "block_align requires uncompressed blocks",
            )?;
        }
        for options in [&self.compression_opts, &self.bottommost_compression_opts] {
            require(
                options.zstd_max_train_bytes == 0 || options.max_dict_bytes > 0,
                "zstd_max_train_bytes requires max_dict_bytes greater than 0",
            )?;
        }
        require(
            !blocks
                || self.table.index_type != IndexType::HashSearch
                || self.prefix_extractor.is_some(),
            "index_type=kHashSearch requires a prefix_extractor",
        )?;
        for (len, name) in [
            (
                self.memtable_protection_bytes_per_key,
                "memtable_protection_bytes_per_key",
            ),
            (
                self.block_protection_bytes_per_key,
                "block_protection_bytes_per_key",
            ),
        ] {
            if !is_checksum_len(len.into()) {
                return Err(Error::not_supported(format!(
                    "{name} must be 0, 1, 2, 4 or 8"
                )));
            }
        }
        let most_runs = self.compaction_options_universal.max_read_amp;
        if self.compaction_style == CompactionStyle::Universal
            && (most_runs < -1
                || (most_runs > 0 && most_runs < self.level0_file_num_compaction_trigger))
        {
            return Err(Error::not_supported(
                "max_read_amp must be -1, 0, or at least level0_file_num_compaction_trigger",
            ));
        }
        let share = 0.0..=1.0;
        require(
            !self.enable_blob_garbage_collection
                || (share.contains(&self.blob_garbage_collection_age_cutoff)
                    && share.contains(&self.blob_garbage_collection_force_threshold)),
            "the blob garbage collection cutoff and threshold must be between 0 and 1",
        )?;
        require(
            self.blob_space_target == 0.0
                || (self.blob_space_target >= 1.0 && self.blob_space_target.is_finite()),
            "blob_space_target must be 0, or 1 or more",
        )?;
        require(
            self.blob_direct_write_partitions <= MAX_BLOB_PARTITIONS,
            "blob_direct_write_partitions must be at most 1024",
        )?;
        require(
            self.blob_compression_type.is_supported(),
            &self.blob_compression_type.absence(),
        )?;
        require(
            self.read_triggered_compaction_threshold >= 0.0
                && self.read_triggered_compaction_threshold.is_finite(),
            "read_triggered_compaction_threshold must be 0 or more, and finite",
        )
    }

    /// Rejects unsupported options, when a family is opened for writing.
    ///
    /// # Errors
    ///
    /// `NotSupported`, with their names.
    pub fn check_supported(&self) -> Result<()> {
        let mut names = self.unsupported();
        names.extend(self.table.unsupported());
        // The timestamp after those that a flush drops is computed.
        if self.strips_timestamps() && !self.comparator.name().ends_with(".u64ts") {
            names.push("persist_user_defined_timestamps=false with a custom comparator");
        }
        if self.table.format_version < OLDEST_WRITTEN_VERSION {
            names.push("format_version");
        }
        // A newer version may have an older timestamp, and all versions of a key must stay in one level.
        if self.preclude_last_level_data_seconds > 0 && self.comparator.timestamp_size() > 0 {
            names.push("preclude_last_level_data_seconds with user-defined timestamps");
        }
        names.extend(self.unsupported_direct_writes());
        names.extend(self.unsupported_styles());
        // The options name objects that do not exist or are not registered.
        if let FlushBlockPolicy::Other(_) = self.table.flush_block_policy_factory {
            names.push("flush_block_policy_factory");
        }
        if self.compaction_filter.is_unresolved() {
            names.push("compaction_filter");
        }
        if self.compaction_filter_factory.is_unresolved() {
            names.push("compaction_filter_factory");
        }
        if self.sst_partitioner_factory.is_unresolved() {
            names.push("sst_partitioner_factory");
        }
        refuse_missing(&names)
    }

    /// Returns the unsupported combinations with `enable_blob_direct_write`.
    fn unsupported_direct_writes(&self) -> Vec<&'static str> {
        let asked = [
            (
                !self.enable_blob_files,
                "enable_blob_direct_write without enable_blob_files",
            ),
            // As in RocksDB.
            (
                self.comparator.timestamp_size() > 0,
                "enable_blob_direct_write with user-defined timestamps",
            ),
        ];
        let refused = asked.into_iter();
        let refused = refused.filter(|(asked, _)| *asked && self.enable_blob_direct_write);
        refused.map(|(_, name)| name).collect()
    }

    /// Returns the unsupported options of compaction styles.
    fn unsupported_styles(&self) -> Vec<&'static str> {
        let fifo = &self.compaction_options_fifo;
        let ages = &fifo.file_temperature_age_thresholds.0;
        let asked = [
            (
                fifo.age_for_warm > 0,
                "compaction_options_fifo.age_for_warm",
            ),
            (
                self.compaction_style != CompactionStyle::Fifo && !ages.is_empty(),
                "compaction_options_fifo.file_temperature_age_thresholds without FIFO compaction",
            ),
            (
                self.num_levels > 1 && !ages.is_empty(),
                "compaction_options_fifo.file_temperature_age_thresholds with several levels",
            ),
            (
                !ages.is_sorted_by(|a, b| a.age < b.age),
                "compaction_options_fifo.file_temperature_age_thresholds that do not ascend",
            ),
        ];
        let refused = asked.into_iter().filter(|(asked, _)| *asked);
        refused.map(|(_, name)| name).collect()
    }

    /// Returns the effective options of a column family in a database with options `db`.
    #[must_use]
    pub fn sanitize(self, db: &DbOptions) -> FamilyOptions {
        let limits = self.write_limits();
        let mut options = self.sanitize_changed(db);
        options.min_write_buffer_number_to_merge = options.memtables_to_merge();
        // Universal compaction implements `ttl` as a periodic full compaction.
        if options.compaction_style == CompactionStyle::Universal && options.ttl > 0 {
            options.periodic_compaction_seconds = match options.periodic_compaction_seconds {
                0 => options.ttl,
                periodic => periodic.min(options.ttl),
            };
        }
        FamilyOptions {
            level0_slowdown_writes_trigger: limits.slowdown_files,
            level0_stop_writes_trigger: limits.stop_files,
            soft_pending_compaction_bytes_limit: limits.soft_bytes,
            ..options
        }
    }

    /// [`FamilyOptions::sanitize`] of options that are changed in an open database. Options that depend on others stay as
    /// given, since those may change back: the limits of writes ([`FamilyOptions::write_limits`]) and the number of
    /// memtables to merge ([`FamilyOptions::memtables_to_merge`]).
    #[must_use]
    pub fn sanitize_changed(mut self, db: &DbOptions) -> FamilyOptions {
        self.table = self.table.sanitize();
        self.sanitize_memtables();
        self.sanitize_tree();
        if self.allows_ingest_behind(db) {
            self.num_levels = self.num_levels.max(3);
        }
        if db.atomic_flush {
            // All families are flushed together.
            self.min_write_buffer_number_to_merge = 1;
        }
        self.persist_user_defined_timestamps = !self.strips_timestamps();
        // Dynamic level sizes conflict with the target sizes of multiple paths.
        self.level_compaction_dynamic_level_bytes &= self.paths_of(db).len() < 2;
        self
    }

    /// True if the keys have timestamps that tables do not keep. Without timestamps, `persist_user_defined_timestamps` has no
    /// effect.
    #[must_use]
    pub fn strips_timestamps(&self) -> bool {
        !self.persist_user_defined_timestamps && self.comparator.timestamp_size() > 0
    }

    fn sanitize_memtables(&mut self) {
        self.write_buffer_size = self.write_buffer_size.clamp(64 << 10, 64 << 30);
        if self.arena_block_size == 0 {
            let chunk = (self.write_buffer_size / 8).min(1 << 20);
            self.arena_block_size = chunk.next_multiple_of(4 << 10);
        }
        self.max_write_buffer_number = self.max_write_buffer_number.max(2);
        if self.max_write_buffer_size_to_maintain < 0 {
            let all = i64::try_from(self.write_buffer_size).unwrap_or(i64::MAX);
            self.max_write_buffer_size_to_maintain =
                all.saturating_mul(i64::from(self.max_write_buffer_number));
        }
        self.memtable_prefix_bloom_size_ratio =
            self.memtable_prefix_bloom_size_ratio.clamp(0.0, 0.25);
    }

    /// Returns the number of immutable memtables from which a flush is due: fewer than the memtables that writes may fill.
    #[must_use]
    pub fn memtables_to_merge(&self) -> i32 {
        let most = self.max_write_buffer_number.max(2) - 1;
        self.min_write_buffer_number_to_merge.clamp(1, most)
    }

    /// The limits that apply to writes: those for files are not below the number from which files are compacted, and writes
    /// are slowed down before they stop.
    #[must_use]
    pub fn write_limits(&self) -> WriteLimits {
        let trigger = self.level0_file_num_compaction_trigger.max(1);
        let slowdown_files = match self.level0_slowdown_writes_trigger {
            slowdown if slowdown >= 0 => slowdown.max(trigger),
            disabled => disabled,
        };
        let stop = self.level0_stop_writes_trigger.max(slowdown_files);
        let hard_bytes = self.hard_pending_compaction_bytes_limit;
        let soft_bytes = match self.soft_pending_compaction_bytes_limit {
            0 => hard_bytes,
            soft if hard_bytes > 0 => soft.min(hard_bytes),
            soft => soft,
        };
        // FIFO deletes excess files, so writes never wait for compactions.
        let never = (self.compaction_style == CompactionStyle::Fifo).then_some(i32::MAX);
        WriteLimits {
            slowdown_files: never.unwrap_or(slowdown_files),
            stop_files: never.unwrap_or(stop.max(trigger)),
            soft_bytes,
            hard_bytes,
        }
    }

    fn sanitize_tree(&mut self) {
        let leveled = self.compaction_style == CompactionStyle::Level;
        self.num_levels = self.num_levels.max(if leveled { 2 } else { 1 });
        self.level_compaction_dynamic_level_bytes &= leveled;
        // A negative trigger stays: the number of files then triggers no compaction.
        if self.level0_file_num_compaction_trigger == 0 {
            self.level0_file_num_compaction_trigger = 1;
        }
        if self.max_bytes_for_level_multiplier <= 0.0 {
            self.max_bytes_for_level_multiplier = 1.0;
        }
        if self.max_compaction_bytes == 0 {
            self.max_compaction_bytes = self.target_file_size_base.saturating_mul(25);
        }
        let blocks = self.table_factory == TableKind::BlockBased;
        if self.ttl == DEFAULT_TTL {
            self.ttl = if blocks { THIRTY_DAYS } else { 0 };
        }
        if self.periodic_compaction_seconds == DEFAULT_TTL {
            let universal = self.compaction_style == CompactionStyle::Universal;
            let rewrites = universal || self.has_compaction_filter();
            self.periodic_compaction_seconds = if blocks && rewrites { THIRTY_DAYS } else { 0 };
        }
    }

    /// True if compactions have a filter: the program's own, or the one that drops expired values.
    #[must_use]
    pub fn has_compaction_filter(&self) -> bool {
        self.compaction_filter.is_some()
            || self.compaction_filter_factory.is_some()
            || self.value_ttl.is_some()
    }

    /// Returns the compression of a table in `level`. `base_level` is the first non-empty level below
    /// level 0; `bottommost` is true if no data lies below.
    #[must_use]
    pub fn compression_at(&self, level: i32, base_level: i32, bottommost: bool) -> Compression {
        if bottommost && let Some(kind) = self.bottommost_compression {
            return kind;
        }
        let Some(last) = self.compression_per_level.len().checked_sub(1) else {
            return self.compression;
        };
        // The empty levels between level 0 and the base level are not in the list.
        let place = if level == 0 {
            0
        } else {
            level - base_level + 1
        };
        self.compression_per_level[usize::try_from(place).unwrap_or(0).min(last)]
    }

    /// Returns the compression options of a table.
    #[must_use]
    pub fn compression_opts_at(&self, bottommost: bool) -> &CompressionOptions {
        match bottommost && self.bottommost_compression_opts.enabled {
            true => &self.bottommost_compression_opts,
            false => &self.compression_opts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(text: &str) -> FamilyOptions {
        FamilyOptions::from_text(text).unwrap()
    }

    #[test]
    fn a_rate_limiter_changes_other_defaults() {
        let text = "rate_limiter_bytes_per_sec=5000000";
        let db = DbOptions::from_text(text).unwrap().sanitize();
        assert_eq!(
            db.rate_limiter.as_ref().unwrap().bytes_per_second(),
            5_000_000
        );
        assert_eq!((db.bytes_per_sync, db.delayed_write_rate), (MIB, 5_000_000));
        let text = format!("{text};bytes_per_sync=4096;delayed_write_rate=77");
        let db = DbOptions::from_text(&text).unwrap().sanitize();
        assert_eq!((db.bytes_per_sync, db.delayed_write_rate), (4096, 77));
        assert!(DbOptions::from_text("rate_limiter_bytes_per_sec=0").is_err());
    }

    #[test]
    fn defaults_are_sanitized_as_rocksdb_documents() {
        let db = DbOptions::default().sanitize();
        assert_eq!(db.delayed_write_rate, 16 << 20);
        assert_eq!(db.background_limits(), (1, 1));
        let family = FamilyOptions::default().sanitize(&db);
        assert_eq!(family.arena_block_size, 1 << 20);
        assert_eq!(family.max_compaction_bytes, 1_677_721_600);
        assert_eq!(family.ttl, 2_592_000);
        assert_eq!(family.periodic_compaction_seconds, 0);
        assert_eq!(db.wal_limit([&family]), 4 * 2 * (64 << 20));
        assert!(db.validate().is_ok() && family.validate().is_ok());
        assert!(db.check_supported().is_ok() && family.check_supported().is_ok());
    }

    /// Regression: a negative trigger became 1, with which each file is compacted.
    #[test]
    fn a_negative_trigger_of_compactions_stays() {
        let sanitized = |trigger: i32| {
            let family = FamilyOptions {
                level0_file_num_compaction_trigger: trigger,
                ..FamilyOptions::default()
            };
            let family = family.sanitize(&DbOptions::default());
            let limits = family.write_limits();
            assert_eq!((limits.slowdown_files, limits.stop_files), (20, 36));
            family.level0_file_num_compaction_trigger
        };
        let triggers = [i32::MIN, -1, 0, 1, 4];
        assert_eq!(triggers.map(sanitized), [i32::MIN, -1, 1, 1, 4]);
    }

    /// Regression: a ratio of 0 was an error without a hash index, too.
    #[test]
    fn only_a_hash_index_needs_a_ratio_above_0() {
        let valid = |data_block_index_type: DataBlockIndexType, ratio: f64| {
            let table = TableOptions {
                data_block_index_type,
                data_block_hash_table_util_ratio: ratio,
                ..TableOptions::default()
            };
            table.validate().is_ok()
        };
        let ratios = [-1.0, 0.0, 0.75, f64::NAN];
        let plain = ratios.map(|ratio| valid(DataBlockIndexType::BinarySearch, ratio));
        let hashed = ratios.map(|ratio| valid(DataBlockIndexType::BinaryAndHash, ratio));
        assert_eq!(plain, [true, true, true, false]);
        assert_eq!(hashed, [false, false, true, false]);
    }

    #[test]
    fn a_quarter_of_the_jobs_are_flushes() {
        let mut db = DbOptions {
            max_background_jobs: 8,
            ..DbOptions::default()
        };
        assert_eq!(db.background_limits(), (2, 6));
        db.max_background_flushes = 3;
        assert_eq!(db.background_limits(), (3, 1));
    }

    #[test]
    fn direct_writes_of_blobs_are_rejected_where_they_have_no_effect() {
        let refused = |text: &str| {
            let refused = family(&format!("enable_blob_direct_write=true;{text}"));
            refused.check_supported().map_err(|e| e.text().to_owned())
        };
        assert_eq!(refused("enable_blob_files=true"), Ok(()));
        assert!(
            refused("")
                .unwrap_err()
                .contains("without enable_blob_files")
        );
        let timestamps = "enable_blob_files=true;comparator=leveldb.BytewiseComparator.u64ts";
        assert!(refused(timestamps).unwrap_err().contains("timestamps"));
        let many = family("blob_direct_write_partitions=1025");
        assert!(many.validate().is_err());
    }

    #[test]
    fn unsupported_options_are_rejected_by_name() {
        let refused = family(
            "compression_manager=theirs;block_based_table_factory={fail_if_no_udi_on_open=true}",
        );
        let error = refused.check_supported().unwrap_err();
        assert!(
            error
                .text()
                .contains("compression_manager, fail_if_no_udi_on_open"),
            "{error}"
        );
        let policy = "block_based_table_factory={flush_block_policy_factory=TheirPolicy}";
        let error = family(policy).check_supported().unwrap_err();
        assert!(
            error.text().contains("flush_block_policy_factory"),
            "{error}"
        );
        let old = family("block_based_table_factory={format_version=1}");
        assert!(old.validate().is_ok() && old.check_supported().is_err());
    }

    #[test]
    fn contradictory_options_are_rejected() {
        for text in [
            "block_based_table_factory={block_align=true}",
            "block_based_table_factory={format_version=9}",
            "block_based_table_factory={index_type=kHashSearch}",
            "compression=kXpressCompression",
            "compression_opts={zstd_max_train_bytes=100}",
            "num_levels=65",
            "num_levels=2147483647",
        ] {
            assert!(family(text).validate().is_err(), "{text}");
        }
        assert!(family("num_levels=64").validate().is_ok());
        let unordered = FamilyOptions {
            max_bytes_for_level_multiplier: f64::NAN,
            ..FamilyOptions::default()
        };
        assert!(unordered.validate().is_err());
        // Each block then has one entry, as in RocksDB.
        let smallest = family("block_based_table_factory={block_size=0}");
        assert!(smallest.validate().is_ok());
        // Families with tables of another kind write no blocks.
        let mut blocks = family(
            "block_based_table_factory={block_align=true;format_version=9;index_type=kHashSearch}",
        );
        blocks.table.cache_usage_options.blob_cache = ChargeDecision::Enabled;
        for (kind, is_valid) in [
            (TableKind::BlockBased, false),
            (TableKind::Plain, true),
            (TableKind::Cuckoo, true),
        ] {
            let options = FamilyOptions {
                table_factory: kind,
                ..blocks.clone()
            };
            assert_eq!(options.validate().is_ok(), is_valid, "{kind:?}");
        }
        let error = DbOptions::from_text("keep_log_file_num=0")
            .unwrap()
            .validate();
        assert!(error.is_err());
    }

    /// Regression: databases with such options could not be opened.
    #[test]
    fn options_without_effect_are_accepted() {
        let text = "max_open_files=-5;wal_compression=kLZ4Compression";
        let options = DbOptions::from_text(text).unwrap();
        options.validate().unwrap();
        assert!(!options.can_compress_wal());
        let options = options.sanitize();
        assert_eq!(
            (options.max_open_files, options.wal_compression),
            (20, Compression::None)
        );
        let plain = family("persist_user_defined_timestamps=false");
        plain.validate().unwrap();
        plain.check_supported().unwrap();
        assert!(
            plain
                .sanitize(&DbOptions::default())
                .persist_user_defined_timestamps
        );
        let stripped =
            family("comparator=leveldb.BytewiseComparator.u64ts;persist_user_defined_timestamps=0");
        assert!(
            !stripped
                .sanitize(&DbOptions::default())
                .persist_user_defined_timestamps
        );
    }

    #[test]
    fn compression_follows_the_level() {
        let options = family(
            "compression_per_level=kNoCompression:kLZ4Compression:kZSTD;bottommost_compression=kZlibCompression",
        );
        assert_eq!(options.compression_at(0, 4, false), Compression::None);
        assert_eq!(options.compression_at(4, 4, false), Compression::Lz4);
        assert_eq!(options.compression_at(6, 4, false), Compression::Zstd);
        assert_eq!(options.compression_at(6, 4, true), Compression::Zlib);
        assert_eq!(family("").compression_at(3, 1, true), Compression::Lz4);
    }
}
