//! Parameters shared by all outputs of a job: location, format, and the files created so far.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cairn_compress::{CodecOptions, Compression};
use cairn_format::filter::FilterPolicy;
use cairn_memory::CachePriority;
use cairn_options::{
    CompactionStyle, CompressionOptions, FamilyOptions, PrepopulateBlobCache,
    PrepopulateBlockCache, TableOptions, Temperature,
};
use cairn_platform::sync::{Arc, Mutex};
use cairn_table::{BuildParams, TableIdentity, TablePlace, TableTimes, WarmBlocks};
use cairn_types::{FileNumber, Result, TableFileCreationReason};
use cairn_version::Version;

use crate::context::JobContext;
use crate::preserved_times::PreservedTimes;
use crate::ttl;

/// Parameters shared by the output tables of a job.
pub(crate) struct OutputParams {
    pub(crate) context: Arc<JobContext>,
    pub(crate) level: usize,
    /// Why the tables are written.
    pub(crate) reason: TableFileCreationReason,
    /// The path id of the output directory.
    pub(crate) path_id: u32,
    pub(crate) compression: Compression,
    pub(crate) compression_options: CompressionOptions,
    pub(crate) temperature: Temperature,
    pub(crate) target_bytes: u64,
    pub(crate) epoch: u64,
    /// Creation time of the oldest input data, in seconds since 1970.
    pub(crate) oldest_time: u64,
    /// Creation time of the newest input data, in seconds since 1970; 0 if it is not recorded.
    pub(crate) newest_time: u64,
    pub(crate) now: u64,
    /// True if no snapshot forces the job to keep versions it would otherwise drop.
    pub(crate) unhindered: bool,
    /// True if no level below the output can hold any of its keys.
    pub(crate) bottommost: bool,
    /// Used to estimate the data below the output that range tombstones cover.
    pub(crate) version: Option<Arc<Version>>,
    /// Priority of the data blocks that are inserted into the block cache as they are written.
    pub(crate) warm: Option<CachePriority>,
    /// Blob separation and relocation settings.
    pub(crate) blobs: BlobPlan,
    /// The blob files whose values are not relocated by a flush; `None` for a compaction.
    pub(crate) kept_blobs: Option<BTreeSet<FileNumber>>,
    /// The write times that the tables keep.
    pub(crate) times: PreservedTimes,
    /// Tables and blob files created so far, removed if the job fails.
    pub(crate) created: Mutex<Vec<PathBuf>>,
}

impl OutputParams {
    /// True if values in the blob file `number` move to another place.
    pub(crate) fn relocates(&self, number: FileNumber) -> bool {
        match &self.kept_blobs {
            None => number < self.blobs.relocate_below,
            Some(kept) => !kept.contains(&number),
        }
    }

    /// Removes the created files after a failure. Errors are ignored, because the next open removes
    /// files that are in no version.
    pub(crate) fn remove_all(&self) {
        for path in self.created.lock().drain(..) {
            self.context.world.fs.remove(&path).ok();
        }
    }

    /// Syncs the directories of the created files.
    pub(crate) fn sync_names(&self) -> Result<()> {
        let created = self.created.lock();
        let mut dirs: Vec<_> = created.iter().filter_map(|path| path.parent()).collect();
        dirs.sort_unstable();
        dirs.dedup();
        dirs.into_iter()
            .try_for_each(|dir| self.context.world.fs.sync_dir(dir))
    }

    /// Returns the table format options. In the bottommost level, a filter only helps lookups of
    /// missing keys, so `optimize_filters_for_hits` omits it.
    fn table_options(&self) -> TableOptions {
        let options = &self.context.family.options;
        let mut table = options.table.clone();
        if options.optimize_filters_for_hits && self.bottommost {
            table.filter_policy = None;
        }
        table
    }

    /// True for a flush, also that of a recovery; false for a compaction.
    pub(crate) fn flushes(&self) -> bool {
        self.reason != TableFileCreationReason::Compaction
    }

    /// Returns the level for the filter policy, as RocksDB determines it.
    fn filter_level(&self) -> i32 {
        match self.context.family.options.compaction_style {
            CompactionStyle::Level | CompactionStyle::Universal
                if self.reason == TableFileCreationReason::Flush =>
            {
                FilterPolicy::FLUSH
            }
            CompactionStyle::Level | CompactionStyle::Universal => {
                i32::try_from(self.level).unwrap_or(FilterPolicy::UNKNOWN_LEVEL)
            }
            CompactionStyle::Fifo | CompactionStyle::None => FilterPolicy::UNKNOWN_LEVEL,
        }
    }

    /// Returns the path of table `number`.
    pub(crate) fn path_of(&self, number: FileNumber) -> PathBuf {
        self.context.path_of(number, self.path_id)
    }

    pub(crate) fn params(&self, number: FileNumber) -> BuildParams {
        let context = &self.context;
        BuildParams {
            format: context.family.options.table_format(),
            options: Arc::new(self.table_options()),
            order: context.family.order.clone(),
            compression: self.compression,
            compression_options: self.compression_options.clone(),
            prefix_extractor: context.family.options.prefix_extractor.clone(),
            merge_operator: ttl::merge_operator_name(&context.family.options),
            identity: TableIdentity {
                family_id: context.family.id,
                family_name: context.family.name.clone(),
                number,
                db_id: context.database.id.clone(),
                session_id: context.database.session_id.clone(),
                host_id: context.database.host_id.clone(),
            },
            // The context must be non-zero and is otherwise arbitrary, so the low bit is always
            // set.
            base_context: context.world.random.next_u64() as u32 | 1,
            place: TablePlace {
                level: i32::try_from(self.level).unwrap_or(-1),
                filter_level: self.filter_level(),
                bottommost: self.bottommost,
            },
            strip_timestamps: !context.family.options.persist_user_defined_timestamps,
            times: TableTimes {
                creation: self.oldest_time,
                oldest_key: self.oldest_time,
                newest_key: self.newest_time,
                file_creation: self.now,
            },
            target_file_size: self.target_bytes,
            bytes_per_sync: context.database.options.bytes_per_sync,
            file_checksum: context.database.options.file_checksum_gen_factory.clone(),
            warm: self.warm.map(|priority| WarmBlocks {
                priority,
                lowest_tier: context.database.options.lowest_used_cache_tier.into(),
            }),
            meter: context.meter.clone(),
            charge: context.family.charge.clone(),
            ..BuildParams::default()
        }
    }
}

/// Returns the priority at which a table written for `reason` inserts its data blocks into the block cache, if
/// it does. As in RocksDB, blocks of compactions are the first to leave, and recovery inserts none.
pub(crate) fn warm(
    options: &FamilyOptions,
    reason: TableFileCreationReason,
) -> Option<CachePriority> {
    use PrepopulateBlockCache::{FlushAndCompaction, FlushOnly};
    match (options.table.prepopulate_block_cache, reason) {
        (FlushOnly | FlushAndCompaction, TableFileCreationReason::Flush) => {
            Some(CachePriority::Low)
        }
        (FlushAndCompaction, TableFileCreationReason::Compaction) => Some(CachePriority::Bottom),
        _ => None,
    }
}

/// Blob separation and relocation settings of a job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlobPlan {
    /// Minimum size of a value stored in a blob file, in bytes, at least one; `None` stores all values
    /// inline.
    pub(crate) min_bytes: Option<u64>,
    /// Target size of a blob file, in bytes.
    pub(crate) file_bytes: u64,
    pub(crate) compression: Compression,
    pub(crate) codec: CodecOptions,
    /// True if large columns of entities are stored in blob files too.
    pub(crate) columns: bool,
    /// Compactions relocate blobs in files with smaller numbers; 0 relocates none.
    pub(crate) relocate_below: FileNumber,
    /// Readahead size for relocated blob files, in bytes.
    pub(crate) readahead: u64,
    /// True if new blobs are inserted into the blob cache.
    pub(crate) prepopulate: bool,
}

impl BlobPlan {
    /// Returns the settings of a job that writes tables of `level` for `reason`.
    pub(crate) fn new(
        options: &FamilyOptions,
        level: usize,
        reason: TableFileCreationReason,
    ) -> BlobPlan {
        let starts = usize::try_from(options.blob_file_starting_level).unwrap_or(0);
        let separates = options.enable_blob_files && level >= starts;
        let warm = options.prepopulate_blob_cache == PrepopulateBlobCache::FlushOnly;
        BlobPlan {
            min_bytes: separates.then_some(options.min_blob_size.max(1)),
            file_bytes: options.blob_file_size,
            compression: options.blob_compression_type,
            codec: codec(&options.blob_compression_opts),
            columns: options.enable_blob_columns,
            relocate_below: FileNumber(0),
            readahead: options.blob_compaction_readahead_size,
            prepopulate: warm && reason == TableFileCreationReason::Flush,
        }
    }
}

fn codec(options: &CompressionOptions) -> CodecOptions {
    CodecOptions {
        level: options.level,
        window_bits: options.window_bits,
        checksum: options.checksum,
    }
}
