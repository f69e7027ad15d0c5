//! Batches that are read before they are written.

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use cairn_indexed::IndexedBatch;
use cairn_options::{ReadOptions, WriteOptions};
use cairn_types::Result;

use crate::db::Db;
use crate::family::Family;

/// A walk over what a family will hold once a batch is written, in order, both ways.
pub struct BaseDeltaIter<'db> {
    inner: cairn_indexed::BaseDeltaIter,
    db: PhantomData<&'db Db>,
}

impl Deref for BaseDeltaIter<'_> {
    type Target = cairn_indexed::BaseDeltaIter;
    fn deref(&self) -> &cairn_indexed::BaseDeltaIter {
        &self.inner
    }
}

impl DerefMut for BaseDeltaIter<'_> {
    fn deref_mut(&mut self) -> &mut cairn_indexed::BaseDeltaIter {
        &mut self.inner
    }
}

impl Db {
    /// Writes an [`IndexedBatch`]: all of it or nothing. Until then it is read as if it were
    /// written, key by key or as a whole.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use cairn::{Db, IndexedBatch, Options, ReadOptions, WriteOptions};
    ///
    /// let db = Db::open(dir.path().join("db"), &Options::default().create_if_missing(true))?;
    /// db.put(b"chalk", b"soft")?;
    /// db.put(b"slate", b"grey")?;
    ///
    /// let (batch, family) = (IndexedBatch::new(true), db.default_family());
    /// batch.put(b"granite", b"hard");
    /// batch.delete(b"chalk");
    /// let options = ReadOptions::default();
    /// assert_eq!(batch.get_over(&family, b"granite", &options)?.as_deref(), Some(&b"hard"[..]));
    /// assert!(db.get(b"granite")?.is_none());
    ///
    /// let mut iter = family.iter_with_batch(&batch, &options);
    /// iter.seek_to_first();
    /// assert_eq!(iter.key(), b"granite");
    /// iter.next();
    /// assert_eq!(iter.key(), b"slate");
    ///
    /// batch.set_save_point();
    /// batch.delete(b"slate");
    /// batch.rollback_to_save_point()?;
    /// db.write_indexed(&batch, &WriteOptions::default())?;
    /// assert!(db.get(b"slate")?.is_some());
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Db::write_with`].
    pub fn write_indexed(&self, batch: &IndexedBatch, options: &WriteOptions) -> Result<()> {
        batch.write_to(&self.inner, options)
    }
}

impl<'db> Family<'db> {
    /// A walk over what the family will hold once `batch` is written. See [`Db::write_indexed`].
    #[must_use]
    pub fn iter_with_batch(
        &self,
        batch: &IndexedBatch,
        options: &ReadOptions,
    ) -> BaseDeltaIter<'db> {
        let base = cairn_db::Family::iter_with(self, options);
        BaseDeltaIter {
            inner: batch.iter_over(self, base, options),
            db: PhantomData,
        }
    }
}
