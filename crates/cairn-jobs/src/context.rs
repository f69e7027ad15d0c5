//! The context of a job.

use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_observe::statistics::Meter;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::{Arc, AtomicBool, Ordering};
use cairn_platform::{Io, IoKind, IoPriority, LimitedFile, Limits, World, WritableFile};
use cairn_read::BlobSource;
use cairn_table::Table;
use cairn_types::{FileNumber, KeyOrder, Result, SequenceNumber};
use cairn_version::{FileMeta, Version, blob_gc};

use crate::events::JobEvents;

/// Opens a table of a level, or finds it open.
pub type OpenTable = dyn Fn(&Arc<FileMeta>, usize) -> Result<Arc<Table>> + Send + Sync;

/// Gives out file numbers, each once.
pub type NewNumber = dyn Fn() -> FileNumber + Send + Sync;

/// Asks for a thread more, which works for the job as long as the permit lives.
pub type RequestThread = dyn Fn() -> Option<Permit> + Send + Sync;

/// The leave to let one thread more work for a job; ends when it is dropped.
pub type Permit = Box<dyn Send>;

/// The context of a job: the family, the database, and the state of readers at its start.
#[derive(Clone)]
pub struct JobContext {
    /// Files, time, threads, randomness.
    pub world: World,
    /// The executor of reads.
    pub io: Io,
    /// How urgent its reads and writes are to a rate limiter.
    pub io_priority: IoPriority,
    /// Opens the tables that a compaction reads.
    pub open: Arc<OpenTable>,
    /// Gives out numbers for the tables that a job writes.
    pub new_number: Arc<NewNumber>,
    /// The family that the job works on.
    pub family: JobFamily,
    /// The database that the family is of.
    pub database: JobDatabase,
    /// Which blobs a compaction moves to new files.
    pub blob_gc: BlobGc,
    /// Sequence numbers of snapshots, ascending, as they were when the job's inputs
    /// had become immutable. Snapshots taken later see all of the inputs.
    pub snapshots: Vec<SequenceNumber>,
    /// The receiver of the events of the job.
    pub events: Option<Arc<dyn JobEvents>>,
    /// The flags that end the job: it then fails with `Aborted` soon.
    pub cancel: Cancel,
    /// The meter of the job's work.
    pub meter: Meter,
    /// The source of spare threads for the job; called often while it runs. Without it,
    /// never.
    pub request_thread: Option<Arc<RequestThread>>,
}

/// The family that a job works on.
#[derive(Clone)]
pub struct JobFamily {
    /// Its id.
    pub id: u32,
    /// Its name.
    pub name: String,
    /// The order of its keys.
    pub order: KeyOrder,
    /// Its options.
    pub options: Arc<FamilyOptions>,
    /// Its directories of tables, by path id.
    pub dirs: Vec<PathBuf>,
    /// Its blob files.
    pub blobs: Arc<BlobSource>,
}

/// The database that the family of a job is of.
#[derive(Clone)]
pub struct JobDatabase {
    /// Its options.
    pub options: Arc<DbOptions>,
    /// Its id.
    pub id: String,
    /// The id of this session of it.
    pub session_id: String,
    /// The name of this host.
    pub host_id: String,
}

impl JobContext {
    /// Creates a file that the job writes, within the database's limit.
    pub(crate) fn create(&self, path: &Path) -> Result<Arc<dyn WritableFile>> {
        let mode = FileMode {
            direct: self.database.options.use_direct_io_for_flush_and_compaction,
            ..FileMode::default()
        };
        let file = self.world.fs.create(path, mode)?;
        Ok(match self.limits(IoKind::Write) {
            Some(limits) => Arc::new(LimitedFile::new(file, limits)),
            None => file,
        })
    }

    /// Makes the job's reads keep the database's limit, if that counts reads.
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

    /// Where the table of this number lies, or goes, in the directory `path_id`.
    pub(crate) fn path_of(&self, number: FileNumber, path_id: u32) -> PathBuf {
        let dir = self
            .family
            .dirs
            .get(path_id as usize)
            .or(self.family.dirs.first());
        let name = FileName::Table(number).to_string();
        dir.map_or_else(|| PathBuf::from(&name), |dir| dir.join(&name))
    }

    /// Where the table of `file` lies.
    pub(crate) fn table_path(&self, file: &FileMeta) -> PathBuf {
        self.path_of(file.number, file.path_id)
    }
}

/// The flags of which each ends a job.
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    flags: Vec<Arc<AtomicBool>>,
}

impl Cancel {
    /// Any of `flags`, once it is set.
    #[must_use]
    pub fn any(flags: impl IntoIterator<Item = Arc<AtomicBool>>) -> Cancel {
        Cancel {
            flags: flags.into_iter().collect(),
        }
    }

    /// True if the job is to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flags.iter().any(|flag| flag.load(Ordering::Acquire))
    }
}

/// Which blobs compactions move to new files, so that old ones can go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlobGc {
    /// True if blobs are moved at all because of their age.
    pub enabled: bool,
    /// The share of the blob files, oldest first, that are moved out of.
    pub age_cutoff: f64,
    /// Bytes that blob files may take for each byte of live blobs in them; 0 for any number. When
    /// they take more, the oldest files are moved out of whatever their age.
    pub space_target: f64,
}

impl BlobGc {
    /// The settings by the options of a family.
    #[must_use]
    pub fn new(options: &FamilyOptions) -> BlobGc {
        BlobGc {
            enabled: options.enable_blob_garbage_collection,
            age_cutoff: options.blob_garbage_collection_age_cutoff,
            space_target: options.blob_space_target,
        }
    }

    /// The number of the first blob file of `version` that is not moved out of.
    #[must_use]
    pub fn relocate_below(&self, version: &Version) -> FileNumber {
        let by_age = match self.enabled {
            true => blob_gc::age_cutoff(version, self.age_cutoff),
            false => FileNumber(0),
        };
        by_age.max(blob_gc::space_cutoff(version, self.space_target))
    }
}
