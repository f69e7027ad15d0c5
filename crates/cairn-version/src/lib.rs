//! The state of the LSM tree and its log: file metadata, versions, MANIFEST.
//!
//! A [`Version`] is the immutable tree of one column family at one point in time, shared by
//! readers. A [`TreeEdit`] produces the next version. The [`manifest`] logs the edits durably.
//! [`compaction_score`] computes level targets and compaction scores. This crate does not know how
//! a compaction runs.

pub mod blob_file_meta;
pub mod blob_gc;
pub mod bounds;
pub mod builder;
pub mod compaction_score;
pub mod edit;
mod edit_record;
pub mod file_meta;
pub mod level;
pub mod manifest;
pub mod open_tables;
pub mod periodic_phase;
pub mod table_source;
pub mod version;

#[cfg(test)]
mod tests;

pub use blob_file_meta::{BlobFileMeta, BlobGarbage};
pub use builder::Builder;
pub use edit::TreeEdit;
pub use file_meta::FileMeta;
pub use level::LevelFiles;
pub use open_tables::{OpenTables, TableRef, TableSlot};
pub use table_source::{FileToOpen, TableSource, open_together, table_dir};
pub use version::Version;
