//! Databases with optimistic transactions.

use std::ffi::{c_char, c_int, c_uchar};
use std::path::Path;
use std::sync::Arc;

use cairn_db::FamilyDescriptor;
use cairn_txn::{
    LockBuckets, OptimisticTransactionDb, OptimisticTransactionDbOptions,
    OptimisticTransactionOptions,
};

use cairn_types::Result;

use crate::batch::rocksdb_writebatch_t;
use crate::database::{Database, rocksdb_column_family_handle_t, rocksdb_t};
use crate::db::{
    default_family, open_by, open_descriptors, property_number, property_text, store_families,
};
use crate::error::{path, report, report_ptr, text};
use crate::handle::{create, maybe, of, of_mut, take};
use crate::metadata::rocksdb_checkpoint_t;
use crate::options::{AllOptions, Checked, rocksdb_options_t, rocksdb_writeoptions_t};
use crate::transaction::{begun, rocksdb_transaction_t};
use crate::transaction_db::Transactional;

handles! {
    /// A database with optimistic transactions.
    rocksdb_optimistictransactiondb_t = Transactional<OptimisticTransactionDb>;
    /// Options of an optimistic transaction.
    rocksdb_optimistictransaction_options_t = Checked<OptimisticTransactionOptions>;
    /// Options of a database with optimistic transactions.
    rocksdb_optimistictransactiondb_options_t = Checked<OptimisticTransactionDbOptions>;
    /// Locks for parallel validation, which databases can share.
    rocksdb_optimistictransactiondb_lock_buckets_t = Arc<LockBuckets>;
}

c_destructors! {
    /// Frees options.
    rocksdb_optimistictransaction_options_destroy(rocksdb_optimistictransaction_options_t);
    /// Frees options.
    rocksdb_optimistictransactiondb_options_destroy(rocksdb_optimistictransactiondb_options_t);
    /// Releases the program's reference to locks.
    rocksdb_optimistictransactiondb_lock_buckets_destroy(rocksdb_optimistictransactiondb_lock_buckets_t);
}

c_setters! { rocksdb_optimistictransaction_options_t:
    rocksdb_optimistictransaction_options_set_set_snapshot(c_uchar) => set_snapshot;
}

c_getters! { rocksdb_optimistictransaction_options_t:
    rocksdb_optimistictransaction_options_get_set_snapshot(mut) -> c_uchar => set_snapshot;
}

c_setters! { rocksdb_optimistictransactiondb_options_t:
    rocksdb_optimistictransactiondb_options_set_occ_lock_buckets(u32) => occ_lock_buckets;
    rocksdb_optimistictransactiondb_options_set_validate_policy(c_int) => validate_policy;
}

c_getters! { rocksdb_optimistictransactiondb_options_t:
    rocksdb_optimistictransactiondb_options_get_occ_lock_buckets(mut) -> u32 => occ_lock_buckets;
    rocksdb_optimistictransactiondb_options_get_validate_policy(mut) -> c_int => validate_policy;
}

/// Opens the database in the directory `name` with `families`.
fn open(
    options: &AllOptions,
    name: &Path,
    families: &[FamilyDescriptor],
    own: &OptimisticTransactionDbOptions,
) -> Result<Transactional<OptimisticTransactionDb>> {
    let db = open_by(options, name, families, false, |request| {
        OptimisticTransactionDb::open(request, own)
    })?;
    let base = db.db().clone();
    Ok(Transactional::new(db, base))
}

/// Opens the database in the directory `name` with the families of C arrays, and stores their handles.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn open_families(
    options: *const rocksdb_options_t,
    name: *const c_char,
    (count, names, own_options): (c_int, *const *const c_char, *const *const rocksdb_options_t),
    handles: *mut *mut rocksdb_column_family_handle_t,
    own: &OptimisticTransactionDbOptions,
) -> Result<*mut rocksdb_optimistictransactiondb_t> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let families = open_descriptors(count, names, own_options)?;
        let opened = open(of(options).checked()?, &path(name), &families, own)?;
        store_families(opened.db.db(), &families, handles)?;
        Ok(create(opened))
    }
}

/// The options of a handle; the defaults for null.
///
/// # Safety
///
/// The handle is null or live.
unsafe fn own_options(
    options: *const rocksdb_optimistictransactiondb_options_t,
) -> Result<OptimisticTransactionDbOptions> {
    // SAFETY: guaranteed by the caller.
    match unsafe { maybe(options) } {
        Some(options) => options.checked().cloned(),
        None => Ok(OptimisticTransactionDbOptions::default()),
    }
}

c_functions! {
    /// Creates options with RocksDB's defaults.
    fn rocksdb_optimistictransaction_options_create() -> *mut rocksdb_optimistictransaction_options_t {
        create(Checked::new(OptimisticTransactionOptions::default()))
    }
    /// Opens the database in the directory `name`, which must have only the default family.
    fn rocksdb_optimistictransactiondb_open(
        options: *const rocksdb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_optimistictransactiondb_t {
        report_ptr(errptr, || {
            let all = of(options).checked()?;
            Ok(create(open(all, &path(name), &default_family(all), &OptimisticTransactionDbOptions::default())?))
        })
    }
    /// Opens the database in the directory `name` with options of transactions; null for the defaults.
    fn rocksdb_optimistictransactiondb_open_with_otxn_db_options(
        options: *const rocksdb_options_t,
        otxn_db_options: *const rocksdb_optimistictransactiondb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_optimistictransactiondb_t {
        report_ptr(errptr, || {
            let all = of(options).checked()?;
            Ok(create(open(all, &path(name), &default_family(all), &own_options(otxn_db_options)?)?))
        })
    }
    /// Opens a database with all of its families.
    fn rocksdb_optimistictransactiondb_open_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_optimistictransactiondb_t {
        report_ptr(errptr, || {
            let listed = (num_column_families, column_family_names, column_family_options);
            open_families(options, name, listed, column_family_handles, &OptimisticTransactionDbOptions::default())
        })
    }
    /// Opens a database with all of its families and with options of transactions; null for the defaults.
    fn rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
        db_options: *const rocksdb_options_t,
        otxn_db_options: *const rocksdb_optimistictransactiondb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_optimistictransactiondb_t {
        report_ptr(errptr, || {
            let listed = (num_column_families, column_family_names, column_family_options);
            open_families(db_options, name, listed, column_family_handles, &own_options(otxn_db_options)?)
        })
    }
    /// Creates options with RocksDB's defaults.
    fn rocksdb_optimistictransactiondb_options_create() -> *mut rocksdb_optimistictransactiondb_options_t {
        create(Checked::new(OptimisticTransactionDbOptions::default()))
    }
    /// Sets locks that other databases use, too. The options share them; null for locks of the database.
    fn rocksdb_optimistictransactiondb_options_set_shared_lock_buckets(
        opt: *mut rocksdb_optimistictransactiondb_options_t,
        lock_buckets: *mut rocksdb_optimistictransactiondb_lock_buckets_t,
    ) {
        of_mut(opt).shared_lock_buckets = maybe(lock_buckets.cast_const()).cloned();
    }
    /// Creates locks: `bucket_count`, each on a cache line of its own if `cache_aligned`.
    fn rocksdb_optimistictransactiondb_lock_buckets_create(
        bucket_count: usize,
        cache_aligned: c_uchar,
    ) -> *mut rocksdb_optimistictransactiondb_lock_buckets_t {
        create(Arc::new(LockBuckets::new(bucket_count, cache_aligned != 0)))
    }
    /// Returns the memory of locks in bytes.
    fn rocksdb_optimistictransactiondb_lock_buckets_approximate_memory_usage(
        lock_buckets: *mut rocksdb_optimistictransactiondb_lock_buckets_t,
    ) -> usize {
        of(lock_buckets.cast_const()).memory()
    }
    /// Closes a database. Transactions, iterators, snapshots and family handles that still exist must be destroyed
    /// afterwards; any other use of them reports that the database is closed.
    fn rocksdb_optimistictransactiondb_close(otxn_db: *mut rocksdb_optimistictransactiondb_t) {
        if !otxn_db.is_null() {
            take(otxn_db).close();
        }
    }
    /// Returns a handle of the underlying database, to be destroyed with
    /// `rocksdb_optimistictransactiondb_close_base_db`.
    fn rocksdb_optimistictransactiondb_get_base_db(otxn_db: *mut rocksdb_optimistictransactiondb_t) -> *mut rocksdb_t {
        create(Database { db: of(otxn_db.cast_const()).db.db().clone() })
    }
    /// Destroys a handle of an underlying database, which stays open.
    fn rocksdb_optimistictransactiondb_close_base_db(base_db: *mut rocksdb_t) {
        crate::handle::destroy(base_db);
    }
    /// Begins a transaction; in `old_txn`, whose transaction is rolled back, unless it is null.
    fn rocksdb_optimistictransaction_begin(
        otxn_db: *mut rocksdb_optimistictransactiondb_t,
        write_options: *const rocksdb_writeoptions_t,
        otxn_options: *const rocksdb_optimistictransaction_options_t,
        old_txn: *mut rocksdb_transaction_t,
    ) -> *mut rocksdb_transaction_t {
        let db = &of(otxn_db.cast_const()).db;
        let options = maybe(otxn_options).map(|options| (**options).clone());
        begun(old_txn, write_options, |write_options| {
            db.begin_with(write_options, &options.unwrap_or_default())
        })
    }
    /// Writes a batch atomically, outside of a transaction.
    fn rocksdb_optimistictransactiondb_write(
        otxn_db: *mut rocksdb_optimistictransactiondb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            of(otxn_db.cast_const()).db.write(of(batch.cast_const()), of(options).checked()?)
        });
    }
    /// Returns a property of the default family as text, or null, to be freed with `free`.
    fn rocksdb_optimistictransactiondb_property_value(db: *mut rocksdb_optimistictransactiondb_t, propname: *const c_char) -> *mut c_char {
        property_text(of(db.cast_const()).db.db(), &text(propname))
    }
    /// Stores an integer property of the default family; returns -1 if there is no such property.
    fn rocksdb_optimistictransactiondb_property_int(db: *mut rocksdb_optimistictransactiondb_t, propname: *const c_char, out_val: *mut u64) -> c_int {
        property_number(of(db.cast_const()).db.db(), &text(propname), out_val)
    }
    /// Creates an object for creating checkpoints of a database.
    fn rocksdb_optimistictransactiondb_checkpoint_object_create(otxn_db: *mut rocksdb_optimistictransactiondb_t, errptr: *mut *mut c_char) -> *mut rocksdb_checkpoint_t {
        report_ptr(errptr, || Ok(create(of(otxn_db.cast_const()).db.db().clone())))
    }
}
