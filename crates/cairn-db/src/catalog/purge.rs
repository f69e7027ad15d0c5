//! Deleting files that are no longer needed.
//!
//! A table is deleted when no current version has it, the MANIFEST edit that removed it is synced, and its
//! last reader has ended. A view that ends sets a flag, and only then are obsolete tables searched for. An
//! `SstFileManager` may move tables and blob files to the trash first, and delete them slowly. Files left by
//! a crash are deleted when the database is opened. Files with unknown names are never touched.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_observe::statistics::Ticker;
use cairn_platform::FileSystem;
use cairn_read::BlobSource;
use cairn_types::{FileNumber, Result, Subcode};
use cairn_version::BlobFileMeta;

use super::Catalog;
use super::obsolete_files::Unread;
use super::sst_file_manager::is_trash;

/// The files kept by a full scan.
pub(crate) struct Keep {
    /// The current MANIFEST.
    pub(crate) manifest: FileNumber,
    /// Logs before this one are not needed.
    pub(crate) min_log: FileNumber,
    /// Tables and blob files of the live versions.
    pub(crate) live: BTreeSet<FileNumber>,
    /// Files at or above this number may be about to be added to the tree.
    pub(crate) min_pending: FileNumber,
}

/// The number of OPTIONS files to keep.
const OPTIONS_KEPT: usize = 2;

impl Keep {
    /// True if the file may be deleted. OPTIONS files are handled separately.
    pub(crate) fn is_obsolete(&self, name: FileName) -> bool {
        match name {
            FileName::Wal(number) => number < self.min_log,
            // Failed openings leave some with larger numbers than a reused one.
            FileName::Manifest(number) => number != self.manifest,
            FileName::Table(number) | FileName::LegacyTable(number) | FileName::Blob(number) => {
                number < self.min_pending && !self.live.contains(&number)
            }
            FileName::Temp(_) | FileName::OptionsTemp(_) => true,
            _ => false,
        }
    }
}

/// Deletes the files `names` in `dir` except those that `keep` keeps. No other thread may be creating files
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

/// Deletes the tables and blob files in `dir` except those that `keep` keeps, and nothing else: the directory
/// may have other uses.
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

/// Returns the OPTIONS files among `names` that newer ones have replaced.
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

/// Removes a file. A missing file is not an error.
fn remove(fs: &dyn FileSystem, path: &Path) -> Result<()> {
    match fs.remove(path) {
        Err(error) if error.subcode() == Subcode::PathNotFound => Ok(()),
        result => result,
    }
}

/// Prevents the deletion of files while it exists.
pub(crate) struct Pin<'a>(&'a Catalog);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let held = self.0.obsolete.lock().unpin();
        self.0.delete_held(held);
    }
}

impl Catalog {
    /// Keeps all files that are live now, and those that become obsolete meanwhile, until the result is
    /// dropped. The next purge deletes the obsolete ones.
    pub(crate) fn pin_files(&self) -> Pin<'_> {
        self.obsolete.lock().pin();
        Pin(self)
    }

    /// True while a copy is in progress, whose files are kept.
    pub(crate) fn has_pins(&self) -> bool {
        self.obsolete.lock().are_pinned()
    }

    /// Disables deletions until [`Catalog::enable_deletions`] has been called as often.
    pub(crate) fn disable_deletions(&self) {
        self.obsolete.lock().disable();
    }

    /// Reverts one [`Catalog::disable_deletions`]. The last one deletes the files that have become obsolete.
    pub(crate) fn enable_deletions(&self) {
        let held = self.obsolete.lock().enable();
        self.delete_held(held);
    }

    /// True if files may be deleted now.
    pub(crate) fn deletes_files(&self) -> bool {
        !self.obsolete.lock().are_disabled()
    }

    /// Permanently keeps files whose deletion was deferred: the directory may belong to another process.
    pub(crate) fn give_up_directory(&self) {
        self.obsolete.lock().give_up();
    }

    fn delete_held(&self, held: Option<Vec<PathBuf>>) {
        held.iter().flatten().for_each(|path| self.delete(path));
    }

    /// Total size of the obsolete tables, in bytes.
    pub(crate) fn obsolete_table_bytes(&self) -> u64 {
        self.obsolete.lock().table_bytes()
    }

    /// Obsolete blob files of `source` that have readers.
    pub(crate) fn obsolete_blobs_of(&self, source: &Arc<BlobSource>) -> Vec<Arc<BlobFileMeta>> {
        self.obsolete.lock().blobs_of(source)
    }

    /// True if a reader that has ended may have been the last of an obsolete file. Costs two loads.
    pub(crate) fn may_have_unread(&self) -> bool {
        self.purge_hint.may_have_unread()
    }

    /// Deletes obsolete tables and blob files without readers, unless deletions are disabled. The caller does
    /// not hold the lock of the tree.
    pub(crate) fn purge(&self) {
        let unread = {
            let mut obsolete = self.obsolete.lock();
            if obsolete.are_disabled() {
                return;
            }
            // Before the files are checked: a view that ends meanwhile is recorded for the next check.
            self.purge_hint.begin_scan();
            let unread = obsolete.take_unread();
            self.purge_hint.set_obsolete(!obsolete.is_empty());
            unread
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

    /// Deletes a file, or keeps it until deletions are enabled again. A failure is logged, and the next
    /// opening tries again: the file wastes space but does no harm. The caller does not hold the lock of the
    /// tree.
    pub(crate) fn delete(&self, path: &Path) {
        if self.obsolete.lock().hold(path) {
            return;
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
