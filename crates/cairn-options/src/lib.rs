//! Options: defaults, text form and validation, one row per option.
//!
//! An option is one row of an [`options!`](rows) table: its field, RocksDB's name, its default in
//! RocksDB 11.12, whether it is changeable at run time, and whether Cairn supports it. Text forms,
//! OPTIONS files and the rejection of unsupported features are derived from the rows.
//!
//! *Parsing* accepts every RocksDB option with any valid value, so that every OPTIONS file can be
//! read. *Support* ([`Options::unsupported`]) lists the options whose values require unsupported
//! features: opening for writing rejects them, opening for reading ignores them.
//!
//! ```
//! use cairn_options::{FamilyOptions, Options};
//!
//! let options = FamilyOptions::from_text(
//!     "write_buffer_size=8M;block_based_table_factory={block_size=16K;filter_policy=bloomfilter:10:false}",
//! )?;
//! assert_eq!(options.write_buffer_size, 8 << 20);
//! assert_eq!(options.table.block_size, 16 << 10);
//! assert_eq!(options.get("num_levels")?, "7");
//! # Ok::<(), cairn_types::Error>(())
//! ```

mod alias;
pub mod compaction;
pub mod compaction_service;
mod customizable;
pub mod db;
mod default_cache;
pub mod enums;
pub mod family;
pub mod file;
pub mod file_checksum;
pub mod flat_tables;
pub mod ingest;
pub mod merge_operators;
pub mod object_registry;
mod offpeak;
pub mod operation_options;
mod options_string;
pub mod plugin;
pub mod presets;
pub mod property_collectors;
pub mod row;
pub mod rows;
pub mod sanitize;
pub mod sst_partitioner;
pub mod struct_options;
pub mod table;
pub mod table_filter;
mod temperature;
pub mod text;
pub mod ttl;

pub use cairn_format::filter::FilterPolicy;
pub use compaction::{Canceled, CompactionOptions, WaitForCompactOptions};
pub use compaction_service::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus,
    CompactionServiceScheduleResponse,
};
pub use customizable::{DbPath, FlushBlockPolicy};
pub use db::DbOptions;
pub use default_cache::DefaultCache;
pub use enums::*;
pub use family::FamilyOptions;
pub use file_checksum::{
    FileChecksum, FileChecksumContext, FileChecksumGenFactory, FileChecksumGenerator,
    HandoffFileType, HandoffFileTypes,
};
pub use flat_tables::{CuckooTableOptions, PlainTableOptions, TableFormat};
pub use ingest::{ImportColumnFamilyOptions, IngestExternalFileOptions};
pub use operation_options::{CompactRangeOptions, FlushOptions, ReadOptions, WriteOptions};
pub use options_string::apply_mixed;
pub use plugin::Plugin;
pub use property_collectors::{Collectors, CompactOnDeletion, DeletionDensity};
pub use row::{Row, Support};
pub use rows::Options;
pub use sst_partitioner::FixedPrefixPartitions;
pub use struct_options::{
    CacheUsageOptions, CompressionOptions, FifoCompactionOptions, MetadataCacheOptions,
    UniversalCompactionOptions,
};
pub use table::TableOptions;
pub use table_filter::TableFilter;
pub use temperature::{FileTemperatureAge, FileTemperatureAges};
