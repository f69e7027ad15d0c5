//! The library and its environments.
#![expect(unsafe_code, reason = "every function of LMDB is unsafe to call")]

use std::ffi::{CStr, CString, c_int, c_uint};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use cairn::{Error, Result};

use super::api::{Api, Handle, NO_READ_AHEAD, NO_SYNC, NO_TLS, READ_ONLY};
use crate::engine::{BareCache, CacheSettings, Source};

/// The address space of an environment, and hence the largest size of its data file.
const MAP_BYTES: usize = 256 << 30;

/// The largest number of read transactions.
const MAX_READERS: c_uint = 1024;

/// LMDB's library.
#[derive(Clone)]
pub struct Library(Arc<Api>);

impl Library {
    /// True if `path` is LMDB's library by its name, `liblmdb.so` with or without a version.
    #[must_use]
    pub fn is_named(path: &str) -> bool {
        let name = Path::new(path).file_name();
        name.is_some_and(|name| name.to_string_lossy().starts_with("liblmdb.so"))
    }

    /// Loads the library at `path`; without a slash, the one that the system has by this name.
    ///
    /// # Errors
    ///
    /// It cannot be loaded, or lacks a function.
    pub fn load(path: &Path) -> Result<Library> {
        let failed = |error: libloading::Error| {
            Error::invalid_argument(format!(
                "{}: {error} (Debian's package liblmdb0 has the library)",
                path.display()
            ))
        };
        // SAFETY: the library has no constructors.
        let library = unsafe { libloading::Library::new(path) }.map_err(failed)?;
        Ok(Library(Arc::new(Api::new(library).map_err(failed)?)))
    }
}

/// A block cache, which LMDB does not have.
pub enum NoCache {}

impl BareCache for NoCache {
    fn lookup(&self, _key: [u64; 2]) -> Option<u64> {
        match *self {}
    }

    fn insert(&self, _key: [u64; 2], _number: u64, _len: usize) -> bool {
        match *self {}
    }
}

impl Source for Library {
    type Engine = Env;
    type Cache = NoCache;
    type BareCache = NoCache;

    fn open(&self, dir: &Path, _options: &str, _cache: Option<&NoCache>) -> Result<Env> {
        Env::open(self.0.clone(), dir)
    }

    fn cache(&self, _settings: &CacheSettings) -> Result<NoCache> {
        Err(Error::not_supported("LMDB has no block cache"))
    }

    fn bare_cache(&self, settings: &CacheSettings) -> Result<NoCache> {
        self.cache(settings)
    }
}

/// An open environment, of which the unnamed database is used.
pub struct Env {
    pub(super) api: Arc<Api>,
    pub(super) handle: Handle,
    pub(super) database: c_uint,
}

// SAFETY: an environment is thread-safe, and transactions belong to the sessions (`NO_TLS`).
unsafe impl Send for Env {}
// SAFETY: as above.
unsafe impl Sync for Env {}

impl Env {
    fn open(api: Arc<Api>, dir: &Path) -> Result<Env> {
        let path = CString::new(dir.as_os_str().as_bytes())
            .map_err(|_| Error::invalid_argument("the directory has a zero byte in its name"))?;
        let mut env = Env {
            api,
            handle: null_mut(),
            database: 0,
        };
        // SAFETY: the place of the handle is writable.
        let created = unsafe { (env.api.mdb_env_create)(&mut env.handle) };
        env.check(created)?;
        let flags = NO_SYNC | NO_TLS | NO_READ_AHEAD;
        // SAFETY: a live handle, not yet open, and a path that ends with a zero.
        unsafe {
            env.check((env.api.mdb_env_set_mapsize)(env.handle, MAP_BYTES))?;
            env.check((env.api.mdb_env_set_maxreaders)(env.handle, MAX_READERS))?;
            env.check((env.api.mdb_env_open)(
                env.handle,
                path.as_ptr(),
                flags,
                0o644,
            ))?;
        }
        let transaction = env.begin(0)?;
        let mut database = 0;
        // SAFETY: a live transaction, which the commit or abort below ends, and a writable number.
        unsafe {
            let opened = (env.api.mdb_dbi_open)(transaction, null(), 0, &mut database);
            env.end(transaction, env.check(opened))?;
        }
        env.database = database;
        Ok(env)
    }

    /// Begins a write transaction, or a read transaction with `READ_ONLY`.
    pub(super) fn begin(&self, flags: c_uint) -> Result<Handle> {
        debug_assert!(flags & !READ_ONLY == 0);
        let mut transaction = null_mut();
        // SAFETY: a live environment and a writable place.
        self.check(unsafe {
            (self.api.mdb_txn_begin)(self.handle, null_mut(), flags, &mut transaction)
        })?;
        Ok(transaction)
    }

    /// Commits the write transaction, or aborts it if `done` is an error.
    ///
    /// # Safety
    ///
    /// `transaction` is live and not used later.
    pub(super) unsafe fn end(&self, transaction: Handle, done: Result<()>) -> Result<()> {
        match done {
            // SAFETY: the caller guarantees a live transaction.
            Ok(()) => self.check(unsafe { (self.api.mdb_txn_commit)(transaction) }),
            Err(error) => {
                // SAFETY: as above.
                unsafe { (self.api.mdb_txn_abort)(transaction) };
                Err(error)
            }
        }
    }

    /// Writes all pages to the device.
    pub(super) fn sync(&self) -> Result<()> {
        // SAFETY: a live environment.
        self.check(unsafe { (self.api.mdb_env_sync)(self.handle, 1) })
    }

    /// Returns the error of a call.
    #[inline]
    pub(super) fn check(&self, code: c_int) -> Result<()> {
        match code {
            0 => Ok(()),
            code => Err(self.failure(code)),
        }
    }

    #[cold]
    pub(super) fn failure(&self, code: c_int) -> Error {
        // SAFETY: the text is static, or valid until the next call of this thread.
        let text = unsafe { CStr::from_ptr((self.api.mdb_strerror)(code)) };
        Error::io_text(format!("LMDB: {}", text.to_string_lossy()))
    }
}

impl Drop for Env {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: sessions and cursors, which have the transactions, borrow the environment.
            unsafe { (self.api.mdb_env_close)(self.handle) };
        }
    }
}
