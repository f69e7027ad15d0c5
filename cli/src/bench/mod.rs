//! `bench`: db_bench's benchmarks, flags and lines, on Cairn.
//!
//! Every value that is read is compared with what its key must have, unless somebody else wrote
//! the database.

mod flags;
mod plan;
mod report;
mod run;

mod work;

use std::io::Write;
use std::path::{Path, PathBuf};

use cairn_format::names::FileName;
use cairn_platform::fs::FileMode;
use cairn_platform::{FileSystem, PosixFileSystem};
use cairn_types::{Error, Result};

pub use flags::{Flags, normalized};
pub use run::run;

/// The end of `bench --help`.
pub const HELP: &str = "\
Benchmarks (those marked * begin with a fresh database unless --use_existing_db is given):
  fillseq*          write all keys in order             readrandom      get random keys
  fillrandom*       write random keys                   readmissing     get keys that do not exist
  filluniquerandom* write each key once, shuffled       readhot         get from one hundredth of the keys
  fillsync*         one thousandth, each write synced   readseq         walk forwards
  fillbatch*        in order, 1000 keys a batch         readreverse     walk backwards
  fill100K*         one thousandth, values of 100 kB    seekrandom      seek random keys
  overwrite         write random keys again             multireadrandom get in batches
  deleteseq         delete all keys in order            readwhilewriting, seekrandomwhilewriting
  deleterandom      delete random keys                  readrandomwriterandom  nine gets, one put
  updaterandom      get a random key and put it back    mergerandom     merge (needs --merge_operator)
  compact           compact everything                  flush           write memtables to tables
  waitforcompaction wait for background work            levelstats      print files and bytes a level
  stats             print the tree and its space        readrandomoperands  get operands, unmerged
  fillseqdeterministic*  in order, level by level: the same tree each time

Examples:
  cairn bench
  cairn bench --benchmarks=fillrandom,readrandom --num=2000000 --bloom_bits=10 --cache_size=1G
  cairn bench --benchmarks=readrandom --use_existing_db --db=/tmp/d --threads=4 --duration=30
  cairn bench --benchmarks=fillseq --disable_wal --compression_type=none --write_buffer_size=256M

Flags may be spelled as for db_bench: -num=5, --use_existing_db=1.";

/// A file that marks a directory as made by `bench`, so that no other is ever erased.
const MARK: &str = "CAIRN_BENCH";

/// Where the database of a run lies.
fn directory(flags: &Flags) -> PathBuf {
    flags.db.clone().unwrap_or_else(|| {
        let base = std::env::var_os("TEST_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        base.join("cairn-bench")
    })
}

/// What the mark says of the values in a directory: they are known only to a run like it.
fn mark_text(flags: &Flags) -> String {
    format!(
        "made by cairn bench: key_size={} value_size={} compression_ratio={}\n",
        flags.key_size, flags.value_size, flags.compression_ratio
    )
}

/// Whether the directory holds values that a run with these flags can tell.
fn is_ours(dir: &Path, flags: &Flags) -> bool {
    let expected = mark_text(flags);
    let mut found = vec![0; expected.len()];
    let file = PosixFileSystem.open(&dir.join(MARK), FileMode::default());
    let read = file.and_then(|file| file.read_at(0, &mut found));
    read.is_ok() && found == expected.as_bytes()
}

/// Makes `dir` an empty directory with a mark, erasing a database that an earlier run left.
///
/// # Errors
///
/// `InvalidArgument` if a database is there that no run left.
fn make_fresh(dir: &Path, flags: &Flags) -> Result<()> {
    let fs = PosixFileSystem;
    fs.create_dir_all(dir)?;
    let names = fs.list(dir)?;
    let has_database = names.iter().any(|name| name == "CURRENT");
    if has_database && !names.iter().any(|name| name == MARK) {
        return Err(Error::invalid_argument(format!(
            "{} holds a database that cairn bench did not make; it is not erased. \
             Choose another --db, or --use_existing_db",
            dir.display()
        )));
    }
    for name in names
        .iter()
        .filter(|name| FileName::parse(name).is_some() || *name == MARK)
    {
        fs.remove(&dir.join(name))?;
    }
    let mark = fs.create(&dir.join(MARK), FileMode::default())?;
    mark.append(mark_text(flags).as_bytes())?;
    mark.close()
}

/// The lines before the first benchmark.
fn print_head(flags: &Flags, dir: &Path, out: &mut dyn Write) -> std::io::Result<()> {
    let raw = (flags.key_size + flags.value_size) as f64 * flags.num as f64 / f64::from(1 << 20);
    writeln!(out, "Cairn:      version {}", env!("CARGO_PKG_VERSION"))?;
    if cfg!(debug_assertions) {
        writeln!(
            out,
            "WARNING:    built without optimization; build with --release to measure"
        )?;
    }
    writeln!(out, "Keys:       {} bytes each", flags.key_size)?;
    writeln!(
        out,
        "Values:     {} bytes each ({:.0} bytes after compression)",
        flags.value_size,
        flags.value_size as f64 * flags.compression_ratio
    )?;
    writeln!(out, "Entries:    {}", flags.num)?;
    writeln!(out, "RawSize:    {raw:.1} MB (estimated)")?;
    writeln!(out, "Threads:    {}", flags.threads)?;
    writeln!(out, "DB path:    [{}]", dir.display())?;
    writeln!(out, "{}", "-".repeat(48))
}
