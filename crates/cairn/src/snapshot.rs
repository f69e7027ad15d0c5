//! Snapshots.

use cairn_db::Value;
use cairn_options::ReadOptions;
use cairn_types::{Result, SequenceNumber};

use crate::db::Db;
use crate::family::Family;
use crate::iter::Iter;

/// The state of the whole database at one point in time. Versions that only a snapshot can see stay
/// on disk as long as it exists.
pub struct Snapshot<'db> {
    db: &'db Db,
    pub(crate) inner: cairn_db::Snapshot,
}

impl std::fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("sequence", &self.sequence())
            .finish_non_exhaustive()
    }
}

impl<'db> Snapshot<'db> {
    pub(crate) fn new(db: &'db Db, inner: cairn_db::Snapshot) -> Snapshot<'db> {
        Snapshot { db, inner }
    }

    pub(crate) fn database(&self) -> &'db Db {
        self.db
    }

    /// The sequence number of the last write that is visible to the snapshot.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.inner.sequence()
    }

    /// `options`, set to read from this snapshot.
    #[must_use]
    pub fn options(&self, options: &ReadOptions) -> ReadOptions {
        ReadOptions {
            snapshot: Some(self.sequence()),
            ..options.clone()
        }
    }

    /// The value of `key` at the time of the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.db
            .get_with(key, &self.options(&ReadOptions::default()))
    }

    /// The value of `key` in `family` at the time of the snapshot.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`]; `InvalidArgument` if `family` belongs to another database.
    pub fn get_in(&self, family: &Family<'_>, key: &[u8]) -> Result<Option<Value>> {
        self.check(family)?;
        family.get_with(key, &self.options(&ReadOptions::default()))
    }

    /// An iterator over the default family at the time of the snapshot.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.db.iter_with(&self.options(&ReadOptions::default()))
    }

    /// An iterator over `family` at the time of the snapshot. If `family` belongs to another database, the iterator is
    /// empty, and its status is `InvalidArgument`.
    #[must_use]
    pub fn iter_in(&self, family: &Family<'_>) -> Iter<'_> {
        self.iter_over(family, &ReadOptions::default())
    }

    /// An iterator over `family` with `options` at the time of the snapshot; see [`Snapshot::iter_in`].
    pub(crate) fn iter_over(&self, family: &Family<'_>, options: &ReadOptions) -> Iter<'_> {
        Iter::new(match self.check(family) {
            Ok(()) => family.inner.iter_with(&self.options(options)),
            Err(error) => {
                let mut iter = family.inner.iter();
                iter.disable(error);
                iter
            }
        })
    }

    /// Checks that `family` belongs to the database of the snapshot: sequence numbers of different databases are unrelated.
    pub(crate) fn check(&self, family: &Family<'_>) -> Result<()> {
        self.db.inner.check_families([&family.inner])
    }
}
