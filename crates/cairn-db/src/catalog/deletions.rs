//! Deletions: when a file that no version has may go, and its removal.
//!
//! A table is deleted when no current version has it, the MANIFEST edit that released it is synced, and its last reader has
//! ended. A view that ends sets a mark, and only then are obsolete tables searched for. An `SstFileManager` may make trash of
//! tables and blob files first, and delete them slowly. A file that cannot be deleted is reported and left to the next
//! opening, as is what a crash leaves behind ([`super::scan`]).
//!
//! Deletions are held back while a copy has a [`Pin`], and from [`Deletions::disable`] to the matching
//! [`Deletions::enable`]. After [`Deletions::give_up_directory`] what was held back stays for ever.
//!
//! The set of obsolete files ([`super::obsolete_files`]) is under a leaf lock, which is never held across a file operation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cairn_observe::statistics::Ticker;
use cairn_platform::sync::Mutex;
use cairn_read::{BlobSource, ViewEnd};
use cairn_version::{BlobFileMeta, TreeEdit, Version};

use super::family::FamilyState;
use super::obsolete_files::{ObsoleteFiles, PurgeHint, Unread};
use super::scan::remove;
use super::sst_file_manager::Space;
use crate::context::DbContext;
use crate::telemetry::Telemetry;

/// The obsolete files of a database and their deletion.
pub(crate) struct Deletions {
    context: Arc<DbContext>,
    telemetry: Arc<Telemetry>,
    space: Arc<Space>,
    /// Obsolete files that are still read, or whose deletion is held back.
    obsolete: Mutex<ObsoleteFiles>,
    hint: PurgeHint,
}

/// Keeps files from deletion while it lives.
pub(crate) struct Pin<'a>(&'a Deletions);

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        let held = self.0.obsolete.lock().unpin();
        self.0.delete_held(held);
    }
}

impl Deletions {
    /// No obsolete files. `space` counts those that are deleted.
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
            hint: PurgeHint::default(),
        }
    }

    /// Keeps all files that are live now, or become obsolete meanwhile, until the result is dropped. The next purge
    /// deletes those that are obsolete then.
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.obsolete.lock().pin();
        Pin(self)
    }

    /// True while a copy is under way, whose files are kept.
    pub(crate) fn are_pinned(&self) -> bool {
        self.obsolete.lock().are_pinned()
    }

    /// Disables deletions until [`Deletions::enable`] has been called as often.
    pub(crate) fn disable(&self) {
        self.obsolete.lock().disable();
    }

    /// Reverts one [`Deletions::disable`]. With the last of them, the files that waited are deleted.
    pub(crate) fn enable(&self) {
        let held = self.obsolete.lock().enable();
        self.delete_held(held);
    }

    /// True if files may be deleted now.
    pub(crate) fn are_enabled(&self) -> bool {
        !self.obsolete.lock().are_disabled()
    }

    /// Files that wait for deletions to be enabled are kept from now on: the directory may belong to another process.
    pub(crate) fn give_up_directory(&self) {
        self.obsolete.lock().give_up();
    }

    fn delete_held(&self, held: Option<Vec<PathBuf>>) {
        held.iter().flatten().for_each(|path| self.delete(path));
    }

    /// Total size of the obsolete tables, in bytes.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.obsolete.lock().table_bytes()
    }

    /// Obsolete blob files of `source` that have readers.
    pub(crate) fn blobs_of(&self, source: &Arc<BlobSource>) -> Vec<Arc<BlobFileMeta>> {
        self.obsolete.lock().blobs_of(source)
    }

    /// True if a reader that has left may have been the last of an obsolete file. Costs two loads.
    pub(crate) fn may_have_unread(&self) -> bool {
        self.hint.may_have_unread()
    }

    /// The mark that views leave at their end.
    pub(super) fn view_end(&self) -> ViewEnd {
        self.hint.view_end()
    }

    /// Takes over the files of `family` that `next`, the version after `base`, has no more: all of them without a `next` one,
    /// for a dropped family.
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

    /// Takes the obsolete files without a reader; `None` if deletions are disabled.
    pub(super) fn take_unread(&self) -> Option<Unread> {
        let mut obsolete = self.obsolete.lock();
        if obsolete.are_disabled() {
            return None;
        }
        // Before the files are looked at: a view that ends meanwhile is noted for the next time.
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
        for (source, number) in unread.blobs {
            source.forget(number);
            self.delete(&source.path(number));
        }
    }

    /// Closes the obsolete tables without deleting them: the next opening does.
    pub(super) fn forget(&self) {
        self.obsolete.lock().forget();
    }

    /// Deletes the tables and blob files that a job wrote for a family that is not there any more. Those that it
    /// only moved belong to versions that may still be read.
    pub(crate) fn delete_outputs(&self, family: &FamilyState, edit: &TreeEdit) {
        let is_moved = |number| edit.deleted.iter().any(|(_, moved)| *moved == number);
        for (_, file) in &edit.added {
            if !is_moved(file.number) {
                let version = family.view().version.clone();
                assert!(
                    version.files().all(|(_, live)| live.number != file.number),
                    "table {}, which is deleted, is in no version",
                    file.number
                );
                self.delete(&family.tables().path(file));
            }
        }
        for blob in &edit.added_blobs {
            self.delete(&family.view().family.blobs.path(blob.number));
        }
    }

    /// Deletes a file, or keeps it until deletions are enabled again. A failure is reported and left
    /// to the next opening: the file is dead weight, not damage. The caller does not hold the lock
    /// of the tree.
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
