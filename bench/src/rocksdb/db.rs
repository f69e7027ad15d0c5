//! An open RocksDB database: writes, reads, iterators, flush, compaction, properties.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::null_mut;
use std::slice;

use super::api::{Api, Handle};
use super::library::{Library, Options, c_string, path_string, pointer};
use super::{Error, Result};

/// How a database is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Creates missing databases and families.
    Create,
    /// Fails if the database is missing.
    Existing,
    /// Read-only.
    ReadOnly,
    /// As `Create`, with this time to live in seconds for the values of every family.
    WithTtl(i32),
    /// As a secondary instance of a primary process; see [`Db::catch_up`]. Its info log is in a directory
    /// with the suffix `.secondary`.
    Secondary,
}

/// The index of a family in the list that the database was opened with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family(pub usize);

/// An open database. Dropping it closes it with `rocksdb_close`.
pub struct Db {
    library: Library,
    handle: Handle,
    families: Vec<Handle>,
    names: Vec<String>,
    read: Handle,
    write: Handle,
    timestamp: Option<Box<[u8]>>,
    start_timestamp: Option<Box<[u8]>>,
    _options: Vec<Options>,
}

impl Db {
    /// Opens the database at `path` with `families` (the name and option string of each), which must be all
    /// its families unless it is opened read-only.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn open(
        library: &Library,
        path: &Path,
        options: &str,
        families: &[(&str, &str)],
        mode: OpenMode,
    ) -> Result<Db> {
        let api = &library.api;
        let create = u8::from(matches!(mode, OpenMode::Create | OpenMode::WithTtl(_)));
        let db_options = library.options(options)?;
        // SAFETY: a live handle.
        unsafe {
            (api.rocksdb_options_set_create_if_missing)(db_options.handle, create);
            (api.rocksdb_options_set_create_missing_column_families)(db_options.handle, create);
        }
        let (mut kept, mut names, mut option_handles) = (Vec::new(), Vec::new(), Vec::new());
        for (name, text) in families {
            names.push(c_string(name)?);
            // Families with the text of the database share its options, and thus a block cache.
            if *text == options {
                option_handles.push(db_options.handle);
                continue;
            }
            let own = library.options(text)?;
            option_handles.push(own.handle);
            kept.push(own);
        }
        let name_pointers: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let mut handles: Vec<Handle> = vec![null_mut(); families.len()];
        let mut place = path.as_os_str().to_owned();
        place.push(".secondary");
        let place = path_string(Path::new(&place))?;
        let path = path_string(path)?;
        let count =
            c_int::try_from(families.len()).map_err(|_| Error("too many families".into()))?;
        let handle = library.api.call(|error| {
            // SAFETY: the arrays have `count` live elements each, the path ends with a zero.
            unsafe {
                match mode {
                    OpenMode::ReadOnly => (api.rocksdb_open_for_read_only_column_families)(
                        db_options.handle,
                        path.as_ptr(),
                        count,
                        name_pointers.as_ptr(),
                        option_handles.as_ptr(),
                        handles.as_mut_ptr(),
                        0,
                        error,
                    ),
                    OpenMode::Secondary => (api.rocksdb_open_as_secondary_column_families)(
                        db_options.handle,
                        path.as_ptr(),
                        place.as_ptr(),
                        count,
                        name_pointers.as_ptr(),
                        option_handles.as_ptr(),
                        handles.as_mut_ptr(),
                        error,
                    ),
                    OpenMode::WithTtl(ttl) => (api.rocksdb_open_column_families_with_ttl)(
                        db_options.handle,
                        path.as_ptr(),
                        count,
                        name_pointers.as_ptr(),
                        option_handles.as_ptr(),
                        handles.as_mut_ptr(),
                        vec![ttl; families.len()].as_ptr(),
                        error,
                    ),
                    OpenMode::Create | OpenMode::Existing => (api.rocksdb_open_column_families)(
                        db_options.handle,
                        path.as_ptr(),
                        count,
                        name_pointers.as_ptr(),
                        option_handles.as_ptr(),
                        handles.as_mut_ptr(),
                        error,
                    ),
                }
            }
        })?;
        kept.push(db_options);
        Ok(Db {
            library: library.clone(),
            handle,
            families: handles,
            names: families
                .iter()
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            // SAFETY: takes no arguments and returns a new handle, which is destroyed on drop.
            read: unsafe { (api.rocksdb_readoptions_create)() },
            // SAFETY: as above.
            write: unsafe { (api.rocksdb_writeoptions_create)() },
            timestamp: None,
            start_timestamp: None,
            _options: kept,
        })
    }

    /// Catches up with the primary, if this is a secondary instance.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn catch_up(&self) -> Result<()> {
        let api = &self.library.api;
        // SAFETY: the handle is live.
        api.call(|error| unsafe { (api.rocksdb_try_catch_up_with_primary)(self.handle, error) })
    }

    /// Returns the family `name`.
    #[must_use]
    pub fn family(&self, name: &str) -> Option<Family> {
        self.names
            .iter()
            .position(|known| known == name)
            .map(Family)
    }

    /// Returns the names of the families, in the order of opening.
    #[must_use]
    pub fn families(&self) -> &[String] {
        &self.names
    }

    /// Sets the write options: whether to sync, and whether to write the WAL.
    pub fn write_with(&mut self, sync: bool, wal: bool) {
        // SAFETY: a live handle that no call is using.
        unsafe {
            (self.library.api.rocksdb_writeoptions_set_sync)(self.write, u8::from(sync));
            (self.library.api.rocksdb_writeoptions_disable_WAL)(self.write, c_int::from(!wal));
        }
    }

    /// Sets the read timestamp for families with timestamps.
    pub fn read_at(&mut self, timestamp: &[u8]) {
        let kept: Box<[u8]> = timestamp.into();
        let (bytes, len) = pointer(Some(&kept));
        // SAFETY: RocksDB keeps the pointer; the bytes are neither moved nor freed before this object is
        // dropped.
        unsafe { (self.library.api.rocksdb_readoptions_set_timestamp)(self.read, bytes, len) };
        self.timestamp = Some(kept);
    }

    /// Sets the oldest timestamp of the versions that iterators return; without one they return the newest version.
    pub fn versions_since(&mut self, timestamp: Option<&[u8]>) {
        let kept: Option<Box<[u8]>> = timestamp.map(Into::into);
        let (bytes, len) = pointer(kept.as_deref());
        // SAFETY: RocksDB keeps the pointer; the bytes are neither moved nor freed before this object is
        // dropped or the pointer is replaced.
        unsafe { (self.library.api.rocksdb_readoptions_set_iter_start_ts)(self.read, bytes, len) };
        self.start_timestamp = kept;
    }

    /// Increases `full_history_ts_low` of `family`.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn increase_full_history_ts_low(&self, family: Family, timestamp: &[u8]) -> Result<()> {
        let family = self.families[family.0];
        let (bytes, len) = pointer(Some(timestamp));
        self.library.api.call(|error| {
            // SAFETY: live handles and readable bytes.
            unsafe {
                (self.library.api.rocksdb_increase_full_history_ts_low)(
                    self.handle,
                    family,
                    bytes,
                    len,
                    error,
                );
            }
        })
    }

    /// Puts `key`.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn put(&self, family: Family, key: &[u8], value: &[u8]) -> Result<()> {
        let (key, key_len) = pointer(Some(key));
        let (value, value_len) = pointer(Some(value));
        let (db, family) = (self.handle, self.families[family.0]);
        self.library.api.call(|error| {
            // SAFETY: live handles, readable bytes.
            unsafe {
                (self.library.api.rocksdb_put_cf)(
                    db, self.write, family, key, key_len, value, value_len, error,
                );
            }
        })
    }

    /// Adds a merge operand to `key`.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn merge(&self, family: Family, key: &[u8], operand: &[u8]) -> Result<()> {
        let (key, key_len) = pointer(Some(key));
        let (value, value_len) = pointer(Some(operand));
        let (db, family) = (self.handle, self.families[family.0]);
        self.library.api.call(|error| {
            // SAFETY: live handles, readable bytes.
            unsafe {
                (self.library.api.rocksdb_merge_cf)(
                    db, self.write, family, key, key_len, value, value_len, error,
                );
            }
        })
    }

    /// Deletes `key`.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn delete(&self, family: Family, key: &[u8]) -> Result<()> {
        let (key, key_len) = pointer(Some(key));
        let (db, family) = (self.handle, self.families[family.0]);
        self.library.api.call(|error| {
            // SAFETY: live handles, readable bytes.
            unsafe {
                (self.library.api.rocksdb_delete_cf)(db, self.write, family, key, key_len, error);
            }
        })
    }

    /// Deletes every key from `begin` to `end`, exclusive.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn delete_range(&self, family: Family, begin: &[u8], end: &[u8]) -> Result<()> {
        let (begin, begin_len) = pointer(Some(begin));
        let (end, end_len) = pointer(Some(end));
        let (db, family) = (self.handle, self.families[family.0]);
        self.library.api.call(|error| {
            // SAFETY: live handles, readable bytes.
            unsafe {
                (self.library.api.rocksdb_delete_range_cf)(
                    db, self.write, family, begin, begin_len, end, end_len, error,
                );
            }
        })
    }

    /// Creates an empty batch for this database.
    #[must_use]
    pub fn batch(&self) -> Batch<'_> {
        Batch {
            db: self,
            // SAFETY: takes nothing, returns a new handle, which `Batch` destroys.
            handle: unsafe { (self.library.api.rocksdb_writebatch_create)() },
        }
    }

    /// Creates a batch from its serialized form, which may have records that the C interface cannot
    /// create.
    #[must_use]
    pub fn batch_of(&self, bytes: &[u8]) -> Batch<'_> {
        let (bytes, len) = pointer(Some(bytes));
        Batch {
            db: self,
            // SAFETY: readable bytes, which RocksDB copies; returns a new handle, which `Batch`
            // destroys.
            handle: unsafe { (self.library.api.rocksdb_writebatch_create_from)(bytes, len) },
        }
    }

    /// Writes `batch` atomically.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn write(&self, batch: &Batch<'_>) -> Result<()> {
        self.library.api.call(|error| {
            // SAFETY: live handles.
            unsafe {
                (self.library.api.rocksdb_write)(self.handle, self.write, batch.handle, error);
            }
        })
    }

    /// Returns the pinned value of `key`.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn get(&self, family: Family, key: &[u8]) -> Result<Option<Pinned<'_>>> {
        let (key, key_len) = pointer(Some(key));
        let (db, family) = (self.handle, self.families[family.0]);
        let handle = self.library.api.call(|error| {
            // SAFETY: live handles, readable bytes.
            unsafe {
                (self.library.api.rocksdb_get_pinned_cf)(db, self.read, family, key, key_len, error)
            }
        })?;
        Ok((!handle.is_null()).then_some(Pinned { db: self, handle }))
    }

    /// Creates an iterator over `family`.
    #[must_use]
    pub fn iter(&self, family: Family) -> Iter<'_> {
        let family = self.families[family.0];
        // SAFETY: live handles; the iterator borrows the database and is destroyed before it.
        let handle = unsafe {
            (self.library.api.rocksdb_create_iterator_cf)(self.handle, self.read, family)
        };
        Iter {
            api: &self.library.api,
            handle,
            valid: false,
            _db: PhantomData,
        }
    }

    pub(super) fn library(&self) -> &Library {
        &self.library
    }

    pub(super) fn handle(&self) -> Handle {
        self.handle
    }

    pub(super) fn family_handle(&self, family: Family) -> Handle {
        self.families[family.0]
    }

    /// Flushes the memtable of `family` and waits.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn flush(&self, family: Family) -> Result<()> {
        // SAFETY: takes nothing, returns a new handle, destroyed below.
        let options = unsafe { (self.library.api.rocksdb_flushoptions_create)() };
        let family = self.families[family.0];
        let result = self.library.api.call(|error| {
            // SAFETY: live handles.
            unsafe { (self.library.api.rocksdb_flush_cf)(self.handle, options, family, error) }
        });
        // SAFETY: the handle is owned by this function and not used elsewhere.
        unsafe { (self.library.api.rocksdb_flushoptions_destroy)(options) };
        result
    }

    /// Writes the WAL buffer to the file, and syncs it if `sync`.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn flush_wal(&self, sync: bool) -> Result<()> {
        self.library.api.call(|error| {
            // SAFETY: a live handle.
            unsafe { (self.library.api.rocksdb_flush_wal)(self.handle, u8::from(sync), error) }
        })
    }

    /// Compacts all of `family` and waits.
    pub fn compact(&self, family: Family) {
        let ((begin, begin_len), (end, end_len)) = (pointer(None), pointer(None));
        // SAFETY: live handles; null bounds mean the whole family.
        unsafe {
            (self.library.api.rocksdb_compact_range_cf)(
                self.handle,
                self.families[family.0],
                begin,
                begin_len,
                end,
                end_len,
            );
        }
    }

    /// Returns a property, such as `rocksdb.stats`.
    #[must_use]
    pub fn property(&self, family: Family, name: &str) -> Option<String> {
        let name = c_string(name).ok()?;
        // SAFETY: live handles; the text was allocated by RocksDB, is copied, and is then freed once.
        unsafe {
            let text = (self.library.api.rocksdb_property_value_cf)(
                self.handle,
                self.families[family.0],
                name.as_ptr(),
            );
            if text.is_null() {
                return None;
            }
            let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.library.api.rocksdb_free)(text.cast::<c_void>());
            Some(copy)
        }
    }
}

impl Drop for Db {
    fn drop(&mut self) {
        let api = &self.library.api;
        // SAFETY: the handles are owned by this object; everything that borrows from the database is gone.
        unsafe {
            for family in &self.families {
                (api.rocksdb_column_family_handle_destroy)(*family);
            }
            (api.rocksdb_close)(self.handle);
            (api.rocksdb_readoptions_destroy)(self.read);
            (api.rocksdb_writeoptions_destroy)(self.write);
        }
    }
}

/// A write batch.
pub struct Batch<'db> {
    db: &'db Db,
    handle: Handle,
}

impl Batch<'_> {
    /// Adds a put.
    pub fn put(&mut self, family: Family, key: &[u8], value: &[u8]) {
        let ((key, key_len), (value, value_len)) = (pointer(Some(key)), pointer(Some(value)));
        let family = self.db.families[family.0];
        // SAFETY: live handles, readable bytes, which RocksDB copies.
        unsafe {
            (self.db.library.api.rocksdb_writebatch_put_cf)(
                self.handle,
                family,
                key,
                key_len,
                value,
                value_len,
            );
        }
    }

    /// Adds a merge operand to `key`.
    pub fn merge(&mut self, family: Family, key: &[u8], operand: &[u8]) {
        let ((key, key_len), (value, value_len)) = (pointer(Some(key)), pointer(Some(operand)));
        let family = self.db.families[family.0];
        // SAFETY: live handles, readable bytes, which RocksDB copies.
        unsafe {
            (self.db.library.api.rocksdb_writebatch_merge_cf)(
                self.handle,
                family,
                key,
                key_len,
                value,
                value_len,
            );
        }
    }

    /// Adds a deletion.
    pub fn delete(&mut self, family: Family, key: &[u8]) {
        let (key, key_len) = pointer(Some(key));
        let family = self.db.families[family.0];
        // SAFETY: live handles, readable bytes, which RocksDB copies.
        unsafe {
            (self.db.library.api.rocksdb_writebatch_delete_cf)(self.handle, family, key, key_len);
        }
    }

    /// Adds a single deletion of a key that was put once.
    pub fn single_delete(&mut self, family: Family, key: &[u8]) {
        let (key, key_len) = pointer(Some(key));
        let family = self.db.families[family.0];
        // SAFETY: live handles, readable bytes, which RocksDB copies.
        unsafe {
            (self.db.library.api.rocksdb_writebatch_singledelete_cf)(
                self.handle,
                family,
                key,
                key_len,
            );
        }
    }

    /// Adds the deletion of every key from `begin` to `end`, exclusive.
    pub fn delete_range(&mut self, family: Family, begin: &[u8], end: &[u8]) {
        let ((begin, begin_len), (end, end_len)) = (pointer(Some(begin)), pointer(Some(end)));
        let family = self.db.families[family.0];
        // SAFETY: live handles, readable bytes, which RocksDB copies.
        unsafe {
            (self.db.library.api.rocksdb_writebatch_delete_range_cf)(
                self.handle,
                family,
                begin,
                begin_len,
                end,
                end_len,
            );
        }
    }

    /// Clears the batch.
    pub fn clear(&mut self) {
        // SAFETY: a live handle.
        unsafe { (self.db.library.api.rocksdb_writebatch_clear)(self.handle) }
    }

    /// Returns the number of records.
    #[must_use]
    pub fn count(&self) -> usize {
        // SAFETY: a live handle.
        let count = unsafe { (self.db.library.api.rocksdb_writebatch_count)(self.handle) };
        usize::try_from(count).unwrap_or(0)
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is owned by this object and not used elsewhere.
        unsafe { (self.db.library.api.rocksdb_writebatch_destroy)(self.handle) }
    }
}

/// A value pinned in RocksDB's memory.
pub struct Pinned<'db> {
    db: &'db Db,
    handle: Handle,
}

impl std::ops::Deref for Pinned<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let mut len = 0;
        // SAFETY: a live handle; the bytes live as long as it, hence as long as `self`.
        unsafe {
            let bytes = (self.db.library.api.rocksdb_pinnableslice_value)(self.handle, &mut len);
            view(bytes, len)
        }
    }
}

impl Drop for Pinned<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is owned by this object and not used elsewhere.
        unsafe { (self.db.library.api.rocksdb_pinnableslice_destroy)(self.handle) }
    }
}

/// An iterator over one family.
pub struct Iter<'db> {
    /// The function table itself, so that calls cost the same as in a C program.
    pub(super) api: &'db Api,
    pub(super) handle: Handle,
    /// The validity after the last movement: key and value may be read only if true.
    pub(super) valid: bool,
    pub(super) _db: PhantomData<&'db Db>,
}

impl Iter<'_> {
    /// Moves to the first entry.
    pub fn seek_to_first(&mut self) {
        // SAFETY: a live handle.
        unsafe { (self.api.rocksdb_iter_seek_to_first)(self.handle) };
        self.moved();
    }

    /// Moves to the last entry.
    pub fn seek_to_last(&mut self) {
        // SAFETY: a live handle.
        unsafe { (self.api.rocksdb_iter_seek_to_last)(self.handle) };
        self.moved();
    }

    /// Moves to the first entry at or after `key`.
    pub fn seek(&mut self, key: &[u8]) {
        let (key, len) = pointer(Some(key));
        // SAFETY: a live handle, readable bytes.
        unsafe { (self.api.rocksdb_iter_seek)(self.handle, key, len) };
        self.moved();
    }

    /// Moves to the last entry at or before `key`.
    pub fn seek_for_prev(&mut self, key: &[u8]) {
        let (key, len) = pointer(Some(key));
        // SAFETY: a live handle, readable bytes.
        unsafe { (self.api.rocksdb_iter_seek_for_prev)(self.handle, key, len) };
        self.moved();
    }

    /// Moves to the next entry.
    pub fn next(&mut self) {
        assert!(self.valid, "next requires a valid iterator");
        // SAFETY: a live handle of a valid iterator.
        unsafe { (self.api.rocksdb_iter_next)(self.handle) };
        self.moved();
    }

    /// Moves to the previous entry.
    pub fn prev(&mut self) {
        assert!(self.valid, "prev requires a valid iterator");
        // SAFETY: a live handle of a valid iterator.
        unsafe { (self.api.rocksdb_iter_prev)(self.handle) };
        self.moved();
    }

    fn moved(&mut self) {
        // SAFETY: a live handle.
        self.valid = unsafe { (self.api.rocksdb_iter_valid)(self.handle) != 0 };
    }

    /// True if the iterator is at an entry.
    #[must_use]
    pub fn valid(&self) -> bool {
        self.valid
    }

    /// Returns the current key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        assert!(self.valid, "key requires a valid iterator");
        let mut len = 0;
        // SAFETY: the iterator is valid, and the bytes are unchanged until it moves, which requires `&mut`.
        unsafe { view((self.api.rocksdb_iter_key)(self.handle, &mut len), len) }
    }

    /// Returns the current value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        assert!(self.valid, "value requires a valid iterator");
        let mut len = 0;
        // SAFETY: as for `key`.
        unsafe { view((self.api.rocksdb_iter_value)(self.handle, &mut len), len) }
    }

    /// Returns the timestamp of the current entry; only for families with timestamps.
    #[must_use]
    pub fn timestamp(&self) -> &[u8] {
        assert!(self.valid, "timestamp requires a valid iterator");
        let mut len = 0;
        // SAFETY: as for `key`.
        unsafe {
            view(
                (self.api.rocksdb_iter_timestamp)(self.handle, &mut len),
                len,
            )
        }
    }

    /// Returns the error that ended the iteration, if any.
    ///
    /// # Errors
    ///
    /// The error.
    pub fn status(&self) -> Result<()> {
        self.api.call(|error| {
            // SAFETY: a live handle.
            unsafe { (self.api.rocksdb_iter_get_error)(self.handle, error) }
        })
    }
}

impl Drop for Iter<'_> {
    fn drop(&mut self) {
        // SAFETY: the handle is owned by this object and not used elsewhere.
        unsafe { (self.api.rocksdb_iter_destroy)(self.handle) }
    }
}

/// Returns a slice of bytes from C; empty for a null pointer.
///
/// # Safety
///
/// `bytes` is null, or points to `len` bytes that are readable for `'a`.
pub(super) unsafe fn view<'a>(bytes: *const c_char, len: usize) -> &'a [u8] {
    if bytes.is_null() {
        return &[];
    }
    // SAFETY: the caller guarantees it.
    unsafe { slice::from_raw_parts(bytes.cast(), len) }
}
