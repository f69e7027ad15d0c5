//! The cases of RocksDB's `table_reader_bench`: gets and short scans of one table, directly or through a database.
//!
//! ```text
//! cargo bench -p cairn-microbench --bench table_reader_bench -- 'iterator:0/.*through_db:1'
//! ```
//!
//! Parameters have the names of RocksDB's flags; `num_keys1` is 512 instead of 4,096. The table has `num_keys2` keys
//! for each of `num_keys1` prefixes, in the directory `TEST_TMPDIR` or in that for temporary files. With `query_empty`, the keys
//! that are sought do not exist. A scan is a new iterator, a seek, and up to `num_keys2` steps. The table format is
//! `block_based`.

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Duration;

use cairn::{CompactRangeOptions, Db, Options, ReadOptions, SstFileReader, SstFileWriter, World};
use cairn_bench::key_value_gen::Rng;
use support::{Case, Sampling, name, run, timed};

const NUM_KEYS1: u64 = 512;
const NUM_KEYS2: u64 = 512;
const PREFIX_LEN: u64 = 16;

fn key(first: u64, second: u64) -> Vec<u8> {
    format!("k{first:0>15}{second:0>8}").into_bytes()
}

/// The table, and the way to it.
enum Source {
    Table(SstFileReader),
    Db(Db),
}

struct Reads {
    source: Option<Source>,
    path: PathBuf,
    query_empty: bool,
    iterator: bool,
    random: Rng,
}

impl Reads {
    fn new(query_empty: bool, iterator: bool, through_db: bool) -> Reads {
        let parent = std::env::var_os("TEST_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let path = parent.join(format!("table_reader_bench{}", std::process::id()));
        let options = Options::default()
            .create_if_missing(true)
            .text("compression=kNoCompression;allow_mmap_reads=true;write_buffer_size=256M")
            .expect("the options are valid");
        let entries = (0..NUM_KEYS1).flat_map(|first| {
            // Odd prefixes do not exist.
            (0..NUM_KEYS2).map(move |second| key(first * 2, second))
        });
        let source = match through_db {
            true => {
                let db = Db::open(&path, &options).expect("the database is created");
                for key in entries {
                    db.put(&key, &key).expect("the entry is written");
                }
                db.flush().expect("the database is flushed");
                let whole = CompactRangeOptions::default();
                db.compact_range(None, None, &whole)
                    .expect("the database is compacted");
                Source::Db(db)
            }
            false => {
                let world = World::posix();
                let mut writer = SstFileWriter::new(&world, &options.db, &options.family);
                writer.open(&path).expect("the table is created");
                for key in entries {
                    writer.put(&key, &key).expect("the entry is written");
                }
                writer.finish().expect("the table is finished");
                let reader = SstFileReader::open(&world, &path, &options.family);
                Source::Table(reader.expect("the table is opened"))
            }
        };
        Reads {
            source: Some(source),
            path,
            query_empty,
            iterator,
            random: Rng::new(301),
        }
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        let removed = match self.source.take() {
            Some(Source::Db(db)) => {
                drop(db);
                std::fs::remove_dir_all(&self.path)
            }
            _ => std::fs::remove_file(&self.path),
        };
        if let Err(error) = removed {
            eprintln!("{} could not be removed: {error}", self.path.display());
        }
    }
}

/// Visits `count` entries from `start` on, and returns the number visited.
macro_rules! scan {
    ($iter:expr, $start:expr, $count:expr) => {{
        let mut iter = $iter;
        let mut visited = 0;
        iter.seek($start);
        while visited < $count && iter.valid() {
            black_box((iter.key(), iter.value()));
            visited += 1;
            if visited < $count {
                iter.next();
            }
        }
        visited
    }};
}

impl Case for Reads {
    fn run(&mut self, operations: u64) -> Duration {
        let options = ReadOptions::default();
        let source = self.source.as_ref().expect("the table is open");
        timed(operations, || {
            let mut first = self.random.below(NUM_KEYS1) * 2;
            let mut second = self.random.below(NUM_KEYS2);
            if self.query_empty {
                first += 1;
                second = NUM_KEYS2 * 2 - second;
            }
            let start = key(first, second);
            if self.iterator {
                let most = NUM_KEYS2.saturating_sub(second);
                let count = match self.query_empty {
                    true => 0,
                    false => (self.random.below(NUM_KEYS2) + 1).min(most),
                };
                let visited = match source {
                    Source::Table(table) => scan!(table.iter(&options), &start, count),
                    Source::Db(db) => scan!(db.iter_with(&options), &start, count),
                };
                assert_eq!(visited, count);
            } else {
                let found = match source {
                    Source::Table(table) => table.get_with(&start, &options),
                    Source::Db(db) => db.get_with(&start, &options),
                };
                let found = black_box(found).expect("the table is read");
                assert_eq!(found.is_some(), !self.query_empty);
            }
        })
    }
}

fn main() {
    for through_db in [false, true] {
        for iterator in [false, true] {
            for query_empty in [false, true] {
                let parameters = [
                    ("num_keys1", NUM_KEYS1),
                    ("num_keys2", NUM_KEYS2),
                    ("prefix_len", PREFIX_LEN),
                    ("query_empty", u64::from(query_empty)),
                    ("iterator", u64::from(iterator)),
                    ("through_db", u64::from(through_db)),
                ];
                let prepare = || Reads::new(query_empty, iterator, through_db);
                run(
                    &name("table_reader_bench", &parameters),
                    Sampling::Timed,
                    prepare,
                );
            }
        }
    }
}
