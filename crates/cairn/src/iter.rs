//! Cursors over one or several families.

use std::fmt;
use std::marker::PhantomData;

use cairn_db::{Columns, Value};
use cairn_types::Result;

use crate::db::Db;
use crate::family::Family;

/// Defines the methods of a cursor over one sorted sequence, which forward to `inner`; a seek sets
/// `moved`.
macro_rules! cursor_methods {
    () => {
        /// Moves to the first key at or after `target`. Keys are passed and returned without
        /// timestamps.
        #[inline]
        pub fn seek(&mut self, target: &[u8]) {
            self.moved = true;
            self.inner.seek(target);
        }

        /// Moves to the last key at or before `target`.
        pub fn seek_for_prev(&mut self, target: &[u8]) {
            self.moved = true;
            self.inner.seek_for_prev(target);
        }

        /// Moves to the first key.
        pub fn seek_to_first(&mut self) {
            self.moved = true;
            self.inner.seek_to_first();
        }

        /// Moves to the last key.
        pub fn seek_to_last(&mut self) {
            self.moved = true;
            self.inner.seek_to_last();
        }

        /// Moves to the next key. Does nothing if the iterator is not valid.
        #[inline]
        pub fn next(&mut self) {
            self.inner.next();
        }

        /// Moves to the previous key. Does nothing if the iterator is not valid.
        #[inline]
        pub fn prev(&mut self) {
            self.inner.prev();
        }

        /// True if the iterator is positioned on a key.
        #[inline]
        #[must_use]
        pub fn valid(&self) -> bool {
            self.inner.valid()
        }

        /// The key, without timestamp; empty if the iterator is not valid.
        #[inline]
        #[must_use]
        pub fn key(&self) -> &[u8] {
            self.inner.key()
        }

        /// The value, or the default column of an entity; empty if the iterator is not valid.
        #[inline]
        #[must_use]
        pub fn value(&self) -> &[u8] {
            self.inner.value()
        }

        /// Key and value, or `None` if the iterator is not valid.
        #[inline]
        #[must_use]
        pub fn entry(&self) -> Option<(&[u8], &[u8])> {
            self.inner.entry()
        }

        /// The value, pinned beyond the next move; empty if the iterator is not valid.
        #[must_use]
        pub fn value_pinned(&self) -> Value {
            self.inner.value_pinned()
        }

        /// The columns of the entry: those of an entity, or a plain value as a single column with
        /// an empty name. `None` if the iterator is not valid or if the entity cannot be decoded,
        /// an error that a get reports.
        #[must_use]
        pub fn columns(&self) -> Option<Columns> {
            self.inner.columns()
        }

        /// The timestamp of the entry; empty if keys have none.
        #[must_use]
        pub fn timestamp(&self) -> &[u8] {
            self.inner.timestamp()
        }

        /// The error that ended the iteration, if any.
        ///
        /// # Errors
        ///
        /// Those of a file, of a merge or of the options; `Incomplete` if `read_tier` or
        /// `max_skippable_internal_keys` ended the iteration.
        pub fn status(&self) -> Result<()> {
            self.inner.status()
        }
    };
}
pub(crate) use cursor_methods;

/// A bidirectional cursor over the keys of one family, in key order. It shows the state at its
/// creation (or that of a snapshot), unaffected by later writes.
///
/// `for` converts it into an iterator over owned keys and values ([`Entries`](crate::Entries)):
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
/// # for key in [b"a", b"b", b"c"] { db.put(key, b"1")?; }
/// for entry in db.iter() {
///     let (key, value) = entry?;
///     println!("{key:?} = {value:?}");
/// }
/// # Ok::<(), cairn::Error>(())
/// ```
///
/// Moved explicitly, it returns keys and values without a copy:
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
/// # for key in [b"a", b"b", b"c"] { db.put(key, b"1")?; }
/// let mut iter = db.iter();
/// iter.seek(b"b");
/// while iter.valid() {
///     println!("{:?}", iter.key());
///     iter.next();
/// }
/// iter.status()?; // an error also ends the loop
/// # Ok::<(), cairn::Error>(())
/// ```
pub struct Iter<'db> {
    pub(crate) inner: cairn_db::Iter,
    /// True after the first seek.
    pub(crate) moved: bool,
    db: PhantomData<&'db Db>,
}

impl<'db> Iter<'db> {
    pub(crate) fn new(inner: cairn_db::Iter) -> Iter<'db> {
        Iter {
            inner,
            moved: false,
            db: PhantomData,
        }
    }

    cursor_methods!();

    /// With `ReadOptions::iter_start_ts`, which makes the iterator return all versions of a key down to
    /// a timestamp: true if the current version is a deletion.
    #[must_use]
    pub fn is_deletion(&self) -> bool {
        self.inner.is_deletion()
    }

    /// Reads the value of the entry, if that was deferred (`allow_unprepared_value`). Returns false
    /// if it cannot be read; the error is then the status, and the iterator is not valid.
    pub fn prepare_value(&mut self) -> bool {
        self.inner.prepare_value()
    }

    /// Like [`Iter::next`], but passes key and value of the new entry to `show`. Returns false if
    /// there is none. With `ReadOptions::iter_start_ts`, the key is RocksDB's internal key.
    #[inline]
    pub fn next_shown(&mut self, show: impl FnMut(&[u8], &[u8])) -> bool {
        self.inner.next_shown(show)
    }

    /// Updates the iterator to the current state. It is then not positioned.
    ///
    /// # Errors
    ///
    /// `NotSupported` in a process forked from the one that opened the database for writing.
    pub fn refresh(&mut self) -> Result<()> {
        self.moved = false;
        self.inner.refresh()
    }

    /// A property of the iterator, with RocksDB's names.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for an unknown name, or if the property describes an entry and the
    /// iterator is not valid.
    pub fn property(&self, name: &str) -> Result<String> {
        self.inner.property(name)
    }
}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter")
            .field("valid", &self.valid())
            .finish_non_exhaustive()
    }
}

/// A cursor over the keys of several families that returns each key once, with its columns in all
/// families either coalesced ([`CoalescingIter::columns`]) or grouped by family
/// ([`CoalescingIter::attribute_groups`]). Created by [`Db::coalescing_iterator`].
pub struct CoalescingIter<'db> {
    inner: cairn_db::CoalescingIter,
    db: PhantomData<&'db Db>,
}

impl<'db> CoalescingIter<'db> {
    pub(crate) fn new(inner: cairn_db::CoalescingIter) -> CoalescingIter<'db> {
        CoalescingIter {
            inner,
            db: PhantomData,
        }
    }

    /// Moves to the first key.
    pub fn seek_to_first(&mut self) {
        self.inner.seek_to_first();
    }

    /// Moves to the last key.
    pub fn seek_to_last(&mut self) {
        self.inner.seek_to_last();
    }

    /// Moves to the first key at or after `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.inner.seek(target);
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        self.inner.seek_for_prev(target);
    }

    /// Moves to the next key. Does nothing if the iterator is not valid.
    pub fn next(&mut self) {
        self.inner.next();
    }

    /// Moves to the previous key. Does nothing if the iterator is not valid.
    pub fn prev(&mut self) {
        self.inner.prev();
    }

    /// True if the iterator is positioned on a key.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.inner.valid()
    }

    /// The error that ended the iteration, if any. The next seek clears it.
    ///
    /// # Errors
    ///
    /// Those of an iterator over one of the families.
    pub fn status(&self) -> Result<()> {
        self.inner.status()
    }

    /// The key, without timestamp; empty if the iterator is not valid.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.inner.key()
    }

    /// The value: the default column of [`CoalescingIter::columns`]; empty if there is none.
    #[must_use]
    pub fn value(&self) -> Value {
        self.inner.value()
    }

    /// The columns of the key in all families. If several families have a column of the same name,
    /// the one listed last wins. A plain value counts as the column with the empty name.
    #[must_use]
    pub fn columns(&self) -> Columns {
        self.inner.columns()
    }

    /// The columns of the key in each family that has it, in the order of the families.
    #[must_use]
    pub fn attribute_groups(&self) -> Vec<(Family<'db>, Columns)> {
        let groups = self.inner.attribute_groups().into_iter();
        groups
            .map(|(family, columns)| (Family::new(family.clone()), columns))
            .collect()
    }

    /// Reads the values of the key, if that was deferred (`allow_unprepared_value`). Returns false
    /// if one cannot be read; the error is then the status, and the iterator is not valid.
    pub fn prepare_value(&mut self) -> bool {
        self.inner.prepare_value()
    }
}

impl fmt::Debug for CoalescingIter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CoalescingIter")
            .field("valid", &self.valid())
            .finish_non_exhaustive()
    }
}
