//! Iteration with `for`: entries and keys as Rust iterators, over everything, ranges or prefixes.
//!
//! A cursor ([`Iter`]) returns keys and values in place. The iterators in this module own a cursor
//! and return copies, so that they can implement [`Iterator`] with all its adapters, and errors are
//! items that cannot be overlooked.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::{RangeFrom, RangeFull, RangeTo};

use cairn_options::ReadOptions;
use cairn_types::{KeyOrder, Result};

use crate::db::Db;
use crate::family::Family;
use crate::indexed::BaseDeltaIter;
use crate::iter::Iter;
use crate::snapshot::Snapshot;
use crate::tables::SstIter;

mod sealed {
    pub trait Sealed {}
}

/// A key and its value, as returned by [`Entries`].
pub type KeyValue = (Box<[u8]>, Box<[u8]>);

/// The cursors that [`Entries`] and [`Keys`] can own: [`Iter`], [`SstIter`] and [`BaseDeltaIter`],
/// whose own methods have the same names. Sealed: other crates cannot implement it.
pub trait Cursor: sealed::Sealed {
    /// True if the cursor has been moved by a seek, successful or not.
    #[doc(hidden)]
    fn is_moved(&self) -> bool;
    #[doc(hidden)]
    fn seek_to_first(&mut self);
    #[doc(hidden)]
    fn seek_to_last(&mut self);
    #[doc(hidden)]
    fn seek(&mut self, target: &[u8]);
    #[doc(hidden)]
    fn seek_for_prev(&mut self, target: &[u8]);
    #[doc(hidden)]
    fn next(&mut self);
    #[doc(hidden)]
    fn prev(&mut self);
    #[doc(hidden)]
    fn valid(&self) -> bool;
    #[doc(hidden)]
    fn key(&self) -> &[u8];
    #[doc(hidden)]
    fn value(&self) -> &[u8];
    /// Reads a value whose read was deferred; false if it cannot be read.
    #[doc(hidden)]
    fn prepare_value(&mut self) -> bool;
    #[doc(hidden)]
    fn status(&self) -> Result<()>;
}

macro_rules! cursors {
    ($($name:ident, $prepare:expr;)*) => {$(
        impl sealed::Sealed for $name<'_> {}
        impl Cursor for $name<'_> {
            fn is_moved(&self) -> bool {
                self.moved
            }
            fn seek_to_first(&mut self) {
                $name::seek_to_first(self);
            }
            fn seek_to_last(&mut self) {
                $name::seek_to_last(self);
            }
            fn seek(&mut self, target: &[u8]) {
                $name::seek(self, target);
            }
            fn seek_for_prev(&mut self, target: &[u8]) {
                $name::seek_for_prev(self, target);
            }
            fn next(&mut self) {
                $name::next(self);
            }
            fn prev(&mut self) {
                $name::prev(self);
            }
            fn valid(&self) -> bool {
                $name::valid(self)
            }
            fn key(&self) -> &[u8] {
                $name::key(self)
            }
            fn value(&self) -> &[u8] {
                $name::value(self)
            }
            fn prepare_value(&mut self) -> bool {
                $prepare(self)
            }
            fn status(&self) -> Result<()> {
                $name::status(self)
            }
        }

        impl<'db> $name<'db> {
            /// An iterator over the keys from the current position; see [`Keys`].
            #[must_use]
            pub fn into_keys(self) -> Keys<Self> {
                Keys {
                    walk: Walk::new(self),
                }
            }
        }

        impl<'db> IntoIterator for $name<'db> {
            type Item = Result<KeyValue>;
            type IntoIter = Entries<Self>;

            fn into_iter(self) -> Entries<Self> {
                Entries {
                    walk: Walk::new(self),
                }
            }
        }
    )*};
}

cursors! {
    Iter, Iter::prepare_value;
    SstIter, |_: &mut SstIter<'_>| true;
    BaseDeltaIter, BaseDeltaIter::prepare_value;
}

/// The position of the cursor of a [`Walk`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first move.
    Unmoved,
    /// At an entry that neither end has returned.
    Pending,
    /// At the last entry returned by the front.
    Front,
    /// At the last entry returned by the back.
    Back,
}

/// Both ends of an iteration over one cursor. While only one end is used, the cursor takes plain
/// steps. When the other end is used, the cursor is moved there, and the key that it leaves is
/// saved. The ends have met when one reaches the key saved by the other.
struct Walk<C> {
    cursor: C,
    place: Place,
    /// The key at which the front was left, and true if the front has returned it.
    front: Option<(Box<[u8]>, bool)>,
    /// The key at which the back was left, which the back has returned.
    back: Option<Box<[u8]>>,
    done: bool,
}

impl<C: Cursor> Walk<C> {
    fn new(cursor: C) -> Walk<C> {
        let place = match cursor.is_moved() {
            true => Place::Pending,
            false => Place::Unmoved,
        };
        Walk {
            cursor,
            place,
            front: None,
            back: None,
            done: false,
        }
    }

    /// Moves the cursor to the next entry of the front. `None` at the end.
    fn step(&mut self) -> Option<Result<()>> {
        if self.done {
            return None;
        }
        let cursor = &mut self.cursor;
        match self.place {
            Place::Unmoved => cursor.seek_to_first(),
            Place::Pending => {}
            Place::Front => cursor.next(),
            Place::Back => {
                self.back = Some(cursor.key().into());
                match &self.front {
                    None => cursor.seek_to_first(),
                    Some((key, returned)) => {
                        cursor.seek(key);
                        if *returned && cursor.valid() && *cursor.key() == **key {
                            cursor.next();
                        }
                    }
                }
            }
        }
        self.place = Place::Front;
        if !self.cursor.valid() {
            return self.finish();
        }
        if self.back.as_deref() == Some(self.cursor.key()) {
            self.done = true;
            return None;
        }
        Some(Ok(()))
    }

    /// Moves the cursor to the next entry of the back. `None` at the end.
    fn step_back(&mut self) -> Option<Result<()>> {
        if self.done {
            return None;
        }
        let cursor = &mut self.cursor;
        match self.place {
            Place::Unmoved => cursor.seek_to_last(),
            Place::Pending if !cursor.valid() => {}
            Place::Pending => {
                self.front = Some((cursor.key().into(), false));
                cursor.seek_to_last();
            }
            Place::Front => {
                self.front = Some((cursor.key().into(), true));
                match &self.back {
                    None => cursor.seek_to_last(),
                    Some(key) => {
                        cursor.seek_for_prev(key);
                        if cursor.valid() && *cursor.key() == **key {
                            cursor.prev();
                        }
                    }
                }
            }
            Place::Back => cursor.prev(),
        }
        self.place = Place::Back;
        if !self.cursor.valid() {
            return self.finish();
        }
        if let Some((key, returned)) = &self.front
            && **key == *self.cursor.key()
        {
            self.done = true;
            if *returned {
                return None;
            }
        }
        Some(Ok(()))
    }

    /// Ends the iteration, with the error of the cursor if there is one.
    fn finish(&mut self) -> Option<Result<()>> {
        self.done = true;
        self.cursor.status().err().map(Err)
    }

    /// The entry under the cursor.
    fn entry(&mut self) -> Result<KeyValue> {
        if !self.cursor.prepare_value() {
            self.done = true;
            self.cursor.status()?;
        }
        Ok((self.cursor.key().into(), self.cursor.value().into()))
    }
}

/// An iterator over the entries of a family, as owned keys and values in key order.
///
/// Cursors ([`Iter`], [`SstIter`], [`BaseDeltaIter`]) and references to a [`Db`], a [`Family`] or a
/// [`Snapshot`] convert into it with `for`. It starts with the entry at which the cursor is
/// positioned, or with the first one if the cursor has not been moved; a cursor that a seek has
/// moved past the end has no entries. [`Iterator::rev`] iterates from the last entry back to the
/// same start. An error is the last item.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
/// # for key in [b"a", b"b", b"c"] { db.put(key, b"1")?; }
/// for entry in db.iter() {
///     let (key, value) = entry?;
///     println!("{key:?} = {value:?}");
/// }
///
/// let last = db.iter().into_iter().rev().next().transpose()?;
/// assert_eq!(last.unwrap().0[..], *b"c");
/// # Ok::<(), cairn::Error>(())
/// ```
pub struct Entries<C> {
    walk: Walk<C>,
}

impl<C: Cursor> Iterator for Entries<C> {
    type Item = Result<KeyValue>;

    fn next(&mut self) -> Option<Result<KeyValue>> {
        let step = self.walk.step()?;
        Some(step.and_then(|()| self.walk.entry()))
    }
}

impl<C: Cursor> DoubleEndedIterator for Entries<C> {
    fn next_back(&mut self) -> Option<Result<KeyValue>> {
        let step = self.walk.step_back()?;
        Some(step.and_then(|()| self.walk.entry()))
    }
}

impl<C: Cursor> FusedIterator for Entries<C> {}

impl<C> fmt::Debug for Entries<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").finish_non_exhaustive()
    }
}

/// An iterator over the keys of a family, without copies of the values; otherwise like [`Entries`].
/// Created by [`Iter::into_keys`].
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
/// # for key in [b"a", b"b", b"c"] { db.put(key, b"1")?; }
/// let keys: Vec<_> = db.iter().into_keys().collect::<cairn::Result<_>>()?;
/// assert_eq!(keys.len(), 3);
/// # Ok::<(), cairn::Error>(())
/// ```
pub struct Keys<C> {
    walk: Walk<C>,
}

impl<C: Cursor> Iterator for Keys<C> {
    type Item = Result<Box<[u8]>>;

    fn next(&mut self) -> Option<Result<Box<[u8]>>> {
        let step = self.walk.step()?;
        Some(step.map(|()| self.walk.cursor.key().into()))
    }
}

impl<C: Cursor> DoubleEndedIterator for Keys<C> {
    fn next_back(&mut self) -> Option<Result<Box<[u8]>>> {
        let step = self.walk.step_back()?;
        Some(step.map(|()| self.walk.cursor.key().into()))
    }
}

impl<C: Cursor> FusedIterator for Keys<C> {}

impl<C> fmt::Debug for Keys<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").finish_non_exhaustive()
    }
}

impl<'db> IntoIterator for &'db Db {
    type Item = Result<KeyValue>;
    type IntoIter = Entries<Iter<'db>>;

    fn into_iter(self) -> Entries<Iter<'db>> {
        self.iter().into_iter()
    }
}

impl<'db> IntoIterator for &Family<'db> {
    type Item = Result<KeyValue>;
    type IntoIter = Entries<Iter<'db>>;

    fn into_iter(self) -> Entries<Iter<'db>> {
        self.iter().into_iter()
    }
}

impl<'s> IntoIterator for &'s Snapshot<'_> {
    type Item = Result<KeyValue>;
    type IntoIter = Entries<Iter<'s>>;

    fn into_iter(self) -> Entries<Iter<'s>> {
        self.iter().into_iter()
    }
}

/// A range of keys: `begin..end`, `begin..`, `..end` or `..`. The end is exclusive.
///
/// Implemented by the standard library's ranges with an exclusive end: not every key order has a
/// next key after an inclusive end.
pub trait KeyRange: sealed::Sealed {
    /// The first key of the range, and the first key after it.
    #[doc(hidden)]
    fn bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>);
}

impl<K: AsRef<[u8]>> sealed::Sealed for std::ops::Range<K> {}
impl<K: AsRef<[u8]>> KeyRange for std::ops::Range<K> {
    fn bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (
            Some(self.start.as_ref().to_vec()),
            Some(self.end.as_ref().to_vec()),
        )
    }
}

impl<K: AsRef<[u8]>> sealed::Sealed for RangeFrom<K> {}
impl<K: AsRef<[u8]>> KeyRange for RangeFrom<K> {
    fn bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (Some(self.start.as_ref().to_vec()), None)
    }
}

impl<K: AsRef<[u8]>> sealed::Sealed for RangeTo<K> {}
impl<K: AsRef<[u8]>> KeyRange for RangeTo<K> {
    fn bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (None, Some(self.end.as_ref().to_vec()))
    }
}

impl sealed::Sealed for RangeFull {}
impl KeyRange for RangeFull {
    fn bounds(self) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
        (None, None)
    }
}

/// Options for reading `range`.
pub(crate) fn range_options(range: impl KeyRange) -> ReadOptions {
    let (lower, upper) = range.bounds();
    ReadOptions {
        iterate_lower_bound: lower,
        iterate_upper_bound: upper,
        auto_prefix_mode: true,
        ..ReadOptions::default()
    }
}

/// Options for reading the keys of `family` that start with `prefix`.
///
/// # Panics
///
/// If the family is not ordered bytewise.
pub(crate) fn prefix_options(family: &cairn_db::Family, prefix: &[u8]) -> ReadOptions {
    let order = &family.options().comparator;
    assert!(
        matches!(order, KeyOrder::Bytewise),
        "the keys of column family {:?} are ordered by {}: the keys with a prefix are not a range",
        family.name(),
        order.name()
    );
    ReadOptions {
        iterate_lower_bound: Some(prefix.to_vec()),
        iterate_upper_bound: end_of_prefix(prefix),
        auto_prefix_mode: true,
        ..ReadOptions::default()
    }
}

/// The first key after all keys that start with `prefix`, or `None` if there is none.
fn end_of_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

impl Db {
    /// An iterator over the keys of the default family in `range`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
    /// # for key in ["basalt", "chalk", "granite", "slate"] { db.put(key.as_bytes(), b"1")?; }
    /// let keys: Vec<_> = db.range("c".."s").into_keys().collect::<cairn::Result<_>>()?;
    /// assert_eq!(keys, [b"chalk"[..].into(), b"granite"[..].into()]);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Iter<'_> {
        self.iter_with(&range_options(range))
    }

    /// An iterator over the keys of the default family that start with `prefix`.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cairn::Db::open(dir.path().join("db"), &cairn::Options::default().create_if_missing(true))?;
    /// db.put(b"user:1", b"Ada")?;
    /// db.put(b"user:2", b"Grace")?;
    /// db.put(b"visit:1", b"today")?;
    /// assert_eq!(db.prefix(b"user:").into_iter().count(), 2);
    /// # Ok::<(), cairn::Error>(())
    /// ```
    ///
    /// # Panics
    ///
    /// If the family has a comparator other than the bytewise one.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter<'_> {
        let options = prefix_options(self.inner.default_family(), prefix.as_ref());
        self.iter_with(&options)
    }
}

impl<'db> Family<'db> {
    /// An iterator over the keys in `range`; see [`Db::range`].
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Iter<'db> {
        self.iter_with(&range_options(range))
    }

    /// An iterator over the keys that start with `prefix`; see [`Db::prefix`].
    ///
    /// # Panics
    ///
    /// If the family has a comparator other than the bytewise one.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter<'db> {
        self.iter_with(&prefix_options(&self.inner, prefix.as_ref()))
    }
}

impl Snapshot<'_> {
    /// An iterator over the keys of the default family in `range` at the time of the snapshot; see
    /// [`Db::range`].
    #[must_use]
    pub fn range(&self, range: impl KeyRange) -> Iter<'_> {
        let options = self.options(&range_options(range));
        self.database().iter_with(&options)
    }

    /// An iterator over the keys of `family` in `range` at the time of the snapshot; see [`Snapshot::iter_in`].
    #[must_use]
    pub fn range_in(&self, family: &Family<'_>, range: impl KeyRange) -> Iter<'_> {
        self.iter_over(family, &range_options(range))
    }

    /// An iterator over the keys of the default family that start with `prefix` at the time of the
    /// snapshot; see [`Db::prefix`].
    ///
    /// # Panics
    ///
    /// If the family has a comparator other than the bytewise one.
    #[must_use]
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Iter<'_> {
        let database = self.database();
        let options = prefix_options(database.inner.default_family(), prefix.as_ref());
        database.iter_with(&self.options(&options))
    }

    /// An iterator over the keys of `family` that start with `prefix` at the time of the snapshot; see
    /// [`Snapshot::iter_in`].
    ///
    /// # Panics
    ///
    /// If the family has a comparator other than the bytewise one.
    #[must_use]
    pub fn prefix_in(&self, family: &Family<'_>, prefix: impl AsRef<[u8]>) -> Iter<'_> {
        self.iter_over(family, &prefix_options(&family.inner, prefix.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::{Options, World};

    fn database() -> Db {
        let options = Options::default().create_if_missing(true);
        let builder = Db::builder("/db").world(World::in_memory());
        builder.options(options).open().unwrap()
    }

    fn of(key: u8) -> KeyValue {
        ([key].into(), [key, key].into())
    }

    #[test]
    fn both_ends_in_any_turns_return_each_entry_once() {
        let db = database();
        for key in 0..9 {
            db.put(&[key], &[key, key]).unwrap();
        }
        // Each bit of `turns` selects the end to use; `start` is the position of the cursor, if
        // any.
        for (turns, start) in (0..1_u32 << 10).flat_map(|turns| [(turns, None), (turns, Some(3))]) {
            let mut cursor = db.iter();
            if let Some(start) = start {
                cursor.seek(&[start]);
            }
            let mut expected: VecDeque<KeyValue> = (start.unwrap_or(0)..9).map(of).collect();
            let mut entries = cursor.into_iter();
            for turn in 0..10 {
                let (found, expected) = match turns >> turn & 1 {
                    0 => (entries.next(), expected.pop_front()),
                    _ => (entries.next_back(), expected.pop_back()),
                };
                assert_eq!(found.transpose().unwrap(), expected, "{turns:b} {start:?}");
            }
        }
    }

    #[test]
    fn the_end_of_a_prefix_is_the_next_key_without_it() {
        assert_eq!(end_of_prefix(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(end_of_prefix(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(end_of_prefix(b"\xff"), None);
        assert_eq!(end_of_prefix(b""), None);
    }

    #[test]
    fn a_cursor_past_the_end_has_no_entries() {
        let db = database();
        db.put(b"a", b"1").unwrap();
        let mut cursor = db.iter();
        cursor.seek(b"b");
        assert_eq!(cursor.into_iter().count(), 0);
        let mut cursor = db.iter();
        cursor.seek(b"b");
        assert_eq!(cursor.into_iter().rev().count(), 0);
        let mut cursor = db.iter();
        cursor.seek(b"b");
        cursor.refresh().unwrap();
        assert_eq!(cursor.into_iter().count(), 1);
    }
}
