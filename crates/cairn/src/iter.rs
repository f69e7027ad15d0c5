//! Iterators.

use std::fmt;
use std::marker::PhantomData;

use cairn_db::{Columns, Value};
use cairn_types::Result;

use crate::db::Db;
use crate::family::Family;

/// Defines the calls that every cursor over one sorted sequence has, passed on to `inner`; a seek sets `moved`.
macro_rules! cursor_methods {
    () => {
        /// Moves to the first key at or behind `target`. Keys are given and shown without timestamps.
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

        /// Moves to the next key. An iterator that is not valid stays so.
        #[inline]
        pub fn next(&mut self) {
            self.inner.next();
        }

        /// Moves to the previous key. An iterator that is not valid stays so.
        #[inline]
        pub fn prev(&mut self) {
            self.inner.prev();
        }

        /// True if the iterator stands on a key.
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

        /// Key and value, or `None` if the iterator stands on no entry.
        #[inline]
        #[must_use]
        pub fn entry(&self) -> Option<(&[u8], &[u8])> {
            self.inner.entry()
        }

        /// The value, kept alive beyond the next step; empty if the iterator is not valid.
        #[must_use]
        pub fn value_pinned(&self) -> Value {
            self.inner.value_pinned()
        }

        /// The columns of the entry: those of an entity, or a plain value as the one without a name.
        /// `None` if the iterator is not valid, or the entity cannot be decoded, which a get reports.
        #[must_use]
        pub fn columns(&self) -> Option<Columns> {
            self.inner.columns()
        }

        /// The timestamp of the entry; empty where keys have none.
        #[must_use]
        pub fn timestamp(&self) -> &[u8] {
            self.inner.timestamp()
        }

        /// The error that ended the walk, if the iterator does not stand on a key because of one.
        ///
        /// # Errors
        ///
        /// The error that ended the iteration: an error of a file, of a merge or of the options; `Incomplete`
        /// when `read_tier` or `max_skippable_internal_keys` forbade to go on.
        pub fn status(&self) -> Result<()> {
            self.inner.status()
        }
    };
}
pub(crate) use cursor_methods;

/// A cursor over the keys of one family, in order, both ways. It shows the state of the moment when
/// it was made (or of a snapshot), whatever is written meanwhile.
///
/// `for` turns it into an iterator of owned keys and values ([`Entries`](crate::Entries)):
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
/// Moved by hand it shows keys and values without a copy:
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
/// iter.status()?; // an error ends the walk too
/// # Ok::<(), cairn::Error>(())
/// ```
pub struct Iter<'db> {
    pub(crate) inner: cairn_db::Iter,
    /// True from a seek on.
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

    /// Reads the value of the entry, if that was put off (`allow_unprepared_value`). `false` if it
    /// cannot be read: the error is then the status, and the iterator is on no key.
    pub fn prepare_value(&mut self) -> bool {
        self.inner.prepare_value()
    }

    /// [`Iter::next`] that passes key and value of the new entry to `show`. False if there is none.
    #[inline]
    pub fn next_shown(&mut self, show: impl FnMut(&[u8], &[u8])) -> bool {
        self.inner.next_shown(show)
    }

    /// Makes the iterator show the present state. It is then on no key.
    ///
    /// # Errors
    ///
    /// `NotSupported` in a process that was forked from the one that opened the database for writing.
    pub fn refresh(&mut self) -> Result<()> {
        self.moved = false;
        self.inner.refresh()
    }

    /// A property of the iterator under RocksDB's names.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a name without an answer, or where the iterator is not valid and
    /// the property describes an entry.
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

/// A walk over the keys of several families, each key once: its columns in all families are seen
/// coalesced ([`CoalescingIter::columns`]) or apart
/// ([`CoalescingIter::attribute_groups`]). [`Db::coalescing_iterator`]
/// makes one.
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

    /// Moves to the first key at or behind `target`.
    pub fn seek(&mut self, target: &[u8]) {
        self.inner.seek(target);
    }

    /// Moves to the last key at or before `target`.
    pub fn seek_for_prev(&mut self, target: &[u8]) {
        self.inner.seek_for_prev(target);
    }

    /// Moves to the next key. An iterator that is not valid stays so.
    pub fn next(&mut self) {
        self.inner.next();
    }

    /// Moves to the previous key. An iterator that is not valid stays so.
    pub fn prev(&mut self) {
        self.inner.prev();
    }

    /// True if the iterator stands on a key.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.inner.valid()
    }

    /// The error that ended the walk, if there is one. The next seek clears it.
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

    /// The value: the default column of [`CoalescingIter::columns`], or nothing if there is none.
    #[must_use]
    pub fn value(&self) -> Value {
        self.inner.value()
    }

    /// The columns of the key in all families. Of columns with the same name, that of the family that
    /// was given last is shown. A plain value counts as the column without a name.
    #[must_use]
    pub fn columns(&self) -> Columns {
        self.inner.columns()
    }

    /// The columns of the key in each family that has it, in the order in which families were given.
    #[must_use]
    pub fn attribute_groups(&self) -> Vec<(Family<'db>, Columns)> {
        let groups = self.inner.attribute_groups().into_iter();
        groups
            .map(|(family, columns)| (Family::new(family.clone()), columns))
            .collect()
    }

    /// Reads the values of the key, if that was put off (`allow_unprepared_value`). `false` if one
    /// cannot be read: the error is then the status, and the iterator is on no key.
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
