//! Searches in a secondary index.

use std::sync::Arc;

use cairn_db::{Columns, Db, Family, Iter};
use cairn_indexed::BaseDeltaIter;
use cairn_options::ReadOptions;
use cairn_types::{Error, KeyOrder, Result};

use super::SecondaryIndex;

/// An iterator over the entries of an index that match a search (RocksDB's `SecondaryIndexIterator`). Its keys are the
/// primary keys of the records, in their order within the secondary family: bytewise.
pub struct SecondaryIndexIter {
    index: Arc<dyn SecondaryIndex>,
    entries: Entries,
    /// The finalized prefix of the search.
    prefix: Vec<u8>,
    /// The error of the search, or of an iterator that cannot search.
    error: Option<Error>,
    /// False if the secondary family has an order in which entries of a prefix do not follow the prefix.
    is_ordered: bool,
}

/// The iterator over the secondary family.
enum Entries {
    Committed(Iter),
    Transaction(Box<BaseDeltaIter>),
}

/// Calls a method that both iterators have.
macro_rules! of_entries {
    ($entries:expr, $iter:ident => $call:expr) => {
        match $entries {
            Entries::Committed($iter) => $call,
            Entries::Transaction($iter) => $call,
        }
    };
}

impl SecondaryIndexIter {
    /// Creates an iterator over the committed entries of `index` in `db`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the secondary family does not exist.
    pub fn new(
        index: Arc<dyn SecondaryIndex>,
        db: &Db,
        options: &ReadOptions,
    ) -> Result<SecondaryIndexIter> {
        let family = secondary_family(&*index, db)?;
        let entries = Entries::Committed(family.iter_with(options));
        Ok(SecondaryIndexIter::over(index, &family, entries))
    }

    /// Creates an iterator over the entries of `index` that a transaction sees.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` if the secondary family does not exist.
    pub(crate) fn in_transaction(
        index: Arc<dyn SecondaryIndex>,
        db: &Db,
        iter_in: impl FnOnce(&Family) -> BaseDeltaIter,
    ) -> Result<SecondaryIndexIter> {
        let family = secondary_family(&*index, db)?;
        let entries = Entries::Transaction(Box::new(iter_in(&family)));
        Ok(SecondaryIndexIter::over(index, &family, entries))
    }

    fn over(
        index: Arc<dyn SecondaryIndex>,
        family: &Family,
        entries: Entries,
    ) -> SecondaryIndexIter {
        SecondaryIndexIter {
            index,
            entries,
            prefix: Vec::new(),
            error: None,
            is_ordered: matches!(
                family.options().comparator,
                KeyOrder::Bytewise | KeyOrder::BytewiseU64Ts
            ),
        }
    }

    /// Moves to the first entry that matches `target`, a value of the column for a
    /// [`SimpleSecondaryIndex`](super::SimpleSecondaryIndex). After an error ([`SecondaryIndexIter::status`]), the
    /// iterator is not valid.
    pub fn seek(&mut self, target: &[u8]) {
        self.error = None;
        if !self.is_ordered {
            self.error = Some(Error::not_supported(
                "a search in a secondary index whose family does not have the bytewise order",
            ));
            return;
        }
        match self.index.finalized_prefix(target) {
            Ok(prefix) => {
                self.prefix.clear();
                self.prefix.extend_from_slice(&prefix);
                of_entries!(&mut self.entries, iter => iter.seek(&self.prefix));
            }
            Err(error) => self.error = Some(error),
        }
    }

    /// Moves to the next entry of the search. Does nothing if the iterator is not valid.
    pub fn next(&mut self) {
        if self.valid() {
            of_entries!(&mut self.entries, iter => iter.next());
        }
    }

    /// Moves to the previous entry of the search. Does nothing if the iterator is not valid.
    pub fn prev(&mut self) {
        if self.valid() {
            of_entries!(&mut self.entries, iter => iter.prev());
        }
    }

    /// True if the iterator is at an entry of the search.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.error.is_none()
            && of_entries!(&self.entries, iter => iter.valid() && iter.key().starts_with(&self.prefix))
    }

    /// Reads a value whose read was deferred by `allow_unprepared_value`. Returns false after an error, and if the iterator
    /// is not valid.
    pub fn prepare_value(&mut self) -> bool {
        self.valid() && of_entries!(&mut self.entries, iter => iter.prepare_value())
    }

    /// Returns the primary key of the record; empty if not valid.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match self.valid() {
            true => of_entries!(&self.entries, iter => &iter.key()[self.prefix.len()..]),
            false => &[],
        }
    }

    /// Returns the value of the entry; empty if not valid.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match self.valid() {
            true => of_entries!(&self.entries, iter => iter.value()),
            false => &[],
        }
    }

    /// Returns the value of the entry as columns. `None` if not valid.
    #[must_use]
    pub fn columns(&self) -> Option<Columns> {
        match self.valid() {
            true => of_entries!(&self.entries, iter => iter.columns()),
            false => None,
        }
    }

    /// Returns the timestamp of the entry; empty if keys have none or if not valid.
    #[must_use]
    pub fn timestamp(&self) -> &[u8] {
        match self.valid() {
            true => of_entries!(&self.entries, iter => iter.timestamp()),
            false => &[],
        }
    }

    /// Returns the error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// That of the index for the target of the search; those of the iterator; `NotSupported` if the secondary family does
    /// not have the bytewise order.
    pub fn status(&self) -> Result<()> {
        match &self.error {
            Some(error) => Err(error.clone()),
            None => of_entries!(&self.entries, iter => iter.status()),
        }
    }
}

impl std::fmt::Debug for SecondaryIndexIter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecondaryIndexIter")
            .field("index", &self.index)
            .field("valid", &self.valid())
            .finish_non_exhaustive()
    }
}

/// Returns the family of the entries of `index`.
///
/// # Errors
///
/// `InvalidArgument` if it does not exist.
pub(crate) fn secondary_family(index: &dyn SecondaryIndex, db: &Db) -> Result<Family> {
    let name = index.secondary_family();
    db.family(name).ok_or_else(|| {
        Error::invalid_argument(format!(
            "the column family {name:?} of a secondary index does not exist"
        ))
    })
}
