//! Point reads: copied, pinned, into a buffer, and batched.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::mem::ManuallyDrop;

use cairn_db::{Db, Family, Found, GetScratch, Operand, Value};
use cairn_options::ReadOptions;
use cairn_types::Result;

use crate::constants::{
    rocksdb_pinnable_multi_get_error, rocksdb_pinnable_multi_get_found,
    rocksdb_pinnable_multi_get_not_found, rocksdb_pinnable_multi_get_out_of_bounds,
};
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, bytes, caught, malloc_bytes, report, report_ptr, save, store};
use crate::handle::{Handle, Own, create, maybe, of, with_own};
use crate::options::{Checked, rocksdb_readoptions_t};
use crate::value_copy::malloc_value;

/// A pinned value and its location.
pub struct Pinned {
    data: *const u8,
    len: usize,
    /// Pins the bytes.
    #[expect(dead_code, reason = "the value is held to pin it, not read")]
    pin: Pin,
}

/// The owner of a pinned value.
#[expect(dead_code, reason = "held to pin the value, not read")]
enum Pin {
    Value(Value),
    Operand(Operand),
}

/// The location of a value's bytes, in a block, a memtable or a vector, which does not change when the
/// `Value` moves.
#[inline]
fn place(value: &[u8]) -> (*const u8, usize) {
    (value.as_ptr(), value.len())
}

impl From<Value> for Pinned {
    fn from(value: Value) -> Pinned {
        let (data, len) = place(&value);
        Pinned {
            data,
            len,
            pin: Pin::Value(value),
        }
    }
}

impl From<Operand> for Pinned {
    fn from(operand: Operand) -> Pinned {
        let (data, len) = place(&operand);
        Pinned {
            data,
            len,
            pin: Pin::Operand(operand),
        }
    }
}

/// The result for one key of a batch.
pub enum Answer {
    /// The key has no value.
    Missing,
    /// The value.
    Value(Value),
    /// The text of the error, which programs may read as a string.
    Error(CString),
}

handles! {
    /// The results of a batched read.
    rocksdb_pinnable_multi_get_t = Vec<Answer>;
    /// A pinned value.
    rocksdb_pinnableslice_t = Pinned where beside = GetScratch;
    /// A pinned value.
    rocksdb_pinnable_handle_t = Pinned where beside = GetScratch;
}

c_destructors! {
    /// Frees the values and errors of a batched read.
    rocksdb_pinnable_multi_get_destroy(rocksdb_pinnable_multi_get_t);
    /// Releases a pinned value.
    rocksdb_pinnableslice_destroy(rocksdb_pinnableslice_t);
    /// Releases a pinned value.
    rocksdb_pinnable_handle_destroy(rocksdb_pinnable_handle_t);
}

impl From<Result<Option<Value>>> for Answer {
    fn from(result: Result<Option<Value>>) -> Answer {
        match result {
            Ok(None) => Answer::Missing,
            Ok(Some(value)) => Answer::Value(value),
            Err(error) => {
                let text = error.to_string().replace('\0', " ");
                Answer::Error(CString::new(text).unwrap_or_default())
            }
        }
    }
}

/// A byte slice of the program.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rocksdb_slice_t {
    /// Pointer to the first byte.
    pub data: *const c_char,
    /// Length in bytes.
    pub size: usize,
}

/// A copy of the value of `key` that the program frees; null and length 0 if there is none.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
// As for `get_pinned`, whose thread-local state it uses.
#[inline(never)]
pub(crate) unsafe extern "C" fn get_copy(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    keylen: usize,
    vallen: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (options, key) = (of(options), bytes(key, keylen));
        let mut len = 0;
        let copy = report_ptr(errptr, || {
            with_own::<rocksdb_pinnableslice_t, _>(|own| {
                find_copy(own, family, options, key, &mut len)
            })
        });
        store(vallen, len);
        copy
    }
}

/// A copy of the value of `key` from `malloc`, or null. `len` is set to its length.
#[inline(always)]
fn find_copy(
    own: &Own<GetScratch>,
    family: &Family,
    options: &Checked<ReadOptions>,
    key: &[u8],
    len: &mut usize,
) -> Result<*mut c_char> {
    let found = family.find_in(key, options.checked()?, own.beside());
    match &found {
        Ok(Found::Value(value)) if !value.is_merged() => {
            *len = value.len();
            Ok(malloc_bytes(value))
        }
        Ok(Found::Missing) => Ok(std::ptr::null_mut()),
        _ => copy_of_other(found, len),
    }
}

/// The copy of a result that is neither a pinned value nor nothing.
#[cold]
#[inline(never)]
fn copy_of_other(found: Result<Found>, len: &mut usize) -> Result<*mut c_char> {
    let value = found?.into_value()?;
    Ok(value.map_or(std::ptr::null_mut(), |value| {
        *len = value.len();
        malloc_value(value)
    }))
}

/// A copy of the value that `find` returns, which the program frees; null and length 0 if there is none.
///
/// # Safety
///
/// The output pointers are valid as `c.h` requires.
#[inline]
pub(crate) unsafe fn copied(
    vallen: *mut usize,
    errptr: *mut *mut c_char,
    find: impl FnOnce() -> Result<Option<Value>>,
) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let found = report(errptr, find);
        store(vallen, found.as_ref().map_or(0, |value| value.len()));
        found.map_or(std::ptr::null_mut(), malloc_value)
    }
}

/// A handle for the value that `find` returns, or null.
///
/// # Safety
///
/// `errptr` is valid as `c.h` requires.
pub(crate) unsafe fn pinned(
    errptr: *mut *mut c_char,
    find: impl FnOnce() -> Result<Option<Value>>,
) -> *mut rocksdb_pinnableslice_t {
    // SAFETY: guaranteed by the caller.
    unsafe {
        report_ptr(errptr, || {
            Ok(find()?.map_or(std::ptr::null_mut(), |value| create(value.into())))
        })
    }
}

/// A handle for the value of `key`, or null.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
// One function for all variants, which does not unwind: each variant checks its handle and tail-calls
// this function, with its arguments still in registers and without a stack frame of its own.
#[inline(never)]
pub(crate) unsafe extern "C" fn get_pinned<H: Handle<Object = Pinned, Beside = GetScratch>>(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    keylen: usize,
    errptr: *mut *mut c_char,
) -> *mut H {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (options, key) = (of(options), bytes(key, keylen));
        report_ptr(errptr, || {
            with_own::<H, _>(|own| find_pinned(own, family, options, key))
        })
    }
}

/// A handle for the value of `key`, or null.
#[inline(always)]
fn find_pinned<H: Handle<Object = Pinned, Beside = GetScratch>>(
    own: &Own<GetScratch>,
    family: &Family,
    options: &Checked<ReadOptions>,
    key: &[u8],
) -> Result<*mut H> {
    let found = ManuallyDrop::new(family.find_in(key, options.checked()?, own.beside()));
    let value = match &*found {
        Ok(Found::Value(value)) => value,
        // Nothing to drop.
        Ok(Found::Missing) => return Ok(std::ptr::null_mut()),
        _ => return no_plain_value(ManuallyDrop::into_inner(found)),
    };
    // Location and shell come first, so that the value moves only once, out of the engine's result.
    let (data, len) = place(value);
    let shell = own.vacant();
    // SAFETY: the result is neither used nor dropped afterwards.
    let value = unsafe { std::ptr::read(value) };
    let pin = Pin::Value(value);
    Ok(shell.fill(Pinned { data, len, pin }))
}

/// The result of a get that found neither a plain value nor nothing: the error, or a handle of an
/// entity's default column.
#[cold]
#[inline(never)]
fn no_plain_value<H: Handle<Object = Pinned>>(found: Result<Found>) -> Result<*mut H> {
    let value = found?.into_value()?;
    Ok(value.map_or(std::ptr::null_mut(), |value| create(value.into())))
}

/// Returns the bytes of a value and stores their length; null for a null handle.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
#[inline]
unsafe fn view<H: Handle<Object = Pinned>>(value: *const H, len: *mut usize) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let Some(value) = maybe(value) else {
            store(len, 0);
            return std::ptr::null();
        };
        store(len, value.len);
        value.data.cast()
    }
}

/// Copies the value of `key` to the program's buffer and returns true, if it fits.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn get_into(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: &[u8],
    (buffer, buffer_size): (*mut c_char, usize),
    (vallen, found): (*mut usize, *mut c_uchar),
    errptr: *mut *mut c_char,
) -> c_uchar {
    // Returns the length of `value`, and copies it if it fits.
    let take = |value: &[u8]| {
        if value.len() <= buffer_size && !buffer.is_null() {
            // SAFETY: guaranteed by the caller; no more bytes are copied than the buffer holds.
            unsafe {
                std::ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), value.len());
            }
        }
        value.len()
    };
    // SAFETY: guaranteed by the caller.
    unsafe {
        let options = of(options);
        let len = report(errptr, || {
            with_own::<rocksdb_pinnableslice_t, _>(|own| {
                let result = family.find_in(key, options.checked()?, own.beside());
                match &result {
                    Ok(Found::Value(value)) => Ok(Some(take(value))),
                    Ok(Found::Missing) => Ok(None),
                    _ => Ok(result?.into_value()?.map(|value| take(&value))),
                }
            })
        });
        store(found, len.is_some().into());
        store(vallen, len.unwrap_or(0));
        len.is_some_and(|len| len <= buffer_size).into()
    }
}

/// The keys of two C arrays.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires.
pub(crate) unsafe fn keys<'a>(
    count: usize,
    keys: *const *const c_char,
    sizes: *const usize,
) -> Vec<&'a [u8]> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let keys = array(keys, count).iter().zip(array(sizes, count));
        keys.map(|(key, size)| bytes(*key, *size)).collect()
    }
}

/// The families of a C array.
///
/// # Safety
///
/// The array is valid as `c.h` requires.
pub(crate) unsafe fn families<'a>(
    count: usize,
    handles: *const *const rocksdb_column_family_handle_t,
) -> Vec<&'a Family> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let handles = array(handles, count).iter();
        handles.map(|handle| of(*handle)).collect()
    }
}

/// The output arrays of `rocksdb_multi_get` and its variants.
pub(crate) struct Lists {
    pub(crate) values: *mut *mut c_char,
    pub(crate) sizes: *mut usize,
    pub(crate) errors: *mut *mut c_char,
}

impl Lists {
    /// Stores the results for all keys.
    ///
    /// # Safety
    ///
    /// The arrays have space for them.
    pub(crate) unsafe fn put_all(&self, results: Vec<Result<Option<Value>>>) {
        for (at, result) in results.into_iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { self.put(at, result) };
        }
    }

    /// Stores the result for the key `at`.
    ///
    /// # Safety
    ///
    /// The arrays have space for it.
    unsafe fn put(&self, at: usize, result: Result<Option<Value>>) {
        // SAFETY: guaranteed by the caller. The arrays are uninitialized, so no earlier text is freed.
        unsafe {
            self.errors.add(at).write(std::ptr::null_mut());
            let (value, size) = match result {
                Ok(Some(value)) => {
                    let size = value.len();
                    (malloc_value(value), size)
                }
                Ok(None) => (std::ptr::null_mut(), 0),
                Err(error) => {
                    save(self.errors.add(at), &error);
                    (std::ptr::null_mut(), 0)
                }
            };
            self.values.add(at).write(value);
            self.sizes.add(at).write(size);
        }
    }
}

/// Reads `keys` of `families` (one for each key) at one sequence number. `sorted` means that the keys
/// are in ascending order.
pub(crate) fn multi_get(
    db: &Db,
    families: &[&Family],
    keys: &[&[u8]],
    options: Result<&ReadOptions>,
    sorted: bool,
) -> Vec<Result<Option<Value>>> {
    let read = caught(|| {
        let all: Vec<(&Family, &[u8])> =
            families.iter().copied().zip(keys.iter().copied()).collect();
        Ok(db.multi_get_in(&all, options?, sorted))
    });
    read.unwrap_or_else(|error| keys.iter().map(|_| Err(error.clone())).collect())
}

/// Batched reads of pinned values.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires.
unsafe fn batched(
    (db, sorted): (*mut rocksdb_t, bool),
    family: &Family,
    options: *const rocksdb_readoptions_t,
    keys: &[&[u8]],
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let families = vec![family; keys.len()];
        let db = &of(db.cast_const()).db;
        let results = multi_get(db, &families, keys, of(options).checked(), sorted);
        for (at, result) in results.into_iter().enumerate() {
            errs.add(at).write(std::ptr::null_mut());
            let value = match result {
                Ok(found) => found.map_or(std::ptr::null_mut(), |value| create(value.into())),
                Err(error) => {
                    save(errs.add(at), &error);
                    std::ptr::null_mut()
                }
            };
            values.add(at).write(value);
        }
    }
}

c_functions! {
    /// Returns a copy of the value of `key` in the default family, to be freed by the caller, or null.
    fn rocksdb_get(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        get_copy(of(db.cast_const()).db.default_family(), options, key, keylen, vallen, errptr)
    }
    /// The same for a column family.
    fn rocksdb_get_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        get_copy(of(column_family.cast_const()), options, key, keylen, vallen, errptr)
    }
    /// Returns the pinned value of `key` in the default family, or null.
    fn rocksdb_get_pinned(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t {
        get_pinned(of(db.cast_const()).db.default_family(), options, key, keylen, errptr)
    }
    /// The same for a column family.
    fn rocksdb_get_pinned_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t {
        get_pinned(of(column_family.cast_const()), options, key, keylen, errptr)
    }
    /// `rocksdb_get_pinned` with a handle of another type.
    fn rocksdb_get_pinned_v2(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnable_handle_t {
        get_pinned(of(db.cast_const()).db.default_family(), options, key, keylen, errptr)
    }
    /// `rocksdb_get_pinned_cf` with a handle of another type.
    fn rocksdb_get_pinned_cf_v2(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnable_handle_t {
        get_pinned(of(column_family.cast_const()), options, key, keylen, errptr)
    }
    /// Returns the bytes of a value, valid as long as its handle.
    fn rocksdb_pinnableslice_value(t: *const rocksdb_pinnableslice_t, vlen: *mut usize) -> *const c_char {
        view(t, vlen)
    }
    /// Returns the bytes of a value, valid as long as its handle.
    fn rocksdb_pinnable_handle_get_value(handle: *const rocksdb_pinnable_handle_t, vallen: *mut usize) -> *const c_char {
        view(handle, vallen)
    }
    /// Copies the value of `key` to `buffer` if it fits, and then returns 1. `*vallen` is set to its
    /// length.
    fn rocksdb_get_into_buffer(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        buffer: *mut c_char,
        buffer_size: usize,
        vallen: *mut usize,
        found: *mut c_uchar,
        errptr: *mut *mut c_char,
    ) -> c_uchar {
        let family = of(db.cast_const()).db.default_family();
        get_into(family, options, bytes(key, keylen), (buffer, buffer_size), (vallen, found), errptr)
    }
    /// The same for a column family.
    fn rocksdb_get_into_buffer_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        buffer: *mut c_char,
        buffer_size: usize,
        vallen: *mut usize,
        found: *mut c_uchar,
        errptr: *mut *mut c_char,
    ) -> c_uchar {
        let family = of(column_family.cast_const());
        get_into(family, options, bytes(key, keylen), (buffer, buffer_size), (vallen, found), errptr)
    }

    /// Reads several keys of the default family: copies, lengths and errors.
    fn rocksdb_multi_get(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        let families = vec![of(db.cast_const()).db.default_family(); keys.len()];
        let lists = Lists { values: values_list, sizes: values_list_sizes, errors: errs };
        lists.put_all(multi_get(&of(db.cast_const()).db, &families, &keys, of(options).checked(), false));
    }
    /// Reads several keys, with a family for each key.
    fn rocksdb_multi_get_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        let families = families(num_keys, column_families);
        let lists = Lists { values: values_list, sizes: values_list_sizes, errors: errs };
        lists.put_all(multi_get(&of(db.cast_const()).db, &families, &keys, of(options).checked(), false));
    }
    /// Reads several keys of one family; the values are pinned.
    fn rocksdb_batched_multi_get_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values: *mut *mut rocksdb_pinnableslice_t,
        errs: *mut *mut c_char,
        sorted_input: bool,
    ) {
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        batched((db, sorted_input), of(column_family.cast_const()), options, &keys, values, errs);
    }
    /// The same, with keys as slices.
    fn rocksdb_batched_multi_get_cf_slice(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const rocksdb_slice_t,
        values: *mut *mut rocksdb_pinnableslice_t,
        errs: *mut *mut c_char,
        sorted_input: bool,
    ) {
        let keys: Vec<&[u8]> = array(keys_list, num_keys).iter().map(|key| bytes(key.data, key.size)).collect();
        batched((db, sorted_input), of(column_family.cast_const()), options, &keys, values, errs);
    }
    /// The same, with all results behind one handle.
    fn rocksdb_batched_multi_get_pinned_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: usize,
        keys: *const rocksdb_slice_t,
        sorted_input: c_uchar,
    ) -> *mut rocksdb_pinnable_multi_get_t {
        let keys: Vec<&[u8]> = array(keys, num_keys).iter().map(|key| bytes(key.data, key.size)).collect();
        let families: Vec<&Family> = vec![of(column_family.cast_const()); keys.len()];
        let db = &of(db.cast_const()).db;
        let results = multi_get(db, &families, &keys, of(options).checked(), sorted_input != 0);
        create(results.into_iter().map(Answer::from).collect())
    }
    /// Returns the number of keys.
    fn rocksdb_pinnable_multi_get_count(multi_get: *const rocksdb_pinnable_multi_get_t) -> usize {
        of(multi_get).len()
    }
    /// Returns the result for a key: one of `rocksdb_pinnable_multi_get_...`. The pointer to the
    /// value or the error is valid as long as the handle; the other is set to null.
    fn rocksdb_pinnable_multi_get_result(
        multi_get: *const rocksdb_pinnable_multi_get_t,
        index: usize,
        value: *mut *const c_char,
        value_size: *mut usize,
        error: *mut *const c_char,
        error_size: *mut usize,
    ) -> c_int {
        let nothing: &[u8] = &[];
        let (result, found, failed) = match of(multi_get).get(index) {
            None => (rocksdb_pinnable_multi_get_out_of_bounds, None, None),
            Some(Answer::Missing) => (rocksdb_pinnable_multi_get_not_found, None, None),
            Some(Answer::Value(bytes)) => (rocksdb_pinnable_multi_get_found, Some(&**bytes), None),
            Some(Answer::Error(text)) => (rocksdb_pinnable_multi_get_error, None, Some(text.to_bytes())),
        };
        let start = |bytes: Option<&[u8]>| bytes.map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast());
        store(value, start(found));
        store(value_size, found.unwrap_or(nothing).len());
        store(error, start(failed));
        store(error_size, failed.unwrap_or(nothing).len());
        result
    }
}
