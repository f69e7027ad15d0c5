//! What every job needs of its surroundings, and what it says when it is done.

use std::path::PathBuf;

use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::sync::{Arc, AtomicBool};
use cairn_platform::{Io, World};
use cairn_read::BlobSource;
use cairn_table::Table;
use cairn_types::{FileNumber, KeyOrder, Result, SequenceNumber};
use cairn_version::{FileMeta, TreeEdit};

/// Opens a table of a level, or finds it open.
pub type OpenTable = dyn Fn(&Arc<FileMeta>, usize) -> Result<Arc<Table>> + Send + Sync;

/// Gives out file numbers, each once.
pub type NewNumber = dyn Fn() -> FileNumber + Send + Sync;

/// What every job needs of its surroundings.
#[derive(Clone)]
pub struct JobContext {
    /// Files, time, threads, randomness.
    pub world: World,
    /// Who carries reads out.
    pub io: Io,
    /// Opens the tables that a compaction reads.
    pub open: Arc<OpenTable>,
    /// Gives out numbers for the tables that a job writes.
    pub new_number: Arc<NewNumber>,
    /// Where the family's new tables go.
    pub dir: PathBuf,
    /// The id of the family.
    pub family_id: u32,
    /// The name of the family.
    pub family_name: String,
    /// The order of its keys.
    pub order: KeyOrder,
    /// Its options.
    pub options: Arc<FamilyOptions>,
    /// The database's options.
    pub db_options: Arc<DbOptions>,
    /// The database's id.
    pub db_id: String,
    /// The id of this session of it.
    pub session_id: String,
    /// The name of this host.
    pub host_id: String,
    /// Sequence numbers at which somebody reads, ascending, as they were when the job's inputs
    /// had become immutable. Snapshots taken later see all of the inputs.
    pub snapshots: Vec<SequenceNumber>,
    /// Where values in blob files are read; none if there are no blob files.
    pub blobs: Option<Arc<BlobSource>>,
    /// Set by who wants the job to end. It then fails with `Aborted` soon.
    pub cancel: Arc<AtomicBool>,
}

/// What a job did.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// The change that makes its outputs part of the tree. Nothing is visible, and nothing may be
    /// dropped, before the caller has installed it. Files and their names are synced.
    pub edit: TreeEdit,
    /// Counts, for the log and for statistics.
    pub stats: JobStats,
}

/// What a job read and wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobStats {
    /// Bytes of the input tables or memtables.
    pub input_bytes: u64,
    /// Point entries read.
    pub input_entries: u64,
    /// Tables written.
    pub output_files: u64,
    /// Bytes of the tables written.
    pub output_bytes: u64,
    /// Point entries written.
    pub output_entries: u64,
}
