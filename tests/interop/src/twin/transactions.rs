//! Transactions of a [`Side`], pessimistic and optimistic ones. Nothing waits for a lock: its timeout is zero. The other
//! operations of a script use the underlying database, and so do not lock keys.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::ffi::{CString, c_char};
use std::fmt::Write as _;
use std::path::Path;
use std::ptr::null_mut;

use super::api::Handle;
use super::ops::{self, Cf, Change, Deed, Key, Ro, SLOTS, TXNS};
use super::sets::Transactions;
use super::side::{Said, Side, c, c_path, copied, hash, short};

/// The tag of a record without effect.
pub(super) const NOOP: u8 = 13;

/// A transaction.
pub(super) struct Txn {
    handle: Handle,
    /// Set by a successful prepare, until it is decided.
    prepared: bool,
}

/// The number of its iterators' batch, for [`super::side::Walk::over`]: those below are batches.
fn over(slot: usize) -> usize {
    2 + slot
}

impl Side {
    /// Opens the database as one with transactions. Returns the underlying database and the families.
    pub(super) fn open_with_transactions(
        &mut self,
        folder: &Path,
        names: &[&str],
    ) -> (Handle, Vec<Handle>, String) {
        let path = c_path(folder);
        let texts = names
            .iter()
            .map(|name| CString::new(*name).expect("no zero in names"));
        let texts: Vec<CString> = texts.collect();
        let texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let options = vec![self.options.cast_const(); names.len()];
        let mut handles = vec![null_mut(); names.len()];
        let count = i32::try_from(names.len()).expect("few families");
        let (own, path, mut said) = (self.options, path.as_ptr(), Said::new());
        let (texts, given, places) = (texts.as_ptr(), options.as_ptr(), handles.as_mut_ptr());
        let db = match self.set.transactions {
            Transactions::Pessimistic => {
                let settings = c!(self, rocksdb_transactiondb_options_create());
                c!(
                    self,
                    rocksdb_transactiondb_options_set_transaction_lock_timeout(settings, 0)
                );
                c!(
                    self,
                    rocksdb_transactiondb_options_set_default_lock_timeout(settings, 0)
                );
                self.transactions.db = c!(
                    self,
                    rocksdb_transactiondb_open_column_families(
                        own,
                        settings,
                        path,
                        count,
                        texts,
                        given,
                        places,
                        said.slot()
                    )
                );
                c!(self, rocksdb_transactiondb_options_destroy(settings));
                match self.transactions.db.is_null() {
                    true => null_mut(),
                    false => c!(
                        self,
                        rocksdb_transactiondb_get_base_db(self.transactions.db)
                    ),
                }
            }
            _ => {
                self.transactions.db = c!(
                    self,
                    rocksdb_optimistictransactiondb_open_column_families(
                        own,
                        path,
                        count,
                        texts,
                        given,
                        places,
                        said.slot()
                    )
                );
                match self.transactions.db.is_null() {
                    true => null_mut(),
                    false => c!(
                        self,
                        rocksdb_optimistictransactiondb_get_base_db(self.transactions.db)
                    ),
                }
            }
        };
        let status = self.status(said);
        (db, handles, status)
    }

    /// Closes the database with transactions. Those that are prepared stay so.
    pub(super) fn close_with_transactions(&mut self) {
        if self.transactions.db.is_null() {
            return;
        }
        match self.set.transactions {
            Transactions::Pessimistic => {
                c!(self, rocksdb_transactiondb_close_base_db(self.db));
                c!(self, rocksdb_transactiondb_close(self.transactions.db));
            }
            _ => {
                c!(self, rocksdb_optimistictransactiondb_close_base_db(self.db));
                c!(
                    self,
                    rocksdb_optimistictransactiondb_close(self.transactions.db)
                );
            }
        }
        self.transactions.db = null_mut();
        self.db = null_mut();
    }

    /// Decides the transactions that were prepared when the database was closed: commits those with an odd name.
    pub(super) fn decide_recovered(&mut self) -> String {
        if self.transactions.db.is_null() || self.set.transactions != Transactions::Pessimistic {
            return String::new();
        }
        let mut count = 0;
        let list = c!(
            self,
            rocksdb_transactiondb_get_prepared_transactions(self.transactions.db, &mut count)
        );
        let mut found = Vec::new();
        for at in 0..count {
            // SAFETY: the library returned `count` handles.
            let txn = unsafe { *list.add(at) };
            let mut length = 0;
            let name = c!(self, rocksdb_transaction_get_name(txn, &mut length));
            let name = self.owned(name, length).unwrap_or_default();
            found.push((name, txn));
        }
        found.sort();
        let mut answer = String::new();
        for (name, txn) in found {
            let mut said = Said::new();
            match name.last().is_some_and(|last| last % 2 == 1) {
                true => c!(self, rocksdb_transaction_commit(txn, said.slot())),
                false => c!(self, rocksdb_transaction_rollback(txn, said.slot())),
            }
            let status = self.status(said);
            let _ = write!(answer, " {} {status}", name.escape_ascii());
            c!(self, rocksdb_transaction_destroy(txn));
        }
        if !list.is_null() {
            c!(self, rocksdb_free(list.cast()));
        }
        answer
    }

    /// Destroys the transactions: all, or those that are not prepared.
    pub(super) fn end_transactions(&mut self, prepared: bool) {
        for slot in 0..TXNS {
            self.end_walks_over(over(slot));
            let kept = |txn: &mut Txn| prepared || !txn.prepared;
            if let Some(txn) = self.transactions.all[slot].take_if(kept) {
                c!(self, rocksdb_transaction_destroy(txn.handle));
            }
        }
    }

    /// True if a transaction is prepared, which other openings of the files reject.
    pub(super) fn has_prepared(&self) -> bool {
        self.transactions
            .all
            .iter()
            .flatten()
            .any(|txn| txn.prepared)
    }

    /// Begins a transaction in a slot. Flags: 1 with a snapshot, 2 commits past the memtable.
    pub(super) fn begin(&mut self, slot: usize, flags: u8) -> String {
        if self.transactions.all[slot]
            .as_ref()
            .is_some_and(|txn| txn.prepared)
        {
            return "prepared".to_owned();
        }
        self.end_walks_over(over(slot));
        if let Some(old) = self.transactions.all[slot].take() {
            c!(self, rocksdb_transaction_destroy(old.handle));
        }
        let (db, write) = (self.transactions.db, self.write_options[0]);
        let handle = match self.set.transactions {
            Transactions::Pessimistic => {
                let options = c!(self, rocksdb_transaction_options_create());
                c!(
                    self,
                    rocksdb_transaction_options_set_set_snapshot(options, flags & 1)
                );
                c!(
                    self,
                    rocksdb_transaction_options_set_lock_timeout(options, 0)
                );
                let txn = c!(
                    self,
                    rocksdb_transaction_begin(db, write, options, null_mut())
                );
                c!(self, rocksdb_transaction_options_destroy(options));
                txn
            }
            _ => {
                let options = c!(self, rocksdb_optimistictransaction_options_create());
                c!(
                    self,
                    rocksdb_optimistictransaction_options_set_set_snapshot(options, flags & 1)
                );
                let txn = c!(
                    self,
                    rocksdb_optimistictransaction_begin(db, write, options, null_mut())
                );
                c!(self, rocksdb_optimistictransaction_options_destroy(options));
                txn
            }
        };
        self.transactions.all[slot] = Some(Txn {
            handle,
            prepared: false,
        });
        String::new()
    }

    /// Does something with the transaction in a slot.
    pub(super) fn transact(&mut self, slot: usize, deed: &Deed) -> String {
        let Some(Txn { handle, .. }) = self.transactions.all[slot] else {
            return "none".to_owned();
        };
        let mut said = Said::new();
        match deed {
            Deed::Add(change) => return self.txn_add(slot, handle, change),
            Deed::Get(cf, key, options) => return self.txn_get(handle, *cf, *key, None, *options),
            Deed::GetForUpdate(cf, key, exclusive, options) => {
                return self.txn_get(handle, *cf, *key, Some(*exclusive), *options);
            }
            Deed::MultiGet(keys, update, options) => {
                return self.txn_multi_get(handle, keys, *update, *options);
            }
            Deed::Iter(walk, cf, options) => return self.txn_iter(slot, *walk, *cf, *options),
            Deed::Look => return self.txn_look(handle),
            Deed::Save => c!(self, rocksdb_transaction_set_savepoint(handle)),
            Deed::RollbackToSave => {
                self.end_walks_over(over(slot));
                c!(
                    self,
                    rocksdb_transaction_rollback_to_savepoint(handle, said.slot())
                );
            }
            Deed::Name(name) => {
                let name = format!("name {name}");
                let (at, length) = (name.as_ptr().cast(), name.len());
                c!(
                    self,
                    rocksdb_transaction_set_name(handle, at, length, said.slot())
                );
            }
            Deed::Rebuild(batch) => {
                self.end_walks_over(over(slot));
                let batch = self.batches[*batch];
                c!(
                    self,
                    rocksdb_transaction_rebuild_from_writebatch(handle, batch, said.slot())
                );
            }
            Deed::Prepare => {
                c!(self, rocksdb_transaction_prepare(handle, said.slot()));
                let status = self.status(said);
                if status == "ok"
                    && let Some(txn) = &mut self.transactions.all[slot]
                {
                    txn.prepared = true;
                }
                return status;
            }
            Deed::Commit | Deed::RollBack => {
                self.end_walks_over(over(slot));
                self.writes += 1;
                match deed {
                    Deed::Commit => c!(self, rocksdb_transaction_commit(handle, said.slot())),
                    _ => c!(self, rocksdb_transaction_rollback(handle, said.slot())),
                }
                let status = self.status(said);
                if status == "ok"
                    && let Some(txn) = &mut self.transactions.all[slot]
                {
                    txn.prepared = false;
                }
                return status;
            }
        }
        self.status(said)
    }

    fn txn_add(&mut self, slot: usize, txn: Handle, change: &Change) -> String {
        let Some((cf, key, val)) = point_of(change) else {
            return "not allowed".to_owned();
        };
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        for walk in self.walks.iter_mut().flatten() {
            walk.lost |= walk.over == Some(over(slot));
        }
        let (bytes, mut said) = (ops::key(key), Said::new());
        let (k, kn, v, vn) = (
            bytes.as_ptr().cast(),
            bytes.len(),
            val.as_ptr().cast(),
            val.len(),
        );
        let plain = cf == 0 && key % 2 == 1;
        match (change, plain) {
            (Change::Put(..), true) => {
                c!(
                    self,
                    rocksdb_transaction_put(txn, k, kn, v, vn, said.slot())
                );
            }
            (Change::Put(..), false) => {
                c!(
                    self,
                    rocksdb_transaction_put_cf(txn, family, k, kn, v, vn, said.slot())
                );
            }
            (Change::Merge(..), true) => {
                c!(
                    self,
                    rocksdb_transaction_merge(txn, k, kn, v, vn, said.slot())
                );
            }
            (Change::Merge(..), false) => {
                c!(
                    self,
                    rocksdb_transaction_merge_cf(txn, family, k, kn, v, vn, said.slot())
                );
            }
            (_, true) => c!(self, rocksdb_transaction_delete(txn, k, kn, said.slot())),
            (_, false) => {
                c!(
                    self,
                    rocksdb_transaction_delete_cf(txn, family, k, kn, said.slot())
                );
            }
        }
        self.status(said)
    }

    /// Reads a key; for update, exclusively or not, if `update` is set.
    fn txn_get(
        &mut self,
        txn: Handle,
        cf: Cf,
        key: Key,
        update: Option<bool>,
        options: Ro,
    ) -> String {
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        let (handle, _bounds) = self.read_options(options);
        let (bytes, mut said, mut length) = (ops::key(key), Said::new(), 0);
        let (k, kn) = (bytes.as_ptr().cast(), bytes.len());
        let value = match update {
            Some(exclusive) => c!(
                self,
                rocksdb_transaction_get_for_update_cf(
                    txn,
                    handle,
                    family,
                    k,
                    kn,
                    &mut length,
                    exclusive.into(),
                    said.slot()
                )
            ),
            None => c!(
                self,
                rocksdb_transaction_get_cf(txn, handle, family, k, kn, &mut length, said.slot())
            ),
        };
        let status = self.status(said);
        c!(self, rocksdb_readoptions_destroy(handle));
        let value = self.owned(value, length);
        format!("{status} {:?}", value.as_deref().map(short))
    }

    fn txn_multi_get(
        &mut self,
        txn: Handle,
        keys: &[(Cf, Key)],
        update: bool,
        options: Ro,
    ) -> String {
        let found = keys
            .iter()
            .filter_map(|(cf, key)| Some((self.families[*cf]?.cast_const(), ops::key(*key))));
        let (families, keys): (Vec<_>, Vec<_>) = found.unzip();
        let count = keys.len();
        let starts: Vec<*const c_char> = keys.iter().map(|key| key.as_ptr().cast()).collect();
        let lengths: Vec<usize> = keys.iter().map(Vec::len).collect();
        let (mut values, mut sizes) = (vec![null_mut(); count], vec![0; count]);
        let mut errors: Vec<*mut c_char> = vec![null_mut(); count];
        let (handle, _bounds) = self.read_options(options);
        let function = match update {
            true => self.api.rocksdb_transaction_multi_get_for_update_cf,
            false => self.api.rocksdb_transaction_multi_get_cf,
        };
        // SAFETY: all lists have `count` elements, and the handles are live.
        unsafe {
            function(
                txn,
                handle,
                families.as_ptr().cast(),
                count,
                starts.as_ptr(),
                lengths.as_ptr(),
                values.as_mut_ptr(),
                sizes.as_mut_ptr(),
                errors.as_mut_ptr(),
            );
        }
        c!(self, rocksdb_readoptions_destroy(handle));
        let mut answer = String::new();
        for at in 0..count {
            let status = self.status(Said(errors[at]));
            let value = self.owned(values[at], sizes[at]);
            let _ = write!(answer, "{status} {:?}, ", value.as_deref().map(short));
        }
        answer
    }

    fn txn_iter(&mut self, slot: usize, walk: usize, cf: Cf, options: Ro) -> String {
        let (Some(family), Some(txn)) = (self.families[cf], &self.transactions.all[slot]) else {
            return "none".to_owned();
        };
        let txn = txn.handle;
        self.end_walk(walk);
        let options_and_bounds = self.read_options(options);
        let handle = c!(
            self,
            rocksdb_transaction_create_iterator_cf(txn, options_and_bounds.0, family)
        );
        self.keep_walk(
            walk % SLOTS,
            handle,
            options_and_bounds,
            Some(over(slot)),
            options.bits,
        );
        String::new()
    }

    /// The records of a transaction.
    fn txn_look(&self, txn: Handle) -> String {
        let batch = c!(self, rocksdb_transaction_get_writebatch_wi(txn));
        let mut length = 0;
        let data = c!(self, rocksdb_writebatch_wi_data(batch, &mut length));
        let data = copied(data, length);
        // RocksDB's begins with a record without effect, in the place of the marker of a prepare.
        let records = data.get(12..).unwrap_or_default();
        let records = records.strip_prefix(&[NOOP]).unwrap_or(records);
        let count = c!(self, rocksdb_writebatch_wi_count(batch));
        c!(self, rocksdb_free(batch));
        // After a prepare, RocksDB's has the markers, too.
        match self.set.transactions {
            Transactions::Pessimistic => count.to_string(),
            _ => format!("{count} {} #{:x}", records.len(), hash(records)),
        }
    }

    /// A write outside of transactions that locks its key.
    pub(super) fn locked_write(&mut self, change: &Change) -> String {
        if self.set.transactions != Transactions::Pessimistic || self.transactions.db.is_null() {
            return String::new();
        }
        let Some((cf, key, val)) = point_of(change) else {
            return "not allowed".to_owned();
        };
        let Some(family) = self.families[cf] else {
            return "none".to_owned();
        };
        self.writes += 1;
        let (db, options) = (self.transactions.db, self.write_options[0]);
        let (bytes, mut said) = (ops::key(key), Said::new());
        let (k, kn) = (bytes.as_ptr().cast(), bytes.len());
        let (v, vn) = (val.as_ptr().cast(), val.len());
        match change {
            Change::Put(..) => c!(
                self,
                rocksdb_transactiondb_put_cf(db, options, family, k, kn, v, vn, said.slot())
            ),
            Change::Merge(..) => c!(
                self,
                rocksdb_transactiondb_merge_cf(db, options, family, k, kn, v, vn, said.slot())
            ),
            _ => c!(
                self,
                rocksdb_transactiondb_delete_cf(db, options, family, k, kn, said.slot())
            ),
        }
        self.status(said)
    }

    /// Writes a batch with the locks of its keys, or with the check of an optimistic database.
    pub(super) fn locked_batch(&mut self, batch: usize) -> String {
        if self.transactions.db.is_null() {
            return String::new();
        }
        self.writes += 1;
        let (db, options, batch) = (
            self.transactions.db,
            self.write_options[0],
            self.batches[batch],
        );
        let mut said = Said::new();
        match self.set.transactions {
            Transactions::Pessimistic => {
                c!(
                    self,
                    rocksdb_transactiondb_write(db, options, batch, said.slot())
                );
            }
            _ => {
                c!(
                    self,
                    rocksdb_optimistictransactiondb_write(db, options, batch, said.slot())
                );
            }
        }
        self.status(said)
    }
}

/// The family, the key and the value of a change that a transaction may make: of an ordinary key.
fn point_of(change: &Change) -> Option<(ops::Cf, ops::Key, Vec<u8>)> {
    let (cf, key, val) = match change {
        Change::Put(cf, key, val) | Change::Merge(cf, key, val) => (*cf, *key, val.bytes()),
        Change::Delete(cf, key) | Change::Single(cf, key) => (*cf, *key, Vec::new()),
        Change::Range(..) => return None,
    };
    (key < ops::SINGLES).then_some((cf, key, val))
}
