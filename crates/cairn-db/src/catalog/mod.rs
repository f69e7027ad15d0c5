//! The catalog: the families of a database, their views, and the files behind them.
//!
//! ```text
//! edit -> [checked against the version] -> MANIFEST, synced -> [memtables and logs] -> next view -> obsolete files
//! ```
//!
//! The catalog owns the families with their published views, and the MANIFEST. Everything else is in its
//! parts, which depend neither on the catalog nor on each other's users. Memtables and logs are behind
//! [`CatalogEnv`](env::CatalogEnv), so that tests run the catalog over a simulated disk, without a write path
//! and without jobs.
//!
//! - A reader takes the view of a family ([`family::FamilyState::view`]): one load of an atomic pointer.
//! - A flush or compaction calls [`Catalog::install`] with one change of each family. An operation that has
//!   to choose levels or copy files while no version changes first acquires an [`install::Editor`].
//! - A copy of files holds the result of [`Deletions::pin`].
//! - [`Catalog::purge`] deletes obsolete files without readers.
//!
//! Invariants:
//!
//! K1. A version is published only after it is durable in the MANIFEST.
//! K2. The changes of a group are published under one lock, and become durable atomically.
//! K3. A file in a view is not deleted; neither is a pinned file that was live when it was pinned.
//! K4. Each file number is allocated once, and the numbers in the MANIFEST are below its next file number.
//! K5. After a failure of the MANIFEST no edit is appended to it: the next one is written to a new MANIFEST.
//!
//! Edits are serialized by the lock of the MANIFEST.

pub(crate) mod create;
pub(crate) mod deletions;
pub(crate) mod env;
pub(crate) mod family;
pub(crate) mod file_numbers;
pub(crate) mod follow;
pub(crate) mod install;
pub(crate) mod invariants;
pub(crate) mod live_files;
mod manifest;
mod obsolete_files;
pub(crate) mod options_file;
pub(crate) mod release;
mod reuse_manifest;
pub(crate) mod scan;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod sst_file_manager;
mod staged_files;
#[cfg(test)]
#[cfg(not(loom))]
pub(crate) mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use arc_swap::Guard;
use cairn_options::{DbOptions, DefaultCache};
use cairn_types::{FileNumber, SequenceNumber};
use cairn_version::manifest::Manifest;

use crate::context::DbContext;
use crate::locks::{Rank, Ranked};
use crate::memory::budget::Budget;
use crate::options::settings::Settings;
use crate::telemetry::Telemetry;
use deletions::Deletions;
use family::{Families, FamilyState, FamilyTable};
use file_numbers::FileNumbers;
use obsolete_files::Unread;
use options_file::OptionsFiles;
use snapshot::{Snapshot, Snapshots};
use sources::Sources;
use sst_file_manager::Space;
use staged_files::StagedFiles;

/// The families of a database and their files.
pub(crate) struct Catalog {
    context: Arc<DbContext>,
    telemetry: Arc<Telemetry>,
    settings: Arc<Settings>,
    families: FamilyTable,
    manifest: Ranked<Option<Manifest>>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) numbers: FileNumbers,
    pub(crate) deletions: Deletions,
    pub(crate) sources: Sources,
    pub(crate) options_files: OptionsFiles,
    pub(crate) space: Arc<Space>,
    pub(crate) staged: StagedFiles,
}

impl Catalog {
    /// Creates a catalog without families, whose files get numbers from `next_file` on.
    pub(crate) fn new(
        context: Arc<DbContext>,
        telemetry: Arc<Telemetry>,
        settings: Arc<Settings>,
        budget: Option<Arc<Budget>>,
        default_cache: Option<DefaultCache>,
        next_file: FileNumber,
    ) -> Catalog {
        let locks = context.locks;
        let space = Arc::new(Space::new(&settings.get(), context.read_only));
        let deletions = Deletions::new(context.clone(), telemetry.clone(), space.clone());
        let sources = Sources::new(
            context.clone(),
            telemetry.clone(),
            settings.clone(),
            budget,
            default_cache,
            deletions.view_end(),
        );
        Catalog {
            families: FamilyTable::default(),
            manifest: locks.mutex(Rank::Manifest, None),
            snapshots: Arc::new(Snapshots::new(locks, context.number)),
            numbers: FileNumbers::new(next_file),
            deletions,
            sources,
            options_files: OptionsFiles::new(context.clone(), settings.clone()),
            space,
            staged: StagedFiles::default(),
            context,
            telemetry,
            settings,
        }
    }

    /// Returns the current options.
    fn options(&self) -> Guard<Arc<DbOptions>> {
        self.settings.get()
    }

    /// Returns the live families without counting a reference.
    #[inline]
    pub(crate) fn families(&self) -> Guard<Arc<Families>> {
        self.families.load()
    }

    /// Returns the family with number 0; `None` before the families are set.
    #[inline]
    pub(crate) fn default_family(&self) -> Option<&Arc<FamilyState>> {
        self.families.default_family()
    }

    /// Creates a snapshot at the sequence number returned by `visible`, which is called under a lock; see
    /// [`Snapshots::take`].
    pub(crate) fn snapshot(
        &self,
        visible: impl FnOnce() -> SequenceNumber,
        may_wait: impl FnOnce() -> bool,
    ) -> Snapshot {
        let snapshot = self.snapshots.take(visible, may_wait);
        let now = self.context.world.clock.wall_seconds();
        self.snapshots.note_time(snapshot.sequence(), now);
        snapshot
    }

    /// Deletes obsolete tables and blob files without readers, unless deletions are disabled. The caller does
    /// not hold the lock of the tree.
    pub(crate) fn purge(&self) {
        let Some(mut unread) = self.deletions.take_unread() else {
            return;
        };
        match self.context.follows {
            Some(_) => {
                // After a restore, the leader may have written another file with the same number, which now has the path.
                let live = self.live_among(&unread);
                unread
                    .tables
                    .retain(|(_, file)| !live.contains(&file.number));
                unread.blobs.retain(|(_, number)| !live.contains(number));
            }
            None => debug_assert!(
                self.live_among(&unread).is_empty(),
                "a file that is deleted is in no current version"
            ),
        }
        self.deletions.delete_unread(unread);
    }

    /// Returns the numbers of those files that a current version also has.
    fn live_among(&self, unread: &Unread) -> BTreeSet<FileNumber> {
        let tables = unread.tables.iter().map(|(_, file)| file.number);
        let blobs = unread.blobs.iter().map(|(_, number)| *number);
        let gone: BTreeSet<FileNumber> = tables.chain(blobs).collect();
        let mut live = BTreeSet::new();
        if gone.is_empty() {
            return live;
        }
        for family in self.families.load().iter() {
            let version = &family.view().version;
            let files = version.files().map(|(_, file)| file.number);
            let numbers = files.chain(version.blob_files().keys().copied());
            live.extend(numbers.filter(|number| gone.contains(number)));
        }
        live
    }
}
