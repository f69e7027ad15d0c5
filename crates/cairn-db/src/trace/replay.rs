//! Replay of a query trace on a database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cairn_format::batch::WriteBatch as Encoded;
use cairn_format::trace::{BEGIN, END, METADATA_LEN, Metadata, Query, TraceVersions};
use cairn_options::{ReadOptions, WriteOptions};
use cairn_platform::io::run_apart;
use cairn_platform::sync::{Condvar, Mutex};
use cairn_types::{Code, Error, Result};

use super::file::TraceReader;
use super::prepared::PreparedSections;
use crate::db::Db;
use crate::db::handle::Family;
use crate::write::batch::WriteBatch;

/// Options of [`Replayer::replay`].
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayOptions {
    /// The number of threads that execute operations. With more than one, their order is that of their start only.
    pub num_threads: u32,
    /// The speed, relative to that of the trace: with 2, operations start after half the time. Must be positive.
    pub fast_forward: f64,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions {
            num_threads: 1,
            fast_forward: 1.0,
        }
    }
}

/// An operation of a trace.
#[derive(Clone, Debug)]
pub struct TraceRecord {
    micros: u64,
    kind: u8,
    /// The record with its metadata.
    bytes: Vec<u8>,
    versions: Arc<TraceVersions>,
    /// The writes that take effect with a batch that has markers of prepared transactions; `None` for other records.
    effect: Result<Option<Encoded>>,
}

impl TraceRecord {
    /// Returns the time of the operation, in microseconds since 1970.
    #[must_use]
    pub fn timestamp_micros(&self) -> u64 {
        self.micros
    }

    /// Returns the operation.
    ///
    /// # Errors
    ///
    /// `NotSupported` if it is not an operation on a database; `Corruption` if it is malformed.
    pub fn query(&self) -> Result<Query<'_>> {
        let payload = &self.bytes[METADATA_LEN..];
        let decoded = Query::decode(self.kind, &self.versions, payload);
        decoded.map_err(|malformed| {
            malformed.in_file(
                format_args!("the trace record of time {}", self.micros),
                METADATA_LEN as u64,
            )
        })
    }
}

/// The result of an operation that was replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// That of a write.
    Written,
    /// The value that a get found.
    Value(Option<Vec<u8>>),
    /// The values that a batch of gets found.
    Values(Vec<Option<Vec<u8>>>),
    /// The key and value to which an iterator moved.
    Entry(Option<(Vec<u8>, Vec<u8>)>),
}

/// The result of an operation that was replayed, and its times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceRecordResult {
    /// The result.
    pub outcome: Replayed,
    /// The start, in microseconds since 1970.
    pub start_micros: u64,
    /// The end, in microseconds since 1970.
    pub end_micros: u64,
}

/// Called with the result of each operation, by the threads that execute them.
type Callback = Arc<dyn Fn(Result<TraceRecordResult>) + Send + Sync>;

/// The database on which operations are replayed.
#[derive(Clone)]
struct Target {
    db: Db,
    families: Arc<BTreeMap<u32, Family>>,
}

impl Target {
    fn family(&self, id: u32) -> Result<&Family> {
        let unknown = || {
            Error::corruption(format!(
                "Invalid Column Family ID. The trace has operations on family {id}, of which the replayer has no handle"
            ))
        };
        self.families.get(&id).ok_or_else(unknown)
    }

    fn execute(&self, record: &TraceRecord) -> Result<TraceRecordResult> {
        let query = record.query()?;
        let effect = record.effect.as_ref().map_err(Error::clone)?;
        let clock = self.db.clock();
        let start_micros = clock.wall_micros();
        let outcome = self.outcome(&query, effect.as_ref())?;
        Ok(TraceRecordResult {
            outcome,
            start_micros,
            end_micros: clock.wall_micros(),
        })
    }

    /// Executes `query`. A write has the `effect`, if it is given.
    fn outcome(&self, query: &Query<'_>, effect: Option<&Encoded>) -> Result<Replayed> {
        match query {
            Query::Write(batch) => {
                let batch = effect.map_or(*batch, Encoded::as_bytes);
                if effect.is_none_or(|effect| !effect.is_empty()) {
                    let batch = WriteBatch::from_data(batch)?;
                    // The batch is in its stored form and must not be dated again.
                    let options = WriteOptions::default();
                    self.db.shared().write_dated_if(&batch, &options, None)?;
                }
                Ok(Replayed::Written)
            }
            Query::Get { family, key } => {
                let value = self.family(*family)?.get(key)?;
                Ok(Replayed::Value(value.map(|value| value.to_vec())))
            }
            Query::Seek(seek) | Query::SeekForPrev(seek) => {
                let bound = |bound: &[u8]| (!bound.is_empty()).then(|| bound.to_vec());
                let options = ReadOptions {
                    iterate_lower_bound: bound(seek.lower),
                    iterate_upper_bound: bound(seek.upper),
                    ..ReadOptions::default()
                };
                let mut iter = self.family(seek.family)?.iter_with(&options);
                match query {
                    Query::SeekForPrev(_) => iter.seek_for_prev(seek.key),
                    _ => iter.seek(seek.key),
                }
                iter.status()?;
                let entry = iter
                    .valid()
                    .then(|| (iter.key().to_vec(), iter.value().to_vec()));
                Ok(Replayed::Entry(entry))
            }
            Query::MultiGet(keys) => {
                if keys.is_empty() {
                    return Err(Error::invalid_argument("Empty MultiGet cf_ids or keys."));
                }
                let keys = keys
                    .iter()
                    .map(|(family, key)| Ok((self.family(*family)?, *key)));
                let keys = keys.collect::<Result<Vec<_>>>()?;
                let found = self.db.multi_get_in(&keys, &ReadOptions::default(), false);
                let values = found
                    .into_iter()
                    .map(|value| Ok(value?.map(|value| value.to_vec())));
                Ok(Replayed::Values(values.collect::<Result<_>>()?))
            }
        }
    }
}

/// Replays a trace on a database: [`Replayer::prepare`] reads its header, then either [`Replayer::replay`] executes all
/// operations, or [`Replayer::next`] returns them one by one for [`Replayer::execute`].
///
/// Values are written as recorded. A trace of a database with a time to live contains dates, and must be replayed on such
/// a database; a trace without dates must not. Transactions that RocksDB prepared are written when they are committed.
pub struct Replayer {
    target: Target,
    reader: Box<dyn TraceReader>,
    /// The versions and the start of the trace, once it is prepared.
    header: Option<(Arc<TraceVersions>, u64)>,
    sections: PreparedSections,
    ended: bool,
}

impl Replayer {
    /// Creates a replayer for `db`. It can replay reads of `families` and of the default family, and writes to any
    /// family.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if a family belongs to another database.
    pub fn new(db: &Db, families: &[&Family], reader: Box<dyn TraceReader>) -> Result<Replayer> {
        db.check_families(families.iter().copied())?;
        let all = families.iter().copied().chain([db.default_family()]);
        let families = all.map(|family| (family.id(), family.clone())).collect();
        Ok(Replayer {
            target: Target {
                db: db.clone(),
                families: Arc::new(families),
            },
            reader,
            header: None,
            sections: PreparedSections::default(),
            ended: false,
        })
    }

    /// Reads the header of the trace, and returns to its first operation.
    ///
    /// # Errors
    ///
    /// Those of the reader; `Incomplete` for an empty trace; `Corruption` if it has no valid header; `NotSupported` for
    /// a later version of the format.
    pub fn prepare(&mut self) -> Result<()> {
        self.header = None;
        self.sections = PreparedSections::default();
        self.reader.reset()?;
        let Some((metadata, record)) = self.read()? else {
            return Err(Error::incomplete("the trace is empty"));
        };
        if metadata.kind != BEGIN {
            let kind = metadata.kind;
            return Err(Error::corruption(format!(
                "the trace has no header: expected a record of kind {BEGIN}, found {kind}"
            )));
        }
        let versions = TraceVersions::decode(&record[METADATA_LEN..])
            .map_err(|malformed| malformed.in_file("the trace", METADATA_LEN as u64))?;
        self.header = Some((Arc::new(versions), metadata.micros));
        self.ended = false;
        Ok(())
    }

    /// Returns the time of the start of the trace, in microseconds since 1970; 0 unless it is prepared.
    #[must_use]
    pub fn header_timestamp_micros(&self) -> u64 {
        self.header.as_ref().map_or(0, |(_, micros)| *micros)
    }

    /// Reads a record of the source.
    fn read(&mut self) -> Result<Option<(Metadata, Vec<u8>)>> {
        let Some(record) = self.reader.read()? else {
            return Ok(None);
        };
        let metadata =
            Metadata::decode(&record).map_err(|malformed| malformed.in_file("the trace", 0))?;
        Ok(Some((metadata, record)))
    }

    /// Returns the next operation.
    ///
    /// # Errors
    ///
    /// `Incomplete` at the end of the trace, and unless it is prepared; those of the reader.
    #[expect(
        clippy::should_implement_trait,
        reason = "RocksDB's name; the end of the trace is an error"
    )]
    pub fn next(&mut self) -> Result<TraceRecord> {
        let Some((versions, _)) = &self.header else {
            return Err(Error::incomplete("Not prepared!"));
        };
        let versions = versions.clone();
        if self.ended {
            return Err(Error::incomplete("Trace end."));
        }
        match self.read()? {
            Some((metadata, bytes)) if metadata.kind != END => {
                let mut record = TraceRecord {
                    micros: metadata.micros,
                    kind: metadata.kind,
                    bytes,
                    versions,
                    effect: Ok(None),
                };
                // Reported by `execute`, which may run in another order.
                if let Ok(Query::Write(batch)) = record.query() {
                    record.effect = self.sections.effect(batch);
                }
                Ok(record)
            }
            _ => {
                self.ended = true;
                Err(Error::incomplete("Trace end."))
            }
        }
    }

    /// Executes the operation of `record` on the database.
    ///
    /// # Errors
    ///
    /// Those of the operation; `Corruption` for a read of a family of which the replayer has no handle; those of
    /// [`TraceRecord::query`]. A key that is not found is no error.
    pub fn execute(&self, record: &TraceRecord) -> Result<TraceRecordResult> {
        self.target.execute(record)
    }

    /// Executes the remaining operations in order, each at its time, and passes the results to `callback`. The replay
    /// stops at the first error. Records that are not operations on a database are passed to `callback` as
    /// `NotSupported`, and skipped.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` unless `fast_forward` is positive; `Incomplete` unless the trace is prepared, or if its end was
    /// reached before; those of [`Replayer::execute`], of several threads the error of the operation with the earliest
    /// time; those of the reader.
    pub fn replay(&mut self, options: &ReplayOptions, callback: Option<Callback>) -> Result<()> {
        if options.fast_forward.is_nan() || options.fast_forward <= 0.0 {
            return Err(Error::invalid_argument("Wrong fast forward speed!"));
        }
        let clock = self.target.db.clock().clone();
        let began = clock.monotonic_nanos();
        let origin = self.header_timestamp_micros();
        let workers = Arc::new(Workers::default());
        let several = options.num_threads > 1 && clock.is_real();
        if self.ended || self.header.is_none() {
            return self.next().map(|_| ());
        }
        let read = loop {
            let record = match self.next() {
                Ok(record) => record,
                Err(_) if self.ended => break Ok(()),
                Err(error) => break Err(error),
            };
            let since = record.micros.saturating_sub(origin) as f64 / options.fast_forward;
            // Saturates, in both steps.
            let due = began.saturating_add((since * 1000.0) as u64);
            let now = clock.monotonic_nanos();
            if due > now {
                clock.sleep(Duration::from_nanos(due - now));
            }
            let (target, callback) = (self.target.clone(), callback.clone());
            let job = move || replay_record(&target, &record, callback.as_ref());
            match several {
                false => {
                    if let Err((_, error)) = job() {
                        break Err(error);
                    }
                }
                true if !Workers::start(&workers, options.num_threads as usize, Box::new(job)) => {
                    break Ok(());
                }
                true => {}
            }
        };
        workers.finish().and(read)
    }
}

impl std::fmt::Debug for Replayer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Replayer")
            .field("database", &self.target.db.path())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

/// Executes `record` and passes its result to `callback`. An error has the time of the record.
fn replay_record(
    target: &Target,
    record: &TraceRecord,
    callback: Option<&Callback>,
) -> std::result::Result<(), (u64, Error)> {
    let is_query = !record
        .query()
        .is_err_and(|error| error.code() == Code::NotSupported);
    let done = target.execute(record);
    let failed = done.as_ref().err().filter(|_| is_query).cloned();
    if let Some(callback) = callback {
        callback(done);
    }
    failed.map_or(Ok(()), |error| Err((record.micros, error)))
}

/// An operation for another thread.
type Job = Box<dyn FnOnce() -> std::result::Result<(), (u64, Error)> + Send>;

/// The operations that other threads are executing.
#[derive(Default)]
struct Workers {
    state: Mutex<WorkersState>,
    changed: Condvar,
}

#[derive(Default)]
struct WorkersState {
    running: usize,
    /// The error of the operation with the earliest time, and that time.
    failed: Option<(u64, Error)>,
}

/// Counts the end of an operation, also by a panic.
struct Running(Arc<Workers>);

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.running -= 1;
        if std::thread::panicking() {
            let error = Error::panicked("a replayed operation panicked");
            state.failed.get_or_insert((u64::MAX, error));
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Workers {
    /// Executes `job` on another thread, at most `limit` at a time. Returns false if one has failed.
    fn start(workers: &Arc<Workers>, limit: usize, job: Job) -> bool {
        let mut state = workers.state.lock();
        while state.running >= limit {
            workers.changed.wait(&mut state);
        }
        if state.failed.is_some() {
            return false;
        }
        state.running += 1;
        drop(state);
        let running = Running(workers.clone());
        run_apart(Box::new(move || {
            if let Err((micros, error)) = job() {
                let mut state = running.0.state.lock();
                if state
                    .failed
                    .as_ref()
                    .is_none_or(|(earliest, _)| micros < *earliest)
                {
                    state.failed = Some((micros, error));
                }
            }
            drop(running);
        }));
        true
    }

    /// Waits for all operations. Returns the error of the one with the earliest time.
    fn finish(&self) -> Result<()> {
        let mut state = self.state.lock();
        while state.running > 0 {
            self.changed.wait(&mut state);
        }
        state.failed.take().map_or(Ok(()), |(_, error)| Err(error))
    }
}
