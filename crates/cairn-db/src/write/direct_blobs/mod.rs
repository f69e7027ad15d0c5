//! Direct writes of blobs: the blob files that writers append to, of one family.
//!
//! With `enable_blob_direct_write`, a write appends large values to a blob file before it joins the write queue
//! ([`crate::write::separate`]). The log and the memtable get blob indexes in place of these values. There are
//! `blob_direct_write_partitions` open files per family, used in turn; writers of different files do not wait for each
//! other.
//!
//! ```text
//! open in a partition -> full (blob_file_size) -> of a generation (memtable switch) -> sealed -> in the version
//!                                                                 (flush: footer, sync)   (same edit as the table)
//! ```
//!
//! Invariants:
//!
//! D1. A file is sealed and synced before the edit that adds it, which also adds the table that refers to it. Until then
//!     no MANIFEST names it. Tables refer only to files that their own flush added: a flush relocates all other values.
//!     A version can thus drop a blob file without regard to memtables.
//! D2. A log is synced only after all appended blobs ([`Unsynced`]), and no entry is logged that refers to a file whose
//!     sync has failed. Its values are relocated by the next flush, which verifies their checksums.
//! D3. A file is not deleted while a write that appended to it is in progress, or a memtable exists that may refer to it
//!     ([`DirectFile::is_pinned`]). A write that begins before a memtable switch and ends after it leaves its value in a
//!     file of the earlier memtable: the flush of the later one relocates it.
//! D4. Values that a flush leaves without an entry (overwritten, of a failed write, relocated later) are garbage of the
//!     file from its addition on. If nothing refers to a file, it is not added, and is deleted.
//! D5. Recovery relocates every value that an entry of the logs refers to, and deletes the files that it finds.
//!
//! An append costs one `write` per batch and family. Families without the option have no partitions: a memtable switch
//! and an install check that, and writes check one flag of the database.

mod file;
mod unsynced;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Weak};

use cairn_blob::BlobParams;
use cairn_compress::{CodecOptions, Compression};
use cairn_format::blob::BlobIndex;
use cairn_memtable::Memtable;
use cairn_observe::statistics::Meter;
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::FileSystem;
use cairn_platform::sync::{AtomicUsize, Mutex, Ordering};
use cairn_read::BlobSource;
use cairn_types::{Error, FileNumber, Result};
use cairn_version::BlobFileMeta;

pub(crate) use file::{DirectFile, Ticket};
pub(crate) use unsynced::Unsynced;

/// The blob files of a family that writers append to, or that no version has yet.
pub(crate) struct DirectBlobs {
    /// The open files; empty without `enable_blob_direct_write`.
    partitions: Vec<Mutex<Option<Arc<DirectFile>>>>,
    /// The number of appends, which are distributed over the partitions.
    appends: AtomicUsize,
    ended: Mutex<Ended>,
}

/// Files that take no more values.
#[derive(Default)]
struct Ended {
    /// Files that are full, of the active memtable.
    full: Vec<Arc<DirectFile>>,
    /// The files of immutable memtables, oldest first.
    generations: VecDeque<Generation>,
    /// True once the family is dropped or the database is closed.
    is_closed: bool,
}

/// The files that were written while a memtable was active.
struct Generation {
    memtable: Weak<Memtable>,
    files: Vec<Arc<DirectFile>>,
}

/// The services that an append needs from the database.
pub(crate) struct AppendEnv<'a> {
    pub(crate) fs: &'a dyn FileSystem,
    pub(crate) blobs: &'a BlobSource,
    pub(crate) unsynced: &'a Arc<Unsynced>,
    pub(crate) new_number: &'a dyn Fn() -> FileNumber,
    pub(crate) meter: Meter,
    pub(crate) db: &'a DbOptions,
    pub(crate) family: &'a FamilyOptions,
    pub(crate) family_id: u32,
}

/// Files that are about to leave the set, because their memtables are flushed or their family is dropped.
#[derive(Default)]
pub(crate) struct Retired {
    /// Files that the version has.
    pub(crate) added: Vec<Arc<DirectFile>>,
    /// Files that nothing refers to, except memtables that will relocate the values.
    pub(crate) unneeded: Vec<Arc<DirectFile>>,
}

impl DirectBlobs {
    /// Creates the set of a family with `options`, without files.
    pub(crate) fn new(options: &FamilyOptions) -> DirectBlobs {
        let partitions = match options.enable_blob_direct_write {
            true => options.blob_direct_write_partitions.max(1) as usize,
            false => 0,
        };
        DirectBlobs {
            partitions: (0..partitions).map(|_| Mutex::default()).collect(),
            appends: AtomicUsize::new(0),
            ended: Mutex::default(),
        }
    }

    /// True if values of the family can be written directly.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.partitions.is_empty()
    }

    /// Returns the minimum size of values that are written directly under `options`, and their codec; `None` if none are.
    pub(crate) fn limits(&self, options: &FamilyOptions) -> Option<(u64, Compression)> {
        let separates = options.enable_blob_files && options.blob_file_starting_level <= 0;
        let limits = (options.min_blob_size.max(1), options.blob_compression_type);
        (self.is_on() && separates).then_some(limits)
    }

    /// Appends `values`, pairs of a key and a value, to one partition, and adds their indexes to `indexes`. The files are
    /// kept while the `tickets` exist.
    ///
    /// # Errors
    ///
    /// `IoError`; `InvalidArgument` if the family was dropped.
    pub(crate) fn append(
        &self,
        env: &AppendEnv<'_>,
        values: &[(&[u8], &[u8])],
        indexes: &mut Vec<BlobIndex>,
        tickets: &mut Vec<Ticket>,
    ) -> Result<()> {
        // Relaxed: only the distribution depends on it.
        let at = self.appends.fetch_add(1, Ordering::Relaxed) % self.partitions.len();
        let mut open = self.partitions[at].lock();
        let appended = self.append_to(&mut open, env, values, indexes, tickets);
        if appended.is_err()
            && let Some(file) = open.take()
        {
            self.ended.lock().full.push(file);
        }
        appended
    }

    fn append_to(
        &self,
        open: &mut Option<Arc<DirectFile>>,
        env: &AppendEnv<'_>,
        values: &[(&[u8], &[u8])],
        indexes: &mut Vec<BlobIndex>,
        tickets: &mut Vec<Ticket>,
    ) -> Result<()> {
        let compression = env.family.blob_compression_type;
        let fits = |file: &Arc<DirectFile>| file.compression() == compression && !file.has_failed();
        if open.as_ref().is_some_and(|file| !fits(file)) {
            self.ended.lock().full.extend(open.take());
        }
        let mut rest = values;
        while !rest.is_empty() {
            if self.ended.lock().is_closed {
                return Err(Error::invalid_argument(
                    "the column family was dropped, or the database is being closed",
                ));
            }
            let file = match open {
                Some(file) => file.clone(),
                None => open.insert(create(env, compression)?).clone(),
            };
            tickets.push(file.ticket());
            let taken = file.append(rest, env.family.blob_file_size, indexes)?;
            rest = &rest[taken..];
            if file.len() >= env.family.blob_file_size {
                self.ended.lock().full.extend(open.take());
            }
        }
        Ok(())
    }

    /// True if a blob file exists that no version has.
    pub(crate) fn has_files(&self) -> bool {
        if !self.is_on() {
            return false;
        }
        let is_open = |partition: &Mutex<Option<_>>| partition.lock().is_some();
        let ended = self.ended.lock();
        let has_ended = !ended.full.is_empty() || !ended.generations.is_empty();
        drop(ended);
        has_ended || self.partitions.iter().any(is_open)
    }

    /// Returns the numbers of the files.
    pub(crate) fn numbers(&self) -> Vec<FileNumber> {
        let open = self.partitions.iter();
        let open: Vec<_> = open.filter_map(|open| open.lock().clone()).collect();
        let ended = self.ended.lock();
        let waiting = ended.generations.iter().flat_map(|one| &one.files);
        let all = waiting.chain(&ended.full).chain(&open);
        all.map(|file| file.number()).collect()
    }

    /// True if the file `number` belongs to memtables that are not flushed.
    pub(crate) fn owns(&self, number: FileNumber) -> bool {
        let ended = self.ended.lock();
        let mut files = ended.generations.iter().flat_map(|one| &one.files);
        files.any(|file| file.number() == number)
    }

    /// Ends the open files, as those of `memtable`, which becomes immutable. The caller leads: all logged writes are
    /// inserted.
    pub(crate) fn switch(&self, memtable: &Arc<Memtable>) {
        if !self.is_on() {
            return;
        }
        let open = self.take_open();
        let mut ended = self.ended.lock();
        let mut files = std::mem::take(&mut ended.full);
        files.extend(open);
        if !files.is_empty() {
            ended.generations.push_back(Generation {
                memtable: Arc::downgrade(memtable),
                files,
            });
        }
    }

    /// Takes the files of the active memtable whose sync has failed. The memtable is empty: only writes that failed, or that
    /// will, have values in them.
    pub(crate) fn take_failed(&self) -> Retired {
        let has_failed = |file: &Arc<DirectFile>| file.sync_error().is_some();
        let mut unneeded = Vec::new();
        for partition in &self.partitions {
            let mut open = partition.lock();
            unneeded.extend(open.take_if(|file| has_failed(file)));
        }
        let mut ended = self.ended.lock();
        let full = ended.full.extract_if(.., |file| has_failed(file));
        unneeded.extend(full);
        Retired {
            added: Vec::new(),
            unneeded,
        }
    }

    fn take_open(&self) -> Vec<Arc<DirectFile>> {
        let partitions = self.partitions.iter();
        partitions.filter_map(|open| open.lock().take()).collect()
    }

    /// The files of `memtables`, and of earlier ones.
    fn files_of(&self, memtables: &[Arc<Memtable>]) -> Vec<Arc<DirectFile>> {
        let ended = self.ended.lock();
        let count = ended.count_of(memtables);
        let files = ended.generations.iter().take(count);
        files.flat_map(|one| one.files.iter().cloned()).collect()
    }

    /// Completes and syncs the files of `memtables`, which are about to be flushed. A file that cannot be completed is left
    /// out: the flush relocates the values. `created` is called with each file that was not completed before.
    ///
    /// # Errors
    ///
    /// `IoError`. The next attempt leaves the file out.
    pub(crate) fn seal(
        &self,
        fs: &dyn FileSystem,
        memtables: &[Arc<Memtable>],
        created: impl Fn(&Path, &BlobFileMeta),
    ) -> Result<Vec<Arc<BlobFileMeta>>> {
        if !self.is_on() {
            return Ok(Vec::new());
        }
        let mut sealed = Vec::new();
        for file in self.files_of(memtables) {
            if let Some((meta, is_new)) = file.seal(fs)? {
                if is_new {
                    created(file.path(), &meta);
                }
                sealed.push(meta);
            }
        }
        Ok(sealed)
    }

    /// Removes the files of `flushed` memtables, whose edit has `added` blob files.
    pub(crate) fn flushed(
        &self,
        flushed: &[Arc<Memtable>],
        added: &[Arc<BlobFileMeta>],
    ) -> Retired {
        if !self.is_on() || flushed.is_empty() {
            return Retired::default();
        }
        let mut ended = self.ended.lock();
        let count = ended.count_of(flushed);
        let files = ended.generations.drain(..count).flat_map(|one| one.files);
        let is_added = |file: &Arc<DirectFile>| added.iter().any(|it| it.number == file.number());
        let (added, unneeded) = files.partition(is_added);
        Retired { added, unneeded }
    }

    /// Ends all files, because the family is dropped or the database is closed. Later appends fail. The files stay open for
    /// writes in progress, until [`Unsynced::release`] or [`Unsynced::close`].
    pub(crate) fn close(&self) -> Retired {
        if !self.is_on() {
            return Retired::default();
        }
        self.ended.lock().is_closed = true;
        let open = self.take_open();
        let mut ended = self.ended.lock();
        let mut unneeded = std::mem::take(&mut ended.full);
        unneeded.extend(open);
        unneeded.extend(ended.generations.drain(..).flat_map(|one| one.files));
        Retired {
            added: Vec::new(),
            unneeded,
        }
    }
}

impl Ended {
    /// The number of generations up to the last one of `memtables`.
    fn count_of(&self, memtables: &[Arc<Memtable>]) -> usize {
        let is_one = |one: &Generation| {
            let mut memtables = memtables.iter();
            memtables.any(|memtable| std::ptr::eq(one.memtable.as_ptr(), Arc::as_ptr(memtable)))
        };
        self.generations
            .iter()
            .rposition(is_one)
            .map_or(0, |at| at + 1)
    }
}

/// Creates a blob file, which readers find from now on.
fn create(env: &AppendEnv<'_>, compression: Compression) -> Result<Arc<DirectFile>> {
    let number = (env.new_number)();
    let codec = &env.family.blob_compression_opts;
    let params = BlobParams {
        number,
        family: env.family_id,
        compression,
        codec: CodecOptions {
            level: codec.level,
            window_bits: codec.window_bits,
            checksum: codec.checksum,
        },
        bytes_per_sync: env.db.bytes_per_sync,
        file_checksum: env.db.file_checksum_gen_factory.clone(),
        meter: env.meter.clone(),
    };
    let path = env.blobs.path(number);
    let created = DirectFile::create(env.fs, path.clone(), params, env.db.use_fsync);
    let created = created.and_then(|file| {
        env.blobs
            .open_unsealed(number)
            .inspect_err(|_| file.close())
            .map(|_| Arc::new(file))
    });
    let file = created.inspect_err(|_| {
        // If it cannot be removed, the next opening does: no MANIFEST has it.
        env.fs.remove(&path).ok();
    })?;
    env.unsynced.add(&file);
    Ok(file)
}
