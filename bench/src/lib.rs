//! db_bench's benchmarks for Cairn and for any library with RocksDB's C interface, and comparisons.
//!
//! [`bench()`] is the command: with one engine it prints db_bench's lines, with several it runs each in
//! a process of its own, in turns, and reports medians, ratios and their spread. `engine` says what
//! is asked of an engine, `native` is Cairn in this process, [`rocksdb`] any library that is loaded
//! at run time: nothing here is compiled or linked from RocksDB. Only this crate and
//! `tests/interop` know that another engine exists.

mod bench_stats;
mod benchmarks;
pub mod cairn_engine;
mod compare;
mod db_dir;
pub mod engine;
mod flags;
mod key_value_gen;
mod linkbench;
mod measurement;
mod medians;
mod mixgraph;
mod option_text;
pub mod progress;
mod report;
mod resource_usage;
pub mod rocksdb;
mod run;
mod worker_process;
mod ycsb;

use std::io::Write;
use std::path::Path;

use cairn::{Error, Result};

use benchmarks::Benchmark;
use engine::Source;
pub use flags::{Flags, normalized};
use progress::{Begin, Progress, Unseen};

/// Runs what the flags ask for and prints it.
///
/// # Errors
///
/// `InvalidArgument` for unknown names and flags that do not go together; `Corruption` if a value is
/// not what was written; errors of engines, files and worker processes.
pub fn bench(flags: &Flags, begin: Begin<'_>, out: &mut dyn Write) -> Result<()> {
    if flags.compares() {
        return report::run(flags, out);
    }
    if let Some(engine) = &flags.worker {
        let unseen: Begin<'_> = &|_, _| Box::new(Unseen) as Box<dyn Progress>;
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

/// What is done in one engine.
struct Work<'a> {
    flags: &'a Flags,
    begin: Begin<'a>,
    out: &'a mut dyn Write,
}

/// Does `work` in the engine of this name.
fn with_engine(name: &str, work: Work<'_>) -> Result<()> {
    let compact_on_deletion = work.flags.compacts_on_deletion();
    if name == flags::OURS {
        return work.run(&cairn_engine::Ours {
            compact_on_deletion,
        });
    }
    let (path, hyper_clock) = match name.strip_suffix(rocksdb::HYPER_CLOCK) {
        Some(path) => (path, true),
        None => (name, false),
    };
    let library = load(path).map_err(|error| {
        Error::invalid_argument(format!(
            "no engine {name}: {error}. An engine is `ours` or a library with RocksDB's C interface, with \
             `{}` behind it for its other cache",
            rocksdb::HYPER_CLOCK
        ))
    })?;
    if hyper_clock && library.is_cairn() {
        return Err(Error::invalid_argument(format!(
            "{name}: Cairn has one cache; `{}` is for RocksDB's libraries",
            rocksdb::HYPER_CLOCK
        )));
    }
    work.run(&library.with(rocksdb::Tuning {
        hyper_clock,
        compact_on_deletion,
    }))
}

/// Loads the library at `path`.
pub(crate) fn load(path: &str) -> Result<rocksdb::Library> {
    // Without a slash the loader would look in the system's directories.
    let path = std::path::absolute(Path::new(path))
        .map_err(|error| Error::io("find", Path::new(path), error))?;
    rocksdb::Library::load(&path).map_err(|error| Error::io_text(error.to_string()))
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

/// The result of printing.
///
/// # Errors
///
/// That of printing, as an error of the command.
pub(crate) fn printed(result: std::io::Result<()>) -> Result<()> {
    result.map_err(|error| Error::io_text(format!("print: {error}")))
}
