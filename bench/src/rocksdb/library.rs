//! Locates and loads the library, and wraps calls that need no open database.
#![expect(unsafe_code, reason = "every function of the C API is unsafe to call")]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use super::api::{Api, Handle};
use super::cache::Cache;
use super::tuning::Tuning;
use super::{Error, Result};

/// A loaded RocksDB. Clones share it.
#[derive(Clone)]
pub struct Library {
    pub(super) api: Arc<Api>,
    pub(super) tuning: Tuning,
    /// The block cache of databases opened from now on.
    pub(super) cache: Option<Arc<Cache>>,
    pub(super) is_cairn: bool,
    pub(super) path: Arc<Path>,
}

impl Library {
    /// Loads the library named by `CAIRN_ROCKSDB_LIB`, or the one unpacked by
    /// `tests/interop/fetch-rocksdb.sh`.
    ///
    /// # Errors
    ///
    /// It is missing, or lacks a function of the C API.
    pub fn locate() -> Result<Library> {
        Library::load(&Library::path())
    }

    /// Returns the path that [`Library::locate`] loads.
    #[must_use]
    pub fn path() -> PathBuf {
        std::env::var_os("CAIRN_ROCKSDB_LIB").map_or_else(
            || Library::fetched("librocksdbjni-linux64.so"),
            PathBuf::from,
        )
    }

    /// Returns the path of `name` in `target/rocksdb`, where the project's tools put RocksDB's libraries: in the
    /// current directory or the nearest one above it or above this program that has it. The path of the
    /// sources is not used, so that a program does not depend on where it was built.
    pub(super) fn fetched(name: &str) -> PathBuf {
        let relative = Path::new("target/rocksdb").join(name);
        let starts = [std::env::current_dir(), std::env::current_exe()];
        for start in starts.iter().flatten() {
            for dir in start.ancestors() {
                let path = dir.join(&relative);
                if path.exists() {
                    return path;
                }
            }
        }
        relative
    }

    /// True if `CAIRN_WITHOUT` excludes `name` from tests: `rocksdb` is this library, `ldb` stands for
    /// RocksDB's tools. It is set by `cargo xtask test --without`; otherwise a test that lacks them fails.
    #[must_use]
    pub fn left_out(name: &str) -> bool {
        let absent = std::env::var("CAIRN_WITHOUT").unwrap_or_default();
        absent.split(',').any(|absent| absent == name)
    }

    /// Loads the library at `path`.
    ///
    /// # Errors
    ///
    /// It cannot be loaded, or lacks a function of the C API.
    pub fn load(path: &Path) -> Result<Library> {
        let failed = |error: libloading::Error| {
            Error(format!(
                "{}: {error} (tests/interop/fetch-rocksdb.sh fetches the library)",
                path.display()
            ))
        };
        // SAFETY: constructors of RocksDB's library only initialize its own tables.
        let library = unsafe { libloading::Library::new(path) }.map_err(failed)?;
        // SAFETY: the symbol is looked up but never called.
        let own = unsafe { library.get::<*const c_void>(b"cairn_readoptions_create_copy\0") };
        let is_cairn = own.is_ok();
        Ok(Library {
            api: Arc::new(Api::new(library).map_err(failed)?),
            tuning: Tuning::default(),
            cache: None,
            is_cairn,
            path: path.into(),
        })
    }

    /// True if the library exports the function `name` of the C API.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.api.has(name)
    }

    /// True if the read option `optimize_multiget_for_io` can be set; it is true otherwise.
    #[must_use]
    pub fn has_optimize_multiget_for_io(&self) -> bool {
        self.api.has_optimize_multiget_for_io()
    }

    /// Sets the tuning of databases opened from now on.
    #[must_use]
    pub fn with(mut self, tuning: Tuning) -> Library {
        self.tuning = tuning;
        self
    }

    /// True if this is Cairn's library with RocksDB's interface.
    #[must_use]
    pub fn is_cairn(&self) -> bool {
        self.is_cairn
    }

    /// Parses an option string that mixes database and family options.
    pub(super) fn options(&self, text: &str) -> Result<Options> {
        // SAFETY: takes nothing, returns a new handle, which `Options` destroys.
        let base = unsafe { (self.api.rocksdb_options_create)() };
        let base = Options {
            library: self.clone(),
            handle: base,
        };
        // SAFETY: as above.
        let parsed = unsafe { (self.api.rocksdb_options_create)() };
        let parsed = Options {
            library: self.clone(),
            handle: parsed,
        };
        let text = c_string(&self.tune(base.handle, text)?)?;
        self.api.call(|error| {
            // SAFETY: both handles are live, the text ends with a zero.
            unsafe {
                (self.api.rocksdb_get_options_from_string)(
                    base.handle,
                    text.as_ptr(),
                    parsed.handle,
                    error,
                );
            }
        })?;
        Ok(parsed)
    }
}

impl Api {
    /// Makes a call that may return an error text, and frees that text.
    #[inline]
    pub(super) fn call<T>(&self, work: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
        let mut error: *mut c_char = null_mut();
        let result = work(&mut error);
        if error.is_null() {
            return Ok(result);
        }
        // SAFETY: a C text that RocksDB allocated for the caller and that is freed only here.
        let text = unsafe {
            let text = CStr::from_ptr(error).to_string_lossy().into_owned();
            (self.rocksdb_free)(error.cast::<c_void>());
            text
        };
        Err(Error(text))
    }
}

/// Options of a database or a family.
pub(super) struct Options {
    library: Library,
    pub(super) handle: Handle,
}

impl Drop for Options {
    fn drop(&mut self) {
        // SAFETY: the handle is owned by this object and not used elsewhere.
        unsafe { (self.library.api.rocksdb_options_destroy)(self.handle) }
    }
}

/// Returns the families of the database at `path`, in the order of their creation.
///
/// # Errors
///
/// RocksDB cannot read the MANIFEST.
pub fn list_families(library: &Library, path: &Path) -> Result<Vec<String>> {
    let options = library.options("")?;
    let path = path_string(path)?;
    let mut count = 0;
    let names = library.api.call(|error| {
        // SAFETY: live handle, zero-terminated path, valid out pointers.
        unsafe {
            (library.api.rocksdb_list_column_families)(
                options.handle,
                path.as_ptr(),
                &mut count,
                error,
            )
        }
    })?;
    let mut result = Vec::with_capacity(count);
    for index in 0..count {
        // SAFETY: RocksDB returned `count` zero-terminated texts.
        let name = unsafe { CStr::from_ptr(*names.add(index)) };
        result.push(name.to_string_lossy().into_owned());
    }
    // SAFETY: the array and its length are those that RocksDB returned.
    unsafe { (library.api.rocksdb_list_column_families_destroy)(names, count) };
    Ok(result)
}

/// Returns the families in the newest OPTIONS file of the database at `path`. RocksDB parses the whole file
/// and rejects unknown options.
///
/// # Errors
///
/// RocksDB's parse error.
pub fn families_of_latest_options(library: &Library, path: &Path) -> Result<Vec<String>> {
    let (api, path) = (&library.api, path_string(path)?);
    let (mut options, mut count) = (null_mut(), 0);
    let (mut names, mut families) = (null_mut(), null_mut());
    // SAFETY: both take no arguments.
    let (env, cache) = unsafe {
        (
            (api.rocksdb_create_default_env)(),
            (api.rocksdb_cache_create_lru)(1 << 20),
        )
    };
    let loaded = library.api.call(|error| {
        // SAFETY: a zero-terminated path, live handles, valid out pointers.
        unsafe {
            (api.rocksdb_load_latest_options)(
                path.as_ptr(),
                env,
                false,
                cache,
                &mut options,
                &mut count,
                &mut names,
                &mut families,
                error,
            );
        }
    });
    let result = loaded.map(|()| {
        let name = |index| {
            // SAFETY: RocksDB returned `count` zero-terminated texts.
            let name = unsafe { CStr::from_ptr(*names.add(index)) };
            name.to_string_lossy().into_owned()
        };
        let all = (0..count).map(name).collect();
        // SAFETY: returned by RocksDB and no longer used.
        unsafe { (api.rocksdb_load_latest_options_destroy)(options, names, families, count) };
        all
    });
    // SAFETY: created above and no longer used.
    unsafe {
        (api.rocksdb_cache_destroy)(cache);
        (api.rocksdb_env_destroy)(env);
    }
    result
}

pub(super) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error(format!("a zero byte in {text:?}")))
}

pub(super) fn path_string(path: &Path) -> Result<CString> {
    c_string(
        path.to_str()
            .ok_or_else(|| Error(format!("{} is not UTF-8", path.display())))?,
    )
}

/// Returns bytes as pointer and length for C; null only if `bytes` is `None`.
pub(super) fn pointer(bytes: Option<&[u8]>) -> (*const c_char, usize) {
    bytes.map_or((null(), 0), |bytes| (bytes.as_ptr().cast(), bytes.len()))
}
