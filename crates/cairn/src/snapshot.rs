//! Snapshots.

use cairn_db::Value;
use cairn_options::ReadOptions;
use cairn_types::{Result, SequenceNumber};

use crate::db::Db;
use crate::family::Family;
use crate::iter::Iter;

/// The state of the whole database at one moment. Versions that only a snapshot sees stay on disk
/// for as long as it lives.
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

    /// The last write that the snapshot sees.
    #[must_use]
    pub fn sequence(&self) -> SequenceNumber {
        self.inner.sequence()
    }

    /// `options` with this snapshot as the state that is read.
    #[must_use]
    pub fn options(&self, options: &ReadOptions) -> ReadOptions {
        ReadOptions {
            snapshot: Some(self.sequence()),
            ..options.clone()
        }
    }

    /// The value that `key` had.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>> {
        self.db
            .get_with(key, &self.options(&ReadOptions::default()))
    }

    /// The value that `key` had in `family`.
    ///
    /// # Errors
    ///
    /// Those of [`Db::get`].
    pub fn get_in(&self, family: &Family<'_>, key: &[u8]) -> Result<Option<Value>> {
        family.get_with(key, &self.options(&ReadOptions::default()))
    }

    /// An iterator over the default family as it was.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.db.iter_with(&self.options(&ReadOptions::default()))
    }

    /// An iterator over `family` as it was.
    #[must_use]
    pub fn iter_in(&self, family: &Family<'_>) -> Iter<'_> {
        Iter::new(
            family
                .inner
                .iter_with(&self.options(&ReadOptions::default())),
        )
    }
}
