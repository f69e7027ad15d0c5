//! Writes.

use std::ffi::c_char;

use cairn_db::WriteBatch;
use cairn_types::Result;

use crate::batch::rocksdb_writebatch_t;
use crate::database::{family_of, rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{bytes, report};
use crate::handle::of;
use crate::options::rocksdb_writeoptions_t;

/// Writes a batch filled by `fill`.
fn write_with(
    db: &crate::database::Database,
    options: &crate::options::Checked<cairn_options::WriteOptions>,
    fill: impl FnOnce(&mut WriteBatch),
) -> Result<()> {
    let mut batch = WriteBatch::new();
    fill(&mut batch);
    db.db.check_batch(&batch)?;
    db.db.write_with(&batch, options.checked()?)
}

c_functions! {
    /// Sets `key` to `val` in the default family.
    fn rocksdb_put(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let db = &of(db.cast_const()).db;
            db.put_with(bytes(key, keylen), bytes(val, vallen), of(options).checked()?)
        });
    }
    /// Sets `key` to `val` in a family.
    fn rocksdb_put_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let family = family_of(db, column_family)?;
            family.put_with(bytes(key, keylen), bytes(val, vallen), of(options).checked()?)
        });
    }
    /// Deletes `key` from the default family.
    fn rocksdb_delete(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            of(db.cast_const()).db.delete_with(bytes(key, keylen), of(options).checked()?)
        });
    }
    /// Deletes `key` from a family.
    fn rocksdb_delete_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let family = family_of(db, column_family)?;
            family.delete_with(bytes(key, keylen), of(options).checked()?)
        });
    }
    /// Deletes `key`, which must have been put exactly once since its last deletion.
    fn rocksdb_singledelete(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            write_with(of(db.cast_const()), of(options), |batch| batch.single_delete(bytes(key, keylen)))
        });
    }
    /// The same for a column family.
    fn rocksdb_singledelete_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let family = of(column_family.cast_const());
            write_with(of(db.cast_const()), of(options), |batch| {
                batch.single_delete_in(family, bytes(key, keylen));
            })
        });
    }
    /// Deletes the keys of a family in [`start_key`, `end_key`).
    fn rocksdb_delete_range_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        end_key: *const c_char,
        end_key_len: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let family = of(column_family.cast_const());
            let (begin, end) = (bytes(start_key, start_key_len), bytes(end_key, end_key_len));
            write_with(of(db.cast_const()), of(options), |batch| {
                batch.delete_range_in(family, begin, end);
            })
        });
    }
    /// Adds a merge operand to `key` in the default family.
    fn rocksdb_merge(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            of(db.cast_const()).db.merge_with(bytes(key, keylen), bytes(val, vallen), of(options).checked()?)
        });
    }
    /// Adds a merge operand to `key` in a family.
    fn rocksdb_merge_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let family = family_of(db, column_family)?;
            family.merge_with(bytes(key, keylen), bytes(val, vallen), of(options).checked()?)
        });
    }
    /// Writes a batch atomically.
    fn rocksdb_write(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            of(db.cast_const()).db.write_with(of(batch.cast_const()), of(options).checked()?)
        });
    }
}
