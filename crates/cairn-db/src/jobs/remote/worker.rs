//! The worker of a remote compaction.
//!
//! ```text
//! request -> OPTIONS file, overrides -> MANIFEST -> compaction of the named files -> tables in the output directory
//! ```
//!
//! The database is open in another process, which keeps the inputs until the compaction has ended. Only
//! the output directory is written to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::compaction_service::{
    InternalStats, JobStats as EncodedStats, LevelStats, OutputFile, Reply, Request,
};
use cairn_format::names::FileName;
use cairn_format::table::properties::Properties;
use cairn_jobs::pick::{self, InProgress};
use cairn_jobs::{Cancel, CompactJob, JobContext, JobEvents, JobOutput, KeyRange, compact};
use cairn_observe::listener::KeyPrefix;
use cairn_observe::statistics::{Histogram, Keeping, Ticker};
use cairn_observe::{Listeners, LogSink};
use cairn_options::FileChecksum;
use cairn_options::{
    Canceled, Collectors, CuckooTableOptions, DbOptions, FamilyOptions, Options, Plugin, TableKind,
    TableOptions, Temperature,
};
use cairn_platform::World;
use cairn_platform::fs::FileMode;
use cairn_types::{
    Code, CompactionFilter, CompactionFilterFactory, Error, FileNumber, KeyOrder, MergeOperator,
    PrefixExtractor, Result, SequenceNumber, SstPartitionerFactory, Subcode,
    TableFileCreationReason,
};
use cairn_version::table_source::TableSource;
use cairn_version::{FileMeta, TableRef};

use crate::catalog::family::{FamilyDescriptor, FamilyState};
use crate::db::Db;
use crate::jobs::watch::Watch;
use crate::open::{OpenRequest, Opened, open_for_compaction};
use crate::options::options_files::load_options;

use super::primary::SESSION_TMP;
use super::progress::{self, Progress};

/// Options of a remote compaction that the OPTIONS file of the database does not have: objects of the program.
/// They must be those of the program that has opened the database.
#[derive(Clone)]
pub struct CompactionServiceOptionsOverride {
    /// The comparator.
    pub comparator: KeyOrder,
    /// The merge operator.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// The compaction filter.
    pub compaction_filter: Plugin<dyn CompactionFilter>,
    /// The factory of compaction filters.
    pub compaction_filter_factory: Plugin<dyn CompactionFilterFactory>,
    /// The prefix extractor.
    pub prefix_extractor: Option<PrefixExtractor>,
    /// The format of tables; `None` for that in the OPTIONS file.
    pub table: Option<TableOptions>,
    /// Options of CuckooTable files, which new tables then are; `None` for the format in the OPTIONS file.
    pub cuckoo_table: Option<CuckooTableOptions>,
    /// The partitioner.
    pub sst_partitioner_factory: Plugin<dyn SstPartitionerFactory>,
    /// Collectors of table properties.
    pub table_properties_collector_factories: Collectors,
    /// Checksums of whole files.
    pub file_checksum_gen_factory: Option<FileChecksum>,
    /// Listeners of files and subcompactions. The start and the end of a compaction are reported by the database.
    pub listeners: Listeners,
    /// Statistics.
    pub statistics: Keeping,
    /// Receives the lines of the info log; without it, there is none.
    pub info_log: Option<Arc<dyn LogSink>>,
    /// Names and values of other options. Unknown ones are ignored.
    pub options: BTreeMap<String, String>,
}

impl Default for CompactionServiceOptionsOverride {
    fn default() -> CompactionServiceOptionsOverride {
        let (db, family) = (DbOptions::default(), FamilyOptions::default());
        let mut overrides = CompactionServiceOptionsOverride::new(&db, &family);
        overrides.table = None;
        overrides
    }
}

impl CompactionServiceOptionsOverride {
    /// Takes the objects from the options with which a database is opened.
    #[must_use]
    pub fn new(db: &DbOptions, family: &FamilyOptions) -> CompactionServiceOptionsOverride {
        CompactionServiceOptionsOverride {
            comparator: family.comparator.clone(),
            merge_operator: family.merge_operator.clone(),
            compaction_filter: family.compaction_filter.clone(),
            compaction_filter_factory: family.compaction_filter_factory.clone(),
            prefix_extractor: family.prefix_extractor.clone(),
            table: Some(family.table.clone()),
            cuckoo_table: None,
            sst_partitioner_factory: family.sst_partitioner_factory.clone(),
            table_properties_collector_factories: family
                .table_properties_collector_factories
                .clone(),
            file_checksum_gen_factory: db.file_checksum_gen_factory.clone(),
            listeners: db.listeners.clone(),
            statistics: db.statistics.clone(),
            info_log: db.info_log.clone(),
            options: BTreeMap::new(),
        }
    }

    /// Applies the overrides to the options of the database.
    fn apply_to_db(&self, db: &mut DbOptions) -> Result<()> {
        for (name, value) in &self.options {
            if db.knows(name) {
                db.set(name, value)?;
            }
        }
        db.file_checksum_gen_factory = self.file_checksum_gen_factory.clone();
        db.listeners = self.listeners.clone();
        db.statistics = self.statistics.clone();
        db.info_log = self.info_log.clone();
        db.compaction_service = None;
        db.best_efforts_recovery = false;
        db.error_if_exists = false;
        db.create_if_missing = false;
        db.create_missing_column_families = false;
        Ok(())
    }

    /// Applies the overrides to the options of the family that is compacted.
    fn apply_to_family(&self, family: &mut FamilyOptions) -> Result<()> {
        for (name, value) in &self.options {
            if family.knows(name) {
                family.set(name, value)?;
            }
        }
        family.comparator = self.comparator.clone();
        family.merge_operator = self.merge_operator.clone();
        family.compaction_filter = self.compaction_filter.clone();
        family.compaction_filter_factory = self.compaction_filter_factory.clone();
        family.prefix_extractor = self.prefix_extractor.clone();
        if let Some(table) = &self.table {
            family.table = table.clone();
        }
        if let Some(table) = &self.cuckoo_table {
            family.table_factory = TableKind::Cuckoo;
            family.cuckoo_table = table.clone();
        }
        family.sst_partitioner_factory = self.sst_partitioner_factory.clone();
        family.table_properties_collector_factories =
            self.table_properties_collector_factories.clone();
        Ok(())
    }
}

/// Options of [`open_and_compact`].
#[derive(Clone, Debug)]
pub struct OpenAndCompactOptions {
    /// Cancels the compaction once it is set.
    pub canceled: Canceled,
    /// The number of further attempts if the MANIFEST is replaced while it is being read.
    pub max_secondary_open_retries: u32,
    /// True if the tables of an interrupted compaction in the output directory are used again. Without
    /// it, the directory must be empty.
    pub allow_resumption: bool,
}

impl Default for OpenAndCompactOptions {
    fn default() -> OpenAndCompactOptions {
        OpenAndCompactOptions {
            canceled: Canceled::default(),
            max_secondary_open_retries: 2,
            allow_resumption: false,
        }
    }
}

/// Runs the compaction that `input` describes, which a compaction service has received from the database in
/// `path`, and returns the result for that service. The outputs are written to the directory
/// `output_directory` in the database's.
///
/// # Errors
///
/// `Corruption` for an invalid `input`; `Incomplete` if it was canceled, or if the MANIFEST is older than the
/// request; `NotSupported` for column families with blob files; `InvalidArgument` if an input does not exist;
/// otherwise those of opening and compacting. No result is installed then.
pub fn open_and_compact(
    options: &OpenAndCompactOptions,
    path: &Path,
    output_directory: &str,
    input: &[u8],
    overrides: &CompactionServiceOptionsOverride,
    world: &World,
) -> Result<Vec<u8>> {
    check_canceled(options)?;
    let request = Request::decode(input)
        .map_err(|malformed| malformed.in_file("the input of a remote compaction", 0))?;
    let family_name = text(&request.family, "name of the column family")?;
    let began = world.clock.monotonic_nanos();
    let opened = open(options, path, &request, &family_name, overrides, world)?;
    let db = &opened.db;
    let shared = &db.handle.shared;
    let micros = (world.clock.monotonic_nanos() - began) / 1_000;
    shared
        .telemetry
        .meter()
        .update(|update| update.record(Histogram::OpenAndCompactDbOpenMicros, micros));
    check_floor(&opened, &request)?;
    let family = shared
        .catalog
        .families()
        .iter()
        .find(|family| family.name() == family_name)
        .cloned()
        .ok_or_else(|| {
            Error::invalid_argument(format!("Column family not found: {family_name}"))
        })?;
    let output_dir = output_dir(
        path,
        output_directory,
        shared.options().use_session_tmp_dir_for_remote_compaction,
    );
    let worker = Worker {
        options,
        db,
        family: &family,
        request: &request,
        output_dir,
    };
    let reply = worker.compact()?;
    Ok(reply.encode())
}

fn check_canceled(options: &OpenAndCompactOptions) -> Result<()> {
    match options.canceled.is_canceled() {
        true => Err(canceled()),
        false => Ok(()),
    }
}

fn canceled() -> Error {
    Error::new(
        Code::Incomplete,
        Subcode::ManualCompactionPaused,
        "the compaction was cancelled",
    )
}

fn text(bytes: &[u8], what: &str) -> Result<String> {
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Error::corruption(format!("the {what} in the input is not UTF-8")))
}

/// Returns the output directory, as RocksDB does: below that of the database, unless it already names it.
fn output_dir(path: &Path, name: &str, session: bool) -> PathBuf {
    let mut prefix = path.to_string_lossy().into_owned();
    if !prefix.ends_with('/') {
        prefix.push('/');
    }
    match (session, name.starts_with(&prefix)) {
        (true, _) => PathBuf::from(format!("{prefix}{}/{name}", SESSION_TMP)),
        (false, true) => PathBuf::from(name),
        (false, false) => PathBuf::from(prefix + name),
    }
}

/// Opens the database of `request`.
fn open(
    options: &OpenAndCompactOptions,
    path: &Path,
    request: &Request,
    family_name: &str,
    overrides: &CompactionServiceOptionsOverride,
    world: &World,
) -> Result<Opened> {
    let name = FileName::Options(FileNumber(request.options_file_number)).to_string();
    let mut recorded = load_options(&path.join(name), true, world)?;
    recorded.forget_unknown_code();
    let mut db = recorded.db.clone();
    overrides.apply_to_db(&mut db)?;
    let mut families = Vec::new();
    for (name, before) in &recorded.families {
        let mut family = before.clone();
        let is_target = name == family_name;
        let mut unknown = recorded.unknown.iter();
        let shares_comparator = unknown.any(|code| {
            code.family == *name
                && code.option == "comparator"
                && code.text == overrides.comparator.name()
        });
        if is_target {
            overrides.apply_to_family(&mut family)?;
        } else if shares_comparator {
            // The MANIFEST cannot be read without it.
            family.comparator = overrides.comparator.clone();
        } else if name != "default" {
            continue;
        }
        families.push(FamilyDescriptor {
            name: name.clone(),
            options: family,
        });
    }
    let mut attempt = 0;
    loop {
        let opened = open_for_compaction(&OpenRequest {
            path,
            options: &db,
            families: &families,
            others: None,
            read_only: true,
            world: world.clone(),
        });
        match opened {
            Err(error) if is_race(&error) && attempt < options.max_secondary_open_retries => {
                attempt += 1;
                check_canceled(options)?;
            }
            opened => return opened,
        }
    }
}

/// True if `error` may be due to a MANIFEST that was replaced while it was being read.
fn is_race(error: &Error) -> bool {
    error.subcode() == Subcode::PathNotFound
        || matches!(error.code(), Code::NotFound | Code::TryAgain)
}

/// Fails if the MANIFEST is older than the request: an older tree may lack data that must be kept.
fn check_floor(opened: &Opened, request: &Request) -> Result<()> {
    let floor = (
        FileNumber(request.min_manifest_file_number),
        request.min_manifest_file_size,
    );
    if floor.0 == FileNumber(0) || opened.manifest >= floor {
        return Ok(());
    }
    Err(Error::new(
        Code::Incomplete,
        Subcode::None,
        format!(
            "Remote compaction worker recovered an older MANIFEST view than the primary scheduled from: expected \
             at least {} bytes of MANIFEST {}, found {} of {}",
            floor.1, floor.0, opened.manifest.1, opened.manifest.0
        ),
    ))
}

/// A compaction of an open database.
struct Worker<'a> {
    options: &'a OpenAndCompactOptions,
    db: &'a Db,
    family: &'a Arc<FamilyState>,
    request: &'a Request,
    output_dir: PathBuf,
}

impl Worker<'_> {
    fn compact(&self) -> Result<Reply> {
        check_canceled(self.options)?;
        let shared = &self.db.handle.shared;
        let version = self.family.view().version.clone();
        // The primary has reserved the inputs.
        let none_busy = InProgress::default();
        let (present, options) = (
            shared.present(self.family),
            shared.pick_options(self.family),
        );
        let tree = pick::Tree::new(&version, &none_busy, &present, &options);
        let output_level = usize::try_from(self.request.output_level).unwrap_or(usize::MAX);
        let pick = pick::pick_exactly(&tree, &self.inputs()?, output_level)?;
        if self.family.options().enable_blob_files
            || pick.files().any(|(_, file)| file.oldest_blob.is_some())
        {
            return Err(Error::not_supported(
                "remote compactions of column families with blob files",
            ));
        }
        self.prepare_output_dir()?;
        let range = self.range()?;
        let mut progress = self.progress()?;
        let watch = Arc::new(Watch::of_worker(
            &shared.telemetry,
            self.family,
            TableFileCreationReason::Compaction,
            &pick,
        ));
        let resumed = progress
            .as_mut()
            .map_or_else(Vec::new, Progress::take_resumed);
        let resumed_bytes = resumed.iter().map(|file| file.file_size);
        let resumed_bytes = resumed_bytes.fold(0, u64::saturating_add);
        let events: Arc<dyn JobEvents> = match progress {
            Some(progress) => Arc::new(progress.recorded(watch.clone(), resumed.clone())),
            None => watch.clone(),
        };
        let job = CompactJob {
            context: Arc::new(JobContext {
                events: Some(events),
                ..self.context()
            }),
            pick: Arc::new(pick),
            version: version.clone(),
            range: progress::after(range.clone(), &resumed),
            remote: None,
            keeps_outputs: self.options.allow_resumption,
        };
        let clock = &shared.context.world.clock;
        let began = clock.monotonic_nanos();
        let is_over = progress::is_empty(self.family.order(), &job.range);
        let mut done = match is_over {
            true => JobOutput::default(),
            false => {
                compact::run(&job).map_err(|error| match self.options.canceled.is_canceled() {
                    true if error.code() == Code::Aborted && !error.is_panic() => canceled(),
                    _ => error,
                })?
            }
        };
        // Entries read before the interruption were not counted.
        done.stats.inexact |= !resumed.is_empty();
        let micros = (clock.monotonic_nanos() - began) / 1_000;
        let full = job.pick.files().count() == version.files().count();
        let mut reply = self.reply(&done, &watch.tables_created(), micros, full);
        let entries = resumed.iter().map(|file| {
            let properties = &file.table_properties;
            properties
                .num_entries
                .saturating_sub(properties.num_range_deletions)
        });
        let entries = entries.fold(0, u64::saturating_add);
        let level = &mut reply.internal_stats.output_level_stats;
        level.num_output_records = level.num_output_records.saturating_add(entries);
        level.num_output_files += i32::try_from(resumed.len()).unwrap_or(0);
        let stats = &mut reply.stats;
        stats.num_output_records = stats.num_output_records.saturating_add(entries);
        reply.stats.num_output_files += resumed.len() as u64;
        reply.output_files.splice(0..0, resumed);
        shared
            .telemetry
            .tick(Ticker::RemoteCompactResumedBytes, resumed_bytes);
        Ok(reply)
    }

    /// Returns the progress of an interrupted compaction in the output directory, if the options allow its use. All
    /// other tables in the directory are deleted then.
    fn progress(&self) -> Result<Option<Progress>> {
        if !self.options.allow_resumption {
            return Ok(None);
        }
        let shared = &self.db.handle.shared;
        let verifies = {
            let options = self.family.options();
            options.paranoid_file_checks || options.verify_output_flags != 0
        };
        let bytewise = matches!(self.family.order(), KeyOrder::Bytewise);
        let open = |file: &FileMeta| {
            let outputs = self.outputs();
            let table = outputs.open_apart(file, None, FileMode::default(), &shared.context.io)?;
            Ok(table.properties().clone())
        };
        let progress = Progress::open(
            shared.context.world.fs.clone(),
            &self.output_dir,
            self.request,
            bytewise && !verifies,
            &open,
        )?;
        if let Some(largest) = progress.largest_number() {
            shared.catalog.numbers.note_used(largest);
        }
        Ok(Some(progress))
    }

    /// Opens tables in the output directory.
    fn outputs(&self) -> TableSource {
        TableSource {
            paths: vec![self.output_dir.clone()],
            ..TableSource::clone(&self.family.tables())
        }
    }

    /// Creates the output directory, which must not be that of the database.
    fn prepare_output_dir(&self) -> Result<()> {
        let shared = &self.db.handle.shared;
        let fs = &shared.context.world.fs;
        fs.create_dir_all(&self.output_dir)?;
        let canonical = fs.canonical(&self.output_dir)?;
        let mut own = self.family.tables().paths.clone();
        own.extend([shared.context.dir.clone(), shared.context.wal_dir.clone()]);
        let mut own = own.into_iter();
        match own.any(|dir| fs.canonical(&dir).unwrap_or(dir) == canonical) {
            true => Err(Error::invalid_argument(format!(
                "the output directory {} is a directory of the database",
                self.output_dir.display()
            ))),
            false => Ok(()),
        }
    }

    /// Returns the numbers of the input files.
    fn inputs(&self) -> Result<BTreeSet<FileNumber>> {
        let names = self.request.input_files.iter();
        names
            .map(|name| {
                let parsed = std::str::from_utf8(name).ok().and_then(FileName::parse);
                match parsed {
                    Some(FileName::Table(number)) => Ok(number),
                    _ => Err(Error::invalid_argument(format!(
                        "{:?} is not the name of a table",
                        String::from_utf8_lossy(name)
                    ))),
                }
            })
            .collect()
    }

    fn range(&self) -> Result<KeyRange> {
        let request = self.request;
        let range = KeyRange {
            lower: request.has_begin.then(|| request.begin.clone()),
            upper: request.has_end.then(|| request.end.clone()),
        };
        if let (Some(lower), Some(upper)) = (&range.lower, &range.upper)
            && self.family.order().compare(lower, upper).is_ge()
        {
            return Err(Error::invalid_argument(
                "the key range of the remote compaction is empty",
            ));
        }
        Ok(range)
    }

    fn context(&self) -> JobContext {
        let shared = &self.db.handle.shared;
        let mut context = shared.job_context(self.family);
        let first_output = shared.catalog.numbers.next();
        let outputs = self.outputs();
        let (open, io) = (context.open.clone(), shared.context.io.clone());
        context.open =
            Arc::new(
                move |file: &Arc<FileMeta>, level| match file.number < first_output {
                    true => open(file, level),
                    false => outputs.open(file, level, &io).map(TableRef::into_arc),
                },
            );
        context.family.dirs = vec![self.output_dir.clone()];
        context.snapshots = self
            .request
            .snapshots
            .iter()
            .map(|&snapshot| SequenceNumber(snapshot))
            .collect();
        // Unique ids derive from the id of the database and from the session, which is that of the worker.
        context.database.id = String::from_utf8_lossy(&self.request.db_id).into_owned();
        context.cancel = Cancel::any(self.options.canceled.flag().cloned());
        context.limit_reads();
        context
    }

    fn reply(
        &self,
        done: &JobOutput,
        tables: &BTreeMap<FileNumber, Arc<Properties>>,
        micros: u64,
        full: bool,
    ) -> Reply {
        let stats = &done.stats;
        let files = || done.edit.added.iter().map(|(_, file)| file);
        let prefix = |key: Option<&[u8]>| {
            key.map_or_else(Vec::new, |key| KeyPrefix::of(key).as_bytes().to_vec())
        };
        let sizes = files().map(|file| file.size);
        let written = sizes.fold(0, u64::saturating_add);
        let level = LevelStats {
            micros,
            cpu_micros: stats.cpu_nanos / 1_000,
            bytes_written: written,
            num_output_files: i32::try_from(done.edit.added.len()).unwrap_or(i32::MAX),
            num_output_records: stats.output_entries,
            count: 1,
            ..LevelStats::default()
        };
        Reply {
            output_files: files()
                .map(|file| output_file(file, tables.get(&file.number)))
                .collect(),
            output_level: self.request.output_level,
            output_path: self.output_dir.to_string_lossy().into_owned().into_bytes(),
            bytes_read: stats.input_bytes,
            bytes_written: written,
            stats: EncodedStats {
                elapsed_micros: micros,
                cpu_micros: stats.cpu_nanos / 1_000,
                has_accurate_num_input_records: !stats.inexact,
                num_input_records: stats.input_entries,
                num_output_records: stats.output_entries,
                num_output_files: done.edit.added.len() as u64,
                is_full_compaction: full,
                is_manual_compaction: true,
                is_remote_compaction: true,
                total_output_bytes: written,
                num_records_replaced: stats.dropped.hidden,
                total_input_raw_key_bytes: stats.input_raw.key_bytes,
                total_input_raw_value_bytes: stats.input_raw.value_bytes,
                num_input_deletion_records: stats.input_raw.deletions,
                num_expired_deletion_records: stats.dropped.obsolete,
                smallest_output_key_prefix: prefix(
                    files().next().map(|file| file.smallest.user_key()),
                ),
                largest_output_key_prefix: prefix(
                    files().next_back().map(|file| file.largest.user_key()),
                ),
                num_single_del_fallthru: stats.dropped.single_alone,
                num_single_del_mismatch: stats.dropped.single_mismatched,
                ..EncodedStats::default()
            },
            internal_stats: InternalStats {
                output_level_stats: level,
                ..InternalStats::default()
            },
            ..Reply::default()
        }
    }
}

pub(super) fn output_file(file: &FileMeta, properties: Option<&Arc<Properties>>) -> OutputFile {
    OutputFile {
        file_name: FileName::Table(file.number).to_string().into_bytes(),
        file_size: file.size,
        smallest_seqno: file.seqs.smallest.0,
        largest_seqno: file.seqs.largest.0,
        smallest: file.smallest.as_bytes().to_vec(),
        largest: file.largest.as_bytes().to_vec(),
        oldest_ancester_time: file.times.oldest_ancester,
        file_creation_time: file.times.file,
        epoch_number: file.epoch,
        file_checksum: file.checksum.value.clone(),
        file_checksum_func_name: file.checksum.function.as_bytes().to_vec(),
        paranoid_hash: 0,
        marked_for_compaction: file.hints.marked,
        unique_id: file.unique_id.unwrap_or_default(),
        table_properties: properties.map_or_else(Properties::default, |it| Properties::clone(it)),
        is_proximal_level_output: false,
        file_temperature: Temperature::from_number(file.temperature).name().to_owned(),
    }
}
