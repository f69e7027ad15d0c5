//! Compaction: what steers it, and what a program may put into it.
//!
//! # Filters
//!
//! A [`CompactionFilter`] sees the newest version of each key as tables are compacted, and may
//! drop or change it: the way to let data expire without a deletion for each key. It works beside
//! snapshots, not for them: what it removes is gone for their readers as well. A
//! [`CompactionFilterFactory`] makes one filter for each part of a job, and may filter flushes too.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! use std::sync::Arc;
//! use cairn::compaction::{CompactionFilter, FilterDecision, FilterValue};
//! use cairn::{CompactRangeOptions, Db, Options};
//!
//! /// Drops sessions that are over.
//! struct Expired;
//! impl CompactionFilter for Expired {
//!     fn name(&self) -> &str {
//!         "example.Expired"
//!     }
//!     fn filter(&self, _level: usize, _key: &[u8], value: FilterValue<'_>) -> FilterDecision {
//!         match value {
//!             FilterValue::Value(b"over") => FilterDecision::Remove,
//!             _ => FilterDecision::Keep,
//!         }
//!     }
//! }
//!
//! let mut options = Options::default().create_if_missing(true);
//! options.family.compaction_filter = (Arc::new(Expired) as Arc<dyn CompactionFilter>).into();
//! let db = Db::open(dir.path().join("db"), &options)?;
//! db.put(b"session 1", b"over")?;
//! db.put(b"session 2", b"open")?;
//! db.compact_range(None, None, &CompactRangeOptions::default())?;
//! assert!(db.get(b"session 1")?.is_none());
//! assert!(db.get(b"session 2")?.is_some());
//! # Ok::<(), cairn::Error>(())
//! ```

pub use cairn_options::Plugin;
pub use cairn_types::{
    CompactionFilter, CompactionFilterFactory, FilterContext, FilterDecision, FilterValue,
    TableFileCreationReason,
};
