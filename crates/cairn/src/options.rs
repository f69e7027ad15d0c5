//! Options: text forms, OPTIONS files, presets, and the object registry.
//!
//! Every options struct has [`Options::from_text`], [`Options::update_from`], [`Options::get`],
//! [`Options::set`] and [`Options::to_text`] (bring the trait into scope). Presets are methods,
//! such as [`FamilyOptions::optimize_for_point_lookup`].
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use cairn::options::{self, Options as _};
//! use cairn::{Db, FamilyOptions, Options, World};
//!
//! let mut options = Options::default().create_if_missing(true);
//! options.family.update_from("write_buffer_size=8M;compression_opts={level=3}")?;
//! Db::open(&path, &options)?.close()?;
//!
//! // The options with which the database was last opened, from its OPTIONS file.
//! let loaded = options::load_latest_options(&path, false, &World::posix())?;
//! assert_eq!(loaded.families[0].1.get("write_buffer_size")?, "8388608");
//! # Ok::<(), cairn::Error>(())
//! ```

pub use cairn_db::{
    check_options_compatibility, latest_options_file, load_latest_options, load_options,
};
pub use cairn_format::filter::FilterPolicy;
pub use cairn_memory::{BlockCache, CacheOptions, MemoryKind};
pub use cairn_options::file::{OptionsFile, UnknownCode};
pub use cairn_options::{
    CacheUsageOptions, CompressionOptions, DbOptions, FamilyOptions, FifoCompactionOptions,
    FileChecksum, FileChecksumContext, FileChecksumGenFactory, FileChecksumGenerator,
    HandoffFileType, HandoffFileTypes, MetadataCacheOptions, Options, Plugin, Row, Support,
    TableFilter, TableOptions, UniversalCompactionOptions, apply_mixed, enums, object_registry,
    presets,
};
