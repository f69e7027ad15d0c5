//! Remote subcompactions: a [`CompactionService`] passes the description of a subcompaction to a worker in
//! another process, and the tables that the worker wrote are moved into the database.
//!
//! ```text
//! subcompaction -> Request -> schedule, wait -> Reply -> tables renamed to new numbers, checked -> edit
//! ```
//!
//! A result is not trusted. Its files are renamed one at a time, opened and compared with the result and with the
//! inputs; the first mismatch removes those already moved, and the subcompaction runs locally. Blobs cannot be
//! described by a result, so compactions of families with blob files are local.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cairn_format::compaction_service::{OutputFile, Reply, Request, Status};
use cairn_format::id::UniqueId;
use cairn_format::key::{self, InternalKey};
use cairn_format::manifest::SequenceRange;
use cairn_format::names::FileName;
use cairn_format::table::Properties;
use cairn_format::trace::block_cache::CacheCaller;
use cairn_memory::MemoryUse;
use cairn_observe::Logger;
use cairn_observe::statistics::Ticker;
use cairn_options::{
    CompactionService, CompactionServiceJobInfo, CompactionServiceJobStatus, Temperature,
};
use cairn_platform::sync::{Arc, AtomicUsize, Ordering};
use cairn_table::{IterOptions, Table, TableIter};
use cairn_types::{Code, Decoded, Error, FileNumber, Result, SequenceNumber, Subcode};
use cairn_version::file_meta::EntryCounts;
use cairn_version::{FileMeta, bounds};

use crate::context::JobContext;
use crate::output_params::OutputParams;
use crate::output_verification::OutputValidator;
use crate::pick::Pick;
use crate::stats::{Dropped, JobStats};
use crate::subcompactions::SubcompactionRange;

/// Passes the subcompactions of a compaction to other processes.
#[derive(Clone)]
pub struct RemoteCompactor {
    /// The service.
    pub service: Arc<dyn CompactionService>,
    /// The compaction, with its job number.
    pub info: CompactionServiceJobInfo,
    /// The number of the OPTIONS file.
    pub options_file: FileNumber,
    /// Number and size of the MANIFEST that has the inputs; workers that see an older one must refuse. `None`
    /// accepts any.
    pub manifest: Option<(FileNumber, u64)>,
    /// Directories of the database, from which no file may be taken.
    pub database_dirs: Vec<PathBuf>,
    /// The info log.
    pub log: Arc<Logger>,
    /// The number of calls that wait for a worker.
    pub waiting: Arc<AtomicUsize>,
}

/// The outputs of a remote subcompaction, which are in the database but in no version.
pub(crate) struct Received {
    pub(crate) files: Vec<Arc<FileMeta>>,
    pub(crate) stats: JobStats,
    pub(crate) range_deletions: u64,
}

impl Received {
    /// Adds a table with `properties`. Their numbers were written by the worker and may be arbitrary.
    fn add(&mut self, file: Arc<FileMeta>, properties: &Properties) {
        let range_deletions = properties.num_range_deletions;
        let raw_bytes = properties
            .raw_key_size
            .saturating_add(properties.raw_value_size);
        self.range_deletions = self.range_deletions.saturating_add(range_deletions);
        self.stats.add(&JobStats {
            output_bytes: file.size,
            output_raw_bytes: raw_bytes,
            output_entries: properties.num_entries.saturating_sub(range_deletions),
            ..JobStats::default()
        });
        self.files.push(file);
    }
}

/// The reason for which the outputs of a result were not accepted.
enum Rejection {
    /// The result does not describe what it should: the subcompaction is run locally.
    Invalid(Error),
    /// An operation on the file system failed, which would also fail locally.
    Failed(Error),
}

impl From<Error> for Rejection {
    fn from(error: Error) -> Rejection {
        match error.code() {
            Code::IoError => Rejection::Failed(error),
            _ => Rejection::Invalid(error),
        }
    }
}

impl RemoteCompactor {
    /// Runs the subcompaction `number` of `pick`, which compacts `span`. `None` if it must be run locally.
    ///
    /// # Errors
    ///
    /// `Incomplete` if the service fails, unless the worker reports an error; `Aborted` if the job was
    /// aborted; `IoError` if a table cannot be moved.
    pub(crate) fn run(
        &self,
        params: &OutputParams,
        pick: &Pick,
        number: usize,
        span: &SubcompactionRange,
    ) -> Result<Option<Received>> {
        let context = &params.context;
        if let Some(reason) = self.obstacle(context, pick) {
            self.log
                .info(format_args!("{}Local compaction: {reason}", self.prefix()));
            return Ok(None);
        }
        check_cancel(context)?;
        let input = self.request(context, pick, span).encode();
        let info = CompactionServiceJobInfo {
            job_id: self.info.job_id << 32 | number as u64,
            ..self.info.clone()
        };
        self.log.info(format_args!(
            "{}Starting remote compaction by {}",
            self.prefix(),
            self.service.name()
        ));
        let Some(id) = &self.schedule(&info, &input)? else {
            return Ok(self.use_local("schedule"));
        };
        let reply = match self.wait(id)? {
            None => return Ok(self.use_local("wait")),
            Some(Err(malformed)) => return Ok(self.reject(id, &malformed)),
            Some(Ok(reply)) => reply,
        };
        if let Some(error) = error_of(&reply.status) {
            self.finished(id, CompactionServiceJobStatus::Failure);
            return Err(error);
        }
        if let Err(error) = check_cancel(context) {
            self.finished(id, CompactionServiceJobStatus::Failure);
            return Err(error);
        }
        match self.receive(params, pick, span, &reply) {
            Ok(received) => {
                context
                    .meter
                    .add(Ticker::RemoteCompactReadBytes, reply.bytes_read);
                context
                    .meter
                    .add(Ticker::RemoteCompactWriteBytes, reply.bytes_written);
                self.finished(id, CompactionServiceJobStatus::Success);
                Ok(Some(received))
            }
            Err(Rejection::Invalid(error)) => Ok(self.reject(id, &error)),
            Err(Rejection::Failed(error)) => {
                self.finished(id, CompactionServiceJobStatus::Failure);
                Err(error)
            }
        }
    }

    /// Passes a job to the service. Returns its id; `None` if it must be run locally.
    fn schedule(&self, info: &CompactionServiceJobInfo, input: &[u8]) -> Result<Option<String>> {
        let scheduled = self.service.schedule(info, input);
        match scheduled.status {
            CompactionServiceJobStatus::Success => Ok(Some(scheduled.scheduled_job_id)),
            CompactionServiceJobStatus::UseLocal => Ok(None),
            CompactionServiceJobStatus::Aborted => Err(Error::aborted(
                "Scheduling a remote compaction job was aborted",
            )),
            CompactionServiceJobStatus::Failure => Err(incomplete(
                "CompactionService failed to schedule a remote compaction job.",
            )),
        }
    }

    /// Waits for the reply to the job `id`; `None` if the job must be run locally.
    fn wait(&self, id: &str) -> Result<Option<Decoded<Reply>>> {
        let (status, bytes) = {
            let _waiting = Waiting::begin(&self.waiting);
            self.service.wait(id)
        };
        let reply = Reply::decode(&bytes);
        match status {
            CompactionServiceJobStatus::Success => Ok(Some(reply)),
            CompactionServiceJobStatus::UseLocal => Ok(None),
            CompactionServiceJobStatus::Aborted => Err(Error::aborted(
                "Waiting a remote compaction job was aborted",
            )),
            CompactionServiceJobStatus::Failure => Err(failure(reply.ok())),
        }
    }

    /// Returns the reason for which `pick` cannot be run remotely.
    fn obstacle(&self, context: &JobContext, pick: &Pick) -> Option<&'static str> {
        let options = &context.family.options;
        if options.enable_blob_files || pick.files().any(|(_, file)| file.oldest_blob.is_some()) {
            return Some("the column family has blob files");
        }
        if options.value_ttl.is_some() {
            return Some("the values have an expiry time");
        }
        if pick.young.is_some() {
            return Some("young entries are kept out of the last level");
        }
        None
    }

    fn request(&self, context: &JobContext, pick: &Pick, span: &SubcompactionRange) -> Request {
        let names = pick.files();
        let mut snapshots: Vec<u64> = context.snapshots.iter().map(|seq| seq.0).collect();
        snapshots.dedup();
        let (min_manifest_file_number, min_manifest_file_size) = self
            .manifest
            .map_or((0, 0), |(number, size)| (number.0, size));
        Request {
            family: context.family.name.clone().into_bytes(),
            snapshots,
            input_files: names
                .map(|(_, file)| FileName::Table(file.number).to_string().into_bytes())
                .collect(),
            output_level: i32::try_from(pick.output.level).unwrap_or(i32::MAX),
            db_id: context.database.id.clone().into_bytes(),
            has_begin: span.lower.is_some(),
            begin: span.lower.clone().unwrap_or_default(),
            has_end: span.upper.is_some(),
            end: span.upper.clone().unwrap_or_default(),
            options_file_number: self.options_file.0,
            min_manifest_file_number,
            min_manifest_file_size,
        }
    }

    fn prefix(&self) -> String {
        format!("[{}] [JOB {}] ", self.info.family_name, self.info.job_id)
    }

    fn use_local(&self, call: &str) -> Option<Received> {
        self.log.info(format_args!(
            "{}Remote compaction falls back to a local one: requested by the service ({call})",
            self.prefix()
        ));
        None
    }

    /// Rejects a result, which is then not used.
    fn reject(&self, id: &str, reason: &dyn std::fmt::Display) -> Option<Received> {
        self.log.warn(format_args!(
            "{}Remote compaction falls back to a local one: invalid result: {reason}",
            self.prefix()
        ));
        self.finished(id, CompactionServiceJobStatus::UseLocal);
        None
    }

    fn finished(&self, id: &str, status: CompactionServiceJobStatus) {
        self.service.on_installation(id, status);
    }

    /// Moves the tables of `reply` into the database. On an error, none of them remains there.
    fn receive(
        &self,
        params: &OutputParams,
        pick: &Pick,
        span: &SubcompactionRange,
        reply: &Reply,
    ) -> std::result::Result<Received, Rejection> {
        let dir = self.output_dir(params, reply)?;
        let mut moved = MovedTables {
            params,
            paths: Vec::new(),
        };
        let expected = Expected::new(params, pick, span);
        let mut received = Received {
            files: Vec::new(),
            stats: JobStats::default(),
            range_deletions: 0,
        };
        if usize::try_from(reply.output_level) != Ok(params.level) {
            return Err(invalid(format!(
                "output level: expected {}, found {}",
                params.level, reply.output_level
            )));
        }
        let names: BTreeSet<_> = reply
            .output_files
            .iter()
            .map(|file| &file.file_name)
            .collect();
        if names.len() < reply.output_files.len() {
            return Err(invalid("a file is named twice".to_owned()));
        }
        for output in &reply.output_files {
            let mut file = expected.file(output)?;
            if let Some(last) = received.files.last()
                && !bounds::are_apart(&params.context.family.order, last, &file)
            {
                return Err(invalid(format!("{file:?} overlaps {last:?}")));
            }
            file.number = (params.context.new_number)();
            let path = params.path_of(file.number);
            moved.take(&dir, output, &path)?;
            let file = Arc::new(file);
            let table = expected.check(&file, output, &path)?;
            received.add(file, table.properties());
        }
        let stats = &reply.stats;
        received.stats = JobStats {
            remote: true,
            input_entries: stats.num_input_records,
            inexact: !stats.has_accurate_num_input_records,
            output_files: received.files.len() as u64,
            dropped: Dropped {
                hidden: stats.num_records_replaced,
                obsolete: stats.num_expired_deletion_records,
                single_alone: stats.num_single_del_fallthru,
                single_mismatched: stats.num_single_del_mismatch,
                ..Dropped::default()
            },
            ..received.stats
        };
        expected.check_counts(
            &received.stats,
            reply.internal_stats.output_level_stats.num_output_records,
        )?;
        for file in &received.files {
            let charge = &params.context.family.charge;
            if let Some(charge) = charge.charge(MemoryUse::FileMetadata, file.memory_usage()) {
                // The file is new and has no charge.
                let _ = file.charge.set(Arc::new(charge));
            }
        }
        params.created.lock().append(&mut moved.paths);
        Ok(received)
    }

    /// Returns the directory of the tables of `reply`.
    fn output_dir(
        &self,
        params: &OutputParams,
        reply: &Reply,
    ) -> std::result::Result<PathBuf, Rejection> {
        let path = String::from_utf8(reply.output_path.clone())
            .map_err(|_| invalid("the output path is not UTF-8".to_owned()))?;
        let dir = PathBuf::from(path);
        if reply.output_files.is_empty() {
            return Ok(dir);
        }
        let fs = &params.context.world.fs;
        let canonical = fs.canonical(&dir)?;
        let mut own = self.database_dirs.iter();
        // A directory of the database holds files that are in use.
        if own.any(|own| fs.canonical(own).unwrap_or_else(|_| own.clone()) == canonical) {
            return Err(invalid(format!(
                "{} is a directory of the database",
                dir.display()
            )));
        }
        Ok(dir)
    }
}

/// Tables that were moved into the database. Removes them when dropped, unless they were taken out.
struct MovedTables<'a> {
    params: &'a OutputParams,
    paths: Vec<PathBuf>,
}

impl MovedTables<'_> {
    /// Moves the table `output` in `dir` to `path`.
    fn take(&mut self, dir: &Path, output: &OutputFile, path: &Path) -> Result<()> {
        let name = String::from_utf8_lossy(&output.file_name);
        let fs = &self.params.context.world.fs;
        self.paths.push(path.to_owned());
        fs.rename(&dir.join(&*name), path)?;
        // The outputs of this job are removed if it fails, and opened tables cannot be read then: the
        // directory entry is made durable together with those of other outputs.
        Ok(())
    }
}

impl Drop for MovedTables<'_> {
    fn drop(&mut self) {
        for path in &self.paths {
            // The next open removes files that are in no version.
            self.params.context.world.fs.remove(path).ok();
        }
    }
}

/// Properties that the outputs of a subcompaction must have.
struct Expected<'a> {
    params: &'a OutputParams,
    span: &'a SubcompactionRange,
    smallest: InternalKey,
    largest: InternalKey,
    largest_seqno: SequenceNumber,
    /// The temperature of the files; `None` for the one that the worker reports.
    temperature: Option<Temperature>,
    /// The number of entries of the inputs; `None` if it is unknown.
    entries: Option<u64>,
}

impl<'a> Expected<'a> {
    fn new(params: &'a OutputParams, pick: &Pick, span: &'a SubcompactionRange) -> Expected<'a> {
        let (smallest, largest) = pick.bounds(&params.context.family.order);
        let seqs = pick.files().map(|(_, file)| file.seqs.largest);
        let mut counts = pick.files().map(|(_, file)| {
            let counts = file.counts.get()?;
            Some(counts.entries.saturating_sub(counts.range_deletions))
        });
        let whole = span.lower.is_none() && span.upper.is_none();
        Expected {
            params,
            span,
            smallest,
            largest,
            largest_seqno: seqs.max().unwrap_or_default(),
            temperature: pick.output.temperature,
            entries: counts
                .try_fold(0_u64, |sum, count| sum.checked_add(count?))
                .filter(|_| whole),
        }
    }

    /// Returns the metadata of `output`, without a number.
    fn file(&self, output: &OutputFile) -> std::result::Result<FileMeta, Rejection> {
        let params = self.params;
        let name = std::str::from_utf8(&output.file_name).ok();
        let Some(FileName::Table(_)) = name.and_then(FileName::parse) else {
            return Err(invalid(format!(
                "{:?} is not the name of a table",
                String::from_utf8_lossy(&output.file_name)
            )));
        };
        let bound = |bytes: &[u8]| {
            InternalKey::decode(bytes)
                .map_err(|malformed| invalid(format!("bound of an output: {malformed}")))
        };
        let (smallest, largest) = (bound(&output.smallest)?, bound(&output.largest)?);
        let mut file = FileMeta::new(FileNumber(0), output.file_size, smallest, largest);
        // The request has no place for a temperature.
        let reported = || Temperature::from_name(&output.file_temperature);
        file.temperature = self.temperature.unwrap_or_else(reported).number();
        self.check_range(&file)?;
        if output.smallest_seqno > output.largest_seqno
            || output.largest_seqno > self.largest_seqno.0
        {
            return Err(invalid(format!(
                "sequence numbers: expected at most {}, found {} to {}",
                self.largest_seqno, output.smallest_seqno, output.largest_seqno
            )));
        }
        if output.is_proximal_level_output {
            return Err(invalid("an output is placed in another level".to_owned()));
        }
        file.path_id = params.path_id;
        file.seqs = SequenceRange {
            smallest: SequenceNumber(output.smallest_seqno),
            largest: SequenceNumber(output.largest_seqno),
        };
        file.epoch = params.epoch;
        file.hints.marked = output.marked_for_compaction;
        file.times.oldest_ancester = match output.oldest_ancester_time {
            0 => params.oldest_time,
            time => time,
        };
        file.times.file = match output.file_creation_time {
            0 => params.now,
            time => time,
        };
        if output.unique_id != [0, 0] {
            file.unique_id = Some(output.unique_id);
        }
        let function = String::from_utf8_lossy(&output.file_checksum_func_name);
        let factory = &params.context.database.options.file_checksum_gen_factory;
        let path = params.context.table_path(&file);
        if let Some(factory) = factory
            && factory.start(&path).function() == Some(&*function)
        {
            file.checksum.value.clone_from(&output.file_checksum);
            file.checksum.function = function.into_owned().into();
        }
        Ok(file)
    }

    /// Checks that the bounds of `file` are within those of the inputs and of the subcompaction.
    fn check_range(&self, file: &FileMeta) -> std::result::Result<(), Rejection> {
        let order = &self.params.context.family.order;
        let within = |low: &[u8], high: &[u8]| {
            let compare = |a: &[u8], b: &[u8]| order.compare_without_timestamp(a, b);
            let end = compare(file.largest.user_key(), high);
            compare(low, file.smallest.user_key()).is_le() && end.is_le()
        };
        let ascends = bounds::compare(order, file.smallest.as_bytes(), file.largest.as_bytes());
        let lower = self.span.lower.as_deref();
        let upper = self.span.upper.as_deref();
        // An upper bound of the range is the end of a range tombstone, or behind all keys.
        let ends_before = upper.is_none_or(|upper| {
            let end = order.compare_without_timestamp(file.largest.user_key(), upper);
            end.is_lt() || end.is_eq() && bounds::is_sentinel(file.largest.as_bytes())
        });
        if ascends.is_gt()
            || !within(
                lower.unwrap_or_else(|| self.smallest.user_key()),
                self.largest.user_key(),
            )
            || !within(self.smallest.user_key(), self.largest.user_key())
            || !ends_before
        {
            return Err(invalid(format!(
                "bounds {file:?} are not within those of the inputs"
            )));
        }
        Ok(())
    }

    /// Compares the table at `path` with its description.
    fn check(
        &self,
        file: &Arc<FileMeta>,
        output: &OutputFile,
        path: &Path,
    ) -> std::result::Result<Arc<Table>, Rejection> {
        let context = &self.params.context;
        let len = context.world.fs.status(path)?.len;
        if len != file.size {
            return Err(invalid(format!(
                "size of {}: expected {}, found {len}",
                String::from_utf8_lossy(&output.file_name),
                file.size
            )));
        }
        let table = (context.open)(file, self.params.level)?;
        let properties = table.properties();
        let id = UniqueId::of_table(
            &properties.db_id,
            &properties.db_session_id,
            properties.original_file_number,
        );
        if file.unique_id != id.map(|id| id.short()) && file.unique_id.is_some() {
            return Err(invalid(format!(
                "unique id of {}: expected {:?}, found {id:?}",
                String::from_utf8_lossy(&output.file_name),
                file.unique_id
            )));
        }
        if properties.num_entries == 0 {
            return Err(invalid("an output is empty".to_owned()));
        }
        self.check_bounds(file, &table)?;
        let counts = EntryCounts::of(properties);
        // Opening the table may have set the same counts.
        let _ = file.counts.set(counts);
        if let Some(validator) =
            OutputValidator::of_remote(&context.family.options, &context.family.order)
        {
            validator.check(context, file, self.params.level)?;
        }
        if let Some(events) = &context.events {
            events.table_received(path, file, &Arc::new(properties.clone()));
        }
        Ok(table)
    }

    /// Fails if the first or the last entry of `table`, or a range tombstone, is outside of the bounds of `file`.
    fn check_bounds(
        &self,
        file: &FileMeta,
        table: &Arc<Table>,
    ) -> std::result::Result<(), Rejection> {
        let context = &self.params.context;
        let order = &context.family.order;
        let options = IterOptions {
            fill_cache: false,
            caller: CacheCaller::Compaction,
            ..IterOptions::default()
        };
        let mut iter = TableIter::new(table.clone(), options);
        for last in [false, true] {
            let step = match last {
                true => iter.seek_to_last(),
                false => iter.seek_to_first(),
            };
            iter.complete(step, &context.io);
            iter.status()?;
            if !iter.valid() {
                continue;
            }
            let found = iter.key();
            let inside = match last {
                true => bounds::compare(order, found, file.largest.as_bytes()).is_le(),
                false => key::compare(order, file.smallest.as_bytes(), found).is_le(),
            };
            if !inside || key::sequence(found) > file.seqs.largest {
                return Err(invalid(format!(
                    "an entry of {file:?} is outside of its bounds"
                )));
            }
        }
        let Some(tombstones) = table.range_tombstones() else {
            return Ok(());
        };
        for fragment in tombstones.iter() {
            let size = order.timestamp_size();
            let start = key::compare_plain(
                order,
                key::strip_timestamp(file.smallest.user_key(), size),
                fragment.start,
            );
            let end = key::compare_plain(
                order,
                fragment.end,
                key::strip_timestamp(file.largest.user_key(), size),
            );
            if start.is_gt() || end.is_gt() {
                return Err(invalid(format!(
                    "a range tombstone of {file:?} is outside of its bounds"
                )));
            }
        }
        Ok(())
    }

    /// Fails if the worker has read fewer or more entries than the inputs have, or if the outputs have fewer or more
    /// than the `written` ones. The entries read by several subcompactions are checked together by the caller.
    fn check_counts(&self, stats: &JobStats, written: u64) -> std::result::Result<(), Rejection> {
        let options = &self.params.context.database.options;
        if !options.compaction_verify_record_count {
            return Ok(());
        }
        if stats.output_entries != written {
            return Err(invalid(format!(
                "entries of the outputs: expected {written}, found {}",
                stats.output_entries
            )));
        }
        match self.entries {
            Some(entries) if !stats.inexact && entries != stats.input_entries => {
                Err(invalid(format!(
                    "entries read: expected {entries}, found {}",
                    stats.input_entries
                )))
            }
            _ => Ok(()),
        }
    }
}

/// Counts a call that waits until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    fn begin(count: &AtomicUsize) -> Waiting<'_> {
        // Relaxed, as below: a statistic.
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn check_cancel(context: &JobContext) -> Result<()> {
    match context.cancel.is_set() {
        true => Err(Error::aborted("the compaction was cancelled")),
        false => Ok(()),
    }
}

#[cold]
fn invalid(text: String) -> Rejection {
    Rejection::Invalid(Error::corruption(text))
}

#[cold]
fn incomplete(text: &str) -> Error {
    Error::new(Code::Incomplete, Subcode::None, text)
}

/// Returns the error of a job that failed with `reply`, if it returned one.
fn failure(reply: Option<Reply>) -> Error {
    match reply {
        None => incomplete(
            "CompactionService failed to run the compaction job (and no valid result is returned).",
        ),
        Some(reply) => error_of(&reply.status).unwrap_or_else(|| {
            incomplete(
                "CompactionService failed to run the compaction job (even though the internal status is okay).",
            )
        }),
    }
}

/// Returns the error of a worker. Damage of its files is not damage of the database, and its shutdown is not
/// that of the database.
fn error_of(status: &Status) -> Option<Error> {
    if status.code == 0 {
        return None;
    }
    let code = match status.code {
        1 => Code::NotFound,
        3 => Code::NotSupported,
        4 => Code::InvalidArgument,
        5 => Code::IoError,
        9 => Code::TimedOut,
        10 => Code::Aborted,
        11 => Code::Busy,
        13 => Code::TryAgain,
        _ => Code::Incomplete,
    };
    let message = String::from_utf8_lossy(&status.message);
    let text = format!(
        "remote compaction failed with status {}: {message}",
        status.code
    );
    Some(Error::new(code, Subcode::None, text))
}
