//! Obsolete tables and blob files: files that are in no current version and are deleted when they have no
//! readers.
//!
//! Invariants:
//!
//! - A table is returned for deletion once, when this set has the last reference to it.
//! - A blob file is returned for deletion once, when no live version has it. References are not counted,
//!   because each version has its own metadata of a blob file, with its own garbage counts.
//! - A blob file that a memtable may refer to is not returned for deletion.
//! - While deletions are disabled no file is returned, and paths passed to [`ObsoleteFiles::hold`] are kept.
//! - Once the directory is released no held path is returned.
//!
//! No method touches a file. [`ObsoleteFiles::take_unread`] costs time proportional to the
//! number of obsolete files times that of replaced versions with readers.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use cairn_memtable::Memtable;
use cairn_platform::sync::{AtomicBool, Ordering};
use cairn_read::{BlobSource, ViewEnd};
use cairn_types::FileNumber;
use cairn_version::{BlobFileMeta, FileMeta, TableSource, Version};

use crate::write::direct_blobs::{DirectFile, Retired};

/// Obsolete files of an open database.
#[derive(Default)]
pub(crate) struct ObsoleteFiles {
    tables: Vec<(Arc<TableSource>, Arc<FileMeta>)>,
    blobs: Vec<(Arc<BlobSource>, FileNumber)>,
    /// Blob files that memtables may refer to, in a version or not: see [`crate::write::direct_blobs`].
    direct: Vec<(Arc<BlobSource>, Arc<DirectFile>)>,
    /// Replaced versions that have blob files.
    old_versions: Vec<Weak<Version>>,
    /// Number of calls of `disable` without a matching `enable`.
    disabled: usize,
    /// Copies in progress, whose files are kept.
    pins: usize,
    /// Paths to delete when deletions are enabled again. A set, because a path may be deleted repeatedly: every change of
    /// options deletes all old OPTIONS files.
    held: BTreeSet<PathBuf>,
    /// True if the directory may belong to another process.
    gave_up: bool,
}

/// A hint of obsolete files without readers: two loads and no lock for a reader that ends.
#[derive(Default)]
pub(crate) struct PurgeHint {
    /// True if there are obsolete files.
    has_obsolete: AtomicBool,
    /// True if a view has ended since the last check. Only the last reader of a view keeps files from
    /// deletion.
    view_end: ViewEnd,
}

impl PurgeHint {
    /// The flag that views set when they end.
    pub(crate) fn view_end(&self) -> ViewEnd {
        self.view_end.clone()
    }

    /// Records that files have become obsolete.
    pub(crate) fn note_obsolete(&self) {
        self.set_obsolete(true);
    }

    /// Records whether there are obsolete files.
    pub(crate) fn set_obsolete(&self, any: bool) {
        self.has_obsolete.store(any, Ordering::Release);
    }

    /// Called before obsolete files are checked: a view that ends meanwhile is recorded for the next check.
    pub(crate) fn begin_scan(&self) {
        let _ended = self.view_end.take();
    }

    /// True if a reader that has ended may have been the last of an obsolete file.
    pub(crate) fn may_have_unread(&self) -> bool {
        self.has_obsolete.load(Ordering::Acquire) && self.view_end.is_noted()
    }
}

/// Obsolete files without readers.
pub(crate) struct Unread {
    pub(crate) tables: Vec<(Arc<TableSource>, Arc<FileMeta>)>,
    pub(crate) blobs: Vec<(Arc<BlobSource>, FileNumber)>,
    /// Blob files that no memtable refers to any more, whether or not they are obsolete.
    pub(crate) direct: Vec<Arc<DirectFile>>,
}

impl ObsoleteFiles {
    /// Adds the files of `old` that are not in its successor `new`: all of them without `new`, for a dropped
    /// family. `tables` and `blobs` are the sources of the family's files.
    pub(crate) fn add(
        &mut self,
        tables: &Arc<TableSource>,
        blobs: &Arc<BlobSource>,
        old: &Arc<Version>,
        new: Option<&Version>,
    ) {
        if !old.blob_files().is_empty() {
            self.old_versions.push(Arc::downgrade(old));
        }
        let has_blob = |number| new.is_some_and(|new| new.blob_files().contains_key(number));
        let gone = old.blob_files().keys().filter(|number| !has_blob(number));
        debug_assert!(
            gone.clone().all(|number| {
                let is_it = |(of, one): &(Arc<BlobSource>, FileNumber)| {
                    Arc::ptr_eq(of, blobs) && one == number
                };
                !self.blobs.iter().any(is_it)
            }),
            "a blob file becomes obsolete once"
        );
        self.blobs
            .extend(gone.map(|number| (blobs.clone(), *number)));
        let kept = new.into_iter().flat_map(Version::files);
        let kept: HashSet<FileNumber> = kept.map(|(_, file)| file.number).collect();
        let gone = old.files().map(|(_, file)| file);
        let gone = gone.filter(|file| !kept.contains(&file.number));
        let gone = gone.inspect(|file| {
            debug_assert!(
                !self.tables.iter().any(|(_, one)| Arc::ptr_eq(one, file)),
                "table {} becomes obsolete once",
                file.number
            );
        });
        let gone: Vec<_> = gone.collect();
        let gone = gone.into_iter();
        self.tables
            .extend(gone.map(|file| (tables.clone(), file.clone())));
    }

    /// Adds blob files of `blobs` whose memtables are flushed or dropped. Those that no version needs are obsolete.
    pub(crate) fn add_direct(&mut self, blobs: &Arc<BlobSource>, retired: Retired) {
        let unneeded = retired.unneeded.iter();
        self.blobs
            .extend(unneeded.map(|file| (blobs.clone(), file.number())));
        let files = retired.added.into_iter().chain(retired.unneeded);
        self.direct.extend(files.map(|file| (blobs.clone(), file)));
    }

    /// The numbers of such files that memtables may refer to.
    pub(crate) fn direct_numbers(&self) -> Vec<FileNumber> {
        self.direct.iter().map(|(_, file)| file.number()).collect()
    }

    /// Records the memtables that may refer to such files of `blobs`: `memtables`, all that can be read now.
    pub(crate) fn settle_direct(&self, blobs: &Arc<BlobSource>, memtables: &[Arc<Memtable>]) {
        let own = self.direct.iter().filter(|(of, _)| Arc::ptr_eq(of, blobs));
        own.for_each(|(_, file)| file.settle(memtables.iter()));
    }

    /// Takes the files without readers.
    ///
    /// # Panics
    ///
    /// If deletions are disabled.
    pub(crate) fn take_unread(&mut self) -> Unread {
        assert!(!self.are_disabled(), "deletions are enabled");
        let tables = self.tables.extract_if(.., |(_, file)| is_unread(file));
        let tables = tables.collect();
        self.old_versions
            .retain(|version| version.strong_count() > 0);
        let readers = self.readers();
        let is_read = |number: &FileNumber| {
            let mut readers = readers.iter();
            readers.any(|old| old.blob_files().contains_key(number))
        };
        let direct = self.direct.extract_if(.., |(_, file)| !file.is_pinned());
        let direct = direct.map(|(_, file)| file).collect();
        let pinned = &self.direct;
        let is_pinned = |source: &Arc<BlobSource>, number: FileNumber| {
            let mut pinned = pinned.iter();
            pinned.any(|(of, file)| Arc::ptr_eq(of, source) && file.number() == number)
        };
        let blobs = self.blobs.extract_if(.., |(source, number)| {
            !is_read(number) && !is_pinned(source, *number)
        });
        Unread {
            tables,
            blobs: blobs.collect(),
            direct,
        }
    }

    /// Replaced versions that are still referenced.
    fn readers(&self) -> Vec<Arc<Version>> {
        let old = self.old_versions.iter();
        old.filter_map(Weak::upgrade).collect()
    }

    /// True if the set has no files.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.blobs.is_empty() && self.direct.is_empty()
    }

    /// Total size of the obsolete tables without readers, in bytes.
    pub(crate) fn table_bytes(&self) -> u64 {
        let unread = self.tables.iter().filter(|(_, file)| is_unread(file));
        let sizes = unread.map(|(_, file)| file.size);
        sizes.fold(0, u64::saturating_add)
    }

    /// Obsolete blob files of `source` that have readers.
    pub(crate) fn blobs_of(&self, source: &Arc<BlobSource>) -> Vec<Arc<BlobFileMeta>> {
        let readers = self.readers();
        let own = self.blobs.iter();
        let own = own.filter(|(of, _)| Arc::ptr_eq(of, source));
        own.filter_map(|(_, number)| {
            let mut versions = readers.iter();
            versions
                .find_map(|old| old.blob_files().get(number))
                .cloned()
        })
        .collect()
    }

    /// Disables deletions until [`ObsoleteFiles::enable`] has been called as often.
    pub(crate) fn disable(&mut self) {
        self.disabled += 1;
    }

    /// Reverts one [`ObsoleteFiles::disable`]. If none is left, returns the held paths, which the caller deletes.
    pub(crate) fn enable(&mut self) -> Option<Vec<PathBuf>> {
        self.disabled = self.disabled.saturating_sub(1);
        self.take_held()
    }

    /// Keeps all files until [`ObsoleteFiles::unpin`], even if the program enables deletions.
    pub(crate) fn pin(&mut self) {
        self.pins += 1;
    }

    /// Reverts one [`ObsoleteFiles::pin`]; the result is that of [`ObsoleteFiles::enable`].
    pub(crate) fn unpin(&mut self) -> Option<Vec<PathBuf>> {
        assert!(self.pins > 0, "files are unpinned as often as pinned");
        self.pins -= 1;
        self.take_held()
    }

    fn take_held(&mut self) -> Option<Vec<PathBuf>> {
        if self.are_disabled() || self.gave_up {
            return None;
        }
        Some(std::mem::take(&mut self.held).into_iter().collect())
    }

    /// Keeps held paths permanently: the directory may belong to another process.
    pub(crate) fn give_up(&mut self) {
        self.gave_up = true;
    }

    /// True while a copy is in progress, whose files are kept.
    pub(crate) fn are_pinned(&self) -> bool {
        self.pins > 0
    }

    /// True while deletions are disabled.
    pub(crate) fn are_disabled(&self) -> bool {
        self.disabled > 0 || self.pins > 0
    }

    /// Returns true if `path` is not to be deleted now: after the directory was given up, or while deletions are disabled,
    /// which defers its deletion.
    pub(crate) fn keeps(&mut self, path: &Path) -> bool {
        if self.are_disabled() && !self.gave_up && !self.held.contains(path) {
            self.held.insert(path.to_owned());
        }
        self.are_disabled() || self.gave_up
    }

    /// Drops all obsolete files, so that their tables are closed. The next opening deletes them.
    pub(crate) fn forget(&mut self) {
        self.tables = Vec::new();
        self.blobs = Vec::new();
        self.direct = Vec::new();
        self.old_versions = Vec::new();
    }
}

/// True if no version has the obsolete table `file`: references are cloned from versions, and the set has the only one.
fn is_unread(file: &Arc<FileMeta>) -> bool {
    Arc::strong_count(file) == 1
}

#[cfg(test)]
mod tests {
    use cairn_format::key::InternalKey;
    use cairn_platform::fs::FileMode;
    use cairn_platform::mem::MemFileSystem;
    use cairn_types::{KeyOrder, SequenceNumber, ValueKind};
    use cairn_version::TreeEdit;

    use super::*;

    fn sources() -> (Arc<TableSource>, Arc<BlobSource>) {
        let fs = Arc::new(MemFileSystem::new());
        let root = || PathBuf::from("/");
        let tables = TableSource {
            last_level: 6,
            ..TableSource::new(fs.clone(), vec![root()], KeyOrder::Bytewise)
        };
        let blobs = BlobSource::new(fs, root(), FileMode::default(), None);
        (Arc::new(tables), Arc::new(blobs))
    }

    fn table(number: u64) -> Arc<FileMeta> {
        let key = InternalKey::new(b"k", SequenceNumber(number), ValueKind::Value);
        Arc::new(FileMeta::new(FileNumber(number), 100, key.clone(), key))
    }

    fn blob(number: u64) -> Arc<BlobFileMeta> {
        Arc::new(BlobFileMeta::new(FileNumber(number), 1, 10))
    }

    /// Creates a version with tables in level 0, and with blob files.
    fn version(tables: &[&Arc<FileMeta>], blobs: &[u64]) -> Arc<Version> {
        let edit = TreeEdit {
            added: tables.iter().map(|file| (0, Arc::clone(file))).collect(),
            added_blobs: blobs.iter().map(|number| blob(*number)).collect(),
            ..TreeEdit::default()
        };
        let empty = Version::empty(KeyOrder::Bytewise, 7);
        Arc::new(empty.with_edit(&edit).unwrap())
    }

    fn numbers(unread: &Unread) -> (Vec<u64>, Vec<u64>) {
        let tables = unread.tables.iter().map(|(_, file)| file.number.0);
        let blobs = unread.blobs.iter().map(|(_, number)| number.0);
        (tables.collect(), blobs.collect())
    }

    #[test]
    fn files_missing_in_the_next_version_are_obsolete_until_they_have_no_reader() {
        let ((tables, blobs), mut files) = (sources(), ObsoleteFiles::default());
        let (first, second) = (table(1), table(2));
        let (old, new) = (
            version(&[&first, &second], &[7, 8]),
            version(&[&second], &[8]),
        );
        drop((first, second));
        files.add(&tables, &blobs, &old, Some(&new));
        assert_eq!(files.table_bytes(), 0);
        assert_eq!(
            numbers(&files.take_unread()),
            (vec![], vec![]),
            "old has a reader"
        );
        let read: Vec<_> = files
            .blobs_of(&blobs)
            .iter()
            .map(|file| file.number.0)
            .collect();
        assert_eq!(read, [7]);
        drop(old);
        assert_eq!(files.table_bytes(), 100);
        assert_eq!(numbers(&files.take_unread()), (vec![1], vec![7]));
        assert!(files.is_empty() && files.blobs_of(&blobs).is_empty());
        assert_eq!(numbers(&files.take_unread()), (vec![], vec![]), "each once");
    }

    #[test]
    fn a_blob_file_is_kept_as_long_as_any_replaced_version_has_it() {
        let ((tables, blobs), mut files) = (sources(), ObsoleteFiles::default());
        let (oldest, old, new) = (version(&[], &[7]), version(&[], &[7]), version(&[], &[]));
        files.add(&tables, &blobs, &oldest, Some(&old));
        files.add(&tables, &blobs, &old, Some(&new));
        drop(old);
        assert!(files.take_unread().blobs.is_empty(), "oldest has it");
        drop(oldest);
        assert_eq!(numbers(&files.take_unread()), (vec![], vec![7]));
    }

    #[test]
    fn a_dropped_family_leaves_all_of_its_files() {
        let ((tables, blobs), mut files) = (sources(), ObsoleteFiles::default());
        let last = version(&[&table(1), &table(2)], &[7]);
        files.add(&tables, &blobs, &last, None);
        assert!(files.take_unread().tables.is_empty(), "a handle keeps them");
        drop(last);
        let (mut found, blobs) = numbers(&files.take_unread());
        found.sort_unstable();
        assert_eq!((found, blobs), (vec![1, 2], vec![7]));
    }

    #[test]
    fn held_paths_are_returned_by_the_last_enable() {
        let mut files = ObsoleteFiles::default();
        assert!(!files.keeps(Path::new("/1")));
        files.disable();
        files.disable();
        assert!(files.keeps(Path::new("/2")));
        assert_eq!(files.enable(), None);
        assert!(files.keeps(Path::new("/3")) && files.are_disabled());
        let held = files.enable().unwrap();
        assert_eq!(held, [PathBuf::from("/2"), PathBuf::from("/3")]);
        assert_eq!(
            files.enable(),
            Some(Vec::new()),
            "an unmatched call has no effect"
        );
        assert!(files.take_unread().tables.is_empty() && files.is_empty());
    }

    /// Regression: every change of options added all old OPTIONS files again.
    #[test]
    fn a_path_is_held_once() {
        let mut files = ObsoleteFiles::default();
        files.disable();
        assert!(files.keeps(Path::new("/1")) && files.keeps(Path::new("/1")));
        assert_eq!(files.enable(), Some(vec![PathBuf::from("/1")]));
    }

    /// Regression: a surplus call that enabled deletions deleted the files of a checkpoint in progress.
    #[test]
    fn an_unmatched_enable_keeps_the_files_of_a_copy() {
        let mut files = ObsoleteFiles::default();
        files.pin();
        assert_eq!(files.enable(), None);
        assert!(files.are_pinned() && files.keeps(Path::new("/1")));
        files.disable();
        assert_eq!(files.unpin(), None);
        assert!(!files.are_pinned() && files.are_disabled());
        assert_eq!(files.enable(), Some(vec![PathBuf::from("/1")]));
    }

    #[test]
    fn held_paths_are_kept_once_the_directory_is_released() {
        let mut files = ObsoleteFiles::default();
        files.pin();
        assert!(files.keeps(Path::new("/1")));
        files.give_up();
        assert_eq!(files.unpin(), None);
        assert!(files.keeps(Path::new("/2")));
    }

    #[test]
    #[should_panic(expected = "deletions are enabled")]
    fn no_file_is_taken_while_deletions_are_disabled() {
        let mut files = ObsoleteFiles::default();
        files.disable();
        files.take_unread();
    }
}
