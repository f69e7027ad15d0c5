//! Reads of all merge operands of a key.

use std::hint::black_box;
use std::time::Duration;

use cairn::{Options, ReadOptions, WriteOptions};
use cairn_bench::key_value_gen::Rng;

use crate::database::{Database, with_text};
use crate::keys::{Key, KeyGenerator, random_text};
use crate::support::{Case, Sampling, name, run as run_case};
use crate::write::in_threads;

/// The bytes of all operands, and of one.
const DATA_LEN: u64 = 16 << 20;
const OPERAND_LEN: u64 = 64;

/// The location of the operands.
#[derive(Clone, Copy)]
enum Place {
    Memtable,
    /// A level-0 table: in the block cache, or mapped.
    Table {
        mapped: bool,
    },
}

struct Operands {
    database: Database,
    keys: Vec<KeyGenerator>,
    per_key: usize,
    options: ReadOptions,
}

impl Operands {
    fn new(benchmark: &str, place: Place, per_key: u64, threads: u64) -> Operands {
        let keys = DATA_LEN / OPERAND_LEN / per_key;
        let database = Database::create(benchmark, options(place));
        let mut random = Rng::new(301);
        let mut sequence = KeyGenerator::sequential(keys);
        let mut operand = [0; OPERAND_LEN as usize];
        let unlogged = WriteOptions {
            disable_wal: true,
            ..WriteOptions::default()
        };
        // A flush keeps the operands of a key apart if a snapshot sees each of them.
        let mut snapshots = Vec::new();
        for _ in 0..per_key {
            for _ in 0..keys {
                random_text(&mut random, &mut operand);
                let written = database
                    .db()
                    .merge_with(&sequence.next_key(), &operand, &unlogged);
                written.expect("the operand can be written");
            }
            if let Place::Table { .. } = place {
                snapshots.push(database.db().snapshot());
            }
        }
        if let Place::Table { .. } = place {
            database.db().flush().expect("the database can be flushed");
            for _ in 0..keys {
                let value = database.db().get(&sequence.next_key());
                assert!(value.expect("the key can be read").is_some());
            }
        }
        drop(snapshots);
        Operands {
            database,
            keys: (0..threads)
                .map(|_| KeyGenerator::sequential(keys))
                .collect(),
            per_key: per_key as usize,
            options: ReadOptions {
                verify_checksums: matches!(place, Place::Memtable),
                ..ReadOptions::default()
            },
        }
    }
}

/// Returns options under which neither a flush nor an eviction occurs by itself.
fn options(place: Place) -> Options {
    let most = 2 * DATA_LEN;
    let table = match place {
        Place::Memtable => String::new(),
        Place::Table { mapped: true } => "compression=kNoCompression;allow_mmap_reads=true;\
             block_based_table_factory={no_block_cache=true}"
            .to_owned(),
        Place::Table { mapped: false } => format!(
            "compression=kNoCompression;\
             block_based_table_factory={{block_cache={{id=LRUCache;capacity={most};}}}}"
        ),
    };
    with_text(&format!(
        "merge_operator=stringappend;write_buffer_size={most};{table}"
    ))
}

impl Case for Operands {
    fn run(&mut self, operations: u64) -> Duration {
        let share = operations.div_ceil(self.keys.len() as u64);
        let batches: Vec<Vec<Key>> = self
            .keys
            .iter_mut()
            .map(|keys| (0..share).map(|_| keys.next_key()).collect())
            .collect();
        let (db, options, per_key) = (self.database.db(), &self.options, self.per_key);
        let time = in_threads(&batches, |keys| {
            for key in keys {
                let operands = db.get_merge_operands(key, per_key, options);
                let operands = black_box(operands.expect("the key can be read"));
                assert_eq!(operands.len(), per_key);
            }
        });
        time.mul_f64(operations as f64 / (share * batches.len() as u64) as f64)
    }

    fn counters(&mut self) -> Vec<(&'static str, f64)> {
        vec![self.database.size()]
    }
}

/// Runs the cases `DBGetMergeOperandsInMemtable` and `DBGetMergeOperandsInSstFile`.
pub fn run() {
    for threads in [1, 8] {
        for per_key in [1, 32, 1024] {
            let benchmark = "DBGetMergeOperandsInMemtable";
            let parameters = [("entries_per_key", per_key), ("threads", threads)];
            run_case(&name(benchmark, &parameters), Sampling::Timed, || {
                Operands::new(benchmark, Place::Memtable, per_key, threads)
            });
        }
    }
    for threads in [1, 8] {
        for per_key in [1, 32, 1024] {
            for mmap in [0, 1] {
                let benchmark = "DBGetMergeOperandsInSstFile";
                let parameters = [
                    ("entries_per_key", per_key),
                    ("mmap", mmap),
                    ("threads", threads),
                ];
                run_case(&name(benchmark, &parameters), Sampling::Timed, || {
                    let place = Place::Table { mapped: mmap == 1 };
                    Operands::new(benchmark, place, per_key, threads)
                });
            }
        }
    }
}
