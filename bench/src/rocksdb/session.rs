//! Libraries with RocksDB's C interface as benchmark engines.
//!
//! The calls are those of a C program: `rocksdb_put`, `rocksdb_get_pinned`,
//! `rocksdb_batched_multi_get_cf`, `rocksdb_iter_next` and others on the default family. Read and write
//! options are handles created once per session.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

use cairn::{Error, Result};

use super::api::{Api, Handle};
use super::cache::{Bare, Cache};
use super::db::{Db, Family, Iter, OpenMode, view};
use super::library::{Library, pointer};
use crate::engine::{CacheSettings, Cursor, Engine, KeyRange, Session, Settings, Source};

const DEFAULT: Family = Family(0);

/// A part of the error of an opening with too few families.
const NOT_OPENED: &str = "Column families not opened";

/// Converts an error.
fn failed(error: super::Error) -> Error {
    Error::io_text(format!("error of the library: {error}"))
}

impl Source for Library {
    type Engine = Db;
    type Cache = Arc<Cache>;
    type BareCache = Bare;

    fn open(&self, dir: &Path, options: &str, cache: Option<&Arc<Cache>>) -> Result<Db> {
        let library = match cache {
            Some(cache) => self.clone().with_cache(cache.clone()),
            None => self.clone(),
        };
        let open = |families: &[_]| Db::open(&library, dir, options, families, OpenMode::Create);
        // All families have to be opened, the default one first. Listing them reads the MANIFEST, which is not part of
        // the opening that is measured, and most databases have a single family.
        let opened = match open(&[("default", options)]) {
            Err(error) if error.0.contains(NOT_OPENED) => {
                let names = super::list_families(&library, dir).map_err(failed)?;
                let families: Vec<_> = names.iter().map(|name| (&**name, options)).collect();
                open(&families)
            }
            opened => opened,
        };
        opened.map_err(failed)
    }

    fn cache(&self, settings: &CacheSettings) -> Result<Arc<Cache>> {
        Library::cache(self, settings).map_err(|error| Error::not_supported(error.to_string()))
    }

    fn bare_cache(&self, settings: &CacheSettings) -> Result<Bare> {
        Library::bare_cache(self, settings).map_err(|error| Error::not_supported(error.to_string()))
    }
}

// SAFETY: a database of the C library is thread-safe; calls through `&self` do not access the options of
// later calls, which `&mut self` changes.
unsafe impl Sync for Db {}

/// A benchmark session.
pub struct Thread<'a> {
    db: &'a Db,
    /// The database handle and the function table, held directly as in a C program.
    api: &'a Api,
    handle: Handle,
    read: Handle,
    write: Handle,
    batch: Handle,
    keys: Vec<*const c_char>,
    sizes: Vec<usize>,
    values: Vec<Handle>,
    errors: Vec<*mut c_char>,
}

impl Engine for Db {
    type Session<'a> = Thread<'a>;

    fn session(&self, settings: &Settings) -> Thread<'_> {
        let api: &Api = &self.library().api;
        // SAFETY: each call creates a handle that only this session uses and that is destroyed with it.
        unsafe {
            let (read, write) = (
                (api.rocksdb_readoptions_create)(),
                (api.rocksdb_writeoptions_create)(),
            );
            (api.rocksdb_readoptions_set_verify_checksums)(
                read,
                u8::from(settings.verify_checksums),
            );
            (api.rocksdb_readoptions_set_total_order_seek)(
                read,
                u8::from(settings.total_order_seek),
            );
            (api.rocksdb_readoptions_set_prefix_same_as_start)(
                read,
                u8::from(settings.prefix_same_as_start),
            );
            (api.rocksdb_readoptions_set_async_io)(read, u8::from(settings.async_io));
            api.set_optimize_multiget_for_io(read, settings.optimize_multiget_for_io);
            (api.rocksdb_writeoptions_set_sync)(write, u8::from(settings.sync));
            (api.rocksdb_writeoptions_disable_WAL)(write, c_int::from(settings.disable_wal));
            Thread {
                db: self,
                api,
                handle: self.handle(),
                read,
                write,
                batch: (api.rocksdb_writebatch_create)(),
                keys: Vec::new(),
                sizes: Vec::new(),
                values: Vec::new(),
                errors: Vec::new(),
            }
        }
    }

    fn flush(&self) -> Result<()> {
        Db::flush(self, DEFAULT).map_err(failed)
    }

    fn compact(&self) -> Result<()> {
        Db::compact(self, DEFAULT);
        Ok(())
    }

    fn wait_until_quiet(&self) -> Result<()> {
        let api = &self.library().api;
        // SAFETY: creates a handle, destroyed below.
        let options = unsafe { (api.rocksdb_wait_for_compact_options_create)() };
        let result = self.library().api.call(|error| {
            // SAFETY: live handles.
            unsafe { (api.rocksdb_wait_for_compact)(self.handle(), options, error) }
        });
        // SAFETY: created above and not used elsewhere.
        unsafe { (api.rocksdb_wait_for_compact_options_destroy)(options) };
        result.map_err(failed)
    }

    fn property(&self, name: &str) -> Option<String> {
        Db::property(self, DEFAULT, name)
    }

    fn close(self) -> Result<()> {
        drop(self);
        Ok(())
    }
}

impl Thread<'_> {
    /// Returns the error of a call, if any. Measured operations only test for a null pointer.
    #[inline]
    fn checked(&self, error: *mut c_char) -> Result<()> {
        match error.is_null() {
            true => Ok(()),
            false => Err(self.failure(error)),
        }
    }

    #[cold]
    #[inline(never)]
    fn failure(&self, error: *mut c_char) -> Error {
        // SAFETY: `error` is writable, and the caller owns the text, which is freed like that of any call.
        let call = self.api.call(|place| unsafe { place.write(error) });
        call.map_or_else(failed, |()| {
            Error::io_text("the library returned an error without a text")
        })
    }
}

impl Session for Thread<'_> {
    type Cursor<'b>
        = Iter<'b>
    where
        Self: 'b;

    #[inline]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let ((key, key_len), (value, value_len)) = (pointer(Some(key)), pointer(Some(value)));
        let mut error = null_mut();
        // SAFETY: live handles, readable bytes, and a writable error slot.
        unsafe {
            (self.api.rocksdb_put)(
                self.handle,
                self.write,
                key,
                key_len,
                value,
                value_len,
                &mut error,
            );
        }
        self.checked(error)
    }

    fn delete(&mut self, key: &[u8]) -> Result<()> {
        let (key, len) = pointer(Some(key));
        let deleted = self.api.call(|error| {
            // SAFETY: live handles, readable bytes.
            unsafe {
                (self.api.rocksdb_delete)(self.handle, self.write, key, len, error);
            }
        });
        deleted.map_err(failed)
    }

    fn merge(&mut self, key: &[u8], operand: &[u8]) -> Result<()> {
        let ((key, key_len), (value, value_len)) = (pointer(Some(key)), pointer(Some(operand)));
        let merged = self.api.call(|error| {
            // SAFETY: live handles, readable bytes.
            unsafe {
                (self.api.rocksdb_merge)(
                    self.handle,
                    self.write,
                    key,
                    key_len,
                    value,
                    value_len,
                    error,
                );
            }
        });
        merged.map_err(failed)
    }

    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        let ((begin, begin_len), (end, end_len)) = (pointer(Some(begin)), pointer(Some(end)));
        let deleted = self.api.call(|error| {
            // SAFETY: live handles, readable bytes.
            unsafe {
                (self.api.rocksdb_delete_range_cf)(
                    self.handle,
                    self.write,
                    self.db.family_handle(DEFAULT),
                    begin,
                    begin_len,
                    end,
                    end_len,
                    error,
                );
            }
        });
        deleted.map_err(failed)
    }

    #[inline]
    fn add(&mut self, key: &[u8], value: &[u8]) {
        let ((key, key_len), (value, value_len)) = (pointer(Some(key)), pointer(Some(value)));
        // SAFETY: a live handle, readable bytes, which are copied.
        unsafe {
            (self.api.rocksdb_writebatch_put)(self.batch, key, key_len, value, value_len);
        }
    }

    fn remove(&mut self, key: &[u8]) {
        let (key, len) = pointer(Some(key));
        // SAFETY: a live handle, readable bytes, which are copied.
        unsafe { (self.api.rocksdb_writebatch_delete)(self.batch, key, len) };
    }

    fn write(&mut self) -> Result<()> {
        let written = self.api.call(|error| {
            // SAFETY: live handles.
            unsafe {
                (self.api.rocksdb_write)(self.handle, self.write, self.batch, error);
            }
        });
        // SAFETY: a live handle.
        unsafe { (self.api.rocksdb_writebatch_clear)(self.batch) };
        written.map_err(failed)
    }

    #[inline]
    fn get(&mut self, key: &[u8], mut see: impl FnMut(&[u8]) -> Result<()>) -> Result<bool> {
        let (key, key_len) = pointer(Some(key));
        let mut error = null_mut();
        // SAFETY: live handles, readable bytes, and a writable error slot; then a live slice, owned by this
        // function, whose bytes are not used after it is destroyed.
        unsafe {
            let slice =
                (self.api.rocksdb_get_pinned)(self.handle, self.read, key, key_len, &mut error);
            self.checked(error)?;
            if slice.is_null() {
                return Ok(false);
            }
            let mut len = 0;
            let bytes = (self.api.rocksdb_pinnableslice_value)(slice, &mut len);
            let seen = see(view(bytes, len));
            (self.api.rocksdb_pinnableslice_destroy)(slice);
            seen.map(|()| true)
        }
    }

    fn multi_get(
        &mut self,
        keys: &[Box<[u8]>],
        mut see: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.keys.clear();
        self.sizes.clear();
        for key in keys {
            let (key, size) = pointer(Some(key));
            self.keys.push(key);
            self.sizes.push(size);
        }
        self.values.clear();
        self.values.resize(keys.len(), null_mut());
        self.errors.clear();
        self.errors.resize(keys.len(), null_mut());
        // SAFETY: live handles, and arrays with one element per key.
        unsafe {
            (self.api.rocksdb_batched_multi_get_cf)(
                self.handle,
                self.read,
                self.db.family_handle(DEFAULT),
                keys.len(),
                self.keys.as_ptr(),
                self.sizes.as_ptr(),
                self.values.as_mut_ptr(),
                self.errors.as_mut_ptr(),
                false,
            );
        }
        let mut result = Ok(());
        for (at, (slice, text)) in self.values.iter().zip(&self.errors).enumerate() {
            if !text.is_null() {
                // The text is freed by taking it like that of any call.
                result = self
                    .api
                    // SAFETY: `error` is writable, and the caller owns the text.
                    .call(|error| unsafe { error.write(*text) })
                    .map_err(failed)
                    .and(result);
            }
            if slice.is_null() {
                continue;
            }
            // SAFETY: a live slice, owned by this function; its bytes are not used after it is destroyed.
            unsafe {
                let mut len = 0;
                let bytes = (self.api.rocksdb_pinnableslice_value)(*slice, &mut len);
                result = see(at, view(bytes, len)).and(result);
                (self.api.rocksdb_pinnableslice_destroy)(*slice);
            }
        }
        result
    }

    fn operands(&mut self, _key: &[u8], _expected: usize) -> Result<(usize, u64)> {
        Err(Error::not_supported(
            "RocksDB's C interface has no call for the merge operands of a key; \
             readrandomoperands runs with --engine ours only",
        ))
    }

    fn multi_scan(
        &mut self,
        _ranges: Vec<KeyRange>,
        _together: bool,
        _see: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        Err(Error::not_supported(
            "RocksDB's C interface has no call for a scan over many ranges; \
             multiscan and rangescans run with --engine ours only",
        ))
    }

    fn cursor(&self) -> Iter<'_> {
        // SAFETY: live handles; the iterator borrows the session and is destroyed before it.
        let handle = unsafe { (self.api.rocksdb_create_iterator)(self.handle, self.read) };
        Iter {
            api: self.api,
            handle,
            valid: false,
            _db: PhantomData,
        }
    }
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        let api = self.api;
        // SAFETY: the handles are owned by this session and no longer used.
        unsafe {
            (api.rocksdb_readoptions_destroy)(self.read);
            (api.rocksdb_writeoptions_destroy)(self.write);
            (api.rocksdb_writebatch_destroy)(self.batch);
        }
    }
}

impl Cursor for Iter<'_> {
    fn seek_to_first(&mut self) {
        Iter::seek_to_first(self);
    }

    fn seek_to_last(&mut self) {
        Iter::seek_to_last(self);
    }

    #[inline]
    fn seek(&mut self, key: &[u8]) {
        Iter::seek(self, key);
    }

    #[inline]
    fn next(&mut self) {
        Iter::next(self);
    }

    #[inline]
    fn prev(&mut self) {
        Iter::prev(self);
    }

    #[inline]
    fn valid(&self) -> bool {
        Iter::valid(self)
    }

    #[inline]
    fn key(&self) -> &[u8] {
        Iter::key(self)
    }

    #[inline]
    fn value(&self) -> &[u8] {
        Iter::value(self)
    }

    fn status(&self) -> Result<()> {
        Iter::status(self).map_err(failed)
    }
}
