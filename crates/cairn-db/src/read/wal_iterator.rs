//! Lists of logs, and the iterator over their batches from a sequence number on.
//!
//! A stream reads the logs that exist when it is created, archived ones first, and follows the last of them
//! as it grows. It returns only what is visible to reads. Writes without a log, and ingested files, leave
//! gaps, which end a stream. The writes of a prepared transaction are returned as those of its commit; if the logs start
//! after them, they are a gap.
//!
//! Of a growing log it reads only up to the length that the writer guarantees, and continues from there:
//! beyond it a record may be incomplete, and its rest would not be seen once the incomplete part was read.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use cairn_format::batch::{BatchRef, HEADER_LEN, Record, WriteBatch as Encoded};
use cairn_format::log::Predecessor;
use cairn_observe::statistics::Ticker;
use cairn_platform::fs::FileMode;
use cairn_types::{Code, Error, FileNumber, Malformed, Result, SequenceNumber, Subcode};
use cairn_wal::{Reason, WalEvent, WalReader};

use crate::db::Db;
use crate::db::handle::Handle;
use crate::open::replay::stamped;
use crate::shared::Shared;
use crate::write::archive::{archive_dir, archives};
use crate::write::batch::WriteBatch;

/// The location of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WalFileType {
    /// In the archive: no recovery needs it.
    Archived,
    /// Among the live logs.
    Alive,
}

/// A write-ahead log of an open database.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WalFile {
    /// The path relative to the directory of logs: `/000012.log` or `/archive/000012.log`.
    pub path_name: String,
    /// The number in the file name.
    pub log_number: FileNumber,
    /// The location.
    pub file_type: WalFileType,
    /// The sequence number of its first batch.
    pub start_sequence: SequenceNumber,
    /// Its length in bytes.
    pub size_file_bytes: u64,
}

impl WalFile {
    fn new(number: FileNumber, file_type: WalFileType) -> WalFile {
        let name = cairn_format::names::FileName::Wal(number);
        WalFile {
            path_name: match file_type {
                WalFileType::Archived => format!("/archive/{name}"),
                WalFileType::Alive => format!("/{name}"),
            },
            log_number: number,
            file_type,
            start_sequence: SequenceNumber::ZERO,
            size_file_bytes: 0,
        }
    }
}

impl Shared {
    /// Returns the logs that contain a batch, oldest first.
    fn sorted_wal_files(&self) -> Result<Vec<WalFile>> {
        self.may_write()?;
        let fs = &*self.context.world.fs;
        // Live logs first, so that one that is archived meanwhile is listed twice rather than not at all. If
        // there is an archive, these are all logs in the directory, since unneeded ones are about to be
        // moved; two of them may be archived in any order.
        let names = match archives(&self.options()) {
            true => cairn_wal::list(fs, &self.context.wal_dir)?,
            false => Vec::new(),
        };
        // A log's file is longer than the log while it is written through a mapping, until it is truncated.
        let (live, mut lens) = {
            let tree = self.tree.lock();
            let names = names.into_iter().map(|log| log.number);
            let moving = names.filter(|number| !tree.logs.has_failed(*number));
            let live: BTreeSet<FileNumber> = tree
                .logs
                .iter()
                .map(|(number, _)| number)
                .chain(moving)
                .collect();
            let lens: BTreeMap<FileNumber, u64> = tree.logs.ending().collect();
            (live, lens)
        };
        if let Some(log) = &self.writes.writer.lock().log {
            lens.insert(log.number(), log.file_len());
        }
        let archive = archive_dir(&self.context.wal_dir);
        let archived = match cairn_wal::list(fs, &archive) {
            Err(error) if error.subcode() == Subcode::PathNotFound => Vec::new(),
            found => found?,
        };
        let mut all: BTreeMap<FileNumber, WalFileType> = live
            .into_iter()
            .map(|number| (number, WalFileType::Alive))
            .collect();
        all.extend(
            archived
                .iter()
                .map(|log| (log.number, WalFileType::Archived)),
        );
        // An archived log does not change.
        let mut known = std::mem::take(&mut *self.writes.archived_starts.lock());
        known.retain(|number, _| all.get(number) == Some(&WalFileType::Archived));
        let mut files = Vec::new();
        for (number, file_type) in all {
            let mut file = WalFile::new(number, file_type);
            let (path, first) = match known.get(&number) {
                Some(first) => (self.archived_log_path(number), *first),
                None => {
                    let Some((path, mut reader)) = self.open_wal(&file)? else {
                        continue;
                    };
                    let Some(first) = first_sequence(&mut reader)? else {
                        continue;
                    };
                    if file_type == WalFileType::Archived {
                        known.insert(number, first);
                    }
                    (path, first)
                }
            };
            file.start_sequence = first;
            // The log may be archived or deleted while it is being read.
            file.size_file_bytes = match fs.status(&path) {
                Ok(status) => lens.get(&file.log_number).copied().unwrap_or(status.len),
                Err(error) if error.subcode() == Subcode::PathNotFound => 0,
                Err(error) => return Err(error),
            };
            files.push(file);
        }
        *self.writes.archived_starts.lock() = known;
        Ok(files)
    }

    /// Returns the length of the records of a log that is being written, or was written by this process and
    /// is still live.
    fn written_len(&self, number: FileNumber) -> Result<Option<u64>> {
        self.may_write()?;
        let writer = self.writes.writer.lock();
        if let Some(log) = writer.log.as_ref().filter(|log| log.number() == number) {
            return Ok(Some(log.file_len()));
        }
        if let Some((_, len)) = writer.ended.filter(|ended| ended.0 == number) {
            return Ok(Some(len));
        }
        drop(writer);
        Ok(self.tree.lock().logs.len_of(number))
    }

    /// Returns the size of the timestamps of a family, which may be dropped.
    fn timestamp_size_of(&self, family: u32) -> usize {
        let families = self.catalog.families();
        families
            .get(family)
            .map_or(0, |family| family.order().timestamp_size())
    }

    /// Returns the error of a stream with a `gap` between the logs `before` and `number`, which were adjacent
    /// when it was created.
    fn gap_between(&self, before: FileNumber, number: FileNumber, gap: Error) -> Result<Error> {
        let now: Vec<_> = self.sorted_wal_files()?;
        let mut between = now.iter().map(|file| file.log_number);
        let is_whole = between.clone().any(|log| log == before)
            && !between.any(|log| log > before && log < number);
        Ok(match is_whole {
            true => gap,
            false => Error::try_again(format!(
                "logs before {number} were deleted: create another stream to continue with the remaining logs"
            )),
        })
    }

    /// Opens a log, wherever it is now; `None` if it was deleted.
    fn open_wal(&self, file: &WalFile) -> Result<Option<(PathBuf, WalReader)>> {
        self.open_wal_up_to(u64::MAX, file)
    }

    /// Opens a log to be read up to `limit`.
    fn open_wal_up_to(&self, limit: u64, file: &WalFile) -> Result<Option<(PathBuf, WalReader)>> {
        let number = file.log_number;
        let paths = [self.log_path(number), self.archived_log_path(number)];
        let skip = usize::from(file.file_type == WalFileType::Archived);
        for path in paths.into_iter().skip(skip) {
            match self.context.world.fs.open(&path, FileMode::default()) {
                Err(error) if error.subcode() == Subcode::PathNotFound => {}
                file => {
                    let reader = WalReader::up_to(limit, file?, number);
                    return Ok(Some((path, reader)));
                }
            }
        }
        Ok(None)
    }
}

/// Returns the sequence number of the first batch of a log.
fn first_sequence(reader: &mut WalReader) -> Result<Option<SequenceNumber>> {
    loop {
        match reader.next()? {
            WalEvent::Record { payload, .. } if payload.len() >= HEADER_LEN => {
                return Ok(BatchRef::parse(payload).ok().map(|batch| batch.sequence()));
            }
            WalEvent::End(_) => return Ok(None),
            _ => {}
        }
    }
}

/// An iterator over the batches in the logs, from a sequence number on; see [`Db::updates_since`].
///
/// A stream that has caught up is not valid and its status is OK: a later [`WalIterator::next`] continues
/// with newer writes. A stream with an error does not continue.
pub struct WalIterator {
    db: Arc<Handle>,
    start: SequenceNumber,
    files: Vec<WalFile>,
    /// The current file.
    at: usize,
    reader: Option<WalReader>,
    /// The limit up to which it may be read.
    limit: u64,
    /// True if the reader is at a batch that was not visible yet.
    waiting: bool,
    /// True if a batch of the file was read.
    in_file: bool,
    /// True if the batch of `start`, or its replacement, was found.
    started: bool,
    valid: bool,
    batch: Vec<u8>,
    /// Prepared transactions, if there may be any.
    prepared: Option<Prepared>,
    first: SequenceNumber,
    last: SequenceNumber,
    status: Result<()>,
}

/// The outcome of the search for the next batch.
enum Found {
    Batch,
    CaughtUp,
    EndOfFile,
}

impl WalIterator {
    fn new(db: Arc<Handle>, start: SequenceNumber, mut files: Vec<WalFile>) -> WalIterator {
        debug_assert!(
            files.is_sorted_by(|a, b| a.log_number < b.log_number),
            "logs are listed in their order"
        );
        let two_phase = db.shared.options().allow_2pc;
        // The last file that starts at or before the number, and the later ones.
        let behind = files.partition_point(|file| file.start_sequence <= start);
        let mut unneeded = behind.saturating_sub(1);
        if let Some(first) = files.get(unneeded).filter(|_| two_phase) {
            // Earlier ones may have the writes of transactions that were committed later.
            let needed = db.shared.writes.sections.first_needed_by(first.log_number);
            unneeded = files.partition_point(|file| Some(file.log_number) < needed);
        }
        files.drain(..unneeded);
        let mut iter = WalIterator {
            db,
            start,
            files,
            at: 0,
            reader: None,
            limit: 0,
            waiting: false,
            in_file: false,
            started: false,
            valid: false,
            batch: Vec::new(),
            prepared: two_phase.then(Prepared::default),
            first: SequenceNumber::ZERO,
            last: SequenceNumber::ZERO,
            status: Ok(()),
        };
        iter.advance(true);
        iter
    }

    /// True if the stream is positioned at a batch.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the reason why it is not, unless it has caught up: `TryAgain` if a new stream has to be
    /// created, `NotFound` at a gap in the sequence numbers.
    ///
    /// # Errors
    ///
    /// The error that ended the stream.
    pub fn status(&self) -> Result<()> {
        self.status.clone()
    }

    /// Returns the sequence number of the batch's first write, and the batch.
    ///
    /// # Errors
    ///
    /// `Corruption` of the batch.
    ///
    /// # Panics
    ///
    /// If the stream is not valid.
    pub fn batch(&self) -> Result<(SequenceNumber, WriteBatch)> {
        assert!(self.valid, "a stream that is not valid has no batch");
        WriteBatch::from_data(&self.batch).map(|batch| (self.first, batch))
    }

    /// Moves to the next batch.
    pub fn next(&mut self) {
        if self.status.is_ok() {
            self.advance(false);
        }
    }

    fn advance(&mut self, first: bool) {
        debug_assert!(
            self.status.is_ok(),
            "a stream with an error does not continue"
        );
        self.valid = false;
        match self.find(first) {
            Ok(valid) => self.valid = valid,
            Err(error) => self.status = Err(error),
        }
    }

    /// Finds the `first` or next batch, if there is one yet.
    fn find(&mut self, first: bool) -> Result<bool> {
        while self.at < self.files.len() {
            match self.find_in_file()? {
                Found::Batch => return Ok(true),
                Found::CaughtUp => return Ok(false),
                Found::EndOfFile if self.at + 1 < self.files.len() => {
                    self.at += 1;
                    self.reader = None;
                    self.in_file = false;
                }
                Found::EndOfFile => break,
            }
        }
        // If the only log ends before the start of the stream, later writes had no log.
        let only_unlogged = first && self.files.len() == 1;
        let caught_up = self.last >= self.db.shared.published();
        match self.files.is_empty() || caught_up || only_unlogged {
            true => Ok(false),
            false => Err(Error::try_again(
                "all logs of this stream have been read: create another stream to continue",
            )),
        }
    }

    /// Returns the error of a gap between the last batch and the one with the sequence number `first` in the log `number`.
    #[cold]
    fn gap_before(
        &self,
        shared: &Shared,
        first: SequenceNumber,
        number: FileNumber,
    ) -> Result<Error> {
        let gap = Error::not_found(format!(
            "gap in sequence numbers: expected {}, found {first}",
            self.last.plus(1)
        ));
        match self.at.checked_sub(1).filter(|_| !self.in_file) {
            None => Ok(gap),
            Some(before) => shared.gap_between(self.files[before].log_number, number, gap),
        }
    }

    fn find_in_file(&mut self) -> Result<Found> {
        let shared = self.db.shared.clone();
        loop {
            let published = shared.published();
            debug_assert!(
                self.last <= published,
                "a stream returns only visible batches: {}, visible up to {published}",
                self.last
            );
            debug_assert!(
                !self.waiting || self.reader.is_some(),
                "a batch that waits has been read"
            );
            if self.last >= published {
                return Ok(Found::CaughtUp);
            }
            let number = self.files[self.at].log_number;
            let reader = match &mut self.reader {
                Some(reader) => reader,
                None => {
                    let file = &self.files[self.at];
                    // Checked before the file is opened: a deleted one is not opened then.
                    let limit = shared.written_len(number)?.unwrap_or(u64::MAX);
                    let Some((_, reader)) = shared.open_wal_up_to(limit, file)? else {
                        return Err(deleted(number));
                    };
                    self.limit = limit;
                    self.reader.insert(reader)
                }
            };
            if !std::mem::take(&mut self.waiting) {
                reader.advance()?;
            }
            let recycled = reader.is_recycled();
            match reader.event() {
                WalEvent::Record { payload, .. } => {
                    // The description of the previous log is not a write of the program.
                    let written = Predecessor::from_batch(payload).is_none();
                    let prepared = self.prepared.as_mut().filter(|_| written);
                    let size_of = |family| shared.timestamp_size_of(family);
                    let changes =
                        prepared.map(|prepared| prepared.changes(payload, number, &size_of));
                    let changes = changes.transpose()?;
                    let payload = changes.as_ref().map_or(payload, Encoded::as_bytes);
                    let written = written && changes.as_ref().is_none_or(|one| !one.is_empty());
                    let Some((first, last)) = span(payload).filter(|_| written) else {
                        // It may commit empty sections.
                        self.prepared.iter_mut().for_each(Prepared::accept);
                        continue;
                    };
                    if last > published {
                        // Beyond a gap, and not visible yet.
                        self.waiting = true;
                        return Ok(Found::CaughtUp);
                    }
                    if self.started && first != self.last.plus(1) {
                        return Err(self.gap_before(&shared, first, number)?);
                    }
                    self.prepared.iter_mut().for_each(Prepared::accept);
                    self.in_file = true;
                    (self.first, self.last) = (first, last);
                    let in_later_file = self.at > 0 && self.prepared.is_none();
                    if self.started || last >= self.start || in_later_file {
                        self.started = true;
                        self.batch.clear();
                        self.batch.extend_from_slice(payload);
                        return Ok(Found::Batch);
                    }
                }
                WalEvent::End(_) => match shared.written_len(number)? {
                    Some(now) if now > self.limit => {
                        self.limit = now;
                        reader.go_on(now);
                    }
                    _ => return Ok(Found::EndOfFile),
                },
                // The file was reused for another log while it was read.
                WalEvent::Dropped(_) if recycled && self.limit != u64::MAX => {
                    return Err(deleted(number));
                }
                // In a recycled log, the rest is old content.
                event @ WalEvent::Dropped(_) if recycled || ends_log(event) => {
                    return Ok(Found::EndOfFile);
                }
                WalEvent::Dropped(dropped) => {
                    shared.context.info.warn(format_args!(
                        "a stream of updates skips {} bytes at {} of log {number}: {}",
                        dropped.bytes, dropped.offset, dropped.reason
                    ));
                }
                _ => {}
            }
        }
    }
}

/// The prepared transactions that a stream has read.
#[derive(Default)]
struct Prepared {
    /// By name.
    sections: HashMap<Vec<u8>, Encoded>,
    /// The names of those that the current batch commits.
    committed: Vec<Vec<u8>>,
}

impl Prepared {
    /// Returns the changes of `batch`: its records without those of prepared sections and markers, and those of the
    /// sections that it commits.
    /// It may be called again with the same batch until [`Prepared::accept`].
    fn changes(
        &mut self,
        batch: &[u8],
        log: FileNumber,
        size_of: &dyn Fn(u32) -> usize,
    ) -> Result<Encoded> {
        let malformed = |error: Malformed| error.in_file("a logged batch", 0);
        let batch = BatchRef::parse(batch).map_err(malformed)?;
        self.committed.clear();
        let mut changes = Encoded::new();
        changes.set_sequence(batch.sequence());
        let mut section: Option<Encoded> = None;
        for record in batch.records() {
            let record = record.map_err(malformed)?;
            match record {
                Record::BeginPrepare(_) => section = Some(Encoded::new()),
                Record::EndPrepare { name } => {
                    let section = section.take().unwrap_or_default();
                    self.sections.insert(name.to_vec(), section);
                }
                Record::Commit { name } | Record::CommitWithTimestamp { name, .. } => {
                    let Some(section) = self.sections.get(name) else {
                        continue;
                    };
                    match record {
                        Record::CommitWithTimestamp { timestamp, .. } => {
                            let section = stamped(section, timestamp, log, size_of)?;
                            changes.append(&section.view())?;
                        }
                        _ => changes.append(&section.view())?,
                    }
                    self.committed.push(name.to_vec());
                }
                Record::Rollback { name } => drop(self.sections.remove(name)),
                record => section.as_mut().unwrap_or(&mut changes).push(&record)?,
            }
        }
        Ok(changes)
    }

    /// Forgets the transactions that the last batch has committed.
    fn accept(&mut self) {
        for name in self.committed.drain(..) {
            self.sections.remove(&name);
        }
    }
}

/// Returns the error of a stream that has reached a deleted log.
fn deleted(number: FileNumber) -> Error {
    Error::try_again(format!(
        "log {number} was deleted: create another stream to continue with the remaining logs"
    ))
}

/// True if nothing follows `event` in its log yet.
fn ends_log(event: WalEvent<'_>) -> bool {
    match event {
        WalEvent::End(_) => true,
        WalEvent::Dropped(dropped) => dropped.reason == Reason::Unfinished,
        _ => false,
    }
}

/// Returns the first and the last sequence number of a batch; for one with log data only, the next number and
/// the one before that. `None` if it has no number.
fn span(batch: &[u8]) -> Option<(SequenceNumber, SequenceNumber)> {
    let batch = BatchRef::parse(batch).ok()?;
    let first = batch.sequence();
    let last = (first.0 + u64::from(batch.count())).checked_sub(1)?;
    Some((first, SequenceNumber(last)))
}

impl Db {
    /// Returns the logs that contain a batch, including archived ones, oldest first.
    ///
    /// # Errors
    ///
    /// `IoError`.
    pub fn sorted_wal_files(&self) -> Result<Vec<WalFile>> {
        self.shared().context.check_reader()?;
        self.shared().sorted_wal_files()
    }

    /// Returns the current log.
    ///
    /// # Errors
    ///
    /// `ShutdownInProgress` if the database is closed; `NotSupported` if it is read-only.
    pub fn current_wal_file(&self) -> Result<WalFile> {
        self.shared().check_open_log()?;
        self.shared().may_write()?;
        let writer = self.shared().writes.writer.lock();
        let log = writer.log.as_ref();
        let log = log.ok_or_else(|| Error::shutdown("the database is closed"))?;
        Ok(WalFile {
            size_file_bytes: log.len(),
            ..WalFile::new(log.number(), WalFileType::Alive)
        })
    }

    /// Returns a stream of the batches in the logs from the one that contains `seq` on. If the logs start
    /// later, the stream starts with the first batch: check its sequence number.
    ///
    /// # Errors
    ///
    /// `NotFound` if `seq` was not written yet; `NotSupported` with a write policy other than "committed", as in RocksDB;
    /// errors of the stream's first step.
    pub fn updates_since(&self, seq: SequenceNumber) -> Result<WalIterator> {
        self.shared().context.check_reader()?;
        if self.shared().writes.sections.are_early() {
            return Err(Error::not_supported(
                "This API is not yet compatible with write-prepared/write-unprepared transactions",
            ));
        }
        self.shared()
            .telemetry
            .tick(Ticker::GetUpdatesSinceCalls, 1);
        if seq > self.shared().published() {
            return Err(Error::not_found(format!(
                "sequence number {seq} was not written yet"
            )));
        }
        let mut files = self.shared().sorted_wal_files()?;
        loop {
            let numbers = |files: &[WalFile]| -> Vec<_> {
                files.iter().map(|file| file.log_number).collect()
            };
            let listed = numbers(&files);
            let iter = WalIterator::new(self.handle.clone(), seq, files);
            match iter.status() {
                // A log may have been deleted between the listing and its reading: a later listing omits it.
                Err(error) if error.code() == Code::TryAgain => {
                    files = self.shared().sorted_wal_files()?;
                    if numbers(&files) == listed {
                        return Err(error);
                    }
                }
                status => return status.map(|()| iter),
            }
        }
    }
}

impl Shared {
    fn check_open_log(&self) -> Result<()> {
        match self.context.read_only {
            true => Err(Error::not_supported(
                "a read-only database has no current log",
            )),
            false => Ok(()),
        }
    }
}
