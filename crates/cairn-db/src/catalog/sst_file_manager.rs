//! The space used by tables and blob files, as accounted by the `SstFileManager`, and its limit.
//!
//! A file counts from its installation to its deletion; trash counts until it is deleted. When a flush or
//! compaction ends with the limit reached, the database has the background error `SpaceLimit`, from which it
//! recovers when there is space again. A compaction that might exceed the limit is not started, but picked
//! again after a delay; moves and drops, which write nothing, are started.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use cairn_format::names::FileName;
use cairn_jobs::pick::Pick;
use cairn_options::DbOptions;
use cairn_platform::World;
use cairn_platform::sst_file_manager::{Reservation, TRASH_SUFFIX, TrackedFiles};
use cairn_platform::sync::{AtomicBool, Ordering};
use cairn_types::{Code, Error, FileNumber, Result, Subcode};
use cairn_version::Version;

use crate::catalog::family::FamilyState;

/// The files of a database in its `SstFileManager`. Without one every call costs a branch.
pub(crate) struct Space {
    files: Option<TrackedFiles>,
    /// True if a compaction found no space and will be picked again.
    compaction_waits: AtomicBool,
}

/// The file that was renamed to `name` because its deletion was pending when its database was closed. A number may be
/// between the file's own name and the suffix: RocksDB adds one if the name is in use.
pub(crate) fn trash_of(name: &str) -> Option<FileName> {
    let name = name.strip_suffix(TRASH_SUFFIX)?;
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit());
    FileName::parse(plain).filter(|file| {
        matches!(
            file,
            FileName::Table(_) | FileName::LegacyTable(_) | FileName::Blob(_) | FileName::Wal(_)
        )
    })
}

impl Space {
    /// Creates the accounting of a database with `options`; a read-only database has none.
    pub(crate) fn new(options: &DbOptions, read_only: bool) -> Space {
        let manager = options.sst_file_manager.clone();
        Space {
            files: manager.filter(|_| !read_only).map(TrackedFiles::new),
            compaction_waits: AtomicBool::new(false),
        }
    }

    /// Counts the files of `next`, a version of `family`, that are not in `base`.
    pub(crate) fn track(&self, family: &FamilyState, base: Option<&Version>, next: &Version) {
        let Some(files) = &self.files else { return };
        let known: HashSet<FileNumber> = base.map_or_else(HashSet::new, |base| {
            base.files().map(|(_, file)| file.number).collect()
        });
        for (_, file) in next.files().filter(|(_, f)| !known.contains(&f.number)) {
            files.add(family.tables().path(file), file.size);
        }
        let blobs = &family.view().family.blobs;
        for (number, file) in next.blob_files() {
            if base.is_none_or(|base| !base.blob_files().contains_key(number)) {
                files.add(blobs.path(*number), file.file_size());
            }
        }
    }

    /// Uncounts the deleted file `path`.
    pub(super) fn untrack(&self, path: &Path) {
        if let Some(files) = &self.files {
            files.deleted(path);
        }
    }

    /// Uncounts all files of the database.
    pub(crate) fn untrack_all(&self) {
        if let Some(files) = &self.files {
            files.forget();
        }
    }

    /// Passes the deletion of `path` to the manager, which calls `deleted` afterwards. Returns false if it
    /// does not accept it.
    pub(super) fn discard(
        &self,
        world: &World,
        path: &Path,
        deleted: impl FnOnce() + Send + 'static,
    ) -> bool {
        let files = self.files.as_ref();
        files.is_some_and(|files| files.discard(world, path, deleted))
    }

    /// # Errors
    ///
    /// `SpaceLimit` if the files have reached the limit.
    pub(crate) fn check_limit(&self) -> Result<()> {
        match &self.files {
            Some(files) if files.manager().is_max_allowed_space_reached() => Err(limit_reached()),
            _ => Ok(()),
        }
    }

    /// Reserves space for the output of the compaction `pick`.
    ///
    /// # Errors
    ///
    /// `CompactionTooLarge` if there is none.
    pub(crate) fn reserve(&self, pick: &Pick) -> Result<Option<Arc<Reservation>>> {
        let Some(files) = &self.files else {
            return Ok(None);
        };
        if pick.trivial_move || pick.drops {
            return Ok(None);
        }
        let bytes = pick.most_input_bytes();
        match files.reserve(bytes) {
            Some(room) => Ok(Some(Arc::new(room))),
            None => Err(Error::new(
                Code::CompactionTooLarge,
                Subcode::None,
                format!(
                    "a compaction of {bytes} bytes might pass the space that the \
                     sst_file_manager allows"
                ),
            )),
        }
    }

    /// Records that a compaction found no space. Returns true if the caller should schedule another check: no
    /// other one is scheduled.
    pub(crate) fn begin_wait(&self) -> bool {
        self.files.is_some() && !self.compaction_waits.swap(true, Ordering::AcqRel)
    }

    /// Records that the wait has ended.
    pub(crate) fn end_wait(&self) {
        let waited = self.compaction_waits.swap(false, Ordering::Release);
        debug_assert!(waited, "a wait for space that ends has begun");
    }
}

fn limit_reached() -> Error {
    Error::new(
        Code::IoError,
        Subcode::SpaceLimit,
        "Max allowed space was reached",
    )
}
