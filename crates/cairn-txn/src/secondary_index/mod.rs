//! Secondary indexes: entries by which the records of a family are found by the value of a column.
//!
//! A record has an entry in an index if it has the indexed column: a plain value is the column with the empty name. The
//! bytes are those of RocksDB, so that each engine reads and maintains the indexes of the other:
//!
//! ```text
//! family      key                                               value
//! primary     primary key                                       plain value or entity
//! secondary   finalized prefix (of the column) | primary key    secondary value, usually empty
//!
//! SimpleSecondaryIndex: the prefix is the value of the column, finalized by its length as a varint before it
//! ```
//!
//! The writes of a transaction, and those of a [`TransactionDb`](crate::TransactionDb) outside of transactions, change
//! the entries along with the record: the lock of the primary key protects them. An update deletes the old entry with a
//! single deletion and puts the new one, so entries must not be written otherwise. Writes that bypass the transaction
//! ([`TransactionDb::db`](crate::TransactionDb::db), [`Transaction::write_batch`](crate::Transaction::write_batch),
//! the commit-time batch) do not change them.

mod iter;
mod simple;

use std::borrow::Cow;

use cairn_types::Result;

pub use iter::SecondaryIndexIter;
pub(crate) use iter::secondary_family;
pub use simple::SimpleSecondaryIndex;

/// The definition of a secondary index (RocksDB's `SecondaryIndex`).
///
/// Rules for implementations:
///
/// 1. Families and column are fixed. The secondary family has the bytewise order; it can be the primary one, or that of
///    other indexes, if the prefixes keep the entries apart.
/// 2. [`key_prefix`](SecondaryIndex::key_prefix) and [`finalized_prefix`](SecondaryIndex::finalized_prefix) are pure
///    functions: the entry of a record is found by calling them again. Otherwise entries remain when their records are
///    changed.
/// 3. No finalized prefix is a prefix of another. Otherwise a search for the shorter one returns entries of the other.
/// 4. A method does not use the transaction. After an error or a panic, the write has changed nothing in the
///    transaction.
pub trait SecondaryIndex: std::fmt::Debug + Send + Sync {
    /// The name of the family whose records are indexed.
    fn primary_family(&self) -> &str;

    /// The name of the family of the entries. Writes of indexed records fail while it does not exist.
    fn secondary_family(&self) -> &str;

    /// The name of the indexed column; empty for plain values.
    fn primary_column(&self) -> &[u8];

    /// Returns the value that is stored in the column instead of `value`, if it is another one. Several indexes of one
    /// column are called in the order of the options, each with the result of the one before.
    ///
    /// # Errors
    ///
    /// The write fails with the error.
    fn updated_value<'v>(
        &self,
        primary_key: &[u8],
        value: &'v [u8],
    ) -> Result<Option<Cow<'v, [u8]>>> {
        let _ = (primary_key, value);
        Ok(None)
    }

    /// Returns the first part of the key of the entry for `value`, as stored in the column.
    ///
    /// # Errors
    ///
    /// The write fails with the error.
    fn key_prefix<'v>(&self, primary_key: &'v [u8], value: &'v [u8]) -> Result<Cow<'v, [u8]>>;

    /// Returns `prefix`, of an entry or of a search, with what makes it unambiguous: its length, or a number of the
    /// index.
    ///
    /// # Errors
    ///
    /// The write, or the search, fails with the error.
    fn finalized_prefix<'p>(&self, prefix: &'p [u8]) -> Result<Cow<'p, [u8]>>;

    /// Returns the value of the entry for `value`, as stored in the column, which was `previous` before
    /// [`updated_value`](SecondaryIndex::updated_value) changed it. `None` for an empty one.
    ///
    /// # Errors
    ///
    /// The write fails with the error.
    fn secondary_value<'v>(
        &self,
        primary_key: &'v [u8],
        value: &'v [u8],
        previous: &'v [u8],
    ) -> Result<Option<Cow<'v, [u8]>>> {
        let _ = (primary_key, value, previous);
        Ok(None)
    }
}

/// Returns the key of the entry of `index` for a record with `value` in the column.
///
/// # Errors
///
/// Those of the index.
pub(crate) fn entry_key(
    index: &dyn SecondaryIndex,
    primary_key: &[u8],
    value: &[u8],
) -> Result<Vec<u8>> {
    let prefix = index.key_prefix(primary_key, value)?;
    let mut key = index.finalized_prefix(&prefix)?.into_owned();
    key.extend_from_slice(primary_key);
    Ok(key)
}
