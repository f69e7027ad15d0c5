//! A blob file that writers append to.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use cairn_blob::{BlobBuilder, BlobParams};
use cairn_compress::Compression;
use cairn_format::blob::BlobIndex;
use cairn_memtable::Memtable;
use cairn_observe::files::measured_writes;
use cairn_observe::statistics::{Histogram, Meter, Ticker};
use cairn_platform::fs::FileMode;
use cairn_platform::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use cairn_platform::{FileSystem, WritableFile};
use cairn_types::{Error, FileNumber, Result};
use cairn_version::BlobFileMeta;

/// A blob file that writers append to.
pub(crate) struct DirectFile {
    number: FileNumber,
    path: PathBuf,
    compression: Compression,
    use_fsync: bool,
    meter: Meter,
    file: Arc<dyn WritableFile>,
    content: Mutex<Content>,
    /// The length that readers may rely on.
    len: AtomicU64,
    /// True if something was appended since the last sync began.
    is_unsynced: AtomicBool,
    /// True if an append failed. The records before it are intact.
    has_failed: AtomicBool,
    /// True once its memtables are flushed: all of their values are in the version.
    is_retired: AtomicBool,
    syncing: Mutex<Syncing>,
    /// Writes in progress that appended to the file.
    writes: AtomicUsize,
    readers: Mutex<Readers>,
}

/// The content of the file.
enum Content {
    Growing(Box<BlobBuilder>),
    Sealed(Arc<BlobFileMeta>),
    /// The file has no footer, and gets none.
    Broken,
}

/// The state of syncs. Locked during a sync.
#[derive(Default)]
struct Syncing {
    name_synced: bool,
    is_closed: bool,
    /// The error of a sync, after which none is attempted: its success would prove nothing.
    failed: Option<Error>,
}

/// The memtables that may refer to the file.
#[derive(Default)]
struct Readers {
    memtables: Vec<Weak<Memtable>>,
    /// True once no other memtable can refer to it.
    is_complete: bool,
}

/// A write in progress that appended to a file.
pub(crate) struct Ticket(Arc<DirectFile>);

impl Drop for Ticket {
    fn drop(&mut self) {
        // Release pairs with the load of `settle`: the entries are inserted.
        self.0.writes.fetch_sub(1, Ordering::Release);
    }
}

impl DirectFile {
    /// Creates the blob file at `path`, with its header.
    pub(super) fn create(
        fs: &dyn FileSystem,
        path: PathBuf,
        params: BlobParams,
        use_fsync: bool,
    ) -> Result<DirectFile> {
        let file = fs.create(&path, FileMode::default())?;
        let meter = params.meter.clone();
        let histogram = Histogram::BlobDbBlobFileWriteMicros;
        let file = measured_writes(file, &meter, histogram);
        let (number, compression) = (params.number, params.compression);
        let created = BlobBuilder::create(file.clone(), params);
        let builder = created.and_then(|mut builder| builder.flush().map(|()| builder));
        let builder = match builder {
            Ok(builder) => builder,
            Err(error) => {
                // The error of the append is reported.
                file.close().ok();
                return Err(error);
            }
        };
        Ok(DirectFile {
            number,
            path,
            compression,
            use_fsync,
            meter,
            file,
            len: AtomicU64::new(builder.file_size()),
            content: Mutex::new(Content::Growing(Box::new(builder))),
            is_unsynced: AtomicBool::new(true),
            has_failed: AtomicBool::new(false),
            is_retired: AtomicBool::new(false),
            syncing: Mutex::default(),
            writes: AtomicUsize::new(0),
            readers: Mutex::default(),
        })
    }

    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    /// The length without the footer.
    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// True if nothing can be appended any more, because of an error.
    pub(super) fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Records a write in progress, until the result is dropped.
    pub(super) fn ticket(self: &Arc<Self>) -> Ticket {
        self.writes.fetch_add(1, Ordering::Relaxed);
        Ticket(self.clone())
    }

    /// Appends the first of `values` until the file has `limit` bytes, at least one, and returns their number.
    pub(super) fn append(
        &self,
        values: &[(&[u8], &[u8])],
        limit: u64,
        indexes: &mut Vec<BlobIndex>,
    ) -> Result<usize> {
        let mut content = self.content.lock();
        let Content::Growing(builder) = &mut *content else {
            return Err(Error::io_text(format!(
                "{} takes no more values after an error",
                self.path.display()
            )));
        };
        let mut appended = || {
            let mut count = 0;
            for (key, value) in values {
                indexes.push(builder.add(key, value)?);
                count += 1;
                if builder.file_size() >= limit {
                    break;
                }
            }
            builder.flush().map(|()| count)
        };
        match appended() {
            Ok(count) => {
                self.len.store(builder.file_size(), Ordering::Release);
                // Before the caller logs the indexes: the sync of its log syncs this file first.
                self.is_unsynced.store(true, Ordering::Release);
                Ok(count)
            }
            Err(error) => {
                self.has_failed.store(true, Ordering::Release);
                *content = Content::Broken;
                Err(error)
            }
        }
    }

    /// Makes everything appended so far durable, and the name of the file.
    pub(super) fn sync(&self, fs: &dyn FileSystem) -> Result<()> {
        let mut syncing = self.syncing.lock();
        self.sync_alone(&mut syncing, fs)
    }

    fn sync_alone(&self, syncing: &mut Syncing, fs: &dyn FileSystem) -> Result<()> {
        if let Some(error) = &syncing.failed {
            return Err(error.clone());
        }
        if syncing.is_closed || !self.is_unsynced.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let began = self.meter.began();
        let synced = self.file.sync(self.use_fsync).and_then(|()| {
            if !syncing.name_synced {
                fs.sync_dir(cairn_platform::fs::parent(&self.path))?;
                syncing.name_synced = true;
            }
            Ok(())
        });
        if let Err(error) = synced {
            self.has_failed.store(true, Ordering::Release);
            syncing.failed = Some(error.clone());
            return Err(error);
        }
        self.meter.add(Ticker::BlobDbBlobFileSynced, 1);
        let histogram = Histogram::BlobDbBlobFileSyncMicros;
        self.meter.time_since(began, histogram);
        Ok(())
    }

    /// Records that the memtables of the file are flushed. True if the file is sealed.
    pub(super) fn retire(&self) -> bool {
        self.is_retired.store(true, Ordering::Release);
        matches!(*self.content.lock(), Content::Sealed(_))
    }

    /// True if the file is not durable, and need not be.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_retired.load(Ordering::Acquire) && self.sync_error().is_some()
    }

    /// The error of a sync, if one failed.
    pub(super) fn sync_error(&self) -> Option<Error> {
        match self.has_failed() {
            true => self.syncing.lock().failed.clone(),
            false => None,
        }
    }

    /// Writes the footer, unless it is there, and syncs and closes the file. `None` if an append or a sync failed. The
    /// result is true if the file was sealed by this call.
    pub(super) fn seal(&self, fs: &dyn FileSystem) -> Result<Option<(Arc<BlobFileMeta>, bool)>> {
        let mut content = self.content.lock();
        if let Content::Sealed(meta) = &*content {
            return Ok(Some((meta.clone(), false)));
        }
        let Content::Growing(builder) = std::mem::replace(&mut *content, Content::Broken) else {
            return Ok(None);
        };
        if self.has_failed() {
            return Ok(None);
        }
        let finished = builder
            .finish()
            .inspect_err(|_| self.has_failed.store(true, Ordering::Release))?;
        assert!(
            finished.count > 0 && finished.bytes <= finished.file_size,
            "a blob file is created for a value"
        );
        self.is_unsynced.store(true, Ordering::Release);
        let mut syncing = self.syncing.lock();
        self.sync_alone(&mut syncing, fs)?;
        syncing.is_closed = true;
        drop(syncing);
        self.file.close()?;
        let (checksum_value, checksum_method) = finished.file_checksum.unwrap_or_default();
        let meta = Arc::new(BlobFileMeta {
            checksum_method,
            checksum_value,
            ..BlobFileMeta::new(self.number, finished.count, finished.bytes)
        });
        *content = Content::Sealed(meta.clone());
        Ok(Some((meta, true)))
    }

    /// Closes the file as it is, if it is open.
    pub(super) fn close(&self) {
        let mut content = self.content.lock();
        if let Content::Growing(_) = *content {
            *content = Content::Broken;
        }
        let mut syncing = self.syncing.lock();
        if !std::mem::replace(&mut syncing.is_closed, true) {
            // Nothing refers to data of the file that is not durable.
            self.file.close().ok();
        }
    }

    /// Records `memtables`, all those of the family that may be read now.
    pub(crate) fn settle<'m>(&self, memtables: impl Iterator<Item = &'m Arc<Memtable>>) {
        let mut readers = self.readers.lock();
        if readers.is_complete {
            return;
        }
        // Acquire pairs with the end of the writes, whose entries are in `memtables` or in earlier ones.
        readers.is_complete = self.writes.load(Ordering::Acquire) == 0;
        for memtable in memtables {
            let memtable = Arc::downgrade(memtable);
            if !readers.memtables.iter().any(|it| it.ptr_eq(&memtable)) {
                readers.memtables.push(memtable);
            }
        }
    }

    /// True if a memtable may refer to the file, or may be about to.
    pub(crate) fn is_pinned(&self) -> bool {
        let readers = self.readers.lock();
        let mut memtables = readers.memtables.iter();
        !readers.is_complete || memtables.any(|it| it.strong_count() > 0)
    }
}
