//! The room that tables and blob files take: telling the `SstFileManager`, and keeping its limit.
//!
//! A file counts from its installation to its deletion; trash counts until it is gone. When a
//! flush or compaction ends with the limit reached, the database is in the background error
//! `SpaceLimit`, which it leaves when there is room again. A compaction that might pass the limit
//! is not started, but looked for again after a while; moves and drops, which write nothing, are.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cairn_format::names::FileName;
use cairn_jobs::pick::Pick;
use cairn_observe::BackgroundErrorReason;
use cairn_observe::statistics::Ticker;
use cairn_options::DbOptions;
use cairn_platform::Priority;
use cairn_platform::space::{Reservation, TRASH_SUFFIX, TrackedFiles};
use cairn_platform::sync::{AtomicBool, Ordering};
use cairn_types::{Code, Error, FileNumber, Result, Subcode};
use cairn_version::Version;

use crate::family::FamilyState;
use crate::shared::Shared;

/// The part of a database in a `SstFileManager`.
pub(crate) struct Space {
    files: TrackedFiles,
    /// A compaction found no room, and will be looked for again.
    waits: AtomicBool,
}

/// What a database with `options` tells its manager; nothing if it only reads.
pub(crate) fn of(options: &DbOptions, read_only: bool) -> Option<Space> {
    let manager = options.sst_file_manager.clone();
    let manager = manager.filter(|_| !read_only)?;
    Some(Space {
        files: TrackedFiles::new(manager),
        waits: AtomicBool::new(false),
    })
}

/// Whether `name` is that of a file that waited for its deletion when its database was closed. A
/// number may stand between the file's own name and the suffix: RocksDB puts one there if the name
/// is taken.
pub(crate) fn is_trash(name: &str) -> bool {
    let Some(name) = name.strip_suffix(TRASH_SUFFIX) else {
        return false;
    };
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(
        FileName::parse(plain),
        Some(FileName::Table(_) | FileName::LegacyTable(_) | FileName::Blob(_) | FileName::Wal(_))
    )
}

fn limit_reached() -> Error {
    Error::new(
        Code::IoError,
        Subcode::SpaceLimit,
        "Max allowed space was reached",
    )
}

impl Shared {
    /// Tells the manager of all files, when the database has been opened.
    pub(crate) fn track_all(&self) {
        for family in self.families.load().iter() {
            let version = family.view().version.clone();
            self.track(family, None, &version);
        }
    }

    /// Tells the manager of the files of `next` that `base` has not.
    pub(crate) fn track(&self, family: &FamilyState, base: Option<&Version>, next: &Version) {
        let Some(space) = &self.space else { return };
        let known: HashSet<FileNumber> = base.map_or_else(HashSet::new, |base| {
            base.files().map(|(_, file)| file.number).collect()
        });
        for (_, file) in next.files().filter(|(_, f)| !known.contains(&f.number)) {
            space.files.add(family.tables().path(file), file.size);
        }
        let blobs = &family.view().family.blobs;
        for (number, file) in next.blob_files() {
            if base.is_none_or(|base| !base.blob_files().contains_key(number)) {
                space.files.add(blobs.path(*number), file.file_size());
            }
        }
    }

    /// Tells the manager that `path` was deleted.
    pub(crate) fn untrack(&self, path: &Path) {
        if let Some(space) = &self.space {
            space.files.deleted(path);
        }
    }

    /// Tells the manager that the database is closed.
    pub(crate) fn untrack_all(&self) {
        if let Some(space) = &self.space {
            space.files.forget();
        }
    }

    /// Leaves the deletion of `path` to the manager, if it takes it.
    pub(crate) fn discard(&self, path: &Path) -> bool {
        let meter = self.telemetry.meter();
        let deleted = move || meter.add(Ticker::FilesDeletedFromTrashQueue, 1);
        let space = self.space.as_ref();
        let is_trash =
            space.is_some_and(|space| space.files.discard(&self.context.world, path, deleted));
        self.telemetry
            .tick(Ticker::FilesMarkedTrash, u64::from(is_trash));
        is_trash
    }

    /// Whether writes have to stop for the sake of the limit.
    pub(crate) fn check_space(&self) -> Result<()> {
        match &self.space {
            Some(space)
                if self.options().paranoid_checks
                    && space.files.manager().is_max_allowed_space_reached() =>
            {
                Err(limit_reached())
            }
            _ => Ok(()),
        }
    }

    /// Looks at the limit after a job that made files, and stops writes if it is reached. The
    /// caller holds no lock.
    pub(crate) fn note_space(&self, reason: BackgroundErrorReason) {
        if let Some(space) = &self.space
            && space.files.manager().is_max_allowed_space_reached()
        {
            self.background_error(reason, &limit_reached());
        }
    }

    /// Sets room aside for the compaction `pick`.
    ///
    /// # Errors
    ///
    /// `CompactionTooLarge` if there is none.
    pub(crate) fn room_for(&self, pick: &Pick) -> Result<Option<Arc<Reservation>>> {
        let Some(space) = &self.space else {
            return Ok(None);
        };
        if pick.trivial_move || pick.drops {
            return Ok(None);
        }
        let bytes = pick.most_input_bytes();
        match space.files.reserve(bytes) {
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

    /// Looks for compactions again after a while: one found no room.
    pub(crate) fn await_room(self: &Arc<Self>) {
        let Some(space) = &self.space else { return };
        if space.waits.swap(true, Ordering::AcqRel) {
            return;
        }
        let interval = Duration::from_micros(self.options().bgerror_resume_retry_interval.max(1));
        // Weak: what waits keeps no closed database in memory.
        let weak = Arc::downgrade(self);
        let job = Box::new(move || {
            if let Some(shared) = weak.upgrade() {
                if let Some(space) = &shared.space {
                    space.waits.store(false, Ordering::Release);
                }
                shared.schedule(&mut shared.tree.lock());
            }
        });
        self.context
            .world
            .executor
            .spawn_after(interval, Priority::Low, job);
    }
}
