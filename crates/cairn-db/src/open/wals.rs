//! Recovery of the logs, and the steps from a recovered state to an open database.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use cairn_format::log::RecoveryMode;
use cairn_format::manifest::LogReach;
use cairn_format::names::FileName;
use cairn_jobs::history::successor;
use cairn_platform::fs::FileMode;
use cairn_types::{Error, FileNumber, Result, SequenceNumber, Subcode};
use cairn_version::TreeEdit;
use cairn_version::manifest::{Recovered, RecoveredFamily};
use cairn_wal::{WalEvent, WalFile, WalReader};

use super::dropped_records::Dropped;
use super::log_replay::{LogReplay, Memtables, Replayed, mode};
use super::replay::Replay;
use crate::catalog::family::{Families, FamilyState};
use crate::catalog::file_numbers::is_own;
use crate::catalog::invariants::check_version;
use crate::files::copy;
use crate::shared::Shared;
use crate::write::log::CurrentLog;

/// The outcome of the replay of the logs.
struct Outcome {
    last: SequenceNumber,
    /// Blob files that replayed entries refer to, by family.
    blobs: BTreeSet<(u32, FileNumber)>,
    flushed: bool,
    /// The newest existing log.
    newest: FileNumber,
    /// The replayed logs.
    logs: Vec<Replayed>,
    /// True if the logs have prepared sections, decided or not.
    has_sections: bool,
    /// True if an existing database has no log at all. Families keep the numbers of their logs until a flush: if those are
    /// in a directory that was not there, such as one that was not mounted, an opening that finds them replays them.
    may_return: bool,
}

impl Shared {
    /// Records that recovery dropped a part of a file.
    pub(super) fn note_dropped(&self, dropped: Dropped) {
        let Dropped {
            file,
            offset,
            bytes,
            reason,
        } = &dropped;
        self.context.info.warn(format_args!(
            "recovery drops {bytes} bytes at offset {offset} of {}: {reason}",
            file.display()
        ));
        self.opening.add_dropped(dropped);
    }

    /// Replays `logs`, makes the recovered state the current one, and starts background work. `names` are
    /// the files in the directory of the database.
    pub(super) fn finish_opening(
        self: &Arc<Self>,
        recovered: &Recovered,
        names: Vec<String>,
        logs: Vec<WalFile>,
    ) -> Result<()> {
        if !self.context.read_only {
            for family in self.catalog.families().iter() {
                self.catalog.sources.create_dirs(&family.options())?;
            }
            self.prepare_session_dir();
            self.skip_used_numbers(&names)?;
            self.rename_legacy_tables(&names)?;
        }
        // Otherwise a missing or damaged table is noticed by its readers.
        if self.options().paranoid_checks {
            self.check_tables()?;
        }
        self.note_lost_states(recovered);
        let job = self.log_recovery_start(&names, &logs);
        let found = match self.context.read_only {
            true => logs.clone(),
            false => Vec::new(),
        };
        let outcome = self.replay_logs(recovered, logs)?;
        let files = self.largest_sequence_in_files();
        let last = outcome.last.max(recovered.last_sequence).max(files);
        self.writes.commits.skip_to(last);
        assert_eq!(
            self.published(),
            last,
            "exactly the recovered entries are visible"
        );
        if self.context.read_only {
            if self.has_unnamed(&outcome.blobs) {
                // A copy would lack these files.
                return Ok(());
            }
            let used = outcome.logs.iter().map(|log| (log.file.number, log.used));
            return self.note_opened(recovered, &found, &used.collect::<Vec<_>>());
        }
        self.catalog.numbers.note_used(outcome.newest);
        self.become_current(recovered, &outcome, names)?;
        let mut event = self.telemetry.event(job, "recovery_finished");
        event.text("status", "OK");
        self.telemetry.log_event(&event);
        self.telemetry.deliver();
        for family in self.catalog.families().iter() {
            let version = family.view().version.clone();
            self.catalog.space.track(family, None, &version);
        }
        assert!(
            self.tree.lock().jobs.are_idle(),
            "no job runs before the database is open"
        );
        self.begin_timers();
        Ok(())
    }

    /// Reports the states that a recovery with `best_efforts_recovery` left out.
    fn note_lost_states(&self, recovered: &Recovered) {
        for family in &recovered.set_back {
            self.context.info.warn(format_args!(
                "[{family}] recovered to an older state: files of newer ones are missing"
            ));
        }
        if let Some(unread) = &recovered.unread {
            let manifest = FileName::Manifest(recovered.manifest).to_string();
            self.note_dropped(Dropped {
                file: self.context.dir.join(manifest),
                offset: unread.offset,
                bytes: unread.bytes,
                reason: unread.reason.clone(),
            });
        }
    }

    /// True if one of `blobs`, blob files by family, is in no version.
    fn has_unnamed(&self, blobs: &BTreeSet<(u32, FileNumber)>) -> bool {
        let families = self.catalog.families();
        blobs.iter().any(|(family, number)| {
            families.get(*family).is_some_and(|family| {
                let version = &family.view().version;
                !version.blob_files().contains_key(number)
            })
        })
    }

    /// Completes a read-only opening without the entries of the logs.
    pub(super) fn finish_without_logs(&self, recovered: &Recovered) {
        let files = self.largest_sequence_in_files();
        self.writes
            .commits
            .skip_to(recovered.last_sequence.max(files));
    }

    fn largest_sequence_in_files(&self) -> SequenceNumber {
        let families = self.catalog.families();
        let largest = families.iter().flat_map(|family| {
            let version = family.view().version.clone();
            version.files().map(|(_, file)| file.seqs.largest).max()
        });
        largest.max().unwrap_or_default()
    }

    fn replay_logs(
        self: &Arc<Self>,
        recovered: &Recovered,
        mut logs: Vec<WalFile>,
    ) -> Result<Outcome> {
        let families = self.catalog.families().clone();
        let open: Vec<_> = recovered
            .families
            .iter()
            .filter(|family| families.get(family.id).is_some())
            .collect();
        let oldest = open
            .iter()
            .map(|family| family.log_number)
            .min()
            .unwrap_or_default();
        let min_log = self.first_replayed(recovered.min_log_to_keep, oldest);
        let newest = logs.iter().map(|log| log.number).max().unwrap_or_default();
        if !is_own(newest) {
            return Err(Error::corruption(format!(
                "log {newest} has a number that no database allocates"
            )));
        }
        self.check_tracked(recovered, &logs)?;
        // As in a backup without logs: a crash does not remove all of them.
        let without_logs = logs.is_empty();
        let unneeded = logs.iter().filter(|log| log.number < min_log);
        let kept: Vec<WalFile> = unneeded
            .filter(|log| recovered.min_log_to_keep <= log.number)
            .cloned()
            .collect();
        logs.retain(|log| log.number >= min_log);
        let mut replay = LogReplay {
            shared: self,
            mode: mode(self.options().wal_recovery_mode),
            replay: Replay::of_policy(recovered.last_sequence, self.opening.policy()),
            sink: Memtables {
                shared: self,
                logs: open
                    .iter()
                    .map(|family| (family.id, family.log_number))
                    .collect(),
                families: families.clone(),
                above: self.opening.replay_above().clone(),
                flushed: false,
                blobs: BTreeSet::new(),
                stripped: BTreeMap::new(),
                enforces_budget: self.options().enforce_write_buffer_manager_during_recovery,
            },
            stopped_at: None,
            ended: false,
            before: None,
            min_log,
        };
        for log in kept {
            replay.sections(&log)?;
        }
        let mut replayed = Vec::new();
        if let Some(filter) = self.options().wal_filter.get() {
            let ids = open.iter().map(|family| (family.name.clone(), family.id));
            filter.families(&replay.sink.logs, &ids.collect());
        }
        for log in logs {
            match replay.ended {
                false => replayed.push(replay.log(log)?),
                true => {
                    let len = self.context.world.fs.status(&log.path)?.len;
                    let reason = "the WAL filter ended the replay before it".to_owned();
                    replay.note(&log, 0, len, reason);
                }
            }
        }
        if let Some(log) = replay.stopped_at {
            refuse_inconsistent(&families, &replay.sink.logs, log)?;
        }
        let salvages = replay.mode == RecoveryMode::SkipAnyCorruptedRecords || replay.ended;
        if let Some(reach) = recovered.log_reach
            && reach.number >= min_log
            && !salvages
            && !without_logs
        {
            refuse_unreached(reach, &replayed)?;
        }
        end_history(&families, &replay.sink.stripped)?;
        self.keep_undecided(&mut replay)?;
        let last = replay.replay.last;
        Ok(Outcome {
            last,
            blobs: replay.sink.blobs,
            flushed: replay.sink.flushed,
            newest,
            logs: replayed,
            has_sections: replay.replay.has_sections(),
            may_return: without_logs
                && recovered.manifest > FileNumber(0)
                && recovered.log_reach.is_none(),
        })
    }

    /// Adds the undecided transactions of `replay` to the sections.
    fn keep_undecided(&self, replay: &mut LogReplay<'_>) -> Result<()> {
        let undecided = replay.replay.undecided();
        if undecided > 0 && !self.context.read_only {
            if !self.options().allow_2pc {
                return Err(Error::not_supported(format!(
                    "the logs hold {undecided} prepared transactions that are not decided: open the \
                     database as a transaction database, with allow_2pc, or read-only"
                )));
            }
            for (name, section) in replay.replay.take_undecided() {
                self.writes.sections.add_recovered(name, section);
            }
        }
        if let Some(early) = replay.replay.take_early() {
            let families = replay.sink.families.clone();
            let family_of = |id| families.get(id).cloned();
            let (last, sink) = (&mut replay.replay.last, &mut replay.sink);
            for (name, section) in early.take_back(last, sink, family_of)? {
                self.writes.sections.add_recovered(name, section);
            }
        }
        Ok(())
    }

    /// Returns the first log to replay, given those of the MANIFEST: the first one to keep, and the first one with data
    /// that is not in tables. Logs between them may have prepared sections.
    pub(super) fn first_replayed(&self, kept: FileNumber, unflushed: FileNumber) -> FileNumber {
        match self.options().allow_2pc {
            true => kept,
            false => kept.max(unflushed),
        }
    }

    /// Checks that there is a log, with `track_and_verify_wals`, and that the logs recorded in the MANIFEST exist, with
    /// `track_and_verify_wals_in_manifest`.
    fn check_tracked(&self, recovered: &Recovered, logs: &[WalFile]) -> Result<()> {
        if self.options().track_and_verify_wals
            && !self.options().best_efforts_recovery
            && logs.is_empty()
            && !(is_blank(recovered) && self.lacks_options()?)
        {
            return Err(Error::corruption(format!(
                "{} has no log, which every opening for writing leaves: the logs were removed, or are in another \
                 directory (wal_dir). track_and_verify_wals=false opens what the tables contain",
                self.context.wal_dir.display()
            )));
        }
        if !self.options().track_and_verify_wals_in_manifest {
            return Ok(());
        }
        for (number, synced) in &recovered.wals {
            let Some(bytes) = synced else { continue };
            let Some(log) = logs.iter().find(|log| log.number == *number) else {
                return Err(Error::corruption(format!(
                    "log {number} is missing: the MANIFEST records {bytes} bytes of it"
                )));
            };
            let found = self.context.world.fs.status(&log.path)?.len;
            if found < *bytes {
                return Err(Error::corruption(format!(
                    "length of {}: expected at least {bytes}, found {found}",
                    log.path.display()
                )));
            }
        }
        Ok(())
    }

    /// True if there is no OPTIONS file, which each opening writes once its log is there.
    fn lacks_options(&self) -> Result<bool> {
        let names = self.context.world.fs.list(&self.context.dir)?;
        let is_options =
            |name: &String| matches!(FileName::parse(name), Some(FileName::Options(_)));
        Ok(!names.iter().any(is_options))
    }

    /// Flushes the memtable of `family` to a table of the version that is being recovered.
    pub(super) fn flush_recovered(self: &Arc<Self>, family: &Arc<FamilyState>) -> Result<()> {
        let view = family.view_full();
        assert!(
            view.immutables.is_empty(),
            "a memtable that recovery fills is flushed at once"
        );
        let limit = self.catalog.numbers.next();
        let edit = self.write_memtables(
            family,
            &view.version,
            std::slice::from_ref(&view.memtable),
            cairn_types::TableFileCreationReason::Recovery,
        )?;
        assert!(edit.deleted.is_empty(), "a flush deletes no table");
        assert!(
            edit.added.iter().all(|(_, file)| {
                limit <= file.number && file.seqs.largest <= view.memtable.largest_seq()
            }),
            "tables of a recovery have new numbers, and entries of the memtable"
        );
        let version = Arc::new(view.version.with_edit(&edit)?);
        check_version(&version);
        let fresh = self.new_memtable(&family.options(), view.memtable.largest_seq());
        let next = view
            .with_new_memtable(fresh)
            .with_version(version, std::slice::from_ref(&view.memtable));
        family.set_view(next);
        Ok(())
    }

    /// Flushes all recovered memtables, after which every family needs only `log` and later logs.
    fn flush_for_log(self: &Arc<Self>, log: FileNumber) -> Result<()> {
        for family in self.catalog.families().clone().iter() {
            if !family.view().memtable.is_empty() {
                self.flush_recovered(family)?;
            }
        }
        let mut tree = self.tree.lock();
        for state in tree.families.values_mut() {
            assert!(
                state.log_number <= log,
                "the log number of a family rises to {log}, from {}",
                state.log_number
            );
            state.log_number = log;
        }
        tree.logs.release_before(log);
        Ok(())
    }

    /// Makes the recovered state durable and current: tables, MANIFEST, log, OPTIONS.
    fn become_current(
        self: &Arc<Self>,
        recovered: &Recovered,
        outcome: &Outcome,
        names: Vec<String>,
    ) -> Result<()> {
        let families = self.catalog.families().clone();
        let dropped = self.opening.has_dropped();
        // A kept log with a prepared section could be released before the memtables with its entries are flushed.
        let keep_logs = (self.options().avoid_flush_during_recovery || outcome.may_return)
            && !outcome.flushed
            && !outcome.has_sections
            && !dropped;
        let log = self.catalog.numbers.take();
        assert!(
            outcome.newest < log,
            "log {log} is newer than all existing ones, the newest of which is {}",
            outcome.newest
        );
        match keep_logs {
            true => self.keep_logs(outcome)?,
            false => self.flush_for_log(log)?,
        }
        for (family, number) in &outcome.blobs {
            // The values were relocated. A file in no version is deleted.
            if let Some(family) = families.get(*family) {
                family.view().family.blobs.forget(*number);
            }
        }
        debug_assert!(
            keep_logs
                || families
                    .iter()
                    .all(|family| family.view().memtable.is_empty()),
            "recovered data is in tables before its logs are released"
        );
        for dir in self.catalog.sources.dirs_of(&self.catalog.families()) {
            self.context.world.fs.sync_dir(&dir)?;
        }
        if self.options().best_efforts_recovery {
            self.set_aside()?;
        }
        // The old logs are released with the new MANIFEST.
        let with_sections = match self.writes.sections.is_empty() {
            true => None,
            false => Some(self.log_with_sections(log)?),
        };
        let number = self.catalog.begin_manifest(&**self, recovered, keep_logs)?;
        let min_log = self.tree.lock().logs.first_needed();
        assert!(
            keep_logs || min_log == log,
            "recovery needs no log that was flushed: it begins at {min_log}, and the next log is {log}"
        );
        let next = match with_sections {
            Some(next) => next,
            None => self.create_log(log, None, None)?,
        };
        self.writes.sections.note_log(log);
        let how = match next.is_mapped() {
            true => "written through a mapping",
            false => "written by calls",
        };
        self.tree.lock().logs.add_current(log);
        let before = self.writes.writer.lock().log.replace(next);
        assert!(before.is_none(), "an opening begins one log");
        self.check_tree(&self.tree.lock());
        if self.options().track_and_verify_wals {
            // The OPTIONS file is evidence of a log.
            self.context.world.fs.sync_dir(&self.context.wal_dir)?;
        }
        // The clean-up removes replaced ones.
        let options = {
            let alone = self.settings.lock_file();
            let families = self.catalog.families();
            let files = &self.catalog.options_files;
            files.write(&alone, &families, &self.catalog.numbers)?
        };
        self.clean_up(number, min_log, names, options)?;
        self.context.info.info(format_args!(
            "opened: {} families, MANIFEST {number} after {}, log {log} {how}, last sequence number {}",
            families.iter().count(),
            recovered.manifest,
            self.published()
        ));
        Ok(())
    }

    /// Creates the log `number` with the recovered sections, durably.
    fn log_with_sections(&self, number: FileNumber) -> Result<CurrentLog> {
        let mut log = self.create_log(number, None, None)?;
        if self.writes.sections.are_early() {
            if let Some(moved) = self.moved_sections()? {
                self.log_moved(&moved, &mut log)?;
            }
        } else {
            let next = self.published().plus(1);
            self.writes.sections.move_to(&mut log, next)?;
        }
        log.file().sync(&*self.context.world.fs)?;
        Ok(log)
    }

    /// Keeps the replayed logs for the next recovery: the new log may only be written once they are durable,
    /// including their names. A sync of one of them may have failed before the crash, and another one would
    /// then prove nothing, so each is rewritten under its name, without anything after its last record.
    fn keep_logs(&self, outcome: &Outcome) -> Result<()> {
        let fs = &*self.context.world.fs;
        for Replayed { file, whole, .. } in &outcome.logs {
            let copy = self
                .context
                .wal_dir
                .join(FileName::Temp(file.number).to_string());
            match fs.remove(&copy) {
                Err(error) if error.subcode() == Subcode::PathNotFound => {}
                removed => removed?,
            }
            copy::copy(
                fs,
                &file.path,
                &copy,
                Some(*whole),
                self.options().use_fsync,
            )?;
            let checked = self.check_copy(&copy, file, *whole);
            let named = checked.and_then(|()| fs.rename(&copy, &file.path));
            named.inspect_err(|_| {
                // The error is reported; the next opening replaces a copy that stays.
                let _ = fs.remove(&copy);
            })?;
            self.tree.lock().logs.set_len(file.number, *whole);
        }
        fs.sync_dir(&self.context.wal_dir)
    }

    /// Checks that the copy of a log has every replayed record, up to the offset `whole`: data that could not
    /// be written may have left the page cache since.
    fn check_copy(&self, copy: &Path, log: &WalFile, whole: u64) -> Result<()> {
        let fs = &*self.context.world.fs;
        let mut reader = WalReader::open(fs, copy, log.number, FileMode::default())?;
        while reader.whole_up_to() < whole {
            reader.advance()?;
            if matches!(reader.event(), WalEvent::End(_)) {
                break;
            }
        }
        if reader.whole_up_to() < whole {
            return Err(Error::io_text(format!(
                "{} changed while it was recovered: expected records up to offset {whole}, found \
                 them up to {}; open the database again",
                log.path.display(),
                reader.whole_up_to()
            )));
        }
        Ok(())
    }
}

/// Ends the histories of families after the newest timestamps that were stripped from their entries, as the flushes of an
/// opening for writing do.
fn end_history(families: &Families, stripped: &BTreeMap<u32, Vec<u8>>) -> Result<()> {
    for (family, newest) in stripped {
        let Some(family) = families.get(*family) else {
            continue;
        };
        let view = family.view_full();
        let edit = TreeEdit {
            history_low: successor(newest),
            ..TreeEdit::default()
        };
        let version = Arc::new(view.version.with_edit(&edit)?);
        family.set_view(view.with_version(version, &[]));
    }
    Ok(())
}

/// True if a database has no data in tables: without an OPTIONS file, it is new, and has no log so far.
fn is_blank(recovered: &Recovered) -> bool {
    let tables = |family: &RecoveredFamily| family.version.files().next().is_some();
    recovered.last_sequence == SequenceNumber::ZERO && !recovered.families.iter().any(tables)
}

/// Rejects a state in which one family has data that another has lost in the damaged `log`.
fn refuse_inconsistent(
    families: &Families,
    logs: &std::collections::BTreeMap<u32, FileNumber>,
    log: FileNumber,
) -> Result<()> {
    for family in families.iter() {
        let beyond = logs.get(&family.id()).is_some_and(|number| *number > log);
        if beyond && family.view().version.files().next().is_some() {
            return Err(Error::corruption(format!(
                "log {log} is damaged, and column family {:?} has tables that are newer: recovered \
                 to the damage, the families would not agree. wal_recovery_mode \
                 kSkipAnyCorruptedRecords salvages what can be read",
                family.name()
            )));
        }
    }
    Ok(())
}

/// Rejects a state with ingested tables but without all of the data logged before them.
fn refuse_unreached(reach: LogReach, replayed: &[Replayed]) -> Result<()> {
    let LogReach { number, bytes } = reach;
    let log = replayed.iter().find(|log| log.file.number == number);
    let used = log.map_or(0, |log| log.used);
    if used >= bytes {
        return Ok(());
    }
    let name = match log {
        Some(log) => log.file.path.display().to_string(),
        None => format!("log {number}, which is missing"),
    };
    Err(Error::corruption(format!(
        "records of {name}: expected up to offset {bytes}, where the MANIFEST has tables that were \
         ingested after them, found up to {used}: the records in between are damaged or gone, and \
         tables are ahead of the logs. wal_recovery_mode kSkipAnyCorruptedRecords salvages what can \
         be read"
    )))
}
