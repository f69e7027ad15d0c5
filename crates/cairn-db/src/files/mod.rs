//! Operations on files outside of the tree.
//!
//! | module | file operation | needs |
//! |---|---|---|
//! | `sst_writer`, `sst_reader` | tables outside of a database | a world and options |
//! | `sorted_run` | such tables from unsorted entries | a database of its own |
//! | `destroy`, `repair` | a database that is not open | a world; a repair opens it once at its end |
//! | `live`, `capture` | lists of the files of a consistent state, and their checksums | [`host::Host`] |
//! | `checkpoint`, `export` | copies made of links | [`host::Host`] |
//! | `prepared_info` | descriptions of tables for an ingestion | [`host::Host`] |
//! | `ingest`, imports in `export` | tables that become part of a database | [`host::Host`] |
//! | `handoff`, `inherited_files` | wrappers of the file system of an open database | a file system |
//! | `copy`, `staging`, `lost`, `kept`, `external` | parts of these | a file system; `kept` a host |
//!
//! The code consists of functions over components. It has no state of the database, and acquires the locks of
//! components only through their functions:
//!
//! - Catalog: [`families`](crate::catalog::Catalog::families) and their views; an [`Editor`](crate::catalog::install::Editor)
//!   for `live_files`, `prepare` and `commit`; `deletions` for pins and for files that were not added; `numbers`, `snapshots`
//!   (count and pause), `sources` (directories), `options_files`.
//! - Write path ([`host::WriteHost`]): lead, end and sync of the logs, creation of families.
//! - Jobs ([`host::JobHost`]): flushes, inputs of compactions, scheduling, purges.
//! - Context, telemetry, settings: read-only; events, tickers and times are reported.
//!
//! The folder is not a crate. Ingestion, import and checkpoint need the lead, the editor and the inputs of
//! compactions, and a repair needs an opening that replays logs above given sequence numbers. A crate above
//! this one would make all of these public, and any caller could then violate the lock order; a crate below
//! cannot depend on the catalog. The modules that need only a world are too few for a crate.

pub(crate) mod capture;
pub(crate) mod checkpoint;
pub(crate) mod copy;
mod destroy;
mod export;
mod external;
pub(crate) mod handoff;
pub(crate) mod host;
pub(crate) mod ingest;
pub(crate) mod inherited_files;
pub(crate) mod kept;
pub(crate) mod live;
pub(crate) mod lost;
mod prepared_info;
mod repair;
mod sorted_run;
mod sst_reader;
mod sst_writer;
pub(crate) mod staging;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use destroy::destroy;
pub use export::ExportImportFilesMetaData;
pub use ingest::{FileIngestionHandle, Ingestion, ReplaceRange};
pub use live::{
    BlobMetaData, ColumnFamilyMetaData, ColumnFamilyMetaDataOptions, FileType, LevelMetaData,
    LiveFileMetaData, LiveFileStorageInfo, LiveFilesStorageInfoOptions,
};
pub use prepared_info::PreparedFileInfo;
pub use repair::{LostTable, Quarantine, RepairReport, quarantine, repair};
pub use sorted_run::{SortedRunBuilder, SortedRunBuilderOptions};
pub use sst_reader::{SstFileReader, SstIter};
pub use sst_writer::{ExternalSstFileInfo, SstFileWriter};
