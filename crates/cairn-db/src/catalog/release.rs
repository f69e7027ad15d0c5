//! Releasing views, caches and open tables of a closed database.

use std::sync::Arc;

use cairn_memtable::{Memtable, MemtableOptions};
use cairn_read::{BlobSource, Reading, View};
use cairn_types::{Error, Result};
use cairn_version::{TableSource, Version};

use super::Catalog;
use super::family::{Families, FamilyState};

/// The number of the view of a family in a released database.
const RELEASED: u64 = u64::MAX;

/// The size of the arena of a memtable that stays empty.
const EMPTY_ARENA: usize = 4096;

/// Returns an error for a read of a family whose view was released.
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
    /// True if the view was released.
    pub(crate) fn is_released(&self) -> bool {
        self.view().number == RELEASED
    }

    /// Releases the memory of the family if it is not released yet.
    fn release(&self) {
        if self.is_released() {
            return;
        }
        let view = self.view_full();
        let mut bare = (**self.options()).clone();
        bare.table.block_cache = None;
        bare.blob_cache = None;
        let old = self.tables();
        let tables = Arc::new(TableSource {
            options: Arc::new(bare.table.clone()),
            mode: old.mode,
            meter: old.meter.clone(),
            last_level: old.last_level,
            open_tables: old.open_tables.clone(),
            ..TableSource::new(old.fs.clone(), old.paths.clone(), self.order().clone())
        });
        let blobs = BlobSource::new(
            tables.fs.clone(),
            tables.paths.first().cloned().unwrap_or_default(),
            tables.mode,
            None,
        );
        let reading = Reading {
            merge_operator: view.family.merge_operator.clone(),
            dated: view.family.dated,
            follows: view.family.follows,
            max_sequential_skip: view.family.max_sequential_skip,
            ..Reading::new(
                view.family.family.clone(),
                tables.clone(),
                Arc::new(blobs),
                view.family.io.clone(),
                view.family.clock.clone(),
            )
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
        self.set_options(Arc::new(bare), tables);
        self.forget_history();
        self.end_charge();
    }
}

impl Catalog {
    /// Releases the memory and the open files of the families of a closed database. The next opening deletes
    /// obsolete files.
    pub(crate) fn release(&self) {
        self.deletions.forget();
        let families = self.families.load_full();
        for family in families.iter() {
            family.release();
        }
        for family in self.families.take_dropped() {
            family.release();
        }
        let mut left = Families::default();
        if let Some(default) = families.get(0) {
            left.insert(default.clone());
        }
        self.families.store(left);
        self.sources.release();
    }
}
