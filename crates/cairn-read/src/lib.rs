//! The read path: point lookups, merging iterators, visibility and merge operands.
//!
//! A read takes a [`View`] (the memtables and the version of one column family at one point in
//! time) and a sequence number. [`get()`] looks up one key; a [`DbIter`] iterates over all keys.
//! Both run on data in memory and stop at a missing block; a small loop around them reads the
//! block, blocking or in a future. The crate is independent of its callers and of the choice of the view.

pub mod batch;
pub mod blob;
mod blobs_ahead;
pub mod child;
pub mod columns;
pub mod db_iter;
mod file_read_sample;
pub mod get;
mod get_stats;
pub mod level;
pub mod loser_tree;
pub mod merge_operands;
pub mod merging_iter;
pub mod multi_scan;
pub mod operands;
mod range_del_aggregator;
mod read_deadline;
pub mod row_cache;
pub mod value;
mod versions;
pub mod view;

pub use batch::{BatchKey, multi_get, multi_get_async, multi_get_with_timestamps};
pub use blob::{BlobCache, BlobReadOptions, BlobSource};
pub use child::Child;
pub use columns::Columns;
pub use db_iter::DbIter;
pub use get::{
    Found, GetScratch, StoredVersions, get, get_async, get_in, get_with_timestamp,
    is_written_after, is_written_since, operands, stored_versions, try_get,
};
pub use level::{LevelIter, Tables};
pub use merging_iter::{LazySeeks, MergingIter};
pub use multi_scan::{MultiScanArgs, ScannedRanges};
pub use operands::{ContinueCallback, GetMergeOperandsOptions, Operand, Operands, OperandsIter};
pub use row_cache::RowCache;
pub use value::Value;
pub use view::{Reading, View, ViewEnd, check_timestamp_size, shown_timestamp, timestamp_of_read};

#[cfg(test)]
mod tests;
