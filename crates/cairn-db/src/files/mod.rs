//! Files that enter and leave a database: tables written and read outside of one, ingestion,
//! checkpoints, exports, and what files there are.

pub(crate) mod copy;
mod external;
pub(crate) mod ingest;
mod sst_reader;
mod sst_writer;

pub use ingest::{Ingestion, ReplaceRange};
pub use sst_reader::{SstFileReader, SstIter};
pub use sst_writer::{ExternalSstFileInfo, SstFileWriter};
