//! Deleting files that nothing needs any more.
//!
//! A table is deleted when no current version has it, the MANIFEST edit that released it is synced,
//! and its last reader has ended. A view that ends sets a mark, and only then are obsolete tables searched
//! for. A log is deleted when a synced edit says that no
//! family needs it. An `SstFileManager` may make trash of tables and blob files first, and delete
//! them slowly. What a crash left behind is deleted when the database is opened. Unknown names
//! are never touched.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_observe::statistics::Ticker;
use cairn_platform::{FileSystem, Priority};
use cairn_types::{FileNumber, Result, Subcode};

use crate::locks::RankedGuard;
use crate::obsolete_files::Unread;
use crate::shared::{Shared, Tree};
use crate::sst_file_manager::is_trash;

/// The files that a full scan keeps.
pub(crate) struct Keep {
    /// The MANIFEST in use.
    pub(crate) manifest: FileNumber,
    /// Logs before this one are not needed.
    pub(crate) min_log: FileNumber,
    /// Tables and blob files of the live versions.
    pub(crate) live: BTreeSet<FileNumber>,
    /// Files at or above this number may be about to enter the tree.
    pub(crate) min_pending: FileNumber,
}

/// The number of OPTIONS files that are kept.
const OPTIONS_KEPT: usize = 2;

impl Keep {
    /// True if the file may be deleted. OPTIONS files are judged together, elsewhere.
    pub(crate) fn is_obsolete(&self, name: FileName) -> bool {
        match name {
            FileName::Wal(number) => number < self.min_log,
            // Openings that failed leave some with larger numbers than one that was gone on with.
            FileName::Manifest(number) => number != self.manifest,
            FileName::Table(number) | FileName::LegacyTable(number) | FileName::Blob(number) => {
                number < self.min_pending && !self.live.contains(&number)
            }
            FileName::Temp(_) | FileName::OptionsTemp(_) => true,
            _ => false,
        }
    }
}

/// Deletes those of the files `names` in `dir` that `keep` does not keep. Nothing else may be creating files
/// there.
pub(crate) fn scan(fs: &dyn FileSystem, dir: &Path, names: Vec<String>, keep: &Keep) -> Result<()> {
    for name in &names {
        match FileName::parse(name) {
            Some(kind) if keep.is_obsolete(kind) => remove(fs, &dir.join(name))?,
            None if is_trash(name) => remove(fs, &dir.join(name))?,
            _ => {}
        }
    }
    for name in old_options(names) {
        remove(fs, &dir.join(name))?;
    }
    Ok(())
}

/// Deletes the tables and blob files from `dir` that `keep` does not keep, and nothing else: the
/// directory may have other uses.
pub(crate) fn scan_tables(fs: &dyn FileSystem, dir: &Path, keep: &Keep) -> Result<()> {
    for name in fs.list(dir)? {
        match FileName::parse(&name) {
            Some(kind @ (FileName::Table(_) | FileName::LegacyTable(_) | FileName::Blob(_)))
                if keep.is_obsolete(kind) =>
            {
                remove(fs, &dir.join(&name))?;
            }
            None if is_trash(&name) => remove(fs, &dir.join(&name))?,
            _ => {}
        }
    }
    Ok(())
}

/// The OPTIONS files among `names` that newer ones have replaced.
pub(crate) fn old_options(names: Vec<String>) -> impl Iterator<Item = String> {
    let number = |name: &String| match FileName::parse(name) {
        Some(FileName::Options(number)) => Some(number),
        _ => None,
    };
    let mut options: Vec<_> = names
        .into_iter()
        .filter_map(|name| Some((number(&name)?, name)))
        .collect();
    options.sort();
    options.truncate(options.len().saturating_sub(OPTIONS_KEPT));
    options.into_iter().map(|(_, name)| name)
}

/// Removes a file; one that is gone already is no error.
fn remove(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    match fs.remove(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(()),
        result => result,
    }
}

impl Shared {
    /// Deletes tables without a reader and logs that no family needs, and delivers queued notices to
    /// listeners. The caller holds no lock.
    pub(crate) fn purge(&self) {
        self.purge_files();
        self.telemetry.deliver();
    }

    fn purge_files(&self) {
        let (unread, logs) = {
            let mut tree = self.tree.lock();
            if tree.obsolete.are_disabled() {
                let unsynced = tree.logs.take_unneeded_syncs();
                drop(tree);
                unsynced.iter().for_each(|log| log.forget());
                return;
            }
            // Before the files are looked at: a view that ends meanwhile is noted for the next time.
            self.purge_hint.begin_scan();
            let unread = tree.obsolete.take_unread();
            self.purge_hint.set_obsolete(!tree.obsolete.is_empty());
            (unread, tree.logs.take_unneeded())
        };
        debug_assert!(
            !self.has_live(&unread),
            "a file that is deleted is in no current version"
        );
        for (tables, file) in unread.tables {
            tables.uncache(&file);
            self.delete(&tables.path(&file));
        }
        for (source, number) in unread.blobs {
            source.forget(number);
            self.delete(&source.path(number));
        }
        logs.unsynced.iter().for_each(|log| log.forget());
        self.retire_logs(logs.logs);
    }

    /// True if a current version has one of the files.
    fn has_live(&self, unread: &Unread) -> bool {
        let tables = unread.tables.iter().map(|(_, file)| file.number);
        let blobs = unread.blobs.iter().map(|(_, number)| *number);
        let gone: BTreeSet<FileNumber> = tables.chain(blobs).collect();
        let families = self.families.load();
        !gone.is_empty()
            && families.iter().any(|family| {
                let version = &family.view().version;
                let mut files = version.files().map(|(_, file)| file.number);
                let mut blobs = version.blob_files().keys();
                files.any(|number| gone.contains(&number))
                    || blobs.any(|number| gone.contains(number))
            })
    }

    /// Purges on a background thread, for which closing waits; not at all once it is over.
    pub(crate) fn purge_as_job(&self, tree: RankedGuard<'_, Tree>) {
        if counts_purge(tree) {
            self.purge_counted();
        }
    }

    /// A purge that is counted already.
    pub(crate) fn purge_counted(&self) {
        // Listeners of it may not wait for it.
        self.as_job(|| self.purge());
        self.tree.lock().jobs.end_purge();
        self.changed.notify_all();
    }

    /// Deletes a file, or keeps it until deletions are enabled again. A failure is reported and left
    /// to the next opening: the file is dead weight, not damage. The caller does not hold the lock
    /// of the tree.
    pub(crate) fn delete(&self, path: &Path) {
        {
            let mut tree = self.tree.lock();
            let log = path.file_name().and_then(|name| name.to_str());
            if let Some(FileName::Wal(number)) = log.and_then(FileName::parse) {
                assert!(
                    number < tree.logs.first_needed(),
                    "log {number} is deleted, and recovery needs the logs from {} on",
                    tree.logs.first_needed()
                );
            }
            if tree.obsolete.hold(path) {
                return;
            }
        }
        let meter = self.telemetry.meter();
        let deleted = move || meter.add(Ticker::FilesDeletedFromTrashQueue, 1);
        let is_trash = self.space.discard(&self.context.world, path, deleted);
        self.telemetry
            .tick(Ticker::FilesMarkedTrash, u64::from(is_trash));
        let result = match is_trash {
            true => Ok(()),
            false => remove(&*self.context.world.fs, path).inspect(|()| {
                self.telemetry.tick(Ticker::FilesDeletedImmediately, 1);
                self.space.untrack(path);
            }),
        };
        self.telemetry.report_deletion(path, 0, &result);
        if let Err(error) = result {
            self.context.info.warn(format_args!(
                "an obsolete file could not be deleted: {error}"
            ));
        }
    }
}

impl Shared {
    /// Deletes in the background what a reader that has just left may have kept.
    pub(crate) fn purge_in_background(self: &Arc<Self>) {
        // A line of the info log may be written with the tree locked: what is obsolete waits for the next purge.
        let may_lock = self.may_write().is_ok();
        if self.may_have_obsolete() && may_lock && counts_purge(self.tree.lock()) {
            let shared = self.clone();
            self.context
                .world
                .executor
                .spawn(Priority::High, Box::new(move || shared.purge_counted()));
        }
    }

    /// Deletes what a reader that has just left may have kept. The caller holds no lock.
    pub(crate) fn purge_after_reader(&self) {
        if self.may_have_obsolete() {
            self.purge_as_job(self.tree.lock());
        }
    }

    /// True if a reader may have kept something: only the last one of a view keeps files, so that the others do not look
    /// through what is obsolete.
    fn may_have_obsolete(&self) -> bool {
        self.purge_hint.may_have_unread()
            && !self.lifecycle.is_closing()
            && !self.context.is_forked()
    }
}

/// Counts a purge, for which waits for quiet, and closing, wait from now on; none once closing is over.
fn counts_purge(mut tree: RankedGuard<'_, Tree>) -> bool {
    tree.jobs.begin_purge()
}
