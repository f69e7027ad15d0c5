//! Secondary indexes of a [`TransactionDb`](crate::TransactionDb): records are found by the value of a column, and each
//! write of a transaction changes the entries of the indexes along with the record. Keys and values of the entries are
//! RocksDB's.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("db");
//! use std::sync::Arc;
//! use cairn::secondary_index::{SecondaryIndex, SimpleSecondaryIndex};
//! use cairn::{Db, FamilyDescriptor, FamilyOptions, ReadOptions};
//!
//! let by_kind: Arc<dyn SecondaryIndex> = Arc::new(SimpleSecondaryIndex::new("default", b"", "by_kind"));
//! let options = cairn::transactions::TransactionDbOptions {
//!     secondary_indices: vec![by_kind.clone()],
//!     ..Default::default()
//! };
//! let db = Db::builder(&path)
//!     .create_if_missing(true)
//!     .open_transactional(&options)?;
//! let _family = db.create_family("by_kind", &FamilyOptions::default())?;
//!
//! db.put(b"granite", b"igneous")?;
//! db.put(b"basalt", b"igneous")?;
//! db.put(b"slate", b"metamorphic")?;
//!
//! let mut found = db.db().index_iter(by_kind, &ReadOptions::default())?;
//! let mut stones = Vec::new();
//! found.seek(b"igneous");
//! while found.valid() {
//!     stones.push(found.key().to_vec());
//!     found.next();
//! }
//! found.status()?;
//! assert_eq!(stones, [&b"basalt"[..], b"granite"]);
//! # Ok::<(), cairn::Error>(())
//! ```

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use cairn_db::Columns;
use cairn_options::ReadOptions;
use cairn_types::Result;

pub use cairn_txn::{SecondaryIndex, SimpleSecondaryIndex};

use crate::db::Db;
use crate::transactions::Transaction;

impl Db {
    /// Returns an iterator over the committed entries of `index`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the family of the entries does not exist.
    pub fn index_iter(
        &self,
        index: Arc<dyn SecondaryIndex>,
        options: &ReadOptions,
    ) -> Result<SecondaryIndexIter<'_>> {
        let inner = cairn_txn::SecondaryIndexIter::new(index, &self.inner, options)?;
        Ok(SecondaryIndexIter::new(inner))
    }
}

impl<'db> Transaction<'db> {
    /// Returns an iterator over the entries of `index` as they will be once the transaction is committed.
    ///
    /// # Errors
    ///
    /// Those of [`Db::index_iter`].
    pub fn index_iter(
        &self,
        index: Arc<dyn SecondaryIndex>,
        options: &ReadOptions,
    ) -> Result<SecondaryIndexIter<'db>> {
        self.inner
            .index_iter(index, options)
            .map(SecondaryIndexIter::new)
    }
}

/// An iterator over the entries of an index that match a search. Its keys are those of the records.
pub struct SecondaryIndexIter<'db> {
    inner: cairn_txn::SecondaryIndexIter,
    db: PhantomData<&'db Db>,
}

impl SecondaryIndexIter<'_> {
    fn new<'db>(inner: cairn_txn::SecondaryIndexIter) -> SecondaryIndexIter<'db> {
        SecondaryIndexIter {
            inner,
            db: PhantomData,
        }
    }

    /// Moves to the first entry that matches `target`: the value of the column, for a [`SimpleSecondaryIndex`].
    pub fn seek(&mut self, target: &[u8]) {
        self.inner.seek(target);
    }

    /// Moves to the next entry of the search. Does nothing if the iterator is not valid.
    pub fn next(&mut self) {
        self.inner.next();
    }

    /// Moves to the previous entry of the search. Does nothing if the iterator is not valid.
    pub fn prev(&mut self) {
        self.inner.prev();
    }

    /// True if the iterator is at an entry of the search.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.inner.valid()
    }

    /// The key of the record; empty if the iterator is not valid.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.inner.key()
    }

    /// The value of the entry, not of the record; empty if the iterator is not valid.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.inner.value()
    }

    /// The value of the entry as columns. `None` if the iterator is not valid.
    #[must_use]
    pub fn columns(&self) -> Option<Columns> {
        self.inner.columns()
    }

    /// Reads a value whose read was deferred by `allow_unprepared_value`. False after an error.
    pub fn prepare_value(&mut self) -> bool {
        self.inner.prepare_value()
    }

    /// The error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// That of the index for the target of the search; those of an iterator; `NotSupported` if the family of the entries
    /// does not have the bytewise order.
    pub fn status(&self) -> Result<()> {
        self.inner.status()
    }
}

impl fmt::Debug for SecondaryIndexIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
