//! Telling listeners and the info log what jobs do.
//!
//! Listeners are called without locks. What happens under one is kept in a list of notices, which
//! is worked off by whoever has let go of the locks ([`Shared::deliver`]).

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_format::table::properties::Properties;
use cairn_jobs::pick::{Pick, Reason};
use cairn_jobs::{JobEvents, JobStats};
use cairn_memtable::Memtable;
use cairn_observe::event::{Event, quoted};
use cairn_observe::listener::{
    BlobFileAddition, BlobFileCreationInfo, BlobFileGarbage, CompactionFileInfo, CompactionJobInfo,
    CompactionJobStats, EventListener, FileCreationBriefInfo, FileDeletionInfo, FlushJobInfo,
    KeyPrefix, MemTableInfo, SubcompactionJobInfo, TableFileCreationInfo, WriteStallInfo,
};
use cairn_observe::statistics::Ticker;
use cairn_observe::{CompactionReason, FlushReason, Level, StallCondition, thread_number};
use cairn_platform::sync::{Mutex, Ordering};
use cairn_types::{Error, FileNumber, Result, SequenceNumber, TableFileCreationReason};
use cairn_version::{BlobFileMeta, FileMeta, TreeEdit, Version};

use crate::family::FamilyState;
use crate::shared::{Shared, Tree};
use crate::work::LevelWork;
use crate::write::stall::Condition;

/// Something to tell every listener, later.
pub(crate) type Notice = Box<dyn Fn(&dyn EventListener) + Send>;
/// What waits to be told.
pub(crate) type Notices = Mutex<VecDeque<Notice>>;

/// RocksDB's word for why a compaction runs.
pub(crate) fn compaction_reason(reason: Reason) -> CompactionReason {
    match reason {
        Reason::LevelL0FilesNum => CompactionReason::LevelL0FilesNum,
        Reason::LevelMaxLevelSize => CompactionReason::LevelMaxLevelSize,
        Reason::FilesMarked => CompactionReason::FilesMarkedForCompaction,
        Reason::BottommostFiles => CompactionReason::BottommostFiles,
        Reason::Ttl => CompactionReason::Ttl,
        Reason::Periodic => CompactionReason::PeriodicCompaction,
        Reason::ForcedBlobGc => CompactionReason::ForcedBlobGc,
        Reason::ReadTriggered => CompactionReason::ReadTriggered,
        Reason::Manual => CompactionReason::ManualCompaction,
        Reason::UniversalSizeAmplification => CompactionReason::UniversalSizeAmplification,
        Reason::UniversalSizeRatio => CompactionReason::UniversalSizeRatio,
        Reason::UniversalSortedRunNum => CompactionReason::UniversalSortedRunNum,
        Reason::FifoMaxSize => CompactionReason::FifoMaxSize,
        Reason::FifoReduceNumFiles => CompactionReason::FifoReduceNumFiles,
        Reason::FifoTtl => CompactionReason::FifoTtl,
        Reason::RefitLevel => CompactionReason::RefitLevel,
    }
}

impl Shared {
    /// Calls each listener. The caller holds no lock.
    pub(crate) fn notify(&self, call: impl FnMut(&dyn EventListener)) {
        self.listeners.each(&self.context.info, call);
    }

    /// Keeps a notice for [`Shared::deliver`].
    pub(crate) fn notify_later(&self, notice: impl Fn(&dyn EventListener) + Send + 'static) {
        if !self.listeners.is_empty() {
            self.notices.lock().push_back(Box::new(notice));
        }
    }

    /// Tells what waits to be told. The caller holds no lock.
    pub(crate) fn deliver(&self) {
        if self.listeners.is_empty() {
            return;
        }
        loop {
            let Some(notice) = self.notices.lock().pop_front() else {
                return;
            };
            self.notify(notice);
        }
    }

    /// An event of `job` for the info log.
    pub(crate) fn event(&self, job: u64, name: &str) -> Event {
        Event::new(self.context.world.clock.wall_micros(), job, name)
    }

    /// Writes an event to the info log.
    pub(crate) fn log_event(&self, event: &Event) {
        self.context.info.plain(Level::Info, event.finish());
    }

    /// The next flushes of `families` run for `reason`, unless there is one already.
    pub(crate) fn flush_because(&self, families: &[Arc<FamilyState>], reason: FlushReason) {
        let mut tree = self.tree.lock();
        for family in families {
            if let Some(state) = tree.families.get_mut(&family.id()) {
                state.flush_reason.get_or_insert(reason);
            }
        }
    }

    /// The number of a new job.
    pub(crate) fn new_job(&self) -> u64 {
        self.next_job.fetch_add(1, Ordering::Relaxed)
    }

    /// Watches a job of `family`.
    pub(crate) fn watch(
        self: &Arc<Self>,
        family: &FamilyState,
        reason: TableFileCreationReason,
    ) -> Watch {
        Watch {
            shared: self.clone(),
            family_id: family.id(),
            family: family.name().to_owned(),
            job: self.new_job(),
            reason,
            part: SubcompactionJobInfo::default(),
            began: Mutex::default(),
            created: Mutex::default(),
            blobs: Mutex::default(),
        }
    }

    /// The condition of writes of `family` is `condition` now.
    pub(crate) fn note_condition(
        &self,
        tree: &mut Tree,
        family: &FamilyState,
        condition: Condition,
    ) {
        let Some(state) = tree.families.get_mut(&family.id()) else {
            return;
        };
        let before = std::mem::replace(&mut state.condition, condition);
        let level_zero_is_busy = state.busy.takes_level_zero();
        family
            .is_held_back
            .store(condition != Condition::Normal, Ordering::Release);
        if before == condition {
            return;
        }
        let (kind, text) = match condition {
            Condition::Normal => (None, String::new()),
            Condition::Delayed(cause) => {
                (Some((false, cause)), format!("Stalling writes: {cause:?}"))
            }
            Condition::Stopped(cause) => {
                (Some((true, cause)), format!("Stopping writes: {cause:?}"))
            }
        };
        match kind {
            Some((stopped, cause)) => {
                family
                    .work
                    .stalled(stopped, cause as usize, level_zero_is_busy);
                self.context
                    .info
                    .warn(format_args!("[{}] {text}", family.name()));
            }
            None => self
                .context
                .info
                .info(format_args!("[{}] writes go on unhindered", family.name())),
        }
        let info = WriteStallInfo {
            family_name: family.name().to_owned(),
            current: stall_condition(condition),
            previous: stall_condition(before),
        };
        if info.current != info.previous {
            self.notify_later(move |listener| listener.on_stall_conditions_changed(&info));
        }
    }

    /// `memtable` of `family` takes no writes any more.
    pub(crate) fn note_sealed(&self, family: &FamilyState, memtable: &Memtable) {
        family.views.fetch_add(1, Ordering::Relaxed);
        if self.listeners.is_empty() {
            return;
        }
        let first = memtable.first_seq().unwrap_or_default();
        let info = MemTableInfo {
            family_name: family.name().to_owned(),
            first_seqno: first,
            earliest_seqno: memtable.earliest_seq(),
            num_entries: memtable.entries() as u64,
            num_deletes: memtable.deletions() as u64,
            newest_udt: Vec::new(),
        };
        self.notify_later(move |listener| listener.on_memtable_sealed(&info));
    }

    /// Tells that `path` was deleted, or could not be.
    pub(crate) fn note_deletion(&self, path: &Path, job: u64, result: &Result<()>) {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let kind = name.as_deref().and_then(FileName::parse);
        let (blob, number) = match kind {
            Some(FileName::Table(number) | FileName::LegacyTable(number)) => (false, number),
            Some(FileName::Blob(number)) => (true, number),
            _ => return,
        };
        let word = match blob {
            true => "blob_file_deletion",
            false => "table_file_deletion",
        };
        let mut event = self.event(job, word);
        event.number("file_number", number.0);
        if let Err(error) = result {
            event.text("status", &error.to_string());
        }
        self.log_event(&event);
        if self.listeners.is_empty() {
            return;
        }
        let info = FileDeletionInfo {
            db_name: self.context.dir.to_string_lossy().into_owned(),
            file_path: path.to_string_lossy().into_owned(),
            job_id: job,
            status: result.clone().err(),
        };
        self.notify_later(move |listener| match blob {
            true => listener.on_blob_file_deleted(&info),
            false => listener.on_table_file_deleted(&info),
        });
    }
}

fn stall_condition(condition: Condition) -> StallCondition {
    match condition {
        Condition::Normal => StallCondition::Normal,
        Condition::Delayed(_) => StallCondition::Delayed,
        Condition::Stopped(_) => StallCondition::Stopped,
    }
}

/// Files by level, for the log.
pub(crate) fn lsm_state(version: &Version) -> Vec<u64> {
    version
        .levels()
        .iter()
        .map(|level| level.len() as u64)
        .collect()
}

/// Watches one job and tells what it does.
pub(crate) struct Watch {
    shared: Arc<Shared>,
    family_id: u32,
    family: String,
    pub(crate) job: u64,
    reason: TableFileCreationReason,
    /// What the parts of a compaction have in common.
    part: SubcompactionJobInfo,
    /// When parts began, in nanoseconds.
    began: Mutex<BTreeMap<usize, u64>>,
    /// Blob files that were written.
    blobs: Mutex<Vec<BlobFileAddition>>,
    /// Tables that were written.
    created: Mutex<Vec<(FileNumber, String, Arc<Properties>)>>,
}

impl Watch {
    /// Why the job writes tables.
    pub(crate) fn reason(&self) -> TableFileCreationReason {
        self.reason
    }

    fn brief(&self, path: &Path) -> FileCreationBriefInfo {
        FileCreationBriefInfo {
            db_name: self.shared.context.dir.to_string_lossy().into_owned(),
            family_name: self.family.clone(),
            file_path: path.to_string_lossy().into_owned(),
            job_id: self.job,
            reason: Some(self.reason),
        }
    }

    /// What is known of a flush of `memtables` that begins.
    pub(crate) fn flush_begins(
        &self,
        family: &FamilyState,
        memtables: &[Arc<Memtable>],
        reason: FlushReason,
    ) -> FlushJobInfo {
        // Listeners hear of a memtable before they hear of its flush.
        self.shared.deliver();
        let sum = |count: fn(&Memtable) -> usize| -> usize {
            memtables.iter().map(|memtable| count(memtable)).sum()
        };
        let shared = &self.shared;
        shared.tally_flush_begins(memtables, reason);
        shared.context.info.info(format_args!(
            "[{}] [JOB {}] Flushing {} memtables, reason: {}",
            self.family,
            self.job,
            memtables.len(),
            reason.text()
        ));
        let mut event = shared.event(self.job, "flush_started");
        event
            .number("num_memtables", memtables.len())
            .number("total_num_input_entries", sum(Memtable::entries))
            .number("num_deletes", sum(Memtable::deletions))
            .number("total_data_size", sum(Memtable::data_bytes))
            .number("memory_usage", sum(Memtable::memory_usage))
            .number("num_range_deletes", sum(Memtable::range_deletions))
            .text("flush_reason", reason.text());
        shared.log_event(&event);
        let nothing_yet = FileName::Table(FileNumber(0)).to_string();
        let mut info = FlushJobInfo {
            db_name: shared.context.dir.to_string_lossy().into_owned(),
            family_id: self.family_id,
            family_name: self.family.clone(),
            file_path: family.tables().paths[0]
                .join(nothing_yet)
                .to_string_lossy()
                .into_owned(),
            thread_id: thread_number(),
            job_id: self.job,
            smallest_seqno: SequenceNumber::MAX,
            flush_reason: reason,
            ..FlushJobInfo::default()
        };
        note_triggers(&mut info, family);
        shared.notify(|listener| listener.on_flush_begin(&info));
        info
    }

    /// A flush is installed.
    pub(crate) fn flush_ended(
        &self,
        mut info: FlushJobInfo,
        family: &FamilyState,
        files: &[(usize, Arc<FileMeta>)],
        immutables: usize,
        micros: u64,
    ) {
        let mut done = LevelWork {
            micros,
            jobs: 1,
            ..LevelWork::default()
        };
        for (_, file) in files {
            info.file_number = file.number.0;
            info.oldest_blob_file_number = file.oldest_blob.map_or(0, |number| number.0);
            info.smallest_seqno = file.smallest_seq;
            info.largest_seqno = file.largest_seq;
            done.written += file.size;
        }
        if let Some((_, path, properties)) = self.created.lock().first() {
            info.file_path.clone_from(path);
            info.table_properties = Some(properties.clone());
        }
        note_triggers(&mut info, family);
        info.blob_files.clone_from(&self.blobs.lock());
        let bytes = |blob: &BlobFileAddition| blob.total_blob_bytes;
        done.written_blobs = info.blob_files.iter().map(bytes).sum();
        info.blob_compression = Some(family.options().blob_compression_type);
        family.work.flushed(&done);
        let shared = &self.shared;
        shared.tally_flush(done.written, done.written_blobs, micros);
        shared.context.info.info(format_args!(
            "[{}] [JOB {}] Level-0 flush table #{}: {} bytes OK",
            self.family, self.job, info.file_number, done.written
        ));
        let mut event = shared.event(self.job, "flush_finished");
        event
            .text(
                "output_compression",
                family.options().compression.option_name(),
            )
            .numbers("lsm_state", &lsm_state(&family.view().version))
            .number("immutable_memtables", immutables);
        shared.log_event(&event);
        shared.notify(|listener| listener.on_flush_completed(&info));
    }

    /// What is known of a compaction that begins.
    pub(crate) fn compaction_begins(
        &mut self,
        pick: &Pick,
        version: &Version,
    ) -> CompactionJobInfo {
        let shared = self.shared.clone();
        let reason = compaction_reason(pick.reason);
        let info = CompactionJobInfo {
            db_name: shared.context.dir.to_string_lossy().into_owned(),
            family_id: self.family_id,
            family_name: self.family.clone(),
            thread_id: thread_number(),
            job_id: self.job,
            num_l0_files: version.level(0).len(),
            base_input_level: pick.start_level(),
            output_level: pick.output.level,
            input_files: pick.files().map(|(_, file)| self.path_of(file)).collect(),
            input_file_infos: pick
                .files()
                .map(|(level, file)| file_info(level, file))
                .collect(),
            compaction_reason: reason,
            compression: pick.output.compression,
            stats: CompactionJobStats {
                num_input_files: pick.files().count() as u64,
                total_input_bytes: pick.input_bytes(),
                is_full_compaction: pick.files().count() == version.files().count(),
                is_manual_compaction: pick.reason == Reason::Manual,
                num_input_files_trivially_moved: match pick.trivial_move {
                    true => pick.files().count() as u64,
                    false => 0,
                },
                ..CompactionJobStats::default()
            },
            ..CompactionJobInfo::default()
        };
        self.part = SubcompactionJobInfo {
            family_id: info.family_id,
            family_name: info.family_name.clone(),
            job_id: info.job_id,
            base_input_level: info.base_input_level,
            output_level: info.output_level,
            compaction_reason: reason,
            compression: info.compression,
            ..SubcompactionJobInfo::default()
        };
        if !pick.trivial_move {
            shared.context.info.info(format_args!(
                "[{}] [JOB {}] Compacting {} files to L{}, score {:.2}",
                self.family,
                self.job,
                info.input_files.len(),
                info.output_level,
                pick.score
            ));
            let mut event = shared.event(self.job, "compaction_started");
            event
                .text("cf_name", &self.family)
                .text("compaction_reason", reason.text());
            for inputs in &pick.inputs {
                let numbers: Vec<u64> = inputs.files.iter().map(|file| file.number.0).collect();
                event.numbers(&format!("files_L{}", inputs.level), &numbers);
            }
            event
                .number("score", format_args!("{:.6}", pick.score))
                .number("input_data_size", pick.input_bytes());
            shared.log_event(&event);
        }
        let told = as_told(&info, pick);
        shared.notify(|listener| listener.on_compaction_begin(&told));
        info
    }

    /// A compaction is about to be installed.
    pub(crate) fn compaction_commits(
        &self,
        info: &CompactionJobInfo,
        family: &FamilyState,
        pick: &Pick,
        edit: &TreeEdit,
        stats: JobStats,
    ) {
        let shared = &self.shared;
        if shared.listeners.is_empty() || shared.closing.load(Ordering::Acquire) {
            return;
        }
        let mut info = info.clone();
        self.note_outcome(&mut info, family, pick, edit, stats);
        info.num_l0_files = family.view().version.level(0).len();
        let info = as_told(&info, pick);
        shared.notify(|listener| listener.on_compaction_pre_commit(&info));
    }

    /// Adds to `info` what the compaction has made.
    fn note_outcome(
        &self,
        info: &mut CompactionJobInfo,
        family: &FamilyState,
        pick: &Pick,
        edit: &TreeEdit,
        stats: JobStats,
    ) {
        info.stats.num_input_files_at_output_level = files_at_output(pick);
        info.blob_files.clone_from(&self.blobs.lock());
        info.blob_compression = Some(family.options().blob_compression_type);
        note_counts(&mut info.stats, &stats);
        info.stats.num_output_files = edit.added.len() as u64;
        let size = |(_, file): &(usize, Arc<FileMeta>)| file.size;
        info.stats.total_output_bytes = edit.added.iter().map(size).sum();
        let order = family.order();
        let keys = edit.added.iter();
        let smallest = keys.clone().map(|(_, file)| file.smallest.user_key());
        if let Some(key) = smallest.min_by(|a, b| order.compare(a, b)) {
            info.stats.smallest_output_key_prefix = KeyPrefix::of(key);
        }
        let largest = keys.map(|(_, file)| file.largest.user_key());
        if let Some(key) = largest.max_by(|a, b| order.compare(a, b)) {
            info.stats.largest_output_key_prefix = KeyPrefix::of(key);
        }
        let blobs = &family.view().family.blobs;
        let garbage = edit.blob_garbage.iter();
        info.blob_garbage = garbage
            .map(|garbage| BlobFileGarbage {
                path: blobs.path(garbage.number).to_string_lossy().into_owned(),
                number: garbage.number.0,
                garbage_blob_count: garbage.count,
                garbage_blob_bytes: garbage.bytes,
            })
            .collect();
        info.output_files = edit
            .added
            .iter()
            .map(|(_, file)| self.path_of(file))
            .collect();
        info.output_file_infos = edit
            .added
            .iter()
            .map(|(level, file)| file_info(*level, file))
            .collect();
        for (_, path, properties) in &*self.created.lock() {
            info.table_properties
                .push((path.clone(), properties.clone()));
        }
    }

    /// A compaction is installed, or has failed.
    pub(crate) fn compaction_ended(
        &self,
        mut info: CompactionJobInfo,
        family: &FamilyState,
        pick: &Pick,
        result: Result<(&TreeEdit, JobStats), &Error>,
        micros: u64,
    ) -> CompactionJobInfo {
        info.stats.elapsed_micros = micros;
        match result {
            Err(error) => {
                info.status = Some(error.clone());
                info.stats.num_input_files_at_output_level = files_at_output(pick);
                if !self.shared.listeners.is_empty() {
                    info.stats.num_input_records = self.entries_of(pick, family);
                }
                info.aborted = error.code() == cairn_types::Code::ShutdownInProgress;
                self.shared
                    .tick(Ticker::CompactionAborted, u64::from(info.aborted));
            }
            Ok((edit, stats)) => {
                self.note_outcome(&mut info, family, pick, edit, stats);
                let levels = work_of(&info, pick, edit, stats.output_blob_bytes);
                family.work.compacted(info.compaction_reason, &levels);
                if !pick.trivial_move {
                    self.shared.tally_compaction(&info, &stats);
                }
                self.log_compaction(&info, family, pick);
            }
        }
        info.num_l0_files = family.view().version.level(0).len();
        if !info.aborted {
            let told = as_told(&info, pick);
            self.shared
                .notify(|listener| listener.on_compaction_completed(&told));
        }
        info
    }

    /// The entries that the inputs of `pick` hold as far as their properties can be read, tombstones of
    /// ranges left out.
    fn entries_of(&self, pick: &Pick, family: &FamilyState) -> u64 {
        let tables = pick.files().filter_map(|(level, file)| {
            let table = family
                .tables()
                .open(file, level, &self.shared.context.io)
                .ok()?;
            let properties = table.properties();
            let ranges = properties.num_range_deletions;
            Some(properties.num_entries.saturating_sub(ranges))
        });
        tables.sum()
    }

    fn log_compaction(&self, info: &CompactionJobInfo, family: &FamilyState, pick: &Pick) {
        let shared = &self.shared;
        let stats = &info.stats;
        if pick.trivial_move {
            let mut event = shared.event(self.job, "trivial_move");
            event
                .number("destination_level", info.output_level)
                .number("files", stats.num_input_files)
                .number("total_files_size", stats.total_input_bytes);
            shared.log_event(&event);
            return;
        }
        shared.context.info.info(format_args!(
            "[{}] [JOB {}] Compacted {} files of level {} to level {}: {} bytes in, {} files of {} bytes out",
            self.family,
            self.job,
            stats.num_input_files,
            info.base_input_level,
            info.output_level,
            stats.total_input_bytes,
            stats.num_output_files,
            stats.total_output_bytes,
        ));
        let mut event = shared.event(self.job, "compaction_finished");
        event
            .number("compaction_time_micros", stats.elapsed_micros)
            .number("compaction_time_cpu_micros", stats.cpu_micros)
            .number("output_level", info.output_level)
            .number("num_output_files", stats.num_output_files)
            .number("total_output_size", stats.total_output_bytes)
            .number("num_input_records", stats.num_input_records)
            .number("num_output_records", stats.num_output_records)
            .number("num_subcompactions", self.began.lock().len().max(1))
            .text("output_compression", info.compression.option_name())
            .numbers("lsm_state", &lsm_state(&family.view().version));
        shared.log_event(&event);
    }

    fn path_of(&self, file: &FileMeta) -> String {
        let families = self.shared.families.load();
        families
            .get(self.family_id)
            .map_or_else(String::new, |family| {
                family.tables().path(file).to_string_lossy().into_owned()
            })
    }
}

/// Judges the triggers of level 0 by the files that `family` has there now.
fn note_triggers(info: &mut FlushJobInfo, family: &FamilyState) {
    let files = i32::try_from(family.view().version.level(0).len()).unwrap_or(i32::MAX);
    let options = family.options();
    info.triggered_writes_slowdown = files >= options.level0_slowdown_writes_trigger;
    info.triggered_writes_stop = files >= options.level0_stop_writes_trigger;
}

/// The inputs of `pick` that lie in its output level.
fn files_at_output(pick: &Pick) -> u64 {
    let at_output = pick.files().filter(|(at, _)| *at == pick.output.level);
    at_output.count() as u64
}

/// `info` as listeners see it: of files that are moved or deleted as they are, nothing is counted but the
/// files.
fn as_told<'a>(info: &'a CompactionJobInfo, pick: &Pick) -> Cow<'a, CompactionJobInfo> {
    if !(pick.trivial_move || pick.drops) {
        return Cow::Borrowed(info);
    }
    Cow::Owned(CompactionJobInfo {
        stats: CompactionJobStats {
            num_input_files: info.stats.num_input_files,
            num_input_files_trivially_moved: info.stats.num_input_files_trivially_moved,
            ..CompactionJobStats::default()
        },
        ..info.clone()
    })
}

fn file_info(level: usize, file: &FileMeta) -> CompactionFileInfo {
    CompactionFileInfo {
        level,
        file_number: file.number.0,
        oldest_blob_file_number: file.oldest_blob.map_or(0, |number| number.0),
    }
}

/// A compaction as work on the levels that it wrote to; as one job on its output level.
fn work_of(
    info: &CompactionJobInfo,
    pick: &Pick,
    edit: &TreeEdit,
    blob_bytes: u64,
) -> Vec<(usize, LevelWork)> {
    let stats = &info.stats;
    if pick.trivial_move {
        let done = LevelWork {
            moved: stats.total_input_bytes,
            ..LevelWork::default()
        };
        return vec![(info.output_level, done)];
    }
    let read = |level: usize| {
        let files = pick.files().filter(|(at, _)| *at == level);
        files.map(|(_, file)| file.size).sum::<u64>()
    };
    let deeper = pick.deeper.as_ref().map(|deeper| {
        let level = deeper.output.level;
        let files = edit.added.iter().filter(|(at, _)| *at == level);
        let done = LevelWork {
            read_here: read(level),
            written: files.map(|(_, file)| file.size).sum(),
            ..LevelWork::default()
        };
        (level, done)
    });
    let (read_deeper, written_deeper) =
        deeper.map_or((0, 0), |(_, done)| (done.read_here, done.written));
    let read_here = read(info.output_level);
    let done = LevelWork {
        micros: stats.elapsed_micros,
        cpu_micros: stats.cpu_micros,
        read_above: stats.total_input_bytes - read_here - read_deeper,
        read_here,
        written: stats.total_output_bytes - written_deeper,
        written_blobs: blob_bytes,
        entries_in: stats.num_input_records,
        entries_dropped: stats
            .num_input_records
            .saturating_sub(stats.num_output_records),
        jobs: 1,
        ..LevelWork::default()
    };
    let mut levels = vec![(info.output_level, done)];
    levels.extend(deeper);
    levels
}

impl JobEvents for Watch {
    fn within_job(&self, work: &mut dyn FnMut()) {
        self.shared.as_job(work);
    }

    fn table_started(&self, _number: FileNumber, path: &Path) {
        if !self.shared.listeners.is_empty() {
            let info = self.brief(path);
            self.shared
                .notify(|listener| listener.on_table_file_creation_started(&info));
        }
    }

    fn table_created(&self, path: &Path, file: &FileMeta, properties: &Arc<Properties>) {
        let (number, size) = (file.number, file.size);
        let brief = self.brief(path);
        self.created
            .lock()
            .push((number, brief.file_path.clone(), properties.clone()));
        let mut event = self.shared.event(self.job, "table_file_creation");
        event
            .text("cf_name", &self.family)
            .number("file_number", number.0)
            .number("file_size", size)
            .group("table_properties", &said(properties));
        self.shared.log_event(&event);
        let info = TableFileCreationInfo {
            brief,
            file_size: size,
            table_properties: properties.clone(),
            file_checksum: file.file_checksum.clone(),
            file_checksum_func_name: file.file_checksum_func.to_string(),
            ..TableFileCreationInfo::default()
        };
        self.shared
            .notify(|listener| listener.on_table_file_created(&info));
    }

    fn blob_started(&self, _number: FileNumber, path: &Path) {
        if !self.shared.listeners.is_empty() {
            let info = self.brief(path);
            self.shared
                .notify(|listener| listener.on_blob_file_creation_started(&info));
        }
    }

    fn blob_created(&self, path: &Path, file: &BlobFileMeta) {
        let brief = self.brief(path);
        self.blobs.lock().push(BlobFileAddition {
            path: brief.file_path.clone(),
            number: file.number.0,
            total_blob_count: file.total_count,
            total_blob_bytes: file.total_bytes,
        });
        let mut event = self.shared.event(self.job, "blob_file_creation");
        event
            .text("cf_name", &self.family)
            .number("file_number", file.number.0)
            .number("total_blob_count", file.total_count)
            .number("total_blob_bytes", file.total_bytes)
            .text("status", "OK");
        self.shared.log_event(&event);
        let info = BlobFileCreationInfo {
            brief,
            total_blob_count: file.total_count,
            total_blob_bytes: file.total_bytes,
            status: None,
        };
        self.shared
            .notify(|listener| listener.on_blob_file_created(&info));
    }

    fn part_began(&self, part: usize) {
        let now = self.shared.context.world.clock.monotonic_nanos();
        self.began.lock().insert(part, now);
        if !self.shared.listeners.is_empty() {
            let info = SubcompactionJobInfo {
                thread_id: thread_number(),
                subcompaction_job_id: part,
                ..self.part.clone()
            };
            self.shared
                .notify(|listener| listener.on_subcompaction_begin(&info));
        }
    }

    fn part_ended(&self, part: usize, result: Result<JobStats, &Error>) {
        if self.shared.listeners.is_empty() {
            return;
        }
        let now = self.shared.context.world.clock.monotonic_nanos();
        let began = self.began.lock().get(&part).copied().unwrap_or(now);
        let counts = result.as_ref().copied().unwrap_or_default();
        let mut stats = CompactionJobStats {
            elapsed_micros: now.saturating_sub(began) / 1000,
            num_output_files: counts.output_files,
            total_output_bytes: counts.output_bytes,
            ..CompactionJobStats::default()
        };
        note_counts(&mut stats, &counts);
        let info = SubcompactionJobInfo {
            thread_id: thread_number(),
            subcompaction_job_id: part,
            status: result.err().cloned(),
            stats,
            ..self.part.clone()
        };
        self.shared
            .notify(|listener| listener.on_subcompaction_completed(&info));
    }
}

/// Adds what a compaction, or a part of one, counted.
fn note_counts(stats: &mut CompactionJobStats, counts: &JobStats) {
    *stats = CompactionJobStats {
        cpu_micros: counts.cpu_nanos / 1_000,
        num_input_records: counts.input_entries,
        input_records_inexact: counts.inexact,
        num_input_deletion_records: counts.input_raw.deletions,
        total_input_raw_key_bytes: counts.input_raw.key_bytes,
        total_input_raw_value_bytes: counts.input_raw.value_bytes,
        num_blobs_read: counts.blobs_read.count,
        total_blob_bytes_read: counts.blobs_read.bytes,
        num_output_records: counts.output_entries,
        num_output_files_blob: counts.output_blob_files,
        total_output_bytes_blob: counts.output_blob_bytes,
        num_records_replaced: counts.dropped.hidden,
        num_expired_deletion_records: counts.dropped.obsolete,
        num_single_del_fallthru: counts.dropped.single_alone,
        num_single_del_mismatch: counts.dropped.single_mismatched,
        file_times: counts.file_times,
        ..*stats
    };
}

/// The properties of a table that its line in the log has; none of them holds a user's key.
fn said(properties: &Properties) -> Vec<(&'static str, String)> {
    vec![
        ("data_size", properties.data_size.to_string()),
        ("index_size", properties.index_size.to_string()),
        ("index_partitions", properties.index_partitions.to_string()),
        ("filter_size", properties.filter_size.to_string()),
        ("raw_key_size", properties.raw_key_size.to_string()),
        ("raw_value_size", properties.raw_value_size.to_string()),
        ("num_data_blocks", properties.num_data_blocks.to_string()),
        ("num_entries", properties.num_entries.to_string()),
        ("num_deletions", properties.num_deletions.to_string()),
        (
            "num_merge_operands",
            properties.num_merge_operands.to_string(),
        ),
        (
            "num_range_deletions",
            properties.num_range_deletions.to_string(),
        ),
        ("format_version", properties.format_version.to_string()),
        ("fixed_key_len", properties.fixed_key_len.to_string()),
        ("filter_policy", quoted(&properties.filter_policy)),
        ("column_family_name", quoted(&properties.column_family_name)),
        ("column_family_id", properties.column_family_id.to_string()),
        ("comparator", quoted(&properties.comparator)),
        ("merge_operator", quoted(&properties.merge_operator)),
        (
            "prefix_extractor_name",
            quoted(&properties.prefix_extractor),
        ),
        ("compression", quoted(&properties.compression)),
        ("creation_time", properties.creation_time.to_string()),
        ("oldest_key_time", properties.oldest_key_time.to_string()),
        (
            "file_creation_time",
            properties.file_creation_time.to_string(),
        ),
        ("db_id", quoted(&properties.db_id)),
        ("db_session_id", quoted(&properties.db_session_id)),
        (
            "orig_file_number",
            properties.original_file_number.to_string(),
        ),
    ]
}

impl Tree {
    /// Why the next flush of a family runs; the answer is given once.
    pub(crate) fn take_flush_reason(&mut self, family: u32) -> FlushReason {
        let state = self.families.get_mut(&family);
        let reason = state.and_then(|state| state.flush_reason.take());
        reason.unwrap_or(FlushReason::WriteBufferFull)
    }
}
