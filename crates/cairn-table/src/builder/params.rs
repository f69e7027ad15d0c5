//! Parameters of a table builder.

use std::sync::Arc;

use cairn_compress::{CodecOptions, Compression};
use cairn_format::filter::{FilterBuilder, FilterPolicy};
use cairn_format::table::Properties;
use cairn_format::table::footer::LATEST_VERSION;
use cairn_format::table::properties::Origin;
use cairn_memory::secondary::CacheTier;
use cairn_memory::{CachePriority, ChargePolicy};
use cairn_observe::statistics::Meter;
use cairn_options::{
    CompressionOptions, FileChecksum, IndexShortening, IndexType, KeyCommonPrefix, TableFormat,
    TableOptions,
};
use cairn_types::{Error, FileNumber, KeyOrder, PrefixExtractor, Result, SequenceNumber};

use crate::builder::filter::FilterKeys;

/// Column family id of files outside of a column family.
const UNKNOWN_FAMILY: u32 = 0x7fff_ffff;

/// Parameters of a table builder: the options, and the identity recorded in the properties.
#[derive(Clone)]
pub struct BuildParams {
    /// The format of the table.
    pub format: TableFormat,
    /// Options of the block-based format.
    pub options: Arc<TableOptions>,
    /// The order of the user keys.
    pub order: KeyOrder,
    /// Compression of blocks.
    pub compression: Compression,
    /// Compression options.
    pub compression_options: CompressionOptions,
    /// The prefix extractor for prefix filters and hash indexes.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// Name of the merge operator; empty for none.
    pub merge_operator: String,
    /// The origin of the table.
    pub identity: TableIdentity,
    /// Random context of the block checksums of this file.
    pub base_context: u32,
    /// The place of the table in its tree.
    pub place: TablePlace,
    /// Creation times.
    pub times: TableTimes,
    /// Target file size of the level, which bounds the dictionary buffer.
    pub target_file_size: u64,
    /// True for an external file to be ingested: all sequence numbers are 0.
    pub external: bool,
    /// True if timestamps are stripped from the keys.
    pub strip_timestamps: bool,
    /// Writeback interval in bytes; 0 for never.
    pub bytes_per_sync: u64,
    /// The checksum of the whole file; `None` for none.
    pub file_checksum: Option<FileChecksum>,
    /// The blocks that are inserted into the block cache as they are written; `None` for none.
    pub warm: Option<WarmBlocks>,
    /// Statistics sink.
    pub meter: Meter,
    /// The memory of the builder that is charged to the family's block cache.
    pub charge: ChargePolicy,
}

/// The data blocks that are inserted into the block cache as they are written.
#[derive(Clone, Copy, Debug)]
pub struct WarmBlocks {
    /// Their priority.
    pub priority: CachePriority,
    /// The lowest tier to which they may move.
    pub lowest_tier: CacheTier,
}

/// The place of a table in its tree.
#[derive(Clone, Copy, Debug)]
pub struct TablePlace {
    /// Its level; -1 if unknown.
    pub level: i32,
    /// Its level for the [`FilterPolicy`], which treats some files as if they were on another one.
    pub filter_level: i32,
    /// True if there is no data in lower levels.
    pub bottommost: bool,
}

impl Default for TablePlace {
    fn default() -> TablePlace {
        TablePlace {
            level: -1,
            filter_level: FilterPolicy::UNKNOWN_LEVEL,
            bottommost: false,
        }
    }
}

/// The origin of a table as recorded in its properties.
#[derive(Clone, Debug)]
pub struct TableIdentity {
    /// Column family id.
    pub family_id: u32,
    /// Column family name.
    pub family_name: String,
    /// File number.
    pub number: FileNumber,
    /// Database id.
    pub db_id: String,
    /// Session id.
    pub session_id: String,
    /// Host name.
    pub host_id: String,
}

impl Default for TableIdentity {
    fn default() -> TableIdentity {
        TableIdentity {
            family_id: UNKNOWN_FAMILY,
            family_name: String::new(),
            number: FileNumber(1),
            db_id: String::new(),
            session_id: String::new(),
            host_id: String::new(),
        }
    }
}

/// Times recorded in the properties, in seconds since 1970; 0 if unknown.
#[derive(Clone, Copy, Debug, Default)]
pub struct TableTimes {
    /// Creation time of the oldest data.
    pub creation: u64,
    /// Creation time of the oldest key.
    pub oldest_key: u64,
    /// Creation time of the newest key.
    pub newest_key: u64,
    /// Creation time of the file.
    pub file_creation: u64,
}

impl Default for BuildParams {
    fn default() -> BuildParams {
        BuildParams {
            format: TableFormat::BlockBased,
            options: Arc::default(),
            order: KeyOrder::Bytewise,
            compression: Compression::FAST,
            compression_options: CompressionOptions::default(),
            prefix_extractor: None,
            merge_operator: String::new(),
            identity: TableIdentity::default(),
            base_context: 1,
            place: TablePlace::default(),
            times: TableTimes::default(),
            target_file_size: 64 << 20,
            external: false,
            strip_timestamps: false,
            bytes_per_sync: 0,
            file_checksum: None,
            warm: None,
            meter: Meter::default(),
            charge: ChargePolicy::default(),
        }
    }
}

impl BuildParams {
    /// Rejects invalid combinations of options.
    pub(crate) fn validate(&self) -> Result<()> {
        let options = &self.options;
        let refuse = |text: String| Err(Error::invalid_argument(text));
        if !(2..=LATEST_VERSION).contains(&options.format_version) {
            let found = options.format_version;
            return refuse(format!(
                "format_version of a new table: expected 2 to {LATEST_VERSION}, found {found}"
            ));
        }
        if options.partition_filters && options.index_type != IndexType::TwoLevelIndexSearch {
            return refuse("partition_filters requires index_type kTwoLevelIndexSearch".to_owned());
        }
        if options.block_align && self.compression != Compression::None {
            return refuse("block_align requires compression kNoCompression".to_owned());
        }
        if options.block_align && !options.block_size.is_power_of_two() {
            return refuse("block_align requires a block_size that is a power of two".to_owned());
        }
        if options.super_block_alignment_size > 0
            && !options.super_block_alignment_size.is_power_of_two()
        {
            return refuse("super_block_alignment_size is not a power of two".to_owned());
        }
        if options.block_restart_interval < 1 || options.index_block_restart_interval < 1 {
            return refuse("a restart interval is less than 1".to_owned());
        }
        Ok(())
    }

    /// True if data blocks store the common prefix of their user keys once.
    pub(crate) fn common_prefix_in_data(&self) -> bool {
        const SINCE: u32 = 8;
        let options = &self.options;
        let is_wanted = match options.optimize_key_common_prefix {
            KeyCommonPrefix::Disabled => false,
            KeyCommonPrefix::IfFastSeek => {
                matches!(self.order, KeyOrder::Bytewise | KeyOrder::ReverseBytewise)
            }
            KeyCommonPrefix::Enabled => true,
        };
        is_wanted
            && options.format_version >= SINCE
            && options.use_delta_encoding
            && self.order.timestamp_size() == 0
    }

    /// True if index blocks store the common prefix of their user keys once.
    pub(crate) fn common_prefix_in_index(&self) -> bool {
        self.common_prefix_in_data() && self.options.super_block_alignment_size == 0
    }

    /// Returns the shortening of index keys. A shortened successor shares no prefix with the keys
    /// that precede it.
    pub(crate) fn index_shortening(&self) -> IndexShortening {
        match self.options.index_shortening {
            IndexShortening::ShortenSeparatorsAndSuccessor if self.common_prefix_in_index() => {
                IndexShortening::ShortenSeparators
            }
            shortening => shortening,
        }
    }

    /// Returns the property that encodes the level of the file.
    fn lsm_info(&self) -> u64 {
        let origin = match (self.external, self.place.bottommost) {
            (true, _) => Origin::External,
            (false, true) => Origin::Bottom,
            (false, false) => Origin::Tree,
        };
        origin.lsm_info(u8::try_from(self.place.level).ok())
    }

    pub(crate) fn codec_options(&self) -> CodecOptions {
        CodecOptions {
            level: self.compression_options.level,
            window_bits: self.compression_options.window_bits,
            checksum: self.compression_options.checksum,
        }
    }

    /// Returns a collector of filter hashes, if the table gets a filter.
    pub(crate) fn filter_keys(&self, timestamp_size: usize) -> Option<FilterKeys> {
        self.filter_builder()?;
        let keys = FilterKeys::new(
            self.options.format_version < 5,
            self.options.whole_key_filtering,
            self.prefix_extractor.clone(),
            timestamp_size,
            self.options.partition_filters,
        );
        let verifies =
            self.options.detect_filter_construct_corruption && self.options.format_version >= 5;
        Some(match verifies {
            true => keys.with_checksum(),
            false => keys,
        })
    }

    /// Returns a builder of a filter or filter partition; `None` if the table gets none.
    pub(crate) fn filter_builder(&self) -> Option<FilterBuilder> {
        let policy = self.options.filter_policy?;
        policy.builder(self.options.format_version, self.place.filter_level)
    }

    /// Returns the properties known before the first entry.
    pub(crate) fn properties(&self) -> Properties {
        let options = &self.options;
        let or_null = |name: &str| match name {
            "" => "nullptr".into(),
            name => name.into(),
        };
        let extractor = self.prefix_extractor.as_ref();
        Properties {
            format_version: u64::from(options.format_version),
            column_family_id: u64::from(self.identity.family_id),
            column_family_name: self.identity.family_name.as_str().into(),
            comparator: self.order.name().into(),
            merge_operator: or_null(&self.merge_operator),
            prefix_extractor: or_null(&extractor.map(PrefixExtractor::name).unwrap_or_default()),
            property_collectors: "[]".into(),
            filter_policy: options
                .filter_policy
                .map(|policy| policy.name().into())
                .unwrap_or_default(),
            compression_options: self.compression_text().into(),
            creation_time: self.times.creation,
            oldest_key_time: self.times.oldest_key,
            newest_key_time: self.times.newest_key,
            file_creation_time: self.times.file_creation,
            db_id: self.identity.db_id.as_str().into(),
            db_session_id: self.identity.session_id.as_str().into(),
            db_host_id: self.identity.host_id.as_str().into(),
            original_file_number: self.identity.number.0,
            data_block_restart_interval: options.block_restart_interval.unsigned_abs().into(),
            index_block_restart_interval: options
                .index_block_restart_interval
                .unsigned_abs()
                .into(),
            separate_key_value_in_data_block: options.separate_key_value_in_data_block.into(),
            whole_key_filtering: Some(options.whole_key_filtering),
            prefix_filtering: Some(extractor.is_some()),
            decoupled_partitioned_filters: Some(
                options.partition_filters && options.decouple_partitioned_filters,
            ),
            lsm_info_at_creation: self.lsm_info(),
            external_version: self.external.then_some(2),
            global_seqno: self.external.then_some(SequenceNumber::ZERO),
            timestamps_stripped: self.strip_timestamps && self.order.timestamp_size() > 0,
            ..Properties::default()
        }
    }

    /// Returns the property `rocksdb.compression_options`.
    fn compression_text(&self) -> String {
        let c = &self.compression_options;
        let skips = match c.auto_skip {
            true => format!(
                "auto_skip=1; auto_skip_min_sample_every={}; ",
                c.auto_skip_min_sample_every
            ),
            false => String::new(),
        };
        format!(
            "window_bits={}; level={}; strategy={}; max_dict_bytes={}; zstd_max_train_bytes={}; \
             enabled={}; max_dict_buffer_bytes={}; use_zstd_dict_trainer={}; {skips}",
            c.window_bits,
            c.level,
            c.strategy,
            c.max_dict_bytes,
            c.zstd_max_train_bytes,
            u8::from(c.enabled),
            c.max_dict_buffer_bytes,
            u8::from(c.use_zstd_dict_trainer),
        )
    }
}
