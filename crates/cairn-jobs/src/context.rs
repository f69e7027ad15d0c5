//! What every job needs of its surroundings, and what it says when it is done.

use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_observe::perf::io::FileTimes;
use cairn_observe::statistics::Meter;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::{Arc, AtomicBool, Ordering};
use cairn_platform::{Io, IoKind, IoPriority, LimitedFile, Limits, World, WritableFile};
use cairn_read::BlobSource;
use cairn_table::Table;
use cairn_types::{FileNumber, KeyOrder, Result, SequenceNumber};
use cairn_version::{FileMeta, TreeEdit, Version, blob_gc};

use crate::events::JobEvents;

/// Opens a table of a level, or finds it open.
pub type OpenTable = dyn Fn(&Arc<FileMeta>, usize) -> Result<Arc<Table>> + Send + Sync;

/// Gives out file numbers, each once.
pub type NewNumber = dyn Fn() -> FileNumber + Send + Sync;

/// Asks for a thread more, which works for the job as long as the permit lives.
pub type Spare = dyn Fn() -> Option<Permit> + Send + Sync;

/// The leave to let one thread more work for a job; ends when it is dropped.
pub type Permit = Box<dyn Send>;

/// What every job needs of its surroundings.
#[derive(Clone)]
pub struct JobContext {
    /// Files, time, threads, randomness.
    pub world: World,
    /// Who carries reads out.
    pub io: Io,
    /// How urgent its reads and writes are to a rate limiter.
    pub io_priority: IoPriority,
    /// Opens the tables that a compaction reads.
    pub open: Arc<OpenTable>,
    /// Gives out numbers for the tables that a job writes.
    pub new_number: Arc<NewNumber>,
    /// The family's blob files.
    pub blobs: Arc<BlobSource>,
    /// Which blobs a compaction moves to new files.
    pub blob_gc: BlobGc,
    /// The family's directories of tables, by path id.
    pub dirs: Vec<PathBuf>,
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
    /// Who is told what the job does.
    pub events: Option<Arc<dyn JobEvents>>,
    /// Who may want the job to end. It then fails with `Aborted` soon.
    pub cancel: Cancel,
    /// What counts and measures the job's work.
    pub meter: Meter,
    /// Whether the machine has a thread to spare for the job; asked often while it runs. Without it,
    /// never.
    pub spare: Option<Arc<Spare>>,
}

impl JobContext {
    /// Creates a file that the job writes, within the database's limit.
    pub(crate) fn create(&self, path: &Path) -> Result<Arc<dyn WritableFile>> {
        let mode = FileMode {
            direct: self.db_options.use_direct_io_for_flush_and_compaction,
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
        let limiter = self.db_options.rate_limiter.as_ref()?;
        limiter.limits(kind).then(|| Limits {
            limiter: limiter.clone(),
            clock: self.world.clock.clone(),
            priority: self.io_priority,
            watch: Some(Arc::new(self.meter.clone())),
        })
    }

    /// Where the table of this number lies, or goes, in the directory `path_id`.
    pub(crate) fn path_of(&self, number: FileNumber, path_id: u32) -> PathBuf {
        let dir = self.dirs.get(path_id as usize).or(self.dirs.first());
        let name = FileName::Table(number).to_string();
        dir.map_or_else(|| PathBuf::from(&name), |dir| dir.join(&name))
    }

    /// Where the table of `file` lies.
    pub(crate) fn table_path(&self, file: &FileMeta) -> PathBuf {
        self.path_of(file.number, file.path_id)
    }
}

/// What may tell a job to end: any of several flags.
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

    /// Whether the job is to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.flags.iter().any(|flag| flag.load(Ordering::Acquire))
    }
}

/// Which blobs compactions move to new files, so that old ones can go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlobGc {
    /// Whether blobs are moved at all because of their age.
    pub enabled: bool,
    /// The share of the blob files, oldest first, that are moved out of.
    pub age_cutoff: f64,
    /// Bytes that blob files may take for each byte of live blobs in them; 0 for any number. When
    /// they take more, the oldest files are moved out of whatever their age.
    pub space_target: f64,
}

impl BlobGc {
    /// What the options of a family say.
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
    /// More of them; of a part of a compaction only if it is the only one.
    pub input_raw: RawInput,
    /// Whether a filter made it jump over entries, which nobody counted.
    pub inexact: bool,
    /// Blobs that were read.
    pub blobs_read: BlobsRead,
    /// Tables written.
    pub output_files: u64,
    /// Bytes of the tables written.
    pub output_bytes: u64,
    /// Point entries written.
    pub output_entries: u64,
    /// Blob files written.
    pub output_blob_files: u64,
    /// Bytes of the blob files written.
    pub output_blob_bytes: u64,
    /// Bytes of keys and values of the tables written, as they were before they were packed.
    pub output_raw_bytes: u64,
    /// What was read and not written, and why.
    pub dropped: Dropped,
    /// Blobs that were moved to other files, or into tables.
    pub relocated_blobs: u64,
    /// Their bytes, as they were stored.
    pub relocated_blob_bytes: u64,
    /// Nanoseconds that processors worked for it.
    pub cpu_nanos: u64,
    /// How long its calls that write files took; only a compaction under `report_bg_io_stats` looks.
    pub file_times: FileTimes,
}

impl JobStats {
    /// Adds what another part of the job read and wrote.
    pub(crate) fn add(&mut self, part: &JobStats) {
        self.input_bytes += part.input_bytes;
        self.input_entries += part.input_entries;
        self.inexact |= part.inexact;
        self.blobs_read = self.blobs_read.and(&part.blobs_read);
        self.output_files += part.output_files;
        self.output_bytes += part.output_bytes;
        self.output_entries += part.output_entries;
        self.output_blob_files += part.output_blob_files;
        self.output_blob_bytes += part.output_blob_bytes;
        self.output_raw_bytes += part.output_raw_bytes;
        self.dropped.add(&part.dropped);
        self.relocated_blobs += part.relocated_blobs;
        self.relocated_blob_bytes += part.relocated_blob_bytes;
        self.cpu_nanos += part.cpu_nanos;
        self.file_times.add(&part.file_times);
    }
}

/// What the properties of the tables that a compaction reads say of their entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawInput {
    /// Bytes of their internal keys, range tombstones included.
    pub key_bytes: u64,
    /// Bytes of their values, range tombstones included.
    pub value_bytes: u64,
    /// Those of them that are deletions of a key.
    pub deletions: u64,
}

/// Blobs that a job read: for filters, for merge operands above them, and to move them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobsRead {
    /// How many, each time that one was read.
    pub count: u64,
    /// Bytes of their records, as they are stored.
    pub bytes: u64,
}

impl BlobsRead {
    /// One more, whose record has `bytes` bytes.
    pub(crate) fn count(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes += bytes;
    }

    /// These and `others`.
    pub(crate) fn and(&self, others: &BlobsRead) -> BlobsRead {
        BlobsRead {
            count: self.count + others.count,
            bytes: self.bytes + others.bytes,
        }
    }
}

/// What a job read and did not write. An entry counts under every heading that fits it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Entries below a newer one of the same key, or below a range tombstone.
    pub hidden: u64,
    /// Deletions that nothing was left to be hidden by.
    pub obsolete: u64,
    /// Those of them that were not at the bottom of the tree: no level below held their keys.
    pub obsolete_early: u64,
    /// Entries that a range tombstone covered.
    pub covered: u64,
    /// Single deletions among the obsolete ones that found no older entry of their key.
    pub single_alone: u64,
    /// Single deletions that found something else than a value right below them.
    pub single_mismatched: u64,
    /// Entries that the user's filter removed.
    pub filtered: u64,
    /// Range tombstones, each piece of one that fragments were cut to.
    pub range_deletions: u64,
}

impl Dropped {
    fn add(&mut self, more: &Dropped) {
        self.hidden += more.hidden;
        self.obsolete += more.obsolete;
        self.obsolete_early += more.obsolete_early;
        self.covered += more.covered;
        self.single_alone += more.single_alone;
        self.single_mismatched += more.single_mismatched;
        self.filtered += more.filtered;
        self.range_deletions += more.range_deletions;
    }
}
