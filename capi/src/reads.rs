//! Point reads: by copy, pinned, into a buffer, several at once.

use std::ffi::{c_char, c_int, c_uchar};
use std::mem::ManuallyDrop;

use cairn_db::{Db, Family, Found, GetScratch, Value};
use cairn_options::ReadOptions;
use cairn_types::{Error, Result};

use crate::constants::{
    rocksdb_pinnable_multi_get_error, rocksdb_pinnable_multi_get_found,
    rocksdb_pinnable_multi_get_not_found, rocksdb_pinnable_multi_get_out_of_bounds,
};
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, bytes, malloc_bytes, report, report_ptr, save, store};
use crate::handle::{Handle, Own, create, maybe, of, with_own};
use crate::options::{Checked, rocksdb_readoptions_t};

/// A value and where it lies.
pub struct Pinned {
    data: *const u8,
    len: usize,
    /// Keeps the bytes where they are.
    #[expect(dead_code, reason = "it is held, not read")]
    value: Value,
}

/// Where the bytes of a value lie. They stay there when the value moves: it holds them in a block, a
/// memtable or a vector.
#[inline]
fn place(value: &[u8]) -> (*const u8, usize) {
    (value.as_ptr(), value.len())
}

impl From<Value> for Pinned {
    fn from(value: Value) -> Pinned {
        let (data, len) = place(&value);
        Pinned { data, len, value }
    }
}

/// The answer for one key of a batch.
pub enum Answer {
    /// It has no value.
    Missing,
    /// Its value.
    Value(Value),
    /// Why it could not be read.
    Error(String),
}

handles! {
    /// The answers of a batch of reads.
    rocksdb_pinnable_multi_get_t = Vec<Answer>;
    /// A value where it lies.
    rocksdb_pinnableslice_t = Pinned where beside = GetScratch;
    /// A value where it lies.
    rocksdb_pinnable_handle_t = Pinned where beside = GetScratch;
}

c_destructors! {
    /// Destroys the values of a batch, and its errors.
    rocksdb_pinnable_multi_get_destroy(rocksdb_pinnable_multi_get_t);
    /// Destroys a value.
    rocksdb_pinnableslice_destroy(rocksdb_pinnableslice_t);
    /// Destroys a value.
    rocksdb_pinnable_handle_destroy(rocksdb_pinnable_handle_t);
}

impl From<Result<Option<Value>>> for Answer {
    fn from(result: Result<Option<Value>>) -> Answer {
        match result {
            Ok(None) => Answer::Missing,
            Ok(Some(value)) => Answer::Value(value),
            Err(error) => Answer::Error(error.to_string()),
        }
    }
}

/// Some bytes of the program's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rocksdb_slice_t {
    /// The first byte.
    pub data: *const c_char,
    /// How many.
    pub size: usize,
}

/// The value of `key` as a copy that the program frees; null and length 0 without one.
///
/// # Safety
///
/// The arguments are what `c.h` says.
unsafe fn get_copy(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: &[u8],
    vallen: *mut usize,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: the caller's promise.
    unsafe {
        let found = report(errptr, || family.get_with(key, of(options).checked()?));
        store(vallen, found.as_ref().map_or(0, |value| value.len()));
        found.map_or(std::ptr::null_mut(), |value| malloc_bytes(&value))
    }
}

/// A handle of the value of `key`, or null.
///
/// # Safety
///
/// The arguments are what `c.h` says.
// One function for all forms, in whose place nothing can unwind: each form looks at its handle and goes
// on here with what it was given still in registers, without a frame of its own.
#[inline(never)]
unsafe extern "C" fn get_pinned<H: Handle<Object = Pinned, Beside = GetScratch>>(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: *const c_char,
    keylen: usize,
    errptr: *mut *mut c_char,
) -> *mut H {
    // SAFETY: the caller's promise.
    unsafe {
        let (options, key) = (of(options), bytes(key, keylen));
        report_ptr(errptr, || {
            with_own::<H, _>(|own| find_pinned(own, family, options, key))
        })
    }
}

/// A handle of the value of `key`, or null.
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
        // Nothing is dropped with it.
        Ok(Found::Missing) => return Ok(std::ptr::null_mut()),
        _ => return no_plain_value(ManuallyDrop::into_inner(found)),
    };
    // Where it lies, and the shell, first: then the value moves once, from where the engine left it.
    let (data, len) = place(value);
    let shell = own.vacant();
    // SAFETY: what was found is neither used nor dropped behind this.
    let value = unsafe { std::ptr::read(value) };
    Ok(shell.fill(Pinned { data, len, value }))
}

/// What a get answers where it found neither a plain value nor nothing: the error, or a handle of the
/// default column of an entity.
#[cold]
#[inline(never)]
fn no_plain_value<H: Handle<Object = Pinned>>(found: Result<Found>) -> Result<*mut H> {
    let value = found?.into_value()?;
    Ok(value.map_or(std::ptr::null_mut(), |value| create(value.into())))
}

/// The bytes of a value and their number, at `len`; null for no handle.
///
/// # Safety
///
/// The arguments are what `c.h` says.
#[inline]
unsafe fn view<H: Handle<Object = Pinned>>(value: *const H, len: *mut usize) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe {
        let Some(value) = maybe(value) else {
            store(len, 0);
            return std::ptr::null();
        };
        store(len, value.len);
        value.data.cast()
    }
}

/// Copies the value of `key` to the program's buffer if it fits; returns whether it did.
///
/// # Safety
///
/// The arguments are what `c.h` says.
unsafe fn get_into(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: &[u8],
    (buffer, buffer_size): (*mut c_char, usize),
    (vallen, found): (*mut usize, *mut c_uchar),
    errptr: *mut *mut c_char,
) -> c_uchar {
    // SAFETY: the caller's promise; no more is copied than the buffer holds.
    unsafe {
        let value = report(errptr, || family.get_with(key, of(options).checked()?));
        store(found, value.is_some().into());
        store(vallen, value.as_ref().map_or(0, |value| value.len()));
        match value {
            Some(value) if value.len() <= buffer_size => {
                if !buffer.is_null() {
                    std::ptr::copy_nonoverlapping(value.as_ptr(), buffer.cast(), value.len());
                }
                1
            }
            _ => 0,
        }
    }
}

/// The keys of two C arrays.
///
/// # Safety
///
/// The arrays are what `c.h` says.
pub(crate) unsafe fn keys<'a>(
    count: usize,
    keys: *const *const c_char,
    sizes: *const usize,
) -> Vec<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe {
        let keys = array(keys, count).iter().zip(array(sizes, count));
        keys.map(|(key, size)| bytes(*key, *size)).collect()
    }
}

/// Where `rocksdb_multi_get` and kin put their answers.
struct Lists {
    values: *mut *mut c_char,
    sizes: *mut usize,
    errors: *mut *mut c_char,
}

impl Lists {
    /// Puts the answer for the key `at`.
    ///
    /// # Safety
    ///
    /// The lists have room for it.
    unsafe fn put(&self, at: usize, result: Result<Option<Value>>) {
        // SAFETY: the caller's promise. What stood in the lists is not a text: it is overwritten.
        unsafe {
            self.errors.add(at).write(std::ptr::null_mut());
            let (value, size) = match result {
                Ok(Some(value)) => (malloc_bytes(&value), value.len()),
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

/// Answers for `keys` of `families` (one each), at one point in time. `sorted` promises that the keys
/// ascend.
pub(crate) fn multi_get(
    db: &Db,
    families: &[&Family],
    keys: &[&[u8]],
    options: Result<&ReadOptions>,
    sorted: bool,
) -> Vec<Result<Option<Value>>> {
    match options {
        Ok(options) => {
            let all: Vec<(&Family, &[u8])> =
                families.iter().copied().zip(keys.iter().copied()).collect();
            db.multi_get_in(&all, options, sorted)
        }
        Err(error) => keys.iter().map(|_| Err(Error::clone(&error))).collect(),
    }
}

/// The batched forms: pinned values.
///
/// # Safety
///
/// The arrays are what `c.h` says.
unsafe fn batched(
    (db, sorted): (*mut rocksdb_t, bool),
    family: &Family,
    options: *const rocksdb_readoptions_t,
    keys: &[&[u8]],
    values: *mut *mut rocksdb_pinnableslice_t,
    errs: *mut *mut c_char,
) {
    // SAFETY: the caller's promise.
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
    /// The value of `key` in the default family, copied to memory that the program frees, or null.
    fn rocksdb_get(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        get_copy(of(db.cast_const()).db.default_family(), options, bytes(key, keylen), vallen, errptr)
    }
    /// The same in a family.
    fn rocksdb_get_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        get_copy(of(column_family.cast_const()), options, bytes(key, keylen), vallen, errptr)
    }
    /// The value of `key` in the default family where it lies, or null.
    fn rocksdb_get_pinned(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t {
        get_pinned(of(db.cast_const()).db.default_family(), options, key, keylen, errptr)
    }
    /// The same in a family.
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
    /// The bytes of a value, as long as its handle lives.
    fn rocksdb_pinnableslice_value(t: *const rocksdb_pinnableslice_t, vlen: *mut usize) -> *const c_char {
        view(t, vlen)
    }
    /// The bytes of a value, as long as its handle lives.
    fn rocksdb_pinnable_handle_get_value(handle: *const rocksdb_pinnable_handle_t, vallen: *mut usize) -> *const c_char {
        view(handle, vallen)
    }
    /// Copies the value of `key` to `buffer` if it fits: 1 if it did. `*vallen` is its length.
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
    /// The same in a family.
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

    /// The values of several keys of the default family: copies, lengths and errors.
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
        for (at, result) in multi_get(&of(db.cast_const()).db, &families, &keys, of(options).checked(), false).into_iter().enumerate() {
            lists.put(at, result);
        }
    }
    /// The values of several keys, each of a family of its own.
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
        let families: Vec<&Family> = array(column_families, num_keys).iter().map(|handle| of(*handle)).collect();
        let lists = Lists { values: values_list, sizes: values_list_sizes, errors: errs };
        for (at, result) in multi_get(&of(db.cast_const()).db, &families, &keys, of(options).checked(), false).into_iter().enumerate() {
            lists.put(at, result);
        }
    }
    /// The values of several keys of one family, where they lie.
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
    /// The same, with all answers behind one handle.
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
    /// How many keys were asked for.
    fn rocksdb_pinnable_multi_get_count(multi_get: *const rocksdb_pinnable_multi_get_t) -> usize {
        of(multi_get).len()
    }
    /// The outcome for a key: one of the numbers `rocksdb_pinnable_multi_get_...`. A value or an error lies
    /// where the pointers say as long as the handle lives; what there is not of it is null.
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
            Some(Answer::Error(text)) => (rocksdb_pinnable_multi_get_error, None, Some(text.as_bytes())),
        };
        let start = |bytes: Option<&[u8]>| bytes.map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast());
        store(value, start(found));
        store(value_size, found.unwrap_or(nothing).len());
        store(error, start(failed));
        store(error_size, failed.unwrap_or(nothing).len());
        result
    }
}
