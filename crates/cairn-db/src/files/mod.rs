//! Operations on files outside of the tree: tables written and read without a database, ingestion,
//! checkpoints, exports, and lists of files.

pub(crate) mod capture;
pub(crate) mod checkpoint;
pub(crate) mod copy;
mod destroy;
mod export;
mod external;
pub(crate) mod host;
pub(crate) mod ingest;
mod kept;
pub(crate) mod live;
pub(crate) mod lost;
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
pub use ingest::{Ingestion, ReplaceRange};
pub use live::{
    BlobMetaData, ColumnFamilyMetaData, ColumnFamilyMetaDataOptions, FileType, LevelMetaData,
    LiveFileMetaData, LiveFileStorageInfo, LiveFilesStorageInfoOptions,
};
pub use repair::{LostTable, Quarantine, RepairReport, quarantine, repair};
pub use sorted_run::{SortedRunBuilder, SortedRunBuilderOptions};
pub use sst_reader::{SstFileReader, SstIter};
pub use sst_writer::{ExternalSstFileInfo, SstFileWriter};
