//! Measures the memtable against its budget, with 16-byte keys and 100-byte values: insertion in
//! random order (300 ns) and in ascending order (80 ns), and a get among 600,000 entries (250 ns).
#![expect(missing_docs, reason = "criterion's macro generates a public function")]

use std::hint::black_box;
use std::ops::ControlFlow;

use cairn_format::key::LookupKey;
use cairn_memtable::{Memtable, MemtableOptions, Point};
use cairn_types::{KeyOrder, SequenceNumber, ValueKind};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

const ENTRIES: u64 = 600_000;
const VALUE: [u8; 100] = [7; 100];

fn empty() -> Memtable {
    Memtable::new(KeyOrder::Bytewise, MemtableOptions::default())
}

fn scattered(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn key(n: u64) -> [u8; 16] {
    let mut key = *b"0000000000000000";
    key[..8].copy_from_slice(&n.to_be_bytes());
    key
}

fn add(table: &Memtable, nth: u64, n: u64) {
    table.add(SequenceNumber(nth + 1), ValueKind::Value, &key(n), &VALUE);
}

fn insert(c: &mut Criterion, name: &str, order: fn(u64) -> u64) {
    // The result is for a whole memtable: divide it by the number of entries.
    c.bench_function(&format!("memtable/insert 600k {name}"), |b| {
        b.iter_batched_ref(
            empty,
            |table| (0..ENTRIES).for_each(|n| add(table, n, order(n))),
            BatchSize::PerIteration,
        );
    });
}

/// Batches of `together` random keys, until the memtable has `entries`.
fn batches(c: &mut Criterion, together: usize, entries: u64) {
    let keys: Vec<[u8; 16]> = (0..entries).map(|n| key(scattered(n))).collect();
    let points: Vec<Point<'_>> = keys
        .iter()
        .zip(1..)
        .map(|(key, seq)| Point {
            seq: SequenceNumber(seq),
            kind: ValueKind::Value,
            key,
            value: &VALUE,
        })
        .collect();
    c.bench_function(&format!("memtable/batches of {together}, {entries}"), |b| {
        b.iter_batched_ref(
            empty,
            |table| {
                points
                    .chunks(together)
                    .for_each(|batch| table.add_points(batch))
            },
            BatchSize::PerIteration,
        );
    });
}

fn get(c: &mut Criterion) {
    let table = empty();
    (0..ENTRIES).for_each(|n| add(&table, n, scattered(n)));
    let mut nth = 0u64;
    let mut run = |name: &str, step: u64, among: u64| {
        c.bench_function(&format!("memtable/get {name}"), |b| {
            b.iter(|| {
                nth = (nth + step) % among;
                let lookup = LookupKey::new(&key(scattered(nth)), SequenceNumber::MAX);
                let mut len = 0;
                table.get(black_box(&lookup), |_, _, value| {
                    len += value.len();
                    ControlFlow::Break(())
                });
                assert_eq!(len, VALUE.len());
            });
        });
    };
    run("of 600k, random", 393_241, ENTRIES);
    run("of 600k, 1000 hot", 7, 1000);
}

fn all(c: &mut Criterion) {
    insert(c, "ascending", |n| n);
    insert(c, "random", scattered);
    for (together, entries) in [
        (512, 8 << 10),
        (512, 128 << 10),
        (8, 8 << 10),
        (8, 128 << 10),
    ] {
        batches(c, together, entries);
    }
    get(c);
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = all
}
criterion_main!(benches);
