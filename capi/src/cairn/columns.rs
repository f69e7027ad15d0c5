//! Wide columns, and reads of unmerged operands.
//!
//! The default column has the empty name. A plain value is an entity with only that column, and a plain
//! read of an entity returns its default column.

use std::ffi::{c_char, c_uchar, c_void};

use cairn_db::{Column, Columns, Family, GetMergeOperandsOptions, Operands};
use cairn_types::Result;

use super::{element, family, present, shown, strings};
use crate::batch::rocksdb_writebatch_t;
use crate::callbacks::c_bytes;
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, bytes, report, report_ptr, save, store};
use crate::files::rocksdb_sstfilewriter_t;
use crate::handle::{create, of, of_mut};
use crate::iter::rocksdb_iterator_t;
use crate::options::{rocksdb_readoptions_t, rocksdb_writeoptions_t};
use crate::reads::rocksdb_pinnableslice_t;

handles! {
    /// The columns of an entity, sorted by name.
    cairn_columns_t = Columns;
    /// The merge operands of a key, oldest first.
    cairn_operands_t = Operands;
}

c_destructors! {
    /// Destroys columns.
    cairn_columns_destroy(cairn_columns_t);
    /// Destroys operands.
    cairn_operands_destroy(cairn_operands_t);
}

/// The columns described by four C arrays.
///
/// # Safety
///
/// The arrays are valid as `c.h` requires.
unsafe fn columns<'a>(
    count: usize,
    (names, name_sizes): (*const *const c_char, *const usize),
    (values, value_sizes): (*const *const c_char, *const usize),
) -> Vec<Column<'a>> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let names = strings(count, names, name_sizes);
        let values = strings(count, values, value_sizes);
        names.into_iter().zip(values).collect()
    }
}

fn found(columns: Option<Columns>) -> *mut cairn_columns_t {
    columns.map_or(std::ptr::null_mut(), create)
}

c_functions! {
    /// Sets `key` to an entity of `count` columns, in any order. A null family means the default
    /// family. Duplicate names are an error.
    fn cairn_put_entity(
        db: *mut rocksdb_t,
        options: *const rocksdb_writeoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        count: usize,
        names: *const *const c_char,
        name_sizes: *const usize,
        values: *const *const c_char,
        value_sizes: *const usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let columns = columns(count, (names, name_sizes), (values, value_sizes));
            let family = family(db, column_family);
            of(db.cast_const()).db.check_families([family])?;
            family.put_entity_with(bytes(key, keylen), &columns, of(options).checked()?)
        });
    }
    /// Adds an entity to a batch. A null family means the default family. Duplicate names are reported
    /// when the batch is written.
    fn cairn_writebatch_put_entity(
        batch: *mut rocksdb_writebatch_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        count: usize,
        names: *const *const c_char,
        name_sizes: *const usize,
        values: *const *const c_char,
        value_sizes: *const usize,
    ) {
        let columns = columns(count, (names, name_sizes), (values, value_sizes));
        let key = bytes(key, keylen);
        let batch = of_mut(batch);
        match crate::handle::maybe(column_family.cast_const()) {
            None => batch.put_entity(key, &columns),
            Some(family) => batch.put_entity_in(family, key, &columns),
        }
    }
    /// Adds an entity to the table that is being written. `key` must be greater than all previous keys.
    fn cairn_sstfilewriter_put_entity(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        count: usize,
        names: *const *const c_char,
        name_sizes: *const usize,
        values: *const *const c_char,
        value_sizes: *const usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let columns = columns(count, (names, name_sizes), (values, value_sizes));
            of_mut(writer).put_entity(bytes(key, keylen), &columns)
        });
    }
    /// Returns the columns of `key`, to be destroyed by the caller, or null if the key does not
    /// exist. A null family means the default family.
    fn cairn_get_entity(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) -> *mut cairn_columns_t {
        report_ptr(errptr, || {
            let family = family(db, column_family);
            Ok(found(family.get_entity(bytes(key, keylen), of(options).checked()?)?))
        })
    }
    /// Returns the columns of `count` keys, read at one sequence number. `column_families` has a
    /// family for each key; null means the default family for all. `columns` and `errs` have space
    /// for `count` pointers. Each element becomes columns, to be destroyed by the caller, or null,
    /// with an error in `errs` if the read failed.
    fn cairn_multi_get_entity(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_families: *const *mut rocksdb_column_family_handle_t,
        count: usize,
        keys: *const *const c_char,
        key_sizes: *const usize,
        columns: *mut *mut cairn_columns_t,
        errs: *mut *mut c_char,
    ) {
        let handles = array(column_families, count).iter().copied();
        let handles = handles.chain(std::iter::repeat(std::ptr::null_mut()));
        let keys = strings(count, keys, key_sizes);
        let wanted: Vec<(&Family, &[u8])> =
            handles.zip(keys).map(|(handle, key)| (family(db, handle), key)).collect();
        let answers: Vec<Result<Option<Columns>>> = match of(options).checked() {
            Ok(options) => of(db.cast_const()).db.multi_get_entity_in(&wanted, options, false),
            Err(error) => wanted.iter().map(|_| Err(error.clone())).collect(),
        };
        for (at, answer) in answers.into_iter().enumerate() {
            // The list is uninitialized, so no earlier text is freed.
            errs.add(at).write(std::ptr::null_mut());
            let answer = answer.unwrap_or_else(|error| {
                save(errs.add(at), &error);
                None
            });
            columns.add(at).write(found(answer));
        }
    }
    /// Returns the columns of the current entry, to be destroyed by the caller, or null if the iterator
    /// is not valid. They remain valid when the iterator moves.
    fn cairn_iter_columns(iter: *const rocksdb_iterator_t) -> *mut cairn_columns_t {
        found(crate::iter::look(iter, crate::iter::Cursor::columns))
    }

    /// Returns the number of columns.
    fn cairn_columns_count(columns: *const cairn_columns_t) -> usize {
        of(columns).len()
    }
    /// Returns the name of the column `index`, which is valid until the columns are destroyed.
    fn cairn_columns_name(columns: *const cairn_columns_t, index: usize, len: *mut usize) -> *const c_char {
        let list: Vec<_> = of(columns).iter().collect();
        shown(element(&list, index, "cairn_columns_name").0, len)
    }
    /// Returns the value of the column `index`, which is valid until the columns are destroyed.
    fn cairn_columns_value(columns: *const cairn_columns_t, index: usize, len: *mut usize) -> *const c_char {
        let list: Vec<_> = of(columns).iter().collect();
        shown(element(&list, index, "cairn_columns_value").1, len)
    }
    /// Returns the value of the column `name`, valid until the columns are destroyed, or null if there
    /// is none.
    fn cairn_columns_get(
        columns: *const cairn_columns_t,
        name: *const c_char,
        name_len: usize,
        len: *mut usize,
    ) -> *const c_char {
        match of(columns).get(bytes(name, name_len)) {
            Some(value) => shown(value, len),
            None => {
                store(len, 0);
                std::ptr::null()
            }
        }
    }

    /// Returns the base value of `key` and its merge operands, unmerged and not copied, to be destroyed by the
    /// caller. Fails with `Incomplete` if there are more than `max`. A null family means the default family.
    fn cairn_get_merge_operands(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        max: usize,
        errptr: *mut *mut c_char,
    ) -> *mut cairn_operands_t {
        report_ptr(errptr, || {
            let family = family(db, column_family);
            let options = of(options).checked()?;
            Ok(create(family.get_merge_operands(bytes(key, keylen), max, options)?))
        })
    }
    /// Like `cairn_get_merge_operands`, with a function and the number of operands, both optional.
    ///
    /// `continue_cb` is called with `state` and each operand, newest first, and not with the base value.
    /// It returns 0 to end the read: older operands and the base value are then not returned. It may call
    /// the database, but not close it. `*number_of_operands` becomes the number of operands found, including
    /// the base value, also if they are more than `expected_max_number_of_operands`.
    fn cairn_get_merge_operands_with(
        db: *mut rocksdb_t,
        options: *const rocksdb_readoptions_t,
        column_family: *mut rocksdb_column_family_handle_t,
        key: *const c_char,
        keylen: usize,
        expected_max_number_of_operands: usize,
        continue_cb: Option<unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> c_uchar>,
        state: *mut c_void,
        number_of_operands: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut cairn_operands_t {
        let mut call = continue_cb.map(|goes_on| {
            move |operand: &[u8]| goes_on(state, c_bytes(operand), operand.len()) != 0
        });
        let mut request = GetMergeOperandsOptions {
            expected_max_number_of_operands,
            ..GetMergeOperandsOptions::default()
        };
        if let Some(call) = &mut call {
            request.continue_cb = Some(call);
        }
        let operands = report_ptr(errptr, || {
            let family = family(db, column_family);
            let options = of(options).checked()?;
            Ok(create(family.get_merge_operands_with(bytes(key, keylen), &mut request, options)?))
        });
        store(number_of_operands, request.number_of_operands);
        operands
    }
    /// Returns the number of operands, including the base value.
    fn cairn_operands_count(operands: *const cairn_operands_t) -> usize {
        of(operands).len()
    }
    /// Returns the operand `index`, which is valid until the operands are destroyed.
    fn cairn_operands_get(operands: *const cairn_operands_t, index: usize, len: *mut usize) -> *const c_char {
        let operands = of(operands);
        let operand = operands.bytes(index);
        shown(present(operand, operands.len(), index, "cairn_operands_get"), len)
    }
    /// Returns the operand `index` as a value of its own, to be destroyed by the caller. It remains readable
    /// when the operands are destroyed and the database is closed; it pins all operands of the read.
    fn cairn_operands_pin(operands: *const cairn_operands_t, index: usize) -> *mut rocksdb_pinnableslice_t {
        let operands = of(operands);
        let operand = operands.get(index);
        create(present(operand, operands.len(), index, "cairn_operands_pin").into())
    }
}
