//! Databases with pessimistic transactions: their options, opening and closing, and operations outside of transactions.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_db::Db;
use cairn_txn::{TransactionDb, TransactionDbOptions};

use crate::batch::rocksdb_writebatch_t;
use crate::control::rocksdb_flushwaloptions_t;
use crate::database::{
    Database, ReadPoint, hold, release_snapshot, rocksdb_column_family_handle_t,
    rocksdb_snapshot_t, rocksdb_t,
};
use crate::db::{
    default_family, flush, flushed_families, open_by, open_descriptors, property_number,
    property_text, store_families,
};
use crate::error::{bytes, family_name, malloc_bytes, path, report, report_ptr, store, text};
use crate::handle::{create, maybe, of, of_mut, take};
use crate::iter::{iter_over, rocksdb_iterator_t};
use crate::metadata::rocksdb_checkpoint_t;
use crate::options::{
    Checked, rocksdb_flushoptions_t, rocksdb_options_t, rocksdb_readoptions_t,
    rocksdb_writeoptions_t,
};
use crate::reads::{
    Lists, families, get_copy, get_pinned, keys, multi_get, rocksdb_pinnableslice_t,
};
use crate::transaction::{TransactionHandle, rocksdb_transaction_t};

/// A database with transactions, and the handle of its base, which listeners receive.
pub struct Transactional<D> {
    pub(crate) db: D,
    base: *mut rocksdb_t,
}

impl<D> Transactional<D> {
    /// Adds `base`, the base of `db`, to the list of open databases.
    pub(crate) fn new(db: D, base: Db) -> Transactional<D> {
        let base = hold(base);
        Transactional { db, base }
    }

    /// Closes the database.
    ///
    /// # Safety
    ///
    /// The handle of the base is live.
    pub(crate) unsafe fn close(self) {
        drop(self.db);
        // SAFETY: guaranteed by the caller.
        unsafe { crate::db::close(self.base) };
    }
}

handles! {
    /// A database with pessimistic transactions.
    rocksdb_transactiondb_t = Transactional<TransactionDb>;
    /// Options of a database with pessimistic transactions.
    rocksdb_transactiondb_options_t = Checked<TransactionDbOptions>;
}

c_destructors! {
    /// Frees options.
    rocksdb_transactiondb_options_destroy(rocksdb_transactiondb_options_t);
}

c_setters! { rocksdb_transactiondb_options_t:
    rocksdb_transactiondb_options_set_default_lock_timeout(i64) => default_lock_timeout;
    rocksdb_transactiondb_options_set_default_write_batch_flush_threshold(i64) => default_write_batch_flush_threshold;
    rocksdb_transactiondb_options_set_enable_udt_validation(c_uchar) => enable_udt_validation;
    rocksdb_transactiondb_options_set_max_num_deadlocks(u32) => max_num_deadlocks;
    rocksdb_transactiondb_options_set_max_num_locks(i64) => max_num_locks;
    rocksdb_transactiondb_options_set_num_stripes(usize) => num_stripes;
    rocksdb_transactiondb_options_set_rollback_merge_operands(c_uchar) => rollback_merge_operands;
    rocksdb_transactiondb_options_set_skip_concurrency_control(c_uchar) => skip_concurrency_control;
    rocksdb_transactiondb_options_set_transaction_lock_timeout(i64) => transaction_lock_timeout;
    rocksdb_transactiondb_options_set_txn_commit_bypass_memtable_threshold(u32) => txn_commit_bypass_memtable_threshold;
    rocksdb_transactiondb_options_set_use_per_key_point_lock_mgr(c_uchar) => use_per_key_point_lock_mgr;
    rocksdb_transactiondb_options_set_write_policy(c_int) => write_policy;
}

c_getters! { rocksdb_transactiondb_options_t:
    rocksdb_transactiondb_options_get_default_lock_timeout(mut) -> i64 => default_lock_timeout;
    rocksdb_transactiondb_options_get_default_write_batch_flush_threshold(mut) -> i64 => default_write_batch_flush_threshold;
    rocksdb_transactiondb_options_get_enable_udt_validation(mut) -> c_uchar => enable_udt_validation;
    rocksdb_transactiondb_options_get_max_num_deadlocks(mut) -> u32 => max_num_deadlocks;
    rocksdb_transactiondb_options_get_max_num_locks(mut) -> i64 => max_num_locks;
    rocksdb_transactiondb_options_get_num_stripes(mut) -> usize => num_stripes;
    rocksdb_transactiondb_options_get_rollback_merge_operands(mut) -> c_uchar => rollback_merge_operands;
    rocksdb_transactiondb_options_get_skip_concurrency_control(mut) -> c_uchar => skip_concurrency_control;
    rocksdb_transactiondb_options_get_transaction_lock_timeout(mut) -> i64 => transaction_lock_timeout;
    rocksdb_transactiondb_options_get_txn_commit_bypass_memtable_threshold(mut) -> u32 => txn_commit_bypass_memtable_threshold;
    rocksdb_transactiondb_options_get_use_per_key_point_lock_mgr(mut) -> c_uchar => use_per_key_point_lock_mgr;
    rocksdb_transactiondb_options_get_write_policy(mut) -> c_int => write_policy;
}

/// The underlying database of a handle.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
unsafe fn base<'a>(db: *mut rocksdb_transactiondb_t) -> &'a Db {
    // SAFETY: guaranteed by the caller.
    unsafe { of(db.cast_const()) }.db.db()
}

/// An array of `handles` from `malloc`; null if there are none.
fn malloc_handles(handles: &[*mut rocksdb_transaction_t]) -> *mut *mut rocksdb_transaction_t {
    if handles.is_empty() {
        return std::ptr::null_mut();
    }
    let bytes: Vec<u8> = handles
        .iter()
        .flat_map(|handle| handle.expose_provenance().to_ne_bytes())
        .collect();
    malloc_bytes(&bytes).cast()
}

c_functions! {
    /// Creates options with RocksDB's defaults.
    fn rocksdb_transactiondb_options_create() -> *mut rocksdb_transactiondb_options_t {
        create(Checked::new(TransactionDbOptions::default()))
    }
    /// Opens the database in the directory `name`, which must have only the default family.
    fn rocksdb_transactiondb_open(
        options: *const rocksdb_options_t,
        txn_db_options: *const rocksdb_transactiondb_options_t,
        name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_transactiondb_t {
        report_ptr(errptr, || {
            let (all, own) = (of(options).checked()?, of(txn_db_options).checked()?);
            let families = default_family(all);
            let db = open_by(all, &path(name), &families, false, |request| TransactionDb::open(request, own))?;
            let base = db.db().clone();
            Ok(create(Transactional::new(db, base)))
        })
    }
    /// Opens a database with all of its families.
    fn rocksdb_transactiondb_open_column_families(
        options: *const rocksdb_options_t,
        txn_db_options: *const rocksdb_transactiondb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_transactiondb_t {
        report_ptr(errptr, || {
            let (all, own) = (of(options).checked()?, of(txn_db_options).checked()?);
            let families = open_descriptors(num_column_families, column_family_names, column_family_options)?;
            let db = open_by(all, &path(name), &families, false, |request| TransactionDb::open(request, own))?;
            store_families(db.db(), &families, column_family_handles)?;
            let base = db.db().clone();
            Ok(create(Transactional::new(db, base)))
        })
    }
    /// Closes a database. Transactions, iterators, snapshots and family handles that still exist must be destroyed
    /// afterwards; any other use of them reports that the database is closed.
    fn rocksdb_transactiondb_close(txn_db: *mut rocksdb_transactiondb_t) {
        if !txn_db.is_null() {
            take(txn_db).close();
        }
    }
    /// Returns a handle of the underlying database, to be destroyed with `rocksdb_transactiondb_close_base_db`. Its
    /// writes ignore the locks of transactions.
    fn rocksdb_transactiondb_get_base_db(txn_db: *mut rocksdb_transactiondb_t) -> *mut rocksdb_t {
        create(Database { db: base(txn_db).clone() })
    }
    /// Destroys a handle of an underlying database, which stays open.
    fn rocksdb_transactiondb_close_base_db(base_db: *mut rocksdb_t) {
        crate::handle::destroy(base_db);
    }
    /// Creates a family.
    fn rocksdb_transactiondb_create_column_family(
        txn_db: *mut rocksdb_transactiondb_t,
        column_family_options: *const rocksdb_options_t,
        column_family_name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_column_family_handle_t {
        report_ptr(errptr, || {
            let options = of(column_family_options).checked()?;
            let db = &of(txn_db.cast_const()).db;
            Ok(create(db.create_family(&family_name(column_family_name)?, &options.family)?))
        })
    }
    /// Creates a snapshot of the current state.
    fn rocksdb_transactiondb_create_snapshot(txn_db: *mut rocksdb_transactiondb_t) -> *const rocksdb_snapshot_t {
        create::<rocksdb_snapshot_t>(ReadPoint::Snapshot(base(txn_db).snapshot())).cast_const()
    }
    /// Releases a snapshot.
    fn rocksdb_transactiondb_release_snapshot(_txn_db: *mut rocksdb_transactiondb_t, snapshot: *const rocksdb_snapshot_t) {
        release_snapshot(snapshot);
    }
    /// Returns a property of the default family as text, or null, to be freed with `free`.
    fn rocksdb_transactiondb_property_value(db: *mut rocksdb_transactiondb_t, propname: *const c_char) -> *mut c_char {
        property_text(base(db), &text(propname))
    }
    /// Stores an integer property of the default family; returns -1 if there is no such property.
    fn rocksdb_transactiondb_property_int(db: *mut rocksdb_transactiondb_t, propname: *const c_char, out_val: *mut u64) -> c_int {
        property_number(base(db), &text(propname), out_val)
    }
    /// Returns an array of `*cnt` prepared transactions, sorted by name: those recovered by the opening, and those whose
    /// handles were destroyed. Each is returned once, until its new handle is destroyed. The array is freed with
    /// `rocksdb_free`; null if there are none.
    fn rocksdb_transactiondb_get_prepared_transactions(txn_db: *mut rocksdb_transactiondb_t, cnt: *mut usize) -> *mut *mut rocksdb_transaction_t {
        let prepared = of(txn_db.cast_const()).db.prepared_transactions();
        store(cnt, prepared.len());
        let handles = prepared.into_iter().map(|txn| create(TransactionHandle::new(txn, None)));
        malloc_handles(&handles.collect::<Vec<_>>())
    }
    /// Returns the value of `key`, to be freed with `free`; null if there is none.
    fn rocksdb_transactiondb_get(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        vlen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        get_copy(base(txn_db), options, key, klen, vlen, errptr)
    }
    /// The same for a column family.
    fn rocksdb_transactiondb_get_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        vallen: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        let _ = base(txn_db);
        get_copy(of(column_family.cast_const()), options, key, keylen, vallen, errptr)
    }
    /// Returns the pinned value of `key` in the default family, or null.
    fn rocksdb_transactiondb_get_pinned(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        key: *const c_char,
        klen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t {
        get_pinned(base(txn_db), options, key, klen, errptr)
    }
    /// The same for a column family.
    fn rocksdb_transactiondb_get_pinned_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_pinnableslice_t {
        let _ = base(txn_db);
        get_pinned(of(column_family.cast_const()), options, key, keylen, errptr)
    }
    /// Reads several keys of the default family: copies, lengths and errors.
    fn rocksdb_transactiondb_multi_get(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let (db, keys) = (base(txn_db), keys(num_keys, keys_list, keys_list_sizes));
        let families = vec![db.default_family(); keys.len()];
        let lists = Lists { values: values_list, sizes: values_list_sizes, errors: errs };
        lists.put_all(multi_get(db, &families, &keys, of(options).checked(), false));
    }
    /// Reads several keys, with a family for each key.
    fn rocksdb_transactiondb_multi_get_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *const rocksdb_column_family_handle_t,
        num_keys: usize,
        keys_list: *const *const c_char,
        keys_list_sizes: *const usize,
        values_list: *mut *mut c_char,
        values_list_sizes: *mut usize,
        errs: *mut *mut c_char,
    ) {
        let (db, keys) = (base(txn_db), keys(num_keys, keys_list, keys_list_sizes));
        let families = families(num_keys, column_families);
        let lists = Lists { values: values_list, sizes: values_list_sizes, errors: errs };
        lists.put_all(multi_get(db, &families, &keys, of(options).checked(), false));
    }
    /// Creates an iterator over the default family, which is not positioned.
    fn rocksdb_transactiondb_create_iterator(txn_db: *mut rocksdb_transactiondb_t, options: *const rocksdb_readoptions_t) -> *mut rocksdb_iterator_t {
        iter_over(base(txn_db), of(options))
    }
    /// Creates an iterator over a family, which is not positioned.
    fn rocksdb_transactiondb_create_iterator_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
    ) -> *mut rocksdb_iterator_t {
        let _ = base(txn_db);
        iter_over(of(column_family.cast_const()), of(options))
    }
    /// Sets `key` to `val` in the default family, outside of a transaction.
    fn rocksdb_transactiondb_put(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let db = &of(txn_db.cast_const()).db;
            db.put(db.db(), bytes(key, klen), bytes(val, vlen), of(options).checked()?)
        });
    }
    /// Sets `key` to `val` in a family, outside of a transaction.
    fn rocksdb_transactiondb_put_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let family = of(column_family.cast_const());
            of(txn_db.cast_const()).db.put(family, bytes(key, keylen), bytes(val, vallen), of(options).checked()?)
        });
    }
    /// Writes a batch atomically, outside of a transaction.
    fn rocksdb_transactiondb_write(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        batch: *mut rocksdb_writebatch_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            of(txn_db.cast_const()).db.write(of(batch.cast_const()), of(options).checked()?)
        });
    }
    /// Adds a merge operand to `key` in the default family, outside of a transaction.
    fn rocksdb_transactiondb_merge(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let db = &of(txn_db.cast_const()).db;
            db.merge(db.db(), bytes(key, klen), bytes(val, vlen), of(options).checked()?)
        });
    }
    /// Adds a merge operand to `key` in a family, outside of a transaction.
    fn rocksdb_transactiondb_merge_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        klen: usize,
        val: *const c_char,
        vlen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let family = of(column_family.cast_const());
            of(txn_db.cast_const()).db.merge(family, bytes(key, klen), bytes(val, vlen), of(options).checked()?)
        });
    }
    /// Deletes `key` from the default family, outside of a transaction.
    fn rocksdb_transactiondb_delete(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        key: *const c_char,
        klen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let db = &of(txn_db.cast_const()).db;
            db.delete(db.db(), bytes(key, klen), of(options).checked()?)
        });
    }
    /// Deletes `key` from a family, outside of a transaction.
    fn rocksdb_transactiondb_delete_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let family = of(column_family.cast_const());
            of(txn_db.cast_const()).db.delete(family, bytes(key, keylen), of(options).checked()?)
        });
    }
    /// Flushes the memtables of the default family.
    fn rocksdb_transactiondb_flush(txn_db: *mut rocksdb_transactiondb_t, options: *const rocksdb_flushoptions_t, errptr: *mut *mut c_char) {
        report(errptr, || {
            let db = base(txn_db);
            flush(db, of(options), &[db.default_family()])
        });
    }
    /// Flushes the memtables of a family.
    fn rocksdb_transactiondb_flush_cf(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_flushoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || flush(base(txn_db), of(options), &[of(column_family.cast_const())]));
    }
    /// Flushes the memtables of several families.
    fn rocksdb_transactiondb_flush_cfs(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_flushoptions_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: c_int,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let families = flushed_families(column_families, num_column_families);
            flush(base(txn_db), of(options), &families)
        });
    }
    /// Writes buffered WAL records to the file and syncs it if the options say so; they may be null.
    fn rocksdb_transactiondb_flush_wal_with_options(
        txn_db: *mut rocksdb_transactiondb_t,
        options: *const rocksdb_flushwaloptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || base(txn_db).flush_wal(maybe(options).is_some_and(|options| options.sync)));
    }
    /// Writes buffered WAL records to the file and, with `sync`, syncs it.
    fn rocksdb_transactiondb_flush_wal(txn_db: *mut rocksdb_transactiondb_t, sync: c_uchar, errptr: *mut *mut c_char) {
        report(errptr, || base(txn_db).flush_wal(sync != 0));
    }
    /// Creates an object for creating checkpoints of a database.
    fn rocksdb_transactiondb_checkpoint_object_create(txn_db: *mut rocksdb_transactiondb_t, errptr: *mut *mut c_char) -> *mut rocksdb_checkpoint_t {
        report_ptr(errptr, || Ok(create(base(txn_db).clone())))
    }
}
