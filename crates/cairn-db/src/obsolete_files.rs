//! Files that have left their version and wait for their last reader, or until deletions are enabled again.
//!
//! Invariants:
//!
//! - A table is handed out for deletion once, and only when the reference in this set is the last one.
//! - A blob file is handed out once no version that has it is alive: each version has a count of its own of the garbage in it.
//! - While deletions are disabled nothing is handed out, and paths that would be deleted are kept.
//!
//! The set is a part of what the lock of the tree guards. Nothing here touches a file. Cost of handing out: one look at each file that
//! waits, and at each version that was replaced and still has readers.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use cairn_read::{BlobSource, View};
use cairn_types::FileNumber;
use cairn_version::{BlobFileMeta, FileMeta, TableSource, Version};

/// Files that wait for their deletion.
#[derive(Default)]
pub(crate) struct ObsoleteFiles {
    tables: Vec<(Arc<TableSource>, Arc<FileMeta>)>,
    blobs: Vec<(Arc<BlobSource>, FileNumber)>,
    /// Replaced versions with blob files that may have readers.
    old_versions: Vec<Weak<Version>>,
    /// The number of times that deletions were disabled and not enabled again.
    disabled: usize,
    /// Paths to delete when deletions are enabled again.
    held: Vec<PathBuf>,
}

/// Files without a reader.
pub(crate) struct Unread {
    pub(crate) tables: Vec<(Arc<TableSource>, Arc<FileMeta>)>,
    pub(crate) blobs: Vec<(Arc<BlobSource>, FileNumber)>,
}

impl ObsoleteFiles {
    /// Adds the files of `base` that `next`, the version after it, has no more. `tables` opens the former, `blobs` the blob files.
    pub(crate) fn add_replaced(
        &mut self,
        tables: &Arc<TableSource>,
        blobs: &Arc<BlobSource>,
        base: &Arc<Version>,
        next: &Version,
    ) {
        if !base.blob_files().is_empty() {
            self.old_versions.push(Arc::downgrade(base));
        }
        let gone = base.blob_files().keys();
        let gone = gone.filter(|number| !next.blob_files().contains_key(number));
        self.blobs
            .extend(gone.map(|number| (blobs.clone(), *number)));
        let kept: std::collections::HashSet<FileNumber> =
            next.files().map(|(_, file)| file.number).collect();
        let gone = base.files();
        let gone = gone.filter(|(_, file)| !kept.contains(&file.number));
        self.tables
            .extend(gone.map(|(_, file)| (tables.clone(), file.clone())));
    }

    /// Adds all files of `view`, whose family was dropped.
    pub(crate) fn add_dropped(&mut self, tables: &Arc<TableSource>, view: &View) {
        let files = view.version.files();
        self.tables
            .extend(files.map(|(_, file)| (tables.clone(), file.clone())));
        let blobs = view.version.blob_files().keys();
        self.blobs
            .extend(blobs.map(|number| (view.family.blobs.clone(), *number)));
        self.old_versions.push(Arc::downgrade(&view.version));
    }

    /// Takes the files that nobody reads any more; none while deletions are disabled.
    pub(crate) fn take_unread(&mut self) -> Unread {
        assert_eq!(self.disabled, 0, "deletions are enabled");
        // Nobody can gain a reference to a file whose only one is in this list.
        let is_unread = |file: &Arc<FileMeta>| Arc::strong_count(file) == 1;
        let tables = self.tables.extract_if(.., |(_, file)| is_unread(file));
        let tables = tables.collect();
        self.old_versions
            .retain(|version| version.strong_count() > 0);
        let readers = self.readers();
        let is_read = |number: &FileNumber| {
            let mut readers = readers.iter();
            readers.any(|old| old.blob_files().contains_key(number))
        };
        let blobs = self.blobs.extract_if(.., |(_, number)| !is_read(number));
        Unread {
            tables,
            blobs: blobs.collect(),
        }
    }

    /// Replaced versions that have readers.
    fn readers(&self) -> Vec<Arc<Version>> {
        let old = self.old_versions.iter();
        old.filter_map(Weak::upgrade).collect()
    }

    /// True if no file waits for its last reader.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.blobs.is_empty()
    }

    /// The bytes of the tables that wait.
    pub(crate) fn table_bytes(&self) -> u64 {
        self.tables.iter().map(|(_, file)| file.size).sum()
    }

    /// The blob files of `source` that wait and have readers.
    pub(crate) fn blobs_of(&self, source: &Arc<BlobSource>) -> Vec<Arc<BlobFileMeta>> {
        let readers = self.readers();
        let own = self.blobs.iter();
        let own = own.filter(|(of, _)| Arc::ptr_eq(of, source));
        own.filter_map(|(_, number)| {
            let versions = readers.iter();
            versions
                .filter_map(|old| old.blob_files().get(number))
                .next()
                .cloned()
        })
        .collect()
    }

    /// Disables deletions, until [`ObsoleteFiles::enable`] was called as often.
    pub(crate) fn disable(&mut self) {
        self.disabled += 1;
    }

    /// Takes one disabling back. With the last of them, returns what was to be deleted meanwhile.
    pub(crate) fn enable(&mut self) -> Option<Vec<PathBuf>> {
        self.disabled = self.disabled.saturating_sub(1);
        (!self.are_disabled()).then(|| std::mem::take(&mut self.held))
    }

    /// True while nothing may be deleted.
    pub(crate) fn are_disabled(&self) -> bool {
        self.disabled > 0
    }

    /// Keeps `path` from deletion if deletions are disabled. True if it does.
    pub(crate) fn hold(&mut self, path: &Path) -> bool {
        if self.are_disabled() {
            self.held.push(path.to_owned());
        }
        self.are_disabled()
    }

    /// Lets go of the files that wait, which the next opening deletes.
    pub(crate) fn forget(&mut self) {
        self.tables = Vec::new();
        self.blobs = Vec::new();
        self.old_versions = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_deleted_waits_for_the_last_enabling() {
        let mut files = ObsoleteFiles::default();
        assert!(!files.hold(Path::new("/1")));
        files.disable();
        files.disable();
        assert!(files.hold(Path::new("/2")));
        assert_eq!(files.enable(), None);
        assert!(files.hold(Path::new("/3")) && files.are_disabled());
        let held = files.enable().unwrap();
        assert_eq!(held, [PathBuf::from("/2"), PathBuf::from("/3")]);
        assert_eq!(files.enable(), Some(Vec::new()), "once more does no harm");
        assert!(files.take_unread().tables.is_empty() && files.is_empty());
    }

    #[test]
    #[should_panic(expected = "deletions are enabled")]
    fn nothing_is_handed_out_while_deletions_are_disabled() {
        let mut files = ObsoleteFiles::default();
        files.disable();
        files.take_unread();
    }
}
