//! Write batches with an index, which can be read before they are written.

use std::ffi::{c_char, c_int, c_uchar, c_void};

use cairn_db::Family;
use cairn_indexed::IndexedBatch;
use cairn_types::Error;

use crate::batch::{Handlers, iterate, joined};
use crate::callbacks::comparator::rocksdb_comparator_t;
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{bytes, caught, not_built, report, store};
use crate::handle::{create, maybe, of, take};
use crate::iter::{Cursor, create_iter, rocksdb_iterator_t};
use crate::options::{rocksdb_options_t, rocksdb_readoptions_t, rocksdb_writeoptions_t};
use crate::reads::{copied, pinned, rocksdb_pinnableslice_t};

handles! {
    /// A batch of writes that is applied atomically and can be read before it is written.
    rocksdb_writebatch_wi_t = IndexedBatch;
}

c_destructors! {
    /// Frees a batch. Iterators over it remain valid.
    rocksdb_writebatch_wi_destroy(rocksdb_writebatch_wi_t);
}

/// The family whose writes apply to a base iterator over `base` for which no family is given: as in RocksDB, the default
/// family, provided that its keys have the same order.
fn implied(base: &Family) -> Family {
    let default = base.default_family();
    match base.options().comparator.name() == default.options().comparator.name() {
        true => default,
        false => base.clone(),
    }
}

/// An iterator over `base` with the writes of `batch` to `family` applied, which takes ownership of `base`.
///
/// # Safety
///
/// The handles are valid as `c.h` requires.
unsafe fn over(
    batch: *mut rocksdb_writebatch_wi_t,
    base: *mut rocksdb_iterator_t,
    family: Option<&Family>,
    options: *const rocksdb_readoptions_t,
) -> *mut rocksdb_iterator_t {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let batch = of(batch.cast_const());
        let mut opening = 0;
        let cursor = match take(base).into_cursor() {
            Cursor::Family(iter) => {
                let family = family.map_or_else(|| implied(iter.family()), Family::clone);
                opening = iter.family().opening();
                let options = maybe(options).map(|options| (**options).clone());
                let options = options.unwrap_or_default();
                let made = caught(|| Ok(Box::new(batch.iter_over(&family, iter, &options))));
                made.map_or_else(Cursor::Refused, Cursor::Joined)
            }
            Cursor::Joined(_) => Cursor::Refused(Error::invalid_argument(
                "the base of an iterator over a batch must be an iterator over a database",
            )),
            refused @ Cursor::Refused(_) => refused,
        };
        create_iter(cursor, opening)
    }
}

/// Marks the batch as unwritable because of a range deletion, which batches with an index do not
/// support, as in RocksDB. These functions have no `errptr`, so the write of the batch reports the
/// error.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
unsafe fn no_ranges(batch: *mut rocksdb_writebatch_wi_t, function: &str) {
    let what = "range deletions in write batches with an index";
    // SAFETY: guaranteed by the caller.
    unsafe { of(batch.cast_const()) }.refuse(not_built(function, what));
}

c_functions! {
    /// Creates an empty batch. With `overwrite_keys`, it keeps only the last write of a key.
    fn rocksdb_writebatch_wi_create(_reserved_bytes: usize, overwrite_keys: c_uchar) -> *mut rocksdb_writebatch_wi_t {
        create(IndexedBatch::new(overwrite_keys != 0))
    }
    /// Creates an empty batch whose default family has another comparator.
    fn rocksdb_writebatch_wi_create_with_params(
        backup_index_comparator: *mut rocksdb_comparator_t,
        _reserved_bytes: usize,
        overwrite_key: c_uchar,
        max_bytes: usize,
        protection_bytes_per_key: usize,
    ) -> *mut rocksdb_writebatch_wi_t {
        let order = maybe(backup_index_comparator.cast_const()).cloned().unwrap_or_default();
        let batch = IndexedBatch::with_order(order, overwrite_key != 0);
        batch.set_max_bytes(max_bytes);
        if let Err(error) = batch.set_protected(protection_bytes_per_key > 0) {
            batch.refuse(error);
        }
        create(batch)
    }
    /// Removes all records.
    fn rocksdb_writebatch_wi_clear(b: *mut rocksdb_writebatch_wi_t) {
        of(b.cast_const()).clear();
    }
    /// Returns the number of operations in the batch.
    fn rocksdb_writebatch_wi_count(b: *mut rocksdb_writebatch_wi_t) -> c_int {
        c_int::try_from(of(b.cast_const()).count()).unwrap_or(c_int::MAX)
    }
    /// Returns the serialized form, which is valid until the batch changes.
    fn rocksdb_writebatch_wi_data(b: *mut rocksdb_writebatch_wi_t, size: *mut usize) -> *const c_char {
        of(b.cast_const()).with_batch(|batch| {
            store(size, batch.data().len());
            batch.data().as_ptr().cast()
        })
    }
    /// Sets a key to a value in the default family.
    fn rocksdb_writebatch_wi_put(b: *mut rocksdb_writebatch_wi_t, key: *const c_char, klen: usize, val: *const c_char, vlen: usize) {
        of(b.cast_const()).put(bytes(key, klen), bytes(val, vlen));
    }
    /// Sets a key to a value in a family.
    fn rocksdb_writebatch_wi_put_cf(b: *mut rocksdb_writebatch_wi_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize, val: *const c_char, vlen: usize) {
        of(b.cast_const()).put_in(of(column_family.cast_const()), bytes(key, klen), bytes(val, vlen));
    }
    /// Sets a key to a value in the default family, given in pieces.
    fn rocksdb_writebatch_wi_putv(b: *mut rocksdb_writebatch_wi_t, num_keys: c_int, keys_list: *const *const c_char, keys_list_sizes: *const usize, num_values: c_int, values_list: *const *const c_char, values_list_sizes: *const usize) {
        of(b.cast_const()).put(&joined(num_keys, keys_list, keys_list_sizes), &joined(num_values, values_list, values_list_sizes));
    }
    /// Sets a key to a value in a family, given in pieces.
    fn rocksdb_writebatch_wi_putv_cf(b: *mut rocksdb_writebatch_wi_t, column_family: *mut rocksdb_column_family_handle_t, num_keys: c_int, keys_list: *const *const c_char, keys_list_sizes: *const usize, num_values: c_int, values_list: *const *const c_char, values_list_sizes: *const usize) {
        of(b.cast_const()).put_in(of(column_family.cast_const()), &joined(num_keys, keys_list, keys_list_sizes), &joined(num_values, values_list, values_list_sizes));
    }
    /// Adds a merge operand to a key in the default family.
    fn rocksdb_writebatch_wi_merge(b: *mut rocksdb_writebatch_wi_t, key: *const c_char, klen: usize, val: *const c_char, vlen: usize) {
        of(b.cast_const()).merge(bytes(key, klen), bytes(val, vlen));
    }
    /// Adds a merge operand to a key in a family.
    fn rocksdb_writebatch_wi_merge_cf(b: *mut rocksdb_writebatch_wi_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize, val: *const c_char, vlen: usize) {
        of(b.cast_const()).merge_in(of(column_family.cast_const()), bytes(key, klen), bytes(val, vlen));
    }
    /// Adds a merge operand to a key in the default family, given in pieces.
    fn rocksdb_writebatch_wi_mergev(b: *mut rocksdb_writebatch_wi_t, num_keys: c_int, keys_list: *const *const c_char, keys_list_sizes: *const usize, num_values: c_int, values_list: *const *const c_char, values_list_sizes: *const usize) {
        of(b.cast_const()).merge(&joined(num_keys, keys_list, keys_list_sizes), &joined(num_values, values_list, values_list_sizes));
    }
    /// Adds a merge operand to a key in a family, given in pieces.
    fn rocksdb_writebatch_wi_mergev_cf(b: *mut rocksdb_writebatch_wi_t, column_family: *mut rocksdb_column_family_handle_t, num_keys: c_int, keys_list: *const *const c_char, keys_list_sizes: *const usize, num_values: c_int, values_list: *const *const c_char, values_list_sizes: *const usize) {
        of(b.cast_const()).merge_in(of(column_family.cast_const()), &joined(num_keys, keys_list, keys_list_sizes), &joined(num_values, values_list, values_list_sizes));
    }
    /// Deletes a key in the default family.
    fn rocksdb_writebatch_wi_delete(b: *mut rocksdb_writebatch_wi_t, key: *const c_char, klen: usize) {
        of(b.cast_const()).delete(bytes(key, klen));
    }
    /// Deletes a key in a family.
    fn rocksdb_writebatch_wi_delete_cf(b: *mut rocksdb_writebatch_wi_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize) {
        of(b.cast_const()).delete_in(of(column_family.cast_const()), bytes(key, klen));
    }
    /// Deletes a key in the default family, given in pieces.
    fn rocksdb_writebatch_wi_deletev(b: *mut rocksdb_writebatch_wi_t, num_keys: c_int, keys_list: *const *const c_char, keys_list_sizes: *const usize) {
        of(b.cast_const()).delete(&joined(num_keys, keys_list, keys_list_sizes));
    }
    /// Deletes a key in a family, given in pieces.
    fn rocksdb_writebatch_wi_deletev_cf(b: *mut rocksdb_writebatch_wi_t, column_family: *mut rocksdb_column_family_handle_t, num_keys: c_int, keys_list: *const *const c_char, keys_list_sizes: *const usize) {
        of(b.cast_const()).delete_in(of(column_family.cast_const()), &joined(num_keys, keys_list, keys_list_sizes));
    }
    /// Deletes a key of the default family that must have been put exactly once.
    fn rocksdb_writebatch_wi_singledelete(b: *mut rocksdb_writebatch_wi_t, key: *const c_char, klen: usize) {
        of(b.cast_const()).single_delete(bytes(key, klen));
    }
    /// Deletes a key of a family that must have been put exactly once.
    fn rocksdb_writebatch_wi_singledelete_cf(b: *mut rocksdb_writebatch_wi_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize) {
        of(b.cast_const()).single_delete_in(of(column_family.cast_const()), bytes(key, klen));
    }
    /// Not supported: range deletions in batches with an index. The batch can no longer be written.
    fn rocksdb_writebatch_wi_delete_range(b: *mut rocksdb_writebatch_wi_t, start_key: *const c_char, start_key_len: usize, end_key: *const c_char, end_key_len: usize) {
        let _ = (start_key, start_key_len, end_key, end_key_len);
        no_ranges(b, "rocksdb_writebatch_wi_delete_range");
    }
    /// Not supported: range deletions in batches with an index. The batch can no longer be written.
    fn rocksdb_writebatch_wi_delete_range_cf(b: *mut rocksdb_writebatch_wi_t, column_family: *mut rocksdb_column_family_handle_t, start_key: *const c_char, start_key_len: usize, end_key: *const c_char, end_key_len: usize) {
        let _ = (column_family, start_key, start_key_len, end_key, end_key_len);
        no_ranges(b, "rocksdb_writebatch_wi_delete_range_cf");
    }
    /// Not supported: range deletions in batches with an index. The batch can no longer be written.
    fn rocksdb_writebatch_wi_delete_rangev(b: *mut rocksdb_writebatch_wi_t, num_keys: c_int, start_keys_list: *const *const c_char, start_keys_list_sizes: *const usize, end_keys_list: *const *const c_char, end_keys_list_sizes: *const usize) {
        let _ = (num_keys, start_keys_list, start_keys_list_sizes, end_keys_list, end_keys_list_sizes);
        no_ranges(b, "rocksdb_writebatch_wi_delete_rangev");
    }
    /// Not supported: range deletions in batches with an index. The batch can no longer be written.
    fn rocksdb_writebatch_wi_delete_rangev_cf(b: *mut rocksdb_writebatch_wi_t, column_family: *mut rocksdb_column_family_handle_t, num_keys: c_int, start_keys_list: *const *const c_char, start_keys_list_sizes: *const usize, end_keys_list: *const *const c_char, end_keys_list_sizes: *const usize) {
        let _ = (column_family, num_keys, start_keys_list, start_keys_list_sizes, end_keys_list, end_keys_list_sizes);
        no_ranges(b, "rocksdb_writebatch_wi_delete_rangev_cf");
    }
    /// Adds a blob that is written to the WAL only.
    fn rocksdb_writebatch_wi_put_log_data(b: *mut rocksdb_writebatch_wi_t, blob: *const c_char, len: usize) {
        of(b.cast_const()).put_log_data(bytes(blob, len));
    }
    /// Sets a save point.
    fn rocksdb_writebatch_wi_set_save_point(b: *mut rocksdb_writebatch_wi_t) {
        of(b.cast_const()).set_save_point();
    }
    /// Rolls back to the most recent save point and removes it.
    fn rocksdb_writebatch_wi_rollback_to_save_point(b: *mut rocksdb_writebatch_wi_t, errptr: *mut *mut c_char) {
        report(errptr, || of(b.cast_const()).rollback_to_save_point());
    }
    /// Calls the callbacks for the operations on the default family, in order.
    fn rocksdb_writebatch_wi_iterate(
        b: *mut rocksdb_writebatch_wi_t,
        state: *mut c_void,
        put: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>,
        deleted: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
    ) {
        // The callbacks may modify the batch, so they are given the records of a copy.
        let data = of(b.cast_const()).with_batch(|batch| batch.data().to_vec());
        let _ = iterate(&data, state, &Handlers { put, deleted, ..Handlers::default() });
    }
    /// Writes a batch atomically.
    fn rocksdb_write_writebatch_wi(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        wbwi: *mut rocksdb_writebatch_wi_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let batch = of(wbwi.cast_const());
            batch.write_to(&of(db.cast_const()).db, of(options).checked()?)
        });
    }
    /// Returns a copy of the value of a key of the default family in the batch alone; null if it has
    /// none.
    fn rocksdb_writebatch_wi_get_from_batch(
        wbwi: *mut rocksdb_writebatch_wi_t,
        options: *const rocksdb_options_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        let _ = options;
        copied(vallen, errptr, || of(wbwi.cast_const()).get(bytes(key, keylen)))
    }
    /// The same for a column family.
    fn rocksdb_writebatch_wi_get_from_batch_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        options: *const rocksdb_options_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        let _ = options;
        copied(vallen, errptr, || {
            of(wbwi.cast_const()).get_in(of(column_family.cast_const()), bytes(key, keylen))
        })
    }
    /// Returns a copy of the value that a key of the default family has in the batch and the database
    /// together.
    fn rocksdb_writebatch_wi_get_from_batch_and_db(
        wbwi: *mut rocksdb_writebatch_wi_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        copied(vallen, errptr, || {
            let family = of(db.cast_const()).db.default_family();
            of(wbwi.cast_const()).get_over(family, bytes(key, keylen), of(options).checked()?)
        })
    }
    /// The same for a column family.
    fn rocksdb_writebatch_wi_get_from_batch_and_db_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        copied(vallen, errptr, || {
            let family = of(column_family.cast_const());
            of(wbwi.cast_const()).get_over(family, bytes(key, keylen), of(options).checked()?)
        })
    }
    /// The same for the default family; the value is pinned.
    fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db(
        wbwi: *mut rocksdb_writebatch_wi_t,
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t {
        pinned(errptr, || {
            let family = of(db.cast_const()).db.default_family();
            of(wbwi.cast_const()).get_over(family, bytes(key, keylen), of(options).checked()?)
        })
    }
    /// The same for a family; the value is pinned.
    fn rocksdb_writebatch_wi_get_pinned_from_batch_and_db_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t {
        pinned(errptr, || {
            let family = of(column_family.cast_const());
            of(wbwi.cast_const()).get_over(family, bytes(key, keylen), of(options).checked()?)
        })
    }
    /// Creates an iterator over the base with the writes of the batch to the default family applied; if the comparator of
    /// the base's family differs, those to that family. It takes ownership of the base.
    fn rocksdb_writebatch_wi_create_iterator_with_base(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: *mut rocksdb_iterator_t,
    ) -> *mut rocksdb_iterator_t {
        over(wbwi, base_iterator, None, std::ptr::null())
    }
    /// The same, for a given family.
    fn rocksdb_writebatch_wi_create_iterator_with_base_cf(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: *mut rocksdb_iterator_t,
        cf: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        over(wbwi, base_iterator, Some(of(cf.cast_const())), std::ptr::null())
    }
    /// The same, with the read options of the base, whose bounds apply.
    fn rocksdb_writebatch_wi_create_iterator_with_base_readopts(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: *mut rocksdb_iterator_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t {
        over(wbwi, base_iterator, None, options)
    }
    /// The same, for a given family and with options.
    fn rocksdb_writebatch_wi_create_iterator_with_base_cf_readopts(
        wbwi: *mut rocksdb_writebatch_wi_t,
        base_iterator: *mut rocksdb_iterator_t,
        cf: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_readoptions_t,
    ) -> *mut rocksdb_iterator_t {
        over(wbwi, base_iterator, Some(of(cf.cast_const())), options)
    }
}
