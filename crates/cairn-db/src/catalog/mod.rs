//! The catalog: the families of a database, their views, and the files behind them.
//!
//! ```text
//! edit -> [checked against the version] -> MANIFEST, synced -> [memtables and logs] -> next view -> obsolete files
//! ```
//!
//! The catalog owns the families and their published views, the open tables, the snapshots, the MANIFEST, the
//! file numbers, the obsolete files and the OPTIONS files. Memtables and logs are behind
//! [`CatalogEnv`](env::CatalogEnv), so that tests run the catalog over a simulated disk, without a write path
//! and without jobs.
//!
//! - A reader takes the view of a family ([`family::FamilyState::view`]): one load of an atomic pointer.
//! - A flush or compaction calls [`Catalog::install`], or [`Catalog::install_together`] for several families.
//!   An operation that has to choose levels or copy files while no version changes first acquires an
//!   [`install::Editor`].
//! - A copy of files holds the result of [`Catalog::pin_files`].
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
//! Edits are serialized by the lock of the MANIFEST. The lock of the obsolete files is a leaf.

pub(crate) mod create;
pub(crate) mod env;
pub(crate) mod family;
pub(crate) mod file_numbers;
pub(crate) mod install;
pub(crate) mod invariants;
pub(crate) mod live_files;
mod manifest;
pub(crate) mod obsolete_files;
pub(crate) mod options_file;
pub(crate) mod purge;
pub(crate) mod release;
mod reuse_manifest;
pub(crate) mod snapshot;
pub(crate) mod sources;
pub(crate) mod sst_file_manager;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use std::sync::Arc;

use arc_swap::{ArcSwapOption, Guard};
use cairn_memory::{BlockCache, CacheOptions};
use cairn_options::{DbOptions, FamilyOptions};
use cairn_platform::sync::Mutex;
use cairn_types::{FileNumber, SequenceNumber};
use cairn_version::OpenTables;
use cairn_version::manifest::Manifest;

use crate::budget::Budget;
use crate::context::DbContext;
use crate::locks::{Rank, Ranked};
use crate::settings::Settings;
use crate::telemetry::Telemetry;
use family::{Families, FamilyState, FamilyTable};
use file_numbers::FileNumbers;
use obsolete_files::{ObsoleteFiles, PurgeHint};
use snapshot::{Snapshot, Snapshots};
use sst_file_manager::Space;

/// The size of the block cache shared by families without one.
const DEFAULT_CACHE_BYTES: usize = 32 << 20;

/// The families of a database and their files.
pub(crate) struct Catalog {
    context: Arc<DbContext>,
    telemetry: Arc<Telemetry>,
    settings: Arc<Settings>,
    families: FamilyTable,
    /// The open tables of all families.
    open_tables: Arc<OpenTables>,
    /// The cache of families that have none. `None` once the database is released.
    default_cache: ArcSwapOption<BlockCache>,
    /// The memory budget, if there is one.
    budget: Option<Arc<Budget>>,
    snapshots: Arc<Snapshots>,
    manifest: Ranked<Option<Manifest>>,
    file_numbers: FileNumbers,
    /// Obsolete files that still have readers, or whose deletion is disabled. No other lock is acquired while
    /// this one is held.
    obsolete: Mutex<ObsoleteFiles>,
    purge_hint: PurgeHint,
    space: Space,
}

impl Catalog {
    /// Creates a catalog without families, whose files get numbers from `next_file` on.
    pub(crate) fn new(
        context: Arc<DbContext>,
        telemetry: Arc<Telemetry>,
        settings: Arc<Settings>,
        budget: Option<Arc<Budget>>,
        next_file: FileNumber,
    ) -> Catalog {
        let locks = context.locks;
        let options = settings.get();
        let default_cache = match &budget {
            Some(budget) => budget.of.cache().clone(),
            None => Arc::new(BlockCache::new(
                DEFAULT_CACHE_BYTES,
                CacheOptions::default(),
            )),
        };
        Catalog {
            families: FamilyTable::default(),
            open_tables: OpenTables::new(options.open_table_limit()),
            default_cache: ArcSwapOption::from(Some(default_cache)),
            budget,
            snapshots: Arc::new(Snapshots::new(locks)),
            manifest: locks.mutex(Rank::Manifest, None),
            file_numbers: FileNumbers::new(next_file),
            obsolete: Mutex::default(),
            purge_hint: PurgeHint::default(),
            space: Space::new(&options, context.read_only),
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

    /// Returns the live families.
    pub(crate) fn families_full(&self) -> Arc<Families> {
        self.families.load_full()
    }

    /// Returns the family with number 0; `None` before the families are set.
    #[inline]
    pub(crate) fn default_family(&self) -> Option<&Arc<FamilyState>> {
        self.families.default_family()
    }

    /// Creates a snapshot at the sequence number returned by `visible`, which is called under a lock.
    pub(crate) fn snapshot(&self, visible: impl FnOnce() -> SequenceNumber) -> Snapshot {
        let snapshot = self.snapshots.take(visible);
        let now = self.context.world.clock.wall_seconds();
        self.snapshots.note_time(snapshot.sequence(), now);
        snapshot
    }

    /// The live snapshots.
    #[inline]
    pub(crate) fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }

    /// The accounting of space used by files.
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// Allocates a number for a new file.
    pub(crate) fn new_file_number(&self) -> FileNumber {
        self.file_numbers.take()
    }

    /// Returns the number of the next file, unless another thread allocates it first.
    pub(crate) fn next_file_number(&self) -> FileNumber {
        self.file_numbers.next()
    }

    /// Prevents `number` from being allocated.
    pub(crate) fn note_used_number(&self, number: FileNumber) {
        self.file_numbers.note_used(number);
    }

    /// Limits the number of open tables; `None` for no limit.
    pub(crate) fn set_open_table_limit(&self, limit: Option<usize>) {
        self.open_tables.set_limit(limit);
    }

    /// Sets the default cache in `options` if they have none and use one.
    fn fill_in_cache(&self, options: &mut FamilyOptions) {
        if options.table.block_cache.is_none() && !options.table.no_block_cache {
            options.table.block_cache = self.default_cache.load_full();
        }
    }
}
