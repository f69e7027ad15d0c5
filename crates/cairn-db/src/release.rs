//! Releasing the memory of a closed database while handles of it live.
//!
//! A program in C that leaks a handle of a family keeps what the handle refers to. [`Db::close_and_release`]
//! releases views (memtables, versions, open tables), caches and the LOG's file; only the fixed parts of the database
//! stay. A read through a family whose view was taken away answers
//! `ShutdownInProgress`; a read that runs meanwhile ends on the view that it has.

use std::sync::Arc;

use cairn_types::Result;

use crate::db::Db;
use crate::handle::Family;
use crate::shared::Shared;

impl Shared {
    /// Takes away what a closed database holds in memory and keeps open.
    pub(crate) fn release_memory(self: &Arc<Self>) {
        if !self.lifecycle.is_closed() {
            return;
        }
        // A change of options that began before the closing ends before.
        let _alone = self.settings.begin_change();
        {
            let mut tree = self.tree.lock();
            assert!(
                tree.jobs.are_over(),
                "no job runs in a closed database, whose memory is released"
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
        self.state.is_released()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use cairn_options::DbOptions;
    use cairn_platform::World;

    use crate::{OpenRequest, open};

    #[test]
    fn the_memory_of_a_closed_database_is_released_once() {
        let options = DbOptions {
            create_if_missing: true,
            ..DbOptions::default()
        };
        let db = open(&OpenRequest {
            path: Path::new("/db"),
            options: &options,
            families: &[],
            others: None,
            world: World::in_memory(),
            read_only: false,
        })
        .unwrap();
        db.put(b"a", b"1").unwrap();
        let family = db.default_family().clone();
        db.close_and_release().unwrap();
        db.close_and_release().unwrap();
        assert!(family.is_released() && family.get(b"a").is_err());
        // The last handle releases it, too.
        drop((db, family));
    }
}
