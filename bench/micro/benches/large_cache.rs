//! The time to fill a large cache with blocks, and to read blocks of it at random.
//!
//! Both depend on the pages that the kernel backs the memory of blocks with: a fill takes a page fault for each new page,
//! and a random read a miss of the processor's address cache. `--mib N` sets the capacity (default 1024), `--rounds N`
//! the number of rounds, of which the fastest of each figure is printed.

use std::hint::black_box;

use cairn_memory::{BlockCache, CacheKey, CacheOptions, CachePriority, CacheRole};
use cairn_platform::{Buffer, Clock, SystemClock};

const LEN: usize = 4096;

fn key(n: u64) -> CacheKey {
    CacheKey::of_block([0x1234_5678_9abc_def0, 42], n << 12)
}

fn argument(name: &str, default: usize) -> usize {
    let mut args = std::env::args().skip_while(|arg| arg != name).skip(1);
    args.next()
        .map_or(default, |text| text.parse().expect("a number"))
}

/// CPU time of this thread, in nanoseconds.
fn now() -> u64 {
    SystemClock.thread_cpu_nanos()
}

fn main() {
    let capacity = argument("--mib", 1024) << 20;
    let mut best = [f64::MAX; 3];
    for _ in 0..argument("--rounds", 3) {
        let cache = BlockCache::new(capacity, CacheOptions::default());
        let blocks = (capacity / (LEN + 512)) as u64;
        let from = now();
        let (mut before, mut longest) = (from, 0);
        for n in 0..blocks {
            let block = Buffer::from(vec![n as u8; LEN]);
            cache.insert(key(n), block, CacheRole::Data, CachePriority::Low);
            let after = now();
            longest = longest.max(after - before);
            before = after;
        }
        let filled = (now() - from) as f64 / blocks as f64;
        let (mut random, mut sum) = (1u64, 0u64);
        let reads = 2_000_000;
        let from = now();
        for _ in 0..reads {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let found = cache.lookup(&key((random >> 33) % blocks), CacheRole::Data);
            let block = found.expect("every block fits");
            // Four lines, as a binary search reads.
            for shift in [0, 10, 20, 30] {
                sum += u64::from(block[(random >> shift) as usize % LEN]);
            }
        }
        black_box(sum);
        let read = (now() - from) as f64 / f64::from(reads);
        let figures = [filled, read, longest as f64 / 1e6];
        best = std::array::from_fn(|at| best[at].min(figures[at]));
    }
    println!(
        "{} MiB of blocks of {LEN} bytes: {:.0} ns per insertion, at most {:.2} ms, {:.0} ns per random read \
         (CPU time)",
        capacity >> 20,
        best[0],
        best[2],
        best[1],
    );
}
