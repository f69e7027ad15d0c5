//! Transaction databases of both engines with the same write policy, on the same files in turn.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use cairn::options::Options as _;
use cairn::transactions::{Transaction, TransactionDb, TransactionDbOptions, WritePolicy};
use cairn::{Db, FamilyOptions, WriteOptions};

use super::api::{Api, Handle};

/// The column families.
pub const FAMILIES: [&str; 2] = ["default", "other"];

/// The options of the families, in text form.
const FAMILY_OPTIONS: &str = "merge_operator=stringappend;disable_auto_compactions=true";

/// A change of a key in one of [`FAMILIES`].
#[derive(Clone, Debug)]
pub enum Change {
    /// Sets the key.
    Put(usize, Vec<u8>, Vec<u8>),
    /// Adds an operand.
    Merge(usize, Vec<u8>, Vec<u8>),
    /// Deletes the key.
    Delete(usize, Vec<u8>),
}

impl Change {
    /// Returns the family and the key.
    #[must_use]
    pub fn place(&self) -> (usize, &[u8]) {
        match self {
            Change::Put(family, key, _)
            | Change::Merge(family, key, _)
            | Change::Delete(family, key) => (*family, key),
        }
    }
}

/// The keys and values of each family.
pub type Content = [BTreeMap<Vec<u8>, Vec<u8>>; 2];

/// A transaction database.
pub trait Engine {
    /// Commits a transaction that is not prepared.
    fn write(&mut self, changes: &[Change]);
    /// Sets a key outside of transactions.
    fn put(&mut self, family: usize, key: &[u8], value: &[u8]);
    /// Prepares a transaction.
    fn prepare(&mut self, name: &str, changes: &[Change]);
    /// Commits a prepared transaction, or rolls it back.
    fn decide(&mut self, name: &str, commits: bool);
    /// Flushes a family.
    fn flush(&mut self, family: usize);
    /// Returns the committed content.
    fn content(&mut self) -> Content;
    /// Returns the names of the prepared transactions that were recovered, sorted.
    fn recovered(&mut self) -> Vec<String>;
    /// Closes the database.
    fn close(self: Box<Self>);
}

/// A database of Cairn.
pub struct Cairn(TransactionDb);

impl Cairn {
    /// Opens the database in `path`, or creates it.
    ///
    /// # Errors
    ///
    /// Those of the opening.
    pub fn open(path: &Path, policy: WritePolicy) -> Result<Cairn, cairn::Error> {
        let options = TransactionDbOptions {
            write_policy: policy,
            ..TransactionDbOptions::default()
        };
        let family = FamilyOptions::from_text(FAMILY_OPTIONS)?;
        let mut builder = Db::builder(path)
            .create_if_missing(true)
            .create_missing_column_families(true);
        for name in FAMILIES {
            builder = builder.family(name, family.clone());
        }
        builder.open_transactional(&options).map(Cairn)
    }

    fn change(&self, txn: &mut Transaction<'_>, change: &Change) {
        let family = |at: usize| {
            let family = self.0.db().family(FAMILIES[at]);
            family.expect("the family exists")
        };
        match change {
            Change::Put(at, key, value) => txn.put_in(&family(*at), key, value),
            Change::Merge(at, key, operand) => txn.merge_in(&family(*at), key, operand),
            Change::Delete(at, key) => txn.delete_in(&family(*at), key),
        }
        .expect("the key is not locked");
    }
}

impl Engine for Cairn {
    fn write(&mut self, changes: &[Change]) {
        let mut txn = self.0.begin();
        changes
            .iter()
            .for_each(|change| self.change(&mut txn, change));
        txn.commit().expect("Cairn commits");
    }

    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) {
        let family = self.0.db().family(FAMILIES[family]);
        let family = family.expect("the family exists");
        let written = self.0.put_in(&family, key, value, &WriteOptions::default());
        written.expect("Cairn writes");
    }

    fn prepare(&mut self, name: &str, changes: &[Change]) {
        let mut txn = self.0.begin();
        txn.set_name(name.as_bytes()).expect("the name is new");
        changes
            .iter()
            .for_each(|change| self.change(&mut txn, change));
        // Left to the database when it is dropped.
        txn.prepare().expect("Cairn prepares");
    }

    fn decide(&mut self, name: &str, commits: bool) {
        let txn = self.0.transaction_by_name(name.as_bytes());
        let mut txn = txn.expect("it is prepared");
        match commits {
            true => txn.commit(),
            false => txn.rollback(),
        }
        .expect("Cairn decides");
    }

    fn flush(&mut self, family: usize) {
        let family = self.0.db().family(FAMILIES[family]);
        let family = family.expect("the family exists");
        family.flush().expect("Cairn flushes");
    }

    fn content(&mut self) -> Content {
        FAMILIES.map(|name| {
            let family = self.0.db().family(name).expect("the family exists");
            let mut all = BTreeMap::new();
            let mut iter = family.iter();
            iter.seek_to_first();
            while iter.valid() {
                all.insert(iter.key().to_vec(), iter.value().to_vec());
                iter.next();
            }
            iter.status().expect("Cairn reads");
            all
        })
    }

    fn recovered(&mut self) -> Vec<String> {
        let all = self.0.prepared_transactions();
        let mut names: Vec<_> = all
            .iter()
            .map(|txn| String::from_utf8_lossy(txn.name()).into_owned())
            .collect();
        names.sort();
        names
    }

    fn close(self: Box<Self>) {
        self.0.close().expect("Cairn closes");
    }
}

/// A database of RocksDB.
pub struct RocksDb {
    api: Api,
    db: Handle,
    families: Vec<Handle>,
    options: Handle,
    writes: Handle,
    prepared: BTreeMap<String, Handle>,
}

/// Sets the write policy of options.
type SetPolicy = unsafe extern "C" fn(Handle, c_int);
/// The function of RocksJava that does it: an environment, a class, options, the policy.
type SetPolicyOfJava = unsafe extern "C" fn(*mut c_void, *mut c_void, Handle, i8);

/// Sets the write policy of `settings`, which in C and in Java are the same object. The C function is new in RocksDB 11.9.
fn set_policy(path: &Path, settings: Handle, policy: WritePolicy) {
    let number = match policy {
        WritePolicy::Committed => 0,
        WritePolicy::Prepared => 1,
        WritePolicy::Unprepared => 2,
    };
    // SAFETY: the library is loaded already.
    let library = unsafe { libloading::Library::new(path) }.expect("it is loaded already");
    // SAFETY: the type is that of the function in c.h.
    let set =
        unsafe { library.get::<SetPolicy>(b"rocksdb_transactiondb_options_set_write_policy\0") };
    if let Ok(set) = set {
        // SAFETY: the options are live.
        return unsafe { set(settings, number) };
    }
    let name = b"Java_org_rocksdb_TransactionDBOptions_setWritePolicy\0";
    // SAFETY: the type is that of a native method; this one does not use its environment and class.
    let set = unsafe { library.get::<SetPolicyOfJava>(name) }.expect("one of both is there");
    let number = i8::try_from(number).expect("there are three");
    // SAFETY: the options are live.
    unsafe { set(null_mut(), null_mut(), settings, number) }
}

/// The error in `slot`.
fn failure(api: &Api, slot: *mut c_char) -> Option<String> {
    if slot.is_null() {
        return None;
    }
    // SAFETY: the library returned a text.
    let text = unsafe { CStr::from_ptr(slot) };
    let text = text.to_string_lossy().into_owned();
    // SAFETY: the library allocated it.
    unsafe { (api.rocksdb_free)(slot.cast()) };
    Some(text)
}

impl RocksDb {
    /// Opens the database in `path`, or creates it, with the library at `library`.
    ///
    /// # Errors
    ///
    /// The error of RocksDB.
    ///
    /// # Panics
    ///
    /// If the library cannot be loaded.
    pub fn open(library: &Path, path: &Path, policy: WritePolicy) -> Result<RocksDb, String> {
        let api = Api::load(library).expect("the library is loaded");
        let mut error = null_mut();
        let folder = CString::new(path.to_str().expect("a path in UTF-8")).expect("no zero");
        let text = CString::new(FAMILY_OPTIONS).expect("no zero");
        let names = FAMILIES.map(|name| CString::new(name).expect("no zero"));
        let names = names.each_ref().map(|name| name.as_ptr());
        let mut families = vec![null_mut(); FAMILIES.len()];
        // SAFETY: the handles are live, and the arrays have an element per family.
        unsafe {
            let base = (api.rocksdb_options_create)();
            let options = (api.rocksdb_options_create)();
            (api.rocksdb_get_options_from_string)(base, text.as_ptr(), options, &raw mut error);
            (api.rocksdb_options_destroy)(base);
            assert_eq!(failure(&api, error), None);
            (api.rocksdb_options_set_create_if_missing)(options, 1);
            (api.rocksdb_options_set_create_missing_column_families)(options, 1);
            let settings = (api.rocksdb_transactiondb_options_create)();
            set_policy(library, settings, policy);
            let given = [options.cast_const(); 2];
            let db = (api.rocksdb_transactiondb_open_column_families)(
                options,
                settings,
                folder.as_ptr(),
                2,
                names.as_ptr(),
                given.as_ptr(),
                families.as_mut_ptr(),
                &raw mut error,
            );
            (api.rocksdb_transactiondb_options_destroy)(settings);
            if let Some(text) = failure(&api, error) {
                (api.rocksdb_options_destroy)(options);
                return Err(text);
            }
            let writes = (api.rocksdb_writeoptions_create)();
            Ok(RocksDb {
                api,
                db,
                families,
                options,
                writes,
                prepared: BTreeMap::new(),
            })
        }
    }

    fn must(&self, slot: *mut c_char) {
        assert_eq!(failure(&self.api, slot), None);
    }

    fn begin(&self) -> Handle {
        // SAFETY: the handles are live.
        unsafe {
            let options = (self.api.rocksdb_transaction_options_create)();
            let txn =
                (self.api.rocksdb_transaction_begin)(self.db, self.writes, options, null_mut());
            (self.api.rocksdb_transaction_options_destroy)(options);
            txn
        }
    }

    fn change(&self, txn: Handle, change: &Change) {
        let (api, mut error) = (&self.api, null_mut());
        let (family, key) = change.place();
        let family = self.families[family];
        let (key, len) = (key.as_ptr().cast(), key.len());
        // SAFETY: the handles are live, and the slices have their lengths.
        unsafe {
            match change {
                Change::Put(_, _, value) => {
                    let (value, bytes) = (value.as_ptr().cast(), value.len());
                    (api.rocksdb_transaction_put_cf)(
                        txn,
                        family,
                        key,
                        len,
                        value,
                        bytes,
                        &raw mut error,
                    );
                }
                Change::Merge(_, _, value) => {
                    let (value, bytes) = (value.as_ptr().cast(), value.len());
                    (api.rocksdb_transaction_merge_cf)(
                        txn,
                        family,
                        key,
                        len,
                        value,
                        bytes,
                        &raw mut error,
                    );
                }
                Change::Delete(..) => {
                    (api.rocksdb_transaction_delete_cf)(txn, family, key, len, &raw mut error);
                }
            }
        }
        self.must(error);
    }
}

impl Engine for RocksDb {
    fn write(&mut self, changes: &[Change]) {
        let (txn, mut error) = (self.begin(), null_mut());
        changes.iter().for_each(|change| self.change(txn, change));
        // SAFETY: the transaction is live.
        unsafe {
            (self.api.rocksdb_transaction_commit)(txn, &raw mut error);
            (self.api.rocksdb_transaction_destroy)(txn);
        }
        self.must(error);
    }

    fn put(&mut self, family: usize, key: &[u8], value: &[u8]) {
        let mut error = null_mut();
        // SAFETY: the handles are live, and the slices have their lengths.
        unsafe {
            (self.api.rocksdb_transactiondb_put_cf)(
                self.db,
                self.writes,
                self.families[family],
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                &raw mut error,
            );
        }
        self.must(error);
    }

    fn prepare(&mut self, name: &str, changes: &[Change]) {
        let (txn, mut error) = (self.begin(), null_mut());
        let (text, len) = (name.as_ptr().cast(), name.len());
        // SAFETY: the transaction is live.
        unsafe { (self.api.rocksdb_transaction_set_name)(txn, text, len, &raw mut error) };
        self.must(error);
        changes.iter().for_each(|change| self.change(txn, change));
        // SAFETY: the transaction is live.
        unsafe { (self.api.rocksdb_transaction_prepare)(txn, &raw mut error) };
        self.must(error);
        self.prepared.insert(name.to_owned(), txn);
    }

    fn decide(&mut self, name: &str, commits: bool) {
        let txn = self.prepared.remove(name).expect("it is prepared");
        let mut error = null_mut();
        // SAFETY: the transaction is live.
        unsafe {
            match commits {
                true => (self.api.rocksdb_transaction_commit)(txn, &raw mut error),
                false => (self.api.rocksdb_transaction_rollback)(txn, &raw mut error),
            }
            (self.api.rocksdb_transaction_destroy)(txn);
        }
        self.must(error);
    }

    fn flush(&mut self, family: usize) {
        let mut error = null_mut();
        // SAFETY: the handles are live.
        unsafe {
            let options = (self.api.rocksdb_flushoptions_create)();
            let base = (self.api.rocksdb_transactiondb_get_base_db)(self.db);
            (self.api.rocksdb_flush_cf)(base, options, self.families[family], &raw mut error);
            (self.api.rocksdb_transactiondb_close_base_db)(base);
            (self.api.rocksdb_flushoptions_destroy)(options);
        }
        self.must(error);
    }

    fn content(&mut self) -> Content {
        let txn = self.begin();
        let api = &self.api;
        let content = [0, 1].map(|family| {
            let mut all = BTreeMap::new();
            let mut error = null_mut();
            // SAFETY: the handles are live, and keys and values are valid until the iterator moves.
            unsafe {
                let options = (api.rocksdb_readoptions_create)();
                let family = self.families[family];
                let iter = (api.rocksdb_transaction_create_iterator_cf)(txn, options, family);
                (api.rocksdb_iter_seek_to_first)(iter);
                while (api.rocksdb_iter_valid)(iter) != 0 {
                    let (mut key_len, mut value_len) = (0, 0);
                    let key = (api.rocksdb_iter_key)(iter, &raw mut key_len);
                    let value = (api.rocksdb_iter_value)(iter, &raw mut value_len);
                    let key = std::slice::from_raw_parts(key.cast::<u8>(), key_len);
                    let value = std::slice::from_raw_parts(value.cast::<u8>(), value_len);
                    all.insert(key.to_vec(), value.to_vec());
                    (api.rocksdb_iter_next)(iter);
                }
                (api.rocksdb_iter_get_error)(iter, &raw mut error);
                (api.rocksdb_iter_destroy)(iter);
                (api.rocksdb_readoptions_destroy)(options);
            }
            self.must(error);
            all
        });
        // SAFETY: the transaction is live.
        unsafe { (api.rocksdb_transaction_destroy)(txn) };
        content
    }

    fn recovered(&mut self) -> Vec<String> {
        let (api, mut count) = (&self.api, 0);
        // SAFETY: the database is live.
        let list = unsafe {
            (api.rocksdb_transactiondb_get_prepared_transactions)(self.db, &raw mut count)
        };
        for at in 0..count {
            // SAFETY: the library returned `count` handles, and allocates the name.
            unsafe {
                let (txn, mut len) = (*list.add(at), 0);
                let name = (api.rocksdb_transaction_get_name)(txn, &raw mut len);
                let bytes = std::slice::from_raw_parts(name.cast::<u8>(), len);
                let text = String::from_utf8_lossy(bytes).into_owned();
                (api.rocksdb_free)(name.cast());
                self.prepared.insert(text, txn);
            }
        }
        if !list.is_null() {
            // SAFETY: the library allocated it.
            unsafe { (api.rocksdb_free)(list.cast()) };
        }
        self.prepared.keys().cloned().collect()
    }

    fn close(self: Box<Self>) {
        let api = &self.api;
        // SAFETY: the handles are live; prepared transactions stay so.
        unsafe {
            for txn in self.prepared.values() {
                (api.rocksdb_transaction_destroy)(*txn);
            }
            for family in &self.families {
                (api.rocksdb_column_family_handle_destroy)(*family);
            }
            (api.rocksdb_transactiondb_close)(self.db);
            (api.rocksdb_writeoptions_destroy)(self.writes);
            (api.rocksdb_options_destroy)(self.options);
        }
    }
}
