//! Replay of the logs: records in order, damage by the recovery mode.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use cairn_format::log::{Predecessor, RecoveryMode, Verdict};
use cairn_jobs::history::{push_with_minimum, raise};
use cairn_options::WalRecoveryMode;
use cairn_platform::fs::FileMode;
use cairn_types::{
    Error, FileNumber, KeyOrder, Result, SequenceNumber, Subcode, ValueKind, WalDecision,
};
use cairn_wal::{WalEvent, WalFile, WalReader, WalSummary, check_predecessor};

use super::dropped_records::Dropped;
use super::logged_blobs::check_logged_blob;
use super::replay::{RecordedSizes, Replay, Sink, check_blobs};
use crate::catalog::family::Families;
use crate::shared::Shared;

/// A batch is at least its header.
const MIN_BATCH: usize = cairn_format::batch::HEADER_LEN;

pub(super) fn mode(option: WalRecoveryMode) -> RecoveryMode {
    match option {
        WalRecoveryMode::TolerateCorruptedTailRecords => RecoveryMode::TolerateCorruptedTailRecords,
        WalRecoveryMode::AbsoluteConsistency => RecoveryMode::AbsoluteConsistency,
        WalRecoveryMode::PointInTimeRecovery => RecoveryMode::PointInTimeRecovery,
        WalRecoveryMode::SkipAnyCorruptedRecords => RecoveryMode::SkipAnyCorruptedRecords,
    }
}

/// The destination of replayed entries: the memtables of the opened families.
pub(super) struct Memtables<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) families: Arc<Families>,
    pub(super) logs: BTreeMap<u32, FileNumber>,
    /// Entries up to these numbers are already in tables.
    pub(super) above: BTreeMap<u32, SequenceNumber>,
    /// The memtable budget, which applies during recovery, too.
    pub(super) enforces_budget: bool,
    /// Tables flushed from full memtables, which require a new MANIFEST in any case.
    pub(super) flushed: bool,
    /// Blob files that entries refer to, by family.
    pub(super) blobs: BTreeSet<(u32, FileNumber)>,
    /// The newest timestamp that a read-only opening has replaced by the smallest one, by family.
    pub(super) stripped: BTreeMap<u32, Vec<u8>>,
}

impl Memtables<'_> {
    /// True if the entry `seq` of the family is in a table.
    fn is_flushed(&self, family: u32, seq: SequenceNumber) -> bool {
        self.above.get(&family).is_some_and(|above| seq <= *above)
    }
}

impl Sink for Memtables<'_> {
    fn order(&self, family: u32) -> Option<KeyOrder> {
        self.families
            .get(family)
            .map(|family| family.order().clone())
    }

    fn log_number(&self, family: u32) -> FileNumber {
        self.logs.get(&family).copied().unwrap_or_default()
    }

    fn check_takes_writes(&self, family: u32, seq: Option<SequenceNumber>) -> Result<()> {
        let is_flushed = seq.is_some_and(|seq| self.is_flushed(family, seq));
        let family = self.families.get(family).filter(|_| !is_flushed);
        family.map_or(Ok(()), |family| family.check_takes_writes())
    }

    fn add(&mut self, family: u32, seq: SequenceNumber, kind: ValueKind, key: &[u8], value: &[u8]) {
        if self.is_flushed(family, seq) {
            return;
        }
        let Some(family) = self.families.get(family) else {
            return;
        };
        let memtable = &family.view().memtable;
        if family.persist_timestamps || !self.shared.context.read_only {
            memtable.add(seq, kind, key, value);
            return;
        }
        // The timestamps of this family are kept until a flush, and an open for writing would flush: a read-only open
        // returns the same.
        let size = family.order().timestamp_size();
        let timestamp = &key[key.len().saturating_sub(size)..];
        let newest = self.stripped.entry(family.id()).or_default();
        raise(family.order(), newest, timestamp);
        let without_time = |key: &[u8]| {
            let mut out = Vec::with_capacity(key.len());
            push_with_minimum(&mut out, key, size);
            out
        };
        let key = without_time(key);
        match kind {
            ValueKind::RangeDeletion => memtable.add(seq, kind, &key, &without_time(value)),
            _ => memtable.add(seq, kind, &key, value),
        };
    }

    fn check_blob(
        &mut self,
        family: u32,
        seq: SequenceNumber,
        key: &[u8],
        index: &[u8],
    ) -> Result<()> {
        let is_flushed = self.is_flushed(family, seq);
        let Some(family) = self.families.get(family).filter(|_| !is_flushed) else {
            return Ok(());
        };
        let view = family.view();
        let file = check_logged_blob(&view.family.blobs, &view.version, key, index, false)?;
        self.blobs.insert((family.id(), file));
        // The flush relocates the values: the files and the logs are not needed after it.
        self.flushed = true;
        Ok(())
    }

    fn batch_done(&mut self) -> Result<()> {
        if self.shared.context.read_only {
            return Ok(());
        }
        for family in self.families.iter() {
            if family.view().memtable.memory_usage() >= family.full() {
                self.shared.flush_recovered(family)?;
                self.flushed = true;
            }
        }
        if self.enforces_budget && self.shared.buffers_want_a_flush() {
            for family in self.shared.family_that_buffers_pick() {
                self.shared.flush_recovered(&family)?;
                self.flushed = true;
            }
        }
        Ok(())
    }
}

/// A replayed log.
pub(super) struct Replayed {
    pub(super) file: WalFile,
    /// The offset after the last record that was read.
    pub(super) whole: u64,
    /// The offset up to which nothing was dropped because recovery stopped.
    pub(super) used: u64,
}

/// A log that is being replayed.
struct LogInReplay {
    file: WalFile,
    /// Timestamp sizes recorded in the log so far.
    sizes: RecordedSizes,
    /// True if no record has been read.
    is_at_begin: bool,
    last_batch: SequenceNumber,
}

/// Replays logs in order.
pub(super) struct LogReplay<'a> {
    pub(super) shared: &'a Arc<Shared>,
    pub(super) mode: RecoveryMode,
    pub(super) replay: Replay,
    pub(super) sink: Memtables<'a>,
    /// The damaged log at which recovery stopped.
    pub(super) stopped_at: Option<FileNumber>,
    /// True if the user's filter has ended the replay.
    pub(super) ended: bool,
    pub(super) before: Option<WalSummary>,
    pub(super) min_log: FileNumber,
}

impl LogReplay<'_> {
    /// Reads the prepared sections of `log`, whose entries are in tables, up to its first damage: an opening without
    /// two-phase commit must know that transactions are undecided, and apply those that a later log commits.
    pub(super) fn sections(&mut self, log: &WalFile) -> Result<()> {
        let fs = &*self.shared.context.world.fs;
        let mut reader = match WalReader::open(fs, &log.path, log.number, FileMode::default()) {
            // Deleted by another process, if the opening is read-only.
            Err(error) if error.subcode() == Subcode::PathNotFound => return Ok(()),
            reader => reader?,
        };
        loop {
            reader.advance()?;
            match reader.event() {
                WalEvent::Record { payload, .. } => {
                    match self.replay.apply_sections(payload, log.number) {
                        Err(error) if error.is_corruption() => return Ok(()),
                        applied => applied?,
                    }
                }
                WalEvent::TimestampSizes(_) | WalEvent::Predecessor(_) => {}
                WalEvent::Dropped(_) | WalEvent::End(_) => return Ok(()),
            }
        }
    }

    /// Replays one log.
    pub(super) fn log(&mut self, file: WalFile) -> Result<Replayed> {
        assert!(
            self.before.is_none_or(|before| before.number < file.number),
            "logs are replayed in order"
        );
        assert!(
            self.min_log <= file.number,
            "a log that no family needs is not replayed"
        );
        let fs = &*self.shared.context.world.fs;
        let mut reader = WalReader::open(fs, &file.path, file.number, FileMode::default())?;
        let mut log = LogInReplay {
            file,
            sizes: RecordedSizes::new(),
            is_at_begin: true,
            last_batch: SequenceNumber::ZERO,
        };
        let used = loop {
            let before = reader.whole_up_to();
            reader.advance()?;
            let recycled = reader.is_recycled();
            let next = match reader.event() {
                WalEvent::Record { offset, payload } => self.record(&mut log, offset, payload)?,
                WalEvent::TimestampSizes(recorded) => {
                    let recorded = recorded.iter();
                    log.sizes
                        .extend(recorded.map(|(family, size)| (family, usize::from(size))));
                    ControlFlow::Continue(())
                }
                WalEvent::Predecessor(stated) => {
                    self.compare_predecessor(&log.file, &stated)?;
                    ControlFlow::Continue(())
                }
                WalEvent::Dropped(dropped) => self.left_out(&log.file, &dropped, recycled)?,
                WalEvent::End(_) => break reader.whole_up_to(),
            };
            if next.is_break() {
                break before;
            }
        };
        self.end_log(log, reader.whole_up_to(), used)
    }

    /// Applies the record `payload` at `offset` of `log`, unless a gap, a filter or damage prevents it.
    /// Breaks if the log ends there for the recovery.
    fn record(
        &mut self,
        log: &mut LogInReplay,
        offset: u64,
        payload: &[u8],
    ) -> Result<ControlFlow<()>> {
        let at_begin = std::mem::take(&mut log.is_at_begin);
        let note = Predecessor::from_batch(payload).filter(|_| at_begin);
        if let Some((stated, next)) = &note {
            self.look_for_hole(&log.file, stated, *next)?;
        }
        if at_begin && self.stopped_at.is_some() {
            let seq = sequence_of(payload);
            if seq.is_none_or(|seq| !self.replay.continues(seq)) {
                return Ok(ControlFlow::Break(()));
            }
            self.stopped_at = None;
        }
        if note.is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        log.last_batch = sequence_of(payload).unwrap_or(log.last_batch);
        let bytes = payload.len() as u64;
        let changed = match self.filter(&log.file, payload)? {
            WalDecision::Continue => None,
            WalDecision::Change(batch) => Some(batch),
            WalDecision::Corrupted => {
                let error = Error::corruption("the WAL filter reports it as damaged");
                return self.refuse(self.mode, &log.file, offset, bytes, error);
            }
            decision => {
                let reason = "the WAL filter skips it".to_owned();
                self.note(&log.file, offset, bytes, reason);
                self.ended = decision == WalDecision::Stop;
                return Ok(match self.ended {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                });
            }
        };
        let payload = changed.as_deref().unwrap_or(payload);
        if let Err(error) = check_blobs(payload, log.file.number, &mut self.sink) {
            return self.refuse_blob(&log.file, offset, bytes, error);
        }
        match self.apply(payload, &log.file, &log.sizes) {
            Ok(()) => Ok(ControlFlow::Continue(())),
            Err(error) => self.refuse(self.mode, &log.file, offset, payload.len() as u64, error),
        }
    }

    /// Compares the log before `file` with its description in `file`, with `track_and_verify_wals`. Where a log is incomplete
    /// by the recovery mode, there is nothing to prove, as in RocksDB.
    fn compare_predecessor(&self, file: &WalFile, stated: &Predecessor) -> Result<()> {
        let tolerates =
            self.mode == RecoveryMode::SkipAnyCorruptedRecords || self.stopped_at.is_some();
        if tolerates || !self.shared.options().track_and_verify_wals {
            return Ok(());
        }
        check_predecessor(file.number, stated, self.before.as_ref(), self.min_log)
    }

    /// Handles a part of `file` that is not a record, by the recovery mode. Breaks if the log ends there for
    /// the recovery.
    fn left_out(
        &mut self,
        file: &WalFile,
        dropped: &cairn_wal::Dropped,
        recycled: bool,
    ) -> Result<ControlFlow<()>> {
        // Records of another log that used the file are not missing data.
        if !matches!(dropped.reason, cairn_wal::Reason::OldLogNumber(_)) {
            let reason = dropped.reason.to_string();
            self.note(file, dropped.offset, dropped.bytes, reason);
        }
        match self.mode.judge(dropped.reason, recycled) {
            Verdict::Skip => Ok(ControlFlow::Continue(())),
            Verdict::EndOfLog => Ok(ControlFlow::Break(())),
            Verdict::Stop => {
                self.stop_at(file.number);
                Ok(ControlFlow::Break(()))
            }
            Verdict::Fail => Err(Error::corruption(format!(
                "{} at offset {} of {} ({} bytes), which wal_recovery_mode does not tolerate",
                dropped.reason,
                dropped.offset,
                file.path.display(),
                dropped.bytes
            ))),
        }
    }

    /// Ends the replay of `log`, whose records were read up to `whole` and used up to `used`.
    fn end_log(&mut self, log: LogInReplay, whole: u64, used: u64) -> Result<Replayed> {
        let LogInReplay {
            file, last_batch, ..
        } = log;
        assert!(
            used <= whole,
            "the used part of log {} was read: {used} bytes are used, {whole} were read",
            file.number
        );
        let fs = &*self.shared.context.world.fs;
        let len = fs.status(&file.path)?.len;
        let stopped_before = self
            .stopped_at
            .is_some_and(|stopped| stopped != file.number);
        if stopped_before && len > 0 {
            let reason = "it follows a damaged log and does not continue it".to_owned();
            self.note(&file, 0, len, reason);
        }
        self.before = Some(WalSummary {
            number: file.number,
            bytes: whole,
            last_sequence: last_batch,
        });
        Ok(Replayed { file, whole, used })
    }

    /// Stops before `file`, whose first write has the number `next`, if the previous log, described as
    /// `stated`, is incomplete.
    fn look_for_hole(
        &mut self,
        file: &WalFile,
        stated: &Predecessor,
        next: SequenceNumber,
    ) -> Result<()> {
        let number = FileNumber(stated.log_number);
        let before = self.before.filter(|before| before.number == number);
        let found = before.map_or(0, |before| before.bytes);
        if self.stopped_at.is_some()
            || number < self.min_log
            || (before.is_some() && found >= stated.bytes)
            || self.replay.continues(next)
        {
            return Ok(());
        }
        let path = self.shared.log_path(number);
        let missing = stated.bytes.saturating_sub(found);
        let reason = format!("they are missing, and log {} follows them", file.number);
        match self.mode {
            RecoveryMode::SkipAnyCorruptedRecords => {}
            RecoveryMode::AbsoluteConsistency => {
                return Err(Error::corruption(format!(
                    "{missing} bytes at offset {found} of {}: {reason}, which wal_recovery_mode does not tolerate",
                    path.display()
                )));
            }
            _ => self.stopped_at = Some(number),
        }
        let before = WalFile { number, path };
        self.note(&before, found, missing, reason);
        Ok(())
    }

    /// Returns the decision of the program's filter on a batch.
    fn filter(&mut self, file: &WalFile, batch: &[u8]) -> Result<WalDecision> {
        let options = self.shared.options();
        let Some(filter) = options
            .wal_filter
            .get()
            .filter(|_| batch.len() >= MIN_BATCH)
        else {
            return Ok(WalDecision::Continue);
        };
        let mut decision = filter.record(file.number, &file.path.to_string_lossy(), batch);
        if let WalDecision::Change(changed) = &mut decision {
            // The logs still have the original batches: they must not be replayed again.
            self.sink.flushed = true;
            let (entries, most) = (entries_of(changed), entries_of(batch));
            if entries.is_none() || entries > most {
                return Err(Error::not_supported(format!(
                    "More than original # of records returned by Wal Filter {}",
                    filter.name()
                )));
            }
            changed[..8].copy_from_slice(&batch[..8]);
        }
        Ok(decision)
    }

    fn apply(&mut self, payload: &[u8], file: &WalFile, sizes: &RecordedSizes) -> Result<()> {
        if payload.len() < MIN_BATCH {
            return Err(Error::corruption(format!(
                "length of a record: expected at least {MIN_BATCH}, found {}",
                payload.len()
            )));
        }
        self.replay
            .apply(payload, file.number, sizes, &mut self.sink)
    }

    /// Handles a record with a valid frame and an invalid batch, by `mode`. Breaks if the log ends there for the recovery.
    fn refuse(
        &mut self,
        mode: RecoveryMode,
        file: &WalFile,
        offset: u64,
        bytes: u64,
        error: Error,
    ) -> Result<ControlFlow<()>> {
        if !error.is_corruption() {
            return Err(error);
        }
        self.note(file, offset, bytes, error.text().to_owned());
        match mode {
            RecoveryMode::SkipAnyCorruptedRecords => Ok(ControlFlow::Continue(())),
            RecoveryMode::PointInTimeRecovery => {
                self.stop_at(file.number);
                Ok(ControlFlow::Break(()))
            }
            _ => Err(error.context(file.path.display())),
        }
    }

    /// Handles a record that refers to a missing value in a blob file, by the recovery mode. Breaks if the log ends there
    /// for the recovery.
    fn refuse_blob(
        &mut self,
        file: &WalFile,
        offset: u64,
        bytes: u64,
        error: Error,
    ) -> Result<ControlFlow<()>> {
        // The log must not be replayed again.
        self.sink.flushed |= error.is_corruption();
        let mode = match self.mode {
            // No damage after a power failure: without a sync, a record may be durable before the value is.
            RecoveryMode::TolerateCorruptedTailRecords => RecoveryMode::PointInTimeRecovery,
            mode => mode,
        };
        let refused = self.refuse(mode, file, offset, bytes, error);
        refused.map_err(|error| match mode {
            RecoveryMode::AbsoluteConsistency if error.is_corruption() => {
                error.context(format_args!(
                    "record at offset {offset}, which wal_recovery_mode does not tolerate"
                ))
            }
            _ => error,
        })
    }

    /// Stops the recovery at `log`, unless it has stopped at an earlier log, which no log has continued since.
    fn stop_at(&mut self, log: FileNumber) {
        self.stopped_at.get_or_insert(log);
    }

    /// Reports the data that recovery drops.
    pub(super) fn note(&mut self, file: &WalFile, offset: u64, bytes: u64, reason: String) {
        self.shared.note_dropped(Dropped {
            file: file.path.clone(),
            offset,
            bytes,
            reason,
        });
    }
}

fn sequence_of(batch: &[u8]) -> Option<SequenceNumber> {
    batch
        .first_chunk()
        .map(|bytes| SequenceNumber(u64::from_le_bytes(*bytes)))
}

/// Returns the number of entries in the header of a batch.
fn entries_of(batch: &[u8]) -> Option<u32> {
    let count = batch.get(8..MIN_BATCH)?;
    count.try_into().ok().map(u32::from_le_bytes)
}
