//! Iterators.

use std::ffi::{c_char, c_uchar};

use cairn_db::{Columns, Family, Iter};
use cairn_indexed::BaseDeltaIter;
use cairn_types::{Error, Result};

use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, bytes, caught, report, save, store};
use crate::handle::{create_owned, detach, enter, enter_ready, of, ready, set_ready};
use crate::options::rocksdb_readoptions_t;
use crate::reads::rocksdb_slice_t;

/// The object of an iterator handle: a cursor, and the location of its current entry, cached when
/// the cursor moves. Programs make three calls for every entry, each of which is then a load. The
/// handle is *ready* while the cursor is that of a family and at an entry; only then is the cached
/// location valid.
pub struct IteratorHandle {
    noted: CachedEntry,
    cursor: Cursor,
}

/// The cached location of the current entry of a family's cursor, valid until the cursor moves.
struct CachedEntry {
    key: Part,
    value: Part,
}

/// A key or value as pointer and length.
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

/// An iterator of one of two kinds, or an error.
pub enum Cursor {
    /// An iterator over a family.
    Family(Iter),
    /// An iterator over a family with the writes of a batch applied.
    Joined(Box<BaseDeltaIter>),
    /// The options were invalid, or the database was closed.
    Refused(Error),
}

handles! {
    /// An iterator.
    rocksdb_iterator_t = IteratorHandle, NOTES, OWNED;
}

c_destructors! {
    /// Destroys an iterator.
    rocksdb_iter_destroy(rocksdb_iterator_t);
}

/// Creates an iterator over `family`. After a panic, such as that of a comparator that reads its database, it has an error.
pub(crate) fn iter_over(
    family: &Family,
    options: &crate::options::Checked<cairn_options::ReadOptions>,
) -> *mut rocksdb_iterator_t {
    let made = caught(|| match options.checked()? {
        _ if family.is_released() => Err(closed()),
        options => Ok(Cursor::Family(family.iter_with(options))),
    });
    create_iter(made.unwrap_or_else(Cursor::Refused), family.opening())
}

/// Creates the handle of an iterator; `opening` is the number of the database instance.
pub(crate) fn create_iter(cursor: Cursor, opening: usize) -> *mut rocksdb_iterator_t {
    create_owned(IteratorHandle::new(cursor), opening)
}

/// Detaches the iterators of a database that is being closed from handles leaked by the program,
/// and frees their memory. The handles remain and report that the database is closed.
pub(crate) fn detach_iterators(opening: usize) {
    /// The thread that closes the database drops the iterator.
    const fn may_end_elsewhere<T: Send>() {}
    const { may_end_elsewhere::<Cursor>() };
    // The cached location is not changed, because nothing reads it any more.
    detach::<rocksdb_iterator_t>(opening, |object| object.cursor = Cursor::Refused(closed()));
}

#[cold]
pub(crate) fn closed() -> Error {
    Error::shutdown("the database is closed")
}

impl IteratorHandle {
    /// An iterator that is not positioned.
    pub(crate) fn new(cursor: Cursor) -> IteratorHandle {
        IteratorHandle {
            noted: CachedEntry::NOTHING,
            cursor,
        }
    }

    pub(crate) fn into_cursor(self) -> Cursor {
        self.cursor
    }

    /// Positions the cursor of `handle` by `family` or `joined`. The entry of an iterator over a batch
    /// is not cached, because writing to the batch moves it. A panic, such as that of a comparator that reads its database,
    /// ends the iterator with an error.
    ///
    /// # Safety
    ///
    /// The handle is valid as `c.h` requires.
    #[inline]
    unsafe fn seek(
        handle: *mut rocksdb_iterator_t,
        family: impl FnOnce(&mut Iter),
        joined: impl FnOnce(&mut BaseDeltaIter),
    ) {
        // SAFETY: guaranteed by the caller.
        let (object, _mark) = unsafe { enter(handle) };
        let moved = caught(|| {
            match &mut object.cursor {
                // The cached location is not read while the cursor moves.
                Cursor::Family(iter) => family(iter),
                Cursor::Joined(iter) => joined(iter),
                Cursor::Refused(_) => {}
            }
            Ok(())
        });
        if let Err(error) = moved {
            object.cursor = Cursor::Refused(error);
        }
        // SAFETY: the handle is live and used by this thread only.
        unsafe { set_ready(handle, object.note()) };
    }

    /// Caches the location of the current entry. Returns false if there is none.
    #[inline(never)]
    fn note(&mut self) -> bool {
        match &self.cursor {
            Cursor::Family(iter) => self.noted.take(iter),
            Cursor::Joined(_) | Cursor::Refused(_) => false,
        }
    }

    /// Moves the cursor of `handle` from its entry by `family` or `joined`; does nothing if it is
    /// not at an entry.
    ///
    /// # Safety
    ///
    /// The handle is valid as `c.h` requires.
    #[inline]
    unsafe fn step(
        handle: *mut rocksdb_iterator_t,
        family: impl FnOnce(&mut Iter, &mut CachedEntry) -> bool,
        joined: impl FnOnce(&mut BaseDeltaIter),
    ) {
        // SAFETY: guaranteed by the caller; the handle is live, and the cursor is used by this thread
        // only.
        unsafe {
            let stepped = enter_ready(handle, |object| {
                let IteratorHandle { noted, cursor } = object;
                let Cursor::Family(iter) = cursor else {
                    // As in `seek`: only a family's cursor is ready.
                    std::hint::unreachable_unchecked()
                };
                if !family(iter, noted) {
                    set_ready(handle, false);
                }
            });
            if stepped.is_none() {
                step_in_batch(handle, joined);
            }
        }
    }
}

/// Moves a cursor whose entry is not cached, if it is at one.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
#[cold]
#[inline(never)]
unsafe fn step_in_batch(handle: *mut rocksdb_iterator_t, step: impl FnOnce(&mut BaseDeltaIter)) {
    // SAFETY: guaranteed by the caller.
    let (object, _mark) = unsafe { enter(handle) };
    if let Cursor::Joined(iter) = &mut object.cursor
        && iter.valid()
    {
        step(iter);
    }
}

/// Returns the result of `look` for the cursor of `handle`.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
#[cold]
#[inline(never)]
pub(crate) unsafe fn look<T>(
    handle: *const rocksdb_iterator_t,
    look: impl FnOnce(&Cursor) -> T,
) -> T {
    // SAFETY: guaranteed by the caller.
    let (object, _mark) = unsafe { enter(handle.cast_mut()) };
    look(&object.cursor)
}

/// The location of a part of the current entry, cached or computed; null if there is no entry.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
#[inline]
unsafe fn part(
    handle: *const rocksdb_iterator_t,
    noted: impl FnOnce(&CachedEntry) -> Part,
    asked: impl FnOnce(&Cursor) -> Part,
) -> Part {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match ready(handle) {
            Some(object) => noted(&object.noted),
            None => look(handle, asked),
        }
    }
}

/// [`part`] for C: returns a pointer and stores the length.
///
/// # Safety
///
/// The handle is valid as `c.h` requires, and `len` is null or may be written to.
#[inline]
unsafe fn pointer_to(
    handle: *const rocksdb_iterator_t,
    len: *mut usize,
    noted: impl FnOnce(&CachedEntry) -> Part,
    asked: impl FnOnce(&Cursor) -> Part,
) -> *const c_char {
    /// A separate function in tail position, so that the fast path saves no registers. It is `extern
    /// "C"` because that never unwinds, so that no cleanup follows the call.
    #[cold]
    #[inline(never)]
    unsafe extern "C" fn asked_for<A: FnOnce(&Cursor) -> Part>(
        handle: *const rocksdb_iterator_t,
        len: *mut usize,
        asked: A,
    ) -> *const c_char {
        // SAFETY: guaranteed by the caller.
        unsafe { pointer(look(handle, asked), len) }
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        match ready(handle) {
            Some(object) => pointer(noted(&object.noted), len),
            None => asked_for(handle, len, asked),
        }
    }
}

/// True if the cursor is at an entry that is not cached.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
#[cold]
#[inline(never)]
unsafe fn is_on_entry(handle: *const rocksdb_iterator_t) -> c_uchar {
    // SAFETY: guaranteed by the caller.
    unsafe { look(handle, Cursor::is_on_entry).into() }
}

impl CachedEntry {
    const NOTHING: CachedEntry = CachedEntry {
        key: Part::NULL,
        value: Part::NULL,
    };

    /// Caches the location of an entry's key and value.
    #[inline]
    fn set(&mut self, key: &[u8], value: &[u8]) {
        self.key = key.into();
        self.value = value.into();
    }

    /// Caches the location of the current entry of `iter`. Returns false if there is none.
    #[inline]
    fn take(&mut self, iter: &Iter) -> bool {
        let entry = iter.valid().then(|| (iter.raw_key(), iter.value()));
        if let Some((key, value)) = entry {
            self.set(key, value);
        }
        entry.is_some()
    }
}

impl Cursor {
    /// True if the cursor is at an entry.
    fn is_on_entry(&self) -> bool {
        matches!(self, Cursor::Joined(iter) if iter.valid())
    }

    /// The key of a cursor whose entry is not cached.
    fn key(&self) -> Part {
        match self {
            Cursor::Joined(iter) if iter.valid() => iter.key().into(),
            _ => Part::NULL,
        }
    }

    /// The value of a cursor whose entry is not cached.
    fn value(&self) -> Part {
        match self {
            Cursor::Joined(iter) if iter.valid() => iter.value().into(),
            _ => Part::NULL,
        }
    }

    /// The timestamp, if the cursor is at an entry of a database.
    fn timestamp(&self) -> Option<&[u8]> {
        match self {
            Cursor::Family(iter) if iter.valid() => Some(iter.timestamp()),
            Cursor::Joined(iter) if iter.valid() => Some(iter.timestamp()),
            _ => None,
        }
    }

    /// The columns, if the cursor is at an entry.
    pub(crate) fn columns(&self) -> Option<Columns> {
        match self {
            Cursor::Family(iter) if iter.valid() => iter.columns(),
            Cursor::Joined(iter) if iter.valid() => iter.columns(),
            _ => None,
        }
    }

    fn status(&self) -> Result<()> {
        match self {
            Cursor::Family(iter) => iter.status(),
            Cursor::Joined(iter) => iter.status(),
            Cursor::Refused(error) => Err(error.clone()),
        }
    }
}

/// Returns the pointer of a part and stores its length.
///
/// # Safety
///
/// `len` is null or may be written to.
#[inline]
unsafe fn pointer(part: Part, len: *mut usize) -> *const c_char {
    // SAFETY: guaranteed by the caller.
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
    /// Creates an iterator over the default family, which is not positioned.
    fn rocksdb_create_iterator(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t) -> *mut rocksdb_iterator_t {
        iter_over(of(db.cast_const()).db.default_family(), of(options))
    }
    /// Creates an iterator over a family, which is not positioned.
    fn rocksdb_create_iterator_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        iter_over(of(column_family.cast_const()), of(options))
    }
    /// Creates iterators over several families with a consistent view.
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
            let iters = of(db.cast_const()).db.iterators(&families, options)?;
            for (at, (iter, family)) in iters.into_iter().zip(families).enumerate() {
                iterators.add(at).write(create_iter(Cursor::Family(iter), family.opening()));
            }
            Ok(())
        });
    }
    /// Updates the iterator to the current state. It is then not positioned.
    fn rocksdb_iter_refresh(iter: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
        report(errptr, || {
            let (object, _mark) = enter(iter.cast_mut());
            set_ready(iter.cast_mut(), false);
            match &mut object.cursor {
                Cursor::Family(iter) => iter.refresh(),
                Cursor::Joined(_) => Err(Error::not_supported("refreshing an iterator over a batch")),
                Cursor::Refused(error) => Err(error.clone()),
            }
        });
    }
    /// True if the iterator is at an entry.
    fn rocksdb_iter_valid(iter: *const rocksdb_iterator_t) -> c_uchar {
        match ready(iter) {
            Some(_) => 1,
            None => is_on_entry(iter),
        }
    }
    /// Moves to the first entry.
    fn rocksdb_iter_seek_to_first(iter: *mut rocksdb_iterator_t) {
        IteratorHandle::seek(iter, |iter| iter.seek_to_first(), |iter| iter.seek_to_first());
    }
    /// Moves to the last entry.
    fn rocksdb_iter_seek_to_last(iter: *mut rocksdb_iterator_t) {
        IteratorHandle::seek(iter, |iter| iter.seek_to_last(), |iter| iter.seek_to_last());
    }
    /// Moves to the first entry at or after `k`.
    fn rocksdb_iter_seek(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        IteratorHandle::seek(iter, |iter| iter.seek(bytes(k, klen)), |iter| iter.seek(bytes(k, klen)));
    }
    /// Moves to the last entry at or before `k`.
    fn rocksdb_iter_seek_for_prev(iter: *mut rocksdb_iterator_t, k: *const c_char, klen: usize) {
        IteratorHandle::seek(iter, |iter| iter.seek_for_prev(bytes(k, klen)), |iter| iter.seek_for_prev(bytes(k, klen)));
    }
    /// Moves to the next entry.
    fn rocksdb_iter_next(iter: *mut rocksdb_iterator_t) {
        IteratorHandle::step(iter, |iter, noted| iter.next_shown(|key, value| noted.set(key, value)), |iter| iter.next());
    }
    /// Moves to the previous entry.
    fn rocksdb_iter_prev(iter: *mut rocksdb_iterator_t) {
        IteratorHandle::step(iter, |iter, noted| { iter.prev(); noted.take(iter) }, |iter| iter.prev());
    }
    /// Returns the key, which is valid until the iterator moves; null if there is no entry.
    fn rocksdb_iter_key(iter: *const rocksdb_iterator_t, klen: *mut usize) -> *const c_char {
        pointer_to(iter, klen, |noted| noted.key, Cursor::key)
    }
    /// Returns the value, which is valid until the iterator moves; null if there is no entry.
    fn rocksdb_iter_value(iter: *const rocksdb_iterator_t, vlen: *mut usize) -> *const c_char {
        pointer_to(iter, vlen, |noted| noted.value, Cursor::value)
    }
    /// Returns the timestamp of the entry, which is valid until the iterator moves.
    fn rocksdb_iter_timestamp(iter: *const rocksdb_iterator_t, tslen: *mut usize) -> *const c_char {
        pointer(look(iter, |cursor| cursor.timestamp().into()), tslen)
    }
    /// Returns the key, which is valid until the iterator moves.
    fn rocksdb_iter_key_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        slice(part(iter, |noted| noted.key, Cursor::key))
    }
    /// Returns the value, which is valid until the iterator moves.
    fn rocksdb_iter_value_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        slice(part(iter, |noted| noted.value, Cursor::value))
    }
    /// Returns the timestamp of the entry, which is valid until the iterator moves.
    fn rocksdb_iter_timestamp_slice(iter: *const rocksdb_iterator_t) -> rocksdb_slice_t {
        slice(look(iter, |cursor| cursor.timestamp().into()))
    }
    /// Stores the error that ended the iteration, if there is one.
    fn rocksdb_iter_get_error(iter: *const rocksdb_iterator_t, errptr: *mut *mut c_char) {
        if let Err(error) = look(iter, Cursor::status) {
            save(errptr, &error);
        }
    }
}
