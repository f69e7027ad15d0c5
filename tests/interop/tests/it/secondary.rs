//! A secondary instance of RocksDB follows a database that Cairn writes.

#![expect(
    unsafe_code,
    clippy::undocumented_unsafe_blocks,
    reason = "every function of the C API is unsafe to call"
)]

use std::ffi::{CStr, CString, c_char, c_void};
use std::path::Path;
use std::ptr::null_mut;

use cairn_bench::rocksdb::Library as Bench;
use cairn_interop::engine::Cairn;
use cairn_interop::workload::{Change, Durable, Engine};
use libloading::Library;

/// RocksDB's secondary instance, through its C API.
struct Secondary {
    library: Library,
    db: *mut c_void,
}

impl Secondary {
    fn symbol<F: Copy>(&self, name: &str) -> F {
        *unsafe { self.library.get::<F>(name.as_bytes()) }.unwrap()
    }

    fn open(primary: &Path, place: &Path) -> Secondary {
        let library = unsafe { Library::new(Bench::path()) }.unwrap();
        let mut secondary = Secondary {
            library,
            db: null_mut(),
        };
        let create: unsafe extern "C" fn() -> *mut c_void =
            secondary.symbol("rocksdb_options_create");
        let set_files: unsafe extern "C" fn(*mut c_void, i32) =
            secondary.symbol("rocksdb_options_set_max_open_files");
        let options = unsafe { create() };
        unsafe { set_files(options, -1) };
        type Open = unsafe extern "C" fn(
            *mut c_void,
            *const c_char,
            *const c_char,
            *mut *mut c_char,
        ) -> *mut c_void;
        let open: Open = secondary.symbol("rocksdb_open_as_secondary");
        let text = |path: &Path| CString::new(path.to_str().unwrap()).unwrap();
        let mut error = null_mut();
        let (primary, place) = (text(primary), text(place));
        secondary.db = unsafe { open(options, primary.as_ptr(), place.as_ptr(), &mut error) };
        secondary.check(error);
        secondary
    }

    fn check(&self, error: *mut c_char) {
        if !error.is_null() {
            panic!("{}", unsafe { CStr::from_ptr(error) }.to_string_lossy());
        }
    }

    fn catch_up(&self) {
        let catch_up: unsafe extern "C" fn(*mut c_void, *mut *mut c_char) =
            self.symbol("rocksdb_try_catch_up_with_primary");
        let mut error = null_mut();
        unsafe { catch_up(self.db, &mut error) };
        self.check(error);
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let create: unsafe extern "C" fn() -> *mut c_void =
            self.symbol("rocksdb_readoptions_create");
        let destroy: unsafe extern "C" fn(*mut c_void) = self.symbol("rocksdb_readoptions_destroy");
        let free: unsafe extern "C" fn(*mut c_void) = self.symbol("rocksdb_free");
        type Get = unsafe extern "C" fn(
            *mut c_void,
            *const c_void,
            *const u8,
            usize,
            *mut usize,
            *mut *mut c_char,
        ) -> *mut u8;
        let get: Get = self.symbol("rocksdb_get");
        let (mut len, mut error) = (0, null_mut());
        unsafe {
            let options = create();
            let found = get(
                self.db,
                options,
                key.as_ptr(),
                key.len(),
                &mut len,
                &mut error,
            );
            destroy(options);
            self.check(error);
            if found.is_null() {
                return None;
            }
            let value = std::slice::from_raw_parts(found, len).to_vec();
            free(found.cast());
            Some(value)
        }
    }
}

impl Drop for Secondary {
    fn drop(&mut self) {
        let close: unsafe extern "C" fn(*mut c_void) = self.symbol("rocksdb_close");
        unsafe { close(self.db) };
    }
}

/// Row `number` of a round.
fn row(number: usize) -> (Vec<u8>, Vec<u8>) {
    let len = match number % 7 {
        0 => number * 7_919 % 70_000,
        _ => number * 131 % 900,
    };
    let value = vec![u8::try_from(number % 251).unwrap(); len];
    (format!("key{number:08}").into_bytes(), value)
}

#[test]
fn a_secondary_of_rocksdb_reads_what_a_live_cairn_has_acknowledged() {
    if crate::library().is_none() {
        return;
    }
    for options in [
        "",
        "wal_compression=kZSTD",
        "write_buffer_size=500000",
        "wal_write_mode=kPlain",
    ] {
        let place = tempfile::tempdir().unwrap();
        let primary = place.path().join("primary");
        let mut db = Cairn::open(&primary, options, "").unwrap();
        let mut written = 0;
        let mut write = |db: &mut Cairn, rows: usize| {
            for number in written..written + rows {
                let (key, value) = row(number);
                db.write(&[Change::Put(0, key, value)]);
            }
            written += rows;
            written
        };
        write(&mut db, 50);
        let secondary = Secondary::open(&primary, &place.path().join("secondary"));
        for round in 0..24 {
            let written = write(&mut db, [1, 3, 40, 1, 200, 0][round % 6]);
            if round % 5 == 4 {
                db.flush(0);
            }
            // What was flushed comes by the MANIFEST, what was not by the log: there is one catch-up for both.
            secondary.catch_up();
            for number in 0..written {
                let (key, value) = row(number);
                let found = secondary.get(&key);
                assert!(
                    found.as_ref() == Some(&value),
                    "{options}, round {round}: row {number} of {written}: {:?} bytes",
                    found.map(|found| found.len())
                );
            }
        }
    }
}
