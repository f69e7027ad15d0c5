//! Column families.

use std::ffi::{c_char, c_int};

use cairn_db::FamilyDescriptor;
use cairn_types::Code;

use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, family_name, malloc_bytes, pointers, report, report_ptr, store};
use crate::handle::{create, of};
use crate::options::rocksdb_options_t;

c_destructors! {
    /// Destroys a family handle. The family is not affected.
    rocksdb_column_family_handle_destroy(rocksdb_column_family_handle_t);
}

c_functions! {
    /// Creates a family.
    fn rocksdb_create_column_family(
        db: *mut rocksdb_t,
        column_family_options: *const rocksdb_options_t,
        column_family_name: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_column_family_handle_t {
        report_ptr(errptr, || {
            let options = of(column_family_options).checked()?;
            let family = of(db.cast_const()).db.create_family(&family_name(column_family_name)?, &options.family)?;
            Ok(create(family))
        })
    }
    /// Creates a family with a time to live of `ttl` seconds; 0 or less for no expiration. The database
    /// must have been opened with a time to live. The other functions that create families set 0.
    fn rocksdb_create_column_family_with_ttl(
        db: *mut rocksdb_t,
        column_family_options: *const rocksdb_options_t,
        column_family_name: *const c_char,
        ttl: c_int,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_column_family_handle_t {
        report_ptr(errptr, || {
            let mut options = of(column_family_options).checked()?.family.clone();
            options.value_ttl = Some(ttl);
            let family = of(db.cast_const()).db.create_family(&family_name(column_family_name)?, &options)?;
            Ok(create(family))
        })
    }
    /// Creates several families with the same options, atomically. If one is invalid, those before it are created
    /// nevertheless, as in RocksDB. `*lencfs` is the number of created families.
    fn rocksdb_create_column_families(
        db: *mut rocksdb_t,
        column_family_options: *const rocksdb_options_t,
        num_column_families: c_int,
        column_family_names: *const *const c_char,
        lencfs: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut *mut rocksdb_column_family_handle_t {
        let mut made = Vec::new();
        report(errptr, || {
            let options = of(column_family_options).checked()?;
            let count = usize::try_from(num_column_families).unwrap_or(0);
            let names = array(column_family_names, count);
            let given = names.iter().map(|name| Ok(FamilyDescriptor::new(family_name(*name)?, options.family.clone())));
            let given = given.collect::<Result<Vec<_>, cairn_types::Error>>()?;
            let db = &of(db.cast_const()).db;
            match db.create_families(&given) {
                Ok(created) => made.extend(created.into_iter().map(create)),
                Err(error) if error.code() == Code::InvalidArgument => {
                    for family in &given {
                        made.push(create(db.create_family(&family.name, &family.options)?));
                    }
                }
                Err(error) => return Err(error),
            }
            Ok(())
        });
        store(lencfs, made.len());
        pointers(made.into_iter())
    }
    /// Frees the array that `rocksdb_create_column_families` returned, without the handles in it.
    fn rocksdb_create_column_families_destroy(list: *mut *mut rocksdb_column_family_handle_t) {
        libc::free(list.cast());
    }
    /// Drops a family with its data. The handle must still be destroyed.
    fn rocksdb_drop_column_family(
        db: *mut rocksdb_t,
        handle: *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || of(db.cast_const()).db.drop_family(of(handle.cast_const())));
    }
    /// Returns a handle of the default family.
    fn rocksdb_get_default_column_family_handle(db: *mut rocksdb_t) -> *mut rocksdb_column_family_handle_t {
        create(of(db.cast_const()).db.default_family().clone())
    }
    /// Returns the family's id.
    fn rocksdb_column_family_handle_get_id(handle: *mut rocksdb_column_family_handle_t) -> u32 {
        of(handle.cast_const()).id()
    }
    /// Returns the family's name, of `*name_len` bytes, to be freed with `free`.
    fn rocksdb_column_family_handle_get_name(
        handle: *mut rocksdb_column_family_handle_t,
        name_len: *mut usize,
    ) -> *mut c_char {
        let name = of(handle.cast_const()).name();
        store(name_len, name.len());
        malloc_bytes(name.as_bytes())
    }
}
