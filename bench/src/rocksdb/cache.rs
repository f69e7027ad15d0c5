//! RocksDB's block caches: those shared by several databases, and caches without a database.
//!
//! The C interface creates caches of both kinds. Ratios of priority pools, lookups and insertions require the
//! shim that `cargo xtask reference` builds beside the library from `bench/reference/cache_shim.cc`.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::api::Handle;
use super::library::Library;
use super::{Error, Result};
use crate::engine::{BareCache, CacheSettings, CacheType};

/// The file names of the library that `cargo xtask reference` builds, and of the shim.
const LIBRARY: &str = "librocksdb.so";
const SHIM: &str = "librocksdb-caches.so";

/// A block cache. Databases that use it keep it alive after it is dropped.
pub struct Cache {
    library: Library,
    handle: Handle,
    with_blobs: bool,
    /// The library of the function that created it, if that was the shim.
    _shim: Option<Arc<Shim>>,
}

// SAFETY: RocksDB's caches are thread-safe; the handle is destroyed once, on drop.
unsafe impl Send for Cache {}
// SAFETY: as above.
unsafe impl Sync for Cache {}

impl Drop for Cache {
    fn drop(&mut self) {
        // SAFETY: the handle is owned by this object and not used elsewhere.
        unsafe { (self.library.api.rocksdb_cache_destroy)(self.handle) }
    }
}

/// The functions of the shim.
pub struct Shim {
    lru: unsafe extern "C" fn(usize, c_int, f64, f64) -> Handle,
    hyper_clock: unsafe extern "C" fn(usize, c_int) -> Handle,
    lookup: unsafe extern "C" fn(Handle, *const u64, *mut u64) -> bool,
    insert: unsafe extern "C" fn(Handle, *const u64, u64, usize) -> bool,
    /// Last, so that it is dropped last.
    _library: libloading::Library,
}

impl Shim {
    /// Loads the shim at `path`. Its RocksDB library must already be loaded.
    fn load(path: &Path) -> std::result::Result<Shim, libloading::Error> {
        // SAFETY: the only constructors of the shim are those of its constants; the types are those of the
        // functions of these names in cache_shim.cc.
        unsafe {
            let library = libloading::Library::new(path)?;
            Ok(Shim {
                lru: *library.get(b"cairn_shim_lru\0")?,
                hyper_clock: *library.get(b"cairn_shim_hyper_clock\0")?,
                lookup: *library.get(b"cairn_shim_lookup\0")?,
                insert: *library.get(b"cairn_shim_insert\0")?,
                _library: library,
            })
        }
    }
}

impl Library {
    /// Returns the path of the library that `cargo xtask reference` builds.
    ///
    /// # Errors
    ///
    /// The library or its shim for caches is missing.
    pub fn reference() -> Result<PathBuf> {
        let dir = Library::fetched("native");
        for name in [LIBRARY, SHIM] {
            if !dir.join(name).is_file() {
                return Err(Error(format!(
                    "{name} does not exist; `cargo xtask reference` builds it"
                )));
            }
        }
        Ok(dir.join(LIBRARY))
    }

    /// Loads the shim for caches that is beside the library.
    ///
    /// # Errors
    ///
    /// It is missing or cannot be loaded.
    pub fn shim(&self) -> Result<Shim> {
        let path = self.path.with_file_name(SHIM);
        Shim::load(&path).map_err(|error| {
            Error(format!(
                "the C interface has no lookups in caches and no ratios of their pools; `cargo xtask reference` \
                 builds a library with a shim that has them: {}: {error}",
                path.display()
            ))
        })
    }

    /// Creates a block cache for databases; see [`Library::with_cache`].
    ///
    /// # Errors
    ///
    /// The settings require the shim, and it cannot be loaded.
    pub fn cache(&self, settings: &CacheSettings) -> Result<Arc<Cache>> {
        let plain = settings.shard_bits.is_none()
            && settings.high_ratio.is_none()
            && settings.low_ratio.is_none();
        if !plain {
            return Ok(Arc::new(self.cache_by(&Arc::new(self.shim()?), settings)));
        }
        let api = &self.api;
        // SAFETY: both take numbers; an estimated charge of 0 selects the implementation that RocksDB
        // recommends.
        let handle = unsafe {
            match settings.kind {
                Some(CacheType::HyperClock) => {
                    (api.rocksdb_cache_create_hyper_clock)(settings.capacity, 0)
                }
                _ => (api.rocksdb_cache_create_lru)(settings.capacity),
            }
        };
        Ok(Arc::new(self.cache_of(handle, settings, None)))
    }

    /// Creates a block cache for single operations.
    ///
    /// # Errors
    ///
    /// The shim cannot be loaded.
    pub fn bare_cache(&self, settings: &CacheSettings) -> Result<Bare> {
        let shim = Arc::new(self.shim()?);
        let cache = self.cache_by(&shim, settings);
        Ok(Bare { cache, shim })
    }

    fn cache_by(&self, shim: &Arc<Shim>, settings: &CacheSettings) -> Cache {
        let bits = settings.shard_bits.unwrap_or(-1);
        let (high, low) = (settings.high_ratio, settings.low_ratio);
        // SAFETY: both take numbers.
        let handle = unsafe {
            match settings.kind {
                Some(CacheType::HyperClock) => (shim.hyper_clock)(settings.capacity, bits),
                // RocksDB's default ratios.
                _ => (shim.lru)(
                    settings.capacity,
                    bits,
                    high.unwrap_or(0.5),
                    low.unwrap_or(0.0),
                ),
            }
        };
        self.cache_of(handle, settings, Some(shim.clone()))
    }

    fn cache_of(&self, handle: Handle, settings: &CacheSettings, shim: Option<Arc<Shim>>) -> Cache {
        let mut library = self.clone();
        library.cache = None;
        Cache {
            library,
            handle,
            with_blobs: settings.with_blobs,
            _shim: shim,
        }
    }

    /// Sets the block cache of databases opened from now on, which replaces the one in the options.
    #[must_use]
    pub fn with_cache(mut self, cache: Arc<Cache>) -> Library {
        self.cache = Some(cache);
        self
    }

    /// Sets a table factory with `cache` in the new options `base`, and the blob cache if it is the same
    /// cache. Parsing an option text without caches does not change them.
    pub(super) fn set_cache(&self, base: Handle, cache: &Cache) {
        let api = &self.api;
        // SAFETY: live handles; the table options are created here and destroyed once, and the factory keeps
        // the cache alive.
        unsafe {
            let table = (api.rocksdb_block_based_options_create)();
            (api.rocksdb_block_based_options_set_block_cache)(table, cache.handle);
            (api.rocksdb_options_set_block_based_table_factory)(base, table);
            (api.rocksdb_block_based_options_destroy)(table);
            if cache.with_blobs {
                (api.rocksdb_options_set_blob_cache)(base, cache.handle);
            }
        }
    }
}

/// A block cache for single operations.
pub struct Bare {
    cache: Cache,
    shim: Arc<Shim>,
}

impl BareCache for Bare {
    #[inline]
    fn lookup(&self, key: [u64; 2]) -> Option<u64> {
        let mut number = 0;
        // SAFETY: a live handle, a key of two words, and a writable word for the result.
        let found = unsafe { (self.shim.lookup)(self.cache.handle, key.as_ptr(), &mut number) };
        found.then_some(number)
    }

    #[inline]
    fn insert(&self, key: [u64; 2], number: u64, len: usize) -> bool {
        // SAFETY: a live handle and a key of two words; the value has space for its number.
        unsafe {
            (self.shim.insert)(
                self.cache.handle,
                key.as_ptr(),
                number,
                len.max(size_of::<u64>()),
            )
        }
    }
}
