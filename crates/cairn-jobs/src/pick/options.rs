//! Options of compaction picking, resolved from those of a family.

use cairn_options::{
    CompactionPri, CompactionStyle, Compression, CompressionOptions, DbOptions, FamilyOptions,
    FifoCompactionOptions, Plugin, UniversalCompactionOptions,
};
use cairn_types::SstPartitionerFactory;
use cairn_version::Version;
use cairn_version::blob_gc::ForcedOptions;
use cairn_version::compaction_score::{ShapeOptions, Targets};

/// Options of compaction picking.
#[derive(Clone, Debug)]
pub struct PickOptions {
    /// The compaction style.
    pub style: CompactionStyle,
    /// Universal compaction options.
    pub universal: UniversalCompactionOptions,
    /// FIFO compaction options.
    pub fifo: FifoCompactionOptions,
    /// The number of level-0 files that stops writes.
    pub level0_stop: usize,
    /// Memtable size, in bytes.
    pub write_buffer_bytes: u64,
    /// Level targets and triggers.
    pub shape: ShapeOptions,
    /// The file priority within a level.
    pub pri: CompactionPri,
    /// Target sizes of the family's directories, in bytes.
    pub path_targets: Vec<u64>,
    /// Target file size of the base level, in bytes.
    pub target_file_bytes: u64,
    /// Growth factor of the target file size per level.
    pub target_file_multiplier: u64,
    /// Maximum input size of a compaction, in bytes.
    pub max_compaction_bytes: u64,
    /// Maximum number of subcompactions.
    pub max_subcompactions: u32,
    /// Settings of compactions forced by blob garbage.
    pub blobs: ForcedOptions,
    /// Compression of blocks.
    pub compression: Compression,
    /// Compression by level: level 0, then the base level and the levels below it. Overrides
    /// `compression`.
    pub compression_per_level: Vec<Compression>,
    /// Compression of the bottommost level.
    pub bottommost_compression: Option<Compression>,
    /// Compression options.
    pub compression_options: CompressionOptions,
    /// Compression options of the bottommost level, used if `enabled`.
    pub bottommost_compression_options: CompressionOptions,
    /// True if the family has a compaction filter.
    pub filtered: bool,
    /// True if the target size is an upper bound.
    pub strict_target: bool,
    /// The user's partitioner.
    pub partitioner: Plugin<dyn SstPartitionerFactory>,
    /// True if the last level is reserved for `ingest_behind`.
    pub keeps_last_level: bool,
}

impl PickOptions {
    /// Resolves the options of a family in a database.
    #[must_use]
    pub fn new(db: &DbOptions, family: &FamilyOptions) -> PickOptions {
        let target = family.target_file_size_base.max(1);
        PickOptions {
            style: family.compaction_style,
            universal: family.compaction_options_universal.clone(),
            fifo: family.compaction_options_fifo.clone(),
            level0_stop: usize::try_from(family.write_limits().stop_files).unwrap_or(0),
            write_buffer_bytes: family.write_buffer_size as u64,
            shape: ShapeOptions::from(family),
            pri: family.compaction_pri,
            path_targets: family
                .paths_of(db)
                .iter()
                .map(|place| place.target_size)
                .collect(),
            target_file_bytes: target,
            target_file_multiplier: u64::try_from(family.target_file_size_multiplier)
                .unwrap_or(1)
                .max(1),
            max_compaction_bytes: match family.max_compaction_bytes {
                // For FIFO, the option is the size of merged tables; 0 derives it.
                0 if family.compaction_style == CompactionStyle::Fifo
                    && family.compaction_options_fifo.use_kv_ratio_compaction =>
                {
                    0
                }
                0 => target.saturating_mul(25),
                bytes => bytes,
            },
            max_subcompactions: db.max_subcompactions.max(1),
            blobs: ForcedOptions {
                enabled: family.enable_blob_garbage_collection,
                age_cutoff: family.blob_garbage_collection_age_cutoff,
                force_threshold: family.blob_garbage_collection_force_threshold,
                space_target: family.blob_space_target,
            },
            compression: family.compression,
            compression_per_level: family.compression_per_level.clone(),
            bottommost_compression: family.bottommost_compression,
            compression_options: family.compression_opts.clone(),
            bottommost_compression_options: family.bottommost_compression_opts.clone(),
            filtered: family.has_compaction_filter(),
            strict_target: family.target_file_size_is_upper_bound,
            partitioner: family.sst_partitioner_factory.clone(),
            keeps_last_level: family.allows_ingest_behind(db),
        }
    }

    /// True if tables of `level` use the bottommost compression.
    fn is_bottommost(version: &Version, level: usize) -> bool {
        level + 1 >= version.num_non_empty_levels()
    }

    /// Returns the compression of tables of `level`.
    #[must_use]
    pub fn compression(&self, version: &Version, targets: &Targets, level: usize) -> Compression {
        match self.bottommost_compression {
            Some(compression) if PickOptions::is_bottommost(version, level) => compression,
            _ => match self.compression_per_level.as_slice() {
                [] => self.compression,
                levels => {
                    let at = match level {
                        0 => 0,
                        level => level + 1 - targets.base_level.min(level),
                    };
                    levels[at.min(levels.len() - 1)]
                }
            },
        }
    }

    /// Returns the compression options of tables of `level`.
    #[must_use]
    pub fn compression_options(&self, version: &Version, level: usize) -> &CompressionOptions {
        match self.bottommost_compression_options.enabled
            && PickOptions::is_bottommost(version, level)
        {
            true => &self.bottommost_compression_options,
            false => &self.compression_options,
        }
    }

    /// Returns the target file size of `level`, in bytes.
    #[must_use]
    pub fn target_bytes(&self, targets: &Targets, level: usize) -> u64 {
        let index = match self.shape.dynamic && level >= targets.base_level {
            true => level - targets.base_level,
            false => level,
        };
        // Level 0 and the base level share the base size.
        let steps = index.saturating_sub(1);
        (0..steps).fold(self.target_file_bytes, |bytes, _| {
            bytes.saturating_mul(self.target_file_multiplier)
        })
    }
}
