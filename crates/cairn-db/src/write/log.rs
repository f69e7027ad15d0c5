//! The live logs: which WAL is written, which older ones still hold unflushed data.
//!
//! Recovery finds no hole between logs: what a log holds counts only where all before it is there. A log
//! says how long the one before it is ([`Predecessor`]), and recovery stops in front of one that says more than it
//! found. So no write waits for a log that ends. A sync of a log begins with the one before it, back to
//! the last that is durable: what survives a power cut survives with everything before it.
//!
//! A log that was never synced is not synced at its end either: most of what such logs hold is in tables, and the
//! logs are deleted, before the kernel writes them to the device.
//! Where something else relies on it (several families, whose tables must not be ahead of each other's logs;
//! an archive) a job syncs the log when it ends. Where the file or the MANIFEST have to
//! state its length (`track_and_verify_wals`, recycled logs) the switch syncs the old log; most of it is then synced
//! ahead in the background, when the memtable is nearly full.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::log::Predecessor;
use cairn_format::names::FileName;
use cairn_memory::{CacheCharge, ChargePolicy, MemoryUse};
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};
use cairn_platform::{FileSystem, WritableFile, fs::FileMode};
use cairn_types::{Error, FileNumber, Result, SequenceNumber};
use cairn_wal::{WalOptions, WalWriter};

/// The WAL that is being written. Owned by the leader of the write queue.
pub(crate) struct CurrentLog {
    writer: WalWriter,
    file: Arc<LogFile>,
    /// The sequence number of the last batch; 0 if there is none.
    last_batch: SequenceNumber,
    /// Length up to which a background sync was requested; 0 if none was.
    presynced: u64,
    /// Bytes after which write-back is started; 0 leaves it to the kernel.
    bytes_per_sync: u64,
    /// Length up to which it was started.
    written_back: u64,
    /// Records wait in memory until they are handed over by a call.
    flushed_by_hand: bool,
    /// The charge of the log's memory to the block cache, and its length when the charge was last adjusted.
    charge: Option<(CacheCharge, u64)>,
    /// The file may hold more than was written to it, of its life as another log.
    recycled: bool,
}

/// The expected use of a log.
#[derive(Clone, Copy, Default)]
pub(crate) struct Expected<'a> {
    /// It will be synced, now or when it ends: what is written of it is soon on its way to the device.
    pub(crate) synced: bool,
    /// The expected length in bytes; 0 if unknown.
    pub(crate) len: u64,
    /// The log before it: space for this one may have been reserved while that was written.
    pub(crate) before: Option<&'a CurrentLog>,
}

/// The file of a log, for threads that sync it, whether they lead or not.
pub(crate) struct LogFile {
    file: Arc<dyn WritableFile>,
    number: FileNumber,
    dir: PathBuf,
    use_fsync: bool,
    /// A sync made the file's name durable: the log was synced before.
    name_synced: AtomicBool,
    /// No sync of the log is needed any more: it ended and is durable, or nothing in it is needed.
    finished: AtomicBool,
    /// The error after which nothing is written to the file any more. Never locked while something
    /// is waited for: every append looks here.
    failed: Mutex<Option<Error>>,
    /// Held during a sync. That of a log is taken before that of the log before it.
    syncing: Mutex<()>,
    /// The log before this one, until it is known to be durable.
    before: Mutex<Option<Arc<LogFile>>>,
}

impl LogFile {
    /// Makes everything handed to the kernel so far survive a power cut, the file's name and the logs before
    /// this one too. One thread syncs at a time, and none after a failure: a sync that succeeds
    /// then would prove nothing.
    pub(crate) fn sync(&self, fs: &dyn FileSystem) -> Result<()> {
        self.sync_by(fs, |file| file.sync(self.use_fsync))
    }

    /// [`LogFile::sync`] by a call of `sync`.
    fn sync_by(
        &self,
        fs: &dyn FileSystem,
        sync: impl FnOnce(&dyn WritableFile) -> Result<()>,
    ) -> Result<()> {
        let _alone = self.syncing.lock();
        self.sync_alone(fs, sync)
    }

    /// [`LogFile::sync_by`]. The caller has locked `syncing`.
    fn sync_alone(
        &self,
        fs: &dyn FileSystem,
        sync: impl FnOnce(&dyn WritableFile) -> Result<()>,
    ) -> Result<()> {
        // A log that was finished meanwhile is synced to its end, and closed.
        if self.finished.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(error) = &*self.failed.lock() {
            return Err(error.clone());
        }
        let before = self.before.lock().clone();
        before
            .map_or(Ok(()), |before| before.sync(fs))
            .and_then(|()| sync(&*self.file))
            .and_then(|()| self.sync_name(fs))
            .inspect_err(|error| *self.failed.lock() = Some(error.clone()))?;
        *self.before.lock() = None;
        Ok(())
    }

    fn sync_name(&self, fs: &dyn FileSystem) -> Result<()> {
        if !self.name_synced.load(Ordering::Acquire) {
            fs.sync_dir(&self.dir)?;
            self.name_synced.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// True if the log was ever synced.
    pub(crate) fn was_synced(&self) -> bool {
        self.name_synced.load(Ordering::Acquire)
    }

    /// True if a write or a sync failed: nothing is written to the log any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.lock().is_some()
    }

    /// Makes the log, which takes no more writes, durable to its end, and closes it.
    pub(crate) fn finish(&self, fs: &dyn FileSystem) -> Result<()> {
        // To the end: no sync may begin of a file that is being closed.
        let _alone = self.syncing.lock();
        self.sync_alone(fs, |file| file.sync(self.use_fsync))?;
        match self.finished.swap(true, Ordering::AcqRel) {
            true => Ok(()),
            false => {
                debug_assert!(
                    self.was_synced() && self.before.lock().is_none(),
                    "log {} is finished when it and those before it are durable",
                    self.number
                );
                self.file.close()
            }
        }
    }

    /// Closes the log, which ended and holds nothing that is needed. An error of closing its file is ignored.
    pub(crate) fn forget(&self) {
        let _alone = self.syncing.lock();
        if !self.finished.swap(true, Ordering::AcqRel) {
            *self.before.lock() = None;
            let _ = self.file.close();
        }
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
        expected: Expected<'_>,
    ) -> Result<CurrentLog> {
        let mode = FileMode {
            mapped: options.mapped,
            written_back: expected.synced,
            expected_len: expected.len,
            ..FileMode::default()
        };
        assert!(
            recycled.is_none_or(|old| old < number),
            "log {number} takes over the file of an older log, not of {recycled:?}"
        );
        let path = dir.join(FileName::Wal(number).to_string());
        let file = match recycled {
            Some(old) => {
                fs.rename(&dir.join(FileName::Wal(old).to_string()), &path)?;
                fs.open_overwrite(&path, mode)?
            }
            None => {
                let ready = expected.before.map(|log| &log.file.file);
                let ready = ready.map_or(Ok(None), |file| file.successor(&path, mode))?;
                ready.map_or_else(|| fs.create(&path, mode), Ok)?
            }
        };
        let writer = WalWriter::new(file.clone(), number, options)?;
        let file = LogFile {
            file,
            number,
            dir: dir.to_owned(),
            use_fsync,
            name_synced: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            failed: Mutex::default(),
            syncing: Mutex::default(),
            before: Mutex::default(),
        };
        Ok(CurrentLog {
            writer,
            file: Arc::new(file),
            last_batch: SequenceNumber::ZERO,
            presynced: 0,
            bytes_per_sync: 0,
            written_back: 0,
            flushed_by_hand: false,
            charge: None,
            recycled: recycled.is_some(),
        })
    }

    /// The number in the file's name.
    pub(crate) fn number(&self) -> FileNumber {
        self.file.number
    }

    /// Bytes of the log so far: what it says of itself counts with the first batch.
    pub(crate) fn len(&self) -> u64 {
        match self.is_empty() {
            true => 0,
            false => self.writer.len(),
        }
    }

    /// Bytes of the log that the kernel has.
    pub(crate) fn file_len(&self) -> u64 {
        self.file.file.len()
    }

    /// True if the log is written through a mapping now.
    pub(crate) fn is_mapped(&self) -> bool {
        self.file.file.is_mapped()
    }

    /// The end of the last append that had to wait, and its duration; see [`WritableFile::slow_append`].
    pub(crate) fn slow_append(&self) -> Option<(u64, u64)> {
        self.file.file.slow_append()
    }

    /// Cuts the file to what was written, if it is longer: nothing of a mapping is synced that holds no
    /// record. What may be added after all is written by calls.
    pub(crate) fn cut(&self) -> Result<()> {
        let file = &self.file.file;
        match file.is_mapped() {
            true => file.truncate(file.len()),
            false => Ok(()),
        }
    }

    /// True if a write or a sync failed: nothing is written to it any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.file.has_failed()
    }

    /// Marks the log as one not to be relied on, whatever failed.
    pub(crate) fn mark_failed(&mut self) {
        let mut failed = self.file.failed.lock();
        failed.get_or_insert_with(|| Error::io_text("the log was given up after an error"));
    }

    /// True if no batch was written yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.writer.records() == 0
    }

    /// Appends the batches of a group, each as one record, with one call to the kernel. A log that
    /// is flushed by hand keeps them in memory unless they are to be synced.
    pub(crate) fn append(&mut self, batches: &[(SequenceNumber, &[u8])], sync: bool) -> Result<()> {
        for (seq, batch) in batches {
            debug_assert!(
                *seq >= self.last_batch,
                "batches of log {} ascend: {seq} follows {}",
                self.number(),
                self.last_batch
            );
            let (_, rest) = batch.split_at(8);
            self.writer.add_parts(&[&seq.0.to_le_bytes(), rest])?;
            self.last_batch = *seq;
        }
        if sync || !self.flushed_by_hand {
            self.hand_over()?;
        }
        self.follow_memory();
        Ok(())
    }

    /// Charges the buffers and the mapped windows of the log, if logs are charged.
    pub(crate) fn charge_to(&mut self, policy: &ChargePolicy) {
        let charge = policy.charge(MemoryUse::Wal, self.writer.memory_usage());
        self.charge = charge.map(|charge| (charge, 0));
    }

    /// Adjusts the charge to the memory in use, whenever the log has grown by a step.
    #[inline]
    fn follow_memory(&mut self) {
        if let Some((charge, at)) = &mut self.charge {
            let len = self.writer.len();
            if len - *at >= CacheCharge::STEP as u64 {
                charge.set(self.writer.memory_usage());
                *at = len;
            }
        }
    }

    /// Gives the kernel what waits in memory, and starts write-back of what is due for it.
    pub(crate) fn hand_over(&mut self) -> Result<()> {
        if let Some(error) = &*self.file.failed.lock() {
            return Err(error.clone());
        }
        self.try_hand_over()
            .inspect_err(|error| *self.file.failed.lock() = Some(error.clone()))
    }

    fn try_hand_over(&mut self) -> Result<()> {
        // What a log says of itself comes with its first batch: until then the file is empty.
        if self.is_empty() {
            return Ok(());
        }
        self.writer.hand_over()?;
        debug_assert!(
            self.written_back <= self.len(),
            "no more of a log is written back than it has"
        );
        let waiting = self.len() - self.written_back;
        if self.bytes_per_sync > 0 && waiting >= self.bytes_per_sync {
            self.file.file.start_writeback(self.written_back, waiting)?;
            self.written_back = self.len();
        }
        debug_assert!(
            self.len() <= self.file_len(),
            "all of log {} is handed over: {} of {} bytes",
            self.number(),
            self.file_len(),
            self.len()
        );
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

    /// The description of this log in the next one.
    pub(crate) fn as_predecessor(&self) -> Predecessor {
        Predecessor {
            log_number: self.file.number.0,
            bytes: self.len(),
            last_sequence: self.last_batch,
        }
    }

    /// Records the description of the log before it at the beginning of the log.
    pub(crate) fn state_predecessor(&mut self, predecessor: &Predecessor) -> Result<()> {
        assert!(
            self.is_empty() && predecessor.log_number < self.number().0,
            "log {} begins with the description of an older log, not of {}",
            self.number(),
            predecessor.log_number
        );
        self.writer.add_predecessor(predecessor)
    }

    /// Records the sizes of the timestamps of the families' keys.
    pub(crate) fn state_timestamp_sizes(&mut self, sizes: &[(u32, u16)]) -> Result<()> {
        self.writer.add_timestamp_sizes(sizes)
    }

    /// Has every sync of this log begin with one of `before`, the log before it, which has ended. Says at the
    /// beginning of this one, where `next` is the number of its first batch, what that one looks like.
    pub(crate) fn follow(&mut self, before: &CurrentLog, next: SequenceNumber) -> Result<()> {
        assert!(
            self.is_empty() && before.number() < self.number(),
            "log {} follows the older log {} from its first record on",
            self.number(),
            before.number()
        );
        assert!(
            before.last_batch <= next,
            "the first batch of log {} does not come before the last one of log {}",
            self.number(),
            before.number()
        );
        *self.file.before.lock() = Some(before.file());
        self.writer
            .add_note(&before.as_predecessor().as_batch(next))
    }

    /// Its file, for syncs.
    pub(crate) fn file(&self) -> Arc<LogFile> {
        self.file.clone()
    }

    /// True if a background sync was requested since the log was created.
    pub(crate) fn is_presynced(&self) -> bool {
        self.presynced != 0
    }

    /// Records that a background sync of the present content was requested.
    pub(crate) fn mark_presynced(&mut self) {
        self.presynced = self.len().max(1);
    }

    /// Drops a log that failed. Errors of closing its file change nothing.
    pub(crate) fn give_up(self) {
        assert!(
            self.has_failed(),
            "log {} is given up because a write failed",
            self.number()
        );
        let _ = self.file.file.close();
    }

    /// Ends a log that takes no more writes after a failure: nothing is added to it.
    pub(crate) fn abandon(self) -> Result<()> {
        assert!(
            self.has_failed(),
            "log {} is abandoned because a write failed",
            self.number()
        );
        self.file.file.close()
    }

    /// Ends the log: everything in it is handed over, and nothing lies behind its last record.
    pub(crate) fn end(mut self) -> Result<Arc<LogFile>> {
        self.hand_over()?;
        self.cut()?;
        if self.recycled {
            // A log that is followed by another has no tail of its former life: where such a tail
            // begins in the middle of a record, recovery could not distinguish it from damage.
            self.file.file.truncate(self.len())?;
        }
        Ok(self.file)
    }

    /// Ends the log: everything in it is synced, and the file is closed.
    pub(crate) fn finish(self, fs: &dyn FileSystem) -> Result<()> {
        self.end()?.finish(fs)
    }
}

#[cfg(test)]
mod tests {
    use cairn_platform::mem::MemFileSystem;

    use super::*;

    #[test]
    fn no_append_waits_for_a_sync() {
        let fs = MemFileSystem::new();
        let create = || {
            let dir = Path::new("/");
            let options = WalOptions::default();
            CurrentLog::create(
                &fs,
                dir,
                FileNumber(7),
                None,
                &options,
                false,
                Expected::default(),
            )
        };
        let mut log = create().unwrap();
        let batch = [0; 12];
        let syncer = log.file();
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
