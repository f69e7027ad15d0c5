//! A library with its database: opening, closing, and what all operations share.
//!
//! A side runs an operation and returns its result as text. The same operations on two sides must give
//! the same texts. Errors are compared by their kind only; the messages are kept apart.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::rc::Rc;
use std::slice;

use super::api::{Api, ErrorSlot, Handle};
use super::callbacks;
use super::ops::{NAMES, Ro, SLOTS, Slot, TXNS, ro};
use super::sets::{Callback, Set, Transactions};
use super::transactions::Txn;

/// Calls a function of the library of `$side`.
macro_rules! c {
    ($side:expr, $name:ident($($argument:expr),* $(,)?)) => {{
        let function = $side.api.$name;
        // SAFETY: handles are live as long as a side holds them, slices outlive the call, and output
        // pointers are valid.
        #[allow(unused_unsafe, reason = "some arguments are calls themselves")]
        unsafe { function($($argument),*) }
    }};
}
pub(super) use c;

/// An iterator and the data that it borrows.
pub(super) struct Walk {
    pub(super) handle: Handle,
    options: Handle,
    /// The bounds that the options point to.
    _bounds: [Option<Vec<u8>>; 2],
    /// The iterator must be positioned before it moves.
    pub(super) lost: bool,
    /// The number of writes at the time of the last seek, for a tailing iterator.
    pub(super) placed: Option<u64>,
    /// The iterator keeps the prefix of its seek key, which seeks to the ends lack.
    pub(super) keeps_prefix: bool,
    /// The batch with index that it iterates over.
    pub(super) over: Option<Slot>,
}

/// The database with transactions, of which [`Side::db`] is the underlying one, and its transactions.
pub(super) struct InTransactions {
    /// Null for none.
    pub(super) db: Handle,
    pub(super) all: [Option<Txn>; TXNS],
}

impl Default for InTransactions {
    fn default() -> Self {
        InTransactions {
            db: null_mut(),
            all: [const { None }; TXNS],
        }
    }
}

/// Numbers of files.
#[derive(Default)]
pub(super) struct OnDisk {
    /// The sequence number of the last operation that may have started a new log.
    pub(super) flushed: u64,
    /// The number of the next table or checkpoint.
    pub(super) files: u64,
}

/// A library and its database.
pub struct Side {
    /// The name of the library.
    pub name: &'static str,
    pub(super) api: Rc<Api>,
    pub(super) set: &'static Set,
    pub(super) folder: PathBuf,
    pub(super) options: Handle,
    /// The comparator and the compaction filter of the options.
    callbacks: [Handle; 2],
    pub(super) write_options: [Handle; 2],
    pub(super) db: Handle,
    pub(super) transactions: InTransactions,
    pub(super) read_only: bool,
    pub(super) families: [Option<Handle>; SLOTS],
    pub(super) walks: [Option<Walk>; SLOTS],
    pub(super) snapshots: [Option<Handle>; SLOTS],
    pub(super) batches: [Handle; 2],
    pub(super) indexed: [Handle; 2],
    /// The keys of single deletions that exist, by family.
    pub(super) singles: Vec<(usize, u16)>,
    /// The families that a batch has changes of.
    pub(super) touched: [[bool; SLOTS]; 4],
    /// The number of writes.
    pub(super) writes: u64,
    pub(super) disk: OnDisk,
    /// The messages of the last errors.
    pub said: Vec<String>,
}

/// An `errptr` with its content.
pub(super) struct Said(pub(super) *mut c_char);

impl Said {
    pub(super) fn new() -> Self {
        Said(null_mut())
    }

    pub(super) fn slot(&mut self) -> ErrorSlot {
        &raw mut self.0
    }
}

impl Side {
    /// Creates a database in `folder` with all families.
    ///
    /// # Errors
    ///
    /// The options are invalid, or the open fails.
    pub fn create(
        name: &'static str,
        api: Rc<Api>,
        set: &'static Set,
        folder: &Path,
    ) -> Result<Side, String> {
        let mut side = Side {
            name,
            api,
            set,
            folder: folder.to_owned(),
            options: null_mut(),
            callbacks: [null_mut(); 2],
            write_options: [null_mut(); 2],
            db: null_mut(),
            transactions: InTransactions::default(),
            read_only: false,
            families: [None; SLOTS],
            walks: [const { None }; SLOTS],
            snapshots: [None; SLOTS],
            batches: [null_mut(); 2],
            indexed: [null_mut(); 2],
            singles: Vec::new(),
            touched: [[false; SLOTS]; 4],
            writes: 0,
            disk: OnDisk::default(),
            said: Vec::new(),
        };
        side.prepare()?;
        let opened = side.open(false, true);
        if side.db.is_null() {
            return Err(format!("{name}: {opened}: {:?}", side.said));
        }
        Ok(side)
    }

    /// Creates the objects that live as long as the side.
    fn prepare(&mut self) -> Result<(), String> {
        self.callbacks = [callbacks::reverse(&self.api), callbacks::filter(&self.api)];
        for index in 0..2 {
            self.write_options[index] = c!(self, rocksdb_writeoptions_create());
            self.batches[index] = c!(self, rocksdb_writebatch_create());
            self.indexed[index] = c!(self, rocksdb_writebatch_wi_create(0, 1));
        }
        c!(
            self,
            rocksdb_writeoptions_disable_WAL(self.write_options[1], 1)
        );
        let base = c!(self, rocksdb_options_create());
        self.options = c!(self, rocksdb_options_create());
        let text = CString::new(self.set.options).expect("no zero in options");
        let mut said = Said::new();
        c!(
            self,
            rocksdb_get_options_from_string(base, text.as_ptr(), self.options, said.slot())
        );
        c!(self, rocksdb_options_destroy(base));
        let status = self.status(said);
        if status != "ok" {
            return Err(format!("{}: {status}: {:?}", self.name, self.said));
        }
        c!(self, rocksdb_options_set_create_if_missing(self.options, 1));
        c!(
            self,
            rocksdb_options_set_create_missing_column_families(self.options, 1)
        );
        let callback = self.set.callback;
        if matches!(callback, Callback::Merge | Callback::Reverse) {
            let merge = callbacks::joining(&self.api);
            c!(
                self,
                rocksdb_options_set_merge_operator(self.options, merge)
            );
        }
        if callback == Callback::Reverse {
            c!(
                self,
                rocksdb_options_set_comparator(self.options, self.callbacks[0])
            );
        }
        if callback == Callback::Filter {
            c!(
                self,
                rocksdb_options_set_compaction_filter(self.options, self.callbacks[1])
            );
        }
        Ok(())
    }

    /// Opens the database with its present families, or with all families.
    pub(super) fn open(&mut self, read_only: bool, all: bool) -> String {
        let folder = self.folder.clone();
        let names: Vec<&str> = if all {
            NAMES.to_vec()
        } else {
            match self.listed(&folder) {
                Ok(names) => names,
                Err(status) => return status,
            }
        };
        let (db, handles, status) = match self.set.transactions {
            Transactions::None => self.open_at(&folder, &names, read_only),
            _ => self.open_with_transactions(&folder, &names),
        };
        self.db = db;
        self.read_only = read_only;
        if !db.is_null() {
            for (name, handle) in names.iter().zip(handles) {
                let place = NAMES.iter().position(|known| known == name);
                self.families[place.expect("a name of ours")] = Some(handle);
            }
        }
        format!("{status} {names:?}{}", self.decide_recovered())
    }

    /// The names of the families at `folder`.
    pub(super) fn listed(&mut self, folder: &Path) -> Result<Vec<&'static str>, String> {
        let path = c_path(folder);
        let (mut said, mut count) = (Said::new(), 0);
        let names = c!(
            self,
            rocksdb_list_column_families(self.options, path.as_ptr(), &mut count, said.slot())
        );
        let status = self.status(said);
        if status != "ok" {
            return Err(status);
        }
        let mut found = Vec::new();
        for index in 0..count {
            // SAFETY: the library returned `count` strings.
            let name = unsafe { CStr::from_ptr(*names.add(index)) };
            let name = name.to_string_lossy();
            found.extend(NAMES.iter().find(|known| **known == name));
        }
        c!(self, rocksdb_list_column_families_destroy(names, count));
        Ok(found)
    }

    /// Opens a database with these families.
    pub(super) fn open_at(
        &mut self,
        folder: &Path,
        names: &[&str],
        read_only: bool,
    ) -> (Handle, Vec<Handle>, String) {
        let path = c_path(folder);
        let texts: Vec<CString> = names
            .iter()
            .map(|name| CString::new(*name).expect("no zero in names"))
            .collect();
        let texts: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let options = vec![self.options; names.len()];
        let mut handles = vec![null_mut(); names.len()];
        let count = c_int::try_from(names.len()).expect("few families");
        let mut said = Said::new();
        let db = if read_only {
            c!(
                self,
                rocksdb_open_for_read_only_column_families(
                    self.options,
                    path.as_ptr(),
                    count,
                    texts.as_ptr(),
                    options.as_ptr(),
                    handles.as_mut_ptr(),
                    0,
                    said.slot()
                )
            )
        } else {
            c!(
                self,
                rocksdb_open_column_families(
                    self.options,
                    path.as_ptr(),
                    count,
                    texts.as_ptr(),
                    options.as_ptr(),
                    handles.as_mut_ptr(),
                    said.slot()
                )
            )
        };
        let status = self.status(said);
        (db, handles, status)
    }

    /// Releases everything that refers to the database, and closes it.
    pub(super) fn close(&mut self) {
        self.end_transactions(true);
        for slot in 0..SLOTS {
            self.end_walk(slot);
            self.release(slot);
        }
        for index in 0..2 {
            self.clear_batches(index);
        }
        for family in 0..SLOTS {
            if let Some(handle) = self.families[family].take() {
                c!(self, rocksdb_column_family_handle_destroy(handle));
            }
        }
        self.close_with_transactions();
        if !self.db.is_null() {
            c!(self, rocksdb_close(self.db));
            self.db = null_mut();
        }
    }

    /// Clears both batches of this index.
    pub(super) fn clear_batches(&mut self, index: usize) {
        self.end_walks_over(index);
        c!(self, rocksdb_writebatch_clear(self.batches[index]));
        c!(self, rocksdb_writebatch_wi_clear(self.indexed[index]));
        self.touched[index] = [false; SLOTS];
        self.touched[2 + index] = [false; SLOTS];
    }

    pub(super) fn end_walk(&mut self, slot: Slot) {
        if let Some(walk) = self.walks[slot].take() {
            c!(self, rocksdb_iter_destroy(walk.handle));
            c!(self, rocksdb_readoptions_destroy(walk.options));
        }
    }

    /// Destroys the iterators over a batch with index that is about to lose records.
    pub(super) fn end_walks_over(&mut self, index: usize) {
        for slot in 0..SLOTS {
            if self.walks[slot]
                .as_ref()
                .is_some_and(|walk| walk.over == Some(index))
            {
                self.end_walk(slot);
            }
        }
    }

    pub(super) fn release(&mut self, slot: Slot) {
        if let Some(handle) = self.snapshots[slot].take() {
            c!(self, rocksdb_release_snapshot(self.db, handle));
        }
    }

    /// Creates read options. The bounds must outlive them.
    pub(super) fn read_options(&self, options: Ro) -> (Handle, [Option<Vec<u8>>; 2]) {
        let bounds = [options.lower, options.upper].map(|bound| bound.map(super::ops::key));
        let handle = c!(self, rocksdb_readoptions_create());
        if let Some(snapshot) = options.snapshot.and_then(|slot| self.snapshots[slot]) {
            c!(self, rocksdb_readoptions_set_snapshot(handle, snapshot));
        }
        // With a read-only database, RocksDB's iterators do not report the tier that they lack.
        if options.tier != 0 && !self.read_only {
            c!(
                self,
                rocksdb_readoptions_set_read_tier(handle, options.tier.into())
            );
        }
        if let Some(bound) = &bounds[0] {
            c!(
                self,
                rocksdb_readoptions_set_iterate_lower_bound(
                    handle,
                    bound.as_ptr().cast(),
                    bound.len()
                )
            );
        }
        if let Some(bound) = &bounds[1] {
            c!(
                self,
                rocksdb_readoptions_set_iterate_upper_bound(
                    handle,
                    bound.as_ptr().cast(),
                    bound.len()
                )
            );
        }
        let has = |bit: u8| u8::from(options.bits & bit != 0);
        c!(
            self,
            rocksdb_readoptions_set_total_order_seek(handle, has(ro::TOTAL))
        );
        c!(
            self,
            rocksdb_readoptions_set_prefix_same_as_start(handle, has(ro::PREFIX))
        );
        c!(self, rocksdb_readoptions_set_pin_data(handle, has(ro::PIN)));
        c!(
            self,
            rocksdb_readoptions_set_tailing(handle, has(ro::TAILING))
        );
        c!(
            self,
            rocksdb_readoptions_set_ignore_range_deletions(handle, has(ro::IGNORE_RANGES))
        );
        c!(
            self,
            rocksdb_readoptions_set_fill_cache(handle, 1 - has(ro::NO_FILL))
        );
        c!(
            self,
            rocksdb_readoptions_set_async_io(handle, has(ro::ASYNC))
        );
        if options.bits & ro::AHEAD != 0 {
            c!(self, rocksdb_readoptions_set_readahead_size(handle, 8192));
        }
        (handle, bounds)
    }

    /// Stores a new iterator.
    pub(super) fn keep_walk(
        &mut self,
        slot: Slot,
        handle: Handle,
        options: (Handle, [Option<Vec<u8>>; 2]),
        over: Option<Slot>,
        bits: u8,
    ) {
        self.end_walk(slot);
        self.walks[slot] = Some(Walk {
            handle,
            options: options.0,
            _bounds: options.1,
            lost: true,
            placed: (bits & ro::TAILING != 0).then_some(0),
            keeps_prefix: self.set.prefixes && bits & ro::PREFIX != 0,
            over,
        });
    }

    /// The result in an `errptr`: `ok`, or `!` and RocksDB's name of the kind of error.
    pub(super) fn status(&mut self, said: Said) -> String {
        if said.0.is_null() {
            return "ok".to_owned();
        }
        // SAFETY: a string of the library that the caller frees.
        let text = unsafe { CStr::from_ptr(said.0) };
        let text = text.to_string_lossy().into_owned();
        c!(self, rocksdb_free(said.0.cast()));
        let kind = text.split(": ").next().unwrap_or("").to_owned();
        self.said.push(text);
        format!("!{kind}")
    }

    /// Copies a buffer from the library and frees it.
    pub(super) fn owned(&self, value: *mut c_char, length: usize) -> Option<Vec<u8>> {
        if value.is_null() {
            return None;
        }
        let bytes = copied(value, length);
        c!(self, rocksdb_free(value.cast()));
        Some(bytes)
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.close();
        for index in 0..2 {
            c!(
                self,
                rocksdb_writeoptions_destroy(self.write_options[index])
            );
            c!(self, rocksdb_writebatch_destroy(self.batches[index]));
            c!(self, rocksdb_writebatch_wi_destroy(self.indexed[index]));
        }
        c!(self, rocksdb_options_destroy(self.options));
        c!(self, rocksdb_comparator_destroy(self.callbacks[0]));
        c!(self, rocksdb_compactionfilter_destroy(self.callbacks[1]));
    }
}

/// A copy of the library's bytes.
pub(super) fn copied(start: *const c_char, length: usize) -> Vec<u8> {
    if start.is_null() || length == 0 {
        return Vec::new();
    }
    // SAFETY: the library returned the length of the buffer.
    unsafe { slice::from_raw_parts(start.cast::<u8>(), length).to_vec() }
}

pub(super) fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().expect("our folders are UTF-8")).expect("no zero in a path")
}

/// Bytes as a short text: long ones by prefix, length and hash.
pub(super) fn short(bytes: &[u8]) -> String {
    if bytes.len() <= 24 {
        return bytes.escape_ascii().to_string();
    }
    let mut text = bytes[..16].escape_ascii().to_string();
    let _ = write!(text, "..{}#{:x}", bytes.len(), hash(bytes) & 0xff_ffff);
    text
}

/// A hash of bytes (FNV-1a).
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(start, step)
}
