//! The functions of `cairn/c.h`: features of Cairn that RocksDB's C interface lacks.
//!
//! The conventions are those of `rocksdb/c.h`. A null family handle means the default family, so there
//! is one function where RocksDB's interface has two.

pub mod awaited;
pub mod budget;
pub mod caches;
pub mod columns;
pub mod damage;
pub mod errors;
pub mod ingest;
pub mod multi_scan;
pub mod tiers;

use std::ffi::c_char;

use cairn_db::Family;

use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, bytes, store};
use crate::handle::{maybe, misuse, of};

/// The family of a handle; the default family for null.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn family<'a>(
    db: *mut rocksdb_t,
    handle: *mut rocksdb_column_family_handle_t,
) -> &'a Family {
    // SAFETY: guaranteed by the caller.
    unsafe { maybe(handle.cast_const()).unwrap_or_else(|| of(db.cast_const()).db.default_family()) }
}

/// The slices of two C arrays.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires.
unsafe fn strings<'a>(
    count: usize,
    list: *const *const c_char,
    sizes: *const usize,
) -> Vec<&'a [u8]> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let pairs = array(list, count).iter().zip(array(sizes, count));
        pairs.map(|(data, size)| bytes(*data, *size)).collect()
    }
}

/// The element `index` of a list; an index out of range aborts the process.
fn element<'a, T>(list: &'a [T], index: usize, function: &str) -> &'a T {
    present(list.get(index), list.len(), index, function)
}

/// The element `index` of a list of `len`; `None` aborts the process.
fn present<T>(element: Option<T>, len: usize, index: usize, function: &str) -> T {
    element.unwrap_or_else(|| misuse(&format!("{function}({index}): the list has {len} elements")))
}

/// Returns a pointer to `bytes` and stores their length.
///
/// # Safety
///
/// `len` is null or may be written to.
unsafe fn shown(bytes: &[u8], len: *mut usize) -> *const c_char {
    // SAFETY: guaranteed by the caller.
    unsafe { store(len, bytes.len()) };
    bytes.as_ptr().cast()
}
