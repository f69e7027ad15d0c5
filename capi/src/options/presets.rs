//! Presets, and options loaded from an OPTIONS file.

use std::ffi::{c_char, c_int};

use crate::cache::rocksdb_cache_t;
use crate::env::rocksdb_env_t;
use crate::error::{array, malloc_text, path, pointers, report, store};
use crate::handle::{create, destroy, maybe, of, of_mut};
use crate::options::{AllOptions, Checked, TABLE_FACTORY, c_defaults, rocksdb_options_t};

c_functions! {
    /// Tunes the options for `total_threads` background threads. Also sets the environment's low-priority pool to
    /// `total_threads` threads and its high-priority pool to one; opening a database may raise both.
    fn rocksdb_options_increase_parallelism(opt: *mut rocksdb_options_t, total_threads: c_int) {
        let options = of_mut(opt);
        let executor = options.world().executor;
        cairn_options::presets::increase_parallelism(&mut options.db, &*executor, total_threads);
    }
    /// Tunes the options for point lookups with a cache of this many MiB.
    fn rocksdb_options_optimize_for_point_lookup(opt: *mut rocksdb_options_t, block_cache_size_mb: u64) {
        let options = of_mut(opt);
        options.accept(TABLE_FACTORY);
        options.family.optimize_for_point_lookup(block_cache_size_mb);
    }
    /// Tunes the options for leveled compaction with this many bytes of memtables.
    fn rocksdb_options_optimize_level_style_compaction(opt: *mut rocksdb_options_t, memtable_memory_budget: u64) {
        let options = of_mut(opt);
        options.accept("family.compaction_style");
        options.accept("compression_per_level");
        options.family.optimize_level_style_compaction(memtable_memory_budget);
    }
    /// Tunes the options for universal compaction with this many bytes of memtables.
    fn rocksdb_options_optimize_universal_style_compaction(opt: *mut rocksdb_options_t, memtable_memory_budget: u64) {
        let options = of_mut(opt);
        options.accept("family.compaction_style");
        options.family.optimize_universal_style_compaction(memtable_memory_budget);
    }
    /// Tunes the options for a bulk load, which a manual compaction should follow.
    fn rocksdb_options_prepare_for_bulk_load(opt: *mut rocksdb_options_t) {
        let all = &mut **of_mut(opt);
        cairn_options::presets::prepare_for_bulk_load(&mut all.db, &mut all.family);
    }

    /// Loads the newest OPTIONS file of a database: the database options, and the name and options of
    /// each family. Freed with `rocksdb_load_latest_options_destroy`.
    fn rocksdb_load_latest_options(
        db_path: *const c_char,
        env: *mut rocksdb_env_t,
        ignore_unknown_options: bool,
        cache: *mut rocksdb_cache_t,
        db_options: *mut *mut rocksdb_options_t,
        num_column_families: *mut usize,
        column_family_names: *mut *mut *mut c_char,
        column_family_options: *mut *mut *mut rocksdb_options_t,
        errptr: *mut *mut c_char,
    ) {
        store(db_options, std::ptr::null_mut());
        store(num_column_families, 0);
        store(column_family_names, std::ptr::null_mut());
        store(column_family_options, std::ptr::null_mut());
        report(errptr, || {
            let world = of(env.cast_const()).world.clone();
            let mut file = cairn_db::load_latest_options(&path(db_path), ignore_unknown_options, &world)?;
            file.forget_unknown_code();
            if let Some(cache) = maybe(cache.cast_const()) {
                for (_, family) in &mut file.families {
                    family.table.block_cache = Some(cache.clone());
                }
            }
            let handle = |db, family| {
                let db = c_defaults(db);
                create(Checked::new(AllOptions { db, family, world: Some(world.clone()) }))
            };
            store(num_column_families, file.families.len());
            let names = file.families.iter().map(|(name, _)| malloc_text(name));
            store(column_family_names, pointers(names));
            let options = file.families.iter().map(|(_, family)| handle(Default::default(), family.clone()));
            store(column_family_options, pointers(options));
            store(db_options, handle(file.db, Default::default()));
            Ok(())
        });
    }
    /// Frees the results of `rocksdb_load_latest_options`.
    fn rocksdb_load_latest_options_destroy(
        db_options: *mut rocksdb_options_t,
        list_column_family_names: *mut *mut c_char,
        list_column_family_options: *mut *mut rocksdb_options_t,
        len: usize,
    ) {
        destroy(db_options);
        for name in array(list_column_family_names.cast_const(), len) {
            libc::free(name.cast());
        }
        libc::free(list_column_family_names.cast());
        for options in array(list_column_family_options.cast_const(), len) {
            destroy(*options);
        }
        libc::free(list_column_family_options.cast());
    }
}
