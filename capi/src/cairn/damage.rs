//! Damaged tables: which ones an open database knows of, and taking them out of a closed one.

use std::ffi::{CString, c_char, c_int, c_uchar};

use cairn_db::{Damaged, LostTable, Quarantine, RepairReport};
use cairn_types::Result;

use super::{element, shown};
use crate::database::rocksdb_t;
use crate::db::descriptors;
use crate::error::{path, report_ptr, store, terminated};
use crate::handle::{create, of};
use crate::options::rocksdb_options_t;

/// A table that is damaged, or that left a database.
pub struct Table {
    /// Its path, or its name where it is still part of a database.
    path: CString,
    family: CString,
    level: c_int,
    keys: Option<(Vec<u8>, Vec<u8>)>,
    reason: CString,
}

/// Damaged tables, and what was done about them.
pub struct Tables {
    rebuilt: bool,
    tables: Vec<Table>,
}

handles! {
    /// Damaged tables, and what was done about them.
    cairn_damaged_tables_t = Tables;
}

c_destructors! {
    /// Frees a list, with every text in it.
    cairn_damaged_tables_destroy(cairn_damaged_tables_t);
}

fn level(level: usize) -> c_int {
    c_int::try_from(level).unwrap_or(c_int::MAX)
}

fn known(table: Damaged) -> Table {
    Table {
        path: terminated(&format!("{:06}.sst", table.number.0)),
        family: terminated(&table.family),
        level: level(table.level),
        keys: Some((table.smallest, table.largest)),
        reason: terminated(&table.error.to_string()),
    }
}

fn lost(table: LostTable) -> Table {
    Table {
        path: terminated(&table.path.to_string_lossy()),
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
/// The arguments are what `c.h` says.
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
    // SAFETY: the caller's promise.
    let (all, families) = unsafe {
        (
            of(options).checked()?,
            descriptors(count, names, family_options)?,
        )
    };
    mend(all, &families).map(reported)
}

c_functions! {
    /// The tables that the open database found damaged since it was opened, which the program
    /// destroys. They are read as far as they can be, and left out of compactions; their paths are
    /// names of files.
    fn cairn_damaged_tables(db: *mut rocksdb_t) -> *mut cairn_damaged_tables_t {
        let tables = of(db.cast_const()).db.damaged_tables();
        create(Tables { rebuilt: false, tables: tables.into_iter().map(known).collect() })
    }
    /// Takes the tables that are damaged or missing out of the database in the directory `name`,
    /// which is not open, and returns which they were; they are kept in its directory `lost`.
    /// Families that are not named have the options `options`.
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
    /// The same, and makes a new MANIFEST where the old one is lost: `rocksdb_repair_db` that takes
    /// the options of each family and says what was lost.
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
    /// True if a new MANIFEST was made.
    fn cairn_damaged_tables_rebuilt(tables: *const cairn_damaged_tables_t) -> c_uchar {
        of(tables).rebuilt.into()
    }
    /// How many tables are in the list.
    fn cairn_damaged_tables_count(tables: *const cairn_damaged_tables_t) -> usize {
        of(tables).tables.len()
    }
    /// Where the table `index` lies now. The text belongs to the list, as do those of the others.
    fn cairn_damaged_tables_path(tables: *const cairn_damaged_tables_t, index: usize) -> *const c_char {
        element(&of(tables).tables, index, "cairn_damaged_tables_path").path.as_ptr()
    }
    /// The family of the table `index`; empty if unknown.
    fn cairn_damaged_tables_column_family(tables: *const cairn_damaged_tables_t, index: usize) -> *const c_char {
        element(&of(tables).tables, index, "cairn_damaged_tables_column_family").family.as_ptr()
    }
    /// The level of the table `index`.
    fn cairn_damaged_tables_level(tables: *const cairn_damaged_tables_t, index: usize) -> c_int {
        element(&of(tables).tables, index, "cairn_damaged_tables_level").level
    }
    /// The damage of the table `index`.
    fn cairn_damaged_tables_reason(tables: *const cairn_damaged_tables_t, index: usize) -> *const c_char {
        element(&of(tables).tables, index, "cairn_damaged_tables_reason").reason.as_ptr()
    }
    /// The smallest key of which the table `index` may have had something; null if unknown.
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
    /// The largest key of which the table `index` may have had something; null if unknown.
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
