//! The functions and constants of `lmdb.h` that the benchmarks need.
#![expect(
    unsafe_code,
    reason = "symbols of a C library have no types until we give them some"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;

use crate::function_table::function_table;

/// An opaque environment, transaction or cursor.
pub type Handle = *mut c_void;

/// `MDB_val`: bytes of the caller or of the map.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Val {
    pub len: usize,
    pub bytes: *mut c_void,
}

impl Val {
    /// No bytes, to be filled by a call.
    pub const NONE: Val = Val {
        len: 0,
        bytes: null_mut(),
    };

    /// The bytes of `slice`, which calls only read.
    #[inline]
    pub fn of(slice: &[u8]) -> Val {
        Val {
            len: slice.len(),
            bytes: slice.as_ptr().cast_mut().cast(),
        }
    }
}

/// `MDB_NOSYNC`: commits are not synced.
pub const NO_SYNC: c_uint = 0x1_0000;
/// `MDB_NOTLS`: read transactions belong to their handles instead of to threads.
pub const NO_TLS: c_uint = 0x20_0000;
/// `MDB_NORDAHEAD`: the system reads no pages ahead.
pub const NO_READ_AHEAD: c_uint = 0x80_0000;
/// `MDB_RDONLY`: a read transaction.
pub const READ_ONLY: c_uint = 0x2_0000;
/// `MDB_NOTFOUND`.
pub const NOT_FOUND: c_int = -30798;

/// Movements of a cursor: `MDB_cursor_op`.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum Move {
    First = 0,
    Last = 6,
    Next = 8,
    Prev = 12,
    SetRange = 17,
}

function_table! {
    /// The loaded functions of `lmdb.h`.
    Api;
    fn mdb_strerror(c_int) -> *const c_char;
    fn mdb_env_create(*mut Handle) -> c_int;
    fn mdb_env_set_mapsize(Handle, usize) -> c_int;
    fn mdb_env_set_maxreaders(Handle, c_uint) -> c_int;
    fn mdb_env_open(Handle, *const c_char, c_uint, c_uint) -> c_int;
    fn mdb_env_sync(Handle, c_int) -> c_int;
    fn mdb_env_close(Handle);
    fn mdb_txn_begin(Handle, Handle, c_uint, *mut Handle) -> c_int;
    fn mdb_txn_commit(Handle) -> c_int;
    fn mdb_txn_abort(Handle);
    fn mdb_txn_reset(Handle);
    fn mdb_txn_renew(Handle) -> c_int;
    fn mdb_dbi_open(Handle, *const c_char, c_uint, *mut c_uint) -> c_int;
    fn mdb_get(Handle, c_uint, *mut Val, *mut Val) -> c_int;
    fn mdb_put(Handle, c_uint, *mut Val, *mut Val, c_uint) -> c_int;
    fn mdb_del(Handle, c_uint, *mut Val, *mut Val) -> c_int;
    fn mdb_cursor_open(Handle, c_uint, *mut Handle) -> c_int;
    fn mdb_cursor_close(Handle);
    fn mdb_cursor_get(Handle, *mut Val, *mut Val, Move) -> c_int;
}
