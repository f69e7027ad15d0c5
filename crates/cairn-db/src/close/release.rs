//! Releasing the memory of a closed database that still has handles.
//!
//! A C program that leaks a family handle keeps everything that the handle refers to.
//! [`Db::close_and_release`] releases views (memtables, versions, open tables), caches and the LOG file; only
//! fixed-size parts of the database remain. A read through a family whose view was released returns
//! `ShutdownInProgress`; a read in progress finishes on the view that it has.

use std::sync::Arc;

use cairn_types::Result;

use crate::db::Db;
use crate::db::handle::Family;
use crate::shared::Shared;

impl Shared {
    /// Releases the memory and the open files of a closed database.
    pub(crate) fn release_memory(self: &Arc<Self>) {
        if !self.lifecycle.is_closed() {
            return;
        }
        // A change of options that started before closing finishes first.
        let _alone = self.settings.begin_change();
        {
            let mut tree = self.tree.lock();
            assert!(
                tree.jobs.are_over(),
                "no job is running when the memory of a closed database is released"
            );
            for family in tree.families.values_mut() {
                family.immutables = Vec::new();
            }
        }
        self.catalog.release();
        self.context.info.end();
    }
}

impl Db {
    /// Like [`Db::close`], unless the database has snapshots: then it remains open.
    ///
    /// # Errors
    ///
    /// `Aborted` if there are snapshots; those of [`Db::close`].
    pub fn try_close(&self) -> Result<()> {
        self.handle.shared.try_close()
    }

    /// Like [`Db::close`], and releases the memory of the database even if handles remain: reads through them
    /// return `ShutdownInProgress` from then on. Iterators and values keep the memory that they need.
    ///
    /// # Errors
    ///
    /// Those of [`Db::close`]. The memory is released in any case.
    pub fn close_and_release(&self) -> Result<()> {
        let closed = self.shared().close();
        self.shared().release_memory();
        closed
    }
}

impl Family {
    /// True if the database was closed by [`Db::close_and_release`]: reads of the family fail.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.state.is_released()
    }
}

#[cfg(test)]
mod tests {
    use crate::db::open_in_memory;

    #[test]
    fn the_memory_of_a_closed_database_is_released_once() {
        let db = open_in_memory();
        db.put(b"a", b"1").unwrap();
        let family = db.default_family().clone();
        db.close_and_release().unwrap();
        db.close_and_release().unwrap();
        assert!(family.is_released() && family.get(b"a").is_err());
        // Dropping the last handle releases it as well.
        drop((db, family));
    }
}
