//! Size estimates, `KeyMayExist`, and the write buffer manager.

use std::ffi::{c_char, c_int, c_uchar};
use std::ptr::null_mut;
use std::sync::Arc;

use cairn_db::{Family, MayExist, Range, SizeApproximationOptions};
use cairn_memory::WriteBufferManager;
use cairn_memory::write_buffer::FlushPolicy;
use cairn_types::Result;

use crate::cache::rocksdb_cache_t;
use crate::constants::{
    rocksdb_size_approximation_flags_include_blob_files,
    rocksdb_size_approximation_flags_include_files,
    rocksdb_size_approximation_flags_include_memtable,
    rocksdb_write_buffer_manager_flush_policy_largest,
    rocksdb_write_buffer_manager_flush_policy_largest_across_dbs,
    rocksdb_write_buffer_manager_flush_policy_oldest,
};
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, bytes, caught, malloc_bytes, report, store};
use crate::handle::{create, maybe, of, of_mut};
use crate::options::{Checked, rocksdb_options_t, rocksdb_readoptions_t};

handles! {
    /// Options of size estimates.
    rocksdb_size_approximation_options_t = Checked<SizeApproximationOptions>;
    /// A memory limit for the memtables of several databases.
    rocksdb_write_buffer_manager_t = Arc<WriteBufferManager>;
}

c_setters! { rocksdb_size_approximation_options_t:
    rocksdb_size_approximation_options_set_files_size_error_margin(f64) => files_size_error_margin;
    rocksdb_size_approximation_options_set_include_blob_files(c_uchar) => include_blob_files;
    rocksdb_size_approximation_options_set_include_files(c_uchar) => include_files;
    rocksdb_size_approximation_options_set_include_memtables(c_uchar) => include_memtables;
}

c_getters! { rocksdb_size_approximation_options_t:
    rocksdb_size_approximation_options_get_files_size_error_margin(mut) -> f64 => files_size_error_margin;
    rocksdb_size_approximation_options_get_include_blob_files(mut) -> c_uchar => include_blob_files;
    rocksdb_size_approximation_options_get_include_files(mut) -> c_uchar => include_files;
    rocksdb_size_approximation_options_get_include_memtables(mut) -> c_uchar => include_memtables;
}

c_destructors! {
    /// Frees options.
    rocksdb_size_approximation_options_destroy(rocksdb_size_approximation_options_t);
    /// Releases the program's reference to a manager.
    rocksdb_write_buffer_manager_destroy(rocksdb_write_buffer_manager_t);
}

/// The arguments of a size estimate: the number of ranges, and the keys and lengths of their bounds.
struct Ranges {
    count: c_int,
    starts: (*const *const c_char, *const usize),
    limits: (*const *const c_char, *const usize),
}

/// The options for the flags of a call.
fn flagged(flags: c_int) -> SizeApproximationOptions {
    SizeApproximationOptions {
        include_memtables: flags & rocksdb_size_approximation_flags_include_memtable != 0,
        include_files: flags & rocksdb_size_approximation_flags_include_files != 0,
        include_blob_files: flags & rocksdb_size_approximation_flags_include_blob_files != 0,
        ..SizeApproximationOptions::default()
    }
}

/// Stores the estimated sizes of ranges.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires.
unsafe fn sizes(
    family: &Family,
    ranges: &Ranges,
    options: Result<&SizeApproximationOptions>,
    sizes: *mut u64,
    errptr: *mut *mut c_char,
) {
    let count = usize::try_from(ranges.count).unwrap_or(0);
    // SAFETY: guaranteed by the caller.
    unsafe {
        report(errptr, || {
            let options = options?;
            let keys = |(keys, lengths): (*const *const c_char, *const usize)| {
                let keys = array(keys, count).iter().zip(array(lengths, count));
                keys.map(|(key, len)| bytes(*key, *len)).collect::<Vec<_>>()
            };
            let starts = keys(ranges.starts);
            let pairs: Vec<Range<'_>> = starts
                .into_iter()
                .zip(keys(ranges.limits))
                .map(|(begin, end)| Range { begin, end })
                .collect();
            for (at, size) in family
                .approximate_sizes(&pairs, options)?
                .into_iter()
                .enumerate()
            {
                sizes.add(at).write(size);
            }
            Ok(())
        });
    }
}

/// True if a key may exist. Stores its value if the caller wants it and it is in memory. As in
/// RocksDB, a key that is known not to exist is reported as a found value: null, of length 0.
///
/// # Safety
///
/// The output pointers are valid as `c.h` requires.
unsafe fn may_exist(
    family: &Family,
    options: *const rocksdb_readoptions_t,
    key: &[u8],
    (value, val_len): (*mut *mut c_char, *mut usize),
    value_found: *mut c_uchar,
) -> c_uchar {
    // SAFETY: guaranteed by the caller.
    unsafe {
        // Without an error to return, a key whose lookup panicked may exist.
        let answer = caught(|| Ok(family.key_may_exist(key, of(options))));
        let answer = answer.unwrap_or(MayExist::Perhaps);
        let (may, found) = match answer {
            MayExist::No => (0, Some(None)),
            MayExist::Perhaps => (1, None),
            MayExist::Yes(bytes) => (1, Some(Some(bytes))),
        };
        store(value_found, found.is_some().into());
        if let Some(found) = found
            && !value_found.is_null()
        {
            store(val_len, found.as_ref().map_or(0, |bytes| bytes.len()));
            store(
                value,
                found.map_or(null_mut(), |bytes| malloc_bytes(&bytes)),
            );
        }
        may
    }
}

/// The policy of a number.
fn flush_policy(policy: c_int) -> Option<FlushPolicy> {
    const NUMBERS: [c_int; 3] = [
        rocksdb_write_buffer_manager_flush_policy_oldest,
        rocksdb_write_buffer_manager_flush_policy_largest,
        rocksdb_write_buffer_manager_flush_policy_largest_across_dbs,
    ];
    let at = NUMBERS.iter().position(|number| *number == policy)?;
    Some(FlushPolicy::ALL[at])
}

/// A handle for `manager` with a policy, or null.
fn with_policy(manager: WriteBufferManager, policy: c_int) -> *mut rocksdb_write_buffer_manager_t {
    let Some(policy) = flush_policy(policy) else {
        return std::ptr::null_mut();
    };
    manager.set_flush_policy(policy);
    create(Arc::new(manager))
}

c_functions! {
    /// Estimates the size in bytes of ranges of the default family in tables.
    fn rocksdb_approximate_sizes(
        db: *mut rocksdb_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        sizes_list: *mut u64,
        errptr: *mut *mut c_char,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
        };
        let family = of(db.cast_const()).db.default_family();
        sizes(family, &ranges, Ok(&flagged(rocksdb_size_approximation_flags_include_files)), sizes_list, errptr);
    }
    /// The same for a column family.
    fn rocksdb_approximate_sizes_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        sizes_list: *mut u64,
        errptr: *mut *mut c_char,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
        };
        let family = of(column_family.cast_const());
        sizes(family, &ranges, Ok(&flagged(rocksdb_size_approximation_flags_include_files)), sizes_list, errptr);
    }
    /// The same for a family, in tables, memtables or both.
    fn rocksdb_approximate_sizes_cf_with_flags(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        include_flags: u8,
        sizes_list: *mut u64,
        errptr: *mut *mut c_char,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
        };
        sizes(of(column_family.cast_const()), &ranges, Ok(&flagged(include_flags.into())), sizes_list, errptr);
    }
    /// Creates default options: tables are included, memtables are not, and the estimate is as
    /// accurate as possible.
    fn rocksdb_size_approximation_options_create() -> *mut rocksdb_size_approximation_options_t {
        create(Checked::new(SizeApproximationOptions::default()))
    }
    /// Estimates the size in bytes of ranges of the default family with options; null means default
    /// options.
    fn rocksdb_approximate_sizes_with_options(
        db: *mut rocksdb_t,
        options: *const rocksdb_size_approximation_options_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        sizes_list: *mut u64,
        errptr: *mut *mut c_char,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
        };
        let family = of(db.cast_const()).db.default_family();
        let defaults = SizeApproximationOptions::default();
        let options = maybe(options).map_or(Ok(&defaults), Checked::checked);
        sizes(family, &ranges, options, sizes_list, errptr);
    }
    /// The same for a column family.
    fn rocksdb_approximate_sizes_cf_with_options(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        options: *const rocksdb_size_approximation_options_t,
        num_ranges: c_int,
        range_start_key: *const *const c_char,
        range_start_key_len: *const usize,
        range_limit_key: *const *const c_char,
        range_limit_key_len: *const usize,
        sizes_list: *mut u64,
        errptr: *mut *mut c_char,
    ) {
        let ranges = Ranges {
            count: num_ranges,
            starts: (range_start_key, range_start_key_len),
            limits: (range_limit_key, range_limit_key_len),
        };
        let defaults = SizeApproximationOptions::default();
        let options = maybe(options).map_or(Ok(&defaults), Checked::checked);
        sizes(of(column_family.cast_const()), &ranges, options, sizes_list, errptr);
    }
    /// True if a key of the default family may exist, judging by data in memory. With
    /// `value_found`, its value is copied if it is in memory.
    fn rocksdb_key_may_exist(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        key_len: usize,
        value: *mut *mut c_char,
        val_len: *mut usize,
        _timestamp: *const c_char,
        _timestamp_len: usize,
        value_found: *mut c_uchar,
    ) -> c_uchar {
        let family = of(db.cast_const()).db.default_family();
        may_exist(family, options, bytes(key, key_len), (value, val_len), value_found)
    }
    /// The same for a column family.
    fn rocksdb_key_may_exist_cf(
        _db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        key_len: usize,
        value: *mut *mut c_char,
        val_len: *mut usize,
        _timestamp: *const c_char,
        _timestamp_len: usize,
        value_found: *mut c_uchar,
    ) -> c_uchar {
        let family = of(column_family.cast_const());
        may_exist(family, options, bytes(key, key_len), (value, val_len), value_found)
    }

    /// Creates a manager with a limit of `buffer_size` bytes; 0 for no limit. With `allow_stall`,
    /// writes stall at the limit.
    fn rocksdb_write_buffer_manager_create(buffer_size: usize, allow_stall: bool) -> *mut rocksdb_write_buffer_manager_t {
        create(Arc::new(WriteBufferManager::new(buffer_size, None, allow_stall)))
    }
    /// The same, with the memory charged to a cache.
    fn rocksdb_write_buffer_manager_create_with_cache(
        buffer_size: usize,
        cache: *const rocksdb_cache_t,
        allow_stall: bool,
    ) -> *mut rocksdb_write_buffer_manager_t {
        create(Arc::new(WriteBufferManager::new(buffer_size, maybe(cache).cloned(), allow_stall)))
    }
    /// Creates a manager with a flush policy, one of `rocksdb_write_buffer_manager_flush_policy_...`.
    /// Returns null for an unknown policy.
    fn rocksdb_write_buffer_manager_create_with_policy(
        buffer_size: usize,
        allow_stall: bool,
        policy: c_int,
    ) -> *mut rocksdb_write_buffer_manager_t {
        with_policy(WriteBufferManager::new(buffer_size, None, allow_stall), policy)
    }
    /// The same, with the memory charged to a cache.
    fn rocksdb_write_buffer_manager_create_with_cache_and_policy(
        buffer_size: usize,
        cache: *const rocksdb_cache_t,
        allow_stall: bool,
        policy: c_int,
    ) -> *mut rocksdb_write_buffer_manager_t {
        with_policy(WriteBufferManager::new(buffer_size, maybe(cache).cloned(), allow_stall), policy)
    }
    /// Returns the flush policy.
    fn rocksdb_write_buffer_manager_flush_policy(wbm: *mut rocksdb_write_buffer_manager_t) -> c_int {
        match of(wbm.cast_const()).flush_policy() {
            FlushPolicy::Oldest => rocksdb_write_buffer_manager_flush_policy_oldest,
            FlushPolicy::Largest => rocksdb_write_buffer_manager_flush_policy_largest,
            FlushPolicy::LargestAcrossDatabases => {
                rocksdb_write_buffer_manager_flush_policy_largest_across_dbs
            }
        }
    }
    /// Sets the flush policy. Ignores unknown ones.
    fn rocksdb_write_buffer_manager_set_flush_policy(wbm: *mut rocksdb_write_buffer_manager_t, policy: c_int) {
        if let Some(policy) = flush_policy(policy) {
            of(wbm.cast_const()).set_flush_policy(policy);
        }
    }
    /// True if there is a limit.
    fn rocksdb_write_buffer_manager_enabled(wbm: *mut rocksdb_write_buffer_manager_t) -> bool {
        of(wbm.cast_const()).enabled()
    }
    /// True if the memory is charged to a cache.
    fn rocksdb_write_buffer_manager_cost_to_cache(wbm: *mut rocksdb_write_buffer_manager_t) -> bool {
        of(wbm.cast_const()).cost_to_cache()
    }
    /// Returns the number of bytes used by memtables.
    fn rocksdb_write_buffer_manager_memory_usage(wbm: *mut rocksdb_write_buffer_manager_t) -> usize {
        of(wbm.cast_const()).memory_usage()
    }
    /// Returns the number of bytes used by mutable memtables.
    fn rocksdb_write_buffer_manager_mutable_memtable_memory_usage(wbm: *mut rocksdb_write_buffer_manager_t) -> usize {
        of(wbm.cast_const()).mutable_memtable_memory_usage()
    }
    /// Returns the number of bytes charged to the cache.
    fn rocksdb_write_buffer_manager_dummy_entries_in_cache_usage(wbm: *mut rocksdb_write_buffer_manager_t) -> usize {
        of(wbm.cast_const()).dummy_entries_in_cache_usage()
    }
    /// Returns the limit in bytes.
    fn rocksdb_write_buffer_manager_buffer_size(wbm: *mut rocksdb_write_buffer_manager_t) -> usize {
        of(wbm.cast_const()).buffer_size()
    }
    /// Sets the limit in bytes.
    fn rocksdb_write_buffer_manager_set_buffer_size(wbm: *mut rocksdb_write_buffer_manager_t, new_size: usize) {
        of(wbm.cast_const()).set_buffer_size(new_size);
    }
    /// If true, writes stall at the limit.
    fn rocksdb_write_buffer_manager_set_allow_stall(wbm: *mut rocksdb_write_buffer_manager_t, new_allow_stall: bool) {
        of(wbm.cast_const()).set_allow_stall(new_allow_stall);
    }
    /// Sets the write buffer manager. The program still destroys its handle.
    fn rocksdb_options_set_write_buffer_manager(opt: *mut rocksdb_options_t, wbm: *mut rocksdb_write_buffer_manager_t) {
        of_mut(opt).db.write_buffer_manager = maybe(wbm.cast_const()).cloned();
    }
}
