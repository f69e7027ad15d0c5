//! Flush and compaction: functions from immutable input to a version edit.
//!
//! Nothing here knows the current version, takes a lock that others wait for, or decides when it
//! runs. [`mod@pick`] chooses what to compact, as a pure function. [`flush`] and [`compact`] read
//! their inputs, write tables, and return the edit that puts them into the tree; until the caller
//! installs it, nothing has changed.
//!
//! ```text
//! memtables or tables -> sorted_runs::Merge -> compaction_iterator::Visible -> values -> output -> tables, edit
//!                                                           |-> blob files
//! ```

pub mod lower_levels;
mod blobs;
pub mod checksum;
mod property_collectors;
pub mod compact;
pub mod context;
mod output_splitter;
pub mod multi_level;
mod entity_merge;
mod events;
pub mod filter;
pub mod flush;
pub mod blob_garbage;
pub mod ingest;
mod inputs;
mod output_params;
#[cfg(test)]
mod model;
mod output;
mod subcompaction_split;
pub mod pick;
mod output_verification;
pub mod sorted_runs;
mod subcompactions;
mod stats;
mod range_tombstones;
#[cfg(test)]
mod compaction_tests;
pub mod ttl;
mod value_separation;
pub mod compaction_iterator;

pub use compact::CompactJob;
pub use context::{BlobGc, Cancel, JobContext, JobDatabase, JobFamily, Permit, Spare};
pub use events::JobEvents;
pub use flush::FlushJob;
pub use pick::{Busy, Manual, Pick, PickOptions, pick};
pub use stats::{Done, Dropped, JobStats};
