//! The time of a block cache hit against its budget of 50 ns, and the cost of a miss with insertion and
//! eviction.
#![expect(missing_docs, reason = "criterion's macro makes a public function")]

use std::hint::black_box;

use cairn_memory::{BlockCache, CacheKey, CacheOptions, CachePriority, CacheRole};
use cairn_platform::Buffer;
use criterion::{Criterion, criterion_group, criterion_main};

const BLOCKS: u64 = 8_000;

fn key(n: u64) -> CacheKey {
    CacheKey::of_block([0x1234_5678_9abc_def0, 42], n * 4096)
}

fn filled() -> BlockCache {
    let cache = BlockCache::new(64 << 20, CacheOptions::default());
    for n in 0..BLOCKS {
        let block = Buffer::from(vec![0; 4096]);
        cache.insert(key(n), block, CacheRole::Data, CachePriority::Low);
    }
    cache
}

fn hit(c: &mut Criterion) {
    let cache = filled();
    let mut n = 0;
    for (name, among) in [("among 8000", BLOCKS), ("among 100", 100)] {
        c.bench_function(&format!("cache/hit {name}"), |b| {
            b.iter(|| {
                n = (n + 5_741) % among;
                black_box(cache.lookup(&key(n), CacheRole::Data)).expect("every block fits")
            });
        });
    }
}

fn churn(c: &mut Criterion) {
    let cache = filled();
    let mut n = BLOCKS;
    c.bench_function("cache/miss, insert and evict", |b| {
        b.iter(|| {
            n += 1;
            assert!(cache.lookup(&key(n), CacheRole::Data).is_none());
            let block = Buffer::from(vec![0; 4096]);
            cache.insert(key(n), block, CacheRole::Data, CachePriority::Low)
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1));
    targets = hit, churn
}
criterion_main!(benches);
