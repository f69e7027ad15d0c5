//! The ends of the logs that the primary still needs.
//!
//! Each log has a reader that stays open, so that the log can be read when the primary has deleted it. What may follow
//! the last whole record of a growing log: nothing, zeros, a part of a record, a hidden record, or the content of the
//! log that used the file before. All of these end a read, and the next one continues there.
//!
//! A restored primary may write another log with the same number, while the reader still has the deleted file. Each
//! catch-up therefore opens the logs that are held again, and compares the last bytes that were read: if they differ, all
//! logs are read from their beginning. Otherwise the reader continues in the file that is there now, because two logs may
//! begin with the same records. A log without a file was deleted or recycled, and keeps its reader.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cairn_db::{Intake, RecordedSizes};
use cairn_format::log::{Predecessor, RecoveryMode, Verdict};
use cairn_platform::fs::{Access, FileMode};
use cairn_platform::sync::Arc;
use cairn_platform::{FileSystem, RandomAccessFile};
use cairn_types::{Error, FileNumber, Result, SequenceNumber, Subcode};
use cairn_version::manifest::bytes_before;
use cairn_wal::{Dropped, WalEvent, WalFile, WalReader};

/// The attempts to list a directory in which logs are created.
const TRIES: u32 = 10;

/// The logs of the primary.
pub(crate) struct Logs {
    fs: Arc<dyn FileSystem>,
    dir: PathBuf,
    mode: RecoveryMode,
    logs: BTreeMap<FileNumber, LogEnd>,
}

/// The end of one log.
struct LogEnd {
    reader: WalReader,
    /// The position of the reader after the last catch-up.
    at: u64,
    /// The last bytes before `at`; see [`bytes_before`].
    before: Vec<u8>,
    /// The sizes of timestamps that the log recorded so far.
    sizes: RecordedSizes,
    /// True if a record was read.
    has_begun: bool,
    /// True if a later log has begun and everything was read.
    is_complete: bool,
}

/// An error that leaves entries of a batch behind: the logs have to be read again from their beginning.
pub(crate) struct Half(pub(crate) Error);

impl Logs {
    /// Creates the position before all logs in `dir`.
    pub(crate) fn new(fs: Arc<dyn FileSystem>, dir: PathBuf, mode: RecoveryMode) -> Logs {
        Logs {
            fs,
            dir,
            mode,
            logs: BTreeMap::new(),
        }
    }

    /// Forgets all positions.
    pub(crate) fn begin_anew(&mut self) {
        self.logs.clear();
    }

    /// True if another file has taken the place of a log that was read: [`Logs::begin_anew`] has to be called then. Costs
    /// an opening and a read of at most 4 KiB for each log that is held.
    ///
    /// # Errors
    ///
    /// Those of the files.
    pub(crate) fn are_replaced(&mut self) -> Result<bool> {
        for log in self.logs.values_mut() {
            if log.is_replaced(&*self.fs)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads what was appended to the logs from `first` on, and passes it to `intake`.
    ///
    /// # Errors
    ///
    /// Those of the files, `Ok(Err(_))` of the batches; `Corruption` of a log that was continued by another one.
    pub(crate) fn read(
        &mut self,
        first: FileNumber,
        intake: &mut Intake,
    ) -> Result<std::result::Result<(), Half>> {
        self.logs = self.logs.split_off(&first);
        self.open_new(first)?;
        let numbers: Vec<FileNumber> = self.logs.keys().copied().collect();
        for number in numbers {
            if let Err(half) = self.read_log(number, intake)? {
                return Ok(Err(half));
            }
        }
        self.logs.values_mut().try_for_each(LogEnd::note_position)?;
        Ok(Ok(()))
    }

    /// Opens logs from `first` on that were created since the last call.
    fn open_new(&mut self, first: FileNumber) -> Result<()> {
        // A listing during which logs are created may have a later log without an earlier one.
        for _ in 0..TRIES {
            let found = cairn_wal::list(&*self.fs, &self.dir)?;
            let is_new =
                |log: &WalFile| log.number >= first && !self.logs.contains_key(&log.number);
            let new: Vec<WalFile> = found.into_iter().filter(is_new).collect();
            if new.is_empty() {
                break;
            }
            for log in new {
                // Without a file, the MANIFEST states that it is not needed.
                let Some(file) = open_log(&*self.fs, &log.path)? else {
                    continue;
                };
                let end = LogEnd {
                    reader: WalReader::new(file, log.number),
                    at: 0,
                    before: Vec::new(),
                    sizes: RecordedSizes::new(),
                    has_begun: false,
                    is_complete: false,
                };
                self.logs.insert(log.number, end);
            }
        }
        Ok(())
    }

    /// Reads one log up to its current end.
    fn read_log(
        &mut self,
        number: FileNumber,
        intake: &mut Intake,
    ) -> Result<std::result::Result<(), Half>> {
        loop {
            let Some(log) = self.logs.get_mut(&number).filter(|log| !log.is_complete) else {
                return Ok(Ok(()));
            };
            log.advance()?;
            if let WalEvent::Record { payload, .. } = log.reader.event()
                && !log.has_begun
            {
                log.has_begun = true;
                let next = first_number(payload);
                // `payload` stays the current event of its reader.
                if let Err(half) = self.complete_before(number, next, intake)? {
                    // The record is not applied yet.
                    return Ok(Err(half));
                }
            }
            let log = self.logs.get_mut(&number).expect("the log is present");
            match log.take(number, intake) {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(_)) => {
                    log.reader.reread();
                    return Ok(Ok(()));
                }
                Err(error) => return Ok(Err(Half(error))),
            }
        }
    }

    /// Reads the rest of the logs before `number`, which begins with the sequence number `next`.
    fn complete_before(
        &mut self,
        number: FileNumber,
        next: Option<SequenceNumber>,
        intake: &mut Intake,
    ) -> Result<std::result::Result<(), Half>> {
        let mode = self.mode;
        let earlier = self.logs.range_mut(..number);
        for (&number, log) in earlier.filter(|(_, log)| !log.is_complete) {
            loop {
                // Not an error of a batch, but the record that was already read would be passed over.
                if let Err(error) = log.advance() {
                    return Ok(Err(Half(error)));
                }
                let dropped = match log.take(number, intake) {
                    Ok(ControlFlow::Continue(())) => continue,
                    Ok(ControlFlow::Break(dropped)) => dropped,
                    Err(error) => return Ok(Err(Half(error))),
                };
                let Some(dropped) = dropped else { break };
                let continues = next.is_some_and(|next| intake.continues(next));
                match mode.judge(dropped.reason, log.reader.is_recycled()) {
                    Verdict::Skip => {}
                    Verdict::EndOfLog => break,
                    Verdict::Stop
                        if continues || dropped.reason.is_torn() || log.reader.is_recycled() =>
                    {
                        break;
                    }
                    Verdict::Stop | Verdict::Fail => {
                        let error = Error::corruption(format!(
                            "{} at offset {} of {}, which another log follows",
                            dropped.reason,
                            dropped.offset,
                            log.reader.path().display()
                        ));
                        return Ok(Err(Half(error)));
                    }
                }
            }
            log.is_complete = true;
        }
        Ok(Ok(()))
    }
}

impl LogEnd {
    /// True if the file at the path of the log is not the one that was read. Otherwise the reader continues in it.
    fn is_replaced(&mut self, fs: &dyn FileSystem) -> Result<bool> {
        let Some(file) = open_log(fs, self.reader.path())? else {
            return Ok(false);
        };
        if self.at > 0 && bytes_before(&*file, self.at)? != self.before {
            return Ok(true);
        }
        self.reader.continue_in(file);
        Ok(false)
    }

    /// Records the position, and the bytes by which [`LogEnd::is_replaced`] identifies the file.
    fn note_position(&mut self) -> Result<()> {
        let at = self.reader.whole_up_to();
        if at != self.at {
            self.before = bytes_before(self.reader.file(), at)?;
            self.at = at;
        }
        Ok(())
    }

    /// Advances the reader. After an error, the same event is read again.
    fn advance(&mut self) -> Result<()> {
        self.reader.advance().inspect_err(|_| self.reader.reread())
    }

    /// Handles the current event of the log `number`. Breaks at its end, and at anything that is not a record.
    fn take(
        &mut self,
        number: FileNumber,
        intake: &mut Intake,
    ) -> Result<ControlFlow<Option<Dropped>>> {
        match self.reader.event() {
            WalEvent::Record { payload, .. } => intake.apply(number, payload, &self.sizes)?,
            WalEvent::TimestampSizes(recorded) => {
                let recorded = recorded.iter();
                self.sizes
                    .extend(recorded.map(|(family, size)| (family, usize::from(size))));
            }
            WalEvent::Predecessor(_) => {}
            WalEvent::Dropped(dropped) => return Ok(ControlFlow::Break(Some(dropped))),
            WalEvent::End(_) => return Ok(ControlFlow::Break(None)),
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Opens the log at `path`; `None` if it does not exist.
fn open_log(fs: &dyn FileSystem, path: &Path) -> Result<Option<Arc<dyn RandomAccessFile>>> {
    match fs.open(path, FileMode::default()) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(None),
        opened => {
            let file = opened?;
            file.advise(Access::Sequential);
            Ok(Some(file))
        }
    }
}

/// Returns the sequence number of a batch, or the one that a description of the previous log states.
fn first_number(payload: &[u8]) -> Option<SequenceNumber> {
    if let Some((_, next)) = Predecessor::from_batch(payload) {
        return Some(next);
    }
    let bytes = payload.first_chunk()?;
    Some(SequenceNumber(u64::from_le_bytes(*bytes)))
}
