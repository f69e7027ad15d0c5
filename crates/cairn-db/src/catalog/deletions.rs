//! Deletion of files that no version refers to.
//!
//! A table is deleted when no current version has it, the MANIFEST edit that removed it is synced, and its
//! last reader has ended. The end of a view sets a mark, without which obsolete tables are not searched for.
//! An `SstFileManager` may rename tables and blob files to trash and delete them slowly. A file that cannot
//! be deleted is reported and left to the next opening, as are the remains of a crash ([`super::scan`]).
//!
//! Deletions are suspended while a copy has a [`Pin`], and from [`Deletions::disable`] to the matching
//! [`Deletions::enable`]. After [`Deletions::give_up_directory`] nothing more is deleted.
//!
//! After a failed write of the MANIFEST it may be unknown whether the files of a change are in use. They are kept until a new
//! MANIFEST replaces the failed one, so that attempts that fail do not fill the disk.
//!
//! The set of obsolete files ([`super::obsolete_files`]) has a leaf lock, and so has the list of files in doubt. Neither is
//! held across a file operation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_observe::statistics::Ticker;
use cairn_platform::sync::Mutex;
use cairn_read::{BlobSource, ViewEnd};
use cairn_types::FileNumber;
use cairn_version::{BlobFileMeta, TreeEdit, Version};

use super::family::FamilyState;
use super::obsolete_files::{ObsoleteFiles, PurgeHint, Unread};
use super::scan::remove;
use super::sst_file_manager::Space;
use crate::context::{DbContext, Follows};
use crate::telemetry::Telemetry;
use crate::write::direct_blobs::Retired;

/// The obsolete files of a database and their deletion.
pub(crate) struct Deletions {
    context: Arc<DbContext>,
    telemetry: Arc<Telemetry>,
    space: Arc<Space>,
    /// Obsolete files that still have readers, or whose deletion is suspended.
    obsolete: Mutex<ObsoleteFiles>,
    /// Files of changes whose outcome is unknown. They are deleted once a new MANIFEST is in use; an opening finds out
    /// otherwise.
    in_doubt: Mutex<Vec<PathBuf>>,
    hint: PurgeHint,
}

/// Prevents the deletion of files while it exists.
pub(crate) struct Pin<'a>(&'a Deletions);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let held = self.0.obsolete.lock().unpin();
        self.0.delete_held(held);
    }
}

impl Deletions {
    /// Creates an empty set of obsolete files. `space` counts those that are deleted.
    pub(super) fn new(
        context: Arc<DbContext>,
        telemetry: Arc<Telemetry>,
        space: Arc<Space>,
    ) -> Deletions {
        Deletions {
            context,
            telemetry,
            space,
            obsolete: Mutex::default(),
            in_doubt: Mutex::default(),
            hint: PurgeHint::default(),
        }
    }

    /// Keeps all files that are live now, and those that become obsolete meanwhile, until the result is
    /// dropped. The next purge deletes the obsolete ones.
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.obsolete.lock().pin();
        Pin(self)
    }

    /// True while files are pinned for a copy.
    pub(crate) fn are_pinned(&self) -> bool {
        self.obsolete.lock().are_pinned()
    }

    /// Disables deletions until [`Deletions::enable`] has been called as often.
    pub(crate) fn disable(&self) {
        self.obsolete.lock().disable();
    }

    /// Reverts one [`Deletions::disable`]. The last one deletes the files that have become obsolete.
    pub(crate) fn enable(&self) {
        let held = self.obsolete.lock().enable();
        self.delete_held(held);
    }

    /// True if files may be deleted now.
    pub(crate) fn are_enabled(&self) -> bool {
        !self.obsolete.lock().are_disabled()
    }

    /// Permanently keeps files whose deletion was deferred: the directory may belong to another process.
    pub(crate) fn give_up_directory(&self) {
        self.obsolete.lock().give_up();
    }

    fn delete_held(&self, held: Option<Vec<PathBuf>>) {
        held.iter().flatten().for_each(|path| self.delete(path));
    }

    /// Total size of the obsolete tables without readers, in bytes.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.obsolete.lock().table_bytes()
    }

    /// Obsolete blob files of `source` that have readers.
    pub(crate) fn blobs_of(&self, source: &Arc<BlobSource>) -> Vec<Arc<BlobFileMeta>> {
        self.obsolete.lock().blobs_of(source)
    }

    /// Blob files that memtables may refer to although they are flushed or dropped.
    pub(crate) fn direct_numbers(&self) -> Vec<FileNumber> {
        self.obsolete.lock().direct_numbers()
    }

    /// True if a reader that has ended may have been the last of an obsolete file. Costs two loads.
    pub(crate) fn may_have_unread(&self) -> bool {
        self.hint.may_have_unread()
    }

    /// The mark set by the end of a view.
    pub(super) fn view_end(&self) -> ViewEnd {
        self.hint.view_end()
    }

    /// Queues the files for deletion that are in `base`, a version of `family`, but not in its successor
    /// `next`: all of them without `next`, for a dropped family.
    pub(super) fn retire(&self, family: &FamilyState, base: &Arc<Version>, next: Option<&Version>) {
        assert!(
            Arc::ptr_eq(base, &family.view().version),
            "the current version of {:?} is the one that is replaced",
            family.name()
        );
        let blobs = &family.view().family.blobs;
        self.obsolete
            .lock()
            .add(&family.tables(), blobs, base, next);
        self.hint.note_obsolete();
    }

    /// Adds the blob files `retired` of `family`. Called before its view changes, with or without such files.
    pub(crate) fn retire_direct(&self, family: &FamilyState, retired: Retired) {
        if !family.direct.is_on() {
            return;
        }
        let files = retired.added.iter().chain(&retired.unneeded);
        let files: Vec<_> = files.cloned().collect();
        self.context.unsynced_blobs.retire(&files);
        let view = family.view();
        let memtables: Vec<_> = view.memtables().cloned().collect();
        let blobs = &view.family.blobs;
        let mut obsolete = self.obsolete.lock();
        obsolete.add_direct(blobs, retired);
        obsolete.settle_direct(blobs, &memtables);
        drop(obsolete);
        if !files.is_empty() {
            self.hint.note_obsolete();
        }
    }

    /// Returns the obsolete files without a reader, and removes them from the set; `None` if deletions are
    /// disabled.
    pub(super) fn take_unread(&self) -> Option<Unread> {
        let mut obsolete = self.obsolete.lock();
        if obsolete.are_disabled() {
            return None;
        }
        // Before the files are checked: a view that ends meanwhile is recorded for the next check.
        self.hint.begin_scan();
        let unread = obsolete.take_unread();
        self.hint.set_obsolete(!obsolete.is_empty());
        Some(unread)
    }

    /// Deletes the files that [`Deletions::take_unread`] returned, which are in no current version.
    pub(super) fn delete_unread(&self, unread: Unread) {
        for (tables, file) in unread.tables {
            tables.uncache(&file);
            self.delete(&tables.path(&file));
        }
        self.context.unsynced_blobs.release(&unread.direct);
        for (source, number) in unread.blobs {
            // A memtable of a database that follows another one may still refer to it.
            if self.context.follows.is_none() || !source.is_unsealed(number) {
                source.forget(number);
            }
            self.delete(&source.path(number));
        }
    }

    /// Closes the obsolete tables without deleting them, which is left to the next opening.
    pub(super) fn forget(&self) {
        self.obsolete.lock().forget();
    }

    /// Deletes the tables and blob files that a job wrote, and that did not become part of the tree.
    pub(crate) fn delete_outputs(&self, family: &FamilyState, edit: &TreeEdit) {
        for path in outputs(family, edit) {
            self.delete(&path);
        }
    }

    /// Notes the tables and blob files that a job wrote, if it is unknown whether they are part of the tree.
    pub(super) fn keep_outputs_in_doubt(&self, family: &FamilyState, edit: &TreeEdit) {
        self.in_doubt.lock().extend(outputs(family, edit));
    }

    /// Notes a file of which it is unknown whether it is in use.
    pub(crate) fn keep_in_doubt(&self, path: PathBuf) {
        self.in_doubt.lock().push(path);
    }

    /// Deletes the files that were in doubt: a new MANIFEST, which does not have them, is in use.
    pub(super) fn delete_files_in_doubt(&self) {
        let in_doubt = std::mem::take(&mut *self.in_doubt.lock());
        in_doubt.iter().for_each(|path| self.delete(path));
    }

    /// Deletes a file, or keeps it until deletions are enabled again. A failure is logged, and the next
    /// opening tries again: the file wastes space but does no harm. The caller does not hold the lock of the
    /// tree.
    pub(crate) fn delete(&self, path: &Path) {
        if self.context.read_only && self.context.follows != Some(Follows::Copies) {
            // The files belong to another process.
            return;
        }
        if self.obsolete.lock().keeps(path) {
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

/// The tables and blob files of `edit` that a job wrote for `family`. Files that it only moved belong to versions that may still
/// be read, and those of direct writes to the memtables.
fn outputs(family: &FamilyState, edit: &TreeEdit) -> Vec<PathBuf> {
    let view = family.view();
    let is_moved = |number| edit.deleted.iter().any(|(_, moved)| *moved == number);
    let tables = edit.added.iter().map(|(_, file)| file);
    let tables = tables.filter(|file| !is_moved(file.number)).map(|file| {
        assert!(
            view.version
                .files()
                .all(|(_, live)| live.number != file.number),
            "table {}, which is not part of the tree, is in no version",
            file.number
        );
        family.tables().path(file)
    });
    let blobs = edit.added_blobs.iter();
    let blobs = blobs.filter(|blob| !family.direct.owns(blob.number));
    let blobs = blobs.map(|blob| view.family.blobs.path(blob.number));
    tables.chain(blobs).collect()
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
