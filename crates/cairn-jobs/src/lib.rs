//! Flush and compaction: functions from immutable inputs to a version edit.
//!
//! This crate does not access the current version, takes no database lock, and does not schedule
//! anything. [`mod@pick`] chooses the next compaction as a pure function. [`flush`] and [`compact`]
//! read their inputs, write tables, and return the edit that adds them to the tree; nothing changes
//! until the caller installs it.
//!
//! ```text
//! memtables or tables -> sorted_runs::Merge -> CompactionIterator -> value_separation -> output -> tables, edit
//!                                                                    |-> blob files
//! ```

pub mod blob_garbage;
mod blobs;
pub mod checksum;
pub mod compact;
pub mod compaction_iterator;
#[cfg(test)]
mod compaction_tests;
pub mod context;
mod entity_merge;
mod events;
pub mod filter;
pub mod flush;
pub mod history;
pub mod ingest;
mod inputs;
pub mod lower_levels;
#[cfg(test)]
mod model;
pub mod multi_level;
mod output;
mod output_params;
mod output_splitter;
mod output_verification;
pub mod pick;
mod preserved_times;
mod property_collectors;
mod range_tombstones;
pub mod remote;
pub mod sorted_runs;
mod stats;
mod subcompaction_split;
mod subcompactions;
pub mod ttl;
mod value_separation;

pub use compact::{CompactJob, KeyRange};
pub use context::{
    BlobGc, Cancel, History, JobContext, JobDatabase, JobFamily, Permit, RequestThread,
};
pub use events::JobEvents;
pub use flush::FlushJob;
pub use pick::{InProgress, Manual, Pick, PickOptions, pick};
pub use remote::RemoteCompactor;
pub use stats::{Dropped, JobOutput, JobStats};
