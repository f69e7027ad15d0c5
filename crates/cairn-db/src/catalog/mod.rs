//! The catalog: the families of a database, their views, and the files behind them.
//!
//! ```text
//! edit -> [checked against the version] -> MANIFEST, synced -> [memtables and logs] -> next view -> obsolete files
//! ```
//!
//! The catalog owns the families and their published views, the open tables, the snapshots, the MANIFEST, the file
//! numbers, the obsolete files and the OPTIONS files. It knows memtables and logs as [`CatalogEnv`](env::CatalogEnv), so
//! that tests run it over a simulated disk, without a write path and without jobs.
//!
//! - A reader takes the view of a family ([`family::FamilyState::view`]): one load of an atomic pointer.
//! - A flush or compaction calls [`Catalog::install`], or [`Catalog::install_together`] for several families. What has to
//!   choose levels or copy files while no version changes takes an [`install::Editor`] first.
//! - A copy of files holds the result of [`Catalog::pin_files`].
//! - [`Catalog::purge`] deletes what is obsolete and not read any more.
//!
//! Invariants:
//!
//! K1. A version is shown only after the MANIFEST has it durably.
//! K2. The changes of a group are shown under one lock, and are durable together or not at all.
//! K3. A file of a view is not deleted; nor is one that was live when files were pinned, as long as they are.
//! K4. Each file number is given out once, and the numbers in the MANIFEST are below its next file number.
//! K5. After a MANIFEST has failed no edit is appended to it: the next one goes to a new MANIFEST.
//!
//! Edits are one at a time, under the lock of the MANIFEST. The lock of the obsolete files is a leaf.

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

/// Bytes of the block cache that families without one of their own share.
const DEFAULT_CACHE_BYTES: usize = 32 << 20;

/// The families of a database and their files.
pub(crate) struct Catalog {
    context: Arc<DbContext>,
    telemetry: Arc<Telemetry>,
    settings: Arc<Settings>,
    families: FamilyTable,
    /// The open tables of all families.
    open_tables: Arc<OpenTables>,
    /// The cache of families that bring none of their own.
    /// None once the database is released.
    default_cache: ArcSwapOption<BlockCache>,
    /// The memory budget, if there is one.
    budget: Option<Arc<Budget>>,
    snapshots: Arc<Snapshots>,
    manifest: Ranked<Option<Manifest>>,
    file_numbers: FileNumbers,
    /// Obsolete files that are still read, or whose deletion is disabled. No other lock is taken while this one is held.
    obsolete: Mutex<ObsoleteFiles>,
    purge_hint: PurgeHint,
    space: Space,
}

impl Catalog {
    /// A catalog without families, whose files get numbers from `next_file` on.
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

    /// The options in effect now.
    fn options(&self) -> Guard<Arc<DbOptions>> {
        self.settings.get()
    }

    /// The live families, without counting a reference.
    #[inline]
    pub(crate) fn families(&self) -> Guard<Arc<Families>> {
        self.families.load()
    }

    /// The live families.
    pub(crate) fn families_full(&self) -> Arc<Families> {
        self.families.load_full()
    }

    /// The family with number 0; `None` before families are known.
    #[inline]
    pub(crate) fn default_family(&self) -> Option<&Arc<FamilyState>> {
        self.families.default_family()
    }

    /// A snapshot of what `visible` returns, the last visible write. It is called under a lock.
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

    /// The room that the files take.
    pub(crate) fn space(&self) -> &Space {
        &self.space
    }

    /// A number for a new file.
    pub(crate) fn new_file_number(&self) -> FileNumber {
        self.file_numbers.take()
    }

    /// The number that the next file gets, unless another thread takes it first.
    pub(crate) fn next_file_number(&self) -> FileNumber {
        self.file_numbers.next()
    }

    /// Keeps `number` from being given to a new file.
    pub(crate) fn note_used_number(&self, number: FileNumber) {
        self.file_numbers.note_used(number);
    }

    /// Bounds the number of open tables; `None` for no bound.
    pub(crate) fn set_open_table_limit(&self, limit: Option<usize>) {
        self.open_tables.set_limit(limit);
    }

    /// Gives `options` the default cache if they bring none of their own and want one.
    fn fill_in_cache(&self, options: &mut FamilyOptions) {
        if options.table.block_cache.is_none() && !options.table.no_block_cache {
            options.table.block_cache = self.default_cache.load_full();
        }
    }
}
