//! Scans over many ranges, and the executor of reads.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_db::{MultiScan, MultiScanArgs, ScanRange};
use cairn_types::{Error, Result};

use super::{family, shown};
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{bytes, report_ptr, save, store};
use crate::handle::{create, create_owned, detach, enter, of, of_mut};
use crate::iter::closed;
use crate::options::{rocksdb_options_t, rocksdb_readoptions_t};

/// Reads by io_uring if the kernel permits it, else by threads. The default.
#[allow(
    non_upper_case_globals,
    reason = "C constants are named like functions"
)]
pub const cairn_io_mode_auto: c_int = 0;
/// Reads by io_uring if the kernel permits it, else by threads.
#[allow(
    non_upper_case_globals,
    reason = "C constants are named like functions"
)]
pub const cairn_io_mode_uring: c_int = 1;
/// Reads by threads.
#[allow(
    non_upper_case_globals,
    reason = "C constants are named like functions"
)]
pub const cairn_io_mode_threads: c_int = 2;
/// Reads one after another, by the thread that needs them.
#[allow(
    non_upper_case_globals,
    reason = "C constants are named like functions"
)]
pub const cairn_io_mode_blocking: c_int = 3;

/// A scan, or the error that took its place when the database was closed.
type Scan = Result<Box<MultiScan>>;

handles! {
    /// The ranges of a scan, and the manner of its reads.
    cairn_multi_scan_args_t = MultiScanArgs;
    /// A scan over many ranges.
    cairn_multi_scan_t = Scan, OWNED;
}

c_destructors! {
    /// Destroys the arguments of scans.
    cairn_multi_scan_args_destroy(cairn_multi_scan_args_t);
    /// Destroys a scan.
    cairn_multi_scan_destroy(cairn_multi_scan_t);
}

/// Detaches the scans of a database that is being closed from handles leaked by the program, as
/// [`detach_iterators`](crate::iter::detach_iterators) does for iterators.
pub(crate) fn detach_scans(opening: usize) {
    detach::<cairn_multi_scan_t>(opening, |scan| *scan = Err(closed()));
}

c_setters! { rocksdb_options_t:
    cairn_options_set_io_mode(c_int) => db.io_mode;
}

c_getters! { rocksdb_options_t:
    cairn_options_get_io_mode(mut) -> c_int => db.io_mode;
}

c_functions! {
    /// Creates arguments without ranges, with the defaults of RocksDB's `MultiScanArgs`.
    fn cairn_multi_scan_args_create() -> *mut cairn_multi_scan_args_t {
        create(MultiScanArgs::default())
    }
    /// Adds a range after those added before, which it must not overlap. `start` is its first key, and `limit` the
    /// first key after it; null for none, which only the last range may have.
    fn cairn_multi_scan_args_add(args: *mut cairn_multi_scan_args_t, start: *const c_char, startlen: usize,
        limit: *const c_char, limitlen: usize) {
        let limit = (!limit.is_null()).then(|| bytes(limit, limitlen).to_vec());
        let start = bytes(start, startlen).to_vec();
        of_mut(args).ranges.push(ScanRange { start, limit });
    }
    /// Sets the largest number of bytes between two blocks that are read together (16 KiB by default).
    fn cairn_multi_scan_args_set_io_coalesce_threshold(args: *mut cairn_multi_scan_args_t, v: u64) {
        of_mut(args).io_coalesce_threshold = v;
    }
    /// Sets the largest number of bytes that are read before the scan needs them; 0, the default, for no limit.
    fn cairn_multi_scan_args_set_max_prefetch_size(args: *mut cairn_multi_scan_args_t, v: u64) {
        of_mut(args).max_prefetch_size = v;
    }
    /// Has blocks read in the background while the scan processes others.
    fn cairn_multi_scan_args_set_use_async_io(args: *mut cairn_multi_scan_args_t, v: c_uchar) {
        of_mut(args).use_async_io = v != 0;
    }
    /// Has the ranges scanned from the last to the first, and each of them backward.
    fn cairn_multi_scan_args_set_reverse(args: *mut cairn_multi_scan_args_t, v: c_uchar) {
        of_mut(args).reverse = v != 0;
    }
    /// Creates a scan, which begins before its first range. A null family means the default family. The arguments may
    /// be destroyed, the snapshot of the read options may not. Bounds and `async_io` of the read options are ignored.
    /// Fails, and returns null, if a range is empty, or if they overlap or are not in ascending order.
    fn cairn_multi_scan_create(db: *mut rocksdb_t, options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t, args: *const cairn_multi_scan_args_t,
        errptr: *mut *mut c_char) -> *mut cairn_multi_scan_t {
        let family = family(db, column_family);
        report_ptr(errptr, || {
            let options = of(options).checked()?;
            if family.is_released() {
                return Err(closed());
            }
            let scan = family.multi_scan(options, of(args).clone())?;
            Ok(create_owned(Ok(Box::new(scan)), family.opening()))
        })
    }
    /// Moves to the first entry of the next range, or to the last entry of the preceding one if the scan is backward, and
    /// stores the position of the range among those added, unless `range` is null. Returns 0 after the last range. A
    /// range may have no entry.
    fn cairn_multi_scan_next_range(scan: *mut cairn_multi_scan_t, range: *mut usize) -> c_uchar {
        let (scan, _mark) = enter(scan);
        let entered = scan.as_mut().ok().and_then(|scan| scan.next_range());
        if let Some(at) = entered {
            store(range, at);
        }
        entered.is_some().into()
    }
    /// True if the scan is at an entry of the current range.
    fn cairn_multi_scan_valid(scan: *const cairn_multi_scan_t) -> c_uchar {
        let (scan, _mark) = enter(scan.cast_mut());
        scan.as_ref().is_ok_and(|scan| scan.valid()).into()
    }
    /// Moves to the next entry of the current range in the direction of the scan. Does nothing unless it is valid.
    fn cairn_multi_scan_next(scan: *mut cairn_multi_scan_t) {
        if let (Ok(scan), _mark) = enter(scan) {
            scan.advance();
        }
    }
    /// The key of the entry, which is valid until the scan moves; null unless it is valid.
    fn cairn_multi_scan_key(scan: *const cairn_multi_scan_t, klen: *mut usize) -> *const c_char {
        let (scan, _mark) = enter(scan.cast_mut());
        part(scan, klen, |(key, _)| key)
    }
    /// The value of the entry, which is valid until the scan moves; null unless it is valid.
    fn cairn_multi_scan_value(scan: *const cairn_multi_scan_t, vlen: *mut usize) -> *const c_char {
        let (scan, _mark) = enter(scan.cast_mut());
        part(scan, vlen, |(_, value)| value)
    }
    /// Stores the error that ended the current range, if there is one.
    fn cairn_multi_scan_get_error(scan: *const cairn_multi_scan_t, errptr: *mut *mut c_char) {
        let (scan, _mark) = enter(scan.cast_mut());
        let status = match scan {
            Ok(scan) => scan.status(),
            Err(closed) => Err(Error::clone(closed)),
        };
        if let Err(error) = status {
            save(errptr, &error);
        }
    }
}

/// A part of the current entry.
///
/// # Safety
///
/// `len` is null or may be written to.
unsafe fn part(
    scan: &Scan,
    len: *mut usize,
    choose: impl for<'e> FnOnce((&'e [u8], &'e [u8])) -> &'e [u8],
) -> *const c_char {
    let entry = scan.as_ref().ok().and_then(|scan| scan.entry());
    // SAFETY: guaranteed by the caller.
    unsafe {
        match entry {
            Some(entry) => shown(choose(entry), len),
            None => {
                store(len, 0);
                std::ptr::null()
            }
        }
    }
}
