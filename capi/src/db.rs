//! Opening and closing databases, and operations on whole databases.

use std::ffi::{c_char, c_int, c_uchar};
use std::path::Path;

use cairn_db::{Db, Family, FamilyDescriptor, OpenRequest};
use cairn_options::CompactRangeOptions;
use cairn_types::{Error, Result};

use crate::database::{
    ReadPoint, family_of, hold, release, release_snapshot, rocksdb_column_family_handle_t,
    rocksdb_snapshot_t, rocksdb_t,
};
use crate::error::{
    array, family_name, malloc_text, maybe_bytes, path, pointers, report, report_ptr, store, text,
};
use crate::handle::{create, maybe, of, take};
use crate::options::{
    AllOptions, Checked, rocksdb_compactoptions_t, rocksdb_flushoptions_t, rocksdb_options_t,
};

/// The families of an open, specified by two C arrays.
///
/// # Errors
///
/// `InvalidArgument` if the default family is not among them, as in RocksDB.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires.
pub(crate) unsafe fn open_descriptors(
    count: c_int,
    names: *const *const c_char,
    options: *const *const rocksdb_options_t,
) -> Result<Vec<FamilyDescriptor>> {
    // SAFETY: guaranteed by the caller.
    let families = unsafe { descriptors(count, names, options)? };
    FamilyDescriptor::check_default(&families)?;
    Ok(families)
}

/// The families specified by two C arrays.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires.
pub(crate) unsafe fn descriptors(
    count: c_int,
    names: *const *const c_char,
    options: *const *const rocksdb_options_t,
) -> Result<Vec<FamilyDescriptor>> {
    let count = usize::try_from(count).unwrap_or(0);
    // SAFETY: guaranteed by the caller.
    unsafe {
        let names = array(names, count);
        let options = array(options, count);
        let mut families = Vec::with_capacity(count);
        for (name, options) in names.iter().zip(options) {
            let all = of(*options).checked()?;
            families.push(FamilyDescriptor::new(
                family_name(*name)?,
                all.family.clone(),
            ));
        }
        Ok(families)
    }
}

/// Opens a database.
fn open(
    all: &AllOptions,
    path: &Path,
    families: &[FamilyDescriptor],
    read_only: bool,
) -> Result<Db> {
    open_by(all, path, families, read_only, cairn_db::open)
}

/// Opens a secondary instance with the LOG in `secondary`.
fn open_secondary(
    all: &AllOptions,
    path: &Path,
    secondary: &Path,
    families: &[FamilyDescriptor],
) -> Result<Db> {
    cairn_follow::open_as_secondary(
        &OpenRequest {
            path,
            options: &all.db,
            families,
            others: None,
            read_only: true,
            world: all.world(),
        },
        secondary,
    )
}

/// Calls `open` with the request to open a database.
pub(crate) fn open_by<T>(
    all: &AllOptions,
    path: &Path,
    families: &[FamilyDescriptor],
    read_only: bool,
    open: impl FnOnce(&OpenRequest<'_>) -> Result<T>,
) -> Result<T> {
    open(&OpenRequest {
        path,
        options: &all.db,
        families,
        // A read-only open may omit families, which then get no handle.
        others: read_only.then_some(&all.family),
        read_only,
        world: all.world(),
    })
}

/// Stores the handles of `families`, in order.
///
/// # Safety
///
/// `handles` has space for them.
pub(crate) unsafe fn store_families(
    db: &Db,
    families: &[FamilyDescriptor],
    handles: *mut *mut rocksdb_column_family_handle_t,
) -> Result<()> {
    for (at, family) in families.iter().enumerate() {
        let Some(open) = db.family(&family.name) else {
            return Err(Error::invalid_argument(format!(
                "Column family not found: {}",
                family.name
            )));
        };
        // SAFETY: guaranteed by the caller.
        unsafe { handles.add(at).write(create(open)) };
    }
    Ok(())
}

/// Stores the handles of `families`, in order, and returns that of the database.
///
/// # Safety
///
/// `handles` has space for them.
pub(crate) unsafe fn hand_out(
    db: Db,
    families: &[FamilyDescriptor],
    handles: *mut *mut rocksdb_column_family_handle_t,
) -> Result<*mut rocksdb_t> {
    // SAFETY: guaranteed by the caller.
    unsafe { store_families(&db, families, handles)? };
    Ok(hold(db))
}

/// Closes a database whose handle `base` is in the list of open databases, and destroys that handle.
///
/// # Safety
///
/// `base` came from `hold` and is live.
pub(crate) unsafe fn close(base: *mut rocksdb_t) {
    // SAFETY: guaranteed by the caller.
    let database: &crate::database::Database = unsafe { of(base.cast_const()) };
    // A forked database is owned by another handle.
    if !database.db.is_forked() {
        crate::iter::detach_iterators(database.db.opening());
        crate::files::detach_wal_iterators(database.db.opening());
        crate::cairn::multi_scan::detach_scans(database.db.opening());
        // Listeners get the handle until the last job has ended.
        if let Err(error) = database.db.close_and_release() {
            eprintln!(
                "librocksdb (Cairn): closing {}: {error}",
                database.db.path().display()
            );
        }
        release(&database.db);
    }
    // SAFETY: guaranteed by the caller.
    drop(unsafe { take(base) });
}

/// Compacts a range. The C functions have no `errptr`, so an error goes to the LOG.
fn compact(
    family: &Family,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
    options: &Checked<CompactRangeOptions>,
) {
    let done = options
        .checked()
        .and_then(|options| family.compact_range(begin, end, options));
    if let Err(error) = done {
        family.log_error(&format!("manual compaction failed: {error}"));
    }
}

/// The same for the family behind `column_family`. Errors are logged by `db`, including that the family belongs to another
/// database.
///
/// # Safety
///
/// The handles are valid as `c.h` requires.
unsafe fn compact_family(
    db: *const rocksdb_t,
    column_family: *const rocksdb_column_family_handle_t,
    begin: Option<&[u8]>,
    end: Option<&[u8]>,
    options: &Checked<CompactRangeOptions>,
) {
    // SAFETY: guaranteed by the caller.
    match unsafe { family_of(db, column_family) } {
        Ok(family) => compact(family, begin, end, options),
        Err(error) => {
            // SAFETY: guaranteed by the caller. A family is compared with a database that is not null.
            let own = unsafe { of(db) }.db.default_family();
            own.log_error(&format!("manual compaction failed: {error}"));
        }
    }
}

/// A property as text, or null.
pub(crate) fn property_text(family: &Family, name: &str) -> *mut c_char {
    let value = family.property(name);
    value.map_or(std::ptr::null_mut(), |value| malloc_text(&value))
}

/// Stores an integer property; returns -1 if there is no such property.
///
/// # Safety
///
/// `out_val` is valid as `c.h` requires.
pub(crate) unsafe fn property_number(family: &Family, name: &str, out_val: *mut u64) -> c_int {
    match family.property_number(name) {
        Some(value) => {
            // SAFETY: guaranteed by the caller.
            unsafe { store(out_val, value) };
            0
        }
        None => -1,
    }
}

/// Flushes the memtables of `families`.
pub(crate) fn flush(
    db: &Db,
    options: &Checked<cairn_options::FlushOptions>,
    families: &[&Family],
) -> Result<()> {
    let options = options.checked()?;
    options.check_supported()?;
    match families.is_empty() {
        true => Ok(()),
        false => db.flush_families_with(families, options),
    }
}

/// The families of an array that `rocksdb_flush_cfs` and its variants receive.
///
/// # Safety
///
/// The array is valid as `c.h` requires.
pub(crate) unsafe fn flushed_families<'a>(
    handles: *mut *mut rocksdb_column_family_handle_t,
    count: c_int,
) -> Vec<&'a Family> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        crate::reads::families(
            usize::try_from(count).unwrap_or(0),
            handles.cast_const().cast(),
        )
    }
}

/// The default family with the family options in `options`.
pub(crate) fn default_family(all: &AllOptions) -> [FamilyDescriptor; 1] {
    [FamilyDescriptor::new("default", all.family.clone())]
}

/// Opens a database that has only the default family, with a time to live if `ttl` is given.
fn open_default(all: &AllOptions, path: &Path, ttl: Option<c_int>) -> Result<*mut rocksdb_t> {
    let mut families = default_family(all);
    families[0].options.value_ttl = ttl.or(families[0].options.value_ttl);
    Ok(hold(open(all, path, &families, false)?))
}

c_functions! {
    /// Opens the database in the directory `name`, which must have only the default family.
    fn rocksdb_open(options: *const rocksdb_options_t, name: *const c_char, errptr: *mut *mut c_char) -> *mut rocksdb_t {
        report_ptr(errptr, || {
            open_default(of(options).checked()?, &path(name), None)
        })
    }
    /// Opens a database with all of its families.
    fn rocksdb_open_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report_ptr(errptr, || {
            let all = of(options).checked()?;
            let families = open_descriptors(num_column_families, column_family_names, column_family_options)?;
            hand_out(open(all, &path(name), &families, false)?, &families, column_family_handles)
        })
    }
    /// `rocksdb_open` with a time to live of `ttl` seconds; 0 or less for no expiration.
    fn rocksdb_open_with_ttl(
        options: *const rocksdb_options_t,
        name: *const c_char,
        ttl: c_int,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report_ptr(errptr, || {
            open_default(of(options).checked()?, &path(name), Some(ttl))
        })
    }
    /// `rocksdb_open_column_families` with a time to live in seconds for each family; 0 or less for no
    /// expiration.
    fn rocksdb_open_column_families_with_ttl(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        ttls: *const c_int,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report_ptr(errptr, || {
            let all = of(options).checked()?;
            let mut families = open_descriptors(num_column_families, column_family_names, column_family_options)?;
            let ttls = array(ttls, families.len());
            for (family, ttl) in families.iter_mut().zip(ttls) {
                family.options.value_ttl = Some(*ttl);
            }
            hand_out(open(all, &path(name), &families, false)?, &families, column_family_handles)
        })
    }
    /// Opens a database read-only. No file of it is changed.
    fn rocksdb_open_for_read_only(
        options: *const rocksdb_options_t,
        name: *const c_char,
        error_if_wal_file_exists: c_uchar,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report_ptr(errptr, || {
            let all = of(options).checked()?;
            let path = path(name);
            refuse_logs(all, &path, error_if_wal_file_exists)?;
            let db = open(all, &path, &default_family(all), true)?;
            Ok(hold(db))
        })
    }
    /// Opens a database read-only, with some of its families.
    fn rocksdb_open_for_read_only_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        error_if_wal_file_exists: c_uchar,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report_ptr(errptr, || {
            let all = of(options).checked()?;
            let path = path(name);
            refuse_logs(all, &path, error_if_wal_file_exists)?;
            let families = open_descriptors(num_column_families, column_family_names, column_family_options)?;
            hand_out(open(all, &path, &families, true)?, &families, column_family_handles)
        })
    }
    /// Opens a secondary instance of the database in the directory `name`, which another process may write. Its LOG is
    /// in the directory `secondary_path`.
    fn rocksdb_open_as_secondary(
        options: *const rocksdb_options_t,
        name: *const c_char,
        secondary_path: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report_ptr(errptr, || {
            let all = of(options).checked()?;
            let families = [FamilyDescriptor::new("default", all.family.clone())];
            Ok(hold(open_secondary(all, &path(name), &path(secondary_path), &families)?))
        })
    }
    /// Opens a secondary instance with some of the families of the database. Others are ignored.
    fn rocksdb_open_as_secondary_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        secondary_path: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        column_family_handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t {
        report_ptr(errptr, || {
            let all = of(options).checked()?;
            let families = open_descriptors(num_column_families, column_family_names, column_family_options)?;
            let db = open_secondary(all, &path(name), &path(secondary_path), &families)?;
            hand_out(db, &families, column_family_handles)
        })
    }
    /// Brings a secondary instance up to date with its primary.
    fn rocksdb_try_catch_up_with_primary(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || of(db.cast_const()).db.try_catch_up_with_primary());
    }
    /// Closes a database. Iterators, snapshots and family handles that still exist must be
    /// destroyed afterwards. They no longer hold resources of the database, and any other use of
    /// them reports that it is closed.
    fn rocksdb_close(db: *mut rocksdb_t) {
        if !db.is_null() {
            close(db);
        }
    }

    /// Repairs the database in the directory `name` as far as its files allow. Corrupt files are moved
    /// to `lost/`.
    fn rocksdb_repair_db(options: *const rocksdb_options_t, name: *const c_char, errptr: *mut *mut c_char) {
        report(errptr, || {
            let all = of(options).checked()?;
            cairn_db::repair(&all.world(), &path(name), &all.db, &[], &all.family).map(|_| ())
        });
    }
    /// Deletes the database in the directory `name`. Files that are not part of it are kept.
    fn rocksdb_destroy_db(options: *const rocksdb_options_t, name: *const c_char, errptr: *mut *mut c_char) {
        report(errptr, || {
            let all = of(options);
            cairn_db::destroy(&all.world(), &path(name), &all.db, std::slice::from_ref(&all.family))
        });
    }
    /// Returns the names of the column families of the database in the directory `name`.
    fn rocksdb_list_column_families(
        options: *const rocksdb_options_t,
        name: *const c_char,
        lencf: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut *mut c_char {
        let names = report(errptr, || cairn_db::list_families(&path(name), &of(options).world()));
        store(lencf, names.len());
        if names.is_empty() {
            return std::ptr::null_mut();
        }
        pointers(names.iter().map(malloc_text))
    }
    /// Frees a list of names.
    fn rocksdb_list_column_families_destroy(list: *mut *mut c_char, len: usize) {
        for name in array(list.cast_const(), len) {
            libc::free(name.cast());
        }
        libc::free(list.cast());
    }

    /// Creates a snapshot of the current state, to be released with `rocksdb_release_snapshot`.
    fn rocksdb_create_snapshot(db: *mut rocksdb_t) -> *const rocksdb_snapshot_t {
        create::<rocksdb_snapshot_t>(ReadPoint::Snapshot(of(db.cast_const()).db.snapshot())).cast_const()
    }
    /// Releases a snapshot.
    fn rocksdb_release_snapshot(_db: *mut rocksdb_t, snapshot: *const rocksdb_snapshot_t) {
        release_snapshot(snapshot);
    }
    /// Returns the sequence number of a snapshot.
    fn rocksdb_snapshot_get_sequence_number(snapshot: *const rocksdb_snapshot_t) -> u64 {
        of(snapshot).sequence().map_or(0, |sequence| sequence.0)
    }
    /// Sets the snapshot of reads with these options; null for none.
    fn rocksdb_readoptions_set_snapshot(
        opt: *mut crate::options::rocksdb_readoptions_t,
        snapshot: *const rocksdb_snapshot_t,
    ) {
        crate::handle::of_mut(opt).snapshot = maybe(snapshot).and_then(ReadPoint::sequence);
    }
    /// Returns the database's id, of `*id_len` bytes, to be freed with `free`.
    fn rocksdb_get_db_identity(db: *mut rocksdb_t, id_len: *mut usize) -> *mut c_char {
        let id = of(db.cast_const()).db.identity();
        store(id_len, id.len());
        malloc_text(id)
    }
    /// Returns the sequence number of the last write.
    fn rocksdb_get_latest_sequence_number(db: *mut rocksdb_t) -> u64 {
        of(db.cast_const()).db.latest_sequence().0
    }

    /// Returns a property of the default family as text, or null, to be freed with `free`.
    fn rocksdb_property_value(db: *mut rocksdb_t, propname: *const c_char) -> *mut c_char {
        property_text(&of(db.cast_const()).db, &text(propname))
    }
    /// Returns a property of a family as text, or null, to be freed with `free`.
    fn rocksdb_property_value_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        propname: *const c_char,
    ) -> *mut c_char {
        property_text(of(column_family.cast_const()), &text(propname))
    }
    /// Stores an integer property of the default family; returns -1 if there is no such property.
    fn rocksdb_property_int(db: *mut rocksdb_t, propname: *const c_char, out_val: *mut u64) -> c_int {
        property_number(&of(db.cast_const()).db, &text(propname), out_val)
    }
    /// Stores an integer property of a family; returns -1 if there is no such property.
    fn rocksdb_property_int_cf(
        _db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        propname: *const c_char,
        out_val: *mut u64,
    ) -> c_int {
        property_number(of(column_family.cast_const()), &text(propname), out_val)
    }

    /// Flushes the memtables of the default family.
    fn rocksdb_flush(db: *mut rocksdb_t, options: *const rocksdb_flushoptions_t, errptr: *mut *mut c_char) {
        report(errptr, || {
            let db = &of(db.cast_const()).db;
            flush(db, of(options), &[db.default_family()])
        });
    }
    /// Flushes the memtables of a family.
    fn rocksdb_flush_cf(
        db: *mut rocksdb_t,
        options: *const rocksdb_flushoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            flush(&of(db.cast_const()).db, of(options), &[of(column_family.cast_const())])
        });
    }
    /// Flushes the memtables of several families.
    fn rocksdb_flush_cfs(
        db: *mut rocksdb_t,
        options: *const rocksdb_flushoptions_t,
        column_family: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: c_int,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let families = flushed_families(column_family, num_column_families);
            flush(&of(db.cast_const()).db, of(options), &families)
        });
    }

    /// Compacts the keys of the default family from `start_key` to `limit_key`; null means unbounded.
    fn rocksdb_compact_range(
        db: *mut rocksdb_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
    ) {
        let db = &of(db.cast_const()).db;
        let (begin, end) = (maybe_bytes(start_key, start_key_len), maybe_bytes(limit_key, limit_key_len));
        compact(db, begin, end, &Checked::new(CompactRangeOptions::default()));
    }
    /// The same for a column family.
    fn rocksdb_compact_range_cf(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
    ) {
        let (begin, end) = (maybe_bytes(start_key, start_key_len), maybe_bytes(limit_key, limit_key_len));
        compact_family(db, column_family, begin, end, &Checked::new(CompactRangeOptions::default()));
    }
    /// The same for the default family, with options.
    fn rocksdb_compact_range_opt(
        db: *mut rocksdb_t,
        opt: *mut rocksdb_compactoptions_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
    ) {
        let db = &of(db.cast_const()).db;
        let (begin, end) = (maybe_bytes(start_key, start_key_len), maybe_bytes(limit_key, limit_key_len));
        compact(db, begin, end, of(opt.cast_const()));
    }
    /// The same for a family, with options.
    fn rocksdb_compact_range_cf_opt(
        db: *mut rocksdb_t,
        column_family: *mut rocksdb_column_family_handle_t,
        opt: *mut rocksdb_compactoptions_t,
        start_key: *const c_char,
        start_key_len: usize,
        limit_key: *const c_char,
        limit_key_len: usize,
    ) {
        let (begin, end) = (maybe_bytes(start_key, start_key_len), maybe_bytes(limit_key, limit_key_len));
        compact_family(db, column_family, begin, end, of(opt.cast_const()));
    }

    /// Frees memory that the library has allocated.
    fn rocksdb_free(ptr: *mut std::ffi::c_void) {
        libc::free(ptr);
    }
}

/// Fails if the directory has WAL files and `error_if_wal_file_exists` is set.
fn refuse_logs(all: &AllOptions, path: &Path, asked: c_uchar) -> Result<()> {
    if asked == 0 {
        return Ok(());
    }
    let dir = match all.db.wal_dir.as_os_str().is_empty() {
        true => path,
        false => &all.db.wal_dir,
    };
    let names = all.world().fs.list(dir)?;
    match names.iter().any(|name| name.ends_with(".log")) {
        false => Ok(()),
        true => Err(Error::corruption(
            "wal file exists: the database was opened with error_if_wal_file_exists",
        )),
    }
}
