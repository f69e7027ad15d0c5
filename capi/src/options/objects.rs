//! Options that are paths, lists or objects.

use std::ffi::{c_char, c_int, c_uchar};
use std::os::unix::ffi::OsStrExt;

use cairn_options::{Compression, DbPath, FileChecksum, MemtableFactory};

use super::*;
use crate::cache::rocksdb_cache_t;
use crate::callbacks::comparator::rocksdb_comparator_t;
use crate::callbacks::filter_policy::rocksdb_filterpolicy_t;
use crate::callbacks::merge::rocksdb_mergeoperator_t;
use crate::callbacks::transform::rocksdb_slicetransform_t;
use crate::env::rocksdb_env_t;
use crate::error::store;
use crate::handle::{maybe, take};
use crate::table_properties::words;

handles! {
    /// A directory for tables and its target size.
    rocksdb_dbpath_t = DbPath;
    /// A factory of file checksums.
    rocksdb_file_checksum_gen_factory_t = FileChecksum;
}

c_destructors! {
    /// Frees a path.
    rocksdb_dbpath_destroy(rocksdb_dbpath_t);
    /// Releases the program's reference to a factory.
    rocksdb_file_checksum_gen_factory_destroy(rocksdb_file_checksum_gen_factory_t);
}

/// Implements `rocksdb_options_set_min_level_to_compress`: no compression above `level`.
fn compress_from(options: &mut FamilyOptions, level: c_int) {
    let Ok(level) = usize::try_from(level) else {
        return;
    };
    let levels = usize::try_from(options.num_levels).unwrap_or(0);
    options.compression_per_level = (0..levels)
        .map(|at| match at < level {
            true => Compression::None,
            false => options.compression,
        })
        .collect();
}

/// The paths of a C array.
///
/// # Safety
///
/// The array is valid as `c.h` requires.
unsafe fn paths(values: *mut *const rocksdb_dbpath_t, count: usize) -> Vec<DbPath> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let handles = array(values.cast_const(), count);
        handles.iter().map(|handle| of(*handle).clone()).collect()
    }
}

/// The error for the name of a factory of indexes.
fn no_index_factory(name: Option<&[u8]>) -> Result<()> {
    match name {
        None => Ok(()),
        Some(name) => Err(Error::not_supported(format!(
            "user-defined indexes: {}",
            String::from_utf8_lossy(name)
        ))),
    }
}

c_functions! {
    /// Creates a path for `rocksdb_options_set_db_paths`.
    fn rocksdb_dbpath_create(path_name: *const c_char, target_size: u64) -> *mut rocksdb_dbpath_t {
        create(DbPath { path: path(path_name), target_size })
    }
    /// Creates a factory of CRC-32C checksums.
    fn rocksdb_file_checksum_gen_crc32c_factory_create() -> *mut rocksdb_file_checksum_gen_factory_t {
        create(FileChecksum::Crc32c)
    }
    /// Sets the factory of file checksums, which are recorded in the MANIFEST. The caller still
    /// owns the factory; null is ignored.
    fn rocksdb_options_set_file_checksum_gen_factory(
        opt: *mut rocksdb_options_t,
        file_checksum_gen_factory: *mut rocksdb_file_checksum_gen_factory_t,
    ) {
        if let Some(factory) = maybe(file_checksum_gen_factory) {
            of_mut(opt).db.file_checksum_gen_factory = Some(factory.clone());
        }
    }
    /// Sets the directories for tables.
    fn rocksdb_options_set_db_paths(
        opt: *mut rocksdb_options_t,
        path_values: *mut *const rocksdb_dbpath_t,
        num_paths: usize,
    ) {
        of_mut(opt).db.db_paths = paths(path_values, num_paths);
    }
    /// Sets the directories for a family's tables.
    fn rocksdb_options_set_cf_paths(
        opt: *mut rocksdb_options_t,
        path_values: *mut *const rocksdb_dbpath_t,
        num_paths: usize,
    ) {
        of_mut(opt).family.cf_paths = paths(path_values, num_paths);
    }
    /// Sets the directory of LOG files.
    fn rocksdb_options_set_db_log_dir(opt: *mut rocksdb_options_t, dir: *const c_char) {
        of_mut(opt).db.db_log_dir = path(dir);
    }
    /// Sets the directory of WAL files.
    fn rocksdb_options_set_wal_dir(opt: *mut rocksdb_options_t, dir: *const c_char) {
        of_mut(opt).db.wal_dir = path(dir);
    }
    /// Returns the directory of LOG files; empty for that of the database. It belongs to the options.
    fn rocksdb_options_get_db_log_dir(opt: *mut rocksdb_options_t, size: *mut usize) -> *const c_char {
        words(of(opt.cast_const()).db.db_log_dir.as_os_str().as_bytes(), size)
    }
    /// Returns the directory of WAL files; empty for that of the database. It belongs to the options.
    fn rocksdb_options_get_wal_dir(opt: *mut rocksdb_options_t, size: *mut usize) -> *const c_char {
        words(of(opt.cast_const()).db.wal_dir.as_os_str().as_bytes(), size)
    }
    /// Sets the host id recorded in tables; `__hostname__` stands for the name of the host.
    fn rocksdb_options_set_db_host_id(opt: *mut rocksdb_options_t, v: *const c_char) {
        of_mut(opt).db.db_host_id = text(v);
    }
    /// Returns the host id, which belongs to the options.
    fn rocksdb_options_get_db_host_id(opt: *mut rocksdb_options_t, size: *mut usize) -> *const c_char {
        words(of(opt.cast_const()).db.db_host_id.as_bytes(), size)
    }
    /// Sets the daily off-peak time, as `HH:mm-HH:mm` in UTC.
    fn rocksdb_options_set_daily_offpeak_time_utc(opt: *mut rocksdb_options_t, v: *const c_char) {
        of_mut(opt).db.daily_offpeak_time_utc = text(v);
    }
    /// Returns the daily off-peak time, which belongs to the options.
    fn rocksdb_options_get_daily_offpeak_time_utc(opt: *mut rocksdb_options_t, size: *mut usize) -> *const c_char {
        words(of(opt.cast_const()).db.daily_offpeak_time_utc.as_bytes(), size)
    }
    /// Sets the environment.
    fn rocksdb_options_set_env(opt: *mut rocksdb_options_t, env: *mut rocksdb_env_t) {
        of_mut(opt).world = maybe(env.cast_const()).map(|env| env.world.clone());
    }

    /// Sets the comparator. The options share it, and the program still destroys its handle.
    fn rocksdb_options_set_comparator(opt: *mut rocksdb_options_t, comparator: *mut rocksdb_comparator_t) {
        let (opt, comparator) = (of_mut(opt), of(comparator.cast_const()).clone());
        opt.accept("comparator");
        // Databases record the name: others that are changed alike would be taken for the same order.
        if comparator.name().contains(char::REPLACEMENT_CHARACTER) {
            let error = format!("the name of the comparator {} is not UTF-8", comparator.name());
            opt.refuse("comparator", Error::not_supported(error));
        }
        opt.family.comparator = comparator;
    }
    /// Sets the merge operator. The options take ownership.
    fn rocksdb_options_set_merge_operator(opt: *mut rocksdb_options_t, operator: *mut rocksdb_mergeoperator_t) {
        of_mut(opt).family.merge_operator = match operator.is_null() {
            true => None,
            false => Some(take(operator)),
        };
    }
    /// Sets the merge operator that adds little-endian 64-bit integers.
    fn rocksdb_options_set_uint64add_merge_operator(opt: *mut rocksdb_options_t) {
        of_mut(opt).family.merge_operator = cairn_options::merge_operators::from_text("uint64add").ok();
    }
    /// Sets the prefix extractor. The options take ownership.
    fn rocksdb_options_set_prefix_extractor(opt: *mut rocksdb_options_t, transform: *mut rocksdb_slicetransform_t) {
        of_mut(opt).family.prefix_extractor = match transform.is_null() {
            true => None,
            false => Some(take(transform)),
        };
    }
    /// Sets the filter policy. The table options take ownership.
    fn rocksdb_block_based_options_set_filter_policy(
        opt: *mut rocksdb_block_based_table_options_t,
        policy: *mut rocksdb_filterpolicy_t,
    ) {
        of_mut(opt).filter_policy = match policy.is_null() {
            true => None,
            false => Some(take(policy)),
        };
    }
    /// Sets the block cache. The options share it, and the program still destroys its handle. Null is ignored.
    fn rocksdb_block_based_options_set_block_cache(
        opt: *mut rocksdb_block_based_table_options_t,
        cache: *mut rocksdb_cache_t,
    ) {
        if let Some(cache) = maybe(cache.cast_const()) {
            of_mut(opt).block_cache = Some(cache.clone());
        }
    }
    /// Sets the blob cache. The options share it; it may be the block cache.
    fn rocksdb_options_set_blob_cache(opt: *mut rocksdb_options_t, blob_cache: *mut rocksdb_cache_t) {
        of_mut(opt).family.blob_cache = maybe(blob_cache.cast_const()).cloned();
    }
    /// Sets the row cache. The options share it; it may be the block cache. Range deletions work with it. Null is ignored.
    fn rocksdb_options_set_row_cache(opt: *mut rocksdb_options_t, cache: *mut rocksdb_cache_t) {
        if let Some(cache) = maybe(cache.cast_const()) {
            of_mut(opt).db.row_cache = Some(cache.clone());
        }
    }

    /// Sets the compression of each level.
    fn rocksdb_options_set_compression_per_level(
        opt: *mut rocksdb_options_t,
        level_values: *const c_int,
        num_levels: usize,
    ) {
        let options = of_mut(opt);
        let option = "compression_per_level";
        options.accept(option);
        let mut levels = Vec::with_capacity(num_levels);
        for &value in array(level_values, num_levels) {
            let mut kind = Compression::None;
            if !scalar::Scalar::set(&mut kind, value) {
                options.refuse_number(option, "rocksdb_options_set_compression_per_level", value.into());
            }
            levels.push(kind);
        }
        options.family.compression_per_level = levels;
    }
    /// Disables compression above `level`.
    fn rocksdb_options_set_min_level_to_compress(opt: *mut rocksdb_options_t, level: c_int) {
        let options = of_mut(opt);
        if level >= 0 {
            options.accept("compression_per_level");
        }
        compress_from(&mut options.family, level);
    }
    /// Sets the window size, level, strategy and dictionary size of the codec.
    fn rocksdb_options_set_compression_options(
        opt: *mut rocksdb_options_t,
        w_bits: c_int,
        level: c_int,
        strategy: c_int,
        max_dict_bytes: c_int,
    ) {
        let options = &mut of_mut(opt).family.compression_opts;
        options.window_bits = w_bits;
        options.level = level;
        options.strategy = strategy;
        options.max_dict_bytes = max_dict_bytes.cast_unsigned();
    }
    /// The same for the bottommost level.
    fn rocksdb_options_set_bottommost_compression_options(
        opt: *mut rocksdb_options_t,
        w_bits: c_int,
        level: c_int,
        strategy: c_int,
        max_dict_bytes: c_int,
        enabled: c_uchar,
    ) {
        let options = &mut of_mut(opt).family.bottommost_compression_opts;
        options.window_bits = w_bits;
        options.level = level;
        options.strategy = strategy;
        options.max_dict_bytes = max_dict_bytes.cast_unsigned();
        options.enabled = enabled != 0;
    }
    /// Sets the sample size of the bottommost level's dictionary training, in bytes.
    fn rocksdb_options_set_bottommost_compression_options_zstd_max_train_bytes(
        opt: *mut rocksdb_options_t,
        bytes: c_int,
        enabled: c_uchar,
    ) {
        let options = &mut of_mut(opt).family.bottommost_compression_opts;
        options.zstd_max_train_bytes = bytes.cast_unsigned();
        options.enabled = enabled != 0;
    }
    /// If true, zstd's trainer creates the dictionaries of the bottommost level.
    fn rocksdb_options_set_bottommost_compression_options_use_zstd_dict_trainer(
        opt: *mut rocksdb_options_t,
        use_trainer: c_uchar,
        enabled: c_uchar,
    ) {
        let options = &mut of_mut(opt).family.bottommost_compression_opts;
        options.use_zstd_dict_trainer = use_trainer != 0;
        options.enabled = enabled != 0;
    }
    /// Sets the limit on data buffered for the bottommost level's dictionaries, in bytes.
    fn rocksdb_options_set_bottommost_compression_options_max_dict_buffer_bytes(
        opt: *mut rocksdb_options_t,
        bytes: u64,
        enabled: c_uchar,
    ) {
        let options = &mut of_mut(opt).family.bottommost_compression_opts;
        options.max_dict_buffer_bytes = bytes;
        options.enabled = enabled != 0;
    }
    /// Sets additional multipliers of level sizes.
    fn rocksdb_options_set_max_bytes_for_level_multiplier_additional(
        opt: *mut rocksdb_options_t,
        level_values: *mut c_int,
        num_levels: usize,
    ) {
        of_mut(opt).family.max_bytes_for_level_multiplier_additional =
            array(level_values.cast_const(), num_levels).to_vec();
    }

    /// Sets the vector memtable, which is sorted when it becomes immutable.
    fn rocksdb_options_set_memtable_vector_rep(opt: *mut rocksdb_options_t) {
        of_mut(opt).family.memtable_factory = MemtableFactory::Vector;
    }
    /// Sets the memtable with a skip list for each prefix.
    fn rocksdb_options_set_hash_skip_list_rep(
        opt: *mut rocksdb_options_t,
        _bucket_count: usize,
        _height: i32,
        _branching: i32,
    ) {
        of_mut(opt).family.memtable_factory = MemtableFactory::HashSkipList;
    }
    /// Sets the memtable with a linked list for each prefix.
    fn rocksdb_options_set_hash_link_list_rep(opt: *mut rocksdb_options_t, _bucket_count: usize) {
        of_mut(opt).family.memtable_factory = MemtableFactory::HashLinkList;
    }

    /// Reports that Cairn has no user-defined indexes, except for null.
    fn rocksdb_block_based_options_set_user_defined_index_factory_from_string(
        _options: *mut rocksdb_block_based_table_options_t,
        value: *const c_char,
        value_len: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || no_index_factory(maybe_bytes(value, value_len)));
    }
    /// Does nothing: there is no user-defined index.
    fn rocksdb_block_based_options_clear_user_defined_index_factory(_options: *mut rocksdb_block_based_table_options_t) {}
    /// Returns null: there is no user-defined index.
    fn rocksdb_block_based_options_get_user_defined_index_factory_name(
        _options: *const rocksdb_block_based_table_options_t,
        name_len: *mut usize,
    ) -> *const c_char {
        store(name_len, 0);
        std::ptr::null()
    }
    /// Reports that Cairn has no user-defined indexes, except for null.
    fn rocksdb_readoptions_set_table_index_factory_from_string(
        _opt: *mut rocksdb_readoptions_t,
        value: *const c_char,
        value_len: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || no_index_factory(maybe_bytes(value, value_len)));
    }
    /// Does nothing: there is no user-defined index.
    fn rocksdb_readoptions_clear_table_index_factory(_opt: *mut rocksdb_readoptions_t) {}
    /// Returns null: there is no user-defined index.
    fn rocksdb_readoptions_get_table_index_factory_name(
        _opt: *const rocksdb_readoptions_t,
        name_len: *mut usize,
    ) -> *const c_char {
        store(name_len, 0);
        std::ptr::null()
    }
}
