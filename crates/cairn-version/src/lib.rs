//! The tree's state and its log: file metadata, versions, MANIFEST.
//!
//! A [`Version`] is the tree of one column family at one moment: an immutable value that readers
//! share. A [`TreeEdit`] makes the next one of it. The [`manifest`] keeps the edits, so that a
//! crash loses none that was synced. [`shape`] computes how far a tree is from the form it should
//! have. How a compaction runs is not known here.

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
pub use table_source::TableSource;
pub use version::Version;
