//! External tables, ingestion, and checkpoints.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::path::Path;

use super::api::Handle;
use super::db::{Db, Family};
use super::library::{Library, Options, path_string, pointer};
use super::{Error, Result};

/// Writer of an external table.
pub struct SstWriter {
    library: Library,
    handle: Handle,
    environment: Handle,
    _options: Options,
}

impl SstWriter {
    /// Creates a table at `path` with the options of a family.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn create(library: &Library, path: &Path, options: &str) -> Result<SstWriter> {
        let options = library.options(options)?;
        let api = &library.api;
        // SAFETY: takes nothing; destroyed with the writer.
        let environment = unsafe { (api.rocksdb_envoptions_create)() };
        // SAFETY: live handles, which the writer keeps.
        let handle = unsafe { (api.rocksdb_sstfilewriter_create)(environment, options.handle) };
        let writer = SstWriter {
            library: library.clone(),
            handle,
            environment,
            _options: options,
        };
        let path = path_string(path)?;
        writer.library.api.call(|error| {
            // SAFETY: a live handle and a zero-terminated path.
            unsafe { (api.rocksdb_sstfilewriter_open)(handle, path.as_ptr(), error) }
        })?;
        Ok(writer)
    }

    /// Adds a value.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let ((key, key_len), (value, value_len)) = (pointer(Some(key)), pointer(Some(value)));
        self.library.api.call(|error| {
            // SAFETY: a live handle; the bytes are alive for the call.
            unsafe {
                (self.library.api.rocksdb_sstfilewriter_put)(
                    self.handle,
                    key,
                    key_len,
                    value,
                    value_len,
                    error,
                );
            }
        })
    }

    /// Adds a deletion.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        let (key, len) = pointer(Some(key));
        self.library.api.call(|error| {
            // SAFETY: a live handle; the bytes are alive for the call.
            unsafe {
                (self.library.api.rocksdb_sstfilewriter_delete)(self.handle, key, len, error);
            }
        })
    }

    /// Adds a range deletion.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        let ((begin, begin_len), (end, end_len)) = (pointer(Some(begin)), pointer(Some(end)));
        self.library.api.call(|error| {
            // SAFETY: a live handle; the bytes are alive for the call.
            unsafe {
                (self.library.api.rocksdb_sstfilewriter_delete_range)(
                    self.handle,
                    begin,
                    begin_len,
                    end,
                    end_len,
                    error,
                );
            }
        })
    }

    /// Finishes the table.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn finish(self) -> Result<()> {
        self.library.api.call(|error| {
            // SAFETY: a live handle.
            unsafe { (self.library.api.rocksdb_sstfilewriter_finish)(self.handle, error) }
        })
    }
}

impl Drop for SstWriter {
    fn drop(&mut self) {
        // SAFETY: the handles are owned by this object and not used elsewhere.
        unsafe {
            (self.library.api.rocksdb_sstfilewriter_destroy)(self.handle);
            (self.library.api.rocksdb_envoptions_destroy)(self.environment);
        }
    }
}

impl Db {
    /// Ingests a copy of a table into `family`.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn ingest(&self, family: Family, path: &Path) -> Result<()> {
        let api = &self.library().api;
        let path = path_string(path)?;
        let list = [path.as_ptr()];
        // SAFETY: takes no arguments and returns a new handle, destroyed below.
        let options = unsafe { (api.rocksdb_ingestexternalfileoptions_create)() };
        let result = self.library().api.call(|error| {
            // SAFETY: live handles and a list of one zero-terminated path.
            unsafe {
                (api.rocksdb_ingest_external_file_cf)(
                    self.handle(),
                    self.family_handle(family),
                    list.as_ptr(),
                    list.len(),
                    options,
                    error,
                );
            }
        });
        // SAFETY: the handle is owned by this function and not used elsewhere.
        unsafe { (api.rocksdb_ingestexternalfileoptions_destroy)(options) };
        result
    }

    /// Creates a checkpoint at `path`, flushing if logs exceed `log_bytes`.
    ///
    /// # Errors
    ///
    /// RocksDB's errors.
    pub fn checkpoint(&self, path: &Path, log_bytes: u64) -> Result<()> {
        let api = &self.library().api;
        let path = path_string(path)?;
        let checkpoint = self.library().api.call(|error| {
            // SAFETY: a live handle.
            unsafe { (api.rocksdb_checkpoint_object_create)(self.handle(), error) }
        })?;
        if checkpoint.is_null() {
            return Err(Error("no checkpoint object".into()));
        }
        let result = self.library().api.call(|error| {
            // SAFETY: live handles and a zero-terminated path.
            unsafe {
                (api.rocksdb_checkpoint_create)(checkpoint, path.as_ptr(), log_bytes, error);
            }
        });
        // SAFETY: the handle is owned by this function and not used elsewhere.
        unsafe { (api.rocksdb_checkpoint_object_destroy)(checkpoint) };
        result
    }
}
