//! The live logs: which WAL is written, which older ones still hold unflushed data.
//!
//! No hole may open between logs: what a log holds must survive a power cut whenever something in
//! a later log does. So the first byte goes into a new log only after the whole of the old one,
//! and its name, were synced. To keep that off the writers' way the old log is synced once in the
//! background when its memtable is nearly full; what is left at the switch is the small rest.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::log::Predecessor;
use cairn_format::names::FileName;
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};
use cairn_platform::{FileSystem, WritableFile, fs::FileMode};
use cairn_types::{Error, FileNumber, Result, SequenceNumber};
use cairn_wal::{WalOptions, WalWriter};

/// The WAL that is being written. Owned by whoever leads the write queue.
pub(crate) struct CurrentLog {
    writer: WalWriter,
    file: Arc<dyn WritableFile>,
    number: FileNumber,
    /// Where the last batch begins; 0 if there is none.
    last_batch: SequenceNumber,
    /// Whether a sync made the file's name durable.
    name_synced: Arc<AtomicBool>,
    /// Whether the last sync of the log has succeeded.
    finished: Arc<AtomicBool>,
    /// The error after which nothing is written to the file any more. Never locked while something
    /// is waited for: every append looks here.
    failed: Arc<Mutex<Option<Error>>>,
    /// Locked by who syncs.
    syncing: Arc<Mutex<()>>,
    dir: PathBuf,
    /// Length up to which a background sync was asked for; 0 if none was.
    presynced: u64,
    /// Bytes after which write-back is started; 0 leaves it to the kernel.
    bytes_per_sync: u64,
    /// Length up to which it was started.
    written_back: u64,
    use_fsync: bool,
    /// Whether records wait in memory until they are asked for.
    flushed_by_hand: bool,
    /// Whether the file may hold more than was written to it, of its life as another log.
    recycled: bool,
}

/// What a sync of a log needs, for a thread that does not lead.
#[derive(Clone)]
pub(crate) struct LogSync {
    file: Arc<dyn WritableFile>,
    name_synced: Arc<AtomicBool>,
    finished: Arc<AtomicBool>,
    failed: Arc<Mutex<Option<Error>>>,
    syncing: Arc<Mutex<()>>,
    dir: PathBuf,
    use_fsync: bool,
}

impl LogSync {
    /// Makes everything handed to the kernel so far survive a power cut, the file's name too. One
    /// thread syncs at a time, and after a failure nobody does: a sync that succeeds then would
    /// prove nothing.
    pub(crate) fn sync(&self, fs: &dyn FileSystem) -> Result<()> {
        self.sync_by(fs, |file| file.sync(self.use_fsync))
    }

    /// [`LogSync::sync`] by a call of `sync`.
    fn sync_by(
        &self,
        fs: &dyn FileSystem,
        sync: impl FnOnce(&dyn WritableFile) -> Result<()>,
    ) -> Result<()> {
        let _alone = self.syncing.lock();
        // A log that was finished meanwhile is synced to its end, and closed.
        if self.finished.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(error) = &*self.failed.lock() {
            return Err(error.clone());
        }
        sync(&*self.file)
            .and_then(|()| self.sync_name(fs))
            .inspect_err(|error| *self.failed.lock() = Some(error.clone()))
    }

    fn sync_name(&self, fs: &dyn FileSystem) -> Result<()> {
        if !self.name_synced.load(Ordering::Acquire) {
            fs.sync_dir(&self.dir)?;
            self.name_synced.store(true, Ordering::Release);
        }
        Ok(())
    }
}

impl CurrentLog {
    /// Creates the log `number` in `dir`, from nothing or from the obsolete log `recycled`, whose
    /// file it is written over.
    pub(crate) fn create(
        fs: &dyn FileSystem,
        dir: &Path,
        number: FileNumber,
        recycled: Option<FileNumber>,
        options: &WalOptions,
        use_fsync: bool,
    ) -> Result<CurrentLog> {
        let mode = FileMode {
            mapped: options.mapped,
            ..FileMode::default()
        };
        let path = dir.join(FileName::Wal(number).to_string());
        let file = match recycled {
            Some(old) => {
                fs.rename(&dir.join(FileName::Wal(old).to_string()), &path)?;
                fs.open_overwrite(&path, mode)?
            }
            None => fs.create(&path, mode)?,
        };
        let writer = WalWriter::new(file.clone(), number, options)?;
        Ok(CurrentLog {
            writer,
            file,
            number,
            last_batch: SequenceNumber::ZERO,
            name_synced: Arc::default(),
            finished: Arc::default(),
            failed: Arc::default(),
            syncing: Arc::default(),
            dir: dir.to_owned(),
            presynced: 0,
            bytes_per_sync: 0,
            written_back: 0,
            use_fsync,
            flushed_by_hand: false,
            recycled: recycled.is_some(),
        })
    }

    /// The number in the file's name.
    pub(crate) fn number(&self) -> FileNumber {
        self.number
    }

    /// Bytes of the log so far.
    pub(crate) fn len(&self) -> u64 {
        self.writer.len()
    }

    /// Bytes of the log that the kernel has.
    pub(crate) fn file_len(&self) -> u64 {
        self.file.len()
    }

    /// Whether the log is written through a mapping now.
    pub(crate) fn is_mapped(&self) -> bool {
        self.file.is_mapped()
    }

    /// Cuts the file to what was written, if it is longer: nothing of a mapping is synced that holds no
    /// record. What may be added after all is written by calls.
    pub(crate) fn cut(&self) -> Result<()> {
        match self.file.is_mapped() {
            true => self.file.truncate(self.file.len()),
            false => Ok(()),
        }
    }

    /// Whether a write or a sync failed: nothing is written to it any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.lock().is_some()
    }

    /// Says that the log is not to be relied on, whatever failed.
    pub(crate) fn mark_failed(&mut self) {
        let mut failed = self.failed.lock();
        failed.get_or_insert_with(|| Error::io_text("the log was given up after an error"));
    }

    /// Whether no batch was written yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.writer.records() == 0
    }

    /// Appends the batches of a group, each as one record, with one call to the kernel. A log that
    /// is flushed by hand keeps them in memory unless they are to be synced.
    pub(crate) fn append(&mut self, batches: &[(SequenceNumber, &[u8])], sync: bool) -> Result<()> {
        for (seq, batch) in batches {
            let (_, rest) = batch.split_at(8);
            self.writer.add_parts(&[&seq.0.to_le_bytes(), rest])?;
            self.last_batch = *seq;
        }
        match sync || !self.flushed_by_hand {
            true => self.hand_over(),
            false => Ok(()),
        }
    }

    /// Gives the kernel what waits in memory, and starts write-back of what is due for it.
    pub(crate) fn hand_over(&mut self) -> Result<()> {
        if let Some(error) = &*self.failed.lock() {
            return Err(error.clone());
        }
        self.try_hand_over()
            .inspect_err(|error| *self.failed.lock() = Some(error.clone()))
    }

    fn try_hand_over(&mut self) -> Result<()> {
        self.writer.hand_over()?;
        let waiting = self.len() - self.written_back;
        if self.bytes_per_sync > 0 && waiting >= self.bytes_per_sync {
            self.file.start_writeback(self.written_back, waiting)?;
            self.written_back = self.len();
        }
        Ok(())
    }

    /// Starts write-back whenever `bytes` wait for it; 0 leaves it to the kernel.
    pub(crate) fn write_back_every(&mut self, bytes: u64) {
        self.bytes_per_sync = bytes;
    }

    /// Keeps records in memory until [`CurrentLog::hand_over`].
    pub(crate) fn flush_by_hand(&mut self) {
        self.flushed_by_hand = true;
    }

    /// What the next log may say about this one.
    pub(crate) fn as_predecessor(&self) -> Predecessor {
        Predecessor {
            log_number: self.number.0,
            bytes: self.len(),
            last_sequence: self.last_batch,
        }
    }

    /// Says at the beginning of the log what the one before it looks like.
    pub(crate) fn state_predecessor(&mut self, predecessor: &Predecessor) -> Result<()> {
        self.writer.add_predecessor(predecessor)
    }

    /// Says how long the timestamps of the families' keys are.
    pub(crate) fn state_timestamp_sizes(&mut self, sizes: &[(u32, u16)]) -> Result<()> {
        self.writer.add_timestamp_sizes(sizes)
    }

    /// What a sync of this log needs.
    pub(crate) fn syncer(&self) -> LogSync {
        LogSync {
            file: self.file.clone(),
            name_synced: self.name_synced.clone(),
            finished: self.finished.clone(),
            failed: self.failed.clone(),
            syncing: self.syncing.clone(),
            dir: self.dir.clone(),
            use_fsync: self.use_fsync,
        }
    }

    /// Whether a background sync has been asked for since the log was created.
    pub(crate) fn is_presynced(&self) -> bool {
        self.presynced != 0
    }

    /// Remembers that a background sync of what is there now was asked for.
    pub(crate) fn mark_presynced(&mut self) {
        self.presynced = self.len().max(1);
    }

    /// Lets go of a log that failed. Whether its file closes well changes nothing.
    pub(crate) fn give_up(self) {
        let _ = self.file.close();
    }

    /// Ends a log that takes no more writes after a failure: nothing is added to it.
    pub(crate) fn abandon(self) -> Result<()> {
        self.file.close()
    }

    /// Ends the log: everything in it is synced, and the file is closed.
    pub(crate) fn finish(mut self, fs: &dyn FileSystem) -> Result<()> {
        self.writer.hand_over()?;
        self.cut()?;
        if self.recycled {
            // A log that is followed by another has no tail of its former life: where such a tail
            // begins in the middle of a record, recovery could not tell it from damage.
            self.file.truncate(self.len())?;
        }
        self.syncer().sync(fs)?;
        self.finished.store(true, Ordering::Release);
        self.file.close()
    }
}

#[cfg(test)]
mod tests {
    use cairn_platform::mem::MemFileSystem;

    use super::*;

    #[test]
    fn nobody_who_appends_waits_for_a_sync() {
        let fs = MemFileSystem::new();
        let create = || {
            let dir = Path::new("/");
            let options = WalOptions::default();
            CurrentLog::create(&fs, dir, FileNumber(7), None, &options, false)
        };
        let mut log = create().unwrap();
        let batch = [0; 12];
        let syncer = log.syncer();
        // Every append asks whether the log has failed. While a sync kept the answer to itself, writers waited
        // for it, 30 ms at each switch of memtables under a load.
        let synced = syncer.sync_by(&fs, |_| {
            log.append(&[(SequenceNumber(1), &batch)], false)?;
            assert!(!log.has_failed());
            Ok(())
        });
        synced.unwrap();
        let failed = syncer.sync_by(&fs, |_| {
            log.append(&[(SequenceNumber(2), &batch)], false)?;
            Err(Error::io_text("the device is gone"))
        });
        assert!(failed.is_err() && log.has_failed());
        assert!(log.append(&[(SequenceNumber(3), &batch)], false).is_err());
        assert!(syncer.sync(&fs).is_err(), "a later sync proves nothing");
    }
}
