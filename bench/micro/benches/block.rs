//! The cost of the inner loops of reads: seeks in cached blocks, steps, filters, checksums.
//!
//! The blocks are typical of a table: 16-byte keys, 100-byte values, 4 KiB data blocks, and index
//! blocks with one restart point per entry. Targets are in random order, so that the branch
//! predictor cannot learn them.

#![expect(
    missing_docs,
    reason = "criterion_group! generates a public function without documentation"
)]

use std::hint::black_box;

use cairn_format::block::{
    BlockBuilder, BlockKind, BlockLayout, BlockOptions, DataCursor, IndexBlockBuilder, IndexCursor,
    IndexForm,
};
use cairn_format::checksum::{ChecksumKind, block_checksum};
use cairn_format::filter::{FilterKey, FilterKind, FilterPolicy};
use cairn_format::key::LookupKey;
use cairn_format::table::handle::Handle;
use cairn_types::{KeyOrder, SequenceNumber, ValueKind};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const ORDER: KeyOrder = KeyOrder::Bytewise;

fn user_key(i: u64) -> [u8; 16] {
    let mut key = *b"0000000000000000";
    key[..8].copy_from_slice(&i.to_be_bytes());
    key
}

fn internal(i: u64) -> Vec<u8> {
    let mut key = Vec::new();
    let kind = ValueKind::Value;
    cairn_format::key::append_internal(&mut key, &user_key(i), SequenceNumber(i + 1), kind);
    key
}

/// The numbers below `n` in pseudo-random order.
fn shuffled(n: u64) -> Vec<u64> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..4096)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % n
        })
        .collect()
}

fn targets(n: u64) -> Vec<LookupKey> {
    shuffled(n)
        .into_iter()
        .map(|i| LookupKey::new(&user_key(i), SequenceNumber::MAX))
        .collect()
}

fn data_block(hash: bool) -> (Vec<u8>, u64) {
    let mut builder = BlockBuilder::new(BlockOptions {
        hash_util_ratio: hash.then_some(0.75),
        ..BlockOptions::default()
    });
    let mut n = 0;
    while builder.estimated_size() < 4096 {
        builder.add(&internal(n), &[7; 100]);
        n += 1;
    }
    (builder.finish().to_vec(), n)
}

fn data(c: &mut Criterion) {
    for (name, hash) in [("data/seek", false), ("data/seek_point_hashed", true)] {
        let (bytes, n) = data_block(hash);
        let targets = targets(n);
        let mut next = targets.iter().cycle();
        let mut cursor = DataCursor::new();
        c.bench_function(name, |b| {
            b.iter(|| {
                let target = next.next().expect("the targets repeat").internal();
                let layout =
                    BlockLayout::parse(&bytes, BlockKind::Data).expect("the block is valid");
                cursor
                    .seek_point(&bytes, &layout, &ORDER, target)
                    .expect("the block is valid");
                black_box(cursor.value(&bytes).len())
            });
        });
    }
    let (bytes, n) = data_block(false);
    let layout = BlockLayout::parse(&bytes, BlockKind::Data).expect("the block is valid");
    let mut group = c.benchmark_group("data");
    group.throughput(Throughput::Elements(n));
    group.bench_function("next", |b| {
        let mut cursor = DataCursor::new();
        b.iter(|| {
            let mut sum = 0;
            cursor.first(&bytes, &layout).expect("the block is valid");
            while cursor.valid() {
                sum += cursor.key(&bytes).len() + cursor.value(&bytes).len();
                cursor.next(&bytes, &layout).expect("the block is valid");
            }
            black_box(sum)
        });
    });
    group.bench_function("prev", |b| {
        let mut cursor = DataCursor::new();
        b.iter(|| {
            let mut sum = 0;
            cursor.last(&bytes, &layout).expect("the block is valid");
            while cursor.valid() {
                sum += cursor.key(&bytes).len() + cursor.value(&bytes).len();
                cursor.prev(&bytes, &layout).expect("the block is valid");
            }
            black_box(sum)
        });
    });
    group.finish();
}

fn index(c: &mut Criterion) {
    let form = IndexForm {
        user_keys: true,
        delta_values: true,
        first_keys: false,
        escaped: false,
    };
    let n = 256;
    let mut builder = IndexBlockBuilder::new(form, 1);
    for i in 0..n {
        let (offset, size) = (i * 4100, 4095);
        builder.add(&user_key(i * 35 + 34), Handle { offset, size }, None);
    }
    let bytes = builder.finish().to_vec();
    let targets = targets(n * 35);
    let mut next = targets.iter().cycle();
    let mut cursor = IndexCursor::new(form);
    c.bench_function("index/seek", |b| {
        b.iter(|| {
            let target = next.next().expect("the targets repeat").internal();
            let layout = BlockLayout::parse(&bytes, BlockKind::Index).expect("the block is valid");
            cursor
                .seek(&bytes, &layout, &ORDER, target)
                .expect("the block is valid");
            black_box(cursor.handle())
        });
    });
}

fn filter(c: &mut Criterion) {
    for text in ["bloomfilter:10", "ribbonfilter:10"] {
        let policy = FilterPolicy::from_text(text).expect("a policy");
        let mut builder = policy.builder(7, 1).expect("the policy builds filters");
        (0..30_000).for_each(|i| builder.add_key(&user_key(i)));
        let bytes = builder.finish();
        for (what, from) in [("present", 0), ("absent", 1 << 40)] {
            let keys: Vec<_> = shuffled(30_000)
                .iter()
                .map(|i| user_key(from + i))
                .collect();
            let mut next = keys.iter().cycle();
            c.bench_function(&format!("filter/{}/{what}", policy.name()), |b| {
                b.iter(|| {
                    let key = FilterKey::new(next.next().expect("the targets repeat"));
                    FilterKind::parse(&bytes).may_match(&bytes, &key)
                });
            });
        }
    }
}

fn checksum(c: &mut Criterion) {
    // A footer, the shortest input of XXH3's long form, a block and a large block.
    for len in [53, 241, 4096, 65536] {
        let bytes = vec![3u8; len];
        let mut group = c.benchmark_group(format!("checksum of {len} bytes"));
        group.throughput(Throughput::Bytes(len as u64));
        for kind in [
            ChecksumKind::Crc32c,
            ChecksumKind::XxHash,
            ChecksumKind::XxHash64,
            ChecksumKind::Xxh3,
        ] {
            group.bench_function(format!("{kind:?}"), |b| {
                b.iter(|| block_checksum(kind, black_box(&bytes), 0));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, data, index, filter, checksum);
criterion_main!(benches);
