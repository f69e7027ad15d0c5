//! SST file writers, ingestion, and the iterator over WAL updates.

use std::ffi::{c_char, c_int, c_uchar};

use cairn_db::{Family, SstFileWriter, WalIterator};
use cairn_options::{DbOptions, IngestExternalFileOptions};
use cairn_types::{Error, Result, SequenceNumber};

use crate::batch::rocksdb_writebatch_t;
use crate::callbacks::comparator::rocksdb_comparator_t;
use crate::database::{family_of, rocksdb_column_family_handle_t, rocksdb_t};
use crate::env::rocksdb_envoptions_t;
use crate::error::{array, bytes, path, report, report_ptr, save, store};
use crate::handle::{create, create_owned, destroy, detach, enter, maybe, of, of_mut};
use crate::options::{Checked, rocksdb_options_t};

/// Options of an iterator over WAL updates.
pub struct WalReadOptions {
    /// Stored without effect: every record is verified.
    verify_checksums: bool,
}

/// The batches since a sequence number, or the error that took their place.
type Stream = Result<WalIterator>;

/// Detaches the WAL iterators of a database that is being closed from handles leaked by the
/// program, as [`detach_iterators`](crate::iter::detach_iterators) does for iterators.
pub(crate) fn detach_wal_iterators(opening: usize) {
    detach::<rocksdb_wal_iterator_t>(opening, |stream| {
        *stream = Err(Error::shutdown("the database is closed"));
    });
}

handles! {
    /// Writes tables for ingestion.
    rocksdb_sstfilewriter_t = SstFileWriter;
    /// Options of an ingestion.
    rocksdb_ingestexternalfileoptions_t = Checked<IngestExternalFileOptions>;
    /// An iterator over the batches since a sequence number.
    rocksdb_wal_iterator_t = Stream, NOTES, OWNED;
    /// Options of an iterator over WAL updates.
    rocksdb_wal_readoptions_t = WalReadOptions;
}

c_destructors! {
    /// Frees options.
    rocksdb_wal_readoptions_destroy(rocksdb_wal_readoptions_t);
    /// Frees a writer. An unfinished table is discarded.
    rocksdb_sstfilewriter_destroy(rocksdb_sstfilewriter_t);
    /// Frees options.
    rocksdb_ingestexternalfileoptions_destroy(rocksdb_ingestexternalfileoptions_t);
}

c_setters! { rocksdb_ingestexternalfileoptions_t:
    rocksdb_ingestexternalfileoptions_set_allow_blocking_flush(c_uchar) => allow_blocking_flush;
    rocksdb_ingestexternalfileoptions_set_allow_db_generated_files(c_uchar) => allow_db_generated_files;
    rocksdb_ingestexternalfileoptions_set_allow_global_seqno(c_uchar) => allow_global_seqno;
    rocksdb_ingestexternalfileoptions_set_fail_if_not_bottommost_level(c_uchar) => fail_if_not_bottommost_level;
    rocksdb_ingestexternalfileoptions_set_failed_move_fall_back_to_copy(c_uchar) => failed_move_fall_back_to_copy;
    rocksdb_ingestexternalfileoptions_set_file_opening_threads(c_int) => file_opening_threads;
    rocksdb_ingestexternalfileoptions_set_fill_cache(c_uchar) => fill_cache;
    rocksdb_ingestexternalfileoptions_set_ingest_behind(c_uchar) => ingest_behind;
    rocksdb_ingestexternalfileoptions_set_link_files(c_uchar) => link_files;
    rocksdb_ingestexternalfileoptions_set_move_files(c_uchar) => move_files;
    rocksdb_ingestexternalfileoptions_set_prefetch_lmax_index_and_filter_blocks(c_uchar) => prefetch_lmax_index_and_filter_blocks;
    rocksdb_ingestexternalfileoptions_set_snapshot_consistency(c_uchar) => snapshot_consistency;
    rocksdb_ingestexternalfileoptions_set_verify_checksums_before_ingest(c_uchar) => verify_checksums_before_ingest;
    rocksdb_ingestexternalfileoptions_set_verify_checksums_readahead_size(usize) => verify_checksums_readahead_size;
    rocksdb_ingestexternalfileoptions_set_verify_file_checksum(c_uchar) => verify_file_checksum;
    rocksdb_ingestexternalfileoptions_set_write_global_seqno(c_uchar) => write_global_seqno;
}

c_getters! { rocksdb_ingestexternalfileoptions_t:
    rocksdb_ingestexternalfileoptions_get_allow_blocking_flush(mut) -> c_uchar => allow_blocking_flush;
    rocksdb_ingestexternalfileoptions_get_allow_db_generated_files(mut) -> c_uchar => allow_db_generated_files;
    rocksdb_ingestexternalfileoptions_get_allow_global_seqno(mut) -> c_uchar => allow_global_seqno;
    rocksdb_ingestexternalfileoptions_get_fail_if_not_bottommost_level(mut) -> c_uchar => fail_if_not_bottommost_level;
    rocksdb_ingestexternalfileoptions_get_failed_move_fall_back_to_copy(mut) -> c_uchar => failed_move_fall_back_to_copy;
    rocksdb_ingestexternalfileoptions_get_file_opening_threads(mut) -> c_int => file_opening_threads;
    rocksdb_ingestexternalfileoptions_get_fill_cache(mut) -> c_uchar => fill_cache;
    rocksdb_ingestexternalfileoptions_get_ingest_behind(mut) -> c_uchar => ingest_behind;
    rocksdb_ingestexternalfileoptions_get_link_files(mut) -> c_uchar => link_files;
    rocksdb_ingestexternalfileoptions_get_move_files(mut) -> c_uchar => move_files;
    rocksdb_ingestexternalfileoptions_get_prefetch_lmax_index_and_filter_blocks(mut) -> c_uchar => prefetch_lmax_index_and_filter_blocks;
    rocksdb_ingestexternalfileoptions_get_snapshot_consistency(mut) -> c_uchar => snapshot_consistency;
    rocksdb_ingestexternalfileoptions_get_verify_checksums_before_ingest(mut) -> c_uchar => verify_checksums_before_ingest;
    rocksdb_ingestexternalfileoptions_get_verify_checksums_readahead_size(mut) -> usize => verify_checksums_readahead_size;
    rocksdb_ingestexternalfileoptions_get_verify_file_checksum(mut) -> c_uchar => verify_file_checksum;
    rocksdb_ingestexternalfileoptions_get_write_global_seqno(mut) -> c_uchar => write_global_seqno;
}

/// Ingests the files of a C array.
///
/// # Safety
///
/// The arguments are valid as `c.h` requires.
unsafe fn ingest(
    family: &Family,
    list: *const *const c_char,
    count: usize,
    options: *const rocksdb_ingestexternalfileoptions_t,
) -> Result<()> {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let files: Vec<_> = array(list, count).iter().map(|name| path(*name)).collect();
        family.ingest_external_file(files, of(options).checked()?)
    }
}

/// The options of a writer of tables: those of `db` with what `env` sets.
///
/// # Safety
///
/// `env` is null or a live handle.
unsafe fn for_writer(env: *const rocksdb_envoptions_t, db: &DbOptions) -> DbOptions {
    let mut options = db.clone();
    // SAFETY: guaranteed by the caller.
    if let Some(env) = unsafe { maybe(env) } {
        if env.bytes_per_sync > 0 {
            options.bytes_per_sync = env.bytes_per_sync;
        }
        options.is_fd_close_on_exec = env.set_fd_cloexec;
    }
    options
}

c_functions! {
    /// Creates a writer of tables with the family options in `io_options`.
    fn rocksdb_sstfilewriter_create(
        env: *const rocksdb_envoptions_t,
        io_options: *const rocksdb_options_t,
    ) -> *mut rocksdb_sstfilewriter_t {
        let all = of(io_options);
        create(SstFileWriter::new(&all.world(), &for_writer(env, &all.db), &all.family))
    }
    /// The same, with another comparator.
    fn rocksdb_sstfilewriter_create_with_comparator(
        env: *const rocksdb_envoptions_t,
        io_options: *const rocksdb_options_t,
        comparator: *const rocksdb_comparator_t,
    ) -> *mut rocksdb_sstfilewriter_t {
        let all = of(io_options);
        let mut family = all.family.clone();
        if let Some(order) = maybe(comparator) {
            family.comparator = order.clone();
        }
        create(SstFileWriter::new(&all.world(), &for_writer(env, &all.db), &family))
    }
    /// Starts a table in the file `name`.
    fn rocksdb_sstfilewriter_open(writer: *mut rocksdb_sstfilewriter_t, name: *const c_char, errptr: *mut *mut c_char) {
        report(errptr, || of_mut(writer).open(&path(name)));
    }
    /// Sets `key` to `val`. Keys must be added in ascending order.
    fn rocksdb_sstfilewriter_add(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || of_mut(writer).put(bytes(key, keylen), bytes(val, vallen)));
    }
    /// Sets `key` to `val`. Keys must be added in ascending order.
    fn rocksdb_sstfilewriter_put(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || of_mut(writer).put(bytes(key, keylen), bytes(val, vallen)));
    }
    /// The same with a timestamp.
    fn rocksdb_sstfilewriter_put_with_ts(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            of_mut(writer).put_with_timestamp(bytes(key, keylen), bytes(ts, tslen), bytes(val, vallen))
        });
    }
    /// Adds a merge operand to `key`.
    fn rocksdb_sstfilewriter_merge(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        val: *const c_char,
        vallen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || of_mut(writer).merge(bytes(key, keylen), bytes(val, vallen)));
    }
    /// Deletes `key`.
    fn rocksdb_sstfilewriter_delete(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || of_mut(writer).delete(bytes(key, keylen)));
    }
    /// The same with a timestamp.
    fn rocksdb_sstfilewriter_delete_with_ts(
        writer: *mut rocksdb_sstfilewriter_t,
        key: *const c_char,
        keylen: usize,
        ts: *const c_char,
        tslen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || of_mut(writer).delete_with_timestamp(bytes(key, keylen), bytes(ts, tslen)));
    }
    /// Deletes the keys in [`begin_key`, `end_key`).
    fn rocksdb_sstfilewriter_delete_range(
        writer: *mut rocksdb_sstfilewriter_t,
        begin_key: *const c_char,
        begin_keylen: usize,
        end_key: *const c_char,
        end_keylen: usize,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            of_mut(writer).delete_range(bytes(begin_key, begin_keylen), bytes(end_key, end_keylen))
        });
    }
    /// Finishes the table and syncs the file.
    fn rocksdb_sstfilewriter_finish(writer: *mut rocksdb_sstfilewriter_t, errptr: *mut *mut c_char) {
        report(errptr, || of_mut(writer).finish().map(|_| ()));
    }
    /// Stores the current size of the file.
    fn rocksdb_sstfilewriter_file_size(writer: *mut rocksdb_sstfilewriter_t, file_size: *mut u64) {
        store(file_size, of(writer.cast_const()).file_size());
    }

    /// Creates default options.
    fn rocksdb_ingestexternalfileoptions_create() -> *mut rocksdb_ingestexternalfileoptions_t {
        create(Checked::new(IngestExternalFileOptions::default()))
    }
    /// Ingests tables into the default family, atomically.
    fn rocksdb_ingest_external_file(
        db: *mut rocksdb_t,
        file_list: *const *const c_char,
        list_len: usize,
        opt: *const rocksdb_ingestexternalfileoptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || ingest(of(db.cast_const()).db.default_family(), file_list, list_len, opt));
    }
    /// Ingests tables into a family, atomically.
    fn rocksdb_ingest_external_file_cf(
        db: *mut rocksdb_t,
        handle: *mut rocksdb_column_family_handle_t,
        file_list: *const *const c_char,
        list_len: usize,
        opt: *const rocksdb_ingestexternalfileoptions_t,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || ingest(family_of(db, handle)?, file_list, list_len, opt));
    }

    /// Creates default options.
    fn rocksdb_wal_readoptions_create() -> *mut rocksdb_wal_readoptions_t {
        create(WalReadOptions { verify_checksums: true })
    }
    /// Ignored: every record is verified.
    fn rocksdb_wal_readoptions_set_verify_checksums(options: *mut rocksdb_wal_readoptions_t, verify_checksums: c_uchar) {
        of_mut(options).verify_checksums = verify_checksums != 0;
    }
    /// Returns the stored value; 1 by default.
    fn rocksdb_wal_readoptions_get_verify_checksums(options: *mut rocksdb_wal_readoptions_t) -> c_uchar {
        of(options.cast_const()).verify_checksums.into()
    }
    /// Creates an iterator over the batches, starting with the one that contains the sequence
    /// number `seq_number`. Null means default options.
    fn rocksdb_get_updates_since(
        db: *mut rocksdb_t,
        seq_number: u64,
        options: *const rocksdb_wal_readoptions_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_wal_iterator_t {
        let _ = maybe(options);
        report_ptr(errptr, || {
            let db = &of(db.cast_const()).db;
            let stream = db.updates_since(SequenceNumber(seq_number))?;
            Ok(create_owned(Ok(stream), db.opening()))
        })
    }
    /// Moves to the next batch.
    fn rocksdb_wal_iter_next(iter: *mut rocksdb_wal_iterator_t) {
        if let (Ok(stream), _mark) = enter(iter) {
            stream.next();
        }
    }
    /// True if the iterator is at a batch.
    fn rocksdb_wal_iter_valid(iter: *const rocksdb_wal_iterator_t) -> c_uchar {
        let (stream, _mark) = enter(iter.cast_mut());
        stream.as_ref().is_ok_and(WalIterator::valid).into()
    }
    /// Stores the error that ended the iteration, if there is one.
    fn rocksdb_wal_iter_status(iter: *const rocksdb_wal_iterator_t, errptr: *mut *mut c_char) {
        let (stream, _mark) = enter(iter.cast_mut());
        let status = match stream {
            Ok(stream) => stream.status(),
            Err(closed) => Err(closed.clone()),
        };
        if let Err(error) = status {
            save(errptr, &error);
        }
    }
    /// Returns the batch, to be destroyed by the program, and its sequence number; null if the iterator
    /// is not valid.
    fn rocksdb_wal_iter_get_batch(iter: *const rocksdb_wal_iterator_t, seq: *mut u64) -> *mut rocksdb_writebatch_t {
        let (stream, _mark) = enter(iter.cast_mut());
        let found = match stream {
            Ok(stream) if stream.valid() => stream.batch().ok(),
            _ => None,
        };
        match found {
            Some((first, batch)) => {
                store(seq, first.0);
                create(batch)
            }
            None => std::ptr::null_mut(),
        }
    }
    /// Destroys the iterator.
    fn rocksdb_wal_iter_destroy(iter: *const rocksdb_wal_iterator_t) {
        destroy(iter.cast_mut());
    }
}
