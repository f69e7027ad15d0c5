//! Iterators.

use std::ffi::{c_char, c_uchar};

use cairn_db::{Columns, Family, Iter};
use cairn_indexed::BaseDeltaIter;
use cairn_types::{Error, Result};

use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, bytes, report, save, store};
use crate::handle::{create_owned, detach, enter, enter_ready, of, ready, set_ready};
use crate::options::rocksdb_readoptions_t;
use crate::reads::rocksdb_slice_t;

/// What an iterator handle holds: a walk, and where its entry lies, which is noted when the walk
/// moves. Programs ask three times for every entry; the answers are then a load each. The handle is
/// *ready* while the walk is one over a family and stands on an entry; only then counts what is noted.
pub struct Walk {
    noted: Noted,
    cursor: Cursor,
}

/// Where the entry of a walk over a family lies, until the walk moves.
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
    Joined(Box<BaseDeltaIter>),
    /// No walk: the options were refused.
    Refused(Error),
}

handles! {
    /// A walk over the keys of a family.
    rocksdb_iterator_t = Walk, NOTES, OWNED;
}

c_destructors! {
    /// Ends a walk.
    rocksdb_iter_destroy(rocksdb_iterator_t);
}

/// A handle of a walk over `family`.
fn walk_over(
    family: &Family,
    options: &crate::options::Checked<cairn_options::ReadOptions>,
) -> *mut rocksdb_iterator_t {
    let cursor = match options.checked() {
        Ok(_) if family.is_released() => Cursor::Refused(closed()),
        Ok(options) => Cursor::Family(Box::new((family.iter_with(options), family.clone()))),
        Err(error) => Cursor::Refused(error),
    };
    create_walk(cursor, family.opening())
}

/// A handle of a walk in the opening of a database that has the number `opening`.
pub(crate) fn create_walk(cursor: Cursor, opening: usize) -> *mut rocksdb_iterator_t {
    create_owned(Walk::new(cursor), opening)
}

/// Takes the iterators of an opening that ends away from programs that leak them: their walks end here, and
/// with them what they keep in memory. The handles stay, and say why there is nothing to see.
pub(crate) fn detach_walks(opening: usize) {
    /// A walk ends in the thread that closes the database.
    const fn may_end_elsewhere<T: Send>() {}
    const { may_end_elsewhere::<Cursor>() };
    // What is noted is left alone: it is not looked at any more.
    detach::<rocksdb_iterator_t>(opening, |walk| walk.cursor = Cursor::Refused(closed()));
}

#[cold]
fn closed() -> Error {
    Error::shutdown("the database is closed")
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

    /// Moves the walk of `handle` by `family` or `joined`, wherever it stands. The entry of a walk over a
    /// batch is not noted: writing to the batch moves it.
    ///
    /// # Safety
    ///
    /// The handle is what `c.h` says.
    #[inline]
    unsafe fn seek(
        handle: *mut rocksdb_iterator_t,
        family: impl FnOnce(&mut Iter),
        joined: impl FnOnce(&mut BaseDeltaIter),
    ) {
        // SAFETY: the caller's promise.
        let (walk, _mark) = unsafe { enter(handle) };
        match &mut walk.cursor {
            Cursor::Family(inner) => {
                // What is noted is not read while the walk moves.
                family(&mut inner.0);
                // SAFETY: the handle lives, and the walk is its own.
                unsafe { set_ready(handle, walk.note()) };
            }
            Cursor::Joined(iter) => joined(iter),
            Cursor::Refused(_) => {}
        }
    }

    /// Notes where the entry lies; says whether there is one.
    #[inline(never)]
    fn note(&mut self) -> bool {
        match &self.cursor {
            Cursor::Family(inner) => self.noted.take(&inner.0),
            Cursor::Joined(_) | Cursor::Refused(_) => false,
        }
    }

    /// Moves the walk of `handle` by `family` or `joined` from the entry it stands on; without one it
    /// stays.
    ///
    /// # Safety
    ///
    /// The handle is what `c.h` says.
    #[inline]
    unsafe fn step(
        handle: *mut rocksdb_iterator_t,
        family: impl FnOnce(&mut Iter, &mut Noted) -> bool,
        joined: impl FnOnce(&mut BaseDeltaIter),
    ) {
        // SAFETY: the caller's promise; the handle that is ready lives, and the walk is its own.
        unsafe {
            let stepped = enter_ready(handle, |walk| {
                let Walk { noted, cursor } = walk;
                let Cursor::Family(inner) = cursor else {
                    // What `seek` says of a walk: only one over a family is ready.
                    std::hint::unreachable_unchecked()
                };
                if !family(&mut inner.0, noted) {
                    set_ready(handle, false);
                }
            });
            if stepped.is_none() {
                step_in_batch(handle, joined);
            }
        }
    }
}

/// Moves a walk whose entry is not noted, if it stands on one.
///
/// # Safety
///
/// The handle is what `c.h` says.
#[cold]
#[inline(never)]
unsafe fn step_in_batch(handle: *mut rocksdb_iterator_t, step: impl FnOnce(&mut BaseDeltaIter)) {
    // SAFETY: the caller's promise.
    let (walk, _mark) = unsafe { enter(handle) };
    if let Cursor::Joined(iter) = &mut walk.cursor
        && iter.valid()
    {
        step(iter);
    }
}

/// What `look` finds at the cursor of `handle`.
///
/// # Safety
///
/// The handle is what `c.h` says.
#[cold]
#[inline(never)]
pub(crate) unsafe fn look<T>(
    handle: *const rocksdb_iterator_t,
    look: impl FnOnce(&Cursor) -> T,
) -> T {
    // SAFETY: the caller's promise.
    let (walk, _mark) = unsafe { enter(handle.cast_mut()) };
    look(&walk.cursor)
}

/// Where a part of the entry lies, noted or asked for; null without an entry.
///
/// # Safety
///
/// The handle is what `c.h` says.
#[inline]
unsafe fn part(
    handle: *const rocksdb_iterator_t,
    noted: impl FnOnce(&Noted) -> Part,
    asked: impl FnOnce(&Cursor) -> Part,
) -> Part {
    // SAFETY: the caller's promise.
    unsafe {
        match ready(handle) {
            Some(walk) => noted(&walk.noted),
            None => look(handle, asked),
        }
    }
}

/// [`part`] for C: a pointer, and the length at `len`.
///
/// # Safety
///
/// The handle is what `c.h` says, and `len` is null or may be written to.
#[inline]
unsafe fn pointer_to(
    handle: *const rocksdb_iterator_t,
    len: *mut usize,
    noted: impl FnOnce(&Noted) -> Part,
    asked: impl FnOnce(&Cursor) -> Part,
) -> *const c_char {
    /// Apart, and last of all, so that the short way needs no place for its registers; and C's, which no
    /// panic leaves, so that nothing is left to do after it.
    #[cold]
    #[inline(never)]
    unsafe extern "C" fn asked_for<A: FnOnce(&Cursor) -> Part>(
        handle: *const rocksdb_iterator_t,
        len: *mut usize,
        asked: A,
    ) -> *const c_char {
        // SAFETY: the caller's promise.
        unsafe { pointer(look(handle, asked), len) }
    }
    // SAFETY: the caller's promise.
    unsafe {
        match ready(handle) {
            Some(walk) => pointer(noted(&walk.noted), len),
            None => asked_for(handle, len, asked),
        }
    }
}

/// True if a walk stands on an entry that is not noted.
///
/// # Safety
///
/// The handle is what `c.h` says.
#[cold]
#[inline(never)]
unsafe fn is_on_entry(handle: *const rocksdb_iterator_t) -> c_uchar {
    // SAFETY: the caller's promise.
    unsafe { look(handle, Cursor::is_on_entry).into() }
}

impl Noted {
    const NOTHING: Noted = Noted {
        key: Part::NULL,
        value: Part::NULL,
    };

    /// Notes where key and value of an entry lie.
    #[inline]
    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.key = key.into();
        self.value = value.into();
    }

    /// Notes where the entry lies that `iter` stands on; says whether there is one.
    #[inline]
    fn take(&mut self, iter: &Iter) -> bool {
        let entry = iter.entry();
        if let Some((key, value)) = entry {
            self.set(key, value);
        }
        entry.is_some()
    }
}

impl Cursor {
    /// True if a walk whose entry is not noted stands on one.
    fn is_on_entry(&self) -> bool {
        matches!(self, Cursor::Joined(iter) if iter.valid())
    }

    /// The key of a walk whose entry is not noted.
    fn key(&self) -> Part {
        match self {
            Cursor::Joined(iter) if iter.valid() => iter.key().into(),
            _ => Part::NULL,
        }
    }

    /// The value of a walk whose entry is not noted.
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
    pub(crate) fn columns(&self) -> Option<Columns> {
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
        walk_over(of(db.cast_const()).db.default_family(), of(options))
    }
    /// A walk over a family, which stands nowhere yet.
    fn rocksdb_create_iterator_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        walk_over(of(column_family.cast_const()), of(options))
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
                let cursor = Cursor::Family(Box::new((walk, family.clone())));
                iterators.add(at).write(create_walk(cursor, family.opening()));
            }
            Ok(())
        });
    }
    /// Renews the walk to the present state; it then stands nowhere.
    fn rocksdb_iter_refresh(iter: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
        report(errptr, || {
            let (walk, _mark) = enter(iter.cast_mut());
            set_ready(iter.cast_mut(), false);
            match &mut walk.cursor {
                Cursor::Family(walk) => walk.0.refresh(),
                Cursor::Joined(_) => Err(Error::not_supported("an iterator over a batch is not refreshed")),
                Cursor::Refused(error) => Err(error.clone()),
            }
        });
    }
    /// True if the walk stands on an entry.
    fn rocksdb_iter_valid(iter: *const rocksdb_iterator_t) -> c_uchar {
        match ready(iter) {
            Some(_) => 1,
            None => is_on_entry(iter),
        }
    }
    /// Goes to the first entry.
    fn rocksdb_iter_seek_to_first(iter: *mut rocksdb_iterator_t) {
        Walk::seek(iter, |iter| iter.seek_to_first(), |iter| iter.seek_to_first());
    }
    /// Goes to the last entry.
    fn rocksdb_iter_seek_to_last(iter: *mut rocksdb_iterator_t) {
        Walk::seek(iter, |iter| iter.seek_to_last(), |iter| iter.seek_to_last());
    }
    /// Goes to the first entry at or after `k`.
    fn rocksdb_iter_seek(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        Walk::seek(iter, |iter| iter.seek(bytes(k, klen)), |iter| iter.seek(bytes(k, klen)));
    }
    /// Goes to the last entry at or before `k`.
    fn rocksdb_iter_seek_for_prev(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        Walk::seek(iter, |iter| iter.seek_for_prev(bytes(k, klen)), |iter| iter.seek_for_prev(bytes(k, klen)));
    }
    /// Goes to the next entry.
    fn rocksdb_iter_next(iter: *mut rocksdb_iterator_t) {
        Walk::step(iter, |iter, noted| iter.next_shown(|key, value| noted.set(key, value)), |iter| iter.next());
    }
    /// Goes to the entry before.
    fn rocksdb_iter_prev(iter: *mut rocksdb_iterator_t) {
        Walk::step(iter, |iter, noted| { iter.prev(); noted.take(iter) }, |iter| iter.prev());
    }
    /// The key, until the walk moves; null where there is no entry.
    fn rocksdb_iter_key(iter: *const rocksdb_iterator_t, klen: *mut usize) -> *const c_char {
        pointer_to(iter, klen, |noted| noted.key, Cursor::key)
    }
    /// The value, until the walk moves; null where there is no entry.
    fn rocksdb_iter_value(iter: *const rocksdb_iterator_t, vlen: *mut usize) -> *const c_char {
        pointer_to(iter, vlen, |noted| noted.value, Cursor::value)
    }
    /// The timestamp of the entry, until the walk moves.
    fn rocksdb_iter_timestamp(iter: *const rocksdb_iterator_t, tslen: *mut usize) -> *const c_char {
        pointer(look(iter, |cursor| cursor.timestamp().into()), tslen)
    }
    /// The key, until the walk moves.
    fn rocksdb_iter_key_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        slice(part(iter, |noted| noted.key, Cursor::key))
    }
    /// The value, until the walk moves.
    fn rocksdb_iter_value_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        slice(part(iter, |noted| noted.value, Cursor::value))
    }
    /// The timestamp of the entry, until the walk moves.
    fn rocksdb_iter_timestamp_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        slice(look(iter, |cursor| cursor.timestamp().into()))
    }
    /// The error that ended the walk, if one did.
    fn rocksdb_iter_get_error(iter: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
        if let Err(error) = look(iter, Cursor::status) {
            save(errptr, &error);
        }
    }
}
