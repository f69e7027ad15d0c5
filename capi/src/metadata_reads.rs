//! Point reads that also report whether the key was written after the snapshot.
//!
//! The timestamps are user-defined timestamps; they are empty for a family without timestamps.

use std::ffi::{c_char, c_uchar};

use cairn_db::{Db, Family, TimestampedValue, Value};
use cairn_options::{ReadOptions, ReadTier};
use cairn_types::Result;

use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{bytes, malloc_bytes, report, save, store};
use crate::handle::of;
use crate::options::rocksdb_readoptions_t;
use crate::reads::{families, keys};

/// The value of a key with its timestamp, if there is one, and true if there is a newer version.
type Answer = (Option<TimestampedValue>, bool);

/// The answer for `key`.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn read(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: &[u8],
) -> Result<Answer> {
    // SAFETY: guaranteed by the caller.
    let options = unsafe { of(options).checked()? };
    if has_plain_keys(family) {
        let (value, newer) = family.get_with_newer(key, options)?;
        return Ok((value.map(|value| (value, Vec::new())), newer));
    }
    family.get_with_newer_and_timestamp(key, options)
}

/// Output pointers for one key, some of which may be null.
struct Place {
    value_len: *mut usize,
    timestamp: *mut *mut c_char,
    timestamp_len: *mut usize,
    newer: *mut c_uchar,
}

impl Place {
    /// Stores the metadata, and returns the value for C.
    ///
    /// # Safety
    ///
    /// The pointers are null or may be written to.
    unsafe fn put(&self, found: Option<&Answer>) -> *mut c_char {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let value = found.and_then(|(value, _)| value.as_ref());
            store(self.newer, found.is_some_and(|(_, newer)| *newer).into());
            store(self.value_len, value.map_or(0, |(value, _)| value.len()));
            if !self.timestamp.is_null() && !self.timestamp_len.is_null() {
                store(
                    self.timestamp_len,
                    value.map_or(0, |(_, timestamp)| timestamp.len()),
                );
                let timestamp = value.map_or(std::ptr::null_mut(), |(_, timestamp)| {
                    malloc_bytes(timestamp)
                });
                store(self.timestamp, timestamp);
            }
            value.map_or(std::ptr::null_mut(), |(value, _)| malloc_bytes(value))
        }
    }
}

/// Reads one key.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn get(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: &[u8],
    place: &Place,
    errptr: *mut *mut c_char,
) -> *mut c_char {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let found = report(errptr, || read(family, options, key).map(Some));
        place.put(found.as_ref())
    }
}

/// Output arrays for several keys.
struct Lists {
    values: *mut *mut c_char,
    value_lens: *mut usize,
    timestamps: *mut *mut c_char,
    timestamp_lens: *mut usize,
    newer: *mut c_uchar,
    errors: *mut *mut c_char,
}

impl Lists {
    /// Stores the result for the key `at`.
    ///
    /// # Safety
    ///
    /// The arrays have space for it, or are null where that is allowed.
    unsafe fn put(&self, at: usize, found: Result<Answer>) {
        // SAFETY: guaranteed by the caller. The arrays are uninitialized, so no earlier text is freed.
        unsafe {
            let place = |list: *mut c_uchar| match list.is_null() {
                true => list,
                false => list.add(at),
            };
            let has_timestamps = !self.timestamps.is_null() && !self.timestamp_lens.is_null();
            let place = Place {
                value_len: self.value_lens.add(at),
                timestamp: match has_timestamps {
                    true => self.timestamps.add(at),
                    false => std::ptr::null_mut(),
                },
                timestamp_len: match has_timestamps {
                    true => self.timestamp_lens.add(at),
                    false => std::ptr::null_mut(),
                },
                newer: place(self.newer),
            };
            self.errors.add(at).write(std::ptr::null_mut());
            if let Err(error) = &found {
                save(self.errors.add(at), error);
            }
            let value = place.put(found.as_ref().ok());
            self.values.add(at).write(value);
        }
    }
}

/// The values of several keys, each with its family, and their timestamps, from a consistent view.
fn together(
    db: &Db,
    families: &[&Family],
    options: &ReadOptions,
    keys: &[&[u8]],
) -> Vec<Result<Option<TimestampedValue>>> {
    if families.iter().any(|family| !has_plain_keys(family)) {
        let all: Vec<_> = families.iter().copied().zip(keys.iter().copied()).collect();
        return cairn_db::multi_get_with_timestamps(&all, options);
    }
    let found = crate::reads::multi_get(db, families, keys, Ok(options), false);
    let without_timestamp = |found: Option<Value>| found.map(|value| (value, Vec::new()));
    found
        .into_iter()
        .map(|found| found.map(without_timestamp))
        .collect()
}

/// Reads several keys, each with its family, at one sequence number.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn multi_get(
    db: &Db,
    families: &[&Family],
    options: *const rocksdb_readoptions_t,
    keys: &[&[u8]],
    lists: &Lists,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // Without a snapshot nothing is newer, and a single read of all keys gives a consistent
        // view.
        if let Ok(checked) = of(options).checked()
            && checked.snapshot.is_none()
            && checked.read_tier != ReadTier::Persisted
        {
            for (at, value) in together(db, families, checked, keys)
                .into_iter()
                .enumerate()
            {
                lists.put(at, value.map(|value| (value, false)));
            }
            return;
        }
        for (at, (family, key)) in families.iter().zip(keys).enumerate() {
            lists.put(at, read(family, options, key));
        }
    }
}

/// True if keys have no timestamps.
fn has_plain_keys(family: &Family) -> bool {
    family.options().comparator.timestamp_size() == 0
}

c_functions! {
    /// `rocksdb_get` with metadata. `*newer_version_present` is 1 if the key was written after the
    /// options' snapshot, even if the snapshot sees no value, and 0 without a snapshot. The timestamp
    /// is freed by the caller; it is null if there is no value. The pointers to the timestamp and to
    /// the flag may be null.
    fn rocksdb_get_with_metadata(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        timestamp: *mut *mut c_char,
        timestamp_len: *mut usize,
        newer_version_present: *mut c_uchar,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        let place = Place { value_len: vallen, timestamp, timestamp_len, newer: newer_version_present };
        get(of(db.cast_const()).db.default_family(), options, bytes(key, keylen), &place, errptr)
    }
    /// The same for a column family.
    fn rocksdb_get_cf_with_metadata(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        timestamp: *mut *mut c_char,
        timestamp_len: *mut usize,
        newer_version_present: *mut c_uchar,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        let place = Place { value_len: vallen, timestamp, timestamp_len, newer: newer_version_present };
        get(of(column_family.cast_const()), options, bytes(key, keylen), &place, errptr)
    }
    /// `rocksdb_get_with_metadata` for several keys. The arrays of timestamps and flags may be null.
    fn rocksdb_multi_get_with_metadata(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamps_list: *mut *mut c_char,
        timestamps_list_sizes: *mut usize,
        newer_versions_present: *mut c_uchar,
        errs: *mut *mut c_char,
    ) {
        let lists = Lists {
            values: values_list,
            value_lens: values_list_sizes,
            timestamps: timestamps_list,
            timestamp_lens: timestamps_list_sizes,
            newer: newer_versions_present,
            errors: errs,
        };
        let db = &of(db.cast_const()).db;
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        multi_get(db, &vec![db.default_family(); keys.len()], options, &keys, &lists);
    }
    /// The same, with a family for each key.
    fn rocksdb_multi_get_cf_with_metadata(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        timestamps_list: *mut *mut c_char,
        timestamps_list_sizes: *mut usize,
        newer_versions_present: *mut c_uchar,
        errs: *mut *mut c_char,
    ) {
        let lists = Lists {
            values: values_list,
            value_lens: values_list_sizes,
            timestamps: timestamps_list,
            timestamp_lens: timestamps_list_sizes,
            newer: newer_versions_present,
            errors: errs,
        };
        let families = families(num_keys, column_families);
        let keys = keys(num_keys, keys_list, keys_list_sizes);
        multi_get(&of(db.cast_const()).db, &families, options, &keys, &lists);
    }
}
