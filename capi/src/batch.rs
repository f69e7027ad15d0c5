//! Write batches.

use std::ffi::{c_char, c_int, c_void};

use cairn_db::{Family, WriteBatch};
use cairn_format::batch::{BatchRef, Record};
use cairn_types::Result;

use crate::database::rocksdb_column_family_handle_t;
use crate::error::{array, bytes, report, store};
use crate::handle::{create, of, of_mut};

handles! {
    /// A batch of writes that is applied atomically.
    rocksdb_writebatch_t = WriteBatch;
}

c_functions! {
    /// Verifies the checksums of the writes of a batch that was created with protection.
    fn rocksdb_writebatch_verify_checksum(b: *mut rocksdb_writebatch_t, errptr: *mut *mut c_char) {
        report(errptr, || of(b.cast_const()).verify_checksums());
    }
}

c_destructors! {
    /// Frees a batch.
    rocksdb_writebatch_destroy(rocksdb_writebatch_t);
}

/// The slices described by two C arrays.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires, for as long as the slices are used.
unsafe fn parts<'a>(
    count: c_int,
    pieces: *const *const c_char,
    sizes: *const usize,
) -> Vec<&'a [u8]> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: guaranteed by the caller.
    unsafe {
        let pieces = array(pieces, count).iter().zip(array(sizes, count));
        pieces.map(|(piece, size)| bytes(*piece, *size)).collect()
    }
}

/// The concatenation of the slices described by two C arrays.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires.
pub(crate) unsafe fn joined(
    count: c_int,
    pieces: *const *const c_char,
    sizes: *const usize,
) -> Vec<u8> {
    // SAFETY: guaranteed by the caller.
    unsafe { parts(count, pieces, sizes) }.concat()
}

/// The family of a handle.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
unsafe fn family<'a>(handle: *mut rocksdb_column_family_handle_t) -> &'a Family {
    // SAFETY: guaranteed by the caller.
    unsafe { of(handle.cast_const()) }
}

/// `put(state, key, value)`.
type Put = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>;
/// `deleted(state, key)`.
type Deleted = Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>;
/// `put_cf(state, family, key, value)`.
type PutCf =
    Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>;
/// `deleted_cf(state, family, key)`.
type DeletedCf = Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize)>;

/// The callbacks of an iteration over a batch.
#[derive(Clone, Copy, Default)]
pub(crate) struct Handlers {
    pub put: Put,
    pub deleted: Deleted,
    pub put_cf: PutCf,
    pub deleted_cf: DeletedCf,
    pub merge_cf: PutCf,
    pub log_data: Deleted,
}

fn at(bytes: &[u8]) -> *const c_char {
    bytes.as_ptr().cast()
}

/// Calls the callback for one record and returns true to continue. As in RocksDB's C interface,
/// iteration stops at a record that has no callback: a record of a non-default family if the
/// callbacks take no family, a range deletion, or an entity. Single deletions are skipped, and so
/// are merge operands if the callbacks take no family.
///
/// # Safety
///
/// The callbacks may be called with `state`.
unsafe fn show(record: &Record<'_>, state: *mut c_void, handlers: &Handlers) -> bool {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match *record {
            Record::Put { family, key, value } => {
                if let Some(put) = handlers.put_cf {
                    put(state, family, at(key), key.len(), at(value), value.len());
                    return true;
                }
                if let (0, Some(put)) = (family, handlers.put) {
                    put(state, at(key), key.len(), at(value), value.len());
                }
                family == 0
            }
            Record::Delete { family, key } => {
                if let Some(deleted) = handlers.deleted_cf {
                    deleted(state, family, at(key), key.len());
                    return true;
                }
                if let (0, Some(deleted)) = (family, handlers.deleted) {
                    deleted(state, at(key), key.len());
                }
                family == 0
            }
            Record::SingleDelete { family, .. } => family == 0,
            Record::Merge {
                family,
                key,
                operand,
            } => {
                let Some(merge) = handlers.merge_cf else {
                    return family == 0;
                };
                merge(
                    state,
                    family,
                    at(key),
                    key.len(),
                    at(operand),
                    operand.len(),
                );
                true
            }
            Record::LogData(data) => {
                if let Some(log_data) = handlers.log_data {
                    log_data(state, at(data), data.len());
                }
                true
            }
            // Logs of transactions have one in each batch.
            Record::Noop => true,
            _ => false,
        }
    }
}

/// Calls the callbacks for the records of `data`, a serialized batch.
///
/// # Safety
///
/// The callbacks may be called with `state`.
pub(crate) unsafe fn iterate(data: &[u8], state: *mut c_void, handlers: &Handlers) -> Result<()> {
    let in_batch = |malformed: cairn_types::Malformed| malformed.in_file("the write batch", 0);
    let view = BatchRef::parse(data).map_err(in_batch)?;
    for record in view.records() {
        let record = record.map_err(in_batch)?;
        // SAFETY: guaranteed by the caller; the keys and values are valid during the call.
        let handled = unsafe { show(&record, state, handlers) };
        if !handled {
            break;
        }
    }
    Ok(())
}

c_functions! {
    /// Creates an empty batch.
    fn rocksdb_writebatch_create() -> *mut rocksdb_writebatch_t {
        create(WriteBatch::new())
    }
    /// Creates a batch from `rep`, its serialized form. If that is damaged, the batch is empty, and its write reports the
    /// damage.
    fn rocksdb_writebatch_create_from(rep: *const c_char, size: usize) -> *mut rocksdb_writebatch_t {
        create(WriteBatch::from_data(bytes(rep, size)).unwrap_or_else(|error| {
            let mut batch = WriteBatch::new();
            batch.refuse(error);
            batch
        }))
    }
    /// Creates an empty batch with a size limit in bytes; 0 for no limit. A batch that exceeds the
    /// limit cannot be written. With bytes of protection per key, of any number, each write has a checksum of 8 bytes until
    /// it is in a memtable.
    fn rocksdb_writebatch_create_with_params(
        _reserved_bytes: usize,
        max_bytes: usize,
        protection_bytes_per_key: usize,
        _default_cf_ts_sz: usize,
    ) -> *mut rocksdb_writebatch_t {
        let mut batch = WriteBatch::with_max_bytes(max_bytes);
        if let Err(error) = batch.set_protected(protection_bytes_per_key > 0) {
            batch.refuse(error);
        }
        create(batch)
    }
    /// Removes all records.
    fn rocksdb_writebatch_clear(b: *mut rocksdb_writebatch_t) {
        of_mut(b).clear();
    }
    /// Returns the number of operations in the batch.
    fn rocksdb_writebatch_count(b: *mut rocksdb_writebatch_t) -> c_int {
        c_int::try_from(of(b.cast_const()).count()).unwrap_or(c_int::MAX)
    }
    /// Returns the serialized form, which is valid until the batch changes.
    fn rocksdb_writebatch_data(b: *mut rocksdb_writebatch_t, size: *mut usize) -> *const c_char {
        let data = of(b.cast_const()).data();
        store(size, data.len());
        at(data)
    }
    /// Sets `key` to `val` in the default family.
    fn rocksdb_writebatch_put(
        b: *mut rocksdb_writebatch_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        of_mut(b).put(bytes(key, klen), bytes(val, vlen));
    }
    /// Sets `key` to `val` in a family.
    fn rocksdb_writebatch_put_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        let family = family(column_family);
        of_mut(b).put_in(family, bytes(key, klen), bytes(val, vlen));
    }
    /// Sets a key to a value, each given as slices to concatenate.
    fn rocksdb_writebatch_putv(
        b: *mut rocksdb_writebatch_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        let key = parts(num_keys, keys_list, keys_list_sizes);
        let value = parts(num_values, values_list, values_list_sizes);
        of_mut(b).put_parts(&key, &value);
    }
    /// The same for a column family.
    fn rocksdb_writebatch_putv_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        let key = parts(num_keys, keys_list, keys_list_sizes);
        let value = parts(num_values, values_list, values_list_sizes);
        let family = family(column_family);
        of_mut(b).put_parts_in(family, &key, &value);
    }
    /// Adds a merge operand to `key` in the default family.
    fn rocksdb_writebatch_merge(
        b: *mut rocksdb_writebatch_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        of_mut(b).merge(bytes(key, klen), bytes(val, vlen));
    }
    /// Adds a merge operand to `key` in a family.
    fn rocksdb_writebatch_merge_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        let family = family(column_family);
        of_mut(b).merge_in(family, bytes(key, klen), bytes(val, vlen));
    }
    /// Adds a merge operand, with key and operand given as slices to concatenate.
    fn rocksdb_writebatch_mergev(
        b: *mut rocksdb_writebatch_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        let key = parts(num_keys, keys_list, keys_list_sizes);
        let value = parts(num_values, values_list, values_list_sizes);
        of_mut(b).merge_parts(&key, &value);
    }
    /// The same for a column family.
    fn rocksdb_writebatch_mergev_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        num_values: c_int,
        values_list: *const *const c_char,
        values_list_sizes: *const usize,
    ) {
        let key = parts(num_keys, keys_list, keys_list_sizes);
        let value = parts(num_values, values_list, values_list_sizes);
        let family = family(column_family);
        of_mut(b).merge_parts_in(family, &key, &value);
    }
    /// Deletes `key` from the default family.
    fn rocksdb_writebatch_delete(b: *mut rocksdb_writebatch_t, key: *const c_char, klen: usize) {
        of_mut(b).delete(bytes(key, klen));
    }
    /// Deletes `key` from a family.
    fn rocksdb_writebatch_delete_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
    ) {
        let family = family(column_family);
        of_mut(b).delete_in(family, bytes(key, klen));
    }
    /// Deletes `key`, which must have been put exactly once, from the default family.
    fn rocksdb_writebatch_singledelete(b: *mut rocksdb_writebatch_t, key: *const c_char, klen: usize) {
        of_mut(b).single_delete(bytes(key, klen));
    }
    /// The same for a column family.
    fn rocksdb_writebatch_singledelete_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
    ) {
        let family = family(column_family);
        of_mut(b).single_delete_in(family, bytes(key, klen));
    }
    /// Sets `key` at a timestamp to `val` in a family whose keys have timestamps.
    fn rocksdb_writebatch_put_cf_with_ts(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vlen: usize,
    ) {
        let family = family(column_family);
        of_mut(b).put_with_timestamp(family, bytes(key, klen), bytes(ts, tslen), bytes(val, vlen));
    }
    /// Deletes `key` at a timestamp from a family whose keys have timestamps.
    fn rocksdb_writebatch_delete_cf_with_ts(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        ts: *const c_char,
        tslen: usize,
    ) {
        let family = family(column_family);
        of_mut(b).delete_with_timestamp(family, bytes(key, klen), bytes(ts, tslen));
    }
    /// Deletes `key`, which must have been put exactly once, at a timestamp.
    fn rocksdb_writebatch_singledelete_cf_with_ts(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        ts: *const c_char,
        tslen: usize,
    ) {
        let family = family(column_family);
        of_mut(b).single_delete_with_timestamp(family, bytes(key, klen), bytes(ts, tslen));
    }
    /// Deletes a key given as slices to concatenate.
    fn rocksdb_writebatch_deletev(
        b: *mut rocksdb_writebatch_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
    ) {
        let key = joined(num_keys, keys_list, keys_list_sizes);
        of_mut(b).delete(&key);
    }
    /// The same for a column family.
    fn rocksdb_writebatch_deletev_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: c_int,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
    ) {
        let key = joined(num_keys, keys_list, keys_list_sizes);
        let family = family(column_family);
        of_mut(b).delete_in(family, &key);
    }
    /// Deletes the keys of the default family in [`start_key`, `end_key`).
    fn rocksdb_writebatch_delete_range(
        b: *mut rocksdb_writebatch_t,
        start_key: *const c_char,
        start_key_len: usize,
        end_key: *const c_char,
        end_key_len: usize,
    ) {
        let (begin, end) = (bytes(start_key, start_key_len), bytes(end_key, end_key_len));
        of_mut(b).delete_range(begin, end);
    }
    /// The same for a column family.
    fn rocksdb_writebatch_delete_range_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        end_key: *const c_char,
        end_key_len: usize,
    ) {
        let (begin, end) = (bytes(start_key, start_key_len), bytes(end_key, end_key_len));
        let family = family(column_family);
        of_mut(b).delete_range_in(family, begin, end);
    }
    /// Deletes a range whose bounds are given as slices to concatenate.
    fn rocksdb_writebatch_delete_rangev(
        b: *mut rocksdb_writebatch_t,
        num_keys: c_int,
        start_keys_list: *const *const c_char,
        start_keys_list_sizes: *const usize,
        end_keys_list: *const *const c_char,
        end_keys_list_sizes: *const usize,
    ) {
        let begin = joined(num_keys, start_keys_list, start_keys_list_sizes);
        let end = joined(num_keys, end_keys_list, end_keys_list_sizes);
        of_mut(b).delete_range(&begin, &end);
    }
    /// The same for a column family.
    fn rocksdb_writebatch_delete_rangev_cf(
        b: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_keys: c_int,
        start_keys_list: *const *const c_char,
        start_keys_list_sizes: *const usize,
        end_keys_list: *const *const c_char,
        end_keys_list_sizes: *const usize,
    ) {
        let begin = joined(num_keys, start_keys_list, start_keys_list_sizes);
        let end = joined(num_keys, end_keys_list, end_keys_list_sizes);
        let family = family(column_family);
        of_mut(b).delete_range_in(family, &begin, &end);
    }
    /// Adds a blob that is written to the WAL only.
    fn rocksdb_writebatch_put_log_data(b: *mut rocksdb_writebatch_t, blob: *const c_char, len: usize) {
        of_mut(b).put_log_data(bytes(blob, len));
    }
    /// Sets a save point.
    fn rocksdb_writebatch_set_save_point(b: *mut rocksdb_writebatch_t) {
        of_mut(b).set_save_point();
    }
    /// Rolls back to the most recent save point and removes it.
    fn rocksdb_writebatch_rollback_to_save_point(b: *mut rocksdb_writebatch_t, errptr: *mut *mut c_char) {
        report(errptr, || of_mut(b).rollback_to_save_point());
    }
    /// Removes the most recent save point without a rollback.
    fn rocksdb_writebatch_pop_save_point(b: *mut rocksdb_writebatch_t, errptr: *mut *mut c_char) {
        report(errptr, || of_mut(b).pop_save_point());
    }
    /// Calls the callbacks for the operations on the default family, in order.
    fn rocksdb_writebatch_iterate(
        b: *mut rocksdb_writebatch_t,
        state: *mut c_void,
        put: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>,
        deleted: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
    ) {
        let handlers = Handlers { put, deleted, ..Handlers::default() };
        // A batch built by these functions is never malformed.
        let _ = iterate(of(b.cast_const()).data(), state, &handlers);
    }
    /// The same, including log data.
    fn rocksdb_writebatch_iterate_ld(
        b: *mut rocksdb_writebatch_t,
        state: *mut c_void,
        put: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize)>,
        deleted: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
        log_data: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
    ) {
        let handlers = Handlers { put, deleted, log_data, ..Handlers::default() };
        let _ = iterate(of(b.cast_const()).data(), state, &handlers);
    }
    /// Calls the callbacks for the operations on all families, in order.
    fn rocksdb_writebatch_iterate_cf(
        b: *mut rocksdb_writebatch_t,
        state: *mut c_void,
        put_cf: Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>,
        deleted_cf: Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize)>,
        merge_cf: Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>,
    ) {
        let handlers = Handlers { put_cf, deleted_cf, merge_cf, ..Handlers::default() };
        let _ = iterate(of(b.cast_const()).data(), state, &handlers);
    }
    /// The same, including log data.
    fn rocksdb_writebatch_iterate_cf_ld(
        b: *mut rocksdb_writebatch_t,
        state: *mut c_void,
        put_cf: Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>,
        deleted_cf: Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize)>,
        merge_cf: Option<unsafe extern "C" fn(*mut c_void, u32, *const c_char, usize, *const c_char, usize)>,
        log_data: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize)>,
    ) {
        let handlers = Handlers { put_cf, deleted_cf, merge_cf, log_data, ..Handlers::default() };
        let _ = iterate(of(b.cast_const()).data(), state, &handlers);
    }
}
