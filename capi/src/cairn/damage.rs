//! Corrupt tables: those that an open database has detected, and their removal from a closed database.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::os::unix::ffi::OsStrExt as _;

use cairn_db::{Damaged, LostTable, Quarantine, RepairReport};
use cairn_types::Result;

use super::{element, shown};
use crate::database::rocksdb_t;
use crate::db::descriptors;
use crate::error::{path, report_ptr, store, terminated};
use crate::handle::{create, of};
use crate::options::rocksdb_options_t;

/// A corrupt or removed table.
pub struct Table {
    /// Its path, or its file name if it is still part of the database.
    path: CString,
    family: CString,
    level: c_int,
    keys: Option<(Vec<u8>, Vec<u8>)>,
    reason: CString,
}

/// Corrupt tables, and the result of a repair.
pub struct Tables {
    rebuilt: bool,
    tables: Vec<Table>,
}

handles! {
    /// Corrupt tables, and the result of a repair.
    cairn_damaged_tables_t = Tables;
}

c_destructors! {
    /// Frees a list with its texts.
    cairn_damaged_tables_destroy(cairn_damaged_tables_t);
}

fn level(level: usize) -> c_int {
    c_int::try_from(level).unwrap_or(c_int::MAX)
}

fn known(table: Damaged) -> Table {
    Table {
        path: terminated(format!("{:06}.sst", table.number.0)),
        family: terminated(&table.family),
        level: level(table.level),
        keys: Some((table.smallest, table.largest)),
        reason: terminated(table.error.to_string()),
    }
}

fn lost(table: LostTable) -> Table {
    Table {
        path: terminated(table.path.as_os_str().as_bytes()),
        family: terminated(&table.family),
        level: level(table.level),
        keys: table.keys,
        reason: terminated(&table.reason),
    }
}

fn reported(report: RepairReport) -> *mut cairn_damaged_tables_t {
    create(Tables {
        rebuilt: report.rebuilt,
        tables: report.lost.into_iter().map(lost).collect(),
    })
}

/// Runs `mend` on a database that is not open.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn mend(
    options: *const rocksdb_options_t,
    count: c_int,
    names: *const *const c_char,
    family_options: *const *const rocksdb_options_t,
    mend: impl FnOnce(
        &crate::options::AllOptions,
        &[cairn_db::FamilyDescriptor],
    ) -> Result<RepairReport>,
) -> Result<*mut cairn_damaged_tables_t> {
    // SAFETY: guaranteed by the caller.
    let (all, families) = unsafe {
        (
            of(options).checked()?,
            descriptors(count, names, family_options)?,
        )
    };
    mend(all, &families).map(reported)
}

c_functions! {
    /// Returns the tables that the database has found to be corrupt or missing since it was opened, to be
    /// destroyed by the caller. They are excluded from compactions and remain readable as far as
    /// possible. Their paths are file names without a directory.
    fn cairn_damaged_tables(db: *mut rocksdb_t) -> *mut cairn_damaged_tables_t {
        let tables = of(db.cast_const()).db.damaged_tables();
        create(Tables { rebuilt: false, tables: tables.into_iter().map(known).collect() })
    }
    /// Removes corrupt and missing tables from the database in the directory `name`, which must not
    /// be open, and returns the list of them. Corrupt tables are moved to the subdirectory `lost`.
    /// Families that are not listed get the options `options`.
    fn cairn_quarantine(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        errptr: *mut *mut c_char,
    ) -> *mut cairn_damaged_tables_t {
        report_ptr(errptr, || {
            mend(options, num_column_families, column_family_names, column_family_options, |all, families| {
                let which = Quarantine::AllDamaged;
                cairn_db::quarantine(&all.world(), &path(name), &all.db, families, &all.family, &which)
            })
        })
    }
    /// The same, and writes a new MANIFEST if the old one is lost: a `rocksdb_repair_db` that takes
    /// options for each family and reports what was lost.
    fn cairn_repair(
        options: *const rocksdb_options_t,
        name: *const c_char,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        column_family_options: *const *const rocksdb_options_t,
        errptr: *mut *mut c_char,
    ) -> *mut cairn_damaged_tables_t {
        report_ptr(errptr, || {
            mend(options, num_column_families, column_family_names, column_family_options, |all, families| {
                cairn_db::repair(&all.world(), &path(name), &all.db, families, &all.family)
            })
        })
    }
    /// True if a new MANIFEST was written.
    fn cairn_damaged_tables_rebuilt(tables: *const cairn_damaged_tables_t) -> c_uchar {
        of(tables).rebuilt.into()
    }
    /// Returns the number of tables in the list.
    fn cairn_damaged_tables_count(tables: *const cairn_damaged_tables_t) -> usize {
        of(tables).tables.len()
    }
    /// Returns the current location of the table `index`. The text belongs to the list, as do those
    /// of the other getters.
    fn cairn_damaged_tables_path(tables: *const cairn_damaged_tables_t, index: usize) -> *const c_char {
        element(&of(tables).tables, index, "cairn_damaged_tables_path").path.as_ptr()
    }
    /// Returns the family of the table `index`; empty if unknown.
    fn cairn_damaged_tables_column_family(tables: *const cairn_damaged_tables_t, index: usize) -> *const c_char {
        element(&of(tables).tables, index, "cairn_damaged_tables_column_family").family.as_ptr()
    }
    /// Returns the level of the table `index`.
    fn cairn_damaged_tables_level(tables: *const cairn_damaged_tables_t, index: usize) -> c_int {
        element(&of(tables).tables, index, "cairn_damaged_tables_level").level
    }
    /// Returns the reason that the table `index` is considered corrupt.
    fn cairn_damaged_tables_reason(tables: *const cairn_damaged_tables_t, index: usize) -> *const c_char {
        element(&of(tables).tables, index, "cairn_damaged_tables_reason").reason.as_ptr()
    }
    /// Returns the smallest key that the table `index` may have contained; null if unknown.
    fn cairn_damaged_tables_smallestkey(
        tables: *const cairn_damaged_tables_t,
        index: usize,
        len: *mut usize,
    ) -> *const c_char {
        match &element(&of(tables).tables, index, "cairn_damaged_tables_smallestkey").keys {
            Some((smallest, _)) => shown(smallest, len),
            None => {
                store(len, 0);
                std::ptr::null()
            }
        }
    }
    /// Returns the largest key that the table `index` may have contained; null if unknown.
    fn cairn_damaged_tables_largestkey(
        tables: *const cairn_damaged_tables_t,
        index: usize,
        len: *mut usize,
    ) -> *const c_char {
        match &element(&of(tables).tables, index, "cairn_damaged_tables_largestkey").keys {
            Some((_, largest)) => shown(largest, len),
            None => {
                store(len, 0);
                std::ptr::null()
            }
        }
    }
}
