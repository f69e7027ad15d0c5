//! The live logs: the current WAL, and older ones with unflushed data.
//!
//! Recovery must find no gap between logs: the records of a log count only if all logs before it are
//! complete. A log therefore records the length of the previous one ([`Predecessor`]), and recovery stops
//! before a log whose predecessor is shorter than recorded. Writes thus need not wait until an ended log is
//! durable. A sync of a log starts with the logs before it, back to the last durable one: everything before a
//! write that survives a power failure survives as well.
//!
//! A log that was never synced is not synced at its end either: most of its data is usually flushed to
//! tables, and the log deleted, before the kernel writes it to the device.
//!
//! If something else depends on the log (several families, whose tables must not be ahead of each other's
//! logs; an archive), a job syncs it when it ends. If the file or the MANIFEST must record its length
//! (`track_and_verify_wals`, recycled logs), the switch syncs the old log; most of it is then synced in
//! advance in the background, when the memtable is nearly full.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::batch::HEADER_LEN;
use cairn_format::log::Predecessor;
use cairn_format::names::FileName;
use cairn_memory::{CacheCharge, ChargePolicy, MemoryUse};
use cairn_platform::sync::{AtomicBool, Mutex, Ordering};
use cairn_platform::{FileSystem, WritableFile, fs::FileMode};
use cairn_types::{Error, FileNumber, Result, SequenceNumber, ValueKind};
use cairn_wal::{WalOptions, WalWriter};

use crate::write::direct_blobs::Unsynced;

/// The current WAL. Owned by the write-group leader.
pub(crate) struct CurrentLog {
    writer: WalWriter,
    file: Arc<LogFile>,
    /// The sequence number of the last batch; 0 if there is none.
    last_batch: SequenceNumber,
    /// Length up to which a background sync was requested; 0 if none was.
    presynced: u64,
    /// The number of bytes after which write-back is started; 0 leaves it to the kernel.
    bytes_per_sync: u64,
    /// Length up to which write-back was started.
    written_back: u64,
    /// True if records stay in memory until [`CurrentLog::hand_over`].
    manual_flush: bool,
    /// True if a no-op ends each batch of entries.
    ends_batches: bool,
    /// True if it begins with a description of the log before it.
    is_described: bool,
    /// The charge of the log's memory to the block cache, and its length when the charge was last adjusted.
    charge: Option<(CacheCharge, u64)>,
    /// True if the file may be longer than the log, because it contained another log.
    recycled: bool,
    /// The length of the file before the append that failed, if one did.
    failed_at: Option<u64>,
}

/// The expected use of a log.
#[derive(Clone, Copy, Default)]
pub(crate) struct Expected<'a> {
    /// True if it will be synced, now or when it ends: its data should be written back soon.
    pub(crate) synced: bool,
    /// The expected length in bytes; 0 if unknown.
    pub(crate) len: u64,
    /// RocksDB's number of its temperature; 0 if unknown.
    pub(crate) temperature: u8,
    /// The log before it: space for this one may have been reserved while that was written.
    pub(crate) before: Option<&'a CurrentLog>,
    /// The blob files that writers append to.
    pub(crate) blobs: Option<&'a Arc<Unsynced>>,
}

/// The file of a log, shared with threads that sync it.
pub(crate) struct LogFile {
    file: Arc<dyn WritableFile>,
    number: FileNumber,
    dir: PathBuf,
    use_fsync: bool,
    /// True if a sync has made the file's name durable.
    name_synced: AtomicBool,
    /// True if no further sync of the log is needed: it ended and is durable, or none of its data is needed.
    finished: AtomicBool,
    /// The error after which nothing is written to the file any more. Never locked during a wait: every
    /// append checks it.
    failed: Mutex<Option<Error>>,
    /// True if a sync failed.
    sync_failed: AtomicBool,
    /// Held during a sync. Acquired before that of the previous log.
    syncing: Mutex<()>,
    /// The previous log, until it is known to be durable.
    before: Mutex<Option<Arc<LogFile>>>,
    /// The blob files that records of the log refer to.
    blobs: Arc<Unsynced>,
}

impl LogFile {
    /// Makes everything handed to the kernel so far durable, including the file's name, the previous logs, and before all
    /// the blobs that records refer to.
    /// Syncs are serialized, and none is attempted after a failure: its success would prove nothing.
    pub(crate) fn sync(&self, fs: &dyn FileSystem) -> Result<()> {
        self.sync_by(fs, |file| file.sync(self.use_fsync))
    }

    /// Like [`LogFile::sync`], by calling `sync`.
    fn sync_by(
        &self,
        fs: &dyn FileSystem,
        sync: impl FnOnce(&dyn WritableFile) -> Result<()>,
    ) -> Result<()> {
        let _alone = self.syncing.lock();
        self.sync_alone(fs, sync)
    }

    /// Like [`LogFile::sync_by`]. The caller has locked `syncing`.
    fn sync_alone(
        &self,
        fs: &dyn FileSystem,
        sync: impl FnOnce(&dyn WritableFile) -> Result<()>,
    ) -> Result<()> {
        // A log that was finished in the meantime is durable to its end, and closed.
        if self.finished.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(error) = &*self.failed.lock() {
            return Err(error.clone());
        }
        let before = self.before.lock().clone();
        self.blobs
            .sync(fs)
            .and_then(|()| before.map_or(Ok(()), |before| before.sync(fs)))
            .and_then(|()| sync(&*self.file))
            .and_then(|()| self.sync_name(fs))
            .inspect_err(|error| {
                self.sync_failed.store(true, Ordering::Release);
                *self.failed.lock() = Some(error.clone());
            })?;
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

    /// Returns the number in the file name.
    pub(crate) fn number(&self) -> FileNumber {
        self.number
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
        // To the end of the function: no sync may start while the file is being closed.
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

    /// Closes an ended log whose data is no longer needed. An error of closing its file is ignored.
    pub(crate) fn forget(&self) {
        let _alone = self.syncing.lock();
        if !self.finished.swap(true, Ordering::AcqRel) {
            *self.before.lock() = None;
            let _ = self.file.close();
        }
    }
}

impl CurrentLog {
    /// Creates the log `number` in `dir`, as a new file or by overwriting that of the obsolete log
    /// `recycled`.
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
            temperature: expected.temperature,
            ..FileMode::default()
        };
        assert!(
            recycled.is_none_or(|old| old < number),
            "log {number} takes over the file of an older log, not of {recycled:?}"
        );
        let path = dir.join(FileName::Wal(number).to_string());
        let file = match recycled {
            Some(old) => {
                let before = dir.join(FileName::Wal(old).to_string());
                let taken_over = fs
                    .rename(&before, &path)
                    .and_then(|()| fs.open_overwrite(&path, mode));
                taken_over.inspect_err(|_| {
                    // The file is queued no more. The next opening deletes one that stays.
                    for name in [&before, &path] {
                        let _ = fs.remove(name);
                    }
                })?
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
            sync_failed: AtomicBool::new(false),
            syncing: Mutex::default(),
            before: Mutex::default(),
            blobs: expected.blobs.cloned().unwrap_or_default(),
        };
        Ok(CurrentLog {
            writer,
            file: Arc::new(file),
            last_batch: SequenceNumber::ZERO,
            presynced: 0,
            bytes_per_sync: 0,
            written_back: 0,
            manual_flush: false,
            ends_batches: false,
            is_described: false,
            charge: None,
            recycled: recycled.is_some(),
            failed_at: None,
        })
    }

    /// Returns the number in the file name.
    pub(crate) fn number(&self) -> FileNumber {
        self.file.number
    }

    /// Returns the length of the log so far; its own description counts from the first batch on.
    pub(crate) fn len(&self) -> u64 {
        match self.is_empty() {
            true => 0,
            false => self.writer.len(),
        }
    }

    /// Returns the number of bytes handed to the kernel.
    pub(crate) fn file_len(&self) -> u64 {
        self.file.file.len()
    }

    /// True if the log is currently written through a mapping.
    pub(crate) fn is_mapped(&self) -> bool {
        self.file.file.is_mapped()
    }

    /// The end time and the duration of the last append that had to wait; see [`WritableFile::slow_append`].
    pub(crate) fn slow_append(&self) -> Option<(u64, u64)> {
        self.file.file.slow_append()
    }

    /// Truncates the file to the records written, if it is longer, so that no unused part of a mapping is
    /// synced. Further records are written by system calls.
    pub(crate) fn cut(&self) -> Result<()> {
        let file = &self.file.file;
        match file.is_mapped() {
            true => file.truncate(file.len()),
            false => Ok(()),
        }
    }

    /// True if a write or a sync failed: nothing is written to the log any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.file.has_failed()
    }

    /// Marks the log as failed, regardless of the cause.
    pub(crate) fn mark_failed(&mut self) {
        let mut failed = self.file.failed.lock();
        failed.get_or_insert_with(|| Error::io_text("the log was given up after an error"));
    }

    /// Cuts the batches of the append that failed off the file, and syncs it: the log has none of them, also after a
    /// power failure.
    ///
    /// # Errors
    ///
    /// `IoError`; `Aborted` if it was not an append that failed, or a sync failed as well, after which another one proves
    /// nothing. The log may have the batches then.
    pub(crate) fn cut_off_failed(&self, fs: &dyn FileSystem) -> Result<()> {
        let LogFile { file, syncing, .. } = &*self.file;
        let _alone = syncing.lock();
        let sync_failed = self.file.sync_failed.load(Ordering::Acquire);
        let Some(len) = self.failed_at.filter(|_| !sync_failed) else {
            return Err(Error::aborted(
                "the log has failed in another operation than an append",
            ));
        };
        file.truncate(len)?;
        file.sync(true)?;
        self.file.sync_name(fs)
    }

    /// True if no batch was written yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.writer.records() == 0
    }

    /// Appends the batches of a group as one record each, with one call to the kernel. A log that is flushed
    /// manually keeps them in memory unless they are to be synced. After an error, the log may have the batches, until
    /// [`CurrentLog::cut_off_failed`].
    pub(crate) fn append(&mut self, batches: &[(SequenceNumber, &[u8])], sync: bool) -> Result<()> {
        let (start, failed_before) = (self.writer.handed_over(), self.writer.has_failed());
        let appended = self.append_group(batches, sync);
        if appended.is_err() && self.writer.has_failed() && !failed_before {
            self.failed_at = Some(start);
        }
        appended
    }

    fn append_group(&mut self, batches: &[(SequenceNumber, &[u8])], sync: bool) -> Result<()> {
        if self.is_empty() && !self.is_described {
            self.begin_before(batches)?;
        }
        for (seq, batch) in batches {
            debug_assert!(
                *seq >= self.last_batch,
                "batches of log {} ascend: {seq} follows {}",
                self.number(),
                self.last_batch
            );
            let (_, rest) = batch.split_at(8);
            match self.ends_batches && needs_end(batch) {
                false => self.writer.add_parts(&[&seq.0.to_le_bytes(), rest])?,
                true => {
                    let end = [ValueKind::Noop as u8];
                    self.writer.add_parts(&[&seq.0.to_le_bytes(), rest, &end])?;
                }
            }
            self.last_batch = *seq;
        }
        if sync || !self.manual_flush {
            self.hand_over()?;
        }
        self.follow_memory();
        Ok(())
    }

    /// Begins the log with an empty batch if the first of `batches` has the form of a description of the log before it, such
    /// as one that the program read from another database's log. Recovery takes only the first batch of a log for one.
    #[cold]
    fn begin_before(&mut self, batches: &[(SequenceNumber, &[u8])]) -> Result<()> {
        match batches.first() {
            Some((seq, batch)) if Predecessor::from_batch(batch).is_some() => {
                let mut empty = [0; HEADER_LEN];
                empty[..8].copy_from_slice(&seq.0.to_le_bytes());
                self.writer.add_note(&empty)
            }
            _ => Ok(()),
        }
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

    /// Hands buffered records to the kernel, and starts write-back if it is due.
    pub(crate) fn hand_over(&mut self) -> Result<()> {
        if let Some(error) = &*self.file.failed.lock() {
            return Err(error.clone());
        }
        self.try_hand_over()
            .inspect_err(|error| *self.file.failed.lock() = Some(error.clone()))
    }

    fn try_hand_over(&mut self) -> Result<()> {
        // The log's own description is written with its first batch: until then the file is empty.
        if self.is_empty() {
            return Ok(());
        }
        self.writer.hand_over()?;
        debug_assert!(
            self.written_back <= self.len(),
            "write-back does not extend past the end of a log"
        );
        let waiting = self.len() - self.written_back;
        if self.bytes_per_sync > 0 && waiting >= self.bytes_per_sync {
            self.file.file.start_writeback(self.written_back, waiting)?;
            self.written_back = self.len();
        }
        debug_assert!(
            self.len() <= self.file_len(),
            "all of log {} has been handed over: {} of {} bytes",
            self.number(),
            self.file_len(),
            self.len()
        );
        Ok(())
    }

    /// Starts write-back after every `bytes` bytes; 0 leaves it to the kernel.
    pub(crate) fn write_back_every(&mut self, bytes: u64) {
        self.bytes_per_sync = bytes;
    }

    /// Keeps records in memory until [`CurrentLog::hand_over`].
    pub(crate) fn flush_manually(&mut self) {
        self.manual_flush = true;
    }

    /// Ends each batch of entries with a no-op, as the write policies "prepared" and "unprepared" require.
    pub(crate) fn end_batches(&mut self) {
        self.ends_batches = true;
    }

    /// Returns the description of this log for the next one.
    pub(crate) fn as_predecessor(&self) -> Predecessor {
        Predecessor {
            log_number: self.file.number.0,
            bytes: self.len(),
            last_sequence: self.last_batch,
        }
    }

    /// Writes the description of the previous log to the start of the log.
    pub(crate) fn record_predecessor(&mut self, predecessor: &Predecessor) -> Result<()> {
        assert!(
            self.is_empty() && predecessor.log_number < self.number().0,
            "log {} begins with the description of an older log, not of {}",
            self.number(),
            predecessor.log_number
        );
        self.writer.add_predecessor(predecessor)
    }

    /// Records the sizes of the timestamps of the families' keys.
    pub(crate) fn record_timestamp_sizes(&mut self, sizes: &[(u32, u16)]) -> Result<()> {
        self.writer.add_timestamp_sizes(sizes)
    }

    /// Makes every sync of this log start with `before`, the previous log, which has ended. Describes that
    /// log at the start of this one, whose first batch has the number `next`.
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
        self.is_described = true;
        self.writer
            .add_note(&before.as_predecessor().as_batch(next))
    }

    /// Returns its file, for syncs.
    pub(crate) fn file(&self) -> Arc<LogFile> {
        self.file.clone()
    }

    /// True if a background sync was requested since the log was created.
    pub(crate) fn is_presynced(&self) -> bool {
        self.presynced != 0
    }

    /// Records that a background sync of the current content was requested.
    pub(crate) fn mark_presynced(&mut self) {
        self.presynced = self.len().max(1);
    }

    /// Drops a failed log. Errors of closing its file are ignored.
    pub(crate) fn give_up(self) {
        assert!(
            self.has_failed(),
            "log {} is given up because a write failed",
            self.number()
        );
        let _ = self.file.file.close();
    }

    /// Ends a log that takes no more writes after a failure: nothing is appended to it.
    pub(crate) fn abandon(self) -> Result<()> {
        assert!(
            self.has_failed(),
            "log {} is abandoned because a write failed",
            self.number()
        );
        self.file.file.close()
    }

    /// Ends the log: everything is handed over to the kernel, and nothing follows its last record.
    pub(crate) fn end(mut self) -> Result<Arc<LogFile>> {
        self.hand_over()?;
        self.cut()?;
        if self.recycled {
            // A log that is followed by another must not have a tail of old content: if the tail started in
            // the middle of a record, recovery could not distinguish it from damage.
            self.file.file.truncate(self.len())?;
        }
        Ok(self.file)
    }

    /// Ends the log: everything is synced, and the file is closed.
    pub(crate) fn finish(self, fs: &dyn FileSystem) -> Result<()> {
        self.end()?.finish(fs)
    }
}

/// True if `batch` has entries and is not a prepared section, whose end is a marker. A no-op after another marker is
/// ignored.
fn needs_end(batch: &[u8]) -> bool {
    let begin = ValueKind::BeginPersistedPrepare as u8;
    batch[8..HEADER_LEN] != [0; 4] && batch.get(HEADER_LEN) != Some(&begin)
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
        // Regression: every append checks whether the log has failed. A sync held the lock of that state, and
        // writers waited for it, for 30 ms at each memtable switch under load.
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
