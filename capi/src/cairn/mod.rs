//! The functions of `cairn/c.h`: what RocksDB's C interface lacks and Cairn has.
//!
//! The conventions are those of `rocksdb/c.h`. A null family handle stands for the default family,
//! so that there is one function where RocksDB's interface has two.

pub mod caches;
pub mod columns;
pub mod damage;
pub mod errors;
pub mod ingest;

use std::ffi::c_char;

use cairn_db::Family;

use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, bytes, store};
use crate::handle::{maybe, misuse, of};

/// The family behind a handle, or for null the default one.
///
/// # Safety
///
/// The arguments are what `c.h` says.
unsafe fn family<'a>(
    db: *mut rocksdb_t,
    handle: *mut rocksdb_column_family_handle_t,
) -> &'a Family {
    // SAFETY: the caller's promise.
    unsafe { maybe(handle.cast_const()).unwrap_or_else(|| of(db.cast_const()).db.default_family()) }
}

/// The byte strings of two C arrays.
///
/// # Safety
///
/// The arrays are what `c.h` says.
unsafe fn strings<'a>(
    count: usize,
    list: *const *const c_char,
    sizes: *const usize,
) -> Vec<&'a [u8]> {
    // SAFETY: the caller's promise.
    unsafe {
        let pairs = array(list, count).iter().zip(array(sizes, count));
        pairs.map(|(data, size)| bytes(*data, *size)).collect()
    }
}

/// The element `index` of a list that a program asks for; beyond the end is misuse.
fn element<'a, T>(list: &'a [T], index: usize, function: &str) -> &'a T {
    list.get(index).unwrap_or_else(|| {
        misuse(&format!(
            "{function}({index}): there are {} in the list",
            list.len()
        ))
    })
}

/// Shows `bytes` where they lie.
///
/// # Safety
///
/// `len` is null or may be written to.
unsafe fn shown(bytes: &[u8], len: *mut usize) -> *const c_char {
    // SAFETY: the caller's promise.
    unsafe { store(len, bytes.len()) };
    bytes.as_ptr().cast()
}
