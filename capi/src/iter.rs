//! Iterators.

use std::ffi::{c_char, c_uchar};

use cairn_db::{Columns, Family, Iter};
use cairn_indexed::JoinedIter;
use cairn_types::{Error, Result};

use crate::db::rocksdb_t;
use crate::error::{array, bytes, report, save, store};
use crate::families::rocksdb_column_family_handle_t;
use crate::handle::{create, of, of_mut};
use crate::options::rocksdb_readoptions_t;
use crate::reads::rocksdb_slice_t;

/// What an iterator handle holds: a walk, and where its entry lies, which is noted when the walk
/// moves. Programs ask three times for every entry; the answers are then a load each.
pub struct Walk {
    noted: Noted,
    cursor: Cursor,
}

/// Where the entry of a walk over a family lies, until the walk moves. Without an entry, and in a walk
/// over a batch, both parts are null.
struct Noted {
    key: Part,
    value: Part,
}

/// A part of an entry for C.
#[derive(Clone, Copy)]
struct Part {
    data: *const u8,
    len: usize,
}

impl Part {
    const NULL: Part = Part {
        data: std::ptr::null(),
        len: 0,
    };
}

impl From<&[u8]> for Part {
    #[inline]
    fn from(bytes: &[u8]) -> Part {
        Part {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }
}

impl From<Option<&[u8]>> for Part {
    #[inline]
    fn from(bytes: Option<&[u8]>) -> Part {
        bytes.map_or(Part::NULL, Part::from)
    }
}

/// A walk over keys.
pub enum Cursor {
    /// A walk over a family, and the family.
    Family(Box<(Iter, Family)>),
    /// A walk over a family with the writes of a batch on it.
    Joined(Box<JoinedIter>),
    /// No walk: the options were refused.
    Refused(Error),
}

handles! {
    /// A walk over the keys of a family.
    rocksdb_iterator_t = Walk;
}

c_destructors! {
    /// Ends a walk.
    rocksdb_iter_destroy(rocksdb_iterator_t);
}

/// A walk over `family`.
fn walk_over(
    family: &Family,
    options: &crate::options::Checked<cairn_options::ReadOptions>,
) -> Walk {
    Walk::new(match options.checked() {
        Ok(options) => Cursor::Family(Box::new((family.iter_with(options), family.clone()))),
        Err(error) => Cursor::Refused(error),
    })
}

impl Walk {
    /// A walk that stands nowhere.
    pub(crate) fn new(cursor: Cursor) -> Walk {
        Walk {
            noted: Noted::NOTHING,
            cursor,
        }
    }

    pub(crate) fn into_cursor(self) -> Cursor {
        self.cursor
    }

    /// The columns, if the walk stands on an entry.
    pub(crate) fn columns(&self) -> Option<Columns> {
        self.cursor.columns()
    }

    /// Moves by `family`, `joined`, and notes where the entry lies. That of a walk over a batch is not
    /// noted: writing to the batch moves it.
    #[inline]
    fn go(&mut self, family: impl FnOnce(&mut Iter), joined: impl FnOnce(&mut JoinedIter)) {
        match &mut self.cursor {
            Cursor::Family(walk) => {
                let iter = &mut walk.0;
                // What stands here is not read while the walk moves.
                family(iter);
                self.noted = iter.entry().map_or(Noted::NOTHING, |(key, value)| Noted {
                    key: key.into(),
                    value: value.into(),
                });
            }
            Cursor::Joined(iter) => joined(iter),
            Cursor::Refused(_) => {}
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        !self.noted.key.data.is_null() || self.cursor.is_on_entry()
    }

    /// The key; null without an entry.
    #[inline]
    fn key(&self) -> Part {
        match self.noted.key.data.is_null() {
            false => self.noted.key,
            true => self.cursor.key(),
        }
    }

    /// The value; null without an entry.
    #[inline]
    fn value(&self) -> Part {
        match self.noted.key.data.is_null() {
            false => self.noted.value,
            true => self.cursor.value(),
        }
    }
}

impl Noted {
    const NOTHING: Noted = Noted {
        key: Part::NULL,
        value: Part::NULL,
    };
}

impl Cursor {
    /// Whether a walk whose entry is not noted stands on one.
    #[cold]
    fn is_on_entry(&self) -> bool {
        matches!(self, Cursor::Joined(iter) if iter.valid())
    }

    /// The key of a walk whose entry is not noted.
    #[cold]
    fn key(&self) -> Part {
        match self {
            Cursor::Joined(iter) if iter.valid() => iter.key().into(),
            _ => Part::NULL,
        }
    }

    /// The value of a walk whose entry is not noted.
    #[cold]
    fn value(&self) -> Part {
        match self {
            Cursor::Joined(iter) if iter.valid() => iter.value().into(),
            _ => Part::NULL,
        }
    }

    /// The timestamp, if the walk stands on an entry of a database.
    fn timestamp(&self) -> Option<&[u8]> {
        match self {
            Cursor::Family(walk) if walk.0.valid() => Some(walk.0.timestamp()),
            _ => None,
        }
    }

    /// The columns, if the walk stands on an entry.
    fn columns(&self) -> Option<Columns> {
        match self {
            Cursor::Family(walk) if walk.0.valid() => walk.0.columns(),
            Cursor::Joined(iter) if iter.valid() => iter.columns(),
            _ => None,
        }
    }

    fn status(&self) -> Result<()> {
        match self {
            Cursor::Family(walk) => walk.0.status(),
            Cursor::Joined(iter) => iter.status(),
            Cursor::Refused(error) => Err(error.clone()),
        }
    }
}

/// A part of an entry for C: a pointer, and the length at `len`.
///
/// # Safety
///
/// `len` is null or may be written to.
#[inline]
unsafe fn pointer(part: Part, len: *mut usize) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { store(len, part.len) };
    part.data.cast()
}

#[inline]
fn slice(part: Part) -> rocksdb_slice_t {
    rocksdb_slice_t {
        data: part.data.cast(),
        size: part.len,
    }
}

c_functions! {
    /// A walk over the default family, which stands nowhere yet.
    fn rocksdb_create_iterator(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t) -> *mut rocksdb_iterator_t {
        create(walk_over(of(db.cast_const()).db.default_family(), of(options)))
    }
    /// A walk over a family, which stands nowhere yet.
    fn rocksdb_create_iterator_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        create(walk_over(of(column_family.cast_const()), of(options)))
    }
    /// Walks over several families, all at one point in time.
    fn rocksdb_create_iterators(
        db: *mut rocksdb_t,
        opts: *mut rocksdb_readoptions_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        iterators: *mut *mut rocksdb_iterator_t,
        size: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let handles = array(column_families.cast_const(), size);
            let families: Vec<&Family> = handles.iter().map(|handle| of(handle.cast_const())).collect();
            let options = of(opts.cast_const()).checked()?;
            let walks = of(db.cast_const()).db.iterators(&families, options)?;
            for (at, (walk, family)) in walks.into_iter().zip(families).enumerate() {
                iterators.add(at).write(create(Walk::new(Cursor::Family(Box::new((walk, family.clone()))))));
            }
            Ok(())
        });
    }
    /// Lets the walk show the present state; it then stands nowhere.
    fn rocksdb_iter_refresh(iter: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
        report(errptr, || {
            let walk = of_mut(iter.cast_mut());
            walk.noted = Noted::NOTHING;
            match &mut walk.cursor {
                Cursor::Family(walk) => walk.0.refresh(),
                Cursor::Joined(_) => Err(Error::not_supported("an iterator over a batch is not refreshed")),
                Cursor::Refused(error) => Err(error.clone()),
            }
        });
    }
    /// Whether the walk stands on an entry.
    fn rocksdb_iter_valid(iter: *const rocksdb_iterator_t) -> c_uchar {
        of(iter).valid().into()
    }
    /// Goes to the first entry.
    fn rocksdb_iter_seek_to_first(iter: *mut rocksdb_iterator_t) {
        of_mut(iter).go(|iter| iter.seek_to_first(), |iter| iter.seek_to_first());
    }
    /// Goes to the last entry.
    fn rocksdb_iter_seek_to_last(iter: *mut rocksdb_iterator_t) {
        of_mut(iter).go(|iter| iter.seek_to_last(), |iter| iter.seek_to_last());
    }
    /// Goes to the first entry at or after `k`.
    fn rocksdb_iter_seek(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        of_mut(iter).go(|iter| iter.seek(bytes(k, klen)), |iter| iter.seek(bytes(k, klen)));
    }
    /// Goes to the last entry at or before `k`.
    fn rocksdb_iter_seek_for_prev(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        of_mut(iter).go(|iter| iter.seek_for_prev(bytes(k, klen)), |iter| iter.seek_for_prev(bytes(k, klen)));
    }
    /// Goes to the next entry.
    fn rocksdb_iter_next(iter: *mut rocksdb_iterator_t) {
        let walk = of_mut(iter);
        if walk.valid() {
            walk.go(|iter| iter.next(), |iter| iter.next());
        }
    }
    /// Goes to the entry before.
    fn rocksdb_iter_prev(iter: *mut rocksdb_iterator_t) {
        let walk = of_mut(iter);
        if walk.valid() {
            walk.go(|iter| iter.prev(), |iter| iter.prev());
        }
    }
    /// The key, until the walk moves; null where there is no entry.
    fn rocksdb_iter_key(iter: *const rocksdb_iterator_t, klen: *mut usize) -> *const c_char {
        pointer(of(iter).key(), klen)
    }
    /// The value, until the walk moves; null where there is no entry.
    fn rocksdb_iter_value(iter: *const rocksdb_iterator_t, vlen: *mut usize) -> *const c_char {
        pointer(of(iter).value(), vlen)
    }
    /// The timestamp of the entry, until the walk moves.
    fn rocksdb_iter_timestamp(iter: *const rocksdb_iterator_t, tslen: *mut usize) -> *const c_char {
        pointer(of(iter).cursor.timestamp().into(), tslen)
    }
    /// The key, until the walk moves.
    fn rocksdb_iter_key_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        slice(of(iter).key())
    }
    /// The value, until the walk moves.
    fn rocksdb_iter_value_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        slice(of(iter).value())
    }
    /// The timestamp of the entry, until the walk moves.
    fn rocksdb_iter_timestamp_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        slice(of(iter).cursor.timestamp().into())
    }
    /// The error that ended the walk, if one did.
    fn rocksdb_iter_get_error(iter: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
        if let Err(error) = of(iter).cursor.status() {
            save(errptr, &error);
        }
    }
}
