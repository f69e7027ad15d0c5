//! Transactions, optimistic and pessimistic: both have the same handle.
//!
//! A transaction handle is used by one thread at a time. The snapshot and the batch of a transaction are handed out in
//! memory that the program frees. The snapshot is valid until the transaction is destroyed or begun again, the batch until
//! it is destroyed or begun again in another database: in the same one, the batch is that of the new transaction.

use std::ffi::{c_char, c_uchar};

use cairn_db::{Family, Value};
use cairn_options::WriteOptions;
use cairn_txn::{Transaction, TransactionOptions};
use cairn_types::{Error, Result};

use crate::batch::rocksdb_writebatch_t;
use crate::database::{ReadPoint, rocksdb_column_family_handle_t, rocksdb_snapshot_t};
use crate::error::{bytes, caught, malloc_bytes, report, store};
use crate::handle::{create, create_freeable, maybe, of, of_mut};
use crate::indexed::rocksdb_writebatch_wi_t;
use crate::iter::{Cursor, closed, create_iter, rocksdb_iterator_t};
use crate::options::{Checked, rocksdb_readoptions_t, rocksdb_writeoptions_t};
use crate::reads::{Lists, copied, families, keys, pinned, rocksdb_pinnableslice_t};
use crate::transaction_db::rocksdb_transactiondb_t;

/// The object of a transaction handle.
pub struct TransactionHandle {
    txn: Transaction,
    default_family: Family,
    /// The error of the write options, which a prepare or a commit reports.
    refused: Option<Error>,
}

impl TransactionHandle {
    pub(crate) fn new(txn: Transaction, refused: Option<Error>) -> TransactionHandle {
        TransactionHandle {
            default_family: txn.default_family().clone(),
            txn,
            refused,
        }
    }

    /// The transaction, unless it must not be written.
    fn unless_refused(&mut self) -> Result<&mut Transaction> {
        match &self.refused {
            Some(error) => Err(error.clone()),
            None => Ok(&mut self.txn),
        }
    }
}

handles! {
    /// A transaction.
    rocksdb_transaction_t = TransactionHandle;
    /// Options of a pessimistic transaction.
    rocksdb_transaction_options_t = Checked<TransactionOptions>;
}

c_destructors! {
    /// Destroys a transaction. It is rolled back if it was not committed or prepared. A prepared one keeps its locks, and
    /// `rocksdb_transactiondb_get_prepared_transactions` returns it.
    rocksdb_transaction_destroy(rocksdb_transaction_t);
    /// Frees options.
    rocksdb_transaction_options_destroy(rocksdb_transaction_options_t);
}

c_setters! { rocksdb_transaction_options_t:
    rocksdb_transaction_options_set_commit_bypass_memtable(c_uchar) => commit_bypass_memtable;
    rocksdb_transaction_options_set_deadlock_detect(c_uchar) => deadlock_detect;
    rocksdb_transaction_options_set_deadlock_detect_depth(i64) => deadlock_detect_depth;
    rocksdb_transaction_options_set_deadlock_timeout_us(i64) => deadlock_timeout_us;
    rocksdb_transaction_options_set_expiration(i64) => expiration;
    rocksdb_transaction_options_set_large_txn_commit_optimize_byte_threshold(u64) => large_txn_commit_optimize_byte_threshold;
    rocksdb_transaction_options_set_large_txn_commit_optimize_threshold(u32) => large_txn_commit_optimize_threshold;
    rocksdb_transaction_options_set_lock_timeout(i64) => lock_timeout;
    rocksdb_transaction_options_set_max_write_batch_size(usize) => max_write_batch_size;
    rocksdb_transaction_options_set_set_snapshot(c_uchar) => set_snapshot;
    rocksdb_transaction_options_set_skip_concurrency_control(c_uchar) => skip_concurrency_control;
    rocksdb_transaction_options_set_skip_prepare(c_uchar) => skip_prepare;
    rocksdb_transaction_options_set_use_only_the_last_commit_time_batch_for_recovery(c_uchar) => use_only_the_last_commit_time_batch_for_recovery;
    rocksdb_transaction_options_set_write_batch_flush_threshold(i64) => write_batch_flush_threshold;
    rocksdb_transaction_options_set_write_batch_track_timestamp_size(c_uchar) => write_batch_track_timestamp_size;
}

c_getters! { rocksdb_transaction_options_t:
    rocksdb_transaction_options_get_commit_bypass_memtable(mut) -> c_uchar => commit_bypass_memtable;
    rocksdb_transaction_options_get_deadlock_detect(mut) -> c_uchar => deadlock_detect;
    rocksdb_transaction_options_get_deadlock_detect_depth(mut) -> i64 => deadlock_detect_depth;
    rocksdb_transaction_options_get_deadlock_timeout_us(mut) -> i64 => deadlock_timeout_us;
    rocksdb_transaction_options_get_expiration(mut) -> i64 => expiration;
    rocksdb_transaction_options_get_large_txn_commit_optimize_byte_threshold(mut) -> u64 => large_txn_commit_optimize_byte_threshold;
    rocksdb_transaction_options_get_large_txn_commit_optimize_threshold(mut) -> u32 => large_txn_commit_optimize_threshold;
    rocksdb_transaction_options_get_lock_timeout(mut) -> i64 => lock_timeout;
    rocksdb_transaction_options_get_max_write_batch_size(mut) -> usize => max_write_batch_size;
    rocksdb_transaction_options_get_set_snapshot(mut) -> c_uchar => set_snapshot;
    rocksdb_transaction_options_get_skip_concurrency_control(mut) -> c_uchar => skip_concurrency_control;
    rocksdb_transaction_options_get_skip_prepare(mut) -> c_uchar => skip_prepare;
    rocksdb_transaction_options_get_use_only_the_last_commit_time_batch_for_recovery(mut) -> c_uchar => use_only_the_last_commit_time_batch_for_recovery;
    rocksdb_transaction_options_get_write_batch_flush_threshold(mut) -> i64 => write_batch_flush_threshold;
    rocksdb_transaction_options_get_write_batch_track_timestamp_size(mut) -> c_uchar => write_batch_track_timestamp_size;
}

/// Begins a transaction with `begin`, in the handle `old` unless it is null.
///
/// # Safety
///
/// The handles are valid as `c.h` requires.
pub(crate) unsafe fn begun(
    old: *mut rocksdb_transaction_t,
    write_options: *const rocksdb_writeoptions_t,
    begin: impl FnOnce(&WriteOptions) -> Transaction,
) -> *mut rocksdb_transaction_t {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let (options, refused) = match of(write_options).checked() {
            Ok(options) => (options.clone(), None),
            Err(error) => (WriteOptions::default(), Some(error)),
        };
        let mut object = TransactionHandle::new(begin(&options), refused);
        if old.is_null() {
            return create(object);
        }
        // The program may have a handle of the batch, which refers to that of the new transaction from now on.
        object.txn.adopt_batch(&mut of_mut(old).txn);
        *of_mut(old) = object;
        old
    }
}

/// The transaction of a handle.
///
/// # Safety
///
/// The handle is valid as `c.h` requires.
unsafe fn txn<'a>(handle: *mut rocksdb_transaction_t) -> &'a mut Transaction {
    // SAFETY: guaranteed by the caller.
    unsafe { &mut of_mut(handle).txn }
}

/// Reads `key` of `family`, the default family if it is null, for update if `exclusive` is given.
///
/// # Safety
///
/// The handles are valid as `c.h` requires.
unsafe fn read(
    handle: *mut rocksdb_transaction_t,
    options: *const rocksdb_readoptions_t,
    family: Option<&Family>,
    key: &[u8],
    exclusive: Option<c_uchar>,
) -> Result<Option<Value>> {
    // SAFETY: guaranteed by the caller.
    let (object, options) = unsafe { (of_mut(handle), of(options).checked()?) };
    let family = family.unwrap_or(&object.default_family);
    let txn = &mut object.txn;
    match exclusive {
        None => txn.get_in(family, key, options),
        Some(exclusive) => txn.get_for_update_in(family, key, options, exclusive != 0, true),
    }
}

/// Reads several keys, with a family for each key or all in the default family.
///
/// # Safety
///
/// The handles and arrays are valid as `c.h` requires.
unsafe fn read_many(
    handle: *mut rocksdb_transaction_t,
    options: *const rocksdb_readoptions_t,
    handles: Option<*const *const rocksdb_column_family_handle_t>,
    keys: &[&[u8]],
    for_update: bool,
    lists: &Lists,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let object = of_mut(handle);
        let txn = &mut object.txn;
        let families = match handles {
            None => vec![&object.default_family; keys.len()],
            Some(handles) => families(keys.len(), handles),
        };
        let pairs: Vec<(&Family, &[u8])> = families.into_iter().zip(keys.iter().copied()).collect();
        let found: Vec<Result<Option<Value>>> = match of(options).checked() {
            Err(error) => keys.iter().map(|_| Err(error.clone())).collect(),
            Ok(options) if for_update => txn.multi_get_for_update(&pairs, options),
            Ok(options) => {
                let get = |(family, key): &(&Family, &[u8])| txn.get_in(family, key, options);
                pairs.iter().map(get).collect()
            }
        };
        lists.put_all(found);
    }
}

/// Creates an iterator over `family`, the default family if it is null, as it will be once the transaction is
/// committed.
///
/// # Safety
///
/// The handles are valid as `c.h` requires.
unsafe fn iter(
    handle: *mut rocksdb_transaction_t,
    options: *const rocksdb_readoptions_t,
    family: Option<&Family>,
) -> *mut rocksdb_iterator_t {
    // SAFETY: guaranteed by the caller.
    let (object, options) = unsafe { (of_mut(handle), of(options).checked()) };
    let family = family.unwrap_or(&object.default_family);
    let made = caught(|| match options? {
        _ if family.is_released() => Err(closed()),
        options => Ok(Cursor::Joined(Box::new(
            object.txn.iter_in(family, options),
        ))),
    });
    create_iter(made.unwrap_or_else(Cursor::Refused), family.opening())
}

c_functions! {
    /// Creates options with RocksDB's defaults.
    fn rocksdb_transaction_options_create() -> *mut rocksdb_transaction_options_t {
        create(Checked::new(TransactionOptions::default()))
    }
    /// Begins a pessimistic transaction; in `old_txn`, whose transaction ends as if it were destroyed, unless it is null.
    fn rocksdb_transaction_begin(
        txn_db: *mut rocksdb_transactiondb_t,
        write_options: *const rocksdb_writeoptions_t,
        txn_options: *const rocksdb_transaction_options_t,
        old_txn: *mut rocksdb_transaction_t,
    ) -> *mut rocksdb_transaction_t {
        let db = &of(txn_db.cast_const()).db;
        let options = maybe(txn_options).map(|options| (**options).clone());
        begun(old_txn, write_options, |write_options| {
            db.begin_with(write_options, &options.unwrap_or_default())
        })
    }
    /// Commits a transaction.
    fn rocksdb_transaction_commit(txn: *mut rocksdb_transaction_t, errptr: *mut *mut c_char) {
        report(errptr, || of_mut(txn).unless_refused()?.commit());
    }
    /// Discards the writes of a transaction and releases its locks.
    fn rocksdb_transaction_rollback(txn: *mut rocksdb_transaction_t, errptr: *mut *mut c_char) {
        report(errptr, || self::txn(txn).rollback());
    }
    /// Logs the writes of a pessimistic transaction, which must have a name. It is recovered after a crash, until it is
    /// committed or rolled back. Later writes are part of the commit, but not of what is recovered.
    fn rocksdb_transaction_prepare(txn: *mut rocksdb_transaction_t, errptr: *mut *mut c_char) {
        report(errptr, || of_mut(txn).unless_refused()?.prepare());
    }
    /// Names a pessimistic transaction.
    fn rocksdb_transaction_set_name(txn: *mut rocksdb_transaction_t, name: *const c_char, name_len: usize, errptr: *mut *mut c_char) {
        report(errptr, || self::txn(txn).set_name(bytes(name, name_len)));
    }
    /// Returns the name of a transaction, of `*name_len` bytes, to be freed with `free`.
    fn rocksdb_transaction_get_name(txn: *mut rocksdb_transaction_t, name_len: *mut usize) -> *mut c_char {
        let name = self::txn(txn).name();
        store(name_len, name.len());
        malloc_bytes(name)
    }
    /// Sets the timestamp of the writes in column families with timestamps. It must be greater than the read timestamp;
    /// otherwise it is not set, and the commit of such writes fails. `UINT64_MAX` stands for none.
    fn rocksdb_transaction_set_commit_timestamp(txn: *mut rocksdb_transaction_t, commit_timestamp: u64) {
        // As in RocksDB, nothing reports the error.
        let _ = self::txn(txn).set_commit_timestamp(commit_timestamp);
    }
    /// Sets the timestamp of reads for update in column families with timestamps. They and writes fail if their key has a
    /// version with a newer timestamp. It cannot be decreased. `UINT64_MAX` stands for none.
    fn rocksdb_transaction_set_read_timestamp_for_validation(txn: *mut rocksdb_transaction_t, read_timestamp: u64) {
        // As in RocksDB, nothing reports the error.
        let _ = self::txn(txn).set_read_timestamp_for_validation(read_timestamp);
    }
    /// Sets a save point.
    fn rocksdb_transaction_set_savepoint(txn: *mut rocksdb_transaction_t) {
        self::txn(txn).set_save_point();
    }
    /// Takes back everything since the last save point, and removes it.
    fn rocksdb_transaction_rollback_to_savepoint(txn: *mut rocksdb_transaction_t, errptr: *mut *mut c_char) {
        report(errptr, || self::txn(txn).rollback_to_save_point());
    }
    /// Returns the snapshot of a transaction, to be freed with `rocksdb_free`. If it has none, reads with the result see
    /// the latest state.
    fn rocksdb_transaction_get_snapshot(txn: *mut rocksdb_transaction_t) -> *const rocksdb_snapshot_t {
        let sequence = self::txn(txn).snapshot().map(|snapshot| snapshot.sequence());
        create_freeable::<rocksdb_snapshot_t>(ReadPoint::Transaction(sequence)).cast_const()
    }
    /// Returns the batch of a transaction, to be freed with `rocksdb_free`. Writes to it are neither locked nor checked.
    /// It remains the batch of the transaction when that is begun again in the same database.
    fn rocksdb_transaction_get_writebatch_wi(txn: *mut rocksdb_transaction_t) -> *mut rocksdb_writebatch_wi_t {
        // A copy of the pointers in the batch, which is never dropped. The transaction keeps what they point to, also when
        // it is begun again.
        create_freeable(std::ptr::read(self::txn(txn).write_batch()))
    }
    /// Adds the writes of a batch.
    fn rocksdb_transaction_rebuild_from_writebatch(txn: *mut rocksdb_transaction_t, writebatch: *mut rocksdb_writebatch_t, errptr: *mut *mut c_char) {
        report(errptr, || {
            let batch = of(writebatch.cast_const());
            if let Some(error) = batch.refused() {
                return Err(error.clone());
            }
            self::txn(txn).rebuild_from_write_batch(batch)
        });
    }
    /// Adds the writes of a batch with an index.
    fn rocksdb_transaction_rebuild_from_writebatch_wi(txn: *mut rocksdb_transaction_t, wi: *mut rocksdb_writebatch_wi_t, errptr: *mut *mut c_char) {
        report(errptr, || {
            // A copy, because the batch may be that of the transaction.
            let batch = of(wi.cast_const()).with_batch(cairn_db::WriteBatch::clone);
            self::txn(txn).rebuild_from_write_batch(&batch)
        });
    }
    /// Returns the value of `key`, to be freed with `free`; null if there is none.
    fn rocksdb_transaction_get(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, key: *const c_char, klen: usize, vlen: *mut usize, errptr: *mut *mut c_char) -> *mut c_char {
        copied(vlen, errptr, || read(txn, options, None, bytes(key, klen), None))
    }
    /// The same for a column family.
    fn rocksdb_transaction_get_cf(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize, vlen: *mut usize, errptr: *mut *mut c_char) -> *mut c_char {
        copied(vlen, errptr, || read(txn, options, Some(of(column_family.cast_const())), bytes(key, klen), None))
    }
    /// Returns the pinned value of `key`, or null.
    fn rocksdb_transaction_get_pinned(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, key: *const c_char, klen: usize, errptr: *mut *mut c_char) -> *mut rocksdb_pinnableslice_t {
        pinned(errptr, || read(txn, options, None, bytes(key, klen), None))
    }
    /// The same for a column family.
    fn rocksdb_transaction_get_pinned_cf(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize, errptr: *mut *mut c_char) -> *mut rocksdb_pinnableslice_t {
        pinned(errptr, || read(txn, options, Some(of(column_family.cast_const())), bytes(key, klen), None))
    }
    /// Locks `key`, for this transaction alone if `exclusive`, and returns its value, to be freed with `free`.
    fn rocksdb_transaction_get_for_update(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, key: *const c_char, klen: usize, vlen: *mut usize, exclusive: c_uchar, errptr: *mut *mut c_char) -> *mut c_char {
        copied(vlen, errptr, || read(txn, options, None, bytes(key, klen), Some(exclusive)))
    }
    /// The same for a column family.
    fn rocksdb_transaction_get_for_update_cf(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize, vlen: *mut usize, exclusive: c_uchar, errptr: *mut *mut c_char) -> *mut c_char {
        copied(vlen, errptr, || read(txn, options, Some(of(column_family.cast_const())), bytes(key, klen), Some(exclusive)))
    }
    /// Locks `key`, for this transaction alone if `exclusive`, and returns its pinned value, or null.
    fn rocksdb_transaction_get_pinned_for_update(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, key: *const c_char, klen: usize, exclusive: c_uchar, errptr: *mut *mut c_char) -> *mut rocksdb_pinnableslice_t {
        pinned(errptr, || read(txn, options, None, bytes(key, klen), Some(exclusive)))
    }
    /// The same for a column family.
    fn rocksdb_transaction_get_pinned_for_update_cf(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize, exclusive: c_uchar, errptr: *mut *mut c_char) -> *mut rocksdb_pinnableslice_t {
        pinned(errptr, || read(txn, options, Some(of(column_family.cast_const())), bytes(key, klen), Some(exclusive)))
    }
    /// Reads several keys of the default family: copies, lengths and errors.
    fn rocksdb_transaction_multi_get(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, num_keys: usize, keys_list: *const *const c_char, keys_list_sizes: *const usize, values_list: *mut *mut c_char, values_list_sizes: *mut usize, errs: *mut *mut c_char) {
        let lists = Lists { values: values_list, sizes: values_list_sizes, errors: errs };
        read_many(txn, options, None, &keys(num_keys, keys_list, keys_list_sizes), false, &lists);
    }
    /// Reads several keys, with a family for each key.
    fn rocksdb_transaction_multi_get_cf(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, column_families: *const *const rocksdb_column_family_handle_t, num_keys: usize, keys_list: *const *const c_char, keys_list_sizes: *const usize, values_list: *mut *mut c_char, values_list_sizes: *mut usize, errs: *mut *mut c_char) {
        let lists = Lists { values: values_list, sizes: values_list_sizes, errors: errs };
        read_many(txn, options, Some(column_families), &keys(num_keys, keys_list, keys_list_sizes), false, &lists);
    }
    /// Locks several keys of the default family exclusively, and reads them.
    fn rocksdb_transaction_multi_get_for_update(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, num_keys: usize, keys_list: *const *const c_char, keys_list_sizes: *const usize, values_list: *mut *mut c_char, values_list_sizes: *mut usize, errs: *mut *mut c_char) {
        let lists = Lists { values: values_list, sizes: values_list_sizes, errors: errs };
        read_many(txn, options, None, &keys(num_keys, keys_list, keys_list_sizes), true, &lists);
    }
    /// Locks several keys exclusively, with a family for each key, and reads them.
    fn rocksdb_transaction_multi_get_for_update_cf(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, column_families: *const *const rocksdb_column_family_handle_t, num_keys: usize, keys_list: *const *const c_char, keys_list_sizes: *const usize, values_list: *mut *mut c_char, values_list_sizes: *mut usize, errs: *mut *mut c_char) {
        let lists = Lists { values: values_list, sizes: values_list_sizes, errors: errs };
        read_many(txn, options, Some(column_families), &keys(num_keys, keys_list, keys_list_sizes), true, &lists);
    }
    /// Sets `key` to `val` in the default family.
    fn rocksdb_transaction_put(txn: *mut rocksdb_transaction_t, key: *const c_char, klen: usize, val: *const c_char, vlen: usize, errptr: *mut *mut c_char) {
        report(errptr, || self::txn(txn).put(bytes(key, klen), bytes(val, vlen)));
    }
    /// Adds bytes that are written to the log only.
    fn rocksdb_transaction_put_log_data(txn: *mut rocksdb_transaction_t, blob: *const c_char, len: usize) {
        self::txn(txn).put_log_data(bytes(blob, len));
    }
    /// Sets `key` to `val` in a family.
    fn rocksdb_transaction_put_cf(txn: *mut rocksdb_transaction_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize, val: *const c_char, vlen: usize, errptr: *mut *mut c_char) {
        report(errptr, || self::txn(txn).put_in(of(column_family.cast_const()), bytes(key, klen), bytes(val, vlen)));
    }
    /// Adds a merge operand to `key` in the default family.
    fn rocksdb_transaction_merge(txn: *mut rocksdb_transaction_t, key: *const c_char, klen: usize, val: *const c_char, vlen: usize, errptr: *mut *mut c_char) {
        report(errptr, || self::txn(txn).merge(bytes(key, klen), bytes(val, vlen)));
    }
    /// Adds a merge operand to `key` in a family.
    fn rocksdb_transaction_merge_cf(txn: *mut rocksdb_transaction_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize, val: *const c_char, vlen: usize, errptr: *mut *mut c_char) {
        report(errptr, || self::txn(txn).merge_in(of(column_family.cast_const()), bytes(key, klen), bytes(val, vlen)));
    }
    /// Deletes `key` from the default family.
    fn rocksdb_transaction_delete(txn: *mut rocksdb_transaction_t, key: *const c_char, klen: usize, errptr: *mut *mut c_char) {
        report(errptr, || self::txn(txn).delete(bytes(key, klen)));
    }
    /// Deletes `key` from a family.
    fn rocksdb_transaction_delete_cf(txn: *mut rocksdb_transaction_t, column_family: *mut rocksdb_column_family_handle_t, key: *const c_char, klen: usize, errptr: *mut *mut c_char) {
        report(errptr, || self::txn(txn).delete_in(of(column_family.cast_const()), bytes(key, klen)));
    }
    /// Creates an iterator over the default family as it will be once the transaction is committed.
    fn rocksdb_transaction_create_iterator(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t) -> *mut rocksdb_iterator_t {
        iter(txn, options, None)
    }
    /// The same for a column family.
    fn rocksdb_transaction_create_iterator_cf(txn: *mut rocksdb_transaction_t, options: *const rocksdb_readoptions_t, column_family: *mut rocksdb_column_family_handle_t) -> *mut rocksdb_iterator_t {
        iter(txn, options, Some(of(column_family.cast_const())))
    }
}
