//! Releasing the memory of a closed database while handles of it live.
//!
//! A program in C that leaks a handle of a family keeps what the handle refers to. [`Db::close_and_release`]
//! releases views (memtables, versions, open tables), caches and the LOG's file; only the fixed parts of the database
//! stay. A read through a family whose view was taken away answers
//! `ShutdownInProgress`; a read that runs meanwhile ends on the view that it has.

use std::sync::Arc;

use cairn_memory::secondary::CacheTier;
use cairn_memtable::{Memtable, MemtableOptions};
use cairn_read::{Reading, View};
use cairn_types::{Error, Result};
use cairn_version::{TableSource, Version};

use crate::db::Db;
use crate::family::{Families, FamilyState};
use crate::handle::Family;
use crate::shared::Shared;

/// The number of the view of a family of a database that was released.
const RELEASED: u64 = u64::MAX;

/// Bytes that the arena of a memtable takes that stays empty.
const EMPTY_ARENA: usize = 4096;

/// Refuses a read of a family whose view was taken away.
#[inline]
pub(crate) fn check_held(view: &View) -> Result<()> {
    if view.number == RELEASED {
        return Err(released());
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn released() -> Error {
    Error::shutdown("the database is closed")
}

impl FamilyState {
    /// Takes away what the family holds in memory.
    fn release(&self) {
        let view = self.view.load_full();
        let options = self.options();
        let mut bare = (**options).clone();
        bare.table.block_cache = None;
        bare.blob_cache = None;
        let tables = Arc::new(TableSource {
            fs: self.tables().fs.clone(),
            paths: self.tables().paths.clone(),
            order: self.order().clone(),
            prefix_extractor: None,
            options: Arc::new(bare.table.clone()),
            cache: None,
            verify_unique_id: false,
            mode: self.tables().mode,
            advise_random: false,
            meter: self.tables().meter.clone(),
            last_level: self.tables().last_level,
            open_tables: self.tables().open_tables.clone(),
            lowest_tier: CacheTier::default(),
            uncache_aggressiveness: 0,
        });
        let blobs = cairn_read::BlobSource::new(
            tables.fs.clone(),
            tables.paths.first().cloned().unwrap_or_default(),
            tables.mode,
            None,
        );
        let reading = Reading {
            family: view.family.family.clone(),
            order: self.order().clone(),
            merge_operator: view.family.merge_operator.clone(),
            dated: view.family.dated,
            prefix_extractor: None,
            max_sequential_skip: view.family.max_sequential_skip,
            memtable_op_scan_flush_trigger: 0,
            memtable_avg_op_scan_flush_trigger: 0,
            read_sampler: None,
            tables: tables.clone(),
            blobs: Arc::new(blobs),
            row_cache: None,
            io: view.family.io.clone(),
            clock: view.family.clock.clone(),
            statistics: None,
        };
        let empty = MemtableOptions {
            arena_block_size: EMPTY_ARENA,
            ..MemtableOptions::default()
        };
        self.set_view(View {
            memtable: Arc::new(Memtable::new(self.order().clone(), empty)),
            immutables: Vec::new(),
            version: Arc::new(Version::empty(
                self.order().clone(),
                tables.last_level.saturating_add(1),
            )),
            family: Arc::new(reading),
            number: RELEASED,
            end: view.end.clone(),
        });
        drop(options);
        self.set_options(Arc::new(bare), tables);
        self.forget_history();
    }
}

impl Shared {
    /// Takes away what a closed database holds in memory and keeps open.
    fn release_memory(self: &Arc<Self>) {
        if !self.lifecycle.is_closed() {
            return;
        }
        // A change of options that began before the closing ends before.
        let _alone = self.settings.begin_change();
        let families = self.families.load_full();
        let dropped = {
            let mut tree = self.tree.lock();
            assert!(
                tree.jobs.are_over(),
                "no job runs in a closed database, whose memory is released"
            );
            for family in tree.families.values_mut() {
                family.immutables = Vec::new();
            }
            tree.obsolete.forget();
            std::mem::take(&mut tree.dropped_families)
        };
        for family in families.iter() {
            family.release();
        }
        for family in dropped.iter().filter_map(std::sync::Weak::upgrade) {
            family.release();
        }
        let mut left = Families::default();
        if let Some(default) = families.get(0) {
            left.insert(default.clone());
        }
        self.families.store(left);
        self.default_cache.store(None);
        self.context.info.end();
    }
}

impl Db {
    /// [`Db::close`], and takes away what the database holds in memory, even if handles of it are left:
    /// reads by such handles answer `ShutdownInProgress` from then on. Iterators and values keep what they
    /// need.
    ///
    /// # Errors
    ///
    /// Those of [`Db::close`]. The memory is given back in any case.
    pub fn close_and_release(&self) -> Result<()> {
        let closed = self.shared().close();
        self.shared().release_memory();
        closed
    }
}

impl Family {
    /// A number that no other opening has while a handle of this one lives.
    #[must_use]
    pub fn opening(&self) -> usize {
        Arc::as_ptr(&self.db) as usize
    }

    /// True if the database was closed by [`Db::close_and_release`]: reads of the family fail.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.state.view().number == RELEASED
    }
}
