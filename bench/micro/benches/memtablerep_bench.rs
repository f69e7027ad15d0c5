//! The cases of RocksDB's `memtablerep_bench`: writes and reads of a memtable without a database.
//!
//! ```text
//! cargo bench -p cairn-microbench --bench memtablerep_bench -- 'fillrandom|readrandom'
//! ```
//!
//! Parameters have the names and default values of RocksDB's flags, except for 100,000 instead of a million
//! operations. `memtablerep` is `skiplist` or `vector`; RocksDB's hash tables of prefixes are selected by the options
//! of a database, not of a memtable, and have no cases. The time is that of an operation, or of a whole scan in
//! `readseq`. `readwrite` is a thread that reads while another writes, `seqreadwrite` one that scans.

#[path = "support/mod.rs"]
mod support;

use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cairn_bench::key_value_gen::mix;
use cairn_format::key::LookupKey;
use cairn_memtable::{Memtable, MemtableOptions};
use cairn_types::{KeyOrder, SequenceNumber, ValueKind};
use support::{Case, Sampling, name, run, timed};

const NUM_OPERATIONS: u64 = 100_000;
const ITEM_SIZE: usize = 100;

/// The order of the keys that are written.
#[derive(Clone, Copy)]
enum Order {
    Random,
    Sequential,
}

/// A memtable to which keys are added one after another. Full ones are replaced.
struct Filling {
    sort_on_read: bool,
    order: Order,
    table: Arc<Memtable>,
    next: u64,
}

fn empty(sort_on_read: bool) -> Arc<Memtable> {
    let options = MemtableOptions {
        sort_on_read,
        ..MemtableOptions::default()
    };
    Arc::new(Memtable::new(KeyOrder::Bytewise, options))
}

fn key(order: Order, number: u64) -> [u8; 8] {
    match order {
        Order::Random => mix(number).to_be_bytes(),
        Order::Sequential => number.to_be_bytes(),
    }
}

fn add(table: &Memtable, order: Order, number: u64) {
    let value = [7; ITEM_SIZE - 16];
    let (seq, kind) = (SequenceNumber(number + 1), ValueKind::Value);
    black_box(table.add(seq, kind, &key(order, number), &value));
}

fn filled(sort_on_read: bool) -> Arc<Memtable> {
    let table = empty(sort_on_read);
    (0..NUM_OPERATIONS).for_each(|number| add(&table, Order::Random, number));
    table
}

fn get(table: &Memtable, number: u64) -> bool {
    let lookup = LookupKey::new(&key(Order::Random, number), SequenceNumber::MAX);
    let mut found = false;
    table.get(&lookup, |_, _, value| {
        found = !value.is_empty();
        ControlFlow::Break(())
    });
    found
}

/// Visits all entries, and returns their number.
fn scan(table: &Arc<Memtable>) -> u64 {
    let mut iter = table.iter();
    let mut entries = 0;
    iter.seek_to_first();
    while iter.valid() {
        black_box(iter.key());
        entries += 1;
        iter.next();
    }
    entries
}

impl Case for Filling {
    fn run(&mut self, operations: u64) -> Duration {
        let (mut took, mut left) = (Duration::ZERO, operations);
        while left > 0 {
            if self.next == NUM_OPERATIONS {
                self.table = empty(self.sort_on_read);
                self.next = 0;
            }
            let count = left.min(NUM_OPERATIONS - self.next);
            took += timed(count, || {
                add(&self.table, self.order, self.next);
                self.next += 1;
            });
            left -= count;
        }
        took
    }
}

/// Gets of random keys, or scans.
struct Reading {
    table: Arc<Memtable>,
    scans: bool,
    next: u64,
}

impl Case for Reading {
    fn run(&mut self, operations: u64) -> Duration {
        timed(operations, || match self.scans {
            true => assert_eq!(scan(&self.table), NUM_OPERATIONS),
            false => {
                self.next = (self.next + 7919) % NUM_OPERATIONS;
                assert!(black_box(get(&self.table, self.next)));
            }
        })
    }
}

/// Reads of a memtable while a thread adds entries to it.
struct ReadWrite {
    scans: bool,
    next: u64,
}

impl Case for ReadWrite {
    fn run(&mut self, operations: u64) -> Duration {
        let table = filled(false);
        let ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Not more than fit in memory, however long the reads take.
                for number in NUM_OPERATIONS..NUM_OPERATIONS * 20 {
                    if ended.load(Ordering::Relaxed) {
                        return;
                    }
                    add(&table, Order::Random, number);
                }
            });
            let began = Instant::now();
            for _ in 0..operations {
                if self.scans {
                    assert!(scan(&table) >= NUM_OPERATIONS);
                } else {
                    self.next = (self.next + 7919) % NUM_OPERATIONS;
                    assert!(black_box(get(&table, self.next)));
                }
            }
            let took = began.elapsed();
            ended.store(true, Ordering::Relaxed);
            took
        })
    }
}

fn main() {
    let parameters = [
        ("num_operations", NUM_OPERATIONS),
        ("item_size", ITEM_SIZE as u64),
    ];
    for (memtablerep, sort_on_read) in [("skiplist", false), ("vector", true)] {
        let case = |benchmark: &str| {
            let benchmark = format!("memtablerep_bench/{benchmark}/memtablerep:{memtablerep}");
            name(&benchmark, &parameters)
        };
        for (benchmark, order) in [
            ("fillrandom", Order::Random),
            ("fillseq", Order::Sequential),
        ] {
            let filling = || Filling {
                sort_on_read,
                order,
                table: empty(sort_on_read),
                next: 0,
            };
            run(&case(benchmark), Sampling::Timed, filling);
        }
        for (benchmark, scans) in [("readrandom", false), ("readseq", true)] {
            let reading = || {
                let table = filled(sort_on_read);
                table.seal();
                Reading {
                    table,
                    scans,
                    next: 0,
                }
            };
            run(&case(benchmark), Sampling::Timed, reading);
        }
    }
    for (benchmark, scans) in [("readwrite", false), ("seqreadwrite", true)] {
        let benchmark = format!("memtablerep_bench/{benchmark}/memtablerep:skiplist");
        let reading = || ReadWrite { scans, next: 0 };
        run(&name(&benchmark, &parameters), Sampling::Timed, reading);
    }
}
