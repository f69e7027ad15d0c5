//! RocksDB's perf counters by level, which the C interface can print but not enable.
//!
//! The library exports the C++ functions that enable them under mangled names; their only argument is the
//! perf context of the thread.
#![expect(
    unsafe_code,
    reason = "symbols of a library have no types until we give them some"
)]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::path::Path;

use super::{Error, Result};

type Context = *mut c_void;

/// The functions of a loaded RocksDB.
pub struct ByLevel {
    context: unsafe extern "C" fn() -> Context,
    enable: unsafe extern "C" fn(Context),
    clear: unsafe extern "C" fn(Context),
    set_level: unsafe extern "C" fn(c_int),
    create: unsafe extern "C" fn() -> Context,
    destroy: unsafe extern "C" fn(Context),
    reset: unsafe extern "C" fn(Context),
    report: unsafe extern "C" fn(Context, c_uchar) -> *mut c_char,
    free: unsafe extern "C" fn(*mut c_void),
    /// Last, so that it is dropped last.
    _library: libloading::Library,
}

impl ByLevel {
    /// Loads the library at `path`.
    ///
    /// # Errors
    ///
    /// It cannot be loaded, or does not export the functions.
    pub fn load(path: &Path) -> Result<ByLevel> {
        ByLevel::find(path).map_err(|error| Error(format!("{}: {error}", path.display())))
    }

    fn find(path: &Path) -> std::result::Result<ByLevel, libloading::Error> {
        // SAFETY: constructors of RocksDB's library only initialize its own tables; the types are those of
        // the functions of these names in c.h and perf_context.h, whose methods are not virtual and take
        // `this`.
        unsafe {
            let library = libloading::Library::new(path)?;
            Ok(ByLevel {
                context: *library.get(b"_ZN7rocksdb16get_perf_contextEv\0")?,
                enable: *library.get(b"_ZN7rocksdb11PerfContext25EnablePerLevelPerfContextEv\0")?,
                clear: *library.get(b"_ZN7rocksdb11PerfContext24ClearPerLevelPerfContextEv\0")?,
                set_level: *library.get(b"rocksdb_set_perf_level\0")?,
                create: *library.get(b"rocksdb_perfcontext_create\0")?,
                destroy: *library.get(b"rocksdb_perfcontext_destroy\0")?,
                reset: *library.get(b"rocksdb_perfcontext_reset\0")?,
                report: *library.get(b"rocksdb_perfcontext_report\0")?,
                free: *library.get(b"rocksdb_free\0")?,
                _library: library,
            })
        }
    }

    /// Returns the counters of the calling thread during `work` at `level`, as RocksDB prints them.
    pub fn report_of(&self, level: c_int, work: impl FnOnce()) -> String {
        // SAFETY: the perf context of the thread is used on that thread only; handles are live while they are
        // used.
        let handle = unsafe {
            (self.set_level)(level);
            (self.enable)((self.context)());
            let handle = (self.create)();
            (self.reset)(handle);
            handle
        };
        work();
        // SAFETY: as above; the text ends with a zero and is owned by this function.
        unsafe {
            let text = (self.report)(handle, 1);
            let report = CStr::from_ptr(text).to_string_lossy().into_owned();
            (self.free)(text.cast());
            (self.destroy)(handle);
            (self.clear)((self.context)());
            report
        }
    }
}
