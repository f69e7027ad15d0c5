//! The one read path: gets, merging iterators, visibility, merge operands.
//!
//! A read is given a [`View`] (memtables and tables of one family at one moment) and a sequence
//! number. [`get()`] finds one key; a [`DbIter`] walks all of them. Both run over what is in memory
//! and stop where something lacks; a small loop around them fetches it, blocking or in a future.
//! Callers, and which view is the present one, are not known here.

pub mod batch;
pub mod blob;
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
mod range_del_aggregator;
mod read_deadline;
mod user_key;
pub mod value;
pub mod view;

pub use batch::{BatchKey, multi_get};
pub use blob::{BlobCache, BlobReadOptions, BlobSource};
pub use child::Child;
pub use columns::Columns;
pub use db_iter::DbIter;
pub use get::{Found, GetScratch, get, get_async, get_in, is_written_since, operands};
pub use level::{LevelIter, Tables};
pub use merging_iter::MergingIter;
pub use value::Value;
pub use view::{Reading, View, ViewEnd};

#[cfg(test)]
mod tests;
