//! The blob files of a database that must be durable before its log is.

use std::sync::Arc;

use cairn_format::batch::{BatchRef, Record};
use cairn_format::blob::BlobIndex;
use cairn_platform::FileSystem;
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};
use cairn_types::{Error, FileNumber, Result, SequenceNumber};

use super::file::DirectFile;

/// The blob files of a database that entries of its log may refer to, and that no version has.
#[derive(Default)]
pub(crate) struct Unsynced {
    files: Mutex<Vec<Arc<DirectFile>>>,
    /// Held during syncs: a log must not be synced before a sync of a blob file that has begun is complete.
    syncing: Mutex<()>,
    /// True if the sync of a file has failed.
    has_failed: AtomicBool,
}

impl Unsynced {
    /// Adds a file.
    pub(super) fn add(&self, file: &Arc<DirectFile>) {
        self.files.lock().push(file.clone());
    }

    /// Removes sealed files of flushed memtables, which are durable. The others are kept until [`Unsynced::release`]: a
    /// write that is still in progress may refer to them.
    pub(crate) fn retire(&self, files: &[Arc<DirectFile>]) {
        if files.is_empty() {
            return;
        }
        let mut all = self.files.lock();
        let is_one = |file: &Arc<DirectFile>| files.iter().any(|gone| Arc::ptr_eq(gone, file));
        all.retain(|file| !is_one(file) || !file.retire());
    }

    /// Removes files that nothing refers to any more, and closes them.
    pub(crate) fn release(&self, files: &[Arc<DirectFile>]) {
        if files.is_empty() {
            return;
        }
        let mut all = self.files.lock();
        all.retain(|file| !files.iter().any(|gone| Arc::ptr_eq(gone, file)));
        drop(all);
        files.iter().for_each(|file| file.close());
    }

    /// Closes all files of a database that is being closed.
    pub(crate) fn close(&self) {
        let files = std::mem::take(&mut *self.files.lock());
        files.iter().for_each(|file| file.close());
    }

    /// Makes all values that were appended so far durable. Called before each sync of a log.
    ///
    /// # Errors
    ///
    /// `IoError`, also of an earlier sync of a file whose values are not relocated yet.
    pub(crate) fn sync(&self, fs: &dyn FileSystem) -> Result<()> {
        let files = self.files.lock().clone();
        if files.is_empty() {
            return Ok(());
        }
        let _alone = self.syncing.lock();
        let mut needed = files.iter().filter(|file| !file.is_given_up());
        let synced = needed.try_for_each(|file| file.sync(fs));
        synced.inspect_err(|_| self.has_failed.store(true, Ordering::Release))
    }

    /// True if no log can be synced until a flush relocates the values of a file whose sync has failed.
    pub(crate) fn block_syncs(&self) -> bool {
        let files = self.files.lock().clone();
        let blocks = |file: &Arc<DirectFile>| file.sync_error().is_some() && !file.is_given_up();
        files.iter().any(blocks)
    }

    /// Records that the sync of a file has failed.
    pub(crate) fn note_failure(&self) {
        self.has_failed.store(true, Ordering::Release);
    }

    /// Returns an error if a batch of a group that is about to be logged refers to a file whose sync has failed. Costs one
    /// load if none has.
    #[inline]
    pub(crate) fn check(&self, batches: &[(SequenceNumber, &[u8])]) -> Result<()> {
        match self.has_failed.load(Ordering::Acquire) {
            false => Ok(()),
            true => self.check_batches(batches),
        }
    }

    #[cold]
    fn check_batches(&self, batches: &[(SequenceNumber, &[u8])]) -> Result<()> {
        let failed: Vec<(FileNumber, Error)> = {
            let files = self.files.lock();
            let failed = |file: &Arc<DirectFile>| Some((file.number(), file.sync_error()?));
            files.iter().filter_map(failed).collect()
        };
        for (_, batch) in batches {
            let batch = BatchRef::parse(batch).map_err(|e| e.in_file("the write batch", 0))?;
            for record in batch.records() {
                let record = record.map_err(|e| e.in_file("the write batch", 0))?;
                let Record::PutBlobIndex { index, .. } = record else {
                    continue;
                };
                let index = BlobIndex::decode(index).map_err(|e| e.in_file("a blob index", 0))?;
                if let Some((_, error)) = failed.iter().find(|(number, _)| *number == index.file) {
                    return Err(error.context(
                        "a value of the write is in a blob file that could not be synced",
                    ));
                }
            }
        }
        Ok(())
    }
}
