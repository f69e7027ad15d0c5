//! db_bench's benchmarks for Cairn and for libraries with RocksDB's C interface, and comparisons.
//!
//! [`bench()`] runs the command: with one engine it prints db_bench's lines; with several it runs each
//! in its own process, in turn, and reports medians, ratios and their spread. `engine` is the engine
//! interface, `cairn_engine` Cairn in this process, [`rocksdb`] any library with RocksDB's interface, and `lmdb`
//! LMDB's library. Both are loaded at run time: nothing of other engines is compiled or linked. Only this crate and
//! `tests/interop` depend on them.

mod bare_cache;
mod bench_stats;
mod benchmarks;
mod cache_sim;
pub mod cairn_engine;
mod compare;
mod db_dir;
pub mod engine;
mod flags;
mod function_table;
pub mod key_value_gen;
mod linkbench;
pub mod lmdb;
mod measurement;
mod medians;
mod memory_bound;
mod memory_record;
mod mixgraph;
mod multi_db;
mod option_text;
pub mod progress;
mod report;
mod resource_usage;
pub mod rocksdb;
mod run;
mod tickers;
mod worker_process;
mod ycsb;

use std::io::Write;
use std::path::Path;

use cairn::options::enums::IoMode;
use cairn::{Error, Result};

use benchmarks::Benchmark;
use engine::{CacheType, Source};
use flags::IoBy;
pub use flags::{Flags, normalized};
use progress::{Begin, NoProgress, Progress};

/// Runs the benchmarks selected by the flags and prints the results.
///
/// # Errors
///
/// `InvalidArgument` for unknown names and inconsistent flags; `Corruption` if a value is not the written one; errors of engines, files and worker processes.
pub fn bench(flags: &Flags, begin: Begin<'_>, out: &mut dyn Write) -> Result<()> {
    if flags
        .benchmarks
        .split(',')
        .all(|name| name.trim().is_empty())
    {
        return Err(Error::invalid_argument("--benchmarks names none"));
    }
    if flags.benchmarks == cache_sim::NAME {
        return printed(cache_sim::run(out));
    }
    if memory_bound::is_selected(flags) {
        return memory_bound::run(flags, out);
    }
    let flags = &flags.settled();
    if flags.compares() {
        return report::run(flags, out);
    }
    if let Some(engine) = &flags.worker {
        let unseen: Begin<'_> = &|_, _| Box::new(NoProgress) as Box<dyn Progress>;
        return with_engine(
            engine,
            Work {
                flags,
                begin: unseen,
                out,
            },
        );
    }
    with_engine(&flags.engine, Work { flags, begin, out })
}

/// The benchmarks to run in one engine.
struct Work<'a> {
    flags: &'a Flags,
    begin: Begin<'a>,
    out: &'a mut dyn Write,
}

/// Runs `work` in the engine `name`.
fn with_engine(name: &str, work: Work<'_>) -> Result<()> {
    let compact_on_deletion = work.flags.compacts_on_deletion();
    let (path, kind) = CacheType::split(name);
    let mut flags = work.flags.clone();
    flags.cache_type = kind.or(flags.cache_type);
    let work = Work {
        flags: &flags,
        begin: work.begin,
        out: work.out,
    };
    if path == flags::OURS {
        return work.run(&cairn_engine::CairnSource {
            compact_on_deletion,
            io: flags.io.map(|by| match by {
                IoBy::Uring => IoMode::Uring,
                IoBy::Threads => IoMode::Threads,
                IoBy::Blocking => IoMode::Blocking,
            }),
            remote: flags.remote(),
            ..cairn_engine::CairnSource::default()
        });
    }
    if lmdb::Library::is_named(path) {
        return work.run(&lmdb::Library::load(Path::new(path))?);
    }
    let library = library_of(name)?;
    if !flags.optimize_multiget_for_io && !library.has_optimize_multiget_for_io() {
        return Err(Error::invalid_argument(format!(
            "{path} has no setter of the read option optimize_multiget_for_io, which is true"
        )));
    }
    work.run(&library.with(rocksdb::Tuning {
        compact_on_deletion,
    }))
}

/// Loads the library of the engine `name`, which has RocksDB's C interface.
fn library_of(name: &str) -> Result<rocksdb::Library> {
    let refused = |error: String| {
        Error::invalid_argument(format!(
            "no engine {name}: {error}. An engine is `ours`, the path of a library with RocksDB's C interface, with \
             `+hyperclock` or `+lru` behind it for the kind of its cache, or that of LMDB's library, `liblmdb.so`"
        ))
    };
    // Without a slash the loader would search the system directories.
    let path = std::path::absolute(CacheType::split(name).0);
    let path = path.map_err(|error| refused(error.to_string()))?;
    rocksdb::Library::load(&path).map_err(|error| refused(error.to_string()))
}

/// True if the engine `name` is Cairn's C library.
///
/// # Errors
///
/// `InvalidArgument` if there is no such engine.
pub(crate) fn is_cairn_library(name: &str) -> Result<bool> {
    let (path, _) = CacheType::split(name);
    match path == flags::OURS || lmdb::Library::is_named(path) {
        true => Ok(false),
        false => library_of(name).map(|library| library.is_cairn()),
    }
}

impl Work<'_> {
    fn run<S: Source>(self, source: &S) -> Result<()> {
        let Work { flags, begin, out } = self;
        if flags.worker.is_some() {
            return worker_process::work(source, flags, begin, out);
        }
        let benchmarks = Benchmark::list(&flags.benchmarks, flags)?;
        printed(report::head(flags, out))?;
        run::run(source, flags, &benchmarks, begin, |outcome| {
            printed(run::print(outcome, out))
        })
    }
}

/// Converts an output error.
///
/// # Errors
///
/// The output error.
pub(crate) fn printed(result: std::io::Result<()>) -> Result<()> {
    result.map_err(|error| Error::io_text(format!("print: {error}")))
}
