//! Writes and reads with user-defined timestamps, for families whose comparator has them.

use std::ffi::{c_char, c_int, c_void};

use cairn_db::{Family, TimestampedValue, WriteBatch, open_and_trim_history};
use cairn_types::{Error, Result};

use crate::batch::rocksdb_writebatch_t;
use crate::database::{family_of, rocksdb_column_family_handle_t, rocksdb_t};
use crate::db::{hand_out, open_by, open_descriptors};
use crate::error::{bytes, malloc_bytes, maybe_bytes, path, report, report_ptr, save, store};
use crate::handle::{of, of_mut};
use crate::indexed::rocksdb_writebatch_wi_t;
use crate::options::{
    rocksdb_compactoptions_t, rocksdb_options_t, rocksdb_readoptions_t, rocksdb_writeoptions_t,
};
use crate::reads::{families, keys};
use crate::value_copy::malloc_value;

/// The size of the timestamps of a family, called with the state of the program and the id of the family.
type SizeOf = Option<unsafe extern "C" fn(*mut c_void, u32) -> usize>;

/// Writes a batch filled by `fill` to the database of `family`.
///
/// # Safety
///
/// The pointers are valid as `c.h` requires.
unsafe fn write(
    db: *mut rocksdb_t,
    options: *const rocksdb_writeoptions_t,
    errptr: *mut *mut c_char,
    fill: impl FnOnce(&mut WriteBatch),
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        report(errptr, || {
            let mut batch = WriteBatch::new();
            fill(&mut batch);
            let db = &of(db.cast_const()).db;
            db.check_batch(&batch)?;
            db.write_with(&batch, of(options).checked()?)
        });
    }
}

/// Returns a copy of the value of `key`, which the program frees, and stores one of its timestamp.
///
/// # Safety
///
/// The pointers are valid as `c.h` requires.
unsafe fn get(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: &[u8],
    (vallen, ts, tslen): (*mut usize, *mut *mut c_char, *mut usize),
    errptr: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let found = report(errptr, || {
            family.get_with_timestamp(key, of(options).checked()?)
        });
        store(vallen, found.as_ref().map_or(0, |(value, _)| value.len()));
        store(
            tslen,
            found.as_ref().map_or(0, |(_, timestamp)| timestamp.len()),
        );
        let Some((value, timestamp)) = found else {
            return std::ptr::null_mut();
        };
        store(ts, malloc_bytes(&timestamp));
        malloc_value(value)
    }
}

/// The output arrays for several keys.
struct Lists {
    values: *mut *mut c_char,
    value_lens: *mut usize,
    timestamps: *mut *mut c_char,
    timestamp_lens: *mut usize,
    errors: *mut *mut c_char,
}

impl Lists {
    /// Stores the result for the key `at`.
    ///
    /// # Safety
    ///
    /// The arrays have space for it.
    unsafe fn put(&self, at: usize, found: Result<Option<TimestampedValue>>) {
        // SAFETY: guaranteed by the caller. The arrays are uninitialized, so no earlier text is freed.
        unsafe {
            self.errors.add(at).write(std::ptr::null_mut());
            let found = found.unwrap_or_else(|error| {
                save(self.errors.add(at), &error);
                None
            });
            let lens = found
                .as_ref()
                .map_or((0, 0), |(value, timestamp)| (value.len(), timestamp.len()));
            self.value_lens.add(at).write(lens.0);
            self.timestamp_lens.add(at).write(lens.1);
            let (value, timestamp) = match found {
                Some((value, timestamp)) => (malloc_value(value), malloc_bytes(&timestamp)),
                None => (std::ptr::null_mut(), std::ptr::null_mut()),
            };
            self.values.add(at).write(value);
            self.timestamps.add(at).write(timestamp);
        }
    }
}

/// Reads several keys, each with its family, at one sequence number.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn multi_get(
    families: &[&Family],
    options: *const rocksdb_readoptions_t,
    keys: &[&[u8]],
    lists: &Lists,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let all: Vec<_> = families.iter().copied().zip(keys.iter().copied()).collect();
        let found = match of(options).checked() {
            Ok(options) => cairn_db::multi_get_with_timestamps(&all, options),
            Err(error) => vec![Err(error); all.len()],
        };
        for (at, found) in found.into_iter().enumerate() {
            lists.put(at, found);
        }
    }
}

/// Returns the size that `size_of` gives for a family: `None` if it does not exist.
///
/// # Errors
///
/// `InvalidArgument` if there is no function.
fn sizes(state: *mut c_void, size_of: SizeOf) -> Result<impl FnMut(u32) -> Option<usize>> {
    let size_of = size_of.ok_or_else(|| Error::invalid_argument("get_ts_size is null"))?;
    Ok(move |family| {
        // SAFETY: c.h asks for a function that may be called with this state.
        let size = unsafe { size_of(state, family) };
        (size != usize::MAX).then_some(size)
    })
}

c_functions! {
    /// Sets `key` at a timestamp to `val` in the default family, whose keys have timestamps.
    fn rocksdb_put_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        let family = of(db.cast_const()).db.default_family();
        write(db, options, errptr, |batch| {
            batch.put_with_timestamp(family, bytes(key, keylen), bytes(ts, tslen), bytes(val, vallen));
        });
    }
    /// The same for a column family.
    fn rocksdb_put_cf_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        let family = of(column_family.cast_const());
        write(db, options, errptr, |batch| {
            batch.put_with_timestamp(family, bytes(key, keylen), bytes(ts, tslen), bytes(val, vallen));
        });
    }
    /// Deletes `key` at a timestamp from the default family, whose keys have timestamps.
    fn rocksdb_delete_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr: *mut *mut c_char,
    ) {
        let family = of(db.cast_const()).db.default_family();
        write(db, options, errptr, |batch| {
            batch.delete_with_timestamp(family, bytes(key, keylen), bytes(ts, tslen));
        });
    }
    /// The same for a column family.
    fn rocksdb_delete_cf_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr: *mut *mut c_char,
    ) {
        let family = of(column_family.cast_const());
        write(db, options, errptr, |batch| {
            batch.delete_with_timestamp(family, bytes(key, keylen), bytes(ts, tslen));
        });
    }
    /// Deletes `key`, which must have been put exactly once since its last deletion, at a timestamp.
    fn rocksdb_singledelete_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr: *mut *mut c_char,
    ) {
        let family = of(db.cast_const()).db.default_family();
        write(db, options, errptr, |batch| {
            batch.single_delete_with_timestamp(family, bytes(key, keylen), bytes(ts, tslen));
        });
    }
    /// The same for a column family.
    fn rocksdb_singledelete_cf_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr: *mut *mut c_char,
    ) {
        let family = of(column_family.cast_const());
        write(db, options, errptr, |batch| {
            batch.single_delete_with_timestamp(family, bytes(key, keylen), bytes(ts, tslen));
        });
    }
    /// Returns the value of `key` in the default family, and its timestamp in `*ts`. The program frees both. If
    /// there is no value, it returns null, and both lengths are 0.
    fn rocksdb_get_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        ts: *mut *mut c_char,
        tslen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        let family = of(db.cast_const()).db.default_family();
        get(family, options, bytes(key, keylen), (vallen, ts, tslen), errptr)
    }
    /// The same for a column family.
    fn rocksdb_get_cf_with_ts(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        ts: *mut *mut c_char,
        tslen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        let family = of(column_family.cast_const());
        get(family, options, bytes(key, keylen), (vallen, ts, tslen), errptr)
    }
    /// `rocksdb_get_with_ts` for several keys.
    fn rocksdb_multi_get_with_ts(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamp_list: *mut *mut c_char,
        timestamp_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let lists = Lists {
            values: values_list,
            value_lens: values_list_sizes,
            timestamps: timestamp_list,
            timestamp_lens: timestamp_list_sizes,
            errors: errs,
        };
        let families = vec![of(db.cast_const()).db.default_family(); num_keys];
        multi_get(&families, options, &keys(num_keys, keys_list, keys_list_sizes), &lists);
    }
    /// `rocksdb_get_cf_with_ts` for several keys, each with its column family.
    fn rocksdb_multi_get_cf_with_ts(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamps_list: *mut *mut c_char,
        timestamps_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let lists = Lists {
            values: values_list,
            value_lens: values_list_sizes,
            timestamps: timestamps_list,
            timestamp_lens: timestamps_list_sizes,
            errors: errs,
        };
        let families = families(num_keys, column_families);
        multi_get(&families, options, &keys(num_keys, keys_list, keys_list_sizes), &lists);
    }
    /// Sets the timestamps of all keys of the batch to `ts`. `get_ts_size` returns the size of the timestamps of a
    /// family, given `state` and the id of the family: 0 for none, the largest `size_t` for an unknown family.
    fn rocksdb_writebatch_update_timestamps(
        wb: *mut rocksdb_writebatch_t,
        ts: *const c_char,
        tslen: usize,
        state: *mut c_void,
        get_ts_size: SizeOf,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            of_mut(wb).update_timestamps(bytes(ts, tslen), sizes(state, get_ts_size)?)
        });
    }
    /// The same for a batch with index.
    fn rocksdb_writebatch_wi_update_timestamps(
        wbwi: *mut rocksdb_writebatch_wi_t,
        ts: *const c_char,
        tslen: usize,
        state: *mut c_void,
        get_ts_size: SizeOf,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            of(wbwi.cast_const()).update_timestamps(bytes(ts, tslen), sizes(state, get_ts_size)?)
        });
    }
    /// Increases `full_history_ts_low` of a family.
    fn rocksdb_increase_full_history_ts_low(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        ts_low: *const c_char,
        ts_lowlen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            family_of(db, column_family)?.increase_full_history_ts_low(bytes(ts_low, ts_lowlen))
        });
    }
    /// Returns `full_history_ts_low` of a family, which the program frees; of length 0 if it was never set.
    fn rocksdb_get_full_history_ts_low(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        ts_lowlen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        store(ts_lowlen, 0);
        report_ptr(errptr, || {
            let low = of(column_family.cast_const()).full_history_ts_low()?;
            store(ts_lowlen, low.len());
            Ok(malloc_bytes(&low))
        })
    }
    /// `rocksdb_open_column_families`, after which versions with timestamps newer than `trim_ts` are dropped.
    fn rocksdb_open_and_trim_history(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        trim_ts: *mut c_char,
        trim_tslen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report_ptr(errptr, || {
            let all = of(options).checked()?;
            let families = open_descriptors(num_column_families, column_family_names, column_family_options)?;
            let timestamp = bytes(trim_ts.cast_const(), trim_tslen);
            let db = open_by(all, &path(name), &families, false, |request| {
                open_and_trim_history(request, timestamp)
            })?;
            hand_out(db, &families, column_family_handles)
        })
    }
    /// Sets the timestamp to which a compaction increases `full_history_ts_low`. Copied; null removes it.
    fn rocksdb_compactoptions_set_full_history_ts_low(
        opt: *mut rocksdb_compactoptions_t,
        ts: *mut c_char,
        tslen: usize,
    ) {
        of_mut(opt).full_history_ts_low = maybe_bytes(ts.cast_const(), tslen)
            .filter(|timestamp| !timestamp.is_empty())
            .map(<[u8]>::to_vec);
    }
}
