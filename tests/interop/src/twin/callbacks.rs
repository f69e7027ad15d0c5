//! The C callbacks of the scripts: a merge operator, a comparator, a compaction filter.
//!
//! They have no state, so both libraries may call them from any thread.
#![expect(unsafe_code, reason = "callbacks are handed raw memory")]

use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ptr::null_mut;
use std::slice;

use super::api::{Api, Handle};

/// A merge operator that joins with commas and fails partial merges beyond 200 bytes.
pub fn joining(api: &Api) -> Handle {
    // SAFETY: the callbacks have the types of c.h and need no state.
    unsafe {
        (api.rocksdb_mergeoperator_create)(
            null_mut(),
            nothing,
            full_merge,
            partial_merge,
            delete_value,
            merge_name,
        )
    }
}

/// The reverse bytewise comparator.
pub fn reverse(api: &Api) -> Handle {
    // SAFETY: as above.
    unsafe { (api.rocksdb_comparator_create)(null_mut(), nothing, compare, order_name) }
}

/// A compaction filter that drops keys ending in 3 and changes the values of keys ending in 5.
pub fn filter(api: &Api) -> Handle {
    // SAFETY: as above.
    unsafe { (api.rocksdb_compactionfilter_create)(null_mut(), nothing, filtered, filter_name) }
}

thread_local! {
    /// The last value that the filter returned on this thread.
    static MARKED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn nothing(_: *mut c_void) {}

extern "C" fn merge_name(_: *mut c_void) -> *const c_char {
    c"twin.joining".as_ptr()
}

extern "C" fn order_name(_: *mut c_void) -> *const c_char {
    c"twin.reverse".as_ptr()
}

extern "C" fn filter_name(_: *mut c_void) -> *const c_char {
    c"twin.filter".as_ptr()
}

/// The bytes of a C string with a length.
///
/// # Safety
///
/// `length` bytes are readable at `start`, or `length` is zero.
unsafe fn at<'a>(start: *const c_char, length: usize) -> &'a [u8] {
    if length == 0 {
        return b"";
    }
    // SAFETY: guaranteed by the caller.
    unsafe { slice::from_raw_parts(start.cast(), length) }
}

/// A copy that [`delete_value`] frees, or that the library frees with `free`.
///
/// # Safety
///
/// `length` can be written to.
unsafe fn handed(value: &[u8], length: *mut usize) -> *mut c_char {
    // SAFETY: the allocation has at least one byte, and no more is written than it has.
    unsafe {
        let place = malloc(value.len().max(1)).cast::<u8>();
        assert!(!place.is_null(), "no memory for a callback's value");
        place.copy_from_nonoverlapping(value.as_ptr(), value.len());
        *length = value.len();
        place.cast()
    }
}

unsafe extern "C" {
    fn malloc(size: usize) -> *mut c_void;
    fn free(place: *mut c_void);
}

/// `first` and the operands, joined with commas.
///
/// # Safety
///
/// The arrays have `count` elements.
unsafe fn join(
    first: Option<&[u8]>,
    operands: *const *const c_char,
    lengths: *const usize,
    count: c_int,
) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = first.into_iter().collect();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: guaranteed by the caller.
        parts.push(unsafe { at(*operands.add(index), *lengths.add(index)) });
    }
    parts.join(&b","[..])
}

unsafe extern "C" fn full_merge(
    _: *mut c_void,
    _key: *const c_char,
    _key_length: usize,
    existing: *const c_char,
    existing_length: usize,
    operands: *const *const c_char,
    lengths: *const usize,
    count: c_int,
    success: *mut c_uchar,
    length: *mut usize,
) -> *mut c_char {
    // SAFETY: the arguments are those of c.h.
    unsafe {
        let first = (!existing.is_null()).then(|| at(existing, existing_length));
        *success = 1;
        handed(&join(first, operands, lengths, count), length)
    }
}

unsafe extern "C" fn partial_merge(
    _: *mut c_void,
    _key: *const c_char,
    _key_length: usize,
    operands: *const *const c_char,
    lengths: *const usize,
    count: c_int,
    success: *mut c_uchar,
    length: *mut usize,
) -> *mut c_char {
    // SAFETY: the arguments are those of c.h.
    unsafe {
        let joined = join(None, operands, lengths, count);
        *success = u8::from(joined.len() <= 200);
        // RocksDB copies the value even after a failure, so it must not be null.
        handed(if *success == 0 { b"" } else { &joined }, length)
    }
}

unsafe extern "C" fn delete_value(_: *mut c_void, value: *const c_char, _length: usize) {
    // SAFETY: allocated by `handed`.
    unsafe { free(value.cast_mut().cast()) }
}

unsafe extern "C" fn compare(
    _: *mut c_void,
    a: *const c_char,
    a_length: usize,
    b: *const c_char,
    b_length: usize,
) -> c_int {
    // SAFETY: the arguments are those of c.h.
    unsafe { at(b, b_length).cmp(at(a, a_length)) as c_int }
}

unsafe extern "C" fn filtered(
    _: *mut c_void,
    _level: c_int,
    key: *const c_char,
    key_length: usize,
    value: *const c_char,
    value_length: usize,
    new_value: *mut *mut c_char,
    new_length: *mut usize,
    changed: *mut c_uchar,
) -> c_uchar {
    // SAFETY: the arguments are those of c.h.
    unsafe {
        let value = at(value, value_length);
        match at(key, key_length).last() {
            Some(b'3') => return 1,
            Some(b'5') if !value.starts_with(b"F") => {
                // The library copies the value and does not free it: it stays until this thread's next
                // one.
                MARKED.with_borrow_mut(|marked| {
                    *marked = [b"F", value].concat();
                    *new_value = marked.as_mut_ptr().cast();
                    *new_length = marked.len();
                });
                *changed = 1;
            }
            _ => {}
        }
        0
    }
}
