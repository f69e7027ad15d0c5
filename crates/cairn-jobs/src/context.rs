//! The environment of a job: family, database, snapshots and services.

use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_format::seqno_times::SeqnoTimes;
use cairn_memory::ChargePolicy;
use cairn_observe::statistics::Meter;
use cairn_options::{DbOptions, FamilyOptions, Temperature};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::{Arc, AtomicBool, Ordering};
use cairn_platform::{Io, IoKind, IoPriority, LimitedFile, Limits, World, WritableFile};
use cairn_read::BlobSource;
use cairn_table::Table;
use cairn_types::{FileNumber, KeyOrder, Result, SequenceNumber};
use cairn_version::{FileMeta, Version, blob_gc, table_dir};

use crate::events::JobEvents;

/// Opens a table at a level, or returns it if it is open.
pub type OpenTable = dyn Fn(&Arc<FileMeta>, usize) -> Result<Arc<Table>> + Send + Sync;

/// Allocates a file number.
pub type NewNumber = dyn Fn() -> FileNumber + Send + Sync;

/// Requests an extra thread for the job. `None` if none is available.
pub type RequestThread = dyn Fn() -> Option<Permit> + Send + Sync;

/// The right to use one extra thread for a job. Dropping it returns the thread.
pub type Permit = Box<dyn Send>;

/// The environment of a job: the family, the database, and the snapshots at its start.
#[derive(Clone)]
pub struct JobContext {
    /// File system, clock, executor and random numbers.
    pub world: World,
    /// Issues reads.
    pub io: Io,
    /// Rate limiter priority of the job's I/O.
    pub io_priority: IoPriority,
    /// Opens the tables that a compaction reads.
    pub open: Arc<OpenTable>,
    /// Allocates numbers for the tables that the job writes.
    pub new_number: Arc<NewNumber>,
    /// The column family.
    pub family: JobFamily,
    /// The database.
    pub database: JobDatabase,
    /// Blob garbage collection settings.
    pub blob_gc: BlobGc,
    /// Sequence numbers of live snapshots, ascending, taken after the job's inputs became immutable.
    /// Every later snapshot sees all inputs.
    pub snapshots: Vec<SequenceNumber>,
    /// The treatment of old timestamps.
    pub history: History,
    /// Samples of sequence numbers and times; empty if the family preserves no write times.
    pub seqno_times: Arc<SeqnoTimes>,
    /// Receiver of job events.
    pub events: Option<Arc<dyn JobEvents>>,
    /// Cancellation token: once set, the job fails with `Aborted`.
    pub cancel: Cancel,
    /// Statistics sink of the job.
    pub meter: Meter,
    /// Source of extra threads, queried periodically while the job runs. `None` disables runtime
    /// splits.
    pub request_thread: Option<Arc<RequestThread>>,
}

/// The treatment of old timestamps by a job, in a family whose keys have timestamps.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// `full_history_ts_low`: of the versions with older timestamps, only the newest is kept. Empty if all are kept.
    pub low: Vec<u8>,
    /// Versions with newer timestamps are dropped.
    pub trim: Option<Vec<u8>>,
}

/// The column family of a job.
#[derive(Clone)]
pub struct JobFamily {
    /// Column family id.
    pub id: u32,
    /// Column family name.
    pub name: String,
    /// Key order.
    pub order: KeyOrder,
    /// Column family options.
    pub options: Arc<FamilyOptions>,
    /// Table directories, by path id.
    pub dirs: Vec<PathBuf>,
    /// Blob files of the family.
    pub blobs: Arc<BlobSource>,
    /// The memory of jobs that is charged to the family's block cache.
    pub charge: ChargePolicy,
}

/// The database of a job.
#[derive(Clone)]
pub struct JobDatabase {
    /// Database options.
    pub options: Arc<DbOptions>,
    /// Database id.
    pub id: String,
    /// Session id.
    pub session_id: String,
    /// Host name.
    pub host_id: String,
}

impl JobContext {
    /// Creates an output file with a temperature, subject to the rate limit of the database.
    pub(crate) fn create(
        &self,
        path: &Path,
        temperature: Temperature,
    ) -> Result<Arc<dyn WritableFile>> {
        let mode = FileMode {
            direct: self.database.options.use_direct_io_for_flush_and_compaction,
            temperature: temperature.number(),
            ..FileMode::default()
        };
        let file = self.world.fs.create(path, mode)?;
        Ok(match self.limits(IoKind::Write) {
            Some(limits) => Arc::new(LimitedFile::new(file, limits)),
            None => file,
        })
    }

    /// Applies the database's rate limit to the reads of the job if the limiter covers reads.
    pub fn limit_reads(&mut self) {
        if let Some(limits) = self.limits(IoKind::Read) {
            self.io = self.io.limited(limits);
        }
    }

    fn limits(&self, kind: IoKind) -> Option<Limits> {
        let limiter = self.database.options.rate_limiter.as_ref()?;
        limiter.limits(kind).then(|| Limits {
            limiter: limiter.clone(),
            clock: self.world.clock.clone(),
            priority: self.io_priority,
            watch: Some(Arc::new(self.meter.clone())),
        })
    }

    /// Returns the path of table `number` in the directory `path_id`.
    pub(crate) fn path_of(&self, number: FileNumber, path_id: u32) -> PathBuf {
        let dir = table_dir(&self.family.dirs, path_id);
        let name = FileName::Table(number).to_string();
        dir.map_or_else(|| PathBuf::from(&name), |dir| dir.join(&name))
    }

    /// Returns the path of `file`.
    pub(crate) fn table_path(&self, file: &FileMeta) -> PathBuf {
        self.path_of(file.number, file.path_id)
    }
}

/// A cancellation token: a set of flags, any of which cancels a job.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flags: Vec<Arc<AtomicBool>>,
}

impl Cancel {
    /// Creates a token that is set once any of `flags` is set.
    #[must_use]
    pub fn any(flags: impl IntoIterator<Item = Arc<AtomicBool>>) -> Cancel {
        Cancel {
            flags: flags.into_iter().collect(),
        }
    }

    /// True if the job must stop.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flags.iter().any(|flag| flag.load(Ordering::Acquire))
    }
}

/// Settings that decide which blobs compactions relocate, so that old blob files become obsolete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlobGc {
    /// True if blobs are relocated by age.
    pub enabled: bool,
    /// The fraction of the blob files, oldest first, whose blobs are relocated.
    pub age_cutoff: f64,
    /// Target ratio of total blob bytes to live blob bytes; 0 disables it. Above the target the oldest
    /// files are relocated regardless of `age_cutoff`.
    pub space_target: f64,
}

impl BlobGc {
    /// Takes the settings from the options of a column family.
    #[must_use]
    pub fn new(options: &FamilyOptions) -> BlobGc {
        BlobGc {
            enabled: options.enable_blob_garbage_collection,
            age_cutoff: options.blob_garbage_collection_age_cutoff,
            space_target: options.blob_space_target,
        }
    }

    /// Returns the number of the first blob file of `version` that is not relocated.
    #[must_use]
    pub fn relocate_below(&self, version: &Version) -> FileNumber {
        let by_age = match self.enabled {
            true => blob_gc::age_cutoff(version, self.age_cutoff),
            false => FileNumber(0),
        };
        by_age.max(blob_gc::space_cutoff(version, self.space_target))
    }
}
