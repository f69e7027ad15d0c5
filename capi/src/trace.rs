//! Query traces and their replay; traces of the block cache and of I/O.

use std::ffi::{c_char, c_uchar};

use cairn_db::{
    Db, FileTraceReader, FileTraceWriter, ReplayOptions, Replayer, SampledTraceOptions,
    TraceFilter, TraceOptions, TraceReader, TraceWriter,
};
use cairn_platform::World;
use cairn_types::{Error, Result};

use crate::database::{rocksdb_column_family_handle_t, rocksdb_t};
use crate::env::{rocksdb_env_t, rocksdb_envoptions_t};
use crate::error::{array, malloc_bytes, path, report, report_ptr, store};
use crate::handle::{create, maybe, of, of_mut};

handles! {
    /// Options of a trace.
    rocksdb_trace_options_t = TraceOptions;
    /// Options of the lookups in a block-cache trace.
    rocksdb_block_cache_trace_options_t = SampledBlocks;
    /// Options of the file of a block-cache trace.
    rocksdb_block_cache_trace_writer_options_t = MaxFileSize;
    /// Reads the records of a trace.
    rocksdb_trace_reader_t = FileTraceReader;
    /// Options of a replay.
    rocksdb_replay_options_t = ReplayOptions;
    /// Replays a trace on a database. It must be destroyed before the database is closed.
    rocksdb_replayer_t = Replayer;
}

/// [`SampledTraceOptions::sampling_frequency`].
pub struct SampledBlocks(u64);

/// [`SampledTraceOptions::max_trace_file_size`].
pub struct MaxFileSize(u64);

c_destructors! {
    /// Frees options.
    rocksdb_trace_options_destroy(rocksdb_trace_options_t);
    /// Frees options.
    rocksdb_block_cache_trace_options_destroy(rocksdb_block_cache_trace_options_t);
    /// Frees options.
    rocksdb_block_cache_trace_writer_options_destroy(rocksdb_block_cache_trace_writer_options_t);
    /// Closes the trace and frees the reader.
    rocksdb_trace_reader_destroy(rocksdb_trace_reader_t);
    /// Frees options.
    rocksdb_replay_options_destroy(rocksdb_replay_options_t);
    /// Frees a replayer.
    rocksdb_replayer_destroy(rocksdb_replayer_t);
}

/// The environment of a trace: `env`, or that of the database if it is null.
///
/// # Safety
///
/// `env` is valid as `c.h` requires.
unsafe fn world(db: &Db, env: *const rocksdb_env_t) -> &World {
    // SAFETY: guaranteed by the caller.
    unsafe { maybe(env) }.map_or(db.world(), |env| &env.world)
}

/// Creates the file of a trace in `env`, or in the environment of the database if it is null.
///
/// # Safety
///
/// `env` and `trace_path` are valid as `c.h` requires.
unsafe fn create_file(
    db: &Db,
    env: *const rocksdb_env_t,
    trace_path: *const c_char,
) -> Result<Box<dyn TraceWriter>> {
    // SAFETY: guaranteed by the caller.
    let (world, path) = unsafe { (world(db, env), path(trace_path)) };
    Ok(Box::new(FileTraceWriter::create(world, &path)?))
}

/// The options of a block-cache or I/O trace in `options`, or the defaults if it is null.
///
/// # Safety
///
/// `options` is valid as `c.h` requires.
unsafe fn sampled(options: *const rocksdb_trace_options_t) -> SampledTraceOptions {
    // SAFETY: guaranteed by the caller.
    let given = unsafe { maybe(options) };
    given.map_or_else(SampledTraceOptions::default, |given| SampledTraceOptions {
        sampling_frequency: given.sampling_frequency,
        max_trace_file_size: given.max_trace_file_size,
    })
}

c_functions! {
    /// Creates default options: every operation, up to 64 GiB.
    fn rocksdb_trace_options_create() -> *mut rocksdb_trace_options_t {
        create(TraceOptions::default())
    }
    /// Sets the size of the trace in bytes above which no more operations are recorded.
    fn rocksdb_trace_options_set_max_trace_file_size(opt: *mut rocksdb_trace_options_t, v: u64) {
        of_mut(opt).max_trace_file_size = v;
    }
    /// The value of `max_trace_file_size`.
    fn rocksdb_trace_options_get_max_trace_file_size(opt: *mut rocksdb_trace_options_t) -> u64 {
        of(opt.cast_const()).max_trace_file_size
    }
    /// Sets that one of `v` operations is recorded.
    fn rocksdb_trace_options_set_sampling_frequency(opt: *mut rocksdb_trace_options_t, v: u64) {
        of_mut(opt).sampling_frequency = v;
    }
    /// The value of `sampling_frequency`.
    fn rocksdb_trace_options_get_sampling_frequency(opt: *mut rocksdb_trace_options_t) -> u64 {
        of(opt.cast_const()).sampling_frequency
    }
    /// Sets the operations that are not recorded, a sum of `rocksdb_trace_filter_...`.
    fn rocksdb_trace_options_set_filter(opt: *mut rocksdb_trace_options_t, v: u64) {
        of_mut(opt).filter = TraceFilter(v);
    }
    /// The value of `filter`.
    fn rocksdb_trace_options_get_filter(opt: *mut rocksdb_trace_options_t) -> u64 {
        of(opt.cast_const()).filter.0
    }
    /// Sets that writes are recorded in the order in which they take effect.
    fn rocksdb_trace_options_set_preserve_write_order(opt: *mut rocksdb_trace_options_t, v: c_uchar) {
        of_mut(opt).preserve_write_order = v != 0;
    }
    /// The value of `preserve_write_order`.
    fn rocksdb_trace_options_get_preserve_write_order(opt: *mut rocksdb_trace_options_t) -> c_uchar {
        c_uchar::from(of(opt.cast_const()).preserve_write_order)
    }

    /// Starts to record the reads and writes of the database in the file `trace_path`. A trace that is active is ended
    /// first. Without `env`, the file is in the environment of the database; without `options`, everything is recorded.
    /// `env_options` has no effect.
    fn rocksdb_start_trace(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_trace_options_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            maybe(env_options);
            let db = &of(db.cast_const()).db;
            let options = maybe(options).cloned().unwrap_or_default();
            db.start_trace(&options, || create_file(db, env.cast_const(), trace_path))
        });
    }
    /// Ends the trace. An error means that records may be missing.
    fn rocksdb_end_trace(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || of(db.cast_const()).db.end_trace());
    }

    /// Starts to record the operations of the database on files in the file `trace_path`. A trace that is active is an
    /// error. Without `env`, the file is in the environment of the database; without `options`, every operation is
    /// recorded. Of the options, the size and the sampling have an effect. `env_options` has none.
    fn rocksdb_start_io_trace(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_trace_options_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            maybe(env_options);
            let db = &of(db.cast_const()).db;
            db.start_io_trace(&sampled(options), || create_file(db, env.cast_const(), trace_path))
        });
    }
    /// Ends the trace of operations on files, if there is one. An error means that records may be missing.
    fn rocksdb_end_io_trace(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || of(db.cast_const()).db.end_io_trace());
    }
    /// Starts to record the lookups of blocks in the block cache in the file `trace_path`. A trace that is active is an
    /// error. Without `env`, the file is in the environment of the database; without `options`, every lookup is recorded.
    /// Of the options, the size and the sampling have an effect. `env_options` has none.
    fn rocksdb_start_block_cache_trace(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_trace_options_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            maybe(env_options);
            let db = &of(db.cast_const()).db;
            db.start_block_cache_trace(&sampled(options), || create_file(db, env.cast_const(), trace_path))
        });
    }
    /// `rocksdb_start_block_cache_trace` with options of their own for the lookups and the file, each of which may be
    /// null.
    fn rocksdb_start_block_cache_trace_with_options(
        db: *mut rocksdb_t,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        options: *const rocksdb_block_cache_trace_options_t,
        writer_options: *const rocksdb_block_cache_trace_writer_options_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) {
        report(errptr, || {
            maybe(env_options);
            let db = &of(db.cast_const()).db;
            let mut all = SampledTraceOptions::default();
            if let Some(options) = maybe(options) {
                all.sampling_frequency = options.0;
            }
            if let Some(options) = maybe(writer_options) {
                all.max_trace_file_size = options.0;
            }
            db.start_block_cache_trace(&all, || create_file(db, env.cast_const(), trace_path))
        });
    }
    /// Ends the block-cache trace, if there is one. An error means that records may be missing.
    fn rocksdb_end_block_cache_trace(db: *mut rocksdb_t, errptr: *mut *mut c_char) {
        report(errptr, || of(db.cast_const()).db.end_block_cache_trace());
    }

    /// Creates default options: the lookups of every block.
    fn rocksdb_block_cache_trace_options_create() -> *mut rocksdb_block_cache_trace_options_t {
        create(SampledBlocks(SampledTraceOptions::default().sampling_frequency))
    }
    /// Sets that the lookups of one of `v` blocks are recorded.
    fn rocksdb_block_cache_trace_options_set_sampling_frequency(
        opt: *mut rocksdb_block_cache_trace_options_t,
        v: u64,
    ) {
        of_mut(opt).0 = v;
    }
    /// The value of `sampling_frequency`.
    fn rocksdb_block_cache_trace_options_get_sampling_frequency(
        opt: *mut rocksdb_block_cache_trace_options_t,
    ) -> u64 {
        of(opt.cast_const()).0
    }
    /// Creates default options: up to 64 GiB.
    fn rocksdb_block_cache_trace_writer_options_create() -> *mut rocksdb_block_cache_trace_writer_options_t {
        create(MaxFileSize(SampledTraceOptions::default().max_trace_file_size))
    }
    /// Sets the size of the trace in bytes above which no more lookups are recorded.
    fn rocksdb_block_cache_trace_writer_options_set_max_trace_file_size(
        opt: *mut rocksdb_block_cache_trace_writer_options_t,
        v: u64,
    ) {
        of_mut(opt).0 = v;
    }
    /// The value of `max_trace_file_size`.
    fn rocksdb_block_cache_trace_writer_options_get_max_trace_file_size(
        opt: *mut rocksdb_block_cache_trace_writer_options_t,
    ) -> u64 {
        of(opt.cast_const()).0
    }

    /// Opens a trace.
    fn rocksdb_trace_reader_create(
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_trace_reader_t {
        report_ptr(errptr, || {
            maybe(env_options);
            let env = maybe(env.cast_const()).ok_or_else(|| Error::invalid_argument("env must not be null"))?;
            Ok(create(FileTraceReader::open(&env.world, &path(trace_path))?))
        })
    }
    /// Returns the next record, which the program frees; null at the end of the trace, and after an error.
    fn rocksdb_trace_reader_read(
        reader: *mut rocksdb_trace_reader_t,
        size: *mut usize,
        errptr: *mut *mut c_char,
    ) -> *mut c_char {
        let reader = of_mut(reader);
        store(size, 0);
        report_ptr(errptr, || {
            let Some(record) = reader.read()? else {
                return Ok(std::ptr::null_mut());
            };
            store(size, record.len());
            Ok(malloc_bytes(&record))
        })
    }
    /// Returns to the first record.
    fn rocksdb_trace_reader_reset(reader: *mut rocksdb_trace_reader_t, errptr: *mut *mut c_char) {
        let reader = of_mut(reader);
        report(errptr, || reader.reset());
    }
    /// Closes the file. The reader must still be destroyed.
    fn rocksdb_trace_reader_close(reader: *mut rocksdb_trace_reader_t, errptr: *mut *mut c_char) {
        let reader = of_mut(reader);
        report(errptr, || {
            reader.close();
            Ok(())
        });
    }

    /// Creates default options: one thread, at the speed of the trace.
    fn rocksdb_replay_options_create() -> *mut rocksdb_replay_options_t {
        create(ReplayOptions::default())
    }
    /// Sets the number of threads that execute operations.
    fn rocksdb_replay_options_set_num_threads(options: *mut rocksdb_replay_options_t, num_threads: u32) {
        of_mut(options).num_threads = num_threads;
    }
    /// The value of `num_threads`.
    fn rocksdb_replay_options_get_num_threads(options: *mut rocksdb_replay_options_t) -> u32 {
        of(options.cast_const()).num_threads
    }
    /// Sets the speed, relative to that of the trace.
    fn rocksdb_replay_options_set_fast_forward(options: *mut rocksdb_replay_options_t, fast_forward: f64) {
        of_mut(options).fast_forward = fast_forward;
    }
    /// The value of `fast_forward`.
    fn rocksdb_replay_options_get_fast_forward(options: *mut rocksdb_replay_options_t) -> f64 {
        of(options.cast_const()).fast_forward
    }

    /// Creates a replayer of a trace for a database. Reads of other families than the given ones and the default family
    /// are errors. Without `env`, the file is in the environment of the database. `env_options` has no effect.
    fn rocksdb_new_default_replayer(
        db: *mut rocksdb_t,
        column_families: *mut *mut rocksdb_column_family_handle_t,
        num_column_families: usize,
        env: *mut rocksdb_env_t,
        env_options: *const rocksdb_envoptions_t,
        trace_path: *const c_char,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_replayer_t {
        report_ptr(errptr, || {
            maybe(env_options);
            if column_families.is_null() && num_column_families > 0 {
                return Err(Error::invalid_argument("column_families must not be null when count > 0"));
            }
            let db = &of(db.cast_const()).db;
            let handles = array(column_families.cast_const(), num_column_families);
            let families: Vec<_> = handles.iter().map(|handle| of(handle.cast_const())).collect();
            let reader = FileTraceReader::open(world(db, env.cast_const()), &path(trace_path))?;
            Ok(create(Replayer::new(db, &families, Box::new(reader))?))
        })
    }
    /// Reads the header of the trace, and returns to its first operation.
    fn rocksdb_replayer_prepare(replayer: *mut rocksdb_replayer_t, errptr: *mut *mut c_char) {
        let replayer = of_mut(replayer);
        report(errptr, || replayer.prepare());
    }
    /// Returns the time of the start of the trace, in microseconds since 1970; 0 unless it is prepared.
    fn rocksdb_replayer_get_header_timestamp(replayer: *const rocksdb_replayer_t) -> u64 {
        of(replayer).header_timestamp_micros()
    }
    /// Executes the operations of the trace at their times. It stops at the first error.
    fn rocksdb_replayer_replay(
        replayer: *mut rocksdb_replayer_t,
        options: *const rocksdb_replay_options_t,
        errptr: *mut *mut c_char,
    ) {
        let replayer = of_mut(replayer);
        report(errptr, || -> Result<()> {
            let options = maybe(options).cloned().unwrap_or_default();
            replayer.replay(&options, None)
        });
    }
}
