//! Flush jobs: the memtables of one family or of all are written to tables of level 0, and installed.
//!
//! `flush.rs` decides when a flush starts and reserves its memtables. A flush of all families writes the tables of one
//! family after the other and installs them as one group of edits.

use std::sync::Arc;

use cairn_jobs::{FlushJob, JobEvents, flush};
use cairn_memtable::Memtable;
use cairn_observe::BackgroundErrorReason;
use cairn_observe::listener::FlushJobInfo;
use cairn_observe::threads::{self, FlushOperation, Operation, Stage, Working};
use cairn_platform::IoPriority;
use cairn_types::{Result, SequenceNumber, TableFileCreationReason};
use cairn_version::{BlobFileMeta, TreeEdit, Version};

use crate::catalog::family::FamilyState;
use crate::catalog::install::Change;
use crate::jobs::watch::Watch;
use crate::shared::{Immutable, Shared, Tree};

/// The flush of one family, written but not installed.
struct WrittenFlush {
    family: Arc<FamilyState>,
    change: Change,
    watch: Arc<Watch>,
    info: FlushJobInfo,
    /// Its start, in nanoseconds of the monotonic clock.
    started: u64,
}

impl Shared {
    /// Writes the immutable memtables of `family` to a table and installs it.
    pub(crate) fn flush_family(self: &Arc<Self>, family: &Arc<FamilyState>) -> Result<()> {
        let waiting = {
            let mut tree = self.tree.lock();
            let published = self.published();
            tree.begin_reporting(family, published)
        };
        if waiting.is_empty() {
            return Ok(());
        }
        let memory = waiting.iter().map(|one| one.memtable.memory_usage()).sum();
        let mut working = None;
        let written = self.write_flush(family, &waiting, &mut working)?;
        self.install_flushes(std::slice::from_ref(&written))?;
        let nanos = self.context.world.clock.monotonic_nanos() - written.started;
        family.writes.early.flushed(memory, nanos);
        report_installed(written, nanos);
        self.note_space(BackgroundErrorReason::Flush);
        Ok(())
    }

    /// Writes the immutable memtables of all families to tables and installs them together.
    pub(crate) fn flush_all(self: &Arc<Self>) -> Result<()> {
        let families = self.catalog.families().clone();
        // Families switch together under this lock: families that switched with another one are waiting
        // together with it.
        let waiting: Vec<(&Arc<FamilyState>, Vec<Immutable>)> = {
            let mut tree = self.tree.lock();
            // One number for all: a transaction is in the tables of all of its families or of none.
            let published = self.published();
            let waiting = families
                .iter()
                .map(|family| (family, tree.begin_reporting(family, published)));
            waiting
                .filter(|(_, immutables)| !immutables.is_empty())
                .collect()
        };
        let mut flushes: Vec<WrittenFlush> = Vec::new();
        // The thread is listed with one family after the other, and with the last one while all are
        // installed.
        let mut working = None;
        for (family, immutables) in waiting {
            drop(working.take());
            match self.write_flush(family, &immutables, &mut working) {
                Ok(written) => flushes.push(written),
                Err(error) => {
                    for WrittenFlush { family, change, .. } in &flushes {
                        self.catalog.deletions.delete_outputs(family, &change.edit);
                    }
                    return Err(error);
                }
            }
        }
        self.install_flushes(&flushes)?;
        for written in flushes {
            let nanos = self.context.world.clock.monotonic_nanos() - written.started;
            report_installed(written, nanos);
        }
        self.note_space(BackgroundErrorReason::Flush);
        Ok(())
    }

    /// Writes the tables of a flush of `immutables` of `family`. `working` is set to the entry of the calling thread in the
    /// list of threads.
    fn write_flush(
        self: &Arc<Self>,
        family: &Arc<FamilyState>,
        immutables: &[Immutable],
        working: &mut Option<Working>,
    ) -> Result<WrittenFlush> {
        let reason = self.tree.lock().take_flush_reason(family.id());
        let memtables: Vec<_> = immutables.iter().map(|one| one.memtable.clone()).collect();
        let version = family.view().version.clone();
        let watch = Watch::new(&self.telemetry, family, TableFileCreationReason::Flush);
        let watch = Arc::new(watch);
        *working = Some(self.begin_flush(family, watch.job, &memtables));
        let _stage = threads::stage(Stage::FlushRun);
        let info = watch.flush_begins(family, &memtables, reason);
        let started = self.context.world.clock.monotonic_nanos();
        let edit = self.write_watched(family, &version, &memtables, &watch)?;
        Ok(WrittenFlush {
            family: family.clone(),
            change: Change {
                edit,
                flushed: memtables,
                log_number: immutables.last().map(|newest| newest.next_log),
                ingested: None,
            },
            watch,
            info,
            started,
        })
    }

    /// Installs the tables of `flushes` as one group of edits.
    fn install_flushes(self: &Arc<Self>, flushes: &[WrittenFlush]) -> Result<()> {
        let group = flushes.iter().map(|flush| (&*flush.family, &flush.change));
        let group: Vec<_> = group.collect();
        let _stage = threads::stage(Stage::InstallFlushResults);
        self.catalog.install(&**self, &group)
    }

    /// Marks `memtables` of `family` as being flushed by the calling thread.
    fn begin_flush(
        &self,
        family: &FamilyState,
        job_id: u64,
        memtables: &[Arc<Memtable>],
    ) -> Working {
        let memory = memtables.iter().map(|memtable| memtable.memory_usage());
        let bytes_memtables = memory.sum::<usize>() as u64;
        let flush = FlushOperation {
            job_id,
            bytes_memtables,
        };
        self.telemetry
            .begin_operation(family.name(), Operation::Flush(flush))
    }

    /// Writes `memtables` to a table of level 0 of `version`, which the caller installs.
    pub(crate) fn write_memtables(
        self: &Arc<Self>,
        family: &FamilyState,
        version: &Arc<Version>,
        memtables: &[Arc<Memtable>],
        reason: TableFileCreationReason,
    ) -> Result<TreeEdit> {
        let watch = Arc::new(Watch::new(&self.telemetry, family, reason));
        self.write_watched(family, version, memtables, &watch)
    }

    fn write_watched(
        self: &Arc<Self>,
        family: &FamilyState,
        version: &Arc<Version>,
        memtables: &[Arc<Memtable>],
        watch: &Arc<Watch>,
    ) -> Result<TreeEdit> {
        let direct = self.seal_blobs(family, memtables, watch)?;
        let mut context = self.job_context(family);
        context.events = Some(watch.clone());
        context.io_priority = self.io_priority(IoPriority::High);
        let job = FlushJob {
            context: Arc::new(context),
            memtables: memtables.to_vec(),
            epoch: family.next_epoch(version),
            oldest_time: 0,
            version: Some(version.clone()),
            reason: watch.reason(),
            direct,
        };
        let done = flush::run(&job).map_err(|error| self.cut_short(error))?;
        if watch.reason() == TableFileCreationReason::Flush {
            self.telemetry
                .record_garbage(done.stats.input_bytes, done.stats.output_raw_bytes);
        }
        Ok(done.edit)
    }

    /// Completes the blob files that writers wrote for `memtables`.
    fn seal_blobs(
        &self,
        family: &FamilyState,
        memtables: &[Arc<Memtable>],
        watch: &Watch,
    ) -> Result<Vec<Arc<BlobFileMeta>>> {
        let fs = &*self.context.world.fs;
        let blobs = family.view().family.blobs.clone();
        let sealed = family.direct.seal(fs, memtables, |path, meta| {
            watch.blob_started(meta.number, path);
            watch.blob_created(path, meta);
            // Readers open it again, with its footer.
            blobs.forget(meta.number);
        });
        sealed.inspect_err(|_| self.context.unsynced_blobs.note_failure())
    }
}

/// Notifies listeners of a flush that was installed `nanos` after its start.
fn report_installed(flush: WrittenFlush, nanos: u64) {
    let left = flush.family.view().immutables.len();
    flush
        .watch
        .flush_ended(flush.info, &flush.family, &flush.change, left, nanos / 1000);
}

impl Tree {
    /// Returns the memtables of `family` that can be flushed, oldest first, and marks them as not reported yet to listeners.
    fn begin_reporting(
        &mut self,
        family: &FamilyState,
        published: SequenceNumber,
    ) -> Vec<Immutable> {
        let Some(state) = self.families.get_mut(&family.id()) else {
            return Vec::new();
        };
        let waiting: Vec<Immutable> = state.flushable(published).cloned().collect();
        if !waiting.is_empty() {
            state.reporting = waiting.iter().map(|one| one.memtable.clone()).collect();
        }
        waiting
    }
}
