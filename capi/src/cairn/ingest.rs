//! Ingestion of external tables into several families at once.

use std::ffi::c_char;

use cairn_db::Ingestion;

use super::family;
use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::error::{array, path, report};
use crate::files::rocksdb_ingestexternalfileoptions_t;
use crate::handle::of;

c_functions! {
    /// Ingests tables into `count` families, atomically even across a crash. The family
    /// `column_families[i]`, or the default family for null, gets the `file_counts[i]` files of
    /// `file_lists[i]` with the options `options[i]`. Each family may be given once.
    fn cairn_ingest_external_files(
        db: *mut rocksdb_t,
        count: usize,
        column_families: *const *mut rocksdb_column_family_handle_t,
        file_lists: *const *const *const c_char,
        file_counts: *const usize,
        options: *const *const rocksdb_ingestexternalfileoptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            let lists = array(file_lists, count).iter().zip(array(file_counts, count));
            let places = array(column_families, count).iter().zip(array(options, count));
            let mut ingestions = Vec::with_capacity(count);
            for ((handle, options), (list, files)) in places.zip(lists) {
                let files = array(*list, *files).iter().map(|name| path(*name));
                ingestions.push(Ingestion::new(family(db, *handle), files, of(*options).checked()?));
            }
            of(db.cast_const()).db.ingest_external_files(&ingestions)
        });
    }
}
